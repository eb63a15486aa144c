/* SPDX-License-Identifier: MIT */
/* The lookup of parameters.
 *
 * The search of the entries is linear: a lookup happens when a kernel is built, which takes a
 * thousand times longer. The lookup compares the complete identity of the device. So a file from
 * another machine, or from before a driver update, is harmless. */
#include "codegen/tune/tuning.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/real.h"
#include "core/base/variable.h"
#include "core/device/device.h"
#include "core/platform/names.h"

#define CHECK_NANOSECONDS INT64_C(1000000000)

/* ---- Forced --------------------------------------------------------------------------------- */

/* Parses COMPUTE_TUNING. The first error voids all rules: users who force parameters rely on all of
 * them, so applying only some would mislead. */
#define REASON_BYTES 128

static bool parse_rule(const char *text, size_t length, forced_rules *rules, char *reason) {
  const char *colon = memchr(text, ':', length);
  const int shown = length < 60 ? (int)length : 60;
  if (!colon) {
    snprintf(reason, REASON_BYTES, "'%.*s' has no ':'", shown, text);
    return false;
  }
  const size_t kernels = (size_t)(colon - text);
  if (!kernel_class_valid(text, kernels)) {
    snprintf(reason, REASON_BYTES, "'%.*s' does not name a class of kernels", shown, text);
    return false;
  }
  if (rules->count == FORCED_RULES) {
    snprintf(reason, REASON_BYTES, "more than %d rules", FORCED_RULES);
    return false;
  }
  if (!parameters_parse(colon + 1, length - kernels - 1, &rules->rule[rules->count].tuning)) {
    snprintf(reason, REASON_BYTES, "'%.*s' has malformed parameters", shown, text);
    return false;
  }
  memcpy(rules->rule[rules->count].kernels, text, kernels);
  rules->rule[rules->count].kernels[kernels] = '\0';
  rules->count++;
  return true;
}

bool forced_parse(const char *text, forced_rules *rules, char *reason) {
  memset(rules, 0, sizeof *rules);
  while (*text) {
    size_t length = strcspn(text, ";");
    const char *next = text + length + (text[length] == ';');
    while (length > 0 && *text == ' ') text++, length--;
    while (length > 0 && text[length - 1] == ' ') length--;
    if (length > 0 && !parse_rule(text, length, rules, reason)) {
      rules->count = 0;
      return false;
    }
    text = next;
  }
  return true;
}

bool forced_find(const forced_rules *rules, const char *kernel_class, compute_tuning *tuning) {
  int best = KERNEL_CLASS_APART;
  for (uint32_t i = 0; i < rules->count; i++) {
    int fit = kernel_class_fit(rules->rule[i].kernels, kernel_class);
    if (fit == KERNEL_CLASS_APART || (best != KERNEL_CLASS_APART && fit > best)) continue;
    best = fit;
    *tuning = rules->rule[i].tuning;
  }
  return best != KERNEL_CLASS_APART;
}

/* ---- The table ------------------------------------------------------------------------------- */

/* The built-in table. Every row needs a measured reason in a comment. Choices that follow from the
 * properties of a target belong in the generator instead. */
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
  for (; *text; text++)
    if (ascii_begins(text, part)) return true;
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

/* ---- The store ------------------------------------------------------------------------------- */

struct tuning_store {
  pthread_mutex_t mutex; /* guards the fields after `path` */
  forced_rules forced;
  const table_row *rows;
  char *path; /* NULL: no file */
  tuning_contents contents;
  tuning_stamp seen;  /* at the last attempt to read, successful or not */
  int64_t next_check; /* monotonic time of the next check of the file */
};

bool tuning_text_valid(const char *text, char reason[128]) {
  forced_rules *rules = text ? base_allocate(1, sizeof *rules) : NULL;
  const bool valid = !rules || forced_parse(text, rules, reason);
  base_release(rules);
  return valid;
}

static void read_forced(tuning_store *store) {
  const char *text = variable_text("COMPUTE_TUNING");
  char reason[128] = "";
  if (text && !forced_parse(text, &store->forced, reason))
    log_write(COMPUTE_LOG_WARNING, "tune", "COMPUTE_TUNING is ignored: %s", reason);
}

/* Returns false only when out of memory. */
static bool choose_path(tuning_store *store) {
  const char *named = variable_text("COMPUTE_TUNING_FILE");
  if (named && !strcmp(named, "none")) return true;
  if (named && path_is_absolute(named)) {
    store->path = base_duplicate(named);
    return store->path != NULL;
  }
  if (named) {
    log_write(COMPUTE_LOG_WARNING, "tune",
              "COMPUTE_TUNING_FILE=%s is ignored: it must be an absolute path or none", named);
  }
  const char *reason;
  store->path = cache_folder_path("tuning", &reason);
  return store->path || *reason;
}

tuning_store *tuning_create_with(const table_row *rows) {
  tuning_store *store = base_allocate(1, sizeof *store);
  if (!store) return NULL;
  if (pthread_mutex_init(&store->mutex, NULL)) {
    base_release(store);
    return NULL;
  }
  store->rows = rows;
  if (!choose_path(store)) {
    tuning_release(store);
    return NULL;
  }
  read_forced(store);
  return store;
}

tuning_store *tuning_create(void) {
  return tuning_create_with(table_builtin);
}

void tuning_release(tuning_store *store) {
  if (!store) return;
  tuning_file_release(&store->contents);
  base_release(store->path);
  pthread_mutex_destroy(&store->mutex);
  base_release(store);
}

static void release(void *content) {
  tuning_release(content);
}

room_slot tuning_slot = {.stage = SLOT_STANDS_ALONE, .release = release};

tuning_store *tuning_of(const compute_context *context) {
  return slot_get(&context->slots, &tuning_slot);
}

const char *tuning_store_path(const tuning_store *store) {
  return store->path ? store->path : "";
}

/* ---- The file (mutex locked) ---------------------------------------------------------------- */

static bool same_stamp(const tuning_stamp *a, const tuning_stamp *b) {
  return a->device == b->device && a->inode == b->inode && a->size == b->size &&
         a->modified.tv_sec == b->modified.tv_sec && a->modified.tv_nsec == b->modified.tv_nsec;
}

static void report(const tuning_store *store) {
  const tuning_contents *c = &store->contents;
  log_write(c->damaged + c->foreign ? COMPUTE_LOG_WARNING : COMPUTE_LOG_DEBUG, "tune",
            "'%s': %zu entries; skipped %zu damaged lines and %zu of another version", store->path,
            c->count, c->damaged, c->foreign);
}

/* If the file has changed but cannot be read, the earlier entries stay in effect. */
static void refresh(tuning_store *store) {
  if (!store->path || clock_now() < store->next_check) return;
  store->next_check = clock_now() + CHECK_NANOSECONDS;
  const tuning_stamp stamp = tuning_file_stamp(store->path);
  if (same_stamp(&stamp, &store->seen)) return;
  tuning_contents fresh;
  char reason[TUNING_REASON_BYTES];
  store->seen = stamp;
  compute_status status = tuning_file_read(store->path, true, &fresh, reason);
  if (status == COMPUTE_ERROR_OUT_OF_MEMORY) store->seen = (tuning_stamp){0}; /* try again */
  if (status) {
    log_write(COMPUTE_LOG_WARNING, "tune", "cannot use the tuning file: %s", reason);
    return;
  }
  tuning_file_release(&store->contents);
  store->contents = fresh;
  store->seen = fresh.stamp;
  report(store);
}

/* Searches from the last line to the first, so that the later of equally good entries wins. */
static const tuning_entry *best_entry(const tuning_contents *contents, const char *identity,
                                      const char *kernel_class) {
  const tuning_entry *best = NULL;
  int best_fit = 0;
  for (size_t i = contents->count; i-- > 0 && !(best && best_fit == 0);) {
    const tuning_entry *entry = &contents->entries[i];
    if (strcmp(entry->identity, identity) != 0) continue;
    int fit = kernel_class_fit(entry->kernel_class, kernel_class);
    if (fit == KERNEL_CLASS_APART || (best && fit >= best_fit)) continue;
    best = entry;
    best_fit = fit;
  }
  return best;
}

bool tuning_store_find(tuning_store *store, const compute_target *target, const char *kernel_class,
                       compute_tuning *tuning) {
  char identity[ENTRY_IDENTITY_BYTES];
  pthread_mutex_lock(&store->mutex);
  refresh(store);
  const tuning_entry *entry = NULL;
  if (store->contents.count > 0)
    entry = best_entry(&store->contents, entry_identity(target, identity), kernel_class);
  if (entry) *tuning = entry->tuning;
  pthread_mutex_unlock(&store->mutex);
  return entry != NULL;
}

compute_status tuning_store_append(tuning_store *store, const char *lines, size_t bytes,
                                   char *reason) {
  if (!store->path) {
    snprintf(reason, TUNING_REASON_BYTES,
             "there is no tuning file: neither COMPUTE_TUNING_FILE nor a cache folder is set");
    return COMPUTE_ERROR_FILE;
  }
  compute_status status = tuning_file_append(store->path, lines, bytes, reason);
  pthread_mutex_lock(&store->mutex);
  store->next_check = 0;
  pthread_mutex_unlock(&store->mutex);
  return status;
}

/* ---- Lookup -------------------------------------------------------------------------------- */

compute_tuning_source tuning_lookup(tuning_store *store, const compute_target *target,
                                    const compute_kernel_descriptor *descriptor,
                                    compute_tuning *tuning) {
  char kernel_class[KERNEL_CLASS_BYTES];
  *tuning = (compute_tuning){0};
  /* Parameters of a class change the order of sums, and may not fit every number of items. */
  if (descriptor->demands & COMPUTE_DEMAND_REPRODUCIBLE) return COMPUTE_TUNING_HEURISTIC;
  kernel_class_print(descriptor, kernel_class);
  if (forced_find(&store->forced, kernel_class, tuning)) return COMPUTE_TUNING_FORCED;
  if (tuning_store_find(store, target, kernel_class, tuning)) return COMPUTE_TUNING_FILE;
  if (table_find(store->rows, target, kernel_class, tuning)) return COMPUTE_TUNING_TABLE;
  return COMPUTE_TUNING_HEURISTIC;
}
