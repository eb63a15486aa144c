/* SPDX-License-Identifier: MIT */
/* Records an index fault that a backend reports, and turns it into an error in the caller's
 * terms. */
#include "core/device/index_fault.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include "core/base/alloc.h"
#include "core/base/error.h"

/* The calling thread's last index fault that a backend reported and nobody has explained yet. */
typedef struct fault {
  bool valid;
  uint32_t label;
  int64_t index, offset;
} fault;

static _Thread_local fault last;

/* ---- Records ------------------------------------------------------------------------------- */

index_checks *index_checks_create(uint32_t count) {
  index_checks *checks = base_allocate(1, sizeof *checks);
  if (!checks) return NULL;
  checks->rows = base_allocate(count, sizeof *checks->rows);
  if (!checks->rows) {
    base_release(checks);
    return NULL;
  }
  atomic_init(&checks->references, 1);
  checks->count = count;
  return checks;
}

index_checks *index_checks_retain(index_checks *checks) {
  atomic_fetch_add_explicit(&checks->references, 1, memory_order_relaxed);
  return checks;
}

void index_checks_release(index_checks *checks) {
  if (!checks || atomic_fetch_sub_explicit(&checks->references, 1, memory_order_acq_rel) > 1)
    return;
  for (uint32_t i = 0; i < checks->count; i++) base_release(checks->rows[i].names);
  base_release(checks->rows);
  base_release(checks);
}

uint32_t index_label_new(void) {
  static _Atomic uint32_t newest;
  uint32_t label;
  do {
    label = atomic_fetch_add_explicit(&newest, 1, memory_order_relaxed) + 1;
  } while (label == 0);
  return label;
}

/* ---- Faults -------------------------------------------------------------------------------- */

compute_status index_fault_record(const compute_context *context, uint32_t label, int64_t index,
                                  int64_t offset) {
  error_set_native(context, COMPUTE_ERROR_INDEX, 0, ERROR_BACKEND,
                   "check the values of index tensors",
                   "index %" PRId64 " (element %" PRId64 " of an index tensor) is outside its axis",
                   index, offset);
  last = (fault){true, label, index, offset};
  return COMPUTE_ERROR_INDEX;
}

void index_fault_forget(void) {
  last.valid = false;
}

uint32_t index_fault_label(void) {
  return last.valid ? last.label : 0;
}

/* The row-major position of the first element of the operand at the element offset `offset`.
 * Elements of views overlap only where a stride of zero repeats them. */
static int64_t position_of(const index_check *check, int64_t offset) {
  int64_t at[COMPUTE_MAX_RANK] = {0}, position = 0;
  bool done[COMPUTE_MAX_RANK] = {false};
  for (;;) {
    int32_t widest = -1;
    for (int32_t i = 0; i < check->read.rank; i++)
      if (!done[i] && check->stride[i] > 0 && check->read.size[i] > 1 &&
          (widest < 0 || check->stride[i] > check->stride[widest]))
        widest = i;
    if (widest < 0) break;
    done[widest] = true;
    at[widest] = offset / check->stride[widest];
    offset %= check->stride[widest];
  }
  for (int32_t i = 0; i < check->read.rank; i++) position = position * check->read.size[i] + at[i];
  return position;
}

/* " at position 3", " at position [1,2]", or nothing for a scalar. */
static void print_position(const index_check *check, int64_t position, char *text, size_t bytes) {
  const compute_shape *shape = &check->shape;
  int64_t at[COMPUTE_MAX_RANK] = {0};
  text[0] = '\0';
  if (shape->rank == 0) return;
  for (int32_t i = shape->rank; i-- > 0;) {
    if (shape->size[i] <= 0) return;
    at[i] = position % shape->size[i];
    position /= shape->size[i];
  }
  size_t used = (size_t)snprintf(text, bytes, " at position %s", shape->rank > 1 ? "[" : "");
  for (int32_t i = 0; i < shape->rank && used < bytes; i++)
    used += (size_t)snprintf(text + used, bytes - used, "%s%" PRId64, i > 0 ? "," : "", at[i]);
  if (shape->rank > 1 && used < bytes) snprintf(text + used, bytes - used, "]");
}

/* The range of valid indices. An empty axis has none. */
static void print_range(const index_check *check, char *text, size_t bytes) {
  if (check->size == 0)
    snprintf(text, bytes, "an axis of size 0");
  else
    snprintf(text, bytes, "%" PRId64 " … %" PRId64, check->from_zero ? 0 : -check->size,
             check->size - 1);
}

compute_status index_fault_explain(const compute_context *context, const index_check *check) {
  const fault found = last;
  char position[192], range[64];
  last.valid = false;
  if (!check) return COMPUTE_ERROR_INDEX;
  print_range(check, range, sizeof range);
  if (!found.valid)
    return error_set_native(context, COMPUTE_ERROR_INDEX, 0, check->operation,
                            "correct the data; the outputs of this run are undefined",
                            "%s outside %s%s", check->word, range, check->names);
  print_position(check, position_of(check, found.offset), position, sizeof position);
  return error_set_native(context, COMPUTE_ERROR_INDEX, 0, check->operation,
                          "correct the data; the outputs of this run are undefined",
                          "%s %" PRId64 "%s is outside %s%s", check->word, found.index, position,
                          range, check->names);
}
