/* SPDX-License-Identifier: MIT */
/* The common parts of compute-bench: the session, cases and records. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>

#include "compute/compute.h"
#include "programs/common/option.h"
#include "programs/common/terminal.h"
#include "judge.h"
#include "machine_limits.h"
#include "peer.h"

typedef struct bench_peer_list bench_peer_list; /* peers.h */

/* The data of a fit's record; all 0 in other records. */
typedef struct bench_fit {
  int32_t rows, columns, parameters;
  int64_t rois;
  double rate, rate_one_thread; /* ROIs per second */
  double iterations;            /* mean of all ROIs */
  double converged;             /* fraction */
  double std_over_bound; /* spread of x around the truth, in units of the Cramér–Rao bound */
  double worst_std_over_bound; /* the same for the parameter furthest from 1 */
  double worst_bias;           /* largest mean error, in units of the bound */
  double bound_error;          /* of reported uncertainties, compared with the bound in double
                                * precision */
  double p_mean;               /* mean of the p-values, expected 1/2; 0: there are none */
  double peak_bytes;           /* of a process that does nothing else */
  double frames_rate;          /* frames per second */
} bench_fit;

/* The data of a network's record; all 0 in other records. */
typedef struct bench_training {
  double rate; /* samples per second */
  double steps;
  double planned_bytes, measured_bytes; /* planned peak of a step */
  double growth_bytes;                  /* of the process, from the first steps to the last */
} bench_training;

/* The data of a record of the suite "group"; all 0 in other records. */
typedef struct bench_group {
  int32_t ranks;
  bool simulated;                   /* by a model, which measurements of this run feed */
  int64_t bytes;                    /* of a collective call */
  int64_t items;                    /* of a step, over all ranks */
  double afterwards_ms;             /* of a step whose communication follows the backward pass */
  double alone_ms;                  /* of a step without communication */
  double latency_us, link_gbytes_s; /* of the model's link */
} bench_group;

/* One line of the result. Numbers that do not apply to a case are NaN. */
struct bench_record {
  const char *suite, *name, *dtype;
  char device[32];
  double ms, ms_p10, ms_p90;
  double gflops, gbytes_s;
  double max_rel_err;
  bench_verdict verdict;
  char peer[40]; /* "": measured alone */
  double peer_ms;
  bench_fit fit;
  bench_training training;
  bench_group group;
};

typedef struct bench_options {
  option_line line;
  const char *suites; /* "matmul,reduce"; NULL: all */
  const char *device;
  const char *filter;
  const char *json;
  const char *peers; /* "torch,dnnl"; NULL: all; "none" */
  const char *commit;
  const char *plant; /* faults to inject, for tests of this program */
  int64_t threads;   /* 0: all */
  bool quick, list, strict, wide;
  bool prepare;      /* every case once, for the kernel cache alone */
  bool first_result; /* run as the process that first_result.h measures */
  bool fit_memory;   /* run as the process that fit.h measures */
} bench_options;

typedef struct bench_session {
  const bench_options *options;
  compute_context *context;
  compute_device *device;
  compute_device_info info;
  compute_queue *queue;
  compute_process_group *group; /* of the suite "group", or NULL */
  compute_group_info group_info;
  int threads;          /* of the device if it is a CPU, else of the host */
  double first_open_ms; /* the first compute_open of the process, modules loaded from disk */
  bench_limits limits;
  bench_peer_list *peers;
  bench_record *records;
  size_t record_count, record_capacity;
  char **notes; /* skipped cases, warnings: text for the environment object */
  size_t note_count, note_capacity;
  compute_tensor *leak; /* planted */
  progress_bar progress;
  int columns;  /* of standard output */
  bool wide;    /* the table with all its columns */
  bool colours; /* of failures */
} bench_session;

/* BENCH_GPU: in a full run on a device other than the CPU, where the case would take long. */
enum { BENCH_QUICK = 1, BENCH_FULL = 2, BENCH_ALWAYS = 3, BENCH_GPU = 4 };

/* A case. `run` measures it and adds its records, or notes why it cannot. */
typedef struct bench_case bench_case;
struct bench_case {
  const char *name;      /* "matmul_1024" */
  const char *operation; /* row of bench_operations for bench_run_operation */
  compute_dtype dtype;
  int64_t size[BENCH_SIZES];
  uint32_t when;  /* BENCH_QUICK, … */
  uint32_t flags; /* of the plan: COMPUTE_PLAN_… */
  void (*run)(bench_session *session, const char *suite, const bench_case *c);
};

typedef struct bench_suite {
  const char *name, *text;
  const bench_case *cases;
  size_t case_count;
} bench_suite;

/* In run order: overhead comes before the peers' libraries have filled the process. */
#define BENCH_SUITES(SUITE)                                                                        \
  SUITE(overhead)                                                                                  \
  SUITE(elementwise)                                                                               \
  SUITE(matmul)                                                                                    \
  SUITE(reduce)                                                                                    \
  SUITE(conv)                                                                                      \
  SUITE(pool)                                                                                      \
  SUITE(norm)                                                                                      \
  SUITE(train)                                                                                     \
  SUITE(memory)                                                                                    \
  SUITE(fit)                                                                                       \
  SUITE(routing)                                                                                   \
  SUITE(batch)                                                                                     \
  SUITE(faults)                                                                                    \
  SUITE(group)

#define BENCH_SUITE(name) extern const bench_suite bench_suite_##name;
BENCH_SUITES(BENCH_SUITE)
#undef BENCH_SUITE

extern const option_program bench_program;

/* A record for a case with all its numbers NaN, and correct until a function of judge.h finds an
 * error. */
bench_record bench_record_new(const bench_session *session, const char *suite, const bench_case *c);

/* Stores a copy of the record; its line of the table is printed when the case has ended. */
void bench_record_add(bench_session *session, const bench_record *record);

/* Stores a line of text for the reader (a skipped case, a warning), and prints it to stderr. */
void bench_note(bench_session *session, const char *format, ...) COMPUTE_PRINTF(2, 3);

/* Adds a failed record, new or given, with libcompute's last error as the reason. */
void bench_fail(bench_session *session, const char *suite, const bench_case *c, const char *what);
void bench_fail_record(bench_session *session, bench_record *record, const char *what);

/* Closes a context that a case has opened for itself, and fails the case if anything has leaked. */
void bench_close_context(bench_session *session, const char *suite, const bench_case *c,
                         compute_context *context);

/* Runs a case of the table of operations (operations.h) on the device and on the peers. */
void bench_run_operation(bench_session *session, const char *suite, const bench_case *c);

#endif
