/* SPDX-License-Identifier: MIT */
/* Nonlinear least squares by the method of Levenberg and Marquardt, without a matrix.
 *
 *   cc least_squares.c $(pkg-config --cflags --libs compute) -lm -o least_squares && ./least_squares
 *
 * A step d solves (JᵀJ + λ I) d = −Jᵀ r, where r are the residuals and J is their Jacobian by the
 * parameters. Conjugate gradients need only the product JᵀJ v: one compute_jvp and one compute_vjp,
 * in one plan. So this works for a million parameters as well.
 *
 * The data are Misra1a of the Statistical Reference Datasets (NIST, public domain,
 * https://www.itl.nist.gov/div898/strd/nls/data/misra1a.shtml), with the model
 * y = b₁ (1 − exp(−b₂ x)) and NIST's first starting values. The program works with the logarithms of
 * b₁ and b₂, which have similar scales. It compares the result with the certified values. */
#include <compute/compute.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { POINTS = 14, PARAMETERS = 2, STEPS = 60 };

static const double y[POINTS] = {10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02,
                                 44.82, 50.76, 55.05, 61.01, 66.40, 75.47, 81.78};
static const double x[POINTS] = {77.6,  114.9, 141.1, 190.8, 239.9, 289.0, 332.8,
                                 378.4, 434.8, 477.3, 536.8, 593.1, 689.1, 760.0};
static const double certified[PARAMETERS] = {238.94212918, 5.5015643181e-4};
static const double certified_sum = 0.12455138894;

typedef struct problem {
  compute_context *context;
  compute_graph *graph;
  compute_plan *state, *product;    /* of the residuals; of JᵀJ v */
  compute_node at, along;           /* the inputs: parameters and v */
  compute_node sum, slope, applied; /* rᵀr, Jᵀr, JᵀJ v */
  compute_tensor *t_at, *t_along, *t_sum, *t_slope, *t_applied;
} problem;

static compute_node residuals(compute_graph *g, compute_node logarithms) {
  const compute_node b = compute_exp(g, logarithms);
  const compute_node times = compute_constant(g, COMPUTE_F64, COMPUTE_SHAPE(POINTS), x);
  const compute_node seen = compute_constant(g, COMPUTE_F64, COMPUTE_SHAPE(POINTS), y);
  const compute_node rate = compute_mul(g, times, compute_slice(g, b, 0, 1, 1, 1));
  const compute_node rise = compute_neg(g, compute_expm1(g, compute_neg(g, rate)));
  return compute_sub(g, compute_mul(g, rise, compute_slice(g, b, 0, 0, 1, 1)), seen);
}

static compute_status create(problem *p) {
  const compute_shape shape = COMPUTE_SHAPE(PARAMETERS);
  compute_device *device = compute_default_device(p->context);
  compute_graph *g = p->graph = compute_graph_create(p->context);
  compute_node forward;
  p->at = compute_input(g, COMPUTE_F64, shape);
  p->along = compute_input(g, COMPUTE_F64, shape);
  const compute_node r = residuals(g, p->at);
  p->sum = compute_sum(g, compute_square(g, r), COMPUTE_ALL_AXES, false);
  compute_vjp(g, &r, &r, 1, &p->at, 1, &p->slope);
  compute_jvp(g, &r, 1, &p->at, &p->along, 1, &forward);
  compute_vjp(g, &r, &forward, 1, &p->at, 1, &p->applied);
  compute_status s = compute_compile(g, (compute_node[]){p->sum, p->slope}, 2, NULL, &p->state);
  if (!s) s = compute_compile(g, &p->applied, 1, NULL, &p->product);
  if (!s) s = compute_tensor_create(device, COMPUTE_F64, shape, &p->t_at);
  if (!s) s = compute_tensor_create(device, COMPUTE_F64, shape, &p->t_along);
  if (!s) s = compute_tensor_create(device, COMPUTE_F64, COMPUTE_SCALAR, &p->t_sum);
  if (!s) s = compute_tensor_create(device, COMPUTE_F64, shape, &p->t_slope);
  if (!s) s = compute_tensor_create(device, COMPUTE_F64, shape, &p->t_applied);
  return s;
}

/* rᵀr and Jᵀr at the parameters. */
static compute_status evaluate(const problem *p, const double *at, double *sum, double *slope) {
  const compute_binding bindings[] = {{p->at, p->t_at}, {p->sum, p->t_sum}, {p->slope, p->t_slope}};
  compute_status s = compute_tensor_write(p->t_at, at, PARAMETERS * sizeof *at);
  if (!s) s = compute_run(p->state, bindings, 3, NULL);
  if (!s) s = compute_tensor_read(p->t_sum, sum, sizeof *sum);
  if (!s) s = compute_tensor_read(p->t_slope, slope, PARAMETERS * sizeof *slope);
  return s;
}

/* JᵀJ v at the parameters that t_at has. */
static compute_status apply(const problem *p, const double *v, double *result) {
  const compute_binding bindings[] = {
      {p->at, p->t_at}, {p->along, p->t_along}, {p->applied, p->t_applied}};
  compute_status s = compute_tensor_write(p->t_along, v, PARAMETERS * sizeof *v);
  if (!s) s = compute_run(p->product, bindings, 3, NULL);
  if (!s) s = compute_tensor_read(p->t_applied, result, PARAMETERS * sizeof *result);
  return s;
}

static double dot(const double *a, const double *b) {
  double sum = 0;
  for (int i = 0; i < PARAMETERS; i++) sum += a[i] * b[i];
  return sum;
}

/* Conjugate gradients: (JᵀJ + λ I) d = −slope. */
static compute_status solve(const problem *p, double lambda, const double *slope, double *d) {
  double rest[PARAMETERS], v[PARAMETERS], applied[PARAMETERS];
  compute_status s = COMPUTE_OK;
  for (int i = 0; i < PARAMETERS; i++) {
    d[i] = 0;
    rest[i] = v[i] = -slope[i];
  }
  double size = dot(rest, rest);
  const double end = 1e-28 * size;
  for (int k = 0; k < 2 * PARAMETERS && size > end && !s; k++) {
    s = apply(p, v, applied);
    for (int i = 0; i < PARAMETERS; i++) applied[i] += lambda * v[i];
    const double length = size / dot(v, applied);
    for (int i = 0; i < PARAMETERS; i++) {
      d[i] += length * v[i];
      rest[i] -= length * applied[i];
    }
    const double next = dot(rest, rest);
    for (int i = 0; i < PARAMETERS; i++) v[i] = rest[i] + next / size * v[i];
    size = next;
  }
  return s;
}

static compute_status fit(const problem *p, double *at, double *sum) {
  double slope[PARAMETERS], d[PARAMETERS], tried[PARAMETERS], new_slope[PARAMETERS], new_sum;
  double lambda = 10;
  compute_status s = evaluate(p, at, sum, slope);
  for (int step = 0; step < STEPS && !s; step++) {
    s = compute_tensor_write(p->t_at, at, PARAMETERS * sizeof *at);
    if (!s) s = solve(p, lambda, slope, d);
    for (int i = 0; i < PARAMETERS; i++) tried[i] = at[i] + d[i];
    if (!s) s = evaluate(p, tried, &new_sum, new_slope);
    if (s) break;
    const bool better = new_sum <= *sum;
    lambda = better ? lambda / 10 : lambda * 10;
    if (!better) continue;
    const bool done = *sum - new_sum <= 1e-15 * *sum;
    memcpy(at, tried, sizeof tried);
    memcpy(slope, new_slope, sizeof slope);
    *sum = new_sum;
    printf("step %2d: sum of squares %.10g\n", step + 1, *sum);
    if (done) break;
  }
  return s;
}

int main(void) {
  problem p = {0};
  double at[PARAMETERS] = {log(500), log(1e-4)}, sum = 0, worst = 0;
  compute_status s = compute_open(&p.context, NULL);
  if (!s) s = create(&p);
  if (!s) s = fit(&p, at, &sum);
  if (s) fprintf(stderr, "least_squares: %s\n", compute_error_message(p.context));
  for (int i = 0; i < PARAMETERS && !s; i++) {
    const double b = exp(at[i]), error = fabs(b / certified[i] - 1);
    printf("b%d = %.11g, certified %.11g, relative error %.1e\n", i + 1, b, certified[i], error);
    worst = fmax(worst, error);
  }
  if (!s) printf("sum of squares %.11g, certified %.11g\n", sum, certified_sum);
  compute_tensor_release(p.t_at);
  compute_tensor_release(p.t_along);
  compute_tensor_release(p.t_sum);
  compute_tensor_release(p.t_slope);
  compute_tensor_release(p.t_applied);
  compute_plan_release(p.state);
  compute_plan_release(p.product);
  compute_graph_release(p.graph);
  compute_close(p.context);
  return s ? 1 : worst < 1e-7 ? 0 : 2;
}
