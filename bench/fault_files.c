/* SPDX-License-Identifier: MIT */
/* Faults in files: source text, caches, modules; and a device that computes nothing. Each uses its
 * own context and folder. */
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "faults.h"
#include "measure.h"

static const char garbage[] = "tuning 1 this is no entry\n\x7f"
                              "ELF costs 1 neither\n{\"x\": ";

void fault_says(fault *f, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(f->said, sizeof f->said, format, list);
  va_end(list);
}

compute_fallback_statistics fault_counted(const fault *f) {
  compute_fallback_statistics now = {0};
  compute_fallback_query(f->context, &now);
  now.steps_on_cpu -= f->before.steps_on_cpu;
  now.other_kernels -= f->before.other_kernels;
  now.evictions -= f->before.evictions;
  now.smaller_batches -= f->before.smaller_batches;
  now.runs_on_cpu -= f->before.runs_on_cpu;
  now.devices_recovered -= f->before.devices_recovered;
  now.split_transfers -= f->before.split_transfers;
  return now;
}

/* ---- Source text --------------------------------------------------------------------------- */

bool fault_kernel_source_is_wrong(fault *f) {
  static const char source[] = "KERNEL void broken(GLOBAL f32 *x) { x[0] = nothing_of_this; }\n";
  compute_kernel *kernel = NULL;
  const double start = clock_seconds();
  const compute_status s =
      compute_kernel_compile(f->device, source, "broken", NULL, COMPUTE_KERNEL_PORTABLE, &kernel);
  const bool words = strlen(compute_error_message(NULL)) > 0;
  const bool named = strstr(compute_error_message(NULL), "nothing_of_this") != NULL;
  f->seconds = clock_seconds() - start;
  compute_kernel_release(kernel);
  fault_says(f, "a kernel that does not compile: %s%s", compute_status_name(s),
             named ? ", with the compiler's output" : "");
  const bool refused =
      s == COMPUTE_ERROR_COMPILATION || (f->device == f->cpu && s == COMPUTE_ERROR_UNSUPPORTED);
  return refused && words && fault_computes(f->context, f->device);
}

/* ---- Folders ------------------------------------------------------------------------------- */

static bool write_garbage(const char *path) {
  FILE *file = fopen(path, "wb");
  if (!file) return false;
  const bool ok = fwrite(garbage, 1, sizeof garbage - 1, file) == sizeof garbage - 1;
  return fclose(file) == 0 && ok;
}

/* Applies a function to every file of a folder; returns their number. */
static int each_file(const char *folder, bool damage) {
  DIR *stream = opendir(folder);
  int count = 0;
  for (const struct dirent *e; stream && (e = readdir(stream)) != NULL;) {
    char path[4096];
    struct stat status;
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    if (lstat(path, &status) != 0 || !S_ISREG(status.st_mode)) continue;
    count += damage ? write_garbage(path) : unlink(path) == 0;
  }
  if (stream) closedir(stream);
  return count;
}

/* The saved value of an environment variable. */
static void restore(const char *name, char *before) {
  if (before)
    setenv(name, before, 1);
  else
    unsetenv(name);
  free(before);
}

static char *save(const char *name) {
  const char *value = getenv(name);
  return value ? strdup(value) : NULL;
}

/* ---- Cache --------------------------------------------------------------------------------- */

/* Opens a new context, compiles and runs on the device of that name. */
static bool works(const char *device) {
  compute_context *context = NULL;
  if (compute_open(&context, &(compute_open_options){.device = device})) return false;
  const bool right = fault_computes(context, compute_default_device(context));
  return !compute_close(context) && right;
}

/* Damages all built kernels, the tuning file and the costs. */
bool fault_cache_is_damaged(fault *f) {
  char folder[] = "/tmp/compute-bench-XXXXXX", kernels[64], tuning[64], costs[64];
  char *cache_before = save("COMPUTE_CACHE_DIR"), *tuning_before = save("COMPUTE_TUNING_FILE");
  compute_device_info info;
  if (compute_device_describe(f->device, &info) || !mkdtemp(folder)) {
    free(cache_before);
    free(tuning_before);
    return false;
  }
  snprintf(kernels, sizeof kernels, "%s/kernels", folder);
  snprintf(tuning, sizeof tuning, "%s/tuning", folder);
  snprintf(costs, sizeof costs, "%s/tuning.costs", folder);
  setenv("COMPUTE_CACHE_DIR", folder, 1);
  unsetenv("COMPUTE_TUNING_FILE");
  bool ok = works(info.name);
  const int damaged = each_file(kernels, true);
  ok = ok && write_garbage(tuning) && write_garbage(costs);
  const double start = clock_seconds();
  ok = ok && works(info.name);
  f->seconds = clock_seconds() - start;
  fault_says(
      f,
      "%d built kernels, the tuning file and the costs were damaged; they were rebuilt or skipped",
      damaged);
  restore("COMPUTE_CACHE_DIR", cache_before);
  restore("COMPUTE_TUNING_FILE", tuning_before);
  each_file(kernels, false);
  rmdir(kernels);
  each_file(folder, false);
  rmdir(folder);
  return ok;
}

/* ---- A device that computes nothing -------------------------------------------------------- */

static bool refused_steps_are_right(fault *f, compute_context *context) {
  compute_device *device = compute_default_device(context);
  compute_fallback_statistics counted = {0};
  fault_model m;
  const double start = clock_seconds();
  bool ok = !fault_model_create(context, device, device, 1, COMPUTE_FALLBACK_SILENT, 0, &m) &&
            !fault_model_run(&m, NULL);
  f->seconds = clock_seconds() - start;
  ok = ok && !compute_fallback_query(context, &counted) && counted.steps_on_cpu > 0 &&
       fault_model_is_right(&m);
  fault_model_release(&m);
  fault_says(f, "a device that computes nothing refused %d steps; they ran on the CPU",
             (int)counted.steps_on_cpu);
  return ok;
}

bool fault_step_is_refused(fault *f) {
  compute_context *context = NULL;
  if (compute_open(&context, &(compute_open_options){.device = "null:0", .backends = "cpu,null"})) {
    fault_says(f, "not tried: the module of the null device is not installed");
    compute_error_clear(NULL);
    return true;
  }
  const bool ok = refused_steps_are_right(f, context);
  return !compute_close(context) && ok;
}

/* ---- Modules ------------------------------------------------------------------------------- */

bool fault_module_is_none(fault *f) {
  char folder[] = "/tmp/compute-bench-XXXXXX", path[96];
  compute_context *context = NULL;
  const compute_probe *probe;
  bool ok = mkdtemp(folder) != NULL, noticed = false;
  snprintf(path, sizeof path, "%s/libcompute-broken.so", folder);
  ok = ok && write_garbage(path);
  const double start = clock_seconds();
  ok = ok &&
       !compute_open(&context, &(compute_open_options){.backend_path = folder,
                                                       .backends = "cpu,broken",
                                                       .device = "cpu"}) &&
       fault_computes(context, compute_default_device(context));
  f->seconds = clock_seconds() - start;
  for (size_t i = 0; context && (probe = compute_probe_at(context, i)) != NULL; i++)
    if (strcmp(probe->name, "broken") == 0) {
      noticed = probe->state == COMPUTE_PROBE_NOT_A_MODULE && probe->detail[0] != '\0';
      fault_says(f, "a module that is not a library: %s", compute_probe_state_text(probe->state));
    }
  ok = ok && noticed && !compute_close(context);
  unlink(path);
  rmdir(folder);
  return ok;
}
