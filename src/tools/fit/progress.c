/* How far a run is: a line on standard error that changes in place, if that is a terminal. */

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "tools/fit/command.h"

enum { BAR_WIDTH = 24 };

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

void progress_begin(progress_bar *bar, const char *verb, const char *items, bool quiet) {
  *bar = (progress_bar){.verb = verb, .items = items, .wanted = !quiet && isatty(STDERR_FILENO)};
}

bool progress_show(void *user, const compute_batch_progress *p) {
  progress_bar *bar = user;
  char done[32], rate[32], left[32], drawn[BAR_WIDTH + 1];
  if (!bar->wanted) return !interrupted;
  const double items = (double)(p->items + bar->before);
  bar->shown = true;
  if (p->total > 0) {
    const double fraction = items / (double)(p->total + bar->before);
    for (int i = 0; i < BAR_WIDTH; i++) drawn[i] = i < fraction * BAR_WIDTH ? '#' : '.';
    drawn[BAR_WIDTH] = '\0';
    fprintf(stderr, "\r[%s] %3.0f%%  ", drawn, 100 * fraction);
  } else {
    fputc('\r', stderr);
  }
  fprintf(stderr, "%s %s %s, %s/s", bar->verb, progress_number(items, done, sizeof done),
          bar->items, progress_number(p->rate, rate, sizeof rate));
  if (p->seconds_left >= 0)
    fprintf(stderr, ", %s left", progress_time(p->seconds_left, left, sizeof left));
  if (bar->slowest) fprintf(stderr, ", slowest: %s", bar->slowest);
  fputs("\033[K", stderr);
  fflush(stderr);
  return !interrupted;
}

void progress_end(progress_bar *bar) {
  if (bar->shown) fputs("\r\033[K", stderr);
  bar->shown = false;
}
