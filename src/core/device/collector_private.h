/* SPDX-License-Identifier: MIT */
/* Internals of the collector, for the files that fill and print it. */
#ifndef DEVICE_COLLECTOR_PRIVATE_H
#define DEVICE_COLLECTOR_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/device/collector.h"

enum { PROFILE_BUCKETS = 4096 };

/* Work whose end time the device has not reported yet. */
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
  int64_t origin; /* start of the timeline */
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
  _Atomic uint32_t pending_count; /* written under the lock, read without it */
  _Atomic uint32_t timing;        /* timers in use by intervals in progress */
  uint64_t generation;            /* number of clears so far */
  int64_t on_since, on_time;
  profile_note *notes;
  uint32_t note_count;
};

/* Finds or adds the row for a queue's or thread's number, or for `name`. Returns 0 if the table is
 * full. The caller holds the lock. */
uint16_t profile_row_of(profile_collector *p, const compute_device *device, uint32_t number,
                        const char *name);
uint16_t profile_thread_row(profile_collector *p);

/* Adds the record to the sums and to the timeline. The caller holds the lock. */
void profile_store(profile_collector *p, const profile_record *record, bool by_device);

/* Copies entry `number`. The text and detail still belong to the entry. */
void profile_entry_copy(profile_collector *p, uint32_t number, profile_entry *copy);

/* Copies the note at `index`. Returns false past the last note. */
bool profile_note_copy(profile_collector *p, uint32_t index, profile_note *copy);

#endif
