/* A CUDA driver with NVML that exists in memory only: devices of a given size, first-fit addresses,
   streams whose events complete on command, memory pools, physical memory with mappings, graphs as
   far as captures count, copies and launches that wait in their streams, memory of other processes.
   It knows the truth about itself, counts its calls, and fails the k-th one on request. */
#ifndef FAKE_H
#define FAKE_H

#include "../../vram_cuda.h"

enum { FAKE_DEVICES = 3, FAKE_PEERS = 300, FAKE_PID = 5000000 }; /* no process has such a number */

/* set before the calls; fake_reset makes the defaults */
typedef struct fake_settings {
  uint64_t total[FAKE_DEVICES];   /* default 1 GiB, 256 MiB, 64 MiB */
  uint64_t context[FAKE_DEVICES]; /* what the process takes for itself; default 8 MiB */
  uint64_t fail_at;               /* the how manieth call fails, from 1; 0: none */
  int fail_with;                  /* default 46 (cudaErrorDevicesUnavailable) */
  uint64_t oom_at;                /* the how manieth allocation finds no memory */
  int no_nvml, own_pid_unknown, own_bytes_unknown, peers_unknown;
  int nvml_version; /* 1, 2, 3: of the lists of processes; default 3 */
  int events_wait;  /* 1: events are done by fake_complete only */
  int queues; /* 1: what streams are given waits for fake_run. Addresses of copies are the host's */
  void (*hook)(void *user, const char *call); /* before every call, no lock held */
  void *user;
} fake_settings;

extern fake_settings fake;

/* What the process holds, as the driver knows it. */
typedef struct fake_truth {
  uint64_t allocated, reserved, count; /* handed out; held from the device */
  uint64_t physical;                   /* as reserved, rounded as the device does */
  uint64_t kind[VRAM_CUDA_KIND_COUNT];
} fake_truth;

void fake_reset(void);
/* version: 13000, ...; 0: no driver. What came later is NULL. */
void fake_api(vram_cuda_api *api, int version);
void fake_truth_of(uint32_t device, fake_truth *to); /* VRAM_DEVICE_HOST: host memory */
uint64_t fake_calls(void);
uint64_t fake_allocations(void);
uint64_t fake_free_bytes(uint32_t device);
/* What is left that somebody should have given back: blocks, handles, mappings, reserved addresses,
   pools, events, opened memory, NVML. Writes what it is. */
uint64_t fake_leaks(int print);
/* process FAKE_PID + pid; bytes 0: it ends */
void fake_peer(uint32_t device, uint32_t pid, uint64_t bytes);
void fake_capture(void *stream, int on);
void fake_complete(void *stream); /* NULL is a stream, too */
/* With `queues`. Something for a stream to do: called with a copy of n bytes of `with`. */
int fake_launch(void *stream, void (*call)(void *with), const void *with, size_t n);
/* Does what the streams have been given, in an order that they allow: as it was given, copies as
   late as can be, as early as can be, or (from 3 on) by chance. It stays: the next call does it all
   again, as a graph; fake_forget ends that. */
void fake_run(uint64_t order);
void fake_forget(void);
/* What a capture would have refused, or left out, since fake_reset: memory and waits of the host
   while a stream is captured; work on streams that no event has drawn into the capture; work that
   the captured stream does not wait for in the end (fake_capture(stream, 0)). */
uint64_t fake_capture_faults(void);
vram_cuda_ipc fake_export(uint32_t device, uint64_t bytes);
uint64_t fake_ipc_bytes(void);
int fake_pool_is_read(void); /* 1: somebody is reading a pool's attribute now */

#endif
