/* SPDX-License-Identifier: MIT */
/* FOURIER: a group transforms a line in local memory, which also has the roots.
 *
 * A line that is too long is a matrix: a first launch transforms its columns into the workspace,
 * times the roots of the whole line, and a second its rows. Lengths that have no such divisors are
 * refused.
 *
 * Real numbers are read as complex ones; of a half spectrum the other half is read as conjugates.
 *
 * Parameters: group_x. */
#include <inttypes.h>
#include <stdio.h>

#include "codegen/generate/emit/emit.h"

enum {
  GROUP = 128,
  MOST_GROUPS = 1 << 20, /* beyond this, groups stride */
  PARTS = 6,             /* numbers of local memory for each point: two copies, and the roots */
  MOST_POINTS = 1 << 14  /* of a line in local memory: positions are ints */
};

typedef struct fourier_kernel {
  generation *g;
  emit_space space;                     /* over the lines */
  int64_t lines, length, height, width; /* height 1: no columns */
  uint32_t bytes, group;
  int64_t points[2], parts[2]; /* strides of the input and the output */
} fourier_kernel;

/* ---- Choice ---------------------------------------------------------------------------------- */

static compute_status choose(fourier_kernel *k) {
  generation *g = k->g;
  const int64_t local = (int64_t)(emit_local_limit(g) / (PARTS * k->bytes));
  const int64_t most = emit_clamp(local, 1, MOST_POINTS);
  k->height = 1;
  k->width = k->length;
  if (k->length > most) {
    for (int64_t d = 1; d <= k->length / d; d++)
      if (k->length % d == 0) k->height = d;
    k->width = k->length / k->height;
  }
  if (k->width > most)
    return emit_refuse(g, "fourier: %" PRId64 " points do not fit in local memory", k->width);
  k->group = g->tuning.group_x ? g->tuning.group_x : GROUP;
  k->group = emit_for_cpu(g) ? 1 : emit_group_items(g, k->group);
  g->tuning.group_x = k->group;
  return COMPUTE_OK;
}

/* ---- Text ------------------------------------------------------------------------------------ */

/* Macros of the passes over `points` points. */
static void define_passes(fourier_kernel *k, text_buffer *to, int64_t points) {
  text_buffer text = {0};
  int64_t rest = points, stride = 1;
  int from = 0;
  while (rest > 1) {
    int64_t radix = rest % 4 == 0 ? 4 : 2;
    while (rest % radix != 0) radix++;
    rest /= radix;
    text_add(&text,
             "FOURIER_PASS(%" PRId64 ", %" PRId64 ", %" PRId64 ", %d * FOURIER_POINTS,"
             " %d * FOURIER_POINTS) ",
             radix, stride, rest, from, 1 - from);
    stride *= radix;
    from = 1 - from;
  }
  emit_define_text(to, "FOURIER_ALL_PASSES", &text);
  emit_define_number(to, "FOURIER_POINTS", points);
  emit_define(to, "FOURIER_LAST", from ? "FOURIER_POINTS" : "0");
  (void)k;
}

/* Reads point j of the line, which is number `position` of the whole line. */
static void define_read(fourier_kernel *k, text_buffer *to, const char *position) {
  const compute_kernel_descriptor *d = k->g->descriptor;
  const compute_fourier_attributes *a = compute_fourier_of(d);
  text_buffer text = {0};
  text_add(&text, "{ INDEX n = %s; ", position);
  if (a->halved)
    text_add(&text, "const boolean mirrored = n > shape.length - n; "
                    "if (mirrored) n = shape.length - n; ");
  text_add(&text, "if (n < shape.points) { r = ");
  emit_load(&text, d->inputs[0].dtype, "in0", "row_in0 + n * shape.in_point");
  text_add(&text, "; ");
  if (!a->real) {
    text_add(&text, "i = ");
    emit_load(&text, d->inputs[0].dtype, "in0", "row_in0 + n * shape.in_point + shape.in_part");
    text_add(&text, "; ");
  }
  if (a->halved)
    text_add(&text, "if (mirrored) i = -i; if (n == 0 || 2 * n == shape.length) i = 0; ");
  text_add(&text, "} }");
  emit_define_text(to, "FOURIER_READ(j)", &text);
}

static void define_write(fourier_kernel *k, text_buffer *to, const char *position) {
  const compute_kernel_descriptor *d = k->g->descriptor;
  text_buffer text = {0};
  text_add(&text, "{ const INDEX n = %s; if (n < shape.results) { ", position);
  emit_store(&text, d->outputs[0].dtype, d->accumulate, "out0", "row_out0 + n * shape.out_point",
             "r * shape.scale");
  if (!compute_fourier_of(d)->halved)
    emit_store(&text, d->outputs[0].dtype, d->accumulate, "out0",
               "row_out0 + n * shape.out_point + shape.out_part", "i * shape.scale");
  text_add(&text, "} }");
  emit_define_text(to, "FOURIER_WRITE(k)", &text);
}

static void define(fourier_kernel *k) {
  generation *g = k->g;
  text_buffer *to = &g->definitions;
  const bool wide = g->descriptor->accumulate == COMPUTE_F64;
  emit_define(to, "VALUE", wide ? "f64" : "f32");
  emit_define(to, "FOURIER_COS", wide ? "cos_f64" : "cos_f32");
  emit_define(to, "FOURIER_SIN", wide ? "sin_f64" : "sin_f32");
  emit_define(to, "FOURIER_SIGN", compute_fourier_of(g->descriptor)->inverse ? "1" : "-1");
  emit_define_number(to, "FOURIER_GROUP", k->group);
  emit_template(g, to, "fourier");
}

/* ---- Launches -------------------------------------------------------------------------------- */

static void add_fields(fourier_kernel *k, emit_launch *launch, bool reads, bool writes) {
  generation *g = k->g;
  const compute_fourier_attributes *a = compute_fourier_of(g->descriptor);
  emit_field_index(g, launch, "length", k->length);
  if (reads) {
    emit_field_index(g, launch, "points", a->points);
    emit_field_index(g, launch, "in_point", k->points[0]);
    emit_field_index(g, launch, "in_part", k->parts[0]);
  }
  if (!writes) return;
  emit_field_index(g, launch, "results", g->descriptor->size[g->descriptor->rank - 2]);
  emit_field_index(g, launch, "out_point", k->points[1]);
  emit_field_index(g, launch, "out_part", k->parts[1]);
  if (g->descriptor->accumulate == COMPUTE_F64)
    emit_field_f64(g, launch, "scale", a->scale);
  else
    emit_field_f32(g, launch, "scale", (float)a->scale);
}

/* `count` lines of `points` points; with columns, `each` of them belong to one row. */
static void add_body(fourier_kernel *k, emit_launch *launch, int64_t count, int64_t each,
                     int64_t points) {
  generation *g = k->g;
  text_buffer *text = &launch->body;
  emit_field_index(g, launch, "count", count);
  emit_field_divisor(g, launch, "each", each);
  emit_space_fields(g, launch, &k->space, 0, k->space.rank);
  define_passes(k, text, points);
  text_add(text, "LOCAL_ARRAY(VALUE, real, 2 * FOURIER_POINTS);\n"
                 "LOCAL_ARRAY(VALUE, imag, 2 * FOURIER_POINTS);\n"
                 "const int lane = (int)LOCAL_ID_X;\n");
  if (points > 1) /* else there are no passes */
    text_add(text, "LOCAL_ARRAY(VALUE, roots, 2 * FOURIER_POINTS);\n"
                   "for (int k = lane; k < FOURIER_POINTS; k += FOURIER_GROUP) {\n"
                   "  roots[2 * k] = fourier_root(k, FOURIER_POINTS, 0);\n"
                   "  roots[2 * k + 1] = fourier_root(k, FOURIER_POINTS, 1);\n"
                   "}\n");
  text_add(text, "for (INDEX at = (INDEX)GROUP_ID_X; at < shape.count;\n"
                 "     at += (INDEX)GROUP_COUNT_X) {\n"
                 "const INDEX row = DIVIDE(at, shape.each), own = at - row * shape.each;\n");
  emit_offsets(g, text, &k->space, 0, k->space.rank, "row", "row");
  emit_template(g, text, "fourier_line");
  text_add(text, "}\n");
}

static void take_square(fourier_kernel *k, emit_launch *launch, bool written) {
  emit_workspace(k->g, launch, "square", k->bytes == 8 ? "f64" : "f32", k->bytes, 0, written);
}

static void add_columns(fourier_kernel *k) {
  generation *g = k->g;
  const int64_t count = k->lines * k->width;
  emit_launch *launch =
      emit_launch_line(g, "fourier_columns", k->group, emit_clamp(count, 1, MOST_GROUPS));
  if (!launch) return;
  emit_input(g, launch, 0);
  take_square(k, launch, true);
  add_fields(k, launch, true, false);
  emit_field_index(g, launch, "width", k->width);
  define_read(k, &launch->body, "(INDEX)(j) * shape.width + own");
  emit_define(&launch->body, "FOURIER_WRITE(k)",
              "{ const i64 turn_ = (i64)(k) * own % shape.length;"
              " const VALUE c = fourier_root(turn_, shape.length, 0);"
              " const VALUE s = fourier_root(turn_, shape.length, 1);"
              " const INDEX n = row * shape.length + (INDEX)(k) * shape.width + own;"
              " square[2 * n] = r * c - i * s; square[2 * n + 1] = r * s + i * c; }");
  add_body(k, launch, count, k->width, k->height);
}

static void add_rows(fourier_kernel *k) {
  generation *g = k->g;
  const int64_t count = k->lines * k->height;
  const bool columns = k->height > 1;
  emit_launch *launch = emit_launch_line(g, "fourier", k->group, emit_clamp(count, 1, MOST_GROUPS));
  if (!launch) return;
  if (!columns) emit_input(g, launch, 0);
  emit_output(g, launch, 0);
  if (columns) take_square(k, launch, false);
  add_fields(k, launch, !columns, true);
  emit_field_index(g, launch, "height", k->height);
  if (columns) {
    emit_field_index(g, launch, "width", k->width);
    emit_define(&launch->body, "FOURIER_READ(j)",
                "{ const INDEX n = row * shape.length + own * shape.width + (j);"
                " r = square[2 * n]; i = square[2 * n + 1]; }");
  } else {
    define_read(k, &launch->body, "(INDEX)(j)");
  }
  define_write(k, &launch->body, "own + (INDEX)(k) * shape.height");
  add_body(k, launch, count, k->height, k->width);
}

static compute_status emit(generation *g) {
  const compute_kernel_descriptor *d = g->descriptor;
  const int32_t axis = d->rank - 2;
  fourier_kernel k = {.g = g,
                      .length = compute_fourier_of(d)->length,
                      .points = {d->inputs[0].stride[axis], d->outputs[0].stride[axis]},
                      .parts = {d->inputs[0].stride[axis + 1], d->outputs[0].stride[axis + 1]}};
  if (d->size[axis] == 0 || !space_rows(g, &k.space, axis)) return COMPUTE_OK;
  k.lines = space_count(&k.space, 0, k.space.rank);
  k.bytes = emit_value_bytes(d->accumulate);
  if ((double)k.lines * (double)k.length > 0x1p40)
    return emit_refuse(g, "fourier: %" PRId64 " lines are too many", k.lines);
  sweep_measure(g, 4 * (double)k.lines * (double)k.length);
  const compute_status status = choose(&k);
  if (status) return status;
  define(&k);
  if (k.height > 1) {
    g->workspace_bytes = (uint64_t)k.lines * (uint64_t)k.length * 2 * k.bytes;
    add_columns(&k);
  }
  add_rows(&k);
  snprintf(g->text, sizeof g->text, "fourier by groups of %u, lines of %" PRId64 " x %" PRId64,
           (unsigned)k.group, k.height, k.width);
  return COMPUTE_OK;
}

static const tuning_grid grids[] = {
    {TUNE_OTHERS, {TUNE(group_x, 64, 128, 256)}},
    {.target = TUNE_END},
};

const emit_kind emit_fourier = {.name = "FOURIER", .emit = emit, .grids = grids};
