/* SPDX-License-Identifier: MIT */
/* ZIP archives as NumPy's files need them: members stored or deflated, also larger than 4 GiB, in
 * one file, not encrypted, not multi-part. After PKWARE's APPNOTE.TXT 6.3. */
#ifndef IO_ZIP_H
#define IO_ZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/new_file.h"

/* An open archive, and the context for errors. */
typedef struct zip_file {
  const compute_context *context;
  const char *operation;
  const char *path;
  int descriptor;
  uint64_t bytes;
} zip_file;

typedef struct zip_member {
  char *name;                /* UTF-8; in the text of zip_list, which has room for one byte more */
  uint64_t header;           /* offset of its local header */
  uint64_t data;             /* offset of its bytes */
  uint64_t packed, unpacked; /* bytes; `unpacked` is at most the greatest expansion of `packed` */
  uint32_t crc;
  uint32_t name_bytes;
  bool deflated;
} zip_member;

/* ---- Reading ------------------------------------------------------------------------------- */

/* Reads and checks the archive's directory. Each member must be within the file, none may overlap
 * another member or the directory, and local headers must match the directory. On success the
 * caller owns *members and *text, which contains the names, and frees them with base_release. */
compute_status zip_list(const zip_file *zip, zip_member **members, size_t *count, char **text);

/* A member that is being unpacked. */
typedef struct zip_reader zip_reader;

/* The strings and both structs must outlive the reader. */
compute_status zip_reader_open(const zip_file *zip, const zip_member *member, zip_reader **reader);

/* Reads the next bytes. COMPUTE_ERROR_FORMAT if fewer are left. */
compute_status zip_reader_read(zip_reader *reader, void *data, size_t bytes);

/* Frees the reader. Returns `status` if it is an error. Otherwise returns an error if the member
 * does not end here or does not match its checksum. */
compute_status zip_reader_close(zip_reader *reader, compute_status status);

/* ---- Writing ------------------------------------------------------------------------------- */

#define ZIP64_FROM 0xffffffffu /* sizes from here on need 64 bits */

typedef struct zip_writer {
  new_file *file;
  uint64_t zip64_from; /* ZIP64_FROM, or less in tests */
  struct zip_written *members;
  size_t count, capacity;
} zip_writer;

/* Begins a stored member of exactly `bytes` bytes, which zip_writer_add adds. The name must live
 * until the archive ends. */
compute_status zip_writer_begin(zip_writer *writer, const char *name, uint64_t bytes);
compute_status zip_writer_add(zip_writer *writer, const void *data, size_t bytes);
compute_status zip_writer_end_member(zip_writer *writer);

/* Writes the directory if `status` is COMPUTE_OK, and frees the writer's memory. Returns `status`
 * or the first error. */
compute_status zip_writer_finish(zip_writer *writer, compute_status status);

#define ZIP_LOCAL        0x04034b50u /* signatures */
#define ZIP_ENTRY        0x02014b50u
#define ZIP_END          0x06054b50u
#define ZIP_END64        0x06064b50u
#define ZIP_END64_PLACE  0x07064b50u
#define ZIP_LOCAL_BYTES  30u /* of the fixed-size parts */
#define ZIP_ENTRY_BYTES  46u
#define ZIP_END_BYTES    22u
#define ZIP_END64_BYTES  56u
#define ZIP_PLACE_BYTES  20u
#define ZIP_STORED       0
#define ZIP_DEFLATED     8
#define ZIP_ENCRYPTED    0x0041u /* flags: encrypted, strongly */
#define ZIP_SIZES_FOLLOW 0x0008u
#define ZIP_UTF8         0x0800u
#define ZIP_EXTRA_64     1 /* the extra field with 64-bit sizes */

static inline uint64_t zip_load(const unsigned char *bytes, int size) {
  uint64_t value = 0;
  for (int i = size - 1; i >= 0; i--) value = value << 8 | bytes[i];
  return value;
}

static inline uint16_t zip_load16(const unsigned char *bytes) {
  return (uint16_t)zip_load(bytes, 2);
}

static inline uint32_t zip_load32(const unsigned char *bytes) {
  return (uint32_t)zip_load(bytes, 4);
}

/* Returns the position of the next number. */
static inline unsigned char *zip_store(unsigned char *bytes, uint64_t value, int size) {
  for (int i = 0; i < size; i++) bytes[i] = (unsigned char)(value >> 8 * i);
  return bytes + size;
}

#endif
