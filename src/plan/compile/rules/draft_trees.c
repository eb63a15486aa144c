/* SPDX-License-Identifier: MIT */
/* The draft of tree ensembles. */
#include <string.h>

#include "plan/compile/rules/draft.h"

/* x and the result have rows first; the tables are vectors along the last dimension. */
static void draft_trees(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root];
  const dimension_map map = draft_identity(n->shape.rank);
  draft_begin(d, COMPUTE_KERNEL_TREES, n->shape, &map);
  d->descriptor.accumulate = n->dtype;
  memcpy(draft_attributes(d, sizeof(compute_trees_attributes)), n->constant,
         sizeof(compute_trees_attributes));
  for (uint32_t i = 0; i < n->input_count; i++) draft_own_input(l, d, n->inputs[i], map.rank, 0);
  draft_output(l, d, c->root, &map);
  d->operations = n->folded;
}

const plan_rule rule_trees = {.draft = draft_trees};
