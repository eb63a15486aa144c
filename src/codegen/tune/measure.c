/* SPDX-License-Identifier: MIT */
/* Runs and times kernels for the tuner, on a separate queue: the device's internal queue stays free
 * for others. */
#include <string.h>

#include "codegen/tune/tuner.h"
#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/device/device.h"
#include "core/device/transfer.h"

double measure_real_clock(void) {
  return clock_seconds();
}

static compute_argument whole(const memory_buffer *buffer) {
  return (compute_argument){&buffer->memory, 0};
}

/* ---- Buffers and data ---------------------------------------------------------------------- */

static compute_status wait_after(const tune_measure *m, compute_status submitted) {
  compute_status waited = compute_queue_wait(m->queue);
  return submitted ? submitted : waited;
}

static compute_status upload(const tune_measure *m, const memory_buffer *to, const void *from,
                             uint64_t bytes) {
  const compute_argument target = whole(to);
  return wait_after(m, queue_upload(m->queue, &target, from, bytes, "tuning"));
}

static uint64_t input_bytes(const tune_problem *problem, uint32_t input) {
  return problem->input_elements[input] * compute_dtype_size(problem->inputs[input].dtype);
}

/* Fills the inputs in the CPU's memory, and computes the expected results there. */
static compute_status compute_expected(tune_measure *m, memory_buffer **inputs) {
  compute_device *cpu = m->device->context->cpu;
  const tune_problem *problem = m->problem;
  const uint32_t count = problem->descriptor.input_count;
  compute_argument arguments[PROBLEM_INPUTS + 1];
  compute_status status = COMPUTE_OK;
  for (uint32_t i = 0; i < count && !status; i++) {
    status = buffer_create(cpu, input_bytes(problem, i), &inputs[i]);
    if (status) break;
    problem_fill(problem, i, inputs[i]->memory.host);
    arguments[i] = whole(inputs[i]);
  }
  if (!status) status = buffer_create(cpu, m->result_bytes, &m->expected);
  if (status) return status;
  memset(m->expected->memory.host, problem_blank(problem), (size_t)m->result_bytes);
  arguments[count] = whole(m->expected);
  return transfer_run(cpu, &problem->descriptor, arguments, count + 1);
}

static compute_status place_on_device(tune_measure *m, memory_buffer *const *inputs) {
  compute_status status = COMPUTE_OK;
  for (uint32_t i = 0; i < m->problem->descriptor.input_count && !status; i++) {
    const uint64_t bytes = input_bytes(m->problem, i);
    status = buffer_create(m->device, bytes, &m->inputs[i]);
    if (!status) status = upload(m, m->inputs[i], inputs[i]->memory.host, bytes);
  }
  if (!status) status = buffer_create(m->device, m->result_bytes, &m->output);
  if (status) return status;
  m->result = base_allocate_aligned((uint64_t)m->result_bytes, 64);
  if (m->result) return COMPUTE_OK;
  return error_set(m->device->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_tune",
                   "not enough host memory for the results of %s", m->problem->name);
}

compute_status measure_open(tune_measure *m, compute_device *device, compute_queue *queue,
                            const tune_problem *problem, measure_clock clock) {
  memory_buffer *inputs[PROBLEM_INPUTS] = {NULL};
  *m = (tune_measure){.clock = clock, .device = device, .queue = queue, .problem = problem};
  m->result_bytes = problem->output_elements * compute_dtype_size(problem->output.dtype);
  compute_status status = compute_expected(m, inputs);
  if (!status) status = place_on_device(m, inputs);
  for (uint32_t i = 0; i < PROBLEM_INPUTS; i++) buffer_release(inputs[i]);
  if (status) measure_close(m);
  return status;
}

void measure_close(tune_measure *m) {
  for (uint32_t i = 0; i < PROBLEM_INPUTS; i++) buffer_release(m->inputs[i]);
  buffer_release(m->output);
  buffer_release(m->expected);
  base_release(m->result);
  *m = (tune_measure){0};
}

bool measure_fits(const compute_device *device, const tune_problem *problem) {
  const uint64_t bytes = problem_bytes(problem), largest = device->info.memory_max_allocation;
  compute_device_info info = {0};
  if (compute_device_describe(device, &info)) return false;
  const uint64_t memory = info.memory_free ? info.memory_free : info.memory_total; /* 0: unknown */
  return (memory == 0 || bytes <= memory / 4) && (largest == 0 || bytes <= largest);
}

/* ---- Running ------------------------------------------------------------------------------- */

static compute_status submit(const tune_measure *m, void *kernel, uint32_t repetitions) {
  const uint32_t count = m->problem->descriptor.input_count;
  compute_argument arguments[PROBLEM_INPUTS + 1];
  for (uint32_t i = 0; i < count; i++) arguments[i] = whole(m->inputs[i]);
  arguments[count] = whole(m->output);
  compute_status status = COMPUTE_OK;
  for (uint32_t r = 0; r < repetitions && !status; r++)
    status = queue_enqueue(m->queue, kernel, arguments, count + 1);
  return wait_after(m, status);
}

compute_status measure_check(const tune_measure *m, void *kernel, bool *right, char *reason,
                             size_t reason_bytes) {
  *right = false;
  memset(m->result, problem_blank(m->problem), (size_t)m->result_bytes);
  compute_status status = upload(m, m->output, m->result, m->result_bytes);
  if (!status) status = submit(m, kernel, 1);
  if (status) return status;
  memset(m->result, 0, (size_t)m->result_bytes);
  const compute_argument source = whole(m->output);
  status = wait_after(m, queue_download(m->queue, m->result, &source, m->result_bytes, "tuning"));
  if (status) return status;
  *right = problem_check(m->problem, m->result, m->expected->memory.host, reason, reason_bytes);
  return COMPUTE_OK;
}

compute_status measure_time(const tune_measure *m, void *kernel, uint32_t repetitions,
                            double *seconds) {
  const double start = m->clock();
  compute_status status = submit(m, kernel, repetitions);
  *seconds = (m->clock() - start) / repetitions;
  return status;
}
