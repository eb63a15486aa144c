/* SPDX-License-Identifier: MIT */
/* Ports that are sequences, optionals and texts. Items retain their contents. Every allocation may
 * fail. */
#include "model/items.h"
#include "support/harness/failing_allocator.h"

/* ---- Types of ports ---------------------------------------------------------------------------- */

/* Element types of ONNX, and fields of its types. */
enum { FLOAT = 1, STRING = 8, LIST = 4, OPTIONAL = 9 };

static proto tensor_type(int32_t element, const char *sizes) {
  proto tensor = {0}, type = {0}, shape = {0};
  put_integer(&tensor, 1, element);
  for (const char *at = sizes; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    proto size = {0};
    put_integer(&size, 1, strtol(at, NULL, 10));
    put_message(&shape, 1, size);
  }
  if (sizes) put_message(&tensor, 2, shape);
  put_message(&type, 1, tensor);
  return type;
}

/* A sequence or an optional of a type. */
static proto wrap_type(uint32_t field, proto element) {
  proto wrapper = {0}, type = {0};
  put_message(&wrapper, 1, element);
  put_message(&type, field, wrapper);
  return type;
}

static proto copy_message(proto from) {
  proto copy = {0};
  put_raw(&copy, from.data, from.bytes);
  return copy;
}

static void put_kind(proto *graph, uint32_t field, const char *name, proto type) {
  proto value = {0};
  put_text(&value, 1, name);
  put_message(&value, 2, type);
  put_message(graph, field, value);
}

/* ---- Items --------------------------------------------------------------------------------- */

static void items_keep_what_they_hold(void **state) {
  (void)state;
  compute_model_item *sequence = NULL, *optional = NULL, *nothing = NULL;
  compute_model_item *one = numbers(2, (float[]){1, 2}), *text = texts(1, (const char *[]){"é"});
  assert_ok(compute_model_item_sequence(&sequence));
  assert_int_equal(compute_model_item_kind(sequence), COMPUTE_MODEL_SEQUENCE);
  assert_ok(compute_model_item_append(sequence, one));
  assert_ok(compute_model_item_optional(sequence, &optional));
  assert_ok(compute_model_item_optional(NULL, &nothing));
  assert_int_equal(compute_model_item_kind(optional),
                   COMPUTE_MODEL_OPTIONAL | COMPUTE_MODEL_SEQUENCE);
  assert_int_equal(compute_model_item_count(nothing), 0);
  assert_null(compute_model_item_at(nothing, 0));
  assert_fails(compute_model_item_append(sequence, text), COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_model_item_append(sequence, nothing), COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_model_item_append(one, text), COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_model_item_optional(optional, &nothing), COMPUTE_ERROR_INVALID_ARGUMENT);
  compute_model_item_release(one);
  compute_model_item_release(sequence);
  const compute_model_item *held = compute_model_item_at(optional, 0);
  assert_int_equal(compute_model_item_count(held), 1);
  assert_numbers(compute_model_item_at(held, 0), (float[]){1, 2}, 8);
  compute_model_item_release(optional);
  compute_model_item_release(nothing);
  compute_model_item_release(text);
  compute_model_item_release(NULL);
}

static void texts_must_be_utf8(void **state) {
  (void)state;
  static const char *const wrong[] = {"\xff", "a\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                      "\xc0\x80"};
  compute_model_item *item = NULL;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_fails(compute_model_item_from_texts(COMPUTE_SCALAR, &wrong[i], &item),
                 COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_model_item_from_texts(COMPUTE_SHAPE(1), NULL, &item),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_model_item_from_texts(COMPUTE_SHAPE(1), (const char *[]){NULL}, &item),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_model_item_from_texts(COMPUTE_SHAPE(-1), wrong, &item), COMPUTE_ERROR_SHAPE);
  assert_null(item);
}

/* ---- Sequences and optionals ----------------------------------------------------------------- */

static compute_model_item *list_of(size_t count) {
  compute_model_item *sequence = NULL;
  assert_ok(compute_model_item_sequence(&sequence));
  for (size_t i = 0; i < count; i++) {
    compute_model_item *one = numbers(1, (float[]){(float)i});
    assert_ok(compute_model_item_append(sequence, one));
    compute_model_item_release(one);
  }
  return sequence;
}

static void sequences_are_inputs_and_outputs(void **state) {
  (void)state;
  compute_model *model = load_node(operator_node("SequenceInsert", "a,b", "y"), "a,b", "y");
  for (size_t length = 0; length < 3; length++) {
    compute_model_item *result, *const items[] = {list_of(length), numbers(2, (float[]){7, 8})};
    assert_ok(run(model, items, 2, &result));
    assert_int_equal(compute_model_item_kind(result), COMPUTE_MODEL_SEQUENCE);
    assert_int_equal(compute_model_item_count(result), length + 1);
    for (size_t i = 0; i < length; i++)
      assert_numbers(compute_model_item_at(result, i), (float[]){(float)i}, 4);
    assert_numbers(compute_model_item_at(result, length), (float[]){7, 8}, 8);
    compute_model_item_release(result);
  }
  compute_model_release(model);
}

static void optionals_are_inputs_and_outputs(void **state) {
  (void)state;
  compute_model *has = load_node(operator_node("OptionalHasElement", "a", "y"), "a", "y");
  compute_model *wraps = load_node(operator_node("Optional", "a", "y"), "a", "y");
  for (size_t holds = 0; holds < 2; holds++) {
    compute_model_item *optional = NULL, *held = holds ? list_of(2) : NULL, *result;
    assert_ok(compute_model_item_optional(held, &optional));
    compute_model_item_release(held);
    assert_ok(run(has, &optional, 1, &result));
    assert_numbers(result, &(uint8_t){(uint8_t)holds}, 1);
    compute_model_item_release(result);
  }
  compute_model_item *result, *one = numbers(1, (float[]){5});
  assert_ok(run(wraps, &one, 1, &result));
  assert_int_equal(compute_model_item_kind(result), COMPUTE_MODEL_OPTIONAL);
  assert_numbers(compute_model_item_at(result, 0), (float[]){5}, 4);
  compute_model_item_release(result);
  compute_model_release(has);
  compute_model_release(wraps);
}

/* ---- Labels ------------------------------------------------------------------------------------ */

/* Positions of labels become the labels. */
static void labels_are_texts(void **state) {
  (void)state;
  proto node = operator_node("LabelEncoder", "a", "y");
  put_text(&node, 7, "ai.onnx.ml");
  put_list_attribute(&node, "keys_int64s", (int64_t[]){4, 9}, 2);
  put_texts_attribute(&node, "values_strings", "four,nine");
  compute_model *model = load_node(node, "a", "y");
  compute_tensor *x =
      test_tensor(test_context, COMPUTE_I64, COMPUTE_SHAPE(3), (int64_t[]){9, 4, 1});
  compute_model_item *result, *item = NULL;
  assert_ok(compute_model_item_from_tensor(x, &item));
  assert_ok(run(model, &item, 1, &result));
  assert_texts(result, (const char *[]){"nine", "four", "_Unused"}, 3);
  compute_model_item_release(result);
  compute_model_binding in = {"a", x}, out = {"y", NULL};
  assert_ok(compute_model_run(model, &in, 1, &out, 1)); /* positions */
  int64_t places[3];
  assert_ok(compute_tensor_read(out.tensor, places, sizeof places));
  assert_memory_equal(places, ((int64_t[]){1, 0, 2}), sizeof places);
  compute_tensor_release(out.tensor);
  compute_tensor_release(x);
  compute_model_release(model);
}

/* From texts to texts there is no list: the run gives texts, also where the file has the input. */
static void texts_from_texts_are_not_labels(void **state) {
  (void)state;
  for (int constant = 0; constant < 2; constant++) {
    proto graph = graph_message(constant ? NULL : "a", NULL), list = {0};
    put_kind(&graph, GRAPH_OUTPUT, "y", tensor_type(STRING, NULL));
    if (constant) {
      list = tensor_message("a", STRING, 1, (int64_t[]){2});
      put_names(&list, 6, "dog,cat");
      put_message(&graph, GRAPH_INITIALIZER, list);
    }
    proto node = operator_node("LabelEncoder", "a", "y");
    put_text(&node, 7, "ai.onnx.ml");
    put_texts_attribute(&node, "keys_strings", "cat,dog");
    put_texts_attribute(&node, "values_strings", "chat,chien");
    put_message(&graph, GRAPH_NODE, node);
    compute_model *model = load(graph);
    compute_model_argument in = {"a", texts(2, (const char *[]){"dog", "cat"})}, out = {"y", NULL};
    assert_ok(
        compute_model_run_items(model, constant ? NULL : &in, constant ? 0 : 1, &out, 1, NULL));
    assert_texts(out.item, (const char *[]){"chien", "chat"}, 2);
    compute_model_port port;
    assert_ok(compute_model_output_at(model, 0, &port));
    assert_int_equal(port.dtype, COMPUTE_DTYPE_NONE);
    assert_int_equal(compute_model_label_count(model, 0), 0);
    compute_model_item_release(in.item);
    compute_model_item_release(out.item);
    compute_model_release(model);
  }
}

/* ---- Errors ------------------------------------------------------------------------------------ */

/* Every kind, with the dtype and the shape of the tensors. */
static void ports_tell_their_kind(void **state) {
  (void)state;
  enum { KINDS = 10 };
  const uint32_t text = COMPUTE_MODEL_TEXT, list = COMPUTE_MODEL_SEQUENCE,
                 optional = COMPUTE_MODEL_OPTIONAL;
  const struct {
    proto type;
    uint32_t kind;
    compute_dtype dtype;
    int32_t rank;
  } kinds[KINDS] = {
      {tensor_type(FLOAT, "2,3"), COMPUTE_MODEL_NUMBERS, COMPUTE_F32, 2},
      {tensor_type(STRING, "2"), text, COMPUTE_DTYPE_NONE, 1},
      {wrap_type(LIST, tensor_type(FLOAT, "2,3")), list, COMPUTE_F32, 2},
      {wrap_type(LIST, tensor_type(STRING, NULL)), list | text, COMPUTE_DTYPE_NONE, -1},
      {wrap_type(OPTIONAL, tensor_type(FLOAT, "4")), optional, COMPUTE_F32, 1},
      {wrap_type(OPTIONAL, tensor_type(STRING, NULL)), optional | text, COMPUTE_DTYPE_NONE, -1},
      {wrap_type(OPTIONAL, wrap_type(LIST, tensor_type(FLOAT, "4"))), optional | list, COMPUTE_F32,
       1},
      {wrap_type(OPTIONAL, wrap_type(LIST, tensor_type(STRING, "4"))), optional | list | text,
       COMPUTE_DTYPE_NONE, 1},
      {wrap_type(LIST, wrap_type(LIST, tensor_type(FLOAT, "4"))), COMPUTE_MODEL_NUMBERS,
       COMPUTE_F32, -1},
      {wrap_type(LIST, wrap_type(OPTIONAL, tensor_type(FLOAT, "4"))), COMPUTE_MODEL_NUMBERS,
       COMPUTE_F32, -1},
  };
  for (int i = 0; i < KINDS; i++) {
    proto graph = graph_message(NULL, NULL);
    put_kind(&graph, GRAPH_INPUT, "a", copy_message(kinds[i].type));
    put_kind(&graph, GRAPH_OUTPUT, "y", kinds[i].type);
    put_message(&graph, GRAPH_NODE, operator_node("Identity", "a", "y"));
    compute_model *model = load(graph);
    for (int output = 0; output < 2; output++) {
      compute_model_port port;
      assert_ok(output ? compute_model_output_at(model, 0, &port)
                       : compute_model_input_at(model, 0, &port));
      assert_int_equal(port.kind, kinds[i].kind);
      assert_int_equal(port.dtype, kinds[i].dtype);
      assert_int_equal(port.rank, kinds[i].rank);
    }
    compute_model_release(model);
  }
}

/* An optional that no one binds has no value, also for the states of a loop and for outputs. */
static void optionals_need_not_be_bound(void **state) {
  (void)state;
  proto graph = graph_message(NULL, "y");
  put_kind(&graph, GRAPH_INPUT, "a", wrap_type(OPTIONAL, tensor_type(FLOAT, NULL)));
  put_message(&graph, GRAPH_NODE, operator_node("Identity", "a", "y"));
  compute_model *model = load(graph);
  compute_model_argument out = {"y", NULL};
  assert_ok(compute_model_run_items(model, NULL, 0, &out, 1, NULL));
  assert_int_equal(compute_model_item_kind(out.item), COMPUTE_MODEL_OPTIONAL);
  assert_int_equal(compute_model_item_count(out.item), 0);
  compute_model_item_release(out.item);
  compute_model_release(model);
}

static void ports_refuse_other_kinds(void **state) {
  (void)state;
  proto graph = graph_message(NULL, NULL);
  put_typed(&graph, GRAPH_INPUT, "a", "n");
  put_typed(&graph, GRAPH_OUTPUT, "y", "n");
  put_message(&graph, GRAPH_NODE, operator_node("Relu", "a", "y"));
  compute_model *model = load(graph);
  compute_model_port port;
  assert_ok(compute_model_input_at(model, 0, &port));
  assert_int_equal(port.kind, COMPUTE_MODEL_NUMBERS);
  compute_model_item *result, *item = texts(1, (const char *[]){"x"});
  assert_fails(run(model, &item, 1, &result), COMPUTE_ERROR_DTYPE);
  item = list_of(1);
  assert_fails(run(model, &item, 1, &result), COMPUTE_ERROR_DTYPE);
  assert_ok(compute_model_item_optional(NULL, &item));
  assert_fails(run(model, &item, 1, &result), COMPUTE_ERROR_DTYPE);
  assert_null(result);
  compute_model_argument out = {"y", NULL};
  assert_fails(compute_model_run_items(model, NULL, 0, &out, 1, NULL), COMPUTE_ERROR_BINDING);
  assert_fails(
      compute_model_run_items(model, &(compute_model_argument){"a", NULL}, 1, &out, 1, NULL),
      COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_model_run_items(NULL, NULL, 0, NULL, 0, NULL), COMPUTE_ERROR_NULL_POINTER);
  compute_model_release(model);
}

static void tensors_alone_cannot_take_sequences(void **state) {
  (void)state;
  compute_model *model = load_node(operator_node("SequenceConstruct", "a", "y"), "a", "y");
  compute_tensor *x = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(1), (float[]){1});
  compute_model_binding in = {"a", x}, out = {"y", NULL};
  assert_fails(compute_model_run(model, &in, 1, &out, 1), COMPUTE_ERROR_UNSUPPORTED);
  assert_null(out.tensor);
  compute_tensor_release(x);
  compute_model_release(model);
}

/* ---- Memory ------------------------------------------------------------------------------------ */

static proto varied_model(void) {
  proto graph = graph_message("a,b", "y,z,found");
  proto node = operator_node("StringSplit", "a", "parts,z");
  put_text_attribute(&node, "delimiter", ",");
  put_message(&graph, GRAPH_NODE, node);
  node = operator_node("RegexFullMatch", "parts", "found");
  put_text_attribute(&node, "pattern", "(x|y){1,3}");
  put_message(&graph, GRAPH_NODE, node);
  put_message(&graph, GRAPH_NODE, operator_node("SequenceInsert", "b,parts", "y"));
  return text_model(graph);
}

static compute_status use_model(compute_context *context, const proto *message) {
  compute_model *model = NULL;
  enum { OUTPUTS = 3 };
  compute_model_argument in[] = {{"a", NULL}, {"b", NULL}};
  compute_model_argument out[OUTPUTS] = {{"y", NULL}, {"z", NULL}, {"found", NULL}};
  compute_status status =
      compute_model_load_memory(context, message->data, message->bytes, NULL, &model);
  if (!status)
    status =
        compute_model_item_from_texts(COMPUTE_SHAPE(2), (const char *[]){"x,y", "z"}, &in[0].item);
  if (!status) status = compute_model_item_sequence(&in[1].item);
  if (!status) status = compute_model_item_append(in[1].item, in[0].item);
  if (!status) status = compute_model_run_items(model, in, 2, out, OUTPUTS, NULL);
  if (!status && compute_model_item_count(out[0].item) != 2) status = COMPUTE_ERROR_INTERNAL;
  for (size_t i = 0; i < 2; i++) compute_model_item_release(in[i].item);
  for (size_t i = 0; i < OUTPUTS; i++) compute_model_item_release(out[i].item);
  compute_model_release(model);
  return status;
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  proto message = varied_model();
  failing_allocator_install();
  compute_context *context = NULL;
  assert_ok(compute_open(&context, &(compute_open_options){.backends = "cpu"}));
  bool failed = true;
  int64_t nth = 1;
  for (; failed; nth++) {
    failing_allocator_arm(nth, false);
    const compute_status status = use_model(context, &message);
    failed = failing_allocator_failures() > 0;
    failing_allocator_arm(0, false);
    if (!failed) assert_int_equal(status, COMPUTE_OK);
    if (status && status != COMPUTE_ERROR_OUT_OF_MEMORY)
      fail_msg("allocation %lld: %s", (long long)nth, compute_error_message(context));
  }
  assert_true(nth > 50);
  assert_ok(use_model(context, &message));
  assert_ok(compute_close(context));
  assert_int_equal(failing_allocator_remove(), 0);
  free(message.data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(items_keep_what_they_hold),
      cmocka_unit_test(texts_must_be_utf8),
      cmocka_unit_test(sequences_are_inputs_and_outputs),
      cmocka_unit_test(optionals_are_inputs_and_outputs),
      cmocka_unit_test(labels_are_texts),
      cmocka_unit_test(texts_from_texts_are_not_labels),
      cmocka_unit_test(ports_tell_their_kind),
      cmocka_unit_test(optionals_need_not_be_bound),
      cmocka_unit_test(ports_refuse_other_kinds),
      cmocka_unit_test(tensors_alone_cannot_take_sequences),
  };
  const struct CMUnitTest alone[] = {cmocka_unit_test(every_allocation_may_fail)};
  int failures = cmocka_run_group_tests(tests, test_group_open, test_group_close);
  failures += cmocka_run_group_tests(alone, NULL, NULL);
  free_messages();
  return failures;
}
