/* SPDX-License-Identifier: MIT */
/* Metadata about the pages of a set of TIFFs. The first byte selects the source: the description of
 * the first page (OME-XML, ImageJ), or an NDTiff.index. Its second bit selects a position, channel
 * and plane. The set has two files of three pages each, a.tif and a_1.tif. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "programs/fit/movie_file.h"
#include "fuzz.h"

enum { PAGES = 3, TAGS = 10, DIRECTORY = 2 + 12 * TAGS + 4, MOST_FRAMES = 64 };

static char folder[64];
static const char *const names[] = {"a.tif", "a_1.tif", "NDTiff.index"};

static const char *path_of(const char *name) {
  static char path[96];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void remove_folder(void) {
  for (int i = 0; i < 3; i++) unlink(path_of(names[i]));
  rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  snprintf(folder, sizeof folder, "/dev/shm/fuzz_movie_set_XXXXXX");
  FUZZ_CHECK(mkdtemp(folder));
  atexit(remove_folder);
  return 0;
}

static void write_file(const char *name, const uint8_t *data, size_t size) {
  int file = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  FUZZ_CHECK(file >= 0 && write(file, data, size) == (ssize_t)size && close(file) == 0);
}

static uint8_t *put(uint8_t *to, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; i++) *to++ = (uint8_t)(value >> (8 * i));
  return to;
}

/* Pages of one u8 pixel; all share the description, which follows them. */
static void write_tiff(const char *name, const uint8_t *text, size_t length) {
  const uint32_t place = 8 + PAGES * DIRECTORY, bytes = (uint32_t)length + 1;
  const uint32_t tags[TAGS][2] = {{256, 1}, {257, 1}, {258, 8}, {259, 1}, {262, 1},
                                  {270, 0}, {273, 0}, {277, 1}, {278, 1}, {279, 1}};
  uint8_t *data = malloc(place + bytes + 4), *to = data;
  FUZZ_CHECK(data);
  to = put(to, 0x002a4949, 4);
  to = put(to, 8, 4);
  for (uint32_t page = 0; page < PAGES; page++) {
    to = put(to, TAGS, 2);
    for (int i = 0; i < TAGS; i++) {
      const bool is_text = tags[i][0] == 270;
      to = put(to, tags[i][0], 2);
      to = put(to, is_text ? 2 : 4, 2);
      to = put(to, is_text ? bytes + 3 : 1, 4);
      to = put(to, is_text || tags[i][0] == 273 ? place : tags[i][1], 4);
    }
    to = put(to, page + 1 < PAGES ? 8 + (page + 1) * DIRECTORY : 0, 4);
  }
  memcpy(to, text, length);
  memset(to + length, 0, 4);
  write_file(name, data, place + bytes + 3);
  free(data);
}

static void read_all(movie *file) {
  const movie_info *info = movie_information(file);
  uint16_t pixel; /* u8 pixels are read as u16 */
  FUZZ_CHECK(info->count > 0 && info->rows == 1 && info->columns == 1);
  for (int64_t i = 0; i < info->count && i < MOST_FRAMES; i++)
    FUZZ_CHECK(movie_read(file, i, 1, &pixel, NULL) == COMPUTE_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return 0;
  const bool index = data[0] & 1, chosen = data[0] & 2;
  const int64_t number = chosen ? 1 : -1;
  write_tiff(names[0], data + 1, index ? 0 : size - 1);
  write_tiff(names[1], data, 0);
  if (index)
    write_file(names[2], data + 1, size - 1);
  else
    unlink(path_of(names[2]));
  const movie_choice choice = {.position = number, .channel = number, .z = number};
  failure why = {.status = COMPUTE_OK};
  movie *file;
  compute_status status = movie_open_choice(path_of(names[0]), &choice, &file, &why);
  FUZZ_CHECK((status == COMPUTE_OK) == (file != NULL) && status == why.status);
  FUZZ_CHECK(status != COMPUTE_ERROR_INTERNAL);
  if (file) read_all(file);
  movie_close(file);
  return 0;
}
