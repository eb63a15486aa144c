/* SPDX-License-Identifier: MIT */
/* Internals of the collector: for the files that fill and print it. */
#ifndef DEVICE_COLLECTOR_PRIVATE_H
#define DEVICE_COLLECTOR_PRIVATE_H

#include <pthread.h>

#include "core/device/collector.h"

enum { PROFILE_BUCKETS = 4096 };

/* Work whose end the device has yet to report. */
typedef struct profile_pending {
  const compute_queue *queue; /* only compared */
  const compute_device *device;
  void *timer[2];
  uint64_t generation;
  profile_record record;
} profile_pending;

struct profile_collector {
  pthread_mutex_t mutex;
  compute_context *context;
  int64_t origin; /* the timeline's origin */
  profile_entry **entries;
  uint32_t entry_count; /* number n is entries[n - 1] */
  uint32_t bucket[PROFILE_BUCKETS];
  uint64_t unlisted; /* records without an entry */
  profile_row *rows;
  uint32_t row_count; /* number n is rows[n - 1] */
  bool timeline;
  profile_record *records; /* a ring */
  uint32_t capacity;
  uint64_t written, dropped; /* since the last clear */
  profile_pending *pending;
  uint32_t pending_count; /* changed under the lock, read without */
  uint32_t timing;        /* atomic: timers of intervals still in progress */
  uint64_t generation;    /* counts the clears */
  int64_t on_since, on_time;
  profile_note *notes;
  uint32_t note_count;
};

/* The row of a queue (NULL: of the calling thread) or a row called `name`. Lock held. */
uint16_t profile_row_of(profile_collector *p, const compute_device *device, uint32_t number,
                        const char *name);
uint16_t profile_thread_row(profile_collector *p);

/* Adds to the sums and to the timeline. Lock held. */
void profile_store(profile_collector *p, const profile_record *record, bool by_device);

/* An entry as it is now, and how many there are. The text and detail are the entry's own. */
void profile_entry_copy(profile_collector *p, uint32_t number, profile_entry *copy);

/* A copy of the note at `index`; false past the last. */
bool profile_note_copy(profile_collector *p, uint32_t index, profile_note *copy);

#endif
