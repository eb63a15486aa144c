/* The files of kernels/ as text, and finding in them what a source needs. */
#ifndef GENERATE_KERNEL_TEXT_H
#define GENERATE_KERNEL_TEXT_H

#include "base/text.h"

typedef struct kernel_text {
  const char *name; /* "dialect_c.h" */
  const char *text; /* without comments; zero-terminated */
  size_t bytes;
} kernel_text;

/* Ends with a row without a name. */
extern const kernel_text kernel_texts[];

/* NULL if there is no such file. */
const char *kernel_text_find(const char *name);

/* Appends those functions of kernels/functions_*.h that any of the `count` texts names, and what
 * these use in turn, each after what it uses. False when memory is short. */
bool kernel_text_functions(text_buffer *to, const char *const *texts, size_t count);

#endif
