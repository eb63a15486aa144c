/* Inside of the CPU backend: the device, its kernels and their scratch memory.
 *
 * Tensors' memory is host memory: compute_memory.host is its address. Queues are synchronous:
 * enqueue runs the kernel on the context's thread pool and returns when it is done. */
#ifndef CPU_CPU_H
#define CPU_CPU_H

#include "compute/backend.h"
#include "isa.h"

typedef struct cpu_device {
  const compute_services *services;
  const cpu_isa *isa;
  int32_t threads;
  uint64_t l2_bytes, l3_bytes; /* of one core; of the cache that all share, as reported */
  uint64_t share_bytes;        /* of the shared cache, what the device's threads may count on */
  uint64_t memory_bytes;       /* that this process may use */
  struct cpu_workspaces *workspaces;
  struct cpu_blas *blas; /* blas.h; opened at the first GEMM */
  int32_t describes;     /* atomic: calls of cpu_device_describe so far */
} cpu_device;

typedef struct cpu_kernel cpu_kernel;

/* One implementation of a kernel kind: its own state behind a common head. */
struct cpu_kernel {
  cpu_device *device;
  compute_status (*run)(const cpu_kernel *kernel, void *const *pointers); /* inputs, outputs */
  void (*destroy)(cpu_kernel *kernel);
  char description[96]; /* one line for compute_explain */
};

/* Each kind's constructor, by file: map.c copy.c reduce.c row.c gemm.c gather.c conv.c fit.c
 * window.c scan.c top_k.c attention.c spots.c. The descriptor has been checked by the core. They
 * copy what they need of it. */
compute_status cpu_map_prepare(cpu_device *, const compute_kernel_descriptor *, cpu_kernel **);
compute_status cpu_copy_prepare(cpu_device *, const compute_kernel_descriptor *, cpu_kernel **);
compute_status cpu_reduce_prepare(cpu_device *, const compute_kernel_descriptor *, cpu_kernel **);
compute_status cpu_row_prepare(cpu_device *, const compute_kernel_descriptor *, cpu_kernel **);
compute_status cpu_gemm_prepare(cpu_device *, const compute_kernel_descriptor *, cpu_kernel **);
compute_status cpu_gather_prepare(cpu_device *, const compute_kernel_descriptor *, cpu_kernel **);
compute_status cpu_scatter_prepare(cpu_device *, const compute_kernel_descriptor *, cpu_kernel **);
compute_status cpu_conv_prepare(cpu_device *, const compute_kernel_descriptor *, cpu_kernel **);
compute_status cpu_fit_prepare(cpu_device *, const compute_kernel_descriptor *, cpu_kernel **);
compute_status cpu_window_prepare(cpu_device *, const compute_kernel_descriptor *, cpu_kernel **);
compute_status cpu_scan_prepare(cpu_device *, const compute_kernel_descriptor *, cpu_kernel **);
compute_status cpu_top_k_prepare(cpu_device *, const compute_kernel_descriptor *, cpu_kernel **);
compute_status cpu_attention_prepare(cpu_device *, const compute_kernel_descriptor *,
                                     cpu_kernel **);
compute_status cpu_spots_prepare(cpu_device *, const compute_kernel_descriptor *, cpu_kernel **);

/* Scratch memory that outlives a launch: at least `bytes`, 64-aligned, from a list of idle blocks
 * or fresh. NULL when memory is short (the caller fails with COMPUTE_ERROR_OUT_OF_MEMORY). */
void *cpu_workspace_acquire(cpu_device *device, uint64_t bytes);
void cpu_workspace_return(cpu_device *device, void *workspace); /* NULL is allowed */

/* Shorthands for the services. */
void *cpu_allocate(cpu_device *device, uint64_t bytes); /* zeroed, 64-aligned */
void cpu_release(cpu_device *device, void *pointer);
compute_status cpu_out_of_memory(cpu_device *device, uint64_t bytes); /* records, returns status */
void cpu_parallel(const cpu_device *device, int64_t tasks, compute_task task, void *argument);

/* Bytes of one element. */
static inline uint32_t cpu_dtype_size(compute_dtype dtype) {
  static const uint8_t size[COMPUTE_DTYPE_COUNT] = {0, 8, 4, 2, 2, 8, 4, 1, 1, 2};
  return size[dtype];
}

#endif
