/* SPDX-License-Identifier: MIT */
/* Sleeping until a word of memory changes. The waits of a process see only its own threads. */
#ifndef PLATFORM_FUTEX_H
#define PLATFORM_FUTEX_H

#include <stdatomic.h>
#include <stdint.h>

/* Sleeps while *word equals `expected`, until a wake-up of this word. May return early. */
void futex_wait(_Atomic uint32_t *word, uint32_t expected);

/* Wakes at most so many threads that sleep on the word. */
void futex_wake(_Atomic uint32_t *word, int32_t threads);

#endif
