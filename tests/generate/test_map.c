/* SPDX-License-Identifier: MIT */
/* MAP and COPY: the choice of loops, and outputs that overwrite operands. */
#include "support/harness/test.h"

#include <stdio.h>
#include <string.h>

#include "codegen/generate/generate.h"
#include "core/kernel/common/program.h"
#include "core/kernel/kernel.h"
#include "support/emulator/emulator.h"

static compute_target target_of(compute_device_type type) {
  return (compute_target){.struct_size = sizeof(compute_target),
                          .dialect = COMPUTE_DIALECT_C,
                          .type = type,
                          .flags = COMPUTE_TARGET_F64,
                          .compute_units = 2,
                          .group_limit = 256,
                          .local_bytes = 32768};
}

static const compute_generated *generate(compute_device_type type,
                                         const compute_kernel_descriptor *d,
                                         const compute_tuning *tuning) {
  const compute_target target = target_of(type);
  const compute_generated *generated;
  char reason[160] = "";
  assert_true(descriptor_check(d, reason, sizeof reason));
  assert_int_equal(generate_kernel(&target, d, tuning, &generated, reason, sizeof reason),
                   COMPUTE_OK);
  return generated;
}

/* A MAP of two inputs into two outputs: their sum and their product. */
typedef struct map_sample {
  compute_kernel_descriptor d;
  compute_operand in[3], out[2];
  program_builder builder;
} map_sample;

static void make_map(map_sample *s, int64_t rows, int64_t columns) {
  memset(s, 0, sizeof *s);
  for (int i = 0; i < 3; i++) s->in[i] = (compute_operand){COMPUTE_F32, {columns, 1}};
  for (int i = 0; i < 2; i++) s->out[i] = s->in[0];
  program_builder *b = &s->builder;
  const uint16_t x = program_load(b, COMPUTE_F32, 0), y = program_load(b, COMPUTE_F32, 1);
  program_load(b, COMPUTE_F32, 2); /* its value is not used */
  program_store(b, program_apply(b, COMPUTE_I_ADD, COMPUTE_F32, x, y, 0));
  program_store(b, program_apply(b, COMPUTE_I_MUL, COMPUTE_F32, x, y, 0));
  s->d = (compute_kernel_descriptor){.struct_size = sizeof s->d,
                                     .kind = COMPUTE_KERNEL_MAP,
                                     .rank = 2,
                                     .size = {rows, columns},
                                     .input_count = 3,
                                     .output_count = 2,
                                     .inputs = s->in,
                                     .outputs = s->out,
                                     .epilogue = program_finish(b)};
}

static void make_copy(map_sample *s, compute_dtype to, int64_t rows, int64_t columns,
                      bool transposed) {
  memset(s, 0, sizeof *s);
  s->in[0] = (compute_operand){COMPUTE_F32, {columns, 1}};
  s->out[0] = (compute_operand){to, {columns, 1}};
  if (transposed) s->in[0].stride[0] = 1, s->in[0].stride[1] = rows;
  s->d = (compute_kernel_descriptor){.struct_size = sizeof s->d,
                                     .kind = COMPUTE_KERNEL_COPY,
                                     .rank = 2,
                                     .size = {rows, columns},
                                     .input_count = 1,
                                     .output_count = 1,
                                     .inputs = s->in,
                                     .outputs = s->out};
}

static bool sources_equal(compute_device_type type, const compute_kernel_descriptor *a,
                          const compute_kernel_descriptor *b) {
  const compute_generated *first = generate(type, a, NULL), *second = generate(type, b, NULL);
  const bool equal = strcmp(first->source, second->source) == 0;
  generate_release(first);
  generate_release(second);
  return equal;
}

static const compute_device_type types[] = {COMPUTE_DEVICE_CPU, COMPUTE_DEVICE_GPU};
enum { TYPES = sizeof types / sizeof *types };

/* ---- Generated sources --------------------------------------------------------------------- */

static void inputs_that_no_output_needs_are_not_bound(void **state) {
  (void)state;
  map_sample s;
  make_map(&s, 4, 40);
  const compute_generated *generated = generate(COMPUTE_DEVICE_CPU, &s.d, NULL);
  const compute_generated_launch *launch = &generated->launches[0];
  static const uint32_t expected[] = {0, 1, 3, 4};
  assert_int_equal(launch->buffer_count, 4);
  for (uint32_t i = 0; i < 4; i++) assert_int_equal(launch->buffers[i].argument, expected[i]);
  generate_release(generated);
}

static void only_the_innermost_strides_make_another_source(void **state) {
  (void)state;
  for (int i = 0; i < TYPES; i++) {
    map_sample dense, rows, columns;
    make_map(&dense, 40, 64);
    dense.in[0].stride[0] = 65; /* not one long row */
    make_map(&rows, 70, 48);
    rows.in[1].stride[0] = 0;
    make_map(&columns, 70, 48);
    columns.in[1].stride[1] = 0;
    assert_true(sources_equal(types[i], &dense.d, &rows.d));
    assert_false(sources_equal(types[i], &dense.d, &columns.d));
  }
}

static void dimensions_follow_the_memory_of_the_result(void **state) {
  (void)state;
  for (int i = 0; i < TYPES; i++) {
    map_sample straight, turned;
    make_map(&straight, 1, 1200);
    make_map(&turned, 30, 40);
    for (int k = 0; k < 3; k++) turned.in[k].stride[0] = 1, turned.in[k].stride[1] = 30;
    for (int k = 0; k < 2; k++) turned.out[k].stride[0] = 1, turned.out[k].stride[1] = 30;
    assert_true(sources_equal(types[i], &straight.d, &turned.d));
  }
}

/* One group for each 256 vectors. For single elements, each item of a group takes four. Large
 * transposes use large tiles. */
static void many_elements_make_many_groups(void **state) {
  (void)state;
  const compute_target target = {.struct_size = sizeof(compute_target),
                                 .dialect = COMPUTE_DIALECT_CUDA,
                                 .type = COMPUTE_DEVICE_GPU,
                                 .compute_units = 16,
                                 .group_limit = 1024,
                                 .local_bytes = 49152};
  static const struct {
    int64_t side;
    bool transposed;
    int64_t step; /* of the source along its rows */
    uint32_t groups, group_y;
  } cases[] = {{4096, false, 1, 4096 * 4096 / 1024, 1},
               {64, false, 1, 4, 1},
               {4096, false, 2, 16 * 64, 1},
               {64, false, 2, 16, 1},
               {4096, true, 1, 64 * 64, 16},
               {256, true, 1, 8 * 8, 8}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    map_sample s;
    const compute_generated *generated;
    char reason[160] = "";
    make_copy(&s, COMPUTE_F32, cases[i].side, cases[i].side, cases[i].transposed);
    for (int d = 0; d < 2; d++) s.in[0].stride[d] *= cases[i].step;
    assert_int_equal(generate_kernel(&target, &s.d, NULL, &generated, reason, sizeof reason),
                     COMPUTE_OK);
    assert_int_equal(generated->launches[0].groups[0], cases[i].groups);
    assert_int_equal(generated->launches[0].group[1], cases[i].group_y);
    generate_release(generated);
  }
}

static void transposing_copies_go_through_local_memory_on_gpus(void **state) {
  (void)state;
  map_sample s;
  const compute_tuning tile = {.tile_m = 16, .tile_n = 64}, huge = {.tile_m = 1024};
  make_copy(&s, COMPUTE_F32, 100, 60, true);
  const compute_generated *gpu = generate(COMPUTE_DEVICE_GPU, &s.d, NULL);
  const compute_generated *tuned = generate(COMPUTE_DEVICE_GPU, &s.d, &tile);
  const compute_generated *over = generate(COMPUTE_DEVICE_GPU, &s.d, &huge);
  const compute_generated *cpu = generate(COMPUTE_DEVICE_CPU, &s.d, NULL);
  assert_string_equal(gpu->launches[0].entry, "transpose");
  assert_int_equal(gpu->launches[0].groups[0], 4 * 2);
  assert_int_equal(tuned->launches[0].groups[0], 7 * 1);
  assert_string_equal(over->launches[0].entry, "copy"); /* more than the local memory */
  assert_string_equal(cpu->launches[0].entry, "copy");
  generate_release(gpu);
  generate_release(tuned);
  generate_release(over);
  generate_release(cpu);
  make_copy(&s, COMPUTE_F32, 100, 60, false);
  s.in[0].stride[0] = 61; /* rows are copied as rows */
  const compute_generated *plain = generate(COMPUTE_DEVICE_GPU, &s.d, NULL);
  assert_string_equal(plain->launches[0].entry, "copy");
  generate_release(plain);
}

/* ---- Results ------------------------------------------------------------------------------- */

static void open_program(const compute_generated *generated, emulator_program **program) {
  char problem[2000];
  const emulator_source source = emulator_source_of(generated);
  *program = emulator_open(TEST_SCRATCH_DIR, &source, problem, sizeof problem);
  if (!*program) fail_msg("%s", problem);
}

/* Element (i, j) of a buffer is at i · 67 + j. */
static void results_may_take_the_place_of_operands(void **state) {
  (void)state;
  enum { ROWS = 5, COLUMNS = 64, PITCH = 67 };
  for (int i = 0; i < TYPES; i++) {
    map_sample s;
    make_map(&s, ROWS, COLUMNS);
    for (int k = 0; k < 3; k++) s.in[k].stride[0] = PITCH;
    for (int k = 0; k < 2; k++) s.out[k].stride[0] = PITCH;
    const compute_generated *generated = generate(types[i], &s.d, NULL);
    emulator_program *program;
    open_program(generated, &program);
    float x[ROWS * PITCH], y[ROWS * PITCH], unused[ROWS * PITCH] = {0};
    for (int n = 0; n < ROWS * PITCH; n++) x[n] = (float)n, y[n] = (float)(n % 7) - 3;
    void *const arguments[] = {x, y, unused, x, y}; /* the sum overwrites x, the product y */
    bool fault;
    char problem[300];
    if (!emulator_run(program, generated, arguments, EMULATOR_ASCENDING, &fault, problem,
                      sizeof problem)) {
      fail_msg("%s", problem);
    }
    for (int n = 0; n < ROWS * PITCH; n++) {
      const float a = (float)n, b = (float)(n % 7) - 3;
      const bool inside = n % PITCH < COLUMNS;
      assert_true(x[n] == (inside ? a + b : a));
      assert_true(y[n] == (inside ? a * b : b));
    }
    emulator_close(program);
    generate_release(generated);
  }
}

static void tiles_cover_the_edges_of_a_converting_transpose(void **state) {
  (void)state;
  enum { ROWS = 37, COLUMNS = 70 };
  static const compute_tuning tunings[] = {{0}, {.tile_m = 8, .tile_n = 32, .group_x = 16}};
  for (size_t i = 0; i < sizeof tunings / sizeof *tunings; i++) {
    map_sample s;
    make_copy(&s, COMPUTE_I32, ROWS, COLUMNS, true);
    const compute_generated *generated = generate(COMPUTE_DEVICE_GPU, &s.d, &tunings[i]);
    emulator_program *program;
    open_program(generated, &program);
    float in[ROWS * COLUMNS];
    int32_t out[ROWS * COLUMNS];
    for (int n = 0; n < ROWS * COLUMNS; n++) in[n] = (float)n + 0.5f;
    void *const arguments[] = {in, out};
    bool fault;
    char problem[300];
    if (!emulator_run(program, generated, arguments, EMULATOR_MIXED, &fault, problem,
                      sizeof problem)) {
      fail_msg("%s", problem);
    }
    for (int row = 0; row < ROWS; row++) {
      for (int column = 0; column < COLUMNS; column++) {
        assert_int_equal(out[row * COLUMNS + column], column * ROWS + row);
      }
    }
    emulator_close(program);
    generate_release(generated);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(inputs_that_no_output_needs_are_not_bound),
      cmocka_unit_test(only_the_innermost_strides_make_another_source),
      cmocka_unit_test(dimensions_follow_the_memory_of_the_result),
      cmocka_unit_test(many_elements_make_many_groups),
      cmocka_unit_test(transposing_copies_go_through_local_memory_on_gpus),
      cmocka_unit_test(results_may_take_the_place_of_operands),
      cmocka_unit_test(tiles_cover_the_edges_of_a_converting_transpose),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
