/* SPDX-License-Identifier: MIT */
/* Writes archives of stored members. A member's checksum is written into its header after its
 * bytes. All dates are the format's first date, so equal content gives equal files. */
#include <string.h>
#include <zlib.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "io/zip.h"

#define FIRST_DATE 0x00210000u /* 1980-01-01 00:00 */

typedef struct zip_written {
  const char *name;
  uint64_t header, bytes;
  uint32_t crc;
} zip_written;

static uint64_t flags_of(const char *name) {
  for (; *name; name++)
    if ((unsigned char)*name >= 0x80) return ZIP_UTF8;
  return 0;
}

/* Stores the fields that local headers and directory entries share, from the version on. */
static unsigned char *store_common(unsigned char *to, const zip_written *member, bool wide,
                                   uint64_t extra_bytes) {
  uint64_t bytes = wide ? 0xffffffffu : member->bytes;
  to = zip_store(to, wide ? 45 : 20, 2); /* version 4.5 supports 64-bit sizes */
  to = zip_store(to, flags_of(member->name), 2);
  to = zip_store(to, ZIP_STORED, 2);
  to = zip_store(to, FIRST_DATE, 4);
  to = zip_store(to, member->crc, 4);
  to = zip_store(to, bytes, 4);
  to = zip_store(to, bytes, 4);
  to = zip_store(to, strlen(member->name), 2);
  return zip_store(to, extra_bytes, 2);
}

compute_status zip_writer_begin(zip_writer *writer, const char *name, uint64_t bytes) {
  new_file *file = writer->file;
  void *members = writer->members;
  if (strlen(name) > 65535)
    return error_set(file->context, COMPUTE_ERROR_INVALID_ARGUMENT, file->operation,
                     "a name has %zu bytes; .npz allows at most 65531", strlen(name) - 4);
  if (base_grow(&members, &writer->capacity, writer->count + 1, sizeof *writer->members))
    return error_set(file->context, COMPUTE_ERROR_OUT_OF_MEMORY, file->operation,
                     "not enough memory to write %s", file->path);
  writer->members = members;
  zip_written *member = &writer->members[writer->count++];
  *member = (zip_written){
      .name = name, .header = file->bytes, .bytes = bytes, .crc = (uint32_t)crc32(0, NULL, 0)};
  bool wide = bytes >= writer->zip64_from;
  unsigned char local[ZIP_LOCAL_BYTES], extra[20], *to = zip_store(local, ZIP_LOCAL, 4);
  store_common(to, member, wide, wide ? sizeof extra : 0);
  to = zip_store(extra, ZIP_EXTRA_64, 2);
  to = zip_store(to, 16, 2);
  zip_store(zip_store(to, bytes, 8), bytes, 8);
  compute_status status = new_file_write(file, local, sizeof local);
  if (!status) status = new_file_write(file, name, strlen(name));
  if (!status && wide) status = new_file_write(file, extra, sizeof extra);
  return status;
}

compute_status zip_writer_add(zip_writer *writer, const void *data, size_t bytes) {
  zip_written *member = &writer->members[writer->count - 1];
  const unsigned char *next = data;
  for (size_t left = bytes; left > 0;) {
    unsigned part = left < 1u << 30 ? (unsigned)left : 1u << 30;
    member->crc = (uint32_t)crc32(member->crc, next, part);
    next += part;
    left -= part;
  }
  return new_file_write(writer->file, data, bytes);
}

compute_status zip_writer_end_member(zip_writer *writer) {
  const zip_written *member = &writer->members[writer->count - 1];
  unsigned char crc[4];
  zip_store(crc, member->crc, 4);
  return new_file_write_at(writer->file, member->header + 14, crc, sizeof crc);
}

static compute_status write_entry(zip_writer *writer, const zip_written *member) {
  bool wide = member->bytes >= writer->zip64_from, far = member->header >= writer->zip64_from;
  unsigned char entry[ZIP_ENTRY_BYTES], extra[28], *to = extra;
  uint64_t extra_bytes = (wide ? 16u : 0u) + (far ? 8u : 0u);
  if (wide || far) to = zip_store(zip_store(to, ZIP_EXTRA_64, 2), extra_bytes, 2);
  if (wide) to = zip_store(zip_store(to, member->bytes, 8), member->bytes, 8);
  if (far) to = zip_store(to, member->header, 8);
  extra_bytes = (uint64_t)(to - extra);
  to = zip_store(entry, ZIP_ENTRY, 4);
  to = zip_store(to, 45, 2);
  to = store_common(to, member, wide, extra_bytes);
  to = zip_store(to, 0, 2); /* no comment, first part, no attributes */
  to = zip_store(to, 0, 2);
  to = zip_store(to, 0, 2);
  to = zip_store(to, 0, 4);
  zip_store(to, far ? 0xffffffffu : member->header, 4);
  compute_status status = new_file_write(writer->file, entry, sizeof entry);
  if (!status) status = new_file_write(writer->file, member->name, strlen(member->name));
  if (!status) status = new_file_write(writer->file, extra, (size_t)extra_bytes);
  return status;
}

static compute_status write_end64(zip_writer *writer, uint64_t offset, uint64_t bytes) {
  unsigned char end[ZIP_END64_BYTES + ZIP_PLACE_BYTES], *to = zip_store(end, ZIP_END64, 4);
  uint64_t place = writer->file->bytes;
  to = zip_store(to, ZIP_END64_BYTES - 12, 8);
  to = zip_store(zip_store(to, 45, 2), 45, 2);
  to = zip_store(to, 0, 8); /* both part numbers */
  to = zip_store(zip_store(to, writer->count, 8), writer->count, 8);
  to = zip_store(zip_store(to, bytes, 8), offset, 8);
  to = zip_store(zip_store(to, ZIP_END64_PLACE, 4), 0, 4);
  zip_store(zip_store(to, place, 8), 1, 4);
  return new_file_write(writer->file, end, sizeof end);
}

static compute_status write_list(zip_writer *writer) {
  uint64_t offset = writer->file->bytes;
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; i < writer->count && !status; i++)
    status = write_entry(writer, &writer->members[i]);
  uint64_t bytes = writer->file->bytes - offset, count = writer->count;
  bool wide = offset >= writer->zip64_from || bytes >= writer->zip64_from || writer->count >= 65535;
  if (!status && wide) status = write_end64(writer, offset, bytes);
  unsigned char end[ZIP_END_BYTES], *to = zip_store(end, ZIP_END, 4);
  to = zip_store(to, 0, 4);
  if (wide) count = 0xffff;
  to = zip_store(zip_store(to, count, 2), count, 2);
  to = zip_store(zip_store(to, wide ? 0xffffffffu : bytes, 4), wide ? 0xffffffffu : offset, 4);
  zip_store(to, 0, 2);
  return status ? status : new_file_write(writer->file, end, sizeof end);
}

compute_status zip_writer_finish(zip_writer *writer, compute_status status) {
  if (!status) status = write_list(writer);
  base_release(writer->members);
  return status;
}
