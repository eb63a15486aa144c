/* SPDX-License-Identifier: MIT */
/* Validation: start, stop and counters. For a step, it copies the operands to the host, compares
 * the two results, reports findings and applies the policy. */
#include "plan/validate/validate.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/log.h"
#include "core/base/variable.h"
#include "core/device/buffer.h"
#include "core/device/collector.h"
#include "core/device/transfer.h"
#include "core/kernel/kernel_key.h"
#include "plan/validate/evaluate/evaluate.h"

#define DEFAULT_OPERATIONS ((uint64_t)1 << 28)

struct validation {
  pthread_mutex_t mutex;
  compute_validation_options options;
  compute_validation_statistics statistics;
};

/* ---- Start and stop ------------------------------------------------------------------------ */

static compute_status check_options(const compute_context *context,
                                    const compute_validation_options *options) {
  static const char operation[] = "compute_validation_start";
  if ((unsigned)options->policy > COMPUTE_VALIDATION_FAIL ||
      (options->flags & ~(uint32_t)COMPUTE_VALIDATION_ORIGINS) != 0)
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "unknown policy %u or flags 0x%x", (unsigned)options->policy,
                     (unsigned)options->flags);
  if (!(options->tolerance >= 0) || isinf(options->tolerance))
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "options.tolerance is %g; it must be a number ≥ 0", options->tolerance);
  return error_if_reserved(context, operation, "options", options->reserved);
}

static void release(void *content) {
  struct validation *v = content;
  pthread_mutex_destroy(&v->mutex);
  base_release(v);
}

static room_slot validation_slot = {.stage = SLOT_STANDS_ALONE, .release = release};

/* Returns the context's validation; NULL if it never started. */
static struct validation *validation_of(const compute_context *context) {
  return slot_get(&context->slots, &validation_slot);
}

/* Returns the same, creating it on the first call; NULL when out of memory. */
static struct validation *validation_made(compute_context *context) {
  struct validation *v = validation_of(context);
  if (v) return v;
  v = base_allocate(1, sizeof *v);
  if (v) pthread_mutex_init(&v->mutex, NULL);
  return slot_offer(&context->slots, &validation_slot, v);
}

compute_status compute_validation_start(compute_context *context,
                                        const compute_validation_options *options) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  static const compute_validation_options defaults;
  static const char operation[] = "compute_validation_start";
  if (!context) return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "context is NULL");
  if (!options) options = &defaults;
  compute_status status = check_options(context, options);
  if (status != COMPUTE_OK) return status;
  struct validation *v = validation_made(context);
  if (!v)
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory to validate");
  pthread_mutex_lock(&v->mutex);
  v->options = *options;
  if (v->options.tolerance == 0) v->options.tolerance = 1;
  if (v->options.most_operations == 0) v->options.most_operations = DEFAULT_OPERATIONS;
  pthread_mutex_unlock(&v->mutex);
  atomic_fetch_or_explicit(&context->watch, WATCH_VALIDATE, memory_order_release);
  return COMPUTE_OK;
}

compute_status compute_validation_stop(compute_context *context) {
  REFUSE_INHERITED_CONTEXT(context);
  if (!context)
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, "compute_validation_stop",
                     "context is NULL");
  atomic_fetch_and_explicit(&context->watch, ~(uint32_t)WATCH_VALIDATE, memory_order_relaxed);
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
  if (!text) return;
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

static void read_options(struct validation *v, compute_validation_options *options) {
  pthread_mutex_lock(&v->mutex);
  *options = v->options;
  pthread_mutex_unlock(&v->mutex);
}

static void count(struct validation *v, const compute_validation_statistics *more) {
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
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  const compute_status missing =
      error_if_null(context, "compute_validation_query", context, statistics);
  if (missing) return missing;
  struct validation *v = validation_of(context);
  *statistics = (compute_validation_statistics){0};
  if (!v) return COMPUTE_OK;
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

static void describe(const compute_validation_finding *f, char *text, size_t bytes) {
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
  append(text, bytes, &used, "%llu of %llu elements affected", (unsigned long long)f->bad_count,
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

/* ---- A step -------------------------------------------------------------------------------- */

typedef struct validation_state {
  compute_queue *queue;
  descriptor_copy copy;
  evaluation e;
  view output[COMPUTE_MAX_OPERANDS];
  compute_argument arguments[COMPUTE_MAX_OPERANDS];
  extent extents[COMPUTE_MAX_OPERANDS];
  compute_validation_options options;
} validation_state;

static void state_release(validation_state *s) {
  if (!s) return;
  for (uint32_t i = 0; i < s->copy.descriptor.input_count; i++) base_release(s->e.input[i].data);
  for (uint32_t i = 0; i < s->copy.descriptor.output_count; i++) base_release(s->output[i].data);
  base_release(s->e.before.data);
  base_release(s);
}

/* ---- Operands ------------------------------------------------------------------------------ */

/* Returns the bytes of an operand, from its lowest element on. */
static compute_argument bytes_of(const validation_state *s, uint32_t operand, const view *v) {
  const compute_argument *a = &s->arguments[operand];
  return (compute_argument){
      .memory = a->memory,
      .offset = (uint64_t)((int64_t)a->offset + s->extents[operand].low * (int64_t)v->size)};
}

static uint64_t byte_count(const validation_state *s, uint32_t operand, const view *v) {
  const extent *e = &s->extents[operand];
  return (uint64_t)(e->high - e->low + 1) * v->size;
}

/* Returns COMPUTE_ERROR_OUT_OF_MEMORY without an error message. */
static compute_status fetch(const validation_state *s, uint32_t operand, view *v) {
  const compute_operand *o = &s->copy.operands[operand];
  *v = (view){.dtype = o->dtype,
              .size = (uint32_t)compute_dtype_size(o->dtype),
              .stride = o->stride,
              .low = s->extents[operand].low};
  const uint64_t bytes = byte_count(s, operand, v);
  v->data = base_allocate_aligned(bytes > 0 ? bytes : 1, 64);
  if (!v->data) return COMPUTE_ERROR_OUT_OF_MEMORY;
  if (bytes == 0) return COMPUTE_OK;
  const compute_argument from = bytes_of(s, operand, v);
  if (from.memory->host) {
    memcpy(v->data, (const unsigned char *)from.memory->host + from.offset, (size_t)bytes);
    return COMPUTE_OK;
  }
  compute_status status = queue_download(s->queue, v->data, &from, bytes, "validation");
  return status == COMPUTE_OK ? device_note(s->queue, queue_wait_named(s->queue)) : status;
}

static compute_status put_back(const validation_state *s, uint32_t operand, const view *v) {
  const uint64_t bytes = byte_count(s, operand, v);
  const compute_argument to = bytes_of(s, operand, v);
  if (to.memory->host) {
    memcpy((unsigned char *)to.memory->host + to.offset, v->data, (size_t)bytes);
    return COMPUTE_OK;
  }
  compute_status status = queue_upload(s->queue, &to, v->data, bytes, "validation");
  return status == COMPUTE_OK ? device_note(s->queue, queue_wait_named(s->queue)) : status;
}

/* ---- Before the step ----------------------------------------------------------------------- */

static compute_status copy_operands(validation_state *s) {
  const compute_kernel_descriptor *d = &s->copy.descriptor;
  compute_status status = COMPUTE_OK;
  for (uint32_t i = 0; i < d->input_count + d->output_count; i++)
    extent_of(&s->e, i, &s->extents[i]);
  for (uint32_t i = 0; i < d->input_count && status == COMPUTE_OK; i++)
    status = fetch(s, i, &s->e.input[i]);
  if (status == COMPUTE_OK && s->e.kind->adds) status = fetch(s, d->input_count, &s->e.before);
  return status;
}

compute_status validation_begin(validation_step *checked, compute_queue *queue,
                                const kernel_entry *kernel, const compute_argument *arguments) {
  struct validation *v = validation_of(queue->device->context);
  if (!v) return COMPUTE_OK;
  compute_status status = compute_queue_wait(queue);
  if (status != COMPUTE_OK) return status;
  validation_state *s = base_allocate(1, sizeof *s);
  if (s) {
    s->queue = queue;
    read_options(v, &s->options);
    kernel_key_read(kernel->key, &s->copy);
    if (!evaluation_prepare(&s->e, &s->copy.descriptor)) {
      count(v, &(compute_validation_statistics){.skipped = 1});
      state_release(s);
      return COMPUTE_OK;
    }
    const uint32_t count = s->copy.descriptor.input_count + s->copy.descriptor.output_count;
    memcpy(s->arguments, arguments, count * sizeof *arguments);
    status = copy_operands(s);
  }
  if (!s || status == COMPUTE_ERROR_OUT_OF_MEMORY) {
    count(v, &(compute_validation_statistics){.skipped = 1});
    state_release(s);
    return COMPUTE_OK;
  }
  if (status != COMPUTE_OK) {
    state_release(s);
    return status;
  }
  checked->state = s;
  return COMPUTE_OK;
}

/* ---- After it ------------------------------------------------------------------------------ */

/* Compares the results. With `replace`, writes the plain results into the copies of the outputs. */
static compute_status compare(validation_state *s, bool replace, check_result *results) {
  const check_request request = {
      .e = &s->e,
      .output = s->output,
      .tolerance = s->options.tolerance,
      .every = replace ? 1 : check_every(&s->e, s->options.most_operations),
      .replace = replace,
  };
  return check_run(s->queue->device->context->threads, &request, results)
             ? COMPUTE_OK
             : COMPUTE_ERROR_OUT_OF_MEMORY;
}

static compute_status replace_outputs(validation_state *s, const check_result *found) {
  check_result again[COMPUTE_MAX_OPERANDS];
  const compute_kernel_descriptor *d = &s->copy.descriptor;
  compute_status status = compare(s, true, again);
  for (uint32_t k = 0; k < d->output_count && status == COMPUTE_OK; k++) {
    if (!found[k].found) continue;
    status = put_back(s, d->input_count + k, &s->output[k]);
    count(validation_of(s->queue->device->context),
          &(compute_validation_statistics){.replaced = status == COMPUTE_OK});
  }
  return status;
}

/* Reports one finding to the log and the caller. Returns true if the step was wrong. */
static bool report(validation_state *s, uint32_t k, const check_result *r,
                   const validation_label *label) {
  compute_validation_input inputs[COMPUTE_MAX_OPERANDS];
  const compute_kernel_descriptor *d = &s->copy.descriptor;
  bool clean = true;
  for (uint32_t i = 0; i < d->input_count; i++) {
    check_range(&s->e.input[i], &s->extents[i], &inputs[i]);
    clean &= inputs[i].nans == 0 && inputs[i].infinite == 0;
  }
  const bool origin = !r->found && r->spoilt > 0 && clean;
  if (!r->found && !origin) return false;
  char message[1024];
  compute_validation_finding finding = {
      .kind = origin ? COMPUTE_VALIDATION_ORIGIN : r->kind,
      .device = s->queue->device->info.name,
      .plan = label->plan ? label->plan : "",
      .step = label->step,
      .text = label->text,
      .shape = label->shape,
      .output = k,
      .position = origin ? r->spoilt_position : r->position,
      .actual = origin ? r->spoilt_value : r->actual,
      .expected = origin ? r->spoilt_value : r->expected,
      .error = r->error,
      .tolerance = r->tolerance,
      .bad_count = origin ? r->spoilt : r->bad,
      .count = (uint64_t)(s->e.units * s->e.unit_length),
      .inputs = inputs,
      .input_count = d->input_count,
      .message = message,
  };
  describe(&finding, message, sizeof message);
  log_write(COMPUTE_LOG_WARNING, "core", "validation: %s", message);
  if (s->options.function) s->options.function(s->options.user, &finding);
  return !origin;
}

static compute_status check_step(validation_state *s, const validation_label *label) {
  const compute_kernel_descriptor *d = &s->copy.descriptor;
  compute_context *context = s->queue->device->context;
  check_result results[COMPUTE_MAX_OPERANDS];
  compute_validation_statistics counts = {.steps = 1};
  compute_status status = COMPUTE_OK;
  for (uint32_t k = 0; k < d->output_count && status == COMPUTE_OK; k++)
    status = fetch(s, d->input_count + k, &s->output[k]);
  if (status == COMPUTE_OK) status = compare(s, false, results);
  if (status == COMPUTE_ERROR_OUT_OF_MEMORY) {
    count(validation_of(context), &(compute_validation_statistics){.skipped = 1});
    return COMPUTE_OK;
  }
  bool wrong = false;
  for (uint32_t k = 0; k < d->output_count && status == COMPUTE_OK; k++) {
    const bool look = results[k].found || ((s->options.flags & COMPUTE_VALIDATION_ORIGINS) != 0 &&
                                           results[k].spoilt > 0);
    counts.elements += results[k].compared;
    counts.vague += results[k].vague;
    if (look && report(s, k, &results[k], label)) {
      counts.findings++;
      wrong = true;
    }
  }
  count(validation_of(context), &counts);
  if (!wrong || status != COMPUTE_OK || s->options.policy == COMPUTE_VALIDATION_REPORT)
    return status;
  if (s->options.policy == COMPUTE_VALIDATION_REPLACE) return replace_outputs(s, results);
  return error_set_native(context, COMPUTE_ERROR_VALIDATION, 0, "validation",
                          "the log has the findings; COMPUTE_VALIDATION_REPLACE continues with the "
                          "plain result",
                          "%s: step %u, %s, of plan %s computed a wrong result",
                          s->queue->device->info.name, (unsigned)label->step, label->text,
                          label->plan ? label->plan : "(unnamed)");
}

compute_status validation_end(validation_step *checked, compute_status status,
                              const validation_label *label) {
  validation_state *s = checked->state;
  checked->state = NULL;
  if (!s) return status;
  if (status == COMPUTE_OK) status = compute_queue_wait(s->queue);
  if (status == COMPUTE_OK) status = check_step(s, label);
  state_release(s);
  return status;
}
