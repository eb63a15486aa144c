/* SPDX-License-Identifier: MIT */
/* SPOTS: finds spots of frames, or filters the frames. isa/spots.c searches; this file distributes
 * the work over the threads: whole frames if there are enough of them, otherwise row tiles. */
#include "fit/isa/fit_table.h"

#include <math.h>
#include <stdio.h>

#include "compute/backend/fit_kinds.h"

#include "core/cpu.h"
#include "core/nest.h"

enum {
  TASKS_PER_THREAD = 4,
  LEAST_BAND = 4 /* factor on the rows that neighbouring tiles both filter */
};

typedef struct spots_kernel {
  cpu_kernel head;
  const cpu_spots_loops *loops;
  cpu_spots_job job; /* without addresses */
  int64_t frames;
  int64_t bands, band; /* of a frame; rows of one */
  uint64_t workspace;  /* bytes per thread */
  float *weights;      /* of both filters, then of the edges */
} spots_kernel;

/* ---- A launch ------------------------------------------------------------------------------- */

typedef struct launch {
  const spots_kernel *kernel;
  cpu_spots_job job;
  unsigned char *workspaces;
  float *variance; /* of the noise tiles of all frames */
} launch;

static void *workspace_of(const launch *l, int32_t worker) {
  return l->workspaces + (uint64_t)worker * l->kernel->workspace;
}

static float *variance_of(const launch *l, int64_t frame) {
  return l->variance + frame * l->job.down.count * l->job.along.count;
}

static void measure(const launch *l, int64_t frame, int64_t tile, int32_t worker) {
  l->kernel->loops->measure(&l->job, frame, tile, variance_of(l, frame) + tile * l->job.along.count,
                            workspace_of(l, worker));
}

static void frame_task(void *argument, int64_t frame, int32_t worker) {
  const launch *l = argument;
  for (int64_t i = 0; i < l->job.down.count; i++) measure(l, frame, i, worker);
  l->kernel->loops->find(&l->job, frame, variance_of(l, frame), 0, l->job.height,
                         workspace_of(l, worker));
}

static void tile_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  measure(l, task / l->job.down.count, task % l->job.down.count, worker);
}

static void band_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const spots_kernel *kernel = l->kernel;
  const int64_t frame = task / kernel->bands, first = task % kernel->bands * kernel->band;
  kernel->loops->find(&l->job, frame, variance_of(l, frame), first,
                      cpu_min(first + kernel->band, l->job.height), workspace_of(l, worker));
}

static compute_status spots_run(const cpu_kernel *head, void *const *pointers) {
  const spots_kernel *kernel = (const spots_kernel *)head;
  cpu_device *device = head->device;
  launch l = {.kernel = kernel, .job = kernel->job};
  if (kernel->frames == 0) return COMPUTE_OK;
  l.job.frames = pointers[0];
  l.job.result = pointers[1];
  const bool cut = kernel->bands > 1;
  const uint64_t spaces = kernel->workspace * (uint64_t)device->threads;
  const uint64_t tiles = (uint64_t)(kernel->job.down.count * kernel->job.along.count);
  const uint64_t bytes = spaces + (uint64_t)kernel->frames * tiles * sizeof(float);
  l.workspaces = cpu_workspace_acquire(device, bytes);
  if (!l.workspaces) return cpu_out_of_memory(device, bytes);
  l.variance = (float *)(void *)(l.workspaces + spaces);
  if (cut)
    cpu_parallel(device, kernel->frames * kernel->job.down.count, tile_task, &l);
  else
    cpu_parallel(device, kernel->frames, frame_task, &l);
  if (cut) cpu_parallel(device, kernel->frames * kernel->bands, band_task, &l);
  cpu_workspace_return(device, l.workspaces);
  return COMPUTE_OK;
}

/* ---- Preparing ------------------------------------------------------------------------------ */

static void spots_clear(cpu_kernel *head) {
  cpu_release(head->device, ((spots_kernel *)head)->weights);
}

/* The core has already checked this, but other callers may not have: errors here would corrupt
 * memory. */
static const char *refuse_descriptor(const compute_kernel_descriptor *descriptor) {
  const compute_spots_attributes *o = compute_spots_of(descriptor);
  if (descriptor->rank != 3 || descriptor->input_count != 1 || descriptor->output_count != 1)
    return "one input and one output of three dimensions are needed";
  if (descriptor->inputs[0].dtype != COMPUTE_F32 && descriptor->inputs[0].dtype != COMPUTE_U16)
    return "pixels must be f32 or u16";
  if (descriptor->outputs[0].dtype != COMPUTE_F32 && descriptor->outputs[0].dtype != COMPUTE_BOOL)
    return "results are f32 or bool";
  if (descriptor->size[1] < 3 || descriptor->size[2] < 3)
    return "frames have at least 3 x 3 pixels";
  if (o->radius < 0 || o->wide_radius < o->radius || o->wide_radius > COMPUTE_SPOT_MOST_RADIUS ||
      o->distance < 1 || o->distance > COMPUTE_SPOT_MOST_RADIUS || o->step < 1 || o->rounds < 0 ||
      o->tile < 0)
    return "invalid filter, distance or sample";
  return NULL;
}

/* exp(−i²/2σ²), without normalization; 1 for a box. */
static double weight_of(bool boxes, double sigma, int32_t at) {
  return boxes ? 1 : exp(-0.5 * at * at / (sigma * sigma));
}

static double total_of(bool boxes, double sigma, int32_t radius) {
  double total = 1;
  for (int32_t i = 1; i <= radius; i++) total += 2 * weight_of(boxes, sigma, i);
  return total;
}

static void make_weights(bool boxes, double sigma, int32_t radius, float *weight) {
  const double total = boxes ? 1 : total_of(boxes, sigma, radius);
  for (int32_t i = 0; i <= radius; i++) weight[i] = (float)(weight_of(boxes, sigma, i) / total);
}

static int32_t reach_of(const compute_spots_attributes *o) {
  return o->filter == 1 ? o->wide_radius : o->radius + o->wide_radius;
}

/* Computes both parts of the filter along an axis, in the form for compute_spots_edges. */
static void make_parts(const compute_spots_attributes *o, double *a, double *b) {
  const bool boxes = o->filter == 1;
  const int32_t reach = reach_of(o), radius = o->radius, wide = o->wide_radius;
  const double total = total_of(boxes, o->sigma, radius);
  const double wide_total = total_of(boxes, o->wide_sigma, wide);
  for (int32_t i = 0; i <= 2 * reach; i++) a[i] = b[i] = 0;
  for (int32_t i = -radius; i <= radius; i++) a[reach + i] = weight_of(boxes, o->sigma, i) / total;
  for (int32_t k = -wide; k <= wide; k++) {
    const double weight = weight_of(boxes, o->wide_sigma, k) / wide_total;
    if (boxes) b[reach + k] = weight;
    for (int32_t i = -radius; !boxes && i <= radius; i++) b[reach + i + k] += a[reach + i] * weight;
  }
}

/* Computes compute_spots_edges of an axis, divided by `unit`, sum by sum. For a longer axis it
 * computes only the ends and one pixel between them. */
static void make_edges(const double *a, const double *b, int32_t reach, int64_t pixels, double unit,
                       double *sums, float *edge) {
  const int64_t whole = 2 * (int64_t)reach + 1, rows = pixels < whole ? pixels : whole;
  compute_spots_edges(a, b, reach, rows, sums);
  for (int64_t i = 0; i < pixels; i++) {
    const int64_t behind = i - (pixels - 1 - reach);
    const int64_t at = pixels == rows ? i : cpu_min(i, reach) + cpu_max(behind, 0);
    for (int k = 0; k < 3; k++) edge[k * pixels + i] = (float)(sums[3 * at + k] / unit);
  }
}

static compute_status read_edges(spots_kernel *kernel, float *edges) {
  cpu_device *device = kernel->head.device;
  cpu_spots_job *job = &kernel->job;
  const int32_t reach = reach_of(&job->search);
  const int64_t whole = 2 * (int64_t)reach + 1;
  const uint64_t bytes = 5 * (uint64_t)whole * sizeof(double);
  double *a = cpu_allocate(device, bytes), *b = a + whole, *sums = b + whole;
  if (!a) return cpu_out_of_memory(device, bytes);
  make_parts(&job->search, a, b);
  compute_spots_edges(a, b, reach, whole, sums);
  const double *middle = sums + 3 * (int64_t)reach;
  const double square = middle[0] * middle[0] - 2 * middle[1] * middle[1] + middle[2] * middle[2];
  const double unit = square > 0 ? sqrt(square) : 1;
  make_edges(a, b, reach, job->height, unit, sums, edges);
  make_edges(a, b, reach, job->width, unit, sums, edges + 3 * job->height);
  cpu_release(device, a);
  job->reach = reach;
  job->edge_down = edges;
  job->edge_along = edges + 3 * job->height;
  return COMPUTE_OK;
}

static compute_status read_descriptor(const compute_kernel_descriptor *descriptor,
                                      spots_kernel *kernel) {
  cpu_spots_job *job = &kernel->job;
  const compute_operand *in = &descriptor->inputs[0], *out = &descriptor->outputs[0];
  const compute_spots_attributes *o = compute_spots_of(descriptor);
  float *wide = kernel->weights + o->radius + 1;
  job->search = *o;
  job->height = descriptor->size[1];
  job->width = descriptor->size[2];
  job->whole = in->dtype == COMPUTE_U16;
  job->response = out->dtype == COMPUTE_F32;
  for (int i = 0; i < 3; i++) {
    job->stride[i] = in->stride[i] * (int64_t)cpu_dtype_size(in->dtype);
    job->result_stride[i] = out->stride[i] * (int64_t)cpu_dtype_size(out->dtype);
  }
  make_weights(o->filter == 1, o->sigma, o->radius, kernel->weights);
  make_weights(o->filter == 1, o->wide_sigma, o->wide_radius, wide);
  job->weight = kernel->weights;
  job->wide_weight = wide;
  job->down = compute_spots_tiles_of(job->height, o->step, o->tile);
  job->along = compute_spots_tiles_of(job->width, 1, o->tile);
  kernel->frames = descriptor->size[0];
  return read_edges(kernel, wide + o->wide_radius + 1);
}

/* Chooses row tiles. These recompute the rows around them, so whole frames are preferred. */
static void choose_bands(spots_kernel *kernel) {
  const compute_spots_attributes *o = &kernel->job.search;
  const int64_t threads = kernel->head.device->threads, height = kernel->job.height;
  const int64_t around = 2 * ((int64_t)o->radius + o->wide_radius + o->distance);
  kernel->bands = 1;
  if (threads > 1 && kernel->frames > 0 && kernel->frames < threads * TASKS_PER_THREAD) {
    const int64_t wanted = cpu_divide_up(threads * TASKS_PER_THREAD, kernel->frames);
    kernel->bands = cpu_max(1, cpu_min(wanted, height / (LEAST_BAND * around)));
  }
  kernel->band = cpu_divide_up(height, kernel->bands);
  kernel->bands = cpu_divide_up(height, kernel->band);
}

static compute_status prepare(cpu_kernel *head, const compute_kernel_descriptor *descriptor) {
  const compute_spots_attributes *o = compute_spots_of(descriptor);
  const uint64_t axes = (uint64_t)descriptor->size[1] + (uint64_t)descriptor->size[2];
  const uint64_t weights = (uint64_t)o->radius + (uint64_t)o->wide_radius + 2 + 3 * axes;
  cpu_device *device = head->device;
  spots_kernel *kernel = (spots_kernel *)head;
  kernel->weights = cpu_allocate(device, weights * sizeof(float));
  if (!kernel->weights) return cpu_out_of_memory(device, weights * sizeof(float));
  kernel->loops = CPU_PICK(device->isa, cpu_spots);
  const compute_status status = read_descriptor(descriptor, kernel);
  if (status) return status;
  choose_bands(kernel);
  const int64_t workspace = kernel->loops->workspace_bytes(&kernel->job);
  if (workspace > INT64_MAX / 8192) return cpu_out_of_memory(device, (uint64_t)workspace);
  kernel->workspace = cpu_whole_lines((uint64_t)workspace);
  snprintf(kernel->head.description, sizeof kernel->head.description, "spots %s, %s",
           device->isa->name, kernel->bands > 1 ? "bands of rows" : "a frame at a time");
  return COMPUTE_OK;
}

const cpu_kind cpu_spots_kind = {.name = "spots",
                                 .refuse = refuse_descriptor,
                                 .bytes = sizeof(spots_kernel),
                                 .prepare = prepare,
                                 .run = spots_run,
                                 .clear = spots_clear};
