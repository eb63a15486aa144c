/* SPDX-License-Identifier: MIT */
/* MAP: a program on every element. Also loops over a space with one statement inside, which COPY
 * uses.
 *
 * A CPU gets one item for each group. The item walks rows of contiguous memory in a plain loop,
 * which the device's compiler vectorises. On a CPU this is much faster than a grid stride and, with
 * functions like exp, also faster than one element for each item. If rows are short, the loop runs
 * over positions instead and divides for each element.
 *
 * A GPU gets a grid-stride loop over positions, with vector loads and stores where all operands
 * allow them. Three conditions decide: strides of 0 and 1, known when the text is written; sizes,
 * known when the launch is described; and addresses, known only at the launch. */
#include "codegen/generate/kinds/elementwise.h"

#include <stdio.h>
#include <string.h>

#include "core/kernel/common/program.h"

enum {
  SHORT_ROW = 32,       /* CPU: shorter rows do not pay for a separate loop */
  CPU_ELEMENTS = 16384, /* of one item, if there are enough */
  CPU_LEAST = 1024,
  TILE_COLUMNS = 256, /* CPU: if an operand crosses the rows, this keeps its lines in the cache */
  TILE_ROWS = 64,
  GPU_GROUP = 256,
  GPU_GROUPS = 64, /* for each compute unit, before items stride */
  GPU_GROUPS_OPENCL = 16,
  GPU_GROUPS_LEAST = 8,
  GPU_MOST_ITEMS = 1 << 23, /* with a stride: a step of all items past the end fits the index */
  GPU_SHORT = 8,            /* operations; a shorter program does not delay memory */
  GPU_ITEMS = 4,            /* elements of an item in flight, without vectors */
  VECTOR_BYTES = 16,
  VECTOR_VALUES = 64 /* of all operands together, in registers */
};

/* ---- Order of dimensions ------------------------------------------------------------------- */

void elementwise_swap(emit_space *space, int32_t a, int32_t b) {
  int64_t size = space->size[a];
  space->size[a] = space->size[b];
  space->size[b] = size;
  for (uint32_t i = 0; i < space->walk_count; i++) {
    int64_t *stride = space->walk[i].stride, kept = stride[a];
    stride[a] = stride[b];
    stride[b] = kept;
  }
}

/* Insertion, so that equal strides keep their order. */
static void order_dimensions(emit_space *space) {
  const emit_walk *output = space_walk(space, "out0");
  for (int32_t d = 1; output && d < space->rank; d++) {
    for (int32_t at = d; at > 0; at--) {
      if (emit_magnitude(output->stride[at - 1]) >= emit_magnitude(output->stride[at])) break;
      elementwise_swap(space, at - 1, at);
    }
  }
}

/* ---- The statement ------------------------------------------------------------------------- */

static void add_statement(const elementwise *e, text_buffer *text, const char *index) {
  if (e->plain) {
    text_add(text, "  out0[");
    emit_pattern(text, index, "out0");
    text_add(text, "] = in0[");
    emit_pattern(text, index, "in0");
    text_add(text, "];\n");
    return;
  }
  char type[EMIT_NAME_BYTES + 8];
  text_add(text, "  const %s result = ", emit_result_type(&e->program, type, sizeof type));
  emit_function_call(e->g, text, &e->program, NULL, index);
  text_add(text, ";\n");
  emit_stores(e->g, text, &e->program, "result", index);
}

static emit_launch *begin_launch(elementwise *e, uint32_t group, uint64_t groups) {
  generation *g = e->g;
  if (groups > UINT32_MAX) {
    g->overflow = true;
    return NULL;
  }
  emit_launch *launch = emit_launch_line(g, e->what, group, (int64_t)groups);
  if (!launch) return NULL;
  for (uint32_t i = 0; i < g->descriptor->input_count; i++) {
    if (e->plain || e->program.used[i]) emit_input(g, launch, i);
  }
  emit_outputs(g, launch);
  emit_space_fields(g, launch, &e->space, 0, e->space.rank);
  return launch;
}

/* ---- CPU ----------------------------------------------------------------------------------- */

/* The number of elements of an item: enough to make a group worthwhile, few enough for all
 * units. */
static int64_t elements_of_item(const elementwise *e) {
  const generation *g = e->g;
  if (g->tuning.items) return g->tuning.items;
  const int64_t count = space_count(&e->space, 0, e->space.rank);
  const int64_t units = emit_units(g);
  int64_t elements = divide_up(count, 4 * units);
  if (elements > CPU_ELEMENTS) elements = CPU_ELEMENTS;
  return elements < CPU_LEAST ? CPU_LEAST : elements;
}

/* A loop over positions begin … end of the whole space, each divided into coordinates. */
static void emit_flat(elementwise *e, int64_t elements) {
  generation *g = e->g;
  const int64_t count = space_count(&e->space, 0, e->space.rank);
  emit_launch *launch = begin_launch(e, 1, (uint64_t)divide_up(count, elements));
  if (!launch) return;
  emit_field_index(g, launch, "count", count);
  emit_field_index(g, launch, "items", elements);
  text_buffer *body = &launch->body;
  text_add(
      body,
      "  const INDEX begin = (INDEX)GROUP_ID_X * shape.items;\n"
      "  const INDEX end = shape.count - begin < shape.items ? shape.count : begin + shape.items;\n"
      "  INDEPENDENT\n"
      "  for (INDEX i = begin; i < end; i++) {\n");
  emit_offsets(g, body, &e->space, 0, e->space.rank, "i", "at");
  add_statement(e, body, "at_$");
  text_add(body, "  }\n");
}

/* True if some operand is neither contiguous nor constant along the rows. */
static bool crosses_rows(const emit_space *space) {
  for (uint32_t i = 0; i < space->walk_count; i++) {
    const int64_t stride = space->walk[i].stride[space->rank - 1];
    if (stride != 0 && stride != 1) return true;
  }
  return false;
}

/* Adds dimensions of size 1 in front, up to a rank of 2, 4 or 8: one text then serves more
 * shapes. */
static void pad_rank(emit_space *space) {
  const int32_t rank = space->rank <= 2 ? 2 : space->rank <= 4 ? 4 : COMPUTE_MAX_RANK;
  const int32_t more = rank - space->rank;
  for (int32_t d = rank - 1; d >= 0; d--) {
    space->size[d] = d < more ? 1 : space->size[d - more];
    for (uint32_t i = 0; i < space->walk_count; i++) {
      int64_t *stride = space->walk[i].stride;
      stride[d] = d < more ? 0 : stride[d - more];
    }
  }
  space->rank = rank;
  space->generic = rank - 1;
}

/* The division of rows and columns into blocks, one for each item. */
typedef struct row_blocks {
  int64_t rows, columns; /* of a block */
  int64_t row_count, column_blocks, blocks;
} row_blocks;

static row_blocks choose_blocks(elementwise *e, int64_t elements) {
  compute_tuning *tuning = &e->g->tuning;
  const int32_t inner = e->space.rank - 1;
  const int64_t length = e->space.size[inner];
  row_blocks b = {.row_count = space_count(&e->space, 0, inner), .columns = elements};
  const bool tiled = b.row_count > 1 && crosses_rows(&e->space);
  if (tiled) {
    if (!tuning->tile_m) tuning->tile_m = TILE_ROWS;
    if (!tuning->tile_n) tuning->tile_n = TILE_COLUMNS;
    b.columns = tuning->tile_n;
  }
  if (b.columns > length) b.columns = length;
  b.rows = tiled ? (int64_t)tuning->tile_m : elements / b.columns;
  b.rows = b.rows < 1 ? 1 : b.rows > b.row_count ? b.row_count : b.rows;
  b.column_blocks = divide_up(length, b.columns);
  b.blocks = b.column_blocks * divide_up(b.row_count, b.rows);
  return b;
}

/* The loop along a row has no branches. */
static void emit_rows(elementwise *e, int64_t elements) {
  generation *g = e->g;
  pad_rank(&e->space);
  const int32_t inner = e->space.rank - 1;
  const row_blocks b = choose_blocks(e, elements);
  emit_launch *launch = begin_launch(e, 1, (uint64_t)b.blocks);
  if (!launch) return;
  emit_field_divisor(g, launch, "column_blocks", b.column_blocks);
  emit_field_index(g, launch, "columns", b.columns);
  emit_field_index(g, launch, "rows", b.rows);
  emit_field_index(g, launch, "row_count", b.row_count);
  text_buffer *body = &launch->body;
  text_add(body,
           "  const INDEX group = (INDEX)GROUP_ID_X;\n"
           "  const INDEX row_block = DIVIDE(group, shape.column_blocks);\n"
           "  const INDEX begin = (group - row_block * shape.column_blocks) * shape.columns;\n"
           "  const INDEX length = shape.%s_size%d;\n"
           "  const INDEX end = length - begin < shape.columns ? length : begin + shape.columns;\n"
           "  for (INDEX row = row_block * shape.rows, n = 0;\n"
           "       n < shape.rows && row < shape.row_count; n++, row++) {\n",
           e->space.name, (int)inner);
  emit_offsets(g, body, &e->space, 0, inner, "row", "row");
  text_add(body, "  INDEPENDENT\n"
                 "  for (INDEX column = begin; column < end; column++) {\n");
  emit_offsets(g, body, &e->space, inner, inner + 1, "column", "at");
  add_statement(e, body, "row_$ + at_$");
  text_add(body, "  }\n  }\n");
}

static void emit_on_cpu(elementwise *e) {
  const int64_t elements = elements_of_item(e);
  const int32_t inner = e->space.rank - 1;
  if (inner > 0 && e->space.size[inner] < SHORT_ROW) {
    emit_flat(e, elements);
  } else {
    emit_rows(e, elements);
  }
  e->g->tuning.items = (uint32_t)elements;
  snprintf(e->g->text, sizeof e->g->text, "%s, %lld elements per item", e->what,
           (long long)elements);
}

/* ---- GPU ----------------------------------------------------------------------------------- */

/* True if the pattern of strides allows vector loads and stores of neighbours. */
static bool vectors_fit_pattern(const emit_space *space) {
  for (uint32_t i = 0; i < space->walk_count; i++) {
    const emit_walk *walk = &space->walk[i];
    const int64_t stride = walk->stride[space->rank - 1];
    if (stride != 1 && (stride != 0 || !strncmp(walk->name, "out", 3))) return false;
  }
  return true;
}

static uint32_t choose_vector(const elementwise *e) {
  const compute_kernel_descriptor *d = e->g->descriptor;
  uint32_t largest = 1, vector = 8;
  if (!vectors_fit_pattern(&e->space)) return 1;
  for (uint32_t i = 0; i < e->space.walk_count; i++) {
    const compute_dtype dtype = vector_dtype(e->g, e->space.walk[i].name);
    if (dtype == COMPUTE_DTYPE_NONE) continue;
    if (compute_dtype_size(dtype) > largest) largest = (uint32_t)compute_dtype_size(dtype);
  }
  if (e->g->tuning.vector) return e->g->tuning.vector;
  while (vector > 1 && (vector * largest > VECTOR_BYTES ||
                        vector * (d->input_count + d->output_count) > VECTOR_VALUES)) {
    vector /= 2;
  }
  return vector;
}

/* One element of a vector: contiguous operands come from arrays, constant ones from variables. */
static void lane_argument(void *user, text_buffer *text, const char *walk, bool is_input,
                          uint32_t input) {
  const elementwise *e = user;
  const int64_t stride = space_walk(&e->space, walk)->stride[e->space.rank - 1];
  if (!is_input) {
    text_add(text, stride ? "at_%s + lane" : "at_%s", walk);
  } else if (stride == 0) {
    text_add(text, "same_%s", walk);
  } else {
    text_add(text, "LOAD_%s(lanes_%s, lane)",
             compute_dtype_name(e->g->descriptor->inputs[input].dtype), walk);
  }
}

static void add_vector_loads(const elementwise *e, text_buffer *body, uint32_t vector) {
  for (uint32_t i = 0; i < e->space.walk_count; i++) {
    const emit_walk *walk = &e->space.walk[i];
    const compute_dtype dtype = vector_dtype(e->g, walk->name);
    if (dtype == COMPUTE_DTYPE_NONE) continue;
    const char *storage = emit_storage(dtype);
    if (walk->stride[e->space.rank - 1] == 0) {
      if (e->plain) /* a copy of the bits */
        text_add(body, "    const %s same_%s = %s[at_%s];\n", storage, walk->name, walk->name,
                 walk->name);
      else
        text_add(body, "    const %s same_%s = LOAD_%s(%s, at_%s);\n",
                 emit_type(dtype_compute_type(dtype)), walk->name, compute_dtype_name(dtype),
                 walk->name, walk->name);
      continue;
    }
    text_add(body, "    %s lanes_%s[%u];\n", storage, walk->name, (unsigned)vector);
    if (walk->name[0] != 'o') {
      text_add(body, "    VLOAD(%u, %s, lanes_%s, %s + at_%s);\n", (unsigned)vector, storage,
               walk->name, walk->name, walk->name);
    }
  }
}

static void add_vector_lanes(const elementwise *e, text_buffer *body, uint32_t vector) {
  const compute_kernel_descriptor *d = e->g->descriptor;
  char type[EMIT_NAME_BYTES + 8];
  text_add(body, "    UNROLL\n    for (int lane = 0; lane < %u; lane++) {\n", (unsigned)vector);
  if (e->plain) {
    text_add(body, "      lanes_out0[lane] = %s;\n",
             space_walk(&e->space, "in0")->stride[e->space.rank - 1] ? "lanes_in0[lane]"
                                                                     : "same_in0");
  } else {
    text_add(body, "      const %s result = ", emit_result_type(&e->program, type, sizeof type));
    emit_call_with(body, &e->program, NULL, lane_argument, (void *)e);
    text_add(body, ";\n");
    for (uint32_t k = 0; k < d->output_count; k++) {
      char name[24], value[24] = "result";
      snprintf(name, sizeof name, "lanes_out%u", (unsigned)k);
      if (d->output_count > 1) snprintf(value, sizeof value, "result.v%u", (unsigned)k);
      emit_store(body, d->outputs[k].dtype, e->program.output_type[k], name, "lane", value);
    }
  }
  text_add(body, "    }\n");
  for (uint32_t k = 0; k < d->output_count; k++) {
    text_add(body, "    VSTORE(%u, %s, out%u + at_out%u, lanes_out%u);\n", (unsigned)vector,
             emit_storage(d->outputs[k].dtype), (unsigned)k, (unsigned)k, (unsigned)k);
  }
}

static void add_vector_loop(elementwise *e, emit_launch *launch, uint32_t vector) {
  generation *g = e->g;
  text_buffer *body = &launch->body;
  const int64_t count = space_count(&e->space, 0, e->space.rank);
  /* In a single row, the loop without vectors takes the remainder. */
  const bool fits = e->space.rank == 1 || vector_fits(g, &e->space, vector);
  emit_field_index(g, launch, "vectors", fits ? count / vector : 0);
  text_add(body, "  if (shape.vectors > 0");
  vector_aligned(g, body, &e->space, g->descriptor->input_count, true, vector);
  text_add(body,
           ") {\n"
           "  first = shape.vectors * %u;\n"
           "  for (INDEX v = item; v < shape.vectors; v += items) {\n"
           "    const INDEX i = v * %u;\n",
           (unsigned)vector, (unsigned)vector);
  emit_offsets(g, body, &e->space, 0, e->space.rank, "i", "at");
  add_vector_loads(e, body, vector);
  add_vector_lanes(e, body, vector);
  text_add(body, "  }\n  }\n");
}

/* True if memory alone determines the time. */
static bool is_short(const elementwise *e) {
  return e->plain || program_flops(&e->g->descriptor->epilogue) < GPU_SHORT;
}

/* The number of groups. A short program gets an item for each vector: groups that start when others
 * end keep memory busier than items that stride. In a long program, strides pay because items keep
 * its constants. */
static uint64_t choose_groups(const elementwise *e, uint64_t count, uint32_t group, uint32_t vector,
                              uint32_t items) {
  const generation *g = e->g;
  const bool opencl = g->target->dialect == COMPUTE_DIALECT_OPENCL;
  const uint32_t each = g->tuning.groups ? g->tuning.groups
                        : opencl         ? GPU_GROUPS_OPENCL
                                         : GPU_GROUPS;
  const uint64_t all = (count + (uint64_t)group * vector - 1) / ((uint64_t)group * vector);
  /* The loop without vectors steps past the end by all items. */
  const bool counted = g->wide || count + all * group <= INT32_MAX;
  if (vector > 1 && !g->tuning.groups && !opencl && is_short(e) && counted && all <= INT32_MAX)
    return all;
  uint64_t most = (uint64_t)emit_units(g) * each;
  const uint64_t limit = GPU_MOST_ITEMS / items / group;
  if (most > limit) most = limit;
  /* An item takes several elements only if enough groups for all units remain. */
  const uint64_t few = (uint64_t)emit_units(g) * GPU_GROUPS_LEAST;
  uint64_t needed = (all + items - 1) / items;
  if (needed < few) needed = all < few ? all : few;
  return needed < most ? needed : most;
}

/* Elements one by one, with `items` of them in flight. All are read before any is stored: a
 * compiler that cannot prove that operands do not overlap does not do this. */
static void add_single_loop(elementwise *e, emit_launch *launch, uint32_t items) {
  text_buffer *body = &launch->body;
  char type[EMIT_NAME_BYTES + 8];
  const char *result = e->plain ? emit_storage(e->g->descriptor->outputs[0].dtype)
                                : emit_result_type(&e->program, type, sizeof type);
  text_add(body,
           "  for (INDEX start = first + item; start < shape.count; start += items * %u) {\n"
           "  %s held[%u];\n",
           (unsigned)items, result, (unsigned)items);
  for (int pass = 0; pass < 2; pass++) {
    text_add(body,
             "  UNROLL for (int n = 0; n < %u; n++) {\n"
             "  const INDEX i = start + n * items;\n"
             "  if (i < shape.count) {\n",
             (unsigned)items);
    emit_offsets(e->g, body, &e->space, 0, e->space.rank, "i", "at");
    if (pass == 0) {
      text_add(body, "  held[n] = ");
      if (e->plain)
        text_add(body, "in0[at_in0]");
      else
        emit_function_call(e->g, body, &e->program, NULL, "at_$");
      text_add(body, ";\n");
    } else if (e->plain) {
      text_add(body, "  out0[at_out0] = held[n];\n");
    } else {
      emit_stores(e->g, body, &e->program, "held[n]", "at_$");
    }
    text_add(body, "  }\n  }\n");
  }
  text_add(body, "  }\n");
}

static compute_status emit_on_gpu(elementwise *e) {
  generation *g = e->g;
  const int64_t count = space_count(&e->space, 0, e->space.rank);
  const uint32_t vector = choose_vector(e), limit = g->target->group_limit;
  uint32_t group = g->tuning.group_x;
  if (!group) group = limit && limit < GPU_GROUP ? limit : GPU_GROUP;
  if (vector > 16 || (vector & (vector - 1)) != 0) {
    return emit_refuse(g, "vectors of %u elements do not exist", (unsigned)vector);
  }
  emit_default(&g->tuning.items, vector == 1 && is_short(e) ? GPU_ITEMS : 1);
  const uint32_t items = vector == 1 ? g->tuning.items : 1;
  if (items > 16) return emit_refuse(g, "%u elements at once are too many", (unsigned)items);
  emit_launch *launch =
      begin_launch(e, group, choose_groups(e, (uint64_t)count, group, vector, items));
  if (!launch) return COMPUTE_OK;
  text_buffer *body = &launch->body;
  emit_field_index(g, launch, "count", count);
  text_add(body,
           "  const INDEX item = (INDEX)GROUP_ID_X * %u + (INDEX)LOCAL_ID_X;\n"
           "  const INDEX items = (INDEX)GROUP_COUNT_X * %u;\n"
           "  INDEX first = 0;\n",
           (unsigned)group, (unsigned)group);
  if (vector > 1) add_vector_loop(e, launch, vector);
  if (items > 1) {
    add_single_loop(e, launch, items);
  } else {
    text_add(body, "  for (INDEX i = first + item; i < shape.count; i += items) {\n");
    emit_offsets(g, body, &e->space, 0, e->space.rank, "i", "at");
    add_statement(e, body, "at_$");
    text_add(body, "  }\n");
  }
  g->tuning.group_x = group;
  g->tuning.vector = vector;
  snprintf(g->text, sizeof g->text, "%s, groups of %u, vectors of %u", e->what, (unsigned)group,
           (unsigned)vector);
  return COMPUTE_OK;
}

void elementwise_order(elementwise *e) {
  order_dimensions(&e->space);
  space_canonicalise(e->g, &e->space);
}

compute_status elementwise_emit(elementwise *e) {
  if (space_count(&e->space, 0, e->space.rank) == 0) return COMPUTE_OK;
  if (e->space.rank == 0) { /* one element: a row of size 1, strides 0 */
    e->space.rank = 1;
    e->space.size[0] = 1;
  }
  /* A stride of 0 or 1 makes a different loop only along the innermost dimension. */
  e->space.generic = e->space.rank - 1;
  if (emit_for_cpu(e->g)) {
    emit_on_cpu(e);
    return COMPUTE_OK;
  }
  return emit_on_gpu(e);
}

/* ---- MAP ----------------------------------------------------------------------------------- */

static compute_status emit(generation *g) {
  const compute_kernel_descriptor *d = g->descriptor;
  elementwise e = {.g = g, .what = "map"};
  emit_program(g, &e.program, "program", &d->epilogue, COMPUTE_DTYPE_NONE, 0, d->input_count);
  space_begin(&e.space, "space", d->rank, d->size);
  for (uint32_t i = 0; i < d->input_count; i++) {
    if (e.program.used[i]) space_add_inputs(g, &e.space, i, i + 1);
  }
  space_add_outputs(g, &e.space);
  space_add_program(&e.space, &d->epilogue, d->rank);
  elementwise_order(&e);
  return elementwise_emit(&e);
}

static const tuning_grid grids[] = {
    {TUNE_OTHERS,
     {TUNE(group_x, 64, 128, 256, 512), TUNE(vector, 1, 2, 4, 8), TUNE(groups, 4, 8, 16, 32, 64)}},
    {TUNE_CPU, {TUNE(items, 1024, 4096, 16384, 65536, 262144, 1048576)}},
    {.target = TUNE_END},
};

const emit_kind emit_map = {.name = "MAP", .emit = emit, .grids = grids};
