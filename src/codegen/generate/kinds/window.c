/* SPDX-License-Identifier: MIT */
/* WINDOW: pooling and its gradients.
 *
 * An item computes one result. Windows are first cut to the data, so that loops over them need no
 * test. The gradient gathers: an element of the data reads all windows that contain it. So there
 * are no atomics, and the same input gives the same bits.
 *
 * The gradient of a maximum needs the first largest element of a window. If windows overlap little,
 * each element searches for it (DIRECT). Otherwise a first launch stores the places in the
 * workspace (PLACES).
 *
 * On GPUs, windows of a few elements get special text (BLOCK). An item takes neighbouring results,
 * or for a gradient all elements of one step of the windows, and loads all their operands at once.
 *
 * Parameters: group_x, variant (1: DIRECT, 2: PLACES, for the gradient of a maximum, 3: BLOCK) and,
 * for BLOCK, item_n (windows of an item). */
#include <inttypes.h>
#include <stdio.h>

#include "codegen/generate/emit/emit.h"

enum {
  DIRECT = 1,
  PLACES = 2,
  BLOCK = 3,
  GROUP = 256,
  LEAST_SHARE = 256,    /* results that make a CPU item worthwhile */
  DIRECT_ELEMENTS = 24, /* that an element may read in a search */
  BLOCK_WINDOW = 25,    /* most elements of a window for BLOCK */
  BLOCK_STRIDE = 4,
  BLOCK_HELD = 64, /* elements in the registers of an item */
  OWN_RANK = 4
};

/* The block of results of an item: its size, and the elements before the first. */
typedef struct window_block {
  int64_t size[2], before[2];
  bool whole; /* every window is inside the data, and every block is full */
} window_block;

static const space_order plain_order = {OWN_RANK, OWN_RANK, {0, 1, 2, 3}};

typedef struct window_kernel {
  generation *g;
  const compute_window_attributes *w;
  uint32_t own;     /* inputs before the epilogue's inputs */
  bool max, places; /* of maxima; places are looked up */
  bool block;
  emit_function epilogue;
  emit_space space, full; /* with the fewest dimensions, and with all */
} window_kernel;

/* ---- Spaces -------------------------------------------------------------------------------- */

/* A space over planes, rows and columns. The kind's own inputs have strides only for planes. */
static void begin_space(window_kernel *k, emit_space *space, const int64_t *size) {
  const compute_kernel_descriptor *d = k->g->descriptor;
  space_begin(space, "space", OWN_RANK, size);
  for (uint32_t i = 0; i < k->own; i++) {
    char name[16];
    const int64_t *from = d->inputs[i].stride;
    snprintf(name, sizeof name, "in%" PRIu32, i);
    space_add(space, name, (int64_t[COMPUTE_MAX_RANK]){from[0], from[1]});
  }
  space_add(space, "plane", (int64_t[COMPUTE_MAX_RANK]){size[1], 1});
  space_add(space, "row", (int64_t[COMPUTE_MAX_RANK]){0, 0, 1});
  space_add(space, "column", (int64_t[COMPUTE_MAX_RANK]){0, 0, 0, 1});
}

static void measure(window_kernel *k) {
  const compute_window_attributes *w = k->w;
  const double plane = (double)w->data_size[0] * (double)w->data_size[1];
  const double window = (double)w->size[0] * (double)w->size[1];
  const double planes = (double)k->g->descriptor->size[0] * (double)k->g->descriptor->size[1];
  const double results = planes * (double)w->result_size[0] * (double)w->result_size[1];
  double more = plane > window ? plane : window;
  if (results > more) more = results;
  for (int i = 0; i < 2; i++) {
    const double reach = (double)w->result_size[i] * (double)w->stride[i] +
                         (double)w->size[i] * (double)w->dilation[i] + (double)w->data_size[i] +
                         2 * (double)w->padding[i] + (double)w->padding_more[i] +
                         (double)w->stride[i];
    if (reach > more) more = reach;
  }
  sweep_measure(k->g, more);
}

/* ---- Text ---------------------------------------------------------------------------------- */

/* The result of a window without elements. Narrow integers are folded in a wider type, but the
 * value must fit the narrow one. */
static void define_start(window_kernel *k) {
  text_buffer *text = &k->g->definitions;
  const compute_dtype dtype = k->g->descriptor->inputs[0].dtype;
  if (k->max && dtype_is_narrow(dtype)) {
    int64_t least;
    uint64_t most;
    dtype_limits(dtype, &least, &most);
    emit_define_number(text, "WINDOW_START", least);
  } else {
    emit_define(text, "WINDOW_START", k->max ? emit_lowest(k->g->descriptor->accumulate) : "0");
  }
}

static void define(window_kernel *k) {
  generation *g = k->g;
  const compute_window_attributes *w = k->w;
  text_buffer *text = &g->definitions, load = {0};
  const compute_dtype type = g->descriptor->accumulate;
  emit_define(text, "VALUE", emit_type(type));
  emit_define_number(text, "WINDOW_DILATED", w->dilation[0] > 1 || w->dilation[1] > 1);
  emit_define_number(text, "WINDOW_COUNT_PADDING", w->count_padding);
  emit_define_number(text, "WINDOW_IS_MAX", k->max);
  define_start(k);
  emit_define(text, "WINDOW_FOLD(a, b)",
              k->max ? "((((a) > (b)) | WINDOW_IS_NAN(a)) ? (a) : (b))" : "((a) + (b))");
  emit_define(text, "WINDOW_IS_NAN(a)", dtype_is_float(type) ? "((a) != (a))" : "0");
  for (uint32_t i = 0; i < k->own; i++) {
    char head[32], name[16];
    snprintf(head, sizeof head, "ELEMENT%" PRIu32 "(place)", i);
    snprintf(name, sizeof name, "in%" PRIu32, i);
    emit_load(&load, g->descriptor->inputs[i].dtype, name, "place");
    emit_define_text(text, head, &load);
  }
  emit_template(g, text, "window");
}

static void add_fields(window_kernel *k, emit_launch *launch) {
  static const char *const names[2][9] = {{"data_rows", "rows", "size_h", "stride_h", "dilation_h",
                                           "padding_h", "behind_h", "in0_h", "in1_h"},
                                          {"data_columns", "columns", "size_v", "stride_v",
                                           "dilation_v", "padding_v", "behind_v", "in0_v",
                                           "in1_v"}};
  generation *g = k->g;
  const compute_window_attributes *w = k->w;
  for (int i = 0; i < 2; i++) {
    emit_field_index(g, launch, names[i][0], w->data_size[i]);
    emit_field_index(g, launch, names[i][1], w->result_size[i]);
    emit_field_index(g, launch, names[i][2], w->size[i]);
    emit_field_index(g, launch, names[i][3], w->stride[i]);
    emit_field_index(g, launch, names[i][4], w->dilation[i]);
    emit_field_index(g, launch, names[i][5], w->padding[i]);
    emit_field_index(g, launch, names[i][6], w->padding[i] + w->padding_more[i]);
    for (uint32_t j = 0; j < k->own; j++)
      emit_field_index(g, launch, names[i][7 + j], g->descriptor->inputs[j].stride[2 + i]);
  }
}

static emit_launch *begin_launch(window_kernel *k, const char *entry, const emit_space *space,
                                 const char *prefix, uint32_t inputs, bool stores) {
  generation *g = k->g;
  const int64_t count = space_count(space, 0, space->rank);
  const sweep s = sweep_plan(g, count, LEAST_SHARE, GROUP);
  emit_launch *launch = emit_launch_line(g, entry, s.group, s.groups);
  if (!launch) return NULL;
  emit_inputs(g, launch, 0, inputs);
  if (stores) emit_outputs(g, launch);
  add_fields(k, launch);
  emit_space_fields(g, launch, space, 0, space->rank);
  sweep_begin(g, launch, &s);
  emit_offsets(g, &launch->body, space, 0, space->rank, "at", prefix);
  return launch;
}

/* Adds a first launch that finds the places of maxima. */
static void note_places(window_kernel *k) {
  generation *g = k->g;
  const compute_window_attributes *w = k->w;
  const uint32_t bytes = g->wide ? 8 : 4;
  const int64_t size[OWN_RANK] = {g->descriptor->size[0], g->descriptor->size[1], w->result_size[0],
                                  w->result_size[1]};
  emit_space space;
  begin_space(k, &space, size);
  space_canonicalise(g, &space);
  space.generic = space.rank;
  const int64_t count = space_count(&space, 0, space.rank);
  emit_launch *launch = begin_launch(k, "window_places", &space, "at", 1, false);
  if (!launch) return;
  emit_workspace(g, launch, "places", g->wide ? "i64" : "i32", bytes, 0, true);
  emit_template(g, &launch->body, "window_places");
  text_add(&launch->body, "places[at] = found;\n}\n");
  g->workspace_bytes = (uint64_t)count * bytes;
}

static void fold_windows(window_kernel *k) {
  generation *g = k->g;
  const compute_kernel_descriptor *d = g->descriptor;
  const bool by_data = k->w->by_data;
  const char *entry = by_data ? "window_gradient" : "window";
  emit_launch *launch = begin_launch(k, entry, &k->space, "at", d->input_count, true);
  if (!launch) return;
  text_buffer *text = &launch->body;
  if (k->places)
    emit_workspace(g, launch, "places", g->wide ? "i64" : "i32", g->wide ? 8 : 4, 0, false);
  emit_define_number(text, "WINDOW_PLACES", k->places);
  if (k->w->operation == COMPUTE_WINDOW_ARGMAX) {
    emit_template(g, text, "window_places");
    text_add(text, "const i64 folded = found < 0 ? -1 : (i64)at_plane * ((i64)shape.data_rows * "
                   "shape.data_columns) + found;\n");
  } else {
    emit_template(g, text, by_data ? "window_gradient" : "window_fold");
  }
  emit_apply(g, text, &k->epilogue, "folded", "at_$");
  text_add(text, "}\n");
}

/* ---- Blocks -------------------------------------------------------------------------------- */

static bool windows_lie_inside(const compute_window_attributes *w, int i) {
  return w->padding[i] == 0 &&
         (w->result_size[i] - 1) * w->stride[i] + w->size[i] <= w->data_size[i];
}

/* The number of elements in every average, or 0 if it differs. */
static int64_t same_count(const compute_window_attributes *w) {
  for (int i = 0; i < 2; i++) {
    const int64_t reach = (w->result_size[i] - 1) * w->stride[i] + w->size[i];
    const int64_t behind = w->padding[i] + w->padding_more[i];
    const bool all = w->count_padding ? reach <= w->data_size[i] + w->padding[i] + behind
                                      : windows_lie_inside(w, i);
    if (!all) return 0;
  }
  return w->size[0] * w->size[1];
}

static window_block measure_block(const window_kernel *k, int64_t results) {
  const compute_window_attributes *w = k->w;
  window_block b = {.size = {1, results}, .whole = true};
  for (int i = 0; i < 2; i++) {
    const int64_t plane = k->full.size[2 + i];
    if (w->by_data) {
      b.size[i] = i ? w->stride[i] * results : w->stride[i];
      b.before[i] = w->padding[i];
      if (w->size[i] > w->stride[i] || plane != w->result_size[i] * w->stride[i]) b.whole = false;
    }
    if (!windows_lie_inside(w, i) || plane % b.size[i] != 0) b.whole = false;
  }
  return b;
}

/* The space of blocks: in rows and columns a step is a block. */
static emit_space block_space(const window_kernel *k, const window_block *b) {
  emit_space space = k->full;
  for (int i = 0; i < 2; i++) {
    space.size[2 + i] = divide_up(space.size[2 + i] + b->before[i], b->size[i]);
    for (uint32_t n = 0; n < space.walk_count; n++) space.walk[n].stride[2 + i] *= b->size[i];
  }
  space_canonicalise(k->g, &space);
  space.generic = space.rank;
  return space;
}

static void define_block(window_kernel *k, const window_block *b) {
  const compute_window_attributes *w = k->w;
  text_buffer *text = &k->g->definitions;
  emit_define_number(text, "WINDOW_SIZE_H", w->size[0]);
  emit_define_number(text, "WINDOW_SIZE_V", w->size[1]);
  emit_define_number(text, "WINDOW_STRIDE_H", w->stride[0]);
  emit_define_number(text, "WINDOW_STRIDE_V", w->stride[1]);
  emit_define_number(text, "BLOCK_RESULTS", k->g->tuning.item_n);
  emit_define(text, "WINDOW_NATURAL", k->g->wide ? "u64" : "u32");
  emit_template(k->g, text, "window_block_inside");
  emit_define_number(text, "WINDOW_WHOLE", b->whole);
  emit_define_number(text, "WINDOW_COUNTED", k->max ? 0 : same_count(w));
}

/* const INDEX at_<walk> = …; of the result in row r and column s of the block */
static void find_in_block(window_kernel *k, emit_launch *launch) {
  static const char *const sides[] = {"down", "along"};
  text_buffer *text = &launch->body;
  for (uint32_t n = 0; n < k->full.walk_count; n++) {
    const emit_walk *walk = &k->full.walk[n];
    text_add(text, "const INDEX at_%s = cell_%s", walk->name, walk->name);
    for (int i = 0; i < 2; i++) {
      const int64_t step = walk->stride[2 + i];
      char field[48];
      if (step == 0) continue;
      snprintf(field, sizeof field, "%s_%s", sides[i], walk->name);
      emit_field_index(k->g, launch, field, step);
      text_add(text, " + (%s) * shape.%s", i ? "s - before_v" : "r - before_h", field);
    }
    text_add(text, ";\n");
  }
}

static void fold_blocks(window_kernel *k) {
  generation *g = k->g;
  const window_block b = measure_block(k, g->tuning.item_n);
  emit_space space = block_space(k, &b);
  const bool by_data = k->w->by_data;
  define_block(k, &b);
  emit_launch *launch = begin_launch(k, by_data ? "window_gradient" : "window", &space, "cell",
                                     g->descriptor->input_count, true);
  if (!launch) return;
  emit_field_index(g, launch, "before_h", b.before[0]);
  emit_field_index(g, launch, "before_v", b.before[1]);
  text_buffer *text = &launch->body;
  emit_template(g, text, by_data ? "window_block_gradient" : "window_block");
  text_add(text, "const INDEX before_h = shape.before_h, before_v = shape.before_v;\n");
  text_add(text,
           "UNROLL for (int r = 0; r < %lld; r++) {\nUNROLL for (int s = 0; s < %lld; s++) {\n",
           (long long)b.size[0], (long long)b.size[1]);
  find_in_block(k, launch);
  if (!b.whole)
    text_add(text,
             "if ((at_row >= 0) & (at_row < shape.%s) & (at_column >= 0) & (at_column < "
             "shape.%s)) {\n",
             by_data ? "data_rows" : "rows", by_data ? "data_columns" : "columns");
  emit_apply(g, text, &k->epilogue, "folded[r][s]", "at_$");
  text_add(text, b.whole ? "}\n}\n}\n" : "}\n}\n}\n}\n");
}

/* ---- Choice -------------------------------------------------------------------------------- */

/* The number of elements that an element of the data reads to find its maxima. */
static double direct_work(const compute_window_attributes *w) {
  double work = 1;
  for (int i = 0; i < 2; i++) {
    const double windows = (double)divide_up(w->size[i], w->stride[i]);
    work *= (double)w->size[i] * (w->dilation[i] > 1 ? (double)w->size[i] : windows);
  }
  return work;
}

/* Elements of the data in the registers of an item of BLOCK, for `results` windows side by side. */
static int64_t held_in_block(const window_kernel *k, int64_t results) {
  const compute_window_attributes *w = k->w;
  if (!w->by_data) return w->size[0] * ((results - 1) * w->stride[1] + w->size[1]);
  const int64_t down = (w->size[0] - 1) / w->stride[0], along = (w->size[1] - 1) / w->stride[1];
  const int64_t rows = down * w->stride[0] + w->size[0];
  const int64_t columns = (along + results - 1) * w->stride[1] + w->size[1];
  const int64_t windows = (down + 1) * (along + results);
  return k->max ? rows * columns + windows : windows + w->stride[0] * w->stride[1] * results;
}

/* BLOCK is for windows with few elements, close together. */
static bool block_is_possible(const window_kernel *k) {
  const compute_window_attributes *w = k->w;
  for (int i = 0; i < 2; i++)
    if (w->dilation[i] != 1 || w->size[i] > BLOCK_WINDOW || w->stride[i] > BLOCK_STRIDE)
      return false;
  return !emit_for_cpu(k->g) && w->operation != COMPUTE_WINDOW_ARGMAX &&
         w->size[0] * w->size[1] <= BLOCK_WINDOW && w->result_size[0] > 0 &&
         w->result_size[1] > 0 && held_in_block(k, 1) <= BLOCK_HELD;
}

/* Windows of an item: more if neighbours share elements. A gradient takes one, so that neighbouring
 * items store close together, unless it searches for maxima of overlapping windows. */
static uint32_t choose_block(const compute_window_attributes *w, bool max) {
  if (w->by_data) return max && w->size[1] > w->stride[1] ? 2 : 1;
  return w->stride[1] == 1 && w->size[1] > 1 ? 4 : 2;
}

static compute_status choose(window_kernel *k) {
  generation *g = k->g;
  const compute_window_attributes *w = k->w;
  compute_tuning *t = &g->tuning;
  if (t->variant > BLOCK)
    return emit_refuse(g, "window: there is no variant %u", (unsigned)t->variant);
  const bool results = w->result_size[0] > 0 && w->result_size[1] > 0;
  const bool possible = block_is_possible(k);
  if (t->variant == BLOCK && !possible)
    return emit_refuse(g, "window: it is too large for a text of its own");
  k->block = t->variant ? t->variant == BLOCK : possible;
  if (k->block) {
    emit_default(&t->item_n, choose_block(w, k->max));
    if (!emit_is_power(t->item_n) || held_in_block(k, t->item_n) > 2 * BLOCK_HELD)
      return emit_refuse(g, "window: %u windows are too many for an item", (unsigned)t->item_n);
  } else if (k->max && w->by_data && results) {
    k->places = t->variant ? t->variant == PLACES : direct_work(w) > DIRECT_ELEMENTS;
  }
  t->variant = k->block ? BLOCK : k->places ? PLACES : DIRECT;
  return COMPUTE_OK;
}

static compute_status emit(generation *g) {
  const compute_kernel_descriptor *d = g->descriptor;
  const compute_window_attributes *w = compute_window_of(d);
  const bool place = w->operation == COMPUTE_WINDOW_ARGMAX;
  window_kernel k = {.g = g, .w = w, .max = w->operation != COMPUTE_WINDOW_AVERAGE};
  k.own = w->by_data && k.max ? 2 : 1;
  for (int i = 0; i < OWN_RANK; i++)
    if (d->size[i] == 0) return COMPUTE_OK;
  const compute_status status = choose(&k);
  if (status) return status;
  emit_program(g, &k.epilogue, "epilogue", &d->epilogue, place ? COMPUTE_I64 : d->accumulate, k.own,
               d->input_count);
  begin_space(&k, &k.space, d->size);
  space_add_function(&k.space, d, &k.epilogue, &plain_order, OWN_RANK);
  space_add_outputs_in_order(&k.space, d, &plain_order);
  k.full = k.space;
  space_canonicalise(g, &k.space);
  k.space.generic = k.space.rank; /* one program for all layouts: windows cost far more */
  measure(&k);
  define(&k);
  if (k.places) note_places(&k);
  if (k.block)
    fold_blocks(&k);
  else
    fold_windows(&k);
  snprintf(g->text, sizeof g->text, "%s pooling%s%s, groups of %u",
           place   ? "argmax"
           : k.max ? "max"
                   : "average",
           w->by_data ? ", gradient" : "",
           k.places  ? " by noted places"
           : k.block ? " by blocks"
                     : "",
           (unsigned)g->tuning.group_x);
  return COMPUTE_OK;
}

static const tuning_grid grids[] = {
    {TUNE_OTHERS, {TUNE(variant, 1, 2), TUNE(group_x, 64, 128, 256, 512)}},
    {TUNE_OTHERS, {TUNE(variant, 3), TUNE(group_x, 128, 256, 512), TUNE(item_n, 1, 2, 4)}},
    {TUNE_CPU, {TUNE(variant, 1, 2)}},
    {.target = TUNE_END},
};

const emit_kind emit_window = {.name = "WINDOW", .emit = emit, .grids = grids};
