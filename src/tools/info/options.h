/* SPDX-License-Identifier: MIT */
/* What the command line of compute-info said. */
#ifndef TOOLS_INFO_OPTIONS_H
#define TOOLS_INFO_OPTIONS_H

#include "tools/option.h"

typedef struct info_arguments {
  option_line line;
  bool json, variables, all, names;
  const char *pci; /* where the devices of the PCI bus are listed */
} info_arguments;

extern const option_program info_program;

#endif
