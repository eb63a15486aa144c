/* Sharing between devices of different speed.
 *
 * The reader hands the next items to whichever slot has been free longest, so each device gets work
 * as fast as it does it. Two things need more care. A slow device must not take so many items at a
 * time that the others run out of slots while the order of results waits for it: its batch is cut
 * to about the time that the fastest device needs for one of its own. And near the end it must not
 * begin what the others would have done sooner. */
#include "batch/share.h"

#define MOST_HALVES 4

/* Batches overlap, so one counts from the end of the one before. Half of what is known is kept,
 * since a first batch also warms things up. */
static void learn_rate(batch_lane *lane, const batch_slot *slot) {
  const int64_t now = clock_now();
  const int64_t since = slot->began > lane->last_finish ? slot->began : lane->last_finish;
  const double seconds = (double)(now - since) * 1e-9;
  const double rate = (double)slot->items / (seconds > 1e-9 ? seconds : 1e-9);
  lane->rate = lane->rate > 0 ? (lane->rate + rate) / 2 : rate;
  lane->last_finish = now;
}

/* NULL while not all are known. */
static const batch_lane *fastest(const compute_batch *batch) {
  const batch_lane *best = &batch->lanes[0];
  for (uint32_t i = 0; i < batch->lane_count; i++) {
    const batch_lane *lane = &batch->lanes[i];
    if (lane->rate <= 0) return NULL;
    if (lane->rate > best->rate) best = lane;
  }
  return best;
}

void share_learn(const batch_slot *slot) {
  compute_batch *batch = slot->lane->batch;
  learn_rate(slot->lane, slot);
  const batch_lane *best = batch->lane_count > 1 ? fastest(batch) : NULL;
  if (best == NULL) return;
  const double seconds = (double)best->most / best->rate;
  for (uint32_t i = 0; i < batch->lane_count; i++) {
    batch_lane *lane = &batch->lanes[i];
    /* Halves only, since each size costs a plan; and not too many of them, since small batches are
     * slow, and a lane that looks slow would get still smaller ones. */
    int64_t items = lane->most;
    for (int half = 0; half < MOST_HALVES && (double)items > 1.5 * seconds * lane->rate; half++)
      items = (items + 1) / 2;
    lane->items = items;
  }
}

bool share_comes_too_late(const batch_lane *lane) {
  const compute_batch *batch = lane->batch;
  const batch_flow *f = &batch->flow;
  if (f->total == COMPUTE_BATCH_UNTIL_END || batch->lane_count == 1 || lane->rate <= 0)
    return false;
  const int64_t left = f->total - f->next_item;
  const int64_t own = lane->items_under_way + (lane->items < left ? lane->items : left);
  int64_t others = left;
  double rates = 0;
  uint32_t busy = 0;
  for (uint32_t i = 0; i < batch->lane_count; i++) {
    const batch_lane *other = &batch->lanes[i];
    busy += other->under_way;
    if (other == lane) continue;
    others += other->items_under_way;
    rates += other->rate;
  }
  /* With nothing under way nobody would come to take the items. */
  return busy > 0 && rates > 0 && (double)own / lane->rate > (double)others / rates;
}
