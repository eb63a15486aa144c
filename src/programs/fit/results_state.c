/* SPDX-License-Identifier: MIT */
/* The state is written under a temporary name, made durable, and renamed. So there is always a
 * valid state, and it never covers bytes that are not durable. */
#include "programs/fit/results_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "programs/common/json_text.h"

#define VERSION 1

/* ---- Writing ------------------------------------------------------------------------------- */

static char *make_text(const results_state *state) {
  json_t *root = json_pack("{s:i, s:I, s:I, s:I, s:I, s:b, s:b, s:o}", "version", VERSION, "bytes",
                           (json_int_t)state->bytes, "rois", (json_int_t)state->progress.rois,
                           "frames", (json_int_t)state->progress.frames, "rows",
                           (json_int_t)state->progress.rows, "finishing", (int)state->finishing,
                           "overwrite", (int)state->overwrite, "job", json_text(state->job));
  char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
  json_decref(root);
  return text;
}

/* Returns 0 or an errno. */
static int write_durably(const char *path, const char *text) {
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return errno;
  int code = 0;
  size_t left = strlen(text);
  while (left > 0 && !code) {
    ssize_t put = write(file, text, left);
    if (put < 0 && errno != EINTR) code = errno;
    if (put > 0) {
      text += put;
      left -= (size_t)put;
    }
  }
  if (!code && fsync(file) != 0 && errno != EINVAL) code = errno;
  if (close(file) != 0 && !code) code = errno;
  return code;
}

compute_status results_state_write(const char *path, const results_state *state, failure *why) {
  char *text = make_text(state), *name = NULL;
  if (!text || asprintf(&name, "%s.new", path) < 0) {
    free(text);
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory to write %s", path);
  }
  int code = write_durably(name, text);
  if (!code && rename(name, path) != 0) code = errno;
  if (code) unlink(name);
  free(name);
  free(text);
  return code ? failure_set_system(why, code, NULL, "cannot write %s", path) : COMPUTE_OK;
}

/* ---- Reading ------------------------------------------------------------------------------- */

static bool take_state(json_t *root, results_state *state) {
  int version, finishing, overwrite;
  json_int_t bytes, rois, frames, rows;
  const char *job;
  if (json_unpack(root, "{s:i, s:I, s:I, s:I, s:I, s:b, s:b, s:s}", "version", &version, "bytes",
                  &bytes, "rois", &rois, "frames", &frames, "rows", &rows, "finishing", &finishing,
                  "overwrite", &overwrite, "job", &job) != 0)
    return false;
  if (version != VERSION || bytes < 0 || rois < 0 || frames < 0 || rows < 0 ||
      strlen(job) >= sizeof state->job)
    return false;
  *state = (results_state){.progress = {rois, frames, rows},
                           .bytes = (uint64_t)bytes,
                           .finishing = finishing != 0,
                           .overwrite = overwrite != 0};
  memcpy(state->job, job, strlen(job) + 1);
  return true;
}

compute_status results_state_read(const char *path, results_state *state, bool *missing,
                                  failure *why) {
  *missing = access(path, F_OK) != 0 && errno == ENOENT;
  if (*missing) return COMPUTE_ERROR_FILE;
  json_error_t error;
  json_t *root = json_load_file(path, 0, &error);
  if (!root) {
    return failure_set(why, COMPUTE_ERROR_FORMAT, "overwrite the incomplete file to start again",
                       "%s cannot be read: %s", path, error.text);
  }
  bool good = take_state(root, state);
  json_decref(root);
  if (good) return COMPUTE_OK;
  return failure_set(why, COMPUTE_ERROR_FORMAT, "overwrite the incomplete file to start again",
                     "%s is not a state file of this version", path);
}
