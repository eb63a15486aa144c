/* SPDX-License-Identifier: MIT */
#ifndef PLATFORM_LOCALE_H
#define PLATFORM_LOCALE_H

#include_next <locale.h>

#include <stdlib.h>

/* Only the locale C is made; reading numbers by it does not depend on the program's locale. */
typedef _locale_t locale_t;
#define LC_ALL_MASK                       0
#define newlocale(categories, name, base) ((void)(base), _create_locale(LC_ALL, name))
#define freelocale(locale)                _free_locale(locale)
#define strtod_l                          platform_strtod_l
#define strtof_l                          platform_strtof_l
double strtod_l(const char *text, char **end, locale_t c_locale);
float strtof_l(const char *text, char **end, locale_t c_locale);

#endif
