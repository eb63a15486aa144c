/* SPDX-License-Identifier: MIT */
/* Pictures of a result: an image of the localisations, in constant memory, and histograms. */
#ifndef TOOLS_FIT_PICTURE_H
#define TOOLS_FIT_PICTURE_H

#include <stdio.h>

#include "programs/fit/failure.h"
#include "programs/fit/statistics.h"

typedef struct picture picture;

/* The part of the camera's frame that is shown. */
typedef struct picture_view {
  double x, y;          /* the first column and row; 0 for the whole frame */
  double width, height; /* in the camera's pixels */
  double zoom;          /* pixels of the picture per camera pixel */
  double pixel_size;    /* of the camera, nm; 0: unknown */
} picture_view;

#define PICTURE_MOST_PIXELS ((int64_t)1 << 28)

/* A view of whole frames, with the largest zoom that fits a screen. */
picture_view picture_whole(int64_t rows, int64_t columns, double pixel_size);

/* Computes the picture's size; false if it is too large or 0. */
bool picture_size(const picture_view *view, int64_t *rows, int64_t *columns);

/* NULL when out of memory or if the size is invalid. */
picture *picture_create(const picture_view *view);
void picture_release(picture *picture); /* NULL is allowed */

/* Adds a localisation, in the camera's pixels: a Gaussian of unit weight, or one count. */
void picture_add_spot(picture *picture, double x, double y, double sigma_x, double sigma_y);
void picture_count_spot(picture *picture, double x, double y);

/* Weights or counts of the picture's pixels, row-major. */
const float *picture_density(const picture *picture, int64_t *rows, int64_t *columns);

/* The largest of …, 0.5, 1, 2, 5, 10, … that is at most `most` (positive). */
double picture_round_down(double most);

/* Returns true if the program was built with libpng. */
bool picture_available(void);

/* Writes the localisations with a scale bar as PNG. The file gets its name when it is complete. */
compute_status picture_write_png(const picture *picture, const char *path, failure *why);

/* Writes text for XML, without control characters, cut to the given number of letters. */
void plot_escape(FILE *file, const char *text, int letters);

/* Writes histograms of the uncertainties of x and of the p-values as SVG, in the same way. The
 * title is the input's `name`. */
compute_status plot_write_svg(const statistics *s, const char *name, const char *path,
                              failure *why);

#endif
