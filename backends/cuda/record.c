/* Sequences of kernels as CUDA graphs.
 *
 * While a queue records, its kernels are only noted. At the end their launches become the nodes of
 * a graph, one behind the other, and the graph is made executable once. A submission compares the
 * addresses with those in the graph, sets the parameters of the launches where they differ, and
 * hands the whole to the driver in one call: in a steady state that is all it does.
 *
 * Scratch memory belongs to the recording, since the queue's may move. The fault word is that of
 * the queue that submits. */
#include <string.h>

#include "cuda.h"

/* One launch in the graph. Its parameters point into `bound` of the recording, and to the shape. */
typedef struct node {
  cuda_graph_node handle;
  const builder_launch *launch;
  uint32_t first_operand; /* of its kernel, in the arguments of all */
  uint32_t first_bound;
  void **parameters;
} node;

struct cuda_recording {
  cuda_device *device;
  cuda_kernel **kernels; /* each retained */
  uint32_t kernel_count, kernel_capacity;
  cuda_pointer *operands; /* of all kernels, one's behind the other's */
  uint32_t operand_count, operand_capacity;
  bool faults;

  node *nodes;
  uint32_t node_count;
  cuda_pointer *bound; /* what the launches in the graph were given */
  void **parameters;
  cuda_scratch scratch;
  compute_memory workspace;
  cuda_graph graph;
  cuda_graph_executable executable;
  cuda_event submitted; /* behind the last submission; only with scratch memory */
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
                          "cuda: the queue records already");
  if (!can_record(device->driver))
    return services->fail(services->host, COMPUTE_ERROR_UNSUPPORTED, 0, "update the NVIDIA driver",
                          "cuda: the driver is older than CUDA 12.0 and cannot change the "
                          "parameters of a recorded kernel");
  cuda_recording *recording = cuda_allocate(device, sizeof *recording);
  if (!recording) return cuda_fail_memory(services, "a recording");
  recording->device = device;
  queue->recording = recording;
  return COMPUTE_OK;
}

/* ---- Noting -------------------------------------------------------------------------------- */

/* The array with room for `more` further elements; NULL without memory, and then as it was. */
static void *with_room(const cuda_device *device, void *array, uint32_t used, uint32_t more,
                       uint32_t *capacity, size_t element_bytes) {
  if (more <= *capacity - used) return array;
  const uint32_t wanted = 2 * (used + more) + 16;
  void *larger = cuda_allocate(device, wanted * element_bytes);
  if (!larger) return NULL;
  if (used) memcpy(larger, array, used * element_bytes);
  cuda_release(device, array);
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
  cuda_pointer *addresses = with_room(r->device, r->operands, r->operand_count, operands + 1,
                                      &r->operand_capacity, sizeof *r->operands);
  if (addresses) r->operands = addresses;
  if (!kernels || !addresses) return cuda_fail_memory(r->device->services, "a recording");
  cuda_kernel_retain(kernel);
  r->kernels[r->kernel_count++] = kernel;
  for (uint32_t i = 0; i < operands; i++)
    r->operands[r->operand_count++] = cuda_address(&arguments[i]);
  r->faults |= kernel->shared.faults;
  return COMPUTE_OK;
}

/* ---- The graph ----------------------------------------------------------------------------- */

/* Room for all that a submission needs, and the launches that the kernels consist of. */
static compute_status nodes_make(cuda_recording *r) {
  uint32_t nodes = 0, buffers = 0, first_operand = 0;
  for (uint32_t i = 0; i < r->kernel_count; i++) {
    const builder_kernel *kernel = &r->kernels[i]->shared;
    nodes += kernel->launch_count;
    for (uint32_t j = 0; j < kernel->launch_count; j++) buffers += kernel->launches[j].buffer_count;
  }
  r->nodes = cuda_allocate(r->device, (nodes + 1) * sizeof *r->nodes);
  r->bound = cuda_allocate(r->device, (buffers + 1) * sizeof *r->bound);
  r->parameters = cuda_allocate(r->device, (buffers + nodes + 1) * sizeof *r->parameters);
  if (!r->nodes || !r->bound || !r->parameters)
    return cuda_fail_memory(r->device->services, "a recording");
  buffers = 0;
  for (uint32_t i = 0; i < r->kernel_count; i++) {
    const builder_kernel *kernel = &r->kernels[i]->shared;
    for (uint32_t j = 0; j < kernel->launch_count; j++) {
      node *made = &r->nodes[r->node_count];
      made->launch = &kernel->launches[j];
      made->first_operand = first_operand;
      made->first_bound = buffers;
      made->parameters = r->parameters + buffers + r->node_count; /* one more for each shape */
      cuda_parameters(made->launch, r->bound + buffers, made->parameters);
      buffers += made->launch->buffer_count;
      r->node_count++;
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
  return r->faults ? cuda_fault_word(queue, &r->scratch.fault) : COMPUTE_OK;
}

static cuda_kernel_node_parameters parameters_of(const node *n) {
  const builder_launch *launch = n->launch;
  return (cuda_kernel_node_parameters){
      .function = ((const cuda_entry *)launch->entry)->function,
      .grid = {launch->groups[0], launch->groups[1], launch->groups[2]},
      .block = {launch->group[0], launch->group[1], launch->group[2]},
      .parameters = n->parameters,
  };
}

static compute_status graph_make(cuda_recording *r) {
  cuda_device *device = r->device;
  const cuda_driver *driver = device->driver;
  cuda_result code = driver->graph_create(&r->graph, 0);
  if (code != CUDA_OK) r->graph = NULL;
  for (uint32_t i = 0; i < r->node_count && code == CUDA_OK; i++) {
    node *n = &r->nodes[i];
    cuda_bind(n->launch, r->operands + n->first_operand, &r->scratch, r->bound + n->first_bound);
    const cuda_kernel_node_parameters parameters = parameters_of(n);
    code = driver->graph_add_kernel(&n->handle, r->graph, i ? &r->nodes[i - 1].handle : NULL,
                                    i ? 1 : 0, &parameters);
  }
  if (code == CUDA_OK) {
    code = driver->graph_instantiate(&r->executable, r->graph, 0);
    if (code != CUDA_OK) r->executable = NULL;
  }
  return code == CUDA_OK ? COMPUTE_OK : cuda_fail(device, code, "recording a sequence of kernels");
}

compute_status cuda_record_end(void *handle, void **result) {
  cuda_queue *queue = handle;
  cuda_recording *r = queue->recording;
  cuda_device *device = queue->device;
  if (!r)
    return device->services->fail(device->services->host, COMPUTE_ERROR_INVALID_STATE, 0, NULL,
                                  "cuda: the queue does not record");
  queue->recording = NULL;
  if (!result) {
    cuda_record_destroy(device, r);
    return COMPUTE_OK;
  }
  compute_status status = cuda_enter(device);
  if (status == COMPUTE_OK) status = nodes_make(r);
  if (status == COMPUTE_OK) status = scratch_make(r, queue);
  if (status == COMPUTE_OK && r->node_count > 0) status = graph_make(r);
  if (status == COMPUTE_OK)
    *result = r;
  else
    cuda_record_destroy(device, r);
  return status;
}

/* ---- Submitting ---------------------------------------------------------------------------- */

/* Hands the launch its addresses if they are not those that it has. */
static cuda_result node_update(cuda_recording *r, const node *n, const cuda_scratch *scratch) {
  cuda_pointer fresh[BUILDER_BUFFERS], *bound = r->bound + n->first_bound;
  const size_t bytes = n->launch->buffer_count * sizeof *bound;
  cuda_bind(n->launch, r->operands + n->first_operand, scratch, fresh);
  if (memcmp(fresh, bound, bytes) == 0) return CUDA_OK;
  memcpy(bound, fresh, bytes);
  const cuda_kernel_node_parameters parameters = parameters_of(n);
  const cuda_result code =
      r->device->driver->executable_set_kernel(r->executable, n->handle, &parameters);
  if (code != CUDA_OK) memset(bound, 0xff, bytes); /* whatever it has now, it is set next time */
  return code;
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
  /* Only the first submission to a queue makes its fault word. */
  if (r->faults) status = cuda_fault_word(queue, &r->scratch.fault);
  if (status != COMPUTE_OK) return status;
  for (uint32_t i = 0; i < count; i++) r->operands[i] = cuda_address(&arguments[i]);
  cuda_result code = CUDA_OK;
  for (uint32_t i = 0; i < r->node_count && code == CUDA_OK; i++)
    code = node_update(r, &r->nodes[i], &r->scratch);
  if (code == CUDA_OK) code = driver->executable_launch(r->executable, queue->stream);
  if (code == CUDA_OK && r->submitted) code = driver->event_record(r->submitted, queue->stream);
  return code == CUDA_OK ? COMPUTE_OK : cuda_fail(device, code, "submitting recorded kernels");
}

/* The driver itself keeps a graph that is under way; its scratch memory and code it does not. */
void cuda_record_destroy(void *handle, void *destroyed) {
  cuda_device *device = handle;
  const cuda_driver *driver = device->driver;
  cuda_recording *r = destroyed;
  if (cuda_enter_to_release(device)) {
    cuda_result code = r->submitted ? driver->event_wait(r->submitted) : CUDA_OK;
    if (!cuda_is_fatal(code)) {
      if (r->submitted) driver->event_destroy(r->submitted);
      if (r->executable) driver->executable_destroy(r->executable);
      if (r->graph) code = driver->graph_destroy(r->graph);
    }
    cuda_notice(device, code, "releasing a recording");
  }
  if (r->workspace.handle) cuda_memory_release(device, &r->workspace);
  for (uint32_t i = 0; i < r->kernel_count; i++) cuda_kernel_destroy(device, r->kernels[i]);
  cuda_release(device, r->kernels);
  cuda_release(device, r->operands);
  cuda_release(device, r->nodes);
  cuda_release(device, r->bound);
  cuda_release(device, r->parameters);
  cuda_release(device, r);
}
