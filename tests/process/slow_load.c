/* SPDX-License-Identifier: MIT */
/* Linked into a library: a slow constructor. If COMPUTE_TEST_SLOW_LOAD is set, it is the address of
 * an int in the process; the constructor sets the int to 1 at its start and to 2 at its end. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

__attribute__((constructor)) static void take_time(void) {
  const char *address = getenv("COMPUTE_TEST_SLOW_LOAD");
  if (!address) return;
  _Atomic int *state = (_Atomic int *)(uintptr_t)strtoull(address, NULL, 10);
  atomic_store(state, 1);
  nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
  atomic_store(state, 2);
}
