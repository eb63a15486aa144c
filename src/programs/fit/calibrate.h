/* SPDX-License-Identifier: MIT */
/* The models that compute-fit calibrate makes. */
#ifndef TOOLS_FIT_CALIBRATE_H
#define TOOLS_FIT_CALIBRATE_H

#include "programs/fit/options.h"
#include "programs/fit/table.h"

/* Makes the spline of the beads whose positions are in the table. z is 0 at frame `zero`; NaN: in
 * the middle. Writes the output and the summary. Returns an exit status. */
int calibrate_spline(const fit_arguments *a, const spots *s, double zero);

#endif
