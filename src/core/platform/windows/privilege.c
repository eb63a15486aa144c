/* SPDX-License-Identifier: MIT */
/* Privileges of the process, in a separate file so that tests can replace the function. A program
 * of Windows never has more rights than who starts it: the system asks that person first. */
#include "core/platform/privilege.h"

bool privilege_raised(void) {
  return false;
}
