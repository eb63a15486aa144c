/* SPDX-License-Identifier: MIT */
/* Memory sizes as readable text. */
#ifndef PROGRAMS_BYTES_H
#define PROGRAMS_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Writes "22.9 GiB" or "512 bytes" to `text`, and returns `text`. */
static inline const char *bytes_text(uint64_t bytes, char *text, size_t text_size) {
  static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = (double)bytes;
  size_t i = 0;
  for (; value >= 1024; i++) value /= 1024;
  const char *name = bytes == 1 ? "byte" : unit[i];
  snprintf(text, text_size, "%.*f %s", i > 0 && value < 100 ? 1 : 0, value, name);
  return text;
}

#endif
