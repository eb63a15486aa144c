/* SPDX-License-Identifier: MIT */
/* FIT: batches of Gaussian fits. The mathematics is in isa/fit_*.h, where each lane of a vector is
 * another ROI; this file prepares a launch, divides it into runs of ROIs and distributes these over
 * the threads.
 *
 * A record depends only on its own ROI, so neither the division nor the number of threads
 * matters. */
#include "fit/isa/fit_table.h"

#include <stdio.h>

#include "compute/backend/fit_kinds.h"

#include "core/cpu.h"

enum {
  RUN_PIXELS = 1 << 17, /* per task: about a millisecond */
  TASKS_PER_THREAD = 4,
  FIT_INPUTS = 10
};

typedef struct fit_kernel {
  cpu_kernel head;
  compute_fit_problem problem;
  const cpu_fit_loops *loops;
  int64_t count, run;        /* ROIs: in total, and per task */
  uint64_t workspace;        /* bytes per thread */
  cpu_fit_job job;           /* without addresses */
  int32_t input[FIT_INPUTS]; /* the input number of each bit of problem.inputs, or −1 */
} fit_kernel;

/* The operands in the order of the bits. */
static cpu_fit_operand *input_of(cpu_fit_job *job, int bit) {
  cpu_fit_operand *const operands[FIT_INPUTS] = {
      &job->corners, &job->offset, &job->gain,  &job->variance, &job->mask,
      &job->sigma,   &job->start,  &job->lower, &job->upper,    &job->spline};
  return operands[bit];
}

/* ---- A launch ------------------------------------------------------------------------------- */

typedef struct launch {
  const fit_kernel *kernel;
  cpu_fit_job job;
  unsigned char *workspaces;
} launch;

static void run_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const fit_kernel *kernel = l->kernel;
  const int64_t first = task * kernel->run, left = kernel->count - first;
  kernel->loops->fit(&l->job, first, left < kernel->run ? left : kernel->run,
                     l->workspaces + (uint64_t)worker * kernel->workspace);
}

static compute_status fit_run(const cpu_kernel *head, void *const *pointers) {
  const fit_kernel *kernel = (const fit_kernel *)head;
  if (kernel->count == 0) return COMPUTE_OK;
  cpu_device *device = head->device;
  launch l = {.kernel = kernel, .job = kernel->job};
  l.job.problem = &kernel->problem;
  l.job.pixels.data = pointers[0];
  uint32_t inputs = 1;
  for (int bit = 0; bit < FIT_INPUTS; bit++) {
    if (kernel->input[bit] < 0) continue;
    input_of(&l.job, bit)->data = pointers[kernel->input[bit]];
    inputs++;
  }
  l.job.record = pointers[inputs];
  const int64_t tasks = (kernel->count - 1) / kernel->run + 1;
  const int64_t workers = tasks < device->threads ? tasks : device->threads;
  /* Worker numbers are below the number of threads, not below the number of tasks. */
  const uint64_t bytes = kernel->workspace * (uint64_t)(workers > 1 ? device->threads : 1);
  l.workspaces = cpu_workspace_acquire(device, bytes);
  if (!l.workspaces) return cpu_out_of_memory(device, bytes);
  if (tasks == 1)
    run_task(&l, 0, 0);
  else
    cpu_parallel(device, tasks, run_task, &l);
  cpu_workspace_return(device, l.workspaces);
  return COMPUTE_OK;
}

/* ---- Preparing ------------------------------------------------------------------------------ */

/* Checks the spline's cells and coefficients; the coefficients are the last input. */
static const char *refuse_spline(const compute_kernel_descriptor *descriptor) {
  const compute_fit_problem *problem = &compute_fit_of(descriptor)->problem;
  const bool given = (problem->inputs & COMPUTE_FIT_WITH_SPLINE) != 0;
  if (given != (problem->model == COMPUTE_FIT_SPLINE)) return "only SPLINE has a spline";
  if (!given) return NULL;
  const compute_operand *spline = &descriptor->inputs[descriptor->input_count - 1];
  if (problem->solver == COMPUTE_FIT_NEWTON) return "Newton's method is for Gaussians";
  if (problem->cells[0] < 1 || problem->cells[1] < problem->rows ||
      problem->cells[2] < problem->columns)
    return "the spline does not cover a region";
  if (spline->dtype != COMPUTE_F32 || spline->stride[0] != COMPUTE_FIT_SPLINE_COEFFICIENTS ||
      spline->stride[1] != 1)
    return "coefficients must be f32 and dense";
  return NULL;
}

/* The core has already checked this, but other callers may not have: errors here would corrupt
 * memory. */
static const char *refuse_descriptor(const compute_kernel_descriptor *descriptor) {
  const compute_fit_problem *problem = &compute_fit_of(descriptor)->problem;
  if (!problem) return "the descriptor has no problem";
  if (compute_fit_parameter_count(problem->model) == 0) return "unknown model";
  if ((unsigned)problem->solver > COMPUTE_FIT_LEAST_SQUARES ||
      (unsigned)problem->camera > COMPUTE_FIT_READOUT ||
      (unsigned)problem->profile > COMPUTE_FIT_SAMPLED)
    return "unknown solver, camera or profile";
  if (problem->camera == COMPUTE_FIT_READOUT && problem->solver == COMPUTE_FIT_NEWTON)
    return "Newton's method is for cameras with Poisson's noise";
  if (problem->rows < 1 || problem->rows > COMPUTE_FIT_MAX_SIDE || problem->columns < 1 ||
      problem->columns > COMPUTE_FIT_MAX_SIDE)
    return "regions have 1 to 64 rows and columns";
  if (problem->z_start_count < 0 || problem->z_start_count > COMPUTE_FIT_MAX_Z_STARTS)
    return "too many starting values of z";
  if (descriptor->inputs[0].dtype != COMPUTE_F32 && descriptor->inputs[0].dtype != COMPUTE_U16)
    return "pixels must be f32 or u16";
  if ((problem->inputs & ~(uint32_t)COMPUTE_FIT_WITH_ALL) != 0 ||
      descriptor->input_count != 1 + (uint32_t)__builtin_popcount(problem->inputs) ||
      descriptor->output_count != 1)
    return "the inputs are not those that the problem names";
  return refuse_spline(descriptor);
}

static void read_strides(const compute_operand *from, int count, int64_t *stride) {
  for (int d = 0; d < count; d++)
    stride[d] = from->stride[d] * (int64_t)cpu_dtype_size(from->dtype);
}

static void read_descriptor(const compute_kernel_descriptor *descriptor, fit_kernel *kernel) {
  cpu_fit_job *job = &kernel->job;
  kernel->problem = compute_fit_of(descriptor)->problem;
  kernel->count = descriptor->size[0];
  job->whole = descriptor->inputs[0].dtype == COMPUTE_U16;
  job->frames = compute_fit_of(descriptor)->frames;
  job->height = compute_fit_of(descriptor)->rows;
  job->width = compute_fit_of(descriptor)->columns;
  read_strides(&descriptor->inputs[0], 3, job->pixels.stride);
  read_strides(&descriptor->outputs[0], 2, job->record_stride);
  int32_t next = 1;
  for (int bit = 0; bit < FIT_INPUTS; bit++) {
    kernel->input[bit] = -1;
    if (!(kernel->problem.inputs >> bit & 1)) continue;
    kernel->input[bit] = next;
    read_strides(&descriptor->inputs[next++], 3, input_of(job, bit)->stride);
  }
}

/* Tasks long enough to make their overhead negligible, and enough of them for all threads. */
static void choose_run(fit_kernel *kernel) {
  const int64_t lanes = kernel->loops->lanes, threads = kernel->head.device->threads;
  const int64_t pixels = (int64_t)kernel->problem.rows * kernel->problem.columns;
  int64_t run = RUN_PIXELS / pixels;
  if (threads > 1 && run > kernel->count / (threads * TASKS_PER_THREAD))
    run = kernel->count / (threads * TASKS_PER_THREAD);
  kernel->run = (run / lanes + 1) * lanes;
}

static const cpu_fit_loops *loops_of(const cpu_isa *isa, compute_fit_model model) {
  const cpu_fit_loops *const loops[COMPUTE_FIT_MODEL_COUNT] = {
      [COMPUTE_FIT_XYNB] = CPU_PICK(isa, cpu_fit_xynb),
      [COMPUTE_FIT_XYNBS] = CPU_PICK(isa, cpu_fit_xynbs),
      [COMPUTE_FIT_XYNBSXSY] = CPU_PICK(isa, cpu_fit_xynbsxsy),
      [COMPUTE_FIT_XYZNB] = CPU_PICK(isa, cpu_fit_xyznb),
      [COMPUTE_FIT_SPLINE] = CPU_PICK(isa, cpu_fit_spline),
  };
  return loops[model];
}

static compute_status prepare(cpu_kernel *head, const compute_kernel_descriptor *descriptor) {
  static const char *const models[] = {"xynb", "xynbs", "xynbsxsy", "xyznb", "spline"};
  const cpu_device *device = head->device;
  fit_kernel *kernel = (fit_kernel *)head;
  read_descriptor(descriptor, kernel);
  kernel->loops = loops_of(device->isa, kernel->problem.model);
  choose_run(kernel);
  kernel->workspace = cpu_whole_lines(kernel->loops->workspace_bytes(&kernel->problem));
  snprintf(kernel->head.description, sizeof kernel->head.description,
           "fit %s %s, %d regions of %d x %d side by side", models[kernel->problem.model],
           device->isa->name, (int)kernel->loops->lanes, (int)kernel->problem.rows,
           (int)kernel->problem.columns);
  return COMPUTE_OK;
}

const cpu_kind cpu_fit_kind = {.name = "fit",
                               .refuse = refuse_descriptor,
                               .bytes = sizeof(fit_kernel),
                               .prepare = prepare,
                               .run = fit_run};
