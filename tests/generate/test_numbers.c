/* SPDX-License-Identifier: MIT */
/* Generated kernels agree with the double reference. Every sample runs in the emulator,
 * for several kinds of device, with several tunings, item by item in several orders.
 *
 * A command line argument restricts the run to samples whose names contain it. */
#include <stdlib.h>
#include <string.h>

#include "codegen/generate/generate.h"
#include "core/type/dtype.h"
#include "support/emulator/emulator_sample.h"
#include "support/harness/test.h"

enum { PROBLEM_BYTES = 3000, REPORTED = 40 };

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

/* The size of the indexed axis; 0 if there are no indices. */
static int64_t walked_axis(const compute_kernel_descriptor *d) {
  return d->kind == COMPUTE_KERNEL_GATHER || d->kind == COMPUTE_KERNEL_SCATTER
             ? compute_index_of(d)->axis_size
             : 0;
}

/* ---- Reports ------------------------------------------------------------------------------- */

COMPUTE_PRINTF(2, 3)
static void report(const char *what, const char *format, ...) {
  char text[PROBLEM_BYTES + 200];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  if (++failures <= REPORTED) print_error("%s: %s\n", what, text);
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
static bool run(emulator_program *program, const compute_generated *generated, emulator_sample *m,
                emulator_order order, bool *fault, const char *what) {
  char problem[PROBLEM_BYTES] = "";
  launches += generated->launch_count;
  if (emulator_sample_run(m, program, generated, order, fault, problem, sizeof problem))
    return true;
  report(what, "%s (%s)", problem, generated->text);
  return false;
}

/* Another order must give the same bits. */
static void check_order(emulator_program *program, const compute_generated *generated,
                        emulator_sample *m, emulator_order order, const char *what) {
  char problem[PROBLEM_BYTES] = "";
  launches += generated->launch_count;
  if (!emulator_sample_repeats(m, program, generated, order, problem, sizeof problem))
    report(what, "%s (%s)", problem, generated->text);
}

static void check_way(const sample_kernel *s, emulator_sample *m, sample_target target,
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
    if (run(program, generated, m, order, &fault, what)) {
      if (!emulator_sample_check(m, problem, sizeof problem)) report(what, "%s", problem);
      if (fault) report(what, "found an index out of range");
      if (way == 0) check_order(program, generated, m, EMULATOR_DESCENDING, what);
      if (way == 0) check_order(program, generated, m, EMULATOR_MIXED, what);
    }
  }
  emulator_close(program);
  generate_release(generated);
}

static void check_sample(const sample_kernel *s, void *user) {
  emulator_sample m;
  (void)user;
  if (!selected(s)) return;
  assert_true(emulator_sample_create(s, &m) && sample_memory_expect(&m.host));
  for (int target = 0; target < TARGET_COUNT; target++)
    for (uint32_t way = 0; way <= s->tuning_count; way++)
      check_way(s, &m, (sample_target)target, way);
  emulator_sample_release(&m);
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

static void every_sample_matches_the_reference(void **state) {
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
  emulator_sample m;
  (void)user;
  const compute_kernel_descriptor *d = &s->descriptor;
  const int64_t axis = walked_axis(d);
  if (!selected(s) || axis == 0 || s->inputs[0].dtype != COMPUTE_F32) return;
  assert_true(emulator_sample_create(s, &m));
  const sample_operand *indices = &m.host.operand[1];
  const size_t bytes = compute_dtype_size(indices->dtype);
  for (int64_t e = 0; e < indices->elements; e += 5) {
    const int64_t beyond = offsets[e % 3] / 2;
    dtype_store_integer(indices->dtype, indices->before + SAMPLE_GUARD + (size_t)e * bytes,
                        e % 2 ? axis + beyond : -axis - 1 - beyond);
  }
  for (int target = 0; target < TARGET_COUNT && indices->elements > 0; target++) {
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
    if (!emulator_sample_intact(&m, problem, sizeof problem)) report(what, "%s", problem);
    emulator_close(program);
    generate_release(generated);
  }
  emulator_sample_release(&m);
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
      cmocka_unit_test(every_sample_matches_the_reference),
      cmocka_unit_test(an_index_outside_sets_the_fault_word_and_touches_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
