/* SPDX-License-Identifier: MIT */
/* The pixel size that the metadata of a movie name. */
#ifndef TOOLS_FIT_MOVIE_SCALE_H
#define TOOLS_FIT_MOVIE_SCALE_H

/* In nm; 0 if there is none, or none that a microscope's could be. `description` is the page's, or
 * NULL: OME-XML's PhysicalSizeX, or ImageJ's unit. `per_unit` is the page's resolution, 0 without;
 * `unit_nm` its unit, 0 if it has none. */
double movie_scale(const char *description, double per_unit, double unit_nm);

/* A pixel size in nm if a microscope's could be that; otherwise 0. */
double movie_scale_nm(double nm);

#endif
