/* SPDX-License-Identifier: MIT */
/* Fits in separate processes: memory of runs through callbacks, and compute-fit as a user starts
 * it; see fit.h. */
#include <ftw.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fit.h"
#include "measure.h"

enum { SIDE = 7, BLOCK = 100000, ROIS = 10000000 };

/* ---- Processes ------------------------------------------------------------------------------ */

/* Starts a program with its output in a file. Its exit status, −1 if it could not be started. */
static int start_program(char *const *words, const char *output, struct rusage *usage) {
  int status = -1;
  fflush(NULL);
  const pid_t process = fork();
  if (process == 0) {
    if (freopen(output, "w", stdout)) execv(words[0], words);
    _exit(127);
  }
  if (process < 0 || wait4(process, &status, 0, usage) != process) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* This program's path, with the file name replaced by `name` unless that is NULL. */
static bool find_program(const char *name, char *path, size_t bytes) {
  const ssize_t length = readlink("/proc/self/exe", path, bytes - 1);
  if (length <= 0) return false;
  path[length] = 0;
  char *slash = strrchr(path, '/');
  if (!name || !slash) return slash != NULL;
  const size_t room = bytes - (size_t)(slash + 1 - path);
  return snprintf(slash + 1, room, "%s", name) < (int)room && access(path, X_OK) == 0;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk) {
  (void)status;
  (void)kind;
  (void)walk;
  return remove(path);
}

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

static bool read_numbers(const char *path, double *value, int count) {
  FILE *file = fopen(path, "r");
  bool good = file != NULL;
  for (int i = 0; i < count && good; i++) good = fscanf(file, "%lf", &value[i]) == 1;
  if (file) fclose(file);
  return good;
}

void fit_run_memory(bench_session *session, const char *suite, const bench_case *c) {
  char program[4096], threads[16], folder[] = "/tmp/compute-bench-XXXXXX", output[64];
  double value[3] = {0};
  struct rusage usage = {0};
  bench_record record = bench_record_new(session, suite, c);
  snprintf(threads, sizeof threads, "%d", session->threads);
  bool good = find_program(NULL, program, sizeof program) && mkdtemp(folder);
  if (good) {
    snprintf(output, sizeof output, "%s/output", folder);
    char words[][16] = {"--fit-memory", "--device", "--threads"};
    char *arguments[] = {program, words[0], words[1], session->info.name, words[2], threads, NULL};
    good = start_program(arguments, output, &usage) == 0 && read_numbers(output, value, 3);
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  }
  bench_require(&record, good, "the measured process failed");
  if (good) {
    bench_require_least(&record, "converged fraction", "", value[1], 0.99);
    bench_require_most(&record, "peak memory", "bytes", (double)usage.ru_maxrss * 1024, 1e9);
    record.ms = record.ms_p10 = record.ms_p90 = value[0] * 1e3;
    record.fit = (bench_fit){.rows = SIDE,
                             .columns = SIDE,
                             .parameters = 4,
                             .rois = ROIS,
                             .rate = ROIS / value[0],
                             .converged = value[1],
                             .iterations = value[2],
                             .peak_bytes = (double)usage.ru_maxrss * 1024};
    bench_note(session, "%s/%s: %.3g ROIs/s through callbacks, %.0f MB at most", suite, c->name,
               record.fit.rate, record.fit.peak_bytes * 1e-6);
  }
  bench_record_add(session, &record);
}

/* ---- compute-fit ---------------------------------------------------------------------------- */

static int simulate_movie(char *program, char *movie, bool quick, const char *output) {
  char words[][16] = {"simulate", "--movie", "--frames", "", "--size",    "256", "--spots",
                      "150",      "--roi",   "7",        "", "--photons", "",    "-o"};
  snprintf(words[3], sizeof words[3], "%d", quick ? 200 : 2000);
  snprintf(words[10], sizeof words[10], "--quiet");
  snprintf(words[12], sizeof words[12], "1000");
  char *arguments[17] = {program};
  for (int i = 0; i < 14; i++) arguments[1 + i] = words[i];
  arguments[15] = movie;
  return start_program(arguments, output, NULL);
}

static int fit_movie(bench_session *session, char *program, char *movie, char *result, char *json) {
  char words[][16] = {"fit", "--roi", "7", "--sigma", "1.3", "--force", "--json", "--device", "-o"};
  char *arguments[] = {program,  words[0],           movie,    words[1], words[2],
                       words[3], words[4],           words[5], words[6], json,
                       words[7], session->info.name, words[8], result,   NULL};
  char nothing[] = "/dev/null";
  return start_program(arguments, nothing, NULL);
}

static double number_of(const json_t *root, const char *name) {
  const json_t *value = json_object_get(root, name);
  return json_is_number(value) ? json_number_value(value) : NAN;
}

/* The best of several runs, with the file in the page cache, so that only the program is
 * measured. */
static bool measure_movie(bench_session *session, char *program, char *movie, char *result,
                          char *json, bench_record *record) {
  record->ms = INFINITY;
  for (int i = 0; i < 3; i++) {
    const double start = clock_seconds();
    if (fit_movie(session, program, movie, result, json)) return false;
    const double ms = (clock_seconds() - start) * 1e3;
    json_t *root = json_load_file(json, 0, NULL);
    if (!root) return false;
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
  char program[4096], folder[] = "/tmp/compute-bench-XXXXXX", movie[64], result[64], json[64];
  bench_record record = bench_record_new(session, suite, c);
  if (!find_program("compute-fit", program, sizeof program)) {
    bench_note(session, "%s/%s skipped: no compute-fit beside compute-bench", suite, c->name);
    return;
  }
  bool good = mkdtemp(folder) != NULL;
  snprintf(movie, sizeof movie, "%s/movie.tif", folder);
  snprintf(result, sizeof result, "%s/result.csv", folder);
  snprintf(json, sizeof json, "%s/summary.json", folder);
  good = good && simulate_movie(program, movie, session->options->quick, "/dev/null") == 0 &&
         measure_movie(session, program, movie, result, json, &record);
  nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  bench_require(&record, good, "compute-fit failed");
  if (good) { /* spots overlap, and some are cut off */
    bench_require_least(&record, "converged fraction", "", record.fit.converged, 0.8);
    bench_note(session, "%s/%s: 256 x 256 frames at %.0f/s, spots found and fitted at %.3g/s, CSV",
               suite, c->name, record.fit.frames_rate, record.fit.rate);
  }
  bench_record_add(session, &record);
}
