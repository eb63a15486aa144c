/* SPDX-License-Identifier: MIT */
/* compute-info --group: the ranks of the launcher's process group. */
#ifndef TOOLS_INFO_GROUP_H
#define TOOLS_INFO_GROUP_H

#include "compute/compute.h"

/* Opens the group, measures it and prints the report on rank 0. All ranks call it. */
compute_status info_print_group(compute_context *context);

#endif
