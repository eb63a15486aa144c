/* SPDX-License-Identifier: MIT */
/* Running statistics of results, in constant memory: counts for each status, uncertainties, and
 * errors if the truth is known. */
#ifndef TOOLS_FIT_STATISTICS_H
#define TOOLS_FIT_STATISTICS_H

#include "compute/compute.h"

/* Cells of the histograms. Uncertainties are binned by their logarithm. */
enum { STATISTICS_P_CELLS = 10000, STATISTICS_STD_CELLS = 500 };
#define STATISTICS_STD_LEAST 1e-5 /* pixels; the first cell includes smaller values */
#define STATISTICS_STD_MOST  1e2

/* A histogram of numbers between 0 and 1, to measure their distance from a uniform distribution. */
typedef struct uniformity {
  int64_t cell[STATISTICS_P_CELLS];
  int64_t count;
} uniformity;

/* Errors of one parameter against the truth. */
typedef struct error_statistics {
  int64_t count;
  double mean, squares; /* of the errors: running mean and sum of squared deviations */
  double variance;      /* sum of the variances that the fits report */
} error_statistics;

typedef struct statistics {
  compute_fit_model model;
  int64_t count;
  int64_t of_status[COMPUTE_FIT_STATUS_COUNT];
  int64_t iterations;
  int64_t std_x[STATISTICS_STD_CELLS]; /* histogram of x's uncertainty, converged fits */
  int64_t std_count;
  double parameter_sum[COMPUTE_FIT_MAX_PARAMETERS]; /* converged fits */
  uniformity p_value, p_raw;                        /* converged fits */
  error_statistics error[COMPUTE_FIT_MAX_PARAMETERS];
} statistics;

/* Zeroed; NULL when out of memory. Free with free(). */
statistics *statistics_create(compute_fit_model model);

/* Adds `count` results. Parameters and status must be present; other outputs may be NULL. `truth`,
 * [count, P] or NULL, has the same coordinates as the parameters. */
void statistics_add(statistics *s, int64_t count, const compute_fit_results *results,
                    const float *truth);

/* Adds one fit and its truth, P numbers each; `std` may be NULL. */
void statistics_add_error(statistics *s, const float *parameters, const float *std,
                          const float *truth);

/* Statistics of the errors of parameter i; NaN with too few errors. */
double statistics_bias(const statistics *s, int32_t i);
double statistics_bias_error(const statistics *s, int32_t i); /* standard error of the bias */
double statistics_std(const statistics *s, int32_t i);        /* of the errors */
double statistics_crlb(const statistics *s, int32_t i);  /* root of the mean reported variance */
double statistics_ratio(const statistics *s, int32_t i); /* std / crlb */

/* The quantile `fraction` of the uncertainty of x in converged fits, in pixels; NaN without any
 * fit. */
double statistics_std_quantile(const statistics *s, double fraction);

/* The Kolmogorov-Smirnov distance between the numbers and a uniform distribution, to within
 * 1/STATISTICS_P_CELLS, and the probability of a distance at least as large by chance. */
double uniformity_distance(const uniformity *u);
double uniformity_probability(const uniformity *u);

/* The fraction of the numbers below `limit`. */
double uniformity_below(const uniformity *u, double limit);

/* A localisation and a true spot match if they are in the same frame, each is the other's nearest,
 * and they are at most this far apart, in pixels. */
#define MATCH_DISTANCE 2.0

typedef struct match {
  const float *truth; /* [truths, 1 + P]: frame, parameters; frames ascending */
  int64_t truths;
  double isolation;                    /* errors count only for spots with no other spot within
                                        * this distance */
  int64_t next;                        /* index of the next frame's first truth */
  int64_t spots, localisations, found; /* in the frames seen so far */
} match;

/* Adds the localisations of whole frames, in order of frames. A corner's frame plus `first_frame`
 * is the truth's frame. Converged and at-bound fits count. With this call, all frames below
 * `next_frame` are complete. Errors of isolated matches go to `s`. */
void match_add(match *m, statistics *s, int64_t count, const compute_fit_results *results,
               const int32_t *corners, int64_t first_frame, int64_t next_frame);

#endif
