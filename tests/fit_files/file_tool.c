/* SPDX-License-Identifier: MIT */
/* Calls the readers and writers of fit files, one command each, for test_files.py.
 *
 *   read PATH FIRST COUNT OUT     images to OUT unchanged; prints the file's properties
 *   array PATH DTYPE OUT          array_read
 *   slices PATH OUT               array_reader, f32 of rank 2, three rows at a time
 *   copy PATH OUT                 compute_npy_read, compute_npy_write
 *   stack OUT DTYPE ITEMS         array_writer: items [3, 5] that count up
 *   results OUT MODEL ROIS CORNERS PIXEL_SIZE */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/fit/array_file.h"
#include "programs/fit/movie_file.h"
#include "programs/fit/results_file.h"
#include "compute/compute.h"
#include "fit_files/sample_results.h"

static int fail(const failure *why) {
  fprintf(stderr, "%s: %s\n", compute_status_name(why->status), why->what);
  return 1;
}

static void save(const char *path, const void *data, size_t bytes) {
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) abort();
}

static compute_dtype dtype_of(const char *name) {
  compute_dtype dtype = COMPUTE_F64;
  while (strcmp(compute_dtype_name(dtype), name) != 0) dtype = (compute_dtype)(dtype + 1);
  return dtype;
}

static int read_images(char **argument) {
  failure why = {.status = COMPUTE_OK};
  movie *file;
  if (movie_open(argument[0], &file, &why)) return fail(&why);
  const movie_info *info = movie_information(file);
  printf("%s; %s; %" PRId64 " %" PRId64 " %" PRId64 "; %s\n", info->format,
         compute_dtype_name(info->dtype), info->count, info->rows, info->columns, info->stored);
  int64_t first = atoll(argument[1]), count = atoll(argument[2]);
  size_t bytes = (size_t)(count * info->rows * info->columns) * compute_dtype_size(info->dtype);
  void *pixels = malloc(bytes + 1);
  if (!pixels || movie_read(file, first, count, pixels, &why)) return fail(&why);
  save(argument[3], pixels, bytes);
  free(pixels);
  movie_close(file);
  return 0;
}

static int read_array(char **argument) {
  failure why = {.status = COMPUTE_OK};
  array_data array;
  if (array_read(argument[0], dtype_of(argument[1]), 1, 3, &array, &why)) return fail(&why);
  save(argument[2], array.values, (size_t)array.count * compute_dtype_size(array.dtype));
  free(array.values);
  return 0;
}

static int read_slices(char **argument) {
  failure why = {.status = COMPUTE_OK};
  array_reader *reader;
  compute_shape shape;
  if (array_reader_open(argument[0], COMPUTE_F32, 2, &reader, &shape, &why)) return fail(&why);
  int64_t columns = shape.size[1];
  float *values = malloc((size_t)(shape.size[0] * columns) * 4 + 1);
  for (int64_t i = 0; values && i < shape.size[0]; i += 3) {
    int64_t count = shape.size[0] - i < 3 ? shape.size[0] - i : 3;
    if (array_reader_read(reader, i, count, values + i * columns, &why)) return fail(&why);
  }
  save(argument[1], values, (size_t)(shape.size[0] * columns) * 4);
  free(values);
  array_reader_close(reader);
  return 0;
}

static int copy_array(char **argument) {
  compute_context *context;
  compute_tensor *tensor;
  if (compute_open(&context, &(compute_open_options){.device = "cpu"}) ||
      compute_npy_read(compute_default_device(context), argument[0], &tensor) ||
      compute_npy_write(tensor, argument[1])) {
    fprintf(stderr, "%s\n", compute_error_message(NULL));
    return 1;
  }
  compute_tensor_release(tensor);
  return compute_close(context) != COMPUTE_OK;
}

static int write_stack(char **argument) {
  failure why = {.status = COMPUTE_OK};
  array_writer *writer;
  compute_dtype dtype = dtype_of(argument[1]);
  if (array_writer_create(argument[0], dtype, COMPUTE_SHAPE(3, 5), true, &writer, &why)) {
    return fail(&why);
  }
  for (int64_t i = 0; i < atoll(argument[2]); i++) {
    float f32[15];
    uint16_t u16[15];
    for (int j = 0; j < 15; j++) f32[j] = u16[j] = (uint16_t)(15 * i + j);
    if (array_writer_append(writer, 1, dtype == COMPUTE_U16 ? (void *)u16 : f32, &why)) {
      return fail(&why);
    }
  }
  return array_writer_finish(writer, &why) ? fail(&why) : 0;
}

static int write_results(char **argument) {
  failure why = {.status = COMPUTE_OK};
  compute_fit_problem problem = {.model = (compute_fit_model)atoi(argument[1]),
                                 .rows = 7,
                                 .columns = 7,
                                 .outputs = COMPUTE_FIT_ALL_OUTPUTS,
                                 .sigma = {1.25, 1.5},
                                 .depth = 2};
  int64_t rois = atoll(argument[2]);
  results_options options = {.problem = &problem,
                             .corners = atoi(argument[3]) != 0,
                             .rows = 128,
                             .columns = 256,
                             .pixel_size = atof(argument[4]),
                             .generated_by = "file_tool",
                             .input = "movie.tif",
                             .overwrite = true};
  results_file *file;
  results_progress progress;
  if (!results_format_of_path(argument[0], &options.format)) return 2;
  if (results_file_create(argument[0], &options, &file, &progress, &why)) return fail(&why);
  if (sample_results_append(file, problem.model, 0, 0, rois, 3000, &why)) return fail(&why);
  int64_t frames = options.corners ? sample_results_frames(rois) : rois;
  return results_file_finish(file, frames, &why) ? fail(&why) : 0;
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    int arguments;
    int (*run)(char **argument);
  } commands[] = {{"read", 4, read_images},   {"array", 3, read_array},
                  {"slices", 2, read_slices}, {"copy", 2, copy_array},
                  {"stack", 3, write_stack},  {"results", 5, write_results}};
  for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof *commands; i++) {
    if (strcmp(commands[i].name, argv[1]) == 0 && argc == commands[i].arguments + 2) {
      return commands[i].run(argv + 2);
    }
  }
  return 2;
}
