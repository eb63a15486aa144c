/* SPDX-License-Identifier: MIT */
/* The model's file and its external data files. Each file is mapped once, privately: weights are
 * writable and the file does not change. A file that another user may change is read into memory
 * instead.
 *
 * A model may only name files in its folder or below. Absolute paths, ".." and all symbolic
 * links are rejected. */
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/file.h"
#include "core/platform/names.h"
#include "io/new_file.h"
#include "model/file/decode.h"

typedef struct mapped_file {
  struct mapped_file *next;
  char *location; /* as in external_data; NULL: the model's file */
  bool copied;    /* `data` is allocated, not mapped */
  void *data;     /* NULL if the file is empty */
  size_t bytes;
  dev_t device;
  ino_t number;
} mapped_file;

static compute_status fail_at(const onnx_decoder *decoder, const char *path, const char *what,
                              int code) {
  char name[SHOWN_NAME_BYTES];
  return decode_fail(decoder, file_status(code), "cannot %s '%s': %s", what,
                     file_show_name(path, name), strerror(code));
}

/* ---- Mapping ------------------------------------------------------------------------------- */

static void unmap(mapped_file *mapped) {
  if (mapped->data) munmap(mapped->data, mapped->bytes);
  base_release(mapped->location);
  base_release(mapped);
}

void external_release(onnx_file *file) {
  while (file->mapped) {
    mapped_file *mapped = file->mapped;
    file->mapped = mapped->next;
    unmap(mapped);
  }
}

external_place external_place_of(const onnx_file *file, const void *data) {
  for (const mapped_file *mapped = file->mapped; mapped; mapped = mapped->next)
    if ((uintptr_t)data - (uintptr_t)mapped->data < mapped->bytes)
      return mapped->copied ? EXTERNAL_COPIED : EXTERNAL_MAPPED;
  return EXTERNAL_NONE;
}

void external_forget(const void *data, size_t bytes) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  const uintptr_t first = ((uintptr_t)data + page - 1) / page * page;
  const uintptr_t end = ((uintptr_t)data + bytes) / page * page;
  if (first < end) madvise((void *)first, end - first, MADV_DONTNEED);
}

/* Returns true if another user may write the file, and so truncate it while it is mapped. The
 * folder's permissions do not matter: a replaced file stays mapped unchanged. */
static bool is_shared(const struct stat *status) {
  return (status->st_uid != geteuid() && status->st_uid != 0) ||
         (status->st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

/* Reads the file into anonymous memory that no other process can truncate, unlike a mapping of
 * the file. */
static compute_status copy_content(const onnx_decoder *decoder, int descriptor, const char *path,
                                   mapped_file *mapped) {
  void *data =
      mmap(NULL, mapped->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return fail_at(decoder, path, "find memory to read", errno);
  mapped->data = data;
  mapped->copied = true;
  const int code = file_read_at(descriptor, 0, data, mapped->bytes);
  char name[SHOWN_NAME_BYTES];
  if (code == FILE_ENDED)
    return decode_fail(decoder, COMPUTE_ERROR_FILE, "'%s' has become shorter while it was read",
                       file_show_name(path, name));
  return code ? fail_at(decoder, path, "read", code) : COMPUTE_OK;
}

static compute_status map_content(const onnx_decoder *decoder, int descriptor, const char *path,
                                  mapped_file *mapped) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) return fail_at(decoder, path, "look at", errno);
  char name[SHOWN_NAME_BYTES];
  if (!S_ISREG(status.st_mode))
    return decode_fail(decoder, COMPUTE_ERROR_FILE, "'%s' is not a regular file",
                       file_show_name(path, name));
  if ((uint64_t)status.st_size > SIZE_MAX / 2) return fail_at(decoder, path, "map", EFBIG);
  mapped->bytes = (size_t)status.st_size;
  mapped->device = status.st_dev;
  mapped->number = status.st_ino;
  if (mapped->bytes == 0) return COMPUTE_OK;
  if (decoder->files == COMPUTE_MODEL_COPY ||
      (decoder->files == COMPUTE_MODEL_COPY_SHARED && is_shared(&status)))
    return copy_content(decoder, descriptor, path, mapped);
  void *data =
      mmap(NULL, mapped->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, descriptor, 0);
  if (data == MAP_FAILED) return fail_at(decoder, path, "map", errno);
  mapped->data = data;
  return COMPUTE_OK;
}

/* Maps or reads an open file and puts it first in file->mapped. `location` may be NULL. */
static compute_status map_file(const onnx_decoder *decoder, int descriptor, const char *path,
                               const char *location) {
  mapped_file *mapped = base_allocate(1, sizeof *mapped);
  if (!mapped) return decode_out_of_memory(decoder);
  if (location) mapped->location = base_duplicate(location);
  compute_status status = location && !mapped->location
                              ? decode_out_of_memory(decoder)
                              : map_content(decoder, descriptor, path, mapped);
  if (status) {
    unmap(mapped);
    return status;
  }
  mapped->next = decoder->file->mapped;
  decoder->file->mapped = mapped;
  return COMPUTE_OK;
}

compute_status external_map_model(onnx_decoder *decoder, const char *path) {
  int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return file_error(decoder->context, decoder->operation, path, "open", errno);
  compute_status status = map_file(decoder, descriptor, path, NULL);
  close(descriptor);
  if (status) return status;
  const mapped_file *mapped = decoder->file->mapped;
  const uint8_t *data = mapped->data;
  decoder->file->message = (wire){data, data ? data + mapped->bytes : NULL};
  return COMPUTE_OK;
}

/* ---- Opening external data ----------------------------------------------------------------- */

/* Returns true if the text of `location` stays in the folder. */
static bool is_below(const char *location) {
  if (!*location || *location == '/' || path_has_other_letters(location)) return false;
  for (const char *part = location; part; part = strchr(part, '/')) {
    part += *part == '/';
    if (!strncmp(part, "..", 2) && (part[2] == '/' || !part[2])) return false;
  }
  return true;
}

static compute_status open_folder(onnx_decoder *decoder) {
  if (decoder->folder >= 0) return COMPUTE_OK;
  if (!decoder->folder_path)
    return decode_fail(decoder, COMPUTE_ERROR_FILE,
                       "tensors are in other files, and no folder was given for them");
  decoder->folder = open(decoder->folder_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  return decoder->folder < 0 ? fail_at(decoder, decoder->folder_path, "open", errno) : COMPUTE_OK;
}

/* Opens `location` one folder at a time. Splits `location` in place. Returns a descriptor, or −1
 * with errno. */
static int open_below(int folder, char *location) {
  int at = folder;
  for (char *part = location;;) {
    char *slash = strchr(part, '/');
    if (slash) *slash = '\0';
    const int flags = slash ? O_PATH | O_DIRECTORY : O_RDONLY | O_NONBLOCK;
    const int next = openat(at, *part ? part : ".", flags | O_NOFOLLOW | O_CLOEXEC);
    const int code = errno;
    if (at != folder) close(at);
    errno = code;
    if (next < 0 || !slash) return next;
    at = next;
    part = slash + 1;
  }
}

static compute_status open_location(onnx_decoder *decoder, const char *location, int *descriptor) {
  char name[SHOWN_NAME_BYTES];
  if (!is_below(location))
    return decode_fail(decoder, COMPUTE_ERROR_FORMAT,
                       "a tensor is in '%s', which is not in the model's folder",
                       file_show_name(location, name));
  compute_status status = open_folder(decoder);
  if (status) return status;
  char *copy = base_duplicate(location);
  if (!copy) return decode_out_of_memory(decoder);
  *descriptor = open_below(decoder->folder, copy);
  const int code = errno;
  base_release(copy);
  if (*descriptor >= 0) return COMPUTE_OK;
  if (code == ELOOP || code == ENOTDIR)
    return decode_fail(
        decoder, COMPUTE_ERROR_FORMAT,
        "a tensor is in '%s', whose path has a symbolic link, or a part that is not a folder",
        file_show_name(location, name));
  return fail_at(decoder, location, "open", code);
}

static mapped_file *find_mapped(const onnx_file *file, const char *location) {
  mapped_file *mapped = file->mapped;
  while (mapped && !(mapped->location && !strcmp(mapped->location, location)))
    mapped = mapped->next;
  return mapped;
}

/* Maps a file with a new name. *result may be an existing entry for the same file under another
 * name. */
static compute_status map_location(onnx_decoder *decoder, const char *location,
                                   mapped_file **result) {
  int descriptor = -1;
  compute_status status = open_location(decoder, location, &descriptor);
  if (status) return status;
  status = map_file(decoder, descriptor, location, location);
  close(descriptor);
  if (status) return status;
  mapped_file *added = decoder->file->mapped, *other = added->next;
  while (other && (other->device != added->device || other->number != added->number))
    other = other->next;
  *result = other ? other : added;
  if (other) {
    decoder->file->mapped = added->next;
    unmap(added);
  } else {
    decoder->mapped += added->bytes;
  }
  return COMPUTE_OK;
}

/* ---- Tensors' data ------------------------------------------------------------------------- */

/* Parses an unsigned decimal number. */
static bool take_number(const char *text, uint64_t *number) {
  uint64_t value = 0;
  if (!*text) return false;
  for (; *text; text++) {
    if (*text < '0' || *text > '9' || __builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
      return false;
  }
  *number = value;
  return true;
}

typedef struct data_place {
  const char *location;
  uint64_t offset, length;
} data_place;

static compute_status take_place(const onnx_decoder *decoder, const tensor_message *raw,
                                 const char *name, data_place *place) {
  const text_pair *entries = raw->external.items;
  for (size_t i = 0; i < raw->external.count; i++) {
    const char *key = entries[i].key, *value = entries[i].value;
    if (!strcmp(key, "location")) place->location = value;
    uint64_t *number = !strcmp(key, "offset")   ? &place->offset
                       : !strcmp(key, "length") ? &place->length
                                                : NULL;
    if (number && !take_number(value, number))
      return decode_fail(decoder, COMPUTE_ERROR_FORMAT,
                         "tensor '%s' is in another file, and its %s is not a number", name, key);
  }
  if (place->location) return COMPUTE_OK;
  return decode_fail(decoder, COMPUTE_ERROR_FORMAT,
                     "tensor '%s' is in another file that it does not name", name);
}

compute_status external_find(onnx_decoder *decoder, const tensor_message *raw, uint64_t bytes,
                             wire *result) {
  char name[SHOWN_NAME_BYTES], location[SHOWN_NAME_BYTES];
  file_show_name(raw->name ? raw->name : "", name);
  data_place place = {.length = bytes};
  compute_status status = take_place(decoder, raw, name, &place);
  if (status) return status;
  if (place.length != bytes)
    return decode_fail(decoder, COMPUTE_ERROR_FORMAT,
                       "tensor '%s' has %" PRIu64 " bytes in '%s', but its shape needs %" PRIu64,
                       name, place.length, file_show_name(place.location, location), bytes);
  mapped_file *mapped = find_mapped(decoder->file, place.location);
  if (!mapped) status = map_location(decoder, place.location, &mapped);
  if (status) return status;
  if (place.offset > mapped->bytes || bytes > mapped->bytes - place.offset)
    return decode_fail(decoder, COMPUTE_ERROR_FORMAT,
                       "tensor '%s' reaches past the end of '%s', which has %zu bytes", name,
                       file_show_name(place.location, location), mapped->bytes);
  const uint8_t *data = mapped->data;
  *result = (wire){data, data};
  if (bytes > 0) *result = (wire){data + place.offset, data + place.offset + bytes};
  return COMPUTE_OK;
}
