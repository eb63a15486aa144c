/* SPDX-License-Identifier: MIT */
/* Other schedules than the machine would choose: a test program that links this with
 * `-Wl,--wrap=…` (tests/CMakeLists.txt) has its core's locks and condition variables pass through
 * here. Threads then pause before and after they lock, unlock, wait and signal, and waits end
 * without a signal now and then, as POSIX allows. Modules are not affected. */
#ifndef SUPPORT_SCHEDULE_H
#define SUPPORT_SCHEDULE_H

#include <stdint.h>

/* From now on about one in `often` of these calls pauses, at most so many microseconds. 0: none. */
void schedule_disturb(uint64_t seed, int often, int most);

/* Calls `function` once, in the calling thread, when that has unlocked a mutex for the nth time
 * from now on and holds no other one. nth 0: never. */
void schedule_call_at_unlock(int64_t nth, void (*function)(void *), void *argument);

/* Unlocks by the calling thread, as counted there. */
int64_t schedule_unlocks(void);

/* Mutexes locked since the program began, but for those that a thread polls with timed waits: while
 * it grows, some thread is moving. */
int64_t schedule_locks(void);

#endif
