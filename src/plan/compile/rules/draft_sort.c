/* SPDX-License-Identifier: MIT */
/* The drafts of sort and argsort. */
#include "plan/compile/rules/draft.h"

static void draft_sort(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root];
  const dimension_map map = draft_axis_last(n->shape.rank, n->attributes.axis);
  draft_begin(d, COMPUTE_KERNEL_SORT, n->shape, &map);
  compute_sort_attributes *a = draft_attributes(d, sizeof *a);
  a->descending = n->attributes.descending;
  a->values = n->op == OP_sort;
  a->positions = n->op == OP_argsort;
  draft_input(l, d, n->inputs[0], n->shape, &map);
  draft_output(l, d, c->root, &map);
  d->operations = n->folded;
}

const plan_rule rule_sort = {.draft = draft_sort};
