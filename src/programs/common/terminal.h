/* SPDX-License-Identifier: MIT */
/* Properties of the terminal, and the progress bar. */
#ifndef TOOLS_TERMINAL_H
#define TOOLS_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "compute/export.h"

/* Whether a line of `file` can be redrawn: it is a terminal, and TERM is not "dumb". */
bool terminal_redraws(FILE *file);

/* Whether `file` may have colours: as above, and NO_COLOR is not set. */
bool terminal_has_colours(FILE *file);

/* The width of the terminal; 80 where there is none. */
int terminal_columns(FILE *file);

/* Prints one line on standard output, and a newline. What does not fit into the terminal's width
 * continues on further lines after `indent` spaces. A line ends at a space; in a word that is
 * longer than a line after ':' or ',', or else after '/'. At most 4 KiB. */
void terminal_line(int indent, const char *format, ...) COMPUTE_PRINTF(2, 3);

/* A line on standard error. On a terminal it is redrawn in place; elsewhere, if `every` is set, a
 * line is written at once and then at this interval in seconds. A zeroed bar shows nothing. */
typedef struct progress_bar {
  bool redraws;
  double every; /* seconds; 0: nothing unless on a terminal */
  double drawn; /* when it was last drawn; 0: never */
  bool visible;
} progress_bar;

/* A bar that is shown, or with `quiet` is not. */
progress_bar progress_begin(bool quiet, double every);

/* Whether it is time to redraw; drawing earlier has no effect. */
bool progress_due(const progress_bar *bar);

/* Draws "[####....] 47% text", at most ten times a second; a negative fraction means unknown and
 * leaves only the text. */
void progress_draw(progress_bar *bar, double fraction, const char *format, ...)
    COMPUTE_PRINTF(3, 4);

/* The same, but draws at once: before something that takes long. */
void progress_draw_now(progress_bar *bar, double fraction, const char *format, ...)
    COMPUTE_PRINTF(3, 4);

/* Erases the line, so that other output can be written; the next drawing restores it. */
void progress_hide(progress_bar *bar);

/* "3:07", "1:02:59" in `text`, which is returned. */
char *progress_time(double seconds, char *text, size_t bytes);

/* "12.3 us", "1.234 ms", "2.50 s", or "-" for none, in `text`, which is returned. */
char *duration_text(double seconds, char *text, size_t bytes);

/* "12.3 M", "940" in `text`, which is returned. */
char *progress_number(double number, char *text, size_t bytes);

#endif
