/* SPDX-License-Identifier: MIT */
/* Programs that run as one loop (program/finish.h) give the bits of the interpreter, which
 * test_interpreter.c checks: sums of up to four inputs, with and without limits, over boxes with
 * every kind of step, and with special numbers. So do products whose micro-kernel runs the program,
 * and bf16 products with functions of the sum. */
#include "kernel_fixture.h"

#include "gemm/isa/gemm_table.h"

#include "program/finish.h"

enum { INPUTS = 4, MOST_INSTRUCTIONS = 16, SIDE = 24 };

typedef struct sample {
  compute_instruction instructions[MOST_INSTRUCTIONS];
  uint16_t outputs[1];
  compute_program program;
  uint32_t inputs;
} sample;

static uint16_t append(sample *s, compute_instruction_code code, uint16_t a, uint16_t b) {
  s->instructions[s->program.count] =
      (compute_instruction){.code = (uint8_t)code, .type = COMPUTE_F32, .a = a, .b = b};
  return (uint16_t)s->program.count++;
}

static uint16_t load(sample *s, int64_t input) {
  const uint16_t value = append(s, COMPUTE_I_LOAD, 0, 0);
  s->instructions[value].immediate.i64 = input;
  return value;
}

static uint16_t constant(sample *s, double number) {
  const uint16_t value = append(s, COMPUTE_I_CONSTANT, 0, 0);
  s->instructions[value].immediate.f64 = number;
  return value;
}

static bool coin(test_random *random) {
  return test_random_integer(random, 0, 1);
}

static uint16_t add(sample *s, test_random *random, uint16_t a, uint16_t b) {
  const bool turned = coin(random);
  return append(s, COMPUTE_I_ADD, turned ? b : a, turned ? a : b);
}

/* A limit, with the constant on either side. */
static uint16_t limit(sample *s, test_random *random, compute_instruction_code code, uint16_t x,
                      double number) {
  const uint16_t bound = constant(s, number);
  const bool turned = coin(random);
  return append(s, code, turned ? bound : x, turned ? x : bound);
}

/* With a `tail`, further functions of the sum may follow. */
static sample make_sample(test_random *random, bool tail) {
  static const double lows[] = {0, -0.0, -1, 1e-40, -INFINITY};
  static const double highs[] = {6, 0, -0.0, 1e-40, INFINITY};
  sample s = {.inputs = (uint32_t)test_random_integer(random, 1, INPUTS)};
  uint16_t value[INPUTS] = {0};
  for (uint32_t i = 0; i < s.inputs; i++) value[i] = load(&s, i);
  uint16_t sum = value[0];
  if (s.inputs == 2 || (s.inputs > 2 && coin(random))) {
    sum = add(&s, random, sum, value[1]);
    if (s.inputs == 3) sum = add(&s, random, sum, value[2]);
    if (s.inputs == 4) sum = add(&s, random, sum, add(&s, random, value[2], value[3]));
  } else if (s.inputs > 2) {
    sum = add(&s, random, sum, add(&s, random, value[1], value[2]));
    if (s.inputs == 4) sum = add(&s, random, sum, value[3]);
  }
  const int64_t lower = test_random_integer(random, 0, 2);
  if (lower == 1) sum = append(&s, COMPUTE_I_RELU, sum, 0);
  if (lower == 2)
    sum = limit(&s, random, COMPUTE_I_MAX, sum, lows[test_random_integer(random, 0, 4)]);
  if (coin(random))
    sum = limit(&s, random, COMPUTE_I_MIN, sum, highs[test_random_integer(random, 0, 4)]);
  if (tail && coin(random)) sum = append(&s, COMPUTE_I_SILU, sum, 0);
  if (tail && coin(random)) {
    const uint16_t size = append(&s, COMPUTE_I_ABS, sum, 0);
    sum = append(&s, COMPUTE_I_MUL, size, sum);
    if (coin(random)) sum = append(&s, COMPUTE_I_SUB, constant(&s, 2), sum);
  }
  s.outputs[0] = sum;
  s.program.output_count = 1;
  return s;
}

static void fill(float *data, int64_t count, test_random *random) {
  static const float special[] = {0, -0.0f, NAN, INFINITY, -INFINITY, 1e-40f, -1e-40f, 6, 3e38f};
  for (int64_t i = 0; i < count; i++)
    data[i] = coin(random) ? special[test_random_integer(random, 0, 8)]
                           : (float)test_random_uniform(random, -9, 9);
}

/* Lays out one operand of a box: any dimension may be innermost, and inputs other than the first
 * may repeat. */
static void lay_out(const cpu_box *box, bool may_repeat, test_random *random,
                    int64_t step[CPU_BOX_RANK]) {
  static const int orders[][3] = {{2, 1, 0}, {1, 2, 0}, {2, 0, 1}, {0, 1, 2}};
  const int *order = orders[test_random_integer(random, 0, 3)];
  int64_t next = test_random_integer(random, 0, 5) ? 1 : 2;
  for (int i = 0; i < 3; i++) {
    const bool repeats = may_repeat && !test_random_integer(random, 0, 2);
    step[order[i]] = repeats ? 0 : next;
    if (!repeats) next *= box->count[order[i]] + (next > 2 ? 1 : 0);
  }
}

typedef struct arrays {
  float input[INPUTS][2 * SIDE * SIDE * SIDE], output[2 * SIDE * SIDE * SIDE],
      before[2 * SIDE * SIDE * SIDE];
} arrays;

static cpu_box make_box(const cpu_program *program, uint32_t inputs, arrays *a,
                        test_random *random) {
  cpu_box box = {.program = program, .rank = 3, .dimension = {0, 1, 2}};
  for (int d = 0; d < 3; d++) box.count[d] = test_random_integer(random, 1, SIDE - 6);
  for (uint32_t i = 0; i < inputs; i++) {
    fill(a->input[i], 2 * SIDE * SIDE * SIDE, random);
    box.input[i] = (const unsigned char *)a->input[i];
    lay_out(&box, i > 0, random, box.input_step[i]);
  }
  fill(a->output, 2 * SIDE * SIDE * SIDE, random);
  memcpy(a->before, a->output, sizeof a->before);
  box.output[0] = (unsigned char *)a->output;
  lay_out(&box, false, random, box.output_step[0]);
  return box;
}

/* The interpreter's result for one element, or its previous value outside the box. */
static float expected_at(const cpu_box *box, const float *before, int64_t at) {
  for (int64_t i = 0; i < box->count[0]; i++)
    for (int64_t j = 0; j < box->count[1]; j++)
      for (int64_t k = 0; k < box->count[2]; k++) {
        const int64_t *o = box->output_step[0];
        if (i * o[0] + j * o[1] + k * o[2] != at) continue;
        float result;
        cpu_tile tile = {.count = 1, .output = {&result}, .output_stride = {1}};
        for (uint32_t n = 0; n < INPUTS && box->input[n]; n++) {
          const int64_t *s = box->input_step[n];
          tile.input[n] = (void *)(uintptr_t)((const float *)(const void *)box->input[n] +
                                              i * s[0] + j * s[1] + k * s[2]);
          tile.input_stride[n] = 1;
        }
        cpu_scratch scratch;
        cpu_program_run(box->program, &tile, &scratch, false);
        return result;
      }
  return before[at];
}

static bool same(float a, float b) {
  return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

static cpu_program *prepare_sample(fixture *f, sample *s) {
  static const compute_dtype dtypes[INPUTS] = {COMPUTE_F32, COMPUTE_F32, COMPUTE_F32, COMPUTE_F32};
  s->program.instructions = s->instructions;
  s->program.outputs = s->outputs;
  cpu_program *program = NULL;
  assert_int_equal(
      cpu_program_prepare(f->device, &s->program, s->inputs, dtypes, 1, dtypes, &program),
      COMPUTE_OK);
  return program;
}

/* Runs a program over a random box. */
static void check_box(fixture *f, const cpu_program *program, uint32_t inputs, uint64_t number,
                      test_random *random) {
  static arrays a;
  const cpu_box box = make_box(program, inputs, &a, random);
  const int32_t along = (int32_t)test_random_integer(random, 0, 2);
  cpu_box_run(&box, along);
  for (int n = 0; n < 300; n++) {
    const int64_t at = test_random_integer(random, 0, box.count[0] * box.count[1] * box.count[2]);
    const float expected = expected_at(&box, a.before, at);
    if (!same(a.output[at], expected))
      fail_msg("%s, program %llu: element %lld is %.9g, not %.9g", f->device->isa->name,
               (unsigned long long)number, (long long)at, (double)a.output[at], (double)expected);
  }
}

/* Returns 1 for a program that is one loop, 1000 for one that begins with the loop. */
static int check_program(fixture *f, uint64_t number) {
  test_random random = {number};
  sample s = make_sample(&random, number % 2 == 1);
  cpu_program *program = prepare_sample(f, &s);
  const int one_loop = program->finish.loops ? 1 : program->rest ? 1000 : 0;
  check_box(f, program, s.inputs, number, &random);
  cpu_program_release(f->device, program);
  return one_loop;
}

static void one_loop_gives_the_bits_of_the_interpreter(void **state) {
  (void)state;
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    int loops = 0;
    for (uint64_t number = 0; number < 400; number++) loops += check_program(&f, number);
    assert_in_range(loops % 1000, 150, 350);
    assert_in_range(loops / 1000, 40, 200);
    fixture_close(&f);
  }
}

/* Factors and addends of other inputs between functions, as after a batch norm that stays: no loop
 * computes them. */
static sample make_interpreted(test_random *random) {
  sample s = {.inputs = INPUTS};
  uint16_t value[INPUTS];
  for (uint32_t i = 0; i < INPUTS; i++) value[i] = load(&s, i);
  uint16_t x = append(&s, COMPUTE_I_RELU, add(&s, random, value[0], value[1]), 0);
  x = add(&s, random, append(&s, COMPUTE_I_MUL, x, value[2]), value[3]);
  if (coin(random)) x = append(&s, COMPUTE_I_MUL, x, append(&s, COMPUTE_I_ABS, x, 0));
  s.outputs[0] = coin(random) ? append(&s, COMPUTE_I_SUB, x, value[1]) : x;
  s.program.output_count = 1;
  return s;
}

static void short_lines_that_run_together_give_the_bits_of_the_interpreter(void **state) {
  (void)state;
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    for (uint64_t number = 0; number < 80; number++) {
      test_random random = {number};
      sample s = make_interpreted(&random);
      cpu_program *program = prepare_sample(&f, &s);
      assert_true(!program->finish.loops && !program->rest);
      check_box(&f, program, s.inputs, number, &random);
      cpu_program_release(f.device, program);
    }
    fixture_close(&f);
  }
}

/* ---- In the micro-kernel of products ------------------------------------------------------- */

enum { MOST_M = 40, MOST_N = 80, MOST_K = 20, ROW = MOST_N + 3, OPERAND = (MOST_M + 3) * ROW };

/* The interpreter's result for one element: x and the other inputs at row i, column j. */
static float interpreted(const cpu_program *program, uint32_t inputs, float x,
                         float (*extra)[OPERAND], const int64_t *row, const int64_t *column,
                         int64_t i, int64_t j) {
  float result;
  cpu_tile tile = {.count = 1, .input = {&x}, .input_stride = {1}};
  tile.output[0] = &result;
  tile.output_stride[0] = 1;
  for (uint32_t n = 1; n < inputs; n++) {
    tile.input[n] = &extra[n][i * row[n] + j * column[n]];
    tile.input_stride[n] = 1;
  }
  cpu_scratch scratch;
  cpu_program_run(program, &tile, &scratch, false);
  return result;
}

static bool check_product(fixture *f, uint64_t number) {
  static float a[MOST_M * MOST_K], b[MOST_K * MOST_N], packed[2 * MOST_K * MOST_N + 64];
  static float sums[MOST_M * ROW], c[MOST_M * ROW], y[OPERAND], before[OPERAND];
  static float extra[INPUTS][OPERAND];
  const cpu_gemm_type *type = f->device->isa->gemm->f32;
  test_random random = {number};
  sample s = make_sample(&random, false);
  cpu_program *program = prepare_sample(f, &s);
  if (!program->finish.loops) {
    cpu_program_release(f->device, program);
    return false;
  }
  const int64_t m = test_random_integer(&random, 1, MOST_M);
  const int64_t n = test_random_integer(&random, 1, MOST_N);
  const int64_t k = test_random_integer(&random, 1, MOST_K);
  for (int64_t i = 0; i < MOST_M * MOST_K; i++) a[i] = (float)test_random_uniform(&random, -2, 2);
  for (int64_t i = 0; i < MOST_K * MOST_N; i++) b[i] = (float)test_random_uniform(&random, -2, 2);
  for (int i = 1; i < INPUTS; i++) fill(extra[i], OPERAND, &random);
  fill(y, OPERAND, &random);
  fill(c, MOST_M * ROW, &random);
  memcpy(before, y, sizeof y);
  memcpy(sums, c, sizeof c);
  const cpu_gemm_source source = {b, COMPUTE_F32, n, 1};
  type->pack_panels(packed, k, n, &source);
  cpu_gemm_block product = {.m = m,
                            .n = n,
                            .k = k,
                            .a = a,
                            .a_row = k,
                            .a_k = 1,
                            .b = packed,
                            .b_k = type->columns,
                            .b_column = k * type->columns,
                            .c = sums,
                            .c_row = ROW,
                            .accumulate = coin(&random)};
  type->multiply(&product);
  int64_t row[INPUTS], column[INPUTS];
  for (int i = 1; i < INPUTS; i++) {
    const bool is_a = program->finish.input[0] == i;
    column[i] = is_a && coin(&random) ? 0 : 1;
    row[i] = coin(&random) ? ROW : column[i] ? 0 : 1;
  }
  cpu_gemm_finish finish = {.low = program->finish.low,
                            .zero = program->finish.zero,
                            .high = program->finish.high,
                            .y = y,
                            .y_row = ROW};
  const int16_t *input = program->finish.input;
  const int64_t first = test_random_integer(&random, 0, 2); /* offset of C in the operands */
  for (int i = 0; i < 3; i++) {
    if (input[i] <= 0) continue;
    const float *at = extra[input[i]];
    *(i == 0 ? &finish.a : i == 1 ? &finish.b : &finish.c) = at;
    *(i == 0 ? &finish.a_row : i == 1 ? &finish.b_row : &finish.c_row) = row[input[i]];
    if (i == 0) finish.a_repeats = column[input[0]] == 0;
  }
  const cpu_tile_table *tile = f->device->isa->tile;
  const cpu_tile_loop silu = (*tile->compute[CPU_TYPE_F32])[COMPUTE_I_SILU][0];
  if (coin(&random)) finish.after = (*tile->rows)[COMPUTE_I_SILU];
  product.c = c;
  product.finish = &finish;
  product.row = product.column = first;
  type->multiply(&product);
  for (int64_t at = 0; at < OPERAND; at++) {
    const int64_t i = at / ROW - first, j = at % ROW - first;
    const bool inside = i >= 0 && i < m && j >= 0 && j < n;
    float expected = inside ? interpreted(program, s.inputs, sums[i * ROW + j], extra, row, column,
                                          i + first, j + first)
                            : before[at];
    if (inside && finish.after)
      silu(1, &expected, &expected, NULL, NULL, (cpu_immediate){.i64 = 0});
    if (!same(y[at], expected))
      fail_msg("%s, program %llu, %lldx%lld: element (%lld, %lld) is %.9g, not %.9g",
               f->device->isa->name, (unsigned long long)number, (long long)m, (long long)n,
               (long long)i, (long long)j, (double)y[at], (double)expected);
  }
  cpu_program_release(f->device, program);
  return true;
}

static void products_that_are_finished_have_the_bits_of_the_interpreter(void **state) {
  (void)state;
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    int finished = 0;
    for (uint64_t number = 0; number < 300; number++) finished += check_product(&f, number);
    assert_in_range(finished, 150, 299);
    fixture_close(&f);
  }
}

/* ---- With functions of the sum, in bf16 ---------------------------------------------------- */

typedef struct halves {
  uint16_t a[MOST_M * MOST_K], b[MOST_K * MOST_N], packed_a[MOST_M * (MOST_K + 64)],
      packed_b[MOST_K * (MOST_N + 32)];
  float sums[MOST_M * ROW], c[MOST_M * ROW];
  uint16_t y[OPERAND], before[OPERAND], extra[INPUTS][OPERAND];
} halves;

static uint16_t half_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return (uint16_t)(bits >> 16);
}

static void fill_halves(uint16_t *data, int64_t count, test_random *random) {
  float x;
  for (int64_t i = 0; i < count; i++) {
    fill(&x, 1, random);
    data[i] = half_of(x);
  }
}

static bool same_half(uint16_t a, uint16_t b) {
  return a == b || ((a & 0x7fff) > 0x7f80 && (b & 0x7fff) > 0x7f80);
}

/* Like interpreted(), from bf16 to bf16. */
static uint16_t interpreted_half(const cpu_program *program, uint32_t inputs, float x,
                                 const halves *h, const int64_t *row, const int64_t *column,
                                 int64_t i, int64_t j) {
  uint16_t result;
  cpu_tile tile = {.count = 1, .input = {&x}, .input_stride = {1}};
  tile.output[0] = &result;
  tile.output_stride[0] = 1;
  for (uint32_t n = 1; n < inputs; n++) {
    tile.input[n] = &h->extra[n][i * row[n] + j * column[n]];
    tile.input_stride[n] = 1;
  }
  cpu_scratch scratch;
  cpu_program_run(program, &tile, &scratch, false);
  return result;
}

/* A sum, possibly limited, and one or two functions of it. */
static sample make_functions(test_random *random) {
  static const compute_instruction_code codes[] = {COMPUTE_I_GELU, COMPUTE_I_SILU, COMPUTE_I_TANH,
                                                   COMPUTE_I_ERF, COMPUTE_I_GELU_TANH};
  sample s = make_sample(random, false);
  if (s.program.count + 2 > MOST_INSTRUCTIONS) return s;
  if (coin(random)) s.outputs[0] = append(&s, COMPUTE_I_SIGMOID, s.outputs[0], 0);
  s.outputs[0] = append(&s, codes[test_random_integer(random, 0, 4)], s.outputs[0], 0);
  return s;
}

static void place_halves(const cpu_program *program, const halves *h, const int64_t *row,
                         const int64_t *column, cpu_gemm_finish *finish) {
  const cpu_finish *sum = &program->sum;
  *finish = (cpu_gemm_finish){.low = sum->low,
                              .zero = sum->zero,
                              .high = sum->high,
                              .apply = cpu_finish_apply,
                              .functions = program->functions};
  for (int i = 0; i < 3; i++) {
    const int16_t input = sum->input[i];
    if (input <= 0) continue;
    *(i == 0 ? &finish->a : i == 1 ? &finish->b : &finish->c) = h->extra[input];
    *(i == 0 ? &finish->a_row : i == 1 ? &finish->b_row : &finish->c_row) = row[input];
    if (i == 0) finish->a_repeats = column[input] == 0;
  }
}

static bool check_functions(fixture *f, uint64_t number) {
  static halves h;
  static const compute_dtype inputs[INPUTS] = {COMPUTE_F32, COMPUTE_BF16, COMPUTE_BF16,
                                               COMPUTE_BF16};
  static const compute_dtype bf16 = COMPUTE_BF16;
  const cpu_gemm_type *type = f->device->isa->gemm->bf16;
  test_random random = {number};
  sample s = make_functions(&random);
  s.program.instructions = s.instructions;
  s.program.outputs = s.outputs;
  cpu_program *program = NULL;
  assert_int_equal(cpu_program_prepare(f->device, &s.program, s.inputs, inputs, 1, &bf16, &program),
                   COMPUTE_OK);
  if (!program->functions) {
    cpu_program_release(f->device, program);
    return false;
  }
  const int64_t m = test_random_integer(&random, 1, MOST_M);
  const int64_t n = test_random_integer(&random, 1, MOST_N);
  const int64_t k = test_random_integer(&random, 1, MOST_K / 2), elements = 2 * k;
  /* Every third product is 0, so its sums and results may be denormal. */
  for (int64_t i = 0; i < MOST_M * MOST_K; i++)
    h.a[i] = number % 3 ? half_of((float)test_random_uniform(&random, -2, 2)) : 0;
  for (int64_t i = 0; i < MOST_K * MOST_N; i++)
    h.b[i] = half_of((float)test_random_uniform(&random, -2, 2));
  for (int i = 1; i < INPUTS; i++) fill_halves(h.extra[i], OPERAND, &random);
  fill_halves(h.y, OPERAND, &random);
  memcpy(h.before, h.y, sizeof h.y);
  for (int64_t i = 0; i < MOST_M * ROW; i++)
    h.c[i] = h.sums[i] = (float)test_random_uniform(&random, -1, 1);
  const cpu_gemm_source a = {h.a, COMPUTE_BF16, elements, 1}, b = {h.b, COMPUTE_BF16, n, 1};
  type->pack_rows(h.packed_a, elements, m, elements, &a);
  type->pack_words(h.packed_b, true, n, elements, &b, COMPUTE_BF16);
  cpu_gemm_block product = {.m = m,
                            .n = n,
                            .k = k,
                            .a = h.packed_a,
                            .a_row = k,
                            .a_k = 1,
                            .b = h.packed_b,
                            .b_k = type->columns,
                            .b_column = k * type->columns,
                            .c = h.sums,
                            .c_row = ROW,
                            .accumulate = coin(&random)};
  type->multiply(&product);
  int64_t row[INPUTS], column[INPUTS];
  for (int i = 1; i < INPUTS; i++) {
    column[i] = program->sum.input[0] == i && coin(&random) ? 0 : 1;
    row[i] = coin(&random) ? ROW : column[i] ? 0 : 1;
  }
  cpu_gemm_finish finish;
  place_halves(program, &h, row, column, &finish);
  finish.y = h.y;
  finish.y_row = ROW;
  const int64_t first = test_random_integer(&random, 0, 2); /* offset of C in the operands */
  product.c = h.c;
  product.finish = &finish;
  product.row = product.column = first;
  type->multiply(&product);
  for (int64_t at = 0; at < OPERAND; at++) {
    const int64_t i = at / ROW - first, j = at % ROW - first;
    const bool inside = i >= 0 && i < m && j >= 0 && j < n;
    const uint16_t expected = inside ? interpreted_half(program, s.inputs, h.sums[i * ROW + j], &h,
                                                        row, column, i + first, j + first)
                                     : h.before[at];
    if (!same_half(h.y[at], expected))
      fail_msg("program %llu, %lldx%lld: element (%lld, %lld) is %04x, not %04x",
               (unsigned long long)number, (long long)m, (long long)n, (long long)i, (long long)j,
               h.y[at], expected);
  }
  cpu_program_release(f->device, program);
  return true;
}

static void functions_after_products_of_bf16_have_the_bits_of_the_interpreter(void **state) {
  (void)state;
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    int finished = 0;
    const bool has = f.device->isa->gemm->bf16 != NULL;
    for (uint64_t number = 0; has && number < 300; number++)
      finished += check_functions(&f, number);
    if (has) assert_in_range(finished, 150, 300);
    fixture_close(&f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_loop_gives_the_bits_of_the_interpreter),
      cmocka_unit_test(short_lines_that_run_together_give_the_bits_of_the_interpreter),
      cmocka_unit_test(products_that_are_finished_have_the_bits_of_the_interpreter),
      cmocka_unit_test(functions_after_products_of_bf16_have_the_bits_of_the_interpreter),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
