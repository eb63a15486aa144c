/* What the profile's files share: JSON texts, and putting a file into place. */
#ifndef REPORT_JSON_H
#define REPORT_JSON_H

#include <stdint.h>

#include "base/text.h"
#include "compute/status.h"

/* "words", with everything escaped that must be; invalid UTF-8 becomes U+FFFD. */
void json_string(text_buffer *text, const char *words);

/* "name": "words" */
void json_member(text_buffer *text, const char *name, const char *words);

/* , "name": value, with 0 for what is no finite number. */
void json_number(text_buffer *text, const char *name, double value);
void json_count(text_buffer *text, const char *name, uint64_t value);

/* Writes the text to `path`, replacing a plain file by renaming, and releases it. `what` names it
 * in the error: "the profile". */
compute_status json_save(compute_context *context, const char *operation, const char *what,
                         const char *path, text_buffer *text);

#endif
