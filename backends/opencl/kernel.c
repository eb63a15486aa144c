/* Generated kernels. The core writes the source; here it is compiled, and its launches are kept in
 * the form in which the driver takes them.
 *
 * A kernel that does not build, or whose groups the driver refuses, is no failure yet: preparing
 * walks down a ladder of plainer versions, with a warning for each step. Only when the last one
 * fails is there an error, with the compiler's log. */
#include "opencl.h"

#include <stdio.h>
#include <string.h>

typedef struct kernel_launch {
  opencl_entry *entry;
  cl_uint dimensions;
  size_t global[3], group[3];
  uint32_t buffer_count, shape_bytes;
  compute_generated_buffer *buffers; /* these two in one block of memory */
  unsigned char *shape;
} kernel_launch;

struct opencl_kernel {
  opencl_program *program; /* NULL when there is nothing to launch */
  opencl_gemm *gemm;       /* CLBlast's instead of launches, or NULL */
  uint32_t operands;       /* inputs and outputs */
  uint32_t launch_count;
  kernel_launch launches[COMPUTE_GENERATED_LAUNCHES];
  uint64_t workspace_bytes;
  char text[160];
};

#define SHAPE_BYTES 3072

/* ---- What can be run ----------------------------------------------------------------------- */

static bool has_generator(const compute_services *services) {
  const size_t needed = offsetof(compute_services, tuning_lookup) + sizeof services->tuning_lookup;
  return services->struct_size >= needed && services->generate && services->generated_release &&
         services->generates && services->tuning_lookup;
}

bool opencl_supports(void *handle, const compute_kernel_descriptor *descriptor, char *reason,
                     size_t reason_bytes) {
  opencl_device *device = handle;
  const compute_services *services = device->services;
  if (!has_generator(services)) {
    snprintf(reason, reason_bytes,
             "this libcompute is older than the OpenCL module and cannot write kernels");
    return false;
  }
  return services->generates(services->host, &device->target, descriptor, reason, reason_bytes);
}

const char *opencl_implementation_name(void *device, const compute_kernel_descriptor *descriptor,
                                       uint32_t index) {
  return index == 1 && opencl_clblast_serves(device, descriptor, NULL, 0) ? "CLBlast" : NULL;
}

/* ---- From generated source to launches ----------------------------------------------------- */

static bool problem_set(opencl_problem *problem, cl_int code, const char *call, const char *log) {
  problem->code = code;
  problem->call = call;
  snprintf(problem->log, sizeof problem->log, "%s", log);
  return false;
}

/* Whether the device can run the launch at all, by what its driver says. */
static bool launch_fits(const opencl_device *device, const compute_generated_launch *launch,
                        const opencl_entry *entry, opencl_problem *problem) {
  const compute_target *target = &device->target;
  char words[160];
  const uint64_t items = (uint64_t)launch->group[0] * launch->group[1] * launch->group[2];
  bool refused = items == 0 || items > opencl_entry_group_limit(entry);
  for (int i = 0; i < 3; i++) refused |= launch->group[i] > target->group_limit_of[i];
  if (refused) {
    snprintf(words, sizeof words, "groups of %ux%ux%u items; the driver allows %llu here",
             launch->group[0], launch->group[1], launch->group[2],
             (unsigned long long)opencl_entry_group_limit(entry));
    return problem_set(problem, CL_INVALID_WORK_GROUP_SIZE, "CL_KERNEL_WORK_GROUP_SIZE", words);
  }
  const uint64_t pointer_bytes = device->address_bits / 8;
  const uint64_t argument_bytes = launch->shape_bytes + launch->buffer_count * pointer_bytes;
  /* PoCL says 1024 bytes and takes more. */
  if (argument_bytes > device->argument_limit && !device->place->pocl) {
    snprintf(words, sizeof words, "%llu bytes of arguments; the driver allows %llu",
             (unsigned long long)argument_bytes, (unsigned long long)device->argument_limit);
    return problem_set(problem, CL_INVALID_KERNEL_ARGS, "CL_DEVICE_MAX_PARAMETER_SIZE", words);
  }
  const cl_uint expected = opencl_entry_arguments(entry);
  if (expected != UINT32_MAX && expected != launch->buffer_count + 1)
    return problem_set(problem, CL_INVALID_ARG_INDEX, "CL_KERNEL_NUM_ARGS",
                       "another number of arguments than it was written with");
  for (int i = 0; device->address_bits == 32 && i < 3; i++) {
    if ((uint64_t)launch->groups[i] * launch->group[i] > UINT32_MAX)
      return problem_set(problem, CL_INVALID_GLOBAL_WORK_SIZE, "the launch",
                         "more items than a 32-bit device can count");
  }
  return true;
}

static bool launch_keep(opencl_device *device, opencl_kernel *kernel,
                        const compute_generated_launch *launch, opencl_problem *problem) {
  kernel_launch *kept = &kernel->launches[kernel->launch_count];
  kept->entry = opencl_program_entry(device, kernel->program, launch->entry, problem);
  if (!kept->entry || !launch_fits(device, launch, kept->entry, problem)) return false;
  if (launch->shape_bytes > SHAPE_BYTES || launch->shape_bytes < 8 * launch->buffer_count ||
      launch->buffer_count > COMPUTE_MAX_OPERANDS + 2)
    return problem_set(problem, CL_INVALID_VALUE, "the generator", "a launch of impossible size");
  const size_t buffer_bytes = launch->buffer_count * sizeof *launch->buffers;
  const size_t shape_at = (buffer_bytes + 15) & ~(size_t)15;
  unsigned char *block = opencl_allocate(device, shape_at + launch->shape_bytes + 1);
  if (!block) return problem_set(problem, CL_OUT_OF_HOST_MEMORY, "the kernel's record", "");
  kept->buffers = (compute_generated_buffer *)(void *)block;
  kept->shape = block + shape_at;
  if (buffer_bytes) memcpy(kept->buffers, launch->buffers, buffer_bytes);
  if (launch->shape_bytes) memcpy(kept->shape, launch->shape, launch->shape_bytes);
  kept->buffer_count = launch->buffer_count;
  kept->shape_bytes = launch->shape_bytes;
  for (int i = 0; i < 3; i++) {
    kept->group[i] = launch->group[i];
    kept->global[i] = (size_t)launch->groups[i] * launch->group[i];
    if (kept->global[i] > 1) kept->dimensions = (cl_uint)i + 1;
  }
  if (kept->dimensions == 0) kept->dimensions = 1;
  kernel->launch_count++;
  return true;
}

static bool kernel_fill(opencl_device *device, opencl_kernel *kernel,
                        const compute_generated *generated, opencl_problem *problem) {
  snprintf(kernel->text, sizeof kernel->text, "OpenCL %s", generated->text);
  kernel->workspace_bytes = generated->workspace_bytes;
  if (generated->launch_count == 0) return true;
  if (!generated->source || generated->launch_count > COMPUTE_GENERATED_LAUNCHES)
    return problem_set(problem, CL_INVALID_VALUE, "the generator", "launches without source");
  kernel->program = opencl_program_get(device, generated->source, generated->source_bytes,
                                       device->options, problem);
  if (!kernel->program) return false;
  for (uint32_t i = 0; i < generated->launch_count; i++)
    if (!launch_keep(device, kernel, &generated->launches[i], problem)) return false;
  return true;
}

void opencl_kernel_destroy(void *handle, void *destroyed) {
  opencl_device *device = handle;
  opencl_kernel *kernel = destroyed;
  if (kernel->gemm) opencl_clblast_destroy(device, kernel->gemm);
  for (int i = 0; i < COMPUTE_GENERATED_LAUNCHES; i++)
    opencl_release(device, kernel->launches[i].buffers);
  opencl_program_release(device, kernel->program);
  opencl_release(device, kernel);
}

static opencl_kernel *kernel_create(opencl_device *device,
                                    const compute_kernel_descriptor *descriptor) {
  opencl_kernel *kernel = opencl_allocate(device, sizeof *kernel);
  if (kernel) kernel->operands = descriptor->input_count + descriptor->output_count;
  return kernel;
}

/* One rung: generates and builds. A failure of the generator is recorded and returned; one of the
 * build is COMPUTE_ERROR_COMPILATION with the problem filled in and nothing recorded. */
static compute_status build(opencl_device *device, const compute_target *target,
                            const compute_kernel_descriptor *descriptor,
                            const compute_tuning *tuning, opencl_problem *problem,
                            opencl_kernel **result) {
  const compute_services *services = device->services;
  const compute_generated *generated = NULL;
  problem->code = CL_SUCCESS;
  const compute_status status =
      services->generate(services->host, target, descriptor, tuning, &generated);
  if (status != COMPUTE_OK) return status;
  opencl_kernel *kernel = kernel_create(device, descriptor);
  bool built = false;
  if (kernel)
    built = kernel_fill(device, kernel, generated, problem);
  else
    problem_set(problem, CL_OUT_OF_HOST_MEMORY, "the kernel's record", "");
  services->generated_release(services->host, generated);
  if (built) {
    *result = kernel;
    return COMPUTE_OK;
  }
  if (kernel) opencl_kernel_destroy(device, kernel);
  return COMPUTE_ERROR_COMPILATION;
}

static compute_status fail_build(const opencl_device *device, const opencl_problem *problem) {
  const compute_services *services = device->services;
  if (problem->code == CL_OUT_OF_HOST_MEMORY) return opencl_fail_memory(services, problem->call);
  return services->fail(services->host, COMPUTE_ERROR_COMPILATION, problem->code,
                        "run this step on the CPU, or update the driver",
                        "opencl: no version of the kernel builds on device %u (%s: %s)%s%.300s",
                        device->index, problem->call, opencl_error_name(problem->code),
                        problem->log[0] ? ": " : "", problem->log);
}

/* ---- The ladder ---------------------------------------------------------------------------- */

/* From what the tuner chose to what any device should be able to run: groups no larger than this,
 * and from the second row on without local memory where there is another way. */
static const struct {
  const char *name;
  uint32_t group_limit; /* 0: the device's */
  bool tuned, plain;
} rungs[] = {
    {"the tuned version", 0, true, false},
    {"the usual version", 0, false, false},
    {"a plain version in groups of 64", 64, false, true},
    {"a plain version in groups of 1", 1, false, true},
};

enum { RUNGS = sizeof rungs / sizeof *rungs };

static void limit_target(compute_target *target, uint32_t group_limit) {
  if (group_limit == 0 || group_limit > target->group_limit) return;
  target->group_limit = group_limit;
  for (int i = 0; i < 3; i++) {
    if (target->group_limit_of[i] > group_limit) target->group_limit_of[i] = group_limit;
  }
}

static void step_down(const opencl_device *device, size_t rung, const opencl_problem *problem) {
  const compute_services *services = device->services;
  services->log(services->host, COMPUTE_LOG_WARNING, "opencl",
                "device %u cannot run %s of a kernel (%s: %s)%s%.600s; trying another one",
                device->index, rungs[rung].name, problem->call, opencl_error_name(problem->code),
                problem->log[0] ? ": " : "", problem->log);
}

static compute_status climb_down(opencl_device *device, const compute_kernel_descriptor *descriptor,
                                 const compute_tuning *tuning, opencl_kernel **result) {
  opencl_problem problem = {0}, first = {0};
  compute_status status = COMPUTE_ERROR_COMPILATION;
  for (size_t rung = tuning ? 0 : 1; rung < RUNGS; rung++) {
    compute_target target = device->target;
    limit_target(&target, rungs[rung].group_limit);
    if (rungs[rung].plain) target.flags &= ~(uint32_t)COMPUTE_TARGET_FAST_LOCAL;
    status =
        build(device, &target, descriptor, rungs[rung].tuned ? tuning : NULL, &problem, result);
    if (status == COMPUTE_OK) return status;
    const bool refused_tuning = status == COMPUTE_ERROR_UNSUPPORTED && rungs[rung].tuned;
    if (status != COMPUTE_ERROR_COMPILATION && !refused_tuning) break;
    if (refused_tuning)
      problem_set(&problem, CL_INVALID_VALUE, "the generator", "these parameters do not fit");
    if (problem.code == CL_OUT_OF_HOST_MEMORY) return fail_build(device, &problem);
    if (first.code == CL_SUCCESS || refused_tuning) first = problem;
    if (rung + 1 < RUNGS) step_down(device, rung, &problem);
  }
  /* What a plain version lacks is of no interest: the first failure is the one to be mended. */
  return first.code ? fail_build(device, &first) : status;
}

/* ---- Preparing ----------------------------------------------------------------------------- */

static compute_status clblast_kernel(opencl_device *device,
                                     const compute_kernel_descriptor *descriptor,
                                     opencl_kernel **result) {
  const compute_services *services = device->services;
  char reason[160] = "";
  if (!opencl_clblast_serves(device, descriptor, reason, sizeof reason))
    return services->fail(services->host, COMPUTE_ERROR_UNSUPPORTED, 0, NULL,
                          "opencl: CLBlast cannot serve this kernel: %s", reason);
  opencl_kernel *kernel = kernel_create(device, descriptor);
  if (!kernel) return opencl_fail_memory(services, "a kernel");
  const compute_status status = opencl_clblast_prepare(device, descriptor, &kernel->gemm);
  if (status != COMPUTE_OK) {
    opencl_kernel_destroy(device, kernel);
    return status;
  }
  snprintf(kernel->text, sizeof kernel->text, "CLBlast");
  *result = kernel;
  return COMPUTE_OK;
}

static compute_status no_generator(const opencl_device *device) {
  return device->services->fail(device->services->host, COMPUTE_ERROR_UNSUPPORTED, 0,
                                "run this step on the CPU",
                                "opencl: this libcompute cannot write kernels");
}

compute_status opencl_kernel_prepare(void *handle, const compute_kernel_descriptor *descriptor,
                                     void **result) {
  opencl_device *device = handle;
  const compute_services *services = device->services;
  opencl_kernel *kernel = NULL;
  if (!has_generator(services)) return no_generator(device);
  compute_tuning tuning = {0};
  const compute_tuning_source source =
      services->tuning_lookup(services->host, &device->target, descriptor, &tuning);
  compute_status status = COMPUTE_ERROR_UNSUPPORTED;
  if (tuning.implementation == 1) {
    status = clblast_kernel(device, descriptor, &kernel);
    if (status != COMPUTE_OK)
      services->log(services->host, COMPUTE_LOG_WARNING, "opencl",
                    "CLBlast, which the tuning asks for, is not to be had on device %u",
                    device->index);
  }
  if (status != COMPUTE_OK) {
    tuning.implementation = 0;
    status = climb_down(device, descriptor, source == COMPUTE_TUNING_HEURISTIC ? NULL : &tuning,
                        &kernel);
  }
  if (status == COMPUTE_OK) *result = kernel;
  return status;
}

compute_status opencl_kernel_prepare_tuned(void *handle,
                                           const compute_kernel_descriptor *descriptor,
                                           const compute_tuning *tuning, void **result) {
  opencl_device *device = handle;
  opencl_kernel *kernel = NULL;
  opencl_problem problem = {0};
  compute_status status;
  if (!has_generator(device->services)) return no_generator(device);
  if (tuning->implementation > 1)
    return device->services->fail(device->services->host, COMPUTE_ERROR_UNSUPPORTED, 0, NULL,
                                  "opencl: there is no implementation %u", tuning->implementation);
  if (tuning->implementation == 1)
    status = clblast_kernel(device, descriptor, &kernel);
  else
    status = build(device, &device->target, descriptor, tuning, &problem, &kernel);
  if (status == COMPUTE_ERROR_COMPILATION && problem.code) status = fail_build(device, &problem);
  if (status == COMPUTE_OK) *result = kernel;
  return status;
}

void opencl_kernel_describe(void *device, void *kernel, char *text, size_t text_bytes) {
  (void)device;
  snprintf(text, text_bytes, "%s", ((const opencl_kernel *)kernel)->text);
}

/* ---- Enqueueing ---------------------------------------------------------------------------- */

/* The scratch buffers of one enqueue. */
typedef struct scratch {
  cl_mem workspace, fault;
} scratch;

/* Sets every argument; the offsets go into the head of the copied shape. */
static cl_int set_arguments(const opencl_library *cl, cl_kernel object, const kernel_launch *launch,
                            const compute_argument *arguments, uint32_t count,
                            const scratch *extra) {
  _Alignas(16) unsigned char shape[SHAPE_BYTES];
  memcpy(shape, launch->shape, launch->shape_bytes);
  cl_int code = CL_SUCCESS;
  for (uint32_t i = 0; i < launch->buffer_count && code == CL_SUCCESS; i++) {
    const compute_generated_buffer *buffer = &launch->buffers[i];
    cl_mem memory = NULL;
    int64_t offset = 0;
    if (buffer->argument == COMPUTE_GENERATED_WORKSPACE) {
      memory = extra->workspace;
    } else if (buffer->argument == COMPUTE_GENERATED_FAULT) {
      memory = extra->fault;
    } else if (buffer->argument < count) {
      const compute_argument *argument = &arguments[buffer->argument];
      const opencl_memory *device_memory = argument->memory ? argument->memory->handle : NULL;
      if (device_memory) memory = device_memory->buffer; /* else a tensor without elements */
      if (buffer->element_bytes == 0 || argument->offset % buffer->element_bytes != 0)
        return CL_MISALIGNED_SUB_BUFFER_OFFSET;
      offset = (int64_t)(argument->offset / buffer->element_bytes);
    } else {
      return CL_INVALID_ARG_INDEX;
    }
    memcpy(shape + 8 * i, &offset, sizeof offset);
    code = cl->clSetKernelArg(object, i, sizeof memory, memory ? &memory : NULL);
  }
  if (code == CL_SUCCESS && launch->shape_bytes)
    code = cl->clSetKernelArg(object, launch->buffer_count, launch->shape_bytes, shape);
  return code;
}

static cl_int launch_one(opencl_queue *queue, const kernel_launch *launch,
                         const compute_argument *arguments, uint32_t count, const scratch *extra,
                         opencl_memory *const *memories, uint32_t memory_count) {
  opencl_device *device = queue->device;
  const opencl_library *cl = device->cl;
  cl_int code = CL_SUCCESS;
  cl_kernel object = opencl_entry_take(device, launch->entry, &code);
  if (!object) return code ? code : CL_OUT_OF_HOST_MEMORY;
  code = set_arguments(cl, object, launch, arguments, count, extra);
  if (code == CL_SUCCESS) {
    opencl_lane *lane;
    cl_event wait, event = NULL;
    const uint32_t waits =
        opencl_lane_enter(queue, LANE_COMPUTE, memories, memory_count, &lane, &wait);
    code = cl->clEnqueueNDRangeKernel(lane->queue, object, launch->dimensions, NULL, launch->global,
                                      launch->group, waits, waits ? &wait : NULL, &event);
    if (code == CL_SUCCESS) opencl_lane_submitted(queue, lane, event, memories, memory_count);
  }
  opencl_entry_return(device, launch->entry, object);
  return code;
}

static bool uses_fault(const opencl_kernel *kernel) {
  for (uint32_t i = 0; i < kernel->launch_count; i++) {
    for (uint32_t j = 0; j < kernel->launches[i].buffer_count; j++)
      if (kernel->launches[i].buffers[j].argument == COMPUTE_GENERATED_FAULT) return true;
  }
  return false;
}

compute_status opencl_enqueue(void *handle, void *enqueued, const compute_argument *arguments,
                              uint32_t count) {
  opencl_queue *queue = handle;
  const opencl_kernel *kernel = enqueued;
  const compute_services *services = queue->device->services;
  if (count != kernel->operands)
    return services->fail(services->host, COMPUTE_ERROR_INTERNAL, 0, NULL,
                          "opencl: a kernel of %u operands got %u", kernel->operands, count);
  if (kernel->gemm) return opencl_clblast_enqueue(queue, kernel->gemm, arguments);
  if (kernel->launch_count == 0) return COMPUTE_OK;
  scratch extra = {NULL, NULL};
  opencl_memory *memories[COMPUTE_MAX_OPERANDS], *fault;
  uint32_t memory_count = 0;
  for (uint32_t i = 0; i < count && i < COMPUTE_MAX_OPERANDS; i++) {
    if (arguments[i].memory && arguments[i].memory->handle)
      memories[memory_count++] = arguments[i].memory->handle;
  }
  compute_status status = COMPUTE_OK;
  if (kernel->workspace_bytes)
    status = opencl_workspace(queue, kernel->workspace_bytes, &extra.workspace);
  if (status == COMPUTE_OK && uses_fault(kernel)) {
    status = opencl_fault_word(queue, &fault);
    if (status == COMPUTE_OK) extra.fault = fault->buffer;
  }
  if (status != COMPUTE_OK) return status;
  for (uint32_t i = 0; i < kernel->launch_count; i++) {
    const cl_int code =
        launch_one(queue, &kernel->launches[i], arguments, count, &extra, memories, memory_count);
    if (code != CL_SUCCESS)
      return opencl_fail(services, code, "launching a kernel on device %u (%.60s)",
                         queue->device->index, kernel->text);
  }
  return COMPUTE_OK;
}
