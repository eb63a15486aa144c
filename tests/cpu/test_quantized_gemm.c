/* SPDX-License-Identifier: MIT */
/* QUANTIZED_GEMM on the CPU: random shapes, bits, blocks, strides and epilogues match sums in
 * double precision. Inputs are not read past their ends, and no bit depends on the number of
 * threads. */
#include "gemm/isa/quantized_table.h"
#include "kernel_fixture.h"

enum { A, NUMBERS, SCALE, ZERO, EXTRA, OUTPUT, BLOCKS };

typedef struct sample {
  int64_t batch, m, n, k; /* batch 0: no batch dimension */
  int32_t bits;
  int64_t block;
  compute_dtype a, scale, output;
  compute_dtype zero; /* BOOL: no zero points */
  bool bias;          /* epilogue: max(sum + extra[n], 0) */
} sample;

typedef struct launch {
  block b[BLOCKS];
  block *blocks[BLOCKS];
  compute_operand operand[BLOCKS];
  compute_quantized_gemm_attributes a;
  program_builder epilogue;
  compute_kernel_descriptor d;
  int32_t rank;
} launch;

static int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

static void add_block(launch *l, int role, compute_dtype dtype, const int64_t *size, double low,
                      double high, bool plain, test_random *random) {
  int64_t stride[3] = {size[1] * size[2], size[2], 1};
  if (!plain) random_strides(3, size, 1, random, stride);
  if (role == A || role == OUTPUT) /* operands with a batch dimension */
    stride[0] = plain ? size[1] * size[2] : 3 + stride[1] * size[1] + stride[2] * size[2];
  block *b = &l->b[role];
  *b = block_create(dtype, 3, size, stride);
  block_fill(b, low, high, random);
  block_remember(b);
}

static void connect(launch *l, int role, uint32_t *count) {
  const block *b = &l->b[role];
  compute_operand *o = &l->operand[*count];
  *o = (compute_operand){.dtype = b->dtype};
  for (int32_t i = 0; i < l->rank; i++) o->stride[i] = b->stride[3 - l->rank + i];
  const bool weights = role != A && role != OUTPUT;
  if (weights && l->rank == 3) o->stride[0] = 0;
  if (role == EXTRA) o->stride[l->rank - 2] = 0;
  l->blocks[(*count)++] = &l->b[role];
}

static void add_bias(launch *l) {
  program_builder *p = &l->epilogue;
  const uint16_t sum = program_load(p, COMPUTE_F32, 0), bias = program_load(p, COMPUTE_F32, 1);
  const uint16_t all = program_apply(p, COMPUTE_I_ADD, COMPUTE_F32, sum, bias, 0);
  program_store(p, program_apply(p, COMPUTE_I_RELU, COMPUTE_F32, all, 0, 0));
  l->d.epilogue = program_finish(p);
}

static void begin(launch *l, const sample *s, bool plain, uint64_t seed) {
  test_random random = {.state = seed};
  const int64_t batch = s->batch > 0 ? s->batch : 1, blocks = divide_up(s->k, s->block);
  const int64_t size[BLOCKS][3] = {{batch, s->m, s->k}, {1, s->n, divide_up(s->k * s->bits, 8)},
                                   {1, s->n, blocks},   {1, s->n, blocks},
                                   {1, 1, s->n},        {batch, s->m, s->n}};
  const compute_dtype dtypes[BLOCKS] = {s->a,    COMPUTE_U8,  s->scale,
                                        s->zero, COMPUTE_F32, s->output};
  const double most = (double)(1 << s->bits);
  *l = (launch){.rank = s->batch > 0 ? 3 : 2};
  uint32_t count = 0;
  for (int role = 0; role < BLOCKS; role++) {
    if ((role == ZERO && s->zero == COMPUTE_BOOL) || (role == EXTRA && !s->bias)) continue;
    const double high = role == NUMBERS ? 256 : role == ZERO ? most : role == SCALE ? 0.1 : 1;
    const double low = role == NUMBERS || role == ZERO ? 0 : role == SCALE ? 0.01 : -1;
    add_block(l, role, dtypes[role], size[role], low, high, plain, &random);
    connect(l, role, &count);
  }
  l->a = (compute_quantized_gemm_attributes){
      .k = s->k, .block = s->block, .bits = s->bits, .zeros = s->zero != COMPUTE_BOOL};
  l->d = (compute_kernel_descriptor){.struct_size = sizeof l->d,
                                     .kind = COMPUTE_KERNEL_QUANTIZED_GEMM,
                                     .rank = l->rank,
                                     .input_count = count - 1,
                                     .output_count = 1,
                                     .inputs = l->operand,
                                     .outputs = &l->operand[count - 1],
                                     .accumulate = COMPUTE_F32,
                                     .attributes = &l->a,
                                     .attribute_bytes = sizeof l->a};
  memcpy(l->d.size, (const int64_t[]){batch, s->m, s->n} + (3 - l->rank),
         (size_t)l->rank * sizeof(int64_t));
  if (s->bias) add_bias(l);
}

static void end(launch *l) {
  for (int i = 0; i < BLOCKS; i++)
    if (l->b[i].memory) block_release(&l->b[i]);
}

/* ---- Running -------------------------------------------------------------------------------- */

static void run(fixture *f, launch *l) {
  const compute_status status = run_kernel(f, &cpu_quantized_gemm_kind, &l->d, l->blocks);
  if (status) fail_msg("status %d: %s", (int)status, f->message);
  block_check_guards(&l->b[OUTPUT]);
}

static void visit(fixture *f, const sample *s, bool plain, uint64_t seed) {
  launch l;
  begin(&l, s, plain, seed);
  run(f, &l);
  const double terms = 4 + 2 * sqrt((double)s->k);
  check_results(f, &l.d, l.blocks, (allowed_error){.absolute = terms, .terms = terms});
  end(&l);
}

/* ---- Tests ---------------------------------------------------------------------------------- */

static sample draw(test_random *random, int i) {
  static const compute_dtype floats[] = {COMPUTE_F32, COMPUTE_F32, COMPUTE_F16, COMPUTE_BF16};
  static const int32_t bits[] = {4, 4, 4, 2, 8};
  static const int64_t blocks[] = {16, 32, 64, 128, 8, 4, 12, 20, 96};
  const compute_dtype scale = floats[test_random_integer(random, 0, 3)];
  const int64_t zeros = test_random_integer(random, 0, 3);
  return (sample){.batch = i % 6 ? 0 : test_random_integer(random, 1, 3),
                  .m = test_random_integer(random, i % 29 ? 1 : 0, i % 3 ? 9 : 40),
                  .n = test_random_integer(random, i % 31 ? 1 : 0, i % 4 ? 40 : 150),
                  .k = test_random_integer(random, 0, i % 5 ? 300 : 900),
                  .bits = bits[test_random_integer(random, 0, 4)],
                  .block = blocks[test_random_integer(random, 0, 8)],
                  .a = floats[test_random_integer(random, 0, 3)],
                  .scale = scale,
                  .zero = zeros == 0   ? COMPUTE_BOOL
                          : zeros == 1 ? scale
                                       : COMPUTE_U8,
                  .output = floats[test_random_integer(random, 0, 3)],
                  .bias = test_random_integer(random, 0, 1)};
}

static void random_shapes_are_right(void **state) {
  (void)state;
  for (const char *const *isa = fixture_sets; *isa; isa++) {
    fixture f;
    if (!fixture_open(&f, 2, *isa)) continue;
    test_random random = {.state = 29};
    for (int i = 0; i < 300; i++) {
      const sample s = draw(&random, i);
      visit(&f, &s, i % 4 < 3, (uint64_t)i);
    }
    fixture_close(&f);
  }
}

/* Rows of a language model: whole blocks, and sizes on both sides of every change of method. */
static void layers_are_right(void **state) {
  (void)state;
  for (const char *const *isa = fixture_sets; *isa; isa++) {
    fixture f;
    if (!fixture_open(&f, 2, *isa)) continue;
    for (int64_t m = 1; m <= 20; m++) {
      const sample s = {0,           m,           96,          1024,       4,   32,
                        COMPUTE_F32, COMPUTE_F32, COMPUTE_F32, COMPUTE_U8, true};
      visit(&f, &s, true, (uint64_t)m);
    }
    fixture_close(&f);
  }
}

/* More rows than the kernel expands in registers: every bit width, blocks with and without whole
 * words, k beyond whole words and blocks, and a partial last panel. */
static void many_rows_are_right(void **state) {
  (void)state;
  static const int64_t blocks[] = {16, 32, 128, 12, 4}, ks[] = {400, 1024, 1029};
  for (const char *const *isa = fixture_sets; *isa; isa++) {
    fixture f;
    if (!fixture_open(&f, 2, *isa)) continue;
    for (int i = 0; i < 45; i++) {
      const sample s = {.m = 33 + i,
                        .n = 75,
                        .k = ks[i / 15],
                        .bits = 2 << i / 5 % 3,
                        .block = blocks[i % 5],
                        .a = COMPUTE_F32,
                        .scale = i % 2 ? COMPUTE_F32 : COMPUTE_F16,
                        .zero = i % 3 == 0   ? COMPUTE_BOOL
                                : i % 3 == 1 ? COMPUTE_U8
                                             : (i % 2 ? COMPUTE_F32 : COMPUTE_F16),
                        .output = COMPUTE_F32};
      visit(&f, &s, i % 4 < 3, (uint64_t)i);
    }
    fixture_close(&f);
  }
}

/* A panel of interleaved columns has the bits of each column. */
static void panels_have_the_bits_of_columns(void **state) {
  (void)state;
  enum { WIDTH = 32, BLOCK = 32, FROM = 16, COUNT = 180, BLOCKS_ALL = 7, BYTES = 256 };
  test_random random = {.state = 5};
  for (const char *const *isa = fixture_sets; *isa; isa++) {
    fixture f;
    if (!fixture_open(&f, 1, *isa)) continue;
    const cpu_quantized_table *loops = CPU_PICK(f.device->isa, cpu_quantized);
    for (int32_t bits = 2; loops->panel && bits <= 8; bits *= 2) {
      static uint8_t numbers[WIDTH * BYTES];
      static float scale[BLOCKS_ALL * WIDTH], zero[BLOCKS_ALL * WIDTH], panel[COUNT * WIDTH];
      for (int i = 0; i < WIDTH * BYTES; i++)
        numbers[i] = (uint8_t)test_random_integer(&random, 0, 255);
      for (int i = 0; i < BLOCKS_ALL * WIDTH; i++) {
        scale[i] = (float)test_random_integer(&random, 1, 1 << 20) * 0x1.3p-21f;
        zero[i] = (float)test_random_integer(&random, 0, 1 << 20) * 0x1.7p-18f;
      }
      const cpu_quantized_columns all = {
          .numbers = numbers, .numbers_column = BYTES, .block = BLOCK, .bits = bits};
      loops->panel(&all, scale, zero, FROM, COUNT, WIDTH, panel);
      for (int j = 0; j < WIDTH; j++) {
        float column[COUNT], scales[BLOCKS_ALL], zeros[BLOCKS_ALL];
        for (int b = 0; b < BLOCKS_ALL; b++) {
          scales[b] = scale[b * WIDTH + j];
          zeros[b] = zero[b * WIDTH + j];
        }
        cpu_quantized_columns one = all;
        one.numbers += j * BYTES;
        one.scale = scales;
        one.zero = zeros;
        loops->expand(&one, FROM, COUNT, column);
        for (int p = 0; p < COUNT; p++)
          assert_memory_equal(&panel[p * WIDTH + j], &column[p], sizeof(float));
      }
    }
    fixture_close(&f);
  }
}

static const sample shared[] = {
    {0, 1, 700, 512, 4, 32, COMPUTE_F32, COMPUTE_F32, COMPUTE_F32, COMPUTE_U8, true},
    {0, 3, 300, 500, 8, 20, COMPUTE_F16, COMPUTE_F16, COMPUTE_F16, COMPUTE_BOOL, false},
    {0, 60, 300, 640, 4, 16, COMPUTE_F32, COMPUTE_BF16, COMPUTE_F32, COMPUTE_BF16, true},
    {0, 70, 300, 640, 4, 32, COMPUTE_F32, COMPUTE_F32, COMPUTE_F32, COMPUTE_U8, false},
};

static void threads_change_no_bit(void **state) {
  (void)state;
  for (const char *const *isa = fixture_sets; *isa; isa++)
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
      unsigned char *first = NULL;
      for (int32_t threads = 1; threads <= 4; threads++) {
        fixture f;
        launch l;
        if (!fixture_open(&f, threads, *isa)) continue;
        begin(&l, &shared[i], true, 3);
        run(&f, &l);
        const block *b = &l.b[OUTPUT];
        const size_t bytes = (size_t)b->elements * cpu_dtype_size(b->dtype);
        if (!first) {
          first = malloc(bytes);
          assert_non_null(first);
          memcpy(first, block_data(b), bytes);
        }
        assert_memory_equal(first, block_data(b), bytes);
        end(&l);
        fixture_close(&f);
      }
      free(first);
    }
}

/* A row has the same bits alone and among others, also if computed in registers. */
static void a_row_does_not_depend_on_the_others(void **state) {
  (void)state;
  enum { ROWS = 7 };
  fixture f;
  launch all, one;
  sample s = {0, ROWS, 50, 256, 4, 32, COMPUTE_F32, COMPUTE_F32, COMPUTE_F32, COMPUTE_U8, false};
  assert_true(fixture_open(&f, 2, NULL));
  begin(&all, &s, true, 4);
  run(&f, &all);
  for (int64_t row = 0; row < ROWS; row++) {
    s.m = 1;
    begin(&one, &s, true, 4);
    for (int i = NUMBERS; i <= ZERO; i++)
      memcpy(block_data(&one.b[i]), block_data(&all.b[i]),
             (size_t)all.b[i].elements * cpu_dtype_size(all.b[i].dtype));
    memcpy(block_data(&one.b[A]), block_data(&all.b[A]) + row * s.k * 4, (size_t)s.k * 4);
    run(&f, &one);
    assert_memory_equal(block_data(&one.b[OUTPUT]), block_data(&all.b[OUTPUT]) + row * s.n * 4,
                        (size_t)s.n * 4);
    end(&one);
  }
  end(&all);
  fixture_close(&f);
}

static void lack_of_memory_is_reported(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
    launch l;
    begin(&l, &shared[i], true, 1);
    check_allocation_failures(&cpu_quantized_gemm_kind, &l.d, l.blocks);
    end(&l);
  }
}

static void sums_in_f64_are_refused(void **state) {
  (void)state;
  fixture f;
  launch l;
  cpu_kernel *kernel = NULL;
  assert_true(fixture_open(&f, 1, NULL));
  begin(&l, &shared[0], true, 1);
  l.d.accumulate = COMPUTE_F64;
  assert_int_equal(cpu_kind_prepare(&cpu_quantized_gemm_kind, f.device, &l.d, &kernel),
                   COMPUTE_ERROR_UNSUPPORTED);
  end(&l);
  fixture_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_shapes_are_right),
      cmocka_unit_test(layers_are_right),
      cmocka_unit_test(many_rows_are_right),
      cmocka_unit_test(panels_have_the_bits_of_columns),
      cmocka_unit_test(threads_change_no_bit),
      cmocka_unit_test(a_row_does_not_depend_on_the_others),
      cmocka_unit_test(lack_of_memory_is_reported),
      cmocka_unit_test(sums_in_f64_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
