/* SPDX-License-Identifier: MIT */
/* Recording for profiles. It belongs to the device room, so that every room can call it.
 *
 * To record work on a queue, set a mark before and after it:
 *
 *   profile_mark mark = {0};
 *   if (profile_is_on(context)) profile_begin(queue, &mark);
 *   status = …enqueue…;
 *   if (mark.on) profile_end(&mark, status, entry, work);
 *
 * An entry holds the sums for one device, kind and name. Entries live as long as the context, so a
 * plan's step can store the number of its entry. */
#ifndef DEVICE_COLLECTOR_H
#define DEVICE_COLLECTOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/device/device.h"

/* ---- Histograms ------------------------------------------------------------------------------ */

/* The distribution of any number of durations in constant memory. Count, sum and extremes are
 * exact. Quantiles come from buckets of 1/16 octave. */
enum { HISTOGRAM_OCTAVES = 40, HISTOGRAM_BUCKETS = (HISTOGRAM_OCTAVES + 1) * 16 };

/* Times in nanoseconds. An all-zero histogram is empty. */
typedef struct histogram {
  uint64_t count, sum, least, most;
  uint32_t bucket[HISTOGRAM_BUCKETS];
} histogram;

void histogram_add(histogram *h, uint64_t nanoseconds);

/* The quantile `q` (0 … 1); 0 if the histogram is empty. */
double histogram_quantile(const histogram *h, double q);

/* ---- Fallbacks ------------------------------------------------------------------------------- */

/* Deviations from the requested execution after a failure or refusal. All of them are logged and
 * counted in one place. */
typedef enum fallback_kind {
  FALLBACK_STEP_ON_CPU = 0,  /* the device refused a step when the plan was compiled */
  FALLBACK_OTHER_KERNEL = 1, /* a kernel did not build; another implementation was used */
  FALLBACK_EVICTED = 2,      /* device memory ran out; cached blocks were released */
  FALLBACK_SMALLER_BATCH = 3,
  FALLBACK_RUN_ON_CPU = 4, /* a run failed on the device and was repeated on the CPU */
  FALLBACK_DEVICE_RECOVERED = 5,
  FALLBACK_SPLIT_TRANSFER = 6, /* a copy failed and was repeated in pieces */
  FALLBACK_COUNT
} fallback_kind;

/* "step_on_cpu", …; a constant string. */
const char *fallback_name(fallback_kind kind);

/* Counts the event, adds it to the profile and logs it: as a warning if `loud`, otherwise as
 * information. `device` may be NULL. Thread-safe; sets no error. */
void fallback_note(compute_context *context, const compute_device *device, fallback_kind kind,
                   bool loud, const char *format, ...) COMPUTE_PRINTF(5, 6);

/* ---- Records --------------------------------------------------------------------------------- */

/* Bits of compute_context.watch: features that each run checks for. */
enum {
  WATCH_RECORD = 1 << 0,  /* the profile is on */
  WATCH_STEPS = 1 << 1,   /* runs go step by step instead of as a recording */
  WATCH_VALIDATE = 1 << 2 /* results are compared in double precision */
};

typedef enum profile_kind {
  PROFILE_KERNEL = 0,
  PROFILE_TRANSFER,
  PROFILE_RECORDING, /* a plan's steps, submitted together */
  PROFILE_RUN,
  PROFILE_BUILD,
  PROFILE_PASS,   /* of the compilation of a plan, and the whole compilation */
  PROFILE_SUBMIT, /* the host's part of a run on an asynchronous device */
  PROFILE_WAIT,
  PROFILE_SPAN,
  PROFILE_EVENT, /* an instant, not an interval */
  PROFILE_KINDS
} profile_kind;

typedef struct profile_work {
  uint64_t bytes, flops;
} profile_work;

typedef struct profile_entry {
  const compute_device *device; /* NULL: the host */
  profile_kind kind;
  char *text;   /* "map relu(in0)" */
  char *detail; /* "64x64"; may be "" */
  uint64_t hash;
  uint32_t next; /* next entry in the same bucket */
  /* Sums, guarded by the lock. */
  histogram times;
  uint64_t bytes, flops;
  uint64_t untimed;        /* intervals without a time: no timer was free, or it failed */
  bool by_device, by_host; /* which clock measured them */
} profile_entry;

/* One record of the timeline. */
typedef struct profile_record {
  int64_t begin, end; /* CLOCK_MONOTONIC, nanoseconds */
  profile_work work;
  uint32_t entry; /* 0: the table of entries was full */
  uint16_t row;   /* 0: the table of rows was full */
  uint16_t note;  /* for an event: 1 + the index of its note */
} profile_record;

/* A row of the timeline. */
typedef struct profile_row {
  const compute_device *device; /* NULL: the host */
  uint32_t number;              /* number of the queue or thread */
  char name[48];                /* the caller's name for the row, or "" */
} profile_row;

typedef struct profile_note {
  fallback_kind kind;
  char device[32];
  char text[224];
  uint64_t count;
} profile_note;

enum {
  PROFILE_ENTRIES = 16384, /* 2.7 KB each, allocated as needed */
  PROFILE_ROWS = 1024,
  PROFILE_NOTES = 64,
  PROFILE_PENDING = 4096, /* measured intervals whose timers have not been read yet */
  PROFILE_DEFAULT_RECORDS = 65536
};

typedef struct profile_collector profile_collector;

/* Returns NULL when out of memory. Call profile_collect before the devices close: it releases
 * their timers. Release the profile after the devices, because closing them may still record a
 * fallback. */
profile_collector *profile_create(compute_context *context);
void profile_release(profile_collector *collector);

static inline uint32_t watch_flags(const compute_context *context) {
  return atomic_load_explicit(&context->watch, memory_order_relaxed);
}

/* Returns false for NULL. */
static inline bool profile_is_on(const compute_context *context) {
  return context && (watch_flags(context) & WATCH_RECORD) != 0;
}

/* Finds or adds the entry and returns its number; 0 if the table is full. */
uint32_t profile_entry_of(compute_context *context, const compute_device *device, profile_kind kind,
                          const char *text, const char *detail);

/* An interval in progress on a queue. All zero: not recorded. */
typedef struct profile_mark {
  compute_queue *queue;
  int64_t begin;
  void *timer; /* the device's timer; NULL: the host's clock */
  bool on;
  bool untimed; /* too many timers are waiting to be read */
} profile_mark;

/* These calls never wait, fail or set an error. Call them in pairs. */
void profile_begin(compute_queue *queue, profile_mark *mark);
void profile_end(profile_mark *mark, compute_status status, uint32_t entry, profile_work work);

/* profile_host records a host interval that ends now, on the calling thread's row, and profile_pass
 * one of a compilation, if recording is on. profile_event records an instant. */
void profile_host(compute_context *context, uint32_t entry, int64_t begin, profile_work work);
void profile_pass(compute_context *context, const char *text, const char *detail, int64_t begin);
void profile_event(compute_context *context, const compute_device *device, fallback_kind kind,
                   const char *text);

/* Call these around a wait for a queue. They record the interval on the host's row, and read the
 * timers of finished work. */
int64_t profile_wait_begin(const compute_queue *queue);
void profile_wait_end(const compute_queue *queue, int64_t begin);

/* Waits for and reads the timers of work on `queue`, or on all queues if it is NULL. Cheap if there
 * are none. */
void profile_collect(compute_context *context, const compute_queue *queue);

#endif
