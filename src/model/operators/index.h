/* SPDX-License-Identifier: MIT */
#ifndef MODEL_OPERATORS_INDEX_H
#define MODEL_OPERATORS_INDEX_H

#include "model/record.h"

/* `cache` with the rows of `update` along `axis` in place of its own: of each item of the first
 * axis from row `starts` on, i64 that broadcasts to [items, 1, 1]; {0} is 0. A row outside fails
 * the run; if the cache is circular, it wraps around. */
compute_status index_write_rows(model_call *call, compute_node cache, compute_node update,
                                int32_t axis, compute_node starts, bool circular,
                                compute_node *result);

#endif
