/* SPDX-License-Identifier: MIT */
/* A layer between the OpenCL loader and a driver, for tests: counts the calls of each kind, makes
 * the n-th of a kind fail, counts the driver's objects that nobody has released, and lies about a
 * device's limits.
 *
 * The loader (ocl-icd ≥ 2.3) puts it before every driver when OPENCL_LAYERS names the library. Two
 * ways to say what it should do:
 *
 * - A test in the same process opens the library by its path too, and calls the functions below,
 *   found by dlsym.
 * - A script sets COMPUTE_TEST_LAYER to orders with ',' between them:
 *     fail=clFinish:3:-5    the third clFinish returns -5; 3+ instead of 3: that and all later
 * ones; "any" instead of a name: the third call of whatever kind counts=/path          how often
 * each call was made goes to this file at exit NAME=NUMBER           a limit by its name in
 * layer_limits below */
#ifndef OPENCL_LAYER_H
#define OPENCL_LAYER_H

#include <stdbool.h>
#include <stdint.h>

/* What the layer says of every device in the driver's place. 0 leaves the driver's own answer. */
typedef struct layer_limits {
  uint64_t group;             /* work-group size */
  uint64_t refuse_group;      /* launches of larger groups fail, whatever the device says */
  uint64_t local;             /* bytes of local memory */
  uint64_t allocation;        /* bytes of the largest buffer */
  uint64_t refuse_allocation; /* larger buffers fail, whatever the device says */
  uint64_t no_f64;            /* no double precision; programs that use it do not build */
  uint64_t gpu;         /* a GPU with local memory of its own and no memory shared with the host */
  uint64_t cpu;         /* a CPU, whatever it is */
  uint64_t no_device;   /* platforms have no devices */
  uint64_t unavailable; /* CL_DEVICE_AVAILABLE is false */
  uint64_t no_compiler; /* CL_DEVICE_COMPILER_AVAILABLE is false */
  uint64_t version;     /* 11: OpenCL 1.1 */
  uint64_t no_touch;    /* writes of a single byte are left out: oclgrind takes the first
                         * write for the buffer's size when it looks for uninitialised values */
} layer_limits;

/* The `nth` call (from 1, counted from now) of a kind, or of any kind for "any", fails with
 * `error`, and with `onward` all after it. nth 0: nothing fails. False if no kind has this name. */
typedef bool layer_arm_function(const char *call, int64_t nth, bool onward, int error);

/* How many calls have failed since layer_arm; and that of the last one's name, or "". */
typedef int64_t layer_failures_function(const char **last);

/* How many calls of kind `index` were made since layer_arm; NULL past the last kind. */
typedef const char *layer_count_function(uint32_t index, int64_t *count);

/* Objects of the drivers (contexts, queues, buffers, programs, kernels, events) that are alive. */
typedef int64_t layer_live_function(char *text, uint64_t text_bytes);

typedef void layer_lie_function(const layer_limits *limits);

/* The layer puts this before the source of every program; builtins.c. */
extern const char layer_builtins[];

#define LAYER_ARM      "layer_arm"
#define LAYER_FAILURES "layer_failures"
#define LAYER_COUNT    "layer_count"
#define LAYER_LIVE     "layer_live"
#define LAYER_LIE      "layer_lie"

#endif
