/* SPDX-License-Identifier: MIT */
/* Two forms for gradients of filters. In FILTER all places of the filter share rows of data; it is
 * for GPUs with asynchronous copies. In PLACES one group computes all places of a channel; it is
 * for depthwise filters. The texts are in kernels/conv_filter.h. */
#include <stdio.h>

#include "codegen/generate/kinds/conv/conv.h"

enum {
  MOST_PLACES = 9, /* an item has the sums of this many */
  MOST_ACROSS = 5,
  MOST_FIRST = 1 << 14, /* rows and columns of padding */
  MOST_ROWS = 1 << 15,
  LEAST_DATA = 8, /* channels, and columns of the results */
  LEAST_RESULTS = 16,
  LEAST_SLABS = 4, /* of a part */
  MOST_PARTS = 512,
  COMBINE_GROUP = 64,
  MOST_PLACES_OF_GROUP = 25,
  PLACES_GROUP = 256,
  PLACES_PARTS = 4, /* groups of a compute unit */
  LEAST_TERMS = 1024
};

static uint32_t places_down(const conv_problem *p) {
  return (uint32_t)p->position_size[1];
}

static uint32_t places_across(const conv_problem *p) {
  return (uint32_t)p->position_size[2];
}

static bool is_filter_gradient(const generation *g) {
  return compute_conv_of(g->descriptor)->direction == COMPUTE_CONVOLUTION_BY_FILTER;
}

/* ---- Rows of data in local memory ---------------------------------------------------------- */

static uint32_t group_of(const compute_tuning *t) {
  return t->tile_n * (t->tile_m / t->item_m);
}

static uint32_t data_copies(const compute_tuning *t, const conv_problem *p) {
  const uint32_t data = t->tile_n * places_down(p) * (t->tile_k + places_across(p) - 1);
  return (uint32_t)divide_up(data, group_of(t));
}

static uint32_t copies_of(const compute_tuning *t, const conv_problem *p) {
  return data_copies(t, p) + t->tile_k * t->tile_m / group_of(t);
}

/* Bytes of local memory: the slabs of all stages, and for each copy of data an INDEX and an int. */
static uint64_t room_bytes(const generation *g, const compute_tuning *t, const conv_problem *p) {
  const uint64_t data = (uint64_t)t->tile_n * places_down(p) * (t->tile_k + 4);
  const uint64_t results = (uint64_t)t->tile_k * (t->tile_m + 4);
  const uint64_t known = (uint64_t)data_copies(t, p) * group_of(t) * (g->wide ? 12 : 8);
  return (data + results) * t->items * sizeof(float) + known;
}

/* True if asynchronous copies can bring the operands: they copy words. Rows and columns must fit 15
 * bits. */
static bool rows_serve(const generation *g, const conv_problem *p) {
  const compute_kernel_descriptor *d = g->descriptor;
  const int64_t across = p->position_size[2], places = p->position_size[1] * across;
  return is_filter_gradient(g) && g->target->dialect != COMPUTE_DIALECT_OPENCL &&
         !emit_for_cpu(g) && emit_has(g, COMPUTE_TARGET_MATRIX_CORES) &&
         emit_has(g, COMPUTE_TARGET_FAST_LOCAL) && g->target->lanes == 32 &&
         d->inputs[0].dtype == COMPUTE_F32 && d->inputs[1].dtype == COMPUTE_F32 &&
         p->product.accumulate == COMPUTE_F32 && p->by_position[0] == 1 && p->by_position[1] == 1 &&
         p->by_term[0] == 1 && p->by_term[1] == 1 && places <= MOST_PLACES &&
         across <= MOST_ACROSS && p->term_size[1] < MOST_ROWS && -p->first[0] < MOST_FIRST &&
         -p->first[1] < MOST_FIRST;
}

static int64_t stretches_of(const conv_problem *p, uint32_t columns) {
  return divide_up(p->term_size[2], columns);
}

/* Stretches are long if they fit the rows of results. Many channels share each load. */
static void choose_tile(compute_tuning *t, const conv_problem *p) {
  const int64_t width = p->term_size[2];
  const bool large = p->channels > 64;
  emit_default(&t->tile_m, large ? 128 : p->channels > 32 ? 64 : 32);
  emit_default(&t->tile_n, 16);
  emit_default(&t->item_m, large ? 16 : t->tile_m / 8);
  uint32_t columns = large ? 32 : 16;
  for (uint32_t less = columns / 2; less >= 8; less /= 2) {
    const int64_t padded = divide_up(width, columns) * columns;
    if (padded * 8 > width * 9 && divide_up(width, less) * less < padded) columns = less;
  }
  emit_default(&t->tile_k, columns);
  emit_default(&t->items, t->tile_k == 32 ? 2 : t->tile_k == 16 ? 3 : 4);
}

static bool filter_suits(const generation *g, const void *of) {
  const conv_problem *p = of;
  return rows_serve(g, p) && p->position_size[1] * p->position_size[2] > 1 &&
         p->position_size[0] >= LEAST_DATA && p->channels >= LEAST_RESULTS &&
         p->term_size[2] >= LEAST_DATA && p->data_plane[1] == 1 && p->weight_term[2] == 1 &&
         p->terms >= LEAST_TERMS;
}

/* Groups that a compute unit runs at a time without register spills. The sums, places times item_m
 * for each item, take the registers. */
static uint32_t groups_held(const compute_tuning *t) {
  const uint32_t of_128 = t->item_m >= 16 ? 2 : t->item_m == 8 ? 3 : 5;
  const uint32_t held = of_128 * 128 / group_of(t);
  return held > 0 ? held : 1;
}

/* The number of parts that gives the compute units all the groups that they can run at a time. */
static uint32_t choose_rows_parts(const generation *g, const conv_problem *p) {
  const compute_tuning *t = &g->tuning;
  const int64_t held = groups_held(t);
  const int64_t tiles = divide_up(p->position_size[0], t->tile_n) *
                        divide_up(p->channels, t->tile_m) * p->product.batches;
  const int64_t slabs = p->term_size[0] * p->term_size[1] * stretches_of(p, t->tile_k);
  const int64_t most = emit_clamp(slabs / LEAST_SLABS, 1, MOST_PARTS);
  return (uint32_t)emit_clamp(emit_units(g) * held / tiles, 1, most);
}

static compute_status accept_filter(generation *g, void *of) {
  const conv_problem *p = of;
  compute_tuning *t = &g->tuning;
  if (!rows_serve(g, p))
    return emit_refuse(g, "the filter's places are too many or too far apart, or cannot be copied");
  if (p->terms == 0) return emit_refuse(g, "there is nothing to multiply");
  choose_tile(t, p);
  if (!emit_is_power(t->tile_m) || !emit_is_power(t->tile_n) || !emit_is_power(t->tile_k) ||
      !emit_is_power(t->item_m) || t->item_m < 4 || t->item_m > 16 || t->tile_k < 8 ||
      t->tile_k > 64 || t->tile_m < t->item_m)
    return emit_refuse(g, "a tile of %u by %u channels cannot be cut into %u for each item",
                       (unsigned)t->tile_m, (unsigned)t->tile_n, (unsigned)t->item_m);
  const uint32_t group = group_of(t), wide = t->tile_k / 8;
  if (group > emit_group_limit(g) || group % (32 * wide) != 0 ||
      t->tile_m % (group / 32 / wide * 4) != 0)
    return emit_refuse(g, "%u items cannot share the copies of a slab evenly", (unsigned)group);
  if (t->items < 2 || t->items > 6 || (t->items - 1) * copies_of(t, p) > GEMM_COPIES_LIMIT)
    return emit_refuse(g, "%u stages are too few or too many", (unsigned)t->items);
  if (room_bytes(g, t, p) > emit_most_local_limit(g))
    return emit_refuse(g, "the slabs need more local memory than the device has");
  emit_default(&t->groups, choose_rows_parts(g, p));
  const double sums = (double)p->positions * (double)p->channels * (double)p->product.batches;
  if (t->groups > MOST_PARTS || sums * t->groups * sizeof(float) > CONV_WORKSPACE_LIMIT)
    return emit_refuse(g, "the sums cannot be cut into %u parts", (unsigned)t->groups);
  return COMPUTE_OK;
}

static void define_places(generation *g, conv_problem *p, uint32_t group) {
  conv_define(g, p);
  emit_constant(g, "FILTER_H", places_down(p));
  emit_constant(g, "FILTER_V", places_across(p));
  emit_constant(g, "GROUP", group);
}

/* An item for each sum, in the order of the parts. */
static void emit_rows_combine(generation *g, const conv_problem *p, int64_t parts) {
  const uint32_t group = min_u32(COMBINE_GROUP, emit_group_limit(g));
  const int64_t elements = p->positions * p->channels;
  emit_launch *launch =
      gemm_launch(g, &p->product, "conv_combine", group, divide_up(elements, group), 1);
  if (!launch) return;
  emit_workspace(g, launch, "partial", "SUM", sizeof(float), 0, false);
  conv_take_epilogue(g, launch, p);
  emit_field_divisor(g, launch, "across", p->channels);
  emit_field_divisor(g, launch, "down", p->position_size[0]);
  emit_field_index(g, launch, "elements", elements);
  emit_field_index(g, launch, "parts", parts);
  text_buffer *text = &launch->body;
  text_add(text,
           "const INDEX index = (INDEX)GROUP_ID_X * %u + (INDEX)LOCAL_ID_X;\n"
           "if (index >= shape.elements) return;\n"
           "const INDEX line = DIVIDE(index, shape.across);\n"
           "const INDEX place = DIVIDE(line, shape.down);\n"
           "const INDEX m0 = line - place * shape.down;\n"
           "const INDEX m1 = place / FILTER_V, m2 = place - m1 * FILTER_V;\n"
           "const INDEX %s = index - line * shape.across;\n",
           (unsigned)group, p->position_columns ? "row" : "column");
  conv_begin_batches(g, launch, p);
  gemm_add_parts(text);
  conv_store_at(g, text, p, "sum");
  text_add(text, "}\n");
}

static compute_status write_filter(generation *g, void *of) {
  conv_problem *p = of;
  const compute_tuning *t = &g->tuning;
  const int64_t tiles_data = divide_up(p->position_size[0], t->tile_n);
  const int64_t tiles = tiles_data * divide_up(p->channels, t->tile_m);
  const int64_t stretches = stretches_of(p, t->tile_k);
  const int64_t slabs = p->term_size[0] * p->term_size[1] * stretches;
  const int64_t part = divide_up(slabs, t->groups), parts = divide_up(slabs, part);
  const uint64_t bytes = room_bytes(g, t, p);
  if (slabs > INT32_MAX / 2 || tiles > INT32_MAX)
    return emit_refuse(g, "the convolution has too many tiles for one launch");
  define_places(g, p, group_of(t));
  gemm_define_parts(g, p->product.accumulate, part * t->tile_k, false);
  emit_constant(g, "FILTER_Q", t->tile_k);
  emit_constant(g, "FILTER_DATA", t->tile_n);
  emit_constant(g, "FILTER_RESULTS", t->tile_m);
  emit_constant(g, "FILTER_ITEM", t->item_m);
  emit_constant(g, "FILTER_SHARERS", t->tile_m / t->item_m);
  emit_constant(g, "FILTER_STAGES", t->items);
  emit_template(g, &g->definitions, "conv_room");
  emit_launch *launch = gemm_launch(g, &p->product, "conv_filter", group_of(t), tiles, parts);
  if (!launch) return COMPUTE_OK;
  launch->room = groups_held(t);
  if (bytes > emit_local_limit(g)) launch->local_bytes = (uint32_t)bytes;
  conv_take(g, launch, p);
  gemm_take_parts(g, launch, &p->product, parts);
  emit_field_divisor(g, launch, "stretches", stretches);
  emit_field_divisor(g, launch, "tiles_data", tiles_data);
  emit_field_index(g, launch, "slabs", slabs);
  emit_field_index(g, launch, "part", part);
  text_buffer *text = &launch->body;
  text_add(text,
           "LOCAL_ARRAY%s(FILTER_ROOM, slabs, %llu);\n"
           "const int item = (int)LOCAL_ID_X;\n"
           "const INDEX tile_results = DIVIDE((INDEX)GROUP_ID_X, shape.tiles_data);\n"
           "const INDEX result0 = tile_results * FILTER_RESULTS;\n"
           "const INDEX data0 = ((INDEX)GROUP_ID_X - tile_results * shape.tiles_data) * "
           "FILTER_DATA;\n"
           "const INDEX slab_first = (INDEX)GROUP_ID_Y * shape.part;\n"
           "const INDEX slab_end = shape.slabs - slab_first < shape.part ? shape.slabs\n"
           "  : slab_first + shape.part;\n",
           launch->local_bytes ? "_ASKED" : "", (unsigned long long)(bytes / 16));
  conv_begin_batches(g, launch, p);
  text_add(text, "const INDEX at_part = (batch * (INDEX)GROUP_COUNT_Y + (INDEX)GROUP_ID_Y) * "
                 "shape.positions * shape.channels;\n");
  emit_template(g, text, "conv_filter");
  text_add(text, "}\n");
  emit_rows_combine(g, p, parts);
  snprintf(g->text, sizeof g->text,
           "filter's gradient by rows, %ux%ux%u, %u channels and all places per item",
           (unsigned)t->tile_m, (unsigned)t->tile_n, (unsigned)t->tile_k, (unsigned)t->item_m);
  return COMPUTE_OK;
}

const emit_form conv_filter = {CONV_FILTER, filter_suits, accept_filter, write_filter};

/* ---- All places of a channel by a group ---------------------------------------------------- */

/* True if each group of channels has one channel of data and one of results. */
static bool places_serve(const generation *g, const conv_problem *p) {
  return is_filter_gradient(g) && !emit_for_cpu(g) && p->channels == 1 &&
         p->position_size[0] == 1 && p->positions <= MOST_PLACES_OF_GROUP && p->position_columns;
}

static bool places_suit(const generation *g, const void *of) {
  const conv_problem *p = of;
  return places_serve(g, p) && emit_has(g, COMPUTE_TARGET_FAST_LOCAL) && p->positions > 1 &&
         p->terms >= LEAST_TERMS;
}

static compute_status accept_places(generation *g, void *of) {
  const conv_problem *p = of;
  compute_tuning *t = &g->tuning;
  if (!places_serve(g, p)) return emit_refuse(g, "it is not the gradient of a depthwise filter");
  const uint64_t sums = (uint64_t)p->positions * p->product.sum_bytes;
  uint32_t items = PLACES_GROUP;
  while (items > emit_group_limit(g) || items * sums > emit_local_limit(g)) items /= 2;
  emit_default(&t->group_x, items);
  if (!emit_is_power(t->group_x) || t->group_x * sums > emit_local_limit(g))
    return emit_refuse(g, "a group of %u items cannot add up the sums", (unsigned)t->group_x);
  const int64_t most = emit_clamp(p->terms / LEAST_TERMS, 1, GEMM_SPLIT_LIMIT);
  emit_default(
      &t->groups,
      (uint32_t)emit_clamp(divide_up(emit_units(g) * PLACES_PARTS, p->product.batches), 1, most));
  const compute_status status = conv_check_group(g);
  return status ? status : conv_check_parts(g, p);
}

static compute_status write_places(generation *g, void *of) {
  conv_problem *p = of;
  const compute_tuning *t = &g->tuning;
  const conv_parts parts = conv_cut(p, t->groups, t->group_x);
  define_places(g, p, t->group_x);
  gemm_define_parts(g, p->product.accumulate, parts.length / t->group_x, false);
  emit_launch *launch = gemm_launch(g, &p->product, "conv_places", t->group_x, 1, parts.count);
  if (!launch) return COMPUTE_OK;
  conv_take(g, launch, p);
  if (parts.count > 1)
    gemm_take_parts(g, launch, &p->product, parts.count);
  else
    conv_take_epilogue(g, launch, p);
  text_buffer *text = &launch->body;
  text_add(text, "LOCAL_ARRAY(SUM, scratch, FILTER_H * FILTER_V * GROUP);\n"
                 "const int item = (int)LOCAL_ID_X;\n");
  conv_begin_batches(g, launch, p);
  conv_find_part(g, launch, &parts);
  emit_template(g, text, "conv_places");
  text_add(text, "const INDEX row = 0;\n"
                 "for (INDEX column = item; column < FILTER_H * FILTER_V; column += GROUP) {\n");
  if (parts.count > 1)
    text_add(text, "partial[((batch * (INDEX)GROUP_COUNT_Y + (INDEX)GROUP_ID_Y) * ROWS + row) * "
                   "COLUMNS + column] = scratch[column * GROUP];\n");
  else
    conv_store(g, text, p, "scratch[column * GROUP]");
  text_add(text, "}\nBARRIER();\n}\n");
  if (parts.count > 1) conv_emit_combine(g, p, &parts);
  snprintf(g->text, sizeof g->text, "depthwise filter's gradient, %u items for all places",
           (unsigned)t->group_x);
  return COMPUTE_OK;
}

const emit_form conv_places = {CONV_PLACES, places_suit, accept_places, write_places};
