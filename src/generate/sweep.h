/* How positions of equal work are shared out over items, and when 32 bits do for all of them: for
 * the kinds WINDOW, SCAN, TOP_K and ATTENTION. */
#ifndef GENERATE_SWEEP_H
#define GENERATE_SWEEP_H

#include "generate/emit.h"

typedef struct sweep {
  int64_t count; /* positions 0 … count − 1 */
  uint32_t group;
  int64_t groups;
  int64_t share; /* positions of an item of a CPU, one after the other; 0: items take turns */
} sweep;

/* A CPU gets items for themselves, each with a share of at least `least` positions; anything else
 * groups of tuning.group_x or `group` items, of which neighbours take neighbouring positions. Notes
 * group_x. count > 0. */
sweep sweep_plan(generation *g, int64_t count, int64_t least, uint32_t group);

/* "for (INDEX at = …) {": the brace is the caller's. The launch has the sweep's groups. */
void sweep_begin(generation *g, emit_launch *launch, const sweep *s);

/* Sets g->wide when an operand of the descriptor reaches further than 32 bits address, or `more`,
 * any other number that positions are computed from, does. */
void sweep_measure(generation *g, double more);

/* Rows of the space: a space over its first `rank` dimensions with the walks of all operands. The
 * position of a row in it is "row"; it may have no dimension left. False: there is no row. */
bool sweep_rows(generation *g, emit_space *space, int32_t rank);

#endif
