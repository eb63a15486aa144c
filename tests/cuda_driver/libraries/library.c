/* SPDX-License-Identifier: MIT */
#include "cuda_driver/libraries/library.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_CALLS = 64 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
  char name[64];
  int64_t count;
} calls[MOST_CALLS];
static struct {
  char name[64];
  long long nth;
  bool onward;
  int code;
} failing, hanging;
static _Thread_local bool hangs; /* order for the thread's last call */
static int64_t ordered_version, newest_driver, live;

/* ---- The driver's stand-in ----------------------------------------------------------------- */

static void *driver_function(const char *name) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return driver ? dlsym(driver, name) : NULL;
}

#define DRIVER_FUNCTION(name, type)                                                                \
  type *name = NULL;                                                                               \
  void *address_of_##name = driver_function(#name);                                                \
  memcpy(&name, &address_of_##name, sizeof name)

int32_t library_submit(void *stream, void (*run)(void *data), void *data) {
  DRIVER_FUNCTION(stand_in_submit, stand_in_submit_function);
  if (stand_in_submit) return stand_in_submit(stream, run, data);
  free(data);
  return 3;
}

bool library_on_device(const void *address, uint64_t bytes) {
  DRIVER_FUNCTION(stand_in_on_device, stand_in_on_device_function);
  return stand_in_on_device && stand_in_on_device(address, bytes);
}

bool library_starts(int driver_major) {
  DRIVER_FUNCTION(stand_in_usable, stand_in_usable_function);
  return stand_in_usable && !newest_driver && stand_in_usable() >= 1000 * driver_major;
}

void library_misuse(const char *format, ...) {
  DRIVER_FUNCTION(stand_in_note, stand_in_note_function);
  char words[200];
  va_list list;
  va_start(list, format);
  vsnprintf(words, sizeof words, format, list);
  va_end(list);
  if (stand_in_note) stand_in_note(words);
}

/* ---- Orders -------------------------------------------------------------------------------- */

EXPORT stand_in_library_configure_function stand_in_library_configure;
EXPORT stand_in_library_count_function stand_in_library_count;

static bool order_one(const char *text) {
  int read = 0;
  char plus[2] = "";
  if (strncmp(text, "version=", 8) == 0)
    ordered_version = atoll(text + 8);
  else if (strncmp(text, "newest_driver=", 14) == 0)
    newest_driver = atoll(text + 14);
  else if (sscanf(text, "hang=%63[^:]:%lld%n", hanging.name, &hanging.nth, &read) == 2 &&
           text[read] == '\0')
    return true;
  else if ((sscanf(text, "fail=%63[^:]:%lld%1[+]:%d%n", failing.name, &failing.nth, plus,
                   &failing.code, &read) == 4 ||
            sscanf(text, "fail=%63[^:]:%lld:%d%n", failing.name, &failing.nth, &failing.code,
                   &read) == 3) &&
           text[read] == '\0')
    failing.onward = plus[0] == '+';
  else
    return false;
  return true;
}

bool stand_in_library_configure(const char *orders) {
  char copy[512], *rest = NULL;
  bool good = (size_t)snprintf(copy, sizeof copy, "%s", orders) < sizeof copy;
  pthread_mutex_lock(&mutex);
  memset(&failing, 0, sizeof failing);
  memset(&hanging, 0, sizeof hanging);
  memset(calls, 0, sizeof calls);
  ordered_version = newest_driver = 0;
  for (char *one = strtok_r(copy, ",", &rest); one; one = strtok_r(NULL, ",", &rest))
    if (!order_one(one)) good = false;
  pthread_mutex_unlock(&mutex);
  return good;
}

int64_t stand_in_library_count(const char *call) {
  int64_t count = 0;
  pthread_mutex_lock(&mutex);
  if (strcmp(call, "live") == 0) count = live;
  for (int i = 0; i < MOST_CALLS; i++)
    if (strcmp(calls[i].name, call) == 0) count = calls[i].count;
  pthread_mutex_unlock(&mutex);
  return count;
}

static __attribute__((constructor)) void read_environment(void) {
  const char *orders = getenv("COMPUTE_TEST_CUDA_LIBRARIES");
  if (orders && !stand_in_library_configure(orders)) {
    fprintf(stderr, "COMPUTE_TEST_CUDA_LIBRARIES: an order in '%s' is not understood\n", orders);
    _exit(2);
  }
}

int32_t library_call(const char *name) {
  int32_t code = 0;
  pthread_mutex_lock(&mutex);
  int i = 0;
  while (i < MOST_CALLS - 1 && calls[i].name[0] && strcmp(calls[i].name, name) != 0) i++;
  if (!calls[i].name[0]) snprintf(calls[i].name, sizeof calls[i].name, "%s", name);
  const int64_t count = ++calls[i].count;
  if (failing.nth && strcmp(failing.name, name) == 0 &&
      (count == failing.nth || (failing.onward && count > failing.nth)))
    code = failing.code;
  hangs = hanging.nth && strcmp(hanging.name, name) == 0 && count == hanging.nth;
  pthread_mutex_unlock(&mutex);
  return code;
}

bool library_hangs(void) {
  return hangs;
}

void library_object(int change) {
  pthread_mutex_lock(&mutex);
  live += change;
  pthread_mutex_unlock(&mutex);
}

int64_t library_version(int64_t usual) {
  return ordered_version ? ordered_version : usual;
}

/* ---- Elements ------------------------------------------------------------------------------ */

size_t element_bytes(element type) {
  return type == ELEMENT_F64 ? 8 : type == ELEMENT_F32 ? 4 : 2;
}

/* Rounds to the nearest number with `bits` of mantissa after the leading one, halves to even. */
static double rounded(double value, int bits, int least_exponent) {
  int exponent;
  if (value == 0 || !isfinite(value)) return value;
  frexp(value, &exponent);
  exponent -= 1;
  if (exponent < least_exponent) exponent = least_exponent;
  const double unit = ldexp(1, exponent - bits);
  return nearbyint(value / unit) * unit;
}

double element_to_tf32(double value) {
  return rounded(value, 10, -126);
}

static double half_value(uint16_t h) {
  const int exponent = h >> 10 & 31, mantissa = h & 1023;
  const double size = exponent == 31 ? (mantissa ? NAN : INFINITY)
                      : exponent     ? ldexp(1024 + mantissa, exponent - 25)
                                     : ldexp(mantissa, -24);
  return h & 0x8000 ? -size : size;
}

static uint16_t half_of(double value) {
  const uint16_t sign = signbit(value) ? 0x8000 : 0;
  const double size = fabs(rounded(value, 10, -14));
  int exponent;
  if (isnan(value)) return 0x7e00;
  if (size >= 65520 || isinf(value)) return sign | 0x7c00;
  if (size < ldexp(1, -14)) return (uint16_t)(sign | (uint16_t)ldexp(size, 24));
  frexp(size, &exponent);
  return (uint16_t)(sign | ((exponent + 14) << 10) | ((uint16_t)ldexp(size, 11 - exponent) & 1023));
}

double element_load(element type, const void *array, int64_t index) {
  float f;
  uint32_t bits;
  switch (type) {
  case ELEMENT_F64: return ((const double *)array)[index];
  case ELEMENT_F32: return ((const float *)array)[index];
  case ELEMENT_F16: return half_value(((const uint16_t *)array)[index]);
  default:
    bits = (uint32_t)((const uint16_t *)array)[index] << 16;
    memcpy(&f, &bits, sizeof f);
    return f;
  }
}

void element_store(element type, void *array, int64_t index, double value) {
  float f = (float)rounded(value, 7, -126);
  uint32_t bits;
  switch (type) {
  case ELEMENT_F64: ((double *)array)[index] = value; break;
  case ELEMENT_F32: ((float *)array)[index] = (float)value; break;
  case ELEMENT_F16: ((uint16_t *)array)[index] = half_of(value); break;
  default:
    memcpy(&bits, &f, sizeof bits);
    ((uint16_t *)array)[index] = (uint16_t)(isnan(value) ? 0x7fc0 : bits >> 16);
    break;
  }
}
