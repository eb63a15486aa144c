/* SPDX-License-Identifier: MIT */
/* From the source of a CUDA kernel to an object that the processor can run; shared by the stand-ins
 * of NVRTC, which makes it, and of the driver, which loads it. */
#ifndef CUDA_DRIVER_OBJECT_H
#define CUDA_DRIVER_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IMAGE_MAGIC "stand-in CUBIN\n"

/* What is handed out as CUBIN or PTX; the C source follows, with a zero. */
typedef struct image {
  char magic[16];
  uint64_t bytes; /* all of it */
  int32_t architecture, is_ptx, compiler_major, reserved;
  char object[512]; /* where it has been compiled to */
} image;

/* What an object says of the entry `name` in its array <name>_parameters: */
enum { ENTRY_PARAMETERS, ENTRY_ITEMS, ENTRY_FIRST_SIZE };

/* The C source for a CUDA source, to be freed; NULL without memory. */
char *object_translate(const char *source);

/* Makes the object unless there is one; `path` gets its name. False with the compiler's words in
 * `log` if that fails. */
bool object_make(const char *source, const char *const *options, int option_count, char *path,
                 size_t path_bytes, char *log, size_t log_bytes);

#endif
