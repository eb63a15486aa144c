/* SPDX-License-Identifier: MIT */
/** @file
 * Plans: a graph compiled for a device.
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

/** The action for a step that the device does not support, and for a run that fails there. It
 * applies to a plan (and to objects that make plans: models, batches, fits) or to one run. Unless
 * it is strict, a plan keeps the part of the graph that it needs: after a failed run it can then be
 * compiled for the CPU (compute_run_with). */
typedef enum compute_fallback {
  COMPUTE_FALLBACK_DEFAULT = 0, /**< of a plan: WARN; of a run: as the plan was compiled */
  COMPUTE_FALLBACK_WARN = 1,    /**< use the CPU, and log a warning */
  COMPUTE_FALLBACK_SILENT = 2,  /**< use the CPU */
  COMPUTE_FALLBACK_STRICT = 3, /**< fail: COMPUTE_ERROR_UNSUPPORTED, …, with the device's reason */

  /* Other names of the same, for runs. */
  COMPUTE_RUN_AS_COMPILED = COMPUTE_FALLBACK_DEFAULT,
  COMPUTE_RUN_WARN = COMPUTE_FALLBACK_WARN,
  COMPUTE_RUN_SILENT = COMPUTE_FALLBACK_SILENT,
  COMPUTE_RUN_STRICT = COMPUTE_FALLBACK_STRICT
} compute_fallback;

typedef compute_fallback compute_run_fallback;

enum {
  COMPUTE_PLAN_NO_FUSION = 1 << 0,         /**< one step for each operation, for debugging */
  COMPUTE_PLAN_NO_SIMPLIFICATION = 1 << 1, /**< no folding, common subexpressions or rewriting */
  /** f32 matrix products and convolutions may round their factors to 10 bits of mantissa (TF32),
   * for a relative error near 1e-3 and several times the speed on devices with matrix cores. Others
   * ignore the flag. */
  COMPUTE_PLAN_ALLOW_TF32 = 1 << 2,
  /** Each step runs where the whole plan is predicted to be fastest, including copies between the
   * devices: on the CPU or on one accelerator, the one that the options name, or the best for this
   * plan. Inputs and outputs live on the host, parameters where their tensors are. compute_explain
   * shows why. A device not measured yet is measured first, which takes up to a second
   * (route.h). */
  COMPUTE_PLAN_AUTO = 1 << 3,
  /** f32 convolutions with 3 × 3 filters and stride 1, and their gradients, may use Winograd's
   * minimal filtering: about half the time for large ones, and about ten times the rounding error
   * of the plain sum (still near 1e-6 of the largest terms). On a GPU a generated kernel for it
   * takes scratch memory of about four times the data plus the results, up to 256 MiB. Devices
   * without such kernels ignore the flag. */
  COMPUTE_PLAN_ALLOW_WINOGRAD = 1 << 4,
  /** An item has the same bits in every batch, also where that is slower. On the CPU this concerns
   * products with quantized weights of more than 32 rows, and f32 and f64 products of few rows with
   * a transposed right factor that is not frozen. A GPU uses one order of sums for all numbers of
   * items, and no library of its vendor. docs/reference/reproducibility.md has the promise and the
   * price. */
  COMPUTE_PLAN_REPRODUCIBLE = 1 << 5,
  /** The same bits on every CPU: portable kernels, without fused multiply-adds, with one order of
   * sums. Implies COMPUTE_PLAN_REPRODUCIBLE. Functions of the C library differ between its
   * versions: a plan that needs one fails with COMPUTE_ERROR_UNSUPPORTED. On other devices the
   * steps fall back to the CPU, or fail if the fallback is strict. */
  COMPUTE_PLAN_PORTABLE = 1 << 6,
  /** Sums of 8-bit products of large weights may lose half of their value, or more if terms cancel:
   * neighbours along k may be added in 16 bits, with saturation. ONNX Runtime does so on processors
   * without VNNI unless session.x64quantprecision is set. It is faster with AVX2. Frozen weights in
   * −64 … 64 (7 bits) never saturate: plans use the fast form for them without this flag. Devices
   * without it ignore the flag, and so do plans with COMPUTE_PLAN_REPRODUCIBLE and _PORTABLE. */
  COMPUTE_PLAN_ALLOW_SATURATION = 1 << 7
};

typedef struct compute_plan_options {
  compute_device *device; /**< NULL: compute_default_device; with COMPUTE_DEVICE=auto or the option
                           * "auto" of compute_open, as with COMPUTE_PLAN_AUTO */
  compute_fallback fallback;
  uint32_t flags;       /**< COMPUTE_PLAN_… */
  const char *name;     /**< for the log and compute_explain; copied */
  uint64_t reserved[8]; /**< must be zero */
} compute_plan_options;

/** Compiles the part of `graph` that `outputs` need (1 … 1024 nodes, possibly repeated). `options`
 * may be NULL. The plan keeps its own references to parts of the graph. Time and memory are nearly
 * proportional to the size of the graph; the stack needed is small however deep the graph is.
 * Ownership of *plan passes to the caller. Any error of a builder call is reported here.
 * Thread-safe as long as no thread extends the graph meanwhile. */
COMPUTE_API compute_status compute_compile(const compute_graph *graph, const compute_node *outputs,
                                           size_t count, const compute_plan_options *options,
                                           compute_plan **plan);

COMPUTE_API void compute_plan_release(compute_plan *plan); /**< NULL is allowed */

/** One input or output of a run. A tensor that is dense and on the plan's device is used in place;
 * a strided one, one on another device, and an output that overlaps an input or a parameter are
 * copied through dense memory. An output must not be a broadcast view, and no two outputs may
 * overlap. */
typedef struct compute_binding {
  compute_node node;
  compute_tensor *tensor;
} compute_binding;

/** Runs the plan: compute_run_with without options.
 *
 * Bindings:
 * - Every input that the plan needs and every output with a value must be bound exactly once.
 *   Bindings of other inputs are ignored.
 * - A node that is both an input and an output is bound twice, as an input first.
 * - An output that was passed to compute_compile n times can be bound to 1 to n tensors, which all
 *   get its value. With more than one, a run with a queue waits for its end. Binding it to the same
 *   tensor again has no effect.
 * - Different nodes are different outputs: bind each to a different tensor. This holds even if
 *   their values are equal, views of one another, or the value of an input, a parameter or a
 *   constant.
 * - Outputs may not overlap each other.
 *
 * Queue:
 * - NULL: the run is finished on return.
 * - With a queue, the run is submitted and may finish later. Keep the tensors alive until
 *   compute_queue_wait.
 * - A call waits if the temporary memory of unfinished runs would pass an eighth of the device's
 *   memory.
 *
 * Updates in place: one tensor may be bound to an input and to an output of its dtype and size,
 * such as a cache that a run updates. The result is the same as with separate tensors. The run
 * writes such an output in place, without a copy, if every step that reads the input comes before
 * the write or does the write element by element (such as compute_scatter to its data). Otherwise,
 * and if tensors overlap in part, it writes to temporary memory and copies that at the end.
 *
 * After a failure:
 * - The contents of outputs are undefined. A tensor that is both input and output is undefined, and
 *   the run is not repeated on the CPU once it may have been written.
 * - Parameters are unchanged, unless the message states otherwise.
 * - Inputs are unchanged, except by outputs in the same memory.
 *
 * Errors: COMPUTE_ERROR_BINDING, _WRONG_CONTEXT, _INDEX, _LAUNCH and the device's other failures,
 * _OUT_OF_MEMORY, _OUT_OF_DEVICE_MEMORY. */
COMPUTE_API compute_status compute_run(const compute_plan *plan, const compute_binding *bindings,
                                       size_t count, compute_queue *queue);

typedef struct compute_run_options {
  compute_queue *queue; /**< of the plan's device, or NULL */
  compute_fallback fallback;
  double time_limit;    /**< seconds; 0: none */
  uint64_t reserved[8]; /**< must be zero */
} compute_run_options;

typedef struct compute_run_report {
  compute_device *device; /**< where the last attempt ran: the plan's device or the CPU */
  compute_status failure; /**< of the device, if the run was repeated on the CPU; else COMPUTE_OK */
  uint32_t fallbacks;     /**< repetitions on the CPU: 0 or 1 */
  uint32_t steps_done; /**< of the last attempt; those submitted, if the device is still working */
  double seconds;      /**< of the whole call */
  uint64_t reserved[8];
} compute_run_report;

/** compute_run with control over failures of the device. `options` and `report` may be NULL; the
 * report is filled in also on failure.
 *
 * Repetition on the CPU: these failures repeat the run on the CPU, from its inputs, and count as a
 * fallback, unless the call or the plan is strict:
 * - out of device memory, after the pool has released its cached blocks;
 * - a kernel that does not compile, start or finish;
 * - a failing transfer;
 * - a lost device. If possible it is recovered first (compute_device_recover), for later plans; a
 *   plan compiled earlier continues on the CPU.
 *
 * The failure itself is returned if a repetition is impossible or could be wrong:
 * - an input, output or parameter is on a lost device;
 * - parameters had already been assigned to;
 * - the failing queue contained other work;
 * - the plan was compiled as strict.
 *
 * Time limit:
 * - A call with a limit is finished on return, even with a queue.
 * - When the limit passes between two steps, the call returns COMPUTE_ERROR_TIMEOUT.
 * - A run that has begun to assign to parameters is not interrupted. In plans for the CPU this is
 *   early: as soon as no step reads the old values.
 * - If a kernel has not finished by then, its device is considered lost until it has: nothing on it
 *   is used or freed meanwhile. The run is repeated on the CPU as above, with the same limit.
 * - On devices without events, the kernel is waited for.
 *
 * Thread-safe as compute_run. COMPUTE_ERROR_INVALID_ARGUMENT for invalid options. */
COMPUTE_API compute_status compute_run_with(const compute_plan *plan,
                                            const compute_binding *bindings, size_t count,
                                            const compute_run_options *options,
                                            compute_run_report *report);

/** The device that the plan was compiled for; for an automatically placed plan, the accelerator
 * that it uses, or the CPU if it uses none. compute_run takes queues of this device.
 * Thread-safe. */
COMPUTE_API compute_device *compute_plan_device(const compute_plan *plan);

/** Runs the plan once to completion, waiting after every step: as compute_run without a queue, but
 * without fallback. compute_explain then shows the time of each step next to the prediction; of
 * several such runs, the shortest. The time of a step includes waiting for it. Statuses as
 * compute_run. */
COMPUTE_API compute_status compute_plan_measure(const compute_plan *plan,
                                                const compute_binding *bindings, size_t count);

/** A dense tensor of the right dtype and shape for an input or output node of the plan, on its
 * device; on the CPU if the plan was placed automatically. */
COMPUTE_API compute_status compute_plan_create_tensor(const compute_plan *plan, compute_node node,
                                                      compute_tensor **tensor);

typedef struct compute_plan_info {
  uint32_t steps;          /**< kernels of one run */
  uint32_t operations;     /**< graph operations that they perform */
  uint32_t fallbacks;      /**< steps that run on the CPU because the device refused them */
  uint64_t arena_bytes;    /**< temporary memory of one run */
  uint64_t constant_bytes; /**< kept for as long as the plan lives */
  uint64_t flops;          /**< arithmetic operations of one run, estimated */
  uint64_t bytes_read;     /**< memory traffic of one run, estimated */
  uint64_t bytes_written;
  uint64_t host_bytes;  /**< host memory of the plan itself, estimated: steps, names, descriptors */
  uint64_t reserved[7]; /**< zero */
} compute_plan_info;

COMPUTE_API compute_status compute_plan_describe(const compute_plan *plan, compute_plan_info *info);

/** A table of steps as text: fused operations, buffers, bytes and FLOPs, the device and the reason
 * for it, the time predicted from the device's costs (route.h) and, after compute_plan_measure, the
 * measured time. Free it with compute_text_free. */
COMPUTE_API compute_status compute_explain(const compute_plan *plan, char **text);

#ifdef __cplusplus
}
#endif
#endif
