/* SPDX-License-Identifier: MIT */
/* Each public function refuses options with a nonzero reserved word, and names the word. A later
 * version may give the word a meaning, so a program that leaves garbage in it would break.
 *
 * check_structs.py reads the calls of REFUSED. There is one for each function and each struct with
 * reserved words that the function takes, including nested structs. */
#include <stdlib.h>
#include <string.h>

#include "support/harness/test.h"

/* `call` is refused for every word of `words`, the reserved words of `type` in the arguments of
 * `function`. Messages name them `what`. `call` is an expression with a status. */
#define REFUSED(function, type, what, words, call)                                                 \
  do {                                                                                             \
    _Static_assert(sizeof(words) == sizeof(((type *)0)->reserved), "the words of another struct"); \
    for (size_t word = 0; word < sizeof(words) / sizeof *(words); word++) {                        \
      compute_error_clear(NULL);                                                                   \
      (words)[word] = UINT64_C(1) << 63;                                                           \
      expect(#function, (what), word, (call));                                                     \
      (words)[word] = 0;                                                                           \
    }                                                                                              \
  } while (0)

static compute_graph *graph;

static void expect(const char *function, const char *what, size_t word, compute_status status) {
  char text[80];
  compute_error error;
  snprintf(text, sizeof text, ": %s.reserved[%zu] is not zero", what, word);
  compute_error_get(NULL, &error);
  const char *found = strstr(error.message, text);
  if (status != COMPUTE_ERROR_INVALID_ARGUMENT || error.status != status || !found ||
      found[strlen(text)] != '\0')
    fail_msg("%s with %s.reserved[%zu]: %s, '%s'", function, what, word,
             compute_status_name(status), error.message);
}

/* Returns the graph's error after a builder call, and clears it for the next call. */
static compute_status of_node(compute_node node) {
  const compute_status status = compute_graph_status(graph);
  if (status == COMPUTE_OK) assert_true(node.id != 0);
  compute_graph_clear_error(graph);
  return status;
}

static compute_status of_layer(compute_layer *layer) {
  compute_error error;
  compute_error_get(NULL, &error);
  compute_layer_release(layer);
  return layer ? COMPUTE_OK : error.status;
}

static compute_node input(int32_t rank, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e) {
  return compute_input(graph, COMPUTE_F32, (compute_shape){.rank = rank, .size = {a, b, c, d, e}});
}

static compute_node typed(compute_dtype dtype, int64_t rows, int64_t columns) {
  return compute_input(graph, dtype, COMPUTE_SHAPE(rows, columns));
}

static int begin(void **state) {
  const int failed = test_group_open(state);
  graph = compute_graph_create(test_context);
  return failed || !graph;
}

static int end(void **state) {
  compute_graph_release(graph);
  return test_group_close(state);
}

/* ---- The context --------------------------------------------------------------------------- */

static void of_contexts(void **state) {
  (void)state;
  compute_context *context = NULL;
  compute_open_options open = {0};
  compute_profile_options profile = {0};
  compute_validation_options validation = {0};
  compute_tune_options tune = {0};
  REFUSED(compute_open, compute_open_options, "options", open.reserved,
          compute_open(&context, &open));
  assert_null(context);
  REFUSED(compute_profile_start, compute_profile_options, "options", profile.reserved,
          compute_profile_start(test_context, &profile));
  REFUSED(compute_validation_start, compute_validation_options, "options", validation.reserved,
          compute_validation_start(test_context, &validation));
  REFUSED(compute_tune, compute_tune_options, "options", tune.reserved,
          compute_tune(compute_default_device(test_context), &tune));
}

/* ---- Tensors and files --------------------------------------------------------------------- */

static void of_tensors(void **state) {
  (void)state;
  compute_tensor *x = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2), NULL), *read = NULL;
  struct DLManagedTensor *plain = NULL;
  struct DLManagedTensorVersioned *versioned = NULL;
  compute_dlpack_options share = {0};
  compute_csv_options csv = {0};
  REFUSED(compute_tensor_to_dlpack, compute_dlpack_options, "options", share.reserved,
          compute_tensor_to_dlpack(x, &share, &plain));
  REFUSED(compute_tensor_to_dlpack_versioned, compute_dlpack_options, "options", share.reserved,
          compute_tensor_to_dlpack_versioned(x, &share, &versioned));
  REFUSED(compute_csv_read, compute_csv_options, "options", csv.reserved,
          compute_csv_read(compute_default_device(test_context), TEST_NOWHERE, COMPUTE_F32, &csv,
                           &read));
  compute_tensor_release(x);
}

static void of_groups(void **state) {
  (void)state;
  compute_process_group *group = NULL;
  compute_group_options open = {0};
  compute_group_call_options o = {0};
  compute_tensor *x = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(1, 2), NULL);
  REFUSED(compute_group_open, compute_group_options, "options", open.reserved,
          compute_group_open(test_context, &open, &group));
  assert_ok(compute_group_open(test_context, NULL, &group));
  REFUSED(compute_group_all_reduce, compute_group_call_options, "options", o.reserved,
          compute_group_all_reduce(group, COMPUTE_GROUP_SUM, x, x, &o, NULL));
  REFUSED(compute_group_reduce_scatter, compute_group_call_options, "options", o.reserved,
          compute_group_reduce_scatter(group, COMPUTE_GROUP_SUM, x, x, &o, NULL));
  REFUSED(compute_group_all_gather, compute_group_call_options, "options", o.reserved,
          compute_group_all_gather(group, x, x, &o, NULL));
  REFUSED(compute_group_broadcast, compute_group_call_options, "options", o.reserved,
          compute_group_broadcast(group, x, 0, &o, NULL));
  REFUSED(compute_group_send, compute_group_call_options, "options", o.reserved,
          compute_group_send(group, x, 0, &o, NULL));
  REFUSED(compute_group_receive, compute_group_call_options, "options", o.reserved,
          compute_group_receive(group, x, 0, &o, NULL));
  compute_group_close(group);
  compute_tensor_release(x);
}

/* ---- Builders of graphs -------------------------------------------------------------------- */

static void of_convolutions(void **state) {
  (void)state;
  const compute_node none = {0}, x = input(4, 1, 1, 5, 5, 0), w = input(4, 1, 1, 3, 3, 0),
                     volume = input(5, 1, 1, 5, 5, 5), cube = input(5, 1, 1, 3, 3, 3);
  const compute_node bytes = compute_input(graph, COMPUTE_U8, COMPUTE_SHAPE(1, 1, 5, 5)),
                     filter = compute_input(graph, COMPUTE_U8, COMPUTE_SHAPE(1, 1, 3, 3));
  compute_conv2d_options o = {0};
  compute_conv3d_options deep = {0};
  REFUSED(compute_conv2d, compute_conv2d_options, "options", o.reserved,
          of_node(compute_conv2d(graph, x, w, none, &o)));
  REFUSED(compute_conv2d_integer, compute_conv2d_options, "options", o.reserved,
          of_node(compute_conv2d_integer(graph, bytes, filter, none, none, &o)));
  REFUSED(compute_conv2d_transpose, compute_conv2d_options, "options", o.reserved,
          of_node(compute_conv2d_transpose(graph, x, w, none, &o)));
  REFUSED(compute_conv3d, compute_conv3d_options, "options", deep.reserved,
          of_node(compute_conv3d(graph, volume, cube, none, &deep)));
  REFUSED(compute_conv3d_transpose, compute_conv3d_options, "options", deep.reserved,
          of_node(compute_conv3d_transpose(graph, volume, cube, none, &deep)));
}

static void of_pooling(void **state) {
  (void)state;
  const compute_node x = input(4, 1, 1, 5, 5, 0), volume = input(5, 1, 1, 5, 5, 5);
  compute_pool2d_options o = {.size = {2, 2}};
  compute_pool3d_options deep = {.size = {2, 2, 2}};
  REFUSED(compute_max_pool2d, compute_pool2d_options, "options", o.reserved,
          of_node(compute_max_pool2d(graph, x, &o)));
  REFUSED(compute_argmax_pool2d, compute_pool2d_options, "options", o.reserved,
          of_node(compute_argmax_pool2d(graph, x, &o)));
  REFUSED(compute_average_pool2d, compute_pool2d_options, "options", o.reserved,
          of_node(compute_average_pool2d(graph, x, &o)));
  REFUSED(compute_max_pool3d, compute_pool3d_options, "options", deep.reserved,
          of_node(compute_max_pool3d(graph, volume, &deep)));
  REFUSED(compute_argmax_pool3d, compute_pool3d_options, "options", deep.reserved,
          of_node(compute_argmax_pool3d(graph, volume, &deep)));
  REFUSED(compute_average_pool3d, compute_pool3d_options, "options", deep.reserved,
          of_node(compute_average_pool3d(graph, volume, &deep)));
}

static void of_sampling(void **state) {
  (void)state;
  const compute_shape size = COMPUTE_SHAPE(4);
  compute_resize_options o = {0};
  compute_tensor *x = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2), NULL), *y = NULL;
  REFUSED(compute_resize, compute_resize_options, "options", o.reserved,
          of_node(compute_resize(graph, input(1, 2, 0, 0, 0, 0), size, &o)));
  REFUSED(compute_tensor_resize, compute_resize_options, "options", o.reserved,
          compute_tensor_resize(x, size, &o, &y));
  compute_tensor_release(x);
}

static void of_sequences(void **state) {
  (void)state;
  const compute_node q = input(3, 1, 2, 4, 0, 0), x = input(3, 2, 1, 3, 0, 0);
  const compute_node one = input(2, 3, 2, 0, 0, 0), own = input(2, 2, 2, 0, 0, 0);
  const compute_node three = input(2, 3, 6, 0, 0, 0), own3 = input(2, 2, 6, 0, 0, 0);
  const compute_node four = input(2, 3, 8, 0, 0, 0), own4 = input(2, 2, 8, 0, 0, 0);
  compute_attention_options attention = {0};
  compute_recurrent_options o = {0};
  REFUSED(compute_scaled_attention, compute_attention_options, "options", attention.reserved,
          of_node(compute_scaled_attention(graph, q, q, q, &attention)));
  REFUSED(compute_rnn, compute_recurrent_options, "options", o.reserved,
          of_node(compute_rnn(graph, x, one, own, &o, NULL)));
  REFUSED(compute_gru, compute_recurrent_options, "options", o.reserved,
          of_node(compute_gru(graph, x, three, own3, &o, NULL)));
  REFUSED(compute_lstm, compute_recurrent_options, "options", o.reserved,
          of_node(compute_lstm(graph, x, four, own4, &o, NULL)));
}

static compute_status copy_call(void *user, const compute_call_arguments *arguments, int32_t part,
                                int32_t parts) {
  (void)user, (void)arguments, (void)part, (void)parts;
  return COMPUTE_OK;
}

static void of_other_operations(void **state) {
  (void)state;
  const compute_node none = {0}, x = input(2, 3, 8, 0, 0, 0);
  const compute_node packed = typed(COMPUTE_U8, 4, 8), scale = typed(COMPUTE_F32, 4, 1);
  const compute_node frames = input(3, 2, 9, 9, 0, 0);
  const compute_call_output out = {COMPUTE_F32, COMPUTE_SHAPE(3)};
  compute_quantized_options packing = {.bits = 8, .block = 8};
  compute_call_options call = {0};
  compute_spot_options spots = {.sigma = 1};
  compute_tree_ensemble_options trees = {.targets = 1};
  const bool spot[9] = {0};
  int64_t count;
  REFUSED(compute_dequantize, compute_quantized_options, "options", packing.reserved,
          of_node(compute_dequantize(graph, packed, scale, none, 8, &packing)));
  REFUSED(compute_quantized_matmul, compute_quantized_options, "options", packing.reserved,
          of_node(compute_quantized_matmul(graph, x, packed, scale, none, &packing)));
  REFUSED(compute_call, compute_call_options, "options", call.reserved,
          of_node(compute_call(graph, copy_call, NULL, &x, 1, &out, 1, &call, NULL)));
  REFUSED(compute_tree_ensemble, compute_tree_ensemble_options, "options", trees.reserved,
          of_node(compute_tree_ensemble(graph, x, &trees)));
  REFUSED(compute_find_spots, compute_spot_options, "options", spots.reserved,
          of_node(compute_find_spots(graph, frames, &spots, NULL)));
  REFUSED(
      compute_spot_corners, compute_spot_options, "options", spots.reserved,
      compute_spot_corners(test_context, &spots, spot, NULL, 1, 3, 3, 3, 3, 0, NULL, 0, &count));
}

static void of_optimizers(void **state) {
  (void)state;
  compute_tensor *w = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3), (float[3]){1, 2, 3});
  const compute_node p = compute_parameter(graph, w),
                     loss = compute_sum(graph, p, COMPUTE_ALL_AXES, false);
  const compute_node slope = input(1, 3, 0, 0, 0, 0);
  compute_sgd_options sgd = {.learning_rate = 0.1};
  compute_adam_options adam = {.learning_rate = 0.1};
  compute_rmsprop_options rmsprop = {.learning_rate = 0.1};
  REFUSED(compute_sgd_step, compute_sgd_options, "options", sgd.reserved,
          of_node(compute_sgd_step(graph, loss, &p, 1, &sgd)));
  REFUSED(compute_sgd_apply, compute_sgd_options, "options", sgd.reserved,
          of_node(compute_sgd_apply(graph, &p, &slope, 1, &sgd)));
  REFUSED(compute_adam_step, compute_adam_options, "options", adam.reserved,
          of_node(compute_adam_step(graph, loss, &p, 1, &adam)));
  REFUSED(compute_adam_apply, compute_adam_options, "options", adam.reserved,
          of_node(compute_adam_apply(graph, &p, &slope, 1, &adam)));
  REFUSED(compute_rmsprop_step, compute_rmsprop_options, "options", rmsprop.reserved,
          of_node(compute_rmsprop_step(graph, loss, &p, 1, &rmsprop)));
  REFUSED(compute_rmsprop_apply, compute_rmsprop_options, "options", rmsprop.reserved,
          of_node(compute_rmsprop_apply(graph, &p, &slope, 1, &rmsprop)));
  compute_tensor_release(w);
}

/* ---- Plans and models ---------------------------------------------------------------------- */

static void of_plans(void **state) {
  (void)state;
  const compute_node y = compute_full(graph, COMPUTE_F32, COMPUTE_SHAPE(2), 1);
  compute_plan *plan = NULL;
  compute_job *job = NULL;
  compute_plan_options compile = {0};
  compute_run_options run = {0};
  compute_submit_options submit = {0};
  REFUSED(compute_compile, compute_plan_options, "options", compile.reserved,
          compute_compile(graph, &y, 1, &compile, &plan));
  plan = test_compile(graph, &y, 1, 0);
  compute_tensor *out = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2), NULL);
  const compute_binding binding = {y, out};
  REFUSED(compute_run_with, compute_run_options, "options", run.reserved,
          compute_run_with(plan, &binding, 1, &run, NULL));
  REFUSED(compute_submit, compute_submit_options, "options", submit.reserved,
          compute_submit(plan, &binding, 1, &submit, &job));
  compute_plan_release(plan);
  compute_tensor_release(out);
}

static compute_status record_nothing(void *user, compute_model_call *call) {
  (void)user, (void)call;
  return COMPUTE_OK;
}

static void of_models(void **state) {
  (void)state;
  static const char path[] = TEST_SCRATCH_DIR "/model.onnx";
  static char bytes[4096];
  const compute_node x = input(2, 1, 3, 0, 0, 0), y = compute_neg(graph, x);
  const compute_model_value in = {"x", x}, out = {"y", y};
  compute_model *model = NULL;
  compute_batch *batch = NULL;
  compute_model_export_options save = {0};
  compute_model_operator operator= {.domain = "own", .name = "Own", .record = record_nothing};
  compute_model_options o = {.operators = &operator, .operator_count = 1 };
  compute_batch_options items = {0};
  REFUSED(compute_graph_save_onnx, compute_model_export_options, "options", save.reserved,
          compute_graph_save_onnx(graph, &in, 1, &out, 1, path, &save));
  assert_ok(compute_graph_save_onnx(graph, &in, 1, &out, 1, path, NULL));
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  const size_t size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  REFUSED(compute_model_load, compute_model_options, "options", o.reserved,
          compute_model_load(test_context, path, &o, &model));
  REFUSED(compute_model_load, compute_model_operator, "options.operators[0]", operator.reserved,
          compute_model_load(test_context, path, &o, &model));
  REFUSED(compute_model_load_memory, compute_model_options, "options", o.reserved,
          compute_model_load_memory(test_context, bytes, size, &o, &model));
  REFUSED(compute_model_load_memory, compute_model_operator,
          "options.operators[0]", operator.reserved,
          compute_model_load_memory(test_context, bytes, size, &o, &model));
  assert_ok(compute_model_load_memory(test_context, bytes, size, &o, &model));
  compute_quantize_options quantize = {.method = COMPUTE_QUANTIZE_F16};
  REFUSED(compute_model_quantize, compute_quantize_options, "options", quantize.reserved,
          compute_model_quantize(model, path, &quantize, NULL));
  compute_model_run_options run = {0};
  REFUSED(compute_model_run_with, compute_model_run_options, "options", run.reserved,
          compute_model_run_with(model, NULL, 0, NULL, 0, &run));
  REFUSED(compute_model_run_items, compute_model_run_options, "options", run.reserved,
          compute_model_run_items(model, NULL, 0, NULL, 0, &run));
  REFUSED(compute_model_batch, compute_batch_options, "options", items.reserved,
          compute_model_batch(model, &items, &batch));
  compute_model_release(model);
}

/* ---- Layers and training ------------------------------------------------------------------- */

static void of_layers(void **state) {
  (void)state;
  compute_device *device = compute_default_device(test_context);
  compute_weights_options weights = {0};
  compute_conv2d_layer_options conv = {0};
  compute_norm_options norm = {0};
  compute_pool2d_options pool = {0};
  compute_forward forward = {0};
  REFUSED(compute_dense, compute_weights_options, "options", weights.reserved,
          of_layer(compute_dense(device, 3, 2, &weights)));
  REFUSED(compute_embedding, compute_weights_options, "options", weights.reserved,
          of_layer(compute_embedding(device, 3, 2, &weights)));
  REFUSED(compute_conv2d_layer, compute_conv2d_layer_options, "options", conv.reserved,
          of_layer(compute_conv2d_layer(device, 1, 1, 3, &conv)));
  REFUSED(compute_conv2d_layer, compute_weights_options, "options.weights", conv.weights.reserved,
          of_layer(compute_conv2d_layer(device, 1, 1, 3, &conv)));
  REFUSED(compute_conv2d_transpose_layer, compute_conv2d_layer_options, "options", conv.reserved,
          of_layer(compute_conv2d_transpose_layer(device, 1, 1, 3, &conv)));
  REFUSED(compute_conv2d_transpose_layer, compute_weights_options, "options.weights",
          conv.weights.reserved, of_layer(compute_conv2d_transpose_layer(device, 1, 1, 3, &conv)));
  REFUSED(compute_batch_norm_layer, compute_norm_options, "options", norm.reserved,
          of_layer(compute_batch_norm_layer(device, 2, &norm)));
  REFUSED(compute_layer_norm_layer, compute_norm_options, "options", norm.reserved,
          of_layer(compute_layer_norm_layer(device, 2, &norm)));
  REFUSED(compute_max_pool, compute_pool2d_options, "options", pool.reserved,
          of_layer(compute_max_pool(2, &pool)));
  REFUSED(compute_average_pool, compute_pool2d_options, "options", pool.reserved,
          of_layer(compute_average_pool(2, &pool)));
  compute_layer *layer = compute_dense(device, 3, 2, NULL);
  const compute_node x = input(2, 1, 3, 0, 0, 0);
  REFUSED(compute_layer_apply, compute_forward, "forward", forward.reserved,
          of_node(compute_layer_apply(layer, graph, x, &forward)));
  compute_layer_release(layer);
}

static void of_trainers(void **state) {
  (void)state;
  compute_layer *layer = compute_dense(compute_default_device(test_context), 3, 2, NULL);
  compute_trainer *trainer = NULL;
  compute_trainer_options o = {.model = layer,
                               .input = {COMPUTE_F32, COMPUTE_SHAPE(3)},
                               .target = {COMPUTE_F32, COMPUTE_SHAPE(2)},
                               .batch = 2,
                               .loss = COMPUTE_LOSS_MEAN_SQUARED_ERROR};
  REFUSED(compute_trainer_create, compute_trainer_options, "options", o.reserved,
          compute_trainer_create(test_context, &o, &trainer));
  REFUSED(compute_trainer_create, compute_optimizer_options, "options.optimizer",
          o.optimizer.reserved, compute_trainer_create(test_context, &o, &trainer));
  REFUSED(compute_trainer_create, compute_schedule, "options.schedule", o.schedule.reserved,
          compute_trainer_create(test_context, &o, &trainer));
  assert_ok(compute_trainer_create(test_context, &o, &trainer));
  compute_tensor *x = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(4, 3), NULL),
                 *y = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(4, 2), NULL);
  compute_dataset *set = NULL;
  assert_ok(compute_dataset_from_tensors(test_context, x, y, &set));
  compute_trainer_run_options run = {.epochs = 1};
  REFUSED(compute_trainer_run, compute_trainer_run_options, "options", run.reserved,
          compute_trainer_run(trainer, set, &run, NULL));
  compute_trainer_release(trainer);
  compute_dataset_release(set);
  compute_tensor_release(x);
  compute_tensor_release(y);
  compute_layer_release(layer);
}

/* ---- Batches and fits ---------------------------------------------------------------------- */

static void negate(void *user, compute_graph *into, int64_t items, const compute_node *inputs,
                   compute_node *outputs) {
  (void)user, (void)items;
  outputs[0] = compute_neg(into, inputs[0]);
}

static void of_batches(void **state) {
  (void)state;
  const compute_batch_port port = {COMPUTE_F32, COMPUTE_SHAPE(2)};
  const float from[4] = {0};
  float to[4];
  compute_batch *batch = NULL;
  compute_batch_options o = {
      .build = negate, .inputs = &port, .input_count = 1, .output_count = 1, .batch = 2};
  compute_batch_source source = {.array = from};
  compute_batch_sink sink = {.array = to};
  compute_batch_run_options run = {.items = 2, .sources = &source, .sinks = &sink};
  REFUSED(compute_batch_create, compute_batch_options, "options", o.reserved,
          compute_batch_create(test_context, &o, &batch));
  assert_ok(compute_batch_create(test_context, &o, &batch));
  REFUSED(compute_batch_run, compute_batch_run_options, "options", run.reserved,
          compute_batch_run(batch, &run, NULL));
  REFUSED(compute_batch_run, compute_batch_source, "options.sources[0]", source.reserved,
          compute_batch_run(batch, &run, NULL));
  REFUSED(compute_batch_run, compute_batch_sink, "options.sinks[0]", sink.reserved,
          compute_batch_run(batch, &run, NULL));
  compute_batcher *batcher = NULL;
  compute_batcher_options gathered = {0};
  compute_batcher_submit_options submitted = {0};
  const void *const one[] = {from};
  void *const result[] = {to};
  REFUSED(compute_batcher_create, compute_batcher_options, "options", gathered.reserved,
          compute_batcher_create(batch, &gathered, &batcher));
  assert_ok(compute_batcher_create(batch, &gathered, &batcher));
  REFUSED(compute_batcher_submit, compute_batcher_submit_options, "options", submitted.reserved,
          compute_batcher_submit(batcher, one, result, &submitted, NULL));
  compute_batcher_release(batcher);
  compute_batch_release(batch);
}

/* The status of a run on another thread, whether start or wait reports it. */
static compute_status start(compute_fit *fit, const compute_fit_run_options *options) {
  const compute_status status = compute_fit_start(fit, options);
  return status ? status : compute_fit_wait(fit, NULL);
}

static void of_fits(void **state) {
  (void)state;
  const float pixels[49] = {0};
  float found[8];
  compute_fit *fit = NULL;
  compute_fit_options o = {.problem = {.rows = 7, .columns = 7, .sigma = {1.2}}};
  compute_fit_run_options run = {
      .pixels = {.array = pixels}, .count = 1, .results = {.parameters = found}};
  REFUSED(compute_fit_create, compute_fit_options, "options", o.reserved,
          compute_fit_create(test_context, &o, &fit));
  REFUSED(compute_fit_create, compute_spot_options, "options.spots", o.spots.reserved,
          compute_fit_create(test_context, &o, &fit));
  assert_ok(compute_fit_create(test_context, &o, &fit));
  REFUSED(compute_fit_run, compute_fit_run_options, "options", run.reserved,
          compute_fit_run(fit, &run, NULL));
  REFUSED(compute_fit_run, compute_batch_source, "options.pixels", run.pixels.reserved,
          compute_fit_run(fit, &run, NULL));
  REFUSED(compute_fit_run, compute_fit_results, "options.results", run.results.reserved,
          compute_fit_run(fit, &run, NULL));
  REFUSED(compute_fit_start, compute_fit_run_options, "options", run.reserved, start(fit, &run));
  REFUSED(compute_fit_start, compute_batch_source, "options.pixels", run.pixels.reserved,
          start(fit, &run));
  REFUSED(compute_fit_start, compute_fit_results, "options.results", run.results.reserved,
          start(fit, &run));
  compute_fit_release(fit);
}

static void of_simulations(void **state) {
  (void)state;
  compute_simulation s = {.problem = {.rows = 7, .columns = 7, .sigma = {1.2}},
                          .photons = {100, 200},
                          .background = {1, 2},
                          .frame_rows = 9,
                          .frame_columns = 9,
                          .spots = 1};
  float pixels[81];
  int64_t spots;
  REFUSED(compute_simulate_rois, compute_simulation, "simulation", s.reserved,
          compute_simulate_rois(test_context, &s, 0, 1, pixels, NULL));
  REFUSED(compute_simulate_spot_count, compute_simulation, "simulation", s.reserved,
          compute_simulate_spot_count(test_context, &s, 0, 1, &spots));
  REFUSED(compute_simulate_movie, compute_simulation, "simulation", s.reserved,
          compute_simulate_movie(test_context, &s, 0, 1, pixels, NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(of_contexts),   cmocka_unit_test(of_tensors),
      cmocka_unit_test(of_groups),     cmocka_unit_test(of_convolutions),
      cmocka_unit_test(of_pooling),    cmocka_unit_test(of_sampling),
      cmocka_unit_test(of_sequences),  cmocka_unit_test(of_other_operations),
      cmocka_unit_test(of_optimizers), cmocka_unit_test(of_plans),
      cmocka_unit_test(of_models),     cmocka_unit_test(of_layers),
      cmocka_unit_test(of_trainers),   cmocka_unit_test(of_batches),
      cmocka_unit_test(of_fits),       cmocka_unit_test(of_simulations),
  };
  return cmocka_run_group_tests(tests, begin, end);
}
