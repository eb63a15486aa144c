/* SPDX-License-Identifier: MIT */
/* Privileges of the process, in a separate file so that tests can replace the function. */
#include "core/platform/privilege.h"

#include <unistd.h>

bool privilege_raised(void) {
  return issetugid() != 0;
}
