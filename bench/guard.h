/* SPDX-License-Identifier: MIT */
/* A case that crashes or hangs ends the program, whose last line then names it. An interruption
 * ends it after the case that is running. */
#ifndef BENCH_GUARD_H
#define BENCH_GUARD_H

#include <stdbool.h>

/* Until the next call, a crash or hang is attributed to this case. It hangs if it takes longer than
 * `seconds`, far more than a busy machine would need. */
void guard_case(const char *suite, const char *name, unsigned seconds);

/* No case is running: disables the alarm and restores the signal handlers. */
void guard_end(void);

/* From now on Ctrl-C and SIGTERM are only remembered, except for the second Ctrl-C. */
void guard_take_interrupts(void);
bool guard_interrupted(void);

#endif
