/* SPDX-License-Identifier: MIT */
/* Properties of the terminal, and a progress bar. */
#ifndef TOOLS_TERMINAL_H
#define TOOLS_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "compute/export.h"

/* Returns true if a line of `file` can be redrawn: it is a terminal, and TERM is not "dumb". */
bool terminal_redraws(FILE *file);

/* Returns true if `file` may have colours: a line can be redrawn, and NO_COLOR is not set. */
bool terminal_has_colours(FILE *file);

/* Returns the width of the terminal, or 80 if there is none. */
int terminal_columns(FILE *file);

/* Prints one line on standard output, and a newline. Text beyond the terminal's width continues on
 * further lines after `indent` spaces. A line ends at a space. A word that is longer than a line
 * ends after ':' or ',', or otherwise after '/'. The limit is 4 KiB. */
void terminal_line(int indent, const char *format, ...) COMPUTE_PRINTF(2, 3);

/* A line on standard error. On a terminal it is redrawn in place. Elsewhere, if `every` is set, a
 * line is written at once and then at this interval in seconds. A zeroed bar shows nothing. */
typedef struct progress_bar {
  bool redraws;
  double every; /* seconds; 0: only on a terminal */
  double drawn; /* time of the last drawing; 0: never */
  bool visible;
} progress_bar;

/* Starts a bar. With `quiet` it shows nothing. */
progress_bar progress_begin(bool quiet, double every);

/* Returns true if it is time to redraw. An earlier drawing has no effect. */
bool progress_due(const progress_bar *bar);

/* Draws "[####....] 47% text", at most ten times a second. A negative fraction means unknown, and
 * only the text is drawn. */
void progress_draw(progress_bar *bar, double fraction, const char *format, ...)
    COMPUTE_PRINTF(3, 4);

/* As progress_draw, but draws at once. For use before a long operation. */
void progress_draw_now(progress_bar *bar, double fraction, const char *format, ...)
    COMPUTE_PRINTF(3, 4);

/* Erases the line, so that other output can be written. The next drawing restores it. */
void progress_hide(progress_bar *bar);

/* Writes "3:07" or "1:02:59" to `text`, and returns `text`. */
char *progress_time(double seconds, char *text, size_t bytes);

/* Writes "12.3 us", "1.234 ms", "2.50 s", or "-" for no duration to `text`, and returns `text`. */
char *duration_text(double seconds, char *text, size_t bytes);

/* Writes "12.3 M" or "940" to `text`, and returns `text`. */
char *progress_number(double number, char *text, size_t bytes);

#endif
