/* SPDX-License-Identifier: MIT */
/* Growing text, and the release of text returned to the caller. */
#include "core/base/text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include "compute/status.h"
#include "core/base/alloc.h"

static int text_reserve(text_buffer *text, size_t bytes) {
  void *data = text->data;
  int result = base_grow(&data, &text->capacity, bytes, 1);
  text->data = data;
  return result;
}

void text_add(text_buffer *text, const char *format, ...) {
  if (text->failed) return;
  va_list list, again;
  va_start(list, format);
  va_copy(again, list);
  int length = vsnprintf(NULL, 0, format, list);
  if (length < 0 || text_reserve(text, text->length + (size_t)length + 1) != 0) {
    text->failed = true;
  } else {
    vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
    text->length += (size_t)length;
  }
  va_end(again);
  va_end(list);
}

void text_release(text_buffer *text) {
  base_release(text->data);
  *text = (text_buffer){0};
}

void compute_text_free(char *text) {
  base_release(text);
}
