/* SPDX-License-Identifier: MIT */
/* The list of records and notes of a session (bench.h). */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

bench_record bench_record_new(const bench_session *session, const char *suite,
                              const bench_case *c) {
  bench_record record = {.suite = suite, .name = c->name, .dtype = compute_dtype_name(c->dtype)};
  memcpy(record.device, session->info.name, sizeof record.device);
  record.ms = record.ms_p10 = record.ms_p90 = NAN;
  record.gflops = record.gbytes_s = record.max_rel_err = record.peer_ms = NAN;
  return record;
}

/* Room for one more; a benchmark without memory for its results cannot continue. */
static void *grow(void *array, size_t count, size_t *capacity, size_t size) {
  if (count < *capacity) return array;
  *capacity = *capacity ? 2 * *capacity : 64;
  void *larger = realloc(array, *capacity * size);
  if (!larger) {
    option_say(&bench_program, "out of memory");
    exit(1);
  }
  return larger;
}

/* Faults for --plant: tests check how a wrong or a slow record is reported. */
static void plant_verdict(const bench_session *session, bench_record *record) {
  const char *plant = session->options->plant;
  if (plant && !strcmp(plant, "wrong")) bench_require_most(record, "planted error", "", 0.5, 1e-6);
  if (plant && !strcmp(plant, "miss")) bench_aim(record, "planted time", "ms", 1.14, 1.1);
}

void bench_record_add(bench_session *session, const bench_record *record) {
  session->records = grow(session->records, session->record_count, &session->record_capacity,
                          sizeof *session->records);
  session->records[session->record_count++] = *record;
  plant_verdict(session, &session->records[session->record_count - 1]);
}

void bench_note(bench_session *session, const char *format, ...) {
  char text[1024];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  progress_hide(&session->progress);
  fflush(stdout); /* in order, if both go to the same place */
  option_say(&bench_program, "%s", text);
  session->notes =
      grow(session->notes, session->note_count, &session->note_capacity, sizeof *session->notes);
  char *copy = strdup(text);
  if (copy) session->notes[session->note_count++] = copy;
}

void bench_fail(bench_session *session, const char *suite, const bench_case *c, const char *what) {
  bench_record record = bench_record_new(session, suite, c);
  bench_fail_record(session, &record, what);
}

void bench_fail_record(bench_session *session, bench_record *record, const char *what) {
  bench_require(record, false, "%s: %s", what, compute_error_message(NULL));
  bench_note(session, "%s/%s %s", record->suite, record->name, record->verdict.words);
  bench_record_add(session, record);
}

void bench_close_context(bench_session *session, const char *suite, const bench_case *c,
                         compute_context *context) {
  if (context && compute_close(context)) bench_fail(session, suite, c, "leaks memory");
}
