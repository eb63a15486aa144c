/* SPDX-License-Identifier: MIT */
/* Operators of ONNX Runtime (com.microsoft), compared with their definitions in double
 * precision. Past and present may share buffers of keys and values; sequences grow in them
 * without a new plan. */
#include <math.h>
#include <stdlib.h>

#include "model/message_writer.h"
#include "support/harness/values.h"

enum { HEADS = 4, WIDTH = 8, MODEL = HEADS * WIDTH, BATCH = 2, CAPACITY = 24 };

/* ---- One node -------------------------------------------------------------------------------- */

static proto runtime_node(const char *type, const char *inputs, const char *outputs) {
  proto node = node_message("node", type, inputs, outputs);
  put_text(&node, 7, "com.microsoft");
  return node;
}

static void put_float_attribute(proto *node, const char *name, float value) {
  proto attribute = {0};
  put_text(&attribute, 1, name);
  put_float(&attribute, 2, value);
  put_integer(&attribute, 20, 1);
  put_message(node, NODE_ATTRIBUTE, attribute);
}

/* A model of the node. The caller frees `data` after the model. */
static compute_model *load(proto node, const char *inputs, const char *outputs, void **data) {
  proto graph = graph_message(inputs, outputs), model = {0};
  put_message(&graph, GRAPH_NODE, node);
  put_integer(&model, 1, 10);
  put_message(&model, MODEL_GRAPH, graph);
  put_message(&model, 8, opset_message("", 20));
  put_message(&model, 8, opset_message("com.microsoft", 1));
  compute_model *loaded = NULL;
  assert_ok(compute_model_load_memory(test_context, model.data, model.bytes, NULL, &loaded));
  *data = model.data;
  return loaded;
}

static void fill(test_random *random, float *values, int64_t count) {
  for (int64_t i = 0; i < count; i++) values[i] = (float)test_random_uniform(random, -1, 1);
}

static void bind(compute_model_binding *binding, const char *name, compute_dtype dtype,
                 compute_shape shape, const void *data) {
  *binding = (compute_model_binding){name, test_tensor(test_context, dtype, shape, data)};
}

static void release(compute_model_binding *bindings, size_t count) {
  for (size_t i = 0; i < count; i++) compute_tensor_release(bindings[i].tensor);
}

static void assert_values(const compute_tensor *tensor, const double *expected, int64_t count) {
  assert_int_equal(compute_tensor_count(tensor), count);
  for (int64_t i = 0; i < count; i++) {
    const double value = test_element(tensor, i);
    if (!(fabs(value - expected[i]) <= 2e-6 + 2e-6 * fabs(expected[i])))
      fail_msg("element %lld is %.9g, not %.9g", (long long)i, value, expected[i]);
  }
}

/* ---- Attention ------------------------------------------------------------------------------- */

/* The visible keys of a query, and the options of the attention. */
typedef struct attention_case {
  const char *name;
  int64_t shared;  /* heads of keys and values */
  int64_t queries; /* of a step */
  int64_t window;  /* 0: all */
  bool causal;
  float softcap;
} attention_case;

/* y[queries, MODEL] of one sequence. Keys and values are [shared, CAPACITY, WIDTH]; `past` of them
 * precede the queries. */
static void attend(const attention_case *c, int64_t past, const float *q, const float *keys,
                   const float *values, double *y) {
  const int64_t group = HEADS / c->shared, all = past + c->queries;
  for (int64_t i = 0; i < c->queries; i++)
    for (int64_t h = 0; h < HEADS; h++) {
      const float *k = keys + h / group * CAPACITY * WIDTH, *v = values + (k - keys);
      const float *query = q + i * MODEL + h * WIDTH;
      double *to = y + i * MODEL + h * WIDTH, total = 0;
      for (int64_t e = 0; e < WIDTH; e++) to[e] = 0;
      for (int64_t j = 0; j < all; j++) {
        double score = 0;
        if (c->causal && j > past + i) continue;
        if (c->window && j <= past + i - c->window) continue;
        for (int64_t e = 0; e < WIDTH; e++) score += (double)query[e] * (double)k[j * WIDTH + e];
        score /= sqrt(WIDTH);
        if (c->softcap > 0) score = (double)c->softcap * tanh(score / (double)c->softcap);
        const double weight = exp(score);
        total += weight;
        for (int64_t e = 0; e < WIDTH; e++) to[e] += weight * (double)v[j * WIDTH + e];
      }
      for (int64_t e = 0; e < WIDTH; e++) to[e] /= total;
    }
}

/* Writes new rows [queries, shared · WIDTH] at `past` of a cache [shared, CAPACITY, WIDTH]. */
static void append(const attention_case *c, int64_t past, const float *rows, float *cache) {
  for (int64_t i = 0; i < c->queries; i++)
    for (int64_t h = 0; h < c->shared; h++)
      memcpy(cache + (h * CAPACITY + past + i) * WIDTH, rows + (i * c->shared + h) * WIDTH,
             WIDTH * sizeof *rows);
}

static void assert_plans(compute_model *model, uint64_t expected) {
  compute_model_info info;
  assert_ok(compute_model_describe(model, &info));
  assert_int_equal(info.plans_made, expected);
}

static compute_model *load_groups(const attention_case *c, void **data) {
  static const char *const inputs = "q,k,v,past_k,past_v,last,total";
  proto node = runtime_node("GroupQueryAttention", inputs, "y,present_k,present_v");
  put_integer_attribute(&node, "num_heads", HEADS);
  put_integer_attribute(&node, "kv_num_heads", c->shared);
  if (c->window) put_integer_attribute(&node, "local_window_size", c->window);
  if (!c->causal) put_integer_attribute(&node, "causal", 0);
  if (c->softcap > 0) put_float_attribute(&node, "softcap", c->softcap);
  return load(node, inputs, "y,present_k,present_v", data);
}

/* Sequences that grow in caches; the caches are bound both as inputs and as outputs. */
typedef struct growth {
  const attention_case *c;
  test_random random;
  int64_t past[BATCH];
  int64_t rows, cache; /* elements of the new keys and of the cache, for each sequence */
  float q[BATCH * 3 * MODEL], k[BATCH * 3 * MODEL], v[BATCH * 3 * MODEL];
  float keys[BATCH * CAPACITY * MODEL], values[BATCH * CAPACITY * MODEL];
  double y[BATCH * 3 * MODEL];
  compute_model_binding in[7], out[3];
} growth;

static void begin_growth(growth *g, const attention_case *c, uint64_t seed) {
  *g = (growth){.c = c, .random = {seed}, .past = {0, 4}};
  g->rows = c->queries * c->shared * WIDTH;
  g->cache = c->shared * CAPACITY * WIDTH;
  fill(&g->random, g->keys, BATCH * g->cache);
  fill(&g->random, g->values, BATCH * g->cache);
  const compute_shape buffer = COMPUTE_SHAPE(BATCH, c->shared, CAPACITY, WIDTH);
  const compute_shape rows = COMPUTE_SHAPE(BATCH, c->queries, c->shared * WIDTH);
  bind(&g->in[0], "q", COMPUTE_F32, COMPUTE_SHAPE(BATCH, c->queries, MODEL), NULL);
  bind(&g->in[1], "k", COMPUTE_F32, rows, NULL);
  bind(&g->in[2], "v", COMPUTE_F32, rows, NULL);
  bind(&g->in[3], "past_k", COMPUTE_F32, buffer, g->keys);
  bind(&g->in[4], "past_v", COMPUTE_F32, buffer, g->values);
  bind(&g->in[5], "last", COMPUTE_I32, COMPUTE_SHAPE(BATCH), NULL);
  bind(&g->in[6], "total", COMPUTE_I32, COMPUTE_SHAPE(1), NULL);
  g->out[0] = (compute_model_binding){"y", NULL};
  g->out[1] = (compute_model_binding){"present_k", g->in[3].tensor};
  g->out[2] = (compute_model_binding){"present_v", g->in[4].tensor};
}

/* One step: the new rows are in their places, and the results of the queries are right. */
static void grow(growth *g, compute_model *model) {
  const attention_case *c = g->c;
  int32_t last[BATCH];
  fill(&g->random, g->q, BATCH * c->queries * MODEL);
  fill(&g->random, g->k, BATCH * g->rows);
  fill(&g->random, g->v, BATCH * g->rows);
  for (int64_t b = 0; b < BATCH; b++) {
    float *keys = g->keys + b * g->cache, *values = g->values + b * g->cache;
    last[b] = (int32_t)(g->past[b] + c->queries - 1);
    append(c, g->past[b], g->k + b * g->rows, keys);
    append(c, g->past[b], g->v + b * g->rows, values);
    attend(c, g->past[b], g->q + b * c->queries * MODEL, keys, values,
           g->y + b * c->queries * MODEL);
    g->past[b] += c->queries;
  }
  const int32_t total = last[1] + 1;
  const size_t rows = BATCH * (size_t)g->rows * sizeof(float);
  assert_ok(compute_tensor_write(g->in[0].tensor, g->q,
                                 BATCH * (size_t)c->queries * MODEL * sizeof(float)));
  assert_ok(compute_tensor_write(g->in[1].tensor, g->k, rows));
  assert_ok(compute_tensor_write(g->in[2].tensor, g->v, rows));
  assert_ok(compute_tensor_write(g->in[5].tensor, last, sizeof last));
  assert_ok(compute_tensor_write(g->in[6].tensor, &total, sizeof total));
  assert_ok(compute_model_run(model, g->in, 7, g->out, 3));
  assert_values(g->out[0].tensor, g->y, BATCH * c->queries * MODEL);
}

/* One plan serves all lengths that fit into the buffer. */
static void sequences_grow_in_a_shared_buffer_with_one_plan(void **state) {
  (void)state;
  static const attention_case cases[] = {
      {"a token", 2, 1, 0, true, 0},       {"three tokens", 2, 3, 0, true, 0},
      {"a window", HEADS, 1, 5, true, 0},  {"a window of a chunk", 1, 3, 2, true, 0},
      {"a soft cap", 2, 1, 0, true, 0.5f}, {"both ways", 2, 3, 0, false, 0},
  };
  static growth g;
  for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
    void *data;
    compute_model *model = load_groups(&cases[n], &data);
    begin_growth(&g, &cases[n], n + 1);
    while (g.past[1] + g.c->queries <= CAPACITY) grow(&g, model);
    assert_plans(model, 2); /* the first plan computes the values that decide the present's size */
    for (int64_t i = 0; i < BATCH * g.cache; i++) {
      assert_true(test_element(g.in[3].tensor, i) == (double)g.keys[i]);
      assert_true(test_element(g.in[4].tensor, i) == (double)g.values[i]);
    }
    /* A sequence longer than its buffer is refused, whatever the total length is. */
    assert_ok(compute_tensor_write(g.in[5].tensor, &(int32_t[]){3, CAPACITY}, 2 * sizeof(int32_t)));
    assert_fails(compute_model_run(model, g.in, 7, g.out, 3), COMPUTE_ERROR_INDEX);
    release(g.in, 7);
    release(g.out, 1);
    compute_model_release(model);
    free(data);
  }
}

/* If the present is larger than the past, the new rows follow the valid rows. */
static void a_buffer_that_is_too_small_is_enlarged(void **state) {
  (void)state;
  const attention_case c = {"a token", HEADS, 1, 0, true, 0};
  const int64_t past[BATCH] = {CAPACITY - 1, 2};
  test_random random = {9};
  static float q[BATCH * MODEL], k[BATCH * MODEL], v[BATCH * MODEL];
  static float old[BATCH * MODEL * (CAPACITY - 1)];
  static float keys[BATCH * MODEL * CAPACITY];
  double y[BATCH * MODEL];
  void *data;
  compute_model *model = load_groups(&c, &data);
  compute_model_binding in[7], out[3] = {{"y", NULL}, {"present_k", NULL}, {"present_v", NULL}};
  fill(&random, q, BATCH * MODEL);
  fill(&random, k, BATCH * MODEL);
  fill(&random, old, BATCH * MODEL * (CAPACITY - 1));
  memcpy(v, k, sizeof v);
  for (int64_t b = 0; b < BATCH; b++) {
    float *own = keys + b * MODEL * CAPACITY;
    for (int64_t h = 0; h < HEADS; h++)
      memcpy(own + h * CAPACITY * WIDTH, old + (b * HEADS + h) * (CAPACITY - 1) * WIDTH,
             (size_t)past[b] * WIDTH * sizeof *own);
    append(&c, past[b], k + b * MODEL, own);
    attend(&c, past[b], q + b * MODEL, own, own, y + b * MODEL);
  }
  const compute_shape buffer = COMPUTE_SHAPE(BATCH, HEADS, CAPACITY - 1, WIDTH);
  bind(&in[0], "q", COMPUTE_F32, COMPUTE_SHAPE(BATCH, 1, MODEL), q);
  bind(&in[1], "k", COMPUTE_F32, COMPUTE_SHAPE(BATCH, 1, MODEL), k);
  bind(&in[2], "v", COMPUTE_F32, COMPUTE_SHAPE(BATCH, 1, MODEL), v);
  bind(&in[3], "past_k", COMPUTE_F32, buffer, old);
  bind(&in[4], "past_v", COMPUTE_F32, buffer, old);
  bind(&in[5], "last", COMPUTE_I32, COMPUTE_SHAPE(BATCH), (int32_t[]){CAPACITY - 1, 2});
  bind(&in[6], "total", COMPUTE_I32, COMPUTE_SHAPE(1), (int32_t[]){CAPACITY});
  assert_ok(compute_model_run(model, in, 7, out, 3));
  assert_values(out[0].tensor, y, BATCH * MODEL);
  for (int64_t i = 0; i < BATCH * MODEL * CAPACITY; i++)
    assert_true(test_element(out[1].tensor, i) == (double)keys[i]);
  release(in, 7);
  release(out, 3);
  compute_model_release(model);
  free(data);
}

/* MultiHeadAttention and Attention, which have one past length for all sequences. Attention's
 * projections are the identity, and its keys and values share one buffer. */
static void one_length_for_all_sequences_is_no_part_of_a_plan(void **state) {
  (void)state;
  enum { STEP = 3, ROWS = STEP * MODEL, CACHE = CAPACITY * MODEL };
  for (int whole = 0; whole < 2; whole++) {
    const attention_case c = {"unidirectional", HEADS, STEP, 0, true, 0};
    test_random random = {21};
    static float x[BATCH * ROWS], weights[MODEL * 3 * MODEL], buffers[2][BATCH * CACHE];
    double y[BATCH * ROWS];
    void *data;
    const char *inputs = whole ? "x,w,past,length" : "x,k,v,past_k,past_v,length";
    const char *outputs = whole ? "y,present" : "y,present_k,present_v";
    proto node = whole
                     ? runtime_node("Attention", "x,w,,,past,,length", outputs)
                     : runtime_node("MultiHeadAttention", "x,k,v,,,,past_k,past_v,length", outputs);
    put_integer_attribute(&node, "num_heads", HEADS);
    put_integer_attribute(&node, "unidirectional", 1);
    if (whole) put_integer_attribute(&node, "past_present_share_buffer", 1);
    compute_model *model = load(node, inputs, outputs, &data);
    fill(&random, &buffers[0][0], 2 * BATCH * CACHE);
    for (int64_t i = 0; i < MODEL * 3 * MODEL; i++)
      weights[i] = i / (3 * MODEL) == i % MODEL ? 1.0f : 0.0f;
    const compute_shape token = COMPUTE_SHAPE(BATCH, STEP, MODEL);
    const compute_shape buffer = COMPUTE_SHAPE(BATCH, HEADS, CAPACITY, WIDTH);
    compute_model_binding in[6], out[3] = {{"y", NULL}};
    bind(&in[0], "x", COMPUTE_F32, token, NULL);
    bind(&in[1], whole ? "w" : "k", COMPUTE_F32, whole ? COMPUTE_SHAPE(MODEL, 3 * MODEL) : token,
         whole ? weights : NULL);
    const size_t count = whole ? 4 : 6;
    if (whole) {
      bind(&in[2], "past", COMPUTE_F32, COMPUTE_SHAPE(2, BATCH, HEADS, CAPACITY, WIDTH), buffers);
      out[1] = (compute_model_binding){"present", in[2].tensor};
    } else {
      bind(&in[2], "v", COMPUTE_F32, token, NULL);
      bind(&in[3], "past_k", COMPUTE_F32, buffer, buffers[0]);
      bind(&in[4], "past_v", COMPUTE_F32, buffer, buffers[1]);
      out[1] = (compute_model_binding){"present_k", in[3].tensor};
      out[2] = (compute_model_binding){"present_v", in[4].tensor};
    }
    bind(&in[count - 1], "length", COMPUTE_I32, COMPUTE_SHAPE(1), NULL);
    for (int32_t past = 0; past + STEP <= CAPACITY; past += STEP) {
      fill(&random, x, BATCH * ROWS);
      for (int64_t b = 0; b < BATCH; b++) {
        append(&c, past, x + b * ROWS, buffers[0] + b * CACHE);
        append(&c, past, x + b * ROWS, buffers[1] + b * CACHE);
        attend(&c, past, x + b * ROWS, buffers[0] + b * CACHE, buffers[1] + b * CACHE,
               y + b * ROWS);
      }
      for (int i = 0; i < (whole ? 1 : 3); i++)
        assert_ok(compute_tensor_write(in[i].tensor, x, sizeof x));
      assert_ok(compute_tensor_write(in[count - 1].tensor, &past, sizeof past));
      assert_ok(compute_model_run(model, in, count, out, whole ? 2 : 3));
      assert_values(out[0].tensor, y, BATCH * ROWS);
    }
    assert_plans(model, 1);
    release(in, count);
    release(out, 1);
    compute_model_release(model);
    free(data);
  }
}

/* ---- Without another implementation ---------------------------------------------------------- */

static void bias_add_adds_the_bias_of_a_channel_and_what_is_skipped(void **state) {
  (void)state;
  enum { BATCHES = 2, PIXELS = 6, CHANNELS = 5, COUNT = BATCHES * PIXELS * CHANNELS };
  test_random random = {31};
  float x[COUNT], bias[CHANNELS], skip[COUNT];
  double y[COUNT];
  void *data;
  fill(&random, x, COUNT);
  fill(&random, bias, CHANNELS);
  fill(&random, skip, COUNT);
  for (int i = 0; i < COUNT; i++)
    y[i] = (double)x[i] + (double)bias[i % CHANNELS] + (double)skip[i];
  compute_model *model =
      load(runtime_node("BiasAdd", "x,bias,skip", "y"), "x,bias,skip", "y", &data);
  compute_model_binding in[3], out = {"y", NULL};
  bind(&in[0], "x", COMPUTE_F32, COMPUTE_SHAPE(BATCHES, PIXELS, CHANNELS), x);
  bind(&in[1], "bias", COMPUTE_F32, COMPUTE_SHAPE(CHANNELS), bias);
  bind(&in[2], "skip", COMPUTE_F32, COMPUTE_SHAPE(BATCHES, PIXELS, CHANNELS), skip);
  assert_ok(compute_model_run(model, in, 3, &out, 1));
  assert_values(out.tensor, y, COUNT);
  release(in, 3);
  release(&out, 1);
  compute_model_release(model);
  free(data);
}

enum { IMAGES = 2, ROWS = 3, COLUMNS = 4, CHANNELS = 6, GROUPS = 3 };
enum { PIXELS = ROWS * COLUMNS, ELEMENTS = IMAGES * PIXELS * CHANNELS };

/* The index of element (image, pixel, channel) in either layout. */
static int64_t place(bool last, int64_t n, int64_t p, int64_t c) {
  return last ? (n * PIXELS + p) * CHANNELS + c : (n * CHANNELS + c) * PIXELS + p;
}

static void normalize(const float *x, const float *gamma, const float *beta, bool last, bool silu,
                      double *y) {
  const int64_t size = CHANNELS / GROUPS;
  for (int64_t n = 0; n < IMAGES; n++)
    for (int64_t g = 0; g < GROUPS; g++) {
      double mean = 0, variance = 0;
      for (int64_t i = 0; i < size * PIXELS; i++)
        mean += (double)x[place(last, n, i % PIXELS, g * size + i / PIXELS)];
      mean /= (double)(size * PIXELS);
      for (int64_t i = 0; i < size * PIXELS; i++) {
        const double d = (double)x[place(last, n, i % PIXELS, g * size + i / PIXELS)] - mean;
        variance += d * d;
      }
      variance /= (double)(size * PIXELS);
      for (int64_t i = 0; i < size * PIXELS; i++) {
        const int64_t c = g * size + i / PIXELS, at = place(last, n, i % PIXELS, c);
        y[at] = (double)gamma[c] * ((double)x[at] - mean) / sqrt(variance + 1e-3) + (double)beta[c];
        if (silu) y[at] /= 1 + exp(-y[at]);
      }
    }
}

static void group_norm_takes_both_layouts_and_activations(void **state) {
  (void)state;
  test_random random = {41};
  float x[ELEMENTS], gamma[CHANNELS], beta[CHANNELS];
  double y[ELEMENTS];
  for (int form = 0; form < 4; form++) {
    const bool last = form & 1, silu = form & 2;
    void *data;
    fill(&random, x, ELEMENTS);
    fill(&random, gamma, CHANNELS);
    fill(&random, beta, CHANNELS);
    normalize(x, gamma, beta, last, silu, y);
    proto node = runtime_node("GroupNorm", "x,gamma,beta", "y");
    put_integer_attribute(&node, "groups", GROUPS);
    put_integer_attribute(&node, "activation", silu);
    put_float_attribute(&node, "epsilon", 1e-3f);
    if (!last) put_integer_attribute(&node, "channels_last", 0); /* 1 is the default */
    compute_model *model = load(node, "x,gamma,beta", "y", &data);
    compute_model_binding in[3], out = {"y", NULL};
    bind(&in[0], "x", COMPUTE_F32,
         last ? COMPUTE_SHAPE(IMAGES, ROWS, COLUMNS, CHANNELS)
              : COMPUTE_SHAPE(IMAGES, CHANNELS, ROWS, COLUMNS),
         x);
    bind(&in[1], "gamma", COMPUTE_F32, COMPUTE_SHAPE(CHANNELS), gamma);
    bind(&in[2], "beta", COMPUTE_F32, COMPUTE_SHAPE(CHANNELS), beta);
    assert_ok(compute_model_run(model, in, 3, &out, 1));
    assert_values(out.tensor, y, ELEMENTS);
    release(in, 3);
    release(&out, 1);
    compute_model_release(model);
    free(data);
  }
}

/* ---- Unsupported forms ----------------------------------------------------------------------- */

/* Runs a node whose inputs are all f32 [2, 4, 8], and expects an error with these words. */
static void assert_refused(proto node, const char *inputs, const char *outputs,
                           compute_status expected, const char *words) {
  static const char *const names[] = {"a", "b", "c"};
  void *data;
  compute_model *model = load(node, inputs, outputs, &data);
  compute_model_binding in[3], out = {"y", NULL};
  const size_t count = (strlen(inputs) + 1) / 2;
  for (size_t i = 0; i < count; i++)
    bind(&in[i], names[i], COMPUTE_F32, COMPUTE_SHAPE(2, 4, 8), NULL);
  assert_fails(compute_model_run(model, in, count, &out, 1), expected);
  test_check_message(test_context, words);
  release(in, count);
  compute_model_release(model);
  free(data);
}

static void attributes_without_an_effect_here_are_errors(void **state) {
  (void)state;
  proto node = runtime_node("GroupQueryAttention", "a,b,c,,,a,b", "y");
  put_integer_attribute(&node, "sliding_window_cache", 1);
  assert_refused(node, "a,b,c", "y", COMPUTE_ERROR_UNSUPPORTED, "sliding_window_cache");
  node = runtime_node("GroupNorm", "a,b,c", "y");
  put_integer_attribute(&node, "groups", 2);
  put_integer_attribute(&node, "activation", 2);
  assert_refused(node, "a,b,c", "y", COMPUTE_ERROR_UNSUPPORTED, "activation is 2");
  node = runtime_node("MatMulNBits", "a,b,c", "y");
  put_integer_attribute(&node, "weight_prepacked", 1);
  assert_refused(node, "a,b,c", "y", COMPUTE_ERROR_UNSUPPORTED, "own layout");
  node = runtime_node("Attention", "a,b", "y");
  put_integer_attribute(&node, "do_rotary", 1);
  assert_refused(node, "a,b", "y", COMPUTE_ERROR_UNSUPPORTED, "do_rotary");
}

static void attributes_of_the_wrong_type_are_errors(void **state) {
  (void)state;
  proto node = node_message("node", "LeakyRelu", "a", "y");
  put_integer_attribute(&node, "alpha", 1);
  assert_refused(node, "a", "y", COMPUTE_ERROR_FORMAT, "attribute 'alpha'");
  node = node_message("node", "Softmax", "a", "y");
  put_float_attribute(&node, "axis", 1);
  assert_refused(node, "a", "y", COMPUTE_ERROR_FORMAT, "attribute 'axis'");
  node = node_message("node", "Transpose", "a", "y");
  put_integer_attribute(&node, "perm", 1);
  assert_refused(node, "a", "y", COMPUTE_ERROR_FORMAT, "attribute 'perm'");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sequences_grow_in_a_shared_buffer_with_one_plan),
      cmocka_unit_test(a_buffer_that_is_too_small_is_enlarged),
      cmocka_unit_test(one_length_for_all_sequences_is_no_part_of_a_plan),
      cmocka_unit_test(bias_add_adds_the_bias_of_a_channel_and_what_is_skipped),
      cmocka_unit_test(group_norm_takes_both_layouts_and_activations),
      cmocka_unit_test(attributes_without_an_effect_here_are_errors),
      cmocka_unit_test(attributes_of_the_wrong_type_are_errors),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
