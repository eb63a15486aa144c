/* How several devices share the items of a run. The flow's mutex is held in all of these. */
#ifndef BATCH_SHARE_H
#define BATCH_SHARE_H

#include "batch/batch.h"

/* Takes from a batch that is just done how fast its lane is, and gives all lanes new sizes. */
void share_learn(const batch_slot *slot);

/* Whether the others would have done all that is left before this lane has done one more batch. */
bool share_comes_too_late(const batch_lane *lane);

#endif
