/* SPDX-License-Identifier: MIT */
/* GATHER and SCATTER on the CPU match plain loops, in all dtypes and layouts. */
#include "kernel_fixture.h"

static const compute_dtype all_types[] = {COMPUTE_F64, COMPUTE_F32, COMPUTE_F16, COMPUTE_BF16,
                                          COMPUTE_I64, COMPUTE_I32, COMPUTE_U8,  COMPUTE_U16,
                                          COMPUTE_I8,  COMPUTE_I16, COMPUTE_U32, COMPUTE_U64,
                                          COMPUTE_BOOL}; /* BOOL cannot be added */
enum { TYPES = sizeof all_types / sizeof *all_types };

static bool is_unsigned(compute_dtype dtype) {
  return test_is_unsigned(dtype);
}

/* A space of `rank` dimensions. The dimensions in `indexed` replace the axis. The index tensor
 * varies along the dimensions in `varying`. */
typedef struct sample {
  compute_dtype dtype, index_dtype;
  int32_t rank;
  int64_t size[COMPUTE_MAX_RANK];
  uint32_t indexed, varying;
  int64_t axis_size;
} sample;

/* The tensor with the axis: the sample's free dimensions, then the axis. */
typedef struct kernel_blocks {
  block axis, index, dense;
  int64_t axis_stride;
  compute_operand operand[3]; /* in the order of the blocks above */
} kernel_blocks;

static kernel_blocks create_blocks(const sample *s, test_random *random) {
  kernel_blocks b;
  int64_t size[COMPUTE_MAX_RANK + 1], stride[COMPUTE_MAX_RANK + 1], all[COMPUTE_MAX_RANK];
  /* The axis replaces one indexed dimension in a space of the same rank; the other indexed
   * dimensions have size 1 there. */
  int32_t axis = -1;
  for (int32_t d = 0; d < s->rank; d++) {
    size[d] = s->size[d];
    if (!(s->indexed >> d & 1)) continue;
    size[d] = axis < 0 ? s->axis_size : 1;
    if (axis < 0) axis = d;
  }
  random_strides(s->rank, size, 0, random, stride);
  b.axis = block_create(s->dtype, s->rank, size, stride);
  b.axis_stride = stride[axis];
  b.operand[0] = operand_of(&b.axis, s->rank);
  for (int32_t d = 0; d < s->rank; d++)
    if (s->indexed >> d & 1) b.operand[0].stride[d] = 0;

  random_strides(s->rank, s->size, ~s->varying, random, all);
  b.index = block_create(s->index_dtype, s->rank, s->size, all);
  b.operand[1] = operand_of(&b.index, s->rank);
  for (int64_t e = 0; e < b.index.elements; e++)
    block_set(&b.index, e, (double)test_random_integer(random, -s->axis_size, s->axis_size - 1));

  random_strides(s->rank, s->size, 0, random, all);
  b.dense = block_create(s->dtype, s->rank, s->size, all);
  b.operand[2] = operand_of(&b.dense, s->rank);
  return b;
}

static void release_blocks(kernel_blocks *b) {
  block_release(&b->axis);
  block_release(&b->index);
  block_release(&b->dense);
}

/* The element of the axis tensor for a point of the space. */
static int64_t axis_element(const sample *s, const kernel_blocks *b, const int64_t *point) {
  int64_t index = (int64_t)block_get(&b->index, block_at(&b->index, point)), at = 0;
  if (index < 0) index += s->axis_size;
  for (int32_t d = 0; d < s->rank; d++) at += point[d] * b->operand[0].stride[d];
  return at + index * b->axis_stride;
}

static compute_kernel_descriptor describe(const sample *s, const kernel_blocks *b,
                                          compute_kernel_kind kind, compute_operand in[2],
                                          compute_operand *out) {
  const bool scatter = kind == COMPUTE_KERNEL_SCATTER;
  in[0] = b->operand[scatter ? 2 : 0];
  in[1] = b->operand[1];
  *out = b->operand[scatter ? 0 : 2];
  static compute_index_attributes attributes; /* for one descriptor at a time */
  attributes = (compute_index_attributes){.axis_size = s->axis_size, .axis_stride = b->axis_stride};
  compute_kernel_descriptor k = {.struct_size = sizeof k,
                                 .kind = kind,
                                 .rank = s->rank,
                                 .input_count = 2,
                                 .output_count = 1,
                                 .inputs = in,
                                 .outputs = out,
                                 .attributes = &attributes,
                                 .attribute_bytes = sizeof attributes};
  memcpy(k.size, s->size, sizeof k.size);
  return k;
}

/* The blocks of a kernel: its inputs, then its output. */
static void order_blocks(kernel_blocks *b, compute_kernel_kind kind, block *blocks[3]) {
  const bool scatter = kind == COMPUTE_KERNEL_SCATTER;
  blocks[0] = scatter ? &b->dense : &b->axis;
  blocks[1] = &b->index;
  blocks[2] = scatter ? &b->axis : &b->dense;
}

static compute_status run_blocks(fixture *f, const sample *s, kernel_blocks *b,
                                 compute_kernel_kind kind) {
  compute_operand in[2], out;
  block *blocks[3];
  const compute_kernel_descriptor k = describe(s, b, kind, in, &out);
  order_blocks(b, kind, blocks);
  return run_kernel(f, kind == COMPUTE_KERNEL_GATHER ? &cpu_gather_kind : &cpu_scatter_kind, &k,
                    blocks);
}

static void check_gather(fixture *f, const sample *s, kernel_blocks *b) {
  compute_operand in[2], out;
  block *blocks[3];
  const compute_kernel_descriptor k = describe(s, b, COMPUTE_KERNEL_GATHER, in, &out);
  order_blocks(b, COMPUTE_KERNEL_GATHER, blocks);
  run_and_check(f, &cpu_gather_kind, &k, blocks, (allowed_error){0});
}

/* Sums in row-major order: in double for f64 and integers, else in f32, rounded to the dtype
 * once. */
static void check_scatter(fixture *f, const sample *s, kernel_blocks *b) {
  const int64_t count = b->axis.elements;
  double *wide = calloc((size_t)count, sizeof *wide);
  float *narrow = calloc((size_t)count, sizeof *narrow);
  int64_t point[COMPUTE_MAX_RANK] = {0};
  const bool single =
      s->dtype == COMPUTE_F32 || s->dtype == COMPUTE_F16 || s->dtype == COMPUTE_BF16;
  assert_non_null(wide);
  assert_non_null(narrow);
  for (int64_t e = 0; e < count; e++) {
    wide[e] = block_get(&b->axis, e);
    narrow[e] = (float)wide[e];
  }
  block_remember(&b->axis);
  assert_int_equal(run_blocks(f, s, b, COMPUTE_KERNEL_SCATTER), COMPUTE_OK);
  if (count_points(s->rank, s->size) > 0) {
    do {
      const int64_t e = axis_element(s, b, point);
      const double update = block_get(&b->dense, block_at(&b->dense, point));
      wide[e] += update;
      narrow[e] += (float)update;
    } while (next_point(s->rank, s->size, point));
  }
  const size_t bytes = cpu_dtype_size(s->dtype);
  for (int64_t e = 0; e < count; e++) {
    unsigned char expected[8];
    dtype_store(s->dtype, expected, single ? (double)narrow[e] : wide[e]);
    if (!dtype_is_float(s->dtype)) /* integers wrap */
      dtype_store_integer(s->dtype, expected, (int64_t)wide[e]);
    if (memcmp(expected, block_data(&b->axis) + (size_t)e * bytes, bytes) != 0)
      fail_msg("scatter of %s: element %lld is %g instead of %g", compute_dtype_name(s->dtype),
               (long long)e, block_get(&b->axis, e), single ? (double)narrow[e] : wide[e]);
  }
  free(wide);
  free(narrow);
}

static sample random_sample(test_random *random, compute_dtype dtype) {
  sample s = {.dtype = dtype};
  s.index_dtype = test_random_integer(random, 0, 1) ? COMPUTE_I64 : COMPUTE_I32;
  s.rank = (int32_t)test_random_integer(random, 1, 5);
  for (int32_t d = 0; d < s.rank; d++) s.size[d] = test_random_integer(random, 1, 5);
  s.size[test_random_integer(random, 0, s.rank - 1)] =
      test_random_integer(random, 1, s.rank > 3 ? 50 : 300);
  const int32_t first = (int32_t)test_random_integer(random, 0, s.rank - 1);
  s.indexed = 1u << first;
  if (first + 1 < s.rank && test_random_integer(random, 0, 2) == 0) s.indexed |= 2u << first;
  s.varying = test_random_integer(random, 0, 1) ? s.indexed : (1u << s.rank) - 1;
  s.axis_size = test_random_integer(random, 1, test_random_integer(random, 0, 3) ? 9 : 500);
  return s;
}

/* ---- Promises ------------------------------------------------------------------------------ */

static void gather_takes_the_chosen_elements(void **state) {
  (void)state;
  for (int32_t threads = 1; threads <= 3; threads++) {
    fixture f;
    test_random random = {.state = 73};
    assert_true(fixture_open(&f, threads, NULL));
    for (int trial = 0; trial < 800; trial++) {
      const sample s = random_sample(&random, all_types[trial % TYPES]);
      kernel_blocks b = create_blocks(&s, &random);
      block_fill(&b.axis, s.dtype == COMPUTE_BOOL || is_unsigned(s.dtype) ? 0 : -9,
                 s.dtype == COMPUTE_BOOL ? 2 : 99, &random);
      check_gather(&f, &s, &b);
      release_blocks(&b);
    }
    fixture_close(&f);
  }
}

static void scatter_adds_in_order_and_rounds_once(void **state) {
  (void)state;
  for (int32_t threads = 1; threads <= 3; threads++) {
    fixture f;
    test_random random = {.state = 79};
    assert_true(fixture_open(&f, threads, NULL));
    for (int trial = 0; trial < 800; trial++) {
      const sample s = random_sample(&random, all_types[trial % (TYPES - 1)]);
      kernel_blocks b = create_blocks(&s, &random);
      block_fill(&b.axis, is_unsigned(s.dtype) ? 0 : -1, 3, &random);
      block_fill(&b.dense, is_unsigned(s.dtype) ? 0 : -1, 3, &random);
      check_scatter(&f, &s, &b);
      release_blocks(&b);
    }
    fixture_close(&f);
  }
}

/* Runs of consecutive indices of every length, also from −1 to 0, which are no neighbours. */
static void scatter_adds_neighbours_as_one_run(void **state) {
  (void)state;
  for (int32_t threads = 1; threads <= 3; threads += 2) {
    fixture f;
    test_random random = {.state = 80};
    assert_true(fixture_open(&f, threads, NULL));
    for (int trial = 0; trial < 8 * (TYPES - 1); trial++) {
      const int64_t axis = test_random_integer(&random, 40, 90);
      const sample s = {.dtype = all_types[trial % (TYPES - 1)],
                        .index_dtype = trial % 2 ? COMPUTE_I64 : COMPUTE_I32,
                        .rank = 2,
                        .size = {test_random_integer(&random, 1, 9), 700},
                        .indexed = 2,
                        .varying = 2,
                        .axis_size = axis};
      kernel_blocks b = create_blocks(&s, &random);
      for (int64_t e = 0; e < b.index.elements;) {
        const int64_t start = test_random_integer(&random, -axis, axis - 1);
        const int64_t end = e + test_random_integer(&random, 1, cpu_min(axis - start, 50));
        for (int64_t i = e; i < end && i < b.index.elements; i++)
          block_set(&b.index, i, (double)(start + i - e));
        e = end;
      }
      block_fill(&b.axis, is_unsigned(s.dtype) ? 0 : -1, 3, &random);
      block_fill(&b.dense, is_unsigned(s.dtype) ? 0 : -1, 3, &random);
      check_scatter(&f, &s, &b);
      release_blocks(&b);
    }
    fixture_close(&f);
  }
}

/* As many tiles as threads are enough: each range would read all indices again. */
static void ranges_are_for_idle_threads_only(void **state) {
  (void)state;
  const sample s = {COMPUTE_F32, COMPUTE_I64, 2, {2, 30000}, 2, 2, 3500};
  test_random random = {.state = 81};
  fixture f;
  cpu_kernel *kernel;
  compute_operand in[2], out;
  assert_true(fixture_open(&f, 2, NULL));
  kernel_blocks b = create_blocks(&s, &random);
  const compute_kernel_descriptor k = describe(&s, &b, COMPUTE_KERNEL_SCATTER, in, &out);
  assert_int_equal(cpu_kind_prepare(&cpu_scatter_kind, f.device, &k, &kernel), COMPUTE_OK);
  assert_non_null(strstr(kernel->description, "2 tiles by 1 ranges"));
  cpu_kernel_destroy(kernel);
  release_blocks(&b);
  fixture_close(&f);
}

/* Large enough for several tasks: rows of an embedding, single elements, a histogram, few columns,
 * and f16 sums whose axis exceeds one worker's scratch memory. */
static const sample large_samples[] = {
    {COMPUTE_F32, COMPUTE_I64, 2, {700, 200}, 1, 1, 50},
    {COMPUTE_F32, COMPUTE_I32, 2, {50, 3000}, 2, 3, 1000},
    {COMPUTE_F32, COMPUTE_I32, 2, {3000, 50}, 1, 3, 1000},
    {COMPUTE_I64, COMPUTE_I64, 1, {200000}, 1, 1, 64},
    {COMPUTE_F64, COMPUTE_I32, 2, {60000, 3}, 1, 1, 1000},
    {COMPUTE_BF16, COMPUTE_I32, 2, {900, 300}, 1, 1, 5000},
    {COMPUTE_F16, COMPUTE_I64, 2, {300, 700}, 1, 3, 3000},
    {COMPUTE_F16, COMPUTE_I64, 1, {100000}, 1, 1, 40},
    {COMPUTE_U8, COMPUTE_I64, 3, {4, 600, 100}, 2, 2, 30},
    {COMPUTE_U16, COMPUTE_I32, 3, {4, 600, 100}, 2, 2, 3},
    {COMPUTE_F32, COMPUTE_I32, 1, {200000}, 1, 1, 5}, /* one of four ranges is empty */
    {COMPUTE_F32, COMPUTE_I32, 2, {40000, 9}, 1, 1, 5},
};

static void large_launches_agree(void **state) {
  (void)state;
  for (int32_t threads = 1; threads <= 4; threads += 3) {
    fixture f;
    test_random random = {.state = 83};
    assert_true(fixture_open(&f, threads, NULL));
    for (size_t n = 0; n < sizeof large_samples / sizeof large_samples[0]; n++) {
      const sample *s = &large_samples[n];
      kernel_blocks b = create_blocks(s, &random);
      block_fill(&b.axis, 0, 9, &random);
      check_gather(&f, s, &b);
      block_fill(&b.dense, 0, 3, &random);
      check_scatter(&f, s, &b);
      release_blocks(&b);
    }
    fixture_close(&f);
  }
}

/* Lines that share their indices: runs of every length, forward and backward, over more than one
 * block of indices. */
static void lines_share_their_indices(void **state) {
  (void)state;
  for (int32_t threads = 1; threads <= 3; threads += 2) {
    fixture f;
    test_random random = {.state = 107};
    assert_true(fixture_open(&f, threads, NULL));
    for (int trial = 0; trial < 4 * TYPES; trial++) {
      const compute_dtype index = trial & 1 ? COMPUTE_I64 : COMPUTE_I32;
      const sample s = {all_types[trial / 4], index, 3, {3, 2500, 1 + trial % 4}, 2, 2, 2600};
      kernel_blocks b = create_blocks(&s, &random);
      int64_t run = 0, at = 0, step = 1;
      for (int64_t point[COMPUTE_MAX_RANK] = {0}; point[1] < s.size[1]; point[1]++, at += step) {
        if (run-- == 0) {
          run = test_random_integer(&random, 0, trial & 2 ? 90 : 5);
          at = test_random_integer(&random, 100, 2499);
          step = test_random_integer(&random, 0, 3) ? 1 : -1;
        }
        block_set(&b.index, block_at(&b.index, point),
                  (double)(at - (test_random_bits(&random) & 1 ? 2600 : 0)));
      }
      block_fill(&b.axis, 0, s.dtype == COMPUTE_BOOL ? 2 : 99, &random);
      check_gather(&f, &s, &b);
      release_blocks(&b);
    }
    fixture_close(&f);
  }
}

/* Sums of f16 and bf16 must not be rounded at every update: 4096 ones sum to 4096. */
static void many_small_updates_do_not_vanish(void **state) {
  (void)state;
  fixture f;
  test_random random = {.state = 89};
  assert_true(fixture_open(&f, 2, NULL));
  for (int half = 0; half < 2; half++) {
    const sample s = {half ? COMPUTE_F16 : COMPUTE_BF16, COMPUTE_I32, 2, {4096, 20}, 1, 1, 1};
    kernel_blocks b = create_blocks(&s, &random);
    for (int64_t e = 0; e < b.dense.elements; e++) block_set(&b.dense, e, 1);
    for (int64_t e = 0; e < b.axis.elements; e++) block_set(&b.axis, e, 0);
    assert_int_equal(run_blocks(&f, &s, &b, COMPUTE_KERNEL_SCATTER), COMPUTE_OK);
    int64_t point[COMPUTE_MAX_RANK] = {0};
    for (point[1] = 0; point[1] < 20; point[1]++)
      assert_true(block_get(&b.axis, axis_element(&s, &b, point)) == 4096);
    release_blocks(&b);
  }
  fixture_close(&f);
}

/* Puts a bad index at two places and expects an error about the first. */
static void check_bad_index(fixture *f, const sample *s, double bad, test_random *random) {
  kernel_blocks b = create_blocks(s, random);
  char expected[64];
  int64_t first[COMPUTE_MAX_RANK] = {0}, second[COMPUTE_MAX_RANK] = {0}, position = 0;
  for (int32_t d = 0; d < s->rank; d++) {
    if (!(s->varying >> d & 1)) continue;
    first[d] = s->size[d] / 2;
    second[d] = s->size[d] - 1;
    position = position * s->size[d] + first[d];
  }
  block_fill(&b.axis, 0, 9, random);
  block_fill(&b.dense, 0, 9, random);
  block_set(&b.index, block_at(&b.index, second), bad - 3);
  block_set(&b.index, block_at(&b.index, first), bad);
  block_remember(&b.axis);
  block_remember(&b.dense);
  snprintf(expected, sizeof expected, "index %lld at position %lld ", (long long)bad,
           (long long)position);
  for (int kind = 0; kind < 2; kind++) {
    f->message[0] = 0;
    assert_int_equal(run_blocks(f, s, &b, kind ? COMPUTE_KERNEL_SCATTER : COMPUTE_KERNEL_GATHER),
                     COMPUTE_ERROR_INDEX);
    assert_int_equal(f->status, COMPUTE_ERROR_INDEX);
    if (!strstr(f->message, expected)) fail_msg("'%s' in '%s'", expected, f->message);
    block_check_guards(&b.dense);
    /* A failed scatter adds nothing. */
    assert_memory_equal(b.axis.memory, b.axis.copy,
                        (size_t)(b.axis.elements + 2 * FIXTURE_GUARD) * cpu_dtype_size(s->dtype));
  }
  release_blocks(&b);
}

static void an_index_outside_names_itself_and_writes_nothing(void **state) {
  (void)state;
  fixture f;
  test_random random = {.state = 97};
  assert_true(fixture_open(&f, 3, NULL));
  for (size_t n = 0; n < sizeof large_samples / sizeof large_samples[0]; n++) {
    const sample *s = &large_samples[n];
    check_bad_index(&f, s, (double)s->axis_size + 3, &random);
    check_bad_index(&f, s, (double)-s->axis_size - 1, &random);
    check_bad_index(&f, s, -2147483645, &random);
    if (s->index_dtype == COMPUTE_I64) check_bad_index(&f, s, 0x1p52, &random);
  }
  sample empty_axis = {COMPUTE_F32, COMPUTE_I32, 1, {5}, 1, 1, 1};
  kernel_blocks b = create_blocks(&empty_axis, &random);
  empty_axis.axis_size = 0;
  assert_int_equal(run_blocks(&f, &empty_axis, &b, COMPUTE_KERNEL_GATHER), COMPUTE_ERROR_INDEX);
  assert_int_equal(run_blocks(&f, &empty_axis, &b, COMPUTE_KERNEL_SCATTER), COMPUTE_ERROR_INDEX);
  release_blocks(&b);
  fixture_close(&f);
}

static void empty_spaces_touch_nothing(void **state) {
  (void)state;
  fixture f;
  test_random random = {.state = 101};
  assert_true(fixture_open(&f, 2, NULL));
  for (int32_t empty = 0; empty < 3; empty++) {
    sample s = {COMPUTE_F16, COMPUTE_I32, 3, {3, 4, 5}, 2, 2, 6};
    s.size[empty] = 0;
    kernel_blocks b = create_blocks(&s, &random);
    check_gather(&f, &s, &b);
    block_remember(&b.axis);
    assert_int_equal(run_blocks(&f, &s, &b, COMPUTE_KERNEL_SCATTER), COMPUTE_OK);
    assert_memory_equal(b.axis.memory, b.axis.copy,
                        (size_t)(b.axis.elements + 2 * FIXTURE_GUARD) * 2);
    release_blocks(&b);
  }
  fixture_close(&f);
}

static void failures_are_reported_and_leave_nothing(void **state) {
  (void)state;
  test_random random = {.state = 103};
  const sample s = {COMPUTE_BF16, COMPUTE_I32, 2, {30, 20}, 1, 1, 7};
  kernel_blocks b = create_blocks(&s, &random);
  compute_operand in[2], out;
  compute_kernel_descriptor k = describe(&s, &b, COMPUTE_KERNEL_SCATTER, in, &out);
  check_allocation_failures(&cpu_scatter_kind, &k, (block *[]){&b.dense, &b.index, &b.axis});
  k = describe(&s, &b, COMPUTE_KERNEL_GATHER, in, &out);
  check_allocation_failures(&cpu_gather_kind, &k, (block *[]){&b.axis, &b.index, &b.dense});

  fixture f;
  cpu_kernel *kernel = NULL;
  assert_true(fixture_open(&f, 1, NULL));
  k = describe(&s, &b, COMPUTE_KERNEL_SCATTER, in, &out);
  in[0].dtype = out.dtype = COMPUTE_BOOL;
  assert_int_equal(cpu_kind_prepare(&cpu_scatter_kind, f.device, &k, &kernel),
                   COMPUTE_ERROR_UNSUPPORTED);
  assert_null(kernel);
  fixture_close(&f);
  release_blocks(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gather_takes_the_chosen_elements),
      cmocka_unit_test(scatter_adds_in_order_and_rounds_once),
      cmocka_unit_test(scatter_adds_neighbours_as_one_run),
      cmocka_unit_test(ranges_are_for_idle_threads_only),
      cmocka_unit_test(large_launches_agree),
      cmocka_unit_test(lines_share_their_indices),
      cmocka_unit_test(many_small_updates_do_not_vanish),
      cmocka_unit_test(an_index_outside_names_itself_and_writes_nothing),
      cmocka_unit_test(empty_spaces_touch_nothing),
      cmocka_unit_test(failures_are_reported_and_leave_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
