/* SPDX-License-Identifier: MIT */
#include "support/drivers/device_job.h"

#include <math.h>

#include "support/harness/test.h"

/* All objects of the job, so that there is one clean-up. */
typedef struct job {
  compute_context *context;
  compute_graph *graph;
  compute_plan *plan;
  compute_queue *queue;
  compute_event *event;
  compute_tensor *x, *w, *b, *indices, *copy, *turned, *out[4];
  compute_node in[2], results[4];
} job;

enum { PRODUCT, SUMS, TOTAL, PICKS };

static void fill(float *values, int count, float scale) {
  for (int i = 0; i < count; i++) values[i] = scale * (float)((i * 37 + 11) % 29 - 14);
}

static compute_status upload(job *j) {
  float x[JOB_ROWS * JOB_INNER], w[JOB_INNER * JOB_COLUMNS], b[JOB_COLUMNS];
  const int64_t indices[JOB_PICKED] = {0, 8, -1, 3, 3, 5};
  compute_device *device = compute_default_device(j->context);
  fill(x, JOB_ROWS * JOB_INNER, 0.05F);
  fill(w, JOB_INNER * JOB_COLUMNS, 0.03F);
  fill(b, JOB_COLUMNS, 0.1F);
  compute_status s =
      compute_tensor_from_host(device, COMPUTE_F32, COMPUTE_SHAPE(JOB_ROWS, JOB_INNER), x, &j->x);
  if (s == COMPUTE_OK)
    s = compute_tensor_from_host(device, COMPUTE_F32, COMPUTE_SHAPE(JOB_INNER, JOB_COLUMNS), w,
                                 &j->w);
  if (s == COMPUTE_OK)
    s = compute_tensor_from_host(device, COMPUTE_F32, COMPUTE_SHAPE(JOB_COLUMNS), b, &j->b);
  if (s == COMPUTE_OK)
    s = compute_tensor_from_host(device, COMPUTE_I64, COMPUTE_SHAPE(JOB_PICKED), indices,
                                 &j->indices);
  if (s == COMPUTE_OK)
    s = compute_tensor_full(device, COMPUTE_F32, COMPUTE_SHAPE(JOB_COLUMNS, JOB_ROWS), 7, &j->copy);
  return s;
}

static compute_status compile(job *j) {
  j->graph = compute_graph_create(j->context);
  if (!j->graph) return COMPUTE_ERROR_OUT_OF_MEMORY;
  compute_graph *g = j->graph;
  j->in[0] = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(JOB_ROWS, JOB_INNER));
  j->in[1] = compute_input(g, COMPUTE_I64, COMPUTE_SHAPE(JOB_PICKED));
  const compute_node product =
      compute_gelu(g, compute_add(g, compute_matmul(g, j->in[0], compute_parameter(g, j->w)),
                                  compute_parameter(g, j->b)));
  j->results[PRODUCT] = product;
  j->results[SUMS] = compute_sum(g, product, COMPUTE_AXES(1), false);
  j->results[TOTAL] = compute_sum(g, product, COMPUTE_ALL_AXES, false);
  j->results[PICKS] = compute_gather(g, product, j->in[1], 0);
  compute_status s = compute_compile(g, j->results, 4, NULL, &j->plan);
  for (int i = 0; s == COMPUTE_OK && i < 4; i++)
    s = compute_plan_create_tensor(j->plan, j->results[i], &j->out[i]);
  return s;
}

static compute_status run(job *j) {
  compute_binding bindings[6] = {{j->in[0], j->x}, {j->in[1], j->indices}};
  for (int i = 0; i < 4; i++) bindings[2 + i] = (compute_binding){j->results[i], j->out[i]};
  compute_status s = compute_queue_create(compute_default_device(j->context), &j->queue);
  if (s == COMPUTE_OK) s = compute_run(j->plan, bindings, 6, j->queue);
  if (s == COMPUTE_OK) s = compute_event_record(j->queue, &j->event);
  if (s == COMPUTE_OK) s = compute_event_wait(j->event);
  if (s == COMPUTE_OK) s = compute_queue_wait(j->queue);
  if (s == COMPUTE_OK) s = compute_tensor_transpose_view(j->copy, COMPUTE_ALL_AXES, &j->turned);
  return s;
}

static compute_status read_back(job *j, job_result *result) {
  compute_status s = compute_tensor_read(j->out[PRODUCT], result->product, sizeof result->product);
  if (s == COMPUTE_OK) s = compute_tensor_read(j->out[SUMS], result->sums, sizeof result->sums);
  if (s == COMPUTE_OK) s = compute_tensor_read(j->out[TOTAL], &result->total, sizeof(float));
  if (s == COMPUTE_OK)
    s = compute_tensor_read(j->out[PICKS], result->picked, sizeof result->picked);
  /* Copies into a strided view and back. */
  compute_tensor *part = NULL;
  if (s == COMPUTE_OK) s = compute_tensor_slice_view(j->out[PRODUCT], 1, 0, JOB_COLUMNS, 1, &part);
  if (s == COMPUTE_OK) s = compute_tensor_copy(j->turned, part);
  if (s == COMPUTE_OK) s = compute_tensor_read(j->copy, result->copied, sizeof result->copied);
  compute_tensor_release(part);
  return s;
}

/* An index out of range is reported, whatever else happens. */
static compute_status run_into_nowhere(job *j) {
  const int64_t wrong[JOB_PICKED] = {0, 1, 2, JOB_ROWS, 4, 5};
  compute_status s = compute_tensor_write(j->indices, wrong, sizeof wrong);
  if (s != COMPUTE_OK) return s;
  compute_binding bindings[6] = {{j->in[0], j->x}, {j->in[1], j->indices}};
  for (int i = 0; i < 4; i++) bindings[2 + i] = (compute_binding){j->results[i], j->out[i]};
  s = compute_run(j->plan, bindings, 6, NULL);
  if (s == COMPUTE_OK) fail_msg("an index that points nowhere was not noticed");
  if (s == COMPUTE_ERROR_INDEX) return COMPUTE_OK;
  return s;
}

compute_status device_job(compute_context *context, job_result *result) {
  job j = {.context = context};
  compute_status s = upload(&j);
  if (s == COMPUTE_OK) s = compile(&j);
  if (s == COMPUTE_OK) s = run(&j);
  if (s == COMPUTE_OK) s = read_back(&j, result);
  if (s == COMPUTE_OK) s = run_into_nowhere(&j);
  compute_event_release(j.event);
  compute_queue_release(j.queue);
  compute_tensor *const tensors[] = {j.x,      j.w,      j.b,      j.indices, j.copy,
                                     j.turned, j.out[0], j.out[1], j.out[2],  j.out[3]};
  for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) compute_tensor_release(tensors[i]);
  compute_plan_release(j.plan);
  compute_graph_release(j.graph);
  return s;
}

void device_job_check(const job_result *result, const job_result *expected, const char *where) {
  const float *got = (const float *)(const void *)result;
  const float *want = (const float *)(const void *)expected;
  for (size_t i = 0; i < sizeof *expected / sizeof(float); i++)
    if (!(fabsf(got[i] - want[i]) <= 1e-4F))
      fail_msg("%s: element %zu is %g, not %g", where, i, (double)got[i], (double)want[i]);
}
