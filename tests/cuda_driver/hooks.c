/* SPDX-License-Identifier: MIT */
/* The hooks of compute-conformance (tests/backend/conformance_hooks.h), implemented with the fake
 * driver's functions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/conformance_hooks.h"
#include "stand_in.h"

extern stand_in_configure_function stand_in_configure;
extern stand_in_failures_function stand_in_failures;
extern stand_in_count_function stand_in_count;
extern stand_in_live_function stand_in_live;
extern stand_in_misuse_function stand_in_misuse;

enum { UNKNOWN = 999, ILLEGAL_ADDRESS = 700 };

/* True if the last ordered failure makes contexts impossible to enter: their contents then stay
 * until the process ends. */
static bool stays;

/* A typical error code of this call. */
static int likely_code(const char *call) {
  static const struct {
    const char *call;
    int code;
  } codes[] = {
      {"cuMemAlloc", 2},
      {"cuMemHostAlloc", 2},
      {"cuMemAllocFromPoolAsync", 2},
      {"cuModuleLoadData", 209},
      {"cuLaunchKernel", 701},
      {"cuGetErrorName", 1},
      {"cuPointerGetAttributes", 1},
  };
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (strcmp(codes[i].call, call) == 0) return codes[i].code;
  return UNKNOWN;
}

/* Configures the machine of COMPUTE_TEST_CUDA, plus `order`. */
static bool configure(const char *order) {
  char orders[4096];
  const char *machine = getenv("COMPUTE_TEST_CUDA");
  snprintf(orders, sizeof orders, "%s%s%s", machine ? machine : "",
           machine && machine[0] && order[0] ? "," : "", order);
  return stand_in_configure(orders);
}

static bool arm(const char *call, int64_t nth, bool onward, bool lose) {
  char order[128];
  if (nth == 0) return stand_in_configure("keep=1");
  if (call && !strcmp(call, "kernel") && !lose) return false; /* this always loses the device */
  stays = onward || (call && !strcmp(call, "cuCtxSetCurrent"));
  snprintf(order, sizeof order, "fail=%s:%lld%s:%d", call ? call : "any", (long long)nth,
           onward ? "+" : "",
           lose   ? ILLEGAL_ADDRESS
           : call ? likely_code(call)
                  : UNKNOWN);
  return configure(order);
}

static const char *call_at(uint32_t index, int64_t *count) {
  return stand_in_count(index, count);
}

static int64_t failures(void) {
  return stand_in_failures(NULL);
}

/* New orders end the contexts of lost devices with their contents. */
static int64_t live(char *text, size_t bytes) {
  configure(stays ? "reset=1" : "");
  if (stays) stand_in_live(NULL, 0);
  stays = false;
  return stand_in_live(text, bytes);
}

static int64_t misuse(char *text, size_t bytes) {
  return stand_in_misuse(text, bytes);
}

__attribute__((visibility("default"))) conformance_hooks_function compute_conformance_hooks;
const conformance_hooks *compute_conformance_hooks(void) {
  static const conformance_hooks hooks = {.struct_size = sizeof hooks,
                                          .call_at = call_at,
                                          .arm = arm,
                                          .failures = failures,
                                          .live = live,
                                          .misuse = misuse};
  return &hooks;
}
