/* SPDX-License-Identifier: MIT */
/* The parsed command line of compute-info. */
#ifndef TOOLS_INFO_OPTIONS_H
#define TOOLS_INFO_OPTIONS_H

#include "programs/common/option.h"

typedef struct info_arguments {
  option_line line;
  bool json, variables, all, names, group;
  const char *pci; /* folder that lists the PCI devices */
} info_arguments;

extern const option_program info_program;

#endif
