/* SPDX-License-Identifier: MIT */
/* A layer between the OpenCL loader and a driver, for tests. It counts the calls of each kind,
 * makes the n-th call of a kind fail, counts the driver's unreleased objects, and returns false
 * limits of a device.
 *
 * The loader (ocl-icd ≥ 2.3) puts it before every driver if OPENCL_LAYERS names the library. There
 * are two ways to control it:
 *
 * - A test in the same process also opens the library by its path and calls the functions below,
 *   found with dlsym.
 * - A script sets COMPUTE_TEST_LAYER to orders, separated by commas:
 *     fail=clFinish:3:-5    the third clFinish returns -5; 3+: it and all later ones;
 *                           "any" instead of a name: the third call of any kind
 *     counts=/path          at exit, this file gets the number of each call
 *     NAME=NUMBER           a limit, by its name in layer_limits below */
#ifndef OPENCL_LAYER_H
#define OPENCL_LAYER_H

#include <stdbool.h>
#include <stdint.h>

/* False limits of every device. 0 keeps the driver's answer. */
typedef struct layer_limits {
  uint64_t group;             /* work-group size */
  uint64_t refuse_group;      /* launches of larger groups fail, whatever the stated limit */
  uint64_t local;             /* bytes of local memory */
  uint64_t allocation;        /* bytes of the largest buffer */
  uint64_t refuse_allocation; /* larger buffers fail, whatever the stated limit */
  uint64_t no_f64;            /* no double precision; programs with it do not build */
  uint64_t gpu;               /* a GPU with local memory, and no memory shared with the host */
  uint64_t cpu;               /* a CPU */
  uint64_t no_device;         /* platforms have no devices */
  uint64_t unavailable;       /* CL_DEVICE_AVAILABLE is false */
  uint64_t no_compiler;       /* CL_DEVICE_COMPILER_AVAILABLE is false */
  uint64_t version;           /* 11: OpenCL 1.1 */
  /* Omit single-byte writes: when oclgrind looks for uninitialised values, it takes the first
   * write's size as the buffer's size. */
  uint64_t no_touch;
} layer_limits;

/* Call number `nth` (from 1, counted from now) of a kind, or of any kind for "any", fails with
 * `error`. With `onward`, so do all later calls. nth 0: no failure. Returns false for an unknown
 * kind. */
typedef bool layer_arm_function(const char *call, int64_t nth, bool onward, int error);

/* Number of failed calls since layer_arm; `last` gets the last call's name, or "". */
typedef int64_t layer_failures_function(const char **last);

/* Number of calls of kind `index` since layer_arm; returns NULL past the last kind. */
typedef const char *layer_count_function(uint32_t index, int64_t *count);

/* Number of the drivers' live objects (contexts, queues, buffers, programs, kernels, events). */
typedef int64_t layer_live_function(char *text, uint64_t text_bytes);

typedef void layer_lie_function(const layer_limits *limits);

/* The layer prepends this text to the source of every program; see builtins.c. */
extern const char layer_builtins[];

#define LAYER_ARM      "layer_arm"
#define LAYER_FAILURES "layer_failures"
#define LAYER_COUNT    "layer_count"
#define LAYER_LIVE     "layer_live"
#define LAYER_LIE      "layer_lie"

#endif
