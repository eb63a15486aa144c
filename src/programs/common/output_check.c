/* SPDX-License-Identifier: MIT */
/* Asks the system whether an output file can be written; see output_check.h. */
#include "programs/common/output_check.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns 0, or the obstacle as an errno. */
static int find_obstacle(const char *path) {
  char folder[PATH_MAX];
  struct stat found;
  if (strlen(path) >= sizeof folder) return ENAMETOOLONG;
  if (stat(path, &found) == 0) {
    if (S_ISDIR(found.st_mode)) return EISDIR;
    return access(path, W_OK) ? errno : 0;
  }
  strcpy(folder, path);
  return access(dirname(folder), W_OK | X_OK) ? errno : 0;
}

int output_check(const option_program *program, const char *option, const char *path) {
  if (!path || !strcmp(path, "-")) return EXIT_GOOD;
  const int code = find_obstacle(path);
  if (!code) return EXIT_GOOD;
  if (code == EISDIR)
    option_say(program, "%s: '%s' is a folder", option, path);
  else
    option_say(program, "%s: '%s' cannot be written: %s", option, path, strerror(code));
  return EXIT_FAILED;
}
