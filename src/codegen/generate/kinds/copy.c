/* SPDX-License-Identifier: MIT */
/* COPY: strided and converting. On GPUs a copy that crosses the rows of its result goes through
 * tiles in local memory. All other copies are a loop like MAP's. */
#include <stdio.h>

#include "codegen/generate/kinds/elementwise.h"

enum {
  TILE = 32,
  TRANSPOSE_GROUP_X = 32,
  TRANSPOSE_GROUP_Y = 8,
  LARGE_TILE = 64,
  LARGE_GROUP_Y = 16,
  LARGE_TILES = 4, /* for each compute unit */
  LEAST_SIZE = 8   /* of both dimensions; below this, tiles do not pay */
};

/* ---- Whether to transpose ------------------------------------------------------------------ */

/* Makes dimension `from` the one before the last. The order of the others stays. */
static void move_before_last(emit_space *space, int32_t from) {
  for (int32_t d = from; d < space->rank - 2; d++) elementwise_swap(space, d, d + 1);
}

/* Places the dimension along which in0 is contiguous before the last dimension, along which out0 is
 * contiguous. Returns false when in0's is the last, or there is none. */
static bool find_matrix(emit_space *space) {
  const int64_t *in = space_walk(space, "in0")->stride, *out = space_walk(space, "out0")->stride;
  const int32_t last = space->rank - 1;
  if (space->rank < 2 || out[last] != 1 || space->size[last] < LEAST_SIZE) return false;
  for (int32_t d = 0; d < last; d++) {
    if (in[d] != 1 || space->size[d] < LEAST_SIZE) continue;
    move_before_last(space, d);
    return true;
  }
  return false;
}

/* ---- Text ---------------------------------------------------------------------------------- */

typedef struct transpose {
  int64_t rows, columns; /* of the tile */
  uint32_t group_x, group_y;
} transpose;

/* Larger tiles have more loads in flight. They are used if there are enough for all units. */
static bool is_large(const generation *g, const emit_space *space) {
  const double elements = (double)space_count(space, 0, space->rank);
  const uint64_t bytes =
      LARGE_TILE * (LARGE_TILE + 1) * compute_dtype_size(g->descriptor->inputs[0].dtype);
  return g->target->dialect != COMPUTE_DIALECT_OPENCL && bytes <= g->target->local_bytes &&
         g->target->group_limit >= LARGE_GROUP_Y * TRANSPOSE_GROUP_X &&
         elements >= (double)emit_units(g) * LARGE_TILES * LARGE_TILE * LARGE_TILE;
}

static transpose choose_transpose(const generation *g, const emit_space *space) {
  compute_tuning chosen = g->tuning;
  const compute_tuning *asked = &chosen;
  const uint32_t limit = g->target->group_limit;
  if (!chosen.tile_m && !chosen.tile_n && !chosen.group_x && !chosen.group_y &&
      is_large(g, space)) {
    chosen.tile_m = chosen.tile_n = LARGE_TILE;
    chosen.group_y = LARGE_GROUP_Y;
  }
  transpose t = {.rows = asked->tile_m ? (int64_t)asked->tile_m : TILE,
                 .columns = asked->tile_n ? (int64_t)asked->tile_n : TILE,
                 .group_x = asked->group_x ? asked->group_x : TRANSPOSE_GROUP_X,
                 .group_y = asked->group_y ? asked->group_y : TRANSPOSE_GROUP_Y};
  while (limit && !asked->group_y && t.group_y > 1 && t.group_x * t.group_y > limit) t.group_y /= 2;
  return t;
}

static uint64_t tile_bytes(const generation *g, const transpose *t) {
  return (uint64_t)t->columns * (uint64_t)(t->rows + 1) *
         compute_dtype_size(g->descriptor->inputs[0].dtype);
}

/* PUT: stores an element of the tile, in its memory format, in the output. */
static void add_put(generation *g, text_buffer *text) {
  const compute_dtype from = g->descriptor->inputs[0].dtype, to = g->descriptor->outputs[0].dtype;
  char value[64];
  if (from == to) {
    text_add(text, "#define PUT(at, i) out0[at] = tile[i]\n");
    return;
  }
  snprintf(value, sizeof value, "LOAD_%s(tile, i)", compute_dtype_name(from));
  text_add(text, "#define PUT(at, i) out0[at] = ");
  emit_convert(text, dtype_compute_type(from), to, value);
  text_add(text, "\n");
}

static void add_settings(generation *g, const emit_space *space, const transpose *t) {
  const int32_t column = space->rank - 1, row = column - 1;
  char in_column[64], out_row[64];
  text_buffer *text = &g->definitions;
  text_add(text,
           "#define TILE_ROWS %lld\n#define TILE_COLUMNS %lld\n"
           "#define GROUP_X %u\n#define GROUP_Y %u\n"
           "#define TRANSPOSE_DOWN %lld\n#define TRANSPOSE_ACROSS %lld\n#define TILE_TYPE %s\n"
           "#define ROWS shape.%s_size%d\n#define COLUMNS shape.%s_size%d\n"
           "#define IN_COLUMN %s\n#define OUT_ROW %s\n",
           (long long)t->rows, (long long)t->columns, (unsigned)t->group_x, (unsigned)t->group_y,
           (long long)divide_up(t->columns, t->group_y), (long long)divide_up(t->rows, t->group_x),
           emit_storage(g->descriptor->inputs[0].dtype), space->name, (int)row, space->name,
           (int)column, emit_stride(space, "in0", column, in_column, sizeof in_column),
           emit_stride(space, "out0", row, out_row, sizeof out_row));
  add_put(g, text);
}

static int64_t blocks_of(int64_t size, int64_t tile) {
  return size / tile + (size % tile != 0);
}

static int64_t tile_count(const emit_space *space, const transpose *t) {
  const int32_t row = space->rank - 2;
  return blocks_of(space->size[row], t->rows) * blocks_of(space->size[row + 1], t->columns) *
         space_count(space, 0, row);
}

static compute_status emit_transpose(generation *g, const emit_space *space, const transpose *t) {
  const int32_t column = space->rank - 1, row = column - 1;
  const int64_t row_blocks = blocks_of(space->size[row], t->rows);
  const int64_t column_blocks = blocks_of(space->size[column], t->columns);
  emit_launch *launch = emit_launch_begin(g, "transpose", (uint32_t[3]){t->group_x, t->group_y, 1},
                                          (uint32_t[3]){(uint32_t)tile_count(space, t), 1, 1});
  if (!launch) return COMPUTE_OK;
  emit_input(g, launch, 0);
  emit_output(g, launch, 0);
  emit_space_fields(g, launch, space, 0, space->rank);
  emit_field_divisor(g, launch, "row_blocks", row_blocks);
  emit_field_divisor(g, launch, "column_blocks", column_blocks);
  add_settings(g, space, t);
  text_buffer *body = &launch->body;
  text_add(body,
           "  LOCAL_ARRAY(%s, tile, TILE_COLUMNS * (TILE_ROWS + 1));\n"
           "  const INDEX block = (INDEX)GROUP_ID_X;\n"
           "  const INDEX line = DIVIDE(block, shape.column_blocks);\n"
           "  const INDEX matrix = DIVIDE(line, shape.row_blocks);\n"
           "  const INDEX column0 = (block - line * shape.column_blocks) * TILE_COLUMNS;\n"
           "  const INDEX row0 = (line - matrix * shape.row_blocks) * TILE_ROWS;\n",
           emit_storage(g->descriptor->inputs[0].dtype));
  emit_offsets(g, body, space, 0, row, "matrix", "matrix");
  text_add(body, "  const INDEX from = matrix_in0, to = matrix_out0;\n");
  emit_template(g, body, "copy_transpose");
  g->tuning.tile_m = (uint32_t)t->rows;
  g->tuning.tile_n = (uint32_t)t->columns;
  g->tuning.group_x = t->group_x;
  g->tuning.group_y = t->group_y;
  snprintf(g->text, sizeof g->text, "transpose by tiles of %lldx%lld", (long long)t->rows,
           (long long)t->columns);
  return COMPUTE_OK;
}

static compute_status emit(generation *g) {
  const compute_kernel_descriptor *d = g->descriptor;
  elementwise e = {.g = g, .what = "copy", .plain = d->inputs[0].dtype == d->outputs[0].dtype};
  space_begin(&e.space, "space", d->rank, d->size);
  space_add_inputs(g, &e.space, 0, 1);
  space_add_outputs(g, &e.space);
  elementwise_order(&e);
  if (space_count(&e.space, 0, e.space.rank) == 0) return COMPUTE_OK;
  if (!emit_for_cpu(g)) {
    const transpose t = choose_transpose(g, &e.space);
    const bool fits = tile_bytes(g, &t) <= g->target->local_bytes;
    if (fits && find_matrix(&e.space) && tile_count(&e.space, &t) <= INT32_MAX) {
      return emit_transpose(g, &e.space, &t);
    }
  }
  if (!e.plain) emit_program(g, &e.program, "program", &d->epilogue, COMPUTE_DTYPE_NONE, 0, 1);
  return elementwise_emit(&e);
}

static const tuning_grid grids[] = {
    {TUNE_OTHERS,
     {TUNE(group_x, 64, 128, 256, 512), TUNE(vector, 1, 2, 4, 8), TUNE(groups, 4, 8, 16, 32, 64)}},
    {TUNE_CPU, {TUNE(items, 1024, 4096, 16384, 65536, 262144, 1048576)}},
    {TUNE_OTHERS, {TUNE(tile_m, 16, 32, 64), TUNE(tile_n, 16, 32, 64)}},
    {TUNE_CPU, {TUNE(tile_m, 16, 32, 64, 128), TUNE(tile_n, 32, 64, 128, 256, 512)}},
    {.target = TUNE_END},
};

const emit_kind emit_copy = {.name = "COPY", .emit = emit, .grids = grids};
