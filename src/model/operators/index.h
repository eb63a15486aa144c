/* SPDX-License-Identifier: MIT */
/* Overwriting rows of a cache, which several operators share. */
#ifndef MODEL_OPERATORS_INDEX_H
#define MODEL_OPERATORS_INDEX_H

#include "model/record.h"

/* Copies `cache` and overwrites rows along `axis` with `update`: in each item of axis 0, from
 * row `starts` on. `starts` is i64 and broadcasts to [items, 1, 1]; {0} means 0. A row out of
 * range fails the run; in a circular cache it wraps around. */
compute_status index_write_rows(model_call *call, compute_node cache, compute_node update,
                                int32_t axis, compute_node starts, bool circular,
                                compute_node *result);

#endif
