/* compute-tune --list. The library hands out entries as a file, so it writes one and reads that. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/tune.h"

/* Cuts the last word off a line and returns it; NULL if there is none. */
static char *last_word(char *line) {
  char *space = strrchr(line, ' ');
  if (!space) return NULL;
  *space = '\0';
  return space + 1;
}

/* … "backend" "vendor" "model" "driver" class parameters nanoseconds checksum */
static void print_entry(char *line) {
  line[strcspn(line, "\n")] = '\0';
  char *word[4]; /* from the end */
  for (size_t i = 0; i < sizeof word / sizeof *word; i++)
    if (!(word[i] = last_word(line))) return;
  const char *device = strchr(line, '"');
  const double microseconds = strtod(word[1], NULL) / 1e3;
  printf("%-44s %12.1f us  %-40s %s\n", word[3], microseconds,
         strcmp(word[2], "-") ? word[2] : "(the default)", device ? device : "");
}

static int print_file(compute_context *context, const char *entries) {
  char path[4096] = "", *line = NULL;
  size_t capacity = 0, count = 0;
  FILE *file = fopen(entries, "r");
  if (!file) {
    fprintf(stderr, "compute-tune: cannot read '%s'\n", entries);
    return -1;
  }
  compute_tuning_path(context, path, sizeof path);
  for (; getline(&line, &capacity, file) > 0; count++) {
    if (count == 0) printf("%s\n", path);
    print_entry(line);
  }
  if (count == 0) printf("no entries%s%s\n", path[0] ? " in " : "", path);
  free(line);
  fclose(file);
  return 0;
}

int tune_list(compute_context *context, const compute_device *device) {
  char name[] = "/tmp/compute-tune-XXXXXX";
  int made = mkstemp(name), result = -1;
  if (made < 0) {
    perror("compute-tune: no temporary file");
    return -1;
  }
  close(made);
  if (compute_tuning_export(context, name, device))
    fprintf(stderr, "compute-tune: %s\n", compute_error_message(context));
  else
    result = print_file(context, name);
  unlink(name);
  return result;
}
