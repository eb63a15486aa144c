/* SPDX-License-Identifier: MIT */
/* MAP kernels: every layout of the operands matches the double reference. test_interpreter.c
 * tests the programs' arithmetic. */
#include "kernel_fixture.h"

enum { MOST_INPUTS = 3 };

/* One output: input 0 + 3 · input 1 + 9 · input 2 (if present) + 1000 · position + 7 · coordinate
 * of one dimension, in I64. */
typedef struct map_case {
  compute_kernel_descriptor descriptor;
  compute_operand inputs[MOST_INPUTS], output;
  compute_instruction instructions[64];
  uint16_t result;
  block blocks[MOST_INPUTS + 1];
  bool position;
  int32_t coordinate; /* −1: none */
} map_case;

static uint16_t append(map_case *c, compute_instruction instruction) {
  c->instructions[c->descriptor.epilogue.count] = instruction;
  return (uint16_t)c->descriptor.epilogue.count++;
}

static uint16_t append_scaled(map_case *c, uint16_t value, int64_t factor) {
  const uint16_t constant =
      append(c, (compute_instruction){
                    .code = COMPUTE_I_CONSTANT, .type = COMPUTE_I64, .immediate.i64 = factor});
  return append(c, (compute_instruction){
                       .code = COMPUTE_I_MUL, .type = COMPUTE_I64, .a = value, .b = constant});
}

static uint16_t append_sum(map_case *c, uint16_t a, uint16_t b) {
  return append(c,
                (compute_instruction){.code = COMPUTE_I_ADD, .type = COMPUTE_I64, .a = a, .b = b});
}

static void make_program(map_case *c) {
  uint16_t sum = append(c, (compute_instruction){.code = COMPUTE_I_CONSTANT, .type = COMPUTE_I64});
  int64_t factor = 1;
  for (uint32_t i = 0; i < c->descriptor.input_count; i++, factor *= 3) {
    const uint8_t type = (uint8_t)dtype_compute_type(c->inputs[i].dtype);
    const uint16_t loaded =
        append(c, (compute_instruction){.code = COMPUTE_I_LOAD, .type = type, .immediate.i64 = i});
    const uint16_t value =
        append(c, (compute_instruction){.code = COMPUTE_I_CAST, .type = COMPUTE_I64, .a = loaded});
    sum = append_sum(c, sum, append_scaled(c, value, factor));
  }
  if (c->position) {
    const uint16_t value =
        append(c, (compute_instruction){.code = COMPUTE_I_POSITION, .type = COMPUTE_I64});
    sum = append_sum(c, sum, append_scaled(c, value, 1000));
  }
  if (c->coordinate >= 0) {
    const uint16_t value = append(c, (compute_instruction){.code = COMPUTE_I_COORDINATE,
                                                           .type = COMPUTE_I64,
                                                           .immediate.i64 = c->coordinate});
    sum = append_sum(c, sum, append_scaled(c, value, 7));
  }
  c->result = sum;
  c->descriptor.epilogue.instructions = c->instructions;
  c->descriptor.epilogue.outputs = &c->result;
  c->descriptor.epilogue.output_count = 1;
}

static void make_operands(map_case *c, test_random *random) {
  static const compute_dtype dtypes[] = {COMPUTE_I64, COMPUTE_I32, COMPUTE_U8, COMPUTE_F32,
                                         COMPUTE_F16, COMPUTE_U16, COMPUTE_I8, COMPUTE_I16,
                                         COMPUTE_U32, COMPUTE_U64};
  const int32_t rank = c->descriptor.rank;
  int64_t stride[COMPUTE_MAX_RANK];
  for (uint32_t i = 0; i < c->descriptor.input_count; i++) {
    const uint32_t repeat = (uint32_t)(test_random_bits(random) & test_random_bits(random));
    random_strides(rank, c->descriptor.size, repeat, random, stride);
    c->blocks[i] =
        block_create(dtypes[test_random_integer(random, 0, sizeof dtypes / sizeof *dtypes - 1)],
                     rank, c->descriptor.size, stride);
    block_fill(&c->blocks[i], 0, 100, random);
    for (int64_t e = 0; e < c->blocks[i].elements; e++)
      block_set(&c->blocks[i], e, floor(block_get(&c->blocks[i], e)));
    c->inputs[i] = operand_of(&c->blocks[i], rank);
  }
  random_strides(rank, c->descriptor.size, 0, random, stride);
  const uint32_t last = c->descriptor.input_count;
  c->blocks[last] = block_create(COMPUTE_I64, rank, c->descriptor.size, stride);
  c->output = operand_of(&c->blocks[last], rank);
}

static void run_case(fixture *f, int32_t rank, const int64_t *size, test_random *random) {
  static map_case c;
  block *blocks[MOST_INPUTS + 1];
  c = (map_case){.coordinate = -1};
  c.descriptor = (compute_kernel_descriptor){.struct_size = sizeof c.descriptor,
                                             .kind = COMPUTE_KERNEL_MAP,
                                             .rank = rank,
                                             .output_count = 1,
                                             .inputs = c.inputs,
                                             .outputs = &c.output};
  c.descriptor.input_count = (uint32_t)test_random_integer(random, 0, MOST_INPUTS);
  for (int32_t d = 0; d < rank; d++) c.descriptor.size[d] = size[d];
  c.position = test_random_integer(random, 0, 2) == 0;
  if (rank > 0 && test_random_integer(random, 0, 3) == 0)
    c.coordinate = (int32_t)test_random_integer(random, 0, rank - 1);
  make_operands(&c, random);
  make_program(&c);
  for (uint32_t i = 0; i <= c.descriptor.input_count; i++) blocks[i] = &c.blocks[i];
  run_and_check(f, &cpu_map_kind, &c.descriptor, blocks, (allowed_error){0});
  for (uint32_t i = 0; i <= c.descriptor.input_count; i++) block_release(&c.blocks[i]);
}

static void every_arrangement_gives_the_same_elements(void **state) {
  static const int64_t sizes[] = {1, 2, 3, 5, 17, 40, 130};
  (void)state;
  for (int set = 0; fixture_sets[set]; set++)
    for (int32_t threads = 1; threads <= 3; threads += 2) {
      fixture f;
      if (!fixture_open(&f, threads, fixture_sets[set])) continue;
      for (uint64_t number = 0; number < 400; number++) {
        test_random random = {number + 1000};
        int64_t size[COMPUTE_MAX_RANK], points = 1;
        const int32_t rank = (int32_t)test_random_integer(&random, 0, 5);
        for (int32_t d = 0; d < rank; d++) {
          do size[d] = sizes[test_random_integer(&random, 0, 6)];
          while (points * size[d] > 20000);
          points *= size[d];
        }
        /* With a tiny cache, every output is streamed. */
        f.device->share_bytes = number & 1 ? 64 : 1 << 30;
        run_case(&f, rank, size, &random);
      }
      fixture_close(&f);
    }
}

static void large_spaces_are_shared_among_threads(void **state) {
  static const int64_t sizes[][3] = {{1, 1, 700001}, {700001, 1, 1}, {3, 257, 811},
                                     {811, 257, 3},  {2, 1000, 300}, {90000, 2, 3}};
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 3, NULL));
  for (int i = 0; i < 6; i++)
    for (uint64_t number = 0; number < 4; number++) {
      test_random random = {number};
      f.device->share_bytes = number & 1 ? 64 : 1 << 30;
      run_case(&f, 3, sizes[i], &random);
    }
  fixture_close(&f);
}

static void an_empty_space_stores_nothing(void **state) {
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 2, NULL));
  for (int32_t zero = 0; zero < 3; zero++) {
    test_random random = {8};
    int64_t size[3] = {4, 5, 6};
    size[zero] = 0;
    run_case(&f, 3, size, &random);
  }
  fixture_close(&f);
}

/* An optimizer's update: three outputs, each overwriting one input, and further inputs. */
static void outputs_may_overwrite_inputs(void **state) {
  enum { COUNT = 100000 };
  static const compute_instruction instructions[] = {
      {.code = COMPUTE_I_LOAD, .type = COMPUTE_F32, .immediate.i64 = 0}, /* parameter */
      {.code = COMPUTE_I_LOAD, .type = COMPUTE_F32, .immediate.i64 = 1}, /* momentum */
      {.code = COMPUTE_I_LOAD, .type = COMPUTE_F32, .immediate.i64 = 2}, /* gradient */
      {.code = COMPUTE_I_CONSTANT, .type = COMPUTE_F32, .immediate.f64 = 0.5},
      {.code = COMPUTE_I_MUL, .type = COMPUTE_F32, .a = 1, .b = 3},
      {.code = COMPUTE_I_ADD, .type = COMPUTE_F32, .a = 4, .b = 2}, /* new momentum */
      {.code = COMPUTE_I_SUB, .type = COMPUTE_F32, .a = 0, .b = 5}, /* new parameter */
      {.code = COMPUTE_I_ADD, .type = COMPUTE_F32, .a = 1, .b = 0}, /* old values, read late */
  };
  static const uint16_t results[] = {6, 5, 7};
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 2, NULL));
  f.device->share_bytes = 64;
  float *x[3];
  for (int i = 0; i < 3; i++) {
    x[i] = malloc(COUNT * sizeof(float));
    assert_non_null(x[i]);
    for (int e = 0; e < COUNT; e++) x[i][e] = (float)(e % 1000 + i);
  }
  const compute_operand dense = {.dtype = COMPUTE_F32, .stride = {1}};
  const compute_operand operands[] = {dense, dense, dense};
  const compute_kernel_descriptor descriptor = {.struct_size = sizeof descriptor,
                                                .kind = COMPUTE_KERNEL_MAP,
                                                .rank = 1,
                                                .size = {COUNT},
                                                .input_count = 3,
                                                .output_count = 3,
                                                .inputs = operands,
                                                .outputs = operands,
                                                .epilogue = {8, 3, instructions, results}};
  cpu_kernel *kernel;
  assert_int_equal(cpu_kind_prepare(&cpu_map_kind, f.device, &descriptor, &kernel), COMPUTE_OK);
  void *const pointers[] = {x[0], x[1], x[2], x[0], x[1], x[2]};
  assert_int_equal(kernel->run(kernel, pointers), COMPUTE_OK);
  cpu_kernel_destroy(kernel);
  for (int e = 0; e < COUNT; e++) {
    const float old = (float)(e % 1000), momentum = 0.5f * (old + 1) + (old + 2);
    if (x[0][e] != old - momentum || x[1][e] != momentum || x[2][e] != old + 1 + old)
      fail_msg("element %d: %g %g %g", e, (double)x[0][e], (double)x[1][e], (double)x[2][e]);
  }
  for (int i = 0; i < 3; i++) free(x[i]);
  fixture_close(&f);
}

/* Batch norm, a program that is one loop, over planes of any size: each plane has its own
 * numbers. */
static void normalize(fixture *f, const int64_t *size, bool in_place, test_random *random) {
  static const compute_instruction instructions[] = {
      {.code = COMPUTE_I_LOAD, .type = COMPUTE_F32, .immediate.i64 = 0},
      {.code = COMPUTE_I_LOAD, .type = COMPUTE_F32, .immediate.i64 = 1},
      {.code = COMPUTE_I_LOAD, .type = COMPUTE_F32, .immediate.i64 = 2},
      {.code = COMPUTE_I_LOAD, .type = COMPUTE_F32, .immediate.i64 = 3},
      {.code = COMPUTE_I_SUB, .type = COMPUTE_F32, .a = 0, .b = 1},
      {.code = COMPUTE_I_MUL, .type = COMPUTE_F32, .a = 4, .b = 2},
      {.code = COMPUTE_I_ADD, .type = COMPUTE_F32, .a = 5, .b = 3},
  };
  static const uint16_t result = 6;
  const int64_t planes[] = {size[1] * size[2], size[2], 1}, numbers[] = {0, 1, 0};
  block blocks[5];
  block *const pointers[] = {&blocks[0], &blocks[1], &blocks[2], &blocks[3],
                             &blocks[in_place ? 0 : 4]};
  compute_operand operands[5];
  for (int i = 0; i < 5; i++) {
    blocks[i] = block_create(COMPUTE_F32, 3, size, i % 4 == 0 ? planes : numbers);
    if (i < 4) block_fill(&blocks[i], -2, 2, random);
    operands[i] = operand_of(&blocks[i], 3);
  }
  block x = block_create(COMPUTE_F32, 3, size, planes);
  memcpy(block_data(&x), block_data(&blocks[0]), (size_t)x.elements * sizeof(float));
  const compute_kernel_descriptor descriptor = {.struct_size = sizeof descriptor,
                                                .kind = COMPUTE_KERNEL_MAP,
                                                .rank = 3,
                                                .size = {size[0], size[1], size[2]},
                                                .input_count = 4,
                                                .output_count = 1,
                                                .inputs = operands,
                                                .outputs = &operands[4],
                                                .epilogue = {7, 1, instructions, &result}};
  assert_int_equal(run_kernel(f, &cpu_map_kind, &descriptor, pointers), COMPUTE_OK);
  check_results(f, &descriptor, (block *[]){&x, &blocks[1], &blocks[2], &blocks[3], pointers[4]},
                (allowed_error){.signs = true});
  for (int i = 0; i < 5; i++) block_release(&blocks[i]);
  block_release(&x);
}

static void lines_of_one_loop_have_their_own_numbers(void **state) {
  static const int64_t sizes[][3] = {{4, 64, 16},  {3, 33, 49},  {2, 5, 1},    {5, 3, 7},
                                     {1, 70, 100}, {7, 1, 1000}, {2, 9, 5000}, {90, 40, 16}};
  (void)state;
  for (int set = 0; fixture_sets[set]; set++)
    for (int32_t threads = 1; threads <= 3; threads += 2) {
      fixture f;
      test_random random = {31};
      if (!fixture_open(&f, threads, fixture_sets[set])) continue;
      for (size_t i = 0; i < 4 * sizeof sizes / sizeof *sizes; i++) {
        f.device->share_bytes = i & 1 ? 64 : 1 << 30;
        normalize(&f, sizes[i / 4], i & 2, &random);
      }
      fixture_close(&f);
    }
}

/* One operation on short lines whose operands repeat or have gaps; returns true if each line runs by
 * the operation's loop. */
static bool operate(fixture *f, test_random *random) {
  static const struct {
    compute_dtype dtype;
    uint8_t code;
  } operations[] = {{COMPUTE_F32, COMPUTE_I_SUB}, {COMPUTE_I32, COMPUTE_I_SUB},
                    {COMPUTE_I64, COMPUTE_I_ADD}, {COMPUTE_F32, COMPUTE_I_NEG},
                    {COMPUTE_U8, COMPUTE_I_SUB},  {COMPUTE_BOOL, COMPUTE_I_AND},
                    {COMPUTE_F32, COMPUTE_I_MUL}};
  const size_t n = (size_t)test_random_integer(random, 0, 6);
  const compute_dtype dtype = operations[n].dtype;
  const uint8_t type = (uint8_t)dtype_compute_type(dtype);
  const bool number = test_random_integer(random, 0, 5) == 0;
  /* Few long sets of lines, repetitions of a pattern, many sets of a few lines. */
  static const int64_t most[][3] = {{5, 60, 50}, {20, 12, 40}, {300, 6, 20}};
  const int64_t *limit = most[test_random_integer(random, 0, 2)];
  const int64_t size[] = {test_random_integer(random, 1, limit[0]),
                          test_random_integer(random, 1, limit[1]),
                          test_random_integer(random, 1, limit[2])};
  const compute_instruction instructions[] = {
      {.code = COMPUTE_I_LOAD, .type = type, .immediate.i64 = 0},
      {.code = number ? COMPUTE_I_CONSTANT : COMPUTE_I_LOAD, .type = type, .immediate.i64 = 1},
      {.code = operations[n].code, .type = type, .a = 0, .b = 1}};
  const uint16_t result = 2;
  block blocks[3];
  compute_operand operands[3];
  for (int i = 0; i < 3; i++) {
    int64_t stride[COMPUTE_MAX_RANK];
    const uint32_t repeat = i < 2 ? (uint32_t)test_random_integer(random, 0, 7) : 0;
    random_strides(3, size, repeat, random, stride);
    blocks[i] = block_create(dtype, 3, size, stride);
    block_fill(&blocks[i], 0, dtype == COMPUTE_BOOL ? 2 : 100, random);
    block_remember(&blocks[i]);
    operands[i] = operand_of(&blocks[i], 3);
  }
  const compute_kernel_descriptor descriptor = {.struct_size = sizeof descriptor,
                                                .kind = COMPUTE_KERNEL_MAP,
                                                .rank = 3,
                                                .size = {size[0], size[1], size[2]},
                                                .input_count = 2,
                                                .output_count = 1,
                                                .inputs = operands,
                                                .outputs = &operands[2],
                                                .epilogue = {3, 1, instructions, &result}};
  block *const pointers[] = {&blocks[0], &blocks[1], &blocks[2]};
  run_and_check(f, &cpu_map_kind, &descriptor, pointers, (allowed_error){.signs = true});
  cpu_kernel *kernel = NULL;
  assert_int_equal(cpu_kind_prepare(&cpu_map_kind, f->device, &descriptor, &kernel), COMPUTE_OK);
  const bool by_loops = strstr(kernel->description, "a line") != NULL;
  cpu_kernel_destroy(kernel);
  for (int i = 0; i < 3; i++) block_release(&blocks[i]);
  return by_loops;
}

static void short_lines_of_one_operation_are_right(void **state) {
  enum { ROUNDS = 900 };
  (void)state;
  for (int set = 0; fixture_sets[set]; set++)
    for (int32_t threads = 1; threads <= 3; threads += 2) {
      fixture f;
      int by_loops = 0;
      test_random random = {57};
      if (!fixture_open(&f, threads, fixture_sets[set])) continue;
      for (int i = 0; i < ROUNDS; i++) {
        f.device->share_bytes = i & 1 ? 64 : 1 << 30;
        by_loops += operate(&f, &random);
      }
      assert_true(by_loops > ROUNDS / 20);
      fixture_close(&f);
    }
}

static void allocation_failures_are_reported(void **state) {
  (void)state;
  const int64_t size = 10, stride = 1;
  block in = block_create(COMPUTE_F32, 1, &size, &stride);
  block out = block_create(COMPUTE_F32, 1, &size, &stride);
  block *const blocks[] = {&in, &out};
  const compute_operand input = operand_of(&in, 1), output = operand_of(&out, 1);
  const compute_instruction instructions[] = {{.code = COMPUTE_I_LOAD, .type = COMPUTE_F32},
                                              {.code = COMPUTE_I_NEG, .type = COMPUTE_F32, .a = 0}};
  const uint16_t result = 1;
  const compute_kernel_descriptor descriptor = {.struct_size = sizeof descriptor,
                                                .kind = COMPUTE_KERNEL_MAP,
                                                .rank = 1,
                                                .size = {10},
                                                .input_count = 1,
                                                .output_count = 1,
                                                .inputs = &input,
                                                .outputs = &output,
                                                .epilogue = {2, 1, instructions, &result}};
  check_allocation_failures(&cpu_map_kind, &descriptor, blocks);
  block_release(&in);
  block_release(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_arrangement_gives_the_same_elements),
      cmocka_unit_test(large_spaces_are_shared_among_threads),
      cmocka_unit_test(an_empty_space_stores_nothing),
      cmocka_unit_test(outputs_may_overwrite_inputs),
      cmocka_unit_test(lines_of_one_loop_have_their_own_numbers),
      cmocka_unit_test(short_lines_of_one_operation_are_right),
      cmocka_unit_test(allocation_failures_are_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
