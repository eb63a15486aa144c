#include "support/operation.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/measure.h"
#include "support/reference.h"
#include "support/test.h"

static int samples_run, samples_failed;

enum { PRINTED_FAILURES = 20 };

const compute_dtype *operation_dtypes(const char *domain) {
  static const compute_dtype lists[][COMPUTE_DTYPE_COUNT] = {
      {COMPUTE_F64, COMPUTE_F32, COMPUTE_F16, COMPUTE_BF16},
      {COMPUTE_F64, COMPUTE_F32, COMPUTE_F16, COMPUTE_BF16, COMPUTE_I64, COMPUTE_I32, COMPUTE_U8,
       COMPUTE_U16},
      {COMPUTE_I64, COMPUTE_I32, COMPUTE_U8, COMPUTE_U16},
      {COMPUTE_BOOL},
      {COMPUTE_F64, COMPUTE_F32, COMPUTE_F16, COMPUTE_BF16, COMPUTE_I64, COMPUTE_I32, COMPUTE_U8,
       COMPUTE_BOOL, COMPUTE_U16},
  };
  static const char *const names[] = {"float", "number", "integer", "logic", "any"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i], domain) == 0) return lists[i];
  fail_msg("no domain is called %s", domain);
  return NULL;
}

test_tolerance operation_tolerance(compute_dtype dtype, double ulp) {
  /* The reference itself is only good to a few units of a double's last place. */
  if (dtype == COMPUTE_F64 && ulp > 0) return (test_tolerance){.ulp = 4 * ulp, .rtol = 1e-12};
  return (test_tolerance){.ulp = ulp};
}

/* ---- What went wrong, in words ------------------------------------------------------------- */

static void print_sample(const operation_case *sample, const char *mode) {
  char shape[96];
  print_error("%s (%s):", sample->name, mode);
  for (size_t i = 0; i < sample->operand_count; i++)
    print_error(" %s%s %s", compute_dtype_name(sample->operand[i].dtype),
                compute_shape_text(sample->operand[i].shape, shape, sizeof shape),
                guarded_layout_name(sample->operand[i].layout));
  print_error(" -> %s: ", guarded_layout_name(sample->result_layout));
}

static bool report(const operation_case *sample, const char *mode, const char *format, ...)
    COMPUTE_PRINTF(3, 4);

static bool report(const operation_case *sample, const char *mode, const char *format, ...) {
  char text[600];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  if (samples_failed < PRINTED_FAILURES) {
    print_sample(sample, mode);
    print_error("%s\n", text);
  }
  return false;
}

/* ---- One sample ---------------------------------------------------------------------------- */

typedef struct running_sample {
  const operation_case *sample;
  compute_context *context;
  bool elsewhere; /* the plan has steps that the device left to the CPU */
  compute_graph *graph;
  compute_node operands[OPERATION_MAX_OPERANDS], result;
  test_values values[OPERATION_MAX_OPERANDS];
  test_values expected; /* in f64, or i64 for integers and bool */
} running_sample;

static void fill_operands(running_sample *run) {
  for (size_t i = 0; i < run->sample->operand_count; i++) {
    const operation_operand *operand = &run->sample->operand[i];
    run->values[i] = test_values_create(operand->dtype, operand->shape);
    test_values_fill(&run->values[i], operand->fill, operand->low, operand->high,
                     1000 * (uint64_t)(i + 1) + (uint64_t)run->values[i].count);
  }
}

static bool build_graph(running_sample *run) {
  const operation_case *sample = run->sample;
  run->graph = compute_graph_create(run->context);
  assert_non_null(run->graph);
  for (size_t i = 0; i < sample->operand_count; i++)
    run->operands[i] =
        compute_input(run->graph, sample->operand[i].dtype, sample->operand[i].shape);
  run->result = sample->build(run->graph, run->operands, sample->user);
  if (compute_graph_status(run->graph) == COMPUTE_OK) return true;
  return report(sample, "builder", "%s", compute_error_message(run->context));
}

/* Hands a result to the list of errors. */
static void measure(const running_sample *run, const test_values *actual, bool right) {
  const operation_case *sample = run->sample;
  const compute_dtype dtype = sample->dtype ? sample->dtype : sample->operand[0].dtype;
  measure_result(sample->operation, dtype, actual, &run->expected, run->elsewhere, right);
}

static bool compare(const running_sample *run, const char *mode, const test_values *actual) {
  int64_t wrong = 0, worst = 0;
  double worst_error = -1;
  for (int64_t i = 0; i < actual->count; i++) {
    double error;
    if (reference_matches(actual, &run->expected, i, &run->sample->tolerance, &error)) continue;
    wrong++;
    if (!(error > worst_error)) continue;
    worst_error = error;
    worst = i;
  }
  measure(run, actual, wrong == 0);
  if (wrong == 0) return true;
  char operands[160] = "";
  for (size_t k = 0; k < run->sample->operand_count; k++)
    if (run->values[k].count == actual->count)
      snprintf(operands + strlen(operands), sizeof operands - strlen(operands), " operand %zu %.9g",
               k, test_values_get(&run->values[k], worst));
  return report(run->sample, mode,
                "%" PRId64 " of %" PRId64 " %s elements differ, worst [%" PRId64
                "]: got %.17g, expected %.17g (%.3g times the tolerance);%s",
                wrong, actual->count, compute_dtype_name(actual->dtype), worst,
                test_values_get(actual, worst), test_values_get(&run->expected, worst), worst_error,
                operands);
}

/* Runs one plan on fresh guarded tensors. */
static bool run_plan(const running_sample *run, const compute_plan *plan, const char *mode) {
  const operation_case *sample = run->sample;
  compute_device *device = compute_default_device(run->context);
  const size_t count = sample->operand_count;
  guarded_tensor tensors[OPERATION_MAX_OPERANDS + 1];
  compute_binding bindings[OPERATION_MAX_OPERANDS + 1];
  for (size_t i = 0; i < count; i++) {
    tensors[i] = guarded_create(device, sample->operand[i].dtype, sample->operand[i].shape,
                                sample->operand[i].layout, &run->values[i]);
    bindings[i] = (compute_binding){run->operands[i], tensors[i].view};
  }
  const compute_dtype dtype = compute_node_dtype(run->graph, run->result);
  const compute_shape shape = compute_node_shape(run->graph, run->result);
  tensors[count] = guarded_create(device, dtype, shape, sample->result_layout, NULL);
  bindings[count] = (compute_binding){run->result, tensors[count].view};

  bool ok = compute_run(plan, bindings, count + 1, NULL) == COMPUTE_OK ||
            report(sample, mode, "compute_run: %s", compute_error_message(run->context));
  test_values actual = test_values_create(dtype, shape);
  guarded_read(&tensors[count], &actual);
  if (ok) ok = compare(run, mode, &actual);
  for (size_t i = 0; i < count; i++) {
    test_values after = test_values_create(sample->operand[i].dtype, sample->operand[i].shape);
    guarded_read(&tensors[i], &after);
    if (memcmp(after.data, run->values[i].data, after.bytes) != 0)
      ok = report(sample, mode, "operand %zu was changed", i);
    test_values_release(&after);
  }
  for (size_t i = 0; i <= count; i++) {
    if (!guarded_is_intact(&tensors[i]))
      ok = report(sample, mode, "memory around %s %zu was overwritten",
                  i < count ? "operand" : "result after operand", i);
    guarded_release(&tensors[i]);
  }
  test_values_release(&actual);
  return ok;
}

static bool check_mode(running_sample *run, uint32_t flags, const char *mode) {
  compute_plan *plan = NULL;
  compute_plan_info info;
  const bool strict = getenv("COMPUTE_TEST_STRICT") != NULL;
  const compute_plan_options options = {
      .fallback = strict ? COMPUTE_FALLBACK_STRICT : COMPUTE_FALLBACK_SILENT, .flags = flags};
  if (compute_compile(run->graph, &run->result, 1, &options, &plan) != COMPUTE_OK)
    return report(run->sample, mode, "compute_compile: %s", compute_error_message(run->context));
  assert_ok(compute_plan_describe(plan, &info));
  run->elsewhere = info.fallbacks > 0;
  const bool ok = run_plan(run, plan, mode);
  compute_plan_release(plan);
  return ok;
}

/* Samples of one name and dtype so far, in the whole program. */
typedef struct sample_kind {
  char name[60];
  compute_dtype dtype;
  size_t seen;
} sample_kind;

static bool is_taken(const operation_case *sample) {
  static sample_kind kinds[1024];
  static size_t count;
  const compute_dtype dtype = sample->dtype ? sample->dtype : sample->operand[0].dtype;
  if (test_samples() == 1) return true;
  size_t i = 0;
  while (i < count && (kinds[i].dtype != dtype ||
                       strncmp(kinds[i].name, sample->name, sizeof kinds[i].name - 1) != 0))
    i++;
  if (i == sizeof kinds / sizeof *kinds) return true;
  if (i == count) {
    kinds[count++].dtype = dtype;
    snprintf(kinds[i].name, sizeof kinds[i].name, "%s", sample->name);
  }
  return test_takes(i, kinds[i].seen++);
}

void operation_check(compute_context *context, const operation_case *sample) {
  running_sample run = {.sample = sample, .context = context};
  samples_run++;
  if (!is_taken(sample)) return;
  fill_operands(&run);
  bool ok = build_graph(&run);
  if (ok) {
    run.expected =
        reference_run(run.graph, run.operands, run.values, sample->operand_count, run.result);
    ok = check_mode(&run, 0, "optimised");
    ok = check_mode(&run, COMPUTE_PLAN_NO_FUSION, "no fusion") && ok;
    ok = check_mode(&run, COMPUTE_PLAN_NO_FUSION | COMPUTE_PLAN_NO_SIMPLIFICATION, "as written") &&
         ok;
    test_values_release(&run.expected);
  }
  if (!ok) samples_failed++;
  compute_graph_release(run.graph);
  for (size_t i = 0; i < sample->operand_count; i++) test_values_release(&run.values[i]);
}

void operation_finish(void) {
  const int total = samples_run, failed = samples_failed;
  samples_run = samples_failed = 0;
  if (test_context) measure_write(test_context);
  if (failed > 0) fail_msg("%d of %d samples failed", failed, total);
  assert_true(total > 0);
}
