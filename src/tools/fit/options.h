/* What the command line of compute-fit said, and how it is read. */
#ifndef TOOLS_FIT_OPTIONS_H
#define TOOLS_FIT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/compute.h"

/* Exit statuses. */
enum { EXIT_GOOD = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

/* Subcommands, as bits, so that an option may belong to several. */
enum {
  COMMAND_FIT = 1 << 0,
  COMMAND_SIMULATE = 1 << 1,
  COMMAND_CRLB = 1 << 2,
  COMMAND_VALIDATE = 1 << 3,
  COMMAND_BENCH = 1 << 4
};

typedef struct size_value {
  int32_t rows, columns;
} size_value;

/* A number of the camera, or a file that holds it for every pixel. */
typedef struct camera_value {
  double number;
  const char *file; /* NULL: the number */
} camera_value;

/* A short list of numbers. */
typedef struct list_value {
  double value[COMPUTE_FIT_MAX_Z_STARTS];
  int32_t count;
} list_value;

/* Every option of every subcommand; what was not given holds its default. */
typedef struct fit_arguments {
  uint32_t command; /* one of COMMAND_… */
  uint64_t given;   /* bit i: row i of the table of options was on the command line */
  bool help;
  /* Of the options that change a result, as they were written; in whatever order. */
  uint64_t fingerprint;

  /* Files. "-" is standard output where that makes sense. */
  const char *input, *output, *format, *truth, *json, *picture, *corners, *start_file;
  bool roi_stack, resume, force, quiet;
  double pixel_size; /* nm */
  double checkpoint; /* seconds */
  const char *outputs;

  /* What is fitted. */
  int32_t model, profile;
  size_value roi;
  list_value sigma;
  const char *fix, *start, *bounds, *astigmatism;
  list_value a, b, z_start;
  double depth, gamma;

  /* Camera. */
  int32_t camera;
  camera_value offset, gain, gain_adu, variance;
  double em_gain;
  const char *mask;

  /* Solver. */
  int32_t solver;
  int64_t iterations;
  double epsilon;

  /* Finding spots. */
  bool find;
  double threshold;
  int64_t distance, limit;
  int32_t filter;

  /* Simulation and bounds. */
  int64_t rois, frames, seed;
  bool movie, noise_free;
  size_value size;
  double spots;
  compute_range photons, background, position, z, sigma_range;
  int32_t dtype; /* place in fit_dtypes */
  double x, y;

  /* Where and how. */
  const char *device;
  int64_t threads, batch, memory;
  double seconds;
} fit_arguments;

/* The choices of --dtype, in its order. */
extern const compute_dtype fit_dtypes[];

/* Reads argv[1] … argv[argc − 1] and sets every default. false when it was wrong: standard error
 * then has the option, what was wrong and what is allowed. */
bool arguments_parse(int argc, char **argv, fit_arguments *a);

/* Whether option `name` ("--roi") was on the command line. */
bool arguments_given(const fit_arguments *a, const char *name);

/* The help of a subcommand, or with 0 the program's, on standard output. */
void arguments_print_help(uint32_t command);

/* "fit", "simulate", … */
const char *arguments_command_name(uint32_t command);

/* Writes "compute-fit: " and the message as a line to standard error. */
void fit_say(const char *format, ...) COMPUTE_PRINTF(1, 2);

/* The same with a library's last error in place of a message; returns EXIT_FAILED. */
int fit_say_error(const char *what, const compute_context *context);

#endif
