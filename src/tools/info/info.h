/* What compute-info has found out, for its two printers. */
#ifndef TOOLS_INFO_INFO_H
#define TOOLS_INFO_INFO_H

#include <stdbool.h>

#include "compute/compute.h"

typedef struct info_report {
  compute_context *context; /* NULL: it could not be opened */
  compute_error error;      /* why it, or the default device asked for, was not to be had */
  char cache_folder[4096];
} info_report;

void info_print_text(const info_report *report);

/* Returns 0, or -1 when memory is short or standard output cannot be written. */
int info_print_json(const info_report *report);

#endif
