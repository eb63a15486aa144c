/* Whether the program has privileges that whoever started it lacks. */
#ifndef BASE_PRIVILEGE_H
#define BASE_PRIVILEGE_H

#include <stdbool.h>

/* True in a program that was started set-user-ID, set-group-ID or with file capabilities: its
 * environment comes from somebody who may do less than it may. Constant while the process lives,
 * also after it has dropped its privileges. The condition of secure_getenv.
 *
 * Alone in its file, so that a test that links the private objects can put its own in its place. */
bool privilege_raised(void);

#endif
