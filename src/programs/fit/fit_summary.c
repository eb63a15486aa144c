/* SPDX-License-Identifier: MIT */
/* The summary of a run, as text and as JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "programs/common/terminal.h"
#include "programs/fit/fit_job.h"
#include "programs/fit/summary.h"

static double share(int64_t part, int64_t whole) {
  return whole > 0 ? (double)part / (double)whole : NAN;
}

static double rate(int64_t items, double seconds) {
  return seconds > 0 ? (double)items / seconds : 0;
}

/* ---- Text ---------------------------------------------------------------------------------- */

static void print_status(const statistics *s) {
  char others[1024] = "";
  size_t used = 0;
  for (int i = 0; i < COMPUTE_FIT_STATUS_COUNT; i++) {
    if (i == COMPUTE_FIT_CONVERGED || s->of_status[i] == 0) continue;
    const int n =
        snprintf(others + used, sizeof others - used, "%s %s %" PRId64, used > 0 ? "," : ";",
                 compute_fit_status_name((compute_fit_status)i), s->of_status[i]);
    used = used + (size_t)n < sizeof others ? used + (size_t)n : sizeof others - 1;
  }
  terminal_line(17, "  %-14s %.2f %%%s", "converged",
                s->count > 0 ? 100 * share(s->of_status[COMPUTE_FIT_CONVERGED], s->count) : 0,
                others);
}

static void print_truth(const fit_job *job) {
  const match *m = &job->match;
  if (!job->truth.values) return;
  printf("\n");
  if (job->frames) {
    terminal_line(2,
                  "Against the truth: %" PRId64 " of %" PRId64 " spots found (%.1f %%), %" PRId64
                  " false positives (%.1f %%); converged fits of spots without another "
                  "within %.0f pixels:",
                  m->found, m->spots, 100 * share(m->found, m->spots), m->localisations - m->found,
                  100 * share(m->localisations - m->found, m->localisations), m->isolation);
    if (job->truth_cut > 0)
      terminal_line(2,
                    "(%" PRId64 " further spots of the truth have their centre outside the image "
                    "or the part that is fitted)",
                    job->truth_cut);
  } else {
    printf("Against the truth, converged fits:\n");
  }
  quality_print_errors(job->statistics, job->problem.fixed);
}

/* Prints the times of the stages, and the stage that limits the speed. */
static void print_parts(const fit_job *job) {
  const compute_fit_times *t = &job->times;
  const struct {
    const char *name;
    double seconds;
    bool shown;
  } part[] = {{"reading", t->reading, true},
              {"finding", t->finding, job->frames && !job->a->corners},
              {"fitting", t->fitting, true},
              {"writing", t->writing, true},
              {"completing the file", job->completing, job->completing >= 0.1}};
  if (job->statistics->count == 0) return;
  char busy[256] = "";
  size_t used = 0;
  for (size_t i = 0; i < sizeof part / sizeof *part; i++)
    if (part[i].shown)
      used += (size_t)snprintf(busy + used, sizeof busy - used, "%s%s %.3g s", i > 0 ? ", " : "",
                               part[i].name, part[i].seconds);
  terminal_line(17, "  %-14s %s; slowest: %s", "busy", busy, fit_job_slowest(t));
}

static void print_summary(const fit_job *job, bool complete) {
  const statistics *s = job->statistics;
  const compute_fit_summary *u = &job->summary;
  char number[32], other[32], third[32];
  terminal_line(2, "%s, %s: %s, %" PRId32 " x %" PRId32 " pixels, %s camera, on %s",
                job->a->line.operand, job->info.stored, compute_fit_model_name(job->problem.model),
                job->problem.rows, job->problem.columns, json_camera_name(job->problem.camera),
                job->session.names);
  progress_number((double)s->count, number, sizeof number);
  progress_number(rate(s->count, u->seconds), other, sizeof other);
  if (job->frames)
    terminal_line(17, "  %-14s %s ROIs in %" PRId64 " frames in %.3g s: %s ROIs/s, %s frames/s",
                  "fitted", number, u->frames, u->seconds, other,
                  progress_number(rate(u->frames, u->seconds), third, sizeof third));
  else
    terminal_line(17, "  %-14s %s ROIs in %.3g s: %s ROIs/s", "fitted", number, u->seconds, other);
  if (job->bar.before > 0)
    terminal_line(17, "  %-14s %" PRId64 " %s from an earlier run, not included in these figures",
                  "besides", job->bar.before, job->frames ? "frames" : "ROIs");
  print_parts(job);
  print_status(s);
  if (s->count > 0)
    printf("  %-14s %.2f on average\n", "steps", (double)s->iterations / (double)s->count);
  if (s->std_count > 0)
    terminal_line(17, "  %-14s %.4g pixels in x (median; middle 80 %%: %.4g to %.4g)",
                  "uncertainty", statistics_std_quantile(s, 0.5), statistics_std_quantile(s, 0.1),
                  statistics_std_quantile(s, 0.9));
  quality_print_uniformity("p-value", &s->p_value);
  quality_print_uniformity("raw p-value", &s->p_raw);
  if (u->on_cpu > 0 || u->halved > 0)
    terminal_line(
        17, "  %-14s %" PRId64 " batches went to the CPU, %" PRId64 " were halved to save memory",
        "trouble", u->on_cpu, u->halved);
  print_truth(job);
  terminal_line(17, "  %-14s %s%s", "written", job->a->output, complete ? "" : ".incomplete");
}

/* ---- As JSON ------------------------------------------------------------------------------- */

static json_t *input_json(const fit_job *job) {
  return json_pack("{s:o,s:s,s:o,s:I,s:I,s:I,s:s}", "path", json_text(job->a->line.operand),
                   "format", job->info.format, "stored", json_text(job->info.stored), "images",
                   (json_int_t)job->info.count, "rows", (json_int_t)job->info.rows, "columns",
                   (json_int_t)job->info.columns, "kind", job->frames ? "frames" : "roi-stack");
}

static json_t *status_json(const statistics *s) {
  json_t *root = json_object();
  for (int i = 0; i < COMPUTE_FIT_STATUS_COUNT; i++)
    json_object_set_new(root, compute_fit_status_name((compute_fit_status)i),
                        json_integer((json_int_t)s->of_status[i]));
  return root;
}

static json_t *uncertainty_json(const statistics *s) {
  if (s->std_count == 0) return json_null();
  return json_pack("{s:o,s:o,s:o}", "median", json_number(statistics_std_quantile(s, 0.5)),
                   "quantile_0.1", json_number(statistics_std_quantile(s, 0.1)), "quantile_0.9",
                   json_number(statistics_std_quantile(s, 0.9)));
}

static json_t *mean_json(const statistics *s) {
  json_t *root = json_object();
  for (int32_t i = 0; i < compute_fit_parameter_count(s->model); i++)
    json_object_set_new(
        root, compute_fit_parameter_name(s->model, i),
        json_number(s->parameter_sum[i] / (double)s->of_status[COMPUTE_FIT_CONVERGED]));
  return root;
}

static json_t *truth_json(const fit_job *job) {
  const match *m = &job->match;
  if (!job->truth.values) return json_null();
  json_t *root = json_pack("{s:o,s:o}", "path", json_text(job->a->truth), "parameters",
                           quality_errors_json(job->statistics, job->problem.fixed));
  if (job->frames) {
    json_t *found =
        json_pack("{s:I,s:I,s:I,s:o,s:o}", "spots", (json_int_t)m->spots, "localisations",
                  (json_int_t)m->localisations, "found", (json_int_t)m->found, "found_fraction",
                  json_number(share(m->found, m->spots)), "false_fraction",
                  json_number(share(m->localisations - m->found, m->localisations)));
    json_object_update(root, found);
    json_decref(found);
  }
  return root;
}

static json_t *busy_json(const fit_job *job) {
  const compute_fit_times *t = &job->times;
  return json_pack("{s:o,s:o,s:o,s:o,s:o,s:s}", "reading", json_number(t->reading), "finding",
                   job->frames && !job->a->corners ? json_number(t->finding) : json_null(),
                   "fitting", json_number(t->fitting), "writing", json_number(t->writing),
                   "completing", json_number(job->completing), "slowest", fit_job_slowest(t));
}

static json_t *summary_json(const fit_job *job, bool complete) {
  const statistics *s = job->statistics;
  const compute_fit_summary *u = &job->summary;
  json_t *root = json_begin(job->a, &job->problem);
  json_t *more = json_pack(
      "{s:o,s:o,s:b,s:o,s:I,s:I,s:I,s:o,s:o,s:o,s:o,s:o,s:o}", "input", input_json(job), "output",
      json_text(job->a->output), "complete", (int)complete, "device", json_text(job->session.names),
      "rois", (json_int_t)s->count, "frames", (json_int_t)u->frames, "resumed_from",
      (json_int_t)job->bar.before, "seconds", json_number(u->seconds), "rois_per_second",
      json_number(rate(s->count, u->seconds)), "frames_per_second",
      job->frames ? json_number(rate(u->frames, u->seconds)) : json_null(), "converged_fraction",
      json_number(share(s->of_status[COMPUTE_FIT_CONVERGED], s->count)), "status", status_json(s),
      "iterations_mean", json_number(s->count > 0 ? (double)s->iterations / (double)s->count : 0));
  json_t *quality =
      json_pack("{s:o,s:o,s:o,s:o,s:o,s:I,s:I,s:o}", "mean", mean_json(s), "uncertainty_x",
                uncertainty_json(s), "p_value", quality_uniformity_json(&s->p_value), "p_raw",
                quality_uniformity_json(&s->p_raw), "truth", truth_json(job), "batches_on_cpu",
                (json_int_t)u->on_cpu, "batches_halved", (json_int_t)u->halved, "busy_seconds",
                busy_json(job));
  json_object_update(root, more);
  json_object_update(root, quality);
  json_decref(more);
  json_decref(quality);
  return root;
}

int fit_job_summarize(const fit_job *job, int exit_status) {
  const bool complete = exit_status == EXIT_GOOD;
  if (wants_text(job->a)) print_summary(job, complete);
  return job->a->json ? json_end(job->a, summary_json(job, complete)) : EXIT_GOOD;
}
