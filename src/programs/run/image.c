/* SPDX-License-Identifier: MIT */
/* PNG images as inputs of networks. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "programs/run/run.h"

#ifdef RUN_WITH_PNG
#include <png.h>

/* The image form of an input: its axes (−1: absent) and sizes (−1: any). */
typedef struct image_form {
  int32_t rank, image, channel, row, column;
  int64_t channels, rows, columns;
} image_form;

/* Rows first, then columns, then channels. Values are 0 to 255. */
typedef struct image {
  png_byte *bytes; /* as read, or … */
  float *values;   /* … resized */
  int64_t rows, columns, channels;
} image;

static int refuse(const compute_model_port *port, const char *path, const char *why) {
  char text[256];
  option_say(&run_program, "%s cannot be input '%s', which is %s: %s", path, port->name,
             port_text(port, text, sizeof text), why);
  return EXIT_FAILED;
}

/* ---- What the input takes ------------------------------------------------------------------ */

static bool are_channels(int64_t size) {
  return size == 1 || size == 3 || size == 4;
}

static int64_t size_of(const compute_model_port *port, int32_t axis) {
  return axis < 0 || port->rank < 0 ? -1 : port->size[axis];
}

static int find_form(const model_run *run, const compute_model_port *port, const char *path,
                     image_form *form) {
  const int32_t rank = port->rank < 0 ? 4 : port->rank;
  if (rank < 2 || rank > 4) return refuse(port, path, "an image input has 2 to 4 axes");
  const int32_t first = rank == 4;
  const bool last = run->a->layout == LAYOUT_NHWC ||
                    (run->a->layout == LAYOUT_AUTO && rank > 2 &&
                     are_channels(size_of(port, rank - 1)) && !are_channels(size_of(port, first)));
  *form = (image_form){.rank = rank, .image = first ? 0 : -1, .channel = -1, .column = 1};
  if (rank > 2) {
    form->channel = last ? rank - 1 : first;
    form->row = last ? first : first + 1;
    form->column = form->row + 1;
  }
  form->channels = rank == 2 ? 1 : size_of(port, form->channel);
  if (form->channels < 0) form->channels = 3;
  form->rows = size_of(port, form->row);
  form->columns = size_of(port, form->column);
  if (!are_channels(form->channels))
    return refuse(port, path, "an image input has 1, 3 or 4 channels");
  if (form->image == 0 && size_of(port, 0) > 1)
    return refuse(port, path, "it takes several images");
  return EXIT_GOOD;
}

/* Checks that the input accepts an image of this size, after --resize. */
static int check_size(const model_run *run, const compute_model_port *port, const char *path,
                      const image_form *form, int64_t rows, int64_t columns) {
  const size_value *wanted = &run->a->resize;
  const int64_t made_rows = wanted->rows ? wanted->rows : rows;
  const int64_t made_columns = wanted->rows ? wanted->columns : columns;
  char why[160];
  if ((form->rows < 0 || form->rows == made_rows) &&
      (form->columns < 0 || form->columns == made_columns))
    return EXIT_GOOD;
  snprintf(why, sizeof why,
           "it has %" PRId64 " x %" PRId64 " pixels; --resize %" PRId64 "x%" PRId64 " makes it fit",
           made_rows, made_columns, form->rows < 0 ? made_rows : form->rows,
           form->columns < 0 ? made_columns : form->columns);
  return refuse(port, path, why);
}

/* ---- Reading ------------------------------------------------------------------------------- */

/* The pixels of a PNG may be a thousand times larger than the file, and the input needs four bytes
 * per channel of each pixel. So the size in the header is checked before memory is allocated. */
enum { MOST_SIDE = 32768, MOST_PIXELS = 1 << 26 };

static const char *problem_of_size(const png_image *file) {
  if (file->width > MOST_SIDE || file->height > MOST_SIDE)
    return "it has more than 32768 rows or columns";
  if ((int64_t)file->width * file->height > MOST_PIXELS) return "it has more than 67108864 pixels";
  return NULL;
}

/* Reads the bytes of a PNG and converts them to the channels of `form`. Transparent pixels are
 * blended with black. */
static int read_image(const model_run *run, const compute_model_port *port, const char *path,
                      const image_form *form, image *picture) {
  static const png_uint_32 formats[] = {
      [1] = PNG_FORMAT_GRAY, [3] = PNG_FORMAT_RGB, [4] = PNG_FORMAT_RGBA};
  png_image file = {.version = PNG_IMAGE_VERSION};
  const char *problem = NULL;
  int result = EXIT_GOOD;
  if (!png_image_begin_read_from_file(&file, path))
    problem = file.message;
  else if (!(result = check_size(run, port, path, form, file.height, file.width)))
    problem = problem_of_size(&file);
  *picture = (image){.rows = file.height, .columns = file.width, .channels = form->channels};
  if (!problem && !result) {
    file.format = formats[form->channels];
    picture->bytes = malloc((size_t)file.width * file.height * (size_t)form->channels);
    if (!picture->bytes)
      problem = "out of memory";
    else if (!png_image_finish_read(&file, &(png_color){0}, picture->bytes, 0, NULL))
      problem = file.message;
  }
  if (problem) option_say(&run_program, "cannot read %s: %s", path, problem);
  png_image_free(&file);
  return problem ? EXIT_FAILED : result;
}

/* ---- Sizes --------------------------------------------------------------------------------- */

/* Computes one result element of `inner` values as a weighted sum. The weights form a triangle with
 * a width of two source or two result elements, whichever is larger. The source is `from`, or
 * `bytes` if `from` is NULL. */
static void resample_one(const float *from, const png_byte *bytes, int64_t size, int64_t inner,
                         double centre, double reach, float *to) {
  const int64_t low = (int64_t)fmax(0, ceil(centre - reach - 0.5));
  const int64_t high = (int64_t)fmin((double)size - 1, floor(centre + reach - 0.5));
  double sum = 0;
  memset(to, 0, (size_t)inner * sizeof *to);
  for (int64_t i = low; i <= high; i++) {
    const double weight = fmax(0, 1 - fabs((double)i + 0.5 - centre) / reach);
    for (int64_t k = 0; k < inner; k++) {
      const double value = from ? (double)from[i * inner + k] : bytes[i * inner + k];
      to[k] += (float)(weight * value);
    }
    sum += weight;
  }
  for (int64_t k = 0; k < inner && sum > 0; k++) to[k] = (float)((double)to[k] / sum);
}

/* Resamples [outer, size, inner] to [outer, wanted, inner] in new memory. Returns NULL when out of
 * memory. */
static float *resample(const float *from, const png_byte *bytes, int64_t outer, int64_t size,
                       int64_t inner, int64_t wanted) {
  const double step = (double)size / (double)wanted;
  float *to = malloc((size_t)(outer * wanted * inner) * sizeof *to);
  for (int64_t i = 0; to && i < outer; i++)
    for (int64_t j = 0; j < wanted; j++)
      resample_one(from ? from + i * size * inner : NULL, bytes ? bytes + i * size * inner : NULL,
                   size, inner, ((double)j + 0.5) * step, fmax(1, step),
                   to + (i * wanted + j) * inner);
  return to;
}

static int resize(const size_value *wanted, image *picture) {
  const int64_t channels = picture->channels;
  if (!wanted->rows) return EXIT_GOOD;
  float *wide =
      resample(NULL, picture->bytes, picture->rows, picture->columns, channels, wanted->columns);
  free(picture->bytes);
  picture->bytes = NULL;
  if (wide)
    picture->values =
        resample(wide, NULL, 1, picture->rows, wanted->columns * channels, wanted->rows);
  free(wide);
  picture->rows = wanted->rows;
  picture->columns = wanted->columns;
  return picture->values ? EXIT_GOOD : run_out_of_memory();
}

/* ---- Values -------------------------------------------------------------------------------- */

static double of_channel(const list_value *list, int64_t channel, double fallback) {
  if (list->count == 0) return fallback;
  return list->value[channel < list->count ? channel : list->count - 1];
}

/* Returns (value − mean) × scale, in the input's order of axes. */
static float *arrange(const model_run *run, const image *picture, bool integers, bool last) {
  const int64_t pixels = picture->rows * picture->columns, channels = picture->channels;
  float *values = malloc((size_t)(pixels * channels) * sizeof *values);
  for (int64_t c = 0; values && c < channels; c++) {
    const double mean = of_channel(&run->a->mean, c, 0);
    const double scale = of_channel(&run->a->scale, c, integers ? 1 : 1.0 / 255);
    for (int64_t i = 0; i < pixels; i++) {
      const int64_t at = i * channels + c;
      const double raw = picture->values ? (double)picture->values[at] : picture->bytes[at];
      const double value = (raw - mean) * scale;
      values[last ? i * channels + c : c * pixels + i] =
          (float)(integers ? nearbyint(value) : value);
    }
  }
  return values;
}

static compute_shape shape_of(const image_form *form, const image *picture) {
  compute_shape shape = {.rank = form->rank};
  if (form->image >= 0) shape.size[form->image] = 1;
  if (form->channel >= 0) shape.size[form->channel] = picture->channels;
  shape.size[form->row] = picture->rows;
  shape.size[form->column] = picture->columns;
  return shape;
}

static int make_tensor(const model_run *run, const compute_model_port *port, const image_form *form,
                       const image *picture, compute_tensor **tensor) {
  compute_device *device = compute_default_device(run->context);
  const compute_shape shape = shape_of(form, picture);
  const bool last = form->channel > form->column;
  compute_tensor *numbers = NULL;
  float *values = arrange(run, picture, !is_float(port->dtype), last);
  if (!values) return run_out_of_memory();
  compute_status status = compute_tensor_from_host(device, COMPUTE_F32, shape, values, &numbers);
  if (!status) status = compute_tensor_create(device, port->dtype, shape, tensor);
  if (!status && (status = compute_tensor_copy(*tensor, numbers))) compute_tensor_release(*tensor);
  compute_tensor_release(numbers);
  free(values);
  return status ? run_fail(run->context) : EXIT_GOOD;
}

int image_read(const model_run *run, const compute_model_port *port, const char *path,
               compute_tensor **tensor) {
  image_form form = {0};
  image picture = {0};
  int result = find_form(run, port, path, &form);
  if (!result) result = read_image(run, port, path, &form, &picture);
  if (!result) result = resize(&run->a->resize, &picture);
  if (!result) result = make_tensor(run, port, &form, &picture, tensor);
  free(picture.bytes);
  free(picture.values);
  return result;
}

#else

int image_read(const model_run *run, const compute_model_port *port, const char *path,
               compute_tensor **tensor) {
  (void)run;
  (void)port;
  (void)tensor;
  option_say(&run_program, "cannot read %s: this compute-run was built without libpng", path);
  return EXIT_FAILED;
}

#endif
