/* SPDX-License-Identifier: MIT */
/* The output of compute-tune: progress during a run, a table at the end, and the reports of --list
 * and --costs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "programs/tune/tune.h"

static double gain_percent(double before, double after) {
  return after > 0 ? (before / after - 1) * 100 : 0;
}

/* ---- Progress ------------------------------------------------------------------------------ */

static void show_changing(progress_bar *bar, const compute_tune_progress *p) {
  char best[32], before[32], text[128] = "", refused[32] = "", left[32] = "";
  if (p->best_seconds > 0)
    snprintf(text, sizeof text, ", best %s, untuned %s",
             duration_text(p->best_seconds, best, sizeof best),
             duration_text(p->heuristic_seconds, before, sizeof before));
  if (p->refused) snprintf(refused, sizeof refused, ", %" PRIu32 " refused", p->refused);
  if (p->remaining_seconds >= 0)
    snprintf(left, sizeof left, ", %s left",
             progress_time(p->remaining_seconds, before, sizeof before));
  const double candidates = p->candidate_count ? p->candidate_count : 1;
  progress_draw(bar, (p->problem_index + p->candidate_index / candidates) / p->problem_count,
                "[%" PRIu32 "/%" PRIu32 "] %s%s%s%s", p->problem_index + 1, p->problem_count,
                p->problem, text, refused, left);
}

static void show_finished(const compute_tune_progress *p) {
  char before[32], after[32];
  fprintf(stderr, "[%" PRIu32 "/%" PRIu32 "] %s: ", p->problem_index + 1, p->problem_count,
          p->problem);
  if (p->heuristic_seconds <= 0)
    fprintf(stderr, "left out\n");
  else if (!p->best[0])
    fprintf(stderr, "%s, none better among %" PRIu32 "\n",
            duration_text(p->heuristic_seconds, before, sizeof before), p->candidate_count);
  else
    fprintf(stderr, "%s instead of %s with %s\n",
            duration_text(p->best_seconds, after, sizeof after),
            duration_text(p->heuristic_seconds, before, sizeof before), p->best);
}

static void add_row(tune_report *report, const compute_tune_progress *p) {
  if (report->count == report->capacity) {
    size_t capacity = report->capacity ? 2 * report->capacity : 16;
    tune_row *rows = realloc(report->rows, capacity * sizeof *rows);
    if (!rows) {
      report->failed = true;
      return;
    }
    report->rows = rows;
    report->capacity = capacity;
  }
  tune_row *row = &report->rows[report->count++];
  snprintf(row->problem, sizeof row->problem, "%s", p->problem);
  snprintf(row->parameters, sizeof row->parameters, "%s", p->best);
  row->before = p->heuristic_seconds;
  row->after = p->best_seconds;
}

bool tune_progress(void *user, const compute_tune_progress *p) {
  tune_report *report = user;
  if (p->finished) {
    add_row(report, p);
    if (!report->bar.redraws) show_finished(p);
  }
  show_changing(&report->bar, p);
  return !*report->interrupted;
}

/* ---- Results ------------------------------------------------------------------------------- */

bool tune_found_any(const tune_report *report) {
  for (size_t i = 0; i < report->count; i++)
    if (report->rows[i].parameters[0]) return true;
  return false;
}

void tune_print_results(const tune_report *report) {
  char before[32], after[32];
  if (report->count == 0) return;
  printf("%-32s %11s %11s %7s  %s\n", "problem", "before", "after", "gain", "parameters");
  for (size_t i = 0; i < report->count; i++) {
    const tune_row *row = &report->rows[i];
    duration_text(row->before, before, sizeof before);
    duration_text(row->after, after, sizeof after);
    printf("%-32s %11s %11s ", row->problem, before, after);
    if (row->parameters[0])
      printf("%6.0f%%  %s\n", gain_percent(row->before, row->after), row->parameters);
    else
      printf("%7s  %s\n", "-", row->before > 0 ? "the default" : "left out");
  }
}

/* ---- --list -------------------------------------------------------------------------------- */

/* The library exports entries only as a file, so this exports one and reads it. */

/* Cuts the last word off a line and returns it. Returns NULL if there is none. */
static char *last_word(char *line) {
  char *space = strrchr(line, ' ');
  if (!space) return NULL;
  *space = '\0';
  return space + 1;
}

/* … "backend" "vendor" "model" "driver" class parameters nanoseconds checksum */
static void print_entry(char *line) {
  line[strcspn(line, "\n")] = '\0';
  char *word[4]; /* from the end */
  for (size_t i = 0; i < sizeof word / sizeof *word; i++)
    if (!(word[i] = last_word(line))) return;
  const char *device = strchr(line, '"');
  const double microseconds = strtod(word[1], NULL) / 1e3;
  printf("%-44s %12.1f us  %-40s %s\n", word[3], microseconds,
         strcmp(word[2], "-") ? word[2] : "(the default)", device ? device : "");
}

static int print_file(compute_context *context, const char *entries) {
  char path[4096] = "", *line = NULL;
  size_t capacity = 0, count = 0;
  FILE *file = fopen(entries, "r");
  if (!file) {
    fprintf(stderr, "compute-tune: cannot read '%s'\n", entries);
    return -1;
  }
  compute_tuning_path(context, path, sizeof path);
  for (; getline(&line, &capacity, file) > 0; count++) {
    if (count == 0) printf("%s\n", path);
    print_entry(line);
  }
  if (count == 0) printf("no entries%s%s\n", path[0] ? " in " : "", path);
  free(line);
  fclose(file);
  return 0;
}

int tune_list(compute_context *context, const compute_device *device) {
  char name[] = "/tmp/compute-tune-XXXXXX";
  int made = mkstemp(name), result = -1;
  if (made < 0) {
    perror("compute-tune: no temporary file");
    return -1;
  }
  close(made);
  if (compute_tuning_export(context, name, device))
    fprintf(stderr, "compute-tune: %s\n", compute_error_message(context));
  else
    result = print_file(context, name);
  unlink(name);
  return result;
}

/* ---- --costs ------------------------------------------------------------------------------- */

/* The costs that the planner uses to place plans. */

/* Seconds that suffice to compile every kind of kernel, even on a slow machine. */
static const double ALL_OF_IT = 10;

static void print_rate(const char *name, double per_second, const char *unit) {
  static const struct {
    double scale;
    const char *prefix;
  } step[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}};
  size_t i = 0;
  while (i < 2 && per_second < step[i].scale) i++;
  printf("    %-16s %8.3g %s%s/s\n", name, per_second / step[i].scale, step[i].prefix, unit);
}

static void print_time(const char *name, double seconds) {
  printf("    %-16s %8.3g us\n", name, seconds * 1e6);
}

static void print_costs(const compute_device_info *info, const compute_device_costs *costs) {
  static const char *const source[] = {"guessed", "measured before", "measured"};
  printf("  %s: %s", info->name, source[costs->source]);
  if (costs->measure_seconds > 0) printf(" in %.2f s", costs->measure_seconds);
  if (costs->source != COMPUTE_COSTS_GUESSED && costs->guessed > 0)
    printf(", %u kinds estimated from the rest", costs->guessed);
  printf("\n");
  print_time("launch", costs->launch_seconds);
  print_time("launch and wait", costs->wait_seconds);
  print_time("upload, least", costs->upload_seconds);
  print_time("download, least", costs->download_seconds);
  print_rate("upload", costs->upload_bytes_per_second, "B");
  print_rate("download", costs->download_bytes_per_second, "B");
  print_rate("memory", costs->bytes_per_second, "B");
  print_rate("caches", costs->cached_bytes_per_second, "B");
  print_rate("operations", costs->operations_per_second, "OP");
  print_rate("functions", costs->functions_per_second, "OP");
  print_rate("gemm f32", costs->gemm_f32, "FLOP");
  print_rate("gemm f64", costs->gemm_f64, "FLOP");
  print_rate("gemm f16", costs->gemm_f16, "FLOP");
  print_rate("gemm bf16", costs->gemm_bf16, "FLOP");
  print_rate("convolution f32", costs->convolution_f32, "FLOP");
}

compute_status tune_costs(compute_context *context, compute_device *only, bool dry, double limit) {
  compute_device *device;
  char path[4096] = "";
  for (size_t i = 0; (device = compute_device_at(context, i)) != NULL; i++) {
    compute_device_info info;
    compute_device_costs costs;
    if ((only && device != only) || compute_device_describe(device, &info) ||
        (!only && !(info.capabilities & COMPUTE_CAPABILITY_COMPUTE)))
      continue;
    compute_status status =
        dry ? compute_route_query(device, &costs)
            : compute_route_measure(device, limit > 0 ? limit : ALL_OF_IT, &costs);
    if (status) return status;
    print_costs(&info, &costs);
  }
  compute_route_path(context, path, sizeof path);
  if (!dry && *path) printf("kept in %s\n", path);
  return COMPUTE_OK;
}
