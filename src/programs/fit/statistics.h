/* SPDX-License-Identifier: MIT */
/* Running statistics of results, in constant memory: the number of each status, uncertainties, and,
 * where the truth is known, errors. */
#ifndef TOOLS_FIT_STATISTICS_H
#define TOOLS_FIT_STATISTICS_H

#include "compute/compute.h"

/* Cells of the histograms. Uncertainties are binned by their logarithm. */
enum { STATISTICS_P_CELLS = 10000, STATISTICS_STD_CELLS = 500 };
#define STATISTICS_STD_LEAST 1e-5 /* pixels; the first cell includes smaller values */
#define STATISTICS_STD_MOST  1e2

/* Numbers between 0 and 1, and their distance from a uniform distribution. */
typedef struct uniformity {
  int64_t cell[STATISTICS_P_CELLS];
  int64_t count;
} uniformity;

/* Errors of one parameter against the truth. */
typedef struct error_statistics {
  int64_t count;
  double mean, squares; /* of the errors: running mean, sum of squares about it */
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

/* Takes `count` results; outputs that are NULL are ignored; parameters and status must be present.
 * `truth`, [count, P] or NULL, is in the same coordinates as the parameters. */
void statistics_add(statistics *s, int64_t count, const compute_fit_results *results,
                    const float *truth);

/* One fit with its truth, P numbers each; `std` may be NULL. */
void statistics_add_error(statistics *s, const float *parameters, const float *std,
                          const float *truth);

/* Of the errors of parameter i; NaN without enough errors. */
double statistics_bias(const statistics *s, int32_t i);
double statistics_bias_error(const statistics *s, int32_t i); /* standard error of the bias */
double statistics_std(const statistics *s, int32_t i);        /* of the errors */
double statistics_crlb(const statistics *s, int32_t i);  /* root of the mean reported variance */
double statistics_ratio(const statistics *s, int32_t i); /* std / crlb */

/* The uncertainty of x that `fraction` of the converged fits are below, in pixels; NaN without any.
 */
double statistics_std_quantile(const statistics *s, double fraction);

/* The Kolmogorov-Smirnov distance between the numbers and a uniform distribution, to within
 * 1/STATISTICS_P_CELLS, and the probability of a distance at least as large by chance. */
double uniformity_distance(const uniformity *u);
double uniformity_probability(const uniformity *u);

/* Share of the numbers below `limit`. */
double uniformity_below(const uniformity *u, double limit);

/* A localisation and a true spot match if they are in the same frame, each is the other's nearest,
 * and they are at most this far apart, in pixels. */
#define MATCH_DISTANCE 2.0

typedef struct match {
  const float *truth; /* [truths, 1 + P]: frame, parameters; frames ascending */
  int64_t truths;
  double isolation;                    /* errors count only for spots with no other spot this
                                        * near */
  int64_t next;                        /* the first truth of the next frame */
  int64_t spots, localisations, found; /* in the frames seen so far */
} match;

/* Adds the localisations of whole frames, in order of frames; the corners' frames plus
 * `first_frame` are the truth's; converged and at-bound fits count. All frames below `next_frame`
 * are complete with this call. Errors of isolated matches go to `s`. */
void match_add(match *m, statistics *s, int64_t count, const compute_fit_results *results,
               const int32_t *corners, int64_t first_frame, int64_t next_frame);

#endif
