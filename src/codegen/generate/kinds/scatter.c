/* SPDX-License-Identifier: MIT */
/* SCATTER: adds updates to elements of an axis that an index tensor chooses, or joins them in
 * another way. It uses no atomics, so every run gives the same bits.
 *
 * The dimensions of the space are of two kinds. The output moves along the free ones: their points,
 * the columns, never meet. It does not move along the others: their points, the updates, may meet.
 * An item owns some columns and a range of the axis. It walks the updates in row-major order and
 * adds those whose index is in its range. Each range reads the indices once more, but with few
 * columns only ranges give a GPU enough work.
 *
 * There are two refinements. If all columns share the indices and a group is within one range, the
 * group reads a chunk of indices together and then visits only the hits ("staged"). If the axis is
 * short, or f16 and bf16 must be summed in f32, updates are cut into parts. Each part sums into a
 * separate copy in the workspace, and a second launch adds the copies in order. */
#include <stdio.h>
#include <string.h>

#include "codegen/generate/kinds/indexed.h"

enum {
  WALK = 1, /* compute_tuning.variant */
  STAGED = 2,
  GROUP = 128,
  GROUPS_PER_UNIT = 16,
  DEFAULT_UNITS = 16,
  UPDATES_OF_PART = 64, /* at least */
  UPDATES_OF_CPU_PART = 1024,
  SHARES_PER_UNIT = 2,
  SHARE = 1 << 14, /* additions that make a CPU item worthwhile */
  LINE = 16,       /* columns of a CPU item, if there are enough */
  WORKSPACE_LIMIT = 64 << 20
};

typedef struct scatter {
  generation *g;
  emit_space columns; /* free dimensions: in0, out0, and in1 unless `slices` */
  emit_space updates; /* other dimensions: in0 */
  emit_space indices; /* other dimensions: in1 */
  emit_space result;  /* axis, then free dimensions: out0; if `copies` */
  int64_t column_count, update_count;
  bool slices; /* all columns share the indices */
  bool staged; /* chunks of indices go through local memory */
  bool copies; /* sums are in the workspace */
  compute_scatter_mode mode;
  compute_dtype sum;
  uint32_t sum_bytes;
  uint32_t group_x, group_y; /* columns and ranges of a group */
  int64_t ranges, rows;      /* of the axis; places of one range */
  int64_t parts, part;       /* of the updates; updates of one part */
  int64_t width, pieces;     /* CPU: columns of an item; pieces of a line of columns */
} scatter;

/* ---- Spaces -------------------------------------------------------------------------------- */

/* The free dimensions in the order of the output's memory, or the others in their original
 * order. */
static int32_t choose_dimensions(const compute_kernel_descriptor *d, bool free,
                                 int32_t chosen[COMPUTE_MAX_RANK]) {
  const int64_t *stride = d->outputs[0].stride;
  int32_t count = 0;
  for (int32_t i = 0; i < d->rank; i++) {
    if ((stride[i] != 0) != free) continue;
    int32_t at = count++;
    for (; free && at > 0 && emit_magnitude(stride[chosen[at - 1]]) < emit_magnitude(stride[i]);
         at--)
      chosen[at] = chosen[at - 1];
    chosen[at] = i;
  }
  return count;
}

static void begin_space(const scatter *s, emit_space *space, const char *name, bool free) {
  int32_t chosen[COMPUTE_MAX_RANK];
  int64_t size[COMPUTE_MAX_RANK] = {0};
  const int32_t rank = choose_dimensions(s->g->descriptor, free, chosen);
  for (int32_t i = 0; i < rank; i++) size[i] = s->g->descriptor->size[chosen[i]];
  space_begin(space, name, rank, size);
}

static void add_walk(const scatter *s, emit_space *space, const char *name,
                     const compute_operand *operand, bool free) {
  int32_t chosen[COMPUTE_MAX_RANK];
  int64_t stride[COMPUTE_MAX_RANK] = {0};
  const int32_t rank = choose_dimensions(s->g->descriptor, free, chosen);
  for (int32_t i = 0; i < rank; i++) stride[i] = operand->stride[chosen[i]];
  space_add(space, name, stride);
}

/* The output over axis and columns, for the second launch. */
static void build_result(scatter *s) {
  const compute_kernel_descriptor *d = s->g->descriptor;
  int32_t chosen[COMPUTE_MAX_RANK];
  int64_t size[COMPUTE_MAX_RANK] = {compute_index_of(d)->axis_size},
          stride[COMPUTE_MAX_RANK] = {compute_index_of(d)->axis_stride};
  const int32_t rank = choose_dimensions(d, true, chosen);
  for (int32_t i = 0; i < rank; i++) {
    size[i + 1] = d->size[chosen[i]];
    stride[i + 1] = d->outputs[0].stride[chosen[i]];
  }
  space_begin(&s->result, "r", rank + 1, size);
  space_add(&s->result, "out0", stride);
  space_canonicalise(s->g, &s->result);
}

static void build_spaces(scatter *s) {
  const compute_kernel_descriptor *d = s->g->descriptor;
  int32_t chosen[COMPUTE_MAX_RANK];
  const int32_t rank = choose_dimensions(d, true, chosen);
  s->slices = true;
  for (int32_t i = 0; i < rank; i++)
    if (d->inputs[1].stride[chosen[i]] != 0 && d->size[chosen[i]] > 1) s->slices = false;
  begin_space(s, &s->columns, "c", true);
  add_walk(s, &s->columns, "in0", &d->inputs[0], true);
  if (!s->slices) add_walk(s, &s->columns, "in1", &d->inputs[1], true);
  add_walk(s, &s->columns, "out0", &d->outputs[0], true);
  begin_space(s, &s->updates, "u", false);
  add_walk(s, &s->updates, "in0", &d->inputs[0], false);
  begin_space(s, &s->indices, "i", false);
  add_walk(s, &s->indices, "in1", &d->inputs[1], false);
  s->column_count = space_count(&s->columns, 0, s->columns.rank);
  s->update_count = space_count(&s->updates, 0, s->updates.rank);
  emit_space *const spaces[] = {&s->columns, &s->updates, &s->indices};
  for (int i = 0; i < 3; i++) {
    space_canonicalise(s->g, spaces[i]);
    space_fill_rank(spaces[i]);
  }
  /* Positions of updates are never multiplied with other numbers, but both counts must fit
   * INDEX. */
  if (s->column_count > INT32_MAX || s->update_count > INT32_MAX - 65536) s->g->wide = true;
}

/* ---- Shares -------------------------------------------------------------------------------- */

/* The largest number of parts. The copies of all parts together stay below the workspace limit, and
 * need less work than the updates. Only sums begin at 0, so other modes have one part. */
static int64_t most_parts(const scatter *s, int64_t updates_of_part) {
  if (s->mode != COMPUTE_SCATTER_ADD) return 1;
  const double copy =
      (double)max_i64(1, compute_index_of(s->g->descriptor)->axis_size) * (double)s->column_count;
  const double fits = (double)WORKSPACE_LIMIT / (copy * (double)s->sum_bytes);
  const double pays = (double)s->update_count * (double)s->column_count / copy;
  if (emit_is_reproducible(s->g)) return 1; /* the columns may be items */
  double most = (double)(s->update_count / updates_of_part);
  if (fits < most) most = fits;
  if (pays < most) most = pays;
  return min_i64(most < 1 ? 1 : (int64_t)most, 65535);
}

static void share_for_gpu(scatter *s) {
  generation *g = s->g;
  const int64_t axis = max_i64(1, compute_index_of(g->descriptor)->axis_size);
  const uint32_t group = emit_group_items(g, g->tuning.group_x ? g->tuning.group_x : GROUP);
  const int64_t units = g->target->compute_units ? g->target->compute_units : DEFAULT_UNITS;
  const int64_t wanted = units * (g->tuning.groups ? g->tuning.groups : GROUPS_PER_UNIT) * group;
  s->group_x = 1;
  while (s->group_x < group && s->group_x < s->column_count) s->group_x *= 2;
  s->group_y = group / s->group_x;
  if (s->group_y > g->target->group_limit_of[1]) s->group_y = g->target->group_limit_of[1];
  s->ranges = min_i64(s->group_y, axis);
  s->parts = 1;
  if (s->column_count * s->ranges < wanted)
    s->parts =
        min_i64(most_parts(s, UPDATES_OF_PART), divide_up(wanted, s->column_count * s->ranges));
  if (s->column_count * s->ranges * s->parts < wanted)
    s->ranges = min_i64(min_i64(axis, 65535), wanted / (s->column_count * s->parts));
  s->ranges = max_i64(1, s->ranges);
  s->width = s->pieces = 1;
  s->staged = s->slices && s->group_y == 1 && s->group_x >= 32 && g->tuning.variant != WALK;
}

static void share_for_cpu(scatter *s) {
  generation *g = s->g;
  const int64_t axis = max_i64(1, compute_index_of(g->descriptor)->axis_size);
  const int64_t length = s->columns.size[s->columns.rank - 1], lines = s->column_count / length;
  const int64_t units = g->target->compute_units ? g->target->compute_units : DEFAULT_UNITS;
  const double work = (double)s->column_count * (double)s->update_count;
  int64_t wanted = units * (g->tuning.groups ? g->tuning.groups : SHARES_PER_UNIT);
  if (work / SHARE < (double)wanted) wanted = max_i64(1, (int64_t)(work / SHARE));
  s->group_x = s->group_y = 1;
  s->pieces = lines >= wanted ? 1 : min_i64(divide_up(wanted, lines), length);
  s->width = min_i64(length, max_i64(LINE, divide_up(length, s->pieces)));
  s->pieces = divide_up(length, s->width);
  s->ranges = s->parts = 1;
  const int64_t missing = divide_up(wanted, lines * s->pieces);
  if (missing > 1) s->parts = min_i64(missing, most_parts(s, UPDATES_OF_CPU_PART));
  if (missing > 1 && s->parts == 1) s->ranges = min_i64(missing, axis);
  s->staged = false;
}

static void choose_shares(scatter *s) {
  const compute_dtype dtype = s->g->descriptor->outputs[0].dtype;
  const int64_t axis = compute_index_of(s->g->descriptor)->axis_size;
  s->sum = dtype_compute_type(dtype);
  s->sum_bytes = (uint32_t)compute_dtype_size(s->sum);
  if (emit_for_cpu(s->g))
    share_for_cpu(s);
  else
    share_for_gpu(s);
  s->rows = max_i64(1, divide_up(axis, s->ranges));
  s->ranges = max_i64(1, divide_up(axis, s->rows));
  s->part = max_i64(1, divide_up(s->update_count, s->parts));
  s->parts = max_i64(1, divide_up(s->update_count, s->part));
  const bool rounds = s->mode == COMPUTE_SCATTER_ADD || s->mode == COMPUTE_SCATTER_MUL;
  s->copies = s->parts > 1 || (rounds && (dtype == COMPUTE_F16 || dtype == COMPUTE_BF16));
  const double copied = (double)s->parts * (double)axis * (double)s->column_count;
  if (s->copies && copied > INT32_MAX) s->g->wide = true;
}

static compute_status check_shares(const scatter *s) {
  const double columns = (double)s->column_count;
  const double tiles = emit_for_cpu(s->g) ? columns / (double)s->columns.size[s->columns.rank - 1] *
                                                (double)s->pieces
                                          : columns / s->group_x;
  if (tiles > INT32_MAX) return emit_refuse(s->g, "more groups than one launch can have");
  const double bytes = (double)s->parts * (double)compute_index_of(s->g->descriptor)->axis_size *
                       columns * (double)s->sum_bytes;
  if (s->copies && bytes > 0x1p40) return emit_refuse(s->g, "the sums do not fit into any memory");
  return COMPUTE_OK;
}

/* ---- Pieces -------------------------------------------------------------------------------- */

/* Joins an element and an update in the type of the sums; integers wrap. */
static void write_join(const scatter *s, text_buffer *text) {
  static const char *const joins[] = {
      [COMPUTE_SCATTER_ADD] = "((a) + (b))",
      [COMPUTE_SCATTER_SET] = "(b)",
      [COMPUTE_SCATTER_MUL] = "((a) * (b))",
      [COMPUTE_SCATTER_MAX] = "((a) > (b) || (a) != (a) ? (a) : (b))",
      [COMPUTE_SCATTER_MIN] = "((a) < (b) || (a) != (a) ? (a) : (b))",
  };
  const bool wraps = s->mode == COMPUTE_SCATTER_ADD || s->mode == COMPUTE_SCATTER_MUL;
  const char *wide = s->sum == COMPUTE_I64 ? "u64" : "u32";
  if (wraps && (s->sum == COMPUTE_I64 || s->sum == COMPUTE_I32))
    text_add(text, "#define JOIN(a, b) ((%s)((%s)(a) %c (%s)(b)))\n", emit_type(s->sum), wide,
             s->mode == COMPUTE_SCATTER_ADD ? '+' : '*', wide);
  else
    text_add(text, "#define JOIN(a, b) %s\n", joins[s->mode]);
}

/* The offset of the item's column i in a walk. A CPU item has several columns. */
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

/* The index into `sums` of the item's column at a place. */
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
  if (s->mode == COMPUTE_SCATTER_SET) {
    text_add(text, "out0[%s + (INDEX)place * shape.axis_stride] = in0[%s];\n", out, from);
  } else if (s->copies) {
    text_add(text, "const INDEX at = %s;\nsums[at] = JOIN(sums[at], %s);\n", copy_offset(s),
             load.data ? load.data : "");
  } else {
    text_add(text, "const INDEX at = %s + (INDEX)place * shape.axis_stride;\n", out);
    emit_load(&sum, dtype, "out0", "at");
    snprintf(value, sizeof value, "JOIN(%s, %s)", sum.data ? sum.data : "",
             load.data ? load.data : "");
    emit_store(text, dtype, s->sum, "out0", "at", value);
    text_add(text, "\n");
  }
  text_add(text, "}\n");
  if (load.failed || sum.failed) s->g->failed = true;
  text_release(&load);
  text_release(&sum);
}

/* The item's copy starts as the output in the first part, and as 0 in the others. */
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

/* Each item tests one index of the chunk and sets a bit for a hit, so that all items walk the hits
 * in order. Items without a column do all steps but the addition. */
static void write_staged(scatter *s, text_buffer *text) {
  generation *g = s->g;
  text_add(text,
           "for (INDEX chunk = first; chunk < last; chunk += %u) {\n"
           "const INDEX checked = chunk + (INDEX)LOCAL_ID_X;\n"
           "INDEX mine = -1;\n"
           "if (checked < last) {\n",
           s->group_x);
  emit_offsets(g, text, &s->indices, 0, s->indices.rank, "checked", "index");
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

/* Finds the range of the axis and the part of the updates. */
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
                            : divide_up(s->column_count, s->group_x);
  emit_launch *launch =
      emit_launch_begin(g, "scatter", (uint32_t[3]){s->group_x, s->group_y, 1},
                        (uint32_t[3]){(uint32_t)tiles, (uint32_t)divide_up(s->ranges, s->group_y),
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

/* Adds up the copies of the parts in order, and converts. */
static void write_result(scatter *s) {
  generation *g = s->g;
  const bool cpu = emit_for_cpu(g);
  const int64_t count = compute_index_of(g->descriptor)->axis_size * s->column_count;
  if (count == 0) return;
  const int64_t units = g->target->compute_units ? g->target->compute_units : DEFAULT_UNITS;
  const uint32_t group = cpu ? 1 : s->group_x * s->group_y;
  const int64_t share = cpu ? divide_up(count, units * SHARES_PER_UNIT) : 1;
  const int64_t groups = divide_up(count, share * (int64_t)group);
  emit_launch *launch = emit_launch_line(g, "scatter_result", group, groups);
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
           "for (INDEX part = 1; part < shape.parts; part++) sum = JOIN(sum, sums[part * "
           "shape.count + item]);\n",
           emit_type(s->sum));
  emit_store(text, s->g->descriptor->outputs[0].dtype, s->sum, "out0", "at_out0", "sum");
  text_add(text, "\n}\n");
}

static void write_launches(scatter *s) {
  write_join(s, &s->g->definitions);
  write_adding(s);
  if (s->copies) write_result(s);
}

static compute_status emit(generation *g) {
  const compute_kernel_descriptor *d = g->descriptor;
  scatter s;
  memset(&s, 0, sizeof s);
  s.g = g;
  s.mode = compute_index_of(d)->mode;
  compute_status status = indexed_check(g, &d->outputs[0]);
  if (status) return status;
  for (int32_t i = 0; i < d->rank; i++)
    if (d->size[i] == 0) return COMPUTE_OK;
  build_spaces(&s);
  choose_shares(&s);
  status = check_shares(&s);
  if (status) return status;
  if (s.copies) build_result(&s);
  write_launches(&s);
  g->tuning.variant = s.staged ? STAGED : WALK;
  g->tuning.group_x = s.group_x * s.group_y;
  snprintf(g->text, sizeof g->text, "scatter, %s, %u by %u items, %lld ranges, %lld parts%s",
           s.staged ? "staged" : "walked", s.group_x, s.group_y, (long long)s.ranges,
           (long long)s.parts, s.copies ? ", copies added" : "");
  return COMPUTE_OK;
}

static const tuning_grid grids[] = {
    {TUNE_OTHERS, {TUNE(variant, 1, 2), TUNE(group_x, 64, 128, 256), TUNE(groups, 4, 8, 16, 32)}},
    {TUNE_CPU, {TUNE(groups, 1, 2, 4, 8)}},
    {.target = TUNE_END},
};

const emit_kind emit_scatter = {.name = "SCATTER", .emit = emit, .grids = grids};
