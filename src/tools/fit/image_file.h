/* Simulated images on their way to a file: .npy, .tif or .raw with a YAML side-car. */
#ifndef TOOLS_FIT_IMAGE_FILE_H
#define TOOLS_FIT_IMAGE_FILE_H

#include "tools/fit/failure.h"
#include "compute/dtype.h"

typedef struct image_file image_file;

/* Begins a file of `count` images of u16 or f32, in the format of its extension. It is called
 * <path>.incomplete until it is finished. Without `overwrite` a file that is there is refused.
 * TIFFs become BigTIFFs where they need to be. */
compute_status image_file_create(const char *path, compute_dtype dtype, int64_t count, int64_t rows,
                                 int64_t columns, bool overwrite, image_file **file, failure *why);

/* Appends images, dense. */
compute_status image_file_append(image_file *file, int64_t images, const void *pixels,
                                 failure *why);

/* Completes the file and frees `file`, in any case. After a failure there is no file. */
compute_status image_file_finish(image_file *file, failure *why);

/* Removes what was written, and frees. NULL is allowed. */
void image_file_abandon(image_file *file);

#endif
