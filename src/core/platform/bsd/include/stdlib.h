/* SPDX-License-Identifier: MIT */
/* Reading numbers in a given locale. */
#ifndef PLATFORM_STDLIB_H
#define PLATFORM_STDLIB_H

#pragma GCC system_header
#include_next <stdlib.h>

#include <xlocale.h>

#endif
