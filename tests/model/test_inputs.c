/* SPDX-License-Identifier: MIT */
/* Required inputs: each operator names the missing one. Also other limits of ports and sizes, and
 * their messages. */
#include "compute/compute.h"
#include "model/message_writer.h"
#include "model/record.h"

enum { NODE_DOMAIN = 7, MODEL_OPSET = 8, MOST_INPUTS = 16, TEXT = 64 };

/* "a,b,c": the first `count` inputs, without the one at `missing`. */
static void list_inputs(char text[TEXT], int count, int missing) {
  char *at = text;
  for (int i = 0; i < count; i++) {
    if (i) *at++ = ',';
    if (i != missing) *at++ = (char)('a' + i);
  }
  *at = '\0';
}

static proto one_node(const operator_row *row, const char *given, const char *all) {
  proto graph = graph_message(all, "y"), node = node_message("it", row->name, given, "y");
  put_text(&node, NODE_DOMAIN, row->domain);
  put_message(&graph, GRAPH_NODE, node);
  proto model = {0};
  put_integer(&model, 1, 8);
  put_message(&model, MODEL_GRAPH, graph);
  put_message(&model, MODEL_OPSET, opset_message(row->domain, row->first));
  if (row->domain[0]) put_message(&model, MODEL_OPSET, opset_message("", 17));
  return model;
}

/* Records the node; all its inputs are f32 vectors. */
static compute_status record(compute_model *model, int count) {
  compute_graph *graph = compute_graph_create(test_context);
  compute_model_value in[MOST_INPUTS], out = {"y", {0}};
  char names[MOST_INPUTS][2];
  for (int i = 0; i < count; i++) {
    names[i][0] = (char)('a' + i), names[i][1] = '\0';
    in[i] = (compute_model_value){names[i], compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2))};
  }
  const compute_status status = compute_model_record(model, graph, in, (size_t)count, &out, 1);
  compute_graph_release(graph);
  return status;
}

static void assert_missing(const operator_row *row, int count, int missing, const char *name,
                           int length) {
  char given[TEXT], all[TEXT], wanted[2 * TEXT];
  compute_model *model = NULL;
  list_inputs(given, count, missing);
  list_inputs(all, count, -1);
  const proto message = one_node(row, given, all);
  assert_ok(compute_model_load_memory(test_context, message.data, message.bytes, NULL, &model));
  snprintf(wanted, sizeof wanted, "input %d '%.*s' is missing", missing, length, name);
  const compute_status status = record(model, count);
  if (status != COMPUTE_ERROR_FORMAT || !strstr(compute_error_message(NULL), wanted) ||
      !strstr(compute_error_message(NULL), row->name))
    fail_msg("%s of %s: %s, %s; expected \"%s\"", row->name, row->domain,
             compute_status_name(status), compute_error_message(NULL), wanted);
  compute_model_release(model);
  free(message.data);
}

/* Counts the names. With `check`, removes each input in turn. */
static int for_names(const operator_row *row, const char *names, int count, bool check) {
  int i = 0;
  for (const char *at = names; *at; i++) {
    int length = (int)strcspn(at, " ");
    const char *next = at + length + (at[length] == ' ');
    if (length > 3 && !strncmp(at + length - 3, "...", 3)) length -= 3;
    if (check && *at != '-') assert_missing(row, count, i, at, length);
    at = next;
  }
  return i;
}

static void each_operator_names_what_is_missing(void **state) {
  (void)state;
  const operator_row *row;
  int required = 0;
  for (size_t index = 0; (row = operator_at(index)); index++) {
    const char *names = operator_inputs(row->domain, row->name, row->first);
    const int count = for_names(row, names, 0, false);
    assert_in_range(count, 0, MOST_INPUTS);
    for_names(row, names, count, true);
    required += count;
  }
  assert_true(required > 400);
}

/* Operators that are not in the table take any number of inputs, or none. */
static void operators_without_required_inputs_are_few(void **state) {
  (void)state;
  static const char *const none[] = {"Constant",     "Loop", "Optional",      "OptionalHasElement",
                                     "RandomNormal", "Scan", "SequenceEmpty", "RandomUniform"};
  const operator_row *row;
  for (size_t index = 0; (row = operator_at(index)); index++) {
    bool known = *operator_inputs(row->domain, row->name, row->first) != '\0';
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
      known |= !row->domain[0] && !strcmp(row->name, none[i]);
    if (!known) fail_msg("%s of '%s' is not in the table of inputs", row->name, row->domain);
  }
}

/* The rest of a list is checked as well: Concat of a and nothing. */
static void a_list_has_no_gaps(void **state) {
  (void)state;
  const operator_row concat = {"", "Concat", 17, NULL};
  assert_missing(&concat, 3, 2, "inputs", 6);
}

/* ---- Ports and sizes ------------------------------------------------------------------------- */

static void an_output_may_be_listed_twice(void **state) {
  (void)state;
  proto graph = graph_message("x", "y,z,y");
  put_message(&graph, GRAPH_NODE, node_message("n", "Neg", "x", "y"));
  put_message(&graph, GRAPH_NODE, node_message("m", "Identity", "x", "z"));
  const proto message = model_message(graph);
  compute_model *model = NULL;
  compute_tensor *x = NULL;
  const float two = 2;
  assert_ok(compute_model_load_memory(test_context, message.data, message.bytes, NULL, &model));
  assert_int_equal(compute_model_output_count(model), 3);
  assert_ok(compute_tensor_from_host(compute_default_device(test_context), COMPUTE_F32,
                                     COMPUTE_SHAPE(1), &two, &x));
  for (size_t count = 1; count <= 4; count++) {
    compute_model_binding in = {"x", x},
                          out[] = {{"y", NULL}, {"y", NULL}, {"z", NULL}, {"y", NULL}};
    const compute_status status = compute_model_run(model, &in, 1, out, count);
    assert_int_equal(status, count == 4 ? COMPUTE_ERROR_BINDING : COMPUTE_OK);
    for (size_t i = 0; i < count && !status; i++) {
      assert_float_equal(test_element(out[i].tensor, 0), i == 2 ? 2 : -2, 0);
      for (size_t k = 0; k < i; k++) assert_ptr_not_equal(out[i].tensor, out[k].tensor);
    }
    for (size_t i = 0; i < count; i++) compute_tensor_release(out[i].tensor);
  }
  compute_tensor_release(x);
  compute_model_release(model);
  free(message.data);
}

static void a_rank_above_eight_is_said(void **state) {
  (void)state;
  proto graph = graph_message(NULL, "y");
  put_typed(&graph, GRAPH_INPUT, "x", "1,1,1,1,1,1,1,1,2");
  put_message(&graph, GRAPH_NODE, node_message("n", "Neg", "x", "y"));
  const proto message = model_message(graph);
  compute_model *model = NULL;
  assert_fails(compute_model_load_memory(test_context, message.data, message.bytes, NULL, &model),
               COMPUTE_ERROR_UNSUPPORTED);
  test_check_message(test_context, "input 'x' has 9 dimensions; at most 8 are supported");
  free(message.data);
}

/* A size larger than the memory of any machine. */
static void messages_about_memory_have_the_size(void **state) {
  (void)state;
  static const int64_t sizes[] = {INT64_C(1) << 50};
  proto graph = graph_message("x", "y");
  put_message(&graph, GRAPH_INITIALIZER, integers_message("sizes", sizes, 1));
  put_message(&graph, GRAPH_NODE, node_message("huge", "Resize", "x,,,sizes", "y"));
  const proto message = model_message(graph);
  compute_model *model = NULL;
  compute_tensor *x = NULL;
  const float two = 2;
  assert_ok(compute_model_load_memory(test_context, message.data, message.bytes, NULL, &model));
  assert_ok(compute_tensor_from_host(compute_default_device(test_context), COMPUTE_F32,
                                     COMPUTE_SHAPE(1), &two, &x));
  compute_model_binding in = {"x", x}, out = {"y", NULL};
  assert_fails(compute_model_run(model, &in, 1, &out, 1), COMPUTE_ERROR_OUT_OF_MEMORY);
  test_check_message(test_context,
                     "node 'huge' (Resize): resize: out of memory (a request of 9007199254");
  compute_tensor_release(x);
  compute_model_release(model);
  free(message.data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_operator_names_what_is_missing),
      cmocka_unit_test(operators_without_required_inputs_are_few),
      cmocka_unit_test(a_list_has_no_gaps),
      cmocka_unit_test(an_output_may_be_listed_twice),
      cmocka_unit_test(a_rank_above_eight_is_said),
      cmocka_unit_test(messages_about_memory_have_the_size),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
