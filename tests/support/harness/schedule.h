/* SPDX-License-Identifier: MIT */
/* Disturbs the schedules of threads. A test program linked with this file and `-Wl,--wrap=…`
 * (tests/CMakeLists.txt) routes the core's locks and condition variables through it. Threads then
 * pause before and after they lock, unlock, wait and signal. Some waits end without a signal, as
 * POSIX allows. Modules are not affected. */
#ifndef SUPPORT_SCHEDULE_H
#define SUPPORT_SCHEDULE_H

#include <stdint.h>

/* From now on, about one in `often` calls pauses for at most `most` microseconds. 0: none. */
void schedule_disturb(uint64_t seed, int often, int most);

/* Calls `function` once, in the calling thread, after that thread's nth unlock from now on at which
 * it holds no other mutex. nth 0: never. */
void schedule_call_at_unlock(int64_t nth, void (*function)(void *), void *argument);

/* Number of unlocks by the calling thread, counted in the same way. */
int64_t schedule_unlocks(void);

/* Number of locks since the program began, except for mutexes that a thread polls with timed waits.
 * While it grows, some thread makes progress. */
int64_t schedule_locks(void);

#endif
