/* SPDX-License-Identifier: MIT */
/* Synthetic results: every number is a function of its ROI. Each requested piece is the same every
 * time, and a reader can distinguish all numbers. */
#ifndef FIT_FILES_SAMPLE_RESULTS_H
#define FIT_FILES_SAMPLE_RESULTS_H

#include "programs/fit/failure.h"
#include "programs/fit/results_file.h"

typedef struct sample_results {
  compute_fit_results results;
  int32_t *corners;
} sample_results;

/* ROI i is in frame i / 3; its corner is at row i % 100, column 2 (i % 50). Parameter k is k + 1 +
 * (i % 1000) / 1000, its standard deviation a tenth of it. The covariance of (a, b) is i + 10 a +
 * b; L = −i / 4; p_raw = 1 / (i + 2), p_value = 1e-3 / (i + 1), significance = i % 50; iterations:
 * i % 7. The status is 1 + i % 3, except for every eleventh ROI, which is BAD_DATA with NaN
 * everywhere. */
void sample_results_make(compute_fit_model model, int64_t first, int64_t count,
                         sample_results *sample);
void sample_results_release(sample_results *sample);

/* The frame after the last ROI's frame. */
int64_t sample_results_frames(int64_t rois);

#define SAMPLE_PER_FRAME 3

/* Appends ROIs from number `first` to `end`, both multiples of SAMPLE_PER_FRAME, `piece` at a time.
 * ROI numbers are relative to `begin`, the start of the run. */
compute_status sample_results_append(results_file *file, compute_fit_model model, int64_t begin,
                                     int64_t first, int64_t end, int64_t piece, failure *why);

#endif
