/* compute-info: what libcompute finds on this machine, and why it does not find the rest.
 *
 * It opens a context as any program would. When that fails because of the default device that the
 * environment asks for, it tries again without that wish, so that the modules and devices can be
 * shown beside the error; the exit status tells of the error all the same. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/compute.h"
#include "tools/describe.h"
#include "tools/json_text.h"

extern char **environ;

static const char help[] =
    "usage: compute-info [--json] [--help]\n"
    "Lists libcompute's backend modules (loaded or why not), devices, environment variables and\n"
    "cache folder.\n"
    "  --json    the same as one JSON object\n"
    "  --help    this text\n"
    "Exit status: 0; 1 when no device, or not the default device asked for, can be used;\n"
    "2 for wrong arguments.\n";

typedef struct info_report {
  compute_context *context; /* NULL: it could not be opened */
  compute_error error;      /* why it, or the default device asked for, was not available */
  char cache_folder[4096];
} info_report;

/* ---- For people: sections of aligned "name  value" lines ----------------------------------- */

/* One line of a section; nothing for an empty value. Later lines of the value are indented alike.
 */
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
    printf("    %-16s %s\n", name, rest);
  }
}

static void print_error(const compute_error *error) {
  printf("\nProblem\n    %s\n", error->message);
  if (error->remedy[0]) printf("    %s\n", error->remedy);
}

static void print_modules(const compute_context *context) {
  printf("\nModules\n");
  const compute_probe *probe = compute_probe_at(context, 0);
  if (!context)
    printf("    not known: no context could be opened\n");
  else if (!probe)
    printf("    none found\n");
  for (size_t i = 0; (probe = compute_probe_at(context, i)); i++) {
    printf("  %s: %s", probe->name, compute_probe_state_text(probe->state));
    if (probe->device_count)
      printf(", %" PRIu32 " device%s", probe->device_count, probe->device_count > 1 ? "s" : "");
    printf("\n");
    line("file", "%s", probe->path);
    line("version", "%s", probe->version);
    line("detail", "%s", probe->detail);
    line("remedy", "%s", probe->remedy);
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
  line("driver", "%s", info.driver);
  line("instructions", "%s", info.isa);
  line(info.type == COMPUTE_DEVICE_CPU ? "threads" : "compute units", "%" PRIu32,
       info.compute_units);
  if (info.vector_width)
    line("vector width", "%" PRIu32 " %s", info.vector_width,
         info.type == COMPUTE_DEVICE_GPU ? "threads of a warp" : "f32 numbers");
  print_capabilities(info.capabilities);
  line("memory", "%s, %s free", describe_bytes(info.memory_total, total, sizeof total),
       describe_bytes(info.memory_free, available, sizeof available));
  if (info.memory_max_allocation)
    line("largest buffer", "%s", describe_bytes(info.memory_max_allocation, total, sizeof total));
  if (info.cache_bytes)
    line("last cache", "%s", describe_bytes(info.cache_bytes, total, sizeof total));
  line("priority", "%" PRId32, info.priority);
  line("note", "%s", info.notes);
}

static void print_devices(const compute_context *context) {
  printf("\nDevices\n");
  compute_device *device = compute_device_at(context, 0);
  if (!device) printf("    none\n");
  for (size_t i = 0; (device = compute_device_at(context, i)); i++)
    print_device(device, device == compute_default_device(context));
}

static void print_variables(void) {
  printf("\nEnvironment variables\n");
  const compute_variable *variable;
  for (size_t i = 0; (variable = compute_variable_at(i)); i++) {
    const char *value = compute_variable_value(variable->name);
    printf("  %-22s %s\n", variable->name, value ? value : "(not set)");
    printf("      %s\n", variable->description);
  }
  size_t count = 0;
  for (char **entry = environ; *entry; entry++) {
    if (!describe_is_blas_variable(*entry)) continue;
    if (!count++) printf("\nSet for OpenBLAS or OpenMP\n");
    printf("    %s\n", *entry);
  }
}

static void info_print_text(const info_report *report) {
  printf("libcompute %s\n", compute_version_text());
  if (report->error.status) print_error(&report->error);
  print_modules(report->context);
  print_devices(report->context);
  print_variables();
  printf("\nCache folder\n    %s\n", report->cache_folder[0] ? report->cache_folder : "none");
}

/* ---- For programs: one JSON object --------------------------------------------------------- */

/* Memory running out while it is made is noticed once, at the end: jansson's calls pass NULL on and
 * report it. */

static json_t *modules(const compute_context *context) {
  json_t *list = json_array();
  const compute_probe *probe;
  for (size_t i = 0; (probe = compute_probe_at(context, i)); i++)
    json_array_append_new(
        list,
        json_pack("{s:o,s:o,s:s,s:o,s:o,s:o,s:I}", "name", json_text(probe->name), "path",
                  json_text(probe->path), "state", compute_probe_state_text(probe->state), "detail",
                  json_text(probe->detail), "remedy", json_text(probe->remedy), "version",
                  json_text(probe->version), "device_count", (json_int_t)probe->device_count));
  return list;
}

static json_t *capabilities(uint64_t bits) {
  json_t *list = json_array();
  for (const describe_capability *c = describe_capabilities; c->bit; c++)
    if (bits & c->bit) json_array_append_new(list, json_string(c->name));
  return list;
}

/* The lines of `text` that are not empty. */
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
      "{s:o,s:I,s:I,s:I,s:I,s:o,s:o}", "capabilities", capabilities(info.capabilities),
      "memory_total", (json_int_t)info.memory_total, "memory_free", (json_int_t)info.memory_free,
      "memory_max_allocation", (json_int_t)info.memory_max_allocation, "cache_bytes",
      (json_int_t)info.cache_bytes, "warnings", lines(info.notes), "error",
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

/* Returns 0, or -1 when memory is short or standard output cannot be written. */
static int info_print_json(const info_report *report) {
  json_t *root =
      json_pack("{s:s,s:I,s:o,s:o,s:o,s:o,s:o,s:o}", "version", compute_version_text(),
                "version_number", (json_int_t)compute_version(), "error", problem(&report->error),
                "modules", modules(report->context), "devices", devices(report->context),
                "variables", variables(), "environment", blas_variables(), "cache_folder",
                report->cache_folder[0] ? json_text(report->cache_folder) : json_null());
  int result = root ? json_write(root, "-") : -1;
  json_decref(root);
  return result;
}

/* ---- The program --------------------------------------------------------------------------- */

static compute_status open_context(info_report *report) {
  compute_status status = compute_open(&report->context, NULL);
  if (!status) return status;
  compute_error_get(NULL, &report->error);
  const char *asked = compute_variable_value("COMPUTE_DEVICE");
  char *wish = asked ? strdup(asked) : NULL;
  if (wish) {
    unsetenv("COMPUTE_DEVICE");
    compute_open(&report->context, NULL);
    setenv("COMPUTE_DEVICE", wish, 1);
  }
  free(wish);
  return status;
}

int main(int argc, char **argv) {
  bool json = false;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--json")) {
      json = true;
    } else if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
      fputs(help, stdout);
      return 0;
    } else {
      fprintf(stderr, "compute-info: unknown argument '%s'; see compute-info --help\n", argv[i]);
      return 2;
    }
  }

  static info_report report;
  compute_status status = open_context(&report);
  describe_cache_folder(report.cache_folder, sizeof report.cache_folder);
  int failed = 0;
  if (json)
    failed = info_print_json(&report);
  else
    info_print_text(&report);
  if (fflush(stdout)) failed = -1;
  if (failed) fprintf(stderr, "compute-info: the report could not be written\n");
  compute_close(report.context);
  return status || failed ? 1 : 0;
}
