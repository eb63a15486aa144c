/* SPDX-License-Identifier: MIT */
#include "support/harness/operation.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/guest.h"
#include "support/harness/measure.h"
#include "support/reference/reference.h"
#include "support/harness/test.h"

static int samples_run, samples_failed;

enum { PRINTED_FAILURES = 20, LARGE_SAMPLE = 1 << 20 /* elements */ };

enum { DOMAINS = 8 };
static const char *const domains[DOMAINS] = {"float",           "number", "ordered", "integer",
                                             "ordered integer", "logic",  "byte",    "any"};

static bool belongs_to(const char *domain, compute_dtype dtype) {
  const bool integer = test_is_integer(dtype), number = integer || dtype <= COMPUTE_BF16;
  if (strcmp(domain, "float") == 0) return number && !integer;
  if (strcmp(domain, "number") == 0) return number;
  if (strcmp(domain, "ordered") == 0) return number && dtype != COMPUTE_U64;
  if (strcmp(domain, "integer") == 0) return integer;
  if (strcmp(domain, "ordered integer") == 0) return integer && dtype != COMPUTE_U64;
  if (strcmp(domain, "byte") == 0) return dtype == COMPUTE_I8 || dtype == COMPUTE_U8;
  return strcmp(domain, "any") == 0 || dtype == COMPUTE_BOOL;
}

/* If a run takes only samples, a compiling device tests one of i8, i16, u32 and u64 per day: their
 * loads and stores come from the same text as for u8 and u16. */
static bool takes_today(compute_dtype dtype) {
  const uint64_t rare = (uint64_t)dtype - COMPUTE_I8;
  return dtype < COMPUTE_I8 || test_spread() == 1 || test_seed() == 0 || test_turn() % 4 == rare;
}

static const compute_dtype *list_dtypes(const char *domain, bool all) {
  static compute_dtype lists[2][DOMAINS][COMPUTE_DTYPE_COUNT];
  for (size_t i = 0; i < DOMAINS; i++) {
    if (strcmp(domains[i], domain) != 0) continue;
    size_t count = 0;
    for (int k = 1; k < COMPUTE_DTYPE_COUNT; k++) {
      const compute_dtype dtype = (compute_dtype)k;
      if (belongs_to(domain, dtype) && (all || takes_today(dtype))) lists[all][i][count++] = dtype;
    }
    return lists[all][i];
  }
  fail_msg("no domain is called %s", domain);
  return NULL;
}

const compute_dtype *operation_dtypes(const char *domain) {
  return list_dtypes(domain, false);
}

const compute_dtype *operation_all_dtypes(const char *domain) {
  return list_dtypes(domain, true);
}

test_tolerance operation_tolerance(compute_dtype dtype, double ulp) {
  /* The reference itself is only accurate to a few units in a double's last place. */
  if (dtype == COMPUTE_F64 && ulp > 0) return (test_tolerance){.ulp = 4 * ulp, .rtol = 1e-12};
  return (test_tolerance){.ulp = ulp};
}

/* ---- One sample ---------------------------------------------------------------------------- */

/* An operand's kind of node in the graph. */
typedef enum operand_kind { KIND_INPUT, KIND_PARAMETER, KIND_CONSTANT, KIND_COUNT } operand_kind;

/* The kinds of all operands: one for all, or alternating. */
typedef struct operand_form {
  const char *name; /* printed in messages with the mode */
  operand_kind first;
  bool mixed;
  bool frozen; /* for parameters: compute_tensor_freeze */
} operand_form;

static const operand_form forms[] = {
    {"inputs", KIND_INPUT, false, false},
    {"parameters", KIND_PARAMETER, false, false},
    {"constants", KIND_CONSTANT, false, false},
    {"a constant first", KIND_CONSTANT, true, false},
    {"a parameter first", KIND_PARAMETER, true, false},
    {"an input first", KIND_INPUT, true, false},
    {"frozen parameters", KIND_PARAMETER, false, true},
    {"an input first, then a frozen parameter", KIND_INPUT, true, true},
};

enum { FORM_COUNT = sizeof forms / sizeof *forms };

typedef struct running_sample {
  const operation_case *sample;
  compute_context *context;
  const operand_form *form;
  bool elsewhere; /* the plan has steps with a fallback to the CPU */
  compute_graph *graph;
  guarded_tensor parameters[OPERATION_MAX_OPERANDS]; /* for operands that are parameters */
  compute_node operands[OPERATION_MAX_OPERANDS], result;
  test_values values[OPERATION_MAX_OPERANDS];
  test_values expected; /* in f64, or i64 for integers and bool */
} running_sample;

/* ---- Messages ------------------------------------------------------------------------------ */

static void print_sample(const running_sample *run, const char *mode) {
  const operation_case *sample = run->sample;
  char shape[96];
  print_error("%s (%s, %s):", sample->name, run->form->name, mode);
  for (size_t i = 0; i < sample->operand_count; i++)
    print_error(" %s%s %s", compute_dtype_name(sample->operand[i].dtype),
                compute_shape_text(sample->operand[i].shape, shape, sizeof shape),
                guarded_layout_name(sample->operand[i].layout));
  print_error(" -> %s: ", guarded_layout_name(sample->result_layout));
}

static bool report(const running_sample *run, const char *mode, const char *format, ...)
    COMPUTE_PRINTF(3, 4);

static bool report(const running_sample *run, const char *mode, const char *format, ...) {
  char text[600];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  if (samples_failed < PRINTED_FAILURES) {
    print_sample(run, mode);
    print_error("%s\n", text);
  }
  return false;
}

/* ---- Its graph and its plans ---------------------------------------------------------------- */

static void fill_operands(running_sample *run) {
  for (size_t i = 0; i < run->sample->operand_count; i++) {
    const operation_operand *operand = &run->sample->operand[i];
    run->values[i] = test_values_create(operand->dtype, operand->shape);
    test_values_fill(&run->values[i], operand->fill, operand->low, operand->high,
                     1000 * (uint64_t)(i + 1) + (uint64_t)run->values[i].count);
  }
}

static operand_kind kind_of(const running_sample *run, size_t operand) {
  const operand_kind first = run->form->first;
  return run->form->mixed ? (operand_kind)(((size_t)first + operand) % KIND_COUNT) : first;
}

static guarded_tensor guard_operand(const running_sample *run, size_t i) {
  const operation_operand *operand = &run->sample->operand[i];
  return guarded_create(compute_default_device(run->context), operand->dtype, operand->shape,
                        operand->layout, &run->values[i]);
}

static compute_node build_operand(running_sample *run, size_t i) {
  const operation_operand *operand = &run->sample->operand[i];
  switch (kind_of(run, i)) {
  case KIND_PARAMETER:
    run->parameters[i] = guard_operand(run, i);
    if (run->form->frozen) compute_tensor_freeze(run->parameters[i].view);
    return compute_parameter(run->graph, run->parameters[i].view);
  case KIND_CONSTANT:
    return compute_constant(run->graph, operand->dtype, operand->shape, run->values[i].data);
  default: return compute_input(run->graph, operand->dtype, operand->shape);
  }
}

static bool build_graph(running_sample *run) {
  const operation_case *sample = run->sample;
  run->graph = compute_graph_create(run->context);
  assert_non_null(run->graph);
  for (size_t i = 0; i < sample->operand_count; i++) run->operands[i] = build_operand(run, i);
  run->result = sample->build(run->graph, run->operands, sample->user);
  if (compute_graph_status(run->graph) == COMPUTE_OK) return true;
  return report(run, "builder", "%s", compute_error_message(run->context));
}

static void release_graph(running_sample *run) {
  compute_graph_release(run->graph);
  for (size_t i = 0; i < run->sample->operand_count; i++)
    if (kind_of(run, i) == KIND_PARAMETER) guarded_release(&run->parameters[i]);
}

/* Adds a result to the list of errors. */
static void measure(const running_sample *run, const test_values *actual, bool right) {
  const operation_case *sample = run->sample;
  const compute_dtype dtype = sample->dtype ? sample->dtype : sample->operand[0].dtype;
  if (run->form != &forms[0]) return; /* constants may have been folded on another device */
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
  return report(run, mode,
                "%" PRId64 " of %" PRId64 " %s elements differ, worst [%" PRId64
                "]: got %.17g, expected %.17g (%.3g times the tolerance);%s",
                wrong, actual->count, compute_dtype_name(actual->dtype), worst,
                test_values_get(actual, worst), test_values_get(&run->expected, worst), worst_error,
                operands);
}

/* Checks that an operand and the memory around it are unchanged. */
static bool check_operand(const running_sample *run, const char *mode, size_t i,
                          const guarded_tensor *tensor) {
  const operation_operand *operand = &run->sample->operand[i];
  test_values after = test_values_create(operand->dtype, operand->shape);
  guarded_read(tensor, &after);
  bool ok = memcmp(after.data, run->values[i].data, after.bytes) == 0 ||
            report(run, mode, "operand %zu was changed", i);
  if (!guarded_is_intact(tensor))
    ok = report(run, mode, "memory around operand %zu was overwritten", i);
  test_values_release(&after);
  return ok;
}

/* ---- As a guest ------------------------------------------------------------------------------ */

typedef struct guest_plan {
  const compute_plan *plan;
  const compute_binding *bindings;
  size_t count;
} guest_plan;

static compute_status run_as_guest(void *argument) {
  const guest_plan *g = argument;
  return compute_run(g->plan, g->bindings, g->count, NULL);
}

/* Drivers may use more stack than the library. */
static bool may_use_more_stack(const running_sample *run) {
  compute_device_info info; /* costs some twenty system calls */
  assert_ok(compute_device_describe(compute_default_device(run->context), &info));
  return strcmp(info.backend, "cpu") != 0;
}

/* Checks the effects of a call with a small stack on its thread. */
static bool check_guest(const running_sample *run, const char *mode, const char *call,
                        const guest_report *report_) {
  if (report_->status)
    return report(run, mode, "%s: %s", call, compute_status_text(report_->status));
  if (report_->changed) return report(run, mode, "%s changed the %s", call, report_->changed);
  if (guest_knows_stack() && report_->stack_bytes > GUEST_STACK_BYTES && !may_use_more_stack(run))
    return report(run, mode, "%s took %zu bytes of stack", call, report_->stack_bytes);
  return true;
}

/* Checks that the next floating-point environment gives the bits of `actual` again. */
static bool check_environment(const running_sample *run, const guest_plan *plan,
                              guarded_tensor *result, const test_values *actual) {
  static size_t turn;
  const size_t environment = turn++ % guest_environments();
  const char *mode = guest_environment_name(environment);
  const guest_report seen = guest_run(environment, run_as_guest, (void *)plan);
  bool ok = check_guest(run, mode, "compute_run", &seen);
  test_values again = test_values_create(actual->dtype, actual->shape);
  guarded_read(result, &again);
  if (ok && memcmp(again.data, actual->data, actual->bytes) != 0)
    ok = report(run, mode, "the result depends on the caller's floating-point environment");
  test_values_release(&again);
  return ok;
}

/* Runs a plan on fresh guarded tensors. */
static bool run_plan(const running_sample *run, const compute_plan *plan, const char *mode) {
  const operation_case *sample = run->sample;
  compute_device *device = compute_default_device(run->context);
  const size_t count = sample->operand_count;
  size_t bound = 0;
  guarded_tensor tensors[OPERATION_MAX_OPERANDS];
  compute_binding bindings[OPERATION_MAX_OPERANDS + 1];
  for (size_t i = 0; i < count; i++) {
    if (kind_of(run, i) == KIND_PARAMETER) tensors[i] = run->parameters[i];
    if (kind_of(run, i) != KIND_INPUT) continue;
    tensors[i] = guard_operand(run, i);
    bindings[bound++] = (compute_binding){run->operands[i], tensors[i].view};
  }
  const compute_dtype dtype = compute_node_dtype(run->graph, run->result);
  const compute_shape shape = compute_node_shape(run->graph, run->result);
  guarded_tensor result = guarded_create(device, dtype, shape, sample->result_layout, NULL);
  bindings[bound++] = (compute_binding){run->result, result.view};

  bool ok = compute_run(plan, bindings, bound, NULL) == COMPUTE_OK ||
            report(run, mode, "compute_run: %s", compute_error_message(run->context));
  test_values actual = test_values_create(dtype, shape);
  guarded_read(&result, &actual);
  if (ok) ok = compare(run, mode, &actual);
  if (ok && run->form == &forms[0])
    ok = check_environment(run, &(guest_plan){plan, bindings, bound}, &result, &actual);
  for (size_t i = 0; i < count; i++) {
    if (kind_of(run, i) == KIND_CONSTANT) continue;
    ok = check_operand(run, mode, i, &tensors[i]) && ok;
    if (kind_of(run, i) == KIND_INPUT) guarded_release(&tensors[i]);
  }
  if (!guarded_is_intact(&result))
    ok = report(run, mode, "memory around the result was overwritten");
  guarded_release(&result);
  test_values_release(&actual);
  return ok;
}

typedef struct guest_compile {
  const running_sample *run;
  const compute_plan_options *options;
  compute_plan *plan;
} guest_compile;

static compute_status compile_as_guest(void *argument) {
  guest_compile *g = argument;
  return compute_compile(g->run->graph, &g->run->result, 1, g->options, &g->plan);
}

static bool check_mode(running_sample *run, uint32_t flags, const char *mode) {
  compute_plan_info info;
  const bool strict = getenv("COMPUTE_TEST_STRICT") && !reference_is_of_cpu(run->graph);
  const compute_plan_options options = {
      .fallback = strict ? COMPUTE_FALLBACK_STRICT : COMPUTE_FALLBACK_SILENT, .flags = flags};
  guest_compile guest = {.run = run, .options = &options};
  static size_t turn;
  const guest_report seen = guest_run(turn++ % guest_environments(), compile_as_guest, &guest);
  if (!guest.plan)
    return report(run, mode, "compute_compile: %s", compute_error_message(run->context));
  bool ok = check_guest(run, mode, "compute_compile", &seen);
  assert_ok(compute_plan_describe(guest.plan, &info));
  run->elsewhere = info.fallbacks > 0;
  ok = run_plan(run, guest.plan, mode) && ok;
  compute_plan_release(guest.plan);
  return ok;
}

/* Runs the sample in the given form. The first form has inputs only; it computes the expected
 * result. */
static bool check_form(running_sample *run, const operand_form *form) {
  run->form = form;
  bool ok = build_graph(run);
  if (ok && form == &forms[0])
    run->expected = reference_run(run->graph, run->operands, run->values,
                                  run->sample->operand_count, run->result);
  if (ok) {
    ok = check_mode(run, 0, "optimised");
    if (form == &forms[0]) ok = check_mode(run, COMPUTE_PLAN_NO_FUSION, "no fusion") && ok;
    ok = check_mode(run, COMPUTE_PLAN_NO_FUSION | COMPUTE_PLAN_NO_SIMPLIFICATION, "as written") &&
         ok;
  }
  release_graph(run);
  return ok;
}

/* Counts the samples of one name and dtype so far, in the whole program. */
typedef struct sample_kind {
  char name[60];
  compute_dtype dtype;
  size_t seen;
} sample_kind;

/* Returns the index of the sample's kind and sets the sample's number within that kind. */
static size_t count_sample(const operation_case *sample, size_t *number) {
  static sample_kind kinds[1024];
  static size_t count;
  const compute_dtype dtype = sample->dtype ? sample->dtype : sample->operand[0].dtype;
  size_t i = 0;
  while (i < count && (kinds[i].dtype != dtype ||
                       strncmp(kinds[i].name, sample->name, sizeof kinds[i].name - 1) != 0))
    i++;
  *number = 0;
  if (i == sizeof kinds / sizeof *kinds) return i;
  if (i == count) {
    kinds[count++].dtype = dtype;
    snprintf(kinds[i].name, sizeof kinds[i].name, "%s", sample->name);
  }
  *number = kinds[i].seen++;
  return i;
}

static bool has_empty_operand(const operation_case *sample) {
  for (size_t i = 0; i < sample->operand_count; i++)
    for (int32_t axis = 0; axis < sample->operand[i].shape.rank; axis++)
      if (sample->operand[i].shape.size[axis] == 0) return true;
  return false;
}

/* Large samples are few, and each tests a large size on purpose. */
static bool is_large(const operation_case *sample) {
  double elements = 0;
  for (size_t i = 0; i < sample->operand_count; i++) {
    double count = 1;
    for (int32_t axis = 0; axis < sample->operand[i].shape.rank; axis++)
      count *= (double)sample->operand[i].shape.size[axis];
    elements += count;
  }
  return elements > LARGE_SAMPLE;
}

static size_t form_count(const operation_case *sample) {
  return sample->operand_count > 1 ? FORM_COUNT : KIND_COUNT;
}

/* Checks the operands as inputs, then `other` further forms from number `first` on, each once. */
static void check_sample(compute_context *context, const operation_case *sample, size_t first,
                         size_t other) {
  running_sample run = {.sample = sample, .context = context};
  const size_t further = form_count(sample) - 1;
  fill_operands(&run);
  bool ok = check_form(&run, &forms[0]);
  for (size_t i = 0; run.expected.data && i < other && i < further; i++)
    ok = check_form(&run, &forms[1 + (first + i) % further]) && ok;
  if (run.expected.data) test_values_release(&run.expected);
  if (!ok) samples_failed++;
  for (size_t i = 0; i < sample->operand_count; i++) test_values_release(&run.values[i]);
}

void operation_check(compute_context *context, const operation_case *sample) {
  size_t number;
  const size_t kind = count_sample(sample, &number);
  samples_run++;
  if (!test_takes(kind, number)) return;
  const bool sparse = test_samples() > 1 || test_spread() > 1;
  const size_t other = (sparse && number > 0) || is_large(sample) ? 0
                       : has_empty_operand(sample)                ? FORM_COUNT
                                                                  : 1;
  check_sample(context, sample, kind + number, sample->operand_count > 0 ? other : 0);
}

void operation_check_kinds(compute_context *context, const operation_case *sample) {
  samples_run++;
  check_sample(context, sample, 0, FORM_COUNT);
}

void operation_finish(void) {
  const int total = samples_run, failed = samples_failed;
  samples_run = samples_failed = 0;
  if (test_context) measure_write(test_context);
  if (failed > 0) fail_msg("%d of %d samples failed", failed, total);
  assert_true(total > 0);
}
