/* SPDX-License-Identifier: MIT */
/* TREES: ensembles of decision trees.
 *
 * A group has tiles of rows. The items of a row share its trees, so that a few rows occupy a GPU as
 * well. Sums are in the order of the trees whatever the tile is: in f64, or with compensation where
 * the device has none.
 *
 * Parameters: group_x, and group_y (the part of group_x that works on one row). */
#include <inttypes.h>
#include <stdio.h>

#include "codegen/generate/emit/emit.h"

enum {
  GROUP = 128,
  WALKS = 16,              /* of an item between two barriers */
  SUM_BYTES = 8 << 10,     /* of local memory for the results */
  ITEMS_PER_UNIT = 1024,   /* below this, several items share a row */
  MOST_GROUPS = 1 << 16,   /* beyond this, groups stride */
  GROUPS_PER_CPU_UNIT = 16 /* stride further */
};

typedef struct trees_kernel {
  generation *g;
  const compute_trees_attributes *a;
  int64_t rows, targets;
  bool wide_sum, compensated; /* f64; f32 with lost digits */
  int64_t group, lanes, tile; /* items; items of a row; rows of a group */
  int64_t block, blocks;      /* targets of a group; blocks of targets */
} trees_kernel;

/* ---- Choice ---------------------------------------------------------------------------------- */

static int64_t sum_bytes(const trees_kernel *k) {
  return k->group / k->lanes * k->block * (k->wide_sum || k->compensated ? 8 : 4);
}

static compute_status choose(trees_kernel *k) {
  generation *g = k->g;
  k->group =
      emit_for_cpu(g) ? 1 : emit_group_items(g, g->tuning.group_x ? g->tuning.group_x : GROUP);
  k->lanes = emit_clamp(emit_power_of_two(g->tuning.group_y ? g->tuning.group_y : 1), 1, k->group);
  if (!g->tuning.group_y)
    while (k->lanes < k->group && k->lanes < k->a->trees &&
           k->rows < emit_units(g) * ITEMS_PER_UNIT / k->lanes)
      k->lanes *= 2;
  k->block = emit_clamp(emit_power_of_two(k->targets), 1, SUM_BYTES / 8);
  while (k->lanes < k->group && sum_bytes(k) > SUM_BYTES) k->lanes *= 2;
  k->tile = k->group / k->lanes;
  k->blocks = divide_up(k->targets, k->block);
  g->tuning.group_x = (uint32_t)k->group;
  g->tuning.group_y = (uint32_t)k->lanes;
  const int64_t bytes = sum_bytes(k) + k->group * WALKS * (int64_t)sizeof(int32_t);
  if ((uint64_t)bytes > emit_local_limit(g))
    return emit_refuse(g, "trees: %" PRId64 " bytes of local memory", bytes);
  return COMPUTE_OK;
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void define_records(trees_kernel *k, text_buffer *to) {
  if (k->a->words == 1) {
    emit_define(to, "TREES_STEP(at)",
                "const u64 record_ = (u64)in1[at]; const f32 threshold = as_f32((u32)record_);"
                " const INDEX column = (INDEX)(record_ >> 32 & 0xffff),"
                " left = (INDEX)(record_ >> 48);");
    emit_define(to, "TREES_LEAF(at)", "(i32)(in1[at] & 0x3fffff)");
  } else {
    emit_define(to, "TREES_STEP(at)",
                "const f64 threshold = as_f64((u64)in1[2 * (at)]);"
                " const u64 record_ = (u64)in1[2 * (at) + 1];"
                " const INDEX column = (INDEX)(record_ & 0xffffffff),"
                " left = (INDEX)(record_ >> 32);");
    emit_define(to, "TREES_LEAF(at)", "(i32)(in1[2 * (at)] & 0x7fffffff)");
  }
}

static void define(trees_kernel *k) {
  generation *g = k->g;
  const compute_dtype type = g->descriptor->accumulate;
  const compute_dtype sum = k->wide_sum ? COMPUTE_F64 : type;
  text_buffer *to = &g->definitions, text = {0};
  emit_define(to, "VALUE", emit_type(type));
  emit_define(to, "TREES_SUM", emit_type(sum));
  emit_define_number(to, "TREES_LANES", k->lanes);
  emit_define_number(to, "TREES_ROWS", k->tile);
  emit_define_number(to, "TREES_CHUNK", k->lanes * WALKS);
  emit_define_number(to, "TREES_TARGETS", k->block);
  const char *start = type == COMPUTE_F64 ? "NAN_f64" : "NAN_f32";
  if (k->a->combine == COMPUTE_COMBINE_SUM) {
    start = "0";
    emit_define(to, "TREES_COMBINE(sum, value)",
                k->compensated ? "sum = compensated(sum, value, &lost);" : "sum += value;");
    emit_define(to, "TREES_RESULT(sum)", "(sum)");
  } else {
    text_add(&text,
             "{ const VALUE value_ = value; if (sum != sum || value_ %s sum) sum = value_; }",
             k->a->combine == COMPUTE_COMBINE_MIN ? "<" : ">");
    emit_define_text(to, "TREES_COMBINE(sum, value)", &text);
    emit_define(to, "TREES_RESULT(sum)", "((sum) != (sum) ? 0 : (sum))");
  }
  text_add(&text, "TREES_SUM sum = %s%s;", start, k->compensated ? ", lost = 0" : "");
  emit_define_text(to, "TREES_BEGIN", &text);
  text_add(&text, "TREES_SUM sum = sums[at]%s;", k->compensated ? ", lost = losts[at]" : "");
  emit_define_text(to, "TREES_TAKE(at)", &text);
  text_add(&text, "sums[at] = sum;%s", k->compensated ? " losts[at] = lost;" : "");
  emit_define_text(to, "TREES_KEEP(at)", &text);
  if (k->compensated) emit_template(g, to, "fold_compensated");
  emit_store(&text, type, sum, "out0", "at", "value");
  emit_define_text(to, "TREES_STORE(at, value)", &text);
  emit_load(&text, type, "in0", "i");
  emit_define_text(to, "TREES_X(i)", &text);
  define_records(k, to);
  emit_template(g, to, "trees");
}

static void add_launch(trees_kernel *k) {
  generation *g = k->g;
  const compute_kernel_descriptor *d = g->descriptor;
  const int64_t pieces = divide_up(k->rows, k->tile) * k->blocks;
  const int64_t most = emit_for_cpu(g) ? emit_units(g) * GROUPS_PER_CPU_UNIT : MOST_GROUPS;
  emit_launch *launch =
      emit_launch_line(g, "trees", (uint32_t)k->group, emit_clamp(pieces, 1, most));
  if (!launch) return;
  emit_inputs(g, launch, 0, 4);
  emit_outputs(g, launch);
  emit_field_index(g, launch, "pieces", pieces);
  emit_field_divisor(g, launch, "blocks", k->blocks);
  emit_field_index(g, launch, "rows", k->rows);
  emit_field_index(g, launch, "targets", k->targets);
  emit_field_index(g, launch, "trees", k->a->trees);
  emit_field_index(g, launch, "features", k->a->features);
  emit_field_index(g, launch, "x_row", d->inputs[0].stride[0]);
  emit_field_index(g, launch, "x_column", d->inputs[0].stride[1]);
  emit_field_index(g, launch, "y_row", d->outputs[0].stride[0]);
  emit_field_index(g, launch, "y_target", d->outputs[0].stride[1]);
  text_buffer *text = &launch->body;
  if (k->compensated)
    text_add(text, "LOCAL_ARRAY(TREES_SUM, losts, TREES_ROWS * TREES_TARGETS);\n");
  text_add(text, "LOCAL_ARRAY(TREES_SUM, sums, TREES_ROWS * TREES_TARGETS);\n"
                 "LOCAL_ARRAY(i32, leaves, TREES_ROWS * TREES_CHUNK);\n"
                 "const int place = (int)LOCAL_ID_X / TREES_LANES;\n"
                 "const int seat = (int)LOCAL_ID_X %% TREES_LANES;\n"
                 "for (INDEX piece = (INDEX)GROUP_ID_X; piece < shape.pieces;\n"
                 "     piece += (INDEX)GROUP_COUNT_X) {\n"
                 "const INDEX tile = DIVIDE(piece, shape.blocks);\n"
                 "const INDEX first_target = (piece - tile * shape.blocks) * TREES_TARGETS;\n"
                 "const INDEX row = tile * TREES_ROWS + place;\n");
  emit_template(g, text, "trees_rows");
  text_add(text, "}\n");
}

static compute_status emit(generation *g) {
  const compute_kernel_descriptor *d = g->descriptor;
  const compute_trees_attributes *a = compute_trees_of(d);
  trees_kernel k = {.g = g, .a = a, .rows = d->size[0], .targets = d->size[1]};
  if (k.rows == 0 || k.targets == 0) return COMPUTE_OK;
  if (a->words == 2 && !emit_has(g, COMPUTE_TARGET_F64))
    return emit_refuse(g, "trees: thresholds of f64 on a device without it");
  k.wide_sum = d->accumulate == COMPUTE_F64 ||
               (a->combine == COMPUTE_COMBINE_SUM && emit_has(g, COMPUTE_TARGET_F64));
  k.compensated = a->combine == COMPUTE_COMBINE_SUM && !k.wide_sum;
  const compute_status status = choose(&k);
  if (status) return status;
  if ((double)k.rows * (double)k.blocks > 0x1p45) return emit_refuse(g, "trees: too many rows");
  /* Rows and blocks of targets are rounded up. */
  const double pieces = ((double)k.rows + (double)k.tile) * (double)k.blocks;
  sweep_measure(g,
                pieces * (double)k.block + COMPUTE_TREES_HEAD * ((double)a->trees + GROUP * WALKS));
  define(&k);
  add_launch(&k);
  snprintf(g->text, sizeof g->text, "trees by groups of %" PRId64 ", %" PRId64 " items for a row",
           k.group, k.lanes);
  return COMPUTE_OK;
}

const emit_kind emit_trees = {.name = "TREES", .emit = emit};
