/* SPDX-License-Identifier: MIT */
/* Fills tensors from a file of named tensors. Everything is read into temporary memory and checked.
 * It is copied to the tensors only when the whole file is known to be valid. So a file that does
 * not match never leaves a model half loaded. */

#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "io/tensor_file.h"

/* ---- Names, dtypes, shapes ----------------------------------------------------------------- */

static compute_status check_fit(const restore *r, const restore_entry *entry) {
  const element_format *stored = &r->file->tensors[entry->index].format;
  const compute_dtype dtype = compute_tensor_dtype(entry->tensor);
  const compute_shape shape = compute_tensor_shape(entry->tensor);
  char name[SHOWN_NAME_BYTES], has[176], wanted[176];
  file_show_name(entry->name, name);
  if (stored->dtype != dtype)
    return error_set(r->context, COMPUTE_ERROR_DTYPE, r->operation,
                     "\"%s\" is %s in %s, but %s in %s", name, compute_dtype_name(stored->dtype),
                     r->path, compute_dtype_name(dtype), r->owner);
  if (compute_shape_equal(stored->shape, shape)) return COMPUTE_OK;
  return error_set(r->context, COMPUTE_ERROR_SHAPE, r->operation,
                   "\"%s\" is %s in %s, but %s in %s", name,
                   compute_shape_text(stored->shape, has, sizeof has), r->path,
                   compute_shape_text(shape, wanted, sizeof wanted), r->owner);
}

static compute_status fail_names(const restore *r, const char *first, size_t count, bool missing) {
  char name[SHOWN_NAME_BYTES], more[40] = "";
  file_show_name(first, name);
  if (count > 1) snprintf(more, sizeof more, " and %zu more", count - 1);
  if (missing) {
    return error_set_native(r->context, COMPUTE_ERROR_INVALID_ARGUMENT, 0, r->operation,
                            r->missing_remedy, "%s has no \"%s\"%s", r->path, name, more);
  }
  return error_set_native(r->context, COMPUTE_ERROR_INVALID_ARGUMENT, 0, r->operation,
                          r->extra_remedy, "%s has \"%s\"%s, not in %s", r->path, name, more,
                          r->owner);
}

/* True if the file has the tensor under another name. */
static bool has_alias(const restore *r, const restore_entry *entry) {
  for (size_t i = 0; i < r->count; i++) {
    if (r->entries[i].tensor == entry->tensor && r->entries[i].index < r->file->count) return true;
  }
  return false;
}

static compute_status check_missing(const restore *r) {
  const char *first = NULL;
  size_t missing = 0;
  for (size_t i = 0; i < r->count && !r->allow_missing; i++) {
    const restore_entry *entry = &r->entries[i];
    if (entry->index < r->file->count || has_alias(r, entry)) continue;
    if (missing++ == 0) first = entry->name;
  }
  return missing > 0 ? fail_names(r, first, missing, true) : COMPUTE_OK;
}

static compute_status check_extra(const restore *r, const bool *used) {
  const char *first = NULL;
  size_t extra = 0;
  for (size_t i = 0; i < r->file->count && !r->allow_extra; i++) {
    if (!used[i] && extra++ == 0) first = r->file->tensors[i].name;
  }
  return extra > 0 ? fail_names(r, first, extra, false) : COMPUTE_OK;
}

static compute_status match(restore *r) {
  bool *used = base_allocate(r->file->count, sizeof *used);
  if (!used)
    return error_set(r->context, COMPUTE_ERROR_OUT_OF_MEMORY, r->operation,
                     "not enough memory for the list of %s", r->path);
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; i < r->count && !status; i++) {
    restore_entry *entry = &r->entries[i];
    entry->index = compute_tensor_file_find(r->file, entry->name);
    if (entry->index == r->file->count) continue;
    used[entry->index] = true;
    status = check_fit(r, entry);
  }
  if (!status) status = check_missing(r);
  if (!status) status = check_extra(r, used);
  base_release(used);
  return status;
}

/* ---- Elements ------------------------------------------------------------------------------ */

static compute_status compare(const restore *r, const restore_entry *a, const restore_entry *b) {
  const size_t bytes = (size_t)r->file->tensors[a->index].bytes;
  char *x = base_allocate(bytes, 1), *y = base_allocate(bytes, 1);
  char first[SHOWN_NAME_BYTES], second[SHOWN_NAME_BYTES];
  compute_status status = COMPUTE_OK;
  if (!x || !y)
    status = error_set(r->context, COMPUTE_ERROR_OUT_OF_MEMORY, r->operation,
                       "not enough memory for %zu bytes of \"%s\"", bytes,
                       file_show_name(a->name, first));
  if (!status) status = compute_tensor_read(a->read, x, bytes);
  if (!status) status = compute_tensor_read(b->read, y, bytes);
  if (!status && memcmp(x, y, bytes) != 0) {
    status = error_set(r->context, COMPUTE_ERROR_INVALID_ARGUMENT, r->operation,
                       "\"%s\" and \"%s\" are the same tensor in %s, but differ in %s",
                       file_show_name(a->name, first), file_show_name(b->name, second), r->owner,
                       r->path);
  }
  base_release(x);
  base_release(y);
  return status;
}

/* If the file has one tensor under several names, their elements must be equal. */
static compute_status check_aliases(const restore *r) {
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; i < r->count; i++) {
    bool compared = !r->entries[i].read;
    for (size_t k = 0; k < i && !compared && !status; k++) {
      compared = r->entries[k].tensor == r->entries[i].tensor && r->entries[k].read;
      if (compared) status = compare(r, &r->entries[k], &r->entries[i]);
    }
  }
  return status;
}

/* Does not use compute_tensor_file_read: these tensors must not be in the caller's memory scope. */
static compute_status read_all(restore *r) {
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; i < r->count && !status; i++) {
    restore_entry *entry = &r->entries[i];
    if (entry->index == r->file->count) continue;
    status = r->file->read(r->file, r->operation, r->context, &r->file->tensors[entry->index],
                           compute_tensor_device(entry->tensor), &entry->read);
  }
  return status ? status : check_aliases(r);
}

/* ---- The calls ----------------------------------------------------------------------------- */

compute_status restore_read(restore *r) {
  compute_status status = compute_tensor_file_open(r->context, r->path, &r->file);
  if (!status) status = match(r);
  return status ? status : read_all(r);
}

compute_status restore_put(restore *r) {
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; i < r->count && !status; i++) {
    if (r->entries[i].read) status = compute_tensor_copy(r->entries[i].tensor, r->entries[i].read);
  }
  return status;
}

void restore_close(restore *r) {
  for (size_t i = 0; r->entries && i < r->count; i++) {
    compute_tensor_release(r->entries[i].read);
    r->entries[i].read = NULL;
  }
  compute_tensor_file_close(r->file);
  r->file = NULL;
}
