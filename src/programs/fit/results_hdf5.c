/* SPDX-License-Identifier: MIT */
/* HDF5 and its YAML side-car, in Picasso's layout: one dataset `locs` of records, and a file with
 * the size of the images.
 *
 * An HDF5 file is lost if its program is killed while writing it. So results are first collected as
 * records in the incomplete file, and copied to HDF5 at the end. Both files get their names when
 * they are complete, the side-car first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "programs/fit/results_private.h"
#include "programs/fit/side_car.h"
#include "programs/fit/whole_file.h"

/* Returns true if `path` is the side-car of the raw input movie. */
static bool is_the_inputs(const results_file *file, const char *path) {
  size_t stem = strlen(path) - 5, length = strlen(file->input);
  return length == stem + 4 && strncmp(file->input, path, stem) == 0;
}

compute_status results_hdf5_check(const results_file *file, failure *why) {
  char *side = side_car_path(file->path);
  if (!side)
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory to write %s",
                       file->path);
  compute_status status = COMPUTE_OK;
  if (access(side, F_OK) == 0 && is_the_inputs(file, side))
    status = failure_set(why, COMPUTE_ERROR_FILE,
                         "choose another name for the results, such as movie_locs.hdf5",
                         "the side-car %s of the results would replace that of the input", side);
  else if (!file->options.overwrite && access(file->incomplete, F_OK) != 0)
    status = side_car_check(file->path, why);
  free(side);
  return status;
}

#ifdef FIT_WITH_HDF5

#include <errno.h>
#include <hdf5.h>
#include <inttypes.h>

#include "programs/common/json_text.h"
#include "programs/fit/hdf5_words.h"

#define CHUNK_RECORDS 16384

bool results_hdf5_built_in(void) {
  return true;
}

/* ---- HDF5 ---------------------------------------------------------------------------------- */

static compute_status fail_hdf5(const char *path, const char *doing, failure *why) {
  char words[HDF5_WORDS];
  return failure_set(why, COMPUTE_ERROR_FILE, "the results are in the incomplete file: resume it",
                     "cannot %s %s: %s", doing, path, hdf5_words(words, "libhdf5 gives no reason"));
}

static hid_t element_type(column_type type) {
  switch (type) {
  case TYPE_I64: return H5T_NATIVE_INT64;
  case TYPE_I32: return H5T_NATIVE_INT32;
  case TYPE_U32: return H5T_NATIVE_UINT32;
  case TYPE_U8: return H5T_NATIVE_UINT8;
  case TYPE_F32: return H5T_NATIVE_FLOAT;
  case TYPE_F64: return H5T_NATIVE_DOUBLE;
  }
  return H5T_NATIVE_FLOAT;
}

/* The type of a packed record, or a negative number. */
static hid_t record_type(const column_set *set) {
  hid_t type = H5Tcreate(H5T_COMPOUND, set->record_bytes);
  size_t offset = 0;
  for (int32_t i = 0; i < set->count && type >= 0; i++) {
    const column *c = &set->columns[i];
    if (H5Tinsert(type, c->name, offset, element_type(c->type)) < 0) {
      H5Tclose(type);
      return -1;
    }
    offset += column_type_bytes(c->type);
  }
  return type;
}

/* An empty dataset that can grow, or a negative number. */
static hid_t make_dataset(hid_t file, hid_t type) {
  hsize_t none = 0, any = H5S_UNLIMITED, chunk = CHUNK_RECORDS;
  hid_t space = H5Screate_simple(1, &none, &any);
  hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  /* No time stamps: the same results must give the same bytes. */
  if (creation >= 0) H5Pset_obj_track_times(creation, false);
  hid_t set = -1;
  if (space >= 0 && creation >= 0 && H5Pset_chunk(creation, 1, &chunk) >= 0) {
    set = H5Dcreate2(file, "locs", type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  }
  if (creation >= 0) H5Pclose(creation);
  if (space >= 0) H5Sclose(space);
  return set;
}

static bool write_records(hid_t set, hid_t type, hsize_t first, hsize_t count,
                          const void *records) {
  hsize_t all = first + count;
  if (H5Dset_extent(set, &all) < 0) return false;
  hid_t space = H5Dget_space(set), memory = H5Screate_simple(1, &count, NULL);
  bool good = space >= 0 && memory >= 0 &&
              H5Sselect_hyperslab(space, H5S_SELECT_SET, &first, NULL, &count, NULL) >= 0 &&
              H5Dwrite(set, type, memory, space, H5P_DEFAULT, records) >= 0;
  if (memory >= 0) H5Sclose(memory);
  if (space >= 0) H5Sclose(space);
  return good;
}

static compute_status read_records(const results_file *file, void *records, size_t bytes,
                                   uint64_t offset, failure *why) {
  char *next = records;
  while (bytes > 0) {
    ssize_t got = pread(file->descriptor, next, bytes, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return failure_set_system(why, got < 0 ? errno : EIO, NULL, "cannot read %s",
                                file->incomplete);
    }
    next += got;
    offset += (uint64_t)got;
    bytes -= (size_t)got;
  }
  return COMPUTE_OK;
}

/* Copies all records into the dataset. */
static compute_status copy_records(const results_file *file, const char *path, hid_t set,
                                   hid_t type, failure *why) {
  size_t size = file->columns.record_bytes;
  uint64_t rows = (uint64_t)file->now.rows, offset = file->written - rows * size;
  void *records = malloc(CHUNK_RECORDS * size);
  if (!records)
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory to write %s", path);
  compute_status status = COMPUTE_OK;
  for (uint64_t row = 0; row < rows && !status; row += CHUNK_RECORDS) {
    uint64_t count = rows - row < CHUNK_RECORDS ? rows - row : CHUNK_RECORDS;
    status = read_records(file, records, (size_t)count * size, offset + row * size, why);
    if (!status && !write_records(set, type, row, count, records))
      status = fail_hdf5(path, "write", why);
  }
  free(records);
  return status;
}

static compute_status write_hdf5(const results_file *file, const char *path, failure *why) {
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* libhdf5 would print */
  hid_t target = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  if (target < 0) return fail_hdf5(path, "create", why);
  compute_status status = COMPUTE_OK;
  hid_t type = record_type(&file->columns);
  hid_t set = type >= 0 ? make_dataset(target, type) : -1;
  status = set >= 0 ? copy_records(file, path, set, type, why) : fail_hdf5(path, "write", why);
  if (set >= 0 && H5Dclose(set) < 0 && !status) status = fail_hdf5(path, "write", why);
  if (type >= 0) H5Tclose(type);
  if (H5Fclose(target) < 0 && !status) status = fail_hdf5(path, "write", why);
  return status;
}

/* ---- Side-car ------------------------------------------------------------------------------ */

/* Writes a text in YAML's double quotes, which follow JSON's rules. */
static void put_text(FILE *yaml, const char *key, const char *text) {
  json_t *string = json_text(text);
  char *quoted = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
  if (quoted) fprintf(yaml, "%s: %s\n", key, quoted);
  free(quoted);
  json_decref(string);
}

static void put_movie(const results_file *file, int64_t frames, FILE *yaml) {
  if (file->input[0]) put_text(yaml, "File", file->input);
  fprintf(yaml, "Frames: %" PRId64 "\nHeight: %" PRId64 "\nWidth: %" PRId64 "\n", frames,
          file->options.rows, file->options.columns);
}

static void put_fit(const results_file *file, FILE *yaml) {
  const compute_fit_problem *p = &file->problem;
  put_text(yaml, "Generated by", file->generated_by);
  if (p->rows == p->columns) fprintf(yaml, "Box Size: %d\n", (int)p->rows);
  fprintf(yaml, "Fit method: %s\n",
          p->solver == COMPUTE_FIT_LEAST_SQUARES ? "least squares" : "maximum likelihood");
  if (file->options.pixel_size > 0) fprintf(yaml, "Pixelsize: %.9g\n", file->options.pixel_size);
}

static compute_status write_side_car(const results_file *file, int64_t frames, failure *why) {
  whole_file yaml;
  char *path = side_car_path(file->path);
  if (!path)
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory to write %s",
                       file->path);
  compute_status status = whole_file_open(&yaml, path, why);
  if (!status) {
    put_movie(file, frames, yaml.stream);
    fprintf(yaml.stream, "---\n");
    put_fit(file, yaml.stream);
    status = whole_file_close(&yaml, COMPUTE_OK, why);
  }
  free(path);
  return status;
}

/* ---- Both ---------------------------------------------------------------------------------- */

compute_status results_hdf5_finish(results_file *file, int64_t frames, failure *why) {
  char *results;
  if (asprintf(&results, "%s.incomplete.new", file->path) < 0)
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory to write %s",
                       file->path);
  compute_status status = write_hdf5(file, results, why);
  if (!status) status = whole_file_sync(results, why);
  if (!status) status = write_side_car(file, frames, why);
  if (!status && rename(results, file->path))
    status = failure_set_system(why, errno, "the results are in the incomplete file",
                                "cannot rename the results to %s", file->path);
  if (status) unlink(results);
  free(results);
  return status;
}

#else

bool results_hdf5_built_in(void) {
  return false;
}

compute_status results_hdf5_finish(results_file *file, int64_t frames, failure *why) {
  (void)frames;
  return failure_set(why, COMPUTE_ERROR_UNSUPPORTED, NULL,
                     "%s cannot be written: this program was built without libhdf5", file->path);
}

#endif
