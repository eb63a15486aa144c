/* SPDX-License-Identifier: MIT */
/* Linux's futex. */
#include "core/platform/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

void futex_wait(_Atomic uint32_t *word, uint32_t expected) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

void futex_wake(_Atomic uint32_t *word, int32_t threads) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}
