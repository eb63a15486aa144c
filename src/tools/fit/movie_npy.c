/* Movies in .npy files: the library reads the header, and the images lie dense behind it. */
#include <stdio.h>

#include "tools/fit/movie_private.h"
#include "tools/fit/pixels.h"
#include "compute/io.h"

compute_status movie_npy_open(movie *file, failure *why) {
  compute_npy_info found;
  compute_status status = compute_npy_inspect(NULL, file->path, &found);
  if (status) {
    compute_error error;
    compute_error_get(NULL, &error);
    return failure_set(why, status, error.remedy, "%s", error.message);
  }
  char shape[96];
  compute_shape_text(found.shape, shape, sizeof shape);
  if (found.shape.rank != 3) {
    return failure_set(why, COMPUTE_ERROR_SHAPE, "reshape it and save it again",
                       "%s has the shape %s; images are [n, rows, columns]", file->path, shape);
  }
  if (pixels_dtype(found.dtype) == COMPUTE_DTYPE_NONE) {
    return failure_set(why, COMPUTE_ERROR_DTYPE,
                       "in Python: np.save(path, array.astype(np.float32))",
                       "%s holds %s; images are uint8, uint16, float32 or float64", file->path,
                       compute_dtype_name(found.dtype));
  }
  if (found.fortran_order) {
    return failure_set(why, COMPUTE_ERROR_UNSUPPORTED,
                       "in Python: np.save(path, np.ascontiguousarray(array))",
                       "%s is in Fortran's order: no image of it lies in one piece", file->path);
  }
  status = movie_set_size(file, found.dtype, found.shape.size[0], found.shape.size[1],
                          found.shape.size[2], why);
  if (status) return status;
  file->offset = found.offset;
  file->swapped = found.swapped;
  file->info.format = "NumPy";
  snprintf(file->info.stored, sizeof file->info.stored, "%s%s", compute_dtype_name(found.dtype),
           found.swapped ? ", big-endian" : "");
  movie_use_flat(file);
  return COMPUTE_OK;
}
