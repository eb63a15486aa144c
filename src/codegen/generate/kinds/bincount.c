/* SPDX-License-Identifier: MIT */
/* BINCOUNT: counts of small integers in rows, or sums of weights.
 *
 * A group counts a part of a row in a tile of the bins, which local memory holds. Each tile reads
 * the part once more. Counts are added by atomics. Weights are added by the item that owns the bin,
 * in order and with compensation, so there every item looks at every element. A row in parts leaves
 * its sums in the workspace, and a second launch adds them in order.
 *
 * Parameters: group_x, and groups (for each compute unit, before rows are cut). */
#include <stdio.h>

#include "codegen/generate/kinds/indexed.h"

enum {
  GROUP = 256,
  WEIGHT_GROUP = 64, /* every item looks at every element, so large groups do more work */
  CHUNK = 128,       /* elements with weights that a group reads together */
  MOST_TILE = 4096,  /* bins */
  MOST_WEIGHT_TILE = 1024,
  MOST_CPU_TILE = 1 << 15,
  GROUPS_PER_UNIT = 8,
  PART_LEAST = 1 << 11, /* elements */
  CPU_PART_LEAST = 1 << 14,
  PART_MOST = 1 << 30, /* counts of a part are i32 */
  MOST_PARTS = 1024,
  MOST_GROUPS = 1 << 16, /* beyond this, groups stride */
  SHARE_LEAST = 256,
  WORKSPACE_LIMIT = 64 << 20
};

typedef struct bincount_kernel {
  generation *g;
  emit_space space; /* over the rows */
  int64_t rows, length, bins;
  bool weighted;
  compute_dtype sum; /* type of a part's sums */
  uint32_t sum_bytes, group;
  int64_t tile, tiles; /* bins of a tile; tiles of a row */
  int64_t part, parts; /* elements of a part; parts of a row */
} bincount_kernel;

/* ---- Choice -------------------------------------------------------------------------------- */

static uint64_t local_bytes(const bincount_kernel *k, int64_t tile) {
  if (!k->weighted) return (uint64_t)tile * k->sum_bytes;
  return (uint64_t)tile * 2 * k->sum_bytes + (uint64_t)CHUNK * (4 + k->sum_bytes);
}

static void choose_tile(bincount_kernel *k) {
  const int64_t most = emit_for_cpu(k->g) ? MOST_CPU_TILE
                       : k->weighted      ? MOST_WEIGHT_TILE
                                          : MOST_TILE;
  k->tile = emit_power_of_two(k->bins < most ? k->bins : most);
  while (k->tile > 1 && local_bytes(k, k->tile) > emit_local_limit(k->g) * 3 / 4) k->tile /= 2;
  k->tiles = divide_up(k->bins, k->tile);
}

/* The sums of all parts stay below the workspace limit, and are fewer than the elements. */
static void choose_parts(bincount_kernel *k) {
  const generation *g = k->g;
  const int64_t least = emit_for_cpu(g) ? CPU_PART_LEAST : PART_LEAST;
  const int64_t wanted = emit_units(g) * (g->tuning.groups ? g->tuning.groups : GROUPS_PER_UNIT);
  const double lines = (double)k->rows * (double)k->tiles;
  const double copy = (double)k->rows * (double)k->bins * k->sum_bytes;
  int64_t most = k->length / (k->bins > least ? k->bins : least);
  if ((double)most > WORKSPACE_LIMIT / copy) most = (int64_t)(WORKSPACE_LIMIT / copy);
  const bool few = lines < (double)wanted && !emit_is_reproducible(g);
  const int64_t parts = few ? divide_up(wanted, (int64_t)lines) : 1;
  k->part = divide_up(k->length, emit_clamp(parts, 1, emit_clamp(most, 1, MOST_PARTS)));
  k->part = emit_clamp(k->part, 1, PART_MOST);
  k->parts = emit_clamp(divide_up(k->length, k->part), 1, INT64_MAX);
}

/* ---- Text ---------------------------------------------------------------------------------- */

/* out0[…] = value, which has the type of the sums. */
static void add_result(const bincount_kernel *k, text_buffer *text, const char *value) {
  const char *at = "row_out0 + (bin) * shape.out_step";
  if (k->weighted)
    emit_store(text, k->g->descriptor->outputs[0].dtype, k->sum, "out0", at, value);
  else
    text_add(text, "out0[%s] = (i64)(%s);", at, value);
}

static void define(bincount_kernel *k) {
  generation *g = k->g;
  text_buffer *definitions = &g->definitions, text = {0};
  emit_define(definitions, "VALUE", emit_type(k->sum));
  emit_define_number(definitions, "BIN_GROUP", k->group);
  emit_define_number(definitions, "BIN_TILE", k->tile);
  emit_define(definitions, "BIN_AT(i)", "(row_in0 + (i) * shape.step0)");
  indexed_fault(g, &text, "in0", "at");
  emit_define_text(definitions, "BIN_FAULT(at)", &text);
  if (k->weighted) {
    emit_define_number(definitions, "BIN_CHUNK", CHUNK);
    emit_load(&text, g->descriptor->inputs[1].dtype, "in1", "row_in1 + (i) * shape.step1");
    emit_define_text(definitions, "BIN_WEIGHT(i)", &text);
    emit_template(g, definitions, "fold_compensated");
  }
  if (k->parts > 1)
    text_add(&text, "parts_sums[line * shape.bins + (bin)] = (sum);");
  else
    add_result(k, &text, "(sum)");
  emit_define_text(definitions, "BIN_STORE(bin, sum)", &text);
  emit_template(g, definitions, "bincount");
}

static void take_parts(bincount_kernel *k, emit_launch *launch, bool written) {
  emit_workspace(k->g, launch, "parts_sums", emit_type(k->sum), k->sum_bytes, 0, written);
  k->g->workspace_bytes = (uint64_t)k->rows * (uint64_t)k->parts * (uint64_t)k->bins * k->sum_bytes;
}

static void take_result(bincount_kernel *k, emit_launch *launch) {
  const compute_kernel_descriptor *d = k->g->descriptor;
  emit_output(k->g, launch, 0);
  emit_field_index(k->g, launch, "out_step", d->outputs[0].stride[d->rank - 1]);
}

static void emit_parts(bincount_kernel *k) {
  generation *g = k->g;
  const compute_kernel_descriptor *d = g->descriptor;
  const int64_t lines = k->rows * k->parts * k->tiles;
  emit_launch *launch = emit_launch_line(g, k->parts > 1 ? "bincount_parts" : "bincount", k->group,
                                         emit_clamp(lines, 1, MOST_GROUPS));
  if (!launch) return;
  text_buffer *text = &launch->body;
  emit_inputs(g, launch, 0, d->input_count);
  if (k->parts > 1)
    take_parts(k, launch, true);
  else
    take_result(k, launch);
  emit_fault(g, launch);
  emit_field_index(g, launch, "pieces", lines);
  emit_field_index(g, launch, "bins", k->bins);
  emit_field_index(g, launch, "elements", k->length);
  emit_field_index(g, launch, "part", k->part);
  emit_field_divisor(g, launch, "parts", k->parts);
  emit_field_divisor(g, launch, "tiles", k->tiles);
  emit_field_index(g, launch, "step0", d->inputs[0].stride[d->rank - 1]);
  if (k->weighted) emit_field_index(g, launch, "step1", d->inputs[1].stride[d->rank - 1]);
  emit_space_fields(g, launch, &k->space, 0, k->space.rank);
  text_add(text, "LOCAL_ARRAY(VALUE, sums, BIN_TILE);\n");
  if (k->weighted)
    text_add(text, "LOCAL_ARRAY(VALUE, losts, BIN_TILE);\n"
                   "LOCAL_ARRAY(i32, places, BIN_CHUNK);\n"
                   "LOCAL_ARRAY(VALUE, weights, BIN_CHUNK);\n");
  text_add(text, "const int lane = (int)LOCAL_ID_X;\n"
                 "for (INDEX piece = (INDEX)GROUP_ID_X; piece < shape.pieces;\n"
                 "     piece += (INDEX)GROUP_COUNT_X) {\n"
                 "const INDEX line = DIVIDE(piece, shape.tiles);\n"
                 "const INDEX begin = (piece - line * shape.tiles) * BIN_TILE;\n"
                 "const INDEX row = DIVIDE(line, shape.parts);\n"
                 "const INDEX first = (line - row * shape.parts) * shape.part;\n"
                 "const INDEX last = shape.elements - first < shape.part ? shape.elements\n"
                 "  : first + shape.part;\n");
  emit_offsets(g, text, &k->space, 0, k->space.rank, "row", "row");
  emit_template(g, text, k->weighted ? "bincount_weights" : "bincount_counts");
  text_add(text, "}\n");
}

/* Adds the sums of the parts of each row. */
static void emit_sums(bincount_kernel *k) {
  generation *g = k->g;
  const sweep s = sweep_plan(g, k->rows * k->bins, SHARE_LEAST, GROUP);
  emit_launch *launch = emit_launch_line(g, "bincount", s.group, s.groups);
  if (!launch) return;
  text_buffer *text = &launch->body;
  take_parts(k, launch, false);
  take_result(k, launch);
  emit_field_divisor(g, launch, "bins", k->bins);
  emit_field_index(g, launch, "parts", k->parts);
  emit_space_fields(g, launch, &k->space, 0, k->space.rank);
  sweep_begin(g, launch, &s);
  text_add(text, "const INDEX row = DIVIDE(at, shape.bins), bin = at - row * shape.bins;\n");
  emit_offsets(g, text, &k->space, 0, k->space.rank, "row", "row");
  text_add(text,
           "%s sum = 0;\n%s"
           "for (INDEX part = 0; part < shape.parts; part++) {\n"
           "  const VALUE value = parts_sums[(row * shape.parts + part) * shape.bins + bin];\n"
           "  sum = %s;\n"
           "}\n",
           k->weighted ? "VALUE" : "i64", k->weighted ? "VALUE lost = 0;\n" : "",
           k->weighted ? "compensated(sum, value, &lost)" : "sum + value");
  add_result(k, text, "sum");
  text_add(text, "\n}\n");
}

static compute_status emit(generation *g) {
  const compute_kernel_descriptor *d = g->descriptor;
  const int32_t last = d->rank - 1;
  bincount_kernel k = {.g = g,
                       .length = compute_bincount_of(d)->axis_size,
                       .bins = d->size[last],
                       .weighted = d->input_count == 2,
                       .sum = COMPUTE_I32};
  if (k.bins == 0 || !space_rows(g, &k.space, last)) return COMPUTE_OK;
  k.rows = space_count(&k.space, 0, k.space.rank);
  if (k.weighted) k.sum = dtype_compute_type(d->inputs[1].dtype);
  k.sum_bytes = emit_value_bytes(k.sum);
  k.group = g->tuning.group_x ? g->tuning.group_x : k.weighted ? WEIGHT_GROUP : GROUP;
  k.group = emit_for_cpu(g) ? 1 : emit_group_items(g, k.group);
  choose_tile(&k);
  choose_parts(&k);
  const double pieces = (double)k.rows * (double)k.parts * (double)k.tiles;
  if (pieces > 0x1p45) return emit_refuse(g, "bincount: too many parts");
  sweep_measure(g, 4 * (double)k.length);
  if (pieces * (double)k.tile > 0x7e000000 || k.bins > 0x7e000000) g->wide = true;
  define(&k);
  emit_parts(&k);
  if (k.parts > 1) emit_sums(&k);
  g->tuning.group_x = k.group;
  snprintf(g->text, sizeof g->text, "bincount, groups of %u, %lld tiles of %lld bins, %lld parts",
           (unsigned)k.group, (long long)k.tiles, (long long)k.tile, (long long)k.parts);
  return COMPUTE_OK;
}

static const tuning_grid grids[] = {
    {TUNE_OTHERS, {TUNE(group_x, 32, 64, 128, 256), TUNE(groups, 4, 8, 16)}},
    {TUNE_CPU, {TUNE(groups, 1, 2, 4)}},
    {.target = TUNE_END},
};

const emit_kind emit_bincount = {.name = "BINCOUNT", .emit = emit, .grids = grids};
