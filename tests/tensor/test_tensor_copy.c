/* SPDX-License-Identifier: MIT */
/* Copies between every two devices, dtypes and layouts, compared with element-wise conversions.
 * Guard bytes surround the destination. */
#include "support/harness/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/type/dtype.h"
#include "support/harness/values.h"

#define ROWS    5
#define COLUMNS 7
#define COUNT   (ROWS * COLUMNS)

/* ---- Tensors inside larger ones ------------------------------------------------------------ */

typedef enum placement {
  DENSE,
  OFFSET_ROWS, /* rows and columns of a larger matrix */
  STEPPED,     /* every second column, every second row */
  TRANSPOSED,
  LAYOUTS
} placement;

/* A view [5,7] with that layout, and the tensor that contains it. */
typedef struct placed {
  compute_tensor *whole, *view;
} placed;

static compute_tensor *slice_both(compute_tensor *whole, int64_t start, int64_t step) {
  compute_tensor *rows, *view;
  assert_ok(compute_tensor_slice_view(whole, 0, start, ROWS, step, &rows));
  assert_ok(compute_tensor_slice_view(rows, 1, start, COLUMNS, step, &view));
  compute_tensor_release(rows);
  return view;
}

static placed place(compute_device *device, compute_dtype dtype, placement layout) {
  placed p = {NULL, NULL};
  compute_shape shape = layout == DENSE         ? COMPUTE_SHAPE(ROWS, COLUMNS)
                        : layout == OFFSET_ROWS ? COMPUTE_SHAPE(ROWS + 2, COLUMNS + 3)
                        : layout == STEPPED     ? COMPUTE_SHAPE(2 * ROWS + 1, 2 * COLUMNS + 1)
                                                : COMPUTE_SHAPE(COLUMNS, ROWS);
  assert_ok(compute_tensor_full(device, dtype, shape, 1, &p.whole));
  switch (layout) {
  case OFFSET_ROWS: p.view = slice_both(p.whole, 1, 1); break;
  case STEPPED: p.view = slice_both(p.whole, 1, 2); break;
  case TRANSPOSED:
    assert_ok(compute_tensor_transpose_view(p.whole, COMPUTE_ALL_AXES, &p.view));
    break;
  default: p.view = compute_tensor_retain(p.whole); break;
  }
  return p;
}

static void release(placed *p) {
  compute_tensor_release(p->view);
  compute_tensor_release(p->whole);
}

/* The number of elements of the whole tensor that differ from its fill value 1. */
static int64_t count_changed(const compute_tensor *whole) {
  size_t size = compute_dtype_size(compute_tensor_dtype(whole));
  size_t count = (size_t)compute_tensor_count(whole);
  char *data = malloc(count * size);
  int64_t changed = 0;
  assert_ok(compute_tensor_read(whole, data, count * size));
  for (size_t i = 0; i < count; i++) {
    changed += dtype_load(compute_tensor_dtype(whole), data + i * size) != 1;
  }
  free(data);
  return changed;
}

/* ---- Values -------------------------------------------------------------------------------- */

/* Numbers that are difficult for conversions. */
static const double awkward[] = {
    0.0,    -0.0,   2.5,      -2.5,    65504.0,    65520.0,   -70000.0,  1e-7,  5.96e-8,  300.0,
    -1e300, 1e300,  0x1p31,   -0x1p31, 0x1p63,     -0x1p63,   9.99e18,   NAN,   INFINITY, -INFINITY,
    2049.0, 2051.0, 0x1p-149, 3.14159, 16777217.0, 0x1.002p4, 0x1.006p4, 256.5, 257.0,    -255.0};

static const int64_t awkward_integers[] = {0,
                                           -1,
                                           2,
                                           255,
                                           256,
                                           -129,
                                           INT32_MAX,
                                           INT32_MIN,
                                           INT64_C(1) << 32,
                                           INT64_MAX,
                                           INT64_MIN,
                                           (INT64_C(1) << 53) + 1,
                                           -(INT64_C(1) << 53) - 1,
                                           INT64_MAX - 1,
                                           16777217,
                                           2049,
                                           65520,
                                           (INT64_C(1) << 62) + (INT64_C(1) << 54) + 3};

static void fill_awkward(compute_dtype dtype, char *data) {
  size_t size = compute_dtype_size(dtype);
  for (size_t i = 0; i < COUNT; i++) {
    if (dtype_is_float(dtype)) {
      dtype_store(dtype, data + i * size, awkward[i % (sizeof awkward / sizeof *awkward)]);
    } else {
      dtype_store_integer(
          dtype, data + i * size,
          awkward_integers[i % (sizeof awkward_integers / sizeof *awkward_integers)]);
    }
  }
}

static void convert(compute_dtype to, char *result, compute_dtype from, const char *data) {
  size_t to_size = compute_dtype_size(to), from_size = compute_dtype_size(from);
  for (size_t i = 0; i < COUNT; i++) {
    if (dtype_is_float(from)) {
      dtype_store(to, result + i * to_size, dtype_load(from, data + i * from_size));
    } else {
      dtype_store_integer(to, result + i * to_size, dtype_load_integer(from, data + i * from_size));
    }
  }
}

/* Equal bits, except that any NaN equals a NaN. */
static void assert_equal(compute_dtype dtype, const char *actual, const char *expected,
                         const char *what) {
  size_t size = compute_dtype_size(dtype);
  for (size_t i = 0; i < COUNT; i++) {
    double wanted = dtype_load(dtype, expected + i * size);
    double got = dtype_load(dtype, actual + i * size);
    if (isnan(wanted) ? isnan(got) : !memcmp(actual + i * size, expected + i * size, size))
      continue;
    fail_msg("%s, element %zu: %.17g instead of %.17g", what, i, got, wanted);
  }
}

/* ---- Every pair ---------------------------------------------------------------------------- */

static void check_pair(compute_device *to, compute_dtype to_dtype, placement to_layout,
                       compute_device *from, compute_dtype from_dtype, placement from_layout) {
  char data[COUNT * 8], expected[COUNT * 8], actual[COUNT * 8], what[160];
  compute_device_info from_info, to_info;
  assert_ok(compute_device_describe(from, &from_info));
  assert_ok(compute_device_describe(to, &to_info));
  snprintf(what, sizeof what, "%s %s layout %d to %s %s layout %d", from_info.name,
           compute_dtype_name(from_dtype), (int)from_layout, to_info.name,
           compute_dtype_name(to_dtype), (int)to_layout);
  placed source = place(from, from_dtype, from_layout), target = place(to, to_dtype, to_layout);
  fill_awkward(from_dtype, data);
  assert_ok(compute_tensor_write(source.view, data, COUNT * compute_dtype_size(from_dtype)));
  assert_ok(compute_tensor_copy(target.view, source.view));
  assert_ok(compute_tensor_read(target.view, actual, COUNT * compute_dtype_size(to_dtype)));
  convert(to_dtype, expected, from_dtype, data);
  assert_equal(to_dtype, actual, expected, what);
  assert_int_equal(count_changed(target.whole), count_changed(target.view));
  release(&source);
  release(&target);
}

/* Returns true if a short run takes this sample, on devices that compile for each. */
static bool is_taken(uint64_t number) {
  return !test_seed() || (number + test_turn()) % 12 == 0;
}

static void every_dtype_layout_and_device_copies_to_every_other(void **state) {
  (void)state;
  compute_device *from, *to, *cpu;
  int round = 0;
  assert_ok(compute_device_by_name(test_context, "cpu", &cpu));
  for (size_t i = 0; (from = compute_device_at(test_context, i)); i++) {
    for (size_t k = 0; (to = compute_device_at(test_context, k)); k++) {
      for (int a = COMPUTE_F64; a <= COMPUTE_BOOL; a++) {
        for (int b = COMPUTE_F64; b <= COMPUTE_BOOL; b++) {
          /* Each pair of dtypes in some layouts, and each pair of layouts with some dtypes. Only
           * one layout if samples are few, or if another device compiles for each. */
          const int repeats = i == k && test_samples() == 1 ? 3 : 1;
          if ((from != cpu || to != cpu) && !is_taken((uint64_t)(a * 7 + b))) continue;
          for (int repeat = 0; repeat < repeats; repeat++, round += 3) {
            check_pair(to, (compute_dtype)a, (placement)(round % LAYOUTS), from, (compute_dtype)b,
                       (placement)(round / LAYOUTS % LAYOUTS));
          }
        }
      }
    }
  }
}

static void check_round_trip(compute_device *device, bool all) {
  for (int dtype = COMPUTE_F64; dtype <= COMPUTE_BOOL; dtype++) {
    for (int k = 0; k < LAYOUTS; k++) {
      if (!all && !is_taken((uint64_t)(dtype * LAYOUTS + k))) continue;
      char data[COUNT * 8], back[COUNT * 8];
      size_t bytes = COUNT * compute_dtype_size((compute_dtype)dtype);
      placed p = place(device, (compute_dtype)dtype, (placement)k);
      fill_awkward((compute_dtype)dtype, data);
      assert_ok(compute_tensor_write(p.view, data, bytes));
      assert_ok(compute_tensor_read(p.view, back, bytes));
      assert_equal((compute_dtype)dtype, back, data, "round trip");
      assert_int_equal(count_changed(p.whole), count_changed(p.view));
      release(&p);
    }
  }
}

static void what_is_written_is_read_back(void **state) {
  (void)state;
  compute_device *device, *cpu;
  assert_ok(compute_device_by_name(test_context, "cpu", &cpu));
  for (size_t i = 0; (device = compute_device_at(test_context, i)); i++)
    check_round_trip(device, device == cpu);
}

static void copies_of_large_tensors_arrive_whole(void **state) {
  (void)state;
  compute_device *from, *to;
  const int64_t count = 3000017; /* more than one staging block, and prime */
  int32_t *data = malloc((size_t)count * sizeof *data),
          *back = malloc((size_t)count * sizeof *back);
  for (int64_t i = 0; i < count; i++) data[i] = (int32_t)(i * 2654435761);
  for (size_t i = 0; (from = compute_device_at(test_context, i)); i++) {
    compute_tensor *source, *copy;
    assert_ok(compute_tensor_from_host(from, COMPUTE_I32, COMPUTE_SHAPE(count), data, &source));
    for (size_t k = 0; (to = compute_device_at(test_context, k)); k++) {
      assert_ok(compute_tensor_to_device(source, to, &copy));
      assert_ptr_equal(compute_tensor_device(copy), to);
      memset(back, 0, (size_t)count * sizeof *back);
      assert_ok(compute_tensor_read(copy, back, (size_t)count * sizeof *back));
      assert_memory_equal(back, data, (size_t)count * sizeof *back);
      compute_tensor_release(copy);
    }
    compute_tensor_release(source);
  }
  free(data);
  free(back);
}

/* ---- Overlap ------------------------------------------------------------------------------- */

static void check_overlap(compute_device *device) {
  int64_t data[16], back[16];
  compute_tensor *whole, *low, *high, *square, *turned;
  for (int64_t i = 0; i < 16; i++) data[i] = i;
  assert_ok(compute_tensor_from_host(device, COMPUTE_I64, COMPUTE_SHAPE(16), data, &whole));
  assert_ok(compute_tensor_slice_view(whole, 0, 0, 12, 1, &low));
  assert_ok(compute_tensor_slice_view(whole, 0, 4, 12, 1, &high));
  assert_ok(compute_tensor_copy(high, low));
  assert_ok(compute_tensor_read(whole, back, sizeof back));
  for (int64_t i = 0; i < 16; i++) assert_int_equal(back[i], i < 4 ? i : i - 4);
  assert_ok(compute_tensor_write(whole, data, sizeof data));
  assert_ok(compute_tensor_reshape_view(whole, COMPUTE_SHAPE(4, 4), &square));
  assert_ok(compute_tensor_transpose_view(square, COMPUTE_ALL_AXES, &turned));
  assert_ok(compute_tensor_copy(square, turned));
  assert_ok(compute_tensor_read(whole, back, sizeof back));
  for (int64_t i = 0; i < 16; i++) assert_int_equal(back[i], i % 4 * 4 + i / 4);
  assert_ok(compute_tensor_copy(whole, whole));
  compute_tensor *all[] = {whole, low, high, square, turned};
  for (size_t i = 0; i < 5; i++) compute_tensor_release(all[i]);
}

static void overlapping_copies_act_as_if_apart(void **state) {
  (void)state;
  compute_device *device;
  for (size_t i = 0; (device = compute_device_at(test_context, i)); i++) check_overlap(device);
}

/* ---- Errors -------------------------------------------------------------------------------- */

static void wrong_calls_are_explained(void **state) {
  (void)state;
  float data[6] = {0};
  compute_tensor *a = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2, 3), NULL), *copy;
  compute_tensor *b = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3, 2), NULL);
  assert_fails(compute_tensor_read(a, data, sizeof data - 1), COMPUTE_ERROR_SHAPE);
  test_check_message(test_context, "[2,3]");
  assert_fails(compute_tensor_write(a, data, SIZE_MAX), COMPUTE_ERROR_SHAPE);
  assert_fails(compute_tensor_read(a, NULL, sizeof data), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_copy(a, b), COMPUTE_ERROR_SHAPE);
  test_check_message(test_context, "[3,2]");
  assert_fails(compute_tensor_copy(a, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_copy(NULL, a), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_to_device(a, NULL, &copy), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_to_device(NULL, compute_tensor_device(a), &copy),
               COMPUTE_ERROR_NULL_POINTER);
  compute_context *other = test_open();
  compute_tensor *foreign = test_tensor(other, COMPUTE_F32, COMPUTE_SHAPE(2, 3), NULL);
  assert_fails(compute_tensor_copy(a, foreign), COMPUTE_ERROR_WRONG_CONTEXT);
  assert_fails(compute_tensor_to_device(foreign, compute_tensor_device(a), &copy),
               COMPUTE_ERROR_WRONG_CONTEXT);
  assert_null(copy);
  compute_tensor_release(foreign);
  test_close(other);
  compute_tensor_release(a);
  compute_tensor_release(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_written_is_read_back),
      cmocka_unit_test(every_dtype_layout_and_device_copies_to_every_other),
      cmocka_unit_test(copies_of_large_tensors_arrive_whole),
      cmocka_unit_test(overlapping_copies_act_as_if_apart),
      cmocka_unit_test(wrong_calls_are_explained),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
