/* SPDX-License-Identifier: MIT */
/* The log: silent by default, filtered by level, one line at a time, safe to switch at any time. */
#include "support/harness/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/log.h"

typedef struct seen {
  atomic_int lines;
  compute_log_level level;
  char module[32];
  char message[2048];
} seen;

static void remember(void *user, compute_log_level level, const char *module, const char *message) {
  seen *s = user;
  s->lines++;
  s->level = level;
  snprintf(s->module, sizeof s->module, "%s", module);
  snprintf(s->message, sizeof s->message, "%s", message);
}

static int silence(void **state) {
  (void)state;
  compute_log_set(NULL, NULL, COMPUTE_LOG_OFF);
  return 0;
}

static void lines_up_to_the_level_arrive(void **state) {
  (void)state;
  seen s = {0};
  compute_log_set(remember, &s, COMPUTE_LOG_WARNING);
  log_write(COMPUTE_LOG_INFO, "core", "too chatty");
  assert_int_equal(s.lines, 0);
  log_write(COMPUTE_LOG_WARNING, "cpu", "%d of %d", 1, 2);
  assert_int_equal(s.lines, 1);
  assert_int_equal(s.level, COMPUTE_LOG_WARNING);
  assert_string_equal(s.module, "cpu");
  assert_string_equal(s.message, "1 of 2");
  log_write(COMPUTE_LOG_ERROR, "core", "worse");
  assert_int_equal(s.lines, 2);
  assert_true(log_enabled(COMPUTE_LOG_ERROR));
  assert_false(log_enabled(COMPUTE_LOG_DEBUG));
  assert_false(log_enabled(COMPUTE_LOG_OFF));
}

static void null_or_off_silences(void **state) {
  (void)state;
  seen s = {0};
  compute_log_set(remember, &s, COMPUTE_LOG_OFF);
  log_write(COMPUTE_LOG_ERROR, "core", "unheard");
  compute_log_set(NULL, &s, COMPUTE_LOG_DEBUG);
  log_write(COMPUTE_LOG_ERROR, "core", "unheard");
  assert_int_equal(s.lines, 0);
}

static void a_message_is_one_line(void **state) {
  (void)state;
  seen s = {0};
  compute_log_set(remember, &s, COMPUTE_LOG_DEBUG);
  log_write(COMPUTE_LOG_INFO, "core", "build failed:\nline 1\r\nline 2");
  assert_int_equal(s.lines, 1);
  assert_null(strpbrk(s.message, "\r\n"));
  char longer[3000];
  memset(longer, 'x', sizeof longer - 1);
  longer[sizeof longer - 1] = '\0';
  log_write(COMPUTE_LOG_INFO, "core", "%s", longer);
  assert_int_equal(s.lines, 2);
  assert_true(strlen(s.message) > 500);
}

/* ---- COMPUTE_LOG, which is read once per process: each case in a child --------------------- */

/* The standard error of a child with COMPUTE_LOG=value that logs one line per level. */
static void child_output(const char *value, char *text, size_t bytes) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    setenv("COMPUTE_LOG", value, 1);
    log_write(COMPUTE_LOG_ERROR, "core", "line-error");
    log_write(COMPUTE_LOG_WARNING, "core", "line-warning");
    log_write(COMPUTE_LOG_INFO, "core", "line-info");
    log_write(COMPUTE_LOG_DEBUG, "core", "line-debug");
    _exit(0);
  }
  close(ends[1]);
  size_t length = 0;
  ssize_t got;
  while ((got = read(ends[0], text + length, bytes - 1 - length)) > 0) length += (size_t)got;
  text[length] = '\0';
  close(ends[0]);
  assert_int_equal(waitpid(child, NULL, 0), child);
}

static void the_variable_chooses_the_level(void **state) {
  (void)state;
  char text[4096];
  child_output("", text, sizeof text);
  assert_string_equal(text, "");
  child_output("off", text, sizeof text);
  assert_string_equal(text, "");
  child_output("warning", text, sizeof text);
  assert_non_null(strstr(text, "line-error"));
  assert_non_null(strstr(text, "compute core: warning: line-warning\n"));
  assert_null(strstr(text, "line-info"));
  child_output("debug", text, sizeof text);
  assert_non_null(strstr(text, "line-debug"));
}

static void an_unknown_level_is_explained(void **state) {
  (void)state;
  char text[4096];
  child_output("verbose", text, sizeof text);
  assert_non_null(strstr(text, "error, warning, info, debug"));
  assert_non_null(strstr(text, "line-warning"));
  assert_null(strstr(text, "line-info"));
}

/* ---- Threads ------------------------------------------------------------------------------- */

static void count(void *user, compute_log_level level, const char *module, const char *message) {
  (void)level;
  (void)module;
  (void)message;
  atomic_fetch_add((atomic_int *)user, 1);
}

static void *write_lines(void *unused) {
  (void)unused;
  for (int i = 0; i < 2000; i++) log_write(COMPUTE_LOG_INFO, "core", "line %d", i);
  return NULL;
}

static void a_receiver_is_not_called_after_it_was_replaced(void **state) {
  (void)state;
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, write_lines, NULL), 0);
  }
  for (int round = 0; round < 50; round++) {
    atomic_int *lines = malloc(sizeof *lines);
    atomic_init(lines, 0);
    compute_log_set(count, lines, COMPUTE_LOG_INFO);
    usleep(50);
    compute_log_set(NULL, NULL, COMPUTE_LOG_OFF);
    free(lines);
  }
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      /* First: this process must not have read the variable yet. */
      cmocka_unit_test(the_variable_chooses_the_level),
      cmocka_unit_test(an_unknown_level_is_explained),
      cmocka_unit_test_teardown(lines_up_to_the_level_arrive, silence),
      cmocka_unit_test_teardown(null_or_off_silences, silence),
      cmocka_unit_test_teardown(a_message_is_one_line, silence),
      cmocka_unit_test_teardown(a_receiver_is_not_called_after_it_was_replaced, silence),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
