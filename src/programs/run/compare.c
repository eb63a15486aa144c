/* SPDX-License-Identifier: MIT */
/* Compares the outputs of a run with the outputs in a file. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "programs/run/run.h"

/* The comparison of one output. */
typedef struct difference {
  int64_t beyond;                  /* elements outside the tolerance */
  double largest, value, expected; /* the largest difference, and its two values */
  int64_t place;                   /* index of the largest difference; −1: none */
  double relative;                 /* the largest relative difference, of elements that are not 0 */
} difference;

/* ---- Elements ------------------------------------------------------------------------------ */

/* Returns all elements, dense, or NULL after run_fail. Integers beyond 2^53 are rounded. */
static double *read_numbers(const model_run *run, const compute_tensor *tensor) {
  compute_device *host = NULL;
  compute_tensor *numbers = NULL;
  const size_t bytes = (size_t)compute_tensor_count(tensor) * sizeof(double);
  double *values = malloc(bytes ? bytes : 1);
  compute_status status = compute_device_by_name(run->context, "cpu", &host);
  if (!status)
    status = compute_tensor_create(host, COMPUTE_F64, compute_tensor_shape(tensor), &numbers);
  if (!status) status = compute_tensor_copy(numbers, tensor);
  if (!status && values) status = compute_tensor_read(numbers, values, bytes);
  compute_tensor_release(numbers);
  if (!status && values) return values;
  free(values);
  if (status)
    run_fail(run->context);
  else
    run_out_of_memory();
  return NULL;
}

/* Returns the distance of two numbers; infinite if only one is a number. */
static double distance(double a, double b) {
  if (a == b || (isnan(a) && isnan(b))) return 0;
  const double apart = fabs(a - b);
  return isnan(apart) ? (double)INFINITY : apart;
}

static difference find_difference(const list_value *tolerance, const double *value,
                                  const double *expected, int64_t count) {
  difference found = {.place = -1};
  for (int64_t i = 0; i < count; i++) {
    const double apart = distance(value[i], expected[i]), size = fabs(expected[i]);
    const double allowed = tolerance->value[1] + tolerance->value[0] * size;
    if (apart == 0) continue;
    /* !(<=) is also true for NaN. */
    found.beyond += !(apart <= allowed) || (isinf(apart) && isinf(allowed));
    if (size > 0) found.relative = fmax(found.relative, apart / size);
    if (apart <= found.largest) continue;
    found.largest = apart;
    found.place = i;
    found.value = value[i];
    found.expected = expected[i];
  }
  return found;
}

/* ---- Outputs ------------------------------------------------------------------------------- */

static void print_place(compute_shape shape, int64_t place) {
  int64_t index[COMPUTE_MAX_RANK];
  for (int32_t i = shape.rank - 1; i >= 0; i--) {
    index[i] = place % shape.size[i];
    place /= shape.size[i];
  }
  printf(" at [");
  for (int32_t i = 0; i < shape.rank; i++) printf("%s%" PRId64, i ? "," : "", index[i]);
  printf("]");
}

static void print_difference(const model_run *run, const difference *d, compute_shape shape,
                             int64_t count) {
  const list_value *tolerance = &run->a->tolerance;
  if (d->place < 0) {
    printf("equal\n");
    return;
  }
  printf("%s, largest difference %.3g", d->beyond ? "DIFFERS" : "agrees", d->largest);
  print_place(shape, d->place);
  printf(": %.9g, expected %.9g; relative %.3g\n", d->value, d->expected, d->relative);
  if (d->beyond)
    printf("    %-16s %" PRId64 " of %" PRId64
           " differ by more than %g + %g of the expected value\n",
           "", d->beyond, count, tolerance->value[1], tolerance->value[0]);
}

static int compare_values(const model_run *run, const compute_tensor *tensor,
                          const compute_tensor *reference) {
  const int64_t count = compute_tensor_count(tensor);
  double *value = read_numbers(run, tensor);
  double *expected = value ? read_numbers(run, reference) : NULL;
  int result = EXIT_FAILED;
  if (expected) {
    const difference d = find_difference(&run->a->tolerance, value, expected, count);
    print_difference(run, &d, compute_tensor_shape(tensor), count);
    if (!d.beyond) result = EXIT_GOOD;
  }
  free(value);
  free(expected);
  return result;
}

static int compare_one(const model_run *run, const compute_tensor_file *file, size_t index,
                       const run_port *output) {
  compute_tensor *reference;
  char text[160], other[160];
  if (compute_tensor_file_read(file, index, compute_default_device(run->context), &reference))
    return run_fail(run->context);
  const compute_shape shape = compute_tensor_shape(output->tensor);
  const compute_shape expected = compute_tensor_shape(reference);
  int result = EXIT_FAILED;
  printf("    %-16s ", output->port.name);
  if (!compute_shape_equal(shape, expected))
    printf("DIFFERS: its shape is %s, expected %s\n", compute_shape_text(shape, text, sizeof text),
           compute_shape_text(expected, other, sizeof other));
  else
    result = compare_values(run, output->tensor, reference);
  compute_tensor_release(reference);
  return result;
}

int compare_outputs(const model_run *run) {
  compute_tensor_file *file;
  int result = EXIT_GOOD;
  size_t compared = 0;
  if (compute_tensor_file_open(run->context, run->a->compare, &file)) return run_fail(run->context);
  printf("\nAgainst %s\n", run->a->compare);
  for (size_t i = 0; i < run->output_count; i++) {
    const run_port *output = &run->outputs[i];
    const size_t index = compute_tensor_file_find(file, output->port.name);
    if (index == compute_tensor_file_count(file)) {
      printf("    %-16s not in the file\n", output->port.name);
      continue;
    }
    if (!output->tensor) {
      printf("    %-16s not a tensor of numbers\n", output->port.name);
      continue;
    }
    compared++;
    if (compare_one(run, file, index, output)) result = EXIT_FAILED;
  }
  if (!compared) {
    option_say(&run_program, "%s has none of the outputs", run->a->compare);
    result = EXIT_FAILED;
  }
  compute_tensor_file_close(file);
  return result;
}
