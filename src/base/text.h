/* Growing text, for explanations and messages longer than a fixed buffer. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "compute/export.h"

typedef struct text_buffer {
  char *data; /* zero-terminated once anything was added */
  size_t length, capacity;
  bool failed; /* memory ran out; data holds what fitted */
} text_buffer;

void text_add(text_buffer *text, const char *format, ...) COMPUTE_PRINTF(2, 3);
void text_release(text_buffer *text);

#endif
