/* SPDX-License-Identifier: MIT */
#include "core/base/variable.h"

#include <sys/auxv.h>

bool privilege_raised(void) {
  return getauxval(AT_SECURE) != 0;
}
