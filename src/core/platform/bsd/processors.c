/* SPDX-License-Identifier: MIT */
/* Processors without affinity masks, which macOS does not have. */
#include "core/platform/processors.h"

#include <sched.h>
#include <unistd.h>

int32_t processors_allowed(void) {
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 && online < INT32_MAX ? (int32_t)online : 1;
}

int32_t processor_now(void) {
  return -1;
}

void processor_leave(int32_t processor) {
  (void)processor;
}

void processor_yield(void) {
  sched_yield();
}
