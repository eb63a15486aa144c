/* SPDX-License-Identifier: MIT */
/* A stand-in for an NVIDIA GPU: libcuda.so.1 and libnvrtc.so.13, found by LD_LIBRARY_PATH, which
 * offer what backends/cuda asks for and run its kernels on the processor.
 *
 * NVRTC puts the C dialect in the place of the CUDA dialect, has the machine's C compiler make an
 * object of it, and calls that a CUBIN; the driver launches it through tests/support/emulator. A
 * stream is a thread of its own, so that a missing wait shows. Device memory lies between guards,
 * holds a pattern when it is new, and cannot be touched once it is freed.
 *
 * What it shall be comes from COMPUTE_TEST_CUDA, or from a test in the same process through the
 * functions below, found by dlsym. Orders have ',' between them:
 *
 *   device_count=2 memory=64M capability=90 driver_version=13000   what the machine has
 *   init=34                   cuInit's answer (34 is the toolkit's stub, which cannot do anything)
 *   no_pools=1                the device has no stream-ordered memory
 *   no_peers=1                the devices cannot reach each other
 *   no_register=1             host memory cannot be pinned
 *   no_map=1                  pinned host memory has no address on the device
 *   unified=1                 the GPU shares the host's memory
 *   delay_copies=5            each copy takes so many milliseconds longer
 *   copy_rate=100             and so many MB/s; copies in one direction share that of their device
 *   delay_kernels=5           each kernel takes so many milliseconds longer, one after the other
 *   hold_kernels=1            kernels that start now do not end until this is 0 again
 *   fail=cuLaunchKernel:3:700 the third call fails with 700; 3+: that and all later ones; "any": of
 *                             whatever kind; "kernel": the third kernel fails while it runs
 *   reset=1                   every context ends, as with its process
 *   counts=/path              how often each call was made is written there when the process ends
 *
 * After a code that ends a device (700 and its like) every call in its context returns it, until
 * the primary context has been given back or new orders come. */
#ifndef CUDA_DRIVER_STAND_IN_H
#define CUDA_DRIVER_STAND_IN_H

#include <stdbool.h>
#include <stdint.h>

/* Takes new orders, and forgets those before, counts and failures. "" is one GPU that works; an
 * order "keep=1" leaves the machine, and a lost device, as they are. False if an order is not
 * understood. */
typedef bool stand_in_configure_function(const char *orders);

/* How many calls have failed on order; the last one's name, or "". */
typedef int64_t stand_in_failures_function(const char **last);

/* How many calls of kind `index` were made; NULL past the last kind. */
typedef const char *stand_in_count_function(uint32_t index, int64_t *count);

/* At most so many delayed copies and kernels were under way at once since the last orders. */
typedef int32_t stand_in_together_function(void);

/* Objects that are alive or were when their context ended; `text` gets what they are. */
typedef int64_t stand_in_live_function(char *text, uint64_t text_bytes);

/* Misuse that was seen: writes outside of memory, calls after a device was lost, kernels that went
 * wrong without having been told to. `text` gets the first. */
typedef int64_t stand_in_misuse_function(char *text, uint64_t text_bytes);

/* For stand-ins of vendor libraries (libraries/): runs `run(data)` in the order of a stream, then
 * frees `data`, which it takes over in every case; whether memory of the device holds all these
 * bytes; notes a misuse; the driver's version, or 0 when no working context is current. */
typedef int32_t stand_in_submit_function(void *stream, void (*run)(void *data), void *data);
typedef bool stand_in_on_device_function(const void *address, uint64_t bytes);
typedef void stand_in_note_function(const char *words);
typedef int32_t stand_in_usable_function(void);

/* Of a vendor library's stand-in: new orders, as in libraries/library.h; how often a call was made
 * since, and under the name "live" how many of its objects there are. */
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
