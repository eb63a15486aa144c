/* compute-fit: positions of Gaussian spots in camera images, with uncertainties. One file for each
 * subcommand; this one chooses, and opens the devices that they work with. */
#include <stdio.h>
#include <string.h>

#include "tools/fit/command.h"

volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number) {
  (void)signal_number;
  interrupted = 1;
}

int fit_say_failure(const failure *why) {
  fit_say("%s", why->what);
  if (why->remedy[0]) fprintf(stderr, "  %s\n", why->remedy);
  return EXIT_FAILED;
}

bool wants_text(const fit_arguments *a) {
  return !a->quiet && !(a->json && !strcmp(a->json, "-"));
}

static int dispatch(const fit_arguments *a) {
  switch (a->command) {
  case COMMAND_FIT: return command_fit(a);
  case COMMAND_SIMULATE: return command_simulate(a);
  case COMMAND_CRLB: return command_crlb(a);
  case COMMAND_VALIDATE: return command_validate(a);
  default: return command_bench(a);
  }
}

int main(int argc, char **argv) {
  static fit_arguments a;
  if (!arguments_parse(argc, argv, &a)) return EXIT_USAGE;
  if (a.help) {
    arguments_print_help(a.command);
    return fflush(stdout) ? EXIT_FAILED : EXIT_GOOD;
  }
  const struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of the write, as a full disk */
  int result = dispatch(&a);
  if (fflush(stdout) && result == EXIT_GOOD) {
    perror("compute-fit: standard output");
    result = EXIT_FAILED;
  }
  return result;
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
