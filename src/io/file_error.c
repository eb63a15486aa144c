/* Words for what the system says of a file. */
#include "io/file_error.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"

compute_status file_error(const compute_context *context, const char *operation, const char *path,
                          const char *what, int code) {
  char words[128];
  if (code == FILE_ENDED) {
    return error_set_native(context, COMPUTE_ERROR_FORMAT, 0, operation,
                            "the file may be truncated: copy or make it again",
                            "%s ends before its header says", path);
  }
  return error_set_native(context, file_status(code), code, operation, NULL, "%s: cannot %s: %s",
                          path, what, strerror_r(code, words, sizeof words));
}
