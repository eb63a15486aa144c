/* SPDX-License-Identifier: MIT */
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

#include "backend/options.h"
#include "backend/report.h"
#include "backend/subject.h"
#include "core/device/device.h"
#include "programs/common/terminal.h"

enum { HANG_SECONDS = 900, KINDS = 64 };

/* ---- Arguments ----------------------------------------------------------------------------- */

/* Makes "NAME:0" from "…/libcompute-NAME.so"; NULL if the file has another name. */
static const char *device_of(const char *module, char *text, size_t bytes) {
  const char *slash = strrchr(module, '/'), *file = slash ? slash + 1 : module;
  const size_t length = strlen(file), prefix = strlen("libcompute-"), suffix = strlen(".so");
  if (length <= prefix + suffix || strncmp(file, "libcompute-", prefix) != 0 ||
      strcmp(file + length - suffix, ".so") != 0)
    return NULL;
  snprintf(text, bytes, "%.*s:0", (int)(length - prefix - suffix), file + prefix);
  return text;
}

/* The device of the command line, or the first of --module; NULL with a message. */
static const char *device_wanted(const options *o) {
  static char device[80];
  const char *of_module = o->module ? device_of(o->module, device, sizeof device) : NULL;
  if (o->module && !of_module) {
    option_say(&conformance_program, "invalid --module '%s': it must be a file libcompute-NAME.so",
               o->module);
    return NULL;
  }
  if (o->quick && o->full) {
    option_say(&conformance_program, "--quick and --full exclude each other");
    return NULL;
  }
  const char *wanted = o->line.operand ? o->line.operand : of_module;
  if (!wanted)
    option_say(&conformance_program, "a DEVICE is missing; compute-info lists them, see --help");
  return wanted;
}

/* ---- The module ---------------------------------------------------------------------------- */

/* Sets the search path of modules: the folder of --module, the environment's folders, the installed
 * modules. */
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
      option_say(&conformance_program, "%s: %s", o->module, strerror(errno));
      return false;
    }
    *strrchr(folder, '/') = '\0';
  }
  snprintf(path, sizeof path, "%s%s%s%s%s", folder, folder[0] ? ":" : "", given ? given : "",
           given && given[0] ? ":" : "", installed);
  return setenv("COMPUTE_BACKEND_PATH", path, 1) == 0;
}

/* The file from which the core has loaded a backend; NULL: none. */
static const char *file_of(compute_context *context, const char *backend) {
  const compute_probe *probe;
  for (size_t i = 0; (probe = compute_probe_at(context, i)); i++)
    if (!strcmp(probe->name, backend) && probe->state == COMPUTE_PROBE_LOADED) return probe->path;
  return NULL;
}

/* The entry of a module, or NULL. A program with the CPU backend in it loads no module. */
#ifdef CONFORMANCE_WITH_CPU
static compute_backend_entry_function entry_of(const char *path) {
  (void)path;
  return compute_backend_entry;
}
#else
static compute_backend_entry_function entry_of(const char *path) {
  void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *symbol = module ? dlsym(module, COMPUTE_BACKEND_ENTRY) : NULL;
  compute_backend_entry_function entry;
  memcpy(&entry, &symbol, sizeof symbol);
  return entry;
}
#endif

/* Like the core: slots past the module's struct_size are NULL. */
static bool load(const char *path, compute_backend *vtable) {
  const compute_backend_entry_function entry = entry_of(path);
  const compute_backend *given =
      entry ? entry(COMPUTE_BACKEND_ABI_MAJOR, COMPUTE_BACKEND_ABI_MINOR) : NULL;
  memset(vtable, 0, sizeof *vtable);
  if (given)
    memcpy(vtable, given,
           given->struct_size < sizeof *vtable ? given->struct_size : sizeof *vtable);
  return given;
}

/* Finds the module by opening the device like any program; the core then closes it. */
static bool find(const char *name, subject *s, compute_backend *vtable) {
  compute_context *context = NULL;
  if (compute_open(&context, &(compute_open_options){.device = name})) {
    option_say(&conformance_program, "%s", compute_error_message(NULL));
    return false;
  }
  const compute_device *device = compute_default_device(context);
  const char *path = file_of(context, device->info.backend);
  const bool loaded = path && load(path, vtable);
  if (!loaded) option_say(&conformance_program, "cannot load %s: %s", path, dlerror());
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
  option_say(&conformance_program, "%s has no hooks: %s", library,
             handle ? "it does not export " CONFORMANCE_HOOKS_SYMBOL : dlerror());
  return false;
}

/* ---- Selection of cases -------------------------------------------------------------------- */

static uint64_t number_of(const char *text, uint64_t otherwise) {
  return text && text[0] ? strtoull(text, NULL, 10) : otherwise;
}

/* Some devices are tested every second day, so half of the day's number counts their runs. */
static void choose_share(const options *o, subject *s) {
  const bool compiles = s->backend->device_target;
  s->extent = o->quick ? EXTENT_QUICK : o->full ? EXTENT_FULL : EXTENT_DEFAULT;
  s->seed = option_given(&o->line, "--seed")
                ? (uint64_t)o->seed
                : number_of(getenv("COMPUTE_TEST_SEED"), (uint64_t)time(NULL) / 86400) / 2;
  const bool thin = compiles && s->extent != EXTENT_FULL;
  s->spread = (uint32_t)number_of(getenv("COMPUTE_TEST_SPREAD"), thin ? 40 : 1);
  if (s->extent == EXTENT_QUICK) s->spread = compiles ? 400 : 20;
  if (s->spread < 1) s->spread = 1;
}

typedef struct session {
  const options *options;
  const subject *subject;
  progress_bar progress;
  report report;
  run run;
  char kinds[KINDS][CASE_NAME]; /* kinds run so far: the first kernel of each always runs */
  size_t kind_count;
} session;

static bool is_selected(const options *o, const char *name) {
  if (!o->filter) return true;
  if (strchr(o->filter, '*')) return fnmatch(o->filter, name, 0) == 0;
  return strstr(name, o->filter);
}

/* The kind is the name up to its last '/': "kernel/gemm" of "kernel/gemm/1x64 f32". */
static bool is_new_kind(session *s, const char *name) {
  const size_t length = (size_t)(strrchr(name, '/') - name);
  for (size_t i = 0; i < s->kind_count; i++)
    if (strlen(s->kinds[i]) == length && !strncmp(s->kinds[i], name, length)) return false;
  if (s->kind_count == KINDS) return false;
  snprintf(s->kinds[s->kind_count++], CASE_NAME, "%.*s", (int)length, name);
  return true;
}

/* Large groups of cases are distributed over the days. */
static bool is_in_share(session *s, const char *name) {
  const bool kernel = !strncmp(name, "kernel/", 7), index = !strncmp(name, "index outside/", 14);
  const bool call = !strncmp(name, "fault/fails/", 12) || !strncmp(name, "fault/lost in/", 14);
  uint64_t hash = UINT64_C(0xcbf29ce484222325), spread = s->subject->spread;
  if (!strncmp(name, "tuning/", 7)) return spread == 1; /* several compilations each */
  if (!kernel && !index && !call) return true;
  for (const char *c = name; *c; c++) hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
  if (call && spread > 8) spread = 8;
  const bool first = is_new_kind(s, name);
  return first || ((hash >> 11) + s->subject->seed) % spread == 0;
}

/* ---- Running ------------------------------------------------------------------------------- */

static char at_work[CASE_NAME + 8]; /* name of the case, for the signal handler */

static void die(int number) {
  static const char crashed[] = ": crashed\n", hangs[] = ": does not end\n";
  const char *words = number == SIGALRM ? hangs : crashed;
  const unsigned name_bytes = (unsigned)strlen(at_work), word_bytes = (unsigned)strlen(words);
  if (write(2, at_work, name_bytes) < 0 || write(2, words, word_bytes) < 0) _exit(3);
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
  progress_draw(&s->progress, -1, "%zu cases, %s", s->report.count, c->name);
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
  /* The leftovers of a failed case must not disturb the next case. */
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
  progress_hide(&s->progress);
  if (s->options->list) return true;
  bool good = report_print(&s->report, true);
  if (s->report.count == 0) {
    option_say(&conformance_program, "no case matches '%s'", s->options->filter);
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
  static options o;
  subject tested = {0};
  int wrong;
  if (!option_read(&conformance_program, argc, argv, &o, &wrong)) return wrong;
  const char *device = device_wanted(&o);
  if (!device || !set_path(&o)) return EXIT_USAGE;
  all = (session){.options = &o,
                  .subject = &tested,
                  .report.device = device,
                  .progress = progress_begin(o.quiet || o.verbose || o.list, 0)};
  if (o.expect && !report_expect(&all.report, o.expect)) return 2;
  if (o.hooks && !find_hooks(o.hooks, &tested)) return 2;
  if (!find(device, &tested, &vtable)) return 2;
  compute_context *core = NULL; /* for its services; it does not open the module under test */
  if (compute_open(&core, &(compute_open_options){.backends = "cpu", .device = "cpu"})) {
    option_say(&conformance_program, "%s", compute_error_message(NULL));
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
