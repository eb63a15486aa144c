/* SPDX-License-Identifier: MIT */
/* Linked into a library: its constructor takes its time, and says in the process's int whose
 * address is in COMPUTE_TEST_SLOW_LOAD, if that is set, when it begins (1) and has ended (2). */
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

__attribute__((constructor)) static void take_time(void) {
  const char *address = getenv("COMPUTE_TEST_SLOW_LOAD");
  if (!address) return;
  int *state = (int *)(uintptr_t)strtoull(address, NULL, 10);
  __atomic_store_n(state, 1, __ATOMIC_SEQ_CST);
  nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
  __atomic_store_n(state, 2, __ATOMIC_SEQ_CST);
}
