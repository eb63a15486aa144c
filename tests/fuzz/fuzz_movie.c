/* SPDX-License-Identifier: MIT */
/* Files of images. The first byte selects the format: TIFFs, .npy, or raw pixels with their
 * side-car, whose length is the second byte. Errors inside libtiff and libyaml are theirs. The test
 * checks that their results never lead to an access outside the caller's memory. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "programs/fit/movie_file.h"
#include "fuzz.h"

#define MOST_BYTES ((int64_t)1 << 22) /* limit of read pixels; more would only take time */

static char folder[64], raw[96], yaml[96];

static void remove_folder(void) {
  unlink(raw);
  unlink(yaml);
  rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  snprintf(folder, sizeof folder, "/dev/shm/fuzz_movie_XXXXXX");
  FUZZ_CHECK(mkdtemp(folder));
  snprintf(raw, sizeof raw, "%s/m.raw", folder);
  snprintf(yaml, sizeof yaml, "%s/m.yaml", folder);
  atexit(remove_folder);
  return 0;
}

static void write_file(const char *path, const uint8_t *data, size_t size) {
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  FUZZ_CHECK(file >= 0 && write(file, data, size) == (ssize_t)size && close(file) == 0);
}

static const char *make_files(const uint8_t *data, size_t size) {
  if ((data[0] & 1) == 0) return fuzz_file(data + 2, size - 2);
  size_t side = data[1] < size - 2 ? data[1] : size - 2;
  write_file(yaml, data + 2, side);
  write_file(raw, data + 2 + side, size - 2 - side);
  return raw;
}

static void read_all(movie *file) {
  const movie_info *info = movie_information(file);
  FUZZ_CHECK(info->count >= 0 && info->rows > 0 && info->columns > 0);
  int64_t each = info->rows * info->columns * (int64_t)compute_dtype_size(info->dtype);
  if (each > MOST_BYTES) return;
  unsigned char *pixels = malloc((size_t)each); /* exact size: the sanitizer detects overruns */
  FUZZ_CHECK(pixels);
  int64_t count = info->count < 9 ? info->count : 9;
  for (int64_t i = 0; i < count; i++) {
    movie_read(file, i * 5 % info->count, 1, pixels, NULL);
  }
  free(pixels);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  failure why = {.status = COMPUTE_OK};
  movie *file;
  compute_status status = movie_open(make_files(data, size), &file, &why);
  FUZZ_CHECK((status == COMPUTE_OK) == (file != NULL) && status == why.status);
  FUZZ_CHECK(status != COMPUTE_ERROR_INTERNAL);
  if (file) read_all(file);
  movie_close(file);
  return 0;
}
