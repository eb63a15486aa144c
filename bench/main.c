/* SPDX-License-Identifier: MIT */
/* compute-bench: measures libcompute on this machine, compared with the machine's limits and with
 * other libraries; every result is checked before it is timed. */
#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "first_result.h"
#include "fit.h"
#include "group.h"
#include "guard.h"
#include "measure.h"
#include "output.h"
#include "environment.h"
#include "peers.h"
#include "programs/common/json_text.h"
#include "programs/common/output_check.h"

static const bench_suite *const suites[] = {
#define SUITE(name) &bench_suite_##name,
    BENCH_SUITES(SUITE)
#undef SUITE
};
enum { SUITES = sizeof suites / sizeof *suites };

static const bench_suite *find_suite(const char *name, size_t length) {
  for (int i = 0; i < SUITES; i++)
    if (strlen(suites[i]->name) == length && !strncmp(suites[i]->name, name, length))
      return suites[i];
  return NULL;
}

/* Marks the suites of a list "A,B"; NULL marks all. */
static void select_suites(const char *list, bool *selected) {
  for (int i = 0; i < SUITES; i++) selected[i] = !list;
  while (list && *list) {
    const size_t length = strcspn(list, ",");
    const bench_suite *suite = find_suite(list, length);
    for (int i = 0; i < SUITES; i++) selected[i] |= suites[i] == suite;
    list += length + (list[length] == ',');
  }
}

/* Whether one of the patterns "A,B" fits. */
static bool matches(const char *patterns, const char *name, const char *path) {
  char pattern[256];
  for (const char *at = patterns;; at++) {
    const size_t length = strcspn(at, ",");
    snprintf(pattern, sizeof pattern, "%.*s", (int)length, at);
    if (!fnmatch(pattern, name, 0) || !fnmatch(pattern, path, 0)) return true;
    at += length;
    if (!*at) return false;
  }
}

static bool is_selected(const bench_options *options, const bench_suite *suite,
                        const bench_case *c) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", suite->name, c->name);
  if (!(c->when & (options->quick ? BENCH_QUICK : BENCH_FULL | BENCH_GPU))) return false;
  return !options->filter || matches(options->filter, c->name, path);
}

/* Whether a selected case is one for this device. */
static bool is_measured(const bench_session *session, const bench_suite *suite,
                        const bench_case *c) {
  if (c->when == BENCH_GPU && session->info.type == COMPUTE_DEVICE_CPU) return false;
  return is_selected(session->options, suite, c);
}

static void list_cases(const bench_options *options, const bool *selected) {
  for (int i = 0; i < SUITES; i++) {
    if (!selected[i]) continue;
    printf("%s: %s\n", suites[i]->name, suites[i]->text);
    for (size_t j = 0; j < suites[i]->case_count; j++) {
      const bench_case *c = &suites[i]->cases[j];
      if (is_selected(options, suites[i], c))
        printf("  %-24s %s\n", c->name, compute_dtype_name(c->dtype));
    }
  }
}

static compute_status open_session(bench_session *session) {
  const bench_options *options = session->options;
  double start = clock_seconds();
  compute_status status = compute_open(
      &session->context,
      &(compute_open_options){.device = options->device, .threads = (int32_t)options->threads});
  session->first_open_ms = (clock_seconds() - start) * 1e3;
  if (status) return status;
  session->device = compute_default_device(session->context);
  status = compute_device_describe(session->device, &session->info);
  if (!status) status = compute_queue_create(session->device, &session->queue);
  session->threads = (int)options->threads;
  if (!session->threads && session->info.type == COMPUTE_DEVICE_CPU)
    session->threads = (int)session->info.compute_units;
  if (session->threads < 1) session->threads = 1;
  return status;
}

/* Opens the group if cases of its suite are selected. Several processes then measure that suite,
 * and nothing else. */
static compute_status join_group(bench_session *session, bool *selected) {
  const bench_suite *group = &bench_suite_group;
  size_t cases = 0;
  for (int i = 0; i < SUITES; i++)
    for (size_t j = 0; selected[i] && suites[i] == group && j < group->case_count; j++)
      cases += is_selected(session->options, group, &group->cases[j]);
  const compute_status status = cases > 0 ? bench_group_open(session) : COMPUTE_OK;
  for (int i = 0; session->group_info.size > 1 && i < SUITES; i++)
    selected[i] = selected[i] && suites[i] == group;
  return status;
}

/* sgemm far below the processor's limit means that OpenBLAS runs code for another processor. Every
 * comparison with it is then worthless. */
static void judge_matmul(bench_session *session) {
  double best = 0, peer = 0, peak = session->limits.fma_f32;
  for (size_t i = 0; i < session->record_count; i++) {
    const bench_record *r = &session->records[i];
    bool large = r->gflops * r->ms * 1e6 > 2e8; /* n = 512 and more */
    if (strcmp(r->suite, "matmul") || strcmp(r->dtype, "f32") || !large || r->gflops <= best)
      continue;
    best = r->gflops;
    if (r->peer[0]) peer = r->gflops * r->ms / r->peer_ms;
  }
  if (best > 0 && peak > 0 && best < 0.6 * peak && session->info.type == COMPUTE_DEVICE_CPU)
    bench_note(session,
               "WARNING: the fastest f32 matmul reaches %.0f GFLOP/s, %.0f %% of the multiply-add "
               "peak (a peer: %.0f). %s %s",
               best, 100 * best / peak, peer, session->info.driver, session->info.notes);
}

static bool is_planted(const bench_session *session, const char *what) {
  return session->options->plant && !strcmp(session->options->plant, what);
}

/* Faults of --plant that occur before a case; the others are in session.c. */
static void plant(bench_session *session) {
  if (is_planted(session, "crash")) raise(SIGSEGV);
  while (is_planted(session, "hang")) pause();
  if (is_planted(session, "leak") && !session->leak)
    (void)compute_tensor_create(session->device, COMPUTE_F32, COMPUTE_SHAPE(1), &session->leak);
}

/* A hundred times the longest case. */
static unsigned hang_seconds(const bench_options *options) {
  if (options->plant && !strcmp(options->plant, "hang")) return 2;
  return options->quick ? 600 : 3600;
}

/* Draws the case that begins at once, since it may take long. */
static void show_progress(bench_session *session, size_t done, size_t total, const char *suite,
                          const char *name) {
  progress_draw_now(&session->progress, (double)done / (double)total, "[%zu/%zu] %s/%s", done + 1,
                    total, suite, name);
}

/* Keeps the records of the earlier cases. The interrupted case's records go, because it may have
 * been disturbed. */
static void stop(bench_session *session, size_t records, size_t done, size_t total) {
  session->record_count = records;
  bench_note(session, "interrupted: %zu of %zu cases measured", done, total);
}

/* A run that is killed keeps the records of earlier cases. An error is reported at the end, when
 * all is written. */
static void keep_records(const bench_session *session) {
  const char *path = session->options->json;
  if (path && json_is_replaced(path) && session->record_count && session->group_info.rank == 0)
    (void)output_json(session, path);
}

/* Runs cases until there are no more, or until an interruption. Returns how many there are; one
 * that cannot run here leaves a note and no record. */
static size_t run_cases(bench_session *session, const bool *selected) {
  size_t total = 0, done = 0;
  for (int i = 0; i < SUITES; i++)
    for (size_t j = 0; selected[i] && j < suites[i]->case_count; j++)
      total += is_measured(session, suites[i], &suites[i]->cases[j]);
  for (int i = 0; i < SUITES; i++) {
    bool heading = false;
    if (!selected[i]) continue;
    const bool compares = suites[i] != &bench_suite_overhead && suites[i] != &bench_suite_group;
    if (compares && !session->peers && !session->options->prepare) {
      session->peers = bench_peers_open(session, session->options->peers);
      environment_print_peers(session);
    }
    for (size_t j = 0; j < suites[i]->case_count; j++) {
      const bench_case *c = &suites[i]->cases[j];
      if (!is_measured(session, suites[i], c)) continue;
      progress_hide(&session->progress);
      if (!heading && !session->options->prepare) output_heading(session, suites[i]);
      heading = true;
      show_progress(session, done, total, suites[i]->name, c->name);
      size_t first = session->record_count;
      guard_case(suites[i]->name, c->name, hang_seconds(session->options));
      plant(session);
      c->run(session, suites[i]->name, c);
      guard_end();
      progress_hide(&session->progress);
      if (guard_interrupted()) {
        stop(session, first, done, total);
        return total;
      }
      done++;
      if (session->record_count > first && !session->options->prepare)
        output_case(session, session->records + first, session->record_count - first);
      keep_records(session);
    }
  }
  return total;
}

static void close_device(bench_session *session) {
  static const bench_case closing = {.name = "close", .dtype = COMPUTE_F32};
  compute_queue_release(session->queue);
  bench_group_close(session);
  guard_case("session", closing.name, hang_seconds(session->options));
  bench_close_context(session, "session", &closing, session->context);
  guard_end();
  session->queue = NULL;
  session->context = NULL;
}

static void close_session(bench_session *session) {
  close_device(session);
  bench_peers_close(session->peers);
  for (size_t i = 0; i < session->note_count; i++) free(session->notes[i]);
  free(session->notes);
  free(session->records);
}

/* Whether something was wrong. */
static bool summarise(const bench_session *session) {
  size_t wrong = 0;
  if (!session->options->prepare) return output_summary(session) > 0;
  for (size_t i = 0; i < session->record_count; i++) wrong += session->records[i].verdict.wrong;
  printf("%zu records prepared; %zu wrong\n", session->record_count, wrong);
  return wrong > 0;
}

/* Opens, measures, writes. Returns the exit status. */
static int measure(const bench_options *options, bool *selected) {
  bench_session session = {.options = options, .progress = progress_begin(false, 5)};
  output_begin(&session);
  progress_draw_now(&session.progress, -1, "opening the device");
  if (open_session(&session) || join_group(&session, selected)) {
    progress_hide(&session.progress);
    option_say(&bench_program, "%s", compute_error_message(NULL));
    close_session(&session);
    return EXIT_FAILED;
  }
  const bool alone = session.group_info.size < 2;
  if (alone) guard_take_interrupts(); /* ranks that continue would wait for one that stops */
  progress_draw_now(&session.progress, -1, "measuring the machine's limits");
  /* With a planted fault the figures do not matter, and ranks share the machine. */
  const bool limited = !options->plant && !options->prepare && alone;
  session.limits = !limited ? (bench_limits){.isa = "nothing", .threads = session.threads}
                            : bench_limits_measure(session.threads);
  progress_hide(&session.progress);
  environment_print(&session);
  const size_t cases = run_cases(&session, selected);
  if (limited && !guard_interrupted()) bench_limits_raise(&session.limits);
  judge_matmul(&session);
  close_device(&session); /* a leak is a failure as well */
  int status = summarise(&session) ? 1 : 0;
  if (guard_interrupted()) {
    if (!status) status = EXIT_INTERRUPTED;
  } else if (!cases) {
    option_say(&bench_program, "no case matches '%s'; --list shows them",
               options->filter ? options->filter : "");
    status = EXIT_USAGE;
  }
  const bool measured = session.record_count || (cases && !guard_interrupted());
  const bool writes = options->json && measured && session.group_info.rank == 0;
  if (writes && output_json(&session, options->json)) {
    option_say(&bench_program, "--json: '%s' cannot be written: %s", options->json,
               strerror(errno));
    status = 1;
  }
  close_session(&session);
  return status;
}

int main(int argc, char **argv) {
  static bench_options options;
  bool selected[SUITES];
  int status;
  if (!option_read(&bench_program, argc, argv, &options, &status)) return status;
  if (options.first_result) return first_result_main(options.device);
  if (options.prepare && options.json) {
    option_say(&bench_program, "--prepare measures nothing that --json could write");
    return EXIT_USAGE;
  }
  if (options.fit_memory) return fit_memory_main(options.device, (int)options.threads);
  select_suites(options.suites, selected);
  if (options.list) {
    list_cases(&options, selected);
    return fflush(stdout) ? EXIT_FAILED : EXIT_GOOD;
  }
  if (output_check(&bench_program, "--json", options.json)) return EXIT_FAILED;
  bench_peers_prepare();
  if (options.prepare) bench_measure_once();
  return measure(&options, selected);
}
