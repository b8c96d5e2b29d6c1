/* vram_cuda.h - v0.3 - where the memory of a CUDA program goes
   public domain or MIT-0, at your choice: see the end of vram.h, which this file needs beside it

   Do this:
     #define VRAM_IMPLEMENTATION
     #define VRAM_CUDA_IMPLEMENTATION
   before you include this file in *one* C or C++ file, to create the implementation. No CUDA header
   and no CUDA library is needed to build it; both may be there, in any order.

   Every call that takes or gives back memory is counted with the line that made it:
     #define VRAM_CUDA_REROUTE        cudaMalloc, cudaFree, ... of this file are counted: no other
     #include "vram_cuda.h"           change (it includes cuda_runtime.h and cuda.h). With nvcc and
                                      clang++ the implementation is in another file, best in C
   or, without the macro, call vram_cudaMalloc(&p, bytes), vram_cudaFree(p), ... by name.
     VRAM_CUDA_TAG("weights");        a name for what this scope allocates
     VRAM_CUDA_MARK();                what came and went since the last mark, line by line
     vram_cuda_memory_allocated(NULL, 0)   as torch.cuda.memory_allocated(0), and the others
     vram_cuda_view_of(NULL, 0, &v)        ours, other memory of this process, other processes, free
   An allocation that fails writes a report to standard error: who asked, who holds what, what would
   help.

   Before the first include:
     VRAM_CUDA_REROUTE       see above; for the file that defines it
     VRAM_CUDA_NO_LINES      with it: no macro at all, and no line of what allocates
     VRAM_CUDA_TRACKER t     which tracker the calls of a file count in; default vram_cuda_default()
   Before the include that makes the implementation:
     VRAM_CUDA_LINKED        the program is to be linked with a CUDA runtime; the default where
                             cuda_runtime.h was included (nvcc does so)
     VRAM_CUDA_DLOPEN        the runtime is opened when it is first needed; the default is to look
                             first for one that the program is linked with
     VRAM_CUDA_LIVE          allocations that the default tracker knows; default 32768
     VRAM_CUDA_OWNERS        call sites and tags of it; default 1023
     VRAM_CUDA_TRACE         events that it keeps for snapshots; default 0
     VRAM_CUDA_NO_NVTX       ranges of NVTX are not tags
     VRAM_CUDA_NVTX_BYTES    for names of such ranges; default 65536
     VRAM_CUDA_MEMORY(n)     where its memory comes from; default: static
   VRAM_STATIC and VRAM_NAMESPACE work as in vram.h.

   What counts as what
     cudaMalloc, pitched (pitch times height), 3D, arrays: allocated and reserved, on their device.
     cudaMallocAsync: allocated; what its memory pool holds from the device is reserved, once.
     cuMemCreate: allocated and reserved until the handle is released *and* mapped nowhere.
     cudaMallocManaged: allocated, not reserved: its pages are where they were used last.
     cudaMallocHost, cudaHostAlloc, cudaHostRegister: counters of the host.
     cudaIpcOpenMemHandle: another process's memory: vram_cuda_tracker.ipc_bytes, nothing else.
     Allocations that a stream capture turns into graph nodes: vram_cuda_tracker.graph_nodes and
     graph_bytes as they were captured; what a running graph holds is other memory of this process.

   Threads: every function may be called by any thread. No lock is held across a CUDA call but
   vram_cuda_pool's: see there. Nothing is per thread but tags: a thread that ends leaves its blocks
   to the others.

   Bad use, and what happens
     freed twice, never allocated   passed on, CUDA answers; vram_ledger.unknown_frees counts it
     freed on another stream        passed on; the block is gone from the counters at once
     a free that fails              the record comes back (in the sums since the beginning, `freed`
                                    and `allocated`, it counts twice)
     a table is full                counted in the sums and in `lost`, vram_ledger.lost_owners,
                                    never fatal
     no driver, no CUDA library     every call answers 35 (cudaErrorInsufficientDriver), driver
                                    calls 100 (CUDA_ERROR_NO_DEVICE); *p is not touched
     a function that this CUDA      801 (not supported)
     does not have
     after vram_cuda_tracker_end    calls are passed on and not counted; counters answer 0
     fork                           CUDA does not survive it: the child's tracker is empty; its
                                    pools answer VRAM_ERR_UNSUPPORTED

   Contents (search for the tags)
     >>api       the CUDA and NVML functions that are used, as a table of pointers
     >>tracker   what counts: for wrappers, and for libraries that see the calls otherwise
     >>calls     the calls with their places in the program; marks, tags, regions
     >>route     where CUDA's functions lead in files with VRAM_CUDA_REROUTE
     >>view      counters, and whose memory a device's memory is
     >>backend   pools over CUDA
     >>runner    a schedule of vram.h on a stream
     >>adaptors  allocators and memory resources for C++
     >>reroute   VRAM_CUDA_REROUTE
*/
#ifndef VRAM_CUDA_H_INCLUDED
#define VRAM_CUDA_H_INCLUDED
