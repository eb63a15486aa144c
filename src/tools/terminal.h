/* SPDX-License-Identifier: MIT */
/* What the programs know of the terminal they write to, and the bar that shows how far they are. */
#ifndef TOOLS_TERMINAL_H
#define TOOLS_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "compute/export.h"

/* Whether a line of `file` can be drawn again: it is a terminal, and TERM is not "dumb". */
bool terminal_redraws(FILE *file);

/* Whether `file` may have colours: as above, and NO_COLOR is not set. */
bool terminal_has_colours(FILE *file);

/* The width of the terminal; 80 where there is none. */
int terminal_columns(FILE *file);

/* A line on standard error. On a terminal it changes in place; elsewhere, if `every` is set, a line
 * is written at once and then again at this interval in seconds. Zeros are a bar that shows
 * nothing. */
typedef struct progress_bar {
  bool redraws;
  double every; /* seconds; 0: nothing unless on a terminal */
  double drawn; /* when it was last; 0: never */
  bool visible;
} progress_bar;

/* A bar that is shown, or with `quiet` is not. */
progress_bar progress_begin(bool quiet, double every);

/* Whether it is time to draw again; what a caller draws when this is false is not seen. */
bool progress_due(const progress_bar *bar);

/* Draws "[####....]  47%  text", at most ten times a second; a fraction below 0 is not known and
 * leaves only the text. */
void progress_draw(progress_bar *bar, double fraction, const char *format, ...)
    COMPUTE_PRINTF(3, 4);

/* The same whenever it is called: for what takes long from here on. */
void progress_draw_now(progress_bar *bar, double fraction, const char *format, ...)
    COMPUTE_PRINTF(3, 4);

/* Takes the line away, so that others can be written; the next drawing brings it back. */
void progress_hide(progress_bar *bar);

/* "3:07", "1:02:59" in `text`, which is returned. */
char *progress_time(double seconds, char *text, size_t bytes);

/* "12.3 us", "1.234 ms", "2.50 s", or "-" for none, in `text`, which is returned. */
char *duration_text(double seconds, char *text, size_t bytes);

/* "12.3 M", "940" in `text`, which is returned. */
char *progress_number(double number, char *text, size_t bytes);

#endif
