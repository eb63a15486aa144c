/* SPDX-License-Identifier: MIT */
/* Agreement between ranks apart from tensors: texts that must be equal, and failures. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/device/device.h"
#include "group/group.h"

#define LINE_BYTES 200

compute_status group_gather_bytes(compute_process_group *group, const char *operation,
                                  const void *mine, size_t bytes, void *all) {
  const compute_group_request draft = {.operation = operation,
                                       .bytes = mine,
                                       .all_bytes = all,
                                       .call = {.kind = GROUP_BYTES, .count = (int64_t)bytes}};
  return group_submit(group, &draft, NULL);
}

/* Gathers `bytes` bytes from every rank into a new array *all. */
static compute_status gather(compute_process_group *group, const char *operation, const void *mine,
                             size_t bytes, void **all) {
  *all = base_allocate((uint64_t)group->size, bytes);
  if (!*all)
    return error_set(group->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for a message from each of %d ranks: %zu bytes",
                     (int)group->size, (size_t)group->size * bytes);
  return group_gather_bytes(group, operation, mine, bytes, *all);
}

/* ---- Texts ----------------------------------------------------------------------------------- */

/* Two hashes with different seeds, and the length. */
typedef struct fingerprint {
  uint64_t hash[2], bytes;
} fingerprint;

static fingerprint fingerprint_of(const char *text) {
  const size_t bytes = strlen(text);
  return (fingerprint){{hash_bytes(1, text, bytes), hash_bytes(2, text, bytes)}, bytes};
}

/* Copies line number `index` of a text, or "" after the end. */
static void copy_line(const char *text, size_t index, char line[LINE_BYTES]) {
  for (; index > 0 && *text; index--) {
    text += strcspn(text, "\n");
    if (*text) text++;
  }
  memset(line, 0, LINE_BYTES);
  const size_t length = strcspn(text, "\n");
  memcpy(line, text, length < LINE_BYTES ? length : LINE_BYTES - 1);
}

static size_t count_lines(const char *text) {
  size_t lines = 1;
  for (; *text; text++) lines += *text == '\n';
  return lines;
}

static const char *or_nothing(const char *line) {
  return *line ? line : "nothing";
}

/* Finds the first line that differs between this rank's text and rank 0's. All ranks compare line
 * by line. The number of lines is the larger of the two counts. */
static compute_status report_difference(compute_process_group *group, const char *operation,
                                        const char *text, int32_t rank) {
  const uint64_t own = count_lines(text);
  char line[LINE_BYTES];
  void *all = NULL;
  compute_status status = gather(group, operation, &own, sizeof own, &all);
  const uint64_t *counts = all;
  const uint64_t lines = status ? 0 : counts[0] > counts[rank] ? counts[0] : counts[rank];
  base_release(all);
  for (uint64_t i = 0; !status && i < lines; i++) {
    copy_line(text, (size_t)i, line);
    status = gather(group, operation, line, sizeof line, &all);
    const char *first = all, *other = first + (size_t)rank * LINE_BYTES;
    if (!status && memcmp(first, other, LINE_BYTES) != 0)
      status = error_set(group->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                         "rank %d differs from rank 0: it has %.190s, rank 0 %.190s", (int)rank,
                         or_nothing(other), or_nothing(first));
    base_release(all);
  }
  if (status) return status;
  return error_set(group->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                   "rank %d differs from rank 0", (int)rank);
}

compute_status compute_group_agree(compute_process_group *group, const char *operation,
                                   const char *text) {
  REFUSE_INHERITED(group, context);
  compute_status status = error_if_null(NULL, "compute_group_agree", group, operation, text);
  if (status) return status;
  const fingerprint mine = fingerprint_of(text);
  void *all = NULL;
  status = gather(group, operation, &mine, sizeof mine, &all);
  int32_t different = 0;
  const fingerprint *of = all;
  for (int32_t r = group->size - 1; !status && r > 0; r--)
    if (memcmp(&of[r], &of[0], sizeof *of) != 0) different = r;
  base_release(all);
  return status || different == 0 ? status : report_difference(group, operation, text, different);
}

/* ---- Failures -------------------------------------------------------------------------------- */

/* After a failure on some rank, all ranks learn its message. */
static compute_status report_failure(compute_process_group *group, const char *operation,
                                     compute_status mine, int32_t rank, compute_status its) {
  compute_error error = {.status = COMPUTE_OK};
  char message[sizeof error.message] = "";
  if (mine) {
    compute_error_get(group->context, &error);
    snprintf(message, sizeof message, "%s", error_text(&error));
  }
  void *all = NULL;
  const compute_status status = gather(group, operation, message, sizeof message, &all);
  if (!status && !mine)
    error_set(group->context, its, operation, "rank %d: %.480s", (int)rank,
              (const char *)all + (size_t)rank * sizeof message);
  base_release(all);
  if (mine) error_restore(group->context, &error);
  return mine ? mine : status ? status : its;
}

compute_status compute_group_check(compute_process_group *group, const char *operation,
                                   compute_status status) {
  REFUSE_INHERITED(group, context);
  const compute_status wrong = error_if_null(NULL, "compute_group_check", group, operation);
  if (wrong) return wrong;
  compute_error error = {.status = COMPUTE_OK};
  if (status) compute_error_get(group->context, &error);
  const int32_t mine = (int32_t)status;
  void *all = NULL;
  const compute_status gathered = gather(group, operation, &mine, sizeof mine, &all);
  const int32_t *of = all;
  int32_t failed = -1, its = 0;
  for (int32_t r = group->size - 1; !gathered && r >= 0; r--)
    if (of[r] != 0) its = of[failed = r];
  base_release(all);
  if (status) error_restore(group->context, &error);
  if (gathered) return status ? status : gathered;
  if (failed < 0) return COMPUTE_OK;
  return report_failure(group, operation, status, failed, (compute_status)its);
}
