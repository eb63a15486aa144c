/* Whole reads and writes of a descriptor: interruptions and short counts are dealt with. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/status.h"

#define FILE_ENDED (-1) /* the file ends before so many bytes */

/* The status for an errno of a file's: COMPUTE_ERROR_OUT_OF_MEMORY for ENOMEM, else
 * COMPUTE_ERROR_FILE. */
static inline compute_status file_status(int code) {
  return code == ENOMEM ? COMPUTE_ERROR_OUT_OF_MEMORY : COMPUTE_ERROR_FILE;
}

/* 0, FILE_ENDED or an errno. */
int file_read(int descriptor, void *data, size_t bytes);

/* The same from a place in the file, which may be past its end. */
int file_read_at(int descriptor, uint64_t offset, void *data, size_t bytes);

/* 0 or an errno; part of the data may have been written then. */
int file_write(int descriptor, const void *data, size_t bytes);

#endif
