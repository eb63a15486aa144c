/* SPDX-License-Identifier: MIT */
/* Records as a table and as JSON; see output.h. */
#include "output.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "programs/common/json_text.h"
#include "environment.h"
#include "measure.h"

/* ---- The terminal -------------------------------------------------------------------------- */

enum { WIDE_COLUMNS = 130, INDENT = 4 };

void output_begin(bench_session *session) {
  const int columns = terminal_columns(stdout);
  session->wide = session->options->wide || columns >= WIDE_COLUMNS;
  session->columns = session->wide && columns < WIDE_COLUMNS ? WIDE_COLUMNS : columns;
  session->colours = terminal_has_colours(stdout);
}

void output_wrapped(const bench_session *session, int indent, const char *format, ...) {
  char line[1024], *text = line;
  int column = 0;
  va_list list;
  va_start(list, format);
  vsnprintf(line, sizeof line, format, list);
  va_end(list);
  while (*text) {
    const int spaces = (int)strspn(text, " "), width = (int)strcspn(text + spaces, " ");
    if (column > indent && column + spaces + width > session->columns)
      column = printf("\n%*s%.*s", indent, "", width, text + spaces) - 1;
    else
      column += printf("%.*s", spaces + width, text);
    text += spaces + width;
  }
  puts("");
}

typedef enum paint { PAINT_FAILED = 31, PAINT_MISSED = 33 } paint;

/* A prominent line. It is not wrapped: scripts read it. */
static void print_coloured(const bench_session *session, paint colour, const char *format, ...)
    COMPUTE_PRINTF(3, 4);
static void print_coloured(const bench_session *session, paint colour, const char *format, ...) {
  va_list list;
  va_start(list, format);
  if (session->colours) printf("\033[%dm", (int)colour);
  vprintf(format, list);
  puts(session->colours ? "\033[0m" : "");
  va_end(list);
}

/* ---- The table ----------------------------------------------------------------------------- */

void output_heading(const bench_session *session, const bench_suite *suite) {
  puts("");
  output_wrapped(session, INDENT, "%s: %s", suite->name, suite->text);
  if (session->wide)
    printf("  %-24s %-5s %11s %23s %8s %8s %7s %9s  %s\n", "case", "dtype", "median", "p10 ... p90",
           "GFLOP/s", "GB/s", "limit", "error", "speed-up over");
  else
    printf("  %-24s %-5s %11s %8s %8s %9s\n", "case", "dtype", "median", "GFLOP/s", "GB/s",
           "error");
}

/* "1.23 ms" with a suitable unit. */
static const char *time_text(double ms, char *text, size_t bytes) {
  if (isnan(ms)) return "";
  if (ms < 1e-3)
    snprintf(text, bytes, "%.1f ns", ms * 1e6);
  else if (ms < 1)
    snprintf(text, bytes, "%.2f us", ms * 1e3);
  else if (ms < 1e3)
    snprintf(text, bytes, "%.3f ms", ms);
  else
    snprintf(text, bytes, "%.3f s", ms * 1e-3);
  return text;
}

static const char *number_text(double value, const char *format, char *text, size_t bytes) {
  if (isnan(value)) return "";
  if (!strcmp(format, "%.1e"))
    snprintf(text, bytes, "%.1e", value);
  else
    snprintf(text, bytes, value < 100 ? "%.1f" : "%.0f", value);
  return text;
}

/* Operations on fewer bytes may stay in the caches. Virtual machines share theirs with others. */
static double cache_bytes(const bench_session *session) {
  const uint64_t bytes = session->info.cache_bytes;
  return bytes > 0 && bytes < 32000000 ? (double)bytes : 32e6;
}

/* The fraction of the machine's limit that a record reaches, or NaN if no limit is known. The
 * streaming speed is the memory's, so work within the caches has no limit. */
static double limit_part(const bench_session *session, const bench_record *r) {
  const bench_limits *l = &session->limits;
  if (session->info.type != COMPUTE_DEVICE_CPU) return NAN;
  if (!strcmp(r->suite, "matmul") || !strcmp(r->suite, "conv")) {
    double peak = strcmp(r->dtype, "f64") ? l->fma_f32 : l->fma_f64;
    return peak > 0 ? r->gflops / peak : NAN;
  }
  const bool cached = r->gbytes_s * r->ms * 1e6 <= cache_bytes(session);
  return l->stream_add > 0 && !cached ? r->gbytes_s / l->stream_add : NAN;
}

/* A line below the record. */
static void print_fit(const bench_session *session, const bench_fit *f) {
  char one[64] = "", quality[128] = "", p_value[48] = "";
  if (f->rate_one_thread > 0)
    snprintf(one, sizeof one, ", %.3g M on one thread", f->rate_one_thread * 1e-6);
  if (f->p_mean > 0) snprintf(p_value, sizeof p_value, ", mean p-value %.3f", f->p_mean);
  if (f->std_over_bound > 0)
    snprintf(quality, sizeof quality, ", std/CRLB %.3f (worst %.3f)%s", f->std_over_bound,
             f->worst_std_over_bound, p_value);
  output_wrapped(session, INDENT,
                 "    %.3g M ROIs/s%s; %dx%d, %d parameters, %.2f steps, %.2f %% converged%s",
                 f->rate * 1e-6, one, f->rows, f->columns, f->parameters, f->iterations,
                 100 * f->converged, quality);
}

static void print_training(const bench_session *session, const bench_training *t) {
  char memory[160] = "";
  if (t->planned_bytes > 0)
    snprintf(memory, sizeof memory,
             "; memory: %.2f MB planned, %.2f MB measured (%.3f); %.2f MB of growth in %.0f steps",
             t->planned_bytes * 1e-6, t->measured_bytes * 1e-6,
             t->measured_bytes / t->planned_bytes, t->growth_bytes * 1e-6, t->steps);
  output_wrapped(session, INDENT, "    %.4g samples/s%s", t->rate, memory);
}

/* The share of a step that is not computing. */
static double communication(double ms, double alone_ms) {
  return ms > alone_ms ? 1 - alone_ms / ms : 0;
}

/* A line below the record. A step has its time, and the part that is communication. */
static void print_group(const bench_group *g, double ms) {
  char items[32], overlapped[32], afterwards[32], alone[32];
  if (g->alone_ms == 0) {
    printf("    %d rank%s, %.0f bytes\n", (int)g->ranks, g->ranks > 1 ? "s" : "", (double)g->bytes);
    return;
  }
  snprintf(items, sizeof items, "%.0f items", (double)g->items);
  printf("    %sranks %4d, %12s: %10s (%2.0f %%); after it %10s (%2.0f %%); none %10s\n",
         g->simulated ? "simulated " : "", (int)g->ranks, items,
         time_text(ms, overlapped, sizeof overlapped), 100 * communication(ms, g->alone_ms),
         time_text(g->afterwards_ms, afterwards, sizeof afterwards),
         100 * communication(g->afterwards_ms, g->alone_ms),
         time_text(g->alone_ms, alone, sizeof alone));
}

/* A case has one record for each peer, all with the same verdict, or one for each device. */
static bool same_verdict(const bench_record *a, const bench_record *b) {
  return !strcmp(a->suite, b->suite) && !strcmp(a->name, b->name) &&
         !strcmp(a->device, b->device) && !strcmp(a->verdict.words, b->verdict.words) &&
         a->verdict.goal.seen == b->verdict.goal.seen;
}

static void print_verdict(const bench_session *session, const bench_record *r) {
  char text[240];
  if (r->verdict.wrong)
    print_coloured(session, PAINT_FAILED, "    FAILED on %s: %s", r->device, r->verdict.words);
  if (bench_record_missed(r))
    print_coloured(session, PAINT_MISSED, "    missed: %s",
                   bench_bound_text(&r->verdict.goal, true, text, sizeof text));
}

/* "torch 15.70, dnnl 1.03": how many times faster libcompute is than each peer. */
static const char *peers_text(const bench_record *records, size_t count, char *text, size_t bytes) {
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < count && used < bytes; i++)
    if (records[i].peer[0])
      used += (size_t)snprintf(text + used, bytes - used, "%s%s %.2f", used ? ", " : "",
                               records[i].peer, records[i].peer_ms / records[i].ms);
  return text;
}

static void print_wide(const bench_session *session, const bench_record *r, const char *peers) {
  char median[32], p10[32], p90[32], range[72], gflops[32], gbytes[32], error[32], part[32] = "";
  const double limit = limit_part(session, r);
  if (isfinite(limit)) snprintf(part, sizeof part, "%.0f %%", 100 * limit);
  snprintf(range, sizeof range, isnan(r->ms) ? "%s%s" : "%s ... %s",
           time_text(r->ms_p10, p10, sizeof p10), time_text(r->ms_p90, p90, sizeof p90));
  printf("  %-24s %-5s %11s %23s %8s %8s %7s %9s  %s\n", r->name, r->dtype,
         time_text(r->ms, median, sizeof median), range,
         number_text(r->gflops, "", gflops, sizeof gflops),
         number_text(r->gbytes_s, "", gbytes, sizeof gbytes), part,
         number_text(r->max_rel_err, "%.1e", error, sizeof error), peers);
}

static void print_narrow(const bench_session *session, const bench_record *r, const char *peers) {
  char median[32], gflops[32], gbytes[32], error[32];
  printf("  %-24s %-5s %11s %8s %8s %9s\n", r->name, r->dtype,
         time_text(r->ms, median, sizeof median), number_text(r->gflops, "", gflops, sizeof gflops),
         number_text(r->gbytes_s, "", gbytes, sizeof gbytes),
         number_text(r->max_rel_err, "%.1e", error, sizeof error));
  if (peers[0]) output_wrapped(session, INDENT, "    speed-up over %s", peers);
}

void output_case(const bench_session *session, const bench_record *records, size_t count) {
  const bench_record *r = &records[0];
  char peers[512];
  peers_text(records, count, peers, sizeof peers);
  (session->wide ? print_wide : print_narrow)(session, r, peers);
  for (size_t i = 0; i < count; i++)
    if (i == 0 || !same_verdict(&records[i - 1], &records[i])) print_verdict(session, &records[i]);
  if (r->fit.rate > 0) print_fit(session, &r->fit);
  if (r->training.rate > 0) print_training(session, &r->training);
  for (size_t i = 0; i < count && r->group.ranks > 0; i++)
    print_group(&records[i].group, records[i].ms);
  fflush(stdout);
}

/* 0 means not measured. */
static json_t *known(double value) {
  return json_number(value > 0 || value < 0 ? value : NAN);
}

static json_t *fit_json(const bench_fit *f) {
  return json_pack("{s:i,s:i,s:i,s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "rows", f->rows,
                   "columns", f->columns, "parameters", f->parameters, "rois", (json_int_t)f->rois,
                   "rois_per_second", known(f->rate), "rois_per_second_one_thread",
                   known(f->rate_one_thread), "iterations", known(f->iterations), "converged",
                   known(f->converged), "std_over_bound", known(f->std_over_bound),
                   "worst_std_over_bound", known(f->worst_std_over_bound), "worst_bias",
                   known(f->worst_bias), "p_mean", known(f->p_mean), "peak_bytes",
                   known(f->peak_bytes), "frames_per_second", known(f->frames_rate));
}

static json_t *training_json(const bench_training *t) {
  json_t *object = json_pack("{s:o}", "samples_per_second", json_number(t->rate));
  if (t->planned_bytes > 0 && object) {
    json_object_set_new(object, "steps", json_number(t->steps));
    json_object_set_new(object, "planned_bytes", json_number(t->planned_bytes));
    json_object_set_new(object, "measured_bytes", json_number(t->measured_bytes));
    json_object_set_new(object, "growth_bytes", json_number(t->growth_bytes));
  }
  return object;
}

static json_t *group_json(const bench_group *g, double ms) {
  json_t *object = json_pack("{s:i,s:b,s:I}", "ranks", (int)g->ranks, "simulated",
                             (int)g->simulated, "bytes", (json_int_t)g->bytes);
  if (g->alone_ms > 0 && object) {
    json_object_set_new(object, "items", json_integer((json_int_t)g->items));
    json_object_set_new(object, "not_overlapped_ms", json_number(g->afterwards_ms));
    json_object_set_new(object, "without_communication_ms", json_number(g->alone_ms));
    json_object_set_new(object, "communication", json_number(communication(ms, g->alone_ms)));
  }
  if (g->simulated && object) {
    json_object_set_new(object, "latency_us", json_number(g->latency_us));
    json_object_set_new(object, "link_gbytes_s", json_number(g->link_gbytes_s));
  }
  return object;
}

/* Nulls if the check was not of a number. */
static json_t *bound_json(const bench_bound *b) {
  return json_pack("{s:s?,s:s?,s:o,s:o,s:b}", "what", b->what, "unit", b->unit, "seen",
                   json_number(b->what ? b->seen : NAN), "allowed",
                   json_number(b->what ? b->allowed : NAN), "least", (int)b->least);
}

static json_t *record_json(const bench_record *r) {
  const bench_verdict *v = &r->verdict;
  json_t *object =
      json_pack("{s:s,s:s,s:o,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:b}", "suite", r->suite, "case", r->name,
                "device", json_text(r->device), "dtype", r->dtype, "ms", json_number(r->ms),
                "ms_p10", json_number(r->ms_p10), "ms_p90", json_number(r->ms_p90), "gflops",
                json_number(r->gflops), "gbytes_s", json_number(r->gbytes_s), "max_rel_err",
                json_number(r->max_rel_err), "ok", (int)!v->wrong);
  if (v->wrong && object) {
    json_t *failure = bound_json(&v->failure);
    json_object_set_new(failure, "text", json_text(v->words));
    json_object_set_new(object, "failure", failure);
  }
  if (v->goal.what && object) {
    json_t *goal = bound_json(&v->goal);
    json_object_set_new(goal, "met", json_boolean(!bench_record_missed(r)));
    json_object_set_new(object, "goal", goal);
  }
  if (r->peer[0] && object) {
    json_object_set_new(object, "peer", json_text(r->peer));
    json_object_set_new(object, "peer_ms", json_number(r->peer_ms));
    json_object_set_new(object, "speedup", json_number(r->peer_ms / r->ms));
  }
  if (r->fit.rate > 0 && object) json_object_set_new(object, "fit", fit_json(&r->fit));
  if (r->training.rate > 0 && object)
    json_object_set_new(object, "training", training_json(&r->training));
  if (r->group.ranks > 0 && object)
    json_object_set_new(object, "group", group_json(&r->group, r->ms));
  return object;
}

/* Prints each wrong or each slow record once, after `word`. Returns the number of cases. */
static size_t print_those(const bench_session *session, bool wrong, const char *word) {
  size_t count = 0;
  char text[240];
  for (size_t i = 0; i < session->record_count; i++) {
    const bench_record *r = &session->records[i];
    if (!(wrong ? r->verdict.wrong : bench_record_missed(r))) continue;
    if (i > 0 && same_verdict(r - 1, r)) continue;
    count++;
    if (word)
      print_coloured(session, wrong ? PAINT_FAILED : PAINT_MISSED, "%s: %s/%s on %s: %s", word,
                     r->suite, r->name, r->device,
                     wrong ? r->verdict.words
                           : bench_bound_text(&r->verdict.goal, true, text, sizeof text));
  }
  return count;
}

size_t output_summary(const bench_session *session) {
  const bool strict = session->options->strict;
  const size_t wrong = print_those(session, true, NULL), missed = print_those(session, false, NULL);
  printf("\n%zu records; %zu wrong, %zu slower than their goal\n", session->record_count, wrong,
         missed);
  print_those(session, false, strict ? "FAILED (--strict)" : "missed");
  print_those(session, true, "FAILED");
  fflush(stdout);
  return wrong + (strict ? missed : 0);
}

int output_json(const bench_session *session, const char *path) {
  json_t *records = json_array();
  for (size_t i = 0; i < session->record_count; i++)
    json_array_append_new(records, record_json(&session->records[i]));
  json_t *root =
      json_pack("{s:o,s:o}", "environment", environment_json(session), "records", records);
  if (!root) {
    errno = ENOMEM;
    return -1;
  }
  int result = json_write(root, path);
  json_decref(root);
  return result;
}
