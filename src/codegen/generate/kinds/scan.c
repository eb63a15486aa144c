/* SPDX-License-Identifier: MIT */
/* SCAN: running folds of rows.
 *
 * ITEM gives a row to an item, which goes along it. It is for CPUs, short rows, and rows whose
 * neighbours in memory belong to other rows. GROUP scans a row in chunks, each through local
 * memory. If there are fewer rows than the device has room for, rows are cut into parts. A first
 * launch folds each part, and the second begins a part with the fold of all earlier parts. No part
 * waits for another, so the same input gives the same bits.
 *
 * Parameters: variant (1: ITEM, 2: GROUP), group_x, items (elements of an item in a chunk) and
 * groups (for each compute unit, before rows are cut). */
#include <inttypes.h>
#include <stdio.h>

#include "codegen/generate/emit/emit.h"

enum {
  ITEM = 1,
  GROUP = 2,
  GROUP_ITEMS = 256,
  SHORT_GROUP = 64, /* for rows of a few of its chunks */
  ITEMS = 8,
  MOST_ITEMS = 32,
  SHORT_ROW = 16, /* too short for a group */
  GROUPS_PER_UNIT = 4,
  MOST_PARTS = 256,
  MOST_GROUPS = 1 << 20, /* beyond this, groups stride */
  PART_LEAST = 1 << 13,  /* elements that make a CPU item worthwhile */
  ROWS_LEAST = 1 << 10
};

typedef struct scan_kernel {
  generation *g;
  emit_space space; /* over the rows */
  int64_t rows, length;
  int64_t in_step, out_step;
  int64_t share, parts; /* elements of a part, parts of a row */
  uint32_t group, items;
  bool by_item;
} scan_kernel;

/* ---- Cutting up ---------------------------------------------------------------------------- */

/* True if neighbours in memory belong to neighbouring rows. */
static bool runs_across(const scan_kernel *k) {
  const int32_t last = k->space.rank - 1;
  if (last < 0 || k->rows < SHORT_GROUP || emit_is_reproducible(k->g)) return false;
  const emit_walk *in = space_walk(&k->space, "in0"), *out = space_walk(&k->space, "out0");
  return emit_magnitude(in->stride[last]) < emit_magnitude(k->in_step) &&
         emit_magnitude(out->stride[last]) < emit_magnitude(k->out_step);
}

static void cut_rows(scan_kernel *k, int64_t wanted, int64_t least) {
  const int64_t most = emit_clamp(k->length / least, 1, MOST_PARTS);
  const bool few = k->rows < wanted && !emit_is_reproducible(k->g);
  const int64_t parts = few ? divide_up(wanted, k->rows) : 1;
  k->share = divide_up(k->length, emit_clamp(parts, 1, most));
  k->share = divide_up(k->share, least) * least;
  k->parts = divide_up(k->length, k->share);
}

static compute_status choose(scan_kernel *k) {
  generation *g = k->g;
  compute_tuning *t = &g->tuning;
  const int64_t units = emit_units(g);
  const int64_t wanted = units * (t->groups ? t->groups : GROUPS_PER_UNIT);
  if (t->variant > GROUP) return emit_refuse(g, "scan: there is no variant %u", t->variant);
  k->by_item =
      t->variant ? t->variant == ITEM : emit_for_cpu(g) || k->length <= SHORT_ROW || runs_across(k);
  k->items = t->items ? t->items : ITEMS;
  if (k->by_item) {
    cut_rows(k, emit_for_cpu(g) ? wanted : wanted * SHORT_GROUP,
             emit_for_cpu(g) ? PART_LEAST : ROWS_LEAST);
    t->items = 1;
  } else {
    const uint32_t usual = k->length <= 4 * SHORT_GROUP * ITEMS ? SHORT_GROUP : GROUP_ITEMS;
    k->group = emit_group_items(g, t->group_x ? t->group_x : usual);
    const uint32_t bytes = emit_value_bytes(g->descriptor->accumulate);
    const uint64_t local = (uint64_t)k->group * (k->items + 3) * bytes;
    if (k->items > MOST_ITEMS || k->items & (k->items - 1))
      return emit_refuse(g, "scan: %u elements for each item", (unsigned)k->items);
    if (local > g->target->local_bytes)
      return emit_refuse(g, "scan: groups of %u need more local memory than the device has",
                         (unsigned)k->group);
    cut_rows(k, wanted, (int64_t)k->group * k->items * 2);
    t->items = k->items;
    t->group_x = k->group;
  }
  t->variant = k->by_item ? ITEM : GROUP;
  return COMPUTE_OK;
}

/* ---- Text ---------------------------------------------------------------------------------- */

static void define_fold(scan_kernel *k) {
  generation *g = k->g;
  const compute_scan_attributes *scan = compute_scan_of(g->descriptor);
  text_buffer *text = &g->definitions;
  const bool sums = emit_define_fold(text, scan->combine, g->descriptor->accumulate);
  emit_define_number(text, "SCAN_EXCLUSIVE", scan->exclusive);
  emit_define_number(text, "SCAN_ITEMS", k->by_item ? 1 : k->items);
  emit_define_number(text, "SCAN_GROUP", k->by_item ? 1 : k->group);
  if (sums) emit_template(g, text, "fold_compensated");
  emit_template(g, text, "scan");
}

static void define_elements(scan_kernel *k) {
  generation *g = k->g;
  const compute_kernel_descriptor *d = g->descriptor;
  text_buffer *definitions = &g->definitions, text = {0};
  emit_define(definitions, "SCAN_PLACE(place)",
              compute_scan_of(d)->reverse ? "(shape.length - 1 - (place))" : "(place)");
  emit_load(&text, d->inputs[0].dtype, "in0", "row_in0 + SCAN_PLACE(place) * shape.in_step");
  emit_define_text(definitions, "SCAN_ELEMENT(place)", &text);
  emit_store(&text, d->outputs[0].dtype, d->accumulate, "out0",
             "row_out0 + SCAN_PLACE(place) * shape.out_step", "stored");
  emit_define_text(definitions, "SCAN_STORE(place, stored)", &text);
}

/* ---- Launches ------------------------------------------------------------------------------ */

static void add_launch(scan_kernel *k, bool totals) {
  generation *g = k->g;
  const int64_t lines = k->rows * k->parts;
  sweep s = {0};
  uint32_t group = k->group;
  int64_t groups = emit_clamp(lines, 1, MOST_GROUPS);
  if (k->by_item) {
    s = sweep_plan(g, lines, divide_up(ROWS_LEAST, k->share), SHORT_GROUP);
    group = s.group;
    groups = s.groups;
  }
  emit_launch *launch = emit_launch_line(g, totals ? "scan_parts" : "scan", group, groups);
  if (!launch) return;
  const uint32_t bytes = emit_value_bytes(g->descriptor->accumulate);
  text_buffer *text = &launch->body;
  emit_input(g, launch, 0);
  if (!totals) emit_output(g, launch, 0);
  if (k->parts > 1) {
    emit_workspace(g, launch, "totals", emit_type(g->descriptor->accumulate), bytes, 0, totals);
    g->workspace_bytes = (uint64_t)lines * bytes;
  }
  emit_field_divisor(g, launch, "rows", k->rows);
  emit_field_index(g, launch, "length", k->length);
  emit_field_index(g, launch, "share", k->share);
  emit_field_index(g, launch, "in_step", k->in_step);
  emit_field_index(g, launch, "out_step", k->out_step);
  emit_space_fields(g, launch, &k->space, 0, k->space.rank);
  emit_define_number(text, "SCAN_TOTALS", totals);
  emit_define_number(text, "SCAN_PARTS", k->parts > 1);
  if (k->by_item) {
    sweep_begin(g, launch, &s);
  } else {
    emit_field_index(g, launch, "lines", lines);
    text_add(text, "LOCAL_ARRAY(VALUE, tile, SCAN_GROUP * (SCAN_ITEMS + 1));\n"
                   "LOCAL_ARRAY(VALUE, sums, 2 * SCAN_GROUP);\n"
                   "const int lane = (int)LOCAL_ID_X;\n"
                   "for (INDEX at = (INDEX)GROUP_ID_X; at < shape.lines;\n"
                   "     at += (INDEX)GROUP_COUNT_X) {\n");
  }
  text_add(text, "const INDEX part = DIVIDE(at, shape.rows), row = at - part * shape.rows;\n");
  emit_offsets(g, text, &k->space, 0, k->space.rank, "row", "row");
  emit_template(g, text, k->by_item ? "scan_item" : "scan_group");
  text_add(text, "}\n");
}

static compute_status emit(generation *g) {
  const compute_kernel_descriptor *d = g->descriptor;
  const int32_t last = d->rank - 1;
  scan_kernel k = {.g = g,
                   .length = d->size[last],
                   .in_step = d->inputs[0].stride[last],
                   .out_step = d->outputs[0].stride[last]};
  if (k.length == 0 || !space_rows(g, &k.space, last)) return COMPUTE_OK;
  k.rows = space_count(&k.space, 0, k.space.rank);
  /* Chunks step past the end of rows. */
  sweep_measure(g, 2 * (double)k.length);
  const compute_status status = choose(&k);
  if (status) return status;
  define_fold(&k);
  define_elements(&k);
  if (k.parts > 1) add_launch(&k, true);
  add_launch(&k, false);
  char parts[48] = "";
  if (k.parts > 1) snprintf(parts, sizeof parts, ", rows in %" PRId64 " parts", k.parts);
  snprintf(g->text, sizeof g->text, "scan by %s of %u%s", k.by_item ? "items in groups" : "groups",
           (unsigned)g->tuning.group_x, parts);
  return COMPUTE_OK;
}

static const tuning_grid grids[] = {
    {TUNE_OTHERS,
     {TUNE(variant, 2), TUNE(group_x, 64, 128, 256, 512), TUNE(items, 4, 8, 16),
      TUNE(groups, 2, 4, 8)}},
    {TUNE_ANY, {TUNE(variant, 1), TUNE(groups, 1, 4, 16)}},
    {.target = TUNE_END},
};

const emit_kind emit_scan = {.name = "SCAN", .emit = emit, .grids = grids};
