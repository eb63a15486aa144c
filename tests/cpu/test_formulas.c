/* SPDX-License-Identifier: MIT */
/* Programs that match a compiled loop (program/isa/formulas.def) are recognised and give the bits
 * of the interpreter, which test_interpreter.c checks. They are the programs that the library
 * records. */
#include <compute/compute.h>

#include "kernel_fixture.h"

#include "program/formulas.h"

enum {
  MOST_INSTRUCTIONS = 64,
  MOST_INPUTS = CPU_FORMULA_INPUTS + CPU_FORMULA_NUMBERS,
  MOST = 3000
};

typedef struct sample {
  compute_instruction instructions[MOST_INSTRUCTIONS];
  uint16_t outputs[CPU_FORMULA_OUTPUTS];
  compute_program program;
  bool constant[CPU_FORMULA_NUMBERS]; /* not an input */
} sample;

static uint16_t append(sample *s, compute_instruction_code code, uint16_t a, uint16_t b,
                       uint16_t c) {
  assert_true(s->program.count < MOST_INSTRUCTIONS);
  s->instructions[s->program.count] =
      (compute_instruction){.code = (uint8_t)code,
                            .type = code == COMPUTE_I_LE ? COMPUTE_BOOL : COMPUTE_F32,
                            .a = a,
                            .b = b,
                            .c = c};
  return (uint16_t)s->program.count++;
}

static uint16_t load(sample *s, int64_t input) {
  const uint16_t value = append(s, COMPUTE_I_LOAD, 0, 0, 0);
  s->instructions[value].immediate.i64 = input;
  return value;
}

static uint16_t repeated(sample *s, int n) {
  if (!s->constant[n]) return load(s, CPU_FORMULA_INPUTS + n);
  const uint16_t value = append(s, COMPUTE_I_CONSTANT, 0, 0, 0);
  s->instructions[value].immediate.f64 = 0.25 * (n + 1);
  return value;
}

/* ---- Each row as a program ------------------------------------------------------------------- */

#define IN(n)           load(s, n)
#define REPEATED(n)     repeated(s, n)
#define VALUE(n)        s->outputs[n]
#define ADD(a, b)       append(s, COMPUTE_I_ADD, a, b, 0)
#define SUB(a, b)       append(s, COMPUTE_I_SUB, a, b, 0)
#define MUL(a, b)       append(s, COMPUTE_I_MUL, a, b, 0)
#define DIV(a, b)       append(s, COMPUTE_I_DIV, a, b, 0)
#define SQUARE(a)       append(s, COMPUTE_I_SQUARE, a, 0, 0)
#define SQRT(a)         append(s, COMPUTE_I_SQRT, a, 0, 0)
#define RELU(a)         append(s, COMPUTE_I_RELU, a, 0, 0)
#define LE(a, b)        append(s, COMPUTE_I_LE, a, b, 0)
#define SELECT(c, a, b) append(s, COMPUTE_I_SELECT, c, a, b)
#define OUT(n, e)       s->outputs[n] = e;

#define FORMULA(name, outputs_, body)                                                              \
  static void record_##name(sample *s) {                                                           \
    body s->program.output_count = outputs_;                                                       \
  }
#include "program/isa/formulas.def"

static void (*const record[CPU_FORMULA_COUNT])(sample *) = {
#define FORMULA(name, outputs_, body) [CPU_FORMULA_##name] = record_##name,
#include "program/isa/formulas.def"
};

/* ---- Comparing ------------------------------------------------------------------------------- */

typedef struct arrays {
  float input[MOST_INPUTS][2 * MOST];
  float output[2][CPU_FORMULA_OUTPUTS][MOST];
} arrays;

static void fill(float *data, int64_t count, test_random *random) {
  static const float special[] = {0, -0.0f, NAN, INFINITY, -INFINITY, 1e-40f, -1e-40f, 3e38f};
  for (int64_t i = 0; i < count; i++)
    data[i] = test_random_integer(random, 0, 20) ? (float)test_random_uniform(random, -9, 9)
                                                 : special[test_random_integer(random, 0, 7)];
}

static bool same(float a, float b) {
  return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

/* `stride` 1: for the compiled loops; 2: for the interpreter. `in_place`: outputs overwrite
 * inputs. */
static cpu_tile make_tile(arrays *a, uint32_t outputs, int64_t count, int64_t stride,
                          bool in_place) {
  cpu_tile tile = {.count = count};
  for (uint32_t i = 0; i < MOST_INPUTS; i++) {
    tile.input[i] = a->input[i];
    tile.input_stride[i] = i < CPU_FORMULA_INPUTS ? stride : 0;
  }
  for (uint32_t k = 0; k < outputs; k++) {
    tile.output[k] = in_place ? a->input[k + 1] : a->output[stride - 1][k];
    tile.output_stride[k] = 1;
  }
  return tile;
}

static void spread(arrays *a, int64_t count) {
  for (int i = 0; i < CPU_FORMULA_INPUTS; i++)
    for (int64_t j = count; j-- > 0;) a->input[i][2 * j] = a->input[i][j];
}

static void check_formula(fixture *f, int number, test_random *random) {
  static arrays a;
  static compute_dtype dtypes[MOST_INPUTS];
  cpu_scratch scratch;
  sample s = {0};
  for (int n = 0; n < CPU_FORMULA_NUMBERS; n++) s.constant[n] = test_random_integer(random, 0, 1);
  record[number](&s);
  s.program.instructions = s.instructions;
  s.program.outputs = s.outputs;
  for (int i = 0; i < MOST_INPUTS; i++) {
    dtypes[i] = COMPUTE_F32;
    fill(a.input[i], MOST, random);
  }
  const uint32_t outputs = s.program.output_count;
  cpu_program *program = NULL;
  assert_int_equal(
      cpu_program_prepare(f->device, &s.program, MOST_INPUTS, dtypes, outputs, dtypes, &program),
      COMPUTE_OK);
  assert_non_null(program->formula.loop);
  const int64_t count =
      test_random_integer(random, 1, cpu_min(MOST, cpu_program_tile_elements(program)));
  const bool stream = test_random_integer(random, 0, 1);
  cpu_tile tile = make_tile(&a, outputs, count, 1, false);
  assert_true(cpu_formula_suits(&program->formula, &tile));
  cpu_program_run(program, &tile, &scratch, stream);
  cpu_stream_fence();
  static arrays wide;
  wide = a;
  spread(&wide, count);
  cpu_tile apart = make_tile(&wide, outputs, count, 2, false);
  assert_true(count == 1 || !cpu_formula_suits(&program->formula, &apart));
  cpu_program_run(program, &apart, &scratch, false);
  cpu_tile over = make_tile(&a, outputs, count, 1, outputs > 1);
  cpu_program_run(program, &over, &scratch, false);
  for (uint32_t k = 0; k < outputs; k++)
    for (int64_t i = 0; i < count; i++) {
      const float expected = wide.output[1][k][i], value = a.output[0][k][i];
      if (!same(value, expected) || !same(((const float *)over.output[k])[i], expected))
        fail_msg("%s, formula %d, output %u, element %lld of %lld: %.9g, not %.9g",
                 f->device->isa->name, number, (unsigned)k, (long long)i, (long long)count,
                 (double)value, (double)expected);
    }
  cpu_program_release(f->device, program);
}

static void loops_give_the_bits_of_the_interpreter(void **state) {
  (void)state;
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    test_random random = {7};
    for (int number = 0; number < CPU_FORMULA_COUNT; number++)
      for (int times = 0; times < 20; times++) check_formula(&f, number, &random);
    fixture_close(&f);
  }
}

/* Boxes of three dimensions, in lines along each dense dimension. */
static void check_box(fixture *f, int along, const cpu_program *program) {
  enum { A = 3, B = 4, C = 50, GAP = 7, ALL = A * B * (C + GAP) + GAP };
  static float x[ALL], relu[ALL], y[ALL], before[ALL];
  test_random random = {11};
  int64_t count[3] = {A, B, A}, step = 1;
  cpu_box box = {.program = program,
                 .rank = 3,
                 .input = {(const unsigned char *)x, (const unsigned char *)relu},
                 .output = {(unsigned char *)y}};
  count[along] = C;
  for (int i = 0; i < 3; i++) {
    const int d = (along + 2 * i) % 3; /* the i-th from the innermost */
    box.count[d] = count[d];
    box.output_step[0][d] = box.input_step[0][d] = box.input_step[1][d] = step;
    step *= count[d] + (i == 0 ? GAP : 0);
  }
  fill(x, ALL, &random);
  fill(relu, ALL, &random);
  fill(y, ALL, &random);
  memcpy(before, y, sizeof y);
  assert_true(cpu_formula_run_box(&program->formula, &box, along));
  assert_false(cpu_formula_run_box(&program->formula, &box, (along + 1) % 3));
  for (int64_t i = 0; i < step; i++) {
    const bool inside = i % (C + GAP) < C;
    const float expected = !inside ? before[i] : relu[i] <= 0 ? 0 : x[i];
    if (!same(y[i], expected))
      fail_msg("%s, along %d, element %lld: %.9g, not %.9g", f->device->isa->name, along,
               (long long)i, (double)y[i], (double)expected);
  }
}

static void boxes_are_whole(void **state) {
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F32};
  const compute_program passed = fixture_relu_gradient();
  (void)state;
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    cpu_program *program = NULL;
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    assert_int_equal(cpu_program_prepare(f.device, &passed, 2, dtypes, 1, dtypes, &program),
                     COMPUTE_OK);
    for (int along = 0; along < 3; along++) check_box(&f, along, program);
    cpu_program_release(f.device, program);
    fixture_close(&f);
  }
}

/* ---- Recorded by the library --------------------------------------------------------------- */

typedef compute_node (*apply_function)(compute_graph *graph, const compute_node *parameter,
                                       const compute_node *gradient);

static compute_node apply_adam(compute_graph *graph, const compute_node *parameter,
                               const compute_node *gradient) {
  return compute_adam_apply(graph, parameter, gradient, 1, NULL);
}
static compute_node apply_adam_decay(compute_graph *graph, const compute_node *parameter,
                                     const compute_node *gradient) {
  return compute_adam_apply(graph, parameter, gradient, 1,
                            &(compute_adam_options){.weight_decay = 0.01});
}
static compute_node apply_adamw(compute_graph *graph, const compute_node *parameter,
                                const compute_node *gradient) {
  return compute_adam_apply(graph, parameter, gradient, 1,
                            &(compute_adam_options){.weight_decay = 0.01, .decoupled = true});
}
static compute_node apply_momentum(compute_graph *graph, const compute_node *parameter,
                                   const compute_node *gradient) {
  return compute_sgd_apply(graph, parameter, gradient, 1, &(compute_sgd_options){.momentum = 0.9});
}
static compute_node apply_momentum_decay(compute_graph *graph, const compute_node *parameter,
                                         const compute_node *gradient) {
  return compute_sgd_apply(graph, parameter, gradient, 1,
                           &(compute_sgd_options){.momentum = 0.9, .weight_decay = 0.01});
}

static void optimizers_are_one_loop(void **state) {
  static const apply_function apply[] = {apply_adam, apply_adam_decay, apply_adamw, apply_momentum,
                                         apply_momentum_decay};
  (void)state;
  compute_context *context;
  assert_int_equal(compute_open(&context, &(compute_open_options){.backends = "cpu"}), COMPUTE_OK);
  compute_device *device = compute_default_device(context);
  compute_tensor *weight;
  assert_int_equal(compute_tensor_full(device, COMPUTE_F32, COMPUTE_SHAPE(40, 50), 1, &weight),
                   COMPUTE_OK);
  for (size_t i = 0; i < sizeof apply / sizeof *apply; i++) {
    compute_graph *graph = compute_graph_create(context);
    const compute_node parameter = compute_parameter(graph, weight);
    const compute_node gradient = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(40, 50));
    const compute_node updates = apply[i](graph, &parameter, &gradient);
    compute_plan *plan;
    char *text = NULL;
    assert_int_equal(compute_compile(graph, &updates, 1, NULL, &plan), COMPUTE_OK);
    assert_int_equal(compute_explain(plan, &text), COMPUTE_OK);
    if (!strstr(text, "map: one loop, ")) fail_msg("update %d is interpreted:\n%s", (int)i, text);
    compute_text_free(text);
    compute_plan_release(plan);
    compute_graph_release(graph);
  }
  compute_tensor_release(weight);
  assert_int_equal(compute_close(context), COMPUTE_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loops_give_the_bits_of_the_interpreter),
      cmocka_unit_test(boxes_are_whole),
      cmocka_unit_test(optimizers_are_one_loop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
