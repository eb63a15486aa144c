/* SPDX-License-Identifier: MIT */
/* Patterns of names with * and ?. */
#ifndef PLATFORM_FNMATCH_H
#define PLATFORM_FNMATCH_H

#define FNM_NOMATCH 1

#define fnmatch platform_fnmatch
int fnmatch(const char *pattern, const char *text, int flags);

#endif
