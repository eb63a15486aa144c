/* compute-bench: how fast libcompute is on this machine, against the machine's limits and against
 * other libraries, with every result checked before it is timed. */
#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "first_result.h"
#include "fit.h"
#include "guard.h"
#include "measure.h"
#include "output.h"
#include "environment.h"
#include "peers.h"

/* overhead comes first, before the peers' libraries have filled the process. */
static const bench_suite *const suites[] = {
    &bench_suite_overhead, &bench_suite_elementwise, &bench_suite_matmul,  &bench_suite_reduce,
    &bench_suite_conv,     &bench_suite_pool,        &bench_suite_norm,    &bench_suite_train,
    &bench_suite_memory,   &bench_suite_fit,         &bench_suite_routing, &bench_suite_batch,
    &bench_suite_faults};
enum { SUITES = sizeof suites / sizeof *suites };

static const char help[] =
    "usage: compute-bench [--suite A,B] [--device D] [--filter GLOB] [--quick] [--json FILE]\n"
    "                     [--peers A,B] [--threads N] [--commit ID] [--strict] [--list] [--help]\n"
    "\n"
    "Measures libcompute. Every result is first compared with a reference in double precision;\n"
    "ok is false when the error is above the operation's bound. A time that misses its goal is\n"
    "shown beside it and is not a failure: other programs may keep the machine busy. Peers (other\n"
    "libraries found in lib/compute-peers) are measured on the same arrays in the same process,\n"
    "in turn with libcompute, and must agree with the reference too.\n"
    "\n"
    "  --suite A,B    only these suites (--list names them)\n"
    "  --device D     the device to measure: cpu, cuda:0, ... (default: the best)\n"
    "  --filter GLOB  only cases whose name, or suite/name, matches: 'matmul_*', 'reduce/*'\n"
    "  --quick        fewer and smaller cases, fewer repetitions: less than a minute\n"
    "  --json FILE    also writes {\"environment\": {...}, \"records\": [...]}\n"
    "  --peers A,B    only these peers; none for none (default: all that are found)\n"
    "  --threads N    CPU threads, of libcompute and of the peers\n"
    "  --commit ID    noted in the environment\n"
    "  --strict       a missed goal is a failure, too\n"
    "  --list         lists suites and cases\n"
    "  --fit-memory   only fits ten million ROIs; the case fit/XYNB_7_10M_u16 starts this\n"
    "  --first-result only runs a small graph once and prints the milliseconds that it took;\n"
    "                 the cases first_result_* start this in processes of their own\n"
    "  --plant WHAT   puts something into every case, for tests of this program: wrong, miss,\n"
    "                 leak, crash or hang\n"
    "\n"
    "A record has: suite, case, device, dtype, ms (median), ms_p10, ms_p90, gflops, gbytes_s,\n"
    "max_rel_err, ok. One that is not ok also has an object failure: what was checked, what was\n"
    "seen, what is allowed (at most or, with least, at least), the unit, and all of it as text.\n"
    "One with a time to keep to has an object goal of the same kind, with met. Records of fits\n"
    "have an object fit: the rate, of one thread too, and what it is worth; those of networks an\n"
    "object training: samples per second, and planned and measured memory where that is the\n"
    "case's matter. Numbers without a meaning for the case are null. A case measured against\n"
    "several peers gives one record for each, alike but for peer, peer_ms and speedup (peer_ms /\n"
    "ms). GB/s counts every input read once and every output written once.\n"
    "\n"
    "Exit status: 0; 1 after a wrong result, a leak, a crash or a hang, which the last line\n"
    "names; 2 for wrong arguments.\n";

static int usage_error(const char *what, const char *argument) {
  fprintf(stderr, "compute-bench: %s '%s'; see compute-bench --help\n", what, argument);
  return 2;
}

/* 0: go on; -1: help was printed; else the exit status. */
static bool is_plant(const char *text) {
  static const char *const plants[] = {"wrong", "miss", "leak", "crash", "hang"};
  for (size_t i = 0; i < sizeof plants / sizeof *plants; i++)
    if (strcmp(plants[i], text) == 0) return true;
  return false;
}

static int parse(int argc, char **argv, bench_options *options) {
  static const struct option known[] = {{"suite", required_argument, NULL, 's'},
                                        {"device", required_argument, NULL, 'd'},
                                        {"filter", required_argument, NULL, 'f'},
                                        {"quick", no_argument, NULL, 'q'},
                                        {"json", required_argument, NULL, 'j'},
                                        {"peers", required_argument, NULL, 'p'},
                                        {"threads", required_argument, NULL, 't'},
                                        {"commit", required_argument, NULL, 'c'},
                                        {"list", no_argument, NULL, 'l'},
                                        {"first-result", no_argument, NULL, 'r'},
                                        {"help", no_argument, NULL, 'h'},
                                        {"fit-memory", no_argument, NULL, 'm'},
                                        {"strict", no_argument, NULL, 'S'},
                                        {"plant", required_argument, NULL, 'P'},
                                        {NULL, 0, NULL, 0}};
  opterr = 0;
  for (int code; (code = getopt_long(argc, argv, ":h", known, NULL)) != -1;) {
    char *end;
    switch (code) {
    case 's': options->suites = optarg; break;
    case 'd': options->device = optarg; break;
    case 'f': options->filter = optarg; break;
    case 'q': options->quick = true; break;
    case 'j': options->json = optarg; break;
    case 'p': options->peers = optarg; break;
    case 'c': options->commit = optarg; break;
    case 'l': options->list = true; break;
    case 'r': options->first_result = true; break;
    case 'm': options->fit_memory = true; break;
    case 'S': options->strict = true; break;
    case 'P':
      options->plant = optarg;
      if (!is_plant(optarg)) return usage_error("cannot plant", optarg);
      break;
    case 't':
      errno = 0;
      long threads = strtol(optarg, &end, 10);
      if (errno || *end || threads < 1 || threads > 4096)
        return usage_error("no number of threads:", optarg);
      options->threads = (int)threads;
      break;
    case 'h': fputs(help, stdout); return -1;
    case ':': return usage_error("a value must follow", argv[optind - 1]);
    default: return usage_error("unknown argument", argv[optind - 1]);
    }
  }
  if (optind < argc) return usage_error("unknown argument", argv[optind]);
  return 0;
}

static const bench_suite *find_suite(const char *name, size_t length) {
  for (int i = 0; i < SUITES; i++)
    if (strlen(suites[i]->name) == length && !strncmp(suites[i]->name, name, length))
      return suites[i];
  return NULL;
}

/* Marks the suites of a list "A,B"; NULL marks all. Returns 0 or the exit status. */
static int select_suites(const char *list, bool *selected) {
  for (int i = 0; i < SUITES; i++) selected[i] = !list;
  while (list && *list) {
    size_t length = strcspn(list, ",");
    const bench_suite *suite = find_suite(list, length);
    if (!suite) return usage_error("unknown suite in", list);
    for (int i = 0; i < SUITES; i++) selected[i] |= suites[i] == suite;
    list += length + (list[length] == ',');
  }
  return 0;
}

static bool is_selected(const bench_options *options, const bench_suite *suite,
                        const bench_case *c) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", suite->name, c->name);
  if (!(c->when & (options->quick ? BENCH_QUICK : BENCH_FULL))) return false;
  return !options->filter || !fnmatch(options->filter, c->name, 0) ||
         !fnmatch(options->filter, path, 0);
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
  compute_status status =
      compute_open(&session->context,
                   &(compute_open_options){.device = options->device, .threads = options->threads});
  session->first_open_ms = (clock_seconds() - start) * 1e3;
  if (status) return status;
  session->device = compute_default_device(session->context);
  status = compute_device_describe(session->device, &session->info);
  if (!status) status = compute_queue_create(session->device, &session->queue);
  session->threads = options->threads;
  if (!session->threads && session->info.type == COMPUTE_DEVICE_CPU)
    session->threads = (int)session->info.compute_units;
  if (session->threads < 1) session->threads = 1;
  return status;
}

/* sgemm far below what the processor can do tells of an OpenBLAS that runs code for another one,
 * and makes every comparison with it worthless. */
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

/* What --plant asks of a case before it begins; session.c has the rest. */
static void plant(bench_session *session) {
  if (is_planted(session, "crash")) raise(SIGSEGV);
  while (is_planted(session, "hang")) pause();
  if (is_planted(session, "leak") && !session->leak)
    (void)compute_tensor_create(session->device, COMPUTE_F32, COMPUTE_SHAPE(1), &session->leak);
}

/* A hundred times what the longest case takes. */
static unsigned hang_seconds(const bench_options *options) {
  if (options->plant && !strcmp(options->plant, "hang")) return 2;
  return options->quick ? 600 : 3600;
}

static void run_cases(bench_session *session, const bool *selected) {
  size_t total = 0, done = 0;
  for (int i = 0; i < SUITES; i++)
    for (size_t j = 0; selected[i] && j < suites[i]->case_count; j++)
      total += is_selected(session->options, suites[i], &suites[i]->cases[j]);
  for (int i = 0; i < SUITES; i++) {
    bool heading = false;
    if (!selected[i]) continue;
    if (suites[i] != &bench_suite_overhead && !session->peers) {
      session->peers = bench_peers_open(session, session->options->peers);
      environment_print_peers(session);
    }
    for (size_t j = 0; j < suites[i]->case_count; j++) {
      const bench_case *c = &suites[i]->cases[j];
      if (!is_selected(session->options, suites[i], c)) continue;
      if (!heading) output_heading(suites[i]);
      heading = true;
      bench_progress(++done, total, suites[i]->name, c->name);
      size_t first = session->record_count;
      guard_case(suites[i]->name, c->name, hang_seconds(session->options));
      plant(session);
      c->run(session, suites[i]->name, c);
      guard_end();
      bench_progress(0, 0, NULL, NULL);
      if (session->record_count > first)
        output_case(session, session->records + first, session->record_count - first);
    }
  }
}

static void close_device(bench_session *session) {
  static const bench_case closing = {.name = "close", .dtype = COMPUTE_F32};
  compute_queue_release(session->queue);
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

/* Opens, measures, writes. Returns the exit status. */
static int measure(const bench_options *options, const bool *selected) {
  bench_session session = {.options = options};
  if (open_session(&session)) {
    fprintf(stderr, "compute-bench: %s\n", compute_error_message(NULL));
    close_session(&session);
    return 1;
  }
  /* Where something is planted, nobody reads the numbers. */
  session.limits = options->plant ? (bench_limits){.isa = "nothing", .threads = session.threads}
                                  : bench_limits_measure(session.threads);
  environment_print(&session);
  run_cases(&session, selected);
  if (!options->plant) bench_limits_raise(&session.limits);
  judge_matmul(&session);
  close_device(&session); /* what is left behind then is a failure, too */
  int status = output_summary(&session) ? 1 : 0;
  if (!session.record_count)
    status = usage_error("no case matches", options->filter ? options->filter : "");
  if (options->json && session.record_count && output_json(&session, options->json)) {
    fprintf(stderr, "compute-bench: %s: %s\n", options->json, strerror(errno));
    status = 1;
  }
  close_session(&session);
  return status;
}

int main(int argc, char **argv) {
  bench_options options = {0};
  bool selected[SUITES];
  int status = parse(argc, argv, &options);
  if (status) return status < 0 ? 0 : status;
  if (options.first_result) return first_result_main(options.device);
  if (options.fit_memory) return fit_memory_main(options.device, options.threads);
  status = select_suites(options.suites, selected);
  if (status) return status;
  if (options.list) {
    list_cases(&options, selected);
    return 0;
  }
  bench_peers_prepare();
  return measure(&options, selected);
}
