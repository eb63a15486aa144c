/* The profile is gathered as text in memory, then written in one go: what can fail in between is
 * only the file.
 *
 * Modules that have not been opened yet stay closed; their devices have nothing to report. */
#include "profile/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "base/utf8.h"
#include "base/variable.h"
#include "cache/disk_cache.h"
#include "device/device.h"

#define FORMAT_VERSION 1

static const char operation[] = "compute_profile_write";

/* ---- JSON ---------------------------------------------------------------------------------- */

static void add_string(text_buffer *text, const char *words) {
  text_add(text, "\"");
  while (*words) {
    size_t length = utf8_length(words);
    if (*words == '"' || *words == '\\') {
      text_add(text, "\\%c", *words);
    } else if ((unsigned char)*words < 0x20) {
      text_add(text, "\\u%04x", (unsigned)*words);
    } else if (length == 0) {
      text_add(text, "%s", UTF8_REPLACEMENT);
    } else {
      text_add(text, "%.*s", (int)length, words);
    }
    words += length ? length : 1;
  }
  text_add(text, "\"");
}

static void add_member(text_buffer *text, const char *name, const char *words) {
  text_add(text, "\"%s\": ", name);
  add_string(text, words);
}

typedef struct counter {
  const char *name;
  uint64_t value;
} counter;

static void add_counters(text_buffer *text, const char *name, const counter *counters,
                         size_t count) {
  text_add(text, ",\n      \"%s\": {", name);
  for (size_t i = 0; i < count; i++) {
    text_add(text, "%s\"%s\": %" PRIu64, i ? ", " : "", counters[i].name, counters[i].value);
  }
  text_add(text, "}");
}

/* ---- Content ------------------------------------------------------------------------------- */

/* The field and its name in the file are one word. */
#define COUNTER(field)                                                                             \
  { #field, s.field }

static void add_pool(text_buffer *text, const compute_device *device) {
  compute_pool_statistics s;
  compute_pool_query(device, &s);
  const counter counters[] = {COUNTER(bytes_allocated),
                              COUNTER(bytes_active),
                              COUNTER(bytes_cached),
                              COUNTER(bytes_requested),
                              COUNTER(bytes_peak),
                              COUNTER(bytes_budget),
                              COUNTER(hits),
                              COUNTER(misses),
                              COUNTER(evictions),
                              COUNTER(blocks_active),
                              COUNTER(blocks_cached)};
  add_counters(text, "pool", counters, sizeof counters / sizeof *counters);
}

static void add_builds(text_buffer *text, const compute_device *device) {
  compute_build_statistics s;
  compute_build_query(device, &s);
  const counter counters[] = {COUNTER(programs_compiled),    COUNTER(programs_from_disk),
                              COUNTER(programs_from_driver), COUNTER(programs_shared),
                              COUNTER(programs_failed),      COUNTER(build_nanoseconds)};
  add_counters(text, "builds", counters, sizeof counters / sizeof *counters);
}

/* As it is now: some drivers and libraries are only known once they were used. A device that cannot
 * say it any more, being lost, is described as it was. */
static void describe(const compute_device *device, compute_device_info *info) {
  compute_error before;
  compute_error_get(NULL, &before);
  if (compute_device_describe(device, info) == COMPUTE_OK) return;
  *info = device->info;
  error_restore(NULL, &before);
}

static void add_device(text_buffer *text, const compute_device *device) {
  compute_device_info info;
  describe(device, &info);
  text_add(text, "    {");
  add_member(text, "name", info.name);
  text_add(text, ", ");
  add_member(text, "backend", info.backend);
  text_add(text, ",\n      ");
  add_member(text, "model", info.model);
  text_add(text, ",\n      ");
  add_member(text, "driver", info.driver);
  add_pool(text, device);
  add_builds(text, device);
  text_add(text, "}");
}

static void add_disk_cache(text_buffer *text, disk_cache *cache) {
  disk_cache_statistics s;
  disk_cache_query(cache, &s);
  const counter counters[] = {COUNTER(hits), COUNTER(misses), COUNTER(stores), COUNTER(damaged),
                              COUNTER(evictions)};
  text_add(text, "  \"disk_cache\": {");
  add_member(text, "folder", disk_cache_folder(cache));
  for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
    text_add(text, ", \"%s\": %" PRIu64, counters[i].name, counters[i].value);
  }
  text_add(text, "}\n");
}

static void add_profile(text_buffer *text, compute_context *context) {
  text_add(text, "{\n  \"format\": \"libcompute profile\",\n  \"format_version\": %d,\n  ",
           FORMAT_VERSION);
  add_member(text, "library_version", compute_version_text());
  text_add(text, ",\n  \"devices\": [\n");
  pthread_mutex_lock(&context->registry_mutex);
  for (size_t i = 0; i < context->device_count; i++) {
    if (i > 0) text_add(text, ",\n");
    add_device(text, context->devices[i]);
  }
  pthread_mutex_unlock(&context->registry_mutex);
  text_add(text, "\n  ],\n");
  add_disk_cache(text, context->disk_cache);
  text_add(text, "}\n");
}

/* ---- File ---------------------------------------------------------------------------------- */

/* 0 or an errno. */
static int write_and_close(int file, const text_buffer *text) {
  int problem = file_write(file, text->data, text->length);
  if (close(file) != 0 && problem == 0) problem = errno;
  return problem;
}

/* A pipe, a terminal or a link stays what it is: only a plain file is replaced. */
static bool is_special(const char *path) {
  struct stat status;
  return lstat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

static int write_into(const char *path, const text_buffer *text) {
  int file = open(path, O_WRONLY | O_TRUNC | O_NOCTTY | O_CLOEXEC);
  return file < 0 ? errno : write_and_close(file, text);
}

static int replace(const char *path, const text_buffer *text) {
  static atomic_uint serial; /* several threads may write one file */
  size_t bytes = strlen(path) + 48;
  char *temporary = base_allocate(bytes, 1);
  if (!temporary) return ENOMEM;
  snprintf(temporary, bytes, "%s.%ld-%u.tmp", path, (long)getpid(), atomic_fetch_add(&serial, 1));
  int file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                  S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH);
  int problem = file < 0 ? errno : write_and_close(file, text);
  if (problem == 0 && rename(temporary, path) != 0) problem = errno;
  if (problem != 0 && file >= 0) unlink(temporary);
  base_release(temporary);
  return problem;
}

compute_status compute_profile_write(compute_context *context, const char *path) {
  if (!context || !path) {
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL",
                     context ? "path" : "context");
  }
  text_buffer text = {0};
  add_profile(&text, context);
  int problem = text.failed        ? ENOMEM
                : is_special(path) ? write_into(path, &text)
                                   : replace(path, &text);
  text_release(&text);
  if (problem == 0) return COMPUTE_OK;
  if (problem == ENOMEM) {
    return error_set_native(context, COMPUTE_ERROR_OUT_OF_MEMORY, problem, operation, NULL,
                            "out of memory for the profile");
  }
  return error_set_native(context, COMPUTE_ERROR_FILE, problem, operation, NULL,
                          "cannot write %s: %s", path, strerror(problem));
}

void profile_at_close(compute_context *context) {
  const char *path = variable_text("COMPUTE_PROFILE");
  if (!path) return;
  compute_error before;
  compute_error_get(NULL, &before);
  if (compute_profile_write(context, path) != COMPUTE_OK) {
    log_write(COMPUTE_LOG_WARNING, "core", "the profile that COMPUTE_PROFILE asks for: %s",
              compute_error_message(context));
  }
  error_restore(NULL, &before);
}
