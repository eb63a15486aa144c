/* Convolutions on the device under test come to what their definition says: samples of all
 * directions, shapes, layouts, dtypes and epilogues. What a device refuses is left out, unless
 * COMPUTE_TEST_STRICT is set. A word on the command line restricts the run to samples with it in
 * their names. */
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "memory/transfer.h"
#include "support/samples/sample_convolutions.h"
#include "support/harness/test.h"
#include "tensor/dtype.h"

enum { OPERANDS = COMPUTE_MAX_OPERANDS, GUARD = 64, PATTERN = 0xA5, REPORTED = 20 };

static const char *filter = "";
static size_t number, ran, refused, failures;

/* An operand's memory on both sides, with a guard behind it. */
typedef struct operand_memory {
  compute_dtype dtype;
  int64_t first, elements;
  size_t bytes;
  unsigned char *before, *after;
  compute_memory memory;
} operand_memory;

static size_t element_bytes(const operand_memory *m) {
  return compute_dtype_size(m->dtype);
}

static void fill(const sample_kernel *s, operand_memory *m, test_random *random) {
  for (int64_t e = 0; e < m->elements; e++) {
    double value = test_random_uniform(random, s->low, s->high);
    if (!dtype_is_float(m->dtype)) value = (double)(int64_t)value;
    if (m->dtype == COMPUTE_U8 && value < 0) value = -value;
    dtype_store(m->dtype, m->before + (size_t)e * element_bytes(m), value);
  }
  memset(m->before + m->bytes, PATTERN, GUARD);
}

static void create(const sample_kernel *s, compute_device *device, operand_memory *all,
                   compute_argument *arguments, uint32_t count) {
  test_random random = {.state = 11};
  for (uint32_t i = 0; i < count; i++) {
    operand_memory *m = &all[i];
    int64_t low, high;
    const bool some = sample_kernel_extent(s, i, &low, &high);
    m->dtype = sample_kernel_operand(s, i)->dtype;
    m->first = some ? -low : 0;
    m->elements = some ? high - low + 1 : 0;
    m->bytes = (size_t)m->elements * element_bytes(m);
    m->before = malloc(m->bytes + GUARD);
    m->after = malloc(m->bytes + GUARD);
    assert_non_null(m->before);
    assert_non_null(m->after);
    fill(s, m, &random);
    assert_ok(device->backend->memory_allocate(device->handle, m->bytes + GUARD, &m->memory));
    arguments[i] = (compute_argument){&m->memory, 0};
    assert_ok(transfer_upload(device, &arguments[i], m->before, m->bytes + GUARD));
    arguments[i].offset = (uint64_t)m->first * element_bytes(m);
  }
}

COMPUTE_PRINTF(2, 3)
static void report(const sample_kernel *s, const char *format, ...) {
  char text[300];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  if (++failures <= REPORTED) print_error("%s: %s\n", s->name, text);
}

/* Stored values have been rounded to storage; sums may have been taken in any order. */
static test_tolerance tolerance_of(const sample_kernel *s, compute_dtype dtype) {
  test_tolerance t = s->tolerance;
  if (dtype == COMPUTE_F16) t.rtol += 0x1p-10;
  if (dtype == COMPUTE_BF16) t.rtol += 0x1p-7;
  return t;
}

/* Compares one element, and takes it out of what must not have changed. */
static bool check_element(const sample_kernel *s, operand_memory *m, const sample_element *expected,
                          int64_t at) {
  const test_tolerance tolerance = tolerance_of(s, m->dtype);
  unsigned char *actual = m->after + (size_t)at * element_bytes(m);
  unsigned char exact[8];
  if (dtype_is_float(m->dtype))
    dtype_store(m->dtype, exact, expected->real);
  else
    dtype_store_integer(m->dtype, exact, expected->whole);
  const double a = dtype_load(m->dtype, actual), b = dtype_load(m->dtype, exact);
  const bool same = dtype_is_float(m->dtype) ? test_close_enough(m->dtype, a, b, &tolerance, NULL)
                                             : !memcmp(actual, exact, element_bytes(m));
  if (!same) report(s, "element %lld is %.9g instead of %.9g", (long long)at, a, b);
  memcpy(actual, m->before + (size_t)at * element_bytes(m), element_bytes(m));
  return same;
}

static bool check_output(const sample_kernel *s, operand_memory *all, const void *const *operands,
                         uint32_t output) {
  const compute_kernel_descriptor *d = &s->descriptor;
  const int64_t *size = d->size;
  operand_memory *m = &all[d->input_count + output];
  int64_t point[4];
  for (point[0] = 0; point[0] < size[0]; point[0]++)
    for (point[1] = 0; point[1] < size[1]; point[1]++)
      for (point[2] = 0; point[2] < size[2]; point[2]++)
        for (point[3] = 0; point[3] < size[3]; point[3]++) {
          const sample_element value = sample_convolution_element(d, operands, output, point);
          int64_t at = m->first;
          for (int i = 0; i < 4; i++) at += point[i] * d->outputs[output].stride[i];
          if (!check_element(s, m, &value, at)) return false;
        }
  return true;
}

static void check(const sample_kernel *s, compute_device *device, operand_memory *all,
                  uint32_t count) {
  const uint32_t inputs = s->descriptor.input_count;
  const void *operands[OPERANDS];
  for (uint32_t i = 0; i < count; i++) {
    const compute_argument whole = {&all[i].memory, 0};
    assert_ok(transfer_download(device, all[i].after, &whole, all[i].bytes + GUARD));
    operands[i] = all[i].before + (size_t)all[i].first * element_bytes(&all[i]);
  }
  for (uint32_t k = 0; k < s->descriptor.output_count; k++)
    if (!check_output(s, all, operands, k)) return;
  for (uint32_t i = 0; i < count; i++)
    if (memcmp(all[i].before, all[i].after, all[i].bytes + GUARD))
      report(s, "%s %u was written where it should not have been", i < inputs ? "input" : "output",
             (unsigned)(i < inputs ? i : i - inputs));
}

static void run(const sample_kernel *s, void *user) {
  compute_device *device = user;
  const uint32_t count = s->descriptor.input_count + s->descriptor.output_count;
  operand_memory all[OPERANDS] = {0};
  compute_argument arguments[OPERANDS];
  char reason[256] = "";
  if (s->large || !strstr(s->name, filter) || !test_in_spread((size_t)number++)) return;
  if (!device->backend->supports(device->handle, &s->descriptor, reason, sizeof reason)) {
    if (getenv("COMPUTE_TEST_STRICT")) report(s, "refused: %s", reason);
    refused++;
    return;
  }
  ran++;
  create(s, device, all, arguments, count);
  assert_ok(transfer_run(device, &s->descriptor, arguments, count));
  check(s, device, all, count);
  for (uint32_t i = 0; i < count; i++) {
    device->backend->memory_release(device->handle, &all[i].memory);
    free(all[i].before);
    free(all[i].after);
  }
}

static void every_convolution_is_what_its_definition_says(void **state) {
  (void)state;
  compute_device *device = compute_default_device(test_context);
  sample_convolutions(run, device);
  print_message("%zu convolutions, %zu refused\n", ran, refused);
  if (failures > 0) fail_msg("%zu convolutions went wrong", failures);
  if (ran == 0) skip();
}

int main(int argc, char **argv) {
  if (argc > 1) filter = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_convolution_is_what_its_definition_says)};
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
