/* Pixels as files hold them, turned into what fits take: u8 and u16 into u16, floats into f32. */
#ifndef TOOLS_FIT_PIXELS_H
#define TOOLS_FIT_PIXELS_H

#include <stdbool.h>
#include <stddef.h>

#include "compute/dtype.h"

/* The dtype that pixels of `stored` come as, or COMPUTE_DTYPE_NONE if they are no image's. */
compute_dtype pixels_dtype(compute_dtype stored);

/* Converts `count` pixels. `swapped`: their bytes are in the other order. `target` may be `source`
 * if both dtypes are as large; else they do not overlap. */
void pixels_convert(compute_dtype stored, bool swapped, const void *source, void *target,
                    size_t count);

#endif
