/* SPDX-License-Identifier: MIT */
/* A small decoder with caches of fixed capacity that are bound both as inputs and as outputs. Every
 * token runs the same plan, which writes to the caches in place. Each token equals the token that a
 * model without caches computes from all earlier tokens. */
#include "compute/compute.h"
#include "model/message_writer.h"

enum {
  LAYERS = 2,
  HEADS = 2,
  WIDTH = 8, /* of a head */
  MODEL = HEADS * WIDTH,
  VOCABULARY = 29,
  CAPACITY = 128,
  TOKENS = 100
};

/* ---- The model ----------------------------------------------------------------------------- */

static uint32_t number_state;

static void add_numbers(proto *graph, const char *name, int64_t rows, int64_t columns) {
  float values[CAPACITY * 4 * MODEL];
  for (int64_t i = 0; i < rows * columns; i++) {
    number_state = number_state * 1664525u + 1013904223u;
    values[i] = ((float)(number_state >> 8) / 8388608.0f - 1) * 0.5f;
  }
  proto tensor = tensor_message(name, 1, 2, (int64_t[]){rows, columns});
  put_bytes(&tensor, 9, values, (size_t)(rows * columns) * sizeof *values);
  put_message(graph, GRAPH_INITIALIZER, tensor);
}

static void add_integers(proto *graph, const char *name, int64_t count, const int64_t *values) {
  put_message(graph, GRAPH_INITIALIZER, integers_message(name, values, count));
}

/* A node. Each # in its names is replaced by the layer's number. */
static proto layer_node(int layer, const char *type, const char *inputs, const char *outputs) {
  char in[160], out[160];
  const char *const from[] = {inputs, outputs};
  char *const to[] = {in, out};
  for (int k = 0; k < 2; k++) {
    char *end = to[k];
    for (const char *at = from[k]; *at; at++) *end++ = *at == '#' ? (char)('0' + layer) : *at;
    *end = 0;
  }
  return node_message(out, type, in, out);
}

static void add(proto *graph, int layer, const char *type, const char *inputs,
                const char *outputs) {
  put_message(graph, GRAPH_NODE, layer_node(layer, type, inputs, outputs));
}

/* Queries, keys or values as [batch, heads, tokens, width]. */
static void add_heads(proto *graph, int layer, const char *weights, const char *flat,
                      const char *split, const char *heads) {
  char inputs[64];
  snprintf(inputs, sizeof inputs, "x#,%s", weights);
  add(graph, layer, "MatMul", inputs, flat);
  snprintf(inputs, sizeof inputs, "%s,split", flat);
  add(graph, layer, "Reshape", inputs, split);
  proto node = layer_node(layer, "Transpose", split, heads);
  put_list_attribute(&node, "perm", (int64_t[]){0, 2, 1, 3}, 4);
  put_message(graph, GRAPH_NODE, node);
}

static void add_weights(proto *graph, int layer) {
  static const char *const names[] = {"wq#", "wk#", "wv#", "wo#"};
  char name[16];
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(name, sizeof name, "%.2s%d", names[i], layer);
    add_numbers(graph, name, MODEL, MODEL);
  }
  snprintf(name, sizeof name, "up%d", layer);
  add_numbers(graph, name, MODEL, 4 * MODEL);
  snprintf(name, sizeof name, "down%d", layer);
  add_numbers(graph, name, 4 * MODEL, MODEL);
}

/* From x# to y#. */
static void add_layer(proto *graph, int layer, bool cached) {
  add_weights(graph, layer);
  add_heads(graph, layer, "wq#", "fq#", "sq#", "q#");
  add_heads(graph, layer, "wk#", "fk#", "sk#", "k#");
  add_heads(graph, layer, "wv#", "fv#", "sv#", "v#");
  if (cached) {
    add(graph, layer, "TensorScatter", "past_k#,k#,place", "present_k#");
    add(graph, layer, "TensorScatter", "past_v#,v#,place", "present_v#");
  }
  proto node = layer_node(layer, "Attention",
                          cached ? "q#,present_k#,present_v#,,,,length" : "q#,k#,v#", "a#");
  put_integer_attribute(&node, "is_causal", 1);
  put_message(graph, GRAPH_NODE, node);
  node = layer_node(layer, "Transpose", "a#", "t#");
  put_list_attribute(&node, "perm", (int64_t[]){0, 2, 1, 3}, 4);
  put_message(graph, GRAPH_NODE, node);
  add(graph, layer, "Reshape", "t#,join", "j#");
  add(graph, layer, "MatMul", "j#,wo#", "o#");
  add(graph, layer, "Add", "x#,o#", "r#");
  add(graph, layer, "MatMul", "r#,up#", "u#");
  add(graph, layer, "Relu", "u#", "h#");
  add(graph, layer, "MatMul", "h#,down#", "d#");
  add(graph, layer, "Add", "r#,d#", "y#");
}

static void add_ends(proto *graph) {
  add_numbers(graph, "words", VOCABULARY, MODEL);
  add_numbers(graph, "places", CAPACITY, MODEL);
  add_numbers(graph, "head", MODEL, VOCABULARY);
  add_integers(graph, "split", 4, (int64_t[]){0, 0, HEADS, WIDTH});
  add_integers(graph, "join", 3, (int64_t[]){0, 0, MODEL});
  add(graph, 0, "Gather", "words,tokens", "word");
  add(graph, 0, "Gather", "places,positions", "position");
  add(graph, 0, "Add", "word,position", "x0");
}

/* The same numbers in the same order, with and without caches. */
static proto decoder(bool cached) {
  proto graph = graph_message("tokens,positions", "next");
  if (cached) {
    put_values(&graph, GRAPH_INPUT, "place,length,past_k0,past_v0,past_k1,past_v1");
    put_values(&graph, GRAPH_OUTPUT, "present_k0,present_v0,present_k1,present_v1");
  }
  add_ends(&graph);
  add_layer(&graph, 0, cached);
  add(&graph, 0, "Identity", "y0", "x1");
  add_layer(&graph, 1, cached);
  add(&graph, 0, "MatMul", "y1,head", "scores");
  proto node = node_message("next", "ArgMax", "scores", "next");
  put_integer_attribute(&node, "axis", -1);
  put_integer_attribute(&node, "keepdims", 0);
  put_message(&graph, GRAPH_NODE, node);
  return graph;
}

static compute_model *load(bool cached, void **data) {
  number_state = 12345;
  proto model = {0};
  put_integer(&model, 1, 10);
  put_message(&model, MODEL_GRAPH, decoder(cached));
  put_message(&model, 8, opset_message("", 24));
  compute_model *loaded = NULL;
  assert_ok(compute_model_load_memory(test_context, model.data, model.bytes, NULL, &loaded));
  *data = model.data;
  return loaded;
}

/* ---- Tokens -------------------------------------------------------------------------------- */

static int64_t find_next(compute_model *model, const int64_t *tokens, int64_t count) {
  int64_t positions[CAPACITY], next[CAPACITY];
  for (int64_t i = 0; i < count; i++) positions[i] = i;
  const compute_shape shape = COMPUTE_SHAPE(1, count);
  compute_model_binding inputs[] = {
      {"tokens", test_tensor(test_context, COMPUTE_I64, shape, tokens)},
      {"positions", test_tensor(test_context, COMPUTE_I64, shape, positions)}};
  compute_model_binding output = {"next", NULL};
  assert_ok(compute_model_run(model, inputs, 2, &output, 1));
  assert_ok(compute_tensor_read(output.tensor, next, (size_t)count * sizeof *next));
  for (int i = 0; i < 2; i++) compute_tensor_release(inputs[i].tensor);
  compute_tensor_release(output.tensor);
  return next[count - 1];
}

static void one_plan_decodes_all_tokens(void **state) {
  (void)state;
  void *data[2];
  compute_model *cached = load(true, &data[0]), *plain = load(false, &data[1]);
  static const char *const inputs[] = {"tokens",  "positions", "place",   "length",
                                       "past_k0", "past_v0",   "past_k1", "past_v1"};
  static const char *const outputs[] = {"next", "present_k0", "present_v0", "present_k1",
                                        "present_v1"};
  static const float zeros[HEADS * CAPACITY * WIDTH];
  compute_model_binding in[8], out[5];
  for (int i = 0; i < 8; i++) {
    const compute_shape cache = COMPUTE_SHAPE(1, HEADS, CAPACITY, WIDTH);
    const compute_shape shape = i < 2 ? COMPUTE_SHAPE(1, 1) : i < 4 ? COMPUTE_SHAPE(1) : cache;
    in[i] = (compute_model_binding){
        inputs[i], test_tensor(test_context, i < 4 ? COMPUTE_I64 : COMPUTE_F32, shape, zeros)};
  }
  for (int i = 0; i < 5; i++)
    out[i] = (compute_model_binding){outputs[i], in[i == 0 ? 0 : 3 + i].tensor};
  int64_t tokens[TOKENS + 1] = {3};
  for (int64_t n = 0; n < TOKENS; n++) {
    assert_ok(compute_tensor_write(in[1].tensor, &n, sizeof n));
    assert_ok(compute_tensor_write(in[2].tensor, &n, sizeof n));
    assert_ok(compute_tensor_write(in[3].tensor, &(int64_t){n + 1}, sizeof n));
    if (n == 0) assert_ok(compute_tensor_write(in[0].tensor, tokens, sizeof n));
    assert_ok(compute_model_run(cached, in, 8, out, 5));
    assert_ok(compute_tensor_read(in[0].tensor, &tokens[n + 1], sizeof n));
    assert_int_equal(tokens[n + 1], find_next(plain, tokens, n + 1));
  }
  bool varies = false;
  for (int64_t n = 1; n < TOKENS; n++) varies |= tokens[n] != tokens[n + 1];
  assert_true(varies);
  compute_model_info info;
  assert_ok(compute_model_describe(cached, &info));
  assert_int_equal(info.plans_made, 1);
  assert_int_equal(info.runs, TOKENS);
  for (int i = 0; i < 8; i++) compute_tensor_release(in[i].tensor);
  compute_model_release(cached);
  compute_model_release(plain);
  for (int i = 0; i < 2; i++) free(data[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_plan_decodes_all_tokens)};
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
