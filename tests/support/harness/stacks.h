/* SPDX-License-Identifier: MIT */
/* Where every thread of the process is, for tests that find one that does not end. */
#ifndef SUPPORT_STACKS_H
#define SUPPORT_STACKS_H

/* Before the first thread is started. */
void stacks_prepare(void);

/* Writes the stack of each thread to stderr, as addresses for addr2line where names are not known.
 */
void stacks_print(void);

#endif
