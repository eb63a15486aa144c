/* SPDX-License-Identifier: MIT */
/* The cost cache of a device. Costs are determined once: read from the file, measured, or
 * estimated.
 *
 * A device keeps the figures as measured; missing curves are estimated for each query. A lock per
 * device is taken during a measurement, so two concurrent compilations measure the device only
 * once. */

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/log.h"
#include "core/base/variable.h"
#include "plan/cost/file.h"
#include "plan/cost/costs.h"

static const double DEFAULT_LIMIT = 0.8;

/* Freed with the device. */
struct cost_cache {
  pthread_mutex_t mutex;
  device_costs costs;
  bool looked;  /* the file was searched */
  bool refused; /* a measurement failed: no automatic retry */
};

typedef enum costs_mode { MODE_MEASURE, MODE_STORED, MODE_GUESS } costs_mode;

static costs_mode mode(void) {
  const char *text = variable_text("COMPUTE_COSTS");
  if (!text || !strcmp(text, "measure")) return MODE_MEASURE;
  if (!strcmp(text, "stored")) return MODE_STORED;
  if (!strcmp(text, "guess")) return MODE_GUESS;
  log_write(COMPUTE_LOG_WARNING, "route",
            "COMPUTE_COSTS=%s is ignored: it must be measure, stored or guess", text);
  return MODE_MEASURE;
}

static bool runs_kernels(const compute_device *device) {
  return (device->info.capabilities & COMPUTE_CAPABILITY_COMPUTE) != 0;
}

/* ---- The cache ------------------------------------------------------------------------------- */

static void release(void *content) {
  struct cost_cache *cache = content;
  pthread_mutex_destroy(&cache->mutex);
  base_release(cache);
}

static room_slot costs_slot = {.stage = SLOT_STANDS_ALONE, .release = release};

/* Returns the device's cache with its lock taken; NULL when out of memory. */
static struct cost_cache *lock_cache(compute_device *device) {
  struct cost_cache *cache = slot_get(&device->slots, &costs_slot);
  if (!cache) {
    cache = base_allocate(1, sizeof *cache);
    if (cache) pthread_mutex_init(&cache->mutex, NULL);
    cache = slot_offer(&device->slots, &costs_slot, cache);
  }
  if (cache) pthread_mutex_lock(&cache->mutex);
  return cache;
}

static void unlock_cache(struct cost_cache *cache) {
  if (cache) pthread_mutex_unlock(&cache->mutex);
}

/* The rate at the largest size, because smaller sizes stay in caches. */
static double streaming_rate(const device_costs *costs) {
  const cost_curve *c = &costs->curve[WORK_STREAM];
  return c->count ? c->work[c->count - 1] / c->seconds[c->count - 1] : 0;
}

/* Sets the peaks for the profile. Sizes too small to show a peak set none. */
static void publish_peaks(compute_device *device, const device_costs *costs) {
  const cost_curve *gemm = &costs->curve[WORK_GEMM_F32], *stream = &costs->curve[WORK_STREAM];
  const double flops = gemm->count > 2 ? costs_curve_rate(gemm) : 0;
  const double bytes = stream->count > 2 ? streaming_rate(costs) : 0;
  atomic_store_explicit(&device->peak_flops, flops, memory_order_relaxed);
  atomic_store_explicit(&device->peak_bytes, bytes, memory_order_relaxed);
}

static void look_up(compute_device *device, struct cost_cache *cache) {
  if (cache->looked || cache->costs.source != COMPUTE_COSTS_GUESSED) return;
  cache->looked = true;
  if (mode() != MODE_GUESS && costs_file_find(device, &cache->costs))
    publish_peaks(device, &cache->costs);
}

/* Measures the device, caches the costs and stores them. */
static compute_status measure_now(compute_device *device, double limit, struct cost_cache *cache) {
  char reason[COSTS_REASON_BYTES] = "";
  device_costs fresh;
  compute_status status = costs_measure_device(device, limit, &fresh);
  if (status) return status;
  cache->costs = fresh;
  publish_peaks(device, &fresh);
  status = costs_file_add(device, &fresh, reason);
  return status ? error_set(device->context, status, "compute_route_measure", "%s", reason)
                : COMPUTE_OK;
}

static void measure_unasked(compute_device *device, struct cost_cache *cache) {
  compute_error before;
  compute_error_get(NULL, &before);
  if (!measure_now(device, DEFAULT_LIMIT, cache)) return;
  cache->refused = true;
  log_write(COMPUTE_LOG_INFO, "route", "%s: %s", device->info.name,
            compute_error_message(device->context));
  error_restore(NULL, &before);
}

static void complete(const compute_device *device, device_costs *costs) {
  device_costs guess;
  costs_guess(&device->info, &guess);
  if (costs->source == COMPUTE_COSTS_GUESSED)
    *costs = guess;
  else
    costs_complete(&guess, costs);
}

void costs_get(compute_device *device, bool measure, device_costs *costs) {
  struct cost_cache *cache = lock_cache(device);
  if (cache) look_up(device, cache);
  if (cache && measure && cache->costs.source == COMPUTE_COSTS_GUESSED && !cache->refused &&
      runs_kernels(device) && mode() == MODE_MEASURE)
    measure_unasked(device, cache);
  *costs = cache ? cache->costs : (device_costs){.source = COMPUTE_COSTS_GUESSED};
  unlock_cache(cache);
  complete(device, costs);
}

bool costs_set(compute_device *device, const device_costs *costs) {
  struct cost_cache *cache = lock_cache(device);
  if (cache) {
    cache->costs = *costs;
    cache->costs.source = COMPUTE_COSTS_MEASURED;
  }
  unlock_cache(cache);
  return cache != NULL;
}

/* ---- Queries --------------------------------------------------------------------------------- */

double costs_peak_bytes(compute_device *device) {
  device_costs costs;
  costs_get(device, false, &costs);
  return costs.source == COMPUTE_COSTS_GUESSED ? 0 : streaming_rate(&costs);
}

static void describe(const device_costs *c, compute_device_costs *result) {
  const cost_curve *up = &c->curve[WORK_UPLOAD], *down = &c->curve[WORK_DOWNLOAD];
  *result =
      (compute_device_costs){.source = c->source,
                             .guessed = (uint32_t)__builtin_popcount(c->guessed),
                             .launch_seconds = c->launch,
                             .wait_seconds = c->wait,
                             .bytes_per_second = streaming_rate(c),
                             .cached_bytes_per_second = costs_curve_rate(&c->curve[WORK_STREAM]),
                             .upload_seconds = up->count ? up->seconds[0] : 0,
                             .download_seconds = down->count ? down->seconds[0] : 0,
                             .upload_bytes_per_second = costs_curve_rate(up),
                             .download_bytes_per_second = costs_curve_rate(down),
                             .operations_per_second = costs_curve_rate(&c->curve[WORK_SIMPLE]),
                             .functions_per_second = costs_curve_rate(&c->curve[WORK_FUNCTION]),
                             .gemm_f32 = costs_curve_rate(&c->curve[WORK_GEMM_F32]),
                             .gemm_f64 = costs_curve_rate(&c->curve[WORK_GEMM_F64]),
                             .gemm_f16 = costs_curve_rate(&c->curve[WORK_GEMM_F16]),
                             .gemm_bf16 = costs_curve_rate(&c->curve[WORK_GEMM_BF16]),
                             .convolution_f32 = costs_curve_rate(&c->curve[WORK_CONVOLUTION])};
}

/* ---- Public ---------------------------------------------------------------------------------- */

compute_status compute_route_query(compute_device *device, compute_device_costs *costs) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(device, context);
  const compute_status missing =
      error_if_null(device ? device->context : NULL, "compute_route_query", device, costs);
  if (missing) return missing;
  device_costs all;
  costs_get(device, false, &all);
  describe(&all, costs);
  return COMPUTE_OK;
}

compute_status compute_route_measure(compute_device *device, double limit_seconds,
                                     compute_device_costs *costs) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(device, context);
  static const char operation[] = "compute_route_measure";
  if (!device) return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "device is NULL");
  if (!isfinite(limit_seconds) || limit_seconds < 0)
    return error_set(device->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "limit_seconds must be 0 or more, not %g", limit_seconds);
  if (!runs_kernels(device))
    return error_set(device->context, COMPUTE_ERROR_UNSUPPORTED, operation,
                     "%s runs no kernels, so there is nothing to measure", device->info.name);
  const int64_t start = clock_now();
  struct cost_cache *cache = lock_cache(device);
  compute_status status =
      cache ? measure_now(device, limit_seconds > 0 ? limit_seconds : DEFAULT_LIMIT, cache)
            : error_set(device->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                        "not enough memory for the costs of %s", device->info.name);
  unlock_cache(cache);
  if (costs && (!status || status == COMPUTE_ERROR_FILE)) {
    compute_route_query(device, costs);
    costs->measure_seconds = 1e-9 * (double)(clock_now() - start);
  }
  return status;
}

compute_status compute_route_path(compute_context *context, char *path, size_t bytes) {
  REFUSE_INHERITED_CONTEXT(context);
  static const char operation[] = "compute_route_path";
  const compute_status missing = error_if_null(context, operation, context, path);
  if (missing) return missing;
  char *whole = costs_file_path(context);
  size_t length = whole ? strlen(whole) : 0;
  bool fits = length < bytes;
  if (fits) memcpy(path, whole ? whole : "", length + 1);
  base_release(whole);
  return fits ? COMPUTE_OK
              : error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                          "the path needs %zu bytes; the buffer has %zu", length + 1, bytes);
}
