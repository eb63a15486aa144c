/* SPDX-License-Identifier: MIT */
/* Programs that requantize sums to bytes in one loop (program/requantize.h) give the bits of the
 * interpreter: with and without each part, for operands that repeat or not, and for sums and
 * numbers at the ends of their ranges. So do programs that add or multiply two tensors of bytes. The
 * interpreter runs all other programs. */
#include "kernel_fixture.h"

#include "program/requantize.h"

enum { INPUTS = 4, MOST_INSTRUCTIONS = 24, ROWS = 5, COLUMNS = 150, ROW = COLUMNS + 3 };

typedef struct sample {
  compute_instruction instructions[MOST_INSTRUCTIONS];
  uint16_t outputs[1];
  compute_program program;
  compute_dtype dtypes[INPUTS], output;
  uint32_t inputs;
} sample;

static uint16_t append(sample *s, compute_instruction_code code, compute_dtype type, uint16_t a,
                       uint16_t b) {
  s->instructions[s->program.count] =
      (compute_instruction){.code = (uint8_t)code, .type = (uint8_t)type, .a = a, .b = b};
  return (uint16_t)s->program.count++;
}

static uint16_t load(sample *s, compute_dtype type) {
  const uint16_t value = append(s, COMPUTE_I_LOAD, type, 0, 0);
  s->instructions[value].immediate.i64 = s->inputs;
  s->dtypes[s->inputs++] = type;
  return value;
}

static uint16_t number(sample *s, double value) {
  const uint16_t at = append(s, COMPUTE_I_CONSTANT, COMPUTE_F32, 0, 0);
  s->instructions[at].immediate.f64 = value;
  return at;
}

static bool coin(test_random *random) {
  return test_random_integer(random, 0, 1);
}

/* Joins x and y in either order. */
static uint16_t join(sample *s, test_random *random, compute_instruction_code code,
                     compute_dtype type, uint16_t x, uint16_t y) {
  const bool turned = coin(random);
  return append(s, code, type, turned ? y : x, turned ? x : y);
}

static uint16_t operand(sample *s, test_random *random, double low, double high) {
  return coin(random) ? load(s, COMPUTE_F32) : number(s, test_random_uniform(random, low, high));
}

/* Appends limits, a division by 0.05 or a small number, and the stored result. */
static uint16_t finish_sample(sample *s, test_random *random, uint16_t x, double small) {
  const int64_t lower = test_random_integer(random, 0, 2);
  if (lower == 1) x = append(s, COMPUTE_I_RELU, COMPUTE_F32, x, 0);
  if (lower == 2) x = join(s, random, COMPUTE_I_MAX, COMPUTE_F32, x, number(s, -3.5));
  if (coin(random)) x = join(s, random, COMPUTE_I_MIN, COMPUTE_F32, x, number(s, 6));
  if (coin(random)) {
    const double divisor = coin(random) ? 0.05 : small;
    x = append(s, COMPUTE_I_DIV, COMPUTE_F32, x, number(s, divisor));
  }
  x = append(s, COMPUTE_I_ROUND, COMPUTE_F32, x, 0);
  if (coin(random)) {
    const double zero = s->output == COMPUTE_U8 ? 120 : -7;
    x = join(s, random, COMPUTE_I_ADD, COMPUTE_F32, x, number(s, zero));
  }
  return x;
}

static sample make_sample(test_random *random) {
  sample s = {.output = coin(random) ? COMPUTE_U8 : COMPUTE_I8};
  uint16_t x = load(&s, COMPUTE_I32);
  const int64_t offset = test_random_integer(random, 0, 2);
  if (offset == 1) x = join(&s, random, COMPUTE_I_ADD, COMPUTE_I32, x, load(&s, COMPUTE_I32));
  if (offset == 2) x = append(&s, COMPUTE_I_SUB, COMPUTE_I32, x, load(&s, COMPUTE_I32));
  x = append(&s, COMPUTE_I_CAST, COMPUTE_F32, x, 0);
  if (test_random_integer(random, 0, 3))
    x = join(&s, random, COMPUTE_I_MUL, COMPUTE_F32, x, operand(&s, random, 1e-3, 0.1));
  if (coin(random))
    x = join(&s, random, COMPUTE_I_ADD, COMPUTE_F32, x, operand(&s, random, -50, 50));
  s.outputs[0] = finish_sample(&s, random, x, 1e-12);
  s.program.output_count = 1;
  return s;
}

static void fill(sample *s, uint32_t input, uint32_t *data, int64_t count, test_random *random) {
  static const float special[] = {0, -0.0f, NAN, INFINITY, -INFINITY, 1e-40f, 3e38f, -3e38f, 0.5f};
  static const int32_t ends[] = {INT32_MIN, INT32_MAX, 0, -1, 1 << 24};
  for (int64_t i = 0; i < count; i++) {
    const bool rare = test_random_integer(random, 0, 15) == 0;
    const float f = rare ? special[test_random_integer(random, 0, 8)]
                         : (float)test_random_uniform(random, -2, 2);
    const int32_t n = rare ? ends[test_random_integer(random, 0, 4)]
                           : (int32_t)test_random_integer(random, -4000, 4000);
    memcpy(&data[i], s->dtypes[input] == COMPUTE_F32 ? (const void *)&f : &n, 4);
  }
}

static void check_program(fixture *f, uint64_t seed) {
  static uint32_t input[INPUTS][ROWS * ROW];
  static unsigned char output[ROWS * ROW], before[ROWS * ROW];
  test_random random = {seed};
  sample s = make_sample(&random);
  s.program.instructions = s.instructions;
  s.program.outputs = s.outputs;
  cpu_program *program = NULL;
  assert_int_equal(
      cpu_program_prepare(f->device, &s.program, s.inputs, s.dtypes, 1, &s.output, &program),
      COMPUTE_OK);
  assert_non_null(program->requantize.loops);
  cpu_box box = {
      .program = program,
      .rank = 2,
      .count = {test_random_integer(&random, 1, ROWS), test_random_integer(&random, 1, COLUMNS)},
      .dimension = {0, 1}};
  for (uint32_t i = 0; i < s.inputs; i++) {
    fill(&s, i, input[i], ROWS * ROW, &random);
    box.input[i] = (const unsigned char *)input[i];
    box.input_step[i][0] = i == 0 || coin(&random) ? ROW : 0;
    box.input_step[i][1] = i == 0 || coin(&random) ? 1 : 0;
  }
  for (int i = 0; i < ROWS * ROW; i++) before[i] = output[i] = (unsigned char)(i * 7);
  box.output[0] = output;
  box.output_step[0][0] = ROW;
  box.output_step[0][1] = 1;
  cpu_box_run(&box, 1);
  for (int64_t at = 0; at < ROWS * ROW; at++) {
    const int64_t row = at / ROW, column = at % ROW;
    unsigned char expected = before[at];
    if (row < box.count[0] && column < box.count[1]) {
      cpu_scratch scratch;
      cpu_tile tile = {.count = 1, .output = {&expected}, .output_stride = {1}};
      for (uint32_t i = 0; i < s.inputs; i++) {
        tile.input[i] = &input[i][row * box.input_step[i][0] + column * box.input_step[i][1]];
        tile.input_stride[i] = 1;
      }
      cpu_program_run(program, &tile, &scratch, false);
    }
    if (output[at] != expected)
      fail_msg("%s, program %llu: element (%lld, %lld) is %d, not %d", f->device->isa->name,
               (unsigned long long)seed, (long long)row, (long long)column, output[at], expected);
  }
  cpu_program_release(f->device, program);
}

static void one_loop_gives_the_bytes_of_the_interpreter(void **state) {
  (void)state;
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    for (uint64_t seed = 0; seed < 400; seed++) check_program(&f, seed);
    fixture_close(&f);
  }
}

/* ---- Quotients close to half a byte -------------------------------------------------------- */

/* round(bias / divisor) + zero, with a bias whose quotient is `below` and a half, or a neighbour of
 * it. */
static void check_halves(fixture *f, uint64_t seed) {
  enum { NEAR = 3, COUNT = 255 * (2 * NEAR + 1) };
  static float bias[COUNT];
  static int32_t sums[COUNT];
  static unsigned char output[COUNT];
  test_random random = {seed};
  sample s = {.output = coin(&random) ? COMPUTE_U8 : COMPUTE_I8};
  const bool is_signed = s.output == COMPUTE_I8;
  const float divisor = (float)test_random_uniform(&random, 1e-3, 1);
  const int least = is_signed ? -128 : 0;
  const int zero = least + (int)test_random_integer(&random, 0, 255);
  const uint16_t x = append(&s, COMPUTE_I_CAST, COMPUTE_F32, load(&s, COMPUTE_I32), 0);
  const uint16_t scaled = append(&s, COMPUTE_I_MUL, COMPUTE_F32, x, number(&s, 0x1p-20));
  const uint16_t sum = append(&s, COMPUTE_I_ADD, COMPUTE_F32, scaled, load(&s, COMPUTE_F32));
  const uint16_t quotient =
      append(&s, COMPUTE_I_DIV, COMPUTE_F32, sum, number(&s, (double)divisor));
  const uint16_t whole = append(&s, COMPUTE_I_ROUND, COMPUTE_F32, quotient, 0);
  s.outputs[0] = append(&s, COMPUTE_I_ADD, COMPUTE_F32, whole, number(&s, zero));
  s.program.output_count = 1;
  s.program.instructions = s.instructions;
  s.program.outputs = s.outputs;
  for (int i = 0; i < COUNT; i++) {
    const double below = least - zero + i / (2 * NEAR + 1);
    bias[i] = (float)((below + 0.5) * (double)divisor);
    for (int k = i % (2 * NEAR + 1); k > NEAR; k--) bias[i] = nextafterf(bias[i], INFINITY);
    for (int k = i % (2 * NEAR + 1); k < NEAR; k++) bias[i] = nextafterf(bias[i], -INFINITY);
  }
  cpu_program *program = NULL;
  assert_int_equal(
      cpu_program_prepare(f->device, &s.program, s.inputs, s.dtypes, 1, &s.output, &program),
      COMPUTE_OK);
  assert_true(program->requantize.divides);
  cpu_box box = {.program = program,
                 .rank = 1,
                 .count = {COUNT},
                 .dimension = {0},
                 .input = {(const unsigned char *)sums, (const unsigned char *)bias},
                 .input_step = {{1}, {1}},
                 .output = {output},
                 .output_step = {{1}}};
  cpu_box_run(&box, 0);
  for (int i = 0; i < COUNT; i++) {
    const int expected = (int)rintf(bias[i] / divisor) + zero;
    const int got = is_signed ? (int8_t)output[i] : output[i];
    if (got != expected)
      fail_msg("%s: %a / %a + %d is %d, not %d", f->device->isa->name, (double)bias[i],
               (double)divisor, zero, got, expected);
  }
  cpu_program_release(f->device, program);
}

static void quotients_close_to_half_a_byte_are_rounded_as_such(void **state) {
  (void)state;
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    for (uint64_t seed = 0; seed < 200; seed++) check_halves(&f, seed);
    fixture_close(&f);
  }
}

/* ---- Sums and products of bytes ------------------------------------------------------------ */

/* (x − zero) · scale of a byte, with random parts missing. */
static uint16_t make_term(sample *s, test_random *random) {
  const compute_dtype dtype = coin(random) ? COMPUTE_U8 : COMPUTE_I8;
  const uint16_t loaded = load(s, COMPUTE_I32);
  s->dtypes[s->inputs - 1] = dtype;
  uint16_t x = append(s, COMPUTE_I_CAST, COMPUTE_F32, loaded, 0);
  const double zero = (double)test_random_integer(random, -128, 255);
  if (coin(random)) x = append(s, COMPUTE_I_SUB, COMPUTE_F32, x, number(s, zero));
  const double scale = test_random_uniform(random, 1e-3, 0.1);
  if (test_random_integer(random, 0, 3))
    x = join(s, random, COMPUTE_I_MUL, COMPUTE_F32, x, number(s, scale));
  return x;
}

static sample make_joined(test_random *random, compute_instruction_code code) {
  sample s = {.output = coin(random) ? COMPUTE_U8 : COMPUTE_I8};
  const uint16_t a = make_term(&s, random), b = make_term(&s, random);
  s.outputs[0] = finish_sample(&s, random, join(&s, random, code, COMPUTE_F32, a, b), 1e-3);
  s.program.output_count = 1;
  return s;
}

/* Returns true if the program runs as one loop. Quotients of products may be too large for it. */
static bool check_joined(fixture *f, uint64_t seed, compute_instruction_code code) {
  enum { MOST = 2600 }; /* a shared byte is copied for fewer elements at once */
  static unsigned char input[2][MOST], output[MOST + 1], expected[MOST + 1];
  test_random random = {seed};
  sample s = make_joined(&random, code);
  s.program.instructions = s.instructions;
  s.program.outputs = s.outputs;
  cpu_program *program = NULL;
  assert_int_equal(
      cpu_program_prepare(f->device, &s.program, s.inputs, s.dtypes, 1, &s.output, &program),
      COMPUTE_OK);
  const bool one_loop = program->requantize_sum.loops != NULL;
  for (int t = 0; t < 2; t++)
    for (int i = 0; i < MOST; i++)
      input[t][i] = (unsigned char)test_random_integer(&random, 0, 255);
  cpu_scratch scratch;
  const int64_t longest = cpu_min(cpu_program_tile_elements(program), MOST);
  cpu_tile tile = {.count = test_random_integer(&random, 1, coin(&random) ? longest : 300),
                   .input = {input[0], input[1]},
                   .input_stride = {coin(&random), coin(&random)}, /* 0: one byte for all */
                   .output = {output},
                   .output_stride = {1}};
  memset(output, 77, sizeof output);
  memset(expected, 77, sizeof expected);
  cpu_program_run(program, &tile, &scratch, false);
  program->requantize_sum.loops = NULL; /* use the interpreter */
  tile.output[0] = expected;
  cpu_program_run(program, &tile, &scratch, false);
  for (int i = 0; i <= MOST; i++)
    if (output[i] != expected[i])
      fail_msg("%s, code %d, seed %llu: element %d is %d, not %d", f->device->isa->name, code,
               (unsigned long long)seed, i, output[i], expected[i]);
  cpu_program_release(f->device, program);
  return one_loop;
}

static void sums_and_products_of_bytes_give_those_of_the_interpreter(void **state) {
  enum { SEEDS = 400 };
  (void)state;
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    int products = 0;
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
      assert_true(check_joined(&f, seed, COMPUTE_I_ADD));
      products += check_joined(&f, seed, COMPUTE_I_MUL);
    }
    assert_true(products > SEEDS / 3);
    fixture_close(&f);
  }
}

/* Checks all pairs of bytes; returns true if they are added by factors. */
static bool check_pairs(fixture *f, uint64_t seed) {
  enum { BYTES = 256 };
  unsigned char one[BYTES], all[BYTES], output[BYTES], expected[BYTES];
  test_random random = {seed};
  sample s = make_joined(&random, COMPUTE_I_ADD);
  s.program.instructions = s.instructions;
  s.program.outputs = s.outputs;
  cpu_program *program = NULL;
  assert_int_equal(
      cpu_program_prepare(f->device, &s.program, s.inputs, s.dtypes, 1, &s.output, &program),
      COMPUTE_OK);
  const cpu_requantize_sum_table *loops = program->requantize_sum.loops;
  const bool by_factors = program->requantize_sum.factor[0] != 0;
  for (int i = 0; i < BYTES; i++) all[i] = (unsigned char)i;
  cpu_scratch scratch;
  cpu_tile tile = {
      .count = BYTES, .input = {one, all}, .input_stride = {1, 1}, .output_stride = {1}};
  for (int i = 0; i < BYTES; i++) {
    memset(one, i, sizeof one);
    tile.output[0] = output;
    program->requantize_sum.loops = loops;
    cpu_program_run(program, &tile, &scratch, false);
    tile.output[0] = expected;
    program->requantize_sum.loops = NULL; /* use the interpreter */
    cpu_program_run(program, &tile, &scratch, false);
    for (int k = 0; k < BYTES; k++)
      if (output[k] != expected[k])
        fail_msg("%s, sum %llu of %d and %d is %d, not %d", f->device->isa->name,
                 (unsigned long long)seed, i, k, output[k], expected[k]);
  }
  cpu_program_release(f->device, program);
  return by_factors;
}

static void all_pairs_of_bytes_give_those_of_the_interpreter(void **state) {
  enum { SUMS = 60 };
  (void)state;
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    int by_factors = 0;
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    for (uint64_t seed = 1000; seed < 1000 + SUMS; seed++) by_factors += check_pairs(&f, seed);
    if (f.device->isa->vector_bytes >= 32 && strcmp(f.device->isa->name, "rvv") != 0)
      assert_in_range(by_factors, SUMS / 2, SUMS); /* rvv: portable C */
    fixture_close(&f);
  }
}

/* Rounding before the scale, a fractional zero point, two limits in the wrong order, a sum with
 * another use. */
static void other_programs_are_left_to_the_interpreter(void **state) {
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 1, "scalar"));
  for (int kind = 0; kind < 4; kind++) {
    sample s = {.output = COMPUTE_U8};
    uint16_t x = append(&s, COMPUTE_I_CAST, COMPUTE_F32, load(&s, COMPUTE_I32), 0);
    const uint16_t sum = x;
    if (kind == 0) x = append(&s, COMPUTE_I_ROUND, COMPUTE_F32, x, 0);
    if (kind == 2) x = append(&s, COMPUTE_I_MIN, COMPUTE_F32, x, number(&s, 3));
    if (kind == 2) x = append(&s, COMPUTE_I_RELU, COMPUTE_F32, x, 0);
    x = append(&s, COMPUTE_I_MUL, COMPUTE_F32, x, number(&s, 0.5));
    x = append(&s, COMPUTE_I_ROUND, COMPUTE_F32, x, 0);
    if (kind == 1) x = append(&s, COMPUTE_I_ADD, COMPUTE_F32, x, number(&s, 0.5));
    if (kind == 3) x = append(&s, COMPUTE_I_ADD, COMPUTE_F32, x, sum);
    s.outputs[0] = x;
    s.program.output_count = 1;
    s.program.instructions = s.instructions;
    s.program.outputs = s.outputs;
    cpu_program *program = NULL;
    assert_int_equal(
        cpu_program_prepare(f.device, &s.program, s.inputs, s.dtypes, 1, &s.output, &program),
        COMPUTE_OK);
    assert_null(program->requantize.loops);
    cpu_program_release(f.device, program);
  }
  fixture_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_loop_gives_the_bytes_of_the_interpreter),
      cmocka_unit_test(quotients_close_to_half_a_byte_are_rounded_as_such),
      cmocka_unit_test(sums_and_products_of_bytes_give_those_of_the_interpreter),
      cmocka_unit_test(all_pairs_of_bytes_give_those_of_the_interpreter),
      cmocka_unit_test(other_programs_are_left_to_the_interpreter),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
