/* SPDX-License-Identifier: MIT */
/* The text that all variants of matrix multiplication share: loads of A and B, the loop over
 * batches, and the epilogue. */
#include <stdio.h>

#include "codegen/generate/kinds/gemm/gemm.h"
#include "core/type/dtype.h"

/* Integer sums wrap, so their type is unsigned. */
static const char *sum_type(compute_dtype accumulate) {
  switch (accumulate) {
  case COMPUTE_F64: return "f64";
  case COMPUTE_I64: return "u64";
  case COMPUTE_I32: return "u32";
  default: return "f32";
  }
}

/* OpenCL's name; its vector types append their width. */
static const char *base_type(compute_dtype accumulate) {
  switch (accumulate) {
  case COMPUTE_F64: return "double";
  case COMPUTE_I64: return "ulong";
  case COMPUTE_I32: return "uint";
  default: return "float";
  }
}

/* LOAD_A(i) reads an element of A in place; A_ROW and A_K are its strides. */
static void define_factor(generation *g, const gemm_factor *factor, char letter, bool any) {
  char pointer[16];
  text_buffer *text = &g->definitions;
  const char small = letter == 'A' ? 'a' : 'b';
  snprintf(pointer, sizeof pointer, "in%u", (unsigned)factor->input);
  text_add(text, "#define IN_%c %s\n#define LOAD_%c(i) ((SUM)", letter, pointer, letter);
  emit_load(text, factor->dtype, pointer, "(i)");
  text_add(text, ")\n#define %c_TYPE %s\n", letter, emit_storage(factor->dtype));
  text_add(text, "#define %c_%s ", letter, letter == 'A' ? "ROW" : "COLUMN");
  text_add(text, factor->outer == 1 && !any ? "1\n" : "shape.%c_outer\n", small);
  text_add(text, "#define %c_K ", letter);
  text_add(text, factor->k == 1 && !any ? "1\n" : "shape.%c_k\n", small);
}

void gemm_define(generation *g, gemm_problem *problem, bool any_strides) {
  const compute_kernel_descriptor *d = g->descriptor;
  const char *type = sum_type(problem->accumulate);
  const bool is_float = dtype_is_float(problem->accumulate);
  text_add(&g->definitions, "#define SUM %s\n#define SUM_BASE %s\n", type,
           base_type(problem->accumulate));
  if (is_float)
    text_add(&g->definitions, "#define SUM_MAD(a, b, c) MAD_%s(a, b, c)\n", type);
  else
    text_add(&g->definitions, "#define SUM_MAD(a, b, c) ((a) * (b) + (c))\n");
  define_factor(g, &problem->a, 'A', any_strides);
  define_factor(g, &problem->b, 'B', any_strides);
  emit_program(g, &problem->epilogue, "epilogue", &d->epilogue, problem->accumulate, 2,
               d->input_count);
}

/* The number of terms in a part of a long f32 sum; parts are added up separately. On matrix units
 * even 4096 is finer than factors of 16 bits, or TF32, can show. */
enum { SUM_PART = 256, SUM_PART_UNITS = 4096 };

static bool are_long(compute_dtype accumulate, int64_t terms, int64_t part) {
  return accumulate == COMPUTE_F32 && terms > part + part / 2;
}

bool gemm_define_parts(generation *g, compute_dtype accumulate, int64_t terms, bool units) {
  const int64_t part = units ? SUM_PART_UNITS : SUM_PART;
  const bool parts = are_long(accumulate, terms, part);
  if (parts) emit_constant(g, "SUM_PART", part);
  emit_template(g, &g->definitions, "sum_parts");
  return parts;
}

void gemm_define_vector(generation *g, uint32_t lanes) {
  emit_constant(g, "LANES", lanes);
  emit_template(g, &g->definitions, "gemm_vector");
}

emit_launch *gemm_launch(generation *g, const gemm_problem *problem, const char *entry,
                         uint32_t group, int64_t groups_x, int64_t groups_y) {
  const int64_t z = problem->batches < GEMM_GROUP_Z_LIMIT ? problem->batches : GEMM_GROUP_Z_LIMIT;
  const uint32_t size[3] = {group, 1, 1};
  const uint32_t groups[3] = {(uint32_t)groups_x, (uint32_t)groups_y, (uint32_t)z};
  return emit_launch_begin(g, entry, size, groups);
}

void gemm_take_factors(generation *g, emit_launch *launch, const gemm_problem *problem) {
  emit_input(g, launch, problem->a.input);
  emit_input(g, launch, problem->b.input);
}

void gemm_take_epilogue(generation *g, emit_launch *launch, const gemm_problem *problem) {
  (void)problem;
  emit_inputs(g, launch, 2, g->descriptor->input_count);
  emit_outputs(g, launch);
}

void gemm_fields(generation *g, emit_launch *launch, const gemm_problem *problem) {
  emit_field_index(g, launch, "m", problem->m);
  emit_field_divisor(g, launch, "n", problem->n);
  emit_field_index(g, launch, "k", problem->k);
  emit_field_index(g, launch, "a_outer", problem->a.outer);
  emit_field_index(g, launch, "a_k", problem->a.k);
  emit_field_index(g, launch, "b_outer", problem->b.outer);
  emit_field_index(g, launch, "b_k", problem->b.k);
}

void gemm_begin_element(text_buffer *text, uint32_t group, const char *columns) {
  text_add(text,
           "const INDEX index = (INDEX)GROUP_ID_X * %u + (INDEX)LOCAL_ID_X;\n"
           "if (index >= shape.elements) return;\n"
           "const INDEX row = DIVIDE(index, shape.%s);\n"
           "const INDEX column = index - row * shape.%s;\n",
           (unsigned)group, columns, columns);
}

void gemm_add_parts(text_buffer *text) {
  text_add(text, "INDEX at = batch * shape.parts * shape.elements + index;\n"
                 "SUM sum = partial[at];\n"
                 "for (INDEX part = 1; part < shape.parts; part++) {\n"
                 "at += shape.elements;\n"
                 "sum += partial[at];\n"
                 "}\n");
}

void gemm_begin_batches(generation *g, emit_launch *launch, const gemm_problem *problem) {
  emit_field_index(g, launch, "batches", problem->batches);
  emit_space_fields(g, launch, &problem->batch, 0, problem->batch.rank);
  text_add(&launch->body, "for (INDEX batch = (INDEX)GROUP_ID_Z; batch < shape.batches; batch += "
                          "(INDEX)GROUP_COUNT_Z) {\n");
  emit_offsets(g, &launch->body, &problem->batch, 0, problem->batch.rank, "batch", "batch");
}

void gemm_store_fields(generation *g, emit_launch *launch, const gemm_problem *problem) {
  emit_space_fields(g, launch, &problem->tile, 0, 2);
}

/* Offsets of the epilogue's operands at row, column: at_<walk>. */
static void add_offsets(text_buffer *text, const gemm_problem *problem) {
  for (uint32_t i = 0; i < problem->tile.walk_count; i++) {
    const char *walk = problem->tile.walk[i].name;
    text_add(text, "const INDEX at_%s = batch_%s", walk, walk);
    emit_term(text, &problem->tile, walk, 0, "row");
    emit_term(text, &problem->tile, walk, 1, "column");
    text_add(text, ";\n");
  }
}

void gemm_store(generation *g, text_buffer *text, const gemm_problem *problem, const char *sum) {
  const char *value = emit_type(problem->accumulate);
  char argument[96];
  text_add(text, "{\n");
  add_offsets(text, problem);
  snprintf(argument, sizeof argument, "(%s)(%s)", value, sum);
  emit_apply(g, text, &problem->epilogue, argument, "at_$");
  text_add(text, "\n}\n");
}

static bool batches_keep(const generation *g, const gemm_problem *problem, int64_t vector) {
  const emit_space *batch = &problem->batch;
  for (uint32_t i = 0; i < batch->walk_count; i++)
    for (int32_t d = 0; d < batch->rank; d++)
      if (vector_dtype(g, batch->walk[i].name) != COMPUTE_DTYPE_NONE &&
          batch->walk[i].stride[d] % vector != 0)
        return false;
  return true;
}

uint32_t gemm_begin_vectors(generation *g, emit_launch *launch, const gemm_problem *problem) {
  const uint32_t vector = vector_choose(g, &problem->tile);
  if (vector == 1) return 1;
  text_buffer *text = &launch->body;
  emit_field_u32(g, launch, "vectors",
                 vector_fits(g, &problem->tile, vector) && batches_keep(g, problem, vector));
  vector_define_finish(g, text, &problem->tile, &problem->epilogue, vector, "at_$");
  text_add(text, "const boolean in_vectors = shape.vectors");
  vector_aligned(g, text, &problem->tile, g->descriptor->input_count, true, vector);
  text_add(text, ";\n");
  return vector;
}

void gemm_store_vector(text_buffer *text, const gemm_problem *problem, const char *sums) {
  text_add(text, "{\n");
  add_offsets(text, problem);
  text_add(text, "VECTOR_FINISH(0, 1, %s)\n}\n", sums);
}

void gemm_take_parts(generation *g, emit_launch *launch, const gemm_problem *problem,
                     int64_t parts) {
  g->workspace_bytes = (uint64_t)problem->batches * (uint64_t)parts * (uint64_t)problem->m *
                       (uint64_t)problem->n * problem->sum_bytes;
  emit_workspace(g, launch, "partial", "SUM", problem->sum_bytes, 0, true);
}

void gemm_part_field(generation *g, emit_launch *launch, int64_t part) {
  emit_field_index(g, launch, "part", part);
}

void gemm_find_part(text_buffer *text) {
  text_add(text, "const INDEX k_begin = (INDEX)GROUP_ID_Y * shape.part;\n"
                 "const INDEX k_rest = shape.k - k_begin;\n"
                 "const INDEX k_end = k_begin + (k_rest < shape.part ? k_rest : shape.part);\n");
}

void gemm_emit_combine(generation *g, const gemm_problem *problem, int64_t parts) {
  const uint32_t group = emit_group_limit(g) < 64 ? emit_group_limit(g) : 64;
  const int64_t elements = problem->m * problem->n;
  emit_launch *launch =
      gemm_launch(g, problem, "gemm_combine", group, (elements + group - 1) / group, 1);
  if (!launch) return;
  emit_workspace(g, launch, "partial", "SUM", problem->sum_bytes, 0, false);
  gemm_take_epilogue(g, launch, problem);
  emit_field_divisor(g, launch, "n", problem->n);
  emit_field_index(g, launch, "elements", elements);
  emit_field_index(g, launch, "parts", parts);
  gemm_store_fields(g, launch, problem);
  text_buffer *text = &launch->body;
  gemm_begin_element(text, group, "n");
  gemm_begin_batches(g, launch, problem);
  gemm_add_parts(text);
  gemm_store(g, text, problem, "sum");
  text_add(text, "}\n");
}
