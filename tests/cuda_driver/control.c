/* SPDX-License-Identifier: MIT */
/* Orders, counts, failures and the list of objects. */
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver_private.h"

#define CALL_TEXT(member, symbol, version, parameters) #symbol,
static const char *const call_names[] = {CUDA_FUNCTIONS(CALL_TEXT)
                                             CUDA_OPTIONAL_FUNCTIONS(CALL_TEXT) "kernel"};

static const char *const object_names[OBJECT_KINDS] = {
    "device memories", "host memories", "registered memories", "pools", "streams", "events",
    "modules",         "graphs",        "executable graphs"};

static const machine ordinary = {
    .device_count = 1, .memory = (int64_t)1 << 30, .capability = 90, .driver_version = 13000};
machine stand_in_machine = {
    .device_count = 1, .memory = (int64_t)1 << 30, .capability = 90, .driver_version = 13000};

static const struct {
  const char *name;
  size_t offset;
} settings[] = {
    {"device_count", offsetof(machine, device_count)},
    {"memory", offsetof(machine, memory)},
    {"capability", offsetof(machine, capability)},
    {"driver_version", offsetof(machine, driver_version)},
    {"init", offsetof(machine, init)},
    {"no_pools", offsetof(machine, no_pools)},
    {"no_peers", offsetof(machine, no_peers)},
    {"no_register", offsetof(machine, no_register)},
    {"no_map", offsetof(machine, no_map)},
    {"unified", offsetof(machine, unified)},
    {"delay_copies", offsetof(machine, delay_copies)},
    {"copy_rate", offsetof(machine, copy_rate)},
    {"delay_kernels", offsetof(machine, delay_kernels)},
    {"hold_kernels", offsetof(machine, hold_kernels)},
};

static _Atomic int64_t counts[CALL_COUNT], count_of_any, failures;
static _Atomic int last_failure = -1;
static _Atomic int32_t lost[MOST_DEVICES];
static char counts_path[4096];

/* The ordered failure; set while no other thread calls. */
static struct {
  int call;
  int64_t nth;
  bool onward;
  cuda_result code;
} order;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* protects everything below */
static object *objects;
static int64_t live[OBJECT_KINDS], forgotten[OBJECT_KINDS], misuses;
static char first_misuse[256];

/* ---- Orders -------------------------------------------------------------------------------- */

static bool order_failure(const char *text) {
  char name[64];
  long long nth;
  int code, read = 0;
  char plus[2] = "";
  if (sscanf(text, "%63[^:]:%lld%1[+]:%d%n", name, &nth, plus, &code, &read) != 4 &&
      sscanf(text, "%63[^:]:%lld:%d%n", name, &nth, &code, &read) != 3)
    return false;
  int call = strcmp(name, "any") == 0 ? CALL_ANY : -1;
  for (int i = 0; i < CALL_COUNT; i++)
    if (strcmp(call_names[i], name) == 0) call = i;
  if (call < 0 || text[read] != '\0') return false;
  order.call = call;
  order.nth = nth;
  order.onward = plus[0] == '+';
  order.code = code;
  return true;
}

static bool order_one(const char *text) {
  const char *value = strchr(text, '=');
  if (!value) return false;
  const size_t length = (size_t)(value++ - text);
  if (length == 4 && strncmp(text, "fail", 4) == 0) return order_failure(value);
  if (length == 4 && strncmp(text, "keep", 4) == 0) return true;
  if (length == 5 && strncmp(text, "reset", 5) == 0) {
    for (int i = 0; i < MOST_DEVICES; i++) context_end(i);
    return true;
  }
  if (length == 6 && strncmp(text, "counts", 6) == 0) {
    snprintf(counts_path, sizeof counts_path, "%s", value);
    return true;
  }
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    if (strlen(settings[i].name) != length || strncmp(settings[i].name, text, length) != 0)
      continue;
    char *end;
    int64_t number = strtoll(value, &end, 10);
    if (*end == 'K' || *end == 'M' || *end == 'G')
      number <<= *end == 'K' ? 10 : *end == 'M' ? 20 : 30, end++;
    if (settings[i].offset == offsetof(machine, hold_kernels))
      atomic_store(&stand_in_machine.hold_kernels, number);
    else
      memcpy((char *)&stand_in_machine + settings[i].offset, &number, sizeof number);
    return *end == '\0' && end != value;
  }
  return false;
}

EXPORT bool stand_in_configure(const char *orders);
bool stand_in_configure(const char *orders) {
  char copy[4096];
  bool good = (size_t)snprintf(copy, sizeof copy, "%s", orders) < sizeof copy;
  if (!strstr(orders, "keep=1")) {
    stand_in_machine = ordinary;
    for (int i = 0; i < MOST_DEVICES; i++)
      if (stand_in_lost(i) != CUDA_OK) context_end(i);
  }
  memset(&order, 0, sizeof order);
  for (int i = 0; i < CALL_COUNT; i++) atomic_store(&counts[i], 0);
  atomic_store(&count_of_any, 0);
  atomic_store(&failures, 0);
  atomic_store(&last_failure, -1);
  engine_forget();
  char *rest = NULL;
  for (char *one = strtok_r(copy, ",", &rest); one; one = strtok_r(NULL, ",", &rest))
    if (!order_one(one)) good = false;
  if (stand_in_machine.device_count > MOST_DEVICES) stand_in_machine.device_count = MOST_DEVICES;
  return good;
}

static __attribute__((constructor)) void read_environment(void) {
  const char *orders = getenv("COMPUTE_TEST_CUDA");
  if (orders && !stand_in_configure(orders)) {
    fprintf(stderr, "COMPUTE_TEST_CUDA: an order in '%s' is not understood\n", orders);
    _exit(2);
  }
}

/* ---- Observations -------------------------------------------------------------------------- */

EXPORT int64_t stand_in_failures(const char **last);
int64_t stand_in_failures(const char **last) {
  const int call = atomic_load(&last_failure);
  if (last) *last = call < 0 ? "" : call_names[call];
  return atomic_load(&failures);
}

EXPORT const char *stand_in_count(uint32_t index, int64_t *count);
const char *stand_in_count(uint32_t index, int64_t *count) {
  if (index >= CALL_COUNT) return NULL;
  *count = atomic_load(&counts[index]);
  return call_names[index];
}

EXPORT int64_t stand_in_live(char *text, uint64_t text_bytes);
int64_t stand_in_live(char *text, uint64_t text_bytes) {
  int64_t sum = 0;
  size_t used = 0;
  pthread_mutex_lock(&mutex);
  if (text_bytes) text[0] = '\0';
  for (int i = 0; i < OBJECT_KINDS; i++) {
    const int64_t count = live[i] + forgotten[i];
    sum += count;
    if (count && used < text_bytes)
      used += (size_t)snprintf(text + used, text_bytes - used, "%s%lld %s", used ? ", " : "",
                               (long long)count, object_names[i]);
    forgotten[i] = 0;
  }
  pthread_mutex_unlock(&mutex);
  return sum;
}

EXPORT int64_t stand_in_misuse(char *text, uint64_t text_bytes);
int64_t stand_in_misuse(char *text, uint64_t text_bytes) {
  pthread_mutex_lock(&mutex);
  const int64_t count = misuses;
  if (text_bytes) snprintf(text, text_bytes, "%s", first_misuse);
  misuses = 0;
  first_misuse[0] = '\0';
  pthread_mutex_unlock(&mutex);
  return count;
}

void stand_in_misused(const char *format, ...) {
  char words[256];
  va_list list;
  va_start(list, format);
  vsnprintf(words, sizeof words, format, list);
  va_end(list);
  fprintf(stderr, "simulated GPU: %s\n", words);
  pthread_mutex_lock(&mutex);
  if (misuses++ == 0) memcpy(first_misuse, words, sizeof words);
  pthread_mutex_unlock(&mutex);
}

/* Misuse fails a test that does not query it. */
static __attribute__((destructor)) void at_end(void) {
  FILE *file = counts_path[0] ? fopen(counts_path, "w") : NULL;
  for (int i = 0; file && i < CALL_COUNT; i++)
    if (counts[i]) fprintf(file, "%s %lld\n", call_names[i], (long long)counts[i]);
  if (file) fclose(file);
  if (misuses) _exit(99);
}

/* ---- Calls --------------------------------------------------------------------------------- */

void stand_in_lose(int device, cuda_result code) {
  int32_t none = 0;
  if (device >= 0) atomic_compare_exchange_strong(&lost[device], &none, code);
}

cuda_result stand_in_lost(int device) {
  return device < 0 ? CUDA_OK : atomic_load(&lost[device]);
}

static bool ends_device(cuda_result code) {
  return code == 214 || code == 220 || code == 226 || code == 700 || code == 702 || code == 710 ||
         (code >= 714 && code <= 719) || code == 911;
}

static cuda_result ordered(int call) {
  const int64_t n = atomic_fetch_add(&counts[call], 1) + 1;
  /* A kernel's run is no call, so "any" does not count it. */
  const int64_t any = call == CALL_kernel ? 0 : atomic_fetch_add(&count_of_any, 1) + 1;
  const int64_t place = order.call == CALL_ANY ? any : n;
  if (order.nth == 0 || (order.call != CALL_ANY && order.call != call)) return CUDA_OK;
  if (place != order.nth && !(order.onward && place > order.nth)) return CUDA_OK;
  atomic_fetch_add(&failures, 1);
  atomic_store(&last_failure, call);
  return order.code;
}

cuda_result stand_in_kernel_order(void) {
  return ordered(CALL_kernel);
}

/* Returns true if the call needs a working context. */
static bool needs_context(int call) {
  switch (call) {
  case CALL_cuInit:
  case CALL_cuDriverGetVersion:
  case CALL_cuGetErrorName:
  case CALL_cuGetErrorString:
  case CALL_cuDeviceGetCount:
  case CALL_cuDeviceGet:
  case CALL_cuDeviceGetName:
  case CALL_cuDeviceTotalMem:
  case CALL_cuDeviceGetAttribute:
  case CALL_cuDeviceGetUuid:
  case CALL_cuDevicePrimaryCtxRetain:
  case CALL_cuDevicePrimaryCtxRelease:
  case CALL_cuDeviceCanAccessPeer:
  case CALL_cuCtxSetCurrent:
  case CALL_cuCtxGetCurrent: return false;
  default: return true;
  }
}

cuda_result stand_in_enter(int call) {
  const int device = current_device();
  const cuda_result code = ordered(call);
  const cuda_result before = stand_in_lost(device);
  if (before != CUDA_OK && needs_context(call)) return before;
  if (code != CUDA_OK && ends_device(code)) stand_in_lose(device, code);
  if (code != CUDA_OK || !needs_context(call)) return code;
  return device < 0 ? INVALID_CONTEXT : CUDA_OK;
}

/* ---- Objects ------------------------------------------------------------------------------- */

void *object_create(int kind, size_t bytes) {
  object *o = calloc(1, bytes);
  if (!o) return NULL;
  o->kind = kind;
  o->device = current_device();
  return o;
}

void object_add(object *o) {
  pthread_mutex_lock(&mutex);
  o->next = objects;
  if (objects) objects->previous = o;
  objects = o;
  live[o->kind]++;
  pthread_mutex_unlock(&mutex);
}

void object_remove(object *o) {
  pthread_mutex_lock(&mutex);
  *(o->previous ? &o->previous->next : &objects) = o->next;
  if (o->next) o->next->previous = o->previous;
  live[o->kind]--;
  o->kind = -1;
  pthread_mutex_unlock(&mutex);
}

bool object_is(const void *o, int kind) {
  return o && ((const object *)o)->kind == kind;
}

object *object_find(int kind, int device, bool (*matches)(const object *, const void *),
                    const void *argument) {
  pthread_mutex_lock(&mutex);
  object *o = objects;
  while (o && !(o->kind == kind && (device < 0 || o->device == device) &&
                (!matches || matches(o, argument))))
    o = o->next;
  pthread_mutex_unlock(&mutex);
  return o;
}

static void destroy(object *o) {
  switch (o->kind) {
  case OBJECT_MEMORY:
  case OBJECT_HOST_MEMORY: memory_destroy((memory *)(void *)o); break;
  case OBJECT_REGISTERED: registered_destroy((memory *)(void *)o); break;
  case OBJECT_STREAM: stream_finish((stream *)(void *)o); break;
  case OBJECT_EVENT: event_destroy(o); break;
  case OBJECT_MODULE: module_destroy(o); break;
  case OBJECT_GRAPH: graph_destroy(o); break;
  case OBJECT_EXECUTABLE: executable_destroy(o); break;
  default:
    object_remove(o);
    free(o);
    break;
  }
}

void objects_end(int device) {
  static const int kinds[] = {OBJECT_STREAM,     OBJECT_MEMORY, OBJECT_HOST_MEMORY,
                              OBJECT_REGISTERED, OBJECT_POOL,   OBJECT_EVENT,
                              OBJECT_EXECUTABLE, OBJECT_GRAPH,  OBJECT_MODULE};
  const bool was_lost = stand_in_lost(device) != CUDA_OK;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    for (object *o; (o = object_find(kinds[i], device, NULL, NULL));) {
      destroy(o);
      pthread_mutex_lock(&mutex);
      if (!was_lost) forgotten[kinds[i]]++;
      pthread_mutex_unlock(&mutex);
    }
  }
  atomic_store(&lost[device], 0);
}
