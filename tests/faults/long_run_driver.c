/* SPDX-License-Identifier: MIT */
/* Failing drivers: the call, its number and the error are random, from the errors that each driver
 * may return. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults/long_run.h"
#include "support/drivers/cuda_stand_in.h"
#include "support/drivers/opencl_layer.h"

typedef struct fault {
  const char *call;
  int code;
  int most; /* the failing call's number is from 1 to this */
} fault;

/* Those that also occur if the device shares the host's memory. */
static const fault opencl_faults[] = {
    {"clCreateBuffer", -4, 30},           /* CL_MEM_OBJECT_ALLOCATION_FAILURE */
    {"clCreateProgramWithSource", -6, 8}, /* CL_OUT_OF_HOST_MEMORY */
    {"clBuildProgram", -11, 8},           /* CL_BUILD_PROGRAM_FAILURE */
    {"clCreateKernel", -5, 8},            /* CL_OUT_OF_RESOURCES */
    {"clSetKernelArg", -5, 60},
    {"clEnqueueNDRangeKernel", -5, 20},
    {"clEnqueueNDRangeKernel", -54, 20}, /* CL_INVALID_WORK_GROUP_SIZE */
    {"clEnqueueMapBuffer", -12, 20},     /* CL_MAP_FAILURE */
    {"clWaitForEvents", -14, 10},        /* CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST */
    {"clFinish", -36, 10},               /* CL_INVALID_COMMAND_QUEUE: the device is lost */
    {"any", -5, 600},
};

static const fault cuda_faults[] = {
    {"cuLaunchKernel", 701, 20},        /* CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES */
    {"cuLaunchKernel", 700, 20},        /* an illegal address: the device is lost */
    {"kernel", 700, 20},                /* the same during a kernel's run */
    {"cuMemAllocFromPoolAsync", 2, 40}, /* CUDA_ERROR_OUT_OF_MEMORY */
    {"cuMemcpyHtoDAsync", 999, 30},     /* CUDA_ERROR_UNKNOWN */
    {"cuMemcpyDtoHAsync", 719, 20},     /* CUDA_ERROR_LAUNCH_FAILED: the device is lost */
    {"cuModuleLoadData", 209, 8},       /* CUDA_ERROR_NO_BINARY_FOR_GPU */
    {"cuStreamCreate", 2, 6},
    {"cuStreamSynchronize", 702, 20}, /* CUDA_ERROR_LAUNCH_TIMEOUT: the device is lost */
    {"cuEventRecord", 2, 30},
    {"any", 2, 600},
    {"any", 999, 600},
};

static enum { DRIVER_NONE, DRIVER_OPENCL, DRIVER_CUDA } driver;
static opencl_layer layer;
static cuda_stand_in gpu;
static bool may_leave; /* releasing calls have also failed */

bool run_driver_open(void) {
  const char *device = getenv("COMPUTE_TEST_DEVICE");
  if (!device) return true;
  if (strncmp(device, "opencl", 6) == 0) {
    driver = DRIVER_OPENCL;
    return opencl_layer_open(TEST_OPENCL_LAYER, &layer);
  }
  if (strncmp(device, "cuda", 4) == 0) {
    driver = DRIVER_CUDA;
    return cuda_stand_in_open(&gpu);
  }
  return true;
}

bool run_driver_present(void) {
  return driver != DRIVER_NONE;
}

void run_driver_reset(void) {
  may_leave = false;
  if (driver == DRIVER_OPENCL) layer.arm("any", 0, false, 0);
  if (driver == DRIVER_CUDA) gpu.configure("");
}

void run_driver_arm(test_random *random, char text[RUN_ORDERS_BYTES]) {
  text[0] = '\0';
  if (driver == DRIVER_NONE) return;
  const bool is_cuda = driver == DRIVER_CUDA;
  const size_t count = is_cuda ? sizeof cuda_faults / sizeof *cuda_faults
                               : sizeof opencl_faults / sizeof *opencl_faults;
  const int64_t i = test_random_integer(random, 0, (int64_t)count - 1);
  const fault *f = is_cuda ? &cuda_faults[i] : &opencl_faults[i];
  const int64_t nth = test_random_integer(random, 1, f->most);
  const bool onward = test_random_integer(random, 0, 3) == 0;
  char orders[RUN_ORDERS_BYTES + 16];
  may_leave = is_cuda && strcmp(f->call, "any") == 0;
  snprintf(text, RUN_ORDERS_BYTES, "%s:%lld%s:%d", f->call, (long long)nth, onward ? "+" : "",
           f->code);
  snprintf(orders, sizeof orders, "keep=1,fail=%s", text);
  const bool known = is_cuda ? gpu.configure(orders) : layer.arm(f->call, nth, onward, f->code);
  if (!known) fprintf(stderr, "the driver's stand-in does not know %s\n", f->call);
}

int64_t run_driver_disarm(void) {
  int64_t failures = 0;
  if (driver == DRIVER_OPENCL) {
    failures = layer.failures(NULL);
    layer.arm("any", 0, false, 0);
  } else if (driver == DRIVER_CUDA) {
    failures = gpu.failures(NULL);
    gpu.configure("keep=1");
  }
  return failures;
}

bool run_driver_is_clean(char text[RUN_FAILURE_BYTES]) {
  if (driver == DRIVER_OPENCL) return layer.live(text, RUN_FAILURE_BYTES) == 0;
  if (driver != DRIVER_CUDA) return true;
  gpu.configure(""); /* a lost device's objects end with their context */
  return (gpu.live(text, RUN_FAILURE_BYTES) == 0 || may_leave) &&
         gpu.misuse(text, RUN_FAILURE_BYTES) == 0;
}
