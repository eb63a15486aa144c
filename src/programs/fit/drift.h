/* SPDX-License-Identifier: MIT */
/* Drift of the sample, from the localisations themselves: the shifts between all pairs of time
 * windows by cross-correlation, the drift of the windows that fits these shifts best, and a smooth
 * curve through it. */
#ifndef TOOLS_FIT_DRIFT_H
#define TOOLS_FIT_DRIFT_H

#include "compute/compute.h"
#include "programs/fit/table.h"

typedef struct drift_options {
  int64_t window;                 /* frames; 0: chosen */
  double range;                   /* the largest shift from one window to the next, in pixels */
  compute_device *const *devices; /* of the context, which fit the peaks; NULL: its default */
  size_t device_count;
} drift_options;

typedef struct drift_axis {
  double *value, *slope; /* [windows] of the curve there, relative to the first frame */
  int64_t fitted;        /* shifts between windows that have a peak */
  double residual;       /* of these shifts, root mean square */
} drift_axis;

typedef struct drift_result {
  int64_t first, last;     /* frames with localisations */
  int64_t windows, window; /* those with localisations; frames of one */
  double *time;            /* [windows] frame in the middle */
  int axes;                /* 2: x and y, in pixels; 3: z as well, in nm */
  drift_axis axis[3];
  int64_t pairs; /* of windows that were compared */
} drift_result;

/* `context` is for fitting the peaks. z is left alone where too few shifts along it can be
 * measured. Release with drift_release in any case. */
compute_status drift_estimate(compute_context *context, const spots *s,
                              const drift_options *options, drift_result *d, failure *why);
void drift_release(drift_result *d);

/* The drift at a frame, in pixels, and in nm along z; 0 along z where it is not known. */
void drift_at(const drift_result *d, double frame, double at[3]);

/* Draws the curve and the windows as SVG. `unit_nm`: 0 for pixels. */
compute_status drift_plot(const drift_result *d, double unit_nm, const char *name, const char *path,
                          failure *why);

#endif
