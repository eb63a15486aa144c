/* SPDX-License-Identifier: MIT */
/* CALL: the core makes the call on its threads and reports failures. */
#include <stdio.h>

#include "core/cpu.h"

typedef struct call_kernel {
  cpu_kernel head;
  compute_status (*run)(const void *call, void *const *operands);
  const void *call;
} call_kernel;

static compute_status run(const cpu_kernel *kernel, void *const *pointers) {
  const call_kernel *call = (const call_kernel *)kernel;
  return call->run(call->call, pointers);
}

static compute_status prepare(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor) {
  const compute_call_attributes *attributes = compute_call_of(descriptor);
  call_kernel *call = (call_kernel *)kernel;
  snprintf(kernel->description, sizeof kernel->description, "a caller's function");
  call->run = attributes->run;
  call->call = attributes->call;
  return COMPUTE_OK;
}

const cpu_kind cpu_call_kind = {
    .name = "call", .bytes = sizeof(call_kernel), .prepare = prepare, .run = run};
