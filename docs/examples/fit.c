/* SPDX-License-Identifier: MIT */
/* Fits simulated spots, and compares the errors with the uncertainties that the fits report.
 *
 *   cc fit.c $(pkg-config --cflags --libs compute) -o fit && ./fit */
#include <compute/compute.h>
#include <stdio.h>

enum { N = 10000, SIDE = 7, P = 4 };
static float rois[N][SIDE][SIDE], truth[N][P], at[N][P], std[N][P];
static unsigned char status[N];

int main(void) {
  compute_context *context = NULL;
  compute_fit *fit = NULL;
  compute_fit_problem problem = {
      .model = COMPUTE_FIT_XYNB, .rows = SIDE, .columns = SIDE, .sigma = {1.3}};
  compute_simulation spots = {.problem = problem, .seed = 1, .photons = {500, 2000}};
  spots.background = (compute_range){10, 10};
  spots.position = (compute_range){-0.5, 0.5}; /* from the middle of the ROI */
  compute_fit_run_options run = {.pixels = {.array = rois}, .count = N};
  run.results = (compute_fit_results){.parameters = *at, .std = *std, .status = status};
  if (compute_open(&context, NULL) || compute_simulate_rois(context, &spots, 0, N, rois, *truth) ||
      compute_fit_create(context, &(compute_fit_options){.problem = problem}, &fit) ||
      compute_fit_run(fit, &run, NULL))
    return fprintf(stderr, "fit: %s\n", compute_error_message(NULL)), 1;
  double sum = 0;
  for (int i = 0; i < N; i++)
    sum += (at[i][0] - truth[i][0]) * (at[i][0] - truth[i][0]) / (std[i][0] * std[i][0]);
  printf("%s: x = %.3f +- %.3f\n", compute_fit_status_name(status[0]), at[0][0], std[0][0]);
  printf("squared errors of x over their variance: %.3f on average\n", sum / N);
  compute_fit_release(fit);
  return compute_close(context) != COMPUTE_OK;
}
