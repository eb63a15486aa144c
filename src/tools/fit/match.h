/* Localisations of a movie beside the spots that really were there. */
#ifndef TOOLS_FIT_MATCH_H
#define TOOLS_FIT_MATCH_H

#include "tools/fit/statistics.h"

/* A localisation and a true spot belong together when they are in one frame, each is the other's
 * nearest, and they are not farther apart than this, in pixels. */
#define MATCH_DISTANCE 2.0

typedef struct match {
  const float *truth; /* [truths, 1 + P]: frame, parameters; frames ascending */
  int64_t truths;
  double isolation;                    /* errors count for spots without another one this near */
  int64_t next;                        /* the first truth of the next frame */
  int64_t spots, localisations, found; /* in the frames seen so far */
} match;

/* Takes the localisations of whole frames, in the order of frames, numbered as in the truth by
 * adding `first_frame` to the corners'; converged and at-bound fits count. All frames below
 * `next_frame` are complete with this call. Errors of isolated matches go to `s`. */
void match_add(match *m, statistics *s, int64_t count, const compute_fit_results *results,
               const int32_t *corners, int64_t first_frame, int64_t next_frame);

#endif
