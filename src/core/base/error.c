/* SPDX-License-Identifier: MIT */
/* Error details: the last error of each thread, of each context, and of each thread in each
 * context.
 *
 * The thread's last error in any context is in thread-local storage, so recording it cannot fail.
 * The other errors belong to a record of the context, under one lock. A context's record and
 * entries are freed when the context closes; a thread's entries are freed when the thread ends. An
 * open context is identified by its address. A thread is identified by a number that is never
 * reused. If an entry cannot be allocated, the thread-local error remains. */
#include "core/base/error.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/log.h"
#include "core/base/process.h"

typedef struct thread_entry {
  struct thread_entry *next;
  uintptr_t thread;
  compute_error error;
} thread_entry;

typedef struct context_record {
  struct context_record *next;
  const compute_context *context;
  compute_error last; /* of any thread */
  thread_entry *entries;
} context_record;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static context_record *records;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t exit_key; /* its destructor runs when a thread ends */
static bool exit_key_valid;

static _Thread_local uintptr_t thread_number; /* 0: not assigned yet */
static _Thread_local compute_error thread_last;
static _Thread_local const compute_context *thread_last_context;
static _Thread_local char thread_message[sizeof(((compute_error *)0)->message)];

static void entries_of_thread_release(void *number) {
  uintptr_t thread = (uintptr_t)number;
  pthread_mutex_lock(&mutex);
  for (context_record *record = records; record; record = record->next) {
    thread_entry **link = &record->entries;
    while (*link) {
      thread_entry *entry = *link;
      if (entry->thread == thread) {
        *link = entry->next;
        base_release(entry);
      } else {
        link = &entry->next;
      }
    }
  }
  pthread_mutex_unlock(&mutex);
}

static void exit_key_create(void) {
  exit_key_valid = pthread_key_create(&exit_key, entries_of_thread_release) == 0;
}

/* A thread that outlives an unloaded library must not call into it. */
__attribute__((destructor)) static void exit_key_delete(void) {
  if (exit_key_valid) pthread_key_delete(exit_key);
  exit_key_valid = false;
}

static uintptr_t thread_identity(void) {
  static atomic_uintptr_t last_number;
  pthread_once(&once, exit_key_create);
  if (thread_number == 0) thread_number = atomic_fetch_add(&last_number, 1) + 1;
  if (exit_key_valid) pthread_setspecific(exit_key, (void *)thread_number);
  return thread_number;
}

static context_record *record_find(const compute_context *context) {
  for (context_record *record = records; record; record = record->next) {
    if (record->context == context) return record;
  }
  return NULL;
}

static thread_entry *entry_find(const context_record *record, uintptr_t thread) {
  for (thread_entry *entry = record->entries; entry; entry = entry->next) {
    if (entry->thread == thread) return entry;
  }
  return NULL;
}

/* Stores `error` for the context and for the thread in it, if memory allows. */
static void context_keep(const compute_context *context, uintptr_t thread,
                         const compute_error *error) {
  context_record *record = record_find(context);
  if (!record) {
    record = base_allocate(1, sizeof *record);
    if (!record) return;
    record->context = context;
    record->next = records;
    records = record;
  }
  record->last = *error;
  thread_entry *entry = entry_find(record, thread);
  if (!entry) {
    entry = base_allocate(1, sizeof *entry);
    if (!entry) return;
    entry->thread = thread;
    entry->next = record->entries;
    record->entries = entry;
  }
  entry->error = *error;
}

void error_restore(const compute_context *context, const compute_error *error) {
  thread_last = *error;
  thread_last_context = context;
  if (!context) return;
  uintptr_t thread = thread_identity();
  pthread_mutex_lock(&mutex);
  context_keep(context, thread, error);
  pthread_mutex_unlock(&mutex);
}

/* Removes an incomplete UTF-8 character at the end of a truncated text. */
static void cut_whole(char *text) {
  size_t length = strlen(text), back = 0;
  while (back < 4 && back < length) {
    unsigned char c = (unsigned char)text[length - 1 - back++];
    if ((c & 0xC0) == 0x80) continue;
    size_t needed = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
    if (back < needed) text[length - back] = '\0';
    return;
  }
}

static void text_set(char *field, size_t bytes, const char *text) {
  snprintf(field, bytes, "%s", text ? text : "");
  cut_whole(field);
}

/* Skips the operation's name if the message begins with it. */
static const char *after_operation(const char *message, const char *operation) {
  const size_t length = strlen(operation);
  const bool named = length > 0 && !strncmp(message, operation, length) && message[length] == ':' &&
                     message[length + 1] == ' ';
  return named ? message + length + 2 : message;
}

const char *error_text(const compute_error *error) {
  return after_operation(error->message, error->operation);
}

/* Sets the message to "<operation>: <text>". A forwarded text may already contain the name. */
static void message_set(compute_error *error, const char *text) {
  const bool named = error->operation[0] && strcmp(error->operation, ERROR_BACKEND) != 0;
  int used = 0;
  if (named) used = snprintf(error->message, sizeof error->message, "%s: ", error->operation);
  text_set(error->message + used, sizeof error->message - (size_t)used,
           after_operation(text, error->operation));
}

void error_attribute(const compute_context *context, const char *operation) {
  if (strcmp(thread_last.operation, ERROR_BACKEND) != 0 &&
      strcmp(thread_last.operation, "compute_queue_wait") != 0)
    return;
  compute_error error = thread_last;
  text_set(error.operation, sizeof error.operation, operation);
  message_set(&error, error_text(&thread_last));
  error_restore(context, &error);
}

/* Adds the size of the failed request to a message about memory that has no size. */
static void append_size(char *text, size_t bytes, compute_status status) {
  const size_t failed = base_take_failed();
  const size_t length = strlen(text);
  if (status != COMPUTE_ERROR_OUT_OF_MEMORY || failed == 0 || strstr(text, " byte") ||
      !strstr(text, "memory"))
    return;
  if (failed == SIZE_MAX)
    snprintf(text + length, bytes - length, " (a request of more than 64 bits)");
  else
    snprintf(text + length, bytes - length, " (a request of %zu byte%s)", failed,
             failed == 1 ? "" : "s");
}

compute_status error_record_list(const compute_context *context, compute_status status,
                                 int64_t native_code, const char *operation, const char *remedy,
                                 const char *file, int line, const char *format, va_list list) {
  /* A separate copy, because the arguments may point into the error that it replaces. */
  compute_error error = {.status = status, .native_code = native_code};
  text_set(error.operation, sizeof error.operation, operation);
  text_set(error.remedy, sizeof error.remedy, remedy);
  if (file) snprintf(error.source, sizeof error.source, "%s:%d", file, line);
  char text[sizeof error.message];
  if (vsnprintf(text, sizeof text, format, list) < 0) text[0] = '\0';
  append_size(text, sizeof text, status);
  cut_whole(text);
  message_set(&error, text);
  error_restore(context, &error);
  log_write(COMPUTE_LOG_DEBUG, "core", "%s: %s", compute_status_name(status), error.message);
  return status;
}

compute_status error_record(const compute_context *context, compute_status status,
                            int64_t native_code, const char *operation, const char *remedy,
                            const char *file, int line, const char *format, ...) {
  va_list list;
  va_start(list, format);
  error_record_list(context, status, native_code, operation, remedy, file, line, format, list);
  va_end(list);
  return status;
}

compute_status error_find_null(const compute_context *context, const char *operation,
                               const char *file, int line, const char *names,
                               const void *const *pointers, size_t count) {
  for (size_t i = 0; i < count; i++, names += strcspn(names, ",")) {
    names += strspn(names, ", ");
    if (!pointers[i])
      return error_record(context, COMPUTE_ERROR_NULL_POINTER, 0, operation, NULL, file, line,
                          "%.*s is NULL", (int)strcspn(names, ","), names);
  }
  return COMPUTE_OK;
}

size_t error_reserved(const uint64_t *reserved, size_t count) {
  size_t index = 0;
  while (index < count && reserved[index] == 0) index++;
  return index;
}

compute_status error_find_reserved(const compute_context *context, const char *operation,
                                   const char *file, int line, const char *what,
                                   const uint64_t *reserved, size_t count) {
  const size_t index = error_reserved(reserved, count);
  if (index == count) return COMPUTE_OK;
  return error_record(context, COMPUTE_ERROR_INVALID_ARGUMENT, 0, operation, NULL, file, line,
                      ERROR_RESERVED, what, index);
}

void error_context_closed(const compute_context *context) {
  if (thread_last_context == context) thread_last_context = NULL;
  pthread_mutex_lock(&mutex);
  context_record **link = &records;
  while (*link && (*link)->context != context) link = &(*link)->next;
  context_record *record = *link;
  if (record) {
    *link = record->next;
    while (record->entries) {
      thread_entry *entry = record->entries;
      record->entries = entry->next;
      base_release(entry);
    }
    base_release(record);
  }
  pthread_mutex_unlock(&mutex);
}

/* The fork may have left the records half changed, so the child does not use them. */
void error_forked(void) {
  pthread_mutex_init(&mutex, NULL);
  records = NULL;
}

compute_status compute_error_get(const compute_context *context, compute_error *error) {
  if (!error) {
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, "compute_error_get", "error is NULL");
  }
  if (!context) {
    *error = thread_last;
    return COMPUTE_OK;
  }
  /* If no entry could be allocated, the thread's local copy is still valid. Another thread's error
   * must not replace it. */
  const bool own = thread_last_context == context && thread_last.status != COMPUTE_OK;
  *error = own ? thread_last : (compute_error){0};
  pthread_mutex_lock(&mutex);
  const context_record *record = record_find(context);
  const thread_entry *entry = record ? entry_find(record, thread_number) : NULL;
  if (entry)
    *error = entry->error;
  else if (record && !own)
    *error = record->last;
  pthread_mutex_unlock(&mutex);
  return COMPUTE_OK;
}

const char *compute_error_message(const compute_context *context) {
  compute_error error;
  compute_error_get(context, &error);
  memcpy(thread_message, error.message, sizeof thread_message);
  return thread_message;
}

void compute_error_clear(const compute_context *context) {
  if (!context || thread_last_context == context) {
    thread_last = (compute_error){0};
    thread_last_context = NULL;
  }
  if (!context) return;
  pthread_mutex_lock(&mutex);
  context_record *record = record_find(context);
  if (record) {
    record->last = (compute_error){0};
    thread_entry **link = &record->entries;
    while (*link && (*link)->thread != thread_number) link = &(*link)->next;
    thread_entry *entry = *link;
    if (entry) {
      *link = entry->next;
      base_release(entry);
    }
  }
  pthread_mutex_unlock(&mutex);
}
