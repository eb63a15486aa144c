/* compute-conformance: runs the cases on one device. See docs/internals/backends.md. */
#include <dlfcn.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/report.h"
#include "backend/subject.h"
#include "device/device.h"

enum { HANG_SECONDS = 900, KINDS = 64 };

static const char help[] =
    "usage: compute-conformance [options] DEVICE\n"
    "Checks that a backend keeps the promises of compute/backend.h, on one of its devices\n"
    "(cpu, opencl:0, yours:0, ...).\n"
    "  --module FILE        a module libcompute-NAME.so; DEVICE may then be left out: NAME:0\n"
    "  --filter PATTERN     only cases whose names contain PATTERN, or match it if it has a '*'\n"
    "  --list               print the names of the cases, and run none\n"
    "  --expect FILE        the outcomes that are expected: lines 'refused PATTERN # reason', or\n"
    "                       'failed' or 'passed'; a case's first line counts, and a case without\n"
    "                       a line must pass; a line that no case matches is an error\n"
    "  --write-expect FILE  write such a file from what was seen\n"
    "  --json FILE          write what became of each case\n"
    "  --hooks LIBRARY      a library that makes the driver fail (compute/conformance_hooks.h)\n"
    "  --quick, --full      fewer kernels, or all and in all tunings; otherwise all kernels, but "
    "a\n"
    "                       share of them where each takes a compiler\n"
    "  --seed NUMBER        which share; else COMPUTE_TEST_SEED, else the day\n"
    "  --verbose            print every case with its outcome\n"
    "  --help               this text\n"
    "Modules are found as by every program: COMPUTE_BACKEND_PATH, then the installed ones.\n"
    "Exit status: 0 if nothing failed and, with --expect, all was as expected; 1 otherwise; 2 for\n"
    "wrong arguments and devices that do not exist.\n";

typedef struct options {
  const char *device, *module, *filter, *expect, *write_expect, *json, *hooks, *seed;
  bool list, verbose;
  extent extent;
} options;

/* ---- Arguments ----------------------------------------------------------------------------- */

static bool take_value(options *o, const char *name, const char *value) {
  const struct {
    const char *name;
    const char **value;
  } known[] = {{"--module", &o->module}, {"--filter", &o->filter},
               {"--expect", &o->expect}, {"--write-expect", &o->write_expect},
               {"--json", &o->json},     {"--hooks", &o->hooks},
               {"--seed", &o->seed}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(name, known[i].name) != 0) continue;
    *known[i].value = value;
    return true;
  }
  return false;
}

static bool take_flag(options *o, const char *name) {
  if (!strcmp(name, "--list")) return o->list = true;
  if (!strcmp(name, "--verbose")) return o->verbose = true;
  if (strcmp(name, "--quick") != 0 && strcmp(name, "--full") != 0) return false;
  o->extent = !strcmp(name, "--quick") ? EXTENT_QUICK : EXTENT_FULL;
  return true;
}

/* "NAME:0" from "…/libcompute-NAME.so"; NULL if that is not what the file is called. */
static const char *device_of(const char *module, char *text, size_t bytes) {
  const char *slash = strrchr(module, '/'), *file = slash ? slash + 1 : module;
  const size_t length = strlen(file), prefix = strlen("libcompute-"), suffix = strlen(".so");
  if (length <= prefix + suffix || strncmp(file, "libcompute-", prefix) != 0 ||
      strcmp(file + length - suffix, ".so") != 0)
    return NULL;
  snprintf(text, bytes, "%.*s:0", (int)(length - prefix - suffix), file + prefix);
  return text;
}

static bool parse(int argc, char **argv, options *o) {
  static char device[80];
  o->extent = EXTENT_DEFAULT;
  for (int i = 1; i < argc; i++) {
    if (argv[i][0] != '-' && !o->device) {
      o->device = argv[i];
    } else if (i + 1 < argc && take_value(o, argv[i], argv[i + 1])) {
      i++;
    } else if (!take_flag(o, argv[i])) {
      fprintf(stderr, "compute-conformance: unknown argument '%s'; see --help\n", argv[i]);
      return false;
    }
  }
  if (o->module && !device_of(o->module, device, sizeof device)) {
    fprintf(stderr, "compute-conformance: --module takes a file libcompute-NAME.so, not %s\n",
            o->module);
    return false;
  }
  if (o->module && !o->device) o->device = device;
  if (!o->device)
    fprintf(stderr, "compute-conformance: which device? compute-info lists them; see --help\n");
  return o->device;
}

/* ---- The module ---------------------------------------------------------------------------- */

/* The folder of --module before, and the installed modules after, those of the environment. */
static bool set_path(const options *o) {
  char program[PATH_MAX], installed[2 * PATH_MAX] = "", folder[PATH_MAX] = "";
  static char path[8 * PATH_MAX];
  const char *given = getenv("COMPUTE_BACKEND_PATH");
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length > 0) {
    program[length] = '\0';
    *strrchr(program, '/') = '\0';
    snprintf(installed, sizeof installed, "%s/%s", program, CONFORMANCE_MODULES_FROM_BIN);
  }
  if (o->module) {
    if (!realpath(o->module, folder)) {
      fprintf(stderr, "compute-conformance: %s: %s\n", o->module, strerror(errno));
      return false;
    }
    *strrchr(folder, '/') = '\0';
  }
  snprintf(path, sizeof path, "%s%s%s%s%s", folder, folder[0] ? ":" : "", given ? given : "",
           given && given[0] ? ":" : "", installed);
  return setenv("COMPUTE_BACKEND_PATH", path, 1) == 0;
}

/* The file that the core has loaded a backend from; NULL: none. */
static const char *file_of(compute_context *context, const char *backend) {
  const compute_probe *probe;
  for (size_t i = 0; (probe = compute_probe_at(context, i)); i++)
    if (!strcmp(probe->name, backend) && probe->state == COMPUTE_PROBE_LOADED) return probe->path;
  return NULL;
}

/* As the core does: slots past the module's struct_size are NULL. */
static bool load(const char *path, compute_backend *vtable) {
  void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *symbol = module ? dlsym(module, COMPUTE_BACKEND_ENTRY) : NULL;
  compute_backend_entry_function entry;
  memcpy(&entry, &symbol, sizeof symbol);
  const compute_backend *given =
      symbol ? entry(COMPUTE_BACKEND_ABI_MAJOR, COMPUTE_BACKEND_ABI_MINOR) : NULL;
  memset(vtable, 0, sizeof *vtable);
  if (given)
    memcpy(vtable, given,
           given->struct_size < sizeof *vtable ? given->struct_size : sizeof *vtable);
  return given;
}

/* Finds the module by opening the device as any program would; then the core lets go of it. */
static bool find(const options *o, subject *s, compute_backend *vtable) {
  compute_context *context = NULL;
  if (compute_open(&context, &(compute_open_options){.device = o->device})) {
    fprintf(stderr, "compute-conformance: %s\n", compute_error_message(NULL));
    return false;
  }
  const compute_device *device = compute_default_device(context);
  const char *path = file_of(context, device->info.backend);
  const bool loaded = path && load(path, vtable);
  if (!loaded) fprintf(stderr, "compute-conformance: cannot load %s: %s\n", path, dlerror());
  s->backend = vtable;
  s->index = device->info.index;
  printf("%s: %s, %s\n", device->info.name, device->info.model, path);
  compute_close(context);
  return loaded;
}

static bool find_hooks(const char *library, subject *s) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  void *symbol = handle ? dlsym(handle, CONFORMANCE_HOOKS_SYMBOL) : NULL;
  conformance_hooks_function *function;
  memcpy(&function, &symbol, sizeof symbol);
  s->hooks = symbol ? function() : NULL;
  if (s->hooks && s->hooks->struct_size >= sizeof *s->hooks) return true;
  fprintf(stderr, "compute-conformance: %s has no hooks: %s\n", library,
          handle ? "it does not export " CONFORMANCE_HOOKS_SYMBOL : dlerror());
  return false;
}

/* ---- Which cases run ----------------------------------------------------------------------- */

static uint64_t number_of(const char *text, uint64_t otherwise) {
  return text && text[0] ? strtoull(text, NULL, 10) : otherwise;
}

static void choose_share(const options *o, subject *s) {
  const bool compiles = s->backend->device_target;
  const char *seed = o->seed ? o->seed : getenv("COMPUTE_TEST_SEED");
  s->extent = o->extent;
  s->seed = number_of(seed, (uint64_t)time(NULL) / 86400);
  s->spread = (uint32_t)number_of(getenv("COMPUTE_TEST_SPREAD"), compiles ? 40 : 1);
  if (o->extent == EXTENT_QUICK) s->spread = compiles ? 400 : 20;
  if (o->extent == EXTENT_FULL) s->spread = 1;
  if (s->spread < 1) s->spread = 1;
}

typedef struct session {
  const options *options;
  const subject *subject;
  report report;
  run run;
  char kinds[KINDS][CASE_NAME]; /* of kernels that have been run: the first of each always is */
  size_t kind_count;
} session;

static bool is_selected(const options *o, const char *name) {
  if (!o->filter) return true;
  if (strchr(o->filter, '*')) return fnmatch(o->filter, name, 0) == 0;
  return strstr(name, o->filter);
}

/* Up to the last '/' of "kernel/gemm/1x64 f32". */
static bool is_new_kind(session *s, const char *name) {
  const size_t length = (size_t)(strrchr(name, '/') - name);
  for (size_t i = 0; i < s->kind_count; i++)
    if (strlen(s->kinds[i]) == length && !strncmp(s->kinds[i], name, length)) return false;
  if (s->kind_count == KINDS) return false;
  snprintf(s->kinds[s->kind_count++], CASE_NAME, "%.*s", (int)length, name);
  return true;
}

/* Cases of which there are many are shared out over the days. */
static bool is_in_share(session *s, const char *name) {
  const bool kernel = !strncmp(name, "kernel/", 7), index = !strncmp(name, "index outside/", 14);
  const bool call = !strncmp(name, "fault/fails/", 12) || !strncmp(name, "fault/lost in/", 14);
  uint64_t hash = UINT64_C(0xcbf29ce484222325), spread = s->subject->spread;
  if (!strncmp(name, "tuning/", 7)) return spread == 1; /* several compilations for each */
  if (!kernel && !index && !call) return true;
  for (const char *c = name; *c; c++) hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
  if (call && spread > 8) spread = 8;
  const bool first = is_new_kind(s, name);
  return first || ((hash >> 11) + s->subject->seed) % spread == 0;
}

/* ---- Running ------------------------------------------------------------------------------- */

static char at_work[CASE_NAME + 8]; /* the case, for the handler of signals */

static void die(int number) {
  static const char crashed[] = ": crashed\n", hangs[] = ": does not end\n";
  const char *words = number == SIGALRM ? hangs : crashed;
  if (write(2, at_work, strlen(at_work)) < 0 || write(2, words, strlen(words)) < 0) _exit(3);
  _exit(1);
}

static bool open_shared(session *s) {
  char words[SERVICES_WORDS];
  if (s->run.device) return true;
  subject_prepare(&s->run, s->subject);
  const compute_status status = subject_open(&s->run);
  services_said(&s->run.services, words);
  if (status) snprintf(s->run.words, sizeof s->run.words, "the device does not open: %s", words);
  return !status;
}

static void close_shared(session *s) {
  if (!s->run.device) return;
  subject_close(&s->run);
  if (s->run.services.live == 0) return;
  char words[CASE_WORDS];
  snprintf(words, sizeof words, "%lld blocks of services->allocate are left after closing",
           (long long)s->run.services.live);
  report_add(&s->report, "module/balance", OUTCOME_FAILED, words);
}

static void run_case(const conformance_case *c, void *user) {
  session *s = user;
  report_mention(&s->report, c->name);
  if (!is_selected(s->options, c->name)) return;
  if (s->options->list) {
    printf("%s\n", c->name);
    return;
  }
  if (!is_in_share(s, c->name)) return;
  snprintf(at_work, sizeof at_work, "%s", c->name);
  alarm(HANG_SECONDS);
  if (c->own_device) {
    close_shared(s);
    s->run.subject = s->subject;
    s->run.backend = s->subject->backend;
    case_run(&s->run, c);
  } else if (open_shared(s)) {
    case_run(&s->run, c);
  } else {
    s->run.outcome = OUTCOME_FAILED;
  }
  alarm(0);
  const result *r = report_add(&s->report, c->name, s->run.outcome, s->run.words);
  if (s->options->verbose)
    printf("%-8s %s%s%s\n", outcome_name(r->outcome), r->name, r->words ? ": " : "",
           r->words ? r->words : "");
  /* What a failed case has left must not disturb the next. */
  if (s->run.outcome == OUTCOME_FAILED && !c->own_device && s->run.device) {
    s->run.services.live = 0;
    subject_close(&s->run);
  }
  fflush(stdout);
}

static bool run_all(session *s) {
  signal(SIGSEGV, die);
  signal(SIGBUS, die);
  signal(SIGFPE, die);
  signal(SIGABRT, die);
  signal(SIGALRM, die);
  module_cases(run_case, s);
  memory_cases(run_case, s);
  queue_cases(run_case, s);
  kernel_cases(run_case, s, s->subject->backend->device_target);
  fault_cases(run_case, s, s->subject->hooks);
  close_shared(s);
  if (s->options->list) return true;
  bool good = report_print(&s->report, true);
  if (s->report.count == 0) {
    fprintf(stderr, "compute-conformance: no case matches '%s'\n", s->options->filter);
    good = false;
  }
  if (s->options->json) good = report_write_json(&s->report, s->options->json) && good;
  if (s->options->write_expect)
    good = report_write_expectations(&s->report, s->options->write_expect) && good;
  return good;
}

int main(int argc, char **argv) {
  static session all;
  static compute_backend vtable;
  options o = {0};
  subject tested = {0};
  for (int i = 1; i < argc; i++)
    if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return fputs(help, stdout) < 0;
  if (!parse(argc, argv, &o) || !set_path(&o)) return 2;
  all = (session){.options = &o, .subject = &tested, .report.device = o.device};
  if (o.expect && !report_expect(&all.report, o.expect)) return 2;
  if (o.hooks && !find_hooks(o.hooks, &tested)) return 2;
  if (!find(&o, &tested, &vtable)) return 2;
  compute_context *core = NULL; /* for its services: it has not opened the module under test */
  if (compute_open(&core, &(compute_open_options){.backends = "cpu", .device = "cpu"})) {
    fprintf(stderr, "compute-conformance: %s\n", compute_error_message(NULL));
    return 2;
  }
  tested.core = &core->services;
  choose_share(&o, &tested);
  if (!o.list)
    printf("one kernel of %u, seed %llu\n", tested.spread, (unsigned long long)tested.seed);
  const bool good = run_all(&all);
  report_release(&all.report);
  return compute_close(core) == COMPUTE_OK && good ? 0 : 1;
}
