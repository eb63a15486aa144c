/* SPDX-License-Identifier: MIT */
/* The draft of bincount. */
#include "plan/compile/rules/draft.h"

static void draft_bincount(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root];
  const compute_shape shape = l->r->nodes[n->inputs[0]].shape;
  const dimension_map map = draft_axis_last(n->shape.rank, n->attributes.axis);
  draft_begin(d, COMPUTE_KERNEL_BINCOUNT, n->shape, &map);
  d->checks_indices = true;
  compute_bincount_attributes *a = draft_attributes(d, sizeof *a);
  a->axis_size = shape.size[n->attributes.axis];
  for (uint32_t i = 0; i < n->input_count; i++) draft_input(l, d, n->inputs[i], shape, &map);
  draft_output(l, d, c->root, &map);
  d->operations = n->folded;
}

const plan_rule rule_bincount = {.draft = draft_bincount};
