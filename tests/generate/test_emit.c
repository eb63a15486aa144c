/* SPDX-License-Identifier: MIT */
/* Building blocks of kernel text: spaces, launches, functions by name. */
#include "support/harness/test.h"

#include <stdlib.h>
#include <string.h>

#include "codegen/generate/emit/emit.h"
#include "codegen/generate/generate.h"
#include "core/kernel/common/program.h"
#include "support/harness/failing_allocator.h"

/* ---- Functions by name --------------------------------------------------------------------- */

static char *functions_for(const char *text) {
  text_buffer out = {0};
  assert_true(kernel_text_functions(&out, &text, 1));
  text_add(&out, "%s", "");
  return out.data;
}

static void a_name_brings_its_function_and_what_that_uses_before_it(void **state) {
  (void)state;
  char *text = functions_for("y = gelu_f32(x);");
  const char *inner = strstr(text, "gelu_fall_f32(f32"),
             *outer = strstr(text, "gelu_whole_f32(f32");
  assert_non_null(inner);
  assert_non_null(outer);
  assert_true(inner < outer);
  assert_null(strstr(text, "erf_f32"));
  assert_null(strstr(text, "f64"));
  compute_text_free(text);
}

static void only_whole_words_are_names(void **state) {
  (void)state;
  char *text = functions_for("my_exp_f32(x) + exp_f32_of(x) + log_f3");
  assert_string_equal(text, "");
  compute_text_free(text);
}

static void typed_sections_are_one_function_for_each_type(void **state) {
  (void)state;
  char *text = functions_for("div_i64(a, b)");
  assert_non_null(strstr(text, "i64 div_i64(i64 a, i64 b)"));
  assert_non_null(strstr(text, "(u64)a"));
  assert_null(strstr(text, "i32"));
  assert_null(strstr(text, "integer"));
  assert_null(strstr(text, "natural"));
  compute_text_free(text);
}

static void texts_carry_no_comments(void **state) {
  (void)state;
  for (const kernel_text *file = kernel_texts; file->name; file++) {
    assert_null(strstr(file->text, "/*"));
    assert_int_equal(strlen(file->text), file->bytes);
  }
  assert_non_null(kernel_text_find("dialect_c.h"));
  assert_null(kernel_text_find("dialect_d.h"));
}

/* ---- Spaces -------------------------------------------------------------------------------- */

static void dimensions_that_all_walks_take_as_one_merge(void **state) {
  (void)state;
  generation g = {0};
  emit_space space;
  space_begin(&space, "space", 4, (int64_t[]){2, 3, 1, 5});
  space_add(&space, "in0", (int64_t[]){15, 5, 99, 1});
  space_add(&space, "out0", (int64_t[]){30, 10, 7, 2});
  space_canonicalise(&g, &space);
  assert_int_equal(space.rank, 1);
  assert_int_equal(space.size[0], 30);
  assert_int_equal(space_walk(&space, "in0")->stride[0], 1);
  assert_int_equal(space_walk(&space, "out0")->stride[0], 2);
  assert_false(g.wide);
}

static void a_broadcast_operand_keeps_dimensions_apart(void **state) {
  (void)state;
  generation g = {0};
  emit_space space;
  space_begin(&space, "space", 3, (int64_t[]){2, 3, 5});
  space_add(&space, "in0", (int64_t[]){0, 0, 1});
  space_add(&space, "out0", (int64_t[]){15, 5, 1});
  space_canonicalise(&g, &space);
  assert_int_equal(space.rank, 2);
  assert_int_equal(space.size[0], 6);
  assert_int_equal(space_walk(&space, "in0")->stride[0], 0);
}

static void nothing_merges_across_the_fence(void **state) {
  (void)state;
  generation g = {0};
  emit_space space;
  space_begin(&space, "space", 4, (int64_t[]){2, 3, 4, 5});
  space_add(&space, "in0", (int64_t[]){60, 20, 5, 1});
  space.fence = 2;
  space_canonicalise(&g, &space);
  assert_int_equal(space.rank, 2);
  assert_int_equal(space.fence, 1);
  assert_int_equal(space.size[0], 6);
  assert_int_equal(space.size[1], 20);
}

static void coordinates_are_walks_like_any_other(void **state) {
  (void)state;
  generation g = {0};
  emit_space space;
  static const compute_instruction code[] = {
      {.code = COMPUTE_I_COORDINATE, .type = COMPUTE_I64, .immediate.i64 = 1},
      {.code = COMPUTE_I_POSITION, .type = COMPUTE_I64}};
  const compute_program program = {.count = 2, .instructions = code};
  space_begin(&space, "space", 3, (int64_t[]){2, 3, 5});
  space_add_program(&space, &program, 3);
  space_canonicalise(&g, &space);
  assert_int_equal(space.rank, 3);
  assert_int_equal(space_walk(&space, "coordinate1")->stride[1], 1);
  assert_int_equal(space_walk(&space, "position")->stride[0], 15);
}

static void indices_are_wide_only_where_sizes_need_it(void **state) {
  (void)state;
  static const struct {
    int64_t size, stride;
    bool wide;
  } rows[] = {{1000, 1, false},
              {INT64_C(1) << 31, 0, true},
              {INT64_C(1) << 31, 1, true},
              {3, INT64_C(1) << 31, true},
              {1000, -(INT64_C(1) << 22), true},
              {3, INT64_MIN, true},
              {0, INT64_MAX, false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    generation g = {0};
    emit_space space;
    space_begin(&space, "space", 1, &rows[i].size);
    space_add(&space, "in0", &rows[i].stride);
    space_canonicalise(&g, &space);
    assert_int_equal(g.wide, rows[i].wide);
  }
}

/* ---- Launches ------------------------------------------------------------------------------ */

static const compute_target target = {.struct_size = sizeof target,
                                      .dialect = COMPUTE_DIALECT_C,
                                      .type = COMPUTE_DEVICE_GPU,
                                      .flags = COMPUTE_TARGET_F64,
                                      .compute_units = 2,
                                      .group_limit = 256,
                                      .local_bytes = 32768};

static uint32_t field_u32(const emit_launch *l, uint32_t at) {
  uint32_t value;
  memcpy(&value, l->shape + at, sizeof value);
  return value;
}

static void division_by_multiplication_is_exact(void **state) {
  (void)state;
  static const uint32_t divisors[] = {1,         2,          3,          5,          7,
                                      10,        641,        65535,      65536,      65537,
                                      123456789, 1073741823, 1073741824, 1073741825, 2147483647};
  for (size_t i = 0; i < sizeof divisors / sizeof *divisors; i++) {
    generation g = {.target = &target};
    emit_launch *l = calloc(1, sizeof *l);
    assert_non_null(l);
    g.launch[g.launch_count++] = l;
    emit_field_divisor(&g, l, "d", divisors[i]);
    const uint32_t d = field_u32(l, 0), magic = field_u32(l, 4), shift = field_u32(l, 8);
    assert_int_equal(d, divisors[i]);
    for (uint32_t k = 0; k < 2000; k++) {
      const uint32_t multiple = d * (k % (INT32_MAX / d + 1));
      const uint32_t tried[] = {k, INT32_MAX - k, multiple, multiple - 1, k * 1073741u};
      for (size_t j = 0; j < sizeof tried / sizeof *tried; j++) {
        const uint32_t n = tried[j] & INT32_MAX;
        assert_int_equal((uint32_t)((uint64_t)n * magic >> shift), n / d);
      }
    }
    emit_release_launches(&g);
  }
}

static void fields_are_aligned_as_in_c(void **state) {
  (void)state;
  generation g = {.target = &target};
  emit_launch *l = calloc(1, sizeof *l);
  assert_non_null(l);
  g.launch[g.launch_count++] = l;
  emit_field_u32(&g, l, "a", 1);
  emit_field_i64(&g, l, "b", 2);
  emit_field_f32(&g, l, "c", 3);
  emit_field_f64(&g, l, "d", 4);
  emit_field_index(&g, l, "e", 5);
  const struct {
    uint32_t a;
    int64_t b;
    float c;
    double d;
    int32_t e;
  } expected = {1, 2, 3, 4, 5};
  assert_int_equal(l->shape_bytes, 36);
  assert_memory_equal(l->shape, &expected.a, 4);
  assert_memory_equal(l->shape + 8, &expected.b, 8);
  assert_memory_equal(l->shape + 16, &expected.c, 4);
  assert_memory_equal(l->shape + 24, &expected.d, 8);
  assert_memory_equal(l->shape + 32, &expected.e, 4);
  emit_release_launches(&g);
}

/* ---- generate_kernel ----------------------------------------------------------------------- */

/* out = in0 + in1 over rank 2; in1 is repeated along the rows. */
typedef struct sum_sample {
  compute_kernel_descriptor d;
  compute_operand in[2], out;
  program_builder builder;
} sum_sample;

static void make_sum(sum_sample *s, compute_dtype dtype, int64_t rows, int64_t columns) {
  memset(s, 0, sizeof *s);
  s->in[0] = s->out = (compute_operand){dtype, {columns, 1}};
  s->in[1] = (compute_operand){dtype, {0, 1}};
  const uint16_t a = program_load(&s->builder, dtype, 0), b = program_load(&s->builder, dtype, 1);
  program_store(&s->builder, program_apply(&s->builder, COMPUTE_I_ADD, dtype, a, b, 0));
  s->d = (compute_kernel_descriptor){.struct_size = sizeof s->d,
                                     .kind = COMPUTE_KERNEL_MAP,
                                     .rank = 2,
                                     .size = {rows, columns},
                                     .input_count = 2,
                                     .output_count = 1,
                                     .inputs = s->in,
                                     .outputs = &s->out,
                                     .epilogue = program_finish(&s->builder)};
}

static const compute_generated *generate(const compute_target *on, const sum_sample *s) {
  const compute_generated *generated;
  char reason[160];
  assert_int_equal(generate_kernel(on, &s->d, NULL, &generated, reason, sizeof reason), COMPUTE_OK);
  return generated;
}

static void one_source_serves_all_sizes_up_to_the_limit_of_32_bits(void **state) {
  (void)state;
  static const int64_t sizes[][2] = {{40, 50}, {64, 1000}, {7, 33}};
  for (int type = 0; type < 2; type++) {
    compute_target on = target;
    on.type = type ? COMPUTE_DEVICE_GPU : COMPUTE_DEVICE_CPU;
    sum_sample s;
    make_sum(&s, COMPUTE_F32, 100, 64);
    const compute_generated *first = generate(&on, &s);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      make_sum(&s, COMPUTE_F32, sizes[i][0], sizes[i][1]);
      const compute_generated *other = generate(&on, &s);
      assert_string_equal(first->source, other->source);
      generate_release(other);
    }
    make_sum(&s, COMPUTE_F32, 1 << 20, 1 << 12);
    const compute_generated *large = generate(&on, &s);
    assert_null(strstr(first->source, "#define INDEX i64"));
    assert_non_null(strstr(large->source, "#define INDEX i64"));
    generate_release(large);
    generate_release(first);
  }
}

static void nothing_to_do_is_no_launch(void **state) {
  (void)state;
  sum_sample s;
  make_sum(&s, COMPUTE_F32, 0, 64);
  const compute_generated *generated = generate(&target, &s);
  assert_int_equal(generated->launch_count, 0);
  assert_null(generated->source);
  generate_release(generated);
}

static void a_target_without_f64_refuses_what_needs_it_and_says_so(void **state) {
  (void)state;
  compute_target on = target;
  on.flags = 0;
  sum_sample s;
  char reason[160] = "";
  make_sum(&s, COMPUTE_F64, 4, 4);
  assert_false(generate_supports(&on, &s.d, reason, sizeof reason));
  assert_non_null(strstr(reason, "f64"));
  make_sum(&s, COMPUTE_F32, 4, 4);
  assert_true(generate_supports(&on, &s.d, reason, sizeof reason));
  const compute_generated *generated = generate(&on, &s);
  assert_null(strstr(generated->source, "FOR_CPU"));
  generate_release(generated);
}

static void a_group_that_the_target_cannot_run_is_refused(void **state) {
  (void)state;
  const compute_tuning tuning = {.group_x = 512}, odd = {.vector = 3};
  sum_sample s;
  char reason[160] = "";
  const compute_generated *generated;
  make_sum(&s, COMPUTE_F32, 40, 40);
  assert_int_equal(generate_kernel(&target, &s.d, &tuning, &generated, reason, sizeof reason),
                   COMPUTE_ERROR_UNSUPPORTED);
  assert_non_null(strstr(reason, "512"));
  assert_null(generated);
  assert_int_equal(generate_kernel(&target, &s.d, &odd, &generated, reason, sizeof reason),
                   COMPUTE_ERROR_UNSUPPORTED);
}

/* ---- Forms --------------------------------------------------------------------------------- */

static bool never_suits(const generation *g, const void *problem) {
  (void)g;
  (void)problem;
  return false;
}

static compute_status accept_any(generation *g, void *problem) {
  (void)problem;
  emit_default(&g->tuning.tile_m, g->tuning.variant);
  return COMPUTE_OK;
}

static compute_status refuse_to_accept(generation *g, void *problem) {
  accept_any(g, problem);
  return emit_refuse(g, "not accepted");
}

static compute_status write_launch(generation *g, void *problem) {
  (void)problem;
  emit_constant(g, "FORM", g->tuning.variant);
  g->workspace_bytes += 100;
  g->faults = g->tuning.variant < 5;
  emit_launch_line(g, "entry", 1, 1);
  return COMPUTE_OK;
}

static compute_status refuse_to_write(generation *g, void *problem) {
  write_launch(g, problem);
  return emit_refuse(g, "not written");
}

static compute_status write_too_large_a_group(generation *g, void *problem) {
  write_launch(g, problem);
  emit_launch_line(g, "too_large", 2 * target.group_limit, 1);
  return COMPUTE_OK;
}

static compute_status write_too_many_launches(generation *g, void *problem) {
  for (int i = 0; i <= COMPUTE_GENERATED_LAUNCHES; i++) write_launch(g, problem);
  return COMPUTE_OK;
}

static const emit_form unsuited = {1, never_suits, accept_any, write_launch};
static const emit_form not_accepted = {2, NULL, refuse_to_accept, write_launch};
static const emit_form not_written = {3, NULL, accept_any, refuse_to_write};
static const emit_form too_large = {4, NULL, accept_any, write_too_large_a_group};
static const emit_form too_many = {5, NULL, accept_any, write_too_many_launches};
static const emit_form last = {6, NULL, accept_any, write_launch};
static const emit_form *const all_forms[] = {&unsuited, &not_accepted, &not_written, &too_large,
                                             &too_many, &last,         NULL};
static const emit_kind form_kind = {.name = "FORMS"};

typedef struct formed {
  compute_status status;
  compute_tuning tuning;
  uint32_t launch_count;
  uint64_t workspace_bytes;
  bool faults, overflow;
  char definitions[64], reason[160];
} formed;

static formed form(const emit_form *const *forms, compute_tuning tuning) {
  formed f = {0};
  generation g = {
      .target = &target, .tuning = tuning, .reason = f.reason, .reason_bytes = sizeof f.reason};
  f.status = emit_by_form(&g, &form_kind, forms, NULL);
  f.tuning = g.tuning;
  f.launch_count = g.launch_count;
  f.workspace_bytes = g.workspace_bytes;
  f.faults = g.faults;
  f.overflow = g.overflow;
  snprintf(f.definitions, sizeof f.definitions, "%s", g.definitions.data ? g.definitions.data : "");
  emit_release_launches(&g);
  return f;
}

static void after_a_refusal_the_next_form_starts_over(void **state) {
  (void)state;
  const formed f = form(all_forms, (compute_tuning){0});
  assert_int_equal(f.status, COMPUTE_OK);
  assert_int_equal(f.tuning.variant, 6);
  assert_int_equal(f.tuning.tile_m, 6);
  assert_int_equal(f.launch_count, 1);
  assert_int_equal(f.workspace_bytes, 100);
  assert_false(f.faults || f.overflow);
  assert_string_equal(f.definitions, "#define FORM 6\n");
  assert_string_equal(f.reason, "");
}

static void what_is_asked_for_is_refused_and_not_replaced(void **state) {
  (void)state;
  static const char *const reasons[] = {NULL,          NULL,          "not accepted",
                                        "not written", "groups of",   "more launches",
                                        NULL,          "no variant 7"};
  for (uint32_t variant = 1; variant <= 7; variant++) {
    const formed f = form(all_forms, (compute_tuning){.variant = variant});
    assert_int_equal(f.status, reasons[variant] ? COMPUTE_ERROR_UNSUPPORTED : COMPUTE_OK);
    if (reasons[variant]) assert_non_null(strstr(f.reason, reasons[variant]));
  }
  const formed f = form(all_forms, (compute_tuning){.vector = 8});
  assert_int_equal(f.status, COMPUTE_ERROR_UNSUPPORTED);
  assert_string_equal(f.reason, "not accepted");
}

static void the_last_form_says_why_all_refuse(void **state) {
  (void)state;
  static const emit_form *const forms[] = {&unsuited, &not_accepted, &not_written, NULL};
  const formed f = form(forms, (compute_tuning){0});
  assert_int_equal(f.status, COMPUTE_ERROR_UNSUPPORTED);
  assert_string_equal(f.reason, "not written");
}

static void every_failing_allocation_is_reported_and_leaks_nothing(void **state) {
  (void)state;
  sum_sample s;
  char reason[160];
  make_sum(&s, COMPUTE_F32, 40, 40);
  failing_allocator_install();
  compute_status status = COMPUTE_ERROR_OUT_OF_MEMORY;
  for (int64_t n = 1; status == COMPUTE_ERROR_OUT_OF_MEMORY; n++) {
    const compute_generated *generated;
    assert_true(n < 1000);
    failing_allocator_arm(n, false);
    status = generate_kernel(&target, &s.d, NULL, &generated, reason, sizeof reason);
    assert_true(status == COMPUTE_OK || !generated);
    if (failing_allocator_failures() > 0) {
      assert_int_equal(status, COMPUTE_ERROR_OUT_OF_MEMORY);
    }
    generate_release(generated);
  }
  assert_int_equal(status, COMPUTE_OK);
  assert_int_equal(failing_allocator_remove(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_name_brings_its_function_and_what_that_uses_before_it),
      cmocka_unit_test(only_whole_words_are_names),
      cmocka_unit_test(typed_sections_are_one_function_for_each_type),
      cmocka_unit_test(texts_carry_no_comments),
      cmocka_unit_test(dimensions_that_all_walks_take_as_one_merge),
      cmocka_unit_test(a_broadcast_operand_keeps_dimensions_apart),
      cmocka_unit_test(nothing_merges_across_the_fence),
      cmocka_unit_test(coordinates_are_walks_like_any_other),
      cmocka_unit_test(indices_are_wide_only_where_sizes_need_it),
      cmocka_unit_test(division_by_multiplication_is_exact),
      cmocka_unit_test(fields_are_aligned_as_in_c),
      cmocka_unit_test(one_source_serves_all_sizes_up_to_the_limit_of_32_bits),
      cmocka_unit_test(nothing_to_do_is_no_launch),
      cmocka_unit_test(a_target_without_f64_refuses_what_needs_it_and_says_so),
      cmocka_unit_test(a_group_that_the_target_cannot_run_is_refused),
      cmocka_unit_test(after_a_refusal_the_next_form_starts_over),
      cmocka_unit_test(what_is_asked_for_is_refused_and_not_replaced),
      cmocka_unit_test(the_last_form_says_why_all_refuse),
      cmocka_unit_test(every_failing_allocation_is_reported_and_leaks_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
