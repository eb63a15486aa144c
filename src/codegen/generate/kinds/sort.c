/* SPDX-License-Identifier: MIT */
/* SORT: rows in order, with positions.
 *
 * Keys and their order follow kernels/top_k.h: no two elements are equal, so the result is unique
 * for any division of the work.
 *
 * COUNT an item for an element counts the elements that precede it: for short rows
 * MERGE groups sort blocks of a row in local memory. Up to three further launches each merge
 *       several runs into one: a binary search in the other runs finds the place of every element.
 *       With so few launches, the number of runs that are merged at once grows with the length
 *
 * Parameters: variant (in this order from 1), group_x, and items (MERGE: elements of a block for
 * each item, a power of two). */
#include <inttypes.h>
#include <stdio.h>

#include "codegen/generate/emit/emit.h"

enum {
  COUNT = 1,
  MERGE = 2,
  SHORT_ROW = 32,
  GROUP = 256,
  ITEMS = 8, /* elements of a block for each item of a group */
  CPU_BLOCK = 256,
  MOST_BLOCK = 4096,
  MERGES = COMPUTE_GENERATED_LAUNCHES - 1,
  FEW_RUNS = 8, /* merged at once without a further launch */
  SHARE_LEAST = 256,
  MOST_GROUPS = 1 << 16 /* beyond this, groups stride */
};

typedef struct sort_kernel {
  generation *g;
  emit_space space; /* over the rows */
  int64_t rows, length;
  uint32_t key_bytes, place_bytes, group;
  int64_t block, blocks; /* elements in a group's block, a power of two; blocks of a row */
  int64_t ways;          /* runs merged at once */
  uint32_t merges;
  uint64_t half_bytes; /* bytes of half the workspace: keys and places of all elements */
} sort_kernel;

/* ---- Choice -------------------------------------------------------------------------------- */

/* The fewest launches that merge at most FEW_RUNS at once, or else all possible launches. */
static void choose_merges(sort_kernel *k) {
  k->merges = 0;
  k->ways = FEW_RUNS;
  int64_t runs = k->blocks;
  for (; runs > 1 && k->merges < MERGES; k->merges++) runs = divide_up(runs, FEW_RUNS);
  while (runs > 1) {
    k->ways++;
    runs = k->blocks;
    for (uint32_t i = 0; i < k->merges; i++) runs = divide_up(runs, k->ways);
  }
}

static compute_status choose(sort_kernel *k) {
  generation *g = k->g;
  compute_tuning *t = &g->tuning;
  const bool cpu = emit_for_cpu(g);
  if (t->variant > MERGE) return emit_refuse(g, "sort: there is no variant %u", t->variant);
  if (!t->variant) t->variant = k->length <= SHORT_ROW ? COUNT : MERGE;
  if (t->variant == COUNT) return COMPUTE_OK;
  k->group = cpu ? 1 : emit_group_items(g, t->group_x ? t->group_x : GROUP);
  if (t->items && !emit_is_power(t->items))
    return emit_refuse(g, "sort: %u items are not a power of two", t->items);
  const uint64_t room = emit_local_limit(g) / (k->key_bytes + k->place_bytes);
  const int64_t wanted = t->items ? (int64_t)k->group * t->items
                         : cpu    ? CPU_BLOCK
                                  : (int64_t)k->group * ITEMS;
  k->block = emit_power_of_two(k->length < MOST_BLOCK ? k->length : MOST_BLOCK);
  while (k->block > 2 && (k->block > wanted || (uint64_t)k->block + 16 > room * 3 / 4))
    k->block /= 2;
  if (!cpu && k->block / 2 < k->group) k->group = emit_group_items(g, (uint32_t)(k->block / 2));
  k->blocks = divide_up(k->length, k->block);
  choose_merges(k);
  return COMPUTE_OK;
}

/* ---- Text ---------------------------------------------------------------------------------- */

static void define(sort_kernel *k) {
  generation *g = k->g;
  const compute_kernel_descriptor *d = g->descriptor;
  const compute_sort_attributes *a = compute_sort_of(d);
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
  emit_define_number(definitions, "TOP_SMALLEST", !a->descending);
  emit_define(definitions, "TOP_NOWHERE", emit_highest(g->wide ? COMPUTE_I64 : COMPUTE_I32));
  emit_load(&text, d->inputs[0].dtype, "in0", "row_in0 + (place) * shape.in_step");
  emit_define_text(definitions, "TOP_ELEMENT(place)", &text);
  if (a->values)
    text_add(&text, "out0[row_out0 + (rank) * shape.out_step0] = "
                    "in0[row_in0 + (place) * shape.in_step]; ");
  if (a->positions)
    text_add(&text, "out%d[row_out%d + (rank) * shape.out_step%d] = (i64)(place);", a->values,
             a->values, a->values);
  emit_define_text(definitions, "SORT_STORE(rank, place)", &text);
  if (g->tuning.variant == MERGE) {
    emit_define_number(definitions, "TOP_GROUP", k->group);
    emit_define_number(definitions, "TOP_LENGTH", k->block);
    emit_define(definitions, "TOP_BARRIER", "BARRIER()");
  }
  emit_template(g, definitions, "top_k");
  emit_template(g, definitions, "sort");
}

/* Keys, then places, of all elements, in one half of the workspace. */
static void take_runs(sort_kernel *k, emit_launch *launch, const char *keys, const char *places,
                      uint32_t half, bool written) {
  generation *g = k->g;
  const uint64_t elements = (uint64_t)(k->rows * k->length);
  const uint64_t bytes = (elements * k->key_bytes + 63) / 64 * 64, start = half * k->half_bytes;
  emit_workspace(g, launch, keys, k->key_bytes == 8 ? "u64" : "u32", k->key_bytes, start, written);
  emit_workspace(g, launch, places, g->wide ? "i64" : "i32", k->place_bytes, start + bytes,
                 written);
  if (g->workspace_bytes < start + k->half_bytes) g->workspace_bytes = start + k->half_bytes;
}

static void take_rows(sort_kernel *k, emit_launch *launch) {
  generation *g = k->g;
  const compute_kernel_descriptor *d = g->descriptor;
  emit_field_divisor(g, launch, "length", k->length);
  emit_field_index(g, launch, "in_step", d->inputs[0].stride[d->rank - 1]);
  for (uint32_t i = 0; i < d->output_count; i++) {
    char name[EMIT_NAME_BYTES];
    snprintf(name, sizeof name, "out_step%u", (unsigned)i);
    emit_field_index(g, launch, name, d->outputs[i].stride[d->rank - 1]);
  }
  emit_space_fields(g, launch, &k->space, 0, k->space.rank);
}

/* A launch whose items take one element at a time: `i` of `row`. */
static emit_launch *begin_elements(sort_kernel *k, const char *entry, sweep *s) {
  *s = sweep_plan(k->g, k->rows * k->length, SHARE_LEAST, GROUP);
  return emit_launch_line(k->g, entry, s->group, s->groups);
}

static void find_element(sort_kernel *k, emit_launch *launch, const sweep *s, bool offsets) {
  sweep_begin(k->g, launch, s);
  text_add(&launch->body, "const INDEX row = DIVIDE(at, shape.length);\n"
                          "const INDEX i = at - row * shape.length;\n");
  if (offsets) emit_offsets(k->g, &launch->body, &k->space, 0, k->space.rank, "row", "row");
}

static void emit_count(sort_kernel *k) {
  generation *g = k->g;
  sweep s;
  emit_launch *launch = begin_elements(k, "sort", &s);
  if (!launch) return;
  emit_input(g, launch, 0);
  emit_outputs(g, launch);
  take_rows(k, launch);
  find_element(k, launch, &s, true);
  text_add(&launch->body, "const INDEX place = i;\n");
  emit_template(g, &launch->body, "sort_count");
  text_add(&launch->body, "}\n");
}

static void emit_blocks(sort_kernel *k) {
  generation *g = k->g;
  const int64_t lines = k->rows * k->blocks;
  const bool runs = k->merges > 0;
  emit_launch *launch = emit_launch_line(g, runs ? "sort_block" : "sort", k->group,
                                         emit_clamp(lines, 1, MOST_GROUPS));
  if (!launch) return;
  text_buffer *text = &launch->body;
  emit_input(g, launch, 0);
  if (runs)
    take_runs(k, launch, "run_keys", "run_places", 0, true);
  else
    emit_outputs(g, launch);
  take_rows(k, launch);
  emit_field_index(g, launch, "lines", lines);
  emit_field_divisor(g, launch, "blocks", k->blocks);
  emit_define_number(text, "SORT_RUNS", runs);
  text_add(text, "LOCAL_ARRAY(KEY, keys, TOP_LENGTH);\n"
                 "LOCAL_ARRAY(INDEX, places, TOP_LENGTH);\n"
                 "const int lane = (int)LOCAL_ID_X;\n"
                 "for (INDEX at = (INDEX)GROUP_ID_X; at < shape.lines;\n"
                 "     at += (INDEX)GROUP_COUNT_X) {\n"
                 "const INDEX row = DIVIDE(at, shape.blocks);\n"
                 "const INDEX first = (at - row * shape.blocks) * TOP_LENGTH;\n");
  emit_offsets(g, text, &k->space, 0, k->space.rank, "row", "row");
  emit_template(g, text, "sort_block");
  text_add(text, "}\n");
}

static void emit_merge(sort_kernel *k, uint32_t number, int64_t run) {
  generation *g = k->g;
  const bool last = number + 1 == k->merges;
  char entry[EMIT_NAME_BYTES] = "sort";
  sweep s;
  if (!last) snprintf(entry, sizeof entry, "sort_merge%u", (unsigned)number);
  emit_launch *launch = begin_elements(k, entry, &s);
  if (!launch) return;
  if (last) {
    emit_input(g, launch, 0);
    emit_outputs(g, launch);
  }
  take_runs(k, launch, "from_keys", "from_places", number % 2, false);
  if (!last) take_runs(k, launch, "to_keys", "to_places", (number + 1) % 2, true);
  take_rows(k, launch);
  emit_field_divisor(g, launch, "run", run);
  emit_field_divisor(g, launch, "span", run > k->length / k->ways ? k->length : run * k->ways);
  emit_define_number(&launch->body, "SORT_LAST", last);
  find_element(k, launch, &s, last);
  emit_template(g, &launch->body, "sort_merge");
  text_add(&launch->body, "}\n");
}

static compute_status emit(generation *g) {
  static const char *const names[] = {"", "by counting", "in blocks, which are merged"};
  const compute_kernel_descriptor *d = g->descriptor;
  const int32_t last = d->rank - 1;
  sort_kernel k = {.g = g, .length = d->size[last]};
  if (k.length == 0 || !space_rows(g, &k.space, last)) return COMPUTE_OK;
  k.rows = space_count(&k.space, 0, k.space.rank);
  if ((double)k.rows * (double)k.length > 0x1p45) return emit_refuse(g, "sort: too many elements");
  sweep_measure(g, 4 * (double)k.length);
  k.key_bytes = emit_value_bytes(dtype_compute_type(d->inputs[0].dtype));
  k.place_bytes = g->wide ? 8 : 4;
  k.half_bytes = ((uint64_t)(k.rows * k.length) * k.key_bytes + 63) / 64 * 64;
  k.half_bytes += ((uint64_t)(k.rows * k.length) * k.place_bytes + 63) / 64 * 64;
  const compute_status status = choose(&k);
  if (status) return status;
  define(&k);
  if (g->tuning.variant == COUNT) {
    emit_count(&k);
  } else {
    emit_blocks(&k);
    int64_t run = k.block;
    for (uint32_t i = 0; i < k.merges; i++, run *= k.ways) emit_merge(&k, i, run);
    g->tuning.group_x = k.group;
    g->tuning.items = (uint32_t)(k.block > k.group ? k.block / k.group : 1);
  }
  snprintf(g->text, sizeof g->text, "sort %s, groups of %u", names[g->tuning.variant],
           (unsigned)g->tuning.group_x);
  return COMPUTE_OK;
}

static const tuning_grid grids[] = {
    {TUNE_OTHERS, {TUNE(variant, 1), TUNE(group_x, 64, 128, 256)}},
    {TUNE_OTHERS, {TUNE(variant, 2), TUNE(group_x, 64, 128, 256, 512), TUNE(items, 2, 4, 8)}},
    {TUNE_CPU, {TUNE(variant, 2), TUNE(items, 32, 128, 512, 2048)}},
    {.target = TUNE_END},
};

const emit_kind emit_sort = {.name = "SORT", .emit = emit, .grids = grids};
