/* SPDX-License-Identifier: MIT */
/* Collects all files of a command, and compares each output file with all others. */
#include "programs/fit/file_names.h"

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "programs/fit/side_car.h"

/* A file. If it does not exist: its folder, and its name there. */
typedef struct file_name {
  const char *option; /* the option that names it */
  char path[PATH_MAX];
  bool written;
  bool exists, special;
  dev_t device;
  ino_t inode;
  const char *name;
} file_name;

enum { OWN_NAMES = 24 }; /* more than a command line can name */

typedef struct file_list {
  size_t count, room;
  file_name *names;
} file_list;

/* ---- Collecting ---------------------------------------------------------------------------- */

static void identify(file_name *file) {
  struct stat found;
  file->exists = stat(file->path, &found) == 0;
  if (!file->exists) {
    char folder[PATH_MAX];
    strcpy(folder, file->path);
    file->special = stat(dirname(folder), &found) != 0; /* the error for a missing folder comes
                                                         * when the file is opened */
    const char *slash = strrchr(file->path, '/');
    file->name = slash ? slash + 1 : file->path;
  } else {
    file->special = !S_ISREG(found.st_mode);
  }
  file->device = found.st_dev;
  file->inode = found.st_ino;
}

/* Adds `length` characters of a path, and an ending. */
static void add(file_list *list, const char *option, bool written, const char *path, size_t length,
                const char *ending) {
  if (!path || !strcmp(path, "-") || list->count == list->room ||
      length + strlen(ending) >= PATH_MAX)
    return;
  file_name *file = &list->names[list->count++];
  *file = (file_name){.option = option, .written = written};
  snprintf(file->path, sizeof file->path, "%.*s%s", (int)length, path, ending);
  identify(file);
}

static void add_whole(file_list *list, const char *option, bool written, const char *path) {
  if (path) add(list, option, written, path, strlen(path), "");
}

/* Adds the .yaml side-car of raw pixels and HDF5. */
static void add_side_car(file_list *list, const char *option, bool written, const char *path,
                         const char *format) {
  const char *dot = path ? strrchr(path, '.') : NULL;
  const char *kind = format ? format : dot ? dot + 1 : "";
  if (strcasecmp(kind, "raw") && strcasecmp(kind, "hdf5") && strcasecmp(kind, "h5")) return;
  char *side = path ? side_car_path(path) : NULL;
  add_whole(list, option, written, side);
  free(side);
}

static void collect(file_list *list, const fit_arguments *a) {
  const char *const maps[] = {a->offset.file, a->gain.file, a->gain_adu.file, a->variance.file,
                              a->mask};
  const bool simulate = a->line.command == COMMAND_SIMULATE;
  add_whole(list, "the input", false, a->line.operand);
  add_side_car(list, "the input's side-car", false, a->line.operand, NULL);
  add_whole(list, "--corners", false, a->corners);
  add_whole(list, "--start-file", false, a->start_file);
  if (a->calibration)
    add_whole(list, "--calibration", false, a->calibration);
  else
    add_whole(list, "--astigmatism", false, a->astigmatism);
  add_whole(list, "--images", false, a->images);
  for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) add_whole(list, "a map", false, maps[i]);
  add_whole(list, "--truth", simulate, a->truth);
  add_whole(list, "--output", true, a->output);
  add_side_car(list, "the output's side-car", true, a->output, a->format);
  static const char *const incomplete[] = {".incomplete", ".incomplete.json"};
  for (size_t i = 0; a->output && i < sizeof incomplete / sizeof *incomplete; i++)
    add(list, "the incomplete output", true, a->output, strlen(a->output), incomplete[i]);
  add_whole(list, "--picture", true, a->picture);
  add_whole(list, "--table", true, a->table);
  add_whole(list, "--json", true, a->json);
}

/* ---- Comparing ----------------------------------------------------------------------------- */

static bool are_one(const file_name *a, const file_name *b) {
  return !a->special && !b->special && a->exists == b->exists && a->device == b->device &&
         a->inode == b->inode && (a->exists || !strcmp(a->name, b->name));
}

static int compare(const file_list *list) {
  for (size_t i = 0; i < list->count; i++)
    for (size_t k = 0; k < i; k++) {
      const file_name *a = &list->names[k], *b = &list->names[i];
      if ((!a->written && !b->written) || !are_one(a, b)) continue;
      fit_say("%s and %s are the same file: '%s'", a->option, b->option, b->path);
      return EXIT_USAGE;
    }
  return EXIT_GOOD;
}

static int refuse_standard_output(const fit_arguments *a) {
  const struct {
    const char *option, *path;
  } file[] = {{"--output", a->output},
              {"--picture", a->picture},
              {"--table", a->table},
              {"--truth", a->line.command == COMMAND_SIMULATE ? a->truth : NULL}};
  for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
    if (!file[i].path || strcmp(file[i].path, "-")) continue;
    fit_say("%s: it needs a name; only --json can be '-', standard output", file[i].option);
    return EXIT_USAGE;
  }
  return EXIT_GOOD;
}

int file_names_check(const fit_arguments *a, const char *const *more, size_t count) {
  int result = refuse_standard_output(a);
  if (result) return result;
  file_list list = {.room = OWN_NAMES + count};
  list.names = malloc(list.room * sizeof *list.names);
  if (!list.names) {
    fit_say("out of memory for the names of files");
    return EXIT_FAILED;
  }
  for (size_t i = 0; i < count; i++) add_whole(&list, "a file of the input", false, more[i]);
  collect(&list, a);
  result = compare(&list);
  free(list.names);
  return result;
}
