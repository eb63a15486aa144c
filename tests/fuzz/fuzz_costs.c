/* SPDX-License-Identifier: MIT */
/* Files of costs: the bytes as such a file, and as the contents of a line with a valid checksum.
 * Writing an accepted line and reading it again gives the same values. */
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "fuzz.h"
#include "plan/cost/file.h"

enum { KEY = 0x1234 };

static void check_line(const char *line, size_t length) {
  char printed[COSTS_LINE_BYTES], again[COSTS_LINE_BYTES];
  device_costs costs, other;
  if (!costs_line_parse(line, length, KEY, &costs)) return;
  size_t bytes = costs_line_print(KEY, "model", &costs, printed);
  FUZZ_CHECK(bytes > 1 && bytes < sizeof printed);
  FUZZ_CHECK(costs_line_parse(printed, bytes - 1, KEY, &other));
  FUZZ_CHECK(costs_line_print(KEY, "model", &other, again) == bytes);
  FUZZ_CHECK(!memcmp(printed, again, bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char line[COSTS_LINE_BYTES];
  device_costs costs;
  (void)costs_text_find((const char *)data, size, KEY, &costs);
  if (size + 64 > sizeof line) return 0;
  size_t length = (size_t)snprintf(line, sizeof line, "costs 1 %016x ", KEY);
  memcpy(line + length, data, size);
  length += size;
  unsigned long sum = crc32(crc32(0, NULL, 0), (const Bytef *)line, (uInt)length);
  length += (size_t)snprintf(line + length, sizeof line - length, " %08lx", sum);
  check_line(line, length);
  return 0;
}
