/* SPDX-License-Identifier: MIT */
/* Prints the stack of every thread, for tests that detect a hang. */
#ifndef SUPPORT_STACKS_H
#define SUPPORT_STACKS_H

/* Call this before the first thread starts. */
void stacks_prepare(void);

/* Writes the stack of each thread to stderr. Unknown names are addresses for addr2line. */
void stacks_print(void);

#endif
