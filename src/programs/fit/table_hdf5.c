/* SPDX-License-Identifier: MIT */
/* Tables as Picasso's HDF5: a dataset `locs` of records. libhdf5 converts to and from doubles. */
#include "programs/fit/table.h"

#ifdef FIT_WITH_HDF5

#include <hdf5.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "programs/fit/hdf5_words.h"

enum { CHUNK_ROWS = 16384 };

static compute_status fail_hdf5(const char *path, const char *doing, failure *why) {
  char words[HDF5_WORDS];
  return failure_set(why, COMPUTE_ERROR_FORMAT, NULL, "cannot %s %s: %s", doing, path,
                     hdf5_words(words, "it does not hold a dataset `locs` of numbers"));
}

/* The nearest type that can be written; false if the member is not a number. */
static bool type_of(hid_t member, column_type *type) {
  const size_t bytes = H5Tget_size(member);
  const H5T_class_t class = H5Tget_class(member);
  if (class == H5T_FLOAT) {
    *type = bytes > 4 ? TYPE_F64 : TYPE_F32;
    return true;
  }
  const bool is_signed = class == H5T_INTEGER && H5Tget_sign(member) == H5T_SGN_2;
  if (bytes == 1 && !is_signed)
    *type = TYPE_U8;
  else if (bytes == 4 && !is_signed)
    *type = TYPE_U32;
  else
    *type = bytes <= 4 ? TYPE_I32 : TYPE_I64;
  return class == H5T_INTEGER;
}

static compute_status describe(const char *path, hid_t type, table *t, failure *why) {
  const int members = H5Tget_class(type) == H5T_COMPOUND ? H5Tget_nmembers(type) : 0;
  compute_status status = members > 0 ? COMPUTE_OK : fail_hdf5(path, "read", why);
  for (int i = 0; i < members && !status; i++) {
    char *name = H5Tget_member_name(type, (unsigned)i);
    const hid_t member = H5Tget_member_type(type, (unsigned)i);
    column_type kind = TYPE_F64;
    if (!name || !type_of(member, &kind))
      status = failure_set(why, COMPUTE_ERROR_UNSUPPORTED, NULL,
                           "%s: the column '%s' does not hold numbers", path, name ? name : "");
    else
      status = table_describe(t, path, name, strlen(name), kind, why);
    if (member >= 0) H5Tclose(member);
    H5free_memory(name);
  }
  return status;
}

/* The type of a record: of doubles, as in memory, or with the columns' types. */
static hid_t record_type(const table *t, bool as_written) {
  static const size_t bytes_of_double = sizeof(double);
  const hid_t types[] = {
      [TYPE_I64] = H5T_NATIVE_INT64, [TYPE_I32] = H5T_NATIVE_INT32, [TYPE_U32] = H5T_NATIVE_UINT32,
      [TYPE_U8] = H5T_NATIVE_UINT8,  [TYPE_F32] = H5T_NATIVE_FLOAT, [TYPE_F64] = H5T_NATIVE_DOUBLE};
  size_t bytes = 0, offset = 0;
  for (int32_t i = 0; i < t->count; i++)
    bytes += as_written ? column_type_bytes(t->columns[i].type) : bytes_of_double;
  hid_t type = H5Tcreate(H5T_COMPOUND, bytes);
  for (int32_t i = 0; i < t->count && type >= 0; i++) {
    const table_column *c = &t->columns[i];
    H5Tinsert(type, c->name, offset, as_written ? types[c->type] : H5T_NATIVE_DOUBLE);
    offset += as_written ? column_type_bytes(c->type) : bytes_of_double;
  }
  return type;
}

/* Returns true if the file is large enough for the number of records. Called before memory is
 * allocated for them. Allows a compression to 1/4096; deflate reaches about 1/1000. */
static bool is_large_enough(hid_t set, hid_t type, hssize_t rows) {
  enum { MOST_COMPRESSED = 4096 };
  const uint64_t record = H5Tget_size(type), stored = H5Dget_storage_size(set);
  return record > 0 && (uint64_t)rows / MOST_COMPRESSED <= stored / record;
}

static compute_status read_set(const char *path, hid_t set, table *t, failure *why) {
  const hid_t type = H5Dget_type(set), space = H5Dget_space(set);
  const hssize_t rows = space >= 0 ? H5Sget_simple_extent_npoints(space) : -1;
  compute_status status = type >= 0 && rows >= 0 && H5Sget_simple_extent_ndims(space) == 1
                              ? describe(path, type, t, why)
                              : fail_hdf5(path, "read", why);
  if (!status && !is_large_enough(set, type, rows))
    status = failure_set(why, COMPUTE_ERROR_FORMAT, "copy or create the file again",
                         "%s is truncated: it should have %lld rows", path, (long long)rows);
  if (!status) status = table_allocate(t, path, rows, why);
  const hid_t record = status ? -1 : record_type(t, false);
  if (!status && H5Dread(set, record, H5S_ALL, H5S_ALL, H5P_DEFAULT, t->values) < 0)
    status = fail_hdf5(path, "read", why);
  if (record >= 0) H5Tclose(record);
  if (space >= 0) H5Sclose(space);
  if (type >= 0) H5Tclose(type);
  return status;
}

compute_status table_read_hdf5(const char *path, table *t, failure *why) {
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* libhdf5 would print */
  /* A file may need a filter, which libhdf5 loads from a path in an environment variable. A process
   * with raised privileges must not load it. */
  if (getauxval(AT_SECURE)) H5PLset_loading_state(0);
  const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t set = file >= 0 ? H5Dopen2(file, "locs", H5P_DEFAULT) : -1;
  compute_status status = set >= 0 ? read_set(path, set, t, why) : fail_hdf5(path, "read", why);
  if (set >= 0) H5Dclose(set);
  if (file >= 0) H5Fclose(file);
  return status;
}

static hid_t make_set(hid_t file, hid_t type, hsize_t rows) {
  const hsize_t chunk = rows < 1 ? 1 : rows < CHUNK_ROWS ? rows : CHUNK_ROWS, any = H5S_UNLIMITED;
  const hid_t space = H5Screate_simple(1, &rows, &any), creation = H5Pcreate(H5P_DATASET_CREATE);
  hid_t set = -1;
  /* No time stamps: the same table must give the same bytes. */
  if (space >= 0 && creation >= 0 && H5Pset_obj_track_times(creation, false) >= 0 &&
      H5Pset_chunk(creation, 1, &chunk) >= 0)
    set = H5Dcreate2(file, "locs", type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  if (creation >= 0) H5Pclose(creation);
  if (space >= 0) H5Sclose(space);
  return set;
}

compute_status table_write_hdf5(const table *t, const char *path, failure *why) {
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
  const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t written = record_type(t, true), here = record_type(t, false);
  const hid_t set = file >= 0 ? make_set(file, written, (hsize_t)t->rows) : -1;
  bool good = set >= 0;
  if (good && t->rows > 0)
    good = H5Dwrite(set, here, H5S_ALL, H5S_ALL, H5P_DEFAULT, t->values) >= 0;
  compute_status status = good ? COMPUTE_OK : fail_hdf5(path, "write", why);
  if (set >= 0 && H5Dclose(set) < 0 && !status) status = fail_hdf5(path, "write", why);
  H5Tclose(written);
  H5Tclose(here);
  if (file >= 0 && H5Fclose(file) < 0 && !status) status = fail_hdf5(path, "write", why);
  return status;
}

#else

compute_status table_read_hdf5(const char *path, table *t, failure *why) {
  (void)t;
  return failure_set(why, COMPUTE_ERROR_UNSUPPORTED, "use .npy or .csv",
                     "%s cannot be read: this program was built without libhdf5", path);
}

compute_status table_write_hdf5(const table *t, const char *path, failure *why) {
  (void)t;
  return failure_set(why, COMPUTE_ERROR_UNSUPPORTED, "use .npy or .csv",
                     "%s cannot be written: this program was built without libhdf5", path);
}

#endif
