/* SPDX-License-Identifier: MIT */
/* SORT has no plain evaluation. */
#include "plan/validate/evaluate/evaluate.h"

/* Every element depends on the order of all elements of its row. */
const evaluation_kind evaluation_kind_sort = {0};
