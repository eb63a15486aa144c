/* SPDX-License-Identifier: MIT */
/* The parsed command line of compute-fit, and its table of options. */
#ifndef TOOLS_FIT_OPTIONS_H
#define TOOLS_FIT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/compute.h"
#include "programs/common/option.h"

/* Subcommands, as bits, so that an option may belong to several. */
enum {
  COMMAND_FIT = 1 << 0,
  COMMAND_SIMULATE = 1 << 1,
  COMMAND_CRLB = 1 << 2,
  COMMAND_VALIDATE = 1 << 3,
  COMMAND_BENCH = 1 << 4,
  COMMAND_RENDER = 1 << 5,
  COMMAND_LINK = 1 << 6,
  COMMAND_DRIFT = 1 << 7,
  COMMAND_CALIBRATE = 1 << 8
};

/* Every option of every subcommand. An option that is not given has its default. */
typedef struct fit_arguments {
  option_line line; /* the operand is the input */

  /* Files. "-" is standard output where supported. */
  const char *output, *format, *truth, *json, *picture, *corners, *start_file;
  bool roi_stack, resume, force, quiet;
  const char *units;
  double pixel_size; /* nm */
  double checkpoint; /* seconds */
  const char *outputs;
  bool all_pages;
  int64_t position_number, channel, z_number; /* −1: not given */

  /* Selection of the output. */
  const char *keep, *where;
  list_value region;
  compute_range frame_range;
  double saturation;

  /* The fit's model. */
  int32_t model, profile;
  size_value roi;
  list_value sigma;
  const char *fix, *start, *bounds, *astigmatism, *calibration;
  list_value a, b, z_start;
  double depth, gamma;

  /* Camera. */
  int32_t camera;
  map_value offset, gain, gain_adu, variance;
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
  int32_t dtype; /* index into the choices u16, f32 */
  double x, y;

  double z_step;
  int64_t emitters, blink;
  list_value drift;

  /* Tables of localisations. */
  double zoom, resolution; /* 0: chosen */
  bool histogram;
  double reach; /* --max-distance; 0: chosen */
  int64_t dark;
  int64_t window; /* 0: chosen */
  double max_shift;
  const char *table;
  bool quadratic;
  const char *images;

  /* Devices, threads and batches. */
  const char *device;
  int64_t threads, batch, memory;
  double seconds;
} fit_arguments;

/* The defaults of the options. */
extern const fit_arguments fit_defaults;

extern const option_program fit_program;

/* Writes a line with "compute-fit: " and the message to standard error. */
void fit_say(const char *format, ...) COMPUTE_PRINTF(1, 2);

/* The same with the library's last error as the message; returns EXIT_FAILED. */
int fit_say_error(const char *what, const compute_context *context);

#endif
