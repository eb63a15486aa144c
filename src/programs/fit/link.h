/* SPDX-License-Identifier: MIT */
/* Links the localisations of one emitter in consecutive frames. */
#ifndef TOOLS_FIT_LINK_H
#define TOOLS_FIT_LINK_H

#include "programs/fit/table.h"

/* Sets the group number of each localisation. Groups are numbered in the order of their first
 * localisations. A localisation of a later frame joins a group if three conditions are true: it is
 * within `distance` pixels of the group's mean position, at most `dark` frames without one are
 * between them, and the two are nearer to each other than to any other candidate. A group has one
 * localisation in a frame. `group` has room for all. Returns the number of groups; −1 when out of
 * memory. */
int64_t link_groups(const spots *s, double distance, int64_t dark, int64_t *group);

/* Makes a table with one row for each group. Positions are means weighted by 1/variance, photons
 * are summed, and uncertainties are propagated. Backgrounds, widths and unknown columns are
 * averaged. Frame and ROI are taken from the first localisation. Two columns are added: the number
 * of localisations, and the number of frames from the first to the last. Release `linked` with
 * table_release. */
compute_status link_combine(const table *t, const spots *s, const int64_t *group, int64_t groups,
                            table *linked, failure *why);

#endif
