/* SPDX-License-Identifier: MIT */
/* Drift of the sample, from the localisations themselves: the shifts between all pairs of time
 * windows by cross-correlation, the drift of the windows that fits these shifts best, and a smooth
 * curve through it. */
#ifndef TOOLS_FIT_DRIFT_H
#define TOOLS_FIT_DRIFT_H

#include "compute/compute.h"
#include "tools/fit/table.h"

typedef struct drift_options {
  int64_t window;                 /* frames; 0: chosen */
  double range;                   /* the largest shift from one window to the next, in pixels */
  compute_device *const *devices; /* of the context, which fit the peaks; NULL: its default */
  size_t device_count;
} drift_options;

typedef struct drift_result {
  int64_t first, last;       /* frames with localisations */
  int64_t windows, window;   /* those with localisations; frames of one */
  double *time, *x, *y;      /* [windows] frame in the middle, drift in pixels */
  double *slope_x, *slope_y; /* of the curve there */
  int64_t pairs, fitted;     /* shifts that were measured, and that have a peak */
  double residual;           /* of the shifts, root mean square of x and y, in pixels */
} drift_result;

/* `context` is for fitting the peaks. Drift is relative to the first frame with
 * localisations. Release with drift_release in any case. */
compute_status drift_estimate(compute_context *context, const spots *s,
                              const drift_options *options, drift_result *d, failure *why);
void drift_release(drift_result *d);

/* The drift at a frame, in pixels. */
void drift_at(const drift_result *d, double frame, double *x, double *y);

/* Draws the curve and the windows as SVG. `unit_nm`: 0 for pixels. */
compute_status drift_plot(const drift_result *d, double unit_nm, const char *name, const char *path,
                          failure *why);

#endif
