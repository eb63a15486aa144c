/* Layouts: views become offsets and strides; only a reshape that strides cannot express is copied.
 */
#include <string.h>

#include "plan/fuse/fuse.h"
#include "plan/fuse/layout.h"
#include "type/shape.h"
#include "tensor/tensor.h"

static void dense(const ir_node *n, uint32_t self, layout *l) {
  *l = (layout){.base = self};
  if (n->op == OP_parameter)
    memcpy(l->stride, n->tensor->strides, sizeof l->stride);
  else if (!fuse_is_immediate(n))
    shape_dense_strides(n->shape, l->stride);
}

bool layout_view(const ir_node *n, const ir_node *x, const layout *from, layout *l) {
  const graph_attributes *a = &n->attributes;
  *l = *from;
  switch (n->op) {
  case OP_transpose:
    for (int32_t i = 0; i < n->shape.rank; i++) l->stride[i] = from->stride[a->order[i]];
    return true;
  case OP_slice:
    l->offset += a->start * from->stride[a->axis];
    l->stride[a->axis] = from->stride[a->axis] * a->step;
    return true;
  case OP_broadcast: return shape_broadcast_strides(x->shape, from->stride, n->shape, l->stride);
  case OP_reshape: return shape_reshape_strides(x->shape, from->stride, n->shape, l->stride);
  default: return false;
  }
}

void layout_resolve(const ir *r, layout *layouts) {
  for (uint32_t i = 0; i < r->count; i++) {
    const ir_node *n = &r->nodes[i];
    if (!n->live) continue;
    if (ir_category(n) == CATEGORY_VIEW &&
        layout_view(n, &r->nodes[n->inputs[0]], &layouts[n->inputs[0]], &layouts[i]))
      continue;
    dense(n, i, &layouts[i]);
  }
}
