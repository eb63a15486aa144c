/* SPDX-License-Identifier: MIT */
/* compute-fit: positions of Gaussian spots in camera images, with uncertainties. Each subcommand
 * has its own file. This file only dispatches. */
#include <stdio.h>

#include "programs/fit/spline_file.h"
#include "programs/fit/command.h"
#include "programs/fit/file_names.h"
#include "programs/common/output_check.h"

static void on_interrupt(int signal_number) {
  (void)signal_number;
  interrupted = 1;
}

/* Some commands check for an interrupt. A signal ends the others immediately, because their output
 * files are complete or absent. */
static void take_interrupts(uint32_t command) {
  const struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
  if (!(command & (COMMAND_FIT | COMMAND_SIMULATE | COMMAND_VALIDATE | COMMAND_BENCH))) return;
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

static int dispatch(const fit_arguments *a) {
  switch (a->line.command) {
  case COMMAND_FIT: return command_fit(a);
  case COMMAND_SIMULATE: return command_simulate(a);
  case COMMAND_CRLB: return command_crlb(a);
  case COMMAND_VALIDATE: return command_validate(a);
  case COMMAND_RENDER: return command_render(a);
  case COMMAND_LINK: return command_link(a);
  case COMMAND_DRIFT: return command_drift(a);
  case COMMAND_CALIBRATE: return command_calibrate(a);
  default: return command_bench(a);
  }
}

int main(int argc, char **argv) {
  static fit_arguments a;
  int status;
  a = fit_defaults;
  if (!option_read(&fit_program, argc, argv, &a, &status)) return status;
  take_interrupts(a.line.command);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN); /* an exceeded file-size limit then fails the write, like a full disk */
  int result = EXIT_GOOD;
  if (a.line.command != COMMAND_FIT) { /* fit may run as several processes: see fit_open.c */
    result = file_names_check(&a, NULL, 0);
    if (!result) result = output_check(&fit_program, "--json", a.json);
  }
  if (!result) result = calibration_take(&a);
  if (!result) result = dispatch(&a);
  if (fflush(stdout) && result == EXIT_GOOD) {
    perror("compute-fit: standard output");
    result = EXIT_FAILED;
  }
  return result;
}
