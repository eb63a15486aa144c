/* Words for what the system says of a file. */
#ifndef IO_FILE_ERROR_H
#define IO_FILE_ERROR_H

#include "compute/status.h"

/* COMPUTE_ERROR_FILE with the words of `code`, an errno: "PATH: cannot WHAT: …". FILE_ENDED is
 * COMPUTE_ERROR_FORMAT. */
compute_status file_error(const compute_context *context, const char *operation, const char *path,
                          const char *what, int code);

#endif
