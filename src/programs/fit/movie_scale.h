/* SPDX-License-Identifier: MIT */
/* The pixel size in a movie's metadata. */
#ifndef TOOLS_FIT_MOVIE_SCALE_H
#define TOOLS_FIT_MOVIE_SCALE_H

/* The pixel size in nm, or 0 if there is none or it is implausible for a microscope. The source is
 * `description`, the page's text or NULL (PhysicalSizeX in OME-XML, or ImageJ's unit), otherwise
 * `per_unit`, the page's resolution (0: none), per `unit_nm` (0: no unit). */
double movie_scale(const char *description, double per_unit, double unit_nm);

/* Returns a pixel size in nm if it is plausible for a microscope; otherwise 0. */
double movie_scale_nm(double nm);

#endif
