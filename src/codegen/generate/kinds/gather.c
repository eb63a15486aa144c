/* SPDX-License-Identifier: MIT */
/* GATHER: elements or slices of an axis, chosen by an index tensor. It moves elements and never
 * converts them.
 *
 * GPU: an item moves one element, or several at once if a slice is contiguous and every stride is a
 * multiple of their number; the kernel checks the addresses. CPU: an item walks pieces of rows, so
 * that the inner loop is plain. An index out of range is skipped and sets the fault word. */
#include <stdio.h>

#include "codegen/generate/kinds/indexed.h"

enum {
  GROUP = 256,
  VECTOR_BYTES = 16,
  PIECE = 4096,    /* CPU: elements of a row in one piece */
  SHARE = 1 << 14, /* CPU: elements that make an item worthwhile */
  SHARES_PER_UNIT = 4
};

static uint32_t element_bytes(const generation *g) {
  return (uint32_t)compute_dtype_size(g->descriptor->outputs[0].dtype);
}

/* ---- GPU ----------------------------------------------------------------------------------- */

/* The number of elements that can move at once. The last dimension must be a contiguous slice, and
 * all other steps of source and result must be multiples of the number. */
static uint32_t vector_elements(const generation *g, const emit_space *space) {
  const int32_t last = space->rank - 1;
  const emit_walk *source = space_walk(space, "in0"), *result = space_walk(space, "out0");
  uint32_t n = VECTOR_BYTES / element_bytes(g);
  if (g->tuning.vector && g->tuning.vector < n) n = g->tuning.vector;
  while (n & (n - 1)) n &= n - 1;
  if (source->stride[last] != 1 || result->stride[last] != 1 ||
      space_walk(space, "in1")->stride[last] != 0)
    return 1;
  for (; n > 1; n /= 2) {
    bool fits = space->size[last] % n == 0 && compute_index_of(g->descriptor)->axis_stride % n == 0;
    for (int32_t d = 0; d < last; d++)
      if (source->stride[d] % n || result->stride[d] % n) fits = false;
    if (fits) return n;
  }
  return 1;
}

static void widen_steps(emit_space *space, uint32_t elements) {
  const int32_t last = space->rank - 1;
  space->size[last] /= elements;
  for (uint32_t w = 0; w < space->walk_count; w++) space->walk[w].stride[last] *= elements;
}

static void write_move(const generation *g, text_buffer *text, uint32_t elements) {
  const char *storage = emit_storage(g->descriptor->outputs[0].dtype);
  text_add(text, "const INDEX from = at_in0 + (INDEX)place * shape.axis_stride;\n");
  if (elements == 1) {
    text_add(text, "out0[at_out0] = in0[from];\n");
    return;
  }
  text_add(text,
           "if (aligned) {\n"
           "  %s lanes[%u];\n"
           "  VLOAD(%u, %s, lanes, in0 + from);\n"
           "  VSTORE(%u, %s, out0 + at_out0, lanes);\n"
           "} else {\n"
           "  for (int lane = 0; lane < %u; lane++) out0[at_out0 + lane] = in0[from + lane];\n"
           "}\n",
           storage, elements, elements, storage, elements, storage, elements);
}

static compute_status gather_items(generation *g, emit_space *space) {
  const uint32_t elements = vector_elements(g, space);
  const uint32_t group = emit_group_items(g, g->tuning.group_x ? g->tuning.group_x : GROUP);
  if (elements > 1) widen_steps(space, elements);
  const int64_t count = space_count(space, 0, space->rank);
  const int64_t groups = divide_up(count, group);
  if (groups > INT32_MAX) return emit_refuse(g, "more items than one launch can have");
  emit_launch *launch = emit_launch_line(g, "gather", group, groups);
  if (!launch) return COMPUTE_OK;
  emit_inputs(g, launch, 0, 2);
  emit_outputs(g, launch);
  emit_fault(g, launch);
  indexed_fields(g, launch);
  emit_field_index(g, launch, "count", count);
  emit_space_fields(g, launch, space, 0, space->rank);

  text_buffer *text = &launch->body;
  if (elements > 1)
    text_add(text, "const boolean aligned = ((size_t)in0 | (size_t)out0) %% %u == 0;\n",
             elements * element_bytes(g));
  text_add(text,
           "const INDEX item = (INDEX)GROUP_ID_X * %u + (INDEX)LOCAL_ID_X;\n"
           "if (item < shape.count) {\n",
           group);
  emit_offsets(g, text, space, 0, space->rank, "item", "at");
  indexed_open(g, text, "at_in1");
  write_move(g, text, elements);
  indexed_close(text);
  text_add(text, "}\n");
  g->tuning.group_x = group;
  g->tuning.vector = elements;
  snprintf(g->text, sizeof g->text, "gather %s, %u at once, groups of %u",
           elements > 1 ? "slices" : "elements", elements, group);
  return COMPUTE_OK;
}

/* ---- CPU ----------------------------------------------------------------------------------- */

static void write_row(generation *g, text_buffer *text, const emit_space *space) {
  const int32_t last = space->rank - 1;
  char source[64], index[64], result[64], at[128];
  const bool slices = space_walk(space, "in1")->stride[last] == 0;
  emit_stride(space, "in0", last, source, sizeof source);
  emit_stride(space, "in1", last, index, sizeof index);
  emit_stride(space, "out0", last, result, sizeof result);
  if (slices) indexed_open(g, text, "at_in1");
  if (slices)
    text_add(text, "const INDEX from = at_in0 + (INDEX)place * shape.axis_stride;\nINDEPENDENT\n");
  text_add(text, "for (INDEX i = first; i < last; i++) {\n");
  if (!slices) {
    snprintf(at, sizeof at, "at_in1 + i * %s", index);
    indexed_open(g, text, at);
    text_add(text, "const INDEX from = at_in0 + (INDEX)place * shape.axis_stride;\n");
  }
  text_add(text, "out0[at_out0 + i * %s] = in0[from + i * %s];\n", result, source);
  if (!slices) indexed_close(text);
  text_add(text, "}\n");
  if (slices) indexed_close(text);
}

static compute_status gather_rows(generation *g, const emit_space *space) {
  const int64_t length = space->size[space->rank - 1];
  const int64_t piece = length < PIECE ? length : PIECE;
  const int64_t pieces = divide_up(length, piece);
  const int64_t units = space_count(space, 0, space->rank - 1) * pieces;
  int64_t items = (int64_t)g->target->compute_units * SHARES_PER_UNIT;
  if (items > units * piece / SHARE) items = units * piece / SHARE;
  if (items < 1) items = 1;
  const int64_t share = divide_up(units, items);
  items = divide_up(units, share);
  emit_launch *launch = emit_launch_line(g, "gather", 1, items);
  if (!launch) return COMPUTE_OK;
  emit_inputs(g, launch, 0, 2);
  emit_outputs(g, launch);
  emit_fault(g, launch);
  indexed_fields(g, launch);
  emit_field_index(g, launch, "units", units);
  emit_field_index(g, launch, "share", share);
  emit_field_index(g, launch, "length", length);
  emit_field_index(g, launch, "piece", piece);
  emit_field_divisor(g, launch, "pieces", pieces);
  emit_space_fields(g, launch, space, 0, space->rank);

  text_buffer *text = &launch->body;
  text_add(text, "const INDEX begin = (INDEX)GROUP_ID_X * shape.share;\n"
                 "const INDEX end = shape.units - begin < shape.share ? shape.units : begin + "
                 "shape.share;\n"
                 "for (INDEX unit = begin; unit < end; unit++) {\n"
                 "const INDEX row = DIVIDE(unit, shape.pieces);\n"
                 "const INDEX first = (unit - row * shape.pieces) * shape.piece;\n"
                 "const INDEX last = shape.length - first < shape.piece ? shape.length : first + "
                 "shape.piece;\n");
  emit_offsets(g, text, space, 0, space->rank - 1, "row", "at");
  write_row(g, text, space);
  text_add(text, "}\n");
  g->tuning.group_x = 1;
  g->tuning.vector = 1;
  snprintf(g->text, sizeof g->text, "gather rows, %lld at a time, %lld shares",
           (long long)(share < units ? share : units), (long long)items);
  return COMPUTE_OK;
}

static compute_status emit(generation *g) {
  const compute_kernel_descriptor *d = g->descriptor;
  emit_space space;
  const compute_status status = indexed_check(g, &d->inputs[0]);
  if (status) return status;
  space_begin(&space, "s", d->rank, d->size);
  space_add_inputs(g, &space, 0, 2);
  space_add_outputs(g, &space);
  if (space_count(&space, 0, space.rank) == 0) return COMPUTE_OK;
  space_canonicalise(g, &space);
  space_fill_rank(&space);
  return emit_for_cpu(g) ? gather_rows(g, &space) : gather_items(g, &space);
}

static const tuning_grid grids[] = {
    {TUNE_OTHERS, {TUNE(group_x, 64, 128, 256, 512), TUNE(vector, 1, 2, 4, 8)}},
    {.target = TUNE_END},
};

const emit_kind emit_gather = {.name = "GATHER", .emit = emit, .grids = grids};
