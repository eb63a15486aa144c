/* SPDX-License-Identifier: MIT */
/* Locales of other countries, which a test makes if the machine has not installed them. */
#ifndef SUPPORT_LOCALE_H
#define SUPPORT_LOCALE_H

#include <locale.h>
#include <stdbool.h>

/* The four that differ: a comma (German), a point of two bytes (Pashto), letters whose case changes
 * otherwise (Turkish), letters beyond ASCII in one byte (Latin-1). */
extern const char *const test_locales[4];

/* Makes `name` ("de_DE.UTF-8") by localedef in LOCPATH, or in `folder` if that variable is not set.
 * False where the machine cannot; the reason is printed. */
bool test_locale_make(const char *name, const char *folder);

#endif
