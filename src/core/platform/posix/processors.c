/* SPDX-License-Identifier: MIT */
/* Linux's affinity masks. */
#include "core/platform/processors.h"

#include <sched.h>
#include <unistd.h>

int32_t processors_allowed(void) {
  /* The kernel refuses a mask smaller than its internal mask, so the mask grows until it fits. */
  for (size_t cpus = 1024; cpus <= 1 << 20; cpus *= 4) {
    cpu_set_t *set = CPU_ALLOC(cpus);
    if (!set) break;
    size_t bytes = CPU_ALLOC_SIZE(cpus);
    int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 && online < INT32_MAX ? (int32_t)online : 1;
}

int32_t processor_now(void) {
  return sched_getcpu();
}

/* On a virtual machine, the kernel treats CPUs that the host has put to sleep as busy. It wakes a
 * thread on the CPU of the waking thread. The two threads would then share this CPU for
 * milliseconds, until the kernel balances its run queues. */
void processor_leave(int32_t processor) {
  cpu_set_t allowed, others;
  const int cpu = sched_getcpu();
  if (cpu < 0 || cpu >= CPU_SETSIZE || cpu != processor ||
      sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return;
  others = allowed;
  CPU_CLR((size_t)cpu, &others);
  if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0)
    (void)sched_setaffinity(0, sizeof allowed, &allowed);
}

void processor_yield(void) {
  sched_yield();
}
