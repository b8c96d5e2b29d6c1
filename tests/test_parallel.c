/* --parallel SPEC: every strategy and option, what is wrong and where, places in the mesh. */
#include "../vram.h"

#include "test.h"

static vram_parallel parsed(const char *text) {
  vram_parallel p;
  vram_error e;
  snprintf(test_where, sizeof test_where, "%s", text);
  EQUAL(vram_parallel_parse(text, &p, &e), VRAM_OK);
  EQUAL(e.code, VRAM_OK);
  return p;
}

static void test_options(void) {
  vram_parallel p = parsed("ddp=8");
  EQUAL(p.wrapper, VRAM_WRAPPER_DDP);
  EQUAL(p.dp, 8);
  EQUAL(p.bucket_cap_bytes, 0);
  CHECK(p.broadcast_buffers && !p.static_graph && !p.gradient_as_bucket_view && !p.hook);
  p = parsed("ddp=3,bucket_cap_mb=0.5,gradient_as_bucket_view=1,static_graph=1,broadcast_buffers=0,"
             "find_unused_parameters=1,hook=fp16");
  EQUAL(p.bucket_cap_bytes, 1 << 19);
  CHECK(!p.broadcast_buffers && p.static_graph && p.gradient_as_bucket_view &&
        p.find_unused_parameters);
  EQUAL(p.hook, VRAM_F16);
  p = parsed("zero1=4,parameters_as_bucket_view=1,bucket_cap_mb=1");
  EQUAL(p.wrapper, VRAM_WRAPPER_ZERO1);
  CHECK(p.parameters_as_bucket_view);
  p = parsed(
      "hsdp=2x4,mp=bf16,reduce=f32,reshard=0,units=a.*|b,init=meta,cpu_offload=1,prefetch=2");
  EQUAL(p.wrapper, VRAM_WRAPPER_FSDP2);
  EQUAL(p.copies, 2);
  EQUAL(p.dp, 4);
  EQUAL(p.mp, VRAM_BF16);
  EQUAL(p.reduce, VRAM_F32);
  EQUAL(p.reshard, VRAM_RESHARD_NEVER);
  EQUAL(p.prefetch, 2);
  CHECK(p.units.len == 5 && !memcmp(p.units.text, "a.*|b", 5) && p.meta && p.cpu_offload);
  p = parsed("fsdp2=2,units=a\\d++tp=2");
  CHECK(p.units.len == 4 && !memcmp(p.units.text, "a\\d+", 4) && p.tp == 2);
  EQUAL(parsed("fsdp2=8,reshard=4").reshard_ranks, 4);
  EQUAL(parsed("fsdp1=8,sharding=SHARD_GRAD_OP").sharding, VRAM_SHARDING_GRAD_OP);
  EQUAL(parsed("fsdp1=8,backward_prefetch=none").backward_prefetch, VRAM_PREFETCH_NONE);
  p = parsed("pp=4,schedule=ZBVZeroBubble,microbatches=12,return_outputs=1+ddp=2");
  EQUAL(p.schedule, VRAM_PIPELINE_ZBV_ZERO_BUBBLE);
  EQUAL(p.microbatches, 12);
  CHECK(p.return_outputs);
  EQUAL(vram_parallel_world(&p), 8);
  p = parsed("ds3=64,reduce_bucket_size=20000000,offload_optimizer=cpu,offload_param=none");
  EQUAL(p.reduce_bucket_size, 20000000);
  CHECK(p.overlap_comm == 1 && p.offload_optimizer && !p.offload_param && p.bf16);
  EQUAL(parsed("ds2=4,round_robin_gradients=1").overlap_comm, 0);
  EQUAL(parsed("ds3=4,overlap_comm=0").overlap_comm, 0);
  p = parsed("ep=4,bucket_cap_mb=1");
  EQUAL(p.wrapper, VRAM_WRAPPER_DDP);
  EQUAL(vram_parallel_world(&p), 4);
  CHECK(parsed("tp=4,sp=1,loss_parallel=1").loss_parallel);
  p = parsed("fsdp2=2+cp=4");
  CHECK(p.enable_load_balance && !p.alltoall);
  p = parsed("cp=4,rotate_method=alltoall,enable_load_balance=0");
  CHECK(!p.enable_load_balance && p.alltoall && vram_parallel_world(&p) == 4);
}

static void test_places(void) {
  vram_parallel p = parsed("pp=2+hsdp=2x3+cp=2+tp=5");
  vram_parallel_place at;
  uint32_t i;
  EQUAL(vram_parallel_world(&p), 120);
  for (i = 0; i < 120; i++) {
    p.rank = i;
    at = vram_parallel_place_of(&p);
    EQUAL((((at.pp * 2 + at.copy) * 3 + at.dp) * 2 + at.cp) * 5 + at.tp, i);
    CHECK(at.pp < 2 && at.copy < 2 && at.dp < 3 && at.cp < 2 && at.tp < 5);
  }
  p = parsed("pp=1048576+ddp=1048576+tp=1048576+cp=1048576");
  EQUAL(vram_parallel_world(&p), VRAM_OVERFLOW);
  EQUAL(strcmp(vram_wrapper_name(VRAM_WRAPPER_DS3), "ds3"), 0);
  EQUAL(strcmp(vram_wrapper_name(VRAM_WRAPPER_NONE), "?"), 0);
  EQUAL(strcmp(vram_pipeline_name(VRAM_PIPELINE_DUAL_PIPE_V), "DualPipeV"), 0);
  EQUAL(strcmp(vram_pipeline_name(VRAM_PIPELINE_COUNT), "?"), 0);
}

static void test_wrong(void) {
  static const struct {
    const char *text;
    vram_result code;
    uint32_t column;
    const char *says;
  } wrong[] = {
      {"", VRAM_ERR_SYNTAX, 1, "no strategy (expected NAME=SIZE: ddp=8, tp=2)"},
      {"ddp=2+", VRAM_ERR_SYNTAX, 7, "no strategy (expected NAME=SIZE: ddp=8, tp=2)"},
      {"fsdp=2", VRAM_ERR_NAME, 1, "unknown strategy 'fsdp': the nearest is fsdp2"},
      {"zero3=2", VRAM_ERR_NAME, 1, "unknown strategy 'zero3': the nearest is ds3"},
      {"ddp=2,,hook=bf16", VRAM_ERR_SYNTAX, 7, "an option without a name (expected NAME=VALUE)"},
      {"pp=2,loss_fn=", VRAM_ERR_VALUE, 14, "loss_fn (expected the name of a node)"},
      {"fsdp2=2,units=.*.*.*.*.*x", VRAM_ERR_VALUE, 15,
       "units '.*.*.*.*.*x' (expected auto, root, or names of nodes up to a point, with four of *, "
       "+ and ? at most, each [ closed)"},
      {"fsdp2=2,units=.?.?.?.?.?x", VRAM_ERR_VALUE, 15,
       "units '.?.?.?.?.?x' (expected auto, root, or names of nodes up to a point, with four of *, "
       "+ and ? at most, each [ closed)"},
      {"fsdp2=2,units=.*.*.*[|].*.*x", VRAM_ERR_VALUE, 15,
       "units '.*.*.*[|].*.*x' (expected auto, root, or names of nodes up to a point, with four of "
       "*, + and ? at most, each [ closed)"},
      {"fsdp2=2,units=.*.*.*\\|.*.*x", VRAM_ERR_VALUE, 15,
       "units '.*.*.*\\|.*.*x' (expected auto, root, or names of nodes up to a point, with four of "
       "*, + and ? at most, each [ closed)"},
      {"fsdp2=2,units=a[0", VRAM_ERR_VALUE, 15,
       "units 'a[0' (expected auto, root, or names of nodes up to a point, with four of *, + and ? "
       "at most, each [ closed)"},
      {"fsdp2=2,units=auto+ddp", VRAM_ERR_SYNTAX, 20,
       "a strategy without its ranks: 'ddp' (expected NAME=SIZE)"},
      {"pp=2,loss_fn=a+ddp", VRAM_ERR_SYNTAX, 16,
       "a strategy without its ranks: 'ddp' (expected NAME=SIZE)"},
      {"ddp", VRAM_ERR_SYNTAX, 1, "a strategy without its ranks: 'ddp' (expected NAME=SIZE)"},
      {"ddp=0", VRAM_ERR_VALUE, 5, "a number of ranks: '0' (expected 1 to 1048576)"},
      {"ddp=1048577", VRAM_ERR_VALUE, 5, "a number of ranks: '1048577' (expected 1 to 1048576)"},
      {"hsdp=8", VRAM_ERR_VALUE, 6,
       "ranks of copies and shards: '8' (expected COPIESxSHARDS: 2x4)"},
      {"tp=2+tp=2", VRAM_ERR_VALUE, 6, "a strategy twice 'tp'"},
      {"tp=2,sp", VRAM_ERR_SYNTAX, 6, "an option without a value: 'sp' (expected NAME=VALUE)"},
      {"tp=2,sp=2", VRAM_ERR_VALUE, 9, "sp '2' (expected 0 or 1)"},
      {"pp=2,units=a+fsdp2=2,units=b,mp=bf16,mp=f16", VRAM_ERR_VALUE, 38, "an option twice: 'mp'"},
      {"ddp=2,hook=i8", VRAM_ERR_VALUE, 12, "hook 'i8' (expected bf16, fp16 or f32)"},
      {"ddp=2,sp=1", VRAM_ERR_NAME, 7, "no option of this strategy: 'sp': the nearest is hook"},
      {"ds1=2,reduce_bucket_size=99999999999999999999", VRAM_ERR_VALUE, 26,
       "reduce_bucket_size '99999999999999999999' (expected a number of elements)"},
  };
  size_t i;
  for (i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    vram_parallel p;
    vram_error e;
    snprintf(test_where, sizeof test_where, "%s", wrong[i].text);
    EQUAL(vram_parallel_parse(wrong[i].text, &p, &e), wrong[i].code);
    EQUAL(vram_parallel_parse(wrong[i].text, &p, NULL), wrong[i].code);
    EQUAL(e.column, wrong[i].column);
    TEXT(e.text, wrong[i].says);
  }
}

/* What lives at the peak, tensor by tensor, adds up to the peak, of which the phases tell. */
static void test_live(void) {
  static const char text[] = "dim N=2\ninput x f32 [N,64]\ninput t i64 [N]\n"
                             "linear layers.0.up x out_features=96\n"
                             "relu layers.0.act layers.0.up\n"
                             "linear layers.1.down layers.0.act out_features=33\n"
                             "relu layers.1.act layers.1.down\n"
                             "linear head layers.1.act out_features=10\n"
                             "cross_entropy loss head t\n";
  static const char *const specs[] = {"ddp=3",        "zero1=2",
                                      "fsdp2=3",      "fsdp2=2,mp=bf16,reduce=f32,init=meta",
                                      "hsdp=2x2",     "fsdp2=2,cpu_offload=1",
                                      "fsdp1=2",      "ds1=2",
                                      "ds2=2",        "ds3=2",
                                      "pp=2+fsdp2=2", "pp=2+zero1=2"};
  vram_step_options o = VRAM_ZERO_INIT;
  vram_graph g;
  vram_error e;
  size_t i;
  const uint64_t n = vram_graph_parse_bytes(text, sizeof text - 1, NULL, 0);
  void *memory = malloc((size_t)n);
  vram_graph_init(&g, memory, n);
  EQUAL(vram_graph_parse(&g, text, sizeof text - 1, NULL, 0, &e), VRAM_OK);
  o.train = 1;
  o.optimizer = VRAM_OPTIM_adamw;
  for (i = 0; i < 2 * (sizeof specs / sizeof *specs); i++) {
    vram_parallel p = parsed(specs[i / 2]);
    vram_pool_options pool = VRAM_ZERO_INIT;
    vram_report r;
    uint64_t bytes, sum = 0;
    uint32_t count = 0, k;
    vram_live *live;
    void *scratch;
    o.parallel = &p;
    o.replay = &pool;
    o.first_step = (i & 1) != 0;
    bytes = vram_step_bytes(&g, &o);
    scratch = malloc((size_t)bytes);
    EQUAL(vram_step(&g, &o, scratch, bytes, &r, &e), VRAM_OK);
    EQUAL(vram_step_live(&g, &o, scratch, bytes, &r, NULL, 0, &count), VRAM_OK);
    live = (vram_live *)malloc((count + (size_t)1) * sizeof *live);
    EQUAL(vram_step_live(&g, &o, scratch, bytes, &r, live, count, &count), VRAM_OK);
    for (k = 0; k < count; k++)
      sum += live[k].bytes;
    EQUAL(sum, r.peak_requested_bytes);
    free(live);
    free(scratch);
  }
  free(memory);
}

/* What each schedule's class makes of a rank's actions: pipeline_order_with_comms of
   PyTorch 2.15.0, with fully_shard, else without UNSHARD, RESHARD, REDUCE_GRAD and
   WAIT_REDUCE_GRAD. */
/* What libraries have in the stages, a microbatch each time, is what they have on one device. */
static void test_libraries_of_stages(void) {
  static const char text[] = "input x f32 [2,3,32,32]\ninput t i64 [2]\n"
                             "conv2d layers.0.conv x out_channels=32 kernel_size=3\n"
                             "conv2d layers.1.conv layers.0.conv out_channels=8 kernel_size=5\n"
                             "flatten flat layers.1.conv start_dim=1\n"
                             "linear head flat out_features=10\n"
                             "cross_entropy loss head t\n";
  vram_step_options o = VRAM_ZERO_INIT;
  vram_report r[3];
  vram_graph g;
  vram_error e;
  uint32_t i;
  const uint64_t n = vram_graph_parse_bytes(text, sizeof text - 1, NULL, 0);
  void *memory = malloc((size_t)n);
  vram_graph_init(&g, memory, n);
  EQUAL(vram_graph_parse(&g, text, sizeof text - 1, NULL, 0, &e), VRAM_OK);
  o.train = 1;
  for (i = 0; i < 3; i++) {
    vram_parallel p = parsed("pp=2,microbatches=2");
    uint64_t bytes;
    void *scratch;
    p.rank = i - 1;
    o.parallel = i ? &p : NULL;
    bytes = vram_step_bytes(&g, &o);
    scratch = malloc((size_t)bytes);
    EQUAL(vram_step(&g, &o, scratch, bytes, r + i, &e), VRAM_OK);
    CHECK(!i || r[i].peak_allocated_bytes.upper >=
                    r[i].peak_allocated_bytes.lower + r[i].cudnn_bytes.upper);
    free(scratch);
  }
  CHECK(r[0].runs_cudnn && r[1].runs_cudnn && r[2].runs_cudnn);
  EQUAL(r[1].workspace_bytes, 0); /* convolutions alone */
  EQUAL(r[2].workspace_bytes, r[0].workspace_bytes);
  CHECK(r[0].workspace_bytes && r[0].cudnn_bytes.upper > r[0].cudnn_bytes.expected);
  EQUAL(r[1].cudnn_bytes.upper > r[2].cudnn_bytes.upper ? r[1].cudnn_bytes.upper
                                                        : r[2].cudnn_bytes.upper,
        r[0].cudnn_bytes.upper);
  free(memory);
}

static void test_orders(void) {
  static const struct {
    const char *spec;
    uint32_t rank;
    const char *actions;
  } orders[] = {
      {"pp=3,schedule=Interleaved1F1B,stages=2,microbatches=4", 1,
       "1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 1RECV_F2 1F2 1SEND_F2 "
       "1RECV_F3 1F3 1SEND_F3 4RECV_F0 4F0 4SEND_F0 4RECV_F1 4F1 4SEND_F1 "
       "4RECV_B0 4RECV_F2 4F2 4SEND_F2 4RECV_F3 4B0 4WAIT_SEND_F0 4SEND_B0 4RECV_B1 "
       "4F3 4SEND_F3 4B1 4WAIT_SEND_F1 4SEND_B1 4RECV_B2 4B2 4WAIT_SEND_F2 4SEND_B2 "
       "4RECV_B3 4B3 4WAIT_SEND_F3 4SEND_B3 1RECV_B0 1B0 1WAIT_SEND_F0 1SEND_B0 1RECV_B1 "
       "1B1 1WAIT_SEND_F1 1SEND_B1 1RECV_B2 1B2 1WAIT_SEND_F2 1SEND_B2 1RECV_B3 1B3 "
       "1WAIT_SEND_F3 1SEND_B3 4WAIT_SEND_B0 4WAIT_SEND_B1 4WAIT_SEND_B2 4WAIT_SEND_B3 "
       "1WAIT_SEND_B0 1WAIT_SEND_B1 1WAIT_SEND_B2 "
       "1WAIT_SEND_B3 "},
      {"pp=2,schedule=InterleavedZeroBubble,stages=3,microbatches=4", 1,
       "1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 3RECV_F0 3F0 3SEND_F0 "
       "3RECV_F1 3F1 3SEND_F1 5RECV_F0 5F0 5RECV_F1 5I0 5SEND_B0 3RECV_B0 "
       "5F1 5I1 5SEND_B1 1RECV_F2 5W0 3RECV_B1 1F2 1SEND_F2 3I0 "
       "3WAIT_SEND_F0 3SEND_B0 1RECV_F3 5W1 1RECV_B0 1F3 1SEND_F3 3I1 3WAIT_SEND_F1 "
       "3SEND_B1 3RECV_F2 3W0 1RECV_B1 3F2 3SEND_F2 1I0 1WAIT_SEND_F0 1SEND_B0 "
       "3RECV_F3 3W1 3F3 3SEND_F3 1I1 1WAIT_SEND_F1 1SEND_B1 5RECV_F2 1W0 "
       "5F2 5I2 5SEND_B2 5RECV_F3 1W1 3RECV_B2 5F3 5I3 5SEND_B3 "
       "3RECV_B3 5W2 3I2 3WAIT_SEND_F2 3SEND_B2 5W3 1RECV_B2 3I3 3WAIT_SEND_F3 "
       "3SEND_B3 1RECV_B3 3W2 1I2 1WAIT_SEND_F2 1SEND_B2 3W3 1I3 1WAIT_SEND_F3 "
       "1SEND_B3 1W2 1W3 5WAIT_SEND_B0 5WAIT_SEND_B1 3WAIT_SEND_B0 3WAIT_SEND_B1 1WAIT_SEND_B0 "
       "1WAIT_SEND_B1 "
       "5WAIT_SEND_B2 5WAIT_SEND_B3 3WAIT_SEND_B2 3WAIT_SEND_B3 1WAIT_SEND_B2 1WAIT_SEND_B3 "},
      {"pp=3,schedule=ZBVZeroBubble,stages=2,microbatches=4", 1,
       "1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 4RECV_F0 1RECV_F2 1F2 "
       "1SEND_F2 1RECV_F3 4F0 4SEND_F0 4RECV_F1 1F3 1SEND_F3 4RECV_B0 4F1 "
       "4SEND_F1 4RECV_F2 4I0 4WAIT_SEND_F0 4SEND_B0 4W0 4RECV_B1 4F2 4SEND_F2 "
       "4I1 4WAIT_SEND_F1 4SEND_B1 1RECV_B0 4W1 4RECV_B2 1I0 1WAIT_SEND_F0 1SEND_B0 "
       "4RECV_F3 1W0 4F3 4SEND_F3 4I2 4WAIT_SEND_F2 4SEND_B2 1RECV_B1 4W2 "
       "4RECV_B3 1I1 1WAIT_SEND_F1 1SEND_B1 1W1 4I3 4WAIT_SEND_F3 4SEND_B3 1RECV_B2 "
       "4W3 1RECV_B3 1I2 1WAIT_SEND_F2 1SEND_B2 1I3 1WAIT_SEND_F3 1SEND_B3 1W2 "
       "1W3 4WAIT_SEND_B0 4WAIT_SEND_B1 1WAIT_SEND_B0 4WAIT_SEND_B2 1WAIT_SEND_B1 4WAIT_SEND_B3 "
       "1WAIT_SEND_B2 1WAIT_SEND_B3 "},
      {"pp=2,schedule=LoopedBFS,stages=3,microbatches=2", 0,
       "0F0 0SEND_F0 2RECV_F0 0F1 0SEND_F1 2RECV_F1 2F0 2SEND_F0 4RECV_F0 "
       "2F1 2SEND_F1 4RECV_F1 4F0 4SEND_F0 4F1 4SEND_F1 4RECV_B1 4B1 "
       "4WAIT_SEND_F1 4SEND_B1 4RECV_B0 4B0 4WAIT_SEND_F0 4SEND_B0 2RECV_B1 2B1 2WAIT_SEND_F1 "
       "2SEND_B1 2RECV_B0 2B0 2WAIT_SEND_F0 2SEND_B0 0RECV_B1 0B1 0WAIT_SEND_F1 0RECV_B0 "
       "0B0 0WAIT_SEND_F0 4WAIT_SEND_B1 4WAIT_SEND_B0 2WAIT_SEND_B1 2WAIT_SEND_B0 "},
      {"pp=2,schedule=DualPipeV,stages=2,microbatches=5", 1,
       "1RECV_F0 1F0 1RECV_F1 2F0 2SEND_F0 1RECV_F2 1F1 2F1 2SEND_F1 "
       "2RECV_B0 1F2 2B0 2WAIT_SEND_F0 2F2 1B0 2SEND_F2 1SEND_B0 1RECV_F3 "
       "2RECV_B1 1F3 2B1 2WAIT_SEND_F1 2F3 1B1 2SEND_F3 1SEND_B1 1RECV_F4 "
       "2RECV_B2 1F4 2B2 2WAIT_SEND_F2 2F4 1B2 2SEND_F4 1SEND_B2 2RECV_B3 "
       "2B3 2WAIT_SEND_F3 1B3 1SEND_B3 2RECV_B4 2I4 2WAIT_SEND_F4 1I4 1SEND_B4 "
       "2W4 1W4 1WAIT_SEND_B0 1WAIT_SEND_B1 1WAIT_SEND_B2 1WAIT_SEND_B3 1WAIT_SEND_B4 "},
      {"pp=2,schedule=Interleaved1F1B,stages=4,microbatches=2+fsdp2=2", 1,
       "1UNSHARD0 3UNSHARD0 5UNSHARD0 1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 "
       "1RESHARD0 7UNSHARD0 3RECV_F0 3F0 3SEND_F0 3RECV_F1 3F1 3SEND_F1 5RECV_F0 "
       "5F0 5SEND_F0 5RECV_F1 5F1 5SEND_F1 7RECV_F0 7F0 7RECV_F1 7B0 7SEND_B0 "
       "5RECV_B0 7F1 7B1 7SEND_B1 5RECV_B1 7REDUCE_GRAD0 7WAIT_REDUCE_GRAD0 "
       "7RESHARD0 1UNSHARD0 5B0 5WAIT_SEND_F0 5SEND_B0 3RECV_B0 5B1 5WAIT_SEND_F1 "
       "5SEND_B1 3RECV_B1 5REDUCE_GRAD0 5WAIT_REDUCE_GRAD0 5RESHARD0 3B0 "
       "3WAIT_SEND_F0 3SEND_B0 1RECV_B0 3B1 3WAIT_SEND_F1 3SEND_B1 1RECV_B1 "
       "3REDUCE_GRAD0 3WAIT_REDUCE_GRAD0 3RESHARD0 1B0 1WAIT_SEND_F0 1SEND_B0 1B1 "
       "1WAIT_SEND_F1 1SEND_B1 1REDUCE_GRAD0 1WAIT_REDUCE_GRAD0 1RESHARD0 "
       "7WAIT_SEND_B0 7WAIT_SEND_B1 5WAIT_SEND_B0 5WAIT_SEND_B1 3WAIT_SEND_B0 "
       "3WAIT_SEND_B1 1WAIT_SEND_B0 1WAIT_SEND_B1 "},
      {"pp=2,schedule=ZBVZeroBubble,microbatches=2+fsdp2=2,reshard=0", 0,
       "0UNSHARD0 3UNSHARD0 0F0 0SEND_F0 0F1 0SEND_F1 3RECV_F0 3F0 3I0 3SEND_B0 "
       "3RECV_F1 3W0 3F1 3I1 3SEND_B1 0RECV_B0 3W1 3REDUCE_GRAD0 "
       "3WAIT_REDUCE_GRAD0 3RESHARD0 0I0 0WAIT_SEND_F0 0W0 0RECV_B1 0I1 "
       "0WAIT_SEND_F1 0W1 0REDUCE_GRAD0 0WAIT_REDUCE_GRAD0 0RESHARD0 "
       "3WAIT_SEND_B0 3WAIT_SEND_B1 "},
  };
  static const char *const names[] = {"F",           "B",
                                      "I",           "W",
                                      "SEND_F",      "SEND_B",
                                      "RECV_F",      "RECV_B",
                                      "WAIT_SEND_F", "WAIT_SEND_B",
                                      "UNSHARD",     "RESHARD",
                                      "REDUCE_GRAD", "WAIT_REDUCE_GRAD"};
  static uint64_t scratch[65536];
  static vram_stage_action list[1024];
  size_t i;
  for (i = 0; i < sizeof orders / sizeof *orders; i++) {
    const vram_parallel p = parsed(orders[i].spec);
    char text[4096];
    uint32_t count = 0, k;
    int n = 0;
    vram_error e;
    CHECK(vram_pipeline_bytes(&p) <= sizeof scratch);
    EQUAL(vram_pipeline_order(&p, orders[i].rank, scratch, sizeof scratch, list, 1024, &count, &e),
          VRAM_OK);
    for (k = 0; k < count && k < 1024; k++)
      n += snprintf(text + n, sizeof text - (size_t)n, "%u%s%u ", (unsigned)list[k].stage,
                    names[list[k].kind], (unsigned)list[k].microbatch);
    TEXT(text, orders[i].actions);
    EQUAL(vram_pipeline_order(&p, orders[i].rank, scratch, 64, list, 1024, &count, &e),
          VRAM_ERR_MEMORY);
  }
}

/* The words of the classes' constructors. */
static void test_orders_refused(void) {
  static const struct {
    const char *spec, *says;
  } refused[] = {
      {"pp=4,microbatches=3", "Number of microbatches (3) must be greater than or equal to the "
                              "number of stages (4)."},
      {"pp=3,schedule=Interleaved1F1B,microbatches=7",
       "Interleaved 1F1B requires the number of microbatches to be a multiple of the number of "
       "rounds (2), but got 7."},
      {"pp=3,schedule=InterleavedZeroBubble,microbatches=7",
       "Zero bubble requires the number of microbatches to be a multiple of the number of rounds "
       "(2), but got 7."},
      {"pp=2,schedule=ZBVZeroBubble,stages=3",
       "ZBV requires exactly 2 stages per rank, but got 3."},
      {"pp=2,schedule=DualPipeV,microbatches=3",
       "DualPipeV requires at least as many microbatches as stages, but got 3 microbatches and 4 "
       "stages."},
      {"pp=2,schedule=GPipe,stages=2", "stages: this schedule has one stage a rank"},
  };
  static uint64_t scratch[65536];
  size_t i;
  for (i = 0; i < sizeof refused / sizeof *refused; i++) {
    const vram_parallel p = parsed(refused[i].spec);
    uint32_t count;
    vram_error e;
    EQUAL(vram_pipeline_order(&p, 0, scratch, sizeof scratch, NULL, 0, &count, &e), VRAM_ERR_VALUE);
    TEXT(e.text, refused[i].says);
  }
}

/* ---- the text of one rank */

typedef struct text {
  char at[8192];
  size_t n, room;
} text;

static int text_take(void *user, const char *bytes, size_t n) {
  text *t = (text *)user;
  if (n > t->room - t->n)
    return 1;
  memcpy(t->at + t->n, bytes, n);
  t->n += n;
  return 0;
}

/* The text of `g`; what came of it. */
static vram_result write_text(const vram_graph *g, text *t, size_t room, vram_error *e) {
  static uint64_t scratch[1 << 13];
  const vram_sink sink = {text_take, t};
  CHECK(vram_graph_write_bytes(g) <= sizeof scratch);
  t->n = 0;
  t->room = room;
  return vram_graph_write(g, scratch, sizeof scratch, &sink, e);
}

static void read_graph(vram_graph *g, void *mem, size_t bytes, const char *z, size_t n) {
  vram_error e;
  vram_graph_init(g, mem, bytes);
  EQUAL(vram_graph_parse(g, z, n, NULL, 0, &e), VRAM_OK);
  TEXT(e.text, "");
}

static const char block[] = "model m dtype=bf16\n"
                            "rules torch-2.15\n"
                            "input x model [2,6,8]\n"
                            "tp colwise up\n"
                            "tp rowwise down output_layouts=1\n"
                            "loop 2 h=x\n"
                            "checkpoint h\n"
                            "linear up h out_features=12\n"
                            "gelu g up approximate=tanh\n"
                            "linear down g out_features=8 bias=0\n"
                            "dropout d down p=0.25\n"
                            "end d\n"
                            "linear tail d out_features=8\n"
                            "order down\n"
                            "next h=%s\n"
                            "mean loss h\n";

/* What is written of one rank reads as the same graph, and is written as the same text. */
static void test_rank_text(void) {
  static uint64_t mem[3][1 << 13];
  static text first, second;
  vram_parallel p = parsed("tp=3");
  vram_graph g, local, back;
  vram_error e;
  char z[1024];
  snprintf(z, sizeof z, block, "h"); /* each round begins with x */
  p.rank = 1;
  read_graph(&g, mem[0], sizeof mem[0], z, strlen(z));
  EQUAL(vram_parallel_cut(&g, &p, &local, mem[1], sizeof mem[1], &e), VRAM_OK);
  EQUAL(write_text(&local, &first, sizeof first.at, &e), VRAM_OK);
  first.at[first.n] = 0;
  CHECK(strstr(first.at,
               "linear loop.1.up loop.1.up.replicate out_features=4 parallel=colwise ranks=3\n"));
  CHECK(strstr(
      first.at,
      "reduce_scatter loop.0.down.reduce_scatter,loop.0.down.flight loop.0.down dim=1 ranks=3\n"));
  CHECK(strstr(first.at, "gelu loop.0.g loop.0.up approximate=tanh\n"));
  read_graph(&back, mem[2], sizeof mem[2], first.at, first.n);
  EQUAL(back.nnode, local.nnode);
  EQUAL(back.nparam, local.nparam);
  CHECK(back.is_cut);
  EQUAL(write_text(&back, &second, sizeof second.at, &e), VRAM_OK);
  CHECK(second.n == first.n && !memcmp(first.at, second.at, first.n));
  EQUAL(write_text(&back, &second, 100, &e), VRAM_ERR_WRITE);
  EQUAL(vram_graph_write(&back, mem[0], 16, NULL, &e), VRAM_ERR_MEMORY);
  snprintf(z, sizeof z, block, "tail"); /* the second one begins with a part of the sequence */
  read_graph(&g, mem[0], sizeof mem[0], z, strlen(z));
  EQUAL(vram_parallel_cut(&g, &p, &local, mem[1], sizeof mem[1], &e), VRAM_ERR_UNSUPPORTED);
  TEXT(e.text, "an input in another layout than the plan says (up, weight [12,8]): "
               "input_layouts=replicate, cut along axis 1");
}

/* Plans of tensor parallelism by calls. */
static void test_plan(void) {
  static const struct {
    const char *words, *says;
  } wrong[] = {
      {"colwis a",
       "an unknown style of tensor parallelism 'colwis' (expected colwise, colwise_rep, "
       "rowwise, rowwise_rep, sequence, input, output, whole, "
       "replicated_with_grad_allreduce, usual)"},
      {"colwise", "names behind 'colwise' (expected at least one)"},
      {"usual a", "names behind 'usual' (expected none)"},
      {"rowwise a output_layouts=9", "a layout '9' (expected replicate, or the axis that is cut)"},
      {"rowwise a-b", "not a name 'a-b' (expected names of modules, in which * and ? may stand)"}};
  static uint64_t mem[512];
  vram_graph g;
  size_t i;
  for (i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    vram_graph_init(&g, mem, sizeof mem);
    EQUAL(vram_graph_tp(&g, wrong[i].words), VRAM_ERR_VALUE);
    TEXT(g.error.text, wrong[i].says);
  }
  vram_graph_init(&g, mem, sizeof mem);
  EQUAL(vram_graph_tp(&g, "sequence layers.*.norm? sequence_dim=-2 use_local_output=1"), VRAM_OK);
  CHECK(parsed("tp=2,plan=colwise:a:b/rowwise:c").plan.len == 21);
}

/* ---- where a model is cut ---- */

enum { CUT_UNITS = 8 };

/* Layers of other widths one behind the other, a unit each; what they are called is u.0, u.1, ...
 */
typedef struct cut_model {
  char text[2000];
  uint64_t params[CUT_UNITS], outputs[CUT_UNITS]; /* bytes */
  uint32_t units;
} cut_model;

static void cut_model_of(cut_model *m, uint64_t *random, uint32_t units, const char *stages) {
  uint32_t i, width = 8;
  size_t n = (size_t)snprintf(m->text, sizeof m->text, "input x f32 [4,8]\n%s", stages);
  m->units = units;
  for (i = 0; i < units; i++) {
    const uint32_t to = 1 + (uint32_t)((*random = *random * 6364136223846793005u + 1) >> 58);
    n += (size_t)snprintf(m->text + n, sizeof m->text - n,
                          "linear u.%u.a %s%.0u%s out_features=%u bias=0\n", (unsigned)i,
                          i ? "u." : "x", (unsigned)(i ? i - 1 : 0),
                          i == 1 ? "0.a"
                          : i    ? ".a"
                                 : "",
                          (unsigned)to);
    m->params[i] = UINT64_C(4) * width * to;
    m->outputs[i] = UINT64_C(4) * 4 * to;
    width = to;
  }
  snprintf(m->text + n, sizeof m->text - n, "mean loss u.%u.a\noutput loss\n",
           (unsigned)(units - 1));
  m->outputs[units - 1] += 4;
}

/* Bytes of the parameters that a rank has. */
static uint64_t cut_params_of(const cut_model *m, const char *spec, uint32_t rank,
                              vram_error *err) {
  static uint64_t mem[16384];
  vram_graph g;
  vram_step_options o;
  vram_report r;
  vram_parallel p = parsed(spec);
  uint64_t bytes;
  void *scratch;
  memset(&o, 0, sizeof o);
  memset(err, 0, sizeof *err);
  p.rank = rank;
  o.train = 1;
  o.optimizer = VRAM_OPTIM_sgd;
  o.parallel = &p;
  CHECK(!vram_graph_init(&g, mem, sizeof mem));
  if (vram_graph_parse(&g, m->text, strlen(m->text), NULL, 0, err))
    return 0;
  bytes = vram_step_bytes(&g, &o);
  scratch = malloc((size_t)bytes);
  memset(&r, 0, sizeof r);
  vram_step(&g, &o, scratch, bytes, &r, err);
  free(scratch);
  return r.params_bytes;
}

/* What the fullest stage weighs: its units are those up to end[i]. */
static uint64_t cut_fullest(const cut_model *m, const uint32_t *end, uint32_t stages,
                            uint32_t alive) {
  uint64_t most = 0;
  uint32_t i, k, from = 0;
  for (i = 0; i < stages; i++) {
    uint64_t sum = 0;
    for (k = from; k < end[i]; k++)
      sum += 4 * m->params[k] + alive * m->outputs[k];
    most = sum > most ? sum : most;
    from = end[i];
  }
  return most;
}

/* The least of all ways to cut it. */
static uint64_t cut_best(const cut_model *m, uint32_t *end, uint32_t at, uint32_t stages,
                         uint32_t alive) {
  uint64_t best = UINT64_MAX, now;
  if (at + 1 == stages) {
    end[at] = m->units;
    return cut_fullest(m, end, stages, alive);
  }
  for (end[at] = (at ? end[at - 1] : 0) + 1; end[at] + (stages - at - 1) <= m->units; end[at]++) {
    now = cut_best(m, end, at + 1, stages, alive);
    best = now < best ? now : best;
  }
  return best;
}

/* balance=1: no way to cut it has a fullest stage that weighs less. */
static void test_balance(void) {
  uint64_t random = 7;
  uint32_t round;
  for (round = 0; round < 24; round++) {
    const uint32_t stages = 2 + round % 3, units = stages + round / 3 % 4;
    const uint32_t micros = stages + round % 5;
    uint32_t end[CUT_UNITS], other[CUT_UNITS], i, at = 0;
    char spec[80];
    cut_model m;
    cut_model_of(&m, &random, units, "");
    snprintf(spec, sizeof spec, "pp=%u,microbatches=%u,balance=1%s", (unsigned)stages,
             (unsigned)micros, round & 1 ? ",schedule=GPipe" : "");
    snprintf(test_where, sizeof test_where, "%s", spec);
    for (i = 0; i < stages; i++) {
      vram_error err;
      uint64_t bytes = cut_params_of(&m, spec, i, &err);
      TEXT(err.text, "");
      for (; at < units && bytes >= m.params[at] && bytes; at++)
        bytes -= m.params[at];
      EQUAL(bytes, 0);
      end[i] = at;
    }
    EQUAL(at, units);
    EQUAL(cut_fullest(&m, end, stages, round & 1 ? micros : stages),
          cut_best(&m, other, 0, stages, round & 1 ? micros : stages));
  }
}

/* `stage` lines: the modules with which stages begin, the first left out. */
static void test_stage_lines(void) {
  uint64_t random = 3;
  uint32_t i;
  cut_model m;
  vram_error err;
  cut_model_of(&m, &random, 6, "stage u.1 u.5\n");
  EQUAL(cut_params_of(&m, "pp=3,microbatches=3", 0, &err), m.params[0]);
  EQUAL(cut_params_of(&m, "pp=3,microbatches=3", 1, &err),
        m.params[1] + m.params[2] + m.params[3] + m.params[4]);
  EQUAL(cut_params_of(&m, "pp=3,microbatches=3", 2, &err), m.params[5]);
  TEXT(err.text, "");
  cut_params_of(&m, "pp=2,microbatches=3", 0, &err);
  TEXT(err.text, "as many names of stage lines as there are cuts are expected: one less than the "
                 "stages of all ranks");
  cut_model_of(&m, &random, 6, "stage u.3\nstage u.9\n");
  cut_params_of(&m, "pp=3,microbatches=3", 1, &err);
  TEXT(err.text, "a stage line names what no module is called: 'u.9'");
  cut_model_of(&m, &random, 6, "stage u.5 u.1\n"); /* every rank refuses what one does */
  for (i = 0; i < 3; i++) {
    cut_params_of(&m, "pp=3,microbatches=3", i, &err);
    TEXT(err.text,
         "a stage line names a module that does not begin behind the stage before it: 'u.1'");
  }
  cut_model_of(&m, &random, 6, "stage u.2 u.2\n");
  cut_params_of(&m, "pp=3,microbatches=3", 0, &err);
  TEXT(err.text,
       "a stage line names a module that does not begin behind the stage before it: 'u.2'");
}

int main(void) {
  test_options();
  test_plan();
  test_rank_text();
  test_balance();
  test_stage_lines();
  test_orders();
  test_orders_refused();
  test_places();
  test_wrong();
  test_live();
  test_libraries_of_stages();
  return test_done("test_parallel");
}
