/* SPDX-License-Identifier: MIT */
/* The batch iterator under random use and misuse. A seed determines a case, its callbacks execute
 * it, and the results are checked. Nothing here ends a test: errors are recorded for the thread
 * that may. */
#ifndef BATCH_MISUSE_H
#define BATCH_MISUSE_H

#include <stdatomic.h>

#include "compute/compute.h"
#include "support/harness/values.h"

enum {
  MISUSE_PORTS = 3,   /* also the threads of CANCEL_AT_UNLOCK: caller, reader, step */
  MISUSE_DEVICES = 4, /* of an iterator */
  MISUSE_TROUBLES = 3,
  MISUSE_RUNS = 3, /* of an iterator, in sequence */
  MISUSE_ITEMS = 160,
  MISUSE_WIDTH = 7,
  MISUSE_TEXT = 640
};

#define MISUSE_ENDLESS ((int64_t)1 << 40)

/* Shared by all cases of a round. */
typedef struct misuse_round {
  compute_context *context;
  compute_device *devices[8]; /* choices of a case; the CPU is the first */
  int device_count;
  bool faults; /* allocations, the pool's budget or a driver fail at random */
} misuse_round;

typedef enum misuse_way { WAY_CALL, WAY_ARRAY, WAY_FILE, WAY_DISCARD } misuse_way;

typedef enum misuse_kind {
  SOURCE_ENDS, /* fewer items than promised */
  SOURCE_FAILS,
  SOURCE_LIES, /* reports more items than requested, or a negative number */
  SINK_FAILS,
  STEP_FAILS,
  DEVICE_FAILS, /* the step reports a failed device */
  CANCEL_IN_SOURCE,
  CANCEL_IN_SINK,
  CANCEL_IN_STEP,
  PROGRESS_CANCELS,
  CANCEL_AT_UNLOCK, /* between any two steps of the iterator, in one of three threads */
  THREAD_CANCELS,   /* as soon as the run is visible, or later */
  THREAD_RUNS,      /* another thread runs the same iterator */
  TROUBLE_KINDS
} misuse_kind;

typedef struct misuse_trouble {
  misuse_kind kind;
  int port;
  int64_t item; /* its position: the item; for the progress function, unlocks and threads: the
                 * number of calls, unlocks and microseconds before it; negative: when the run is
                 * visible */
  compute_status status;
} misuse_trouble;

/* An iterator. */
typedef struct misuse_case {
  uint64_t seed;
  int worker; /* number of its scratch files */
  bool by_step, all_devices;
  int device[MISUSE_DEVICES], device_count, width, inputs, outputs, runs;
  int64_t batch;
  uint32_t slots;
  uint64_t memory;
  compute_fallback fallback;
  bool builder_fails;
} misuse_case;

/* A run of an iterator, and the observations of its callbacks. */
typedef struct misuse_run {
  const misuse_case *of;
  const misuse_round *round;
  compute_batch *batch;
  uint64_t seed;
  int64_t items;           /* if nothing fails */
  bool until_end, endless; /* endless: the callbacks continue until it is cancelled */
  misuse_way source[MISUSE_PORTS], sink[MISUSE_PORTS];
  uint64_t offset; /* for files */
  int delay;       /* maximal microseconds of a callback; 0: none */
  double progress_seconds;
  bool progress;
  misuse_trouble trouble[MISUSE_TROUBLES];
  int trouble_count;
  float *in[MISUSE_PORTS], *out[MISUSE_PORTS];
  struct misuse_port {
    struct misuse_run *run;
    int number;
    int64_t next; /* item of the next call */
    bool ended;   /* no further call is allowed */
  } source_port[MISUSE_PORTS], sink_port[MISUSE_PORTS];
  atomic_int_fast64_t cut; /* items from here on cannot be complete */
  atomic_bool cancelled;   /* by a callback, before its batch was delivered */
  atomic_bool armed[MISUSE_PORTS], over;
  int64_t reported; /* items reported to the progress function */
  int reports;
  int64_t reads; /* calls of sources */
} misuse_run;

/* The argument of builders and steps. */
typedef struct misuse_user {
  const misuse_case *of;
  misuse_run *run; /* in progress; NULL while the iterator is made */
} misuse_user;

/* ---- misuse_draw.c: the contents of a case ------------------------------------------------- */

void misuse_draw_case(const misuse_round *round, uint64_t seed, misuse_case *drawn);
void misuse_draw_run(const misuse_round *round, const misuse_case *of, uint64_t seed,
                     misuse_run *drawn);

/* Returns the first trouble of a kind, at this port if it has ports; or NULL. */
const misuse_trouble *misuse_find(const misuse_run *run, misuse_kind kind, int port);

/* Describes a case for a failure's message. */
void misuse_describe(const misuse_case *c, const misuse_run *run, char text[MISUSE_TEXT]);

/* ---- misuse_call.c: the callbacks ---------------------------------------------------------- */

float misuse_input(int port, int64_t item, int element);
float misuse_output(const misuse_case *c, int port, int64_t item, int element);

/* `user` is a misuse_user. */
void misuse_build(void *user, compute_graph *graph, int64_t items, const compute_node *inputs,
                  compute_node *outputs);
compute_status misuse_step(void *user, const compute_batch_step *step);
/* `user` is the port. */
compute_status misuse_read(void *user, int64_t first, int64_t items, void *data, int64_t *count);
compute_status misuse_write(void *user, int64_t first, int64_t items, const void *data);
/* Makes the calling thread, which is `port` of CANCEL_AT_UNLOCK, cancel the run later. */
void misuse_arm_unlock(misuse_run *run, int port);

/* `user` is the run. */
bool misuse_progress(void *user, const compute_batch_progress *progress);

/* Pauses for 0 to `most` microseconds, or sometimes only yields to other threads. */
void misuse_pause(uint64_t seed, int most);

/* ---- misuse_run.c: executing and checking a case ------------------------------------------- */

void misuse_carry_out(const misuse_round *round, uint64_t seed, int worker);

/* Records an error; the first one is kept. */
void misuse_wrong(const misuse_run *run, const char *format, ...) COMPUTE_PRINTF(2, 3);
bool misuse_failure(char text[2 * MISUSE_TEXT]);

typedef struct misuse_counts {
  int64_t complete, ended; /* runs: all items, or an expected failure */
  int64_t refused;         /* invalid iterators and runs */
} misuse_counts;

misuse_counts misuse_count(void);

#endif
