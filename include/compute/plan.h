/* Plans: a graph compiled for a device.
 *
 * Compiling simplifies the graph, fuses elementwise work, plans memory and prepares kernels. A plan
 * never changes afterwards and may be run from several threads at once, unless it assigns to
 * parameters: then its runs must not overlap. */
#ifndef COMPUTE_PLAN_H
#define COMPUTE_PLAN_H

#include "compute/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct compute_plan compute_plan;

/* What to do with a step that the device does not support. */
typedef enum compute_fallback {
  COMPUTE_FALLBACK_WARN = 0,   /* run it on the CPU, and log a warning */
  COMPUTE_FALLBACK_SILENT = 1, /* run it on the CPU */
  COMPUTE_FALLBACK_STRICT = 2  /* fail with COMPUTE_ERROR_UNSUPPORTED and the device's reason */
} compute_fallback;

enum {
  COMPUTE_PLAN_NO_FUSION = 1 << 0,         /* one step for each operation, for debugging */
  COMPUTE_PLAN_NO_SIMPLIFICATION = 1 << 1, /* no folding, common subexpressions or rewriting */
  /* f32 matrix products and convolutions may round their factors to 10 bits of mantissa (TF32), for
   * a relative error near 1e-3 and several times the speed on devices with matrix cores. Others
   * compute as without the flag. */
  COMPUTE_PLAN_ALLOW_TF32 = 1 << 2
};

typedef struct compute_plan_options {
  compute_device *device; /* NULL: compute_default_device */
  compute_fallback fallback;
  uint32_t flags;       /* COMPUTE_PLAN_… */
  const char *name;     /* for the log and compute_explain; copied */
  uint64_t reserved[8]; /* must be zero */
} compute_plan_options;

/* Compiles the part of `graph` that `outputs` (1 … 1024 nodes) need. `options` may be NULL. The
 * plan keeps what it needs of the graph. Ownership of *plan passes to the caller. Any error of a
 * builder call is reported here. Thread-safe for a graph that nobody extends meanwhile. */
COMPUTE_API compute_status compute_compile(const compute_graph *graph, const compute_node *outputs,
                                           size_t count, const compute_plan_options *options,
                                           compute_plan **plan);

COMPUTE_API void compute_plan_release(compute_plan *plan); /* NULL is allowed */

/* One input or output of a run. A tensor that is dense and on the plan's device is used in place; a
 * strided one, one on another device, and an output that overlaps an input or a parameter go
 * through a dense stand-in, which costs a copy. An output must not be a broadcast view, and no two
 * outputs may overlap. */
typedef struct compute_binding {
  compute_node node;
  compute_tensor *tensor;
} compute_binding;

/* Runs the plan. Every input that it needs and every output with a value must be bound exactly
 * once; bindings of inputs that the plan does not need are ignored. A node that is both is bound
 * twice, as an input first. With a queue, the run is
 * submitted and may finish later: keep the tensors alive until compute_queue_wait. With NULL, the
 * run is finished on return. On failure the contents of outputs are undefined and parameters are
 * unchanged, unless the message says otherwise. COMPUTE_ERROR_BINDING, _WRONG_CONTEXT, _INDEX,
 * _LAUNCH, …, memory. */
COMPUTE_API compute_status compute_run(const compute_plan *plan, const compute_binding *bindings,
                                       size_t count, compute_queue *queue);

/* A dense tensor of the right dtype and shape for an input or output node of the plan, on its
 * device. */
COMPUTE_API compute_status compute_plan_create_tensor(const compute_plan *plan, compute_node node,
                                                      compute_tensor **tensor);

typedef struct compute_plan_info {
  uint32_t steps;          /* kernels of one run */
  uint32_t operations;     /* graph operations that they carry out */
  uint32_t fallbacks;      /* steps that run on the CPU because the device refused them */
  uint64_t arena_bytes;    /* temporary memory of one run */
  uint64_t constant_bytes; /* kept for as long as the plan lives */
  uint64_t flops;          /* arithmetic operations of one run, estimated */
  uint64_t bytes_read;     /* memory traffic of one run, estimated */
  uint64_t bytes_written;
} compute_plan_info;

COMPUTE_API compute_status compute_plan_describe(const compute_plan *plan, compute_plan_info *info);

/* A table of steps, fused operations, buffers, bytes and FLOPs as text; free it with
 * compute_text_free. */
COMPUTE_API compute_status compute_explain(const compute_plan *plan, char **text);

#ifdef __cplusplus
}
#endif
#endif
