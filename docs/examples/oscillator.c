/* SPDX-License-Identifier: MIT */
/* A differential equation solved with a network: a damped oscillator.
 *
 *   cc oscillator.c $(pkg-config --cflags --libs compute) -lm -o oscillator && ./oscillator [STEPS]
 *
 *   u″ + 2 d u′ + w² u = 0,   u(0) = 1,   u′(0) = 0,   0 ≤ t ≤ 4
 *
 * The solution is written as u(t) = 1 + s(t) N(t) with s = t² / (1 + t²) and a network N of two
 * layers, which has the right start for any N. Training makes the equation's left side small at 64 times. No value of the
 * solution is given. The left side has second derivatives, and training has the gradient of that
 * (Lagaris et al. 1998, doi 10.1109/72.712178; Raissi et al. 2019, doi 10.1016/j.jcp.2018.10.045).
 *
 * The program prints the error against the exact solution, and fails if it is above 0.002. */
#include <compute/compute.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TIMES = 64, WIDTH = 24, WEIGHTS = 5 };

static const double damping = 0.25, frequency = 2, duration = 4;

static double exact(double t) {
  const double w = sqrt(frequency * frequency - damping * damping);
  return exp(-damping * t) * (cos(w * t) + damping / w * sin(w * t));
}

/* Weights of N: 1 → WIDTH → WIDTH → 1. */
static compute_status create_weights(compute_device *device, compute_tensor **weights) {
  const compute_shape shapes[WEIGHTS] = {COMPUTE_SHAPE(1, WIDTH), COMPUTE_SHAPE(WIDTH),
                                         COMPUTE_SHAPE(WIDTH, WIDTH), COMPUTE_SHAPE(WIDTH),
                                         COMPUTE_SHAPE(WIDTH, 1)};
  const double scale[WEIGHTS] = {1.5, 1.5, 0.35, 0.1, 0.2};
  static double values[WIDTH * WIDTH];
  unsigned state = 1;
  compute_status s = COMPUTE_OK;
  for (int k = 0; k < WEIGHTS && !s; k++) {
    int64_t count = 0;
    compute_shape_count(shapes[k], &count);
    for (int64_t i = 0; i < count; i++) {
      state = state * 1664525U + 1013904223U;
      values[i] = scale[k] * (2.0 * (state >> 8) / (1 << 24) - 1);
    }
    s = compute_tensor_from_host(device, COMPUTE_F64, shapes[k], values, &weights[k]);
  }
  return s;
}

static compute_node solution(compute_graph *g, compute_node t, const compute_node *w) {
  compute_node h = compute_tanh(g, compute_add(g, compute_matmul(g, t, w[0]), w[1]));
  h = compute_tanh(g, compute_add(g, compute_matmul(g, h, w[2]), w[3]));
  const compute_node n = compute_matmul(g, h, w[4]), one = compute_scalar(g, COMPUTE_F64, 1);
  const compute_node square = compute_square(g, t);
  const compute_node s = compute_div(g, square, compute_add(g, square, one));
  return compute_add(g, compute_mul(g, s, n), one);
}

/* The derivative by t: every time moves at speed 1. */
static compute_node rate(compute_graph *g, compute_node u, compute_node t) {
  const compute_node speed = compute_full(g, COMPUTE_F64, COMPUTE_SHAPE(TIMES, 1), 1);
  compute_node product;
  compute_jvp(g, &u, 1, &t, &speed, 1, &product);
  return product;
}

static compute_node left_side(compute_graph *g, compute_node u, compute_node t) {
  const compute_node first = rate(g, u, t), second = rate(g, first, t);
  const compute_node friction = compute_mul(g, first, compute_scalar(g, COMPUTE_F64, 2 * damping));
  const compute_node spring =
      compute_mul(g, u, compute_scalar(g, COMPUTE_F64, frequency * frequency));
  return compute_add(g, second, compute_add(g, friction, spring));
}

int main(int count, char **words) {
  const int steps = count > 1 ? atoi(words[1]) : 6000;
  compute_context *context = NULL;
  compute_graph *g = NULL;
  compute_plan *plan = NULL;
  compute_tensor *weights[WEIGHTS] = {NULL}, *times = NULL, *speed = NULL, *loss = NULL,
                 *found = NULL;
  double t[TIMES], u[TIMES], mean = 0, worst = 0;
  compute_status s = compute_open(&context, NULL);
  compute_device *device = compute_default_device(context);
  for (int i = 0; i < TIMES; i++) t[i] = duration * i / (TIMES - 1);
  if (!s) s = create_weights(device, weights);
  if (!s) s = compute_tensor_from_host(device, COMPUTE_F64, COMPUTE_SHAPE(TIMES, 1), t, &times);
  if (!s) s = compute_tensor_create(device, COMPUTE_F64, COMPUTE_SCALAR, &speed);
  if (!s) s = compute_tensor_create(device, COMPUTE_F64, COMPUTE_SCALAR, &loss);
  if (!s) s = compute_tensor_create(device, COMPUTE_F64, COMPUTE_SHAPE(TIMES, 1), &found);
  if (!s) {
    g = compute_graph_create(context);
    compute_node w[WEIGHTS];
    for (int k = 0; k < WEIGHTS; k++) w[k] = compute_parameter(g, weights[k]);
    const compute_node at = compute_input(g, COMPUTE_F64, COMPUTE_SHAPE(TIMES, 1));
    const compute_node pace = compute_input(g, COMPUTE_F64, COMPUTE_SCALAR);
    const compute_node value = solution(g, at, w);
    const compute_node error =
        compute_mean(g, compute_square(g, left_side(g, value, at)), COMPUTE_ALL_AXES, false);
    const compute_node step = compute_adam_step(
        g, error, w, WEIGHTS, &(compute_adam_options){.learning_rate_node = pace});
    s = compute_compile(g, (compute_node[]){error, value, step}, 3, NULL, &plan);
    const compute_binding bindings[] = {{at, times}, {pace, speed}, {error, loss}, {value, found}};
    for (int i = 0; i < steps && !s; i++) {
      const double rate_now = 0.004 * (1 - (double)i / steps);
      s = compute_tensor_write(speed, &rate_now, sizeof rate_now);
      if (!s) s = compute_run(plan, bindings, 4, NULL);
      if (!s && (i % (steps / 4 + 1) == 0 || i + 1 == steps)) {
        s = compute_tensor_read(loss, &mean, sizeof mean);
        printf("step %5d: mean square of the left side %.3g\n", i + 1, mean);
      }
    }
  }
  if (!s) s = compute_tensor_read(found, u, sizeof u);
  for (int i = 0; i < TIMES && !s; i++) worst = fmax(worst, fabs(u[i] - exact(t[i])));
  if (s)
    fprintf(stderr, "oscillator: %s\n", compute_error_message(context));
  else
    printf("largest error against the exact solution: %.2g\n", worst);
  compute_plan_release(plan);
  compute_graph_release(g);
  for (int k = 0; k < WEIGHTS; k++) compute_tensor_release(weights[k]);
  compute_tensor_release(times);
  compute_tensor_release(speed);
  compute_tensor_release(loss);
  compute_tensor_release(found);
  compute_close(context);
  return s ? 1 : worst < 0.002 ? 0 : 2;
}
