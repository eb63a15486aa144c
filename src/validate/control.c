/* Starting and stopping validation, its counters, and its findings in words. */
#include "validate/control.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "base/variable.h"
#include "device/collector.h"
#include "validate/validate.h"

#define DEFAULT_OPERATIONS ((uint64_t)1 << 28)

struct validation {
  pthread_mutex_t mutex;
  compute_validation_options options;
  compute_validation_statistics statistics;
};

/* ---- Start and stop ------------------------------------------------------------------------ */

static compute_status check_options(const compute_context *context,
                                    const compute_validation_options *options) {
  static const char here[] = "compute_validation_start";
  if ((unsigned)options->policy > COMPUTE_VALIDATION_FAIL ||
      (options->flags & ~(uint32_t)COMPUTE_VALIDATION_ORIGINS) != 0)
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, here,
                     "policy %u or flags 0x%x are not known", (unsigned)options->policy,
                     (unsigned)options->flags);
  if (!(options->tolerance >= 0) || isinf(options->tolerance))
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, here,
                     "options.tolerance is %g; it must be a number ≥ 0", options->tolerance);
  for (size_t i = 0; i < sizeof options->reserved / sizeof *options->reserved; i++)
    if (options->reserved[i] != 0)
      return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, here,
                       "options.reserved[%zu] is not zero", i);
  return COMPUTE_OK;
}

/* The context's, made when it is first needed; NULL when memory is short. */
static struct validation *validation_of(compute_context *context) {
  struct validation *v = __atomic_load_n(&context->validation, __ATOMIC_ACQUIRE), *none = NULL;
  if (v != NULL) return v;
  v = base_allocate(1, sizeof *v);
  if (v == NULL) return NULL;
  pthread_mutex_init(&v->mutex, NULL);
  if (__atomic_compare_exchange_n(&context->validation, &none, v, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE))
    return v;
  validation_release(v); /* another thread was faster */
  return none;
}

void validation_release(struct validation *v) {
  if (v == NULL) return;
  pthread_mutex_destroy(&v->mutex);
  base_release(v);
}

compute_status compute_validation_start(compute_context *context,
                                        const compute_validation_options *options) {
  static const compute_validation_options defaults;
  static const char here[] = "compute_validation_start";
  if (context == NULL) return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, here, "context is NULL");
  if (options == NULL) options = &defaults;
  compute_status status = check_options(context, options);
  if (status != COMPUTE_OK) return status;
  struct validation *v = validation_of(context);
  if (v == NULL)
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, here, "no memory to validate");
  pthread_mutex_lock(&v->mutex);
  v->options = *options;
  if (v->options.tolerance == 0) v->options.tolerance = 1;
  if (v->options.most_operations == 0) v->options.most_operations = DEFAULT_OPERATIONS;
  pthread_mutex_unlock(&v->mutex);
  __atomic_or_fetch(&context->watch, WATCH_VALIDATE, __ATOMIC_RELEASE);
  return COMPUTE_OK;
}

compute_status compute_validation_stop(compute_context *context) {
  if (context == NULL)
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, "compute_validation_stop",
                     "context is NULL");
  __atomic_and_fetch(&context->watch, ~(uint32_t)WATCH_VALIDATE, __ATOMIC_RELAXED);
  return COMPUTE_OK;
}

void validation_at_open(compute_context *context) {
  static const struct {
    const char *text;
    compute_validation_policy policy;
  } words[] = {{"1", COMPUTE_VALIDATION_REPORT},
               {"warn", COMPUTE_VALIDATION_REPORT},
               {"replace", COMPUTE_VALIDATION_REPLACE},
               {"strict", COMPUTE_VALIDATION_FAIL}};
  const char *text = variable_text("COMPUTE_VALIDATE");
  if (text == NULL) return;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (strcmp(text, words[i].text) != 0) continue;
    const compute_validation_options options = {.policy = words[i].policy};
    compute_error before;
    compute_error_get(NULL, &before);
    if (compute_validation_start(context, &options) == COMPUTE_OK) return;
    log_write(COMPUTE_LOG_WARNING, "core", "nothing is validated: %s",
              compute_error_message(context));
    error_restore(NULL, &before);
    return;
  }
  log_write(COMPUTE_LOG_WARNING, "core",
            "COMPUTE_VALIDATE=%s is ignored: it must be warn, replace or strict", text);
}

/* ---- Counters ------------------------------------------------------------------------------ */

void validation_options(struct validation *v, compute_validation_options *options) {
  pthread_mutex_lock(&v->mutex);
  *options = v->options;
  pthread_mutex_unlock(&v->mutex);
}

void validation_count(struct validation *v, const compute_validation_statistics *more) {
  pthread_mutex_lock(&v->mutex);
  v->statistics.steps += more->steps;
  v->statistics.elements += more->elements;
  v->statistics.vague += more->vague;
  v->statistics.findings += more->findings;
  v->statistics.replaced += more->replaced;
  v->statistics.skipped += more->skipped;
  pthread_mutex_unlock(&v->mutex);
}

compute_status compute_validation_query(const compute_context *context,
                                        compute_validation_statistics *statistics) {
  if (context == NULL || statistics == NULL)
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, "compute_validation_query", "%s is NULL",
                     context == NULL ? "context" : "statistics");
  struct validation *v = __atomic_load_n(&context->validation, __ATOMIC_ACQUIRE);
  *statistics = (compute_validation_statistics){0};
  if (v == NULL) return COMPUTE_OK;
  pthread_mutex_lock(&v->mutex);
  *statistics = v->statistics;
  pthread_mutex_unlock(&v->mutex);
  return COMPUTE_OK;
}

/* ---- Findings ------------------------------------------------------------------------------ */

COMPUTE_PRINTF(4, 5)
static void append(char *text, size_t bytes, size_t *used, const char *format, ...) {
  va_list list;
  va_start(list, format);
  if (*used < bytes) {
    const int length = vsnprintf(text + *used, bytes - *used, format, list);
    *used += length > 0 ? (size_t)length : 0;
  }
  va_end(list);
}

void validation_describe(const compute_validation_finding *f, char *text, size_t bytes) {
  static const char *const what[] = {"differs from the plain result", "is a NaN", "is infinite",
                                     "is the first that is not finite"};
  size_t used = 0;
  append(text, bytes, &used,
         "%s: step %u of plan %s, %.200s over %s: output %u %s at %lld: ", f->device,
         (unsigned)f->step, f->plan[0] ? f->plan : "(unnamed)", f->text,
         f->shape[0] ? f->shape : "a scalar", (unsigned)f->output, what[f->kind],
         (long long)f->position);
  if (f->kind == COMPUTE_VALIDATION_ORIGIN)
    append(text, bytes, &used, "%g, from finite inputs and as the operation defines it; ",
           f->actual);
  else
    append(text, bytes, &used, "%.9g instead of %.9g, error %.3g, allowed %.3g; ", f->actual,
           f->expected, f->error, f->tolerance);
  append(text, bytes, &used, "%llu of %llu elements are such", (unsigned long long)f->bad_count,
         (unsigned long long)f->count);
  for (uint32_t i = 0; i < f->input_count; i++) {
    const compute_validation_input *in = &f->inputs[i];
    append(text, bytes, &used, "; in%u: %llu %s in %g … %g", (unsigned)i,
           (unsigned long long)in->count, compute_dtype_name(in->dtype), in->least, in->most);
    if (in->nans + in->infinite > 0)
      append(text, bytes, &used, ", %llu NaN, %llu infinite", (unsigned long long)in->nans,
             (unsigned long long)in->infinite);
  }
}

void validation_report(compute_context *context, const compute_validation_options *options,
                       const compute_validation_finding *finding) {
  (void)context;
  log_write(COMPUTE_LOG_WARNING, "core", "validation: %s", finding->message);
  if (options->function != NULL) options->function(options->user, finding);
}
