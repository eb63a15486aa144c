/* One member of an archive, unpacked as it is read, and its checksum. */
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "io/file_error.h"
#include "io/tensor_file.h"
#include "io/zip.h"

#define PACKED_BYTES 65536u

struct zip_reader {
  const zip_file *zip;
  const zip_member *member;
  uint64_t at, left; /* in the file: the packed bytes that have not been read */
  uint32_t crc;
  bool ended; /* the deflated stream has said so */
  z_stream stream;
  unsigned char packed[PACKED_BYTES];
};

static compute_status refuse(const zip_reader *reader, const char *problem) {
  char name[SHOWN_NAME_BYTES];
  return error_set_native(reader->zip->context, COMPUTE_ERROR_FORMAT, 0, reader->zip->operation,
                          "the file is damaged: copy or make it again", "%s: \"%s\" %s",
                          reader->zip->path, tensor_file_show(reader->member->name, name), problem);
}

static compute_status no_memory(const zip_file *zip) {
  return error_set(zip->context, COMPUTE_ERROR_OUT_OF_MEMORY, zip->operation,
                   "no memory to unpack %s", zip->path);
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
  /* Negative: without the header and checksum of zlib's own format. */
  if (member->deflated && inflateInit2(&reader->stream, -MAX_WBITS) != Z_OK) {
    base_release(reader);
    return no_memory(zip);
  }
  *result = reader;
  return COMPUTE_OK;
}

/* Takes packed bytes from the file. */
static compute_status take(zip_reader *reader, void *data, size_t bytes) {
  int code = file_read_at(reader->zip->descriptor, reader->at, data, bytes);
  if (code) {
    return file_error(reader->zip->context, reader->zip->operation, reader->zip->path, "read",
                      code);
  }
  reader->at += bytes;
  reader->left -= bytes;
  return COMPUTE_OK;
}

/* Unpacks until `data` is full, or the stream ends. */
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
      return refuse(reader, code == Z_BUF_ERROR ? "ends too early" : "is damaged");
    }
  }
  return COMPUTE_OK;
}

compute_status zip_reader_read(zip_reader *reader, void *data, size_t bytes) {
  char *next = data;
  while (bytes > 0) {
    size_t part = bytes < 1u << 30 ? bytes : 1u << 30;
    if (!reader->member->deflated && part > reader->left) return refuse(reader, "ends too early");
    compute_status status =
        reader->member->deflated ? unpack(reader, next, part) : take(reader, next, part);
    if (status) return status;
    if (reader->member->deflated && reader->stream.avail_out > 0) {
      return refuse(reader, "ends too early");
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
    if (reader->stream.avail_out == 0) return refuse(reader, "unpacks to more than it says");
  }
  if (reader->left > 0 || reader->stream.avail_in > 0)
    return refuse(reader, "does not end in time");
  return reader->crc == reader->member->crc ? COMPUTE_OK
                                            : refuse(reader, "is not what its checksum says");
}

compute_status zip_reader_close(zip_reader *reader, compute_status status) {
  if (!status) status = check_end(reader);
  if (reader->member->deflated) inflateEnd(&reader->stream);
  base_release(reader);
  return status;
}
