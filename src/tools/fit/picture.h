/* SPDX-License-Identifier: MIT */
/* Pictures of a result: the localisations as an image, in constant memory, and histograms. */
#ifndef TOOLS_FIT_PICTURE_H
#define TOOLS_FIT_PICTURE_H

#include "tools/fit/failure.h"
#include "tools/fit/statistics.h"

typedef struct picture picture;

/* For localisations in an area of rows × columns camera pixels of `pixel_size` nm (0: unknown).
 * NULL when out of memory. */
picture *picture_create(compute_fit_model model, int64_t rows, int64_t columns, double pixel_size);
void picture_release(picture *picture); /* NULL is allowed */

/* Adds the converged ones of `count` fits, the entries index[0 …] of the arrays, each as a Gaussian
 * as wide as its uncertainty. `corners` may be NULL: then all ROIs are superimposed. results->std
 * may be NULL: points. */
void picture_add(picture *picture, int64_t count, const int64_t *index,
                 const compute_fit_results *results, const int32_t *corners);

/* Whether the program was built with libpng. */
bool picture_available(void);

/* Writes the localisations with a scale bar as PNG, under a temporary name first. */
compute_status picture_write_png(const picture *picture, const char *path, failure *why);

/* Writes histograms of the uncertainties of x and of the p-values as SVG, likewise. `name` of the
 * input is shown above. */
compute_status plot_write_svg(const statistics *s, const char *name, const char *path,
                              failure *why);

#endif
