/* SPDX-License-Identifier: MIT */
/* The draft of linear algebra. */
#include <string.h>

#include "core/type/shape.h"
#include "plan/compile/rules/draft.h"

/* The space has a row for each matrix; batches of A and B broadcast. */
static void draft_linalg(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root];
  const compute_linalg_attributes *a = n->constant;
  const int32_t batch = n->shape.rank - 1;
  dimension_map map = {.rank = batch + 2};
  for (int32_t i = 0; i < batch; i++) map.axis[i] = i;
  map.axis[batch] = -1;
  map.axis[batch + 1] = batch;
  draft_begin(d, COMPUTE_KERNEL_LINALG, n->shape, &map);
  d->descriptor.accumulate = n->dtype;
  memcpy(draft_attributes(d, sizeof *a), a, sizeof *a);
  for (uint32_t i = 0; i < n->input_count; i++)
    draft_own_input(l, d, n->inputs[i], map.rank, batch);
  draft_output(l, d, c->root, &map);
  d->operations = n->folded;
}

const plan_rule rule_linalg = {.draft = draft_linalg};
