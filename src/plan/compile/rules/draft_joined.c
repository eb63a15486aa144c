/* SPDX-License-Identifier: MIT */
/* Concat and embed: each operand is a copy into its range of the result.
 *
 * A cluster is a chain of such nodes, each the operand of the next (fuse.c). Their operands are
 * copied straight into the result of the last node. Padding of several axes is such a chain. */
#include <string.h>

#include "core/type/shape.h"
#include "plan/compile/rules/draft.h"

static bool is_written(const lowering *l, const cluster *c, uint32_t node) {
  return l->f->within[node] == c->root;
}

static bool is_inner(const lowering *l, const cluster *c, uint32_t node) {
  return l->f->cluster_of[node] == l->f->cluster_of[c->root];
}

/* One kernel for each operand that is not a node of the chain, and not written already. An embed fills the result of the
 * chain's nodes before it as well, so one fill suffices. */
static uint32_t count_copies(const lowering *l, const cluster *c) {
  uint32_t count = 0, fills = 0;
  for (uint32_t m = 0; m < c->member_count; m++) {
    const ir_node *n = &l->r->nodes[c->members[m]];
    for (uint32_t k = 0; k < n->input_count; k++) count += !is_written(l, c, n->inputs[k]);
    if (n->op == OP_embed) fills = 1;
  }
  return count + fills - (c->member_count - 1);
}

/* The range of operand `input` of the node at the cursor. */
static void enter(const lowering *l, draft_cursor *at, uint32_t input, int64_t start) {
  const ir_node *n = &l->r->nodes[at->node];
  const int32_t axis = n->attributes.axis;
  at->offset += start * at->stride[axis];
  if (n->op == OP_embed) at->stride[axis] *= n->attributes.step;
  at->node = n->inputs[input];
  at->operand = 0;
  at->joined = 0;
  at->inner = IR_NONE;
}

static void set_output(const cluster *c, const draft_cursor *at, kernel_draft *d) {
  memcpy(d->outputs[0].stride, at->stride, sizeof at->stride);
  d->output_node[0] = c->root;
  d->output_offset[0] = at->offset;
}

static void draft_operand(const lowering *l, const cluster *c, const draft_cursor *at,
                          kernel_draft *d) {
  const ir_node *x = &l->r->nodes[at->node];
  dimension_map map = draft_identity(x->shape.rank);
  draft_begin(d, COMPUTE_KERNEL_COPY, x->shape, &map);
  draft_input(l, d, at->node, x->shape, &map);
  d->descriptor.output_count = 1;
  d->outputs[0].dtype = x->dtype;
  set_output(c, at, d);
}

static void draft_zeros(const lowering *l, const cluster *c, kernel_draft *d) {
  draft_fill(l, d->cursor.node, 0, d);
  set_output(c, &d->cursor, d);
  d->cursor.filled = true;
}

/* Drafts the next copy or fill at the cursor; false if the node has no more. The operand in the
 * chain comes last. */
static bool draft_next(const lowering *l, const cluster *c, kernel_draft *d) {
  draft_cursor *at = &d->cursor;
  const ir_node *n = &l->r->nodes[at->node];
  const bool embed = n->op == OP_embed;
  if (embed && !at->filled) {
    draft_zeros(l, c, d);
    return true;
  }
  while (at->operand < n->input_count) {
    const uint32_t input = at->operand++;
    const int64_t start = embed ? n->attributes.start : at->joined;
    at->joined += l->r->nodes[n->inputs[input]].shape.size[n->attributes.axis];
    if (is_inner(l, c, n->inputs[input])) {
      at->inner = input;
      at->inner_start = start;
      continue;
    }
    if (is_written(l, c, n->inputs[input])) continue;
    draft_cursor place = *at;
    enter(l, &place, input, start);
    draft_operand(l, c, &place, d);
    return true;
  }
  return false;
}

static void draft_joined(const lowering *l, const cluster *c, kernel_draft *d) {
  draft_cursor *at = &d->cursor;
  uint32_t operations = 0;
  if (d->part == 0) {
    *at = (draft_cursor){.node = c->root, .inner = IR_NONE};
    draft_output_strides(l, c->root, at->stride);
    for (uint32_t m = 0; m < c->member_count; m++) operations += l->r->nodes[c->members[m]].folded;
  }
  while (!draft_next(l, c, d)) enter(l, at, at->inner, at->inner_start);
  d->operations = operations;
}

const plan_rule rule_concat = {
    .draft = draft_joined, .parts = count_copies, .any_layout = true, .places = true};
const plan_rule rule_embed = {
    .draft = draft_joined, .parts = count_copies, .any_layout = true, .places = true};
