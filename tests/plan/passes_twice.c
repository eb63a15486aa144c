/* SPDX-License-Identifier: MIT */
/* Every compilation pass has a fixed point: a second run on its result changes nothing. A rule that
 * undoes or repeats another rule is found here, before it runs forever.
 *
 * In programs that link this file, the linker redirects the library's calls of its passes to this
 * file (--wrap, tests/CMakeLists.txt). Each pass runs twice, in every plan that the program
 * compiles, and a difference ends the program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/type/shape.h"
#include "plan/compile/lower/lower.h"

#define CHECK(condition, ...)                                                                      \
  do {                                                                                             \
    if (condition) break;                                                                          \
    fprintf(stderr, "a pass has no fixed point: ");                                                \
    fprintf(stderr, __VA_ARGS__);                                                                  \
    fprintf(stderr, "\n");                                                                         \
    abort();                                                                                       \
  } while (0)

/* ---- Capture --------------------------------------------------------------------------------- */

/* The state of a second capture, into a copy. */
typedef struct recapture {
  const ir *first;
  ir again;
  scratch memory;
  uint32_t *place, *inputs; /* the new place of each node of the first capture; room for operands */
} recapture;

static bool begin(recapture *c, const ir *r) {
  uint32_t widest = 1;
  for (uint32_t i = 0; i < r->count; i++)
    if (r->nodes[i].input_count > widest) widest = r->nodes[i].input_count;
  *c = (recapture){.first = r};
  c->again = (ir){.graph = r->graph, .memory = &c->memory, .simplify = true, .kernels = r->kernels};
  c->place = scratch_take(&c->memory, r->count, sizeof *c->place);
  c->inputs = scratch_take(&c->memory, widest, sizeof *c->inputs);
  return c->place && c->inputs;
}

static ir_node moved(const recapture *c, const ir_node *n) {
  ir_node copy = *n;
  for (uint32_t k = 0; k < n->input_count; k++) c->inputs[k] = c->place[n->inputs[k]];
  copy.inputs = c->inputs;
  return copy;
}

static bool is_same(const ir_node *a, const ir_node *b) {
  return a->op == b->op && a->dtype == b->dtype && a->input_count == b->input_count &&
         a->uniform == b->uniform && compute_shape_equal(a->shape, b->shape) &&
         memcmp(&a->attributes, &b->attributes, sizeof a->attributes) == 0 &&
         (a->input_count == 0 ||
          memcmp(a->inputs, b->inputs, sizeof *a->inputs * a->input_count) == 0);
}

/* Each live node is rewritten to itself, never to a node that another one has become. */
static void check_capture(const ir *r) {
  recapture c;
  uint32_t last = 0;
  bool room = begin(&c, r), any = false;
  for (uint32_t i = 0; room && i < r->count; i++) {
    if (!r->nodes[i].live) continue;
    const ir_node n = moved(&c, &r->nodes[i]);
    const bool is_call = ir_call_of(r, i) != IR_NONE;
    c.place[i] = is_call ? ir_add(&c.again, &n) : ir_rewrite(&c.again, &n);
    if (c.place[i] == IR_NONE) break; /* the test may make this allocation fail as well */
    CHECK(is_same(&n, &c.again.nodes[c.place[i]]), "node %u of %u, operation %d, becomes %d",
          (unsigned)i, (unsigned)r->count, (int)n.op, (int)c.again.nodes[c.place[i]].op);
    CHECK(!any || c.place[i] > last, "node %u of %u, operation %d, becomes an earlier one",
          (unsigned)i, (unsigned)r->count, (int)n.op);
    last = c.place[i];
    any = true;
  }
  scratch_release(&c.memory);
}

compute_status __real_ir_capture(ir *r, const compute_graph *graph, const uint32_t *outputs,
                                 uint32_t output_count, const ir_folded *folded,
                                 uint32_t folded_count, bool simplify,
                                 const compute_device *kernels, scratch *memory);
compute_status __wrap_ir_capture(ir *r, const compute_graph *graph, const uint32_t *outputs,
                                 uint32_t output_count, const ir_folded *folded,
                                 uint32_t folded_count, bool simplify,
                                 const compute_device *kernels, scratch *memory);

compute_status __wrap_ir_capture(ir *r, const compute_graph *graph, const uint32_t *outputs,
                                 uint32_t output_count, const ir_folded *folded,
                                 uint32_t folded_count, bool simplify,
                                 const compute_device *kernels, scratch *memory) {
  const compute_status status = __real_ir_capture(r, graph, outputs, output_count, folded,
                                                  folded_count, simplify, kernels, memory);
  if (!status && simplify) check_capture(r);
  return status;
}

/* ---- Fusion ---------------------------------------------------------------------------------- */

static _Thread_local fuse_options last_options;

static void compare_clusters(const fusion *a, const fusion *b, const char *pass) {
  CHECK(a->cluster_count == b->cluster_count, "%s: %u clusters, then %u", pass,
        (unsigned)a->cluster_count, (unsigned)b->cluster_count);
  for (uint32_t i = 0; i < a->cluster_count; i++) {
    const cluster *x = &a->clusters[i], *y = &b->clusters[i];
    CHECK(x->root == y->root && x->anchor == y->anchor && x->member_count == y->member_count &&
              x->output_count == y->output_count &&
              memcmp(x->members, y->members, sizeof *x->members * x->member_count) == 0,
          "%s: cluster %u of %u", pass, (unsigned)i, (unsigned)a->cluster_count);
  }
}

static void compare_layouts(const ir *r, const layout *a, const layout *b, const char *pass) {
  for (uint32_t i = 0; i < r->count; i++)
    CHECK(!r->nodes[i].live || memcmp(&a[i], &b[i], sizeof a[i]) == 0, "%s: layout of node %u",
          pass, (unsigned)i);
}

compute_status __real_fuse_nodes(const ir *r, fuse_options options, scratch *memory,
                                 fusion *result);
compute_status __wrap_fuse_nodes(const ir *r, fuse_options options, scratch *memory,
                                 fusion *result);

compute_status __wrap_fuse_nodes(const ir *r, fuse_options options, scratch *memory,
                                 fusion *result) {
  fusion again;
  last_options = options;
  const compute_status status = __real_fuse_nodes(r, options, memory, result);
  if (status || __real_fuse_nodes(r, options, memory, &again)) return status;
  compare_layouts(r, result->layouts, again.layouts, "fuse_nodes");
  compare_clusters(result, &again, "fuse_nodes");
  return status;
}

compute_status __real_repeat_cheap(ir *r, const fusion *f, bool *changed);
compute_status __wrap_repeat_cheap(ir *r, const fusion *f, bool *changed);

compute_status __wrap_repeat_cheap(ir *r, const fusion *f, bool *changed) {
  const compute_status status = __real_repeat_cheap(r, f, changed);
  fusion again;
  bool changed_again = false;
  if (status || !*changed || __real_fuse_nodes(r, last_options, r->memory, &again)) return status;
  ir copy = *r;
  if (__real_repeat_cheap(&copy, &again, &changed_again)) return status;
  CHECK(!changed_again, "repeat_cheap: %u nodes, then %u", (unsigned)r->count,
        (unsigned)copy.count);
  return status;
}

compute_status __real_merge_updates(const ir *r, scratch *memory, fusion *f);
compute_status __wrap_merge_updates(const ir *r, scratch *memory, fusion *f);

compute_status __wrap_merge_updates(const ir *r, scratch *memory, fusion *f) {
  const compute_status status = __real_merge_updates(r, memory, f);
  const uint32_t count = f->cluster_count;
  if (status || __real_merge_updates(r, memory, f)) return status;
  CHECK(f->cluster_count == count, "merge_updates: %u clusters, then %u", (unsigned)count,
        (unsigned)f->cluster_count);
  return status;
}

compute_status __real_channels_last_choose(const ir *r, bool bf16, scratch *memory, fusion *f);
compute_status __wrap_channels_last_choose(const ir *r, bool bf16, scratch *memory, fusion *f);

compute_status __wrap_channels_last_choose(const ir *r, bool bf16, scratch *memory, fusion *f) {
  const compute_status status = __real_channels_last_choose(r, bf16, memory, f);
  layout *before = scratch_take(memory, r->count, sizeof *before);
  if (status || !before) return status;
  memcpy(before, f->layouts, sizeof *before * r->count);
  if (!__real_channels_last_choose(r, bf16, memory, f))
    compare_layouts(r, before, f->layouts, "channels_last_choose");
  return status;
}

compute_status __real_write_within(const ir *r, scratch *memory, fusion *f);
compute_status __wrap_write_within(const ir *r, scratch *memory, fusion *f);

compute_status __wrap_write_within(const ir *r, scratch *memory, fusion *f) {
  const compute_status status = __real_write_within(r, memory, f);
  layout *before = scratch_take(memory, r->count, sizeof *before);
  if (status || !before) return status;
  memcpy(before, f->layouts, sizeof *before * r->count);
  if (!__real_write_within(r, memory, f)) compare_layouts(r, before, f->layouts, "write_within");
  return status;
}

/* ---- Passes over the steps ------------------------------------------------------------------- */

static void run_again(lowering *l, compute_status (*pass)(lowering *), const char *name) {
  const uint32_t count = l->step_count;
  build_step *before = scratch_take(l->memory, count, sizeof *before);
  if (!before || count == 0) return;
  memcpy(before, l->steps, sizeof *before * count);
  if (pass(l)) return;
  CHECK(l->step_count == count, "%s: %u steps, then %u", name, (unsigned)count,
        (unsigned)l->step_count);
  for (uint32_t i = 0; i < count; i++)
    CHECK(before[i].kernel == l->steps[i].kernel, "%s: the kernel of step %u", name, (unsigned)i);
}

#define PASS(name)                                                                                 \
  compute_status __real_##name(lowering *l);                                                       \
  compute_status __wrap_##name(lowering *l);                                                       \
  compute_status __wrap_##name(lowering *l) {                                                      \
    const compute_status status = __real_##name(l);                                                \
    if (!status) run_again(l, __real_##name, #name);                                               \
    return status;                                                                                 \
  }

PASS(pools_join)
PASS(residuals_join)
PASS(micro_batches_cut)
PASS(row_tiles_cut)
