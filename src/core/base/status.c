/* SPDX-License-Identifier: MIT */
/* Status codes and the version. One table has the identifier and text of every code. The codes are
 * sparse, so lookups search the table; speed does not matter here. */
#include "compute/status.h"

typedef struct status_row {
  compute_status code;
  const char *name;
  const char *text;
} status_row;

#define ROW(identifier, words)                                                                     \
  { .code = identifier, .name = #identifier, .text = words }

static const status_row table[] = {
    ROW(COMPUTE_OK, "success"),
    ROW(COMPUTE_ERROR_INVALID_ARGUMENT, "invalid argument"),
    ROW(COMPUTE_ERROR_NULL_POINTER, "a required pointer is NULL"),
    ROW(COMPUTE_ERROR_OVERFLOW, "a size is too large"),
    ROW(COMPUTE_ERROR_WRONG_CONTEXT, "objects of different contexts"),
    ROW(COMPUTE_ERROR_WRONG_GRAPH, "a node of another graph"),
    ROW(COMPUTE_ERROR_INVALID_STATE, "not possible in the object's current state"),
    ROW(COMPUTE_ERROR_BUSY, "too much work is waiting"),
    ROW(COMPUTE_ERROR_SHAPE, "shapes do not fit"),
    ROW(COMPUTE_ERROR_DTYPE, "unknown or unsuitable dtype"),
    ROW(COMPUTE_ERROR_NOT_DIFFERENTIABLE, "no gradient along this path"),
    ROW(COMPUTE_ERROR_BINDING, "missing or wrong binding"),
    ROW(COMPUTE_ERROR_INDEX, "an index in the data is outside its axis"),
    ROW(COMPUTE_ERROR_NO_DEVICE, "no such device"),
    ROW(COMPUTE_ERROR_BACKEND_LOAD, "a backend module cannot be loaded"),
    ROW(COMPUTE_ERROR_BACKEND_ABI, "a backend module built for another version"),
    ROW(COMPUTE_ERROR_MISSING_LIBRARY, "a library is not installed"),
    ROW(COMPUTE_ERROR_UNSUPPORTED, "not supported by the device"),
    ROW(COMPUTE_ERROR_DEVICE_LOST, "the device stopped responding"),
    ROW(COMPUTE_ERROR_DISABLED, "switched off"),
    ROW(COMPUTE_ERROR_OUT_OF_MEMORY, "out of host memory"),
    ROW(COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY, "out of device memory"),
    ROW(COMPUTE_ERROR_COMPILATION, "a kernel did not compile"),
    ROW(COMPUTE_ERROR_LAUNCH, "a kernel failed"),
    ROW(COMPUTE_ERROR_TRANSFER, "a copy between devices failed"),
    ROW(COMPUTE_ERROR_TIMEOUT, "a time limit was exceeded"),
    ROW(COMPUTE_ERROR_CANCELLED, "cancelled by the caller"),
    ROW(COMPUTE_ERROR_VALIDATION, "a step computed a wrong result"),
    ROW(COMPUTE_ERROR_FILE, "a file cannot be opened, read or written"),
    ROW(COMPUTE_ERROR_FORMAT, "damaged or unexpected file content"),
    ROW(COMPUTE_ERROR_INTERNAL, "a bug in libcompute"),
};

enum { STATUS_COUNT = sizeof table / sizeof *table };

static const status_row *row_find(compute_status status) {
  for (size_t i = 0; i < STATUS_COUNT; i++) {
    if (table[i].code == status) return &table[i];
  }
  return NULL;
}

const char *compute_status_text(compute_status status) {
  const status_row *row = row_find(status);
  return row ? row->text : "unknown status";
}

const char *compute_status_name(compute_status status) {
  const status_row *row = row_find(status);
  return row ? row->name : "unknown status";
}

size_t compute_status_list(size_t index, compute_status *status) {
  if (status && index < STATUS_COUNT) *status = table[index].code;
  return STATUS_COUNT;
}

/* ---- Version --------------------------------------------------------------------------------- */

uint32_t compute_version(void) {
  return COMPUTE_VERSION_NUMBER;
}

const char *compute_version_text(void) {
  return COMPUTE_VERSION_TEXT;
}
