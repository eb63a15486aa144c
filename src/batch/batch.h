/* SPDX-License-Identifier: MIT */
/* Internals of a batch iterator.
 *
 * The path of a batch through a run. Each line is one thread; the last line is the caller's thread:
 *
 *   reader                takes a free slot and lets the sources fill it
 *   pipeline, submitting  uploads, submits the work          (for each device)
 *   pipeline, finishing   downloads, waits, repairs          (for each device)
 *   writer                hands the results to the sinks in order, frees the slot
 *
 * A batch_pipeline is the pipeline of one device. A slot belongs to one thread at a time and passes
 * through the lists below, all under one mutex. The number of slots is fixed, so a stage that is
 * ahead runs out of slots and waits: this back-pressure keeps memory constant. Nothing else waits.
 * The consumer of a list ends when its producer has ended or the run is stopped, so no thread waits
 * forever. */
#ifndef BATCH_BATCH_H
#define BATCH_BATCH_H

#include <pthread.h>
#include <stdatomic.h>

#include "compute/batch.h"
#include "core/device/device.h"

typedef struct batch_port {
  compute_dtype dtype; /* COMPUTE_DTYPE_NONE: still unknown */
  compute_shape item;
  uint64_t bytes; /* of one item */
} batch_port;

/* The shape of `items` items. */
compute_shape batch_shape(compute_shape item, int64_t items);

/* ---- Work on one device (work.c) ----------------------------------------------------------- */

typedef struct batch_plan {
  struct batch_plan *next;
  int64_t items;
  uint32_t users; /* calls that are submitting it */
  compute_plan *plan;
  compute_node inputs[COMPUTE_BATCH_MAX_PORTS], outputs[COMPUTE_BATCH_MAX_PORTS];
} batch_plan;

/* A parameter on another device, and its copy on this one. */
typedef struct batch_copy {
  compute_tensor *original, *copy;
} batch_copy;

typedef struct batch_work {
  compute_batch *batch;
  compute_device *device;
  pthread_mutex_t mutex; /* guards the lists */
  batch_plan *plans;     /* most recently used first */
  batch_copy *copies;
  size_t copy_count, copy_capacity;
} batch_work;

/* ---- Slots (slot.c) ------------------------------------------------------------------------ */

/* A slot's data for one port. */
typedef struct batch_buffer {
  compute_tensor *tensor; /* [capacity, item…] on the device, or NULL */
  void *host; /* the reader's or writer's memory: the tensor's, or staging; NULL while batches are
               * copied from or to the caller's array */
  bool staged, locked;   /* `host` is staging; it is page-locked */
  int64_t capacity;      /* items */
  void *data;            /* of the current batch: `host`, or part of the caller's array */
  compute_tensor *bound; /* tensor of the current batch, for the work */
} batch_buffer;

typedef struct batch_slot {
  struct batch_slot *next;
  struct batch_pipeline *pipeline;
  compute_queue *queue;
  batch_buffer inputs[COMPUTE_BATCH_MAX_PORTS], outputs[COMPUTE_BATCH_MAX_PORTS];
  int64_t sequence, first, items; /* of the current batch */
  int64_t room, most;             /* the pipeline's `items` and `most` when the slot was taken */
  int64_t began;                  /* clock_now when it was submitted; 0: not used for timing */
  bool downloading;               /* the results' copies are submitted */
  compute_status status;          /* result of submitting */
  compute_error error;            /* and its detail */
} batch_slot;

typedef struct batch_list {
  batch_slot *first, *last;
} batch_list;

/* Total nanoseconds that a stage was busy, and the start of its current busy period; 0: idle. */
typedef struct batch_watch {
  int64_t busy, since;
} batch_watch;

/* ---- Device pipelines (pipeline.c) --------------------------------------------------------- */

/* The pipeline of one device of the list: its slots and its two threads. */
typedef struct batch_pipeline {
  compute_batch *batch;
  batch_work *work;
  batch_slot *slots;
  bool direct;      /* the host addresses the device's memory */
  bool processor;   /* the CPU: it computes in the caller's arrays */
  bool stages;      /* the device's own copies take the caller's arrays */
  atomic_bool lost; /* the device has failed permanently; all batches go to the CPU */
  /* Guarded by the mutex of the flow: */
  int64_t most;  /* most items of a batch: as chosen, or fewer after running out of memory */
  int64_t items; /* of the next batch */
  batch_list ready, submitted;
  bool submitting_ended;
  uint32_t under_way; /* slots between the reader and the writer */
  uint32_t on_device; /* slots that the two threads have */
  int64_t items_under_way;
  int64_t items_complete; /* of this run */
  double rate;            /* items per second of busy time; 0: unknown */
  int64_t last_finish;    /* clock_now */
  batch_watch working;    /* while the two threads have a slot */
  pthread_cond_t ready_changed, submitted_changed, device_changed;
} batch_pipeline;

/* ---- One run (flow.c) ---------------------------------------------------------------------- */

typedef struct batch_flow {
  pthread_mutex_t mutex;
  pthread_cond_t free_changed, done_changed;
  batch_list free;       /* slots without a batch, the longest idle first */
  batch_list done;       /* computed, in any order */
  int64_t total;         /* the end of the items, or COMPUTE_BATCH_UNTIL_END */
  int64_t first_item;    /* 0, except for a rank of a group */
  int64_t next_item;     /* first item that is not yet in a batch */
  int64_t next_sequence; /* number of the next batch */
  int64_t delivered;     /* batches handed to the sinks */
  int64_t stop_at;       /* batches from this number on are discarded */
  bool reading_ended;    /* no further batch will come, */
  bool all_read;         /* and not because the run was stopped */
  compute_status status; /* reason why batch `stop_at` is not delivered */
  compute_error error;
  int64_t halved, on_cpu;
  batch_watch running, reading, writing; /* the run, its sources, its sinks */
} batch_flow;

struct compute_batch {
  compute_context *context;
  compute_batch_build_function build;
  compute_batch_step_function step;
  void *user;
  batch_port inputs[COMPUTE_BATCH_MAX_PORTS], outputs[COMPUTE_BATCH_MAX_PORTS];
  uint32_t input_count, output_count;
  int64_t given; /* batch size from the caller; 0: chosen here */
  uint32_t slot_count;
  uint64_t memory;
  compute_fallback fallback;
  uint32_t flags;
  char *name;
  pthread_mutex_t build_mutex; /* locked while the caller's builder runs */
  batch_work *works;           /* one per distinct device, and one for the CPU */
  uint32_t work_count;
  batch_work *cpu_work; /* for fallback to the CPU; NULL if there is no CPU */
  batch_pipeline *pipelines;
  uint32_t pipeline_count;
  bool flow_opened;
  pthread_mutex_t run_mutex; /* guards `running` */
  bool running;
  atomic_bool cancelled;
  batch_flow flow;
  /* For the current run: */
  const compute_batch_source *sources;
  const compute_batch_sink *sinks;
  int source_files[COMPUTE_BATCH_MAX_PORTS], sink_files[COMPUTE_BATCH_MAX_PORTS]; /* or −1 */
};

/* "batch", or "batch 'name'", for messages. */
const char *batch_label(const compute_batch *batch, char *text, size_t bytes);

/* ---- pipeline.c: the pipeline of a device: one thread submits, one finishes ---------------- */

/* The threads' functions; the argument is the batch_pipeline. They return when no more batches will
 * come. */
void *pipeline_submit_all(void *pipeline);
void *pipeline_finish_all(void *pipeline);

/* Stops using the device because of the thread's last error: batches that have not begun go to the
 * CPU. Returns false if there is no CPU or the policy forbids it. */
bool pipeline_give_up(batch_pipeline *pipeline);

/* True if this is a failure of the device, and the policy lets the CPU repeat the work. */
bool pipeline_may_repeat(const batch_pipeline *pipeline, compute_status cause);

/* Records that `items` items are too large for the device's memory. Returns the next smaller
 * size. */
int64_t pipeline_halve(batch_pipeline *pipeline, int64_t items);

/* ---- port.c: sources and sinks: arrays, files, callbacks ----------------------------------- */

/* Checks the caller's sources and sinks, opens files, and sets flow.total if the sizes of the files
 * determine it. In a group, all ranks learn of any failure, including a failed `status`; otherwise
 * each rank takes its part. Call ports_close even after a failure. It returns the status of
 * completing the output files. */
compute_status ports_open(compute_batch *batch, const compute_batch_run_options *options,
                          compute_status status);
compute_status ports_close(compute_batch *batch);

/* Fills the inputs of a slot. *count is the number of items that every source delivered. It is less
 * than slot->items if a source has ended or failed; the returned status is the failure. */
compute_status ports_read(const compute_batch *batch, batch_slot *slot, int64_t *count);

/* Passes the outputs of a slot to the sinks. */
compute_status ports_write(const compute_batch *batch, const batch_slot *slot);

#endif
