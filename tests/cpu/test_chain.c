/* SPDX-License-Identifier: MIT */
/* Steps that run as a chain (program/chain.h) give the bits of the interpreter, for all steps and
 * all layouts of their operands. test_interpreter.c checks the interpreter. */
#include <compute/compute.h>

#include "kernel_fixture.h"

#include "program/program.h"

enum { MOST_INPUTS = 6, MOST_OUTPUTS = 3, MOST_STEPS = 40, MOST = 1100, PROGRAMS = 2000 };

typedef struct sample {
  compute_instruction instructions[COMPUTE_MAX_INSTRUCTIONS];
  uint16_t outputs[MOST_OUTPUTS];
  compute_dtype input[MOST_INPUTS], output[MOST_OUTPUTS];
  compute_program program;
} sample;

static const uint8_t unary[] = {
    COMPUTE_I_NEG,        COMPUTE_I_ABS,   COMPUTE_I_SIGN,       COMPUTE_I_SQRT,  COMPUTE_I_RSQRT,
    COMPUTE_I_RECIPROCAL, COMPUTE_I_RELU,  COMPUTE_I_LEAKY_RELU, COMPUTE_I_ROUND, COMPUTE_I_CEIL,
    COMPUTE_I_FLOOR,      COMPUTE_I_TRUNC, COMPUTE_I_SQUARE};
static const uint8_t binary[] = {COMPUTE_I_ADD, COMPUTE_I_SUB, COMPUTE_I_MUL,
                                 COMPUTE_I_DIV, COMPUTE_I_MIN, COMPUTE_I_MAX};
static const uint8_t questions[] = {COMPUTE_I_IS_NAN, COMPUTE_I_IS_FINITE};
static const uint8_t comparisons[] = {COMPUTE_I_EQ, COMPUTE_I_NE, COMPUTE_I_LT,
                                      COMPUTE_I_LE, COMPUTE_I_GT, COMPUTE_I_GE};
#define ANY_OF(codes, random) codes[test_random_integer(random, 0, (int64_t)sizeof codes - 1)]

/* ---- Random programs ------------------------------------------------------------------------- */

static uint16_t append(sample *s, compute_instruction instruction) {
  s->instructions[s->program.count] = instruction;
  return (uint16_t)s->program.count++;
}

/* Picks a value of the type, often the last one, so that chains arise. */
static uint16_t operand(const sample *s, uint8_t type, test_random *random) {
  const int64_t last = (int64_t)s->program.count - 1;
  if (s->instructions[last].type == type && test_random_integer(random, 0, 1))
    return (uint16_t)last;
  for (;;) {
    const uint16_t i = (uint16_t)test_random_integer(random, 0, last);
    if (s->instructions[i].type == type) return i;
  }
}

static uint16_t append_step(sample *s, uint8_t real, test_random *random) {
  compute_instruction in = {.type = real};
  const int64_t kind = test_random_integer(random, 0, real == COMPUTE_F32 ? 9 : 5);
  if (kind <= 1) {
    in.code = ANY_OF(unary, random);
    if (in.code == COMPUTE_I_LEAKY_RELU) in.immediate.f64 = 0.125;
  } else if (kind <= 5) {
    in.code = ANY_OF(binary, random);
  } else if (kind == 6) {
    in.code = COMPUTE_I_CAST;
    in.a = operand(s, COMPUTE_I32, random);
    return append(s, in);
  } else if (kind == 7) {
    const bool question = test_random_integer(random, 0, 2) == 0;
    in.code = question ? ANY_OF(questions, random) : ANY_OF(comparisons, random);
    in.type = COMPUTE_BOOL;
  } else {
    in.code = COMPUTE_I_SELECT;
    in.a = operand(s, COMPUTE_BOOL, random);
    in.b = operand(s, real, random);
    in.c = operand(s, real, random);
    return append(s, in);
  }
  in.a = operand(s, real, random);
  if (cpu_operand_count(in.code) > 1) in.b = operand(s, real, random);
  return append(s, in);
}

/* Some samples also have constants and a step that chains do not support. */
static void fill_sample(sample *s, uint8_t real, test_random *random) {
  *s = (sample){0};
  for (uint16_t i = 0; i < MOST_INPUTS; i++) {
    s->input[i] = real;
    if (i == 4) s->input[i] = COMPUTE_I32;
    if (i == 5) s->input[i] = real == COMPUTE_F32 ? COMPUTE_BOOL : COMPUTE_F32;
    append(s, (compute_instruction){
                  .code = COMPUTE_I_LOAD, .type = (uint8_t)s->input[i], .immediate.i64 = i});
  }
  const int64_t steps = test_random_integer(random, 2, MOST_STEPS);
  for (int64_t n = 0; n < steps; n++) {
    const int64_t other = test_random_integer(random, 0, 12);
    if (other == 0)
      append(s, (compute_instruction){
                    .code = COMPUTE_I_CONSTANT, .type = real, .immediate.f64 = -0.75});
    else if (other == 1)
      append(s, (compute_instruction){
                    .code = COMPUTE_I_EXP, .type = real, .a = operand(s, real, random)});
    else
      append_step(s, real, random);
  }
  s->program.output_count = (uint32_t)test_random_integer(random, 1, MOST_OUTPUTS);
  for (uint32_t k = 0; k < s->program.output_count; k++) {
    const int64_t last = (int64_t)s->program.count - 1;
    s->outputs[k] = (uint16_t)(k == 0 ? last : test_random_integer(random, MOST_INPUTS, last));
    s->output[k] = (compute_dtype)s->instructions[s->outputs[k]].type;
  }
  s->program.instructions = s->instructions;
  s->program.outputs = s->outputs;
}

/* ---- Running --------------------------------------------------------------------------------- */

typedef struct arrays {
  _Alignas(64) unsigned char input[MOST_INPUTS][8 * MOST], output[MOST_OUTPUTS][8 * MOST];
} arrays;

static void fill_arrays(const sample *s, arrays *a, test_random *random) {
  static const double special[] = {0, -0.0, NAN, INFINITY, -INFINITY, 1e-40, -1e-40, 3e38};
  for (int i = 0; i < MOST_INPUTS; i++)
    for (int64_t j = 0; j < MOST; j++) {
      const bool is_special = test_random_integer(random, 0, 20) == 0;
      const double x = s->input[i] == COMPUTE_BOOL ? (double)test_random_integer(random, 0, 1)
                       : s->input[i] == COMPUTE_I32
                           ? (double)test_random_integer(random, -70000000, 70000000)
                       : is_special ? special[test_random_integer(random, 0, 7)]
                                    : test_random_uniform(random, -9, 9);
      dtype_store(s->input[i], a->input[i] + j * (int64_t)cpu_dtype_size(s->input[i]), x);
    }
  memset(a->output, 77, sizeof a->output);
}

/* The first output may overwrite the first input. */
static cpu_tile make_tile(const sample *s, arrays *a, int64_t count, uint32_t repeated,
                          bool in_place) {
  cpu_tile tile = {.count = count};
  for (uint32_t i = 0; i < MOST_INPUTS; i++) {
    tile.input[i] = a->input[i];
    tile.input_stride[i] = !(repeated >> i & 1);
  }
  for (uint32_t k = 0; k < s->program.output_count; k++) {
    tile.output[k] = k == 0 && in_place ? a->input[0] : a->output[k];
    tile.output_stride[k] = 1;
  }
  return tile;
}

static bool same(compute_dtype dtype, const unsigned char *a, const unsigned char *b) {
  const bool nan = dtype_is_float(dtype) && isnan(dtype_load(dtype, a));
  return nan ? isnan(dtype_load(dtype, b)) : memcmp(a, b, cpu_dtype_size(dtype)) == 0;
}

static void remove_chains(cpu_program *program) {
  for (uint32_t i = 0; i < program->step_count; i++) program->step[i].chain.count = 0;
}

static void check_program(fixture *f, uint8_t real, uint64_t number, bool *seen) {
  static sample s;
  static arrays first, a[2];
  static cpu_scratch scratch;
  cpu_program *program;
  test_random random = {number};
  fill_sample(&s, real, &random);
  assert_int_equal(cpu_program_prepare(f->device, &s.program, MOST_INPUTS, s.input,
                                       s.program.output_count, s.output, &program),
                   COMPUTE_OK);
  for (uint32_t i = 0; i < program->step_count; i++)
    for (uint32_t n = 0; n < program->step[i].chain.count; n++)
      seen[s.instructions[program->step[i + n].result].code] = true;
  fill_arrays(&s, &first, &random);
  a[0] = a[1] = first;
  const bool in_place = s.output[0] == s.input[0] && test_random_integer(&random, 0, 1);
  const uint32_t repeated = (uint32_t)test_random_integer(&random, 0, 63) & (in_place ? 62u : 63u);
  const int64_t most = cpu_min(MOST, cpu_program_tile_elements(program));
  const int64_t count = test_random_integer(&random, 1, most);
  const bool stream = test_random_integer(&random, 0, 3) == 0;
  for (int plain = 0; plain < 2; plain++) {
    if (plain) remove_chains(program);
    const cpu_tile tile = make_tile(&s, &a[plain], count, repeated, in_place);
    cpu_program_run(program, &tile, &scratch, stream);
    cpu_stream_fence();
  }
  for (uint32_t k = 0; k < s.program.output_count; k++) {
    const bool over = k == 0 && in_place;
    const int64_t bytes = (int64_t)cpu_dtype_size(s.output[k]);
    for (int64_t i = 0; i < MOST; i++) {
      const unsigned char *x = (over ? a[0].input[0] : a[0].output[k]) + i * bytes;
      const unsigned char *y = (over ? a[1].input[0] : a[1].output[k]) + i * bytes;
      if (!same(s.output[k], x, y))
        fail_msg("%s, program %llu of dtype %d, output %u, element %lld of %lld: %.17g, not %.17g",
                 f->device->isa->name, (unsigned long long)number, real, (unsigned)k, (long long)i,
                 (long long)count, dtype_load(s.output[k], x), dtype_load(s.output[k], y));
    }
  }
  cpu_program_release(f->device, program);
}

static void chains_give_the_bits_of_the_interpreter(void **state) {
  (void)state;
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    bool seen[COMPUTE_I_END] = {false};
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    for (uint64_t number = 0; number < PROGRAMS; number++) {
      check_program(&f, COMPUTE_F32, number, seen);
      check_program(&f, COMPUTE_F64, number, seen);
    }
    for (int code = COMPUTE_I_NEG; code < COMPUTE_I_END; code++)
      if ((*(CPU_PICK(f.device->isa, cpu_chain_f32))->row)[code][0] && !seen[code])
        fail_msg("no chain has instruction %d", code);
    fixture_close(&f);
  }
}

/* ---- Programs of the library's operations -------------------------------------------------- */

static void simple_operations_are_one_loop(void **state) {
  (void)state;
  compute_context *context;
  assert_int_equal(compute_open(&context, &(compute_open_options){.backends = "cpu"}), COMPUTE_OK);
  compute_graph *graph = compute_graph_create(context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(40, 50));
  const compute_node y = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(40, 50));
  const compute_node sum = compute_add(graph, compute_mul(graph, x, y), y);
  const compute_node result =
      compute_sub(graph, compute_mul(graph, compute_relu(graph, sum), x), y);
  compute_plan *plan;
  char *text = NULL;
  assert_int_equal(compute_compile(graph, &result, 1, NULL, &plan), COMPUTE_OK);
  assert_int_equal(compute_explain(plan, &text), COMPUTE_OK);
  if (!strstr(text, "map: one loop, ")) fail_msg("it is interpreted:\n%s", text);
  compute_text_free(text);
  compute_plan_release(plan);
  compute_graph_release(graph);
  assert_int_equal(compute_close(context), COMPUTE_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chains_give_the_bits_of_the_interpreter),
      cmocka_unit_test(simple_operations_are_one_loop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
