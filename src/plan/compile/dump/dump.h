/* SPDX-License-Identifier: MIT */
/* COMPUTE_DUMP: writes the result of each compilation pass as text and for Graphviz.
 *
 * Pass 4 of the process's compilation 12 writes plan-0012-04-fuse.txt and .dot. A pass has the same
 * number in every compilation; passes that do not run write nothing. Without the variable, each
 * function below is a comparison with NULL. A failed dump never fails a compilation. */
#ifndef PLAN_DUMP_H
#define PLAN_DUMP_H

#include "core/base/dump.h"
#include "core/base/text.h"
#include "plan/compile/lower/lower.h"

/* In execution order. */
#define DUMP_PASSES(PASS)                                                                          \
  PASS(GRAPH, "graph")         /* as recorded by the caller */                                     \
  PASS(FOLD, "fold")           /* with folded constants */                                         \
  PASS(CAPTURE, "capture")     /* the planner's copy, rewritten */                                 \
  PASS(FUSE, "fuse")           /* in clusters, one kernel each; views as layouts */                \
  PASS(REPEAT, "repeat")       /* with cheap kernels in their readers */                           \
  PASS(MERGE, "merge")         /* with small updates in one kernel */                              \
  PASS(CHANNELS, "channels")   /* with channels last */                                            \
  PASS(PLACE, "place")         /* with a device for each cluster */                                \
  PASS(ORDER, "order")         /* clusters in execution order */                                   \
  PASS(LOWER, "lower")         /* steps, from here on */                                           \
  PASS(POOLS, "pools")         /* convolutions with their pooling */                               \
  PASS(RESIDUALS, "residuals") /* convolutions with the next addition */                           \
  PASS(SLICES, "slices")       /* for micro-batches */                                             \
  PASS(BANDS, "bands")         /* for row tiles of an image */                                     \
  PASS(PACK, "pack")           /* with prepacked weights */                                        \
  PASS(ARENA, "arena")         /* with an offset for every value: the plan */

typedef enum dump_pass {
  DUMP_NONE,
#define PASS(name, text) DUMP_##name,
  DUMP_PASSES(PASS)
#undef PASS
} dump_pass;

/* One compilation. */
typedef struct plan_dump {
  dump_folder *folder;
  uint32_t number; /* of the process's compilations, from 1 */
  const compute_plan *plan;
} plan_dump;

/* Fills in `d` and returns it; NULL if dumps are off. */
const plan_dump *dump_begin(const compute_plan *plan, plan_dump *d);

/* ---- nodes.c, steps.c: for a dump that is not NULL ------------------------------------------- */

void dump_write_graph(const plan_dump *d, dump_pass pass, const compute_graph *graph,
                      const uint32_t *outputs, uint32_t count, const folding *folded);

typedef struct dump_state {
  const ir *r;
  const fusion *f;
  const lowering *l;
  const uint32_t *order;
} dump_state;

void dump_write_nodes(const plan_dump *d, dump_pass pass, const dump_state *state);
void dump_write_steps(const plan_dump *d, dump_pass pass, const lowering *l);

/* ---- Calls of the passes --------------------------------------------------------------------- */

/* Writes the nodes that `outputs` need of a graph. The values of `folded` replace nodes. */
static inline void dump_graph(const plan_dump *d, dump_pass pass, const compute_graph *graph,
                              const uint32_t *outputs, uint32_t count, const folding *folded) {
  if (d) dump_write_graph(d, pass, graph, outputs, count, folded);
}

/* Writes the planner's nodes. Unknown parts are NULL: clusters, their devices (l->places) and their
 * order. */
static inline void dump_nodes(const plan_dump *d, dump_pass pass, const ir *r, const fusion *f,
                              const lowering *l, const uint32_t *order) {
  if (d) dump_write_nodes(d, pass, &(const dump_state){r, f, l, order});
}

/* Writes the steps of a lowering whose `dump` is set. */
static inline void dump_steps(const lowering *l, dump_pass pass) {
  if (l->dump) dump_write_steps(l->dump, pass, l);
}

/* ---- page.c: the two files of a pass --------------------------------------------------------- */

typedef struct dump_page {
  text_buffer text, dot;
} dump_page;

/* Begins both files with the plan, the pass and `count` `things`. */
void dump_page_begin(dump_page *page, const plan_dump *d, dump_pass pass, uint32_t count,
                     const char *things);

/* Writes and releases both files; writes nothing if memory ran out. */
void dump_page_write(dump_page *page, const plan_dump *d, dump_pass pass);

/* Adds a text of unknown origin as part of a quoted string, for readers and for Graphviz. Quotes
 * and backslashes are escaped and a newline becomes \n. Other control characters and bytes that are
 * not UTF-8 become '?'. */
void dump_quoted(text_buffer *t, const char *text);

#endif
