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
 * Pure functions of bytes: no function here accesses a file. */
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

/* The key also covers the version of the library, the version of the format and the borders between
 * the parts. */
void entry_key_make(entry_key *key, const compute_cache_part *parts, uint32_t count);

/* True if this can be the file name of an entry. */
bool entry_name_is_valid(const char *name);

void entry_header_make(uint8_t header[ENTRY_HEADER_BYTES], const entry_key *key, const void *data,
                       size_t bytes);

/* Checks the header of a file of `file_bytes`. *bytes is the size of the payload. */
bool entry_header_check(const uint8_t header[ENTRY_HEADER_BYTES], const entry_key *key,
                        uint64_t file_bytes, uint64_t *bytes);

/* Checks a payload against its checked header. */
bool entry_payload_check(const uint8_t header[ENTRY_HEADER_BYTES], const void *data, size_t bytes);

/* Functions that keep the folder of the disk cache within its size. */

#define SWEEP_TEMPORARY "new-" /* prefix of the names of unfinished entries */

/* The approximate size of a file on disk: whole blocks, so that many tiny files also count. */
static inline uint64_t sweep_cost(uint64_t bytes) {
  return bytes > UINT64_MAX - 4095 ? UINT64_MAX : (bytes + 4095) / 4096 * 4096;
}

/* Removes files that other processes left unfinished more than an hour ago. If the entries cost
 * more than `keep` bytes, also removes the least recently used ones until they fit. *left is the
 * remaining cost, and *evictions the number of removed entries. Returns false when the folder
 * cannot be read or host memory is short. Other processes may sweep concurrently: each file is
 * removed only once. */
bool sweep_folder(int folder, uint64_t keep, uint64_t *left, uint64_t *evictions);

#endif
