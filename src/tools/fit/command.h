/* The subcommands of compute-fit, and what they share. */
#ifndef TOOLS_FIT_COMMAND_H
#define TOOLS_FIT_COMMAND_H

#include <signal.h>

#include "tools/fit/options.h"
#include "tools/fit/failure.h"

/* Each returns an exit status; what went wrong stands on standard error. */
int command_fit(const fit_arguments *a);
int command_simulate(const fit_arguments *a);
int command_crlb(const fit_arguments *a);
int command_validate(const fit_arguments *a);
int command_bench(const fit_arguments *a);

/* Set by the first Ctrl-C or SIGTERM; the second one ends the program as usual. */
extern volatile sig_atomic_t interrupted;

/* Says what a failure holds and returns EXIT_FAILED. */
int fit_say_failure(const failure *why);

/* Whether the summary as text is wanted: not with --quiet, nor where JSON goes to standard output.
 */
bool wants_text(const fit_arguments *a);

#endif
