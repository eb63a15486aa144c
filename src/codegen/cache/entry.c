/* SPDX-License-Identifier: MIT */
/* Keys and checksums are SHA-256. Collisions are therefore no concern, neither accidental ones nor
 * ones that the author of a kernel crafts. */
#include "codegen/cache/entry.h"

#include <sha2.h>
#include <string.h>

enum { VERSION_AT = 8, ZERO_AT = 12, LENGTH_AT = 16, KEY_AT = 24, CHECKSUM_AT = 56 };

static const uint8_t magic[8] = {'C', 'M', 'P', 'T', 'K', 'R', 'N', '\n'};

static void put(uint8_t *at, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t *at, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; i++) value |= (uint64_t)at[i] << (8 * i);
  return value;
}

static void add(SHA2_CTX *hash, const void *data, size_t bytes) {
  if (bytes > 0) SHA256Update(hash, data, bytes);
}

/* The length precedes each part, so that "ab", "c" and "a", "bc" differ. */
static void add_part(SHA2_CTX *hash, const void *data, size_t bytes) {
  uint8_t length[8];
  put(length, bytes, sizeof length);
  add(hash, length, sizeof length);
  add(hash, data, bytes);
}

void entry_key_make(entry_key *key, const compute_cache_part *parts, uint32_t count) {
  static const char digits[] = "0123456789abcdef";
  const char *version = compute_version_text();
  const uint8_t format[] = {ENTRY_FORMAT_VERSION};
  SHA2_CTX hash;
  SHA256Init(&hash);
  add_part(&hash, format, sizeof format);
  add_part(&hash, version, strlen(version));
  for (uint32_t i = 0; i < count; i++) add_part(&hash, parts[i].data, parts[i].bytes);
  SHA256Final(key->digest, &hash);
  for (size_t i = 0; i < ENTRY_DIGEST_BYTES; i++) {
    key->name[2 * i] = digits[key->digest[i] >> 4];
    key->name[2 * i + 1] = digits[key->digest[i] & 15];
  }
  key->name[ENTRY_NAME_LENGTH] = '\0';
}

bool entry_name_is_valid(const char *name) {
  return strspn(name, "0123456789abcdef") == ENTRY_NAME_LENGTH && !name[ENTRY_NAME_LENGTH];
}

static void checksum(uint8_t result[ENTRY_DIGEST_BYTES], const uint8_t *header, const void *data,
                     size_t bytes) {
  SHA2_CTX hash;
  SHA256Init(&hash);
  add(&hash, header, CHECKSUM_AT);
  add(&hash, data, bytes);
  SHA256Final(result, &hash);
}

void entry_header_make(uint8_t header[ENTRY_HEADER_BYTES], const entry_key *key, const void *data,
                       size_t bytes) {
  memset(header, 0, ENTRY_HEADER_BYTES);
  memcpy(header, magic, sizeof magic);
  put(header + VERSION_AT, ENTRY_FORMAT_VERSION, 4);
  put(header + LENGTH_AT, bytes, 8);
  memcpy(header + KEY_AT, key->digest, ENTRY_DIGEST_BYTES);
  checksum(header + CHECKSUM_AT, header, data, bytes);
}

bool entry_header_check(const uint8_t header[ENTRY_HEADER_BYTES], const entry_key *key,
                        uint64_t file_bytes, uint64_t *bytes) {
  *bytes = get(header + LENGTH_AT, 8);
  return memcmp(header, magic, sizeof magic) == 0 &&
         get(header + VERSION_AT, 4) == ENTRY_FORMAT_VERSION && get(header + ZERO_AT, 4) == 0 &&
         memcmp(header + KEY_AT, key->digest, ENTRY_DIGEST_BYTES) == 0 &&
         file_bytes >= ENTRY_HEADER_BYTES && *bytes == file_bytes - ENTRY_HEADER_BYTES;
}

bool entry_payload_check(const uint8_t header[ENTRY_HEADER_BYTES], const void *data, size_t bytes) {
  uint8_t expected[ENTRY_DIGEST_BYTES];
  checksum(expected, header, data, bytes);
  return memcmp(header + CHECKSUM_AT, expected, sizeof expected) == 0;
}
