/* SPDX-License-Identifier: MIT */
/* Fresh random numbers for default seeds. */
#include "core/base/random.h"

#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

/* A forked child inherits the counter, and processes may start at the same moment. So the process
 * id and the time are also part of the input. */
uint64_t random_fresh(void) {
  static atomic_uint_fast64_t made;
  const uint64_t place = atomic_fetch_add(&made, 1);
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const uint64_t key = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
  const uint32_t counter[4] = {(uint32_t)place, (uint32_t)(place >> 32), (uint32_t)getpid(),
                               (uint32_t)((uintptr_t)&made >> 12)};
  uint32_t words[4];
  random_block(key, counter, words);
  return (uint64_t)words[1] << 32 | words[0];
}
