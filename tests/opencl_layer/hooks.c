/* SPDX-License-Identifier: MIT */
/* The hooks of compute-conformance (tests/backend/conformance_hooks.h), implemented with the
 * layer's functions. */
#include <string.h>

#include "backend/conformance_hooks.h"
#include "layer.h"

extern layer_arm_function layer_arm;
extern layer_failures_function layer_failures;
extern layer_count_function layer_count;
extern layer_live_function layer_live;

enum { LOST = -36, RESOURCES = -5 }; /* CL_INVALID_COMMAND_QUEUE, CL_OUT_OF_RESOURCES */

/* A typical error code of this call. */
static int likely_error(const char *call) {
  static const struct {
    const char *call;
    int error;
  } errors[] = {
      {"clGetPlatformIDs", -1001},        /* CL_PLATFORM_NOT_FOUND_KHR */
      {"clGetDeviceIDs", -1},             /* CL_DEVICE_NOT_FOUND */
      {"clCreateContext", -2},            /* CL_DEVICE_NOT_AVAILABLE */
      {"clCreateBuffer", -4},             /* CL_MEM_OBJECT_ALLOCATION_FAILURE */
      {"clBuildProgram", -11},            /* CL_BUILD_PROGRAM_FAILURE */
      {"clCreateProgramWithBinary", -42}, /* CL_INVALID_BINARY */
      {"clEnqueueNDRangeKernel", -54},    /* CL_INVALID_WORK_GROUP_SIZE */
      {"clEnqueueMapBuffer", -12},        /* CL_MAP_FAILURE */
      {"clWaitForEvents", -14},           /* CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST */
      {"clGetDeviceInfo", -30},           /* CL_INVALID_VALUE */
      {"clGetKernelWorkGroupInfo", -30},
  };
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (strcmp(errors[i].call, call) == 0) return errors[i].error;
  return RESOURCES;
}

/* Queries of platforms and devices cannot lose a device. */
static bool can_lose(const char *call) {
  return !strncmp(call, "clEnqueue", 9) || !strcmp(call, "clFinish") || !strcmp(call, "clFlush") ||
         !strcmp(call, "clWaitForEvents");
}

static bool arm(const char *call, int64_t nth, bool onward, bool lose) {
  if (nth == 0 || !call) return layer_arm("any", nth, onward, lose ? LOST : RESOURCES);
  if (lose && !can_lose(call)) return false;
  return layer_arm(call, nth, onward, lose ? LOST : likely_error(call));
}

static const char *call_at(uint32_t index, int64_t *count) {
  return layer_count(index, count);
}

static int64_t failures(void) {
  return layer_failures(NULL);
}

static int64_t live(char *text, size_t bytes) {
  return layer_live(text, bytes);
}

__attribute__((visibility("default"))) conformance_hooks_function compute_conformance_hooks;
const conformance_hooks *compute_conformance_hooks(void) {
  static const conformance_hooks hooks = {.struct_size = sizeof hooks,
                                          .call_at = call_at,
                                          .arm = arm,
                                          .failures = failures,
                                          .live = live};
  return &hooks;
}
