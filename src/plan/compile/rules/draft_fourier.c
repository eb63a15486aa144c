/* SPDX-License-Identifier: MIT */
/* The draft of Fourier transforms. */
#include <string.h>

#include "plan/compile/rules/draft.h"

/* The transformed axis next to last, then the axis of parts, which real numbers lack. */
static dimension_map map_lines(int32_t rank, int32_t axis, bool real) {
  const int32_t axes = real ? rank : rank - 1;
  dimension_map map = draft_axis_last(axes, axis);
  map.axis[map.rank++] = real ? -1 : axes;
  return map;
}

static void draft_fourier(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root];
  const compute_fourier_attributes *a = n->constant;
  const compute_shape shape = l->r->nodes[n->inputs[0]].shape;
  const dimension_map from = map_lines(shape.rank, n->attributes.axis, a->real);
  const dimension_map to = map_lines(n->shape.rank, n->attributes.axis, a->halved);
  draft_begin(d, COMPUTE_KERNEL_FOURIER, n->shape, &to);
  d->descriptor.accumulate = n->dtype;
  memcpy(draft_attributes(d, sizeof *a), a, sizeof *a);
  draft_input(l, d, n->inputs[0], shape, &from);
  draft_output(l, d, c->root, &to);
  d->operations = n->folded;
}

const plan_rule rule_fourier = {.draft = draft_fourier};
