/* Parameters that come with the library: for single devices, families, vendors or types of them. */
#ifndef TUNE_TABLE_H
#define TUNE_TABLE_H

#include "compute/backend.h"

/* What a row's `device` is compared with, most exact first. */
typedef enum table_level {
  TABLE_MODEL = 0,  /* compute_target.model */
  TABLE_FAMILY = 1, /* compute_target.family */
  TABLE_VENDOR = 2, /* compute_target.vendor contains it, in any case */
  TABLE_TYPE = 3    /* "cpu", "gpu", "accelerator" */
} table_level;

typedef struct table_row {
  table_level level;
  const char *backend; /* NULL: any */
  const char *device;
  const char *kernels; /* a class, which serves sizes near it too, or the beginning of one */
  compute_tuning tuning;
} table_row;

/* Ends with a row whose `kernels` is NULL. */
extern const table_row table_builtin[];

/* The parameters of the row of the most exact level that fits the target; of those, the row that
 * fits the class best, and of those the first. */
bool table_find(const table_row *rows, const compute_target *target, const char *kernel_class,
                compute_tuning *tuning);

#endif
