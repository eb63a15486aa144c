/* SPDX-License-Identifier: MIT */
/* Drift of the sample, estimated from the localisations. Cross-correlation measures the shifts
 * between all pairs of time windows. The drift of the windows is the best fit to these shifts, and
 * a smooth curve passes through it. */
#ifndef TOOLS_FIT_DRIFT_H
#define TOOLS_FIT_DRIFT_H

#include "compute/compute.h"
#include "programs/fit/table.h"

typedef struct drift_options {
  int64_t window;                 /* frames; 0: automatic */
  double range;                   /* the largest shift from one window to the next, in pixels */
  compute_device *const *devices; /* devices that fit the peaks; NULL: the context's default */
  size_t device_count;
} drift_options;

typedef struct drift_axis {
  double *value, *slope; /* [windows] the curve's values and slopes, relative to the first frame */
  int64_t fitted;        /* shifts between windows with a peak */
  double residual;       /* of these shifts, root mean square */
} drift_axis;

typedef struct drift_result {
  int64_t first, last;     /* frames with localisations */
  int64_t windows, window; /* windows with localisations; frames of a window */
  double *time;            /* [windows] frame in the middle of each window */
  int axes;                /* 2: x and y, in pixels; 3: also z, in nm */
  drift_axis axis[3];
  int64_t pairs; /* pairs of windows that were compared */
} drift_result;

/* Estimates the drift. `context` fits the peaks. z is not corrected if too few shifts along it can
 * be measured. Always release the result with drift_release. */
compute_status drift_estimate(compute_context *context, const spots *s,
                              const drift_options *options, drift_result *d, failure *why);
void drift_release(drift_result *d);

/* Returns the drift at a frame, in pixels, and in nm along z. The drift along z is 0 if it is
 * unknown. */
void drift_at(const drift_result *d, double frame, double at[3]);

/* Draws the curve and the windows as SVG. `unit_nm`: 0 for pixels. */
compute_status drift_plot(const drift_result *d, double unit_nm, const char *name, const char *path,
                          failure *why);

#endif
