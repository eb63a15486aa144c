/* SPDX-License-Identifier: MIT */
/* The fit that a command line describes: its problem and its camera maps. */
#ifndef TOOLS_FIT_SETTINGS_H
#define TOOLS_FIT_SETTINGS_H

#include "programs/fit/options.h"

/* Sets model, profile, solver, widths, astigmatism, starts, bounds, outputs, the camera's scalar
 * parameters, and rows and columns from --roi. Returns EXIT_GOOD, or EXIT_USAGE or EXIT_FAILED
 * after printing an error. */
int problem_from_arguments(const fit_arguments *a, compute_fit_problem *problem);

/* The index of a model's parameter by name, or −1. Also accepts "N" and "background". */
int32_t problem_parameter(compute_fit_model model, const char *name);

typedef struct camera_maps {
  compute_fit_map offset, gain, variance; /* values NULL: a scalar is used */
  uint8_t *mask;
  int64_t mask_rows, mask_columns;
} camera_maps;

/* Reads the map files of the options and checks them: finite numbers, gains above 0, variances of
 * at least 0. All maps must have the shape `rows` × `columns`; or, if `other_rows` is not 0, all
 * may have the shape `other_rows` × `other_columns` instead. `whose` names the owner of that shape
 * in errors: "the frames". Returns an exit status; call camera_release afterwards in any case. */
int camera_read(const fit_arguments *a, int64_t rows, int64_t columns, int64_t other_rows,
                int64_t other_columns, const char *whose, camera_maps *maps);

void camera_release(camera_maps *maps);

/* The shape of the maps, in rows and columns; false if there are none. */
bool camera_shape(const camera_maps *maps, int64_t *rows, int64_t *columns);

#endif
