/* SPDX-License-Identifier: MIT */
/* The common parts of faults.c and fault_files.c, the files of suite "faults". */
#ifndef BENCH_FAULTS_H
#define BENCH_FAULTS_H

#include "bench.h"

/* One fault on one device. */
typedef struct fault {
  compute_context *context;
  compute_device *device, *cpu;
  compute_fallback_statistics before;
  double seconds; /* from the fault to the documented outcome */
  char said[256]; /* the fault, and the library's reaction */
} fault;

enum { FAULT_SIDE = 96 };

/* A plan with its tensors. */
typedef struct fault_model {
  compute_plan *plan;
  compute_node x, y;
  compute_tensor *in, *out;
  int repeats;
} fault_model;

/* Release it whatever the status. */
compute_status fault_model_create(compute_context *context, compute_device *device,
                                  compute_device *where, int repeats, compute_fallback fallback,
                                  uint32_t flags, fault_model *m);
void fault_model_release(fault_model *m);
size_t fault_model_bind(const fault_model *m, compute_binding bindings[2]);
compute_status fault_model_run(const fault_model *m, const compute_run_options *options);
bool fault_model_is_right(const fault_model *m);

/* Whether a new strict plan for the device runs there correctly. */
bool fault_computes(compute_context *context, compute_device *device);

void fault_says(fault *f, const char *format, ...) COMPUTE_PRINTF(2, 3);

/* The context's fallbacks since the fault began. */
compute_fallback_statistics fault_counted(const fault *f);

bool fault_kernel_source_is_wrong(fault *f);
bool fault_cache_is_damaged(fault *f);
bool fault_step_is_refused(fault *f);
bool fault_module_is_none(fault *f);

#endif
