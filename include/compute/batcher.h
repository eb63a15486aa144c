/* SPDX-License-Identifier: MIT */
/** @file
 * Batchers: single items from many threads, gathered to batches (dynamic batching).
 *
 * A server has one item for each request, but a device computes many items at once in little more
 * time than one. A batcher takes items from any thread. One run serves those that have arrived
 * within a time in microseconds, or as many as a run may have.
 * @code
 *   compute_model_batch(model, NULL, &batch);              // the work: see batch.h
 *   compute_batcher_create(batch, &(compute_batcher_options){.most = 32,
 *                                                            .wait_microseconds = 200}, &batcher);
 *   …                                                      // on every thread of the server:
 *   compute_batcher_run(batcher, (const void *const[]){image}, (void *const[]){scores}, 0);
 *   …
 *   compute_batcher_release(batcher);
 *   compute_batch_release(batch);
 * @endcode
 * Items begin in the order in which they were submitted. Every item has its own status: an item
 * that fails, such as one with an index outside its axis, does not fail the others of its run. On
 * the CPU an item's result has the same bits as alone, with the exceptions in
 * docs/reference/reproducibility.md. Other devices may choose their kernels by the number of items.
 *
 * All functions are thread-safe. The library has one thread for each device of the iterator. */
#ifndef COMPUTE_BATCHER_H
#define COMPUTE_BATCHER_H

#include "compute/batch.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct compute_batcher compute_batcher;
typedef struct compute_batcher_request compute_batcher_request;

#define COMPUTE_BATCHER_MAX_ITEMS 4096 /**< the largest value of `most` */

/** The action for a request when as many as `queue` are waiting. */
typedef enum compute_batcher_full {
  COMPUTE_BATCHER_BLOCK = 0, /**< the call waits until there is room */
  COMPUTE_BATCHER_REFUSE = 1 /**< the call fails at once with COMPUTE_ERROR_BUSY */
} compute_batcher_full;

typedef struct compute_batcher_options {
  int64_t most; /**< items of one run, 1 … 4096; 0: 32, or 1 where the work takes single items */
  /** How long a run waits for more items, from the arrival of its first item. With 0 it takes the
   * items that are there; more of them gather while the device is busy. */
  uint32_t wait_microseconds;
  compute_batcher_full full;
  int64_t queue;        /**< requests that may wait, 1 … 2^31; 0: 8 times `most` */
  uint64_t reserved[8]; /**< must be zero */
} compute_batcher_options;

/** Creates a batcher for the work of an iterator (compute_batch_create, compute_model_batch).
 *
 * Runs have 1, 2, 3, 4, 6, 8, 12, … or `most` items, and the plans of all these sizes are compiled
 * now. Weights on other devices are copied now. `batch` must outlive the batcher; its own runs and
 * settings are independent. `options` may be NULL. Ownership of *batcher passes to the caller.
 *
 * COMPUTE_ERROR_INVALID_ARGUMENT, _NULL_POINTER, _OUT_OF_MEMORY, _OUT_OF_DEVICE_MEMORY, and the
 * errors of builders and compute_compile. */
COMPUTE_API compute_status compute_batcher_create(compute_batch *batch,
                                                  const compute_batcher_options *options,
                                                  compute_batcher **batcher);

/** Stops as compute_batcher_stop without finishing, and frees the batcher. No other thread may be
 * in a call with it, except waits for its requests. Requests stay valid until they are released,
 * and must be before the context closes. Not from callbacks. NULL is allowed. */
COMPUTE_API void compute_batcher_release(compute_batcher *batcher);

/** Takes no more requests: submitting fails with COMPUTE_ERROR_INVALID_STATE, also for threads that
 * wait for room. With `finish` the waiting requests are served, otherwise they end with
 * COMPUTE_ERROR_CANCELLED. Returns when no request is left. Further calls are allowed; without
 * `finish` they shorten an earlier one. COMPUTE_ERROR_INVALID_STATE from a callback. */
COMPUTE_API compute_status compute_batcher_stop(compute_batcher *batcher, bool finish);

/* ---- Requests ------------------------------------------------------------------------------ */

/** Called once with the status when a request ends, on a thread of the batcher, or on a thread whose
 * call ends it: a cancel, a wait, a poll or a stop. The outputs have the results if the status is COMPUTE_OK. It delays the next
 * run. It may submit, cancel and release requests, but not wait for them or stop the batcher, and
 * with COMPUTE_BATCHER_BLOCK it must not submit more than there is room for. The request is valid
 * during the call; afterwards only if the caller has not released it. It must return
 * (compute.h). */
typedef void (*compute_batcher_function)(void *user, compute_batcher_request *request,
                                         compute_status status);

typedef struct compute_batcher_submit_options {
  double time_limit;             /**< seconds from this call until the results are there; 0, and
                                  * more than 1e9: none */
  compute_batcher_function done; /**< or NULL */
  void *user;                    /**< for `done` */
  uint64_t reserved[4];          /**< must be zero */
} compute_batcher_submit_options;

/** Submits one item. inputs[i] and outputs[i] are host memory for one item of each of the
 * iterator's inputs and outputs, dense and row-major. The arrays of pointers are copied; the memory
 * must stay valid until the request has ended, and is not used afterwards. `options` may be NULL.
 * Ownership of *request passes to the caller; `request` may be NULL: then only the callback can
 * observe it.
 *
 * A request that has no results within its time limit ends with COMPUTE_ERROR_TIMEOUT: at that time
 * if a thread waits for it or no run is in progress, otherwise after that run. A limit should exceed
 * `wait_microseconds`, which an item may wait for others.
 *
 * Errors: COMPUTE_ERROR_BUSY, _TIMEOUT if there is no room within the time limit, _INVALID_STATE
 * once the batcher stops, _INVALID_ARGUMENT, _NULL_POINTER, _OUT_OF_MEMORY. Then there is no
 * request, and the callback is not called. */
COMPUTE_API compute_status compute_batcher_submit(compute_batcher *batcher,
                                                  const void *const *inputs, void *const *outputs,
                                                  const compute_batcher_submit_options *options,
                                                  compute_batcher_request **request);

/** Submits an item and waits for its results: as compute_batcher_submit with `time_limit` in
 * seconds (0: none) and compute_batcher_wait. */
COMPUTE_API compute_status compute_batcher_run(compute_batcher *batcher, const void *const *inputs,
                                               void *const *outputs, double time_limit);

/** Waits until the request has ended and returns its status; its error is then the calling
 * thread's. With a `limit` in seconds (0: none) the wait ends after it with COMPUTE_ERROR_TIMEOUT,
 * and the request continues; compute_batcher_poll distinguishes this from a request that exceeded
 * its own limit. From within a callback: COMPUTE_ERROR_INVALID_STATE. */
COMPUTE_API compute_status compute_batcher_wait(compute_batcher_request *request, double limit);

/** Whether it has ended, without waiting. */
COMPUTE_API compute_status compute_batcher_poll(compute_batcher_request *request, bool *done);

/** Ends a request with COMPUTE_ERROR_CANCELLED. One that waits leaves the queue. One whose run has
 * begun ends as soon as its memory is no longer in use, and the run continues without it. A request
 * that has ended, or whose results are being copied, is unaffected. */
COMPUTE_API compute_status compute_batcher_cancel(compute_batcher_request *request);

/** Releases the handle; the request continues if it has not ended. NULL is allowed. */
COMPUTE_API void compute_batcher_request_release(compute_batcher_request *request);

/* ---- Statistics ---------------------------------------------------------------------------- */

/** Since the batcher was created. Latencies are from submission, the wait for room not counted, to
 * the end of requests that succeeded. Percentiles are upper bounds, within 10 %. */
typedef struct compute_batcher_info {
  uint64_t submitted, succeeded, failed, cancelled, timed_out;
  uint64_t refused;     /**< COMPUTE_ERROR_BUSY, or no room within the time limit */
  uint64_t runs;        /**< without the repetitions for single items after a failure */
  uint64_t items;       /**< of all runs: items / runs is the mean size */
  uint64_t sizes[13];   /**< runs with 1, 2 … 3, 4 … 7, … 4096 items */
  uint64_t repeated;    /**< items that were run alone, because their run had failed */
  uint64_t on_cpu;      /**< items repeated on the CPU, because their device had failed */
  int64_t waiting;      /**< requests in the queue now */
  int64_t most_waiting; /**< the most that ever were */
  int64_t running;      /**< requests in runs now */
  double busy;          /**< seconds in which a device had a run, summed over the devices */
  double mean_wait, longest_wait;            /**< seconds in the queue */
  double mean_latency, longest_latency;      /**< seconds */
  double latency_50, latency_90, latency_99; /**< percentiles, in seconds */
  uint64_t reserved[8];
} compute_batcher_info;

COMPUTE_API compute_status compute_batcher_describe(compute_batcher *batcher,
                                                    compute_batcher_info *info);

#ifdef __cplusplus
}
#endif
#endif
