/* SPDX-License-Identifier: MIT */
/* Reads and appends to tuning files.
 *
 * A full disk, or a process that is killed while it writes, can leave an unterminated line. The
 * line of the next writer would continue it. So a writer begins with a line end if the file lacks
 * one, and the reader searches a damaged line for the beginning of another. */
#include "codegen/tune/tuning.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/file.h"
#include "core/platform/file_part.h"
#include "core/platform/names.h"

static const char line_start[] = "tuning ";

static compute_status file_problem(char *reason, const char *what, const char *path, int error) {
  snprintf(reason, TUNING_REASON_BYTES, "cannot %s '%.150s': %s", what, path, strerror(error));
  return file_status(error);
}

static compute_status memory_problem(char *reason) {
  snprintf(reason, TUNING_REASON_BYTES, "not enough host memory for a tuning file");
  return COMPUTE_ERROR_OUT_OF_MEMORY;
}

static compute_status size_problem(char *reason, const char *path) {
  snprintf(reason, TUNING_REASON_BYTES,
           "'%.150s' has more than %zu MiB, too much for a tuning file", path,
           TUNING_FILE_LIMIT >> 20);
  return COMPUTE_ERROR_FILE;
}

static compute_status kind_problem(char *reason, const char *path) {
  snprintf(reason, TUNING_REASON_BYTES, "'%.150s' is not a regular file", path);
  return COMPUTE_ERROR_FILE;
}

/* ---- Reading ------------------------------------------------------------------------------- */

static tuning_stamp stamp_of(const struct stat *status) {
  return (tuning_stamp){status->st_dev, status->st_ino, status->st_size, status->st_mtim};
}

tuning_stamp tuning_file_stamp(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 ? stamp_of(&status) : (tuning_stamp){0};
}

static bool add_entry(tuning_contents *contents, const tuning_entry *entry) {
  void *entries = contents->entries;
  int grown =
      base_grow(&entries, &contents->capacity, contents->count + 1, sizeof *contents->entries);
  contents->entries = entries;
  if (grown) return false;
  contents->entries[contents->count++] = *entry;
  return true;
}

/* The next position in the line at which an entry could begin, or the end of the line. */
static char *next_start(char *from, char *end) {
  char *found =
      from < end ? memmem(from, (size_t)(end - from), line_start, strlen(line_start)) : NULL;
  return found ? found : end;
}

static bool read_line(tuning_contents *contents, char *line, char *end) {
  bool damaged = false;
  for (char *start = line; start < end; start = next_start(start + 1, end)) {
    tuning_entry entry;
    entry_state state = entry_parse(start, (size_t)(end - start), &entry);
    if (state == ENTRY_GOOD) {
      contents->damaged += damaged;
      return add_entry(contents, &entry);
    }
    if (state == ENTRY_FOREIGN && start == line) {
      contents->foreign++;
      return true;
    }
    damaged = true;
  }
  contents->damaged += damaged;
  return true;
}

static bool read_lines(tuning_contents *contents, size_t bytes) {
  char *line = contents->data, *end = line + bytes;
  while (line < end) {
    char *stop = memchr(line, '\n', (size_t)(end - line));
    if (!stop) stop = end;
    if (!read_line(contents, line, stop)) return false;
    line = stop + 1;
  }
  return true;
}

/* A file that grows meanwhile is read as of the stamp, and a later check detects the change. */
static compute_status read_open(int file, const char *path, tuning_contents *contents,
                                char *reason) {
  struct stat status;
  if (fstat(file, &status) != 0) return file_problem(reason, "read", path, errno);
  if (!S_ISREG(status.st_mode)) return kind_problem(reason, path);
  if (status.st_size > (off_t)TUNING_FILE_LIMIT) return size_problem(reason, path);
  const size_t bytes = (size_t)status.st_size;
  contents->data = base_allocate(bytes + 1, 1); /* one more, for the zero after the last part */
  if (!contents->data) return memory_problem(reason);
  size_t got = 0;
  while (got < bytes) {
    ssize_t n = read(file, contents->data + got, file_part(bytes - got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file_problem(reason, "read", path, errno);
    if (n == 0) break;
    got += (size_t)n;
  }
  contents->stamp = stamp_of(&status);
  return read_lines(contents, got) ? COMPUTE_OK : memory_problem(reason);
}

compute_status tuning_file_read(const char *path, bool may_miss, tuning_contents *contents,
                                char *reason) {
  *contents = (tuning_contents){0};
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    bool missing = errno == ENOENT || errno == ENOTDIR;
    return missing && may_miss ? COMPUTE_OK : file_problem(reason, "open", path, errno);
  }
  compute_status status = read_open(file, path, contents, reason);
  close(file);
  if (status) tuning_file_release(contents);
  return status;
}

void tuning_file_release(tuning_contents *contents) {
  base_release(contents->entries);
  base_release(contents->data);
  *contents = (tuning_contents){0};
}

/* ---- Entries in force ---------------------------------------------------------------------- */

static int compare_keys(const tuning_entry *a, const tuning_entry *b) {
  int order = strcmp(a->identity, b->identity);
  return order ? order : strcmp(a->kernel_class, b->kernel_class);
}

/* Sorts by device and class, and equal ones in the order of the file. */
static int compare_entries(const void *left, const void *right) {
  const tuning_entry *a = *(tuning_entry *const *)left, *b = *(tuning_entry *const *)right;
  int order = compare_keys(a, b);
  return order ? order : (a > b) - (a < b);
}

compute_status tuning_file_drop_replaced(tuning_contents *contents, char *reason) {
  if (contents->count == 0) return COMPUTE_OK;
  tuning_entry **sorted = base_allocate(contents->count, sizeof *sorted);
  if (!sorted) return memory_problem(reason);
  for (size_t i = 0; i < contents->count; i++) sorted[i] = &contents->entries[i];
  qsort(sorted, contents->count, sizeof *sorted, compare_entries);
  for (size_t i = 0; i + 1 < contents->count; i++)
    if (compare_keys(sorted[i], sorted[i + 1]) == 0) sorted[i]->identity = NULL;
  base_release(sorted);
  return COMPUTE_OK;
}

/* ---- Appending ----------------------------------------------------------------------------- */

/* Opens for appending; creates folder and file if necessary. */
static int open_append(const char *path) {
  const int flags = O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK;
  int file = open(path, flags, 0644);
  const char *slash = path_last_separator(path);
  if (file >= 0 || errno != ENOENT || !slash || slash == path) return file;
  char *folder = base_duplicate(path);
  if (!folder) {
    errno = ENOMEM;
    return -1;
  }
  folder[slash - path] = '\0';
  int problem = cache_folder_make(folder);
  base_release(folder);
  if (problem) {
    errno = problem;
    return -1;
  }
  return open(path, flags, 0644);
}

static bool ends_within_line(int file, off_t size) {
  char last = '\n';
  return size > 0 && pread(file, &last, 1, size - 1) == 1 && last != '\n';
}

static compute_status append_open(int file, const char *path, const char *lines, size_t bytes,
                                  char *reason) {
  struct stat status;
  if (fstat(file, &status) != 0) return file_problem(reason, "write", path, errno);
  if (!S_ISREG(status.st_mode)) return kind_problem(reason, path);
  if ((size_t)status.st_size + bytes > TUNING_FILE_LIMIT) return size_problem(reason, path);
  char *text = base_allocate(bytes + 1, 1);
  if (!text) return memory_problem(reason);
  size_t length = 0;
  if (ends_within_line(file, status.st_size)) text[length++] = '\n';
  memcpy(text + length, lines, bytes);
  length += bytes;
  ssize_t written;
  do {
    written = write(file, text, file_part(length));
  } while (written < 0 && errno == EINTR);
  base_release(text);
  if (written < 0) return file_problem(reason, "write", path, errno);
  return (size_t)written == length ? COMPUTE_OK : file_problem(reason, "write", path, ENOSPC);
}

compute_status tuning_file_append(const char *path, const char *lines, size_t bytes, char *reason) {
  int file = open_append(path);
  if (file < 0) return file_problem(reason, "open", path, errno);
  compute_status status = append_open(file, path, lines, bytes, reason);
  if (close(file) != 0 && !status) status = file_problem(reason, "write", path, errno);
  return status;
}
