/* SPDX-License-Identifier: MIT */
/* Calls from every part of the library in a thread with a small stack and in each floating-point
 * environment: the same bits, an unchanged thread state, and at most GUEST_STACK_BYTES of stack.
 * tests/operations does the same for each operation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/guest.h"
#include "support/harness/test.h"

enum { RESULTS = 4096 };

/* The results of a piece of work, as bytes. */
typedef struct work {
  compute_context *context;
  const char *folder;
  size_t bytes;
  unsigned char results[RESULTS];
} work;

static void keep(work *w, const void *data, size_t bytes) {
  if (w->bytes + bytes > RESULTS) bytes = RESULTS - w->bytes;
  memcpy(w->results + w->bytes, data, bytes);
  w->bytes += bytes;
}

static compute_status keep_tensor(work *w, const compute_tensor *tensor) {
  char data[1024];
  const size_t bytes =
      (size_t)compute_tensor_count(tensor) * compute_dtype_size(compute_tensor_dtype(tensor));
  if (bytes > sizeof data) return COMPUTE_ERROR_INVALID_ARGUMENT;
  const compute_status s = compute_tensor_read(tensor, data, bytes);
  if (!s) keep(w, data, bytes);
  return s;
}

static void path_of(const work *w, const char *name, char path[512]) {
  snprintf(path, 512, "%s/%s", w->folder, name);
}

/* ---- Pieces of work ------------------------------------------------------------------------ */

static compute_status open_and_close(void *argument) {
  (void)argument;
  compute_context *context = NULL;
  const compute_status s =
      compute_open(&context, &(compute_open_options){.backends = "cpu", .threads = 2});
  return s ? s : compute_close(context);
}

static compute_status call_eagerly(void *argument) {
  work *w = argument;
  compute_device *device = compute_default_device(w->context);
  compute_tensor *x = NULL, *y[6] = {NULL};
  compute_status s =
      compute_tensor_random(device, COMPUTE_F64, COMPUTE_SHAPE(300, 200), -3, 3, 1, &x);
  if (!s) s = compute_tensor_sum(x, COMPUTE_ALL_AXES, false, &y[0]);
  if (!s) s = compute_tensor_erf(x, &y[1]);
  if (!s) s = compute_tensor_mean(y[1], COMPUTE_AXES(0), false, &y[2]);
  if (!s) s = compute_tensor_softmax(x, -1, &y[3]);
  if (!s) s = compute_tensor_matmul(y[3], y[3], &y[4]);
  if (s == COMPUTE_ERROR_SHAPE) s = COMPUTE_OK; /* 300 × 200 times itself */
  if (!s) s = compute_tensor_max(y[3], COMPUTE_AXES(0), false, &y[5]);
  if (!s) s = keep_tensor(w, y[0]);
  compute_tensor_release(x);
  for (size_t i = 0; i < sizeof y / sizeof *y; i++) compute_tensor_release(y[i]);
  return s;
}

static compute_layer *make_network(compute_device *device) {
  return compute_sequential(
      (compute_layer *[]){
          compute_conv2d_layer(device, 1, 4, 3, NULL), compute_batch_norm_layer(device, 4, NULL),
          compute_activation(COMPUTE_GELU), compute_max_pool(2, NULL), compute_flatten(),
          compute_dropout_layer(0.25), compute_dense(device, 36, 5, NULL)},
      7);
}

static compute_status train(void *argument) {
  work *w = argument;
  compute_device *device = compute_default_device(w->context);
  compute_tensor *x = NULL, *labels = NULL, *scores = NULL;
  compute_dataset *data = NULL;
  compute_trainer *trainer = NULL;
  compute_training_score score = {0};
  const int64_t label[20] = {0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4};
  compute_layer *net = make_network(device);
  compute_status s = net ? COMPUTE_OK : COMPUTE_ERROR_OUT_OF_MEMORY;
  if (!s) s = compute_tensor_random(device, COMPUTE_F32, COMPUTE_SHAPE(20, 1, 8, 8), 0, 1, 3, &x);
  if (!s) s = compute_tensor_from_host(device, COMPUTE_I64, COMPUTE_SHAPE(20), label, &labels);
  if (!s) s = compute_dataset_from_tensors(w->context, x, labels, &data);
  const compute_trainer_options options = {
      .model = net,
      .batch = 5,
      .seed = 1,
      .input = {COMPUTE_F32, COMPUTE_SHAPE(1, 8, 8)},
      .target = {COMPUTE_I64, COMPUTE_SCALAR},
      .loss = COMPUTE_LOSS_CROSS_ENTROPY,
      .optimizer = {.kind = COMPUTE_ADAM, .learning_rate = 0.01}};
  if (!s) s = compute_trainer_create(w->context, &options, &trainer);
  if (!s)
    s = compute_trainer_run(trainer, data, &(compute_trainer_run_options){.epochs = 2}, &score);
  if (!s) keep(w, &score.loss, sizeof score.loss);
  if (!s) s = compute_trainer_evaluate(trainer, data, &score);
  if (!s) keep(w, &score.loss, sizeof score.loss);
  if (!s) s = compute_trainer_predict(trainer, x, &scores);
  if (!s) s = keep_tensor(w, scores);
  compute_tensor_release(scores);
  compute_trainer_release(trainer);
  compute_layer_release(net);
  compute_dataset_release(data);
  compute_tensor_release(x);
  compute_tensor_release(labels);
  return s;
}

static compute_status save_and_run_model(void *argument) {
  work *w = argument;
  char path[512];
  path_of(w, "guest.onnx", path);
  compute_device *device = compute_default_device(w->context);
  compute_tensor *weights = NULL, *input = NULL;
  compute_model *model = NULL;
  char *text = NULL;
  compute_graph *g = compute_graph_create(w->context);
  compute_status s =
      compute_tensor_random(device, COMPUTE_F32, COMPUTE_SHAPE(16, 16), -1, 1, 5, &weights);
  if (!s) s = compute_tensor_random(device, COMPUTE_F32, COMPUTE_SHAPE(4, 16), -1, 1, 6, &input);
  const compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(4, 16));
  const compute_node h = compute_gelu(g, compute_matmul(g, x, compute_parameter(g, weights)));
  const compute_model_value in = {.name = "x", .node = x};
  const compute_model_value out = {.name = "y", .node = compute_softmax(g, h, -1)};
  if (!s) s = compute_graph_save_onnx(g, &in, 1, &out, 1, path, NULL);
  if (!s) s = compute_model_load(w->context, path, NULL, &model);
  compute_model_binding from = {.name = "x", .tensor = input}, to = {.name = "y"};
  if (!s) s = compute_model_run(model, &from, 1, &to, 1);
  if (!s) s = keep_tensor(w, to.tensor);
  if (!s) s = compute_model_explain(model, &text);
  compute_text_free(text);
  compute_tensor_release(to.tensor);
  compute_model_release(model);
  compute_graph_release(g);
  compute_tensor_release(weights);
  compute_tensor_release(input);
  return s;
}

static void build_batch(void *user, compute_graph *graph, int64_t items, const compute_node *inputs,
                        compute_node *outputs) {
  (void)user;
  (void)items;
  outputs[0] =
      compute_exp(graph, compute_div(graph, inputs[0], compute_scalar(graph, COMPUTE_F32, 3)));
}

static compute_status run_batch(void *argument) {
  work *w = argument;
  static float in[1000], out[1000];
  compute_batch *batch = NULL;
  for (int i = 0; i < 1000; i++) in[i] = (float)(i % 7);
  const compute_batch_port port = {COMPUTE_F32, COMPUTE_SCALAR};
  const compute_batch_options options = {
      .build = build_batch, .inputs = &port, .input_count = 1, .output_count = 1, .batch = 64};
  compute_status s = compute_batch_create(w->context, &options, &batch);
  if (!s)
    s = compute_batch_run(
        batch,
        &(compute_batch_run_options){.items = 1000,
                                     .sources = (compute_batch_source[]){{.array = in}},
                                     .sinks = (compute_batch_sink[]){{.array = out}}},
        NULL);
  if (!s) keep(w, out, 700 * sizeof *out);
  compute_batch_release(batch);
  return s;
}

enum { SPOTS = 100, SIDE = 7 };

static compute_status simulate_and_fit(void *argument) {
  work *w = argument;
  static float rois[SPOTS][SIDE][SIDE], truth[SPOTS][4], at[SPOTS][4], std[SPOTS][4];
  static unsigned char status[SPOTS];
  const compute_fit_problem problem = {
      .model = COMPUTE_FIT_XYNB, .rows = SIDE, .columns = SIDE, .sigma = {1.3}};
  compute_simulation spots = {.problem = problem, .seed = 1, .photons = {500, 2000}};
  spots.background = (compute_range){10, 10};
  spots.position = (compute_range){-0.5, 0.5};
  compute_fit *fit = NULL;
  compute_fit_run_options run = {.pixels = {.array = rois}, .count = SPOTS};
  run.results = (compute_fit_results){.parameters = *at, .std = *std, .status = status};
  compute_status s = compute_simulate_rois(w->context, &spots, 0, SPOTS, rois, *truth);
  if (!s) s = compute_fit_create(w->context, &(compute_fit_options){.problem = problem}, &fit);
  if (!s) s = compute_fit_run(fit, &run, NULL);
  if (!s) keep(w, rois, 10 * sizeof *rois);
  if (!s) keep(w, at, sizeof at);
  compute_fit_release(fit);
  return s;
}

static compute_status write_and_read_files(void *argument) {
  work *w = argument;
  char table[512], array[512];
  path_of(w, "guest.csv", table);
  path_of(w, "guest.npy", array);
  compute_device *device = compute_default_device(w->context);
  compute_tensor *numbers = NULL, *again = NULL;
  FILE *file = fopen(table, "w");
  if (!file) return COMPUTE_ERROR_FILE;
  fputs("0.1,0.2,1e-310\n3.3333333333333335,1e300,-0.7\n", file);
  fclose(file);
  compute_status s = compute_csv_read(device, table, COMPUTE_F64, NULL, &numbers);
  if (!s) s = keep_tensor(w, numbers);
  if (!s) s = compute_npy_write(numbers, array);
  if (!s) s = compute_npy_read(device, array, &again);
  if (!s) s = keep_tensor(w, again);
  compute_tensor_release(numbers);
  compute_tensor_release(again);
  return s;
}

static compute_status report(void *argument) {
  work *w = argument;
  char path[512];
  char *text = NULL;
  path_of(w, "guest.json", path);
  compute_status s = compute_profile_start(w->context, NULL);
  if (!s) s = call_eagerly(w);
  if (!s) s = compute_profile_stop(w->context);
  if (!s) s = compute_profile_write(w->context, path);
  if (!s) s = compute_profile_text(w->context, &text);
  compute_text_free(text);
  return s;
}

/* ---- All pieces in all environments ---------------------------------------------------------- */

typedef struct piece {
  const char *name;
  guest_call call;
} piece;

static const piece pieces[] = {
    {"opening and closing", open_and_close},
    {"eager calls", call_eagerly},
    {"training", train},
    {"a model", save_and_run_model},
    {"a batch", run_batch},
    {"simulation and fits", simulate_and_fit},
    {"files", write_and_read_files},
    {"reports", report},
};

enum { PIECES = sizeof pieces / sizeof *pieces };

static void check(const piece *p, size_t environment, const work *expected, size_t *deepest) {
  work w = {.context = test_context, .folder = TEST_SCRATCH_DIR};
  const guest_report seen = guest_run(environment, p->call, &w);
  const char *where = guest_environment_name(environment);
  if (seen.status) fail_msg("%s, %s: %s", p->name, where, compute_error_message(test_context));
  if (seen.changed) fail_msg("%s, %s: the %s was changed", p->name, where, seen.changed);
  if (w.bytes != expected->bytes || memcmp(w.results, expected->results, w.bytes) != 0)
    fail_msg("%s: the results depend on the environment (%s)", p->name, where);
  if (seen.stack_bytes > *deepest) *deepest = seen.stack_bytes;
}

static void every_room_keeps_its_promises_to_its_caller(void **state) {
  (void)state;
  compute_device_info info;
  assert_ok(compute_device_describe(compute_default_device(test_context), &info));
  for (size_t i = 0; i < PIECES; i++) {
    size_t deepest = 0;
    work expected = {.context = test_context, .folder = TEST_SCRATCH_DIR};
    if (pieces[i].call(&expected))
      fail_msg("%s: %s", pieces[i].name, compute_error_message(test_context));
    for (size_t e = 0; e < guest_environments(); e++) check(&pieces[i], e, &expected, &deepest);
    print_message("%s: %zu bytes of stack\n", pieces[i].name, deepest);
    if (guest_knows_stack() && strcmp(info.backend, "cpu") == 0 && deepest > GUEST_STACK_BYTES)
      fail_msg("%s takes %zu bytes of stack", pieces[i].name, deepest);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_room_keeps_its_promises_to_its_caller),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
