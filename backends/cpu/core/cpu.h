/* SPDX-License-Identifier: MIT */
/* Internals of the CPU backend: the device, its kernels and their scratch memory.
 *
 * Tensors' memory is host memory: compute_memory.host is its address. Queues are synchronous:
 * enqueue runs the kernel on the context's thread pool and returns when it is done. */
#ifndef CPU_CORE_CPU_H
#define CPU_CORE_CPU_H

#include <stdatomic.h>

#include "compute/backend.h"
#include "isa.h"

typedef struct cpu_device {
  const compute_services *services;
  const cpu_isa *isa;
  int32_t threads;
  uint64_t l2_bytes, l3_bytes; /* L2 of one core; L3 shared by all, as reported */
  uint64_t share_bytes;        /* the device's share of L3 */
  uint64_t memory_bytes;       /* of the machine */
  bool huge_pages;             /* large blocks get huge pages on request */
  struct cpu_workspaces *workspaces;
  struct cpu_blas *blas;     /* gemm/gemm.h; opened at the first GEMM */
  _Atomic int32_t describes; /* calls of cpu_device_describe so far */
  /* The same device with the portable kernels, and with equal sizes of caches on all machines; NULL
   * in a build without these kernels, and in the portable device. */
  struct cpu_device *portable;
} cpu_device;

typedef struct cpu_kernel cpu_kernel;

/* One implementation of a kernel kind: a common head, followed by its state. */
struct cpu_kernel {
  cpu_device *device;
  const struct cpu_kind *kind;
  compute_status (*run)(const cpu_kernel *kernel, void *const *pointers); /* inputs, outputs */
  char description[160]; /* one line for compute_explain */
};

/* One of several ways to run a kind of kernel. */
typedef struct cpu_implementation {
  const char *name;

  /* Completes a kernel: sets `run` and the description. To refuse, it leaves `run` NULL and sets
   * *reason, a text that lives as long as the device. */
  compute_status (*accept)(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                           const char **reason);
} cpu_implementation;

/* The module's description of a kernel kind. The core has checked the descriptors; a kernel copies
 * the parts that it needs. */
typedef struct cpu_kind {
  const char *name;

  /* The reason why the descriptor is not supported, or NULL. May be NULL: all are supported. */
  const char *(*refuse)(const compute_kernel_descriptor *descriptor);

  /* Size of the kind's kernel struct, which starts with a cpu_kernel. It is zeroed initially. */
  size_t bytes;

  /* Completes a kernel: the description, and its `run` if `run` below is NULL. */
  compute_status (*prepare)(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor);

  compute_status (*run)(const cpu_kernel *kernel, void *const *pointers);

  /* Releases a kernel's resources, even if `prepare` failed half-way. NULL if there are none. */
  void (*clear)(cpu_kernel *kernel);

  /* Both or neither: compute_backend.kernel_packed_bytes and kernel_pack, for kernels whose
   * descriptor has constant_inputs. */
  uint64_t (*packed_bytes)(const cpu_kernel *kernel, uint32_t input, uint64_t *form);
  compute_status (*pack)(const cpu_kernel *kernel, uint32_t input, const void *source,
                         void *packed);
} cpu_kind;

/* Kinds of packed input layouts. A layout's id combines the kind with everything that its bytes
 * depend on. */
typedef enum cpu_form_kind {
  CPU_FORM_PANELS = 1, /* the right factor of a product */
  CPU_FORM_ROWS,       /* the filter of a convolution with channels last */
  CPU_FORM_DEPTHWISE   /* … of single channels */
} cpu_form_kind;

uint64_t cpu_form(const int64_t *numbers, int32_t count);

/* Every kind in COMPUTE_KERNEL_KINDS has a cpu_<name>_kind, defined in the kind's source. */
#define CPU_KIND_DECLARE(code, number, name) extern const cpu_kind cpu_##name##_kind;
COMPUTE_KERNEL_KINDS(CPU_KIND_DECLARE)

/* Checks that the kind supports the descriptor, then creates the kernel. */
compute_status cpu_kind_prepare(const cpu_kind *kind, cpu_device *device,
                                const compute_kernel_descriptor *descriptor, cpu_kernel **kernel);

/* `kernel` may be NULL. */
void cpu_kernel_destroy(cpu_kernel *kernel);

/* Offers the kernel to the implementations in order, up to an entry without a name, and logs the
 * refusals before the first that accepts. COMPUTE_ERROR_UNSUPPORTED if none does. */
compute_status cpu_implementation_choose(const cpu_implementation *list, cpu_kernel *kernel,
                                         const compute_kernel_descriptor *descriptor);

/* Reports a space of more than 2^63 elements; returns the status. */
compute_status cpu_fail_overflow(const cpu_kernel *kernel);

/* `run` of kernels without a result. */
compute_status cpu_run_nothing(const cpu_kernel *kernel, void *const *pointers);

/* Scratch memory that outlives a launch: at least `bytes`, 64-aligned, from a list of idle blocks
 * or newly allocated. NULL if out of memory (the caller fails with COMPUTE_ERROR_OUT_OF_MEMORY). */
void *cpu_workspace_acquire(cpu_device *device, uint64_t bytes);
void cpu_workspace_return(cpu_device *device, void *workspace); /* NULL is allowed */

/* Shorthands for the services. */
void *cpu_allocate(cpu_device *device, uint64_t bytes); /* zeroed, 64-aligned */
void cpu_release(cpu_device *device, void *pointer);
compute_status cpu_out_of_memory(cpu_device *device, uint64_t bytes); /* records the error, returns
                                                                       * its status */
void cpu_parallel(const cpu_device *device, int64_t tasks, compute_task task, void *argument);

/* Size arithmetic for non-negative numbers and positive divisors. */
static inline int64_t cpu_min(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static inline int64_t cpu_max(int64_t a, int64_t b) {
  return a > b ? a : b;
}
static inline int64_t cpu_divide_up(int64_t a, int64_t b) {
  return a / b + (a % b != 0);
}
static inline int64_t cpu_round_up(int64_t a, int64_t b) {
  return cpu_divide_up(a, b) * b;
}
static inline uint64_t cpu_whole_lines(uint64_t bytes) { /* cache lines of 64 bytes */
  return (bytes + 63) & ~UINT64_C(63);
}

/* Bytes of one element. */
static inline uint32_t cpu_dtype_size(compute_dtype dtype) {
#define CPU_SIZE(code, number, name, kind, bytes, type, element) [COMPUTE_##code] = bytes,
  static const uint8_t size[COMPUTE_DTYPE_COUNT] = {COMPUTE_DTYPES(CPU_SIZE)};
#undef CPU_SIZE
  return size[dtype];
}

static inline bool cpu_dtype_is_float(compute_dtype dtype) {
  return dtype == COMPUTE_F64 || dtype == COMPUTE_F32 || dtype == COMPUTE_F16 ||
         dtype == COMPUTE_BF16;
}

/* ---- The device and its memory --------------------------------------------------------------- */

/* The CPU as a device: open, describe, and memory. */

compute_status cpu_device_open(const compute_services *services, cpu_device **device);
void cpu_device_close(cpu_device *device);
compute_status cpu_device_describe(cpu_device *device, compute_device_info *info);

compute_status cpu_memory_allocate(cpu_device *device, uint64_t bytes, compute_memory *memory);
compute_status cpu_memory_import(cpu_device *device, void *data, uint64_t bytes,
                                 compute_memory *memory);
void cpu_memory_release(cpu_device *device, compute_memory *memory);

/* memory_total and memory_free of the machine in bytes (both may be NULL). The core subtracts the
 * limits of the process's control groups. */
void cpu_memory_query(uint64_t *total, uint64_t *available);

/* The list used by cpu_workspace_acquire. NULL if out of memory. */
struct cpu_workspaces *cpu_workspaces_create(cpu_device *device);
void cpu_workspaces_release(cpu_device *device, struct cpu_workspaces *workspaces);

/* Copies contiguous bytes with all threads; with non-temporal stores if larger than the caches. The
 * ranges may overlap. */
void cpu_copy_bytes(const cpu_device *device, void *destination, const void *source,
                    uint64_t bytes);

#endif
