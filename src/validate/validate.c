/* A step under validation: its operands copied to the host, the two results compared, and what the
 * policy says done about it. */
#include "validate/validate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "kernel/kernel_key.h"
#include "device/buffer.h"
#include "device/transfer.h"
#include "validate/check.h"
#include "validate/control.h"

static const char here[] = "validation";

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
  if (s == NULL) return;
  for (uint32_t i = 0; i < s->copy.descriptor.input_count; i++) base_release(s->e.input[i].data);
  for (uint32_t i = 0; i < s->copy.descriptor.output_count; i++) base_release(s->output[i].data);
  base_release(s->e.before.data);
  base_release(s);
}

/* ---- Operands ------------------------------------------------------------------------------ */

/* Where the bytes of an operand are, from its lowest element on. */
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

/* COMPUTE_ERROR_OUT_OF_MEMORY without words. */
static compute_status fetch(const validation_state *s, uint32_t operand, view *v) {
  const compute_operand *o = &s->copy.operands[operand];
  *v = (view){.dtype = o->dtype,
              .size = (uint32_t)compute_dtype_size(o->dtype),
              .stride = o->stride,
              .low = s->extents[operand].low};
  const uint64_t bytes = byte_count(s, operand, v);
  v->data = base_allocate_aligned(bytes > 0 ? bytes : 1, 64);
  if (v->data == NULL) return COMPUTE_ERROR_OUT_OF_MEMORY;
  if (bytes == 0) return COMPUTE_OK;
  const compute_argument from = bytes_of(s, operand, v);
  if (from.memory->host != NULL) {
    memcpy(v->data, (const unsigned char *)from.memory->host + from.offset, bytes);
    return COMPUTE_OK;
  }
  compute_status status = queue_download(s->queue, v->data, &from, bytes, "validation");
  return status == COMPUTE_OK ? device_note(s->queue, queue_wait_named(s->queue)) : status;
}

static compute_status put_back(const validation_state *s, uint32_t operand, const view *v) {
  const uint64_t bytes = byte_count(s, operand, v);
  const compute_argument to = bytes_of(s, operand, v);
  if (to.memory->host != NULL) {
    memcpy((unsigned char *)to.memory->host + to.offset, v->data, bytes);
    return COMPUTE_OK;
  }
  compute_status status = queue_upload(s->queue, &to, v->data, bytes, "validation");
  return status == COMPUTE_OK ? device_note(s->queue, queue_wait_named(s->queue)) : status;
}

/* ---- Before the step ----------------------------------------------------------------------- */

static compute_status copy_operands(validation_state *s) {
  const compute_kernel_descriptor *d = &s->copy.descriptor;
  compute_status status = COMPUTE_OK;
  for (uint32_t i = 0; i < d->input_count + d->output_count; i++) extent_of(d, i, &s->extents[i]);
  for (uint32_t i = 0; i < d->input_count && status == COMPUTE_OK; i++)
    status = fetch(s, i, &s->e.input[i]);
  if (status == COMPUTE_OK && d->kind == COMPUTE_KERNEL_SCATTER)
    status = fetch(s, d->input_count, &s->e.before);
  return status;
}

compute_status validation_begin(validation_step *checked, compute_queue *queue,
                                const kernel_entry *kernel, const compute_argument *arguments) {
  struct validation *v = queue->device->context->validation;
  if (v == NULL) return COMPUTE_OK;
  compute_status status = compute_queue_wait(queue);
  if (status != COMPUTE_OK) return status;
  validation_state *s = base_allocate(1, sizeof *s);
  if (s != NULL) {
    s->queue = queue;
    validation_options(v, &s->options);
    kernel_key_read(kernel->key, &s->copy);
    if (!evaluation_exists(&s->copy.descriptor)) {
      validation_count(v, &(compute_validation_statistics){.skipped = 1});
      state_release(s);
      return COMPUTE_OK;
    }
    const uint32_t count = s->copy.descriptor.input_count + s->copy.descriptor.output_count;
    memcpy(s->arguments, arguments, count * sizeof *arguments);
    evaluation_prepare(&s->e, &s->copy.descriptor);
    status = copy_operands(s);
  }
  if (s == NULL || status == COMPUTE_ERROR_OUT_OF_MEMORY) {
    validation_count(v, &(compute_validation_statistics){.skipped = 1});
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

/* The results compared, and with `replace` put into the copies of the outputs. */
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
    validation_count(s->queue->device->context->validation,
                     &(compute_validation_statistics){.replaced = status == COMPUTE_OK});
  }
  return status;
}

/* One finding in words and to the caller; returns whether the step was wrong. */
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
      .plan = label->plan != NULL ? label->plan : "",
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
  validation_describe(&finding, message, sizeof message);
  validation_report(s->queue->device->context, &s->options, &finding);
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
    validation_count(context->validation, &(compute_validation_statistics){.skipped = 1});
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
  validation_count(context->validation, &counts);
  if (!wrong || status != COMPUTE_OK || s->options.policy == COMPUTE_VALIDATION_REPORT)
    return status;
  if (s->options.policy == COMPUTE_VALIDATION_REPLACE) return replace_outputs(s, results);
  return error_set_native(context, COMPUTE_ERROR_VALIDATION, 0, here,
                          "the log has the findings; COMPUTE_VALIDATION_REPLACE goes on with the "
                          "plain result",
                          "%s: step %u, %s, of plan %s computed something wrong",
                          s->queue->device->info.name, (unsigned)label->step, label->text,
                          label->plan != NULL ? label->plan : "(unnamed)");
}

compute_status validation_end(validation_step *checked, compute_status status,
                              const validation_label *label) {
  validation_state *s = checked->state;
  checked->state = NULL;
  if (s == NULL) return status;
  if (status == COMPUTE_OK) status = compute_queue_wait(s->queue);
  if (status == COMPUTE_OK) status = check_step(s, label);
  state_release(s);
  return status;
}
