/* SPDX-License-Identifier: MIT */
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
 * Pure functions of bytes: no file is accessed here. */
#ifndef CACHE_ENTRY_H
#define CACHE_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

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

/* Checks the header of a file of `file_bytes`; the payload has *bytes. */
bool entry_header_check(const uint8_t header[ENTRY_HEADER_BYTES], const entry_key *key,
                        uint64_t file_bytes, uint64_t *bytes);

/* Checks a payload against its checked header. */
bool entry_payload_check(const uint8_t header[ENTRY_HEADER_BYTES], const void *data, size_t bytes);

/* Keeping the folder of the disk cache within its size. */

#define SWEEP_TEMPORARY "new-" /* how the names of unfinished entries begin */

/* The approximate size of a file on disk: whole blocks, so that many tiny files count, too. */
static inline uint64_t sweep_cost(uint64_t bytes) {
  return bytes > UINT64_MAX - 4095 ? UINT64_MAX : (bytes + 4095) / 4096 * 4096;
}

/* Removes what other processes left unfinished more than an hour ago and, if the entries cost more
 * than `keep` bytes, the least recently used ones until they do not. *left is the remaining cost,
 * and *evictions the number of entries removed. False when the folder cannot be read or out of host
 * memory. Other processes may do the same concurrently: each file is removed only once. */
bool sweep_folder(int folder, uint64_t keep, uint64_t *left, uint64_t *evictions);

#endif
