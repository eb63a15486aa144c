/* SPDX-License-Identifier: MIT */
/* Reads the directory at an archive's end, from its last bytes backwards, and unpacks members.
 *
 * Stricter than most readers: nothing may precede the first member or separate the directory from
 * the end, and members must not overlap. So no archive is ambiguous between readers, or expands to
 * more than about a thousand times its length. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "io/new_file.h"
#include "io/tensor_file.h"

#define MAX_COMMENT 65535u
#define MAX_RATIO   1032u /* deflate makes at most 258 bytes from 2 bits */

static compute_status COMPUTE_PRINTF(3, 4)
    refuse_as(const zip_file *zip, compute_status status, const char *format, ...) {
  char problem[256];
  va_list list;
  va_start(list, format);
  vsnprintf(problem, sizeof problem, format, list);
  va_end(list);
  return error_set(zip->context, status, zip->operation, "cannot read %s as ZIP: %s", zip->path,
                   problem);
}

#define refuse(zip, ...) refuse_as(zip, COMPUTE_ERROR_FORMAT, __VA_ARGS__)

static compute_status refuse_member(const zip_file *zip, const char *name, const char *problem) {
  char shown[SHOWN_NAME_BYTES];
  return refuse(zip, "\"%s\" %s", file_show_name(name, shown), problem);
}

static compute_status read_at(const zip_file *zip, uint64_t offset, void *data, size_t bytes) {
  int code = file_read_at(zip->descriptor, offset, data, bytes);
  return code ? file_error(zip->context, zip->operation, zip->path, "read", code) : COMPUTE_OK;
}

/* ---- Where the list is --------------------------------------------------------------------- */

typedef struct list_place {
  uint64_t offset, bytes, count;
} list_place;

/* Finds the archive's end record. It is at the last offset where a record extends exactly to the
 * end of the file. */
static compute_status find_end(const zip_file *zip, uint64_t *offset,
                               unsigned char end[ZIP_END_BYTES]) {
  size_t bytes =
      zip->bytes < ZIP_END_BYTES + MAX_COMMENT ? (size_t)zip->bytes : ZIP_END_BYTES + MAX_COMMENT;
  unsigned char *tail = base_allocate(bytes, 1);
  if (!tail) return refuse_as(zip, COMPUTE_ERROR_OUT_OF_MEMORY, "not enough memory for its end");
  compute_status status = read_at(zip, zip->bytes - bytes, tail, bytes);
  bool found = false;
  for (size_t at = bytes; at-- > 0 && !status && !found;) {
    size_t left = bytes - at;
    found = left >= ZIP_END_BYTES && zip_load32(tail + at) == ZIP_END &&
            zip_load16(tail + at + 20) == left - ZIP_END_BYTES;
    if (found) {
      *offset = zip->bytes - left;
      memcpy(end, tail + at, ZIP_END_BYTES);
    }
  }
  base_release(tail);
  if (status || found) return status;
  return refuse(zip, "its directory is missing; the file may be truncated");
}

/* Reads the record with 64-bit numbers, which replace numbers of the end record that exceed 32
 * bits. */
static compute_status read_end64(const zip_file *zip, uint64_t end, list_place *place,
                                 uint64_t *list_end) {
  unsigned char where[ZIP_PLACE_BYTES], record[ZIP_END64_BYTES];
  if (end < ZIP_PLACE_BYTES + ZIP_END64_BYTES) return refuse(zip, "its end record is damaged");
  compute_status status = read_at(zip, end - ZIP_PLACE_BYTES, where, sizeof where);
  if (status) return status;
  uint64_t offset = zip_load(where + 8, 8);
  if (zip_load32(where) != ZIP_END64_PLACE || zip_load32(where + 4) != 0 ||
      zip_load32(where + 16) > 1 || offset > end - ZIP_PLACE_BYTES - ZIP_END64_BYTES) {
    return refuse(zip, "its end record is damaged");
  }
  status = read_at(zip, offset, record, sizeof record);
  if (status) return status;
  if (zip_load32(record) != ZIP_END64 ||
      zip_load(record + 4, 8) != end - ZIP_PLACE_BYTES - offset - 12 ||
      zip_load32(record + 16) != 0 || zip_load32(record + 20) != 0 ||
      zip_load(record + 24, 8) != zip_load(record + 32, 8)) {
    return refuse(zip, "its end record is damaged");
  }
  *place = (list_place){.offset = zip_load(record + 48, 8),
                        .bytes = zip_load(record + 40, 8),
                        .count = zip_load(record + 32, 8)};
  *list_end = offset;
  return COMPUTE_OK;
}

static compute_status find_list(const zip_file *zip, list_place *place) {
  unsigned char end[ZIP_END_BYTES];
  uint64_t offset = 0, list_end;
  if (zip->bytes < ZIP_END_BYTES) return refuse(zip, "it is too short");
  compute_status status = find_end(zip, &offset, end);
  if (status) return status;
  *place = (list_place){
      .offset = zip_load32(end + 16), .bytes = zip_load32(end + 12), .count = zip_load16(end + 10)};
  list_end = offset;
  if (zip_load16(end + 4) != 0 || zip_load16(end + 6) != 0 ||
      zip_load16(end + 8) != zip_load16(end + 10))
    return refuse_as(zip, COMPUTE_ERROR_UNSUPPORTED, "it is part of a multi-part archive");
  if (place->count == 0xffff || place->bytes == 0xffffffffu || place->offset == 0xffffffffu) {
    status = read_end64(zip, offset, place, &list_end);
    if (status) return status;
  }
  if (place->offset > list_end || place->bytes != list_end - place->offset)
    return refuse(zip, "its directory is not at the place that its end record gives");
  if (place->bytes > TENSOR_FILE_MAX_LIST)
    return refuse(zip, "its directory claims %" PRIu64 " bytes", place->bytes);
  if (place->count > place->bytes / ZIP_ENTRY_BYTES)
    return refuse(zip, "its directory is too short for %" PRIu64 " members", place->count);
  return COMPUTE_OK;
}

/* ---- The list's entries -------------------------------------------------------------------- */

/* Widens a 32-bit size or offset: the value 0xffffffff means a 64-bit value in the extra field. */
static bool widen(uint64_t *value, const unsigned char **extra, const unsigned char *end) {
  if (*value != 0xffffffffu) return true;
  if (end - *extra < 8) return false;
  *value = zip_load(*extra, 8);
  *extra += 8;
  return true;
}

/* Finds the content of the extra field with 64-bit numbers; empty if there is none. False if the
 * extra fields are damaged. */
static bool find_extra64(const unsigned char *extra, const unsigned char *end,
                         const unsigned char **begin64, const unsigned char **end64) {
  *begin64 = *end64 = end;
  while (end - extra >= 4) {
    uint16_t id = zip_load16(extra), bytes = zip_load16(extra + 2);
    extra += 4;
    if (bytes > end - extra) return false;
    if (id == ZIP_EXTRA_64) {
      *begin64 = extra;
      *end64 = extra + bytes;
      return true;
    }
    extra += bytes;
  }
  return extra == end;
}

static bool is_text(const char *name, size_t bytes) {
  size_t at = 0;
  while (at < bytes && name[at]) {
    size_t length = utf8_length(name + at);
    if (length == 0) return false;
    at += length;
  }
  return at == bytes;
}

/* Moves the name back by one byte, over data already read, to make room for its terminator. */
static void take_name(zip_member *member, unsigned char *entry, uint32_t name_bytes) {
  member->name = (char *)entry + ZIP_ENTRY_BYTES - 1;
  member->name_bytes = name_bytes;
  memmove(member->name, member->name + 1, name_bytes);
  member->name[name_bytes] = 0;
}

static compute_status check_entry(const zip_file *zip, const zip_member *member, uint16_t method,
                                  uint16_t flags, uint32_t disk) {
  char shown[SHOWN_NAME_BYTES];
  if (flags & ZIP_ENCRYPTED || disk != 0 || (method != ZIP_STORED && method != ZIP_DEFLATED))
    return refuse_as(zip, COMPUTE_ERROR_UNSUPPORTED, "\"%s\" is %s",
                     file_show_name(member->name, shown),
                     flags & ZIP_ENCRYPTED ? "encrypted"
                     : disk                ? "in another part of a multi-part archive"
                                           : "neither stored nor deflated");
  if (member->packed > zip->bytes || (!member->deflated && member->packed != member->unpacked) ||
      member->unpacked / MAX_RATIO > member->packed)
    return refuse_member(zip, member->name, "claims an impossible size");
  return COMPUTE_OK;
}

/* Reads the entry at `entry`, with `left` bytes of directory left, and returns its length. */
static compute_status read_entry(const zip_file *zip, unsigned char *entry, uint64_t left,
                                 zip_member *member, uint64_t *entry_bytes) {
  if (left < ZIP_ENTRY_BYTES || zip_load32(entry) != ZIP_ENTRY)
    return refuse(zip, "its directory is damaged");
  uint32_t name_bytes = zip_load16(entry + 28), extra_bytes = zip_load16(entry + 30);
  *entry_bytes = (uint64_t)ZIP_ENTRY_BYTES + name_bytes + extra_bytes + zip_load16(entry + 32);
  if (*entry_bytes > left) return refuse(zip, "its directory is damaged");
  if (!is_text((const char *)entry + ZIP_ENTRY_BYTES, name_bytes)) {
    return refuse(zip, "a member's name is not UTF-8");
  }
  uint16_t method = zip_load16(entry + 10), flags = zip_load16(entry + 8);
  uint32_t disk = zip_load16(entry + 34);
  *member = (zip_member){.header = zip_load32(entry + 42),
                         .packed = zip_load32(entry + 20),
                         .unpacked = zip_load32(entry + 24),
                         .crc = zip_load32(entry + 16),
                         .deflated = method == ZIP_DEFLATED};
  const unsigned char *extra = entry + ZIP_ENTRY_BYTES + name_bytes, *extra64, *end64;
  bool good = find_extra64(extra, extra + extra_bytes, &extra64, &end64) &&
              widen(&member->unpacked, &extra64, end64) &&
              widen(&member->packed, &extra64, end64) && widen(&member->header, &extra64, end64);
  take_name(member, entry, name_bytes);
  if (!good) return refuse_member(zip, member->name, "has no sizes");
  return check_entry(zip, member, method, flags, disk);
}

/* ---- Local headers ------------------------------------------------------------------------- */

/* True if the local header matches the directory. */
static bool agrees(const unsigned char *local, const zip_member *member) {
  if (zip_load32(local) != ZIP_LOCAL || zip_load16(local + 6) & ZIP_ENCRYPTED ||
      zip_load16(local + 8) != (member->deflated ? ZIP_DEFLATED : ZIP_STORED) ||
      zip_load16(local + 26) != member->name_bytes)
    return false;
  if (zip_load16(local + 6) & ZIP_SIZES_FOLLOW) return true;
  uint32_t packed = zip_load32(local + 18), unpacked = zip_load32(local + 22);
  return zip_load32(local + 14) == member->crc &&
         (packed == member->packed || packed == 0xffffffffu) &&
         (unpacked == member->unpacked || unpacked == 0xffffffffu);
}

/* Finds the member's bytes. `end` is the start of the next member or of the directory. */
static compute_status read_local(const zip_file *zip, zip_member *member, uint64_t end,
                                 char *name) {
  unsigned char local[ZIP_LOCAL_BYTES];
  if (member->header > end || end - member->header < ZIP_LOCAL_BYTES + member->name_bytes)
    return refuse_member(zip, member->name, "is not where the directory says");
  compute_status status = read_at(zip, member->header, local, sizeof local);
  if (status) return status;
  if (!agrees(local, member)) {
    return refuse_member(zip, member->name, "does not match the directory");
  }
  status = read_at(zip, member->header + ZIP_LOCAL_BYTES, name, member->name_bytes);
  if (status) return status;
  if (memcmp(name, member->name, member->name_bytes) != 0) {
    return refuse_member(zip, member->name, "has another name than in the directory");
  }
  member->data = member->header + ZIP_LOCAL_BYTES + member->name_bytes + zip_load16(local + 28);
  if (member->data <= end && member->packed <= end - member->data) return COMPUTE_OK;
  return refuse_member(zip, member->name, "overlaps the next member");
}

static int compare_headers(const void *a, const void *b) {
  uint64_t x = (*(zip_member *const *)a)->header, y = (*(zip_member *const *)b)->header;
  return (x > y) - (x < y);
}

static compute_status read_locals(const zip_file *zip, zip_member *members, size_t count,
                                  uint64_t list) {
  zip_member **sorted = base_allocate(count, sizeof *sorted);
  char *name = base_allocate(65536, 1);
  compute_status status = COMPUTE_OK;
  if (!sorted || !name) {
    status = refuse_as(zip, COMPUTE_ERROR_OUT_OF_MEMORY, "not enough memory for its list");
    count = 0;
  }
  for (size_t i = 0; i < count; i++) sorted[i] = &members[i];
  if (count > 1) qsort(sorted, count, sizeof *sorted, compare_headers);
  if (!status && (count > 0 ? sorted[0]->header : list) != 0) {
    status = refuse(zip, "it does not begin with a member");
  }
  for (size_t i = 0; i < count && !status; i++)
    status = read_local(zip, sorted[i], i + 1 < count ? sorted[i + 1]->header : list, name);
  base_release(name);
  base_release(sorted);
  return status;
}

/* ---- All of it ----------------------------------------------------------------------------- */

static compute_status read_list(const zip_file *zip, const list_place *place, unsigned char *list,
                                zip_member *members) {
  compute_status status = read_at(zip, place->offset, list, (size_t)place->bytes);
  uint64_t at = 0;
  for (size_t i = 0; i < place->count && !status; i++) {
    uint64_t bytes = 0;
    status = read_entry(zip, list + at, place->bytes - at, &members[i], &bytes);
    at += bytes;
  }
  if (!status && at != place->bytes) status = refuse(zip, "its directory is damaged");
  return status ? status : read_locals(zip, members, (size_t)place->count, place->offset);
}

compute_status zip_list(const zip_file *zip, zip_member **members, size_t *count, char **text) {
  list_place place = {0, 0, 0};
  compute_status status = find_list(zip, &place);
  if (status) return status;
  /* A zero after the directory terminates a damaged character at its end. */
  unsigned char *list = base_allocate(place.bytes + 1, 1);
  zip_member *made = base_allocate(place.count, sizeof *made);
  status = list && made
               ? read_list(zip, &place, list, made)
               : refuse_as(zip, COMPUTE_ERROR_OUT_OF_MEMORY, "not enough memory for its list");
  if (status) {
    base_release(made);
    base_release(list);
    return status;
  }
  *members = made;
  *count = (size_t)place.count;
  *text = (char *)list;
  return COMPUTE_OK;
}

/* ---- Members ------------------------------------------------------------------------------- */

/* One member, unpacked while it is read, and its checksum. */

#define PACKED_BYTES 65536u

struct zip_reader {
  const zip_file *zip;
  const zip_member *member;
  uint64_t at, left; /* `at`: position in the file; `left`: packed bytes not yet read */
  uint32_t crc;
  bool ended; /* the deflate stream has ended */
  z_stream stream;
  unsigned char packed[PACKED_BYTES];
};

static compute_status refuse_data(const zip_reader *reader, const char *problem) {
  char name[SHOWN_NAME_BYTES];
  return error_set_native(reader->zip->context, COMPUTE_ERROR_FORMAT, 0, reader->zip->operation,
                          "the file is damaged; copy or create it again", "%s: \"%s\" %s",
                          reader->zip->path, file_show_name(reader->member->name, name), problem);
}

static compute_status no_memory(const zip_file *zip) {
  return error_set(zip->context, COMPUTE_ERROR_OUT_OF_MEMORY, zip->operation,
                   "not enough memory to unpack %s", zip->path);
}

static void *allocate(void *user, unsigned count, unsigned size) {
  (void)user;
  return base_allocate(count, size);
}

static void release(void *user, void *memory) {
  (void)user;
  base_release(memory);
}

compute_status zip_reader_open(const zip_file *zip, const zip_member *member, zip_reader **result) {
  zip_reader *reader = base_allocate(1, sizeof *reader);
  if (!reader) return no_memory(zip);
  reader->zip = zip;
  reader->member = member;
  reader->at = member->data;
  reader->left = member->packed;
  reader->crc = (uint32_t)crc32(0, NULL, 0);
  reader->stream.zalloc = allocate;
  reader->stream.zfree = release;
  /* Negative: without the header and checksum of the zlib format. */
  if (member->deflated && inflateInit2(&reader->stream, -MAX_WBITS) != Z_OK) {
    base_release(reader);
    return no_memory(zip);
  }
  *result = reader;
  return COMPUTE_OK;
}

/* Reads packed bytes from the file. */
static compute_status take(zip_reader *reader, void *data, size_t bytes) {
  int code = file_read_at(reader->zip->descriptor, reader->at, data, bytes);
  if (code)
    return file_error(reader->zip->context, reader->zip->operation, reader->zip->path, "read",
                      code);
  reader->at += bytes;
  reader->left -= bytes;
  return COMPUTE_OK;
}

/* Unpacks until `data` is full or the stream ends. */
static compute_status unpack(zip_reader *reader, void *data, size_t bytes) {
  z_stream *stream = &reader->stream;
  stream->next_out = data;
  stream->avail_out = (unsigned)bytes;
  while (stream->avail_out > 0 && !reader->ended) {
    if (stream->avail_in == 0 && reader->left > 0) {
      size_t more = reader->left < PACKED_BYTES ? (size_t)reader->left : PACKED_BYTES;
      compute_status status = take(reader, reader->packed, more);
      if (status) return status;
      stream->next_in = reader->packed;
      stream->avail_in = (unsigned)more;
    }
    int code = inflate(stream, Z_NO_FLUSH);
    if (code == Z_MEM_ERROR) return no_memory(reader->zip);
    if (code == Z_STREAM_END) {
      reader->ended = true;
    } else if (code != Z_OK) {
      return refuse_data(reader, code == Z_BUF_ERROR ? "is truncated" : "is damaged");
    }
  }
  return COMPUTE_OK;
}

compute_status zip_reader_read(zip_reader *reader, void *data, size_t bytes) {
  char *next = data;
  while (bytes > 0) {
    size_t part = bytes < 1u << 30 ? bytes : 1u << 30;
    if (!reader->member->deflated && part > reader->left)
      return refuse_data(reader, "is truncated");
    compute_status status =
        reader->member->deflated ? unpack(reader, next, part) : take(reader, next, part);
    if (status) return status;
    if (reader->member->deflated && reader->stream.avail_out > 0) {
      return refuse_data(reader, "is truncated");
    }
    reader->crc = (uint32_t)crc32(reader->crc, (const unsigned char *)next, (unsigned)part);
    next += part;
    bytes -= part;
  }
  return COMPUTE_OK;
}

static compute_status check_end(zip_reader *reader) {
  if (reader->member->deflated) {
    unsigned char more;
    compute_status status = unpack(reader, &more, 1);
    if (status) return status;
    if (reader->stream.avail_out == 0)
      return refuse_data(reader, "unpacks to more than its stated size");
  }
  if (reader->left > 0 || reader->stream.avail_in > 0)
    return refuse_data(reader, "has extra bytes after its data");
  return reader->crc == reader->member->crc ? COMPUTE_OK
                                            : refuse_data(reader, "does not match its checksum");
}

compute_status zip_reader_close(zip_reader *reader, compute_status status) {
  if (!status) status = check_end(reader);
  if (reader->member->deflated) inflateEnd(&reader->stream);
  base_release(reader);
  return status;
}
