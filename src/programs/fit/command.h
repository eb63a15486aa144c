/* SPDX-License-Identifier: MIT */
/* The subcommands of compute-fit and their common functions: exit statuses, the context and
 * devices, progress. */
#ifndef TOOLS_FIT_COMMAND_H
#define TOOLS_FIT_COMMAND_H

#include <signal.h>

#include "compute/compute.h"
#include "programs/common/terminal.h"
#include "programs/fit/failure.h"
#include "programs/fit/options.h"

/* Each command returns an exit status and reports errors on standard error. */
int command_fit(const fit_arguments *a);
int command_simulate(const fit_arguments *a);
int command_crlb(const fit_arguments *a);
int command_validate(const fit_arguments *a);
int command_bench(const fit_arguments *a);
int command_render(const fit_arguments *a);
int command_link(const fit_arguments *a);
int command_drift(const fit_arguments *a);
int command_calibrate(const fit_arguments *a);

/* Returns true if a file exists, and prints that it does. */
bool fit_refuse_existing(const char *path);

/* Checks the --output of a command that writes a table. Returns an exit status. */
int fit_check_table_output(const fit_arguments *a);

/* The choices of --dtype, in the order of the option. */
extern const compute_dtype fit_dtypes[];

/* Set by the first Ctrl-C or SIGTERM; the second one kills the program as usual. */
extern volatile sig_atomic_t interrupted;

/* Prints a failure and returns EXIT_FAILED. */
int fit_say_failure(const failure *why);

/* Prints a remedy for the last message on a separate line. Prints nothing for "". */
void fit_say_remedy(const char *remedy);

/* Keeps all further messages in `text`, which must be empty, instead of printing them. NULL: prints
 * messages again. */
void fit_keep_words(char *text, size_t room);

/* Returns true if the summary is printed as text: not with --quiet, nor if JSON goes to standard
 * output. */
bool wants_text(const fit_arguments *a);

enum { SESSION_MAX_DEVICES = 32 };

typedef struct session {
  compute_context *context;
  compute_device *device[SESSION_MAX_DEVICES];
  size_t device_count;                  /* ≥ 1 */
  char names[32 * SESSION_MAX_DEVICES]; /* "cpu, cuda:0" */
  int32_t threads;                      /* number of the CPU's threads */
} session;

/* Opens a context with --threads and finds the devices of --device. Returns an exit status. On
 * failure everything is closed again. */
int session_open(const fit_arguments *a, session *s);

/* The two halves of session_open. Call session_close after the first, even if the second fails. */
int session_begin(const fit_arguments *a, session *s);
int session_find_devices(const fit_arguments *a, session *s);
void session_close(session *s);

/* The progress of a run. */
typedef struct fit_progress {
  progress_bar bar;
  const char *verb, *items; /* "fitted", "ROIs" */
  int64_t before;           /* items completed before the run began (--resume) */
  const char *slowest;      /* the stage that limits the speed; NULL: not shown */
} fit_progress;

/* A compute_batch_progress_function; `user` is a fit_progress. Returns false after Ctrl-C. */
bool fit_progress_show(void *user, const compute_batch_progress *progress);

#endif
