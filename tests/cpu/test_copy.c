/* SPDX-License-Identifier: MIT */
/* COPY kernels: all pairs of dtypes and all layouts of both operands. Also the copies of dense
 * bytes that queues use. */
#include "kernel_fixture.h"

static compute_kernel_descriptor describe(int32_t rank, const int64_t *size,
                                          const compute_operand *input,
                                          const compute_operand *output) {
  compute_kernel_descriptor descriptor = {.struct_size = sizeof descriptor,
                                          .kind = COMPUTE_KERNEL_COPY,
                                          .rank = rank,
                                          .input_count = 1,
                                          .output_count = 1,
                                          .inputs = input,
                                          .outputs = output};
  for (int32_t d = 0; d < rank; d++) descriptor.size[d] = size[d];
  return descriptor;
}

/* Copies and compares element by element; equal dtypes keep all bits. */
static void run_case(fixture *f, const block *in, block *out) {
  const compute_operand input = operand_of(in, in->rank), output = operand_of(out, out->rank);
  const compute_kernel_descriptor descriptor = describe(in->rank, in->size, &input, &output);
  block source = *in;
  block *const blocks[] = {&source, out};
  int64_t point[COMPUTE_MAX_RANK] = {0};
  const size_t bytes = cpu_dtype_size(out->dtype);
  run_and_check(f, &cpu_copy_kind, &descriptor, blocks, (allowed_error){.signs = true});
  if (in->dtype == out->dtype && count_points(in->rank, in->size) > 0) do
      assert_memory_equal(block_data(out) + block_at(out, point) * (int64_t)bytes,
                          block_data(in) + block_at(in, point) * (int64_t)bytes, bytes);
    while (next_point(in->rank, in->size, point));
}

static void fill_numbers(block *b, test_random *random) {
  static const double special[] = {0,     -0.0,  NAN,    INFINITY,   -INFINITY,    1e-45, 6e-8,
                                   65504, 65520, 3e38,   -3e38,      1e300,        255.9, -0.9,
                                   2.5,   3.5,   1e-310, 2147483647, -2147483649.0};
  for (int64_t i = 0; i < b->elements; i++) {
    const int64_t kind = test_random_integer(random, 0, 4);
    if (kind == 0)
      block_set(b, i, b->dtype == COMPUTE_I64 ? 0x1p52 - (double)i : special[i % 19]);
    else if (kind == 1)
      block_set(b, i, exp(test_random_uniform(random, -30, 30)));
    else
      block_set(b, i, test_random_uniform(random, -400, 400));
  }
}

static void every_pair_of_dtypes_converts(void **state) {
  const int64_t size = 1000;
  (void)state;
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    for (int from = COMPUTE_F64; from < COMPUTE_DTYPE_COUNT; from++)
      for (int to = COMPUTE_F64; to < COMPUTE_DTYPE_COUNT; to++)
        for (int64_t step = 1; step <= 3; step += 2) {
          if (from == COMPUTE_U64 && dtype_is_float((compute_dtype)to)) continue; /* refused */
          test_random random = {(uint64_t)(10 * from + to)};
          const int64_t other = 4 - step;
          block in = block_create((compute_dtype)from, 1, &size, &step);
          block out = block_create((compute_dtype)to, 1, &size, step == 1 ? &step : &other);
          fill_numbers(&in, &random);
          run_case(&f, &in, &out);
          block_release(&in);
          block_release(&out);
        }
    fixture_close(&f);
  }
}

/* Converts all bit patterns of the small floats, and all f32 at a tie between two of them. */
static void small_floats_convert_bit_by_bit(void **state) {
  const int64_t size = 65536, step = 1;
  static const compute_dtype small[] = {COMPUTE_F16, COMPUTE_BF16};
  (void)state;
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    for (int d = 0; d < 2; d++)
      for (int32_t around = -1; around <= 1; around++) {
        block in = block_create(small[d], 1, &size, &step);
        block wide = block_create(COMPUTE_F32, 1, &size, &step);
        for (int i = 0; i < 65536; i++) ((uint16_t *)(void *)block_data(&in))[i] = (uint16_t)i;
        run_case(&f, &in, &wide);
        /* The midpoint to the next number, and the floats on both sides of it. */
        uint32_t *bits = (void *)block_data(&wide);
        for (int i = 0; i < 65536; i++)
          bits[i] += (uint32_t)around + (small[d] == COMPUTE_F16 ? 0x1000u : 0x8000u);
        block back = block_create(small[d], 1, &size, &step);
        run_case(&f, &wide, &back);
        block_release(&in);
        block_release(&wide);
        block_release(&back);
      }
    fixture_close(&f);
  }
}

static void random_bytes(block *b, test_random *random) {
  const int64_t bytes = b->elements * (int64_t)cpu_dtype_size(b->dtype);
  for (int64_t i = 0; i < bytes; i++)
    block_data(b)[i] = (unsigned char)(b->dtype == COMPUTE_BOOL ? test_random_bits(random) & 1
                                                                : test_random_bits(random));
}

static void copy_space(fixture *f, compute_dtype dtype, int32_t rank, const int64_t *size,
                       uint32_t repeat, test_random *random) {
  int64_t stride[COMPUTE_MAX_RANK];
  random_strides(rank, size, repeat, random, stride);
  block in = block_create(dtype, rank, size, stride);
  random_strides(rank, size, 0, random, stride);
  block out = block_create(dtype, rank, size, stride);
  random_bytes(&in, random);
  run_case(f, &in, &out);
  block_release(&in);
  block_release(&out);
}

static void every_arrangement_moves_the_same_elements(void **state) {
  static const int64_t sizes[] = {1, 2, 3, 8, 17, 64, 70, 300};
  (void)state;
  for (int set = 0; fixture_sets[set]; set++)
    for (int32_t threads = 1; threads <= 3; threads += 2) {
      fixture f;
      if (!fixture_open(&f, threads, fixture_sets[set])) continue;
      for (uint64_t number = 0; number < 500; number++) {
        test_random random = {number};
        int64_t size[COMPUTE_MAX_RANK], points = 1;
        const int32_t rank = (int32_t)test_random_integer(&random, 0, 5);
        for (int32_t d = 0; d < rank; d++) {
          do size[d] = sizes[test_random_integer(&random, 0, 7)];
          while (points * size[d] > 30000);
          points *= size[d];
        }
        const uint32_t repeat =
            number % 3 ? 0 : (uint32_t)(test_random_bits(&random) & test_random_bits(&random));
        f.device->share_bytes = number & 1 ? 64 : 1 << 30;
        copy_space(&f, (compute_dtype)(1 + number % 8), rank, size, repeat, &random);
      }
      fixture_close(&f);
    }
}

/* Dense and strided rows of every short length, between other elements, which stay. */
static void short_rows_of_every_length(void **state) {
  static const compute_dtype dtypes[] = {COMPUTE_F64, COMPUTE_F32, COMPUTE_F16, COMPUTE_U8};
  (void)state;
  for (int32_t threads = 1; threads <= 3; threads += 2) {
    fixture f;
    assert_true(fixture_open(&f, threads, NULL));
    for (int d = 0; d < 4; d++)
      for (int64_t length = 1; length <= 70; length++)
        for (int way = 0; way < 4; way++) {
          const int64_t size[] = {2, length % 5 ? 37 : 3, length};
          const int64_t from = way & 1 ? 2 : 1, to = way & 2 ? 3 : 1;
          const int64_t in_row = length * from + way, out_row = length * to + 3;
          const int64_t in_stride[] = {size[1] * in_row + 5, in_row, from};
          const int64_t out_stride[] = {size[1] * out_row + 1, out_row, to};
          test_random random = {(uint64_t)(length * 4 + way)};
          block in = block_create(dtypes[d], 3, size, in_stride);
          block out = block_create(dtypes[d], 3, size, out_stride);
          random_bytes(&in, &random);
          run_case(&f, &in, &out);
          block_release(&in);
          block_release(&out);
        }
    fixture_close(&f);
  }
}

static void large_transposes_are_shared_among_threads(void **state) {
  static const int64_t sizes[][3] = {{1, 1031, 517}, {3, 64, 2048}, {517, 3, 201}};
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 3, NULL));
  for (int i = 0; i < 3; i++)
    for (int dtype = COMPUTE_F64; dtype < COMPUTE_DTYPE_COUNT; dtype++) {
      const int64_t *n = sizes[i];
      const int64_t dense[] = {n[1] * n[2], n[2], 1};
      const int64_t turned[] = {n[1] * n[2], 1, n[1]}, outward[] = {1, n[2] * n[0], n[0]};
      test_random random = {(uint64_t)dtype};
      f.device->share_bytes = dtype & 1 ? 64 : 1 << 30;
      block in = block_create((compute_dtype)dtype, 3, n, dense);
      block across = block_create((compute_dtype)dtype, 3, n, turned);
      block out = block_create((compute_dtype)dtype, 3, n, outward);
      random_bytes(&in, &random);
      run_case(&f, &in, &across);
      run_case(&f, &across, &out);
      block_release(&in);
      block_release(&across);
      block_release(&out);
    }
  fixture_close(&f);
}

static void an_empty_space_moves_nothing(void **state) {
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 2, NULL));
  for (int32_t zero = 0; zero < 3; zero++)
    for (int from = COMPUTE_F32; from <= COMPUTE_F16; from++) {
      int64_t size[3] = {4, 5, 6};
      const int64_t stride[3] = {30, 6, 1};
      size[zero] = 0;
      block in = block_create((compute_dtype)from, 3, size, stride);
      block out = block_create(COMPUTE_F32, 3, size, stride);
      run_case(&f, &in, &out);
      block_release(&in);
      block_release(&out);
    }
  fixture_close(&f);
}

static void dense_bytes_may_overlap_and_be_unaligned(void **state) {
  enum { BYTES = 3000000 };
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 2, NULL));
  unsigned char *memory = malloc(2 * BYTES + 64), *expected = malloc(2 * BYTES + 64);
  assert_non_null(memory);
  assert_non_null(expected);
  static const int64_t counts[] = {1, 63, 64, 65, 1000, 255 << 10, 1 << 20, BYTES - 1};
  static const int64_t shifts[] = {BYTES, 0, 1, 100, 70000};
  for (int i = 0; i < 8; i++)
    for (int s = 0; s < 5; s++)
      for (int backwards = 0; backwards < 2; backwards++) {
        for (int64_t b = 0; b < 2 * BYTES + 64; b++) memory[b] = (unsigned char)(b * 31 >> 3);
        memcpy(expected, memory, 2 * BYTES + 64);
        const int64_t from = 3 + (backwards ? shifts[s] : 0), to = 3 + (backwards ? 0 : shifts[s]);
        f.device->share_bytes = backwards ? 64 : 1 << 30;
        cpu_copy_bytes(f.device, memory + to, memory + from, (uint64_t)counts[i]);
        memmove(expected + to, expected + from, (size_t)counts[i]);
        assert_memory_equal(memory, expected, 2 * BYTES + 64);
      }
  free(memory);
  free(expected);
  fixture_close(&f);
}

/* As blocks of a transpose they would take 12 times as long. */
static void repeated_elements_are_rows(void **state) {
  (void)state;
  const int64_t size[] = {7, 4001}, in_stride[] = {1, 0}, out_stride[] = {4001, 1};
  fixture f;
  cpu_kernel *kernel;
  test_random random = {.state = 3};
  assert_true(fixture_open(&f, 3, NULL));
  for (int type = COMPUTE_F64; type < COMPUTE_DTYPE_COUNT; type++) {
    block in = block_create((compute_dtype)type, 2, size, in_stride);
    block out = block_create((compute_dtype)type, 2, size, out_stride);
    const compute_operand input = operand_of(&in, 2), output = operand_of(&out, 2);
    const compute_kernel_descriptor d = describe(2, size, &input, &output);
    block_fill(&in, 0, 100, &random);
    run_case(&f, &in, &out);
    assert_int_equal(cpu_kind_prepare(&cpu_copy_kind, f.device, &d, &kernel), COMPUTE_OK);
    assert_non_null(strstr(kernel->description, ", rows"));
    cpu_kernel_destroy(kernel);
    block_release(&in);
    block_release(&out);
  }
  fixture_close(&f);
}

/* Images whose rows and pixels repeat, with gaps after the rows: [planes, rows, again, columns,
 * times]. */
static void enlarged_images_are_right(void **state) {
  (void)state;
  fixture f;
  test_random random = {.state = 5};
  for (int32_t threads = 1; threads <= 3; threads += 2) {
    assert_true(fixture_open(&f, threads, NULL));
    for (int number = 0; number < 200; number++) {
      const int64_t times = test_random_integer(&random, 2, 4);
      const int64_t again = test_random_integer(&random, 1, 3);
      const int64_t columns = test_random_integer(&random, 1, 40);
      const int64_t size[] = {test_random_integer(&random, 1, 9),
                              test_random_integer(&random, 8, 48), again, columns, times};
      const int64_t line = columns * times + test_random_integer(&random, 0, 1),
                    in_line = columns + 1;
      const int64_t in_stride[] = {size[1] * in_line, in_line, 0, 1, 0};
      const int64_t out_stride[] = {size[1] * again * line, again * line, line, times, 1};
      const compute_dtype dtype = (compute_dtype)(1 + number % (COMPUTE_DTYPE_COUNT - 1));
      block in = block_create(dtype, 5, size, in_stride);
      block out = block_create(dtype, 5, size, out_stride);
      block_fill(&in, 0, 100, &random);
      run_case(&f, &in, &out);
      block_release(&in);
      block_release(&out);
    }
    fixture_close(&f);
  }
}

/* Tiled tensors: [planes, again, columns, times, width], rows of powers of two and other widths, and
 * gaps after a plane that are no multiple of the width. */
static void tiles_of_short_rows_are_right(void **state) {
  static const int64_t widths[] = {1, 2, 3, 4, 5, 8, 12, 16};
  (void)state;
  fixture f;
  test_random random = {.state = 6};
  for (int32_t threads = 1; threads <= 3; threads += 2) {
    assert_true(fixture_open(&f, threads, NULL));
    for (int number = 0; number < 300; number++) {
      const int64_t width = widths[number % 8], times = test_random_integer(&random, 1, 4);
      const int64_t size[] = {test_random_integer(&random, 1, 40),
                              test_random_integer(&random, 1, 3),
                              test_random_integer(&random, 1, 50), times, width};
      const int64_t line = size[2] * times * width;
      const int64_t in_plane = size[2] * width + test_random_integer(&random, 0, 2);
      const int64_t out_plane = size[1] * line + test_random_integer(&random, 0, 2);
      const int64_t in_stride[] = {in_plane, 0, width, 0, 1};
      const int64_t out_stride[] = {out_plane, line, times * width, width, 1};
      const compute_dtype dtype = (compute_dtype)(1 + number / 8 % (COMPUTE_DTYPE_COUNT - 1));
      block in = block_create(dtype, 5, size, in_stride);
      block out = block_create(dtype, 5, size, out_stride);
      block_fill(&in, 0, 100, &random);
      run_case(&f, &in, &out);
      block_release(&in);
      block_release(&out);
    }
    fixture_close(&f);
  }
}

/* As pixels move between channels and blocks: with one thread and several, for blocks of every
 * size of edge. */
static void blocks_of_a_few_rows_are_transposed(void **state) {
  (void)state;
  for (const char *const *isa = fixture_sets; *isa; isa++)
    for (int32_t threads = 1; threads <= 3; threads += 2) {
      fixture f;
      test_random random = {.state = 9};
      if (!fixture_open(&f, threads, *isa)) continue;
      for (int64_t rows = 4; rows <= 13; rows++)
        for (int64_t columns = 4; columns <= 17; columns += 1 + columns % 3) {
          static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_U8, COMPUTE_F16, COMPUTE_I64};
          const compute_dtype dtype = dtypes[(rows + columns) % 4];
          const int64_t outer = rows == 5 ? 700 : 6;
          const int64_t size[] = {outer, columns, rows};
          const int64_t in_stride[] = {columns * rows, 1, columns};
          const int64_t out_stride[] = {columns * rows, rows, 1};
          block in = block_create(dtype, 3, size, in_stride);
          block out = block_create(dtype, 3, size, out_stride);
          block_fill(&in, 0, 100, &random);
          run_case(&f, &in, &out);
          block_release(&in);
          block_release(&out);
        }
      fixture_close(&f);
    }
}

static void allocation_failures_are_reported(void **state) {
  (void)state;
  const int64_t size = 10, stride = 1;
  block in = block_create(COMPUTE_F32, 1, &size, &stride);
  for (int to = COMPUTE_F32; to <= COMPUTE_F16; to++) {
    block out = block_create((compute_dtype)to, 1, &size, &stride);
    block *const blocks[] = {&in, &out};
    const compute_operand input = operand_of(&in, 1), output = operand_of(&out, 1);
    const compute_kernel_descriptor descriptor = describe(1, &size, &input, &output);
    check_allocation_failures(&cpu_copy_kind, &descriptor, blocks);
    block_release(&out);
  }
  block_release(&in);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_pair_of_dtypes_converts),
      cmocka_unit_test(small_floats_convert_bit_by_bit),
      cmocka_unit_test(every_arrangement_moves_the_same_elements),
      cmocka_unit_test(short_rows_of_every_length),
      cmocka_unit_test(large_transposes_are_shared_among_threads),
      cmocka_unit_test(repeated_elements_are_rows),
      cmocka_unit_test(enlarged_images_are_right),
      cmocka_unit_test(tiles_of_short_rows_are_right),
      cmocka_unit_test(blocks_of_a_few_rows_are_transposed),
      cmocka_unit_test(an_empty_space_moves_nothing),
      cmocka_unit_test(dense_bytes_may_overlap_and_be_unaligned),
      cmocka_unit_test(allocation_failures_are_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
