/* SPDX-License-Identifier: MIT */
/* RECURRENT on the CPU: random shapes, strides and options match the definition in double
 * precision. No bit depends on the number of threads or on how they share the work. */
#include "kernel_fixture.h"
#include "support/reference/recurrent_reference.h"

typedef struct sample {
  compute_dtype dtype;
  int64_t steps, batch, hidden;
  compute_recurrent_attributes a;
} sample;

enum { OUTPUT = RECURRENT_OPERANDS, BLOCKS };

/* Blocks by role, the existing ones in order, and the descriptor. */
typedef struct launch {
  block b[BLOCKS];
  block *blocks[BLOCKS];
  compute_operand operand[BLOCKS];
  compute_kernel_descriptor d;
  uint32_t count;
} launch;

static void add_block(launch *l, const sample *s, int role, const int64_t *size, bool plain,
                      test_random *random) {
  int64_t stride[3] = {size[1] * size[2], size[2], 1};
  const double bound = role == RECURRENT_R ? 2 / sqrt((double)s->hidden + 1) : 1;
  if (!plain) random_strides(3, size, 0, random, stride);
  block *b = &l->b[role];
  *b = block_create(role == RECURRENT_LENGTHS ? COMPUTE_I32 : s->dtype, 3, size, stride);
  if (role == RECURRENT_LENGTHS)
    block_fill(b, -1, (double)s->steps + 3, random);
  else
    block_fill(b, -bound, bound, random);
  block_remember(b);
  l->operand[l->count] = operand_of(b, 3);
  l->blocks[l->count++] = b;
}

static void begin(launch *l, const sample *s, bool plain, uint64_t seed) {
  test_random random = {.state = seed};
  const int64_t columns = compute_recurrent_gates(s->a.cell) * s->hidden;
  const int64_t rows = s->steps + compute_recurrent_states(s->a.cell);
  const int64_t size[BLOCKS][3] = {
      {s->steps, s->batch, columns}, {1, s->hidden, columns},    {1, s->batch, s->hidden},
      {1, s->batch, s->hidden},      {1, 1, s->batch},           {1, 1, s->hidden},
      {1, 1, 3 * s->hidden},         {rows, s->batch, s->hidden}};
  *l = (launch){.count = 0};
  for (int role = 0; role < BLOCKS; role++)
    if (role == OUTPUT || recurrent_input(&s->a, (recurrent_operand)role) >= 0)
      add_block(l, s, role, size[role], plain, &random);
  l->d = (compute_kernel_descriptor){.struct_size = sizeof l->d,
                                     .kind = COMPUTE_KERNEL_RECURRENT,
                                     .rank = 3,
                                     .size = {rows, s->batch, s->hidden},
                                     .input_count = l->count - 1,
                                     .output_count = 1,
                                     .inputs = l->operand,
                                     .outputs = &l->operand[l->count - 1],
                                     .accumulate = dtype_compute_type(s->dtype),
                                     .attributes = &s->a,
                                     .attribute_bytes = sizeof s->a};
}

static void end(launch *l) {
  for (int i = 0; i < BLOCKS; i++)
    if (l->b[i].memory) block_release(&l->b[i]);
}

static void run(fixture *f, launch *l) {
  const compute_status status = run_kernel(f, &cpu_recurrent_kind, &l->d, l->blocks);
  if (status) fail_msg("status %d: %s", (int)status, f->message);
  block_check_guards(&l->b[OUTPUT]);
}

static void visit(fixture *f, const sample *s, bool plain, uint64_t seed) {
  launch l;
  begin(&l, s, plain, seed);
  run(f, &l);
  /* The error has three sources: a sum of `hidden` products of numbers up to 1, a function of slope
   * 1, and the remaining error of earlier steps. */
  check_results(f, &l.d, l.blocks, (allowed_error){.absolute = 128 + 16 * sqrt((double)s->hidden)});
  end(&l);
}

static compute_recurrent_attributes draw_attributes(test_random *random, int64_t cell) {
  const bool after = cell == COMPUTE_RECURRENT_GRU && test_random_integer(random, 0, 1);
  return (compute_recurrent_attributes){.cell = (compute_recurrent_cell)cell,
                                        .reverse = test_random_integer(random, 0, 1),
                                        .reset_after = after,
                                        .lengths = test_random_integer(random, 0, 1),
                                        .bias = after && test_random_integer(random, 0, 1),
                                        .peepholes = cell == COMPUTE_RECURRENT_LSTM &&
                                                     test_random_integer(random, 0, 1),
                                        .clip = test_random_integer(random, 0, 2) ? 0 : 0.75};
}

static void random_shapes_are_right(void **state) {
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F64, COMPUTE_F16, COMPUTE_BF16};
  (void)state;
  for (const char *const *isa = fixture_sets; *isa; isa++) {
    fixture f;
    if (!fixture_open(&f, 2, *isa)) continue;
    test_random random = {.state = 17};
    for (int i = 0; i < 150; i++) {
      const sample s = {.dtype = dtypes[i % 4],
                        .steps = test_random_integer(&random, 0, 6),
                        .batch = test_random_integer(&random, 0, i % 5 ? 5 : 40),
                        .hidden = test_random_integer(&random, 1, i % 7 ? 20 : 90),
                        .a = draw_attributes(&random, i % 3)};
      visit(&f, &s, i % 8 < 2, (uint64_t)i);
    }
    fixture_close(&f);
  }
}

/* Steps long enough for threads to share each, and enough sequences for one per thread. */
static const sample shared[] = {
    {COMPUTE_F32, 3, 1, 700, {.cell = COMPUTE_RECURRENT_LSTM}},
    {COMPUTE_F32, 3, 3, 500, {.cell = COMPUTE_RECURRENT_GRU, .reverse = true, .lengths = true}},
    {COMPUTE_F64, 3, 2, 620, {.cell = COMPUTE_RECURRENT_GRU, .reset_after = true, .bias = true}},
    {COMPUTE_F32, 2, 19, 610, {.cell = COMPUTE_RECURRENT_RNN}},
    {COMPUTE_F16, 4, 70, 33, {.cell = COMPUTE_RECURRENT_LSTM, .peepholes = true, .lengths = true}},
};

static bool shares_steps(fixture *f, const launch *l) {
  cpu_kernel *kernel = NULL;
  assert_int_equal(cpu_kind_prepare(&cpu_recurrent_kind, f->device, &l->d, &kernel), COMPUTE_OK);
  const bool yes = strstr(kernel->description, "share each step") != NULL;
  cpu_kernel_destroy(kernel);
  return yes;
}

static void threads_change_no_bit(void **state) {
  (void)state;
  int ways[2] = {0};
  for (const char *const *isa = fixture_sets; *isa; isa++)
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
      unsigned char *first = NULL;
      for (int32_t threads = 1; threads <= 4; threads++) {
        fixture f;
        launch l;
        if (!fixture_open(&f, threads, *isa)) continue;
        begin(&l, &shared[i], i % 2, 3);
        run(&f, &l);
        if (threads > 1) ways[shares_steps(&f, &l)]++;
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
  assert_true(ways[0] > 0 && ways[1] > 0);
}

static void shared_steps_are_right(void **state) {
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 3, NULL));
  visit(&f, &shared[1], true, 5);
  visit(&f, &shared[4], false, 5);
  fixture_close(&f);
}

static void lack_of_memory_is_reported(void **state) {
  (void)state;
  launch l;
  begin(&l, &shared[4], true, 1);
  check_allocation_failures(&cpu_recurrent_kind, &l.d, l.blocks);
  end(&l);
}

static void integers_are_refused(void **state) {
  (void)state;
  fixture f;
  launch l;
  cpu_kernel *kernel = NULL;
  assert_true(fixture_open(&f, 1, NULL));
  begin(&l, &shared[0], true, 1);
  l.d.accumulate = COMPUTE_I32;
  assert_int_equal(cpu_kind_prepare(&cpu_recurrent_kind, f.device, &l.d, &kernel),
                   COMPUTE_ERROR_UNSUPPORTED);
  end(&l);
  fixture_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_shapes_are_right), cmocka_unit_test(threads_change_no_bit),
      cmocka_unit_test(shared_steps_are_right),  cmocka_unit_test(lack_of_memory_is_reported),
      cmocka_unit_test(integers_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
