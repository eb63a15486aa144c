/* SPDX-License-Identifier: MIT */
/* See side_car.h. */
#include "programs/fit/side_car.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *side_car_path(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  const char *dot = strrchr(name, '.');
  const size_t length = dot ? (size_t)(dot - path) : strlen(path);
  char *side = NULL;
  return asprintf(&side, "%.*s.yaml", (int)length, path) < 0 ? NULL : side;
}

compute_status side_car_check(const char *path, failure *why) {
  char *side = side_car_path(path);
  compute_status status = COMPUTE_OK;
  if (!side)
    status = failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory to write %s", path);
  else if (access(side, F_OK) == 0 && access(path, F_OK) != 0)
    status =
        failure_set(why, COMPUTE_ERROR_FILE, NULL, "%s exists; use --force to overwrite it", side);
  free(side);
  return status;
}
