/* One device at work: the thread that submits and the thread that finishes. */
#ifndef BATCH_LANE_H
#define BATCH_LANE_H

#include "batch/batch.h"

/* The threads' functions; the argument is the lane. They return when no batch will come any more.
 */
void *lane_submit_all(void *lane);
void *lane_finish_all(void *lane);

/* Gives the device up, for the reason that is the thread's last error: batches not yet begun go to
 * the CPU. False if there is none to go to, or policy forbids it. */
bool lane_give_up(batch_lane *lane);

/* Notes that batches of so many items are too large for the device's memory. Returns the next
 * smaller size. */
int64_t lane_halve(batch_lane *lane, int64_t items);

#endif
