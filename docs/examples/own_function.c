/* SPDX-License-Identifier: MIT */
/* A C function of your own in a graph, with its gradient: a running mean along each row.
 *
 *   cc own_function.c $(pkg-config --cflags --libs compute) -o own_function && ./own_function
 * [DEVICE]
 *
 * The graph smooths rows by an exponential moving average, y[t] = decay y[t − 1] + (1 − decay)
 * x[t], for which the library has no operation, and finds the gain for which gain · x, smoothed, is
 * nearest to a target. Only the function runs on the CPU if another device is chosen. */
#include <compute/compute.h>
#include <stdio.h>

enum { ROWS = 64, TIMES = 500, STEPS = 150 };

/* ---- The function, and its gradient ---------------------------------------------------------- */

/* Rows are divided among the parts. */
static compute_status smooth(void *user, const compute_call_arguments *a, int32_t part,
                             int32_t parts) {
  const float decay = *(const float *)user;
  int64_t row, end;
  if (!(decay >= 0 && decay < 1))
    return compute_call_fail(a, COMPUTE_ERROR_INVALID_ARGUMENT, "decay is %g", (double)decay);
  compute_call_share(ROWS, part, parts, &row, &end);
  for (; row < end; row++) {
    const float *x = (const float *)a->inputs[0].data + row * TIMES;
    float *y = (float *)a->outputs[0].data + row * TIMES, mean = 0;
    for (int t = 0; t < TIMES; t++) y[t] = mean = decay * mean + (1 - decay) * x[t];
  }
  return COMPUTE_OK;
}

/* The gradient runs backwards in time: that of x[t] collects those of y[t] and all later y.
 */
static compute_status smooth_back(void *user, const compute_call_arguments *a, int32_t part,
                                  int32_t parts) {
  const float decay = *(const float *)user;
  int64_t row, end;
  compute_call_share(ROWS, part, parts, &row, &end);
  for (; row < end; row++) {
    const float *up = (const float *)a->inputs[0].data + row * TIMES;
    float *down = (float *)a->outputs[0].data + row * TIMES, sum = 0;
    for (int t = TIMES; t-- > 0;) down[t] = (1 - decay) * (sum = decay * sum + up[t]);
  }
  return COMPUTE_OK;
}

static const compute_call_output rows = {COMPUTE_F32, {.rank = 2, .size = {ROWS, TIMES}}};

static compute_status smooth_gradient(void *user, compute_graph *graph, const compute_node *inputs,
                                      const compute_node *outputs,
                                      const compute_node *output_gradients,
                                      compute_node *input_gradients) {
  (void)inputs;
  (void)outputs;
  const compute_call_options options = {
      .name = "smooth_back", .flags = COMPUTE_CALL_PURE, .parts = COMPUTE_CALL_PARTS_AUTOMATIC};
  input_gradients[0] =
      compute_call(graph, smooth_back, user, output_gradients, 1, &rows, 1, &options, NULL);
  return COMPUTE_OK;
}

/* ---- Using it -------------------------------------------------------------------------------- */

static void fill(float *x, float *target) {
  static float decay = 0.9F;
  for (int i = 0; i < ROWS * TIMES; i++) x[i] = (float)(i * 37 % 101) / 50 - 0.7F;
  for (int row = 0; row < ROWS; row++) {
    float mean = 0;
    for (int t = 0; t < TIMES; t++) {
      mean = decay * mean + (1 - decay) * x[row * TIMES + t];
      target[row * TIMES + t] = 2.5F * mean; /* the gain to find */
    }
  }
}

int main(int count, char **words) {
  static float x[ROWS * TIMES], target[ROWS * TIMES];
  static float decay = 0.9F;
  compute_context *context = NULL;
  compute_device *device = NULL;
  compute_graph *graph = NULL;
  compute_plan *plan = NULL;
  compute_tensor *gain = NULL, *tx = NULL, *ttarget = NULL, *tloss = NULL;
  compute_device_info info;
  float loss = 0, found = 0;
  compute_status s = compute_open(&context, NULL);
  if (!s && count > 1) s = compute_device_by_name(context, words[1], &device);
  if (!s && count < 2) device = compute_default_device(context);
  if (!s) s = compute_device_describe(device, &info);
  fill(x, target);
  if (!s) s = compute_tensor_full(device, COMPUTE_F32, COMPUTE_SCALAR, 1, &gain);
  if (!s) s = compute_tensor_from_host(device, COMPUTE_F32, rows.shape, x, &tx);
  if (!s) s = compute_tensor_from_host(device, COMPUTE_F32, rows.shape, target, &ttarget);
  if (!s) s = compute_tensor_create(device, COMPUTE_F32, COMPUTE_SCALAR, &tloss);
  if (!s) {
    graph = compute_graph_create(context);
    const compute_node in = compute_input(graph, COMPUTE_F32, rows.shape);
    const compute_node goal = compute_input(graph, COMPUTE_F32, rows.shape);
    const compute_node weight = compute_parameter(graph, gain);
    const compute_node scaled = compute_mul(graph, in, weight);
    const compute_call_options options = {.name = "smooth",
                                          .flags = COMPUTE_CALL_PURE,
                                          .parts = COMPUTE_CALL_PARTS_AUTOMATIC,
                                          .gradient = smooth_gradient};
    const compute_node smoothed =
        compute_call(graph, smooth, &decay, &scaled, 1, &rows, 1, &options, NULL);
    const compute_node error = compute_mean_squared_error(graph, smoothed, goal);
    const compute_node step =
        compute_sgd_step(graph, error, &weight, 1, &(compute_sgd_options){.learning_rate = 0.5});
    s = compute_compile(graph, (compute_node[]){error, step}, 2,
                        &(compute_plan_options){.device = device}, &plan);
    const compute_binding bindings[] = {{in, tx}, {goal, ttarget}, {error, tloss}};
    for (int i = 0; i < STEPS && !s; i++) s = compute_run(plan, bindings, 3, NULL);
  }
  if (!s) s = compute_tensor_read(tloss, &loss, sizeof loss);
  if (!s) s = compute_tensor_read(gain, &found, sizeof found);
  if (!s) {
    printf("on device %s: gain %.4f after %d steps (expected: 2.5), error %.2g\n", info.name,
           (double)found, STEPS, (double)loss);
  } else {
    fprintf(stderr, "own_function: %s\n", compute_error_message(context));
  }
  compute_plan_release(plan);
  compute_graph_release(graph);
  compute_tensor_release(gain);
  compute_tensor_release(tx);
  compute_tensor_release(ttarget);
  compute_tensor_release(tloss);
  compute_close(context);
  return s ? 1 : found > 2.499F && found < 2.501F ? 0 : 2;
}
