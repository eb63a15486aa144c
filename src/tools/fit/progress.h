/* How far a run is, on the terminal. */
#ifndef TOOLS_FIT_PROGRESS_H
#define TOOLS_FIT_PROGRESS_H

#include "compute/compute.h"

typedef struct progress_bar {
  const char *verb, *items; /* "fitted", "ROIs" */
  int64_t before;           /* items that were done already when the run began (--resume) */
  const char *slowest;      /* the part that holds up the others; NULL: not said */
  bool shown;               /* a bar stands on the line */
  bool wanted;              /* standard error is a terminal, and not --quiet */
} progress_bar;

void progress_begin(progress_bar *bar, const char *verb, const char *items, bool quiet);

/* A compute_batch_progress_function; `user` is a progress_bar. false after Ctrl-C. */
bool progress_show(void *user, const compute_batch_progress *progress);

/* Takes the bar away. */
void progress_end(progress_bar *bar);

/* "3:07", "1:02:59" in `text`, which is returned. */
char *progress_time(double seconds, char *text, size_t bytes);

/* "12.3 M", "940" in `text`, which is returned. */
char *progress_number(double number, char *text, size_t bytes);

#endif
