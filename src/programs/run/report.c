/* SPDX-License-Identifier: MIT */
/* The report of compute-run about a model and its run. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "programs/common/bytes.h"
#include "programs/common/terminal.h"
#include "programs/run/run.h"

/* Prints a line of a section. Prints nothing for an empty value. */
static void line(const char *name, const char *format, ...) COMPUTE_PRINTF(2, 3);
static void line(const char *name, const char *format, ...) {
  char value[1024];
  va_list list;
  va_start(list, format);
  vsnprintf(value, sizeof value, format, list);
  va_end(list);
  if (value[0]) printf("    %-16s %s\n", name, value);
}

char *port_text(const compute_model_port *port, char *text, size_t bytes) {
  size_t used = 0;
  const bool is_text = port->dtype == COMPUTE_DTYPE_NONE && port->kind & COMPUTE_MODEL_TEXT;
  if (port->dtype == COMPUTE_DTYPE_NONE && !is_text) {
    snprintf(text, bytes, "not a tensor of numbers");
    return text;
  }
  snprintf(text, bytes, "%s%s%s %s", port->kind & COMPUTE_MODEL_OPTIONAL ? "optional " : "",
           port->kind & COMPUTE_MODEL_SEQUENCE ? "sequence of " : "",
           is_text ? "text" : compute_dtype_name(port->dtype),
           port->rank < 0 ? "of any shape" : "[");
  for (int32_t i = 0; i < port->rank; i++) {
    used = strlen(text);
    if (port->size[i] >= 0)
      snprintf(text + used, bytes - used, "%s%" PRId64, i ? "," : "", port->size[i]);
    else
      snprintf(text + used, bytes - used, "%s%s", i ? "," : "",
               port->symbol[i] ? port->symbol[i] : "?");
  }
  used = strlen(text);
  if (port->rank >= 0) snprintf(text + used, bytes - used, "]");
  return text;
}

/* ---- Before the run ------------------------------------------------------------------------ */

/* Returns the length of the first line of a text, such as the name of the program that created the
 * model. */
static int first_line(const char *text) {
  const size_t length = strcspn(text, "\r\n");
  return length < 200 ? (int)length : 200;
}

static void print_ports(const char *heading, const run_port *ports, size_t count) {
  char text[512];
  printf("\n%s\n", heading);
  for (size_t i = 0; i < count; i++)
    line(ports[i].port.name, "%s%s", port_text(&ports[i].port, text, sizeof text),
         ports[i].port.optional ? ", optional" : "");
}

void report_model(const model_run *run) {
  compute_model_info info;
  char number[32];
  if (compute_model_describe(run->model, &info)) return;
  printf("Model\n");
  line("file", "%s", run->a->line.operand);
  line("graph", "%.*s", first_line(info.graph_name), info.graph_name);
  line("producer", "%.*s", first_line(info.producer), info.producer);
  line("description", "%.*s", first_line(info.description), info.description);
  line("opset", "%" PRId64 ", IR version %" PRId64, info.opset, info.ir_version);
  line("nodes", "%" PRIu64, info.nodes);
  if (info.weights)
    line("weights", "%" PRIu64 " with %s, %.0f %% used in place from the file", info.weights,
         bytes_text(info.weight_bytes, number, sizeof number),
         info.weight_bytes ? 100 * (double)info.mapped_bytes / (double)info.weight_bytes : 0);
  print_ports("Inputs", run->inputs, run->input_count);
  print_ports("Outputs", run->outputs, run->output_count);
}

/* ---- After it ------------------------------------------------------------------------------ */

static void print_tensors(const char *heading, const run_port *ports, size_t count) {
  char shape[160];
  printf("\n%s\n", heading);
  for (size_t i = 0; i < count; i++) {
    const compute_tensor *tensor = ports[i].tensor;
    if (!tensor && ports[i].item) items_print(&ports[i]);
    if (!tensor) continue;
    line(ports[i].port.name, "%s %s%s%s", compute_dtype_name(compute_tensor_dtype(tensor)),
         compute_shape_text(compute_tensor_shape(tensor), shape, sizeof shape),
         ports[i].source[0] ? ": " : "", ports[i].source);
  }
}

/* Returns the peak memory of the process; 0 if unknown. */
static uint64_t peak_memory(void) {
  char text[256];
  uint64_t kibibytes = 0;
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(text, sizeof text, file))
    if (sscanf(text, "VmHWM: %" SCNu64 " kB", &kibibytes) == 1) break;
  if (file) fclose(file);
  return 1024 * kibibytes;
}

static void print_memory(const model_run *run, const compute_device_info *info) {
  char number[32];
  compute_pool_statistics pool;
  if (peak_memory()) line("peak memory", "%s", bytes_text(peak_memory(), number, sizeof number));
  if (info->type != COMPUTE_DEVICE_CPU &&
      !compute_pool_query(compute_default_device(run->context), &pool))
    line("device memory", "%s", bytes_text(pool.bytes_peak, number, sizeof number));
}

static double percentile(const model_run *run, double part) {
  const double place = ceil(part * (double)run->a->bench) - 1;
  return run->seconds[place > 0 ? (size_t)place : 0];
}

static void print_times(const model_run *run) {
  char text[3][32];
  line("load", "%s", duration_text(run->load_seconds, text[0], sizeof text[0]));
  line("first run", "%s", duration_text(run->first_seconds, text[0], sizeof text[0]));
  if (!run->seconds) return;
  line("later runs", "median %s, fastest %s, 90 %% within %s",
       duration_text(percentile(run, 0.5), text[0], sizeof text[0]),
       duration_text(run->seconds[0], text[1], sizeof text[1]),
       duration_text(percentile(run, 0.9), text[2], sizeof text[2]));
}

int report_run(const model_run *run) {
  compute_model_info info;
  compute_device_info device;
  if (compute_model_describe(run->model, &info) ||
      compute_device_describe(compute_default_device(run->context), &device))
    return run_fail(run->context);
  print_tensors("Input tensors", run->inputs, run->input_count);
  print_tensors("Output tensors", run->outputs, run->output_count);
  printf("\nRun\n");
  line("device", "%s (%s)", device.name, device.model);
  print_times(run);
  line("plans", "%" PRIu64, info.plans);
  print_memory(run, &device);
  return EXIT_GOOD;
}
