/* SPDX-License-Identifier: MIT */
/* Kernels write their results directly into the result of a concat, if nothing else reads them. This
 * saves the copy and its memory. Halves that are rotated or gated apart are frequent examples. */
#include <string.h>

#include "core/base/error.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "plan/compile/fuse/fuse.h"

/* Rows of fewer bytes are a call each, where a dense result is one row. */
enum { LEAST_ROW = 64 };

typedef struct writer {
  const ir *r;
  fusion *f;
  uint32_t *readers; /* by node; an output has one more */
} writer;

static bool count_readers(writer *w, scratch *memory) {
  const ir *r = w->r;
  w->readers = scratch_take(memory, r->count, sizeof *w->readers);
  if (!w->readers) return false;
  for (uint32_t i = 0; i < r->count; i++)
    for (uint32_t k = 0; r->nodes[i].live && k < r->nodes[i].input_count; k++)
      w->readers[r->nodes[i].inputs[k]]++;
  for (uint32_t i = 0; i < r->output_count; i++) w->readers[r->outputs[i]]++;
  return true;
}

/* True if both layouts have the same order of axes. */
static bool same_order(compute_shape shape, const int64_t *a, const int64_t *b) {
  for (int32_t i = 0; i < shape.rank; i++)
    for (int32_t j = i + 1; j < shape.rank; j++)
      if (shape.size[i] > 1 && shape.size[j] > 1 && (a[i] > a[j]) != (b[i] > b[j])) return false;
  return true;
}

/* Elements of the shape that are contiguous in memory. */
static int64_t count_contiguous(compute_shape shape, const int64_t *strides) {
  int64_t count = 1;
  for (bool more = true; more;) {
    more = false;
    for (int32_t i = 0; i < shape.rank && !more; i++) {
      more = shape.size[i] > 1 && strides[i] == count;
      if (more) count *= shape.size[i];
    }
  }
  return count;
}

/* True if the kernel of node x can write with these strides at no cost. */
static bool can_write(const writer *w, uint32_t x, const int64_t *strides) {
  const ir_node *n = &w->r->nodes[x];
  const layout *lay = &w->f->layouts[x];
  const uint32_t index = w->f->cluster_of[x];
  if (index == IR_NONE || w->readers[x] != 1 || lay->base != x || shape_count(n->shape) == 0)
    return false;
  const cluster *c = &w->f->clusters[index];
  const int64_t bytes = count_contiguous(n->shape, strides) * (int64_t)compute_dtype_size(n->dtype);
  return c->root == x && c->output_count == 1 && c->anchor == IR_NONE && fuse_is_elementwise(n) &&
         bytes >= LEAST_ROW && same_order(n->shape, lay->stride, strides);
}

/* True if zeros fill the result first. A concat never writes into a parameter's memory (plan_rule). */
static bool is_filled(const ir *r, const cluster *c) {
  for (uint32_t m = 0; m < c->member_count; m++)
    if (r->nodes[c->members[m]].op != OP_concat) return true;
  return false;
}

/* Sets the layouts of a cluster's operands that are written within its result. The members form a
 * chain, the root last. */
static void write_operands(const writer *w, const cluster *c) {
  layout at = w->f->layouts[c->root];
  for (uint32_t m = c->member_count; m-- > 0;) {
    const ir_node *n = &w->r->nodes[c->members[m]];
    const int64_t step = at.stride[n->attributes.axis];
    int64_t start = 0, inner = 0;
    for (uint32_t k = 0; k < n->input_count; k++) {
      const uint32_t x = n->inputs[k];
      if (w->f->cluster_of[x] == w->f->cluster_of[c->root]) {
        inner = start;
      } else if (can_write(w, x, at.stride)) {
        w->f->within[x] = c->root;
        w->f->layouts[x].offset = at.offset + start * step;
        memcpy(w->f->layouts[x].stride, at.stride, sizeof at.stride);
      }
      start += w->r->nodes[x].shape.size[n->attributes.axis];
    }
    at.offset += inner * step;
  }
}

compute_status write_within(const ir *r, scratch *memory, fusion *f) {
  writer w = {.r = r, .f = f};
  for (uint32_t i = 0; i < f->cluster_count; i++) {
    const cluster *c = &f->clusters[i];
    if (r->nodes[c->root].op != OP_concat || is_filled(r, c)) continue;
    if (!w.readers && !count_readers(&w, memory))
      return error_set(r->graph->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_compile",
                       "not enough memory for the readers of %u nodes", (unsigned)r->count);
    write_operands(&w, c);
  }
  return COMPUTE_OK;
}
