#endif /* VRAM_CUDA_H_INCLUDED */

#if defined(VRAM_CUDA_IMPLEMENTATION) && !defined(VRAM_CUDA_IMPLEMENTATION_INCLUDED)
#define VRAM_CUDA_IMPLEMENTATION_INCLUDED

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#if defined(__cplusplus)
#define VRAM__THREAD thread_local
#else
#define VRAM__THREAD __thread
#endif
