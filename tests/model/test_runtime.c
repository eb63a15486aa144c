/* SPDX-License-Identifier: MIT */
/* Operators of ONNX Runtime (com.microsoft) against their definitions in double precision; buffers
 * of keys and values that past and present share, in which sequences grow without another plan. */
#include <math.h>
#include <stdlib.h>

#include "model/message_writer.h"
#include "support/harness/values.h"

enum { HEADS = 4, WIDTH = 8, MODEL = HEADS * WIDTH, BATCH = 2, CAPACITY = 24 };

/* ---- One node ---------------------------------------------------------------------------------
 */

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

/* A model of the node; `data` is freed after it. */
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

/* What a query sees, and how. */
typedef struct attention_case {
  const char *name;
  int64_t shared;  /* heads of keys and values */
  int64_t queries; /* of a step */
  int64_t window;  /* 0: all */
  bool causal;
  float softcap;
} attention_case;

/* y[queries, MODEL] of one sequence: keys and values are [shared, CAPACITY, WIDTH], with `past`
 * that are older than the queries' own. */
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

/* New rows [queries, shared · WIDTH] at `past` of a cache [shared, CAPACITY, WIDTH]. */
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

/* Sequences of different lengths grow in caches that are bound as inputs and as outputs: their
 * lengths are no part of the plan. */
static void sequences_grow_in_a_shared_buffer_with_one_plan(void **state) {
  (void)state;
  static const attention_case cases[] = {
      {"a token", 2, 1, 0, true, 0},       {"three tokens", 2, 3, 0, true, 0},
      {"a window", HEADS, 1, 5, true, 0},  {"a window of a chunk", 1, 3, 2, true, 0},
      {"a soft cap", 2, 1, 0, true, 0.5f}, {"both ways", 2, 3, 0, false, 0},
  };
  for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
    const attention_case *c = &cases[n];
    test_random random = {n + 1};
    const int64_t rows = c->queries * c->shared * WIDTH, cache = c->shared * CAPACITY * WIDTH;
    static float q[BATCH * 3 * MODEL], k[BATCH * 3 * MODEL], v[BATCH * 3 * MODEL];
    static float keys[BATCH * CAPACITY * MODEL], values[BATCH * CAPACITY * MODEL];
    double y[BATCH * 3 * MODEL];
    int64_t past[BATCH] = {0, 4};
    void *data;
    compute_model *model = load_groups(c, &data);
    compute_model_binding in[7], out[3] = {{"y", NULL}};
    fill(&random, keys, BATCH * cache);
    fill(&random, values, BATCH * cache);
    const compute_shape buffer = COMPUTE_SHAPE(BATCH, c->shared, CAPACITY, WIDTH);
    bind(&in[0], "q", COMPUTE_F32, COMPUTE_SHAPE(BATCH, c->queries, MODEL), NULL);
    bind(&in[1], "k", COMPUTE_F32, COMPUTE_SHAPE(BATCH, c->queries, c->shared * WIDTH), NULL);
    bind(&in[2], "v", COMPUTE_F32, COMPUTE_SHAPE(BATCH, c->queries, c->shared * WIDTH), NULL);
    bind(&in[3], "past_k", COMPUTE_F32, buffer, keys);
    bind(&in[4], "past_v", COMPUTE_F32, buffer, values);
    bind(&in[5], "last", COMPUTE_I32, COMPUTE_SHAPE(BATCH), NULL);
    bind(&in[6], "total", COMPUTE_I32, COMPUTE_SHAPE(1), NULL);
    out[1] = (compute_model_binding){"present_k", in[3].tensor};
    out[2] = (compute_model_binding){"present_v", in[4].tensor};
    while (past[1] + c->queries <= CAPACITY) {
      int32_t last[BATCH];
      fill(&random, q, BATCH * c->queries * MODEL);
      fill(&random, k, BATCH * rows);
      fill(&random, v, BATCH * rows);
      for (int64_t b = 0; b < BATCH; b++) {
        last[b] = (int32_t)(past[b] + c->queries - 1);
        append(c, past[b], k + b * rows, keys + b * cache);
        append(c, past[b], v + b * rows, values + b * cache);
        attend(c, past[b], q + b * c->queries * MODEL, keys + b * cache, values + b * cache,
               y + b * c->queries * MODEL);
        past[b] += c->queries;
      }
      const int32_t total = last[1] + 1;
      assert_ok(compute_tensor_write(in[0].tensor, q, BATCH * (size_t)c->queries * MODEL * 4));
      assert_ok(compute_tensor_write(in[1].tensor, k, BATCH * (size_t)rows * 4));
      assert_ok(compute_tensor_write(in[2].tensor, v, BATCH * (size_t)rows * 4));
      assert_ok(compute_tensor_write(in[5].tensor, last, sizeof last));
      assert_ok(compute_tensor_write(in[6].tensor, &total, sizeof total));
      assert_ok(compute_model_run(model, in, 7, out, 3));
      assert_values(out[0].tensor, y, BATCH * c->queries * MODEL);
    }
    assert_plans(model, 2); /* the first is for what the present's size depends on */
    for (int64_t i = 0; i < BATCH * cache; i++) {
      assert_true(test_element(in[3].tensor, i) == (double)keys[i]);
      assert_true(test_element(in[4].tensor, i) == (double)values[i]);
    }
    /* One that has grown beyond its buffer, whatever the total says. */
    assert_ok(compute_tensor_write(in[5].tensor, &(int32_t[]){3, CAPACITY}, 2 * sizeof(int32_t)));
    assert_fails(compute_model_run(model, in, 7, out, 3), COMPUTE_ERROR_INDEX);
    release(in, 7);
    release(out, 1);
    compute_model_release(model);
    free(data);
  }
}

/* A present that is larger than the past has the new rows behind those that count. */
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

/* MultiHeadAttention and Attention, whose past's length is a number for all sequences. Attention's
 * projections are the identity, and its keys and values one buffer. */
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

/* ---- Without another implementation -----------------------------------------------------------
 */

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

/* Element (image, pixel, channel) in either layout. */
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sequences_grow_in_a_shared_buffer_with_one_plan),
      cmocka_unit_test(a_buffer_that_is_too_small_is_enlarged),
      cmocka_unit_test(one_length_for_all_sequences_is_no_part_of_a_plan),
      cmocka_unit_test(bias_add_adds_the_bias_of_a_channel_and_what_is_skipped),
      cmocka_unit_test(group_norm_takes_both_layouts_and_activations),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
