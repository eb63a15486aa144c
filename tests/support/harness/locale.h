/* SPDX-License-Identifier: MIT */
/* Foreign locales; a test makes those that the machine does not have. */
#ifndef SUPPORT_LOCALE_H
#define SUPPORT_LOCALE_H

#include <locale.h>
#include <stdbool.h>

/* Four that differ: a decimal comma (German), a decimal point of two bytes (Pashto), other rules
 * for upper and lower case (Turkish), and single bytes beyond ASCII (Latin-1). */
extern const char *const test_locales[4];

/* Makes `name` ("de_DE.UTF-8") with localedef in LOCPATH, or in `folder` if that variable is not
 * set. Prints the reason and returns false if the machine cannot make it. */
bool test_locale_make(const char *name, const char *folder);

#endif
