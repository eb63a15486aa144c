/* SPDX-License-Identifier: MIT */
#ifndef PLATFORM_PRIVILEGE_H
#define PLATFORM_PRIVILEGE_H

#include <stdbool.h>

/* `true` in a program that was started set-user-ID, set-group-ID or with file capabilities. Its
 * environment comes from a less privileged user. Constant for the life of the process, even after
 * it drops its privileges. Same condition as secure_getenv.
 *
 * The function has a separate file, so that tests that link private objects can replace it. */
bool privilege_raised(void);

#endif
