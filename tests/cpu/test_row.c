/* SPDX-License-Identifier: MIT */
/* ROW (softmax, log-softmax, normalize) on the CPU matches the double reference. */
#include "kernel_fixture.h"

static const double epsilon = 1e-5;

typedef struct sample {
  compute_row_operation operation;
  compute_dtype input, accumulate, output;
  int32_t rank;
  int64_t size[COMPUTE_MAX_RANK];
} sample;

static compute_kernel_descriptor describe(const sample *s, const compute_operand *in,
                                          const compute_operand *out) {
  static compute_row_attributes attributes; /* for one descriptor at a time */
  attributes = (compute_row_attributes){.operation = s->operation, .epsilon = epsilon};
  compute_kernel_descriptor k = {
      .struct_size = sizeof k,
      .kind = COMPUTE_KERNEL_ROW,
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

/* The other operations cancel numbers of order 1. In f64, the rounding of a softmax's exponent
 * shows. */
static allowed_error allowed_of(const sample *s) {
  const bool wide = s->accumulate == COMPUTE_F64;
  if (s->operation != COMPUTE_ROW_SOFTMAX) return (allowed_error){.relative = 32, .absolute = 32};
  return (allowed_error){.relative = wide ? 400 : 32, .absolute = wide ? 0x1p-95 : 0x1p-124};
}

static void run_blocks(fixture *f, const sample *s, block *input, block *output) {
  const compute_operand in = operand_of(input, s->rank), out = operand_of(output, s->rank);
  const compute_kernel_descriptor k = describe(s, &in, &out);
  run_and_check(f, &cpu_row_kind, &k, (block *[]){input, output}, allowed_of(s));
}

static void run_sample(fixture *f, const sample *s, const int64_t *in_strides,
                       const int64_t *out_strides, double low, double high, test_random *random) {
  block input = block_create(s->input, s->rank, s->size, in_strides);
  block output = block_create(s->output, s->rank, s->size, out_strides);
  block_fill(&input, low, high, random);
  run_blocks(f, s, &input, &output);
  block_release(&input);
  block_release(&output);
}

/* Row-major strides, or strides with the dimensions in reverse order. */
static void dense_strides(int32_t rank, const int64_t *size, bool reversed, int64_t *stride) {
  int64_t step = 1;
  for (int32_t i = 0; i < rank; i++) {
    const int32_t d = reversed ? i : rank - 1 - i;
    stride[d] = step;
    step *= size[d];
  }
}

/* ---- Promises ------------------------------------------------------------------------------ */

static const struct {
  compute_dtype input, accumulate, output;
} types[] = {
    {COMPUTE_F32, COMPUTE_F32, COMPUTE_F32}, {COMPUTE_F64, COMPUTE_F64, COMPUTE_F64},
    {COMPUTE_F16, COMPUTE_F32, COMPUTE_F16}, {COMPUTE_BF16, COMPUTE_F32, COMPUTE_BF16},
    {COMPUTE_F32, COMPUTE_F64, COMPUTE_F32}, {COMPUTE_F16, COMPUTE_F32, COMPUTE_F32},
};

static void every_layout_agrees_with_the_reference(void **state) {
  (void)state;
  for (int i = 0; fixture_sets[i]; i++)
    for (int32_t threads = 1; threads <= 3; threads += 2) {
      fixture f;
      test_random random = {.state = 41};
      if (!fixture_open(&f, threads, fixture_sets[i])) continue;
      const int trials = 300 / (int)test_samples();
      for (int trial = 0; trial < trials; trial++) {
        const size_t t = (size_t)test_random_integer(&random, 0, 5);
        sample s = {.operation = (compute_row_operation)(trial % 3),
                    .input = types[t].input,
                    .accumulate = types[t].accumulate,
                    .output = types[t].output};
        s.rank = (int32_t)test_random_integer(&random, 1, 4);
        for (int32_t d = 0; d < s.rank; d++) s.size[d] = test_random_integer(&random, 1, 5);
        s.size[test_random_integer(&random, 0, s.rank - 1)] = test_random_integer(&random, 1, 300);
        if (s.rank <= 2) s.size[s.rank - 1] = test_random_integer(&random, 1, 90);
        int64_t in[COMPUTE_MAX_RANK], out[COMPUTE_MAX_RANK];
        random_strides(s.rank, s.size, test_random_integer(&random, 0, 5) ? 0 : 5, &random, in);
        random_strides(s.rank, s.size, 0, &random, out);
        run_sample(&f, &s, in, out, -4, 4, &random);
      }
      fixture_close(&f);
    }
}

/* Rows of one block and of several, few and many rows, contiguous and strided. */
/* Short rows one after another, which pass their stages as one line, and with gaps. */
static void short_rows_of_every_length_agree(void **state) {
  (void)state;
  for (int i = 0; fixture_sets[i]; i++)
    for (int32_t threads = 1; threads <= 3; threads += 2) {
      fixture f;
      test_random random = {.state = 18};
      if (!fixture_open(&f, threads, fixture_sets[i])) continue;
      for (int64_t length = 1; length < 34; length++)
        for (int operation = 0; operation < 3; operation++) {
          const size_t t = (size_t)(length + operation) % (sizeof types / sizeof *types);
          const sample s = {.operation = (compute_row_operation)operation,
                            .input = types[t].input,
                            .accumulate = types[t].accumulate,
                            .output = types[t].output,
                            .rank = 2,
                            .size = {test_random_integer(&random, 1, 2000), length}};
          const int64_t gaps = test_random_integer(&random, 0, 2) == 0;
          const int64_t in_strides[] = {length + gaps, 1}, out_strides[] = {length, 1};
          run_sample(&f, &s, in_strides, out_strides, -3, 3, &random);
        }
      fixture_close(&f);
    }
}

/* Line by line, a prologue took longer than the rest. */
static void short_rows_pass_their_stages_together(void **state) {
  (void)state;
  static const struct {
    int64_t length, row;
    bool turned;
  } cases[] = {{19, 19, true}, {19, 20, true}, {16, 16, true}, {40, 40, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int64_t length = cases[i].length;
    const sample s = {.operation = COMPUTE_ROW_SOFTMAX,
                      .input = COMPUTE_F32,
                      .accumulate = COMPUTE_F32,
                      .output = COMPUTE_F32,
                      .rank = 2,
                      .size = {300, length}};
    const int64_t in_strides[] = {cases[i].row, 1}, out_strides[] = {length, 1};
    fixture f;
    cpu_kernel *kernel;
    assert_true(fixture_open(&f, 2, NULL));
    block input = block_create(s.input, 2, s.size, in_strides);
    block output = block_create(s.output, 2, s.size, out_strides);
    const compute_operand in = operand_of(&input, 2), out = operand_of(&output, 2);
    const compute_kernel_descriptor k = describe(&s, &in, &out);
    assert_int_equal(cpu_kind_prepare(&cpu_row_kind, f.device, &k, &kernel), COMPUTE_OK);
    assert_int_equal(strstr(kernel->description, "turned") != NULL, cases[i].turned);
    cpu_kernel_destroy(kernel);
    block_release(&input);
    block_release(&output);
    fixture_close(&f);
  }
}

static void long_rows_agree_in_both_directions(void **state) {
  (void)state;
  static const int64_t shapes[][2] = {{1, 200003}, {3, 70001}, {40, 9000}, {17, 33000},
                                      {2000, 65},  {64, 5000}, {100, 8193}};
  for (int i = 0; fixture_sets[i]; i++) {
    fixture f;
    test_random random = {.state = 43};
    if (!fixture_open(&f, 2, fixture_sets[i])) continue;
    for (size_t n = 0; n < sizeof shapes / sizeof shapes[0]; n++)
      for (int operation = 0; operation < 3; operation++)
        for (int layout = 0; layout < 4; layout++) {
          if (!test_takes(n + (size_t)operation, 1 + (size_t)layout)) continue;
          const bool half = layout == 3;
          const sample s = {
              (compute_row_operation)operation, COMPUTE_F32, COMPUTE_F32,
              half ? COMPUTE_F16 : COMPUTE_F32, 2,           {shapes[n][0], shapes[n][1]}};
          int64_t in[COMPUTE_MAX_RANK], out[COMPUTE_MAX_RANK];
          dense_strides(2, s.size, layout == 1 || layout == 2, in);
          dense_strides(2, s.size, layout == 1, out);
          run_sample(&f, &s, in, out, -3, 9, &random);
        }
    fixture_close(&f);
  }
}

/* Caches of at most 32 MiB: the output bypasses them. */
static void outputs_larger_than_the_cache_agree(void **state) {
  (void)state;
  fixture f;
  test_random random = {.state = 47};
  assert_true(fixture_open(&f, 2, NULL));
  f.device->share_bytes = 1 << 16;
  for (int operation = 0; operation < 3; operation++)
    for (int64_t n = 1000; n <= 1027; n += 9) {
      const sample s = {
          (compute_row_operation)operation, COMPUTE_F32, COMPUTE_F32, COMPUTE_F32, 2, {70, n}};
      int64_t strides[COMPUTE_MAX_RANK];
      dense_strides(2, s.size, false, strides);
      run_sample(&f, &s, strides, strides, -3, 9, &random);
    }
  const sample huge = {COMPUTE_ROW_SOFTMAX, COMPUTE_F32, COMPUTE_F32, COMPUTE_F32, 1, {150001}};
  run_sample(&f, &huge, (int64_t[]){1}, (int64_t[]){1}, -3, 9, &random);
  fixture_close(&f);
}

/* Checks how one value in every row affects a softmax over rows of other values. */
static void check_special(fixture *f, const sample *s, bool across, double others, double special) {
  int64_t strides[COMPUTE_MAX_RANK];
  dense_strides(2, s->size, across, strides);
  block input = block_create(s->input, 2, s->size, strides);
  block output = block_create(s->output, 2, s->size, strides);
  for (int64_t e = 0; e < input.elements; e++) block_set(&input, e, others);
  for (int64_t r = 0; r < s->size[0]; r++)
    block_set(&input, block_at(&input, (int64_t[]){r, s->size[1] * 2 / 3}), special);
  run_blocks(f, s, &input, &output);
  block_release(&input);
  block_release(&output);
}

static void infinities_and_nans_behave_as_in_the_formulas(void **state) {
  (void)state;
  static const double pairs[][2] = {{-INFINITY, -INFINITY}, {-INFINITY, 3},        {1, -INFINITY},
                                    {1, INFINITY},          {-INFINITY, INFINITY}, {1, NAN},
                                    {-INFINITY, NAN},       {INFINITY, INFINITY},  {500, 1000},
                                    {-1e30, 1e30}};
  static const int64_t shapes[][2] = {{20, 100}, {2, 100000}, {90, 10}};
  for (int i = 0; fixture_sets[i]; i++) {
    fixture f;
    if (!fixture_open(&f, 2, fixture_sets[i])) continue;
    for (size_t n = 0; n < 3; n++)
      for (size_t p = 0; p < sizeof pairs / sizeof pairs[0]; p++)
        for (int which = 0; which < 8; which++) {
          if (!test_in_turn(p + (size_t)which)) continue;
          const compute_dtype type = which & 1 ? COMPUTE_F64 : COMPUTE_F32;
          const sample s = {which & 2 ? COMPUTE_ROW_LOG_SOFTMAX : COMPUTE_ROW_SOFTMAX,
                            type,
                            type,
                            type,
                            2,
                            {shapes[n][0], shapes[n][1]}};
          check_special(&f, &s, which & 4, pairs[p][0], pairs[p][1]);
        }
    fixture_close(&f);
  }
}

/* Numbers near 4096 that are exact in f32: a variance from sums of squares would lose all
 * digits. */
static void a_large_mean_does_not_cancel(void **state) {
  (void)state;
  static const int64_t shapes[][2] = {{8, 4096}, {1, 100000}, {300, 20}, {70, 1}};
  for (int i = 0; fixture_sets[i]; i++) {
    fixture f;
    test_random random = {.state = 53};
    if (!fixture_open(&f, 2, fixture_sets[i])) continue;
    for (size_t n = 0; n < 4; n++)
      for (int across = 0; across < 2; across++) {
        const sample s = {COMPUTE_ROW_NORMALIZE, COMPUTE_F32, COMPUTE_F32,
                          COMPUTE_F32,           2,           {shapes[n][0], shapes[n][1]}};
        int64_t strides[COMPUTE_MAX_RANK];
        dense_strides(2, s.size, across, strides);
        run_sample(&f, &s, strides, strides, 4095, 4097, &random);
      }
    fixture_close(&f);
  }
}

/* Blocks of one row whose partial sums differ by factors far beyond f32's precision. */
static void blocks_of_different_magnitude_keep_their_digits(void **state) {
  (void)state;
  for (int i = 0; fixture_sets[i]; i++) {
    fixture f;
    test_random random = {.state = 57};
    if (!fixture_open(&f, 2, fixture_sets[i])) continue;
    for (int which = 0; which < 8; which++) {
      const compute_dtype type = which & 1 ? COMPUTE_F64 : COMPUTE_F32;
      const sample s = {which & 2 ? COMPUTE_ROW_LOG_SOFTMAX : COMPUTE_ROW_SOFTMAX,
                        type,
                        type,
                        type,
                        2,
                        {2, 90000}};
      int64_t strides[COMPUTE_MAX_RANK];
      dense_strides(2, s.size, which & 4, strides);
      block input = block_create(type, 2, s.size, strides);
      block output = block_create(type, 2, s.size, strides);
      for (int64_t r = 0; r < 2; r++)
        for (int64_t p = 0; p < s.size[1]; p++)
          block_set(&input, block_at(&input, (int64_t[]){r, p}),
                    (r ? -1.5e-3 : 1e-3) * (double)p + test_random_uniform(&random, -1, 1));
      run_blocks(&f, &s, &input, &output);
      block_release(&input);
      block_release(&output);
    }
    fixture_close(&f);
  }
}

static void empty_spaces_write_nothing(void **state) {
  (void)state;
  fixture f;
  test_random random = {.state = 59};
  assert_true(fixture_open(&f, 2, NULL));
  for (int operation = 0; operation < 3; operation++) {
    const int64_t strides[] = {8, 4, 1};
    for (int empty = 0; empty < 3; empty++) {
      sample s = {
          (compute_row_operation)operation, COMPUTE_F32, COMPUTE_F32, COMPUTE_F32, 3, {2, 2, 4}};
      s.size[empty] = 0;
      run_sample(&f, &s, strides, strides, -1, 1, &random);
    }
  }
  fixture_close(&f);
}

/* ---- Programs ------------------------------------------------------------------------------ */

/* Layer norm of x · scale: the epilogue multiplies by a gain, adds a bias and the position along
 * the row, and also stores the plain value. */
static void build_programs(program_builder *prologue, program_builder *epilogue) {
  const compute_dtype f32 = COMPUTE_F32;
  const uint16_t x = program_load(prologue, f32, 0), scale = program_load(prologue, f32, 1);
  program_store(prologue, program_apply(prologue, COMPUTE_I_MUL, f32, x, scale, 0));
  const uint16_t y = program_load(epilogue, f32, 0), gain = program_load(epilogue, f32, 1);
  const uint16_t bias = program_load(epilogue, f32, 2);
  const uint16_t product = program_apply(epilogue, COMPUTE_I_MUL, f32, y, gain, 0);
  const uint16_t sum = program_apply(epilogue, COMPUTE_I_ADD, f32, product, bias, 0);
  const uint16_t place = program_instruction(
      epilogue,
      (compute_instruction){.code = COMPUTE_I_COORDINATE, .type = COMPUTE_I64, .immediate.i64 = 2});
  const uint16_t number = program_apply(epilogue, COMPUTE_I_CAST, f32, place, 0, 0);
  program_store(epilogue, program_apply(epilogue, COMPUTE_I_ADD, f32, sum, number, 0));
  program_store(epilogue, y);
}

enum { X, SCALE, GAIN, BIAS, RESULT, BARE, BLOCKS };

static void programs_see_operands_and_coordinates(void **state) {
  (void)state;
  program_builder prologue = {0}, epilogue = {0};
  build_programs(&prologue, &epilogue);
  fixture f;
  test_random random = {.state = 61};
  assert_true(fixture_open(&f, 2, NULL));
  for (int trial = 0; trial < 80; trial++) {
    int64_t size[COMPUTE_MAX_RANK] = {test_random_integer(&random, 1, 6),
                                      test_random_integer(&random, 1, 60),
                                      test_random_integer(&random, 2, trial % 9 ? 80 : 40000)};
    if (trial % 9 == 0) size[1] = 2;
    static const uint32_t repeat[BLOCKS] = {0, 4, 3, 3, 0, 0};
    static const double low[BLOCKS] = {-1, 0.5, -1, -1}, high[BLOCKS] = {1, 2, 1, 1};
    block b[BLOCKS];
    compute_operand operand[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
      int64_t stride[COMPUTE_MAX_RANK];
      random_strides(3, size, repeat[i], &random, stride);
      b[i] = block_create(i == X ? COMPUTE_F16 : COMPUTE_F32, 3, size, stride);
      if (i < RESULT) block_fill(&b[i], low[i], high[i], &random);
      operand[i] = operand_of(&b[i], 3);
    }
    compute_kernel_descriptor k = {.struct_size = sizeof k,
                                   .kind = COMPUTE_KERNEL_ROW,
                                   .rank = 3,
                                   .input_count = 4,
                                   .output_count = 2,
                                   .inputs = operand,
                                   .outputs = operand + RESULT,
                                   .prologue = program_finish(&prologue),
                                   .epilogue = program_finish(&epilogue),
                                   .prologue_inputs = 2,
                                   .accumulate = COMPUTE_F32,
                                   .attributes =
                                       &(compute_row_attributes){COMPUTE_ROW_NORMALIZE, epsilon},
                                   .attribute_bytes = sizeof(compute_row_attributes)};
    memcpy(k.size, size, sizeof k.size);
    run_and_check(&f, &cpu_row_kind, &k, (block *[]){&b[0], &b[1], &b[2], &b[3], &b[4], &b[5]},
                  (allowed_error){.relative = 17, .absolute = 4000});
    for (int i = 0; i < BLOCKS; i++) block_release(&b[i]);
  }
  fixture_close(&f);
}

/* Layer norm whose epilogue is only a gain and a bias: shared by all rows, or one per row. */
static void check_layer_norm(fixture *f, compute_dtype dtype, const int64_t *size, bool own_gain,
                             test_random *random) {
  const compute_dtype f32 = COMPUTE_F32;
  program_builder prologue = {0}, epilogue = {0};
  program_store(&prologue, program_load(&prologue, f32, 0));
  const uint16_t y = program_load(&epilogue, f32, 0), gain = program_load(&epilogue, f32, 1);
  const uint16_t bias = program_load(&epilogue, f32, 2);
  const uint16_t product = program_apply(&epilogue, COMPUTE_I_MUL, f32, y, gain, 0);
  program_store(&epilogue, program_apply(&epilogue, COMPUTE_I_ADD, f32, product, bias, 0));
  const int64_t n = size[1], strides[4][2] = {{n, 1}, {own_gain ? n : 0, 1}, {0, 1}, {n + 3, 1}};
  block b[4];
  compute_operand operand[4];
  for (int i = 0; i < 4; i++) {
    b[i] = block_create(dtype, 2, size, strides[i]);
    if (i < 3) block_fill(&b[i], -2, 3, random);
    operand[i] = operand_of(&b[i], 2);
  }
  compute_kernel_descriptor k = {.struct_size = sizeof k,
                                 .kind = COMPUTE_KERNEL_ROW,
                                 .rank = 2,
                                 .size = {size[0], n},
                                 .input_count = 3,
                                 .output_count = 1,
                                 .inputs = operand,
                                 .outputs = operand + 3,
                                 .prologue = program_finish(&prologue),
                                 .epilogue = program_finish(&epilogue),
                                 .prologue_inputs = 1,
                                 .accumulate = f32,
                                 .attributes =
                                     &(compute_row_attributes){COMPUTE_ROW_NORMALIZE, epsilon},
                                 .attribute_bytes = sizeof(compute_row_attributes)};
  run_and_check(f, &cpu_row_kind, &k, (block *[]){&b[0], &b[1], &b[2], &b[3]},
                (allowed_error){.absolute = 336});
  for (int i = 0; i < 4; i++) block_release(&b[i]);
}

static void layer_norms_apply_gain_and_bias(void **state) {
  (void)state;
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    if (!fixture_open(&f, 2, fixture_sets[set])) continue;
    test_random random = {.state = 23};
    for (int trial = 0; trial < 24; trial++) {
      const int64_t size[] = {test_random_integer(&random, 1, 40),
                              test_random_integer(&random, 1, trial % 8 ? 900 : 40000)};
      check_layer_norm(&f, COMPUTE_F32, size, trial % 3 == 2, &random);
      check_layer_norm(&f, COMPUTE_BF16, size, trial % 3 == 2, &random);
    }
    fixture_close(&f);
  }
}

/* ---- Bits and failures --------------------------------------------------------------------- */

/* All rows with 1 to 4 threads, and the first one alone. Interleaved rows are excluded from the
 * latter, because the sums of several are built together. */
static void check_bits(compute_row_operation operation, int64_t rows, int64_t length, bool abreast,
                       test_random *random) {
  const sample s = {operation, COMPUTE_F32, COMPUTE_F32, COMPUTE_F32, 2, {rows, length}};
  const sample one = {operation, COMPUTE_F32, COMPUTE_F32, COMPUTE_F32, 2, {1, length}};
  int64_t stride[2];
  dense_strides(2, s.size, abreast, stride);
  block input = block_create(COMPUTE_F32, 2, s.size, stride);
  block output = block_create(COMPUTE_F32, 2, s.size, stride);
  block_fill(&input, -4, 4, random);
  for (int32_t threads = 1; threads <= 4; threads++) {
    fixture f;
    assert_true(fixture_open(&f, threads, NULL));
    compute_operand in = operand_of(&input, 2), out = operand_of(&output, 2);
    compute_kernel_descriptor k = describe(&s, &in, &out);
    assert_int_equal(run_kernel(&f, &cpu_row_kind, &k, (block *[]){&input, &output}), COMPUTE_OK);
    const size_t bytes = (size_t)(rows * length) * sizeof(float);
    if (threads == 1) block_remember(&output);
    assert_memory_equal(output.memory, output.copy, bytes);
    if (!abreast) {
      k = describe(&one, &in, &out);
      assert_int_equal(run_kernel(&f, &cpu_row_kind, &k, (block *[]){&input, &output}), COMPUTE_OK);
      assert_memory_equal(output.memory, output.copy, bytes);
    }
    fixture_close(&f);
  }
  block_release(&input);
  block_release(&output);
}

static void neither_threads_nor_other_rows_change_a_bit(void **state) {
  (void)state;
  test_random random = {.state = 67};
  const compute_row_operation operations[] = {COMPUTE_ROW_SOFTMAX, COMPUTE_ROW_LOG_SOFTMAX,
                                              COMPUTE_ROW_NORMALIZE};
  static const int64_t sizes[][2] = {{1, 300007}, {3, 100000}, {64, 10},  {64, 31}, {40, 33},
                                     {9, 40000},  {2, 5000},   {37, 128}, {9, 500}};
  for (size_t o = 0; o < sizeof operations / sizeof operations[0]; o++)
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
      check_bits(operations[o], sizes[i][0], sizes[i][1], false, &random);
  check_bits(COMPUTE_ROW_SOFTMAX, 30, 3000, true, &random);
}

static void failures_are_reported_and_leave_nothing(void **state) {
  (void)state;
  test_random random = {.state = 71};
  const sample s = {COMPUTE_ROW_SOFTMAX, COMPUTE_F32, COMPUTE_F32, COMPUTE_F16, 2, {3, 50000}};
  block input = block_create(COMPUTE_F32, 2, s.size, (int64_t[]){50000, 1});
  block output = block_create(COMPUTE_F16, 2, s.size, (int64_t[]){50000, 1});
  block_fill(&input, -1, 1, &random);
  const compute_operand in = operand_of(&input, 2), out = operand_of(&output, 2);
  compute_kernel_descriptor k = describe(&s, &in, &out);
  check_allocation_failures(&cpu_row_kind, &k, (block *[]){&input, &output});
  fixture f;
  cpu_kernel *kernel = NULL;
  assert_true(fixture_open(&f, 1, NULL));
  check_results(&f, &k, (block *[]){&input, &output}, allowed_of(&s));
  k.accumulate = COMPUTE_I32;
  assert_int_equal(cpu_kind_prepare(&cpu_row_kind, f.device, &k, &kernel),
                   COMPUTE_ERROR_UNSUPPORTED);
  assert_null(kernel);
  fixture_close(&f);
  block_release(&input);
  block_release(&output);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_layout_agrees_with_the_reference),
      cmocka_unit_test(short_rows_of_every_length_agree),
      cmocka_unit_test(short_rows_pass_their_stages_together),
      cmocka_unit_test(long_rows_agree_in_both_directions),
      cmocka_unit_test(outputs_larger_than_the_cache_agree),
      cmocka_unit_test(infinities_and_nans_behave_as_in_the_formulas),
      cmocka_unit_test(a_large_mean_does_not_cancel),
      cmocka_unit_test(blocks_of_different_magnitude_keep_their_digits),
      cmocka_unit_test(empty_spaces_write_nothing),
      cmocka_unit_test(programs_see_operands_and_coordinates),
      cmocka_unit_test(layer_norms_apply_gain_and_bias),
      cmocka_unit_test(neither_threads_nor_other_rows_change_a_bit),
      cmocka_unit_test(failures_are_reported_and_leave_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
