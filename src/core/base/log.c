/* SPDX-License-Identifier: MIT */
/* The process's log: one receiver and one level.
 *
 * Every log call first reads the level, which is atomic, so a silent log costs one load. The
 * receiver is called under a read lock. When compute_log_set returns, no thread is inside the old
 * receiver any more, and its data may be freed. One store replaces a receiver as a whole: a fork
 * may happen at any moment, and the child must see either the old or the new one. */
#include "core/base/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/base/process.h"
#include "core/base/variable.h"

#define LINE_BYTES 1024

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct {
  compute_log_function function;
  void *user;
} receivers[2];
static atomic_int chosen;         /* index of the active receiver */
static _Thread_local int inside;  /* nesting of receiver calls in this thread */
static atomic_int threshold = -1; /* -1: COMPUTE_LOG has not been read yet */

static const char *const level_text[] = {
    [COMPUTE_LOG_OFF] = "off",   [COMPUTE_LOG_ERROR] = "error", [COMPUTE_LOG_WARNING] = "warning",
    [COMPUTE_LOG_INFO] = "info", [COMPUTE_LOG_DEBUG] = "debug",
};

static void write_to_stderr(void *user, compute_log_level level, const char *module,
                            const char *message) {
  (void)user;
  fprintf(stderr, "compute %s: %s: %s\n", module, level_text[level], message);
}

/* A user who sets COMPUTE_LOG to an unknown value wants a log, so this writes the valid values. */
static void read_environment(void) {
  const char *text = variable_text("COMPUTE_LOG");
  int level = COMPUTE_LOG_OFF;
  if (text) {
    for (level = COMPUTE_LOG_DEBUG; level >= 0; level--) {
      if (strcmp(text, level_text[level]) == 0) break;
    }
    if (level < 0) {
      level = COMPUTE_LOG_WARNING;
      write_to_stderr(NULL, COMPUTE_LOG_WARNING, "core",
                      "COMPUTE_LOG must be one of off, error, warning, info, debug; using warning");
    }
    receivers[0].function = write_to_stderr;
  }
  atomic_store(&threshold, level);
}

void compute_log_set(compute_log_function function, void *user, compute_log_level level) {
  pthread_once(&once, read_environment);
  pthread_rwlock_wrlock(&lock);
  const int next = 1 - atomic_load(&chosen);
  receivers[next].function = function;
  receivers[next].user = user;
  atomic_store(&chosen, next);
  atomic_store(&threshold, function ? (int)level : COMPUTE_LOG_OFF);
  pthread_rwlock_unlock(&lock);
}

bool log_enabled(compute_log_level level) {
  int current = atomic_load_explicit(&threshold, memory_order_relaxed);
  if (current < 0) {
    pthread_once(&once, read_environment);
    current = atomic_load_explicit(&threshold, memory_order_relaxed);
  }
  return level > COMPUTE_LOG_OFF && (int)level <= current;
}

void log_write_list(compute_log_level level, const char *module, const char *format, va_list list) {
  if (!log_enabled(level)) return;
  char line[LINE_BYTES];
  if (vsnprintf(line, sizeof line, format, list) < 0) return;
  for (char *p = line; *p; p++) {
    if (*p == '\n' || *p == '\r') *p = ' ';
  }
  pthread_rwlock_rdlock(&lock);
  const int which = atomic_load_explicit(&chosen, memory_order_relaxed);
  inside++;
  if (receivers[which].function && log_enabled(level))
    receivers[which].function(receivers[which].user, level, module ? module : "", line);
  inside--;
  pthread_rwlock_unlock(&lock);
}

/* The forking thread may be inside a receiver, which unlocks when it returns. */
void log_forked(void) {
  pthread_rwlock_init(&lock, NULL);
  for (int i = 0; i < inside; i++) pthread_rwlock_rdlock(&lock);
}

void log_write(compute_log_level level, const char *module, const char *format, ...) {
  va_list list;
  va_start(list, format);
  log_write_list(level, module, format, list);
  va_end(list);
}

void log_write_asked(compute_log_level level, const char *module, const char *format, ...) {
  va_list list;
  va_start(list, format);
  if (log_enabled(level)) {
    log_write_list(level, module, format, list);
  } else {
    char line[LINE_BYTES];
    if (vsnprintf(line, sizeof line, format, list) >= 0) write_to_stderr(NULL, level, module, line);
  }
  va_end(list);
}
