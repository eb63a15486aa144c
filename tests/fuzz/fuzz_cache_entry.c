/* SPDX-License-Identifier: MIT */
/* Entries of the disk cache: accepted bytes must equal the stored bytes. */
#include <string.h>

#include "codegen/cache/entry.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const compute_cache_part part = {"key", 3};
  uint8_t made[ENTRY_HEADER_BYTES];
  entry_key key;
  entry_key_make(&key, &part, 1);
  if (size < ENTRY_HEADER_BYTES) return 0;
  const uint8_t *payload = data + ENTRY_HEADER_BYTES;
  uint64_t bytes;
  if (entry_header_check(data, &key, size, &bytes)) {
    FUZZ_CHECK(bytes == size - ENTRY_HEADER_BYTES);
    if (entry_payload_check(data, payload, bytes)) {
      entry_header_make(made, &key, payload, bytes);
      FUZZ_CHECK(!memcmp(made, data, sizeof made));
    }
  }
  /* A valid header for these bytes, with one byte of the header or the payload changed. */
  size_t rest = size - ENTRY_HEADER_BYTES, at = (size_t)(data[0] | data[1] << 8);
  entry_header_make(made, &key, payload, rest);
  FUZZ_CHECK(entry_header_check(made, &key, size, &bytes));
  FUZZ_CHECK(entry_payload_check(made, payload, bytes));
  if (data[2] == 0) return 0;
  made[at % sizeof made] ^= data[2];
  FUZZ_CHECK(!entry_header_check(made, &key, size, &bytes) ||
             !entry_payload_check(made, payload, bytes));
  return 0;
}
