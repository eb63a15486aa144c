/* The tuning file as a whole: a text that only ever grows, a line for each entry. Several processes
 * may add to it at once: every addition is a single write at the file's end. Whatever is not a good
 * line is passed over and counted, so damage costs only the lines that it touches. The last line
 * for a device and class is the one in force. */
#ifndef TUNE_TUNING_FILE_H
#define TUNE_TUNING_FILE_H

#include <sys/stat.h>

#include "tune/entry.h"

/* A larger file is somebody's mistake: this is room for a hundred thousand entries. */
#define TUNING_FILE_LIMIT ((size_t)16 << 20)

/* What makes a file another one, or changed. */
typedef struct tuning_stamp {
  dev_t device;
  ino_t inode;
  off_t size;
  struct timespec modified;
} tuning_stamp;

typedef struct tuning_contents {
  char *data;            /* what the entries point into */
  tuning_entry *entries; /* in the order of the file */
  size_t count, capacity;
  size_t damaged, foreign; /* lines passed over */
  tuning_stamp stamp;      /* all 0 if there is no file */
} tuning_contents;

#define TUNING_REASON_BYTES 256

/* A missing file is an empty one, if `may_miss`. On failure *contents is empty and `reason` of
 * TUNING_REASON_BYTES says why: COMPUTE_ERROR_FILE, _OUT_OF_MEMORY. Sets no error. */
compute_status tuning_file_read(const char *path, bool may_miss, tuning_contents *contents,
                                char *reason);
void tuning_file_release(tuning_contents *contents);

/* The stamp of the file as it is now; all 0 if there is none. */
tuning_stamp tuning_file_stamp(const char *path);

/* Adds whole lines in one write; makes the file and its folder if they are missing. Failures as
 * above. */
compute_status tuning_file_append(const char *path, const char *lines, size_t bytes, char *reason);

/* Marks entries that a later one replaces by setting their identity to NULL. */
compute_status tuning_file_drop_replaced(tuning_contents *contents, char *reason);

#endif
