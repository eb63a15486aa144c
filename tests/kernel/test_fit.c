/* Fits on the device under test come to what the reference says: samples of all models, solvers,
 * cameras and inputs. And an ROI's record is the same bits whatever other ROIs there are. What a
 * device refuses is left out, unless COMPUTE_TEST_STRICT is set. A word on the command line
 * restricts the run to samples with it in their names. */
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "memory/transfer.h"
#include "support/samples/sample_fits.h"
#include "support/harness/test.h"

enum { OPERANDS = 12, GUARD = 64, PATTERN = 0x5A };

static const char *filter = "";
static size_t number, ran, refused, failures;

typedef struct operand_memory {
  size_t bytes;
  unsigned char *before, *after;
  compute_memory memory;
} operand_memory;

static void create(const sample_kernel *s, compute_device *device, operand_memory *all,
                   compute_argument *arguments, uint32_t count) {
  void *operands[OPERANDS];
  for (uint32_t i = 0; i < count; i++) {
    operand_memory *m = &all[i];
    int64_t low, high;
    assert_true(sample_kernel_extent(s, i, &low, &high));
    m->bytes = (size_t)(high + 1) * compute_dtype_size(sample_kernel_operand(s, i)->dtype) + GUARD;
    m->before = malloc(m->bytes);
    m->after = malloc(m->bytes);
    assert_non_null(m->before);
    assert_non_null(m->after);
    memset(m->before, PATTERN, m->bytes);
    operands[i] = m->before;
  }
  sample_fit_fill(s, operands);
  for (uint32_t i = 0; i < count; i++) {
    assert_ok(device->backend->memory_allocate(device->handle, all[i].bytes, &all[i].memory));
    arguments[i] = (compute_argument){&all[i].memory, 0};
    assert_ok(transfer_upload(device, &arguments[i], all[i].before, all[i].bytes));
  }
}

static void release(compute_device *device, operand_memory *all, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    device->backend->memory_release(device->handle, &all[i].memory);
    free(all[i].before);
    free(all[i].after);
  }
}

static void launch(const sample_kernel *s, const compute_kernel_descriptor *d,
                   compute_device *device, operand_memory *all, const compute_argument *arguments,
                   uint32_t count) {
  (void)s;
  assert_ok(transfer_run(device, d, arguments, count));
  for (uint32_t i = 0; i < count; i++) {
    const compute_argument whole = {&all[i].memory, 0};
    assert_ok(transfer_download(device, all[i].after, &whole, all[i].bytes));
  }
}

static void report(const sample_kernel *s, const char *problem) {
  failures++;
  print_error("%s: %s\n", s->name, problem);
}

/* Some ROIs by themselves, one after the other: the records are the same bits. */
static void check_alone(const sample_kernel *s, compute_device *device, operand_memory *all,
                        const compute_argument *arguments, uint32_t count) {
  const compute_operand *out = &s->outputs[0];
  const uint32_t inputs = count - 1;
  int64_t size[3];
  sample_fit_sizes(&s->descriptor, inputs, size);
  unsigned char *together = malloc(all[inputs].bytes);
  assert_non_null(together);
  memcpy(together, all[inputs].after, all[inputs].bytes);
  for (int64_t roi = 0; roi < size[0]; roi += 5) {
    compute_kernel_descriptor d = s->descriptor;
    compute_argument moved[OPERANDS];
    const bool frames = (d.fit->inputs & COMPUTE_FIT_WITH_CORNERS) != 0 && !d.fit->flags;
    d.size[0] = 1;
    for (uint32_t i = 0; i < count; i++) {
      const compute_operand *o = sample_kernel_operand(s, i);
      moved[i] = arguments[i];
      if (i > 0 || !frames)
        moved[i].offset += (uint64_t)(roi * o->stride[0]) * compute_dtype_size(o->dtype);
    }
    launch(s, &d, device, all, moved, count);
    for (int64_t i = 0; i < size[1]; i++) {
      const int64_t at = 4 * (roi * out->stride[0] + i * out->stride[1]);
      if (memcmp(together + at, all[inputs].after + at, 4)) {
        report(s, "an ROI alone has another record than among others");
        free(together);
        return;
      }
    }
  }
  free(together);
}

/* What the records do not cover is as it was. */
static void check_untouched(const sample_kernel *s, operand_memory *all, uint32_t count) {
  const compute_operand *out = &s->outputs[0];
  operand_memory *records = &all[count - 1];
  int64_t size[3];
  sample_fit_sizes(&s->descriptor, count - 1, size);
  for (int64_t i = 0; i < size[0] * size[1]; i++) {
    const int64_t at = 4 * (i / size[1] * out->stride[0] + i % size[1] * out->stride[1]);
    memcpy(records->after + at, records->before + at, 4);
  }
  for (uint32_t i = 0; i < count; i++)
    if (memcmp(all[i].before, all[i].after, all[i].bytes))
      report(s, "an operand was written where it should not have been");
}

static void run(const sample_kernel *s, void *user) {
  compute_device *device = user;
  const uint32_t count = s->descriptor.input_count + 1;
  operand_memory all[OPERANDS] = {0};
  compute_argument arguments[OPERANDS];
  const void *operands[OPERANDS];
  char reason[512] = "";
  if (!strstr(s->name, filter) || !test_in_spread((size_t)number++)) return;
  if (!device->backend->supports(device->handle, &s->descriptor, reason, sizeof reason)) {
    if (getenv("COMPUTE_TEST_STRICT")) report(s, reason);
    refused++;
    return;
  }
  ran++;
  create(s, device, all, arguments, count);
  launch(s, &s->descriptor, device, all, arguments, count);
  for (uint32_t i = 0; i < count; i++) operands[i] = all[i].before;
  if (!sample_fit_check(s, operands, (const float *)(const void *)all[count - 1].after, reason,
                        sizeof reason))
    report(s, reason);
  check_alone(s, device, all, arguments, count);
  launch(s, &s->descriptor, device, all, arguments, count);
  check_untouched(s, all, count);
  release(device, all, count);
}

static void every_fit_is_what_the_reference_says(void **state) {
  (void)state;
  sample_fits(run, compute_default_device(test_context));
  print_message("%zu fits, %zu refused\n", ran, refused);
  if (failures > 0) fail_msg("%zu fits went wrong", failures);
  if (ran == 0) skip();
}

/* For devices that need no program for each: the CPU. */
static void so_is_every_combination_where_nothing_is_compiled(void **state) {
  (void)state;
  compute_device *device = compute_default_device(test_context);
  failures = 0;
  if (device->backend->device_target) skip();
  sample_fits_in_full(run, device);
  if (failures > 0) fail_msg("%zu fits went wrong", failures);
}

int main(int argc, char **argv) {
  if (argc > 1) filter = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_fit_is_what_the_reference_says),
      cmocka_unit_test(so_is_every_combination_where_nothing_is_compiled),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
