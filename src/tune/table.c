/* The built-in table. A row stands here only for a measured reason, given beside it; what the
 * generator can judge by a target's numbers belongs into the generator instead. */
#include "tune/table.h"

#include <string.h>
#include <strings.h>

#include "tune/kernel_class.h"

const table_row table_builtin[] = {
    {.kernels = NULL},
};

static const char *type_name(compute_device_type type) {
  switch (type) {
  case COMPUTE_DEVICE_CPU: return "cpu";
  case COMPUTE_DEVICE_GPU: return "gpu";
  case COMPUTE_DEVICE_ACCELERATOR: return "accelerator";
  case COMPUTE_DEVICE_NULL: break;
  }
  return "";
}

static bool contains(const char *text, const char *part) {
  const size_t length = strlen(part);
  for (; *text; text++)
    if (!strncasecmp(text, part, length)) return true;
  return false;
}

static bool fits_target(const table_row *row, const compute_target *target) {
  if (row->backend && strcmp(row->backend, target->backend) != 0) return false;
  switch (row->level) {
  case TABLE_MODEL: return !strcmp(row->device, target->model);
  case TABLE_FAMILY: return !strcmp(row->device, target->family);
  case TABLE_VENDOR: return contains(target->vendor, row->device);
  case TABLE_TYPE: return !strcmp(row->device, type_name(target->type));
  }
  return false;
}

bool table_find(const table_row *rows, const compute_target *target, const char *kernel_class,
                compute_tuning *tuning) {
  const table_row *found = NULL;
  int found_fit = 0;
  for (const table_row *row = rows; row->kernels; row++) {
    if (!fits_target(row, target)) continue;
    int fit = kernel_class_fit(row->kernels, kernel_class);
    if (fit == KERNEL_CLASS_APART) continue;
    if (found && (row->level > found->level || (row->level == found->level && fit >= found_fit)))
      continue;
    found = row;
    found_fit = fit;
  }
  if (found) *tuning = found->tuning;
  return found != NULL;
}
