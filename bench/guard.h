/* SPDX-License-Identifier: MIT */
/* A case that crashes or hangs ends the program, whose last line then names it. */
#ifndef BENCH_GUARD_H
#define BENCH_GUARD_H

/* From here on until the next call: a crash is that of this case, and so is a hang, which is what
 * takes longer than `seconds`, far beyond what a busy machine would need. */
void guard_case(const char *suite, const char *name, unsigned seconds);

/* No case is under way: alarms are off, and signals do what they did before. */
void guard_end(void);

#endif
