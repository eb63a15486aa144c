/* SPDX-License-Identifier: MIT */
/* A device with fake kernels: the CPU's kernels, made slow, wrong or broken on purpose. It is the
 * CPU device with another vtable, so it needs no separate module. */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H

#include <stdatomic.h>

#include "codegen/tune/tuner.h"
#include "core/base/error.h"
#include "core/device/device.h"
#include "core/kernel/common/program.h"
#include "tune_fixture.h"

/* The behaviour of the kernel for one set of parameters. */
typedef struct fake_manner {
  double seconds;         /* of one launch, by the fake clock */
  bool wrong;             /* the last element of the result is wrong by a thousandth */
  compute_status prepare; /* returned by prepare and launch in place of their work */
  compute_status enqueue;
} fake_manner;

enum { FAKE_MANNERS = 5 };

/* The default, the implementations 1 … count − 1, and generated kernels. Changed only while no run
 * is in progress. */
typedef struct fake_plan {
  fake_manner heuristic, implementation[FAKE_MANNERS], generated;
  uint32_t count;
} fake_plan;

static fake_plan fake;
static _Thread_local double fake_now; /* CPU queues run in the submitting thread */

static inline double fake_clock(void) {
  return fake_now;
}

static atomic_int_fast64_t fake_launches[FAKE_MANNERS], fake_kernels;

typedef struct fake_kernel {
  const compute_device *cpu;
  void *inner;
  compute_tuning tuning;
  int64_t elements; /* of the result */
} fake_kernel;

static const compute_device *fake_cpu; /* of the context in use */

static const fake_manner *fake_manner_of(const compute_tuning *tuning) {
  if (tuning->implementation) return &fake.implementation[tuning->implementation];
  return parameters_none(tuning) ? &fake.heuristic : &fake.generated;
}

static compute_status fake_device_target(void *device, compute_target *target) {
  (void)device;
  *target = fixture_target("fake");
  return COMPUTE_OK;
}

static const char *fake_implementation_name(void *device,
                                            const compute_kernel_descriptor *descriptor,
                                            uint32_t index) {
  static const char *const names[] = {"", "one", "two", "three", "four"};
  (void)device;
  (void)descriptor;
  return index < fake.count ? names[index] : NULL;
}

static compute_status fake_prepare(void *device, const compute_kernel_descriptor *descriptor,
                                   const compute_tuning *tuning, void **result) {
  const compute_services *services = &fake_cpu->context->services;
  const fake_manner *manner = fake_manner_of(tuning);
  if (manner->prepare)
    return error_set(fake_cpu->context, manner->prepare, "fake", "planted: does not compile");
  fake_kernel *kernel = services->allocate(services->host, sizeof *kernel, 16);
  if (!kernel)
    return error_set(fake_cpu->context, COMPUTE_ERROR_OUT_OF_MEMORY, "fake", "no memory");
  *kernel = (fake_kernel){.cpu = fake_cpu, .tuning = *tuning, .elements = descriptor->size[0]};
  compute_status status = fake_cpu->backend->kernel_prepare(device, descriptor, &kernel->inner);
  if (status) {
    services->release(services->host, kernel);
    return status;
  }
  atomic_fetch_add(&fake_kernels, 1);
  *result = kernel;
  return COMPUTE_OK;
}

static void fake_destroy(void *device, void *destroyed) {
  fake_kernel *kernel = destroyed;
  const compute_services *services = &kernel->cpu->context->services;
  kernel->cpu->backend->kernel_destroy(device, kernel->inner);
  services->release(services->host, kernel);
  atomic_fetch_sub(&fake_kernels, 1);
}

static compute_status fake_enqueue(void *queue, void *enqueued, const compute_argument *arguments,
                                   uint32_t count) {
  const fake_kernel *kernel = enqueued;
  const fake_manner *manner = fake_manner_of(&kernel->tuning);
  atomic_fetch_add(&fake_launches[kernel->tuning.implementation], 1);
  if (manner->enqueue)
    return error_set(fake_cpu->context, manner->enqueue, "fake", "planted: does not start");
  compute_status status = kernel->cpu->backend->enqueue(queue, kernel->inner, arguments, count);
  float *last = (float *)arguments[count - 1].memory->host + kernel->elements - 1;
  if (!status && manner->wrong) *last += *last * 1e-3F + 1e-3F;
  fake_now += manner->seconds;
  return status;
}

/* Makes *device a fake device on the context's CPU, with *backend as its vtable. */
static inline void fake_device_make(compute_context *context, compute_device *device,
                                    compute_backend *backend) {
  fake_cpu = context->cpu;
  *backend = *fake_cpu->backend;
  backend->device_target = fake_device_target;
  backend->kernel_prepare_tuned = fake_prepare;
  backend->implementation_name = fake_implementation_name;
  backend->kernel_destroy = fake_destroy;
  backend->enqueue = fake_enqueue;
  *device = *fake_cpu;
  device->backend = backend;
  for (int i = 0; i < FAKE_MANNERS; i++) atomic_store(&fake_launches[i], 0);
}

/* A tuner_problem: sums of two operands of 1000 · 8^index elements. */
static inline bool fake_problem(void *user, size_t index, tune_problem *problem) {
  const compute_operand dense = {COMPUTE_F32, {1}};
  const int64_t count = INT64_C(1000) << 3 * index;
  program_builder *b = &problem->program;
  (void)user;
  memset(problem, 0, sizeof *problem);
  problem->kind = problem_kind_of(COMPUTE_KERNEL_MAP);
  snprintf(problem->name, sizeof problem->name, "problem %zu", index);
  problem->inputs[0] = problem->inputs[1] = problem->output = dense;
  problem->input_elements[0] = problem->input_elements[1] = (uint64_t)count;
  problem->output_elements = (uint64_t)count;
  program_store(b, program_apply(b, COMPUTE_I_ADD, COMPUTE_F32, program_load(b, COMPUTE_F32, 0),
                                 program_load(b, COMPUTE_F32, 1), 0));
  problem->descriptor = (compute_kernel_descriptor){.struct_size = sizeof problem->descriptor,
                                                    .kind = COMPUTE_KERNEL_MAP,
                                                    .rank = 1,
                                                    .size = {count},
                                                    .input_count = 2,
                                                    .output_count = 1,
                                                    .inputs = problem->inputs,
                                                    .outputs = &problem->output,
                                                    .epilogue = program_finish(b)};
  return true;
}

#endif
