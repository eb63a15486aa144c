/* SPDX-License-Identifier: MIT */
/** @file
 * A profile of a context: sums for each kernel and transfer, and a timeline.
 *
 * Recording is off until compute_profile_start; it then costs a few hundred nanoseconds per step.
 * While off, its cost is not measurable. Sums (count, mean, median, …) are kept for every kernel in
 * constant memory, however long the context records; the timeline keeps the latest records and
 * counts the dropped ones. On devices with timers the times are the device's own; elsewhere they
 * are the host's, read around each call. */
#ifndef COMPUTE_PROFILE_H
#define COMPUTE_PROFILE_H

#include "compute/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  /** A device that can record a plan's steps and run them as a whole (CUDA graphs) shows them as
   * one span. With this flag it runs them one by one, which is slower, and each is timed. */
  COMPUTE_PROFILE_STEPS = 1 << 0,
  COMPUTE_PROFILE_NO_TIMELINE = 1 << 1 /**< sums only */
};

typedef struct compute_profile_options {
  uint32_t flags;            /**< COMPUTE_PROFILE_… */
  uint32_t timeline_records; /**< kept at most, 48 bytes each; 0: 65536 */
  uint64_t reserved[6];      /**< must be zero */
} compute_profile_options;

/** Starts recording, continues after a stop, or changes the options (changing the size of the
 * timeline empties it). `options` may be NULL. Runs in progress are recorded from their next step
 * on. COMPUTE_ERROR_NULL_POINTER, _INVALID_ARGUMENT, _OUT_OF_MEMORY. Thread-safe, like all of
 * these. */
COMPUTE_API compute_status compute_profile_start(compute_context *context,
                                                 const compute_profile_options *options);

/** Stops recording; the records stay until compute_profile_clear. COMPUTE_ERROR_NULL_POINTER. */
COMPUTE_API compute_status compute_profile_stop(compute_context *context);

/** Deletes sums, timeline and the texts of fallbacks; recording continues if it was on. The
 * counters of fallbacks, pools and builds are kept. COMPUTE_ERROR_NULL_POINTER. */
COMPUTE_API compute_status compute_profile_clear(compute_context *context);

/** Writes a JSON report of the context to `path`. For each device it has:
 * - name, model and driver;
 * - the counters of its pool (compute_pool_statistics) and of its builds
 *   (compute_build_statistics);
 * - the counters of the disk cache, and the fallbacks with their texts;
 * - all records, for kernels, transfers, builds, runs, waits, passes of compilations and spans of
 *   the caller: count, total, mean, median, 90th percentile, extremes, bytes, FLOP, and rates, as
 *   fractions of the device's measured peaks where those are known. Median and percentile are
 *   accurate to within 4 %.
 *
 * The file is replaced by renaming, so that a reader never sees half of it; a pipe, a device file
 * or a link is written to directly. Devices of modules that are not open yet are omitted. Waits for
 * work that was submitted with a device's own timers. COMPUTE_ERROR_FILE, _NULL_POINTER,
 * _OUT_OF_MEMORY.
 *
 * With COMPUTE_PROFILE=FILE in the environment every context records from its opening on and writes
 * this report when it closes. */
COMPUTE_API compute_status compute_profile_write(compute_context *context, const char *path);

/** Writes the timeline in the Chrome trace event format, which Perfetto (ui.perfetto.dev) opens: a
 * process for each device with a row for each queue, and one for the host with a row for each
 * thread and each named row of spans. Errors and the file as above. With COMPUTE_TRACE=FILE in the
 * environment every context records from its opening on and writes this when it closes. */
COMPUTE_API compute_status compute_profile_write_trace(compute_context *context, const char *path);

/** The sums as a table, in descending order of time; free it with compute_text_free.
 * COMPUTE_ERROR_NULL_POINTER, _OUT_OF_MEMORY. */
COMPUTE_API compute_status compute_profile_text(compute_context *context, char **text);

/* ---- Spans of the caller ------------------------------------------------------------------- */

/** A stretch of time in progress. bytes and flops may be set before its end, for the rates. */
typedef struct compute_profile_span {
  uint64_t bytes;
  uint64_t flops;
  uint64_t reserved[4]; /**< the library's */
} compute_profile_span;

/** Begins a span called `name`; nothing happens while recording is off. It appears on the row `row`
 * of the host, or with NULL on the calling thread's. Spans of one row should nest. Any thread may
 * end it. The texts are copied; use few names, and rows for the parts that vary. */
COMPUTE_API compute_profile_span compute_profile_span_begin(compute_context *context,
                                                            const char *row, const char *name);
COMPUTE_API void compute_profile_span_end(compute_context *context,
                                          const compute_profile_span *span);

/* ---- Fallbacks ----------------------------------------------------------------------------- */

/** Counters of fallbacks since the context was opened, whether or not it records. */
typedef struct compute_fallback_statistics {
  uint64_t steps_on_cpu;      /**< a device refused a step when a plan was compiled */
  uint64_t other_kernels;     /**< a kernel did not build; another implementation was used */
  uint64_t evictions;         /**< device memory ran out; cached blocks were released */
  uint64_t smaller_batches;   /**< a batch was halved */
  uint64_t runs_on_cpu;       /**< a run failed on the device and was repeated on the CPU */
  uint64_t devices_recovered; /**< a lost device was brought back */
  uint64_t split_transfers;   /**< a copy failed and was repeated in pieces */
  uint64_t reserved[9];
} compute_fallback_statistics;

/** COMPUTE_ERROR_NULL_POINTER. Thread-safe. */
COMPUTE_API compute_status compute_fallback_query(const compute_context *context,
                                                  compute_fallback_statistics *statistics);

#ifdef __cplusplus
}
#endif
#endif
