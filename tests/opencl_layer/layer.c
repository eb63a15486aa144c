/* SPDX-License-Identifier: MIT */
/* The implementation of the layer; see layer.h for its purpose and calls.h for the list of calls.
 *
 * Calls that are not listed stay NULL in the table: the loader then calls the driver. */
#define CL_TARGET_OPENCL_VERSION 300
#include "layer.h"

#include <CL/cl_layer.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef void(CL_CALLBACK *notify_function)(const char *, const void *, size_t, void *);
typedef void(CL_CALLBACK *built_function)(cl_program, void *);

enum {
#define CALL(form, name, ...) CALL_##name,
#include "calls.h"
  CALL_COUNT,
  CALL_ANY = CALL_COUNT
};

static const char *const call_names[] = {
#define CALL(form, name, ...) #name,
#include "calls.h"
};

enum { CONTEXTS, QUEUES, BUFFERS, PROGRAMS, KERNELS, EVENTS, DEVICES, SHARED, OBJECT_KINDS };

static const char *const object_names[OBJECT_KINDS] = {"contexts",    "queues",         "buffers",
                                                       "programs",    "kernels",        "events",
                                                       "sub-devices", "shared memories"};

static const cl_icd_dispatch *target; /* the driver, or the next layer */
static layer_limits limits;
static _Atomic int64_t counts[CALL_COUNT], count_of_any, live[OBJECT_KINDS];
static char counts_path[4096];

/* The ordered failure; set while no other thread calls. */
static struct {
  int call;
  int64_t nth;
  bool onward;
  cl_int error;
} order;
static _Atomic int64_t failures;
static _Atomic int last_failure = -1;

/* ---- Queues ---------------------------------------------------------------------------------- */

/* All references to live queues. */
enum { MOST_QUEUES = 256 };
static pthread_mutex_t queue_mutex = PTHREAD_MUTEX_INITIALIZER;
static cl_command_queue queues[MOST_QUEUES];

static void note(int kind, void *object, bool there) {
  const cl_command_queue from = there ? NULL : object, to = there ? object : NULL;
  if (kind != QUEUES) return;
  pthread_mutex_lock(&queue_mutex);
  for (int i = 0; i < MOST_QUEUES; i++) {
    if (queues[i] != from) continue;
    queues[i] = to;
    break;
  }
  pthread_mutex_unlock(&queue_mutex);
}

/* A lost device does nothing more, and the library no longer calls its driver. So before a
 * simulated loss, the real driver must finish all copies. */
static void finish_queues(void) {
  pthread_mutex_lock(&queue_mutex);
  for (int i = 0; i < MOST_QUEUES; i++)
    if (queues[i]) target->clFinish(queues[i]);
  pthread_mutex_unlock(&queue_mutex);
}

/* Counts a call; returns CL_SUCCESS or the ordered error. */
static cl_int enter(int call) {
  const int64_t n = atomic_fetch_add(&counts[call], 1) + 1;
  const int64_t any = atomic_fetch_add(&count_of_any, 1) + 1;
  const int64_t place = order.call == CALL_ANY ? any : n;
  if (order.nth == 0 || (order.call != CALL_ANY && order.call != call)) return CL_SUCCESS;
  if (place != order.nth && !(order.onward && place > order.nth)) return CL_SUCCESS;
  atomic_fetch_add(&failures, 1);
  atomic_store(&last_failure, call);
  if (order.error == CL_INVALID_COMMAND_QUEUE) finish_queues();
  return order.error;
}

static cl_int set_status(cl_int *status, cl_int value) {
  if (status) *status = value;
  return value;
}

/* ---- Calls by their form --------------------------------------------------------------------- */

#define FORM_STATUS(name, parameters, arguments)                                                   \
  static cl_int CL_API_CALL my_##name parameters {                                                 \
    const cl_int error = enter(CALL_##name);                                                       \
    return error ? error : target->name arguments;                                                 \
  }
#define FORM_AFTER(name, parameters, arguments)                                                    \
  static cl_int CL_API_CALL my_##name parameters {                                                 \
    const cl_int error = enter(CALL_##name), result = target->name arguments;                      \
    return error ? error : result;                                                                 \
  }
#define FORM_EVENT(name, parameters, arguments)                                                    \
  static cl_int CL_API_CALL my_##name parameters {                                                 \
    const cl_int error = enter(CALL_##name);                                                       \
    if (error) return error;                                                                       \
    const cl_int result = target->name arguments;                                                  \
    if (result == CL_SUCCESS && event) atomic_fetch_add(&live[EVENTS], 1);                         \
    return result;                                                                                 \
  }
#define FORM_CREATE(name, type, kind, parameters, arguments)                                       \
  static type CL_API_CALL my_##name parameters {                                                   \
    if (set_status(status, enter(CALL_##name))) return NULL;                                       \
    const type object = target->name arguments;                                                    \
    if (object) atomic_fetch_add(&live[kind], 1);                                                  \
    if (object) note(kind, object, true);                                                          \
    return object;                                                                                 \
  }
#define FORM_MAP(name, parameters, arguments)                                                      \
  static void *CL_API_CALL my_##name parameters {                                                  \
    if (set_status(status, enter(CALL_##name))) return NULL;                                       \
    void *const address = target->name arguments;                                                  \
    if (address && event) atomic_fetch_add(&live[EVENTS], 1);                                      \
    return address;                                                                                \
  }
#define FORM_RETAIN(name, type, kind)                                                              \
  static cl_int CL_API_CALL my_##name(type object) {                                               \
    const cl_int error = enter(CALL_##name), result = error ? error : target->name(object);        \
    if (result == CL_SUCCESS) atomic_fetch_add(&live[kind], 1);                                    \
    if (result == CL_SUCCESS) note(kind, object, true);                                            \
    return result;                                                                                 \
  }
#define FORM_RELEASE(name, type, kind)                                                             \
  static cl_int CL_API_CALL my_##name(type object) {                                               \
    const cl_int error = enter(CALL_##name);                                                       \
    note(kind, object, false);                                                                     \
    const cl_int result = target->name(object);                                                    \
    if (result == CL_SUCCESS) atomic_fetch_sub(&live[kind], 1);                                    \
    return error ? error : result;                                                                 \
  }
#define FORM_OWN(name, nothing)
#define CALL(form, ...) FORM_##form(__VA_ARGS__)

#include "calls.h"

/* ---- Calls with false answers ---------------------------------------------------------------- */

static cl_int CL_API_CALL my_clGetDeviceIDs(cl_platform_id platform, cl_device_type type,
                                            cl_uint entries, cl_device_id *devices,
                                            cl_uint *count) {
  const cl_int error = enter(CALL_clGetDeviceIDs);
  if (error) return error;
  if (!limits.no_device) return target->clGetDeviceIDs(platform, type, entries, devices, count);
  if (count) *count = 0;
  return CL_DEVICE_NOT_FOUND;
}

/* Returns `bytes` of `answer` like a driver. */
static cl_int say(const void *answer, size_t bytes, size_t value_bytes, void *value,
                  size_t *needed) {
  if (needed) *needed = bytes;
  if (!value) return CL_SUCCESS;
  if (value_bytes < bytes) return CL_INVALID_VALUE;
  memcpy(value, answer, bytes);
  return CL_SUCCESS;
}

static cl_int say_number(uint64_t number, size_t bytes, size_t value_bytes, void *value,
                         size_t *needed) {
  const uint32_t narrow = (uint32_t)number;
  return say(bytes == sizeof narrow ? (const void *)&narrow : &number, bytes, value_bytes, value,
             needed);
}

/* The driver's extensions, with the names for double precision replaced. */
static cl_int extensions_without_f64(cl_device_id device, size_t value_bytes, void *value,
                                     size_t *needed) {
  const cl_int result =
      target->clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, value_bytes, value, needed);
  if (result != CL_SUCCESS || !value) return result;
  char *found = value;
  while ((found = strstr(found, "_fp64")) != NULL) memcpy(found, "_none", 5);
  return result;
}

/* Returns true if the layer answers this query falsely; sets the number and its size. */
static bool lie(cl_device_info question, uint64_t *number, size_t *bytes) {
  const struct {
    cl_device_info question;
    bool active;
    uint64_t number;
    size_t bytes;
  } lies[] = {
      {CL_DEVICE_MAX_WORK_GROUP_SIZE, limits.group != 0, limits.group, sizeof(size_t)},
      {CL_DEVICE_LOCAL_MEM_SIZE, limits.local != 0, limits.local, sizeof(cl_ulong)},
      {CL_DEVICE_MAX_MEM_ALLOC_SIZE, limits.allocation != 0, limits.allocation, sizeof(cl_ulong)},
      {CL_DEVICE_DOUBLE_FP_CONFIG, limits.no_f64 != 0, 0, sizeof(cl_ulong)},
      {CL_DEVICE_NATIVE_VECTOR_WIDTH_DOUBLE, limits.no_f64 != 0, 0, sizeof(cl_uint)},
      {CL_DEVICE_PREFERRED_VECTOR_WIDTH_DOUBLE, limits.no_f64 != 0, 0, sizeof(cl_uint)},
      {CL_DEVICE_TYPE, limits.gpu != 0, CL_DEVICE_TYPE_GPU, sizeof(cl_device_type)},
      {CL_DEVICE_TYPE, limits.cpu != 0, CL_DEVICE_TYPE_CPU, sizeof(cl_device_type)},
      {CL_DEVICE_LOCAL_MEM_TYPE, limits.cpu != 0, CL_GLOBAL, sizeof(cl_uint)},
      {CL_DEVICE_LOCAL_MEM_TYPE, limits.gpu != 0, CL_LOCAL, sizeof(cl_uint)},
      {CL_DEVICE_HOST_UNIFIED_MEMORY, limits.gpu != 0, CL_FALSE, sizeof(cl_bool)},
      {CL_DEVICE_SVM_CAPABILITIES, limits.gpu != 0, 0, sizeof(cl_ulong)},
      {CL_DEVICE_AVAILABLE, limits.unavailable != 0, CL_FALSE, sizeof(cl_bool)},
      {CL_DEVICE_COMPILER_AVAILABLE, limits.no_compiler != 0, CL_FALSE, sizeof(cl_bool)},
      {CL_DEVICE_LINKER_AVAILABLE, limits.no_compiler != 0, CL_FALSE, sizeof(cl_bool)},
  };
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
    if (lies[i].question != question || !lies[i].active) continue;
    *number = lies[i].number;
    *bytes = lies[i].bytes;
    return true;
  }
  return false;
}

static cl_int CL_API_CALL my_clGetDeviceInfo(cl_device_id device, cl_device_info question,
                                             size_t value_bytes, void *value, size_t *needed) {
  uint64_t number = 0;
  size_t bytes = 0;
  const cl_int error = enter(CALL_clGetDeviceInfo);
  if (error) return error;
  if (lie(question, &number, &bytes)) return say_number(number, bytes, value_bytes, value, needed);
  if (question == CL_DEVICE_MAX_WORK_ITEM_SIZES && limits.group != 0) {
    const size_t sizes[3] = {limits.group, limits.group, limits.group};
    return say(sizes, sizeof sizes, value_bytes, value, needed);
  }
  if (question == CL_DEVICE_VERSION && limits.version == 11) {
    static const char version[] = "OpenCL 1.1 of a test";
    return say(version, sizeof version, value_bytes, value, needed);
  }
  if (question == CL_DEVICE_EXTENSIONS && limits.no_f64 != 0)
    return extensions_without_f64(device, value_bytes, value, needed);
  return target->clGetDeviceInfo(device, question, value_bytes, value, needed);
}

static cl_int CL_API_CALL my_clCreateSubDevices(cl_device_id device,
                                                const cl_device_partition_property *properties,
                                                cl_uint entries, cl_device_id *devices,
                                                cl_uint *count) {
  cl_uint made = 0;
  const cl_int error = enter(CALL_clCreateSubDevices);
  if (error) return error;
  const cl_int result = target->clCreateSubDevices(device, properties, entries, devices, &made);
  if (count) *count = made;
  if (result == CL_SUCCESS && devices) atomic_fetch_add(&live[DEVICES], made);
  return result;
}

static cl_int CL_API_CALL my_clReleaseDevice(cl_device_id device) {
  const cl_int error = enter(CALL_clReleaseDevice), result = target->clReleaseDevice(device);
  if (result == CL_SUCCESS) atomic_fetch_sub(&live[DEVICES], 1);
  return error ? error : result;
}

static void *CL_API_CALL my_clSVMAlloc(cl_context context, cl_svm_mem_flags flags, size_t bytes,
                                       cl_uint alignment) {
  if (enter(CALL_clSVMAlloc)) return NULL;
  if (limits.refuse_allocation != 0 && bytes > limits.refuse_allocation) return NULL;
  void *const memory = target->clSVMAlloc(context, flags, bytes, alignment);
  if (memory) atomic_fetch_add(&live[SHARED], 1);
  return memory;
}

/* Has no status, so it cannot fail. */
static void CL_API_CALL my_clSVMFree(cl_context context, void *memory) {
  enter(CALL_clSVMFree);
  target->clSVMFree(context, memory);
  if (memory) atomic_fetch_sub(&live[SHARED], 1);
}

static cl_mem CL_API_CALL my_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes,
                                            void *host, cl_int *error) {
  if (set_status(error, enter(CALL_clCreateBuffer))) return NULL;
  if (limits.refuse_allocation != 0 && bytes > limits.refuse_allocation) {
    set_status(error, CL_MEM_OBJECT_ALLOCATION_FAILURE);
    return NULL;
  }
  const cl_mem buffer = target->clCreateBuffer(context, flags, bytes, host, error);
  if (buffer) atomic_fetch_add(&live[BUFFERS], 1);
  return buffer;
}

static cl_program CL_API_CALL my_clCreateProgramWithSource(cl_context context, cl_uint count,
                                                           const char **texts,
                                                           const size_t *lengths, cl_int *error) {
  if (set_status(error, enter(CALL_clCreateProgramWithSource))) return NULL;
  const char **all = calloc(count + 1, sizeof *all);
  size_t *bytes = calloc(count + 1, sizeof *bytes); /* 0: up to the terminator */
  cl_program program = NULL;
  if (all && bytes) {
    all[0] = layer_builtins;
    if (texts) memcpy(all + 1, texts, count * sizeof *all);
    if (lengths) memcpy(bytes + 1, lengths, count * sizeof *bytes);
    program = target->clCreateProgramWithSource(context, count + 1, all, bytes, error);
  } else {
    set_status(error, CL_OUT_OF_HOST_MEMORY);
  }
  free(all);
  free(bytes);
  if (program) atomic_fetch_add(&live[PROGRAMS], 1);
  return program;
}

/* Returns true if the program's source uses double precision. */
static bool uses_f64(cl_program program) {
  size_t bytes = 0;
  if (target->clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, NULL, &bytes) != CL_SUCCESS)
    return false;
  char *source = calloc(bytes + 1, 1);
  if (!source) return false;
  target->clGetProgramInfo(program, CL_PROGRAM_SOURCE, bytes, source, NULL);
  const bool found = strstr(source, "#pragma OPENCL EXTENSION cl_khr_fp64 : enable") != NULL;
  free(source);
  return found;
}

static cl_int CL_API_CALL my_clBuildProgram(cl_program program, cl_uint count,
                                            const cl_device_id *devices, const char *options,
                                            built_function done, void *user) {
  const cl_int error = enter(CALL_clBuildProgram);
  if (error) return error;
  if (limits.no_f64 != 0 && uses_f64(program)) return CL_BUILD_PROGRAM_FAILURE;
  return target->clBuildProgram(program, count, devices, options, done, user);
}

static cl_int CL_API_CALL my_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel,
                                                    cl_uint dimensions, const size_t *offset,
                                                    const size_t *global, const size_t *local,
                                                    cl_uint waits, const cl_event *wait,
                                                    cl_event *event) {
  const cl_int error = enter(CALL_clEnqueueNDRangeKernel);
  if (error) return error;
  size_t items = 1;
  for (cl_uint i = 0; local && i < dimensions; i++) items *= local[i];
  if (limits.refuse_group != 0 && items > limits.refuse_group) return CL_INVALID_WORK_GROUP_SIZE;
  const cl_int result = target->clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global,
                                                       local, waits, wait, event);
  if (result == CL_SUCCESS && event) atomic_fetch_add(&live[EVENTS], 1);
  return result;
}

static cl_int CL_API_CALL my_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer,
                                                  cl_bool blocking, size_t offset, size_t bytes,
                                                  const void *source, cl_uint waits,
                                                  const cl_event *wait, cl_event *event) {
  const cl_int error = enter(CALL_clEnqueueWriteBuffer);
  if (error) return error;
  if (limits.no_touch != 0 && bytes == 1 && blocking && !event) return CL_SUCCESS;
  const cl_int result = target->clEnqueueWriteBuffer(queue, buffer, blocking, offset, bytes, source,
                                                     waits, wait, event);
  if (result == CL_SUCCESS && event) atomic_fetch_add(&live[EVENTS], 1);
  return result;
}

/* ---- For tests in the same process ----------------------------------------------------------- */

EXPORT layer_arm_function layer_arm;
EXPORT layer_failures_function layer_failures;
EXPORT layer_count_function layer_count;
EXPORT layer_live_function layer_live;
EXPORT layer_lie_function layer_lie;

bool layer_arm(const char *call, int64_t nth, bool onward, int error) {
  int index = 0;
  while (index < CALL_COUNT && strcmp(call, call_names[index]) != 0) index++;
  if (index == CALL_COUNT && strcmp(call, "any") != 0) return false;
  for (int i = 0; i < CALL_COUNT; i++) atomic_store(&counts[i], 0);
  atomic_store(&count_of_any, 0);
  atomic_store(&failures, 0);
  atomic_store(&last_failure, -1);
  order.call = index;
  order.nth = nth;
  order.onward = onward;
  order.error = error;
  return true;
}

int64_t layer_failures(const char **last) {
  const int index = atomic_load(&last_failure);
  if (last) *last = index < 0 ? "" : call_names[index];
  return atomic_load(&failures);
}

const char *layer_count(uint32_t index, int64_t *count) {
  if (index >= CALL_COUNT) return NULL;
  if (count) *count = atomic_load(&counts[index]);
  return call_names[index];
}

int64_t layer_live(char *text, uint64_t text_bytes) {
  int64_t total = 0;
  uint64_t used = 0;
  if (text_bytes > 0) text[0] = '\0';
  for (int i = 0; i < OBJECT_KINDS; i++) {
    const int64_t n = atomic_load(&live[i]);
    total += n;
    if (n == 0 || used >= text_bytes) continue;
    const int length = snprintf(text + used, text_bytes - used, "%s%lld %s", used ? ", " : "",
                                (long long)n, object_names[i]);
    if (length > 0) used += (uint64_t)length;
  }
  return total;
}

void layer_lie(const layer_limits *wanted) {
  limits = *wanted;
}

/* ---- For scripts ----------------------------------------------------------------------------- */

static void write_counts(void) {
  FILE *file = fopen(counts_path, "w");
  if (!file) return;
  for (int i = 0; i < CALL_COUNT; i++)
    fprintf(file, "%s %lld\n", call_names[i], (long long)atomic_load(&counts[i]));
  char text[256];
  fprintf(file, "live %lld\n", (long long)layer_live(text, sizeof text));
  fclose(file);
}

static bool set_limit(const char *name, uint64_t value) {
#define LIMIT(field)                                                                               \
  { #field, &limits.field }
  const struct {
    const char *name;
    uint64_t *field;
  } fields[] = {LIMIT(group),
                LIMIT(refuse_group),
                LIMIT(local),
                LIMIT(allocation),
                LIMIT(refuse_allocation),
                LIMIT(no_f64),
                LIMIT(gpu),
                LIMIT(no_device),
                LIMIT(unavailable),
                LIMIT(no_compiler),
                LIMIT(cpu),
                LIMIT(version),
                LIMIT(no_touch)};
#undef LIMIT
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    if (strcmp(name, fields[i].name) != 0) continue;
    *fields[i].field = value;
    return true;
  }
  return false;
}

/* "clFinish:3+:-5" */
static bool read_failure(char *text) {
  char *nth = strchr(text, ':'), *error = nth ? strchr(nth + 1, ':') : NULL;
  if (!error) return false;
  *nth++ = *error++ = '\0';
  return layer_arm(text, strtoll(nth, NULL, 10), strchr(nth, '+') != NULL, atoi(error));
}

/* Executes one order of COMPUTE_TEST_LAYER. */
static bool obey(char *text) {
  char *value = strchr(text, '=');
  if (!value) return false;
  *value++ = '\0';
  if (strcmp(text, "fail") == 0) return read_failure(value);
  if (strcmp(text, "counts") != 0) return set_limit(text, strtoull(value, NULL, 10));
  snprintf(counts_path, sizeof counts_path, "%s", value);
  return atexit(write_counts) == 0;
}

static void read_orders(void) {
  const char *text = getenv("COMPUTE_TEST_LAYER");
  char *copy = text ? strdup(text) : NULL, *position;
  for (char *part = copy ? strtok_r(copy, ",", &position) : NULL; part;
       part = strtok_r(NULL, ",", &position))
    if (!obey(part)) fprintf(stderr, "OpenCL layer: no such order as \"%s\"\n", part);
  free(copy);
}

/* ---- The loader's interface ------------------------------------------------------------------ */

static const cl_icd_dispatch dispatch = {
#define CALL(form, name, ...) .name = my_##name,
#include "calls.h"
};

EXPORT cl_int CL_API_CALL clGetLayerInfo(cl_layer_info question, size_t value_bytes, void *value,
                                         size_t *needed) {
  static const char name[] = "faults and lies for tests";
  if (question == CL_LAYER_NAME) return say(name, sizeof name, value_bytes, value, needed);
  if (question != CL_LAYER_API_VERSION) return CL_INVALID_VALUE;
  return say_number(CL_LAYER_API_VERSION_100, sizeof(cl_layer_api_version), value_bytes, value,
                    needed);
}

EXPORT cl_int CL_API_CALL clInitLayer(cl_uint entries, const cl_icd_dispatch *next,
                                      cl_uint *own_entries, const cl_icd_dispatch **own) {
  if (entries < sizeof dispatch / sizeof(void *) || !next || !own_entries || !own)
    return CL_INVALID_VALUE;
  target = next;
  *own_entries = sizeof dispatch / sizeof(void *);
  *own = &dispatch;
  read_orders();
  return CL_SUCCESS;
}
