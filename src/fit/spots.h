/* What the two halves of spot finding share: the graph that finds (spots.c) and what the host makes
 * of the result (spots_corners.c). */
#ifndef FIT_SPOTS_H
#define FIT_SPOTS_H

#include "compute/spots.h"

/* A filter has some sigma · 15 terms, each several nodes of the graph. */
#define SPOT_MOST_SIGMA    50
#define SPOT_MOST_DISTANCE 100

/* What is wrong with the options, in words; NULL if nothing is. */
const char *spot_options_refusal(const compute_spot_options *options);

#endif
