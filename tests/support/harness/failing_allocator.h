/* SPDX-License-Identifier: MIT */
/* A host allocator that counts, checks its balance, and fails on request. compute_allocator_set
 * installs it, so no context may be open while it is installed or removed. */
#ifndef SUPPORT_FAILING_ALLOCATOR_H
#define SUPPORT_FAILING_ALLOCATOR_H

#include <stdbool.h>
#include <stdint.h>

/* Installs the allocator. Every request succeeds until `failing_allocator_arm`. */
void failing_allocator_install(void);

/* Restores the C library's allocator. Returns the number of blocks that were never released. */
int64_t failing_allocator_remove(void);

/* Restarts the count at 1; request number `nth` fails. With `onward`, so does every later one. 0:
 * none. */
void failing_allocator_arm(int64_t nth, bool onward);

/* Requests since arming, failures among them, and blocks alive now. */
int64_t failing_allocator_requests(void);
int64_t failing_allocator_failures(void);
int64_t failing_allocator_live(void);

#endif
