/* What compute-tune shows: progress while it runs, a table at the end. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/tune.h"

#define REFRESH_SECONDS 0.1

/* "1.234 ms" in `text`, which is returned. */
static const char *time_text(double seconds, char *text, size_t bytes) {
  if (seconds <= 0)
    snprintf(text, bytes, "-");
  else if (seconds < 1e-3)
    snprintf(text, bytes, "%.1f us", seconds * 1e6);
  else if (seconds < 1)
    snprintf(text, bytes, "%.3f ms", seconds * 1e3);
  else
    snprintf(text, bytes, "%.2f s", seconds);
  return text;
}

static double gain_percent(double before, double after) {
  return after > 0 ? (before / after - 1) * 100 : 0;
}

/* ---- Progress ------------------------------------------------------------------------------ */

static void show_changing(const compute_tune_progress *p) {
  char best[32], before[32];
  fprintf(stderr, "\r[%" PRIu32 "/%" PRIu32 "] %s  %" PRIu32 "/%" PRIu32, p->problem_index + 1,
          p->problem_count, p->problem, p->candidate_index, p->candidate_count);
  if (p->best_seconds > 0)
    fprintf(stderr, "  best %s, untuned %s", time_text(p->best_seconds, best, sizeof best),
            time_text(p->heuristic_seconds, before, sizeof before));
  if (p->refused) fprintf(stderr, "  refused %" PRIu32, p->refused);
  if (p->remaining_seconds >= 0) fprintf(stderr, "  %.0f s left", p->remaining_seconds);
  fputs("\033[K", stderr);
  fflush(stderr);
}

static void show_finished(const compute_tune_progress *p) {
  char before[32], after[32];
  fprintf(stderr, "[%" PRIu32 "/%" PRIu32 "] %s: ", p->problem_index + 1, p->problem_count,
          p->problem);
  if (p->heuristic_seconds <= 0)
    fprintf(stderr, "left out\n");
  else if (!p->best[0])
    fprintf(stderr, "%s, nothing better among %" PRIu32 "\n",
            time_text(p->heuristic_seconds, before, sizeof before), p->candidate_count);
  else
    fprintf(stderr, "%s instead of %s with %s\n", time_text(p->best_seconds, after, sizeof after),
            time_text(p->heuristic_seconds, before, sizeof before), p->best);
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
    if (report->terminal)
      show_changing(p);
    else
      show_finished(p);
  } else if (report->terminal && p->elapsed_seconds - report->shown >= REFRESH_SECONDS) {
    report->shown = p->elapsed_seconds;
    show_changing(p);
  }
  return !*report->interrupted;
}

void tune_report_end(const tune_report *report) {
  if (report->terminal) fputs("\r\033[K", stderr);
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
    time_text(row->before, before, sizeof before);
    time_text(row->after, after, sizeof after);
    printf("%-32s %11s %11s ", row->problem, before, after);
    if (row->parameters[0])
      printf("%6.0f%%  %s\n", gain_percent(row->before, row->after), row->parameters);
    else
      printf("%7s  %s\n", "-", row->before > 0 ? "the default" : "left out");
  }
}
