/* SPDX-License-Identifier: MIT */
/* The channels-last pass. On devices that ask for it, values between convolutions are stored with
 * the channels of a pixel contiguous.
 *
 * Graphs use planes (batch, channels, height, width). With contiguous channels, a vector holds
 * channels of one pixel whatever the width of a plane. Windows need no shuffles, and a convolution
 * reads and writes rows of a matrix product. A layout is a set of strides, which every kernel
 * accepts, so the rest of the planner is unaffected. Bound tensors keep the caller's layout: the
 * convolutions at the border read and write planes, or a copy follows. */
#include <string.h>

#include "core/base/error.h"
#include "core/type/shape.h"
#include "plan/compile/fuse/fuse.h"

enum {
  LEAST_CHANNELS = 8,   /* fewer channels do not fill a vector */
  SMALL_PLANE = 256,    /* elements; smaller planes fill vectors poorly */
  LEAST_PRODUCTS = 512, /* per result; this work outweighs a copy */
  LEAST_OF_BYTES = 64   /* the same for bytes, whose sums are slow on planes */
};

typedef struct chooser {
  const ir *r;
  fusion *f;
  bool bf16;             /* the device computes with bf16 */
  layout *trial;         /* by node: the layout if all wanted changes apply */
  unsigned char *wanted; /* by node: store with channels last */
  unsigned char *bound;  /* by node: an output or a parameter's new value, also through views */
} chooser;

static void channels_last_strides(compute_shape shape, int64_t *strides) {
  memset(strides, 0, sizeof(int64_t) * COMPUTE_MAX_RANK);
  strides[1] = 1;
  strides[3] = shape.size[1];
  strides[2] = strides[3] * shape.size[3];
  strides[0] = strides[2] * shape.size[2];
}

/* True if the graph has gradient kernels; these support planes only. */
static bool has_gradients(const ir *r) {
  for (uint32_t i = 0; i < r->count; i++) {
    const ir_node *n = &r->nodes[i];
    if (!n->live) continue;
    if (n->op == OP_conv2d_by_filter) return true;
    if (ir_rule(n) == &rule_window && ((const compute_window_attributes *)n->constant)->by_data)
      return true;
  }
  return false;
}

/* True if channels last differs from planes and is worth it. It is for f32, for bf16 if the device
 * has bf16 products, and for the bytes between the layers of quantized networks and their i32
 * sums. */
static bool is_image(const chooser *c, const ir_node *n) {
  return n->shape.rank == 4 &&
         (n->dtype == COMPUTE_F32 || (n->dtype == COMPUTE_BF16 && c->bf16) ||
          n->dtype == COMPUTE_U8 || n->dtype == COMPUTE_I8 || n->dtype == COMPUTE_I32) &&
         n->shape.size[1] >= LEAST_CHANNELS && n->shape.size[2] * n->shape.size[3] > 1 &&
         n->shape.size[0] > 0;
}

/* True if a value is channels-last already: a product of pixels and filters, seen through a
 * view. */
static bool lies_channels_last(const chooser *c, uint32_t node) {
  const compute_shape shape = c->r->nodes[node].shape;
  int64_t strides[COMPUTE_MAX_RANK];
  if (!is_image(c, &c->r->nodes[node])) return false;
  channels_last_strides(shape, strides);
  for (int32_t i = 0; i < shape.rank; i++)
    if (shape.size[i] > 1 && c->f->layouts[node].stride[i] != strides[i]) return false;
  return true;
}

/* True if operand `node`, or the value it is a view of, will be or already is channels-last. */
static bool reads_channels_last(const chooser *c, uint32_t node) {
  if (c->r->nodes[node].shape.rank != 4) return false;
  return c->wanted[c->f->layouts[node].base] || lies_channels_last(c, node);
}

/* True if the convolution is so slow on planes that a copy of its result pays: it has small planes
 * or strides, or it is of bytes, and many products. */
static bool outweighs_copy(const compute_conv_attributes *a, bool bytes) {
  const bool strided = a->stride[0] > 1 || a->stride[1] > 1;
  const int64_t window = a->filter_size[0] * a->filter_size[1];
  const int64_t channels = a->data_channels / a->groups;
  if (bytes) return window > 1 && channels * window >= LEAST_OF_BYTES;
  return (strided || a->result_size[0] * a->result_size[1] <= SMALL_PLANE) && window > 1 &&
         channels >= LEAST_CHANNELS && channels >= LEAST_PRODUCTS / window;
}

/* True for a convolution with one channel per group, or with enough channels to fill vectors. If
 * the caller has bound the result as planes, a copy follows. That copy pays if the data are
 * channels-last or the work outweighs it. */
static bool conv_wants(const chooser *c, const ir_node *anchor, uint32_t node) {
  const compute_conv_attributes *a = anchor->constant;
  const bool depthwise = a->groups == a->data_channels && a->groups == a->result_channels;
  if (!depthwise && a->result_channels / a->groups < LEAST_CHANNELS) return false;
  return !c->bound[node] || reads_channels_last(c, anchor->inputs[0]) ||
         outweighs_copy(a, anchor->op == OP_conv2d_integer);
}

/* A reshape that strides cannot express is a copy that iterates over the operand's dimensions. It
 * can write channels last only if those strides fit the operand's shape. */
static bool view_can(const chooser *c, uint32_t node) {
  const ir_node *n = &c->r->nodes[node];
  int64_t turned[COMPUTE_MAX_RANK], strides[COMPUTE_MAX_RANK];
  channels_last_strides(n->shape, turned);
  return shape_reshape_strides(n->shape, turned, c->r->nodes[n->inputs[0]].shape, strides);
}

/* All other values follow their operands: true if an operand of the cluster is channels-last. */
static bool follows(const chooser *c, const cluster *k) {
  for (uint32_t m = 0; m < k->member_count; m++) {
    const ir_node *n = &c->r->nodes[k->members[m]];
    for (uint32_t i = 0; i < n->input_count; i++) {
      const uint32_t x = n->inputs[i], base = c->f->layouts[x].base;
      if (c->f->cluster_of[x] == c->f->cluster_of[k->root]) continue;
      if ((c->wanted[base] && c->r->nodes[base].shape.rank == 4) || lies_channels_last(c, x))
        return true;
    }
  }
  return false;
}

static bool wants(const chooser *c, uint32_t node) {
  const fusion *f = c->f;
  const ir_node *n = &c->r->nodes[node];
  if (f->cluster_of[node] == IR_NONE || !f->stored[node] || f->layouts[node].base != node ||
      !is_image(c, n))
    return false;
  const cluster *k = &f->clusters[f->cluster_of[node]];
  const ir_node *kernel = &c->r->nodes[k->anchor == IR_NONE ? k->root : k->anchor];
  if (!ir_rule(kernel)->any_layout) return false;
  if (kernel->op == OP_conv2d || kernel->op == OP_conv2d_integer)
    return conv_wants(c, kernel, node);
  if (c->bound[node] || (ir_rule(kernel) == &rule_view && !view_can(c, node))) return false;
  return follows(c, k);
}

/* Computes the views' strides over the changed values. If strides cannot express a view, its value
 * keeps its layout. */
static void try_views(chooser *c) {
  for (uint32_t i = 0; i < c->r->count; i++) {
    const ir_node *n = &c->r->nodes[i];
    const uint32_t base = c->f->layouts[i].base;
    c->trial[i] = c->f->layouts[i];
    if (!n->live || !c->wanted[base]) continue;
    if (base == i)
      channels_last_strides(n->shape, c->trial[i].stride);
    else if (!layout_view(n, &c->r->nodes[n->inputs[0]], &c->trial[n->inputs[0]], &c->trial[i]))
      c->wanted[base] = 0;
  }
}

static void apply(const chooser *c) {
  for (uint32_t i = 0; i < c->r->count; i++)
    if (c->r->nodes[i].live && c->wanted[c->f->layouts[i].base]) c->f->layouts[i] = c->trial[i];
}

compute_status channels_last_choose(const ir *r, bool bf16, scratch *memory, fusion *f) {
  if (has_gradients(r)) return COMPUTE_OK;
  chooser c = {.r = r, .f = f, .bf16 = bf16};
  c.trial = scratch_take(memory, r->count, sizeof *c.trial);
  c.wanted = scratch_take(memory, r->count, 1);
  c.bound = scratch_take(memory, r->count, 1);
  if (!c.trial || !c.wanted || !c.bound)
    return error_set(r->graph->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_compile",
                     "not enough memory for the layouts of %u nodes", (unsigned)r->count);
  for (uint32_t i = 0; i < r->output_count; i++) c.bound[f->layouts[r->outputs[i]].base] = 1;
  for (uint32_t i = 0; i < r->count; i++)
    if (r->nodes[i].live && r->nodes[i].op == OP_assign)
      c.bound[f->layouts[r->nodes[i].inputs[1]].base] = 1;
  for (uint32_t i = 0; i < r->count; i++) c.wanted[i] = r->nodes[i].live && wants(&c, i);
  try_views(&c);
  apply(&c);
  return COMPUTE_OK;
}
