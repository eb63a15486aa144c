/* SPDX-License-Identifier: MIT */
/* Sequences of kernels as CUDA graphs.
 *
 * While a queue records, kernels are only listed. At the end their launches become the nodes of a
 * graph, in sequence, and the graph is instantiated once. A submission compares the addresses with
 * those in the graph, updates the launches that differ, and submits everything in one driver call.
 * In a steady state only that call remains.
 *
 * A product by a vendor library divides the sequence: the launches between two products are one
 * graph, and the library is called in between. Capturing the library's launches into the graph is
 * possible, but new addresses would then need a new capture, which creates and destroys driver
 * objects at each submission. The direct call does not, and such products are long enough to hide
 * its cost.
 *
 * Scratch memory belongs to the recording, since the queue's may move. Faults use the records of
 * the submitting queue; each kernel keeps its label. */
#include <string.h>

#include "cuda.h"

/* One launch in a graph, or a product. A launch's parameters point to the shape and into `bound` of
 * the recording. */
typedef struct node {
  cuda_graph_node handle;
  const builder_launch *launch; /* NULL: a product */
  const cuda_kernel *kernel;    /* the kernel with the product */
  uint32_t first_operand;       /* of its kernel, in the list of all operands */
  uint32_t first_bound;
  uint32_t label; /* of a launch that may report a fault */
  void **parameters;
} node;

/* Consecutive launches, or one product. */
typedef struct segment {
  uint32_t first, count; /* nodes */
  cuda_graph graph;      /* NULL for a product */
  cuda_graph_executable executable;
} segment;

struct cuda_recording {
  cuda_device *device;
  cuda_kernel **kernels; /* each with a reference */
  uint32_t *labels;      /* one per kernel */
  uint32_t kernel_count, kernel_capacity, label_capacity;
  cuda_pointer *operands; /* of all kernels, in sequence */
  uint32_t operand_count, operand_capacity;
  bool faults;

  node *nodes;
  uint32_t node_count;
  segment *segments;
  uint32_t segment_count;
  cuda_pointer *bound; /* the current addresses of the launches in the graph */
  void **parameters;
  cuda_scratch scratch;
  compute_memory workspace;
  cuda_event submitted; /* recorded after the last submission; only with scratch memory */
};

static bool can_record(const cuda_driver *driver) {
  return driver->graph_create && driver->graph_add_kernel && driver->graph_instantiate &&
         driver->executable_set_kernel;
}

compute_status cuda_record_begin(void *handle) {
  cuda_queue *queue = handle;
  cuda_device *device = queue->device;
  const compute_services *services = device->services;
  const compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  if (queue->recording)
    return services->fail(services->host, COMPUTE_ERROR_INVALID_STATE, 0, NULL,
                          "cuda: the queue is already recording");
  if (!can_record(device->driver))
    return services->fail(services->host, COMPUTE_ERROR_UNSUPPORTED, 0, "update the NVIDIA driver",
                          "cuda: the driver is older than CUDA 12.0 and cannot change the "
                          "parameters of a recorded kernel");
  cuda_recording *recording = builder_allocate(&device->builder, sizeof *recording);
  if (!recording) return cuda_fail_memory(services, "a recording");
  recording->device = device;
  queue->recording = recording;
  return COMPUTE_OK;
}

/* ---- Recording ----------------------------------------------------------------------------- */

/* Returns the array with space for `more` additional elements. When out of memory it returns NULL,
 * and the array is unchanged. */
static void *with_room(const cuda_device *device, void *array, uint32_t used, uint32_t more,
                       uint32_t *capacity, size_t element_bytes) {
  if (more <= *capacity - used) return array;
  const uint32_t wanted = 2 * (used + more) + 16;
  void *larger = builder_allocate(&device->builder, wanted * element_bytes);
  if (!larger) return NULL;
  if (used) memcpy(larger, array, used * element_bytes);
  builder_free(&device->builder, array);
  *capacity = wanted;
  return larger;
}

compute_status cuda_recording_note(cuda_queue *queue, cuda_kernel *kernel,
                                   const compute_argument *arguments) {
  cuda_recording *r = queue->recording;
  const uint32_t operands = kernel->shared.operands;
  cuda_kernel **kernels =
      with_room(r->device, r->kernels, r->kernel_count, 1, &r->kernel_capacity, sizeof *r->kernels);
  if (kernels) r->kernels = kernels;
  uint32_t *labels =
      with_room(r->device, r->labels, r->kernel_count, 1, &r->label_capacity, sizeof *r->labels);
  if (labels) r->labels = labels;
  cuda_pointer *addresses = with_room(r->device, r->operands, r->operand_count, operands + 1,
                                      &r->operand_capacity, sizeof *r->operands);
  if (addresses) r->operands = addresses;
  if (!kernels || !labels || !addresses)
    return cuda_fail_memory(r->device->services, "a recording");
  cuda_kernel_retain(kernel);
  r->labels[r->kernel_count] = queue->faults.label;
  r->kernels[r->kernel_count++] = kernel;
  for (uint32_t i = 0; i < operands; i++)
    r->operands[r->operand_count++] = cuda_address(&arguments[i]);
  r->faults |= kernel->shared.faults;
  return COMPUTE_OK;
}

/* ---- The graph ----------------------------------------------------------------------------- */

/* Appends a node to the last segment, or to a new one: a product gets a separate segment. */
static node *node_add(cuda_recording *r, const builder_launch *launch, uint32_t first_operand) {
  segment *last = r->segment_count ? &r->segments[r->segment_count - 1] : NULL;
  if (!launch || !last || !r->nodes[last->first].launch) {
    last = &r->segments[r->segment_count++];
    last->first = r->node_count;
  }
  last->count++;
  node *made = &r->nodes[r->node_count++];
  made->launch = launch;
  made->first_operand = first_operand;
  return made;
}

/* Allocates the memory for submissions and creates the nodes of the kernels' launches. */
static compute_status nodes_make(cuda_recording *r) {
  uint32_t nodes = 0, buffers = 0, launches = 0, first_operand = 0;
  for (uint32_t i = 0; i < r->kernel_count; i++) {
    const builder_kernel *kernel = &r->kernels[i]->shared;
    nodes += kernel->launch_count + (r->kernels[i]->product ? 1 : 0);
    for (uint32_t j = 0; j < kernel->launch_count; j++) buffers += kernel->launches[j].buffer_count;
  }
  r->nodes = builder_allocate(&r->device->builder, (nodes + 1) * sizeof *r->nodes);
  r->segments = builder_allocate(&r->device->builder, (nodes + 1) * sizeof *r->segments);
  r->bound = builder_allocate(&r->device->builder, (buffers + 1) * sizeof *r->bound);
  r->parameters =
      builder_allocate(&r->device->builder, (buffers + nodes + 1) * sizeof *r->parameters);
  if (!r->nodes || !r->segments || !r->bound || !r->parameters)
    return cuda_fail_memory(r->device->services, "a recording");
  buffers = 0;
  for (uint32_t i = 0; i < r->kernel_count; i++) {
    const builder_kernel *kernel = &r->kernels[i]->shared;
    if (r->kernels[i]->product) node_add(r, NULL, first_operand)->kernel = r->kernels[i];
    for (uint32_t j = 0; j < kernel->launch_count; j++) {
      node *made = node_add(r, &kernel->launches[j], first_operand);
      made->first_bound = buffers;
      made->label = r->labels[i];
      made->parameters = r->parameters + buffers + launches++; /* one more for each shape */
      cuda_parameters(made->launch, r->bound + buffers, made->parameters);
      buffers += made->launch->buffer_count;
    }
    first_operand += kernel->operands;
  }
  return COMPUTE_OK;
}

static compute_status scratch_make(cuda_recording *r, cuda_queue *queue) {
  cuda_device *device = r->device;
  uint64_t bytes = 0;
  compute_status status = COMPUTE_OK;
  for (uint32_t i = 0; i < r->kernel_count; i++)
    if (r->kernels[i]->shared.workspace_bytes > bytes)
      bytes = r->kernels[i]->shared.workspace_bytes;
  if (bytes > 0) {
    status = cuda_memory_allocate(device, bytes, &r->workspace);
    if (status != COMPUTE_OK) return status;
    r->scratch.workspace = ((const cuda_memory *)r->workspace.handle)->pointer;
    const cuda_result code = device->driver->event_create(&r->submitted, CUDA_EVENT_DISABLE_TIMING);
    if (code != CUDA_OK) {
      r->submitted = NULL;
      return cuda_fail(device, code, "creating an event");
    }
  }
  return r->faults ? cuda_fault_words(queue, &r->scratch.fault) : COMPUTE_OK;
}

static cuda_kernel_node_parameters parameters_of(const node *n) {
  const builder_launch *launch = n->launch;
  return (cuda_kernel_node_parameters){
      .function = ((const cuda_entry *)launch->entry)->function,
      .grid = {launch->groups[0], launch->groups[1], launch->groups[2]},
      .block = {launch->group[0], launch->group[1], launch->group[2]},
      .shared_bytes = launch->local_bytes,
      .parameters = n->parameters,
  };
}

/* Fills in the addresses of a launch; a fault uses a record of the queue. */
static void bind_node(cuda_recording *r, const node *n, fault_table *faults, cuda_pointer *bound) {
  cuda_scratch scratch = r->scratch;
  if (r->faults) scratch.fault += fault_take(faults, n->label) * sizeof(int32_t);
  cuda_bind(n->launch, r->operands + n->first_operand, &scratch, bound);
}

static compute_status graph_make(cuda_recording *r, segment *part, fault_table *faults) {
  cuda_device *device = r->device;
  const cuda_driver *driver = device->driver;
  cuda_result code = driver->graph_create(&part->graph, 0);
  if (code != CUDA_OK) part->graph = NULL;
  for (uint32_t i = 0; i < part->count && code == CUDA_OK; i++) {
    node *n = &r->nodes[part->first + i];
    bind_node(r, n, faults, r->bound + n->first_bound);
    const cuda_kernel_node_parameters parameters = parameters_of(n);
    code = driver->graph_add_kernel(&n->handle, part->graph, i ? &n[-1].handle : NULL, i ? 1 : 0,
                                    &parameters);
  }
  if (code == CUDA_OK) {
    code = driver->graph_instantiate(&part->executable, part->graph, 0);
    if (code != CUDA_OK) part->executable = NULL;
  }
  return code == CUDA_OK ? COMPUTE_OK : cuda_fail(device, code, "recording a sequence of kernels");
}

static compute_status graphs_make(cuda_recording *r, fault_table *faults) {
  compute_status status = COMPUTE_OK;
  for (uint32_t i = 0; i < r->segment_count && status == COMPUTE_OK; i++)
    if (r->nodes[r->segments[i].first].launch) status = graph_make(r, &r->segments[i], faults);
  return status;
}

compute_status cuda_record_end(void *handle, void **result) {
  cuda_queue *queue = handle;
  cuda_recording *r = queue->recording;
  cuda_device *device = queue->device;
  if (!r)
    return device->services->fail(device->services->host, COMPUTE_ERROR_INVALID_STATE, 0, NULL,
                                  "cuda: the queue is not recording");
  queue->recording = NULL;
  if (!result) {
    cuda_record_destroy(device, r);
    return COMPUTE_OK;
  }
  compute_status status = cuda_enter(device);
  if (status == COMPUTE_OK) status = nodes_make(r);
  if (status == COMPUTE_OK) status = scratch_make(r, queue);
  if (status == COMPUTE_OK) status = graphs_make(r, &queue->faults);
  if (status == COMPUTE_OK)
    *result = r;
  else
    cuda_record_destroy(device, r);
  return status;
}

/* ---- Submitting ---------------------------------------------------------------------------- */

/* Updates the launch if its addresses have changed. */
static cuda_result node_update(cuda_recording *r, const segment *part, const node *n,
                               fault_table *faults) {
  cuda_pointer fresh[BUILDER_BUFFERS], *bound = r->bound + n->first_bound;
  const size_t bytes = n->launch->buffer_count * sizeof *bound;
  bind_node(r, n, faults, fresh);
  if (memcmp(fresh, bound, bytes) == 0) return CUDA_OK;
  memcpy(bound, fresh, bytes);
  const cuda_kernel_node_parameters parameters = parameters_of(n);
  const cuda_result code =
      r->device->driver->executable_set_kernel(part->executable, n->handle, &parameters);
  if (code != CUDA_OK) memset(bound, 0xff, bytes); /* unknown: the next submission sets it */
  return code;
}

static compute_status segment_submit(cuda_recording *r, const segment *part, cuda_queue *queue) {
  const node *n = &r->nodes[part->first];
  if (!n->launch)
    return cuda_vendor_submit(queue, n->kernel, r->operands + n->first_operand,
                              r->scratch.workspace);
  cuda_result code = CUDA_OK;
  for (uint32_t i = 0; i < part->count && code == CUDA_OK; i++)
    code = node_update(r, part, &n[i], &queue->faults);
  if (code == CUDA_OK) code = r->device->driver->executable_launch(part->executable, queue->stream);
  return code == CUDA_OK ? COMPUTE_OK : cuda_fail(r->device, code, "submitting recorded kernels");
}

compute_status cuda_record_submit(void *handle, void *submitted, const compute_argument *arguments,
                                  uint32_t count) {
  cuda_queue *queue = handle;
  cuda_recording *r = submitted;
  cuda_device *device = queue->device;
  const cuda_driver *driver = device->driver;
  compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  if (count != r->operand_count)
    return device->services->fail(device->services->host, COMPUTE_ERROR_INTERNAL, 0, NULL,
                                  "cuda: a recording of %u operands got %u", r->operand_count,
                                  count);
  if (r->node_count == 0) return COMPUTE_OK;
  /* Only the first submission to a queue creates its fault words. */
  if (r->faults) status = cuda_fault_words(queue, &r->scratch.fault);
  if (status != COMPUTE_OK) return status;
  for (uint32_t i = 0; i < count; i++) r->operands[i] = cuda_address(&arguments[i]);
  for (uint32_t i = 0; i < r->segment_count && status == COMPUTE_OK; i++)
    status = segment_submit(r, &r->segments[i], queue);
  if (!r->submitted) return status;
  /* Record the event also after a partial submission, which uses the scratch memory. */
  if (status != COMPUTE_OK && !cuda_enter_to_release(device)) return status;
  const cuda_result code = driver->event_record(r->submitted, queue->stream);
  if (status != COMPUTE_OK) return status;
  return code == CUDA_OK ? COMPUTE_OK : cuda_fail(device, code, "submitting recorded kernels");
}

/* The driver keeps a running graph, but not its scratch memory and code. */
void cuda_record_destroy(void *handle, void *destroyed) {
  cuda_device *device = handle;
  const cuda_driver *driver = device->driver;
  cuda_recording *r = destroyed;
  if (cuda_enter_to_release(device)) {
    cuda_result code = r->submitted ? driver->event_wait(r->submitted) : CUDA_OK;
    if (r->submitted && !cuda_is_fatal(code)) code = driver->event_destroy(r->submitted);
    for (uint32_t i = 0; r->segments && i < r->segment_count && !cuda_is_fatal(code); i++) {
      const segment *part = &r->segments[i];
      if (part->executable) code = driver->executable_destroy(part->executable);
      if (part->graph && !cuda_is_fatal(code)) code = driver->graph_destroy(part->graph);
    }
    cuda_notice(device, code, "releasing a recording");
  }
  if (r->workspace.handle) cuda_memory_release(device, &r->workspace);
  for (uint32_t i = 0; i < r->kernel_count; i++) cuda_kernel_destroy(device, r->kernels[i]);
  builder_free(&device->builder, r->kernels);
  builder_free(&device->builder, r->labels);
  builder_free(&device->builder, r->operands);
  builder_free(&device->builder, r->nodes);
  builder_free(&device->builder, r->segments);
  builder_free(&device->builder, r->bound);
  builder_free(&device->builder, r->parameters);
  builder_free(&device->builder, r);
}
