/* SPDX-License-Identifier: MIT */
/* Putting the profile's files, which are JSON, into place. */
#ifndef PROFILE_JSON_H
#define PROFILE_JSON_H

#include "base/json.h"
#include "compute/status.h"

/* Writes the text to `path`, replacing a plain file by renaming, and releases it. `what` names it
 * in the error: "the profile". */
compute_status json_save(compute_context *context, const char *operation, const char *what,
                         const char *path, text_buffer *text);

#endif
