/* compute-fit: positions of Gaussian spots in camera images, with uncertainties. One file for each
 * subcommand; this one chooses. */
#include <stdio.h>

#include "tools/fit/command.h"

static void on_interrupt(int signal_number) {
  (void)signal_number;
  interrupted = 1;
}

static int dispatch(const fit_arguments *a) {
  switch (a->command) {
  case COMMAND_FIT: return command_fit(a);
  case COMMAND_SIMULATE: return command_simulate(a);
  case COMMAND_CRLB: return command_crlb(a);
  case COMMAND_VALIDATE: return command_validate(a);
  default: return command_bench(a);
  }
}

int main(int argc, char **argv) {
  static fit_arguments a;
  if (!arguments_parse(argc, argv, &a)) return EXIT_USAGE;
  if (a.help) {
    arguments_print_help(a.command);
    return fflush(stdout) ? EXIT_FAILED : EXIT_GOOD;
  }
  const struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of the write, as a full disk */
  int result = dispatch(&a);
  if (fflush(stdout) && result == EXIT_GOOD) {
    perror("compute-fit: standard output");
    result = EXIT_FAILED;
  }
  return result;
}
