/* SPDX-License-Identifier: MIT */
/* TOP_K: positions of the largest or smallest elements of rows, in order.
 *
 * Elements become keys, unsigned numbers in the requested order. A key beats another if it is
 * larger, or equal with a lower position. No two elements are equal in that order, so the result is
 * the same for any division of the work.
 *
 * PLAIN   an item for a row searches the whole row for each result: for short rows
 * LISTS   the group's items keep lists of their best elements in registers; the group then takes
 *         the best head again and again. A long row is cut into parts, and a second launch selects
 *         from their best elements
 * BITONIC elements that beat the k-th best so far gather in local memory, which is sorted whenever
 *         it is full
 * SORT    a row is sorted in the workspace: for rows that no other form can hold
 *
 * Parameters: variant (in this order from 1), group_x, and groups (LISTS: for each compute unit,
 * before rows are cut; SORT: rows at once). */
#include <inttypes.h>
#include <stdio.h>

#include "codegen/generate/emit/emit.h"

enum {
  PLAIN = 1,
  LISTS = 2,
  BITONIC = 3,
  SORT = 4,
  GROUP = 256,
  LISTS_GROUP = 128,
  SHORT_GROUP = 32,
  LONGEST_LIST = 16,
  PLAIN_WORK = 256, /* elements that an item of PLAIN may read */
  PLAIN_ROWS = 1024,
  ROUND = 4, /* elements of an item in a round of BITONIC */
  MOST_WINDOW = 4096,
  GROUPS_PER_UNIT = 4,
  MOST_GROUPS = 1 << 16, /* beyond this, groups stride */
  MOST_PARTS = 256,
  PART_LEAST = 1 << 12
};
#define MOST_WORKSPACE (UINT64_C(1) << 28)

typedef struct top_k_kernel {
  generation *g;
  emit_space space; /* over the rows */
  int64_t rows, length, wanted;
  int64_t in_step, out_step;
  uint32_t key_bytes, place_bytes, group, list;
  int64_t window; /* elements sorted at once: a power of two */
  int64_t share, parts, groups;
} top_k_kernel;

/* ---- Choice -------------------------------------------------------------------------------- */

static uint32_t entry_bytes(const top_k_kernel *k) {
  return k->key_bytes + k->place_bytes;
}

/* The largest window that fits into three quarters of local memory. */
static int64_t window_limit(const top_k_kernel *k) {
  int64_t window = MOST_WINDOW;
  while (window > 1 && (uint64_t)window * entry_bytes(k) + 64 > k->g->target->local_bytes * 3 / 4)
    window /= 2;
  return window;
}

static int64_t bitonic_window(const top_k_kernel *k) {
  const int64_t round = (int64_t)k->group * ROUND;
  return emit_power_of_two(k->wanted +
                           (emit_for_cpu(k->g) && k->wanted > round ? k->wanted : round));
}

static uint32_t default_variant(top_k_kernel *k) {
  const bool cpu = emit_for_cpu(k->g);
  const bool small = k->length * k->wanted <= PLAIN_WORK;
  if (small && (cpu || k->rows >= PLAIN_ROWS)) return PLAIN;
  if (k->wanted <= LONGEST_LIST) return LISTS;
  const uint32_t group = k->group;
  if (!k->g->tuning.group_x && !cpu) k->group = emit_group_items(k->g, GROUP);
  while (!cpu && k->group > SHORT_GROUP && bitonic_window(k) > window_limit(k)) k->group /= 2;
  if (bitonic_window(k) <= window_limit(k)) return BITONIC;
  k->group = group;
  return SORT;
}

static void cut_rows(top_k_kernel *k) {
  generation *g = k->g;
  const int64_t units = emit_units(g);
  const int64_t wanted = units * (g->tuning.groups ? g->tuning.groups : GROUPS_PER_UNIT);
  const int64_t most = emit_clamp(k->length / PART_LEAST, 1, MOST_PARTS);
  const int64_t parts = k->rows < wanted ? divide_up(wanted, k->rows) : 1;
  k->share = divide_up(k->length, emit_clamp(parts, 1, most));
  k->parts = divide_up(k->length, k->share);
}

static compute_status choose(top_k_kernel *k) {
  generation *g = k->g;
  compute_tuning *t = &g->tuning;
  if (t->variant > SORT) return emit_refuse(g, "top-k: there is no variant %u", t->variant);
  const bool cpu = emit_for_cpu(g);
  uint32_t usual = t->variant == LISTS || k->wanted <= LONGEST_LIST ? LISTS_GROUP : GROUP;
  if (k->length <= LISTS_GROUP) usual = SHORT_GROUP;
  k->group = cpu ? 1 : emit_group_items(g, t->group_x ? t->group_x : usual);
  if (!t->variant) {
    t->variant = default_variant(k);
    t->group_x = k->group;
  }
  k->share = k->length;
  k->parts = 1;
  if (t->variant == LISTS) {
    if (k->wanted > LONGEST_LIST)
      return emit_refuse(g, "top-k: lists of %" PRId64 " elements", k->wanted);
    if ((uint64_t)k->group * entry_bytes(k) > g->target->local_bytes)
      return emit_refuse(g, "top-k: groups of %u need more local memory than the device has",
                         k->group);
    k->list = (uint32_t)emit_power_of_two(k->wanted);
    cut_rows(k);
  }
  k->groups = emit_clamp(k->rows * k->parts, 1, MOST_GROUPS);
  if (t->variant == BITONIC) {
    k->window = bitonic_window(k);
    if (k->window > window_limit(k))
      return emit_refuse(g, "top-k: local memory does not hold %" PRId64 " elements", k->window);
  }
  if (t->variant == SORT) {
    if (k->length > INT64_MAX / 64) return emit_refuse(g, "top-k: rows are too long to sort");
    k->window = emit_power_of_two(k->length);
    const int64_t units = emit_units(g);
    const uint64_t row = (uint64_t)k->window * entry_bytes(k);
    const int64_t fit = row < MOST_WORKSPACE ? (int64_t)(MOST_WORKSPACE / row) : 1;
    k->groups = t->groups ? t->groups : 2 * units;
    k->groups = emit_clamp(emit_clamp(k->groups, 1, fit), 1, k->rows);
  }
  return COMPUTE_OK;
}

/* ---- Text ---------------------------------------------------------------------------------- */

static void define(top_k_kernel *k) {
  generation *g = k->g;
  const compute_kernel_descriptor *d = g->descriptor;
  const compute_dtype type = dtype_compute_type(d->inputs[0].dtype);
  text_buffer *definitions = &g->definitions, text = {0};
  emit_define(definitions, "VALUE", emit_type(type));
  emit_define(definitions, "KEY", k->key_bytes == 8 ? "u64" : "u32");
  emit_define(definitions, "KEY_BITS",
              type == COMPUTE_F64   ? "as_u64"
              : type == COMPUTE_F32 ? "as_u32"
              : type == COMPUTE_I64 ? "(u64)"
                                    : "(u32)");
  emit_define_number(definitions, "KEY_IS_REAL", type == COMPUTE_F64 || type == COMPUTE_F32);
  emit_define(definitions, "KEY_INFINITY",
              type == COMPUTE_F64 ? "((u64)0x7ff << 52)" : "((u32)0xff << 23)");
  emit_define_number(definitions, "KEY_TOP_BIT", k->key_bytes * 8 - 1);
  emit_define_number(definitions, "TOP_SMALLEST", compute_top_k_of(d)->smallest);
  emit_define(definitions, "TOP_NOWHERE", emit_highest(g->wide ? COMPUTE_I64 : COMPUTE_I32));
  emit_define_number(definitions, "TOP_GROUP", k->group);
  emit_define_number(definitions, "TOP_LIST", k->list);
  emit_define_number(definitions, "TOP_ROUND", ROUND);
  if (g->tuning.variant == BITONIC) emit_define_number(definitions, "TOP_WINDOW", k->window);
  emit_load(&text, d->inputs[0].dtype, "in0", "row_in0 + (place) * shape.in_step");
  emit_define_text(definitions, "TOP_ELEMENT(place)", &text);
  emit_define(definitions, "TOP_STORE(rank, place)",
              "out0[row_out0 + (rank) * shape.out_step] = (i64)(place);");
  emit_template(g, definitions, "top_k");
}

/* Keys, then places, of `count` elements. */
static void take_entries(top_k_kernel *k, emit_launch *launch, int64_t count, bool written) {
  generation *g = k->g;
  const uint64_t bytes = ((uint64_t)count * k->key_bytes + 63) / 64 * 64;
  emit_workspace(g, launch, "keys", k->key_bytes == 8 ? "u64" : "u32", k->key_bytes, 0, written);
  emit_workspace(g, launch, "places", g->wide ? "i64" : "i32", k->place_bytes, bytes, written);
  g->workspace_bytes = bytes + (uint64_t)count * k->place_bytes;
}

static void take_rows(top_k_kernel *k, emit_launch *launch) {
  generation *g = k->g;
  emit_field_divisor(g, launch, "rows", k->rows);
  emit_field_index(g, launch, "length", k->length);
  emit_field_index(g, launch, "wanted", k->wanted);
  emit_field_index(g, launch, "in_step", k->in_step);
  emit_field_index(g, launch, "out_step", k->out_step);
  emit_space_fields(g, launch, &k->space, 0, k->space.rank);
}

static void emit_plain(top_k_kernel *k) {
  generation *g = k->g;
  const sweep s = sweep_plan(g, k->rows, 1, SHORT_GROUP);
  emit_launch *launch = emit_launch_line(g, "top_k", s.group, s.groups);
  if (!launch) return;
  emit_input(g, launch, 0);
  emit_output(g, launch, 0);
  take_rows(k, launch);
  sweep_begin(g, launch, &s);
  emit_offsets(g, &launch->body, &k->space, 0, k->space.rank, "at", "row");
  emit_template(g, &launch->body, "top_k_plain");
  text_add(&launch->body, "}\n");
}

/* `parts`: leaves the best of each part in the workspace. Otherwise `merge`: reads them from
 * there. */
static void emit_lists(top_k_kernel *k, bool parts, bool merge) {
  generation *g = k->g;
  const int64_t lines = parts ? k->rows * k->parts : k->rows;
  const int64_t groups = emit_clamp(lines, 1, MOST_GROUPS);
  emit_launch *launch = emit_launch_line(g, parts ? "top_k_parts" : "top_k", k->group, groups);
  if (!launch) return;
  if (!merge) emit_input(g, launch, 0);
  if (!parts) emit_output(g, launch, 0);
  if (parts || merge) take_entries(k, launch, k->rows * k->parts * k->wanted, parts);
  take_rows(k, launch);
  emit_field_index(g, launch, "lines", lines);
  emit_field_index(g, launch, "share", k->share);
  emit_field_index(g, launch, "candidates", k->parts * k->wanted);
  text_buffer *text = &launch->body;
  emit_define_number(text, "TOP_PARTS", parts);
  emit_define_number(text, "TOP_MERGE", merge);
  text_add(text, "LOCAL_ARRAY(KEY, head_keys, TOP_GROUP);\n"
                 "LOCAL_ARRAY(INDEX, head_places, TOP_GROUP);\n"
                 "const int lane = (int)LOCAL_ID_X;\n"
                 "for (INDEX at = (INDEX)GROUP_ID_X; at < shape.lines;\n"
                 "     at += (INDEX)GROUP_COUNT_X) {\n"
                 "const INDEX part = DIVIDE(at, shape.rows), row = at - part * shape.rows;\n");
  emit_offsets(g, text, &k->space, 0, k->space.rank, "row", "row");
  emit_template(g, text, "top_k_lists");
  text_add(text, "}\n");
}

static void emit_sorted(top_k_kernel *k) {
  generation *g = k->g;
  const bool local = g->tuning.variant == BITONIC;
  emit_launch *launch = emit_launch_line(g, "top_k", k->group, k->groups);
  if (!launch) return;
  text_buffer *text = &launch->body;
  emit_input(g, launch, 0);
  emit_output(g, launch, 0);
  if (!local) take_entries(k, launch, k->groups * k->window, true);
  take_rows(k, launch);
  emit_field_index(g, launch, "window", k->window);
  if (local)
    text_add(text, "LOCAL_ARRAY(KEY, keys, TOP_WINDOW);\n"
                   "LOCAL_ARRAY(INDEX, places, TOP_WINDOW);\n"
                   "LOCAL_ARRAY(i32, filled, 1);\n");
  else
    text_add(text, "keys += (INDEX)GROUP_ID_X * shape.window;\n"
                   "places += (INDEX)GROUP_ID_X * shape.window;\n");
  text_add(text, "const int lane = (int)LOCAL_ID_X;\n"
                 "for (INDEX row = (INDEX)GROUP_ID_X; row < shape.rows;\n"
                 "     row += (INDEX)GROUP_COUNT_X) {\n");
  emit_offsets(g, text, &k->space, 0, k->space.rank, "row", "row");
  emit_define(text, "TOP_BARRIER", local ? "BARRIER()" : "BARRIER_GLOBAL()");
  emit_define(text, "TOP_LENGTH", local ? "TOP_WINDOW" : "shape.window");
  emit_template(g, text, local ? "top_k_gather" : "top_k_sort");
  text_add(text, "}\n");
}

static compute_status emit(generation *g) {
  static const char *const names[] = {"", "plain", "lists", "sorting in local memory",
                                      "sorting rows"};
  const compute_kernel_descriptor *d = g->descriptor;
  const int32_t last = d->rank - 1;
  const compute_dtype type = dtype_compute_type(d->inputs[0].dtype);
  top_k_kernel k = {.g = g,
                    .length = compute_top_k_of(d)->axis_size,
                    .wanted = d->size[last],
                    .in_step = d->inputs[0].stride[last],
                    .out_step = d->outputs[0].stride[last]};
  if (k.wanted == 0 || !space_rows(g, &k.space, last)) return COMPUTE_OK;
  k.rows = space_count(&k.space, 0, k.space.rank);
  sweep_measure(g, 4 * (double)k.length);
  k.key_bytes = emit_value_bytes(type);
  k.place_bytes = g->wide ? 8 : 4;
  const compute_status status = choose(&k);
  if (status) return status;
  if ((double)k.groups * (double)k.window > 0x7f000000 ||
      (double)k.rows * (double)k.parts * (double)k.wanted > 0x7f000000) {
    g->wide = true;
    k.place_bytes = 8;
    const compute_status again = choose(&k);
    if (again) return again;
  }
  define(&k);
  switch (g->tuning.variant) {
  case PLAIN: emit_plain(&k); break;
  case LISTS:
    if (k.parts > 1) emit_lists(&k, true, false);
    emit_lists(&k, false, k.parts > 1);
    break;
  default: emit_sorted(&k); break;
  }
  if (g->tuning.variant != PLAIN) g->tuning.group_x = k.group;
  snprintf(g->text, sizeof g->text, "top-k by %s, groups of %u", names[g->tuning.variant],
           (unsigned)g->tuning.group_x);
  return COMPUTE_OK;
}

static const tuning_grid grids[] = {
    {TUNE_OTHERS, {TUNE(variant, 2), TUNE(group_x, 32, 64, 128, 256), TUNE(groups, 2, 4, 8)}},
    {TUNE_OTHERS, {TUNE(variant, 3), TUNE(group_x, 64, 128, 256, 512)}},
    {TUNE_OTHERS, {TUNE(variant, 4), TUNE(group_x, 256, 512, 1024)}},
    {TUNE_CPU, {TUNE(variant, 1, 2, 3, 4)}},
    {.target = TUNE_END},
};

const emit_kind emit_top_k = {.name = "TOP_K", .emit = emit, .grids = grids};
