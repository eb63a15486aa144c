/* SPDX-License-Identifier: MIT */
/* Fits in separate processes: memory of runs through callbacks, and compute-fit as a user starts
 * it; see fit.h. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fit.h"
#include "measure.h"
#include "process.h"

enum { SIDE = 7, BLOCK = 100000, ROIS = 10000000 };

/* ---- Memory --------------------------------------------------------------------------------- */

/* The source repeats the same hundred thousand ROIs; the sink counts. */
typedef struct memory_state {
  fit_stack stack;
  int64_t converged, next;
  bool wrong;
} memory_state;

static compute_status read_rois(void *user, int64_t first, int64_t items, void *data,
                                int64_t *count) {
  const memory_state *m = user;
  const size_t roi = SIDE * SIDE * sizeof(uint16_t);
  for (int64_t done = 0; done < items;) {
    const int64_t at = (first + done) % BLOCK;
    const int64_t part = items - done < BLOCK - at ? items - done : BLOCK - at;
    memcpy((char *)data + (size_t)done * roi, (const char *)m->stack.pixels + (size_t)at * roi,
           (size_t)part * roi);
    done += part;
  }
  *count = items;
  return COMPUTE_OK;
}

static compute_status count_results(void *user, int64_t first, int64_t count,
                                    const compute_fit_results *results, const int32_t *corners,
                                    int64_t next_frame) {
  memory_state *m = user;
  (void)corners;
  (void)next_frame;
  m->wrong |= first != m->next;
  m->next = first + count;
  for (int64_t i = 0; i < count; i++) m->converged += results->status[i] == COMPUTE_FIT_CONVERGED;
  return COMPUTE_OK;
}

int fit_memory_main(const char *device, int threads) {
  memory_state m = {0};
  compute_context *context;
  compute_fit *fit = NULL;
  compute_fit_summary summary = {0};
  compute_status s =
      compute_open(&context, &(compute_open_options){.device = device, .threads = threads});
  if (!s)
    s = fit_stack_create(context, COMPUTE_FIT_XYNB, COMPUTE_FIT_IDEAL, SIDE, COMPUTE_U16, BLOCK,
                         &m.stack);
  if (!s)
    s = compute_fit_create(
        context, &(compute_fit_options){.problem = m.stack.problem, .dtype = COMPUTE_U16}, &fit);
  if (!s)
    s = compute_fit_run(fit,
                        &(compute_fit_run_options){.pixels = {.read = read_rois, .user = &m},
                                                   .count = ROIS,
                                                   .write = count_results,
                                                   .write_user = &m},
                        &summary);
  if (s) fprintf(stderr, "compute-bench: fits: %s\n", compute_error_message(NULL));
  if (!s && (m.wrong || m.next != ROIS)) fprintf(stderr, "compute-bench: fits are missing\n");
  printf("%.9g %.9g %.9g\n", summary.seconds, (double)m.converged / ROIS,
         (double)summary.iterations / ROIS);
  const bool good = !s && !m.wrong && m.next == ROIS;
  compute_fit_release(fit);
  fit_stack_release(&m.stack);
  compute_close(context);
  return good ? 0 : 1;
}

void fit_run_memory(bench_session *session, const char *suite, const bench_case *c) {
  char program[4096], threads[16], words[][16] = {"--fit-memory", "--device", "--threads"};
  char *arguments[] = {program, words[0], words[1], session->info.name, words[2], threads, NULL};
  double value[3] = {0};
  process_folder folder = {""};
  process_call call = {.words = arguments, .folder = &folder, .said = "no folder for its output"};
  bench_record record = bench_record_new(session, suite, c);
  snprintf(threads, sizeof threads, "%d", session->threads);
  bool good = process_find(NULL, program, sizeof program) && process_folder_make(&folder) &&
              process_run(&call);
  if (good && !process_numbers(&folder, value, 3)) {
    snprintf(call.said, sizeof call.said, "it printed no numbers");
    good = false;
  }
  process_folder_remove(&folder);
  bench_require(&record, good, "the measured process failed: %s", call.said);
  if (good) {
    bench_require_least(&record, "converged fraction", "", value[1], 0.99);
    bench_require_most(&record, "peak memory", "bytes", (double)call.usage.ru_maxrss * 1024, 1e9);
    record.ms = record.ms_p10 = record.ms_p90 = value[0] * 1e3;
    record.fit = (bench_fit){.rows = SIDE,
                             .columns = SIDE,
                             .parameters = 4,
                             .rois = ROIS,
                             .rate = ROIS / value[0],
                             .converged = value[1],
                             .iterations = value[2],
                             .peak_bytes = (double)call.usage.ru_maxrss * 1024};
    bench_note(session, "%s/%s: %.3g ROIs/s through callbacks, %.0f MB at most", suite, c->name,
               record.fit.rate, record.fit.peak_bytes * 1e-6);
  }
  bench_record_add(session, &record);
}

/* ---- compute-fit ---------------------------------------------------------------------------- */

/* Whether this build's compute-fit reads TIFF files. */
#ifdef FIT_WITH_TIFF
enum { WRITES_TIFF = 1 };
#else
enum { WRITES_TIFF = 0 };
#endif

/* The files of the case, and the last message of one of its programs. */
typedef struct movie_case {
  char program[4096];
  process_folder folder;
  char movie[64], result[64], json[64];
  char said[200];
} movie_case;

static bool run_program(movie_case *m, char **arguments) {
  process_call call = {.words = arguments, .folder = &m->folder};
  if (process_run(&call)) return true;
  memcpy(m->said, call.said, sizeof m->said);
  return false;
}

static bool simulate_movie(movie_case *m, bool quick) {
  char words[][16] = {"simulate", "--movie", "--frames", "", "--size",    "256", "--spots",
                      "150",      "--roi",   "7",        "", "--photons", "",    "-o"};
  snprintf(words[3], sizeof words[3], "%d", quick ? 200 : 2000);
  snprintf(words[10], sizeof words[10], "--quiet");
  snprintf(words[12], sizeof words[12], "1000");
  char *arguments[17] = {m->program};
  for (int i = 0; i < 14; i++) arguments[1 + i] = words[i];
  arguments[15] = m->movie;
  return run_program(m, arguments);
}

static bool fit_movie(bench_session *session, movie_case *m) {
  char words[][16] = {"fit", "--roi", "7", "--sigma", "1.3", "--force", "--json", "--device", "-o"};
  char *arguments[] = {m->program, words[0],           m->movie, words[1],  words[2],
                       words[3],   words[4],           words[5], words[6],  m->json,
                       words[7],   session->info.name, words[8], m->result, NULL};
  return run_program(m, arguments);
}

static double number_of(const json_t *root, const char *name) {
  const json_t *value = json_object_get(root, name);
  return json_is_number(value) ? json_number_value(value) : NAN;
}

/* The best of several runs, with the file in the page cache, so that only the program is
 * measured. */
static bool measure_movie(bench_session *session, movie_case *m, bench_record *record) {
  record->ms = INFINITY;
  for (int i = 0; i < 3; i++) {
    const double start = clock_seconds();
    if (!fit_movie(session, m)) return false;
    const double ms = (clock_seconds() - start) * 1e3;
    json_t *root = json_load_file(m->json, 0, NULL);
    if (!root) {
      snprintf(m->said, sizeof m->said, "its summary is not JSON");
      return false;
    }
    if (ms < record->ms) {
      record->ms = record->ms_p10 = record->ms_p90 = ms;
      record->fit = (bench_fit){.rows = SIDE, .columns = SIDE, .parameters = 4};
      record->fit.rois = (int64_t)number_of(root, "rois");
      record->fit.rate = number_of(root, "rois_per_second");
      record->fit.converged = number_of(root, "converged_fraction");
      record->fit.iterations = number_of(root, "iterations_mean");
      record->fit.frames_rate = number_of(root, "frames_per_second");
    }
    json_decref(root);
  }
  return true;
}

void fit_run_file(bench_session *session, const char *suite, const bench_case *c) {
  movie_case m = {.said = "no folder for its files"};
  bench_record record = bench_record_new(session, suite, c);
  if (!WRITES_TIFF) {
    bench_note(session,
               "%s/%s skipped: compute-fit was built without libtiff (Debian: libtiff-dev)", suite,
               c->name);
    return;
  }
  if (!process_find("compute-fit", m.program, sizeof m.program)) {
    bench_note(session, "%s/%s skipped: no compute-fit beside compute-bench", suite, c->name);
    return;
  }
  bool good = process_folder_make(&m.folder);
  snprintf(m.movie, sizeof m.movie, "%s/movie.tif", m.folder.path);
  snprintf(m.result, sizeof m.result, "%s/result.csv", m.folder.path);
  snprintf(m.json, sizeof m.json, "%s/summary.json", m.folder.path);
  good = good && simulate_movie(&m, session->options->quick) && measure_movie(session, &m, &record);
  process_folder_remove(&m.folder);
  bench_require(&record, good, "compute-fit failed: %s", m.said);
  if (good) { /* spots overlap, and some are cut off */
    bench_require_least(&record, "converged fraction", "", record.fit.converged, 0.8);
    bench_note(session, "%s/%s: 256 x 256 frames at %.0f/s, spots found and fitted at %.3g/s, CSV",
               suite, c->name, record.fit.frames_rate, record.fit.rate);
  }
  bench_record_add(session, &record);
}
