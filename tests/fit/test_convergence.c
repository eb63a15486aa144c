/* SPDX-License-Identifier: MIT */
/* Fits of dim spots reach the maxima of the likelihood, and their statuses report it. The
 * likelihood is so flat that its curvature differs several times from the Fisher information. An
 * optimiser in double precision, which shares no code with the library, continues from the end of
 * each fit. */
#include "fit_fixture.h"

#include "support/reference/fit_reference.h"

enum {
  COUNT = 600,
  BLOCKS = 20,
  SIDE = 7,
  DIM_PIXELS = SIDE * SIDE,
  MOST = COMPUTE_FIT_MAX_PARAMETERS
};

static float stack[COUNT * DIM_PIXELS], found[COUNT * MOST], spread[COUNT * MOST];
static uint8_t status[COUNT];

static void simulate(compute_fit_model model, double photons, double background, int64_t first) {
  static float truth[COUNT * MOST];
  const bool in_depth = model == COMPUTE_FIT_XYZNB;
  const compute_simulation dim = {.problem = {.model = model,
                                              .rows = SIDE,
                                              .columns = SIDE,
                                              .sigma = {1.3, 1.3},
                                              .depth = in_depth ? 0.4 : 0,
                                              .gamma = in_depth ? 0.25 : 0},
                                  .seed = 11,
                                  .photons = {photons, photons},
                                  .background = {background, background},
                                  .z = {in_depth ? -0.4 : 0, in_depth ? 0.4 : 0},
                                  .position = {-0.5, 0.5},
                                  .dtype = COMPUTE_F32};
  assert_ok(compute_simulate_rois(test_context, &dim, first, COUNT, stack, truth));
}

static void fit_all(const compute_fit_problem *problem) {
  compute_fit *fit = NULL;
  compute_fit_run_options run = {.pixels = {.array = stack}, .count = COUNT};
  run.results = (compute_fit_results){.parameters = found, .std = spread, .status = status};
  assert_ok(compute_fit_create(test_context, &(compute_fit_options){.problem = *problem}, &fit));
  assert_ok(compute_fit_run(fit, &run, NULL));
  compute_fit_release(fit);
}

/* ---- Another optimiser ----------------------------------------------------------------------- */

typedef struct place {
  double at[MOST], gradient[MOST], information[MOST][MOST], likelihood;
} place;

static void look(const compute_fit_problem *problem, const float *pixels, int parameters,
                 place *here) {
  double image[DIM_PIXELS], slope[DIM_PIXELS * MOST];
  fit_reference_image(problem, NULL, here->at, image, slope);
  memset(here->gradient, 0, sizeof here->gradient);
  memset(here->information, 0, sizeof here->information);
  here->likelihood = 0;
  for (int k = 0; k < DIM_PIXELS; k++) {
    const double d = (double)pixels[k], mu = image[k], *u = slope + k * parameters;
    here->likelihood += d * log(mu) - mu;
    for (int a = 0; a < parameters; a++) {
      here->gradient[a] += u[a] * (d / mu - 1);
      for (int b = 0; b < parameters; b++) here->information[a][b] += u[a] * u[b] / mu;
    }
  }
}

/* Solves (matrix + damping · its diagonal) x = right. Returns false if the matrix is not
 * definite. */
static bool solve(int n, double matrix[MOST][MOST], double damping, const double *right,
                  double *x) {
  double m[MOST][MOST + 1];
  for (int a = 0; a < n; a++) {
    for (int b = 0; b < n; b++) m[a][b] = matrix[a][b] * (a == b ? 1 + damping : 1);
    m[a][n] = right[a];
  }
  for (int a = 0; a < n; a++) {
    if (!(m[a][a] > 1e-12 * matrix[a][a])) return false;
    for (int b = a + 1; b < n; b++)
      for (int c = n; c >= a; c--) m[b][c] -= m[b][a] / m[a][a] * m[a][c];
  }
  for (int a = n - 1; a >= 0; a--) {
    x[a] = m[a][n];
    for (int b = a + 1; b < n; b++) x[a] -= m[a][b] * x[b];
    x[a] /= m[a][a];
  }
  return true;
}

static double low_of(const compute_fit_problem *problem, int a) {
  const bool deep = problem->model == COMPUTE_FIT_XYZNB;
  if (a < 2) return -0.5;
  if (deep && a == 2) return -2 * problem->depth - fabs(problem->gamma);
  return deep || a < 4 ? COMPUTE_FIT_LEAST_PHOTONS : COMPUTE_FIT_LEAST_SIGMA;
}

static double high_of(const compute_fit_problem *problem, int a) {
  const bool deep = problem->model == COMPUTE_FIT_XYZNB;
  if (a < 2) return SIDE - 0.5;
  if (deep) return a == 2 ? -low_of(problem, a) : INFINITY;
  return a < 4 ? INFINITY : SIDE;
}

/* Removes the parameters that the gradient pushes against a bound from the equations. Returns true
 * if there is one. */
static bool hold(const compute_fit_problem *problem, int parameters, place *p) {
  bool any = false;
  for (int a = 0; a < parameters; a++) {
    const bool low = p->at[a] <= low_of(problem, a) && p->gradient[a] <= 0;
    const bool high = p->at[a] >= high_of(problem, a) && p->gradient[a] >= 0;
    if (!low && !high) continue;
    for (int b = 0; b < parameters; b++) p->information[a][b] = p->information[b][a] = a == b;
    p->gradient[a] = 0;
    any = true;
  }
  return any;
}

/* `gain`: the rise of the log-likelihood; a distance of d standard deviations costs d²/2.
 * `interior`: the maximum is off the bounds, and the pixels can resolve the spot's width. */
typedef struct summit {
  double gain;
  bool interior;
} summit;

/* Levenberg–Marquardt uphill from the end of fit i, within the bounds. */
static summit climb(const compute_fit_problem *problem, int i, int parameters) {
  const float *pixels = stack + i * DIM_PIXELS;
  double damping = 1e-3, step[MOST], slope = 0;
  place here;
  for (int a = 0; a < parameters; a++)
    here.at[a] =
        fmin(fmax((double)found[i * parameters + a], low_of(problem, a)), high_of(problem, a));
  look(problem, pixels, parameters, &here);
  const double begin = here.likelihood;
  bool held = hold(problem, parameters, &here);
  for (int round = 0; round < 2000 && damping < 1e12; round++) {
    place next = here;
    if (solve(parameters, here.information, damping, here.gradient, step)) {
      for (int a = 0; a < parameters; a++)
        next.at[a] = fmin(fmax(here.at[a] + step[a], low_of(problem, a)), high_of(problem, a));
      look(problem, pixels, parameters, &next);
    }
    const double gain = next.likelihood - here.likelihood;
    damping = gain > 0 ? fmax(damping * 0.3, 1e-9) : damping * 10;
    if (!(gain > 0)) continue;
    here = next;
    held = hold(problem, parameters, &here);
    if (gain < 1e-10) break;
  }
  const bool solved = solve(parameters, here.information, 0, here.gradient, step);
  for (int a = 0; solved && a < parameters; a++) slope += step[a] * here.gradient[a];
  bool wide = true;
  for (int a = 4; a < parameters && problem->model != COMPUTE_FIT_XYZNB; a++)
    wide &= here.at[a] > 0.2;
  return (summit){here.likelihood - begin, solved && !held && wide && slope < 1e-5};
}

/* Returns true if the information at the end of fit i determines every parameter that is off its
 * bounds, and the place to better than the ROI's size. */
static bool is_informed(const compute_fit_problem *problem, int i, int parameters) {
  place p;
  double unit[MOST] = {1}, variance[MOST];
  for (int a = 0; a < parameters; a++) p.at[a] = (double)found[i * parameters + a];
  look(problem, stack + i * DIM_PIXELS, parameters, &p);
  for (int a = 0; a < parameters; a++) {
    if (p.at[a] > low_of(problem, a) * (1 + 1e-6) + 1e-6 && p.at[a] < high_of(problem, a)) continue;
    for (int b = 0; b < parameters; b++) p.information[a][b] = p.information[b][a] = a == b;
  }
  if (!solve(parameters, p.information, -1e-4, unit, variance) || variance[0] > SIDE * SIDE)
    return false;
  memcpy(unit, (double[MOST]){0, 1}, sizeof unit);
  return solve(parameters, p.information, -1e-4, unit, variance) && variance[1] <= SIDE * SIDE;
}

/* ---- Promises ------------------------------------------------------------------------------ */

static void statuses_say_whether_a_maximum_was_found(void **state) {
  (void)state;
  static const compute_fit_model models[] = {COMPUTE_FIT_XYNBS, COMPUTE_FIT_XYNBSXSY};
  static const compute_fit_solver solvers[] = {COMPUTE_FIT_FISHER, COMPUTE_FIT_LEVENBERG_MARQUARDT};
  for (int m = 0; m < 2; m++) {
    simulate(models[m], 100, 100, 0);
    for (int s = 0; s < 2; s++) {
      const compute_fit_problem problem = {.model = models[m],
                                           .rows = SIDE,
                                           .columns = SIDE,
                                           .solver = solvers[s],
                                           .sigma = {1.3, 1.3},
                                           .outputs = COMPUTE_FIT_PARAMETERS | COMPUTE_FIT_STD |
                                                      COMPUTE_FIT_STATUS};
      const int parameters = compute_fit_parameter_count(models[m]);
      int of[COMPUTE_FIT_STATUS_COUNT] = {0}, missed = 0, far = 0, loose = 0, informed = 0;
      fit_all(&problem);
      for (int i = 0; i < COUNT; i++) {
        of[status[i]]++;
        if (status[i] == COMPUTE_FIT_SINGULAR) {
          informed += is_informed(&problem, i, parameters);
          continue;
        }
        const summit top = climb(&problem, i, parameters);
        missed += status[i] == COMPUTE_FIT_MAX_ITERATIONS && top.interior;
        far += status[i] == COMPUTE_FIT_CONVERGED && top.gain > 1e-3;
        loose += status[i] == COMPUTE_FIT_AT_BOUND && top.gain > 1e-3;
      }
      print_message("%s, solver %d: %d converged, %d of them not at a maximum; %d at a bound, %d "
                    "of them wrongly; %d unfinished, %d of them near a maximum; %d singular, %d of "
                    "them with all information\n",
                    compute_fit_model_name(models[m]), s, of[COMPUTE_FIT_CONVERGED], far,
                    of[COMPUTE_FIT_AT_BOUND], loose, of[COMPUTE_FIT_MAX_ITERATIONS], missed,
                    of[COMPUTE_FIT_SINGULAR], informed);
      assert_true(of[COMPUTE_FIT_CONVERGED] > COUNT * 2 / 5);
      assert_true(far <= of[COMPUTE_FIT_CONVERGED] / 50);
      assert_true(loose <= of[COMPUTE_FIT_AT_BOUND] / 20);
      assert_true(missed <= COUNT / 200);
      assert_true(informed <= COUNT / 200);
      assert_true(of[COMPUTE_FIT_MAX_ITERATIONS] <= COUNT / 8);
    }
  }
}

/* Devices agree within a hundredth of the uncertainty if each is nearer than this to the
 * maximum. */
static void fits_of_z_arrive(void **state) {
  (void)state;
  const compute_fit_problem problem = {.model = COMPUTE_FIT_XYZNB,
                                       .rows = SIDE,
                                       .columns = SIDE,
                                       .sigma = {1.3, 1.3},
                                       .depth = 0.4,
                                       .gamma = 0.25,
                                       .outputs = COMPUTE_FIT_PARAMETERS | COMPUTE_FIT_STD |
                                                  COMPUTE_FIT_STATUS};
  int converged = 0, off = 0;
  for (int block = 0; block < BLOCKS; block++) {
    simulate(COMPUTE_FIT_XYZNB, 300, 5, block * COUNT);
    fit_all(&problem);
    for (int i = 0; i < COUNT; i++) {
      if (status[i] != COMPUTE_FIT_CONVERGED) continue;
      off += climb(&problem, i, compute_fit_parameter_count(problem.model)).gain > 5e-5;
      converged++;
    }
  }
  print_message("%d of %d converged, %d of them farther than a hundredth from their maximum\n",
                converged, BLOCKS * COUNT, off);
  assert_true(converged > BLOCKS * COUNT * 9 / 10);
  assert_true(off <= 4); /* between the two maxima in z, where the likelihood is flat */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(statuses_say_whether_a_maximum_was_found),
      cmocka_unit_test(fits_of_z_arrive),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
