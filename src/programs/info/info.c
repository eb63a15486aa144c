/* SPDX-License-Identifier: MIT */
/* compute-info: the modules and devices that libcompute finds on this machine, and the reasons why
 * it does not find others.
 *
 * The program opens a context like any other program. If that fails, environment variables may be
 * the cause. It then tries again without them, so that it can show modules and devices together
 * with the error. The exit status still reports the error. */
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/compute.h"
#include "programs/common/bytes.h"
#include "programs/common/describe.h"
#include "programs/common/json_text.h"
#include "programs/common/option.h"
#include "programs/common/terminal.h"
#include "programs/info/group.h"
#include "programs/info/options.h"

extern char **environ;

typedef struct info_report {
  compute_context *context; /* NULL: it could not be opened */
  compute_error error;      /* why it, or the requested default device, is not available */
  char cache_folder[4096];
  const info_arguments *arguments;
} info_report;

/* ---- What matters on this machine ---------------------------------------------------------- */

/* The first byte of a PCI class (a display controller is 0x030000), and a vendor. */
enum { PCI_DISPLAY = 0x03, PCI_ACCELERATOR = 0x12, PCI_NVIDIA = 0x10de };

/* Returns a number that the kernel reports for a PCI device; 0 if there is none. */
static unsigned long pci_number(const char *folder, const char *device, const char *name) {
  char path[PATH_MAX], text[32] = "";
  snprintf(path, sizeof path, "%s/%s/%s", folder, device, name);
  FILE *file = fopen(path, "r");
  if (!file) return 0;
  if (!fgets(text, sizeof text, file)) text[0] = '\0';
  fclose(file);
  return strtoul(text, NULL, 16);
}

/* Returns true if there is a device for graphics or computing from the vendor (0: any vendor). */
static bool pci_has(const char *folder, unsigned long vendor) {
  DIR *bus = opendir(folder);
  bool found = false;
  for (struct dirent *entry; bus && !found && (entry = readdir(bus));) {
    if (entry->d_name[0] == '.') continue;
    const unsigned long kind = pci_number(folder, entry->d_name, "class") >> 16;
    if (vendor && pci_number(folder, entry->d_name, "vendor") != vendor) continue;
    found = kind == PCI_DISPLAY || kind == PCI_ACCELERATOR;
  }
  if (bus) closedir(bus);
  return found;
}

/* Returns true if the environment asks for a backend: by one of its devices, or in the list of
 * backends to load. */
static bool is_asked_for(const char *backend) {
  const char *device = compute_variable_value("COMPUTE_DEVICE");
  const char *backends = compute_variable_value("COMPUTE_BACKENDS");
  const size_t length = strlen(backend);
  if (device && !strncmp(device, backend, length)) return true;
  return backends && strstr(backends, backend);
}

/* Suggests only useful installations: a driver for NVIDIA GPUs if one is on the bus, OpenCL if
 * there is a GPU or an accelerator. */
static bool remedy_applies(const info_report *report, const compute_probe *probe) {
  const info_arguments *a = report->arguments;
  const char *pci = a->pci ? a->pci : "/sys/bus/pci/devices";
  const bool absent =
      probe->state == COMPUTE_PROBE_NO_DEVICE || probe->state == COMPUTE_PROBE_MISSING_LIBRARY;
  if (a->all || !absent || is_asked_for(probe->name)) return true;
  if (!strcmp(probe->name, "cuda"))
    return compute_variable_value("CUDA_VISIBLE_DEVICES") || pci_has(pci, PCI_NVIDIA);
  if (!strcmp(probe->name, "opencl"))
    return compute_variable_value("OCL_ICD_VENDORS") || pci_has(pci, 0);
  return true;
}

/* The null device computes nothing; it is for tests. */
static bool is_hidden(const info_report *report, const char *backend) {
  return !report->arguments->all && !strcmp(backend, "null") && !is_asked_for(backend);
}

/* ---- For people: sections of aligned "name  value" lines ----------------------------------- */

/* Prints one line of a section. Prints nothing for an empty value. Further lines of the value are
 * indented to match. */
static void line(const char *name, const char *format, ...) COMPUTE_PRINTF(2, 3);
static void line(const char *name, const char *format, ...) {
  char value[2048];
  va_list list;
  va_start(list, format);
  vsnprintf(value, sizeof value, format, list);
  va_end(list);
  for (char *rest = value, *next; *rest; rest = next, name = "") {
    next = strchr(rest, '\n');
    if (next)
      *next++ = '\0';
    else
      next = rest + strlen(rest);
    terminal_line(21, "    %-16s %s", name, rest);
  }
}

static void print_error(const compute_error *error) {
  printf("\nProblem\n    %s\n", error->message);
  if (error->remedy[0]) printf("    %s\n", error->remedy);
}

static void print_modules(const info_report *report) {
  printf("\nModules\n");
  const compute_probe *probe = compute_probe_at(report->context, 0);
  if (!report->context)
    printf("    unknown: no context could be opened\n");
  else if (!probe)
    printf("    none found\n");
  for (size_t i = 0; (probe = compute_probe_at(report->context, i)); i++) {
    if (is_hidden(report, probe->name)) continue;
    printf("  %s: %s", probe->name, compute_probe_state_text(probe->state));
    if (probe->device_count)
      printf(", %" PRIu32 " device%s", probe->device_count, probe->device_count > 1 ? "s" : "");
    printf("\n");
    line("file", "%s", probe->path);
    line("version", "%s", probe->version);
    line("detail", "%s", probe->detail);
    if (remedy_applies(report, probe)) line("remedy", "%s", probe->remedy);
  }
}

static void print_capabilities(uint64_t capabilities) {
  char text[512] = "";
  size_t used = 0;
  for (const describe_capability *c = describe_capabilities; c->bit; c++) {
    if (!(capabilities & c->bit)) continue;
    int n = snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "", c->name);
    if (n > 0 && (size_t)n < sizeof text - used) used += (size_t)n;
  }
  line("capabilities", "%s", used ? text : "none");
}

/* Returns the BLAS library that computes products on `info`'s device, or NULL. The CPU backend reports
 * it as its driver, or else its own kernels and the reason. */
static const char *blas_in_use(const compute_device_info *info) {
  const bool none = !strncmp(info->driver, "own kernels", strlen("own kernels")) ||
                    !strncmp(info->driver, "none", strlen("none"));
  return strcmp(info->backend, "cpu") != 0 || none ? NULL : info->driver;
}

static void print_driver(const compute_device_info *info) {
  const char *blas = blas_in_use(info), *name = compute_variable_value("COMPUTE_BLAS");
  if (blas)
    line("BLAS", "%s, from %s", blas, name ? name : "the default library");
  else if (!strcmp(info->backend, "cpu"))
    line("BLAS", "not used: %s%s", info->driver, name ? "" : " (COMPUTE_BLAS names a library)");
  else
    line("driver", "%s", info->driver);
}

static void print_device(compute_device *device, bool is_default) {
  compute_device_info info = {0};
  char total[32], available[32];
  if (compute_device_describe(device, &info)) {
    printf("  %s\n    %s\n", info.name, compute_error_message(NULL));
    return;
  }
  printf("  %s%s\n", info.name, is_default ? " (default)" : "");
  line("type", "%s", describe_device_type(info.type));
  line("model", "%s", info.model);
  line("vendor", "%s", info.vendor);
  print_driver(&info);
  line("instructions", "%s", info.isa);
  line(info.type == COMPUTE_DEVICE_CPU ? "threads" : "compute units", "%" PRIu32,
       info.compute_units);
  if (info.vector_width)
    line("vector width", "%" PRIu32 " %s", info.vector_width,
         info.type == COMPUTE_DEVICE_GPU ? "threads of a warp" : "f32 numbers");
  print_capabilities(info.capabilities);
  line("memory", "%s, %s free", bytes_text(info.memory_total, total, sizeof total),
       bytes_text(info.memory_free, available, sizeof available));
  if (info.memory_max_allocation)
    line("largest buffer", "%s", bytes_text(info.memory_max_allocation, total, sizeof total));
  if (info.cache_bytes) line("last cache", "%s", bytes_text(info.cache_bytes, total, sizeof total));
  line("priority", "%" PRId32, info.priority);
  line("note", "%s", info.notes);
}

static void print_devices(const info_report *report) {
  printf("\nDevices\n");
  compute_device *device;
  compute_device_info info;
  size_t shown = 0;
  for (size_t i = 0; (device = compute_device_at(report->context, i)); i++) {
    if (!compute_device_describe(device, &info) && is_hidden(report, info.backend)) continue;
    print_device(device, device == compute_default_device(report->context));
    shown++;
  }
  if (!shown) printf("    none\n");
}

/* One name per line, for scripts and completions. */
static void print_names(const info_report *report) {
  compute_device *device;
  compute_device_info info;
  for (size_t i = 0; (device = compute_device_at(report->context, i)); i++)
    if (!compute_device_describe(device, &info) && !is_hidden(report, info.backend))
      printf("%s\n", info.name);
}

static void print_variable(const compute_variable *variable, const char *value, bool described) {
  terminal_line(28, "  %-25s %s", variable->name, value ? value : "(not set)");
  if (!described) return;
  if (variable->values[0]) terminal_line(6, "      %s", variable->values);
  terminal_line(6, "      %s", variable->description);
}

/* Prints set variables with libcompute's prefix that this version does not define. They are
 * spelling mistakes, or variables of another version. */
static void print_unknown_variables(void) {
  enum { MOST = 256, NAME_BYTES = 64 };
  const char *known[MOST + 1] = {NULL};
  const compute_variable *variable;
  size_t count = 0;
  for (; count < MOST && (variable = compute_variable_at(count)); count++)
    known[count] = variable->name;
  for (char **entry = environ; *entry; entry++) {
    char name[NAME_BYTES];
    const size_t length = strcspn(*entry, "=");
    if (strncmp(*entry, "COMPUTE_", 8) != 0 || length >= sizeof name) continue;
    memcpy(name, *entry, length);
    name[length] = '\0';
    size_t i = 0;
    while (i < count && strcmp(known[i], name) != 0) i++;
    if (i < count) continue;
    const char *near = option_nearest(name, known);
    terminal_line(6, "  %-25s unknown%s%s", name, near ? "; did you mean " : "", near ? near : "");
  }
}

/* Prints the variables that are set. With --variables it prints all variables and their
 * descriptions. */
static void print_variables(bool all) {
  const compute_variable *variable;
  size_t count = 0;
  printf("\nEnvironment variables%s\n", all ? "" : " that are set");
  for (size_t i = 0; (variable = compute_variable_at(i)); i++) {
    const char *value = compute_variable_value(variable->name);
    if (!value && !all) continue;
    count++;
    print_variable(variable, value, all);
  }
  if (!count) printf("    none\n");
  print_unknown_variables();
  if (!all) printf("    (--variables lists all that libcompute reads)\n");
  count = 0;
  for (char **entry = environ; *entry; entry++) {
    if (!describe_is_blas_variable(*entry)) continue;
    if (!count++) printf("\nSet for OpenBLAS or OpenMP\n");
    terminal_line(8, "    %s", *entry);
  }
}

static void info_print_text(const info_report *report) {
  printf("libcompute %s\n", compute_version_text());
  if (report->error.status) print_error(&report->error);
  print_modules(report);
  print_devices(report);
  print_variables(report->arguments->variables);
  printf("\nCache folder\n    %s\n", report->cache_folder[0] ? report->cache_folder : "none");
}

/* ---- For programs: one JSON object --------------------------------------------------------- */

/* Out of memory is detected once, at the end: jansson's calls accept NULL and fail in turn. */

static json_t *modules(const info_report *report) {
  json_t *list = json_array();
  const compute_probe *probe;
  for (size_t i = 0; (probe = compute_probe_at(report->context, i)); i++)
    json_array_append_new(
        list,
        json_pack("{s:o,s:o,s:s,s:o,s:o,s:b,s:o,s:I}", "name", json_text(probe->name), "path",
                  json_text(probe->path), "state", compute_probe_state_text(probe->state), "detail",
                  json_text(probe->detail), "remedy", json_text(probe->remedy), "remedy_applies",
                  (int)remedy_applies(report, probe), "version", json_text(probe->version),
                  "device_count", (json_int_t)probe->device_count));
  return list;
}

static json_t *capabilities(uint64_t bits) {
  json_t *list = json_array();
  for (const describe_capability *c = describe_capabilities; c->bit; c++)
    if (bits & c->bit) json_array_append_new(list, json_string(c->name));
  return list;
}

/* Returns the non-empty lines of `text`. */
static json_t *lines(const char *text) {
  json_t *list = json_array();
  char copy[sizeof((compute_device_info *)NULL)->notes], *position;
  strncpy(copy, text, sizeof copy - 1);
  copy[sizeof copy - 1] = '\0';
  for (char *l = strtok_r(copy, "\n", &position); l; l = strtok_r(NULL, "\n", &position))
    json_array_append_new(list, json_text(l));
  return list;
}

static json_t *device(compute_device *handle, bool is_default) {
  compute_device_info info = {0};
  compute_status status = compute_device_describe(handle, &info);
  json_t *object = json_pack(
      "{s:o,s:b,s:o,s:s,s:o,s:o,s:o,s:o,s:i,s:I,s:I,s:I}", "name", json_text(info.name), "default",
      (int)is_default, "backend", json_text(info.backend), "type", describe_device_type(info.type),
      "model", json_text(info.model), "vendor", json_text(info.vendor), "driver",
      json_text(info.driver), "isa", json_text(info.isa), "priority", (int)info.priority, "index",
      (json_int_t)info.index, "compute_units", (json_int_t)info.compute_units, "vector_width",
      (json_int_t)info.vector_width);
  json_t *more = json_pack(
      "{s:o,s:o,s:I,s:I,s:I,s:I,s:o,s:o}", "blas", json_text(blas_in_use(&info)), "capabilities",
      capabilities(info.capabilities), "memory_total", (json_int_t)info.memory_total, "memory_free",
      (json_int_t)info.memory_free, "memory_max_allocation", (json_int_t)info.memory_max_allocation,
      "cache_bytes", (json_int_t)info.cache_bytes, "warnings", lines(info.notes), "error",
      status ? json_text(compute_error_message(NULL)) : json_null());
  json_object_update(object, more);
  json_decref(more);
  return object;
}

static json_t *devices(const compute_context *context) {
  json_t *list = json_array();
  compute_device *handle;
  for (size_t i = 0; (handle = compute_device_at(context, i)); i++)
    json_array_append_new(list, device(handle, handle == compute_default_device(context)));
  return list;
}

static json_t *variables(void) {
  json_t *list = json_array();
  const compute_variable *variable;
  for (size_t i = 0; (variable = compute_variable_at(i)); i++)
    json_array_append_new(list,
                          json_pack("{s:s,s:o,s:s,s:s}", "name", variable->name, "value",
                                    json_text(compute_variable_value(variable->name)), "values",
                                    variable->values, "description", variable->description));
  return list;
}

static json_t *blas_variables(void) {
  json_t *object = json_object();
  for (char **entry = environ; *entry; entry++) {
    char name[128];
    size_t length = strcspn(*entry, "=");
    if (!describe_is_blas_variable(*entry) || length >= sizeof name) continue;
    memcpy(name, *entry, length);
    name[length] = '\0';
    json_object_set_new(object, name, json_text(*entry + length + ((*entry)[length] == '=')));
  }
  return object;
}

static json_t *problem(const compute_error *error) {
  if (!error->status) return json_null();
  return json_pack("{s:s,s:o,s:o}", "status", compute_status_name(error->status), "message",
                   json_text(error->message), "remedy", json_text(error->remedy));
}

/* Returns 0, or -1 when out of memory or if standard output cannot be written. */
static int info_print_json(const info_report *report) {
  json_t *root =
      json_pack("{s:s,s:I,s:o,s:o,s:o,s:o,s:o,s:o}", "version", compute_version_text(),
                "version_number", (json_int_t)compute_version(), "error", problem(&report->error),
                "modules", modules(report), "devices", devices(report->context), "variables",
                variables(), "environment", blas_variables(), "cache_folder",
                report->cache_folder[0] ? json_text(report->cache_folder) : json_null());
  int result = root ? json_write(root, "-") : -1;
  json_decref(root);
  return result;
}

/* ---- The program --------------------------------------------------------------------------- */

enum { VARIABLES_MOST = 64 };

/* The part of the environment to ignore: the default device, everything except the location of
 * modules, or everything. */
typedef enum aside { ASIDE_DEVICE, ASIDE_MOST, ASIDE_ALL } aside;

static bool is_aside(const char *name, aside how) {
  if (!strcmp(name, "COMPUTE_DEVICE")) return how >= ASIDE_DEVICE;
  if (!strcmp(name, "COMPUTE_BACKEND_PATH")) return how == ASIDE_ALL;
  return how >= ASIDE_MOST && !strncmp(name, "COMPUTE_", 8);
}

/* Opens a context without some of libcompute's variables, and restores them. */
static compute_status open_without(compute_context **context, aside how) {
  const char *names[VARIABLES_MOST];
  char *kept[VARIABLES_MOST];
  size_t count = 0;
  const compute_variable *variable;
  for (size_t i = 0; i < VARIABLES_MOST && (variable = compute_variable_at(i)); i++) {
    const char *value = compute_variable_value(variable->name);
    if (!value || !is_aside(variable->name, how) || !(kept[count] = strdup(value))) continue;
    names[count++] = variable->name;
    unsetenv(variable->name);
  }
  const compute_status status = compute_open(context, NULL);
  for (size_t i = 0; i < count; i++) {
    setenv(names[i], kept[i], 1);
    free(kept[i]);
  }
  return status;
}

/* Opens a context as any program would. If that fails, tries again with less and less of the
 * environment. */
static compute_status open_context(info_report *report) {
  const compute_status status = compute_open(&report->context, NULL);
  if (!status) return status;
  compute_error_get(NULL, &report->error);
  for (aside how = ASIDE_DEVICE; how <= ASIDE_ALL; how++)
    if (!open_without(&report->context, how)) break;
  return status;
}

static int print(const info_report *report) {
  if (report->arguments->json) return info_print_json(report);
  if (report->arguments->names)
    print_names(report);
  else
    info_print_text(report);
  return 0;
}

/* Prints the group instead of the machine. */
static int print_group(const info_report *report) {
  compute_status status = report->error.status;
  if (!status) status = info_print_group(report->context);
  if (status)
    option_say(&info_program, "%s",
               report->error.status ? report->error.message
                                    : compute_error_message(report->context));
  if (fflush(stdout)) option_say(&info_program, "the report could not be written");
  return status || ferror(stdout) ? EXIT_FAILED : EXIT_GOOD;
}

int main(int argc, char **argv) {
  static info_arguments arguments;
  static info_report report = {.arguments = &arguments};
  int wrong;
  if (!option_read(&info_program, argc, argv, &arguments, &wrong)) return wrong;
  compute_status status = open_context(&report);
  if (arguments.group) {
    const int result = print_group(&report);
    compute_close(report.context);
    return result;
  }
  describe_cache_folder(report.cache_folder, sizeof report.cache_folder);
  int failed = print(&report);
  if (fflush(stdout)) failed = -1;
  if (failed) option_say(&info_program, "the report could not be written");
  if (arguments.names && report.error.status) option_say(&info_program, "%s", report.error.message);
  compute_close(report.context);
  return status || failed ? EXIT_FAILED : EXIT_GOOD;
}
