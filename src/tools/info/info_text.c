/* compute-info for people: sections of aligned "name  value" lines. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/describe.h"
#include "tools/info/info.h"

extern char **environ;

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

void info_print_text(const info_report *report) {
  printf("libcompute %s\n", compute_version_text());
  if (report->error.status) print_error(&report->error);
  print_modules(report->context);
  print_devices(report->context);
  print_variables();
  printf("\nCache folder\n    %s\n", report->cache_folder[0] ? report->cache_folder : "none");
}
