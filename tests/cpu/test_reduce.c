/* SPDX-License-Identifier: MIT */
/* REDUCE on the CPU matches the double reference, over layouts, types, instruction sets
 * and numbers of threads. */
#include "kernel_fixture.h"

static const char *const combine_names[] = {"sum", "prod", "max", "min", "argmax", "argmin"};

typedef struct sample {
  compute_dtype input, accumulate, output;
  compute_combine combine;
  int32_t kept_rank, rank;
  int64_t size[COMPUTE_MAX_RANK];
} sample;

static bool is_search(compute_combine c) {
  return c == COMPUTE_COMBINE_ARGMAX || c == COMPUTE_COMBINE_ARGMIN;
}

static allowed_error allowed_of(const sample *s) {
  int64_t count = 1;
  for (int32_t d = s->kept_rank; d < s->rank; d++) count *= s->size[d];
  if (s->combine == COMPUTE_COMBINE_SUM) return (allowed_error){.relative = 1, .terms = 48};
  if (s->combine == COMPUTE_COMBINE_PROD) return (allowed_error){.relative = 48 * (double)count};
  return (allowed_error){0};
}

static compute_kernel_descriptor describe(const sample *s, compute_operand *in,
                                          compute_operand *out) {
  static compute_reduce_attributes attributes; /* for one descriptor at a time */
  attributes = (compute_reduce_attributes){.kept_rank = s->kept_rank, .combine = s->combine};
  compute_kernel_descriptor k = {
      .struct_size = sizeof k,
      .kind = COMPUTE_KERNEL_REDUCE,
      .rank = s->rank,
      .input_count = 1,
      .output_count = 1,
      .inputs = in,
      .outputs = out,
      .prologue_inputs = 1,
      .accumulate = s->accumulate,
      .attributes = &attributes,
      .attribute_bytes = sizeof attributes,
  };
  memcpy(k.size, s->size, sizeof k.size);
  return k;
}

/* Runs a sample on blocks with these input strides and dense or random output strides. */
static void run_sample(fixture *f, const sample *s, const int64_t *strides, double low, double high,
                       test_random *random) {
  block input = block_create(s->input, s->rank, s->size, strides);
  int64_t out_strides[COMPUTE_MAX_RANK] = {0};
  random_strides(s->kept_rank, s->size, 0, random, out_strides);
  block output = block_create(s->output, s->kept_rank, s->size, out_strides);
  block_fill(&input, low, high, random);
  compute_operand in = operand_of(&input, s->rank), out = operand_of(&output, s->rank);
  const compute_kernel_descriptor k = describe(s, &in, &out);
  run_and_check(f, &cpu_reduce_kind, &k, (block *[]){&input, &output}, allowed_of(s));
  block_release(&input);
  block_release(&output);
}

/* ---- Promises ------------------------------------------------------------------------------ */

static const struct {
  compute_dtype input, accumulate;
} types[] = {
    {COMPUTE_F32, COMPUTE_F32}, {COMPUTE_F64, COMPUTE_F64},   {COMPUTE_F16, COMPUTE_F32},
    {COMPUTE_I32, COMPUTE_I32}, {COMPUTE_I64, COMPUTE_I64},   {COMPUTE_BF16, COMPUTE_F32},
    {COMPUTE_U8, COMPUTE_I32},  {COMPUTE_BOOL, COMPUTE_BOOL}, {COMPUTE_F32, COMPUTE_F64},
    {COMPUTE_U16, COMPUTE_I32}, {COMPUTE_I8, COMPUTE_I32},    {COMPUTE_I16, COMPUTE_I32},
    {COMPUTE_U32, COMPUTE_I64},
};

static bool is_unsigned(compute_dtype dtype) {
  return test_is_unsigned(dtype);
}

static sample random_sample(test_random *random) {
  /* The tenth choice alternates among the types that were added later, so that the other draws stay
   * unchanged. */
  static size_t turn;
  size_t t = (size_t)test_random_integer(random, 0, 9);
  if (t == 9) t += turn++ % (sizeof types / sizeof *types - 9);
  sample s = {.input = types[t].input, .accumulate = types[t].accumulate};
  s.combine = (compute_combine)test_random_integer(random, 0, 5);
  if (s.accumulate == COMPUTE_BOOL) s.combine = (compute_combine)test_random_integer(random, 2, 3);
  /* A sum of narrow integers wraps if stored as such; this test avoids that. */
  s.output = is_search(s.combine) ? COMPUTE_I64 : dtype_is_narrow(s.input) ? s.accumulate : s.input;
  s.rank = (int32_t)test_random_integer(random, 1, 5);
  s.kept_rank = (int32_t)test_random_integer(random, 0, s.rank);
  for (int32_t d = 0; d < s.rank; d++) s.size[d] = test_random_integer(random, 1, 6);
  const int32_t grown = (int32_t)test_random_integer(random, 0, s.rank - 1);
  s.size[grown] = test_random_integer(random, 1, s.rank > 3 ? 70 : 400);
  if (s.rank < 3) s.size[0] = test_random_integer(random, 1, 300);
  return s;
}

static void every_layout_agrees_with_the_reference(void **state) {
  (void)state;
  for (int i = 0; fixture_sets[i]; i++)
    for (int32_t threads = 1; threads <= 3; threads += 2) {
      fixture f;
      test_random random = {.state = 17};
      if (!fixture_open(&f, threads, fixture_sets[i])) continue;
      for (int trial = 0; trial < 400; trial++) {
        const sample s = random_sample(&random);
        int64_t strides[COMPUTE_MAX_RANK];
        const uint32_t repeat =
            test_random_integer(&random, 0, 5) ? 0 : (uint32_t)test_random_bits(&random);
        random_strides(s.rank, s.size, repeat, &random, strides);
        const bool product = s.combine == COMPUTE_COMBINE_PROD && dtype_is_float(s.accumulate);
        const bool whole = s.combine == COMPUTE_COMBINE_PROD && !product;
        run_sample(&f, &s, strides,
                   product                ? 0.98
                   : whole                ? 1
                   : is_unsigned(s.input) ? 0
                                          : -2,
                   product ? 1.02
                   : whole ? 2
                           : 2,
                   &random);
      }
      fixture_close(&f);
    }
}

static void large_reductions_agree_in_every_direction(void **state) {
  (void)state;
  static const sample samples[] = {
      {COMPUTE_F32, COMPUTE_F32, COMPUTE_F32, COMPUTE_COMBINE_SUM, 0, 1, {300007}},
      {COMPUTE_F32, COMPUTE_F32, COMPUTE_F32, COMPUTE_COMBINE_SUM, 1, 2, {3, 100003}},
      {COMPUTE_F32, COMPUTE_F32, COMPUTE_F32, COMPUTE_COMBINE_MAX, 1, 2, {1999, 130}},
      {COMPUTE_F32, COMPUTE_F32, COMPUTE_F32, COMPUTE_COMBINE_SUM, 1, 2, {70001, 5}},
      {COMPUTE_F64, COMPUTE_F64, COMPUTE_F64, COMPUTE_COMBINE_MIN, 1, 2, {7, 40009}},
      {COMPUTE_I32, COMPUTE_I32, COMPUTE_I64, COMPUTE_COMBINE_ARGMAX, 1, 2, {5, 70001}},
      {COMPUTE_F32, COMPUTE_F32, COMPUTE_I64, COMPUTE_COMBINE_ARGMIN, 0, 2, {300, 1001}},
      /* Columns of more lines than a chunk and a panel have, with equal elements. */
      {COMPUTE_I8, COMPUTE_I32, COMPUTE_I64, COMPUTE_COMBINE_ARGMAX, 1, 2, {700, 61}},
      {COMPUTE_I8, COMPUTE_I32, COMPUTE_I64, COMPUTE_COMBINE_ARGMIN, 1, 2, {70, 2500}},
      {COMPUTE_F16, COMPUTE_F32, COMPUTE_I64, COMPUTE_COMBINE_ARGMIN, 1, 2, {1300, 40}},
      {COMPUTE_F32, COMPUTE_F32, COMPUTE_I64, COMPUTE_COMBINE_ARGMAX, 1, 2, {90, 2500}},
      {COMPUTE_F16, COMPUTE_F32, COMPUTE_F32, COMPUTE_COMBINE_SUM, 2, 3, {3, 1500, 50}},
      {COMPUTE_BF16, COMPUTE_F32, COMPUTE_F32, COMPUTE_COMBINE_SUM, 1, 3, {11, 17, 1600}},
  };
  for (int i = 0; fixture_sets[i]; i++) {
    fixture f;
    test_random random = {.state = 5};
    if (!fixture_open(&f, 3, fixture_sets[i])) continue;
    for (size_t n = 0; n < sizeof samples / sizeof samples[0]; n++) {
      const sample *s = &samples[n];
      /* With row-major strides, and with the dimensions in reverse order. */
      int64_t forward[COMPUTE_MAX_RANK], backward[COMPUTE_MAX_RANK], a = 1, b = 1;
      for (int32_t d = 0; d < s->rank; d++) {
        backward[d] = b;
        b *= s->size[d];
        forward[s->rank - 1 - d] = a;
        a *= s->size[s->rank - 1 - d];
      }
      run_sample(&f, s, forward, -1, 1, &random);
      run_sample(&f, s, backward, -1, 1, &random);
    }
    fixture_close(&f);
  }
}

/* A running sum drifts most for equal positive numbers. */
static void long_sums_lose_only_a_few_roundings(void **state) {
  (void)state;
  static const int64_t shapes[][2] = {{1 << 21, 1}, {1 << 19, 3}, {1 << 15, 40}};
  for (int i = 0; fixture_sets[i]; i++) {
    fixture f;
    if (!fixture_open(&f, 1, fixture_sets[i])) continue;
    for (size_t n = 0; n < 3; n++) {
      /* Kept: the columns; reduced: the rows. */
      const sample s = {COMPUTE_F32,
                        COMPUTE_F32,
                        COMPUTE_F32,
                        COMPUTE_COMBINE_SUM,
                        1,
                        2,
                        {shapes[n][1], shapes[n][0]}};
      const int64_t strides[] = {1, shapes[n][1]}, one[] = {1};
      block input = block_create(COMPUTE_F32, 2, s.size, strides);
      block output = block_create(COMPUTE_F32, 1, s.size, one);
      for (int64_t e = 0; e < input.elements; e++) block_set(&input, e, 0.1);
      compute_operand in = operand_of(&input, 2), out = operand_of(&output, 2);
      const compute_kernel_descriptor k = describe(&s, &in, &out);
      assert_int_equal(run_kernel(&f, &cpu_reduce_kind, &k, (block *[]){&input, &output}),
                       COMPUTE_OK);
      const double expected = (double)0.1f * (double)shapes[n][0];
      for (int64_t c = 0; c < s.size[0]; c++)
        assert_true(fabs(block_get(&output, c) - expected) <= 16 * 0x1p-24 * expected);
      block_release(&input);
      block_release(&output);
    }
    fixture_close(&f);
  }
}

/* One row of 5000 and 40 columns of 5000, with special values at two places. */
static void check_specials(fixture *f, compute_combine combine, double first, double second,
                           double expected) {
  for (int columns = 0; columns < 2; columns++) {
    const sample s = {COMPUTE_F32, COMPUTE_F32, is_search(combine) ? COMPUTE_I64 : COMPUTE_F32,
                      combine,     1,           2,
                      {40, 5000}};
    const int64_t strides[] = {columns ? 1 : 5000, columns ? 40 : 1}, one[] = {1};
    block input = block_create(COMPUTE_F32, 2, s.size, strides);
    block output = block_create(s.output, 1, s.size, one);
    for (int64_t e = 0; e < input.elements; e++) block_set(&input, e, 0.5);
    for (int64_t c = 0; c < 40; c++) {
      block_set(&input, block_at(&input, (int64_t[]){c, 1234}), first);
      block_set(&input, block_at(&input, (int64_t[]){c, 4321}), second);
    }
    compute_operand in = operand_of(&input, 2), out = operand_of(&output, 2);
    const compute_kernel_descriptor k = describe(&s, &in, &out);
    assert_int_equal(run_kernel(f, &cpu_reduce_kind, &k, (block *[]){&input, &output}), COMPUTE_OK);
    for (int64_t c = 0; c < 40; c++) {
      const double actual = block_get(&output, c);
      if (!(actual == expected || (isnan(actual) && isnan(expected))))
        fail_msg("%s %s: %g instead of %g", f->isa, combine_names[combine], actual, expected);
    }
    block_release(&input);
    block_release(&output);
  }
}

static void nan_is_every_extremum_and_the_first_place_wins(void **state) {
  (void)state;
  for (int i = 0; fixture_sets[i]; i++) {
    fixture f;
    if (!fixture_open(&f, 2, fixture_sets[i])) continue;
    check_specials(&f, COMPUTE_COMBINE_MAX, NAN, 7, NAN);
    check_specials(&f, COMPUTE_COMBINE_MAX, 7, NAN, NAN);
    check_specials(&f, COMPUTE_COMBINE_MIN, NAN, -7, NAN);
    check_specials(&f, COMPUTE_COMBINE_MIN, -INFINITY, -7, -INFINITY);
    check_specials(&f, COMPUTE_COMBINE_SUM, INFINITY, 1, INFINITY);
    check_specials(&f, COMPUTE_COMBINE_SUM, INFINITY, -INFINITY, NAN);
    check_specials(&f, COMPUTE_COMBINE_ARGMAX, NAN, NAN, 1234);
    check_specials(&f, COMPUTE_COMBINE_ARGMAX, INFINITY, NAN, 4321);
    check_specials(&f, COMPUTE_COMBINE_ARGMAX, 9, 9, 1234);
    check_specials(&f, COMPUTE_COMBINE_ARGMAX, 0.5, 0.5, 0);
    check_specials(&f, COMPUTE_COMBINE_ARGMIN, -1, -2, 4321);
    check_specials(&f, COMPUTE_COMBINE_ARGMIN, -2, -2, 1234);
    fixture_close(&f);
  }
}

static void nothing_reduced_gives_the_identity(void **state) {
  (void)state;
  fixture f;
  test_random random = {.state = 3};
  assert_true(fixture_open(&f, 2, NULL));
  for (int c = 0; c < 6; c++)
    for (size_t t = 0; t < 9; t++) {
      if (types[t].accumulate == COMPUTE_BOOL && (c < 2 || c > 3)) continue;
      /* F64 represents every identity except in I64, where both are equal as doubles. */
      sample s = {types[t].input, types[t].accumulate, COMPUTE_F64, (compute_combine)c, 2, 4,
                  {3, 5, 4, 0}};
      const int64_t strides[] = {20, 4, 1, 1};
      run_sample(&f, &s, strides, 0, 1, &random);
      s.size[0] = 0;
      s.size[3] = 2;
      run_sample(&f, &s, strides, 0, 1, &random);
    }
  fixture_close(&f);
}

static void scalars_and_full_rank_work(void **state) {
  (void)state;
  fixture f;
  test_random random = {.state = 4};
  assert_true(fixture_open(&f, 2, NULL));
  const sample nothing = {COMPUTE_F32, COMPUTE_F32, COMPUTE_F32, COMPUTE_COMBINE_SUM, 0, 0, {0}};
  run_sample(&f, &nothing, (int64_t[]){0}, -1, 1, &random);
  for (int32_t kept = 0; kept <= 8; kept++) {
    const sample s = {COMPUTE_F32,
                      COMPUTE_F32,
                      COMPUTE_F32,
                      COMPUTE_COMBINE_SUM,
                      kept,
                      8,
                      {2, 3, 2, 1, 3, 2, 2, 3}};
    int64_t strides[COMPUTE_MAX_RANK];
    for (int trial = 0; trial < 20; trial++) {
      random_strides(8, s.size, trial % 4 ? 0 : 0x24, &random, strides);
      run_sample(&f, &s, strides, -1, 1, &random);
    }
  }
  fixture_close(&f);
}

static void integer_sums_wrap(void **state) {
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 2, NULL));
  const sample s = {COMPUTE_I32, COMPUTE_I32, COMPUTE_I32, COMPUTE_COMBINE_SUM, 0, 1, {70000}};
  block input = block_create(COMPUTE_I32, 1, s.size, (int64_t[]){1});
  block output = block_create(COMPUTE_I32, 0, s.size, (int64_t[]){0});
  for (int64_t e = 0; e < 70000; e++) block_set(&input, e, 1000003);
  compute_operand in = operand_of(&input, 1), out = operand_of(&output, 0);
  const compute_kernel_descriptor k = describe(&s, &in, &out);
  assert_int_equal(run_kernel(&f, &cpu_reduce_kind, &k, (block *[]){&input, &output}), COMPUTE_OK);
  const uint32_t expected = (uint32_t)(UINT64_C(70000) * 1000003);
  assert_int_equal(*(uint32_t *)(void *)block_data(&output), expected);
  block_release(&input);
  block_release(&output);
  fixture_close(&f);
}

/* ---- Programs ------------------------------------------------------------------------------ */

/* sum over r of (x − y)² + position + 10 · coordinate 2, times gain plus the kept position. */
static void build_programs(program_builder *prologue, program_builder *epilogue) {
  const compute_dtype f64 = COMPUTE_F64;
  const uint16_t x = program_load(prologue, f64, 0), y = program_load(prologue, f64, 1);
  const uint16_t d = program_apply(prologue, COMPUTE_I_SUB, f64, x, y, 0);
  const uint16_t square = program_apply(prologue, COMPUTE_I_SQUARE, f64, d, 0, 0);
  const uint16_t position = program_instruction(
      prologue, (compute_instruction){.code = COMPUTE_I_POSITION, .type = COMPUTE_I64});
  const uint16_t coordinate = program_instruction(
      prologue,
      (compute_instruction){.code = COMPUTE_I_COORDINATE, .type = COMPUTE_I64, .immediate.i64 = 2});
  const uint16_t ten = program_constant_integer(prologue, COMPUTE_I64, 10);
  const uint16_t tens = program_apply(prologue, COMPUTE_I_MUL, COMPUTE_I64, coordinate, ten, 0);
  const uint16_t both = program_apply(prologue, COMPUTE_I_ADD, COMPUTE_I64, position, tens, 0);
  const uint16_t extra = program_apply(prologue, COMPUTE_I_CAST, f64, both, 0, 0);
  program_store(prologue, program_apply(prologue, COMPUTE_I_ADD, f64, square, extra, 0));

  const uint16_t folded = program_load(epilogue, f64, 0), gain = program_load(epilogue, f64, 1);
  const uint16_t scaled = program_apply(epilogue, COMPUTE_I_MUL, f64, folded, gain, 0);
  const uint16_t kept = program_instruction(
      epilogue, (compute_instruction){.code = COMPUTE_I_POSITION, .type = COMPUTE_I64});
  const uint16_t number = program_apply(epilogue, COMPUTE_I_CAST, f64, kept, 0, 0);
  program_store(epilogue, program_apply(epilogue, COMPUTE_I_ADD, f64, scaled, number, 0));
  program_store(epilogue, folded);
}

typedef struct program_case {
  int64_t size[4]; /* two kept, two reduced */
  block x, y, gain, out, raw;
} program_case;

static void programs_see_operands_positions_and_coordinates(void **state) {
  (void)state;
  program_builder prologue = {0}, epilogue = {0};
  build_programs(&prologue, &epilogue);
  fixture f;
  test_random random = {.state = 11};
  assert_true(fixture_open(&f, 2, NULL));
  for (int trial = 0; trial < 60; trial++) {
    program_case c;
    for (int d = 0; d < 4; d++) c.size[d] = test_random_integer(&random, 1, 9);
    c.size[test_random_integer(&random, 0, 3)] = test_random_integer(&random, 1, 500);
    int64_t stride[5][COMPUTE_MAX_RANK];
    random_strides(4, c.size, 0, &random, stride[0]);
    random_strides(4, c.size, (uint32_t)test_random_bits(&random), &random, stride[1]);
    for (int k = 2; k < 5; k++) random_strides(2, c.size, k == 2 ? 1 : 0, &random, stride[k]);
    c.x = block_create(COMPUTE_F64, 4, c.size, stride[0]);
    c.y = block_create(COMPUTE_F64, 4, c.size, stride[1]);
    c.gain = block_create(COMPUTE_F64, 2, c.size, stride[2]);
    c.out = block_create(COMPUTE_F64, 2, c.size, stride[3]);
    c.raw = block_create(COMPUTE_F64, 2, c.size, stride[4]);
    block_fill(&c.x, -1, 1, &random);
    block_fill(&c.y, -1, 1, &random);
    block_fill(&c.gain, -1, 1, &random);
    const compute_operand in[] = {operand_of(&c.x, 4), operand_of(&c.y, 4), operand_of(&c.gain, 4)};
    const compute_operand out[] = {operand_of(&c.out, 4), operand_of(&c.raw, 4)};
    compute_kernel_descriptor k = {.struct_size = sizeof k,
                                   .kind = COMPUTE_KERNEL_REDUCE,
                                   .rank = 4,
                                   .input_count = 3,
                                   .output_count = 2,
                                   .inputs = in,
                                   .outputs = out,
                                   .prologue = program_finish(&prologue),
                                   .epilogue = program_finish(&epilogue),
                                   .prologue_inputs = 2,
                                   .accumulate = COMPUTE_F64,
                                   .attributes = &(compute_reduce_attributes){.kept_rank = 2},
                                   .attribute_bytes = sizeof(compute_reduce_attributes)};
    memcpy(k.size, c.size, sizeof c.size);
    run_and_check(&f, &cpu_reduce_kind, &k, (block *[]){&c.x, &c.y, &c.gain, &c.out, &c.raw},
                  (allowed_error){.relative = 8, .terms = 48});
    block_release(&c.x);
    block_release(&c.y);
    block_release(&c.gain);
    block_release(&c.out);
    block_release(&c.raw);
  }
  fixture_close(&f);
}

/* The square of an f32 input, in f32 or f64. */
static void build_square(program_builder *program, compute_dtype type) {
  uint16_t x = program_load(program, COMPUTE_F32, 0);
  if (type != COMPUTE_F32) x = program_apply(program, COMPUTE_I_CAST, type, x, 0, 0);
  program_store(program, program_apply(program, COMPUTE_I_SQUARE, type, x, 0, 0));
}

/* Squares along short, long and strided lines: the paths where one run of the program covers
 * several lines, and the loops that need no program. Squares in f64 may leave the range of f32. */
static void check_squares(fixture *f, compute_dtype type) {
  static const int64_t shapes[][2] = {{4, 3000},  {3000, 4}, {60, 50}, {50, 700}, {1, 9000},
                                      {1, 40001}, {3, 1},    {7, 15},  {9, 17},   {70, 3}};
  program_builder prologue = {0};
  build_square(&prologue, type);
  test_random random = {.state = 23};
  for (size_t n = 0; n < 2 * sizeof shapes / sizeof *shapes; n++) {
    const int64_t kept = shapes[n / 2][0], reduced = shapes[n / 2][1];
    const int64_t size[] = {kept, reduced};
    const int64_t stride[] = {n % 2 ? 1 : reduced, n % 2 ? kept : 1}, one[] = {1, 0};
    const double most = type == COMPUTE_F64 ? 3e38 : 1;
    block input = block_create(COMPUTE_F32, 2, size, stride);
    block output = block_create(type, 1, size, one);
    block_fill(&input, -most, most, &random);
    compute_operand in = operand_of(&input, 2), out = operand_of(&output, 2);
    const sample s = {COMPUTE_F32, type, type, COMPUTE_COMBINE_SUM, 1, 2, {kept, reduced}};
    compute_kernel_descriptor k = describe(&s, &in, &out);
    k.prologue = program_finish(&prologue);
    run_and_check(f, &cpu_reduce_kind, &k, (block *[]){&input, &output}, allowed_of(&s));
    block_release(&input);
    block_release(&output);
  }
}

static void squares_agree_where_lines_follow_each_other(void **state) {
  (void)state;
  for (int i = 0; fixture_sets[i]; i++) {
    fixture f;
    if (!fixture_open(&f, 2, fixture_sets[i])) continue;
    check_squares(&f, COMPUTE_F32);
    check_squares(&f, COMPUTE_F64);
    fixture_close(&f);
  }
}

/* The sums of batch norm: their terms are one loop with a number per line. Planes have from one
 * element to more than a panel holds; rows consist of channels. */
static void deviations_from_a_number_for_each_line_agree(void **state) {
  (void)state;
  static const int64_t shapes[][3] = {
      {40, 7, 16}, {33, 5, 49}, {3, 4, 700}, {5, 2, 3000}, {19, 64, 1}};
  program_builder prologue = {0};
  const uint16_t x = program_load(&prologue, COMPUTE_F32, 0);
  const uint16_t mean = program_load(&prologue, COMPUTE_F32, 1);
  const uint16_t apart = program_apply(&prologue, COMPUTE_I_SUB, COMPUTE_F32, x, mean, 0);
  program_store(&prologue, program_apply(&prologue, COMPUTE_I_SQUARE, COMPUTE_F32, apart, 0, 0));
  test_random random = {.state = 29};
  for (size_t n = 0; n < 2 * sizeof shapes / sizeof *shapes; n++) {
    const int64_t *size = shapes[n / 2], places = size[2], channels = size[0];
    const int64_t planes[] = {places, channels * places, 1};
    const int64_t pixels[] = {1, channels * places, channels};
    block input = block_create(COMPUTE_F32, 3, size, n % 2 ? pixels : planes);
    block means = block_create(COMPUTE_F32, 3, size, (int64_t[]){1, 0, 0});
    block output = block_create(COMPUTE_F32, 1, size, (int64_t[]){1});
    block_fill(&input, -1, 1, &random);
    block_fill(&means, -1, 1, &random);
    const compute_operand in[] = {operand_of(&input, 3), operand_of(&means, 3)};
    compute_operand out = operand_of(&output, 3), first = in[0];
    const sample s = {COMPUTE_F32,
                      COMPUTE_F32,
                      COMPUTE_F32,
                      COMPUTE_COMBINE_SUM,
                      1,
                      3,
                      {size[0], size[1], size[2]}};
    compute_kernel_descriptor k = describe(&s, &first, &out);
    k.inputs = in;
    k.input_count = k.prologue_inputs = 2;
    k.prologue = program_finish(&prologue);
    for (const char *const *isa = fixture_sets; *isa; isa++) {
      fixture f;
      if (!fixture_open(&f, 2, *isa)) continue;
      run_and_check(&f, &cpu_reduce_kind, &k, (block *[]){&input, &means, &output}, allowed_of(&s));
      fixture_close(&f);
    }
    block_release(&input);
    block_release(&means);
    block_release(&output);
  }
}

/* ---- Bits and failures --------------------------------------------------------------------- */

static void the_same_input_gives_the_same_bits(void **state) {
  (void)state;
  fixture f;
  test_random random = {.state = 29};
  assert_true(fixture_open(&f, 4, NULL));
  const sample s = {COMPUTE_F32, COMPUTE_F32, COMPUTE_F32, COMPUTE_COMBINE_SUM, 0, 1, {1000003}};
  block input = block_create(COMPUTE_F32, 1, s.size, (int64_t[]){1});
  block output = block_create(COMPUTE_F32, 0, s.size, (int64_t[]){0});
  block_fill(&input, -1, 1, &random);
  compute_operand in = operand_of(&input, 1), out = operand_of(&output, 0);
  const compute_kernel_descriptor k = describe(&s, &in, &out);
  uint32_t first = 0;
  for (int run = 0; run < 20; run++) {
    assert_int_equal(run_kernel(&f, &cpu_reduce_kind, &k, (block *[]){&input, &output}),
                     COMPUTE_OK);
    const uint32_t bits = *(uint32_t *)(void *)block_data(&output);
    if (run == 0) first = bits;
    assert_int_equal(bits, first);
  }
  block_release(&input);
  block_release(&output);
  fixture_close(&f);
}

/* Sums the first `items` × channels lines of `input`, or their squares in f64, with that number of
 * threads. */
static void sum_lines(int32_t threads, const sample *whole, int64_t items, block *input,
                      float *sums) {
  fixture f;
  sample s = *whole;
  s.size[0] = items;
  assert_true(fixture_open(&f, threads, NULL));
  block output = block_create(COMPUTE_F32, 2, s.size, (int64_t[]){s.size[1], 1});
  compute_operand in = operand_of(input, 3), out = operand_of(&output, 3);
  compute_kernel_descriptor k = describe(&s, &in, &out);
  program_builder prologue = {0};
  build_square(&prologue, s.accumulate);
  if (s.accumulate == COMPUTE_F64) k.prologue = program_finish(&prologue);
  assert_int_equal(run_kernel(&f, &cpu_reduce_kind, &k, (block *[]){input, &output}), COMPUTE_OK);
  memcpy(sums, block_data(&output), (size_t)(items * s.size[1]) * sizeof *sums);
  block_release(&output);
  fixture_close(&f);
}

/* Planes of images, interleaved channels, and interleaved images. For the last, a few columns are
 * folded together: their order depends on their number, but not on the threads. */
static void check_bits(compute_dtype type) {
  enum { MOST_LINES = 400 };
  static const int64_t sizes[][3] = {{8, 50, 3136},  {8, 33, 12544}, {5, 3, 50177}, {2, 1, 1000003},
                                     {3, 130, 1999}, {50, 8, 2},     {80, 1, 4},    {80, 1, 5},
                                     {50, 8, 6},     {80, 5, 7},     {80, 1, 8},    {20, 20, 9},
                                     {17, 3, 49},    {13, 5, 100}};
  test_random random = {.state = 37};
  for (size_t n = 0; n < 3 * sizeof sizes / sizeof *sizes; n++) {
    const int64_t *size = sizes[n / 3], c = size[1], p = size[2];
    const int64_t layouts[][3] = {{c * p, p, 1}, {c * p, 1, c}, {c, 1, size[0] * c}};
    const int64_t least = n % 3 == 2 && c <= 16 ? size[0] : 1;
    sample s = {COMPUTE_F32, type, COMPUTE_F32, COMPUTE_COMBINE_SUM, 2, 3, {0}};
    memcpy(s.size, size, 3 * sizeof *size);
    block input = block_create(COMPUTE_F32, 3, s.size, layouts[n % 3]);
    float expected[MOST_LINES], sums[MOST_LINES];
    block_fill(&input, -1, 1, &random);
    sum_lines(1, &s, s.size[0], &input, expected);
    for (int32_t threads = 1; threads <= 5; threads++)
      for (int64_t items = least; items <= s.size[0]; items++) {
        sum_lines(threads, &s, items, &input, sums);
        assert_memory_equal(sums, expected, (size_t)(items * c) * sizeof *sums);
      }
    block_release(&input);
  }
}

static void neither_threads_nor_the_batch_change_bits(void **state) {
  (void)state;
  check_bits(COMPUTE_F32);
  check_bits(COMPUTE_F64);
}

/* Stacks of few lines are folded together, and short rows searched together: with equal elements
 * and NaN, results with and without gaps, and one stack or row more than a group of them. */
static void short_rows_and_stacks_agree(void **state) {
  (void)state;
  for (int i = 0; fixture_sets[i]; i++) {
    fixture f;
    if (!fixture_open(&f, 3, fixture_sets[i])) continue;
    test_random random = {.state = 91};
    for (int n = 0; n < 350; n++) {
      const compute_dtype type = types[n % 5 == 2 ? 7 : n % 5].accumulate;
      const bool rows = n % 4 == 3;
      const int64_t wide = test_random_integer(&random, 0, 3) ? 9 : 140;
      const int64_t count = test_random_integer(&random, 1, 70);
      const int64_t lines = test_random_integer(&random, 1, rows ? 130 : 68);
      const int64_t columns = rows ? 1 : test_random_integer(&random, 1, wide);
      const int64_t gap = n % 9 == 8;
      sample s = {type, type, type, (compute_combine)(n % 6), 2, 3, {count, columns, lines}};
      if (type == COMPUTE_BOOL) s.combine = n % 2 ? COMPUTE_COMBINE_MAX : COMPUTE_COMBINE_MIN;
      if (is_search(s.combine)) s.output = COMPUTE_I64;
      const int64_t strides[3] = {lines * columns + gap, 1, columns};
      block input = block_create(type, 3, s.size, strides);
      block output = block_create(s.output, 2, s.size, (int64_t[]){columns + (n % 7 == 6), 1});
      block_fill(&input, s.combine == COMPUTE_COMBINE_PROD ? 0.9 : -2, 2, &random);
      for (int64_t e = 0; e < input.elements && !dtype_is_integer(type); e++)
        if (test_random_integer(&random, 0, 40) == 0)
          block_set(&input, e, n % 3 && s.combine != COMPUTE_COMBINE_SUM ? NAN : 1);
      compute_operand in = operand_of(&input, 3), out = operand_of(&output, 3);
      const compute_kernel_descriptor k = describe(&s, &in, &out);
      run_and_check(&f, &cpu_reduce_kind, &k, (block *[]){&input, &output}, allowed_of(&s));
      block_release(&input);
      block_release(&output);
    }
    fixture_close(&f);
  }
}

static void failures_are_reported_and_leave_nothing(void **state) {
  (void)state;
  test_random random = {.state = 31};
  sample s = {COMPUTE_F32, COMPUTE_F32, COMPUTE_F32, COMPUTE_COMBINE_SUM, 1, 2, {2, 200000}};
  block input = block_create(COMPUTE_F32, 2, s.size, (int64_t[]){200000, 1});
  block output = block_create(COMPUTE_F32, 1, s.size, (int64_t[]){1});
  block_fill(&input, -1, 1, &random);
  compute_operand in = operand_of(&input, 2), out = operand_of(&output, 2);
  compute_kernel_descriptor k = describe(&s, &in, &out);
  check_allocation_failures(&cpu_reduce_kind, &k, (block *[]){&input, &output});
  fixture f;
  cpu_kernel *kernel = NULL;
  assert_true(fixture_open(&f, 1, NULL));
  check_results(&f, &k, (block *[]){&input, &output}, allowed_of(&s));
  k.accumulate = COMPUTE_BOOL;
  assert_int_equal(cpu_kind_prepare(&cpu_reduce_kind, f.device, &k, &kernel),
                   COMPUTE_ERROR_UNSUPPORTED);
  assert_null(kernel);
  fixture_close(&f);
  block_release(&input);
  block_release(&output);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_layout_agrees_with_the_reference),
      cmocka_unit_test(large_reductions_agree_in_every_direction),
      cmocka_unit_test(long_sums_lose_only_a_few_roundings),
      cmocka_unit_test(nan_is_every_extremum_and_the_first_place_wins),
      cmocka_unit_test(nothing_reduced_gives_the_identity),
      cmocka_unit_test(scalars_and_full_rank_work),
      cmocka_unit_test(integer_sums_wrap),
      cmocka_unit_test(programs_see_operands_positions_and_coordinates),
      cmocka_unit_test(squares_agree_where_lines_follow_each_other),
      cmocka_unit_test(deviations_from_a_number_for_each_line_agree),
      cmocka_unit_test(the_same_input_gives_the_same_bits),
      cmocka_unit_test(neither_threads_nor_the_batch_change_bits),
      cmocka_unit_test(short_rows_and_stacks_agree),
      cmocka_unit_test(failures_are_reported_and_leave_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
