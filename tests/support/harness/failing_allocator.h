/* SPDX-License-Identifier: MIT */
/* A host allocator that counts, checks its own balance, and fails when told to. Installed with
 * compute_allocator_set, so no context may be open while it is installed or removed. */
#ifndef SUPPORT_FAILING_ALLOCATOR_H
#define SUPPORT_FAILING_ALLOCATOR_H

#include <stdbool.h>
#include <stdint.h>

/* Installs it; until `failing_allocator_arm`, every request succeeds. */
void failing_allocator_install(void);

/* Gives the C library's allocator back. Returns how many blocks were never released. */
int64_t failing_allocator_remove(void);

/* Counts requests from 1 again; the nth fails, and with `onward` every later one too. 0: none. */
void failing_allocator_arm(int64_t nth, bool onward);

/* Requests since arming, those that failed among them, and blocks alive now. */
int64_t failing_allocator_requests(void);
int64_t failing_allocator_failures(void);
int64_t failing_allocator_live(void);

#endif
