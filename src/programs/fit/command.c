/* SPDX-License-Identifier: MIT */
/* Functions for all subcommands of compute-fit: error messages, the context and its devices, and
 * progress. */
#include "programs/fit/command.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "programs/common/output_check.h"
#include "programs/fit/table.h"

volatile sig_atomic_t interrupted;

const compute_dtype fit_dtypes[] = {COMPUTE_U16, COMPUTE_F32};

/* Buffer for messages; NULL: messages are printed. */
static char *kept;
static size_t kept_room;

void fit_keep_words(char *text, size_t room) {
  kept = text;
  kept_room = room;
}

static void keep(const char *front, const char *text) {
  const size_t used = strlen(kept);
  snprintf(kept + used, kept_room - used, "%s%s%s", used ? "\n" : "", front, text);
}

void fit_say(const char *format, ...) {
  char text[2048];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  if (kept)
    keep("", text);
  else
    option_say(&fit_program, "%s", text);
}

void fit_say_remedy(const char *remedy) {
  if (!remedy[0]) return;
  if (kept)
    keep("  ", remedy);
  else
    fprintf(stderr, "  %s\n", remedy);
}

int fit_say_error(const char *what, const compute_context *context) {
  compute_error error = {0};
  compute_error_get(context, &error);
  fit_say("%s%s%s", what ? what : "", what ? ": " : "", error.message);
  fit_say_remedy(error.remedy);
  return EXIT_FAILED;
}

int fit_say_failure(const failure *why) {
  fit_say("%s", why->what);
  fit_say_remedy(why->remedy);
  return EXIT_FAILED;
}

bool fit_refuse_existing(const char *path) {
  if (access(path, F_OK) != 0) return false;
  fit_say("%s exists; use --force to overwrite it", path);
  return true;
}

int fit_check_table_output(const fit_arguments *a) {
  if (!a->output) {
    fit_say("%s needs --output FILE (-o): a .csv, .hdf5 or .npy file, as the table is",
            option_command_name(&a->line));
    return EXIT_USAGE;
  }
  failure why = {0};
  if (table_check_output(a->output, a->force, &why)) return fit_say_failure(&why);
  return output_check(&fit_program, "--output", a->output);
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

/* Returns the number of threads of the context's CPU. */
static int32_t cpu_threads(const session *s) {
  compute_device *cpu;
  compute_device_info info = {0};
  if (compute_device_by_name(s->context, "cpu", &cpu) || compute_device_describe(cpu, &info))
    return 1;
  return (int32_t)info.compute_units;
}

int session_begin(const fit_arguments *a, session *s) {
  *s = (session){0};
  return compute_open(&s->context, &(compute_open_options){.threads = (int32_t)a->threads})
             ? fit_say_error(NULL, NULL)
             : EXIT_GOOD;
}

int session_find_devices(const fit_arguments *a, session *s) {
  int result = find_devices(s, a->device);
  if (!result && s->device_count == 0) {
    fit_say("no device can compute; compute-info says why");
    result = EXIT_FAILED;
  }
  list_names(s);
  s->threads = cpu_threads(s);
  return result;
}

int session_open(const fit_arguments *a, session *s) {
  int result = session_begin(a, s);
  if (result) return result;
  result = session_find_devices(a, s);
  if (result) session_close(s);
  return result;
}

void session_close(session *s) {
  compute_close(s->context);
  s->context = NULL;
}

/* ---- Progress ------------------------------------------------------------------------------ */

bool fit_progress_show(void *user, const compute_batch_progress *p) {
  fit_progress *shown = user;
  char done[32], rate[32], time[32], left[48] = "";
  if (!progress_due(&shown->bar)) return !interrupted;
  const double items = (double)(p->items + shown->before),
               total = (double)(p->total + shown->before);
  if (p->seconds_left >= 0)
    snprintf(left, sizeof left, ", %s left", progress_time(p->seconds_left, time, sizeof time));
  progress_draw(&shown->bar, p->total > 0 ? items / total : -1, "%s %s %s, %s/s%s%s%s", shown->verb,
                progress_number(items, done, sizeof done), shown->items,
                progress_number(p->rate, rate, sizeof rate), left,
                shown->slowest ? ", slowest: " : "", shown->slowest ? shown->slowest : "");
  return !interrupted;
}
