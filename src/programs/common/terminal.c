/* SPDX-License-Identifier: MIT */
/* Terminals and progress; see terminal.h. */
#include "programs/common/terminal.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "compute/status.h"
#include "programs/common/clock.h"

enum { BAR_WIDTH = 16, BAR_LEAST = 4, DEFAULT_COLUMNS = 80 };
static const double REFRESH_SECONDS = 0.1;

bool terminal_redraws(FILE *file) {
  const char *term = compute_variable_value("TERM");
  return isatty(fileno(file)) && !(term && !strcmp(term, "dumb"));
}

bool terminal_has_colours(FILE *file) {
  return terminal_redraws(file) && !compute_variable_value("NO_COLOR");
}

int terminal_columns(FILE *file) {
  struct winsize size;
  if (!isatty(fileno(file)) || ioctl(fileno(file), TIOCGWINSZ, &size) || size.ws_col < 20)
    return DEFAULT_COLUMNS;
  return size.ws_col;
}

/* ---- Lines ---------------------------------------------------------------------------------- */

static bool begins_character(char c) {
  return ((unsigned char)c & 0xC0) != 0x80;
}

/* Returns the number of bytes of the text that fit on a line of `room` characters. Folders of a
 * path stay whole, and a number stays with its "%". */
static size_t bytes_that_fit(const char *text, size_t room) {
  size_t at = 0, characters = 0, space = 0, joint = 0, slash = 0;
  bool content = false; /* a line cannot break at its leading spaces */
  for (; text[at]; at++) {
    if (begins_character(text[at]) && ++characters > room) break;
    if (text[at] != ' ')
      content = true;
    else if (content && text[at + 1] != '%')
      space = at;
    if (content && strchr(":,", text[at])) joint = at + 1;
    if (content && text[at] == '/') slash = at + 1;
  }
  if (!text[at] || (text[at] == ' ' && text[at + 1] != '%')) return at;
  if (joint <= space) joint = slash;
  if (space > 0) {
    const char *rest = text + space + strspn(text + space, " ");
    if (strcspn(rest, " ") <= room || joint <= space) return space;
  }
  return joint > 0 ? joint : at;
}

void terminal_line(int indent, const char *format, ...) {
  char text[4096];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  const int columns = terminal_columns(stdout);
  size_t room = (size_t)columns;
  for (const char *rest = text;;
       room = (size_t)(columns > 2 * indent ? columns - indent : columns)) {
    const size_t bytes = bytes_that_fit(rest, room);
    printf("%.*s\n", (int)bytes, rest);
    rest += bytes;
    rest += strspn(rest, " ");
    if (!*rest) return;
    printf("%*s", indent, "");
  }
}

/* ---- The bar ------------------------------------------------------------------------------- */

progress_bar progress_begin(bool quiet, double every) {
  if (quiet) return (progress_bar){0};
  return (progress_bar){.redraws = terminal_redraws(stderr), .every = every};
}

bool progress_due(const progress_bar *bar) {
  if (!bar->redraws && bar->every <= 0) return false;
  const double pause = bar->redraws ? REFRESH_SECONDS : bar->every;
  return bar->drawn <= 0 || clock_seconds() - bar->drawn >= pause;
}

/* Writes "[####....] 50% " for a text of `length` characters. The bar shrinks if the line is short.
 * One column stays free, since a full line would wrap. */
static void draw_bar(double fraction, int length, char *text, size_t bytes) {
  char drawn[BAR_WIDTH + 1];
  const int around = 9, room = terminal_columns(stderr) - 1 - length - around;
  const int width = room > BAR_WIDTH ? BAR_WIDTH : room > BAR_LEAST ? room : BAR_LEAST;
  for (int i = 0; i < width; i++) drawn[i] = i < fraction * width ? '#' : '.';
  drawn[width] = '\0';
  snprintf(text, bytes, "[%s] %3.0f%%  ", drawn, 100 * fmin(fraction, 1));
}

static void draw(progress_bar *bar, double fraction, const char *format, va_list list) {
  char text[512], front[BAR_WIDTH + 16] = "";
  const int length = vsnprintf(text, sizeof text, format, list);
  if (fraction >= 0) draw_bar(fraction, length, front, sizeof front);
  if (bar->redraws)
    fprintf(stderr, "\r%s%.*s\033[K", front, terminal_columns(stderr) - 1 - (int)strlen(front),
            text);
  else
    fprintf(stderr, "%s%s\n", front, text);
  fflush(stderr);
  bar->visible = bar->redraws;
  bar->drawn = clock_seconds();
}

void progress_draw(progress_bar *bar, double fraction, const char *format, ...) {
  va_list list;
  if (!progress_due(bar)) return;
  va_start(list, format);
  draw(bar, fraction, format, list);
  va_end(list);
}

void progress_draw_now(progress_bar *bar, double fraction, const char *format, ...) {
  va_list list;
  if (!bar->redraws && !progress_due(bar)) return;
  va_start(list, format);
  draw(bar, fraction, format, list);
  va_end(list);
}

void progress_hide(progress_bar *bar) {
  if (bar->visible) fputs("\r\033[K", stderr);
  fflush(stderr);
  bar->visible = false;
}

/* ---- Texts --------------------------------------------------------------------------------- */

char *progress_time(double seconds, char *text, size_t bytes) {
  const long long whole = seconds > 0 && seconds < 1e12 ? (long long)ceil(seconds) : 0;
  if (whole >= 3600)
    snprintf(text, bytes, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  else
    snprintf(text, bytes, "%lld:%02lld", whole / 60, whole % 60);
  return text;
}

char *duration_text(double seconds, char *text, size_t bytes) {
  if (seconds <= 0)
    snprintf(text, bytes, "-");
  else if (seconds < 1e-3)
    snprintf(text, bytes, "%.1f us", seconds * 1e6);
  else if (seconds < 1)
    snprintf(text, bytes, "%.3f ms", seconds * 1e3);
  else
    snprintf(text, bytes, "%.2f s", seconds);
  return text;
}

char *progress_number(double number, char *text, size_t bytes) {
  static const struct {
    double scale;
    const char *unit;
  } step[] = {{1e9, " G"}, {1e6, " M"}, {1e3, " k"}, {1, ""}};
  size_t i = 0;
  while (i < 3 && number < step[i].scale) i++;
  snprintf(text, bytes, i == 3 ? "%.0f%s" : "%.3g%s", number / step[i].scale, step[i].unit);
  return text;
}
