/* SPDX-License-Identifier: MIT */
/* Compiles a CUDA kernel's source to an object for the processor. The stand-in of NVRTC makes it;
 * the stand-in of the driver loads it. */
#ifndef CUDA_DRIVER_OBJECT_H
#define CUDA_DRIVER_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IMAGE_MAGIC "stand-in CUBIN\n"

/* The header of a CUBIN or PTX; the C source follows, with a terminating zero. */
typedef struct image {
  char magic[16];
  uint64_t bytes; /* of the whole image */
  int32_t architecture, is_ptx, compiler_major, reserved;
  char object[512]; /* path of the compiled object */
} image;

/* The array <name>_parameters of an object describes the entry `name`: */
enum { ENTRY_PARAMETERS, ENTRY_ITEMS, ENTRY_FIRST_SIZE };

/* Translates a CUDA source to C; the caller frees it. NULL without memory. */
char *object_translate(const char *source);

/* Makes the object unless it exists; `path` gets its name. On failure returns false, and `log` gets
 * the compiler's output. */
bool object_make(const char *source, const char *const *options, int option_count, char *path,
                 size_t path_bytes, char *log, size_t log_bytes);

#endif
