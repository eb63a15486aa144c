/* SPDX-License-Identifier: MIT */
/* Writing the profile's files, which are JSON. */
#ifndef PROFILE_JSON_H
#define PROFILE_JSON_H

#include "compute/status.h"
#include "core/base/json.h"

/* Writes the text to `path` and releases it. Replaces a regular file by renaming. Errors use `what`
 * as the name of the text: "the profile". */
compute_status json_save(compute_context *context, const char *operation, const char *what,
                         const char *path, text_buffer *text);

#endif
