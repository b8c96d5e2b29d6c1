"""Measures what autograd keeps on a CUDA device, op by op, for golden_from_torch.py.

    python saved_on_cuda.py OUT.json

Per op: bytes of the distinct storages kept beyond parameters and buffers, whether inputs and output
are among them, elements of the first input and of the output. Names with # are not rows of the
VRAM_SAVED_BYTES table. Recurrent reserves depend on the device's cuDNN.
"""
import json, sys, warnings
import torch, torch.nn.functional as F, torch.nn as nn
warnings.simplefilter('ignore')
dev='cuda'
def measure(f, *xs, params=()):
    st={}
    pp={p.untyped_storage().data_ptr() for p in params}
    def pack(t):
        s=t.untyped_storage()
        if s.data_ptr() not in pp and t.is_cuda: st[s.data_ptr()]=(s.nbytes(), s)   # hold
        return t
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t:t):
        y=f(*xs)
    yy=y[0] if isinstance(y,tuple) else y
    xin={x.untyped_storage().data_ptr():i for i,x in enumerate(xs)}
    kx=sum(1 for x in xs if x.untyped_storage().data_ptr() in st)
    ky=yy.untyped_storage().data_ptr() in st
    return dict(total=sum(v[0] for v in st.values()), kx=kx, ky=int(ky), nx=xs[0].numel(), ny=yy.numel(), list=[v[0] for v in st.values()])
def X(*s,dtype=torch.float32): return torch.randn(*s,device=dev,dtype=dtype,requires_grad=True)
R={}
def go(name, f, *xs, params=()):
    R[name]=measure(f,*xs,params=params)
ops=dict(RELU=F.relu,RELU6=F.relu6,HARDTANH=F.hardtanh,LEAKY_RELU=F.leaky_relu,ELU=F.elu,CELU=F.celu,SELU=F.selu,GELU=F.gelu,SILU=F.silu,MISH=F.mish,SIGMOID=torch.sigmoid,TANH=torch.tanh,HARDSIGMOID=F.hardsigmoid,HARDSWISH=F.hardswish,SOFTPLUS=F.softplus,SOFTSIGN=F.softsign,TANHSHRINK=F.tanhshrink,SOFTSHRINK=F.softshrink,HARDSHRINK=F.hardshrink,LOGSIGMOID=F.logsigmoid)
for n,f in ops.items(): go(n,f,X(4,8,20,24))
go('THRESHOLD',lambda x:F.threshold(x,0.1,0.2),X(4,8,20,24))
go('RRELU',lambda x:F.rrelu(x,training=True),X(4,8,20,24))
w=nn.Parameter(torch.ones(1,device=dev)); go('PRELU',lambda x:F.prelu(x,w),X(4,8,20,24),params=[w])
go('GLU',lambda x:F.glu(x,1),X(4,8,20,24))
go('SOFTMAX',lambda x:F.softmax(x,-1),X(4,8,20,24)); go('LOG_SOFTMAX',lambda x:F.log_softmax(x,-1),X(4,8,20,24))
go('DROPOUT',lambda x:F.dropout(x,.3,True),X(4,8,20,24)); go('ALPHA_DROPOUT',lambda x:F.alpha_dropout(x,.3,True),X(4,8,20,24))
for n,f in dict(MAX_POOL=lambda x:F.max_pool2d(x,2),AVG_POOL=lambda x:F.avg_pool2d(x,2),ADAPTIVE_MAX_POOL=lambda x:F.adaptive_max_pool2d(x,5),ADAPTIVE_AVG_POOL=lambda x:F.adaptive_avg_pool2d(x,5),GLOBAL_AVG_POOL=lambda x:F.adaptive_avg_pool2d(x,1),INTERPOLATE=lambda x:F.interpolate(x,scale_factor=2),PIXEL_SHUFFLE=lambda x:F.pixel_shuffle(x,2),PAD_CONSTANT=lambda x:F.pad(x,(1,1)),PAD_REFLECT=lambda x:F.pad(x,(1,1,1,1),mode='reflect'),PAD_REPLICATE=lambda x:F.pad(x,(1,1,1,1),mode='replicate'),SUM=lambda x:x.sum(1),MEAN=lambda x:x.mean(1),MUL_SCALAR=lambda x:x*3,NEG=torch.neg,ABS=torch.abs,EXP=torch.exp,LOG=torch.log,SQRT=torch.sqrt,RSQRT=torch.rsqrt,SQUARE=torch.square,SIN=torch.sin,COS=torch.cos,ERF=torch.erf,CLAMP=lambda x:x.clamp(-1,1)).items(): go(n,f,X(4,8,20,24))
for n,f in dict(ADD=torch.add,SUB=torch.sub,MUL=torch.mul,DIV=torch.div,MAXIMUM=torch.maximum,MINIMUM=torch.minimum,CAT=lambda a,b:torch.cat([a,b])).items(): go(n,f,X(4,8,20,24),X(4,8,20,24))
# in place: behind a clone, so that the input is not a leaf
for n,f in dict(RELU=F.relu,RELU6=F.relu6,HARDTANH=F.hardtanh,LEAKY_RELU=F.leaky_relu,ELU=F.elu,CELU=F.celu,SELU=F.selu,SILU=F.silu,MISH=F.mish,HARDSIGMOID=F.hardsigmoid,HARDSWISH=F.hardswish).items():
    go(n+'_INPLACE',lambda x:f(x,inplace=True),X(4,8,20,24).clone())
go('DROPOUT_INPLACE',lambda x:F.dropout(x,.3,True,inplace=True),X(4,8,20,24).clone())
def mod(name,m,*xs): m=m.to(dev); go(name,m,*xs,params=list(m.parameters())+list(m.buffers()))
mod('CONV',nn.Conv2d(8,12,3),X(4,8,20,24)); mod('LINEAR',nn.Linear(24,7),X(4,8,20,24))
mod('#BATCH_NORM',nn.BatchNorm2d(8),X(4,8,20,24)); mod('#LAYER_NORM',nn.LayerNorm(24),X(4,8,20,24)); mod('#GROUP_NORM',nn.GroupNorm(4,8),X(4,8,20,24))
mod('#INSTANCE_NORM0',nn.InstanceNorm2d(8),X(4,8,20,24)); mod('#INSTANCE_NORM1',nn.InstanceNorm2d(8,affine=True),X(4,8,20,24)); mod('#RMS_NORM',nn.RMSNorm(24),X(4,8,20,24))
mod('#INSTANCE_NORM_TRS',nn.InstanceNorm2d(8,affine=True,track_running_stats=True),X(4,8,20,24))
mod('#BILINEAR',nn.Bilinear(12,13,7),X(4,12),X(4,13))
go('#MATMUL',torch.matmul,X(4,3,20,24),X(4,3,24,30))
e=nn.Embedding(100,16).to(dev); go('#EMBEDDING',lambda i:e(i),torch.randint(0,100,(4,9),device=dev),params=[e.weight])
t=torch.randint(0,50,(37,),device=dev); go('#CROSS_ENTROPY',lambda x:F.cross_entropy(x,t),X(37,50))
from torch.nn.attention import sdpa_kernel, SDPBackend as SB
def sd(b):
    def f(q,k,v,**kw):
        with sdpa_kernel(b): return F.scaled_dot_product_attention(q,k,v,**kw)
    return f
for nm,b,dt in (('FLASH',SB.FLASH_ATTENTION,torch.float16),('EFFICIENT',SB.EFFICIENT_ATTENTION,torch.float32),('CUDNN',SB.CUDNN_ATTENTION,torch.float16),('MATH',SB.MATH,torch.float32)):
    go('#SDPA_'+nm,sd(b),X(2,4,50,32,dtype=dt),X(2,4,37,32,dtype=dt),X(2,4,37,32,dtype=dt))
go('#SDPA_FLASH_GQA',lambda q,k,v:sd(SB.FLASH_ATTENTION)(q,k,v,enable_gqa=True),X(2,4,50,32,dtype=torch.float16),X(2,2,37,32,dtype=torch.float16),X(2,2,37,32,dtype=torch.float16))
def hand(q,k,v): return F.softmax((q@k.transpose(-1,-2))*0.2,-1)@v
def handd(q,k,v): return F.dropout(F.softmax((q@k.transpose(-1,-2))*0.2,-1),.1,True)@v
go('#ATTENTION0',hand,X(2,4,50,32),X(2,4,37,32),X(2,4,37,32)); go('#ATTENTION1',handd,X(2,4,50,32),X(2,4,37,32),X(2,4,37,32))
for need in (0,1):
  for dt in (torch.float32,):
    m=nn.MultiheadAttention(96,4,batch_first=True).to(dev)
    go('#MHA_need%d'%need,lambda x:m(x,x,x,need_weights=bool(need))[0],X(4,37,96),params=list(m.parameters()))
mod('#LSTM',nn.LSTM(24,16,batch_first=True),X(4,9,24)); mod('#GRU',nn.GRU(24,16,batch_first=True),X(4,9,24))
mod('#RNN',nn.RNN(24,16,batch_first=True),X(4,9,24))
json.dump(R, open(sys.argv[1], 'w'), indent=1)
