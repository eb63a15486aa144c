/* The text of SCATTER's launches. */
#include <stdio.h>

#include "generate/kinds/indexed.h"
#include "generate/kinds/scatter.h"

/* ---- Pieces -------------------------------------------------------------------------------- */

/* a + b in the type of the sums; integers wrap. */
static void write_sum(const scatter *s, text_buffer *text) {
  const bool wide = s->sum == COMPUTE_I64;
  if (s->sum == COMPUTE_I64 || s->sum == COMPUTE_I32)
    text_add(text, "#define SUM(a, b) ((%s)((%s)(a) + (%s)(b)))\n", emit_type(s->sum),
             wide ? "u64" : "u32", wide ? "u64" : "u32");
  else
    text_add(text, "#define SUM(a, b) ((a) + (b))\n");
}

/* u8 and u16 wrap too, where a conversion would not. */
static void write_store(const scatter *s, text_buffer *text, const char *at, const char *value) {
  const compute_dtype dtype = s->g->descriptor->outputs[0].dtype;
  char wrapped[160];
  snprintf(wrapped, sizeof wrapped,
           dtype == COMPUTE_U8    ? "(%s) & 255"
           : dtype == COMPUTE_U16 ? "(%s) & 65535"
                                  : "%s",
           value);
  emit_store(text, dtype, s->sum, "out0", at, wrapped);
}

/* Where the item's column i of a walk lies: CPU items have several. */
static void column_offset(const scatter *s, const char *walk, char *at, size_t bytes) {
  char stride[64];
  if (!emit_for_cpu(s->g)) {
    snprintf(at, bytes, "column_%s", walk);
    return;
  }
  emit_stride(&s->columns, walk, s->columns.rank - 1, stride, sizeof stride);
  snprintf(at, bytes, "column_%s + i * %s", walk, stride);
}

static void open_columns(const scatter *s, text_buffer *text, bool independent) {
  if (!emit_for_cpu(s->g)) return;
  text_add(text, "%sfor (INDEX i = first_column; i < last_column; i++) {\n",
           independent ? "INDEPENDENT\n" : "");
}

static void close_columns(const scatter *s, text_buffer *text) {
  if (emit_for_cpu(s->g)) text_add(text, "}\n");
}

/* `sums[…]` of the item's column at a place. */
static const char *copy_offset(const scatter *s) {
  return emit_for_cpu(s->g) ? "(copy + (INDEX)place) * shape.columns + column + i"
                            : "(copy + (INDEX)place) * shape.columns + column";
}

/* Adds the update at update_in0 to the sum at `place`, which is in range. */
static void write_addition(scatter *s, text_buffer *text) {
  const compute_dtype dtype = s->g->descriptor->outputs[0].dtype;
  char update[128], out[128], from[192], value[512];
  text_buffer load = {0}, sum = {0};
  column_offset(s, "in0", update, sizeof update);
  column_offset(s, "out0", out, sizeof out);
  snprintf(from, sizeof from, "update_in0 + %s", update);
  emit_load(&load, dtype, "in0", from);
  text_add(text, "{\n");
  if (s->copies) {
    text_add(text, "const INDEX at = %s;\nsums[at] = SUM(sums[at], %s);\n", copy_offset(s),
             load.data ? load.data : "");
  } else {
    text_add(text, "const INDEX at = %s + (INDEX)place * shape.axis_stride;\n", out);
    emit_load(&sum, dtype, "out0", "at");
    snprintf(value, sizeof value, "SUM(%s, %s)", sum.data ? sum.data : "",
             load.data ? load.data : "");
    write_store(s, text, "at", value);
    text_add(text, "\n");
  }
  text_add(text, "}\n");
  if (load.failed || sum.failed) s->g->failed = true;
  text_release(&load);
  text_release(&sum);
}

/* The item's copies begin as the output, in the first part, or as 0. */
static void write_beginning(scatter *s, text_buffer *text) {
  const compute_dtype dtype = s->g->descriptor->outputs[0].dtype;
  char out[128], at[192];
  text_buffer load = {0};
  column_offset(s, "out0", out, sizeof out);
  snprintf(at, sizeof at, "%s + place * shape.axis_stride", out);
  emit_load(&load, dtype, "out0", at);
  text_add(text, "for (INDEX place = begin; place < end; place++) {\n");
  open_columns(s, text, true);
  text_add(text, "sums[%s] = part == 0 ? %s : (%s)0;\n", copy_offset(s), load.data ? load.data : "",
           emit_type(s->sum));
  close_columns(s, text);
  text_add(text, "}\n");
  if (load.failed) s->g->failed = true;
  text_release(&load);
}

/* ---- Walking every index ------------------------------------------------------------------- */

static void write_walk(scatter *s, text_buffer *text) {
  generation *g = s->g;
  char column[128], at[160];
  text_add(text, "for (INDEX update = first; update < last; update++) {\n");
  emit_offsets(g, text, &s->indices, 0, s->indices.rank, "update", "index");
  if (s->slices) {
    indexed_open(g, text, "index_in1");
    text_add(text, "if (place >= begin && place < end) {\n");
  }
  emit_offsets(g, text, &s->updates, 0, s->updates.rank, "update", "update");
  open_columns(s, text, s->slices);
  if (!s->slices) {
    column_offset(s, "in1", column, sizeof column);
    snprintf(at, sizeof at, "index_in1 + %s", column);
    indexed_open(g, text, at);
    text_add(text, "if (place >= begin && place < end) {\n");
  }
  write_addition(s, text);
  if (!s->slices) {
    text_add(text, "}\n");
    indexed_close(text);
  }
  close_columns(s, text);
  if (s->slices) {
    text_add(text, "}\n");
    indexed_close(text);
  }
  text_add(text, "}\n");
}

/* ---- Chunks of indices through local memory ------------------------------------------------ */

static const char *lowest_bit(const generation *g) {
  switch (g->target->dialect) {
  case COMPUTE_DIALECT_OPENCL: return "(31u - clz(word & (0u - word)))";
  case COMPUTE_DIALECT_CUDA: return "((u32)__ffs((i32)word) - 1u)";
  case COMPUTE_DIALECT_C: break;
  }
  return "((u32)__builtin_ctz(word))";
}

/* Each item judges one index of the chunk; a bit says whether it hits, so that all walk the hits in
 * order. Items without a column take part in all but the adding. */
static void write_staged(scatter *s, text_buffer *text) {
  generation *g = s->g;
  text_add(text,
           "for (INDEX chunk = first; chunk < last; chunk += %u) {\n"
           "const INDEX judged = chunk + (INDEX)LOCAL_ID_X;\n"
           "INDEX mine = -1;\n"
           "if (judged < last) {\n",
           s->group_x);
  emit_offsets(g, text, &s->indices, 0, s->indices.rank, "judged", "index");
  indexed_open(g, text, "index_in1");
  text_add(text, "if (place >= begin && place < end) mine = (INDEX)place;\n");
  indexed_close(text);
  text_add(text,
           "}\n"
           "places[LOCAL_ID_X] = mine;\n"
           "BARRIER();\n"
           "if (LOCAL_ID_X < %uu) {\n"
           "  u32 word = 0;\n"
           "  for (u32 bit = 0; bit < 32u; bit++)\n"
           "    if (places[LOCAL_ID_X * 32u + bit] >= 0) word |= 1u << bit;\n"
           "  hits[LOCAL_ID_X] = word;\n"
           "}\n"
           "BARRIER();\n"
           "for (u32 w = 0; w < %uu; w++) {\n"
           "for (u32 word = hits[w]; word != 0; word &= word - 1u) {\n"
           "const u32 slot = w * 32u + %s;\n"
           "const INDEX place = places[slot];\n"
           "const INDEX update = chunk + (INDEX)slot;\n",
           s->group_x / 32, s->group_x / 32, lowest_bit(g));
  emit_offsets(g, text, &s->updates, 0, s->updates.rank, "update", "update");
  text_add(text, "if (active)\n");
  write_addition(s, text);
  text_add(text, "}\n}\nBARRIER();\n}\n");
}

/* ---- Launches ------------------------------------------------------------------------------ */

static void add_fields(scatter *s, emit_launch *launch) {
  generation *g = s->g;
  indexed_fields(g, launch);
  emit_field_index(g, launch, "axis", compute_index_of(g->descriptor)->axis_size);
  emit_field_index(g, launch, "columns", s->column_count);
  emit_field_index(g, launch, "updates", s->update_count);
  emit_field_index(g, launch, "rows", s->rows);
  emit_field_index(g, launch, "part", s->part);
  if (emit_for_cpu(g)) {
    emit_field_index(g, launch, "length", s->columns.size[s->columns.rank - 1]);
    emit_field_index(g, launch, "width", s->width);
    emit_field_divisor(g, launch, "pieces", s->pieces);
  }
  emit_space_fields(g, launch, &s->columns, 0, s->columns.rank);
  emit_space_fields(g, launch, &s->updates, 0, s->updates.rank);
  emit_space_fields(g, launch, &s->indices, 0, s->indices.rank);
}

/* Range of the axis and part of the updates. */
static void write_share(const scatter *s, text_buffer *text) {
  text_add(text,
           "const INDEX part = (INDEX)GROUP_ID_Z;\n"
           "const INDEX first = part * shape.part;\n"
           "const INDEX last = shape.updates - first < shape.part ? shape.updates : first + "
           "shape.part;\n"
           "const INDEX begin = ((INDEX)GROUP_ID_Y * %u + (INDEX)LOCAL_ID_Y) * shape.rows;\n"
           "const INDEX end = shape.axis - begin < shape.rows ? shape.axis : begin + shape.rows;\n",
           s->group_y);
  if (s->copies) text_add(text, "const INDEX copy = part * shape.axis;\n");
}

static void write_cpu_body(scatter *s, text_buffer *text) {
  text_add(text, "const INDEX tile = (INDEX)GROUP_ID_X;\n"
                 "const INDEX line = DIVIDE(tile, shape.pieces);\n"
                 "const INDEX first_column = (tile - line * shape.pieces) * shape.width;\n"
                 "const INDEX last_column = shape.length - first_column < shape.width ? "
                 "shape.length : first_column + shape.width;\n");
  if (s->copies) text_add(text, "const INDEX column = line * shape.length;\n");
  emit_offsets(s->g, text, &s->columns, 0, s->columns.rank - 1, "line", "column");
  if (s->copies) write_beginning(s, text);
  write_walk(s, text);
}

static void write_gpu_body(scatter *s, text_buffer *text) {
  text_add(text,
           "const INDEX own = (INDEX)GROUP_ID_X * %u + (INDEX)LOCAL_ID_X;\n"
           "const boolean active = own < shape.columns;\n"
           "const INDEX column = own < shape.columns ? own : 0;\n",
           s->group_x);
  emit_offsets(s->g, text, &s->columns, 0, s->columns.rank, "column", "column");
  if (s->staged) {
    if (s->copies) {
      text_add(text, "if (active) {\n");
      write_beginning(s, text);
      text_add(text, "}\n");
    }
    write_staged(s, text);
    return;
  }
  text_add(text, "if (active) {\n");
  if (s->copies) write_beginning(s, text);
  write_walk(s, text);
  text_add(text, "}\n");
}

static void write_adding(scatter *s) {
  generation *g = s->g;
  const bool cpu = emit_for_cpu(g);
  const int64_t axis = compute_index_of(g->descriptor)->axis_size;
  const int64_t tiles = cpu ? s->column_count / s->columns.size[s->columns.rank - 1] * s->pieces
                            : indexed_divide_up(s->column_count, s->group_x);
  emit_launch *launch = emit_launch_begin(
      g, "scatter", (uint32_t[3]){s->group_x, s->group_y, 1},
      (uint32_t[3]){(uint32_t)tiles, (uint32_t)indexed_divide_up(s->ranges, s->group_y),
                    (uint32_t)s->parts});
  if (!launch) return;
  emit_inputs(g, launch, 0, 2);
  emit_outputs(g, launch);
  emit_fault(g, launch);
  if (s->copies) {
    g->workspace_bytes =
        (uint64_t)s->parts * (uint64_t)axis * (uint64_t)s->column_count * (uint64_t)s->sum_bytes;
    if (g->workspace_bytes == 0) g->workspace_bytes = s->sum_bytes;
    emit_workspace(g, launch, "sums", emit_type(s->sum), s->sum_bytes, 0, true);
  }
  add_fields(s, launch);
  if (s->staged) {
    text_add(&launch->body, "LOCAL_ARRAY(INDEX, places, %u);\nLOCAL_ARRAY(u32, hits, %u);\n",
             s->group_x, s->group_x / 32);
  }
  write_share(s, &launch->body);
  if (cpu)
    write_cpu_body(s, &launch->body);
  else
    write_gpu_body(s, &launch->body);
}

/* Adds the parts' copies up in order, and converts. */
static void write_result(scatter *s) {
  generation *g = s->g;
  const bool cpu = emit_for_cpu(g);
  const int64_t count = compute_index_of(g->descriptor)->axis_size * s->column_count;
  if (count == 0) return;
  const int64_t units = g->target->compute_units ? g->target->compute_units : DEFAULT_UNITS;
  const uint32_t group = cpu ? 1 : s->group_x * s->group_y;
  const int64_t share = cpu ? indexed_divide_up(count, units * SHARES_PER_UNIT) : 1;
  const int64_t groups = indexed_divide_up(count, share * (int64_t)group);
  emit_launch *launch = emit_launch_begin(g, "scatter_result", (uint32_t[3]){group, 1, 1},
                                          (uint32_t[3]){(uint32_t)groups, 1, 1});
  if (!launch) return;
  emit_outputs(g, launch);
  emit_workspace(g, launch, "sums", emit_type(s->sum), s->sum_bytes, 0, false);
  emit_field_index(g, launch, "count", count);
  emit_field_index(g, launch, "parts", s->parts);
  if (cpu) emit_field_index(g, launch, "share", share);
  emit_space_fields(g, launch, &s->result, 0, s->result.rank);
  text_buffer *text = &launch->body;
  if (cpu)
    text_add(text, "const INDEX begin = (INDEX)GROUP_ID_X * shape.share;\n"
                   "const INDEX end = shape.count - begin < shape.share ? shape.count : begin + "
                   "shape.share;\n"
                   "for (INDEX item = begin; item < end; item++) {\n");
  else
    text_add(text,
             "const INDEX item = (INDEX)GROUP_ID_X * %u + (INDEX)LOCAL_ID_X;\n"
             "if (item < shape.count) {\n",
             group);
  emit_offsets(g, text, &s->result, 0, s->result.rank, "item", "at");
  text_add(text,
           "%s sum = sums[item];\n"
           "for (INDEX part = 1; part < shape.parts; part++) sum = SUM(sum, sums[part * "
           "shape.count + item]);\n",
           emit_type(s->sum));
  write_store(s, text, "at_out0", "sum");
  text_add(text, "\n}\n");
}

void scatter_write(scatter *s) {
  write_sum(s, &s->g->definitions);
  write_adding(s);
  if (s->copies) write_result(s);
}
