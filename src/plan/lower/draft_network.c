/* Drafts of convolution, pooling, running sums, top-k, attention and spots. Their operands have
 * dimensions of their own, so each is read through its layout as it lies: transposed or sliced
 * images cost nothing here. */
#include <string.h>

#include "plan/lower/draft.h"
#include "type/dtype.h"
#include "type/shape.h"

/* One more input with the strides of its own layout, whose axes are aligned to the right of `rank`
 * dimensions; the leading `batch` ones broadcast. */
static void own_input(const lowering *l, kernel_draft *d, uint32_t node, int32_t rank,
                      int32_t batch) {
  const ir_node *n = &l->r->nodes[node];
  const layout *lay = &l->f->layouts[node];
  const uint32_t input = d->descriptor.input_count++;
  const int32_t shift = rank - n->shape.rank;
  d->inputs[input] = (compute_operand){.dtype = n->dtype};
  for (int32_t i = shift; i < rank; i++)
    if (i >= batch || n->shape.size[i - shift] != 1)
      d->inputs[input].stride[i] = lay->stride[i - shift];
  d->input_node[input] = lay->base;
  d->input_offset[input] = lay->offset;
}

void draft_convolution(const lowering *l, const cluster *c, uint32_t *value, kernel_draft *d) {
  const ir_node *anchor = &l->r->nodes[c->anchor];
  const dimension_map map = draft_identity(anchor->shape.rank);
  draft_begin(d, COMPUTE_KERNEL_CONV, anchor->shape, &map);
  d->descriptor.accumulate = dtype_compute_type(anchor->dtype);
  compute_conv_attributes *a = draft_attributes(d, sizeof *a);
  memcpy(a, anchor->constant, sizeof *a);
  if (d->descriptor.accumulate == COMPUTE_F32) a->precision = l->convolution;
  own_input(l, d, anchor->inputs[0], 4, 0);
  own_input(l, d, anchor->inputs[1], 4, 0);
  draft_body(l, c, value, d, 2, 1, &map);
}

void draft_window(const lowering *l, const cluster *c, uint32_t *value, kernel_draft *d) {
  const ir_node *anchor = &l->r->nodes[c->anchor];
  const dimension_map map = draft_identity(anchor->shape.rank);
  draft_begin(d, COMPUTE_KERNEL_WINDOW, anchor->shape, &map);
  d->descriptor.accumulate = dtype_compute_type(anchor->dtype);
  memcpy(draft_attributes(d, sizeof(compute_window_attributes)), anchor->constant,
         sizeof(compute_window_attributes));
  for (uint32_t i = 0; i < anchor->input_count; i++) own_input(l, d, anchor->inputs[i], 4, 0);
  draft_body(l, c, value, d, anchor->input_count, 1, &map);
}

/* The space is the result's, its axis `axis` last. */
static dimension_map axis_last(int32_t rank, int32_t axis) {
  dimension_map map = draft_identity(rank);
  for (int32_t i = axis; i + 1 < rank; i++) map.axis[i] = i + 1;
  map.axis[rank - 1] = axis;
  return map;
}

void draft_scan(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root];
  const dimension_map map = axis_last(n->shape.rank, n->attributes.axis);
  draft_begin(d, COMPUTE_KERNEL_SCAN, n->shape, &map);
  compute_scan_attributes *a = draft_attributes(d, sizeof *a);
  a->combine = COMPUTE_COMBINE_SUM;
  a->reverse = n->attributes.reverse;
  a->exclusive = n->attributes.exclusive;
  d->descriptor.accumulate = dtype_compute_type(n->dtype);
  draft_input(l, d, n->inputs[0], n->shape, &map);
  draft_output(l, d, c->root, &map);
  d->operations = n->folded;
}

void draft_top_k(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root], *x = &l->r->nodes[n->inputs[0]];
  const dimension_map map = axis_last(n->shape.rank, n->attributes.axis);
  draft_begin(d, COMPUTE_KERNEL_TOP_K, n->shape, &map);
  compute_top_k_attributes *a = draft_attributes(d, sizeof *a);
  a->smallest = n->attributes.smallest;
  a->axis_size = x->shape.size[n->attributes.axis];
  draft_input(l, d, n->inputs[0], x->shape, &map);
  draft_output(l, d, c->root, &map);
  d->operations = n->folded;
}

void draft_attention(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root];
  const int32_t rank = n->shape.rank;
  const dimension_map map = draft_identity(rank);
  draft_begin(d, COMPUTE_KERNEL_ATTENTION, n->shape, &map);
  d->descriptor.accumulate = dtype_compute_type(n->dtype);
  memcpy(draft_attributes(d, sizeof(compute_attention_attributes)), n->constant,
         sizeof(compute_attention_attributes));
  for (uint32_t i = 0; i < 3; i++) own_input(l, d, n->inputs[i], rank, rank - 2);
  if (n->input_count > 3) own_input(l, d, n->inputs[3], rank, rank);
  draft_output(l, d, c->root, &map);
  d->operations = n->folded;
}

void draft_spots(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root];
  const dimension_map map = draft_identity(3);
  draft_begin(d, COMPUTE_KERNEL_SPOTS, n->shape, &map);
  memcpy(draft_attributes(d, sizeof(compute_spots_attributes)), n->constant,
         sizeof(compute_spots_attributes));
  own_input(l, d, n->inputs[0], 3, 0);
  draft_output(l, d, c->root, &map);
  d->operations = n->folded;
}
