/* SPDX-License-Identifier: MIT */
/* Terminals and progress; see terminal.h. */
#include "tools/terminal.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

enum { BAR_WIDTH = 16, DEFAULT_COLUMNS = 80 };
static const double REFRESH_SECONDS = 0.1;

bool terminal_redraws(FILE *file) {
  const char *term = getenv("TERM");
  return isatty(fileno(file)) && !(term && !strcmp(term, "dumb"));
}

bool terminal_has_colours(FILE *file) {
  const char *refused = getenv("NO_COLOR");
  return terminal_redraws(file) && !(refused && *refused);
}

int terminal_columns(FILE *file) {
  struct winsize size;
  if (!isatty(fileno(file)) || ioctl(fileno(file), TIOCGWINSZ, &size) || size.ws_col < 20)
    return DEFAULT_COLUMNS;
  return size.ws_col;
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

static void draw(progress_bar *bar, double fraction, const char *format, va_list list) {
  char text[512] = "";
  int used = 0;
  if (fraction >= 0) {
    char drawn[BAR_WIDTH + 1];
    for (int i = 0; i < BAR_WIDTH; i++) drawn[i] = i < fraction * BAR_WIDTH ? '#' : '.';
    drawn[BAR_WIDTH] = '\0';
    used = snprintf(text, sizeof text, "[%s] %3.0f%%  ", drawn, 100 * fmin(fraction, 1));
  }
  vsnprintf(text + used, sizeof text - (size_t)used, format, list);
  if (bar->redraws) /* one column less: a full line would wrap */
    fprintf(stderr, "\r%.*s\033[K", terminal_columns(stderr) - 1, text);
  else
    fprintf(stderr, "%s\n", text);
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

/* ---- Words --------------------------------------------------------------------------------- */

char *progress_time(double seconds, char *text, size_t bytes) {
  const long long whole = seconds > 0 && seconds < 1e12 ? (long long)ceil(seconds) : 0;
  if (whole >= 3600)
    snprintf(text, bytes, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  else
    snprintf(text, bytes, "%lld:%02lld", whole / 60, whole % 60);
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
