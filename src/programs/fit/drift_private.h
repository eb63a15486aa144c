/* SPDX-License-Identifier: MIT */
/* Common parts of the estimates of the lateral drift (drift.c) and of the drift along z
 * (drift_height.c). */
#ifndef TOOLS_FIT_DRIFT_PRIVATE_H
#define TOOLS_FIT_DRIFT_PRIVATE_H

#include "programs/fit/correlate.h"
#include "programs/fit/drift.h"
#include "programs/fit/drift_curve.h"

/* A first curve uses windows at most DRIFT_NEIGHBOURS apart. DRIFT_ROUNDS rounds then improve
 * it. */
enum { DRIFT_NEIGHBOURS = 2, DRIFT_ROUNDS = 2 };

/* The localisations of each window, corrected by the current estimate of the lateral drift. */
typedef struct window_set {
  int64_t count;
  int64_t *begin;  /* [count + 1] first spot of each window, in the order below */
  int64_t *order;  /* spots by frame */
  double *x, *y;   /* [spots] in that order */
  cell_grid *grid; /* [count] */
} window_set;

/* Adds to the values of an axis and updates the curve. Returns false when out of memory. */
bool drift_move(drift_result *d, int axis, const double *more);

/* Estimates the drift along z, axis 2, from localisations at most `reach` pixels apart along x and
 * y. If the windows have too little in common, d->axes stays 2. `shifts` has room for all pairs of
 * windows. Returns false when out of memory. */
bool drift_add_heights(const window_set *w, const spots *s, double reach, shift *shifts,
                       drift_result *d);

#endif
