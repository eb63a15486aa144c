/* What the subcommands of compute-fit share: words about failures, the context and its devices, and
 * how far a run is: a line on standard error that changes in place, if that is a terminal. */
#include "tools/fit/command.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

volatile sig_atomic_t interrupted;

int fit_say_failure(const failure *why) {
  fit_say("%s", why->what);
  if (why->remedy[0]) fprintf(stderr, "  %s\n", why->remedy);
  return EXIT_FAILED;
}

bool wants_text(const fit_arguments *a) {
  return !a->quiet && !(a->json && !strcmp(a->json, "-"));
}

/* ---- The context and its devices ----------------------------------------------------------- */

static int add_device(session *s, compute_device *device) {
  for (size_t i = 0; i < s->device_count; i++)
    if (s->device[i] == device) return EXIT_GOOD;
  if (s->device_count == SESSION_MAX_DEVICES) {
    fit_say("--device: at most %d devices", SESSION_MAX_DEVICES);
    return EXIT_USAGE;
  }
  s->device[s->device_count++] = device;
  return EXIT_GOOD;
}

static int add_all(session *s) {
  compute_device *device;
  compute_device_info info;
  int result = EXIT_GOOD;
  for (size_t i = 0; !result && (device = compute_device_at(s->context, i)); i++)
    if (!compute_device_describe(device, &info) && (info.capabilities & COMPUTE_CAPABILITY_COMPUTE))
      result = add_device(s, device);
  return result;
}

static int find_devices(session *s, const char *list) {
  if (!list || !strcmp(list, "auto")) return add_device(s, compute_default_device(s->context));
  if (!strcmp(list, "all")) return add_all(s);
  int result = EXIT_GOOD;
  while (!result && *list) {
    char name[64];
    compute_device *device;
    const size_t length = strcspn(list, ",");
    snprintf(name, sizeof name, "%.*s", (int)length, list);
    list += length + (list[length] == ',');
    if (compute_device_by_name(s->context, name, &device))
      result = fit_say_error("--device", s->context);
    else
      result = add_device(s, device);
  }
  return result;
}

static void list_names(session *s) {
  for (size_t i = 0; i < s->device_count; i++) {
    compute_device_info info = {0};
    const size_t used = strlen(s->names);
    compute_device_describe(s->device[i], &info);
    snprintf(s->names + used, sizeof s->names - used, "%s%s", i ? ", " : "", info.name);
  }
}

/* What the context's CPU computes with. */
static int32_t cpu_threads(const session *s) {
  compute_device *cpu;
  compute_device_info info = {0};
  if (compute_device_by_name(s->context, "cpu", &cpu) || compute_device_describe(cpu, &info))
    return 1;
  return (int32_t)info.compute_units;
}

int session_open(const fit_arguments *a, session *s) {
  *s = (session){0};
  if (compute_open(&s->context, &(compute_open_options){.threads = (int32_t)a->threads}))
    return fit_say_error(NULL, NULL);
  int result = find_devices(s, a->device);
  if (!result && s->device_count == 0) {
    fit_say("no device here computes; compute-info says why");
    result = EXIT_FAILED;
  }
  list_names(s);
  s->threads = cpu_threads(s);
  if (result) session_close(s);
  return result;
}

void session_close(session *s) {
  compute_close(s->context);
  s->context = NULL;
}

/* ---- Progress ------------------------------------------------------------------------------ */

enum { BAR_WIDTH = 24 };

char *progress_time(double seconds, char *text, size_t bytes) {
  const long long whole = seconds > 0 && seconds < 1e12 ? (long long)ceil(seconds) : 0;
  if (whole >= 3600)
    snprintf(text, bytes, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  else
    snprintf(text, bytes, "%lld:%02lld", whole / 60, whole % 60);
  return text;
}

char *progress_number(double number, char *text, size_t bytes) {
  static const struct {
    double scale;
    const char *unit;
  } step[] = {{1e9, " G"}, {1e6, " M"}, {1e3, " k"}, {1, ""}};
  size_t i = 0;
  while (i < 3 && number < step[i].scale) i++;
  snprintf(text, bytes, i == 3 ? "%.0f%s" : "%.3g%s", number / step[i].scale, step[i].unit);
  return text;
}

void progress_begin(progress_bar *bar, const char *verb, const char *items, bool quiet) {
  *bar = (progress_bar){.verb = verb, .items = items, .wanted = !quiet && isatty(STDERR_FILENO)};
}

bool progress_show(void *user, const compute_batch_progress *p) {
  progress_bar *bar = user;
  char done[32], rate[32], left[32], drawn[BAR_WIDTH + 1];
  if (!bar->wanted) return !interrupted;
  const double items = (double)(p->items + bar->before);
  bar->shown = true;
  if (p->total > 0) {
    const double fraction = items / (double)(p->total + bar->before);
    for (int i = 0; i < BAR_WIDTH; i++) drawn[i] = i < fraction * BAR_WIDTH ? '#' : '.';
    drawn[BAR_WIDTH] = '\0';
    fprintf(stderr, "\r[%s] %3.0f%%  ", drawn, 100 * fraction);
  } else {
    fputc('\r', stderr);
  }
  fprintf(stderr, "%s %s %s, %s/s", bar->verb, progress_number(items, done, sizeof done),
          bar->items, progress_number(p->rate, rate, sizeof rate));
  if (p->seconds_left >= 0)
    fprintf(stderr, ", %s left", progress_time(p->seconds_left, left, sizeof left));
  if (bar->slowest) fprintf(stderr, ", slowest: %s", bar->slowest);
  fputs("\033[K", stderr);
  fflush(stderr);
  return !interrupted;
}

void progress_end(progress_bar *bar) {
  if (bar->shown) fputs("\r\033[K", stderr);
  bar->shown = false;
}
