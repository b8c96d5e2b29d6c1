/* >>view =======================================================================================
   Counters with torch.cuda's names; and whose memory a device's memory is. t NULL:
   vram_cuda_default(). */

/* torch.cuda.memory_stats(device); VRAM_DEVICE_HOST: pinned and registered memory. What memory
   pools hold is asked first. After vram_cuda_tracker_end: all zero, as with no such device. */
VRAM_API void vram_cuda_memory_stats(vram_cuda_tracker *t, uint32_t device,
                                     vram_memory_stats *stats);
VRAM_API uint64_t vram_cuda_memory_allocated(vram_cuda_tracker *t, uint32_t device);
VRAM_API uint64_t vram_cuda_max_memory_allocated(vram_cuda_tracker *t, uint32_t device);
VRAM_API uint64_t vram_cuda_memory_reserved(vram_cuda_tracker *t, uint32_t device);
VRAM_API uint64_t vram_cuda_max_memory_reserved(vram_cuda_tracker *t, uint32_t device);
VRAM_API void vram_cuda_reset_peak_memory_stats(vram_cuda_tracker *t);

#define VRAM_CUDA_PROCESSES 64

/* Bytes that are not known are VRAM_UNKNOWN. */
typedef struct vram_cuda_view {
  uint64_t total, free;         /* of the device, as cudaMemGetInfo says */
  uint64_t allocated, reserved; /* counted by the tracker */
  uint64_t process;             /* of this process, all of it */
  uint64_t untracked;           /* process without reserved: context, modules, libraries */
  uint64_t others;              /* of other processes */
  uint32_t derived;             /* 1: NVML does not know this process: `process` is what is used
                                   without `others` */
  uint32_t nother;              /* processes in `other`, largest first */
  vram_process other[VRAM_CUDA_PROCESSES];
} vram_cuda_view;

/* VRAM_ERR_VALUE: no such device. VRAM_ERR_UNSUPPORTED: CUDA does not answer; what the tracker
   knows is in *v. Makes the device current for the time of the call. */
VRAM_API vram_result vram_cuda_view_of(vram_cuda_tracker *t, uint32_t device, vram_cuda_view *v);
