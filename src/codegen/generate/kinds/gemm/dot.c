/* SPDX-License-Identifier: MIT */
/* C with few columns, most often a matrix times a vector. The work is to read A once, at the speed
 * of the memory. On a GPU groups of items share rows (kernels/gemm_dot.h). On a CPU an item takes a
 * few rows and goes along k with vectors. */
#include <stdio.h>

#include "codegen/generate/kinds/gemm/gemm.h"

enum {
  LOADS = 4,            /* loads of 16 bytes in flight for each item */
  LINE_BYTES = 128,     /* bytes that neighbours read together */
  ITEMS_OF_UNIT = 1024, /* items of a unit that keep its share of the memory busy */
  LONG_SUM = 256
};

bool gemm_along_k(const gemm_factor *factor) {
  if (factor->outer == 1) return false;
  return factor->k == 1 || factor->k < factor->outer;
}

/* ---- Items that share rows ----------------------------------------------------------------- */

/* Elements of one load of A: along k or, where rows are side by side, the rows of an item. */
static uint32_t load_of(const generation *g, const gemm_problem *problem) {
  const bool dense = gemm_along_k(&problem->a) ? problem->a.k == 1 : problem->a.outer == 1;
  uint32_t vector = dense ? g->tuning.vector : 1;
  while (vector * compute_dtype_size(problem->a.dtype) > 16) vector /= 2;
  return vector;
}

static uint32_t rows_of_item(const generation *g, const gemm_problem *problem) {
  return gemm_along_k(&problem->a) ? g->tuning.items : load_of(g, problem);
}

static void define_shared(generation *g, const gemm_problem *problem) {
  const compute_tuning *t = &g->tuning;
  const uint32_t vector = load_of(g, problem);
  emit_constant(g, "SHARERS", t->group_x);
  emit_constant(g, "ROWS", t->group_y);
  emit_constant(g, "GROUP", (int64_t)t->group_x * t->group_y);
  emit_constant(g, "COLUMNS", problem->n);
  emit_constant(g, "ITEM_ROWS", rows_of_item(g, problem));
  emit_constant(g, "STEPS", t->items);
  emit_constant(g, "A_ALONG_K", gemm_along_k(&problem->a));
  emit_constant(g, "A_VECTOR", vector);
  emit_constant(g, "B_VECTOR", problem->b.k == 1 ? vector : 1);
  text_add(&g->definitions,
           "#define DECODE_A(array, i) ((SUM)LOAD_%s(array, i))\n"
           "#define DECODE_B(array, i) ((SUM)LOAD_%s(array, i))\n",
           compute_dtype_name(problem->a.dtype), compute_dtype_name(problem->b.dtype));
  emit_template(g, &g->definitions, "gemm_dot_loads");
}

/* Stores the group's sums, as a part or through the epilogue. Neighbouring items take neighbouring
 * rows. */
static void store_shared(generation *g, text_buffer *text, const gemm_problem *problem,
                         bool parts) {
  static const char sum[] = "scratch[(at % ITEM_ROWS * COLUMNS + column) * GROUP + first]";
  text_add(text, "for (int out = item; out < ROWS * ITEM_ROWS * COLUMNS; out += GROUP) {\n"
                 "const int at = out %% (ROWS * ITEM_ROWS), column = out / (ROWS * ITEM_ROWS);\n"
                 "const int first = at / ITEM_ROWS * (A_ALONG_K ? SHARERS : 1);\n"
                 "const INDEX row = (INDEX)GROUP_ID_X * (ROWS * ITEM_ROWS) + at;\n"
                 "if (row < shape.m) {\n");
  if (parts)
    text_add(text,
             "partial[((batch * (INDEX)GROUP_COUNT_Y + (INDEX)GROUP_ID_Y) * shape.m + row) * "
             "COLUMNS + column] = %s;\n",
             sum);
  else
    gemm_store(g, text, problem, sum);
  text_add(text, "}\n}\n");
}

static void emit_shared(generation *g, gemm_problem *problem) {
  const compute_tuning *t = &g->tuning;
  const uint32_t rows = t->group_y * rows_of_item(g, problem);
  const int64_t whole = (problem->k + 15) / 16; /* parts begin at whole vectors */
  const int64_t part = t->groups > 1 ? (whole + t->groups - 1) / t->groups * 16 : problem->k;
  const int64_t parts = t->groups > 1 ? (problem->k + part - 1) / part : 1;
  gemm_define(g, problem, false);
  gemm_define_parts(g, problem->accumulate, part / t->group_x, false);
  define_shared(g, problem);
  emit_launch *launch = gemm_launch(g, problem, "gemm_dot", t->group_x * t->group_y,
                                    (problem->m + rows - 1) / rows, parts);
  if (!launch) return;
  gemm_take_factors(g, launch, problem);
  if (parts > 1) {
    gemm_take_parts(g, launch, problem, parts);
  } else {
    gemm_take_epilogue(g, launch, problem);
    gemm_store_fields(g, launch, problem);
  }
  gemm_fields(g, launch, problem);
  gemm_part_field(g, launch, part);
  text_add(&launch->body, "LOCAL_ARRAY(SUM, scratch, ITEM_ROWS * COLUMNS * GROUP);\n"
                          "const int item = (int)LOCAL_ID_X;\n");
  gemm_find_part(&launch->body);
  gemm_begin_batches(g, launch, problem);
  emit_template(g, &launch->body, "gemm_dot");
  store_shared(g, &launch->body, problem, parts > 1);
  text_add(&launch->body, "BARRIER();\n}\n");
  if (parts > 1) gemm_emit_combine(g, problem, parts);
}

/* ---- An item by itself --------------------------------------------------------------------- */

static void find_rows(generation *g, text_buffer *text, const gemm_problem *problem) {
  const uint32_t rows = g->tuning.item_m;
  for (uint32_t i = 0; i < rows; i++)
    text_add(text,
             "GLOBAL const SUM *a%u = (GLOBAL const SUM *)(IN_A + batch_a) + "
             "(row0 + %u < shape.m ? row0 + %u : shape.m - 1) * A_ROW;\n",
             (unsigned)i, (unsigned)i, (unsigned)i);
  for (int64_t j = 0; j < problem->n; j++)
    text_add(text,
             "GLOBAL const SUM *b%d = (GLOBAL const SUM *)(IN_B + batch_b) + %d * B_COLUMN;\n",
             (int)j, (int)j);
}

/* Writes `format` for every sum: $ is sum<row>_<column>, @ its place in an array of vectors. */
static void each_sum(text_buffer *text, uint32_t rows, int columns, const char *format) {
  for (uint32_t i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) {
      char name[32], place[64];
      snprintf(name, sizeof name, "sum%u_%d", (unsigned)i, j);
      snprintf(place, sizeof place, "held + (%u * COLUMNS + %d) * LANES", (unsigned)i, j);
      for (const char *c = format; *c; c++)
        if (*c == '$')
          text_add(text, "%s", name);
        else if (*c == '@')
          text_add(text, "%s", place);
        else
          text_add(text, "%c", *c);
    }
}

/* Sums are variables, as in direct.c. Long sums are cut into parts, which are added in memory. */
static void add_vectors(generation *g, text_buffer *text, const gemm_problem *problem, bool parts) {
  const uint32_t rows = g->tuning.item_m;
  const int columns = (int)problem->n;
  each_sum(text, rows, columns, "VECTOR $ = VECTOR_OF((SUM)0);\n");
  text_add(text, "INDEX k = 0;\n");
  if (parts) {
    text_add(text, "SUM held[ITEM_M * COLUMNS * LANES];\n");
    each_sum(text, rows, columns, "VECTOR_STORE(@, $);\n");
    text_add(text, "while (k <= shape.k - LANES) {\n"
                   "const INDEX left = shape.k - k;\n"
                   "const INDEX end = left < SUM_PART * LANES ? shape.k : k + SUM_PART * LANES;\n"
                   "for (; k <= end - LANES; k += LANES) {\nVECTOR x;\n");
  } else {
    text_add(text, "for (; k <= shape.k - LANES; k += LANES) {\nVECTOR x;\n");
  }
  for (int j = 0; j < columns; j++)
    text_add(text, "const VECTOR y%d = VECTOR_LOAD(b%d + k);\n", j, j);
  for (uint32_t i = 0; i < rows; i++) {
    text_add(text, "x = VECTOR_LOAD(a%u + k);\n", (unsigned)i);
    for (int j = 0; j < columns; j++)
      text_add(text, "sum%u_%d = VECTOR_MAD(x, y%d, sum%u_%d);\n", (unsigned)i, j, j, (unsigned)i,
               j);
  }
  text_add(text, "}\n");
  if (parts) {
    each_sum(text, rows, columns,
             "VECTOR_STORE(@, VECTOR_ADD(VECTOR_LOAD(@), $));\n$ = VECTOR_OF((SUM)0);\n");
    text_add(text, "}\n");
    each_sum(text, rows, columns, "$ = VECTOR_LOAD(@);\n");
  }
  text_add(text, "SUM block[ITEM_M * COLUMNS];\nSUM lanes[LANES];\n");
  for (uint32_t i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) {
      text_add(text, "VECTOR_STORE(lanes, sum%u_%d);\n", (unsigned)i, j);
      text_add(text,
               "for (int step = LANES / 2; step > 0; step /= 2)\n"
               "for (int lane = 0; lane < step; lane++) lanes[lane] += lanes[lane + step];\n"
               "for (INDEX rest = k; rest < shape.k; rest++)\n"
               "lanes[0] = SUM_MAD(a%u[rest], b%d[rest], lanes[0]);\n"
               "block[%u * COLUMNS + %d] = lanes[0];\n",
               (unsigned)i, j, (unsigned)i, j);
    }
}

static void emit_alone(generation *g, gemm_problem *problem) {
  const uint32_t rows = g->tuning.item_m;
  gemm_define(g, problem, false);
  emit_constant(g, "ITEM_M", rows);
  emit_constant(g, "COLUMNS", problem->n);
  gemm_define_vector(g, g->tuning.vector);
  const bool parts =
      gemm_define_parts(g, problem->accumulate, problem->k / g->tuning.vector, false);
  emit_launch *launch = gemm_launch(g, problem, "gemm_dot", 1, (problem->m + rows - 1) / rows, 1);
  if (!launch) return;
  gemm_take_factors(g, launch, problem);
  gemm_take_epilogue(g, launch, problem);
  gemm_fields(g, launch, problem);
  gemm_store_fields(g, launch, problem);
  text_buffer *text = &launch->body;
  text_add(text, "const INDEX row0 = (INDEX)GROUP_ID_X * ITEM_M;\n");
  gemm_begin_batches(g, launch, problem);
  find_rows(g, text, problem);
  add_vectors(g, text, problem, parts);
  text_add(text, "for (int i = 0; i < ITEM_M; i++) {\nconst INDEX row = row0 + i;\n"
                 "if (row >= shape.m) break;\n");
  text_add(text, "for (int column = 0; column < COLUMNS; column++) {\n");
  gemm_store(g, text, problem, "block[i * COLUMNS + column]");
  text_add(text, "}\n}\n}\n");
}

static compute_status write(generation *g, void *of) {
  gemm_problem *problem = of;
  const compute_tuning *t = &g->tuning;
  if (problem->m > INT32_MAX) return emit_refuse(g, "the product has too many rows for one launch");
  if (emit_for_cpu(g)) {
    emit_alone(g, problem);
    snprintf(g->text, sizeof g->text, "GEMM by dot products, %u rows of %u lanes",
             (unsigned)t->item_m, (unsigned)t->vector);
  } else {
    emit_shared(g, problem);
    snprintf(g->text, sizeof g->text,
             "GEMM by dot products, %u items for %u rows, %u groups of them", (unsigned)t->group_x,
             (unsigned)rows_of_item(g, problem), (unsigned)t->group_y);
  }
  return COMPUTE_OK;
}

/* ---- Choice -------------------------------------------------------------------------------- */

/* True if an item alone can read with vectors: both factors are dense along k, in the type of the
 * sums. */
static bool is_dense(const gemm_problem *problem) {
  return problem->a.k == 1 && problem->b.k == 1 && problem->a.dtype == problem->accumulate &&
         problem->b.dtype == problem->accumulate;
}

static uint64_t scratch_bytes(const generation *g, const gemm_problem *problem) {
  const compute_tuning *t = &g->tuning;
  return (uint64_t)t->group_x * t->group_y * rows_of_item(g, problem) * (uint64_t)problem->n *
         problem->sum_bytes;
}

static uint32_t power_up_to(double wanted, uint32_t most) {
  uint32_t power = 1;
  while (power * 2 <= most && power * 2 <= wanted) power *= 2;
  return power;
}

/* Along k an item should have a few vectors, and as many rows as its sums allow if there are
 * enough. */
static void complete_along_k(generation *g, const gemm_problem *problem, uint32_t most) {
  compute_tuning *t = &g->tuning;
  const double units = g->target->compute_units ? g->target->compute_units : 1;
  emit_default(&t->group_x, power_up_to((double)problem->k / 16, min_u32(most, 256)));
  if (!t->group_y) t->group_y = power_up_to(min_u32(most, 256) / t->group_x, most);
  if (!t->items)
    t->items = power_up_to((double)problem->m / t->group_y / (2 * units),
                           problem->n <= 8 ? LOADS : LOADS / 2);
  emit_default(&t->groups, gemm_choose_parts(
                               g, problem, divide_up(problem->m, (int64_t)t->group_y * t->items)));
}

/* Across rows, neighbours read a cache line. Along k, the number of items keeps the memory busy;
 * groups are large enough to avoid parts where possible. */
static void complete_across(generation *g, const gemm_problem *problem, uint32_t most) {
  compute_tuning *t = &g->tuning;
  const double units = g->target->compute_units ? g->target->compute_units : 1;
  const uint32_t vector = load_of(g, problem);
  const double columns = (double)divide_up(problem->m, vector) * (double)problem->batches;
  double sharers = units * ITEMS_OF_UNIT / columns;
  emit_default(&t->items, LOADS);
  const uint32_t load_bytes = vector * (uint32_t)compute_dtype_size(problem->a.dtype);
  emit_default(&t->group_y, power_up_to(LINE_BYTES / load_bytes, min_u32(most, 32)));
  if (sharers > (double)problem->k / (2 * LOADS)) sharers = (double)problem->k / (2 * LOADS);
  emit_default(&t->group_x, power_up_to(sharers < 8 ? 8 : sharers, most / t->group_y));
  emit_default(&t->groups, power_up_to(sharers / t->group_x, GEMM_SPLIT_LIMIT));
}

static void complete_dot(generation *g, const gemm_problem *problem) {
  compute_tuning *t = &g->tuning;
  if (emit_for_cpu(g)) {
    emit_default(&t->item_m, 4);
    emit_default(&t->vector, gemm_choose_lanes(g, problem));
    return;
  }
  const bool along_k = gemm_along_k(&problem->a);
  emit_default(&t->vector, gemm_load_vector(problem));
  const uint32_t vector = load_of(g, problem);
  /* The number of sums in registers and local memory limits the group. */
  const uint32_t sums = (uint32_t)problem->n * (along_k ? LOADS : vector) * problem->sum_bytes / 4;
  uint32_t most = min_u32(emit_group_limit(g), sums > 32 ? 256 : sums > 16 ? 512 : 1024);
  while (most > 1 && most * (uint64_t)sums * 4 > emit_local_limit(g)) most /= 2;
  most = power_up_to(most, most);
  if (along_k)
    complete_along_k(g, problem, most);
  else
    complete_across(g, problem, most);
}

static compute_status check_dot(generation *g, const gemm_problem *problem) {
  const compute_tuning *t = &g->tuning;
  if (problem->n > gemm_dot_columns(g, problem))
    return emit_refuse(g, "dot products are for at most %d columns",
                       (int)gemm_dot_columns(g, problem));
  if (!emit_is_power(t->vector) || t->vector > 16)
    return emit_refuse(g, "loads of %u elements do not exist", (unsigned)t->vector);
  if (emit_for_cpu(g)) {
    if (!is_dense(problem) || t->vector < 2)
      return emit_refuse(g, "dot products need dense vectors along k");
    if (t->item_m > 8) return emit_refuse(g, "%u rows are too many", (unsigned)t->item_m);
    return COMPUTE_OK;
  }
  const uint64_t items = (uint64_t)t->group_x * t->group_y;
  if (!emit_is_power(t->group_x) || !emit_is_power(t->group_y) || items > emit_group_limit(g))
    return emit_refuse(g, "a group cannot have %ux%u items", (unsigned)t->group_x,
                       (unsigned)t->group_y);
  if (t->items > 16) return emit_refuse(g, "%u loads at once are too many", (unsigned)t->items);
  if (scratch_bytes(g, problem) > emit_local_limit(g))
    return emit_refuse(g, "the group needs more local memory than the device has");
  if (t->groups > GEMM_SPLIT_LIMIT || !gemm_parts_fit(problem, t->groups))
    return emit_refuse(g, "k cannot be cut into %u parts", (unsigned)t->groups);
  return COMPUTE_OK;
}

/* The most columns with arithmetic that takes no longer than the memory: an item multiplies each
 * load with each column. Small elements reach this point earlier. Short sums do not gain. */
int64_t gemm_dot_columns(const generation *g, const gemm_problem *problem) {
  if (emit_for_cpu(g) || problem->k < LONG_SUM) return 4;
  return compute_dtype_size(problem->a.dtype) < 4 ? 8 : 16;
}

static bool suits(const generation *g, const void *of) {
  const gemm_problem *problem = of;
  if (problem->n > gemm_dot_columns(g, problem)) return false;
  return emit_for_cpu(g) ? !gemm_is_tiny(problem) && is_dense(problem)
                         : emit_has(g, COMPUTE_TARGET_FAST_LOCAL) && problem->k > 0;
}

static compute_status accept(generation *g, void *problem) {
  complete_dot(g, problem);
  return check_dot(g, problem);
}

const emit_form gemm_dot = {GEMM_DOT, suits, accept, write};
