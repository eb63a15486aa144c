/* Where items come from and where results go: arrays, files, callbacks. */
#ifndef BATCH_PORT_H
#define BATCH_PORT_H

#include "batch/batch.h"

/* Checks the caller's sources and sinks, opens files, and sets flow.total, also from the files'
 * sizes where those tell it. ports_close is due after a failure too; its own status is that of a
 * file that could not be finished. */
compute_status ports_open(compute_batch *batch, const compute_batch_run_options *options);
compute_status ports_close(compute_batch *batch);

/* Fills the inputs of a slot. *count is how many items every source had: fewer than slot->items
 * where one has ended, or failed, as the status then says. */
compute_status ports_read(const compute_batch *batch, batch_slot *slot, int64_t *count);

/* Hands the outputs of a slot on. */
compute_status ports_write(const compute_batch *batch, const batch_slot *slot);

#endif
