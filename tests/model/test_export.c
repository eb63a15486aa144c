/* SPDX-License-Identifier: MIT */
/* Graphs exported as ONNX. Every operation that ONNX can express is written, loaded and run, and
 * must give the result of the graph itself. Every other operation is refused with a reason. If the
 * variable COMPUTE_EXPORT_FILES names a folder, models are kept there with their inputs and results
 * for another reader (tests/onnx/exported.py). */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compute/model.h"
#include "model/export_samples.h"
#include "model/export/export.h"
#include "support/harness/operation.h"
#include "support/harness/test.h"
#include "support/samples/elementwise.h"

enum { MOST_OUTPUTS = 6 };

static bool covered[OP_COUNT];
static int failures;

/* ---- Running ----------------------------------------------------------------------------- */

typedef struct trial {
  const export_sample *sample;
  compute_dtype dtype;
  char name[96], path[512];
  compute_graph *graph;
  size_t inputs, outputs;
  compute_model_value input[MOST_OPERANDS], output[MOST_OUTPUTS];
  char names[MOST_OPERANDS + MOST_OUTPUTS][16];
  compute_tensor *given[MOST_OPERANDS], *direct[MOST_OUTPUTS], *loaded[MOST_OUTPUTS];
} trial;

static const char *folder(void) {
  const char *kept = getenv("COMPUTE_EXPORT_FILES");
  return kept ? kept : TEST_SCRATCH_DIR;
}

static double rounding(compute_dtype dtype) {
  return dtype == COMPUTE_F64   ? 1e-14
         : dtype == COMPUTE_F32 ? 3e-7
         : dtype == COMPUTE_F16 ? 1.1e-3
                                : 8.1e-3;
}

static void cover(const compute_graph *graph) {
  for (size_t i = 0; i < graph->count; i++) covered[graph->nodes[i].op] = true;
}

static void build(trial *t) {
  t->graph = compute_graph_create(test_context);
  compute_node x[MOST_OPERANDS];
  for (; t->inputs < MOST_OPERANDS &&
         t->sample->operands[t->inputs].high > t->sample->operands[t->inputs].low;
       t->inputs++) {
    const operand *o = &t->sample->operands[t->inputs];
    const compute_dtype dtype = o->dtype ? o->dtype : t->dtype;
    test_values values = test_values_create(dtype, o->shape);
    test_values_fill(&values, o->special ? FILL_SPECIAL : FILL_RANGE, o->low, o->high,
                     77 + t->inputs);
    x[t->inputs] = compute_input(t->graph, dtype, o->shape);
    t->given[t->inputs] = test_tensor(test_context, dtype, o->shape, values.data);
    test_values_release(&values);
    snprintf(t->names[t->inputs], sizeof t->names[0], "x%zu", t->inputs);
    t->input[t->inputs] = (compute_model_value){t->names[t->inputs], x[t->inputs]};
  }
  compute_node outputs[MOST_OUTPUTS];
  t->outputs = t->sample->build(t->graph, x, t->sample->user, outputs);
  assert_ok(compute_graph_status(t->graph));
  for (size_t i = 0; i < t->outputs; i++) {
    char *name = t->names[MOST_OPERANDS + i];
    snprintf(name, sizeof t->names[0], "y%zu", i);
    t->output[i] = (compute_model_value){name, outputs[i]};
  }
  cover(t->graph);
}

static void run_directly(trial *t) {
  compute_node nodes[MOST_OUTPUTS];
  compute_binding bindings[MOST_OPERANDS + MOST_OUTPUTS] = {{.tensor = NULL}};
  for (size_t i = 0; i < t->inputs; i++)
    bindings[i] = (compute_binding){.node = t->input[i].node, .tensor = t->given[i]};
  for (size_t i = 0; i < t->outputs; i++) {
    nodes[i] = t->output[i].node;
    t->direct[i] = test_tensor(test_context, compute_node_dtype(t->graph, nodes[i]),
                               compute_node_shape(t->graph, nodes[i]), NULL);
    bindings[t->inputs + i] = (compute_binding){.node = nodes[i], .tensor = t->direct[i]};
  }
  compute_plan *plan = test_compile(t->graph, nodes, t->outputs, 0);
  assert_ok(compute_run(plan, bindings, t->inputs + t->outputs, NULL));
  compute_plan_release(plan);
}

static void run_model(trial *t) {
  compute_model *model = NULL;
  compute_model_binding in[MOST_OPERANDS], out[MOST_OUTPUTS];
  assert_ok(
      compute_graph_save_onnx(t->graph, t->input, t->inputs, t->output, t->outputs, t->path, NULL));
  assert_ok(compute_model_load(test_context, t->path, NULL, &model));
  assert_int_equal(compute_model_input_count(model), t->inputs);
  for (size_t i = 0; i < t->inputs; i++)
    in[i] = (compute_model_binding){t->input[i].name, t->given[i]};
  for (size_t i = 0; i < t->outputs; i++) out[i] = (compute_model_binding){t->output[i].name, NULL};
  assert_ok(compute_model_run(model, in, t->inputs, out, t->outputs));
  for (size_t i = 0; i < t->outputs; i++) t->loaded[i] = out[i].tensor;
  compute_model_release(model);
}

static test_values values_of(compute_tensor *tensor) {
  test_values values =
      test_values_create(compute_tensor_dtype(tensor), compute_tensor_shape(tensor));
  if (values.bytes) assert_ok(compute_tensor_read(tensor, values.data, values.bytes));
  return values;
}

static void compare(const trial *t, size_t output) {
  test_values expected = values_of(t->direct[output]), actual = values_of(t->loaded[output]);
  assert_int_equal(expected.dtype, actual.dtype);
  assert_true(compute_shape_equal(expected.shape, actual.shape));
  const double loose = t->sample->looseness * rounding(expected.dtype);
  const test_tolerance tolerance = {.rtol = loose, .atol = loose / 4};
  for (int64_t i = 0; i < expected.count; i++) {
    const double a = test_values_get(&actual, i), e = test_values_get(&expected, i);
    if (test_close_enough(expected.dtype, a, e, &tolerance, NULL)) continue;
    print_error("%s: y%zu[%lld] is %.17g, of the graph %.17g\n", t->name, output, (long long)i, a,
                e);
    failures++;
    break;
  }
  test_values_release(&expected);
  test_values_release(&actual);
}

/* Writes the tensors under their names in the model. */
static void keep_tensors(const trial *t) {
  char path[600];
  compute_named_tensor named[MOST_OPERANDS + MOST_OUTPUTS];
  if (!getenv("COMPUTE_EXPORT_FILES")) return;
  for (size_t i = 0; i < t->inputs; i++)
    named[i] = (compute_named_tensor){.name = t->input[i].name, .tensor = t->given[i]};
  for (size_t i = 0; i < t->outputs; i++)
    named[t->inputs + i] =
        (compute_named_tensor){.name = t->output[i].name, .tensor = t->direct[i]};
  snprintf(path, sizeof path, "%s/%s.safetensors", folder(), t->name);
  assert_ok(compute_tensor_file_write(test_context, path, named, t->inputs + t->outputs));
}

static void try_dtype(const export_sample *sample, compute_dtype dtype) {
  trial t = {.sample = sample, .dtype = dtype};
  snprintf(t.name, sizeof t.name, "%s%s%s", sample->name, dtype ? "." : "",
           dtype ? compute_dtype_name(dtype) : "");
  snprintf(t.path, sizeof t.path, "%s/%s.onnx", folder(),
           getenv("COMPUTE_EXPORT_FILES") ? t.name : "sample");
  build(&t);
  run_directly(&t);
  run_model(&t);
  for (size_t i = 0; i < t.outputs; i++) compare(&t, i);
  keep_tensors(&t);
  for (size_t i = 0; i < t.inputs; i++) compute_tensor_release(t.given[i]);
  for (size_t i = 0; i < t.outputs; i++) {
    compute_tensor_release(t.direct[i]);
    compute_tensor_release(t.loaded[i]);
  }
  compute_graph_release(t.graph);
}

static void try_sample(const export_sample *sample) {
  if (!sample->dtypes) {
    try_dtype(sample, COMPUTE_DTYPE_NONE);
    return;
  }
  for (const compute_dtype *d = operation_all_dtypes(sample->dtypes); *d; d++)
    try_dtype(sample, *d);
}

/* ---- Elementwise ------------------------------------------------------------------------- */

static size_t build_row(compute_graph *graph, const compute_node *x, const void *user,
                        compute_node *outputs) {
  outputs[0] = elementwise_build(graph, x, user);
  return 1;
}

/* Integer samples include division by 0 and shifts by too many bits. */
static void try_row(const elementwise_row *row, compute_dtype dtype) {
  const bool shift = strncmp(row->name, "shift", 5) == 0;
  const bool integer = test_is_integer(dtype);
  const double low = integer && row->arity > 1 ? -4 : row->low;
  const double high = integer && row->arity > 1 ? shift ? 70 : 4 : row->high;
  export_sample sample = {.name = row->name,
                          .build = build_row,
                          .user = row,
                          .looseness = 4 + 4 * row->ulp,
                          .operands = {{.shape = SHAPE(3, 1, 40), .low = row->low, row->high}}};
  if (row->arity > 1) sample.operands[1] = (operand){.shape = SHAPE(2, 1), .low = low, high};
  if (row->arity > 2) {
    sample.operands[2] = sample.operands[0];
    sample.operands[0] = (operand){COMPUTE_BOOL, SHAPE(40), 0, 1, false};
  }
  if (row->arity == 2) sample.operands[1].shape = COMPUTE_SHAPE(7, 40);
  sample.operands[0].special = integer && row->arity == 2;
  try_dtype(&sample, dtype);
}

static void elementwise_operations_round_trip(void **state) {
  (void)state;
  failures = 0;
  for (size_t i = 0; elementwise_at(i); i++) {
    const elementwise_row *row = elementwise_at(i);
    for (const compute_dtype *d = operation_all_dtypes(row->domain); *d; d++) try_row(row, *d);
  }
  assert_int_equal(failures, 0);
}

/* Every pair of dtypes, including values that saturate and values that wrap. */
static size_t build_cast(compute_graph *graph, const compute_node *x, const void *user,
                         compute_node *outputs) {
  outputs[0] = compute_cast(graph, x[0], *(const compute_dtype *)user);
  return 1;
}

static void casts_round_trip(void **state) {
  (void)state;
  failures = 0;
  for (const compute_dtype *to = operation_all_dtypes("any"); *to; to++) {
    char name[32];
    snprintf(name, sizeof name, "cast_to_%s", compute_dtype_name(*to));
    const export_sample sample = {
        .name = name,
        .build = build_cast,
        .user = to,
        .dtypes = "any",
        .looseness = 2, /* to f16 and bf16, f64 may be rounded twice */
        .operands = {{.shape = SHAPE(200), .low = -300, .high = 300, .special = true}}};
    try_sample(&sample);
  }
  assert_int_equal(failures, 0);
}

/* ---- Others ------------------------------------------------------------------------------ */

static void other_operations_round_trip(void **state) {
  (void)state;
  failures = 0;
  for (size_t i = 0; i < export_sample_count; i++) try_sample(&export_samples[i]);
  assert_int_equal(failures, 0);
}

/* ---- Parameters and names ---------------------------------------------------------------- */

static void parameters_and_constants_become_initializers(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  compute_tensor *weight =
      test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2), (const float[]){1, 1});
  const compute_node x =
      compute_name(graph, compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2)), "image");
  const compute_node w = compute_name(graph, compute_parameter(graph, weight), "weight");
  const compute_node c =
      compute_constant(graph, COMPUTE_F32, COMPUTE_SHAPE(2), (const float[]){10, 20});
  const compute_node y =
      compute_name(graph, compute_add(graph, compute_mul(graph, x, w), c), "weight");
  /* The file has the values at the time of writing. */
  assert_ok(compute_tensor_write(weight, (const float[]){2, 3}, 2 * sizeof(float)));
  const char *path = TEST_SCRATCH_DIR "/named.onnx";
  const compute_model_value outputs[] = {{"scores", y}, {NULL, w}, {"again", y}, {"copy", x}};
  const compute_model_export_options options = {.graph_name = "net", .description = "two lines"};
  assert_ok(compute_graph_save_onnx(graph, NULL, 0, outputs, 4, path, &options));
  cover(graph);
  compute_model *model = NULL;
  assert_ok(compute_model_load(test_context, path, NULL, &model));
  compute_model_info info;
  assert_ok(compute_model_describe(model, &info));
  assert_string_equal(info.graph_name, "net");
  assert_string_equal(info.description, "two lines");
  assert_string_equal(info.producer, "libcompute");
  assert_int_equal(info.opset, COMPUTE_MODEL_EXPORT_OPSET);
  assert_int_equal(info.weights, 2);
  compute_model_port port;
  assert_ok(compute_model_input_at(model, 0, &port));
  assert_string_equal(port.name, "image");
  assert_int_equal(port.rank, 1);
  assert_int_equal(port.size[0], 2);
  compute_tensor *given =
      test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2), (const float[]){5, 6});
  const compute_model_binding in = {"image", given};
  compute_model_binding out[] = {{"scores", NULL}, {"again", NULL}, {"copy", NULL}};
  assert_ok(compute_model_run(model, &in, 1, out, 3));
  const float expected[3][2] = {{20, 38}, {20, 38}, {5, 6}};
  for (size_t i = 0; i < 3; i++) {
    for (int64_t k = 0; k < 2; k++)
      assert_float_equal(test_element(out[i].tensor, k), expected[i][k], 0);
    compute_tensor_release(out[i].tensor);
  }
  compute_model_release(model);
  compute_tensor_release(given);
  compute_tensor_release(weight);
  compute_graph_release(graph);
}

/* A node that is an input ends the exported graph. */
static void any_node_may_be_an_input(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node seed = compute_scalar_i64(graph, COMPUTE_I64, 1);
  const compute_node noise = compute_random_uniform(graph, COMPUTE_F32, COMPUTE_SHAPE(2), seed, 0);
  const compute_model_value in = {"noise", noise}, out = {"y", compute_neg(graph, noise)};
  const char *path = TEST_SCRATCH_DIR "/cut.onnx";
  assert_ok(compute_graph_save_onnx(graph, &in, 1, &out, 1, path, NULL));
  compute_model *model = NULL;
  assert_ok(compute_model_load(test_context, path, NULL, &model));
  assert_int_equal(compute_model_input_count(model), 1);
  compute_model_release(model);
  compute_graph_release(graph);
}

/* ---- Refusals ---------------------------------------------------------------------------- */

static void what_has_no_form_is_named(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  compute_tensor *weight =
      test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3), (const float[]){1, 1, 1});
  const compute_node seed = compute_scalar_i64(graph, COMPUTE_I64, 1);
  const compute_node noise = compute_name(
      graph, compute_random_uniform(graph, COMPUTE_F32, COMPUTE_SHAPE(3), seed, 0), "noise");
  const compute_node w = compute_parameter(graph, weight);
  const compute_node step = compute_assign(graph, w, compute_add(graph, w, noise));
  const compute_model_value out = {"y", step};
  const char *path = TEST_SCRATCH_DIR "/refused.onnx";
  assert_fails(compute_graph_save_onnx(graph, NULL, 0, &out, 1, path, NULL),
               COMPUTE_ERROR_UNSUPPORTED);
  test_check_message(test_context, "random_uniform (node 'noise'");
  test_check_message(test_context, "assign (node ");
  assert_int_not_equal(access(path, F_OK), 0);
  compute_tensor_release(weight);
  compute_graph_release(graph);
}

static void wrong_calls_are_refused(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3));
  const compute_model_value twice[] = {{"x", x}, {"z", x}};
  const compute_model_value same = {"x", compute_neg(graph, x)}, wrong = {"w", {99, 1}};
  const compute_model_value broken = {"\xff", x};
  const char *path = TEST_SCRATCH_DIR "/wrong.onnx";
  assert_fails(compute_graph_save_onnx(NULL, NULL, 0, &same, 1, path, NULL),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_graph_save_onnx(graph, NULL, 1, &same, 1, path, NULL),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_graph_save_onnx(graph, twice, 2, &same, 1, path, NULL),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_graph_save_onnx(graph, twice, 1, &same, 1, path, NULL),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  test_check_message(test_context, "outputs[0] has the name of another one");
  assert_fails(compute_graph_save_onnx(graph, NULL, 0, &broken, 1, path, NULL),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_graph_save_onnx(graph, NULL, 0, &same, 0, path, NULL),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_graph_save_onnx(graph, NULL, 0, &wrong, 1, path, NULL),
               COMPUTE_ERROR_WRONG_GRAPH);
  const compute_model_export_options options = {.reserved = {1}};
  assert_fails(compute_graph_save_onnx(graph, NULL, 0, &same, 1, path, &options),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_graph_save_onnx(graph, NULL, 0, &same, 1, TEST_NOWHERE "/x.onnx", NULL),
               COMPUTE_ERROR_FILE);
  compute_neg(graph, (compute_node){0});
  assert_fails(compute_graph_save_onnx(graph, NULL, 0, &same, 1, path, NULL),
               compute_graph_status(graph));
  compute_graph_release(graph);
}

/* ---- The table --------------------------------------------------------------------------- */

/* Runs last: the tests above must have written every operation that has a form. */
static void every_operation_has_a_form_or_a_reason(void **state) {
  (void)state;
  int missing = 0;
  for (int op = OP_NONE + 1; op < OP_COUNT; op++) {
    const export_form *form = export_form_of((graph_op)op);
    const char *name = graph_op_describe((graph_op)op)->name;
    if (!form) print_error("%s is not in src/model/export/forms.c\n", name);
    if (form && form->rule && !covered[op]) print_error("%s is written by no test\n", name);
    missing += !form || (form->rule && !covered[op]);
  }
  assert_int_equal(missing, 0);
}

static char *read_text(const char *path) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  char *text = calloc(1, 1 << 20);
  assert_non_null(text);
  assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
  fclose(file);
  return text;
}

/* docs/reference/onnx.md has a line for each row. COMPUTE_UPDATE_DOCS prints these lines. */
static void the_document_has_the_table(void **state) {
  (void)state;
  char *text = read_text(TEST_SOURCE_DIR "/docs/reference/onnx.md");
  const bool print = getenv("COMPUTE_UPDATE_DOCS") != NULL;
  int missing = 0;
  for (int op = OP_NONE + 1; op < OP_COUNT; op++) {
    const export_form *form = export_form_of((graph_op)op);
    char line[256];
    snprintf(line, sizeof line, "| `%s` | %s%s |\n", graph_op_describe((graph_op)op)->name,
             form->rule || op == OP_input ? "" : "– ", form->text);
    if (print) printf("%s", line);
    if (strstr(text, line)) continue;
    missing++;
    print_error("docs/reference/onnx.md lacks: %s", line);
  }
  free(text);
  assert_int_equal(missing, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(elementwise_operations_round_trip),
      cmocka_unit_test(casts_round_trip),
      cmocka_unit_test(other_operations_round_trip),
      cmocka_unit_test(parameters_and_constants_become_initializers),
      cmocka_unit_test(any_node_may_be_an_input),
      cmocka_unit_test(what_has_no_form_is_named),
      cmocka_unit_test(wrong_calls_are_refused),
      cmocka_unit_test(every_operation_has_a_form_or_a_reason),
      cmocka_unit_test(the_document_has_the_table),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
