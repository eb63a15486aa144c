/* SPDX-License-Identifier: MIT */
/* The log of a compilation's passes. The profile gets their times. COMPUTE_DUMP writes their
 * results as text and for Graphviz. A call after a pass logs both. The time of a pass is the time
 * since the last call; writing does not count.
 *
 * Pass 4 of the process's compilation 12 writes plan-0012-04-fuse.txt and .dot. A pass has the same
 * number in every compilation; passes that do not run write nothing. Without a profile and the
 * variable, each function below is a comparison with NULL. A failed dump fails no compilation. */
#ifndef PLAN_DUMP_H
#define PLAN_DUMP_H

#include "core/base/clock.h"
#include "core/base/dump.h"
#include "core/base/text.h"
#include "plan/compile/lower/lower.h"

/* In execution order. */
#define PLAN_PASSES(PASS)                                                                          \
  PASS(GRAPH, "graph")         /* as recorded by the caller */                                     \
  PASS(FOLD, "fold")           /* with folded constants */                                         \
  PASS(CAPTURE, "capture")     /* the planner's copy, rewritten */                                 \
  PASS(FUSE, "fuse")           /* in clusters, one kernel each; views as layouts */                \
  PASS(REPEAT, "repeat")       /* with cheap kernels in their readers */                           \
  PASS(MERGE, "merge")         /* with small updates in one kernel */                              \
  PASS(CHANNELS, "channels")   /* with channels last */                                            \
  PASS(WITHIN, "within")       /* with values inside the result of a concat */                     \
  PASS(PLACE, "place")         /* with a device for each cluster */                                \
  PASS(ORDER, "order")         /* clusters in execution order */                                   \
  PASS(LOWER, "lower")         /* steps, from here on */                                           \
  PASS(POOLS, "pools")         /* convolutions with their pooling */                               \
  PASS(RESIDUALS, "residuals") /* convolutions with the next addition */                           \
  PASS(SLICES, "slices")       /* for micro-batches */                                             \
  PASS(BANDS, "bands")         /* for row tiles of an image */                                     \
  PASS(PACK, "pack")           /* with prepacked weights */                                        \
  PASS(ARENA, "arena")         /* with an offset for every value: the plan */

typedef enum plan_pass {
  PASS_NONE,
#define PASS(name, text) PASS_##name,
  PLAN_PASSES(PASS)
#undef PASS
} plan_pass;

/* A compilation that is logged. */
typedef struct pass_log {
  const compute_plan *plan;
  dump_folder *folder; /* NULL: no dump */
  uint32_t number;     /* of the process's compilations with a dump, from 1 */
  bool is_timed;
  int64_t begin;      /* of the compilation */
  int64_t pass_begin; /* of the pass in progress */
} pass_log;

/* Fills in `d` and returns it; NULL if neither dumps nor the profile are on. */
pass_log *pass_log_begin(const compute_plan *plan, pass_log *d);

/* Adds the time of the pass that ends now to the profile. */
void pass_log_time(const pass_log *d, plan_pass pass);

/* Adds the times since the last pass ("finish") and of the whole compilation to the profile. `d`
 * may be NULL. */
void pass_log_finish(const pass_log *d);

/* ---- nodes.c, steps.c: for a log that is not NULL ------------------------------------------- */

void dump_write_graph(const pass_log *d, plan_pass pass, const compute_graph *graph,
                      const uint32_t *outputs, uint32_t count, const folding *folded);

typedef struct dump_state {
  const ir *r;
  const fusion *f;
  const lowering *l;
  const uint32_t *order;
} dump_state;

void dump_write_nodes(const pass_log *d, plan_pass pass, const dump_state *state);
void dump_write_steps(const pass_log *d, plan_pass pass, const lowering *l);

/* ---- Calls after a pass ---------------------------------------------------------------------- */

/* With the nodes that `outputs` need of a graph. The values of `folded` replace nodes. */
static inline void pass_log_graph(pass_log *d, plan_pass pass, const compute_graph *graph,
                                  const uint32_t *outputs, uint32_t count, const folding *folded) {
  if (!d) return;
  pass_log_time(d, pass);
  if (d->folder) dump_write_graph(d, pass, graph, outputs, count, folded);
  d->pass_begin = clock_now();
}

/* With the planner's nodes. Unknown parts are NULL: clusters, their devices (l->places) and their
 * order. */
static inline void pass_log_nodes(pass_log *d, plan_pass pass, const ir *r, const fusion *f,
                                  const lowering *l, const uint32_t *order) {
  if (!d) return;
  pass_log_time(d, pass);
  if (d->folder) dump_write_nodes(d, pass, &(const dump_state){r, f, l, order});
  d->pass_begin = clock_now();
}

/* With the steps of a lowering whose `log` may be NULL. */
static inline void pass_log_steps(const lowering *l, plan_pass pass) {
  pass_log *d = l->log;
  if (!d) return;
  pass_log_time(d, pass);
  if (d->folder) dump_write_steps(d, pass, l);
  d->pass_begin = clock_now();
}

/* ---- page.c: the two files of a pass --------------------------------------------------------- */

typedef struct dump_page {
  text_buffer text, dot;
} dump_page;

/* Begins both files with the plan, the pass and `count` `things`. */
void dump_page_begin(dump_page *page, const pass_log *d, plan_pass pass, uint32_t count,
                     const char *things);

/* Writes and releases both files; writes nothing if memory ran out. */
void dump_page_write(dump_page *page, const pass_log *d, plan_pass pass);

/* Adds a text of unknown origin as part of a quoted string, for readers and for Graphviz. Quotes
 * and backslashes are escaped and a newline becomes \n. Other control characters and bytes that are
 * not UTF-8 become '?'. */
void dump_quoted(text_buffer *t, const char *text);

#endif
