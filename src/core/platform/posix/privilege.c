/* SPDX-License-Identifier: MIT */
/* Privileges of the process, in a separate file so that tests can replace the function. */
#include "core/platform/privilege.h"

#include <sys/auxv.h>

bool privilege_raised(void) {
  return getauxval(AT_SECURE) != 0;
}
