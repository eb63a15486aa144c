/* SPDX-License-Identifier: MIT */
/* The same emitter in consecutive frames as one localisation. */
#ifndef TOOLS_FIT_LINK_H
#define TOOLS_FIT_LINK_H

#include "programs/fit/table.h"

/* Gives each localisation the number of its group, in the order of their first localisations, and
 * returns how many there are; −1 when out of memory. One of a later frame joins a group if it lies
 * within `distance` pixels of the group's mean position, if at most `dark` frames without one lie
 * between, and if the two are nearer to each other than to any rival; a group has one localisation
 * in a frame. `group` has room for all. */
int64_t link_groups(const spots *s, double distance, int64_t dark, int64_t *group);

/* Makes a table with a row for each group: positions are means weighted by 1/variance, photons are
 * summed, and the uncertainties follow; backgrounds, widths and what is unknown are averaged; frame
 * and ROI are the first. Two columns are added: the number of localisations, and of frames from the
 * first to the last. Release `linked` with table_release. */
compute_status link_combine(const table *t, const spots *s, const int64_t *group, int64_t groups,
                            table *linked, failure *why);

#endif
