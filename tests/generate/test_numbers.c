/* SPDX-License-Identifier: MIT */
/* Generated kernels compute the same as the CPU backend. Every sample runs in the emulator, for
 * several kinds of device, with several tunings, item by item in several orders.
 *
 * A command line argument restricts the run to samples whose names contain it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/device.h"
#include "codegen/generate/generate.h"
#include "core/device/transfer.h"
#include "support/emulator/emulator.h"
#include "support/reference/network_reference.h"
#include "support/samples/sample_convolutions.h"
#include "support/harness/test.h"
#include "core/type/dtype.h"

enum { OPERANDS = COMPUTE_MAX_OPERANDS, PROBLEM_BYTES = 3000, REPORTED = 40 };

static const char folder[] = TEST_SCRATCH_DIR "/objects";
static const char *filter = "";
static size_t failures, launches;

/* Kinds with many similar samples. */
static bool is_abundant(compute_kernel_kind kind) {
  return kind == COMPUTE_KERNEL_CONV || kind == COMPUTE_KERNEL_WINDOW ||
         kind == COMPUTE_KERNEL_SCAN || kind == COMPUTE_KERNEL_TOP_K || kind == COMPUTE_KERNEL_SORT;
}

/* A hash that differs for similar names. */
static uint32_t mixed(const char *name) {
  uint32_t hash = 2166136261u;
  for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 16777619u;
  return hash >> 8;
}

/* Selects one in COMPUTE_TEST_SPREAD of all samples. Among abundant samples without tunings it
 * selects one in 24 of these. The seed (test_seed) decides which. COMPUTE_TEST_LONG or a name on
 * the command line selects all. Fits have separate data: test_fit.c. */
static bool selected(const sample_kernel *s) {
  const bool abundant = is_abundant(s->descriptor.kind) && s->tuning_count == 0;
  const size_t step = test_spread() * (abundant ? 24 : 1);
  if (s->descriptor.kind == COMPUTE_KERNEL_FIT || s->large) return false;
  if (filter[0] || getenv("COMPUTE_TEST_LONG")) return strstr(s->name, filter);
  return (mixed(s->name) + test_seed()) % step == 0;
}

/* ---- Operands ------------------------------------------------------------------------------ */

/* The memory of all operands: before the run, after the CPU, and after the kernel. */
typedef struct operand_memory {
  uint32_t count, inputs;
  int64_t elements[OPERANDS], first[OPERANDS]; /* the descriptor's first element */
  compute_dtype dtype[OPERANDS];
  size_t bytes[OPERANDS];
  unsigned char *before[OPERANDS], *expected[OPERANDS];
  emulator_buffer buffer[OPERANDS];
} operand_memory;

static double special_value(const sample_kernel *s, test_random *random) {
  static const double values[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0};
  if (s->descriptor.kind == COMPUTE_KERNEL_ATTENTION) return -INFINITY;
  return values[test_random_integer(random, 0, 4)];
}

/* Returns true if the sample needs special values in this operand. */
static bool is_special(const sample_kernel *s, uint32_t operand) {
  return s->special && operand == (s->descriptor.kind == COMPUTE_KERNEL_ATTENTION ? 3 : 0);
}

static void fill(unsigned char *data, compute_dtype dtype, int64_t count, double low, double high,
                 test_random *random) {
  const size_t bytes = compute_dtype_size(dtype);
  for (int64_t i = 0; i < count; i++) {
    double value = test_random_uniform(random, low, high);
    if (!dtype_is_float(dtype)) value = floor(value);
    if (test_is_unsigned(dtype)) value = fabs(value);
    if (dtype == COMPUTE_BOOL) value = fmod(value, 2) != 0;
    dtype_store(dtype, data + (size_t)i * bytes, value);
  }
}

/* Replaces the uniform numbers where the sample needs other values. */
static void change_values(const sample_kernel *s, operand_memory *m, uint32_t operand,
                          test_random *random) {
  const compute_dtype dtype = m->dtype[operand];
  const size_t bytes = compute_dtype_size(dtype);
  for (int64_t e = 0; e < m->elements[operand] && dtype_is_float(dtype); e++) {
    unsigned char *at = m->before[operand] + (size_t)e * bytes;
    if (s->whole) dtype_store(dtype, at, floor(dtype_load(dtype, at)));
    if (is_special(s, operand) && test_random_integer(random, 0, 3) == 0)
      dtype_store(dtype, at, special_value(s, random));
  }
}

/* The size of the indexed axis; 0 if there are no indices. */
static int64_t walked_axis(const compute_kernel_descriptor *d) {
  return d->kind == COMPUTE_KERNEL_GATHER || d->kind == COMPUTE_KERNEL_SCATTER
             ? compute_index_of(d)->axis_size
             : 0;
}

static void create_memory(const sample_kernel *s, operand_memory *m) {
  const compute_kernel_descriptor *d = &s->descriptor;
  test_random random = {.state = 17};
  m->inputs = d->input_count;
  m->count = d->input_count + d->output_count;
  for (uint32_t i = 0; i < m->count; i++) {
    int64_t low, high;
    const bool some = sample_kernel_extent(s, i, &low, &high);
    m->dtype[i] = sample_kernel_operand(s, i)->dtype;
    m->elements[i] = some ? high - low + 1 : 0;
    m->first[i] = some ? -low : 0;
    m->bytes[i] = (size_t)m->elements[i] * compute_dtype_size(m->dtype[i]);
    m->before[i] = malloc(m->bytes[i] + 1);
    m->expected[i] = malloc(m->bytes[i] + 1);
    assert_non_null(m->before[i]);
    assert_non_null(m->expected[i]);
    assert_true(emulator_buffer_create(m->bytes[i], &m->buffer[i]));
    const double axis = i == 1 ? (double)walked_axis(d) : 0;
    fill(m->before[i], m->dtype[i], m->elements[i], axis > 0 ? -axis : s->low,
         axis > 0 ? axis : s->high, &random);
    change_values(s, m, i, &random);
    memcpy(m->expected[i], m->before[i], m->bytes[i]);
  }
}

static void release_memory(operand_memory *m) {
  for (uint32_t i = 0; i < m->count; i++) {
    free(m->before[i]);
    free(m->expected[i]);
    emulator_buffer_release(&m->buffer[i]);
  }
}

/* Convolutions by their definition. */
static void convolve(const sample_kernel *s, operand_memory *m) {
  const compute_kernel_descriptor *d = &s->descriptor;
  const int64_t *size = d->size;
  const void *operands[OPERANDS];
  for (uint32_t i = 0; i < m->inputs; i++)
    operands[i] = m->before[i] + (size_t)m->first[i] * compute_dtype_size(m->dtype[i]);
  for (int64_t e = 0; e < size[0] * size[1] * size[2] * size[3]; e++) {
    const int64_t point[4] = {e / size[3] / size[2] / size[1], e / size[3] / size[2] % size[1],
                              e / size[3] % size[2], e % size[3]};
    for (uint32_t k = 0; k < d->output_count; k++) {
      const uint32_t i = m->inputs + k;
      const sample_element value = sample_convolution_element(d, operands, k, point);
      int64_t at = m->first[i];
      for (int j = 0; j < 4; j++) at += point[j] * d->outputs[k].stride[j];
      unsigned char *to = m->expected[i] + (size_t)at * compute_dtype_size(m->dtype[i]);
      if (dtype_is_float(m->dtype[i]))
        dtype_store(m->dtype[i], to, value.real);
      else
        dtype_store_integer(m->dtype[i], to, value.whole);
    }
  }
}

typedef struct network_target {
  const sample_kernel *s;
  operand_memory *m;
} network_target;

static void store_element(void *user, uint32_t output, const int64_t *point,
                          const sample_element *value) {
  const network_target *to = user;
  const compute_kernel_descriptor *d = &to->s->descriptor;
  operand_memory *m = to->m;
  const uint32_t i = m->inputs + output;
  int64_t at = m->first[i];
  for (int32_t j = 0; j < d->rank; j++) at += point[j] * d->outputs[output].stride[j];
  unsigned char *address = m->expected[i] + (size_t)at * compute_dtype_size(m->dtype[i]);
  if (dtype_is_float(m->dtype[i]))
    dtype_store(m->dtype[i], address, value->real);
  else
    dtype_store_integer(m->dtype[i], address, value->whole);
}

static bool compute_network(const sample_kernel *s, operand_memory *m) {
  const void *operands[OPERANDS];
  network_target to = {s, m};
  for (uint32_t i = 0; i < m->inputs; i++)
    operands[i] = m->before[i] + (size_t)m->first[i] * compute_dtype_size(m->dtype[i]);
  return network_reference(&s->descriptor, operands, store_element, &to);
}

static void compute_expected(const sample_kernel *s, operand_memory *m) {
  if (s->descriptor.kind == COMPUTE_KERNEL_CONV) {
    convolve(s, m);
    return;
  }
  if (compute_network(s, m)) return;
  compute_device *device = compute_default_device(test_context);
  compute_memory memory[OPERANDS];
  compute_argument arguments[OPERANDS];
  for (uint32_t i = 0; i < m->count; i++) {
    const size_t element = compute_dtype_size(m->dtype[i]);
    assert_ok(device->backend->memory_allocate(device->handle, m->bytes[i] + 1, &memory[i]));
    memcpy(memory[i].host, m->before[i], m->bytes[i]);
    arguments[i] = (compute_argument){&memory[i], (uint64_t)m->first[i] * element};
  }
  assert_ok(transfer_run(device, &s->descriptor, arguments, m->count));
  for (uint32_t i = 0; i < m->count; i++) {
    memcpy(m->expected[i], memory[i].host, m->bytes[i]);
    device->backend->memory_release(device->handle, &memory[i]);
  }
}

/* ---- Comparing ----------------------------------------------------------------------------- */

COMPUTE_PRINTF(2, 3)
static void report(const char *what, const char *format, ...) {
  char text[PROBLEM_BYTES + 200];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  if (++failures <= REPORTED) print_error("%s: %s\n", what, text);
}

/* Both sides are rounded to the storage type. */
static test_tolerance tolerance_of(const sample_kernel *s, compute_dtype dtype) {
  test_tolerance t = s->tolerance;
  if (dtype == COMPUTE_F16) t.rtol += 0x1p-10;
  if (dtype == COMPUTE_BF16) t.rtol += 0x1p-7;
  return t;
}

static bool compare(const sample_kernel *s, const operand_memory *m, const char *what) {
  for (uint32_t i = 0; i < m->count; i++) {
    const compute_dtype dtype = m->dtype[i];
    const size_t bytes = compute_dtype_size(dtype);
    const test_tolerance tolerance = tolerance_of(s, dtype);
    const bool exact = i < m->inputs || !dtype_is_float(dtype);
    if (!emulator_buffer_intact(&m->buffer[i])) {
      report(what, "wrote before operand %u", i);
      return false;
    }
    for (int64_t e = 0; e < m->elements[i]; e++) {
      const unsigned char *actual = m->buffer[i].data + (size_t)e * bytes;
      const unsigned char *expected = m->expected[i] + (size_t)e * bytes;
      if (!memcmp(actual, expected, bytes)) continue;
      const double a = dtype_load(dtype, actual), b = dtype_load(dtype, expected);
      if (!exact && test_close_enough(dtype, a, b, &tolerance, NULL)) continue;
      report(what, "operand %u, element %lld of %lld is %.9g instead of %.9g", i, (long long)e,
             (long long)m->elements[i], a, b);
      return false;
    }
  }
  return true;
}

/* ---- Running ------------------------------------------------------------------------------- */

/* The n-th tuning of a sample; way 0 is the default choice. */
static const compute_tuning *tuning_of(const sample_kernel *s, uint32_t way) {
  return way == 0 ? NULL : &s->tuning[way - 1];
}

static void name_way(const sample_kernel *s, sample_target target, uint32_t way, char *text,
                     size_t bytes) {
  snprintf(text, bytes, "%s on %s, way %u", s->name, sample_target_name(target), way);
}

/* NULL if the target cannot run the sample. Only tunings and f64 excuse this. */
static const compute_generated *generate(const sample_kernel *s, sample_target target, uint32_t way,
                                         bool reports) {
  const compute_target t = sample_target_create(target, COMPUTE_DIALECT_C);
  const compute_generated *generated = NULL;
  char reason[256] = "", what[200];
  const compute_status status =
      generate_kernel(&t, &s->descriptor, tuning_of(s, way), &generated, reason, sizeof reason);
  const bool f64 = !(t.flags & COMPUTE_TARGET_F64) && sample_kernel_uses_f64(s);
  name_way(s, target, way, what, sizeof what);
  if (!reports) return status ? NULL : generated;
  if (!status && f64) report(what, "was not refused though it needs f64");
  if (status && !(status == COMPUTE_ERROR_UNSUPPORTED && (f64 || way > 0)))
    report(what, "%s: %s", compute_status_name(status), reason);
  if (status && !reason[0]) report(what, "was refused without a reason");
  return status ? NULL : generated;
}

/* Runs a kernel on new memory. Returns false if it misbehaves. */
static bool run(emulator_program *program, const compute_generated *generated, operand_memory *m,
                emulator_order order, bool *fault, const char *what) {
  char problem[PROBLEM_BYTES] = "";
  void *arguments[OPERANDS];
  for (uint32_t i = 0; i < m->count; i++) {
    memcpy(m->buffer[i].data, m->before[i], m->bytes[i]);
    arguments[i] = m->buffer[i].data + (size_t)m->first[i] * compute_dtype_size(m->dtype[i]);
  }
  launches += generated->launch_count;
  *fault = false;
  if (generated->launch_count == 0) return true;
  if (emulator_run(program, generated, arguments, order, fault, problem, sizeof problem))
    return true;
  report(what, "%s (%s)", problem, generated->text);
  return false;
}

/* Another order must give the same bits. */
static void check_order(emulator_program *program, const compute_generated *generated,
                        operand_memory *m, emulator_order order, const char *what) {
  unsigned char *first[OPERANDS];
  bool fault, same = true;
  for (uint32_t i = m->inputs; i < m->count; i++) {
    first[i] = malloc(m->bytes[i] + 1);
    assert_non_null(first[i]);
    memcpy(first[i], m->buffer[i].data, m->bytes[i]);
  }
  if (run(program, generated, m, order, &fault, what))
    for (uint32_t i = m->inputs; i < m->count; i++)
      if (memcmp(first[i], m->buffer[i].data, m->bytes[i])) same = false;
  if (!same) report(what, "other bits when items run in another order (%s)", generated->text);
  for (uint32_t i = m->inputs; i < m->count; i++) free(first[i]);
}

static void check_way(const sample_kernel *s, operand_memory *m, sample_target target,
                      uint32_t way) {
  char what[200], problem[PROBLEM_BYTES] = "";
  bool fault;
  const compute_generated *generated = generate(s, target, way, true);
  if (!generated) return;
  name_way(s, target, way, what, sizeof what);
  emulator_program *program = NULL;
  if (generated->launch_count > 0) {
    const emulator_source source = emulator_source_of(generated);
    program = emulator_open(folder, &source, problem, sizeof problem);
    if (!program) report(what, "does not compile: %s", problem);
  }
  if (program || generated->launch_count == 0) {
    const emulator_order order = (emulator_order)(way % EMULATOR_ORDERS);
    if (run(program, generated, m, order, &fault, what) && compare(s, m, what)) {
      if (fault) report(what, "found an index out of range");
      if (way == 0) check_order(program, generated, m, EMULATOR_DESCENDING, what);
      if (way == 0) check_order(program, generated, m, EMULATOR_MIXED, what);
    }
  }
  emulator_close(program);
  generate_release(generated);
}

static void check_sample(const sample_kernel *s, void *user) {
  operand_memory m = {0};
  (void)user;
  if (!selected(s)) return;
  create_memory(s, &m);
  compute_expected(s, &m);
  for (int target = 0; target < TARGET_COUNT; target++)
    for (uint32_t way = 0; way <= s->tuning_count; way++)
      check_way(s, &m, (sample_target)target, way);
  release_memory(&m);
}

/* ---- Compiling all at once ----------------------------------------------------------------- */

typedef struct collection {
  const compute_generated **generated;
  emulator_source *sources;
  size_t count, capacity;
} collection;

static void collect(const sample_kernel *s, void *user) {
  collection *c = user;
  if (!selected(s)) return;
  for (int target = 0; target < TARGET_COUNT; target++)
    for (uint32_t way = 0; way <= s->tuning_count; way++) {
      const compute_generated *generated = generate(s, (sample_target)target, way, false);
      if (!generated) continue;
      if (c->count == c->capacity) {
        c->capacity = c->capacity ? 2 * c->capacity : 256;
        c->generated = realloc(c->generated, c->capacity * sizeof *c->generated);
        c->sources = realloc(c->sources, c->capacity * sizeof *c->sources);
        assert_non_null(c->generated);
        assert_non_null(c->sources);
      }
      if (generated->launch_count == 0) {
        generate_release(generated);
        continue;
      }
      c->generated[c->count] = generated;
      c->sources[c->count++] = emulator_source_of(generated);
    }
}

static void compile_all(void) {
  collection c = {0};
  char problem[PROBLEM_BYTES];
  sample_kernels_visit(collect, &c);
  /* A sample that does not compile is reported by its name when it is run. */
  emulator_compile(folder, c.sources, c.count, problem, sizeof problem);
  for (size_t i = 0; i < c.count; i++) generate_release(c.generated[i]);
  free(c.generated);
  free(c.sources);
}

/* ---- Promises ------------------------------------------------------------------------------ */

static void every_sample_matches_the_cpu(void **state) {
  (void)state;
  compile_all();
  sample_kernels_visit(check_sample, NULL);
  print_message("%zu launches\n", launches);
  assert_true(launches > 0);
  if (failures > 0) fail_msg("%zu kernels went wrong", failures);
}

/* Puts out-of-range indices into a sample. The fault word reports them, nothing outside is touched,
 * and the other elements do not change. */
static void check_bad_index(const sample_kernel *s, void *user) {
  static const int64_t offsets[] = {0, 7, INT32_MAX};
  operand_memory m = {0};
  (void)user;
  const compute_kernel_descriptor *d = &s->descriptor;
  const int64_t axis = walked_axis(d);
  if (!selected(s) || axis == 0 || s->inputs[0].dtype != COMPUTE_F32) return;
  create_memory(s, &m);
  const size_t bytes = compute_dtype_size(m.dtype[1]);
  for (int64_t e = 0; e < m.elements[1]; e += 5) {
    const int64_t beyond = offsets[e % 3] / 2;
    dtype_store_integer(m.dtype[1], m.before[1] + (size_t)e * bytes,
                        e % 2 ? axis + beyond : -axis - 1 - beyond);
  }
  for (int target = 0; target < TARGET_COUNT && m.elements[1] > 0; target++) {
    char what[200], problem[PROBLEM_BYTES] = "";
    bool fault = false;
    const compute_generated *generated = generate(s, (sample_target)target, 0, true);
    name_way(s, (sample_target)target, 0, what, sizeof what);
    assert_non_null(generated);
    assert_true(generated->faults);
    const emulator_source source = emulator_source_of(generated);
    emulator_program *program = emulator_open(folder, &source, problem, sizeof problem);
    if (!program) fail_msg("%s: %s", what, problem);
    if (run(program, generated, &m, EMULATOR_ASCENDING, &fault, what) && !fault)
      report(what, "did not notice indices out of range");
    for (uint32_t i = 0; i < m.count; i++)
      if (!emulator_buffer_intact(&m.buffer[i])) report(what, "wrote before operand %u", i);
    emulator_close(program);
    generate_release(generated);
  }
  release_memory(&m);
}

static void an_index_outside_sets_the_fault_word_and_touches_nothing(void **state) {
  (void)state;
  failures = 0;
  sample_gather_kernels(check_bad_index, NULL);
  sample_scatter_kernels(check_bad_index, NULL);
  if (failures > 0) fail_msg("%zu kernels went wrong", failures);
}

int main(int argc, char **argv) {
  if (argc > 1) filter = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_sample_matches_the_cpu),
      cmocka_unit_test(an_index_outside_sets_the_fault_word_and_touches_nothing),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
