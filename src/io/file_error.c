/* Words for what the system says of a file, and names as they can be shown. */
#include "io/file_error.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "io/tensor_file.h"

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

const char *tensor_file_show(const char *name, char text[SHOWN_NAME_BYTES]) {
  size_t used = 0;
  const char *at = name;
  while (*at) {
    size_t length = utf8_length(at);
    if (used + (length ? length : 1) > SHOWN_NAME_BYTES - 4) break;
    bool plain = length > 1 || (length == 1 && *at >= ' ' && *at != 127);
    if (!plain) length = 1;
    memcpy(text + used, plain ? at : "?", length);
    used += length;
    at += length;
  }
  memcpy(text + used, *at ? "..." : "", *at ? 4 : 1);
  return text;
}
