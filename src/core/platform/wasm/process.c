/* SPDX-License-Identifier: MIT */
/* Processors and privileges of a WebAssembly program. An engine shows the number of processors and
 * no more, and a program has no other rights than its page. */
#include <emscripten/threading.h>
#include <sched.h>

#include "core/platform/privilege.h"
#include "core/platform/processors.h"

int32_t processors_allowed(void) {
  const int cores = emscripten_num_logical_cores();
  return cores > 1 ? cores : 1;
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

bool privilege_raised(void) {
  return false;
}
