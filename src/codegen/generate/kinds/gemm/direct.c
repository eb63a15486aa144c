/* SPDX-License-Identifier: MIT */
/* One item computes a block of C by itself, with vectors and without local memory. This form is for
 * CPUs: there an item should have a core with its caches and registers for itself.
 *
 * The sums of the block are separate variables, and their statements are written out one by one.
 * Compilers of CPU devices unroll too late to keep an array in registers; this alone is a factor of
 * five. PACKED first copies A and B into panels, so that the inner loop reads both contiguously;
 * its source does not depend on their strides. DIRECT reads them in place. It is for few rows,
 * where a copy of B would cost as much as the product. */
#include <stdio.h>

#include "codegen/generate/kinds/gemm/gemm.h"

enum {
  PANEL_ALIGNMENT = 64,
  PANEL_LIMIT = 1 << 30, /* bytes; larger panels are not worth their memory */
  FEW_ROWS = 8
};

typedef struct direct_plan {
  bool packed;
  int64_t panels_m, panels_n;
  uint64_t a_bytes, b_bytes;
} direct_plan;

static direct_plan make_plan(const generation *g, const gemm_problem *problem) {
  const compute_tuning *t = &g->tuning;
  direct_plan plan = {.packed = t->variant == GEMM_PACKED};
  plan.panels_m = (problem->m + t->item_m - 1) / t->item_m;
  plan.panels_n = (problem->n + t->item_n - 1) / t->item_n;
  const uint64_t k = (uint64_t)problem->k, bytes = problem->sum_bytes;
  const uint64_t batches = (uint64_t)problem->batches;
  plan.a_bytes =
      (uint64_t)plan.panels_m * t->item_m * k * bytes * (problem->a.batched ? batches : 1);
  plan.b_bytes =
      (uint64_t)plan.panels_n * t->item_n * k * bytes * (problem->b.batched ? batches : 1);
  plan.a_bytes = (plan.a_bytes + PANEL_ALIGNMENT - 1) / PANEL_ALIGNMENT * PANEL_ALIGNMENT;
  return plan;
}

/* ---- The launch that packs ----------------------------------------------------------------- */

static void define_packing(generation *g, const gemm_factor *factor, char letter, uint32_t width) {
  text_buffer *text = &g->definitions;
  text_add(text, "#define PACK pack_%c\n#define PACK_TYPE %c_TYPE\n#define PACK_IN IN_%c\n",
           letter + ('a' - 'A'), letter, letter);
  text_add(text, "#define PACK_LOAD(i) LOAD_%c(i)\n#define PACK_WIDTH %u\n", letter,
           (unsigned)width);
  emit_template(g, text, "gemm_pack");
  text_add(text, "#undef PACK\n#undef PACK_TYPE\n#undef PACK_IN\n#undef PACK_LOAD\n"
                 "#undef PACK_WIDTH\n");
  text_add(text, "#define PACK_%c_AT(batch) %s\n", letter,
           factor->batched ? "1" : "((batch) == 0)");
  text_add(text, "#define FIRST_%c(batch) %s\n", letter,
           !factor->batched ? "0"
           : letter == 'A'  ? "((batch) * shape.panels_m)"
                            : "((batch) * shape.panels_n)");
}

static void take_panels(generation *g, emit_launch *launch, const gemm_problem *problem,
                        const direct_plan *plan, bool written) {
  emit_workspace(g, launch, "panels_a", "SUM", problem->sum_bytes, 0, written);
  emit_workspace(g, launch, "panels_b", "SUM", problem->sum_bytes, plan->a_bytes, written);
}

/* Finds the first panels of this batch. */
static void find_panels(text_buffer *text) {
  text_add(text, "const INDEX first_a = FIRST_A(batch), first_b = FIRST_B(batch);\n");
}

static void emit_packing(generation *g, const gemm_problem *problem, const direct_plan *plan) {
  define_packing(g, &problem->a, 'A', g->tuning.item_m);
  define_packing(g, &problem->b, 'B', g->tuning.item_n);
  emit_launch *launch =
      gemm_launch(g, problem, "gemm_pack", g->tuning.group_x,
                  (plan->panels_m + plan->panels_n + g->tuning.group_x - 1) / g->tuning.group_x, 1);
  if (!launch) return;
  gemm_take_factors(g, launch, problem);
  take_panels(g, launch, problem, plan, true);
  gemm_fields(g, launch, problem);
  emit_field_index(g, launch, "panels_m", plan->panels_m);
  emit_field_index(g, launch, "panels_n", plan->panels_n);
  text_buffer *text = &launch->body;
  text_add(text, "const INDEX panel = (INDEX)GROUP_ID_X * %u + (INDEX)LOCAL_ID_X;\n",
           (unsigned)g->tuning.group_x);
  gemm_begin_batches(g, launch, problem);
  find_panels(text);
  text_add(text, "if (panel < shape.panels_m) {\n"
                 "if (PACK_A_AT(batch))\n"
                 "pack_a(panels_a + (first_a + panel) * shape.k * ITEM_M, IN_A,\n"
                 "batch_a + panel * ITEM_M * shape.a_outer, shape.a_outer, shape.a_k,\n"
                 "shape.m - panel * ITEM_M, shape.k);\n"
                 "} else if (panel < shape.panels_m + shape.panels_n) {\n"
                 "if (PACK_B_AT(batch)) {\n"
                 "const INDEX place = panel - shape.panels_m;\n"
                 "pack_b(panels_b + (first_b + place) * shape.k * ITEM_N, IN_B,\n"
                 "batch_b + place * ITEM_N * shape.b_outer, shape.b_outer, shape.b_k,\n"
                 "shape.n - place * ITEM_N, shape.k);\n"
                 "}\n"
                 "}\n"
                 "}\n");
}

/* ---- The launch that multiplies ------------------------------------------------------------ */

static void begin_block(const generation *g, text_buffer *text) {
  const uint32_t vectors = g->tuning.item_n / g->tuning.vector;
  for (uint32_t i = 0; i < g->tuning.item_m; i++) {
    text_add(text, "VECTOR ");
    for (uint32_t j = 0; j < vectors; j++)
      text_add(text, "%ssum%u_%u = VECTOR_OF((SUM)0)", j ? ", " : "", (unsigned)i, (unsigned)j);
    text_add(text, ";\n");
  }
}

static void add_products(const generation *g, text_buffer *text, bool packed, const char *count) {
  const uint32_t vectors = g->tuning.item_n / g->tuning.vector;
  text_add(text, "for (INDEX k = 0; k < %s; k++) {\nconst VECTOR ", count);
  for (uint32_t j = 0; j < vectors; j++)
    text_add(text, "%sb%u = VECTOR_LOAD(b + %u)", j ? ", " : "", (unsigned)j,
             (unsigned)(j * g->tuning.vector));
  text_add(text, ";\nVECTOR x;\n");
  for (uint32_t i = 0; i < g->tuning.item_m; i++) {
    if (packed)
      text_add(text, "x = VECTOR_OF(a[%u]);\n", (unsigned)i);
    else
      text_add(text, "x = VECTOR_OF(LOAD_A(from%u));\nfrom%u += A_K;\n", (unsigned)i, (unsigned)i);
    for (uint32_t j = 0; j < vectors; j++)
      text_add(text, "sum%u_%u = VECTOR_MAD(x, b%u, sum%u_%u);\n", (unsigned)i, (unsigned)j,
               (unsigned)j, (unsigned)i, (unsigned)j);
  }
  text_add(text, packed ? "a += ITEM_M;\nb += ITEM_N;\n}\n" : "b += B_K;\n}\n");
}

/* Stores the sums, or adds them to the stored ones. */
static void store_sums(const generation *g, text_buffer *text, bool added) {
  const uint32_t vectors = g->tuning.item_n / g->tuning.vector;
  for (uint32_t i = 0; i < g->tuning.item_m; i++)
    for (uint32_t j = 0; j < vectors; j++) {
      const unsigned at = (unsigned)(i * g->tuning.item_n + j * g->tuning.vector);
      if (added)
        text_add(text, "VECTOR_STORE(block + %u, VECTOR_ADD(VECTOR_LOAD(block + %u), sum%u_%u));\n",
                 at, at, (unsigned)i, (unsigned)j);
      else
        text_add(text, "VECTOR_STORE(block + %u, sum%u_%u);\n", at, (unsigned)i, (unsigned)j);
    }
}

void gemm_block_sums(const generation *g, text_buffer *text, bool packed, const char *count,
                     bool parts) {
  text_add(text, "SUM block[ITEM_M * ITEM_N];\n");
  if (parts)
    text_add(text,
             "for (int i = 0; i < ITEM_M * ITEM_N; i++) block[i] = 0;\n"
             "for (INDEX done = 0; done < %s; done += SUM_PART) {\n"
             "const INDEX some = %s - done < SUM_PART ? %s - done : SUM_PART;\n",
             count, count, count);
  begin_block(g, text);
  add_products(g, text, packed, parts ? "some" : count);
  store_sums(g, text, parts);
  if (parts) text_add(text, "}\n");
}

/* Finds A and B of the block. Without packing, the last block of a row of blocks begins early
 * enough to be a whole one, and the last rows of a block are repeated. So no load is out of bounds,
 * and no element is stored twice. */
static void find_operands(const generation *g, text_buffer *text, const direct_plan *plan) {
  if (plan->packed) {
    find_panels(text);
    text_add(text, "const INDEX first = column0;\n"
                   "GLOBAL const SUM *a = panels_a + (first_a + panel_m) * shape.k * ITEM_M;\n"
                   "GLOBAL const SUM *b = panels_b + (first_b + panel_n) * shape.k * ITEM_N;\n");
    return;
  }
  text_add(text, "const INDEX first = column0 + ITEM_N <= shape.n ? column0 : shape.n - ITEM_N;\n"
                 "GLOBAL const SUM *b = (GLOBAL const SUM *)(IN_B + batch_b) + first;\n");
  for (uint32_t i = 0; i < g->tuning.item_m; i++)
    text_add(text,
             "INDEX from%u = batch_a + (row0 + %u < shape.m ? row0 + %u : shape.m - 1) * A_ROW;\n",
             (unsigned)i, (unsigned)i, (unsigned)i);
}

static void store_block(generation *g, text_buffer *text, const gemm_problem *problem) {
  text_add(text, "const INDEX rows = shape.m - row0 < ITEM_M ? shape.m - row0 : ITEM_M;\n"
                 "const INDEX last = shape.n - first < ITEM_N ? shape.n - first : ITEM_N;\n"
                 "for (INDEX i = 0; i < rows; i++) {\n"
                 "const INDEX row = row0 + i;\n"
                 "INDEPENDENT for (INDEX j = column0 - first; j < last; j++) {\n"
                 "const INDEX column = first + j;\n");
  gemm_store(g, text, problem, "block[i * ITEM_N + j]");
  text_add(text, "}\n}\n");
}

static void emit_multiplication(generation *g, const gemm_problem *problem, const direct_plan *plan,
                                bool parts) {
  const int64_t blocks = plan->panels_m * plan->panels_n;
  const uint32_t group = g->tuning.group_x;
  emit_launch *launch =
      gemm_launch(g, problem, "gemm_direct", group, (blocks + group - 1) / group, 1);
  if (!launch) return;
  if (plan->packed)
    take_panels(g, launch, problem, plan, false);
  else
    gemm_take_factors(g, launch, problem);
  gemm_take_epilogue(g, launch, problem);
  gemm_fields(g, launch, problem);
  gemm_store_fields(g, launch, problem);
  emit_field_divisor(g, launch, "panels_m", plan->panels_m);
  emit_field_index(g, launch, "panels_n", plan->panels_n);
  text_buffer *text = &launch->body;
  text_add(text,
           "const INDEX tile = (INDEX)GROUP_ID_X * %u + (INDEX)LOCAL_ID_X;\n"
           "const INDEX panel_n = DIVIDE(tile, shape.panels_m);\n"
           "const INDEX panel_m = tile - panel_n * shape.panels_m;\n"
           "if (panel_n >= shape.panels_n) return;\n"
           "const INDEX row0 = panel_m * ITEM_M, column0 = panel_n * ITEM_N;\n",
           (unsigned)group);
  gemm_begin_batches(g, launch, problem);
  find_operands(g, text, plan);
  gemm_block_sums(g, text, plan->packed, "shape.k", parts);
  store_block(g, text, problem);
  text_add(text, "}\n");
}

static compute_status write(generation *g, void *of) {
  gemm_problem *problem = of;
  const compute_tuning *t = &g->tuning;
  const direct_plan plan = make_plan(g, problem);
  if (plan.panels_m > (INT32_MAX - t->group_x) / plan.panels_n)
    return emit_refuse(g, "the product has too many blocks for one launch");
  gemm_define(g, problem, plan.packed);
  emit_constant(g, "ITEM_M", t->item_m);
  emit_constant(g, "ITEM_N", t->item_n);
  gemm_define_vector(g, t->vector);
  const bool parts = gemm_define_parts(g, problem->accumulate, problem->k, false);
  if (plan.packed) {
    g->workspace_bytes = plan.a_bytes + plan.b_bytes;
    emit_packing(g, problem, &plan);
  }
  emit_multiplication(g, problem, &plan, parts);
  snprintf(g->text, sizeof g->text, "%s GEMM, %ux%u per item", plan.packed ? "packed" : "direct",
           (unsigned)t->item_m, (unsigned)t->item_n);
  return COMPUTE_OK;
}

/* ---- Choice -------------------------------------------------------------------------------- */

static double padded_area(const gemm_problem *problem, uint32_t m, uint32_t n) {
  return (double)divide_up(problem->m, m) * m * (double)divide_up(problem->n, n) * n;
}

/* Sums, a row of B and an element of A fill the registers: 32 vectors if a vector has 64 bytes,
 * else 16. Two shapes of a block do this; the one with less padding wins. */
static void choose_block(const generation *g, const gemm_problem *problem, uint32_t lanes,
                         uint32_t *rows, uint32_t *columns) {
  const bool many = lanes * problem->sum_bytes >= 64;
  const uint32_t tall = many ? 12 : 6, flat = many ? 8 : 4;
  const bool is_tall =
      padded_area(problem, tall, 2 * lanes) < padded_area(problem, flat, 3 * lanes);
  *rows = is_tall ? tall : flat;
  *columns = (is_tall ? 2 : 3) * lanes;
  if (g->tuning.variant == GEMM_DIRECT) {
    *rows = 1;
    while (*rows < problem->m && *rows < flat) *rows *= 2;
    *columns = (*rows <= 2 ? 4 : 3) * lanes;
    while (*columns > problem->n && *columns > lanes) *columns -= lanes;
  }
}

/* With few rows B is read in place, so rows and columns may change places to make B's columns
 * dense. */
static void complete_direct(generation *g, gemm_problem *problem) {
  compute_tuning *t = &g->tuning;
  if (t->variant == GEMM_DIRECT && problem->b.outer != 1 && problem->a.outer == 1)
    emit_gemm_swap(problem);
  emit_default(&t->vector, gemm_choose_lanes(g, problem));
  uint32_t rows, columns;
  choose_block(g, problem, t->vector, &rows, &columns);
  emit_default(&t->item_m, rows);
  emit_default(&t->item_n, columns);
  emit_default(&t->group_x, emit_for_cpu(g) ? 1 : min_u32(64, emit_group_limit(g)));
}

static bool panels_fit(const gemm_problem *problem) {
  const double k = (double)problem->k * problem->sum_bytes, batches = (double)problem->batches;
  const double a = (double)problem->m * k * (problem->a.batched ? batches : 1);
  const double b = (double)problem->n * k * (problem->b.batched ? batches : 1);
  return a + b <= (double)PANEL_LIMIT;
}

static bool can_read_in_place(const gemm_problem *problem, uint32_t columns) {
  return problem->b.outer == 1 && problem->b.dtype == problem->accumulate && problem->n >= columns;
}

static compute_status check_direct(generation *g, const gemm_problem *problem) {
  const compute_tuning *t = &g->tuning;
  if (!emit_is_power(t->vector) || t->vector < 2 || t->vector > 16 || t->item_n % t->vector)
    return emit_refuse(g, "%u columns do not divide into vectors of %u", (unsigned)t->item_n,
                       (unsigned)t->vector);
  if (t->item_m > 16 || t->item_n / t->vector > 8)
    return emit_refuse(g, "a block of %ux%u is too large", (unsigned)t->item_m,
                       (unsigned)t->item_n);
  if (problem->k == 0) return emit_refuse(g, "there is nothing to multiply");
  if (t->variant == GEMM_DIRECT && !can_read_in_place(problem, t->item_n))
    return emit_refuse(g, "B does not have %u dense columns in the type of the sums",
                       (unsigned)t->item_n);
  if (t->group_x > emit_group_limit(g))
    return emit_refuse(g, "groups of %u items are too large", (unsigned)t->group_x);
  return COMPUTE_OK;
}

static bool direct_suits(const generation *g, const void *of) {
  gemm_problem problem = *(const gemm_problem *)of;
  if (!emit_for_cpu(g) || gemm_is_tiny(&problem)) return false;
  if (problem.b.outer != 1 && problem.a.outer == 1) emit_gemm_swap(&problem);
  return problem.m <= FEW_ROWS && can_read_in_place(&problem, gemm_choose_lanes(g, &problem));
}

static bool packed_suits(const generation *g, const void *of) {
  const gemm_problem *problem = of;
  if (!panels_fit(problem)) return false;
  return emit_for_cpu(g) ? !gemm_is_tiny(problem)
                         : !emit_has(g, COMPUTE_TARGET_FAST_LOCAL) && problem->k > 0;
}

static compute_status accept(generation *g, void *problem) {
  complete_direct(g, problem);
  return check_direct(g, problem);
}

const emit_form gemm_direct = {GEMM_DIRECT, direct_suits, accept, write};
const emit_form gemm_packed = {GEMM_PACKED, packed_suits, accept, write};
