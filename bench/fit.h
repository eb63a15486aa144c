/* SPDX-License-Identifier: MIT */
/* The common parts of suite "fit": stacks of simulated ROIs, checks of their fits, and runs in
 * separate processes. */
#ifndef BENCH_FIT_H
#define BENCH_FIT_H

#include "bench.h"

/* Contiguous row-major ROIs in host memory, and their true parameters. */
typedef struct fit_stack {
  compute_fit_problem problem;
  compute_dtype dtype;
  int64_t count;
  void *pixels;        /* [count, rows, columns] */
  float *truth;        /* [count, parameters] */
  float *coefficients; /* of a measured spot; NULL for other models */
} fit_stack;

/* Creates a stack of `count` ROIs of side × side: 1000 photons on a background of 10 per pixel,
 * widths of 1.3 (in focus for XYZNB and SPLINE), positions within half a pixel of the centre. With
 * readout noise its variance is 1. */
compute_status fit_stack_create(compute_context *context, compute_fit_model model,
                                compute_fit_camera camera, int32_t side, compute_dtype dtype,
                                int64_t count, fit_stack *stack);
void fit_stack_release(fit_stack *stack);
size_t fit_stack_bytes(const fit_stack *stack);

/* Arrays for the results: all of COMPUTE_FIT_USUAL_OUTPUTS that the camera has. */
compute_fit_results fit_results_create(const fit_stack *stack); /* NULL members: out of memory */
void fit_results_release(compute_fit_results *results);

/* The same from one record for each ROI, as the graph's operation writes them. */
void fit_results_from_records(const fit_stack *stack, const float *records,
                              compute_fit_results *results);

/* Compares results with the truth and with the Cramér–Rao bound in double precision: fills the
 * record's fit and fails the record if they are wrong. */
void fit_judge(compute_context *context, const fit_stack *stack, const compute_fit_results *results,
               bench_record *record);

/* 10 million ROIs through callbacks, in a separate process, whose memory is measured. */
void fit_run_memory(bench_session *session, const char *suite, const bench_case *c);

/* Runs as that process: prints a line for fit_run_memory. */
int fit_memory_main(const char *device, int threads);

/* compute-fit, from a TIFF on disk to a file of localisations. */
void fit_run_file(bench_session *session, const char *suite, const bench_case *c);

#endif
