/* SPDX-License-Identifier: MIT */
/* A stand-in for an NVIDIA GPU: libcuda.so.1 and libnvrtc.so.13, found through LD_LIBRARY_PATH.
 * They export the functions that backends/cuda uses and run its kernels on the processor.
 *
 * The NVRTC stand-in replaces the CUDA dialect by the C dialect, compiles an object with the
 * machine's C compiler, and calls that a CUBIN. The driver launches it through
 * tests/support/emulator. Each stream is a thread, so that a missing wait shows. Device memory has
 * guards on both sides, holds a pattern when it is new, and is inaccessible after it is freed.
 *
 * COMPUTE_TEST_CUDA holds the orders, or a test in the same process gives them through the
 * functions below, found with dlsym. A comma separates orders:
 *
 *   device_count=2 memory=64M capability=90 driver_version=13000   the machine
 *   init=34                   cuInit's result (34: the toolkit's stub, which cannot do anything)
 *   no_pools=1                the device has no stream-ordered memory
 *   no_peers=1                the devices have no peer access
 *   no_register=1             host memory cannot be pinned
 *   no_map=1                  pinned host memory has no address on the device
 *   unified=1                 the GPU shares the host's memory
 *   delay_copies=5            each copy takes this many milliseconds longer
 *   copy_rate=100             MB/s of all copies in one direction of a device
 *   delay_kernels=5           each kernel takes this many milliseconds longer, in sequence
 *   hold_kernels=1            kernels that start now do not end until this is 0 again
 *   fail=cuLaunchKernel:3:700 the third call fails with 700; 3+: it and all later ones
 *                             "any": the third call of any kind
 *                             "kernel": the third kernel fails while it runs
 *   reset=1                   every context ends, as at the end of its process
 *   counts=/path              at the end of the process, this file gets the number of each call
 *
 * After a code that ends a device (700 and similar), every call in its context returns that code,
 * until the primary context is released or new orders arrive. */
#ifndef CUDA_DRIVER_STAND_IN_H
#define CUDA_DRIVER_STAND_IN_H

#include <stdbool.h>
#include <stdint.h>

/* Sets new orders and resets earlier ones, counts and failures. "" is one working GPU. The order
 * "keep=1" keeps the machine and a lost device. Returns false for an unknown order. */
typedef bool stand_in_configure_function(const char *orders);

/* The number of injected failures; `last` gets the last call's name, or "". */
typedef int64_t stand_in_failures_function(const char **last);

/* The number of calls of kind `index`; returns NULL past the last kind. */
typedef const char *stand_in_count_function(uint32_t index, int64_t *count);

/* The maximum of delayed copies and kernels in progress at the same time since the last orders. */
typedef int32_t stand_in_together_function(void);

/* Number of objects that are alive, or were alive when their context ended; `text` gets a
 * description. */
typedef int64_t stand_in_live_function(char *text, uint64_t text_bytes);

/* Number of detected misuses: writes outside memory, calls after a device was lost, kernels that
 * failed without an order. `text` gets the first. */
typedef int64_t stand_in_misuse_function(char *text, uint64_t text_bytes);

/* For stand-ins of vendor libraries (libraries/). submit runs `run(data)` in stream order and then
 * frees `data`, which it owns in every case. on_device returns true if device memory contains all
 * these bytes. The others record a misuse, and return the driver's version, or 0 without a working
 * current context. */
typedef int32_t stand_in_submit_function(void *stream, void (*run)(void *data), void *data);
typedef bool stand_in_on_device_function(const void *address, uint64_t bytes);
typedef void stand_in_note_function(const char *words);
typedef int32_t stand_in_usable_function(void);

/* For a vendor library's stand-in: configure sets new orders (libraries/library.h). count returns
 * the number of calls since then, and under the name "live" the number of objects. */
typedef bool stand_in_library_configure_function(const char *orders);
typedef int64_t stand_in_library_count_function(const char *call);

#define STAND_IN_LIBRARY_CONFIGURE "stand_in_library_configure"
#define STAND_IN_LIBRARY_COUNT     "stand_in_library_count"

#define STAND_IN_CONFIGURE "stand_in_configure"
#define STAND_IN_FAILURES  "stand_in_failures"
#define STAND_IN_COUNT     "stand_in_count"
#define STAND_IN_TOGETHER  "stand_in_together"
#define STAND_IN_LIVE      "stand_in_live"
#define STAND_IN_MISUSE    "stand_in_misuse"

#endif
