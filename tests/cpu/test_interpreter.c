/* SPDX-License-Identifier: MIT */
/* Programs over tiles, on every instruction set of the machine, match the double reference
 * element by element. test_math.c tests the transcendental functions. */
#include "kernel_fixture.h"

#include "program/program.h"

/* ---- The reference ------------------------------------------------------------------------- */

/* Evaluates element `index` of a tile. */
static void evaluate(const compute_program *program, const cpu_tile *tile,
                     const compute_dtype *inputs, int64_t index, reference_value *value) {
  for (uint32_t i = 0; i < program->count; i++) {
    const compute_instruction *in = &program->instructions[i];
    const int64_t number = in->immediate.i64;
    if (in->code == COMPUTE_I_LOAD) {
      const int64_t bytes = (int64_t)cpu_dtype_size(inputs[number]);
      value[i] = reference_load(inputs[number], (const unsigned char *)tile->input[number] +
                                                    index * tile->input_stride[number] * bytes);
    } else if (in->code == COMPUTE_I_COORDINATE) {
      value[i].whole = tile->coordinate[number] + (tile->dimension == number ? index : 0);
    } else if (in->code == COMPUTE_I_POSITION) {
      value[i].whole = tile->position + index * tile->position_step;
    } else {
      const reference_value operand[3] = {value[in->a], value[in->b], value[in->c]};
      value[i] = reference_instruction(in, (compute_dtype)program->instructions[in->a].type,
                                       operand, NULL);
    }
  }
}

static bool same_element(compute_dtype dtype, const void *a, const void *b) {
  if (!dtype_is_float(dtype)) return dtype_load_integer(dtype, a) == dtype_load_integer(dtype, b);
  const double x = dtype_load(dtype, a), y = dtype_load(dtype, b);
  return (isnan(x) && isnan(y)) || (x == y && !signbit(x) == !signbit(y));
}

/* ---- Random programs ------------------------------------------------------------------------ */

enum { MOST_INPUTS = 5, MOST_OUTPUTS = 3, MOST_STEPS = 48 };

typedef struct sample {
  compute_instruction instructions[COMPUTE_MAX_INSTRUCTIONS];
  uint16_t outputs[MOST_OUTPUTS];
  compute_dtype input_dtype[MOST_INPUTS], output_dtype[MOST_OUTPUTS];
  uint32_t inputs;
  compute_program program;
} sample;

static const uint8_t real_codes[] = {
    COMPUTE_I_NEG,   COMPUTE_I_ABS,  COMPUTE_I_SIGN,  COMPUTE_I_SQUARE, COMPUTE_I_SQRT,
    COMPUTE_I_FLOOR, COMPUTE_I_CEIL, COMPUTE_I_ROUND, COMPUTE_I_TRUNC,  COMPUTE_I_RECIPROCAL,
    COMPUTE_I_RELU,  COMPUTE_I_ADD,  COMPUTE_I_SUB,   COMPUTE_I_MUL,    COMPUTE_I_DIV,
    COMPUTE_I_MOD,   COMPUTE_I_MIN,  COMPUTE_I_MAX};
static const uint8_t integer_codes[] = {
    COMPUTE_I_NEG,    COMPUTE_I_ABS,    COMPUTE_I_SIGN, COMPUTE_I_SQUARE,  COMPUTE_I_RELU,
    COMPUTE_I_ADD,    COMPUTE_I_SUB,    COMPUTE_I_MUL,  COMPUTE_I_DIV,     COMPUTE_I_MOD,
    COMPUTE_I_POW,    COMPUTE_I_MIN,    COMPUTE_I_MAX,  COMPUTE_I_BIT_NOT, COMPUTE_I_BIT_AND,
    COMPUTE_I_BIT_OR, COMPUTE_I_BIT_XOR};
static const uint8_t truth_codes[] = {COMPUTE_I_NOT, COMPUTE_I_AND, COMPUTE_I_OR,
                                      COMPUTE_I_XOR, COMPUTE_I_MIN, COMPUTE_I_MAX};
static const compute_dtype types[] = {COMPUTE_F64, COMPUTE_F32, COMPUTE_I64, COMPUTE_I32,
                                      COMPUTE_BOOL};

static uint16_t pick(test_random *random, int64_t count) {
  return (uint16_t)test_random_integer(random, 0, count - 1);
}

/* Picks a value of this type among the first `count`; if there is none, appends a cast. */
static uint16_t operand(sample *s, compute_dtype type, test_random *random) {
  const uint32_t count = s->program.count;
  for (int tries = 0; tries < 8; tries++) {
    const uint16_t i = pick(random, count);
    if (s->instructions[i].type == type) return i;
  }
  s->instructions[count] = (compute_instruction){
      .code = COMPUTE_I_CAST, .type = (uint8_t)type, .a = pick(random, count)};
  return (uint16_t)s->program.count++;
}

static void append(sample *s, compute_instruction instruction) {
  s->instructions[s->program.count++] = instruction;
}

static void append_constant(sample *s, test_random *random) {
  static const double values[] = {0, -0.0, 1, -1, 0.5, -2.5, 3, 1e30, -1e-30, 255, 65536};
  const compute_dtype type = types[pick(random, 5)];
  compute_instruction c = {.code = COMPUTE_I_CONSTANT, .type = (uint8_t)type};
  if (reference_is_float(type))
    c.immediate.f64 = values[pick(random, 11)];
  else
    c.immediate.i64 = test_random_integer(random, -3, 3);
  append(s, c);
}

static void append_step(sample *s, test_random *random) {
  const compute_dtype type = types[pick(random, 5)];
  compute_instruction in = {.type = (uint8_t)type};
  const int64_t kind = test_random_integer(random, 0, 9);
  if (kind == 0) {
    append_constant(s, random);
    return;
  }
  if (kind <= 2) { /* select */
    in.code = COMPUTE_I_SELECT;
    in.a = operand(s, COMPUTE_BOOL, random);
    in.b = operand(s, type, random);
    in.c = operand(s, type, random);
  } else if (kind <= 4) { /* comparison, or a test of a float */
    const bool question = reference_is_float(type) && pick(random, 3) == 0;
    in.code =
        (uint8_t)(question ? COMPUTE_I_IS_NAN + pick(random, 2) : COMPUTE_I_EQ + pick(random, 6));
    in.type = COMPUTE_BOOL;
    in.a = operand(s, type, random);
    in.b = operand(s, type, random);
  } else {
    in.code = reference_is_float(type) ? real_codes[pick(random, sizeof real_codes)]
              : type == COMPUTE_BOOL   ? truth_codes[pick(random, sizeof truth_codes)]
                                       : integer_codes[pick(random, sizeof integer_codes)];
    in.a = operand(s, type, random);
    in.b = operand(s, type, random);
  }
  append(s, in);
}

static sample make_sample(test_random *random) {
  sample s = {.inputs = 1u + pick(random, MOST_INPUTS)};
  for (uint32_t i = 0; i < s.inputs; i++) {
    s.input_dtype[i] =
        (compute_dtype)test_random_integer(random, COMPUTE_F64, COMPUTE_DTYPE_COUNT - 1);
    append(&s, (compute_instruction){.code = COMPUTE_I_LOAD,
                                     .type = (uint8_t)dtype_compute_type(s.input_dtype[i]),
                                     .immediate.i64 = i});
  }
  for (int64_t n = test_random_integer(random, 0, MOST_STEPS); n > 0; n--) append_step(&s, random);
  s.program.output_count = 1u + pick(random, MOST_OUTPUTS);
  for (uint32_t k = 0; k < s.program.output_count; k++) {
    s.outputs[k] = pick(random, s.program.count);
    s.output_dtype[k] =
        (compute_dtype)test_random_integer(random, COMPUTE_F64, COMPUTE_DTYPE_COUNT - 1);
    if (pick(random, 2)) /* most stores need no conversion */
      s.output_dtype[k] = (compute_dtype)s.instructions[s.outputs[k]].type;
  }
  return s;
}

/* Fills elements with all kinds of numbers, often special ones. */
static void fill_elements(block *b, test_random *random) {
  static const double special[] = {0,    -0.0,  NAN,   INFINITY, -INFINITY,  1,     -1,    0.5,
                                   -0.5, 1.5,   2.5,   1e-40,    -1e-310,    65504, 65519, 65520,
                                   3e38, -3e38, 1e300, 256.001,  2147483648, -2e9,  9e18,  1e19};
  for (int64_t i = 0; i < b->elements; i++) {
    unsigned char *element = block_data(b) + i * (int64_t)cpu_dtype_size(b->dtype);
    const int64_t kind = test_random_integer(random, 0, 5);
    if (b->dtype == COMPUTE_I64 && kind <= 2)
      dtype_store_integer(b->dtype, element, (int64_t)test_random_bits(random) >> pick(random, 60));
    else if (kind == 0)
      dtype_store(b->dtype, element, special[pick(random, sizeof special / sizeof special[0])]);
    else
      dtype_store(b->dtype, element, test_random_uniform(random, -300, 300));
  }
}

/* A tile's operands and their expected contents. */
typedef struct tile_case {
  block input[MOST_INPUTS], output[MOST_OUTPUTS];
  int32_t shares[MOST_OUTPUTS]; /* the overwritten input of each output, or −1 */
  unsigned char *expected[MOST_OUTPUTS];
  cpu_tile tile;
} tile_case;

static int32_t shareable_input(const sample *s, const tile_case *c, uint32_t output) {
  for (uint32_t i = 0; i < s->inputs; i++) {
    bool taken = s->input_dtype[i] != s->output_dtype[output] || c->input[i].stride[0] == 0;
    for (uint32_t k = 0; k < output; k++) taken |= c->shares[k] == (int32_t)i;
    if (!taken) return (int32_t)i;
  }
  return -1;
}

static void open_case(const sample *s, int64_t count, test_random *random, tile_case *c) {
  static const int64_t strides[] = {1, 1, 1, 0, 2, 3};
  *c = (tile_case){.tile = {.count = count, .dimension = 1, .position = 5, .position_step = 2}};
  c->tile.coordinate[0] = 7;
  c->tile.coordinate[1] = 100;
  for (uint32_t i = 0; i < s->inputs; i++) {
    const int64_t stride = strides[pick(random, 6)];
    c->input[i] = block_create(s->input_dtype[i], 1, &count, &stride);
    fill_elements(&c->input[i], random);
    c->tile.input[i] = block_data(&c->input[i]);
    c->tile.input_stride[i] = stride;
  }
  for (uint32_t k = 0; k < s->program.output_count; k++) {
    const int64_t stride = pick(random, 4) ? 1 : 2;
    c->shares[k] = pick(random, 2) ? shareable_input(s, c, k) : -1;
    c->output[k] = block_create(s->output_dtype[k], 1, &count, &stride);
    c->tile.output[k] = block_data(&c->output[k]);
    c->tile.output_stride[k] = stride;
    if (c->shares[k] >= 0) {
      c->tile.output[k] = block_data(&c->input[c->shares[k]]);
      c->tile.output_stride[k] = c->input[c->shares[k]].stride[0];
    }
    c->expected[k] = calloc((size_t)count, cpu_dtype_size(s->output_dtype[k]));
    assert_non_null(c->expected[k]);
  }
}

static void close_case(const sample *s, tile_case *c) {
  for (uint32_t i = 0; i < s->inputs; i++) block_release(&c->input[i]);
  for (uint32_t k = 0; k < s->program.output_count; k++) {
    block_check_guards(&c->output[k]);
    block_release(&c->output[k]);
    free(c->expected[k]);
  }
}

static void expect_case(const sample *s, tile_case *c) {
  reference_value value[COMPUTE_MAX_INSTRUCTIONS] = {{0}};
  for (int64_t i = 0; i < c->tile.count; i++) {
    evaluate(&s->program, &c->tile, s->input_dtype, i, value);
    for (uint32_t k = 0; k < s->program.output_count; k++)
      reference_store(s->output_dtype[k],
                      c->expected[k] + i * (int64_t)cpu_dtype_size(s->output_dtype[k]),
                      (compute_dtype)s->instructions[s->outputs[k]].type, value[s->outputs[k]]);
  }
}

static void check_case(const sample *s, const tile_case *c, const char *isa, uint64_t number) {
  for (uint32_t k = 0; k < s->program.output_count; k++) {
    const int64_t bytes = (int64_t)cpu_dtype_size(s->output_dtype[k]);
    for (int64_t i = 0; i < c->tile.count; i++) {
      const unsigned char *actual =
          (const unsigned char *)c->tile.output[k] + i * c->tile.output_stride[k] * bytes;
      if (!same_element(s->output_dtype[k], actual, c->expected[k] + i * bytes))
        fail_msg("%s, program %llu: output %u (dtype %d) element %lld is %.17g, not %.17g", isa,
                 (unsigned long long)number, k, s->output_dtype[k], (long long)i,
                 dtype_load(s->output_dtype[k], actual),
                 dtype_load(s->output_dtype[k], c->expected[k] + i * bytes));
    }
  }
}

static void run_sample(fixture *f, sample *s, const char *isa, uint64_t number,
                       test_random *random) {
  cpu_program *program = NULL;
  cpu_scratch scratch;
  tile_case c;
  s->program.instructions = s->instructions;
  s->program.outputs = s->outputs;
  assert_int_equal(cpu_program_prepare(f->device, &s->program, s->inputs, s->input_dtype,
                                       s->program.output_count, s->output_dtype, &program),
                   COMPUTE_OK);
  const int64_t most = cpu_program_tile_elements(program);
  assert_true(most >= 64 && most % 64 == 0);
  for (int n = 0; n < 4; n++) {
    const int64_t count = test_random_integer(random, 1, n == 0 ? most : 70);
    open_case(s, count, random, &c);
    expect_case(s, &c);
    cpu_program_run(program, &c.tile, &scratch, n & 1);
    cpu_stream_fence();
    check_case(s, &c, isa, number);
    close_case(s, &c);
  }
  cpu_program_release(f->device, program);
}

/* Combines conversions, strides, repeated elements and results that overwrite inputs. */
static void random_programs_match_the_reference(void **state) {
  (void)state;
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    for (uint64_t number = 0; number < 3000; number++) {
      test_random random = {number};
      sample s = make_sample(&random);
      run_sample(&f, &s, fixture_sets[set], number, &random);
    }
    fixture_close(&f);
  }
}

/* ---- Programs of bytes ----------------------------------------------------------------------- */

static const uint8_t byte_codes[] = {COMPUTE_I_NEG,     COMPUTE_I_SQUARE, COMPUTE_I_ADD,
                                     COMPUTE_I_SUB,     COMPUTE_I_MUL,    COMPUTE_I_BIT_NOT,
                                     COMPUTE_I_BIT_AND, COMPUTE_I_BIT_OR, COMPUTE_I_BIT_XOR,
                                     COMPUTE_I_MIN,     COMPUTE_I_MAX};

/* Only truth values and integers; with one input, `real` adds functions of floats. */
static sample make_byte_sample(bool real, test_random *random) {
  static const compute_dtype dtypes[] = {COMPUTE_BOOL, COMPUTE_U8, COMPUTE_I8};
  sample s = {.inputs = real ? 1 : 1u + pick(random, MOST_INPUTS)};
  for (uint32_t i = 0; i < s.inputs; i++) {
    s.input_dtype[i] = dtypes[pick(random, 3)];
    append(&s, (compute_instruction){.code = COMPUTE_I_LOAD,
                                     .type = (uint8_t)dtype_compute_type(s.input_dtype[i]),
                                     .immediate.i64 = i});
  }
  for (int64_t n = test_random_integer(random, 1, 6); n > 0; n--) {
    const bool truth = pick(random, 2);
    const compute_dtype type = truth ? COMPUTE_BOOL : COMPUTE_I32;
    compute_instruction in = {.type = (uint8_t)type};
    const uint16_t kind = pick(random, 8);
    if (kind == 0 && real) {
      append_step(&s, random);
      continue;
    }
    if (kind == 1) {
      in.code = COMPUTE_I_CONSTANT;
      in.immediate.i64 = truth ? pick(random, 2) : test_random_integer(random, -200, 400);
    } else if (kind == 2) {
      in.code = COMPUTE_I_SELECT;
      in.a = operand(&s, COMPUTE_BOOL, random);
      in.b = operand(&s, type, random);
      in.c = operand(&s, type, random);
    } else if (kind == 3) {
      in.code = (uint8_t)(COMPUTE_I_EQ + pick(random, 6));
      in.type = COMPUTE_BOOL;
      in.a = operand(&s, type, random);
      in.b = operand(&s, type, random);
    } else {
      in.code = truth ? truth_codes[pick(random, sizeof truth_codes)]
                      : byte_codes[pick(random, sizeof byte_codes)];
      in.a = operand(&s, type, random);
      in.b = operand(&s, type, random);
    }
    append(&s, in);
  }
  s.program.output_count = real ? 1 : 1u + pick(random, MOST_OUTPUTS);
  for (uint32_t k = 0; k < s.program.output_count; k++) {
    s.outputs[k] = (uint16_t)(s.program.count - 1u - pick(random, cpu_min(3, s.program.count)));
    const bool truth = s.instructions[s.outputs[k]].type == COMPUTE_BOOL;
    s.output_dtype[k] = truth && pick(random, 8) ? COMPUTE_BOOL : dtypes[1 + pick(random, 2)];
  }
  return s;
}

static void count_byte_programs(fixture *f, const sample *s, int *narrow, int *tables) {
  cpu_program *program = NULL;
  const compute_program p = {s->program.count, s->program.output_count, s->instructions,
                             s->outputs};
  assert_int_equal(cpu_program_prepare(f->device, &p, s->inputs, s->input_dtype, p.output_count,
                                       s->output_dtype, &program),
                   COMPUTE_OK);
  *narrow += program->one_byte;
  *tables += program->table_input >= 0;
  cpu_program_release(f->device, program);
}

static void programs_of_bytes_match_the_reference(void **state) {
  enum { SAMPLES = 1500 };
  (void)state;
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    int narrow = 0, tables = 0;
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    for (uint64_t number = 0; number < SAMPLES; number++) {
      test_random random = {number};
      sample s = make_byte_sample(number % 3 == 0, &random);
      run_sample(&f, &s, fixture_sets[set], number, &random);
      count_byte_programs(&f, &s, &narrow, &tables);
    }
    assert_true(narrow > SAMPLES / 3 && tables > SAMPLES / 6);
    fixture_close(&f);
  }
}

/* A byte other than 0 and 1 is true, and every result is 0 or 1. */
static void every_byte_but_0_is_true(void **state) {
  enum { COUNT = 256 };
  (void)state;
  const compute_dtype dtypes[] = {COMPUTE_BOOL, COMPUTE_BOOL};
  const uint16_t output = 2;
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    for (size_t n = 0; n < sizeof truth_codes; n++) {
      const compute_instruction instructions[] = {
          {.code = COMPUTE_I_LOAD, .type = COMPUTE_BOOL, .immediate.i64 = 0},
          {.code = COMPUTE_I_LOAD, .type = COMPUTE_BOOL, .immediate.i64 = 1},
          {.code = truth_codes[n], .type = COMPUTE_BOOL, .a = 0, .b = 1}};
      const compute_program program = {3, 1, instructions, &output};
      unsigned char x[COUNT], y[COUNT], result[COUNT];
      for (int i = 0; i < COUNT; i++) {
        x[i] = (unsigned char)i;
        y[i] = (unsigned char)(i / 2 % 3 * 85);
      }
      const cpu_tile tile = {.count = COUNT,
                             .input = {x, y},
                             .input_stride = {1, 1},
                             .output = {result},
                             .output_stride = {1}};
      cpu_program *prepared;
      cpu_scratch scratch;
      assert_int_equal(cpu_program_prepare(f.device, &program, 2, dtypes, 1, dtypes, &prepared),
                       COMPUTE_OK);
      cpu_program_run(prepared, &tile, &scratch, false);
      for (int i = 0; i < COUNT; i++) {
        const reference_value operand[3] = {{.whole = x[i] != 0}, {.whole = y[i] != 0}};
        const reference_value value =
            reference_instruction(&instructions[2], COMPUTE_BOOL, operand, NULL);
        assert_int_equal(result[i], value.whole);
      }
      cpu_program_release(f.device, prepared);
    }
    fixture_close(&f);
  }
}

/* ---- Special programs ---------------------------------------------------------------------- */

/* The maximum of wide values alive at once: more registers than a tile of 64 can hold. */
static void very_many_live_values_are_kept_apart(void **state) {
  enum { LIVE = 128 };
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 1, "scalar"));
  static sample s;
  test_random random = {3};
  s = (sample){.inputs = 1, .input_dtype = {COMPUTE_F64}, .output_dtype = {COMPUTE_F64}};
  append(&s, (compute_instruction){.code = COMPUTE_I_LOAD, .type = COMPUTE_F64});
  for (uint16_t i = 0; i < LIVE; i++)
    append(&s, (compute_instruction){.code = COMPUTE_I_SUB, .type = COMPUTE_F64, .b = i});
  for (uint16_t i = LIVE; i > 1; i--)
    append(&s, (compute_instruction){.code = i % 2 ? COMPUTE_I_ADD : COMPUTE_I_MAX,
                                     .type = COMPUTE_F64,
                                     .a = i == LIVE ? LIVE : (uint16_t)(s.program.count - 1),
                                     .b = (uint16_t)(i - 1)});
  s.outputs[0] = (uint16_t)(s.program.count - 1);
  s.program.output_count = 1;
  run_sample(&f, &s, "scalar", 0, &random);
  fixture_close(&f);
}

/* out0 = in1 and out1 = in0, in place. */
static void outputs_may_exchange_inputs(void **state) {
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 1, NULL));
  const compute_instruction instructions[] = {
      {.code = COMPUTE_I_LOAD, .type = COMPUTE_F32, .immediate.i64 = 0},
      {.code = COMPUTE_I_LOAD, .type = COMPUTE_F32, .immediate.i64 = 1}};
  const uint16_t outputs[] = {1, 0};
  const compute_program program = {2, 2, instructions, outputs};
  const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F32};
  cpu_program *prepared;
  assert_int_equal(cpu_program_prepare(f.device, &program, 2, dtypes, 2, dtypes, &prepared),
                   COMPUTE_OK);
  float a[50], b[50];
  for (int i = 0; i < 50; i++) a[i] = (float)i, b[i] = (float)-i;
  const cpu_tile tile = {.count = 50,
                         .input = {a, b},
                         .input_stride = {1, 1},
                         .output = {a, b},
                         .output_stride = {1, 1}};
  cpu_scratch scratch;
  cpu_program_run(prepared, &tile, &scratch, false);
  for (int i = 0; i < 50; i++) assert_true(a[i] == (float)-i && b[i] == (float)i);
  cpu_program_release(f.device, prepared);
  fixture_close(&f);
}

static void positions_and_coordinates_count_along_the_tile(void **state) {
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 1, NULL));
  static sample s;
  test_random random = {4};
  s = (sample){.inputs = 1, .input_dtype = {COMPUTE_U8}};
  append(&s, (compute_instruction){.code = COMPUTE_I_POSITION, .type = COMPUTE_I64});
  for (int64_t d = 0; d < 2; d++)
    append(&s, (compute_instruction){
                   .code = COMPUTE_I_COORDINATE, .type = COMPUTE_I64, .immediate.i64 = d});
  s.program.output_count = 3;
  for (uint16_t k = 0; k < 3; k++) {
    s.outputs[k] = k;
    s.output_dtype[k] = COMPUTE_I64;
  }
  run_sample(&f, &s, "best", 0, &random);
  fixture_close(&f);
}

/* The published test vector of the generator for key 0 and counter 0. */
static void random_numbers_are_philox(void **state) {
  (void)state;
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    for (int wide = 0; wide < 2; wide++) {
      const uint8_t type = wide ? COMPUTE_F64 : COMPUTE_F32;
      const compute_instruction instructions[] = {
          {.code = COMPUTE_I_CONSTANT, .type = COMPUTE_I64},
          {.code = COMPUTE_I_LOAD, .type = COMPUTE_I64},
          {.code = COMPUTE_I_RANDOM, .type = type, .a = 0, .b = 1}};
      const uint16_t output = 2;
      const compute_program program = {3, 1, instructions, &output};
      const compute_dtype input = COMPUTE_I64, result = (compute_dtype)type;
      cpu_program *prepared;
      assert_int_equal(cpu_program_prepare(f.device, &program, 1, &input, 1, &result, &prepared),
                       COMPUTE_OK);
      const int64_t counters[64] = {0};
      double actual[64];
      const cpu_tile tile = {.count = 64,
                             .input = {counters},
                             .input_stride = {1},
                             .output = {actual},
                             .output_stride = {1}};
      cpu_scratch scratch;
      cpu_program_run(prepared, &tile, &scratch, false);
      const double f32 = (double)(0x6627e8d5u >> 8) * 0x1p-24;
      const double f64 = (double)((0xe169c58dull << 32 | 0x6627e8d5u) >> 11) * 0x1p-53;
      for (int i = 0; i < 64; i++)
        assert_true(wide ? actual[i] == f64 : (double)((float *)actual)[i] == f32);
      cpu_program_release(f.device, prepared);
    }
    fixture_close(&f);
  }
}

static void no_program_means_the_input_itself(void **state) {
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 1, NULL));
  const compute_program none = {0};
  const compute_dtype from = COMPUTE_F32, to[] = {COMPUTE_F32, COMPUTE_I64};
  for (int i = 0; i < 2; i++) {
    cpu_program *prepared;
    assert_int_equal(cpu_program_prepare(f.device, &none, 1, &from, 1, &to[i], &prepared),
                     COMPUTE_OK);
    assert_int_equal(cpu_program_is_identity(prepared), i == 0);
    cpu_program_release(f.device, prepared);
  }
  fixture_close(&f);
}

static void an_instruction_without_a_loop_is_refused(void **state) {
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 1, NULL));
  const compute_instruction instructions[] = {{.code = COMPUTE_I_LOAD, .type = COMPUTE_I32},
                                              {.code = COMPUTE_I_EXP, .type = COMPUTE_I32}};
  const uint16_t output = 1;
  const compute_program program = {2, 1, instructions, &output};
  const compute_dtype dtype = COMPUTE_I32;
  cpu_program *prepared = NULL;
  assert_int_equal(cpu_program_prepare(f.device, &program, 1, &dtype, 1, &dtype, &prepared),
                   COMPUTE_ERROR_UNSUPPORTED);
  assert_null(prepared);
  assert_true(strlen(f.message) > 0);
  fixture_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_programs_match_the_reference),
      cmocka_unit_test(programs_of_bytes_match_the_reference),
      cmocka_unit_test(every_byte_but_0_is_true),
      cmocka_unit_test(very_many_live_values_are_kept_apart),
      cmocka_unit_test(outputs_may_exchange_inputs),
      cmocka_unit_test(positions_and_coordinates_count_along_the_tile),
      cmocka_unit_test(random_numbers_are_philox),
      cmocka_unit_test(no_program_means_the_input_itself),
      cmocka_unit_test(an_instruction_without_a_loop_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
