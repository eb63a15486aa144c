/* <name>.incomplete.json: how much of an incomplete file counts, and what job it belongs to. */
#ifndef TOOLS_FIT_RESULTS_STATE_H
#define TOOLS_FIT_RESULTS_STATE_H

#include "tools/fit/results_file.h"

typedef struct results_state {
  results_progress progress;
  uint64_t bytes; /* of the incomplete file that count */
  bool finishing; /* all results are in; only the last steps were left to do */
  bool overwrite; /* the job may replace a complete file */
  char job[1024]; /* fingerprint, format and columns: must be the same to go on */
} results_state;

/* Replaces the file at `path` in one step, through <path>.new; it then survives whatever happens.
 */
compute_status results_state_write(const char *path, const results_state *state, failure *why);

/* COMPUTE_ERROR_FILE if there is none (*missing is set), _FORMAT if it makes no sense. */
compute_status results_state_read(const char *path, results_state *state, bool *missing,
                                  failure *why);

#endif
