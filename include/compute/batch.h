/* SPDX-License-Identifier: MIT */
/** @file
 * Batches: any number of items through a graph or a kernel, in constant memory, with reading,
 * uploading, computing, downloading and writing at the same time.
 *
 * An item is the unit of work: one matrix, one image, one record of several inputs. The iterator
 * takes items from a source for each input and runs the work on a batch of them at a time. It
 * passes the results, in the items' order, to a sink for each output. Sources and sinks are arrays,
 * files or callbacks. Several devices share the items: the next free device takes the next batch.
 * @code
 *   static void smooth(void *user, compute_graph *graph, int64_t items,
 *                      const compute_node *inputs, compute_node *outputs) {
 *     outputs[0] = compute_matmul(graph, inputs[0], compute_parameter(graph, user));
 *   }
 *   …
 *   compute_batch *batch;
 *   compute_batch_create(context, &(compute_batch_options){
 *       .build = smooth, .user = weights,
 *       .inputs = (compute_batch_port[]){{COMPUTE_F32, COMPUTE_SHAPE(64, 64)}}, .input_count = 1,
 *       .output_count = 1}, &batch);
 *   compute_batch_run(batch, &(compute_batch_run_options){
 *       .items = 1000000,
 *       .sources = (compute_batch_source[]){{.array = images}},
 *       .sinks = (compute_batch_sink[]){{.array = smoothed}}}, NULL);
 *   compute_batch_release(batch);
 * @endcode
 * If the work treats items independently, results depend neither on the batch size nor on the
 * number of devices, apart from rounding: devices round differently, and a device may sum in
 * another order for another shape. Your own steps must ensure this themselves. */
#ifndef COMPUTE_BATCH_H
#define COMPUTE_BATCH_H

#include "compute/distributed.h"
#include "compute/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct compute_batch compute_batch;

#define COMPUTE_BATCH_MAX_PORTS 32 /**< inputs, and outputs, of one iterator */
#define COMPUTE_BATCH_MAX_SLOTS 16

/* ---- The work ------------------------------------------------------------------------------ */

/** One input or output: the dtype and shape of one item (rank ≤ 7). */
typedef struct compute_batch_port {
  compute_dtype dtype;
  compute_shape item;
} compute_batch_port;

/** Records the work on `items` items at once in `graph`. inputs[i] is a node [items, item shape…];
 * set outputs[i] to a node of the same form.
 *
 * - Plans have fixed shapes. So this is called for the normal batch, again for a smaller one such
 *   as the last, and for each device: one call at a time, from any thread. It should do the same
 *   each time.
 * - An error of a builder call fails the iterator.
 * - Parameters (compute_parameter) may be on any device of the context. They are copied to the
 *   others at the start of each run; assignments to them are refused.
 * - It must return (compute.h). */
typedef void (*compute_batch_build_function)(void *user, compute_graph *graph, int64_t items,
                                             const compute_node *inputs, compute_node *outputs);

/** The arguments of a step. The tensors are dense, [items, item shape…], on the device. */
typedef struct compute_batch_step {
  compute_queue *queue; /**< the queue to submit to; NULL: the work must be done on return */
  compute_device *device;
  int64_t first; /**< the batch's first item */
  int64_t items;
  compute_tensor *const *inputs;
  compute_tensor *const *outputs;
  uint64_t reserved[4];
} compute_batch_step;

/** Submits the work on one batch to step->queue: compute_kernel_launch, compute_run.
 *
 * - The inputs may still be in transfer to the device, in the order of that queue. Anything that
 *   bypasses the queue (for example, a compute_tensor_copy) must wait for it first.
 * - The step may return before the work is done; the iterator waits.
 * - Calls for several devices overlap. Calls for one device do not, except for a batch that is
 *   repeated on the CPU.
 * - A status that is not COMPUTE_OK fails the batch. It must return (compute.h). */
typedef compute_status (*compute_batch_step_function)(void *user, const compute_batch_step *step);

enum {
  /** All devices of the context that compute and are not lost, instead of `devices`. */
  COMPUTE_BATCH_ALL_DEVICES = 1 << 16
};

typedef struct compute_batch_options {
  /** One of the two. */
  compute_batch_build_function build;
  compute_batch_step_function step;
  void *user; /**< for both */

  const compute_batch_port *inputs;  /**< copied, as `outputs` */
  size_t input_count;                /**< 0 … 32 */
  const compute_batch_port *outputs; /**< with `build` it may be NULL: taken from the graph */
  size_t output_count;               /**< 1 … 32 */

  /** The devices to use; NULL and 0 for the default device. */
  compute_device *const *devices;
  size_t device_count;

  /** Items at a time, fewer where `memory` has no room for them; 0: chosen for the memory and
   * caches of the device. With several devices it applies to the fastest; slower ones take fewer.
   * With 1 the builder is asked for one item only, otherwise for any number. */
  int64_t batch;
  /** Batches in progress on each device, 1 … 16; 0: 3. With 1 nothing overlaps. With 3, upload,
   * work and download overlap. Where sources and sinks take as long as these, 5 keep every stage
   * busy. */
  uint32_t slots;
  /** Limit in bytes for slots and temporaries of all devices together, exceeded only if a batch of
   * one item needs more; 0: a quarter of the free memory. */
  uint64_t memory;

  /** When a device fails or is out of memory, the batch is halved, then goes to the CPU
   * (COMPUTE_FALLBACK_STRICT: the run fails instead). Also the plans' policy. */
  compute_fallback fallback;
  uint32_t flags;       /**< COMPUTE_PLAN_… for the plans (not _AUTO), COMPUTE_BATCH_… */
  const char *name;     /**< for messages and profiles; copied */
  uint64_t reserved[8]; /**< must be zero */
} compute_batch_options;

/** Creates an iterator: chooses batch sizes and compiles the plans. The first run allocates its
 * slots. Ownership of *batch passes to the caller. Thread-safe.
 *
 * COMPUTE_ERROR_INVALID_ARGUMENT, _NULL_POINTER, _DTYPE, _SHAPE (an output without the items'
 * axis), _OVERFLOW, _WRONG_CONTEXT, _OUT_OF_MEMORY, _UNSUPPORTED (assignments), and the errors of
 * builders and compute_compile. */
COMPUTE_API compute_status compute_batch_create(compute_context *context,
                                                const compute_batch_options *options,
                                                compute_batch **batch);

/** Frees it. No run may be in progress. NULL is allowed. */
COMPUTE_API void compute_batch_release(compute_batch *batch);

/* ---- Sources and sinks --------------------------------------------------------------------- */

/** Writes up to `items` items, the first of them number `first`, to `data`, dense and contiguous.
 * Sets *count to their number: fewer than `items` only where the source ends. Calls come in order,
 * from one thread other than the one that called compute_batch_run.
 *
 * A status that is not COMPUTE_OK ends the run once everything read so far, including these *count
 * items, is delivered; the other sources are read only up to there. It must return (compute.h). */
typedef compute_status (*compute_batch_read_function)(void *user, int64_t first, int64_t items,
                                                      void *data, int64_t *count);

/** Takes `items` results, the first of them for item `first`; they are valid during the call. Calls
 * come in order, from the thread that called compute_batch_run. A status that is not COMPUTE_OK
 * ends the run; these items do not count as complete. It must return (compute.h). */
typedef compute_status (*compute_batch_write_function)(void *user, int64_t first, int64_t items,
                                                       const void *data);

/** Exactly one of array, path and read is set. */
typedef struct compute_batch_source {
  const void *array; /**< all items, dense; the CPU reads them in place */
  const char *path;  /**< a file with the items, dense, `offset` bytes from its start */
  uint64_t offset;
  compute_batch_read_function read;
  void *user;
  uint64_t reserved[2]; /**< must be zero */
} compute_batch_source;

/** Exactly one of array, path, write and discard is set. */
typedef struct compute_batch_sink {
  /** Room for all items; the CPU writes them in place. It must not overlap a source, except that an
   * item's result may replace that item in place. After a failure, everything after the complete
   * items is undefined. */
  void *array;
  const char *path; /**< a file: created if missing, written in order from `offset` on, else kept */
  uint64_t offset;
  compute_batch_write_function write;
  void *user;
  bool discard;         /**< the output is not needed */
  uint64_t reserved[2]; /**< must be zero */
} compute_batch_sink;

/* ---- Running ------------------------------------------------------------------------------- */

#define COMPUTE_BATCH_UNTIL_END ((int64_t)-1)

typedef struct compute_batch_progress {
  int64_t items;       /**< delivered to the sinks */
  int64_t total;       /**< or COMPUTE_BATCH_UNTIL_END if not known */
  double seconds;      /**< since the start */
  double rate;         /**< recent items per second */
  double seconds_left; /**< estimated; negative if not known */
  uint64_t reserved[4];
} compute_batch_progress;

/** Called by the thread that called compute_batch_run, every `progress_seconds`, and again at the
 * end. Returning false cancels the run. It must return (compute.h). */
typedef bool (*compute_batch_progress_function)(void *user, const compute_batch_progress *progress);

typedef struct compute_batch_run_options {
  int64_t items; /**< ≥ 0, or COMPUTE_BATCH_UNTIL_END: until a source ends (callbacks, and files
                  * whose items have bytes) */
  const compute_batch_source *sources; /**< one for each input */
  const compute_batch_sink *sinks;     /**< one for each output */
  compute_batch_progress_function progress;
  void *progress_user;
  double progress_seconds; /**< 0: 0.1 */
  /** Or NULL. The ranks of the group divide the items; each takes one contiguous part. The run is
   * then a collective call, with the same number of items on all ranks.
   * - Sources and sinks describe all items: a rank reads and writes its own part of arrays and
   *   files, and its callbacks get item numbers of the whole run.
   * - Progress and result cover this rank's part.
   * - A failure on one rank fails all, once the others have ended. */
  compute_process_group *group;
  uint64_t reserved[3]; /**< must be zero */
} compute_batch_run_options;

typedef struct compute_batch_result {
  int64_t items;                      /**< complete: delivered, in order, to every sink */
  int64_t batches;                    /**< in these items */
  double seconds;                     /**< of the whole call */
  uint64_t bytes_read, bytes_written; /**< of the complete items, from sources and to sinks */
  int64_t halved;                     /**< times that a batch was made smaller to save memory */
  int64_t on_cpu;      /**< batches that went to the CPU because their device had failed */
  uint64_t slot_bytes; /**< of all slots' buffers at the end */
  uint64_t reserved[4];
} compute_batch_result;

/** Runs all items through the work and returns when they are delivered. `result` (may be NULL) is
 * filled in on success and on failure: result->items and the error message give the number of
 * complete items. One run at a time for each iterator; different iterators may run at once.
 *
 * - COMPUTE_ERROR_CANCELLED after compute_batch_cancel, or after a progress function returned
 *   false.
 * - The status of a source, sink or step that failed; _FILE, with errno.
 * - _INVALID_ARGUMENT when a source ends before `items` or before another source.
 * - _INVALID_STATE while another run of this iterator is in progress.
 * - _OUT_OF_MEMORY, and the devices' failures when the policy allows no further fallback. */
COMPUTE_API compute_status compute_batch_run(compute_batch *batch,
                                             const compute_batch_run_options *options,
                                             compute_batch_result *result);

/** Makes the run in progress return COMPUTE_ERROR_CANCELLED as soon as the batches being computed
 * and the callbacks being called have ended. Without a run it does nothing. Thread-safe, also from
 * callbacks. */
COMPUTE_API void compute_batch_cancel(compute_batch *batch);

/** One of the iterator's devices. */
typedef struct compute_batch_device_info {
  compute_device *device;
  int64_t batch;           /**< its current batch size, in items */
  int64_t items;           /**< its share of the complete items of the last run */
  double items_per_second; /**< while it computes, measured; 0 if it never has */
  uint64_t reserved[4];
} compute_batch_device_info;

/** The device at `index`, in the order given; COMPUTE_ERROR_INVALID_ARGUMENT past the end,
 * _INVALID_STATE while a run is in progress. Thread-safe. */
COMPUTE_API compute_status compute_batch_device_at(compute_batch *batch, size_t index,
                                                   compute_batch_device_info *info);

/** Seconds that each stage of a run was busy. Stages overlap, so their sum may exceed the run's
 * time; the busiest stage limits the speed. */
typedef struct compute_batch_times {
  double seconds;   /**< of the run */
  double reading;   /**< sources */
  double computing; /**< devices, while they had a batch: transfers count; the mean of several */
  double writing;   /**< sinks */
  uint64_t reserved[4];
} compute_batch_times;

/** The times of the run in progress so far, otherwise of the last one; all 0 before the first.
 * COMPUTE_ERROR_NULL_POINTER. Thread-safe, also from callbacks. */
COMPUTE_API compute_status compute_batch_times_get(compute_batch *batch,
                                                   compute_batch_times *times);

#ifdef __cplusplus
}
#endif
#endif
