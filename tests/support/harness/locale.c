/* SPDX-License-Identifier: MIT */
#include "support/harness/locale.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const test_locales[4] = {"de_DE.UTF-8", "ps_AF.UTF-8", "tr_TR.UTF-8",
                                     "de_DE.ISO-8859-1"};

/* Returns true if the C library finds the locale. Do not ask too early: it caches a negative
 * answer. */
static bool exists(const char *name) {
  locale_t made = newlocale(LC_ALL_MASK, name, (locale_t)0);
  if (made) freelocale(made);
  return made != (locale_t)0;
}

bool test_locale_make(const char *name, const char *folder) {
  char path[1024], command[2048];
  const char *dot = strchr(name, '.');
  if (!getenv("LOCPATH")) setenv("LOCPATH", folder, 1);
  mkdir(getenv("LOCPATH"), 0777);
  snprintf(path, sizeof path, "%s/%s/LC_NUMERIC", getenv("LOCPATH"), name);
  snprintf(command, sizeof command, "localedef -i %.*s -f %s '%s/%s' >/dev/null 2>&1",
           (int)(dot - name), name, dot + 1, getenv("LOCPATH"), name);
  const bool made = access(path, R_OK) == 0 || system(command) == 0 || access(path, R_OK) == 0;
  if (made && exists(name)) return true;
  printf("localedef cannot make the locale %s\n", name);
  return false;
}

/* Runs a suite again in the locale of COMPUTE_TEST_LOCALE, like a program that calls setlocale. */
static void __attribute__((constructor)) begin_in_locale(void) {
  const char *name = getenv("COMPUTE_TEST_LOCALE");
  if (!name) return;
  if (!test_locale_make(name, "locales") || !setlocale(LC_ALL, name)) exit(77);
}
