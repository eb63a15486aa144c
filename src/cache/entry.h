/* An entry of the disk cache as bytes: a header of fixed size, then the payload.
 *
 *    0  magic              8 bytes
 *    8  format version     4, little-endian as all numbers here
 *   12  zero               4
 *   16  payload bytes      8
 *   24  key                32: SHA-256 of the key's parts; its hex digits are the file's name
 *   56  checksum           32: SHA-256 of all the bytes above and of the payload
 *   88  payload
 *
 * Functions of bytes alone: no file is touched here, and any bytes can be judged. */
#ifndef CACHE_ENTRY_H
#define CACHE_ENTRY_H

#include "compute/backend.h"

#define ENTRY_HEADER_BYTES   88
#define ENTRY_DIGEST_BYTES   32
#define ENTRY_NAME_LENGTH    (2 * ENTRY_DIGEST_BYTES)
#define ENTRY_FORMAT_VERSION 1

typedef struct entry_key {
  uint8_t digest[ENTRY_DIGEST_BYTES];
  char name[ENTRY_NAME_LENGTH + 1];
} entry_key;

/* Also covers the library's version and the format's, and where one part ends and the next begins.
 */
void entry_key_make(entry_key *key, const compute_cache_part *parts, uint32_t count);

/* Whether this could be an entry's file name. */
bool entry_name_is_valid(const char *name);

void entry_header_make(uint8_t header[ENTRY_HEADER_BYTES], const entry_key *key, const void *data,
                       size_t bytes);

/* Judges the header of a file of `file_bytes`; what follows it is *bytes long. */
bool entry_header_check(const uint8_t header[ENTRY_HEADER_BYTES], const entry_key *key,
                        uint64_t file_bytes, uint64_t *bytes);

/* Judges a payload by its checked header. */
bool entry_payload_check(const uint8_t header[ENTRY_HEADER_BYTES], const void *data, size_t bytes);

#endif
