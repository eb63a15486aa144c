/* SPDX-License-Identifier: MIT */
/* Movies of emitters at fixed positions that blink and drift together.
 *
 * The state of an emitter in a frame is a separate draw, as is every other value, so that frames
 * can be made in any order. */
#include <math.h>

#include "fit/simulate.h"

/* The emitter's place and the phase of its first blink. They are drawn from a separate source. */
enum { PLACE_X, PLACE_Y, PLACE_PHASE, PLACE_Z };

static double draw(const simulation *s, uint32_t emitter, uint32_t place) {
  const noise_source source = {s->given.seed, emitter};
  return noise_uniform(&source, NOISE_EMITTER, place);
}

/* Time is divided into intervals with the length of a blink, at a different phase for each emitter.
 * In each interval an emitter is on or off. */
static bool is_on(const simulation *s, int64_t frame, uint32_t emitter) {
  const compute_simulation *g = &s->given;
  const int64_t blink = g->blink > 0 ? g->blink : 1;
  const int64_t phase = (int64_t)(draw(s, emitter, PLACE_PHASE) * (double)blink);
  const noise_source source = {g->seed, ((uint64_t)frame + (uint64_t)phase) / (uint64_t)blink};
  return noise_uniform(&source, NOISE_BLINK, emitter) < g->spots / (double)g->emitters;
}

int64_t simulation_emitters_on(const simulation *s, int64_t frame) {
  int64_t on = 0;
  for (uint32_t i = 0; i < (uint32_t)s->given.emitters; i++) on += is_on(s, frame, i);
  return on;
}

void simulation_move_to_emitter(const simulation *s, int64_t frame, uint32_t *next,
                                simulation_spot *spot) {
  const compute_simulation *g = &s->given;
  while (!is_on(s, frame, *next)) ++*next;
  const double x = draw(s, *next, PLACE_X) * (double)s->columns - 0.5,
               y = draw(s, *next, PLACE_Y) * (double)s->rows - 0.5;
  spot->truth[0] = (float)(x + g->drift[0] * (double)frame);
  spot->truth[1] = (float)(y + g->drift[1] * (double)frame);
  if (compute_fit_has_z(g->problem.model)) {
    const double z = g->z.low + draw(s, *next, PLACE_Z) * (g->z.high - g->z.low);
    spot->truth[2] = (float)(z + g->drift[2] * (double)frame);
  }
  simulation_place_spot(s, spot);
  ++*next;
}
