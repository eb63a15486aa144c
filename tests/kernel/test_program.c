/* SPDX-License-Identifier: MIT */
/* Programs: building, checking, counting and printing. */
#include "support/harness/test.h"

#include <math.h>
#include <string.h>

#include "core/kernel/common/program.h"

static bool check(const program_builder *b, uint32_t inputs) {
  compute_program program = program_finish(b);
  char reason[200] = "";
  bool good = program_check(&program, inputs, reason, sizeof reason);
  if (!good) assert_true(reason[0] != 0);
  return good;
}

static void assert_prints(const program_builder *b, const char *expected) {
  compute_program program = program_finish(b);
  text_buffer text = {0};
  program_print(&program, &text);
  assert_string_equal(text.data, expected);
  text_release(&text);
}

/* ---- Building ------------------------------------------------------------------------------ */

static void equal_instructions_are_stored_once(void **state) {
  (void)state;
  program_builder b = {.count = 0};
  uint16_t x = program_load(&b, COMPUTE_F32, 0), one = program_constant(&b, COMPUTE_F32, 1);
  uint16_t sum = program_apply(&b, COMPUTE_I_ADD, COMPUTE_F32, x, one, 0);
  assert_int_equal(program_load(&b, COMPUTE_F32, 0), x);
  assert_int_equal(program_constant(&b, COMPUTE_F32, 1), one);
  /* Unused operands of an instruction make no difference. */
  assert_int_equal(program_apply(&b, COMPUTE_I_ADD, COMPUTE_F32, x, one, 7), sum);
  assert_int_equal(b.count, 3);
  assert_int_not_equal(program_load(&b, COMPUTE_F64, 0), x);
  assert_int_not_equal(program_load(&b, COMPUTE_F32, 1), x);
  uint16_t zero = program_constant(&b, COMPUTE_F32, 0.0);
  assert_int_not_equal(program_constant(&b, COMPUTE_F32, -0.0), zero);
  assert_int_equal(program_constant(&b, COMPUTE_F32, NAN), program_constant(&b, COMPUTE_F32, NAN));
}

static void constants_are_of_their_type(void **state) {
  (void)state;
  program_builder b = {.count = 0};
  /* Equal as f32. */
  assert_int_equal(program_constant(&b, COMPUTE_F32, 0.1),
                   program_constant(&b, COMPUTE_F32, (double)0.1f));
  uint16_t large = program_constant_integer(&b, COMPUTE_I64, INT64_MAX);
  assert_int_equal(b.instruction[large].immediate.i64, INT64_MAX);
  uint16_t whole = program_constant(&b, COMPUTE_I32, 2.9);
  assert_int_equal(b.instruction[whole].immediate.i64, 2);
  uint16_t truth = program_constant(&b, COMPUTE_BOOL, 0.5);
  assert_int_equal(b.instruction[truth].immediate.i64, 1);
  uint16_t real = program_constant_integer(&b, COMPUTE_F64, 3);
  assert_true(b.instruction[real].immediate.f64 == 3.0);
}

static void builder_says_when_it_is_full(void **state) {
  (void)state;
  static program_builder b;
  for (int64_t i = 0; i < COMPUTE_MAX_INSTRUCTIONS; i++) {
    program_constant_integer(&b, COMPUTE_I64, i);
  }
  assert_false(b.full);
  program_constant_integer(&b, COMPUTE_I64, 5); /* exists */
  assert_false(b.full);
  program_constant_integer(&b, COMPUTE_I64, -1);
  assert_true(b.full);
  assert_int_equal(b.count, COMPUTE_MAX_INSTRUCTIONS);
  static program_builder c;
  for (int i = 0; i <= COMPUTE_MAX_OPERANDS; i++) program_store(&c, 0);
  assert_true(c.full);
  assert_int_equal(c.output_count, COMPUTE_MAX_OPERANDS);
}

/* ---- Checking ------------------------------------------------------------------------------ */

static void well_formed_programs_pass(void **state) {
  (void)state;
  program_builder b = {.count = 0};
  uint16_t x = program_load(&b, COMPUTE_F32, 0), y = program_load(&b, COMPUTE_F32, 1);
  uint16_t less = program_apply(&b, COMPUTE_I_LT, COMPUTE_BOOL, x, y, 0);
  uint16_t chosen = program_apply(&b, COMPUTE_I_SELECT, COMPUTE_F32, less, x, y);
  uint16_t key = program_load(&b, COMPUTE_I64, 2);
  uint16_t position = program_apply(&b, COMPUTE_I_POSITION, COMPUTE_I64, 0, 0, 0);
  uint16_t random = program_apply(&b, COMPUTE_I_RANDOM, COMPUTE_F32, key, position, 0);
  uint16_t cast = program_apply(&b, COMPUTE_I_CAST, COMPUTE_F64, random, 0, 0);
  program_store(&b, chosen);
  program_store(&b, cast);
  assert_true(check(&b, 3));
  assert_false(check(&b, 2)); /* the load of input 2 */
  program_builder empty = {.count = 0};
  assert_true(check(&empty, 0));
}

/* One additional instruction; f32, f32, i32, bool, i64 inputs are the values 0 … 4. */
static bool accepts(compute_instruction instruction) {
  program_builder b = {.count = 0};
  program_load(&b, COMPUTE_F32, 0);
  program_load(&b, COMPUTE_F32, 1);
  program_load(&b, COMPUTE_I32, 2);
  program_load(&b, COMPUTE_BOOL, 3);
  program_load(&b, COMPUTE_I64, 4);
  b.instruction[b.count++] = instruction;
  program_store(&b, 5);
  return check(&b, 5);
}

#define INSTRUCTION(code_, type_, ...)                                                             \
  ((compute_instruction){.code = (uint8_t)COMPUTE_I_##code_, .type = COMPUTE_##type_, __VA_ARGS__})

static void types_must_agree(void **state) {
  (void)state;
  assert_true(accepts(INSTRUCTION(ADD, F32, .a = 0, .b = 1)));
  assert_false(accepts(INSTRUCTION(ADD, F32, .a = 0, .b = 2)));
  assert_false(accepts(INSTRUCTION(ADD, F64, .a = 0, .b = 1)));
  assert_false(accepts(INSTRUCTION(ADD, BOOL, .a = 3, .b = 3)));
  assert_true(accepts(INSTRUCTION(NEG, I32, .a = 2)));
  assert_false(accepts(INSTRUCTION(EXP, I32, .a = 2)));
  assert_true(accepts(INSTRUCTION(EQ, BOOL, .a = 3, .b = 3)));
  assert_false(accepts(INSTRUCTION(LT, BOOL, .a = 3, .b = 3)));
  assert_false(accepts(INSTRUCTION(LT, F32, .a = 0, .b = 1)));
  assert_true(accepts(INSTRUCTION(IS_NAN, BOOL, .a = 0)));
  assert_false(accepts(INSTRUCTION(IS_NAN, BOOL, .a = 2)));
  assert_true(accepts(INSTRUCTION(SELECT, F32, .a = 3, .b = 0, .c = 1)));
  assert_false(accepts(INSTRUCTION(SELECT, F32, .a = 0, .b = 0, .c = 1)));
  assert_false(accepts(INSTRUCTION(SELECT, F32, .a = 3, .b = 0, .c = 2)));
  assert_true(accepts(INSTRUCTION(BIT_AND, I32, .a = 2, .b = 2)));
  assert_true(accepts(INSTRUCTION(BIT_NOT, I64, .a = 4)));
  assert_false(accepts(INSTRUCTION(BIT_AND, I32, .a = 2, .b = 4)));
  assert_false(accepts(INSTRUCTION(BIT_AND, F32, .a = 0, .b = 1)));
  assert_false(accepts(INSTRUCTION(BIT_NOT, BOOL, .a = 3)));
  assert_true(accepts(INSTRUCTION(AND, BOOL, .a = 3, .b = 3)));
  assert_false(accepts(INSTRUCTION(AND, I32, .a = 2, .b = 2)));
  assert_true(accepts(INSTRUCTION(RANDOM, F64, .a = 4, .b = 4, .immediate.i64 = UINT32_MAX)));
  assert_false(
      accepts(INSTRUCTION(RANDOM, F64, .a = 4, .b = 4, .immediate.i64 = INT64_C(1) << 32)));
  assert_false(accepts(INSTRUCTION(RANDOM, F64, .a = 2, .b = 4)));
  assert_true(accepts(INSTRUCTION(COORDINATE, I64, .immediate.i64 = 7)));
  assert_false(accepts(INSTRUCTION(COORDINATE, I64, .immediate.i64 = 8)));
  assert_false(accepts(INSTRUCTION(POSITION, I32, .a = 0)));
}

static void ill_formed_instructions_are_refused(void **state) {
  (void)state;
  assert_false(accepts(INSTRUCTION(ADD, F32, .a = 5, .b = 1))); /* itself */
  assert_false(accepts(INSTRUCTION(ADD, F32, .a = 0, .b = 65535)));
  assert_false(accepts(INSTRUCTION(END, F32, .a = 0)));
  assert_false(accepts((compute_instruction){.code = 6, .type = COMPUTE_F32}));
  assert_false(accepts((compute_instruction){.code = 255, .type = COMPUTE_F32}));
  assert_false(accepts(INSTRUCTION(NEG, F16, .a = 0)));
  assert_false(accepts((compute_instruction){.code = COMPUTE_I_NEG, .type = 99}));
  assert_false(accepts(INSTRUCTION(LOAD, F32, .immediate.i64 = 5)));
  assert_false(accepts(INSTRUCTION(LOAD, F32, .immediate.i64 = -1)));
}

static void outputs_and_counts_are_checked(void **state) {
  (void)state;
  char reason[100];
  compute_instruction load = {.code = COMPUTE_I_LOAD, .type = COMPUTE_F32};
  uint16_t outputs[1] = {1};
  compute_program program = {1, 1, &load, outputs};
  assert_false(program_check(&program, 1, reason, sizeof reason));
  outputs[0] = 0;
  assert_true(program_check(&program, 1, reason, sizeof reason));
  program.count = COMPUTE_MAX_INSTRUCTIONS + 1;
  assert_false(program_check(&program, 1, reason, sizeof reason));
  program.count = 1;
  program.output_count = COMPUTE_MAX_OPERANDS + 1;
  assert_false(program_check(&program, 1, reason, sizeof reason));
  program = (compute_program){1, 1, NULL, outputs};
  assert_false(program_check(&program, 1, reason, 0));
}

static void every_code_has_a_name(void **state) {
  (void)state;
  int named = 0;
  for (int code = 0; code < COMPUTE_I_END; code++) {
    named += strcmp(program_code_name((compute_instruction_code)code), "invalid") != 0;
  }
  /* 6 sources, NEG to DRAW_GUMBEL, ADD to DRAW_POISSON, SELECT to DRAW_GAMMA_SLOPE. */
  assert_int_equal(named, 6 + (COMPUTE_I_DRAW_GUMBEL - COMPUTE_I_NEG + 1) +
                              (COMPUTE_I_DRAW_POISSON - COMPUTE_I_ADD + 1) +
                              (COMPUTE_I_DRAW_GAMMA_SLOPE - COMPUTE_I_SELECT + 1));
  assert_int_equal(program_operand_count(COMPUTE_I_LOAD), 0);
  assert_int_equal(program_operand_count(COMPUTE_I_CAST), 1);
  assert_int_equal(program_operand_count(COMPUTE_I_RANDOM), 2);
  assert_int_equal(program_operand_count(COMPUTE_I_SELECT), 3);
  assert_int_equal(program_operand_count((compute_instruction_code)COMPUTE_I_END), 0);
}

/* ---- Counting and printing ----------------------------------------------------------------- */

static void text_nests_calls(void **state) {
  (void)state;
  program_builder b = {.count = 0};
  uint16_t x = program_load(&b, COMPUTE_F32, 0), y = program_load(&b, COMPUTE_F32, 1);
  uint16_t sum = program_apply(&b, COMPUTE_I_ADD, COMPUTE_F32, x, y, 0);
  program_store(&b, program_apply(&b, COMPUTE_I_RELU, COMPUTE_F32, sum, 0, 0));
  assert_prints(&b, "relu(add(in0, in1))");
  compute_program program = program_finish(&b);
  assert_int_equal(program_flops(&program), 2);
  program_store(&b, program_apply(&b, COMPUTE_I_EXP, COMPUTE_F32, sum, 0, 0));
  assert_prints(&b, "v2 = add(in0, in1); relu(v2), exp(v2)");
  program = program_finish(&b);
  assert_int_equal(program_flops(&program), 10);
}

static void text_shows_immediates(void **state) {
  (void)state;
  program_builder b = {.count = 0};
  uint16_t x = program_load(&b, COMPUTE_I32, 0);
  uint16_t cast = program_apply(&b, COMPUTE_I_CAST, COMPUTE_F32, x, 0, 0);
  uint16_t leaky =
      program_instruction(&b, INSTRUCTION(LEAKY_RELU, F32, .a = cast, .immediate.f64 = 0.25));
  uint16_t half = program_constant(&b, COMPUTE_F32, 0.5);
  program_store(&b, program_apply(&b, COMPUTE_I_MUL, COMPUTE_F32, leaky, half, 0));
  assert_prints(&b, "mul(leaky_relu(f32(in0), 0.25), 0.5)");
}

/* Without names for shared values, this text would have 2^200 leaves. */
static void text_of_shared_values_stays_short(void **state) {
  (void)state;
  static program_builder b;
  uint16_t x = program_load(&b, COMPUTE_F32, 0);
  for (int i = 0; i < 200; i++) x = program_apply(&b, COMPUTE_I_ADD, COMPUTE_F32, x, x, 0);
  program_store(&b, x);
  compute_program program = program_finish(&b);
  text_buffer text = {0};
  program_print(&program, &text);
  assert_true(text.length > 200 && text.length < 10000);
  text_release(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equal_instructions_are_stored_once),
      cmocka_unit_test(constants_are_of_their_type),
      cmocka_unit_test(builder_says_when_it_is_full),
      cmocka_unit_test(well_formed_programs_pass),
      cmocka_unit_test(types_must_agree),
      cmocka_unit_test(ill_formed_instructions_are_refused),
      cmocka_unit_test(outputs_and_counts_are_checked),
      cmocka_unit_test(every_code_has_a_name),
      cmocka_unit_test(text_nests_calls),
      cmocka_unit_test(text_shows_immediates),
      cmocka_unit_test(text_of_shared_values_stays_short),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
