/* SPDX-License-Identifier: MIT */
/* Tuning files and COMPUTE_TUNING. Writing an accepted line gives the same line again. */
#include <string.h>

#include "codegen/tune/tuning.h"
#include "fuzz.h"

static void read_file(const uint8_t *data, size_t size) {
  tuning_contents contents;
  char reason[TUNING_REASON_BYTES], line[ENTRY_LINE_BYTES];
  if (tuning_file_read(fuzz_file(data, size), false, &contents, reason) != COMPUTE_OK) return;
  for (size_t i = 0; i < contents.count; i++) {
    tuning_entry again, *entry = &contents.entries[i];
    size_t length = entry_print(entry, line);
    FUZZ_CHECK(length > 1 && length < sizeof line);
    FUZZ_CHECK(entry_parse(line, length - 1, &again) == ENTRY_GOOD);
    FUZZ_CHECK(!strcmp(again.identity, entry->identity));
    FUZZ_CHECK(!strcmp(again.kernel_class, entry->kernel_class));
    FUZZ_CHECK(parameters_equal(&again.tuning, &entry->tuning));
    FUZZ_CHECK(again.nanoseconds == entry->nanoseconds);
  }
  FUZZ_CHECK(tuning_file_drop_replaced(&contents, reason) == COMPUTE_OK);
  tuning_file_release(&contents);
}

static void read_rules(const uint8_t *data, size_t size) {
  forced_rules rules;
  char reason[128];
  compute_tuning tuning;
  char *text = malloc(size + 1);
  FUZZ_CHECK(text != NULL);
  memcpy(text, data, size);
  text[size] = 0;
  bool good = forced_parse(text, &rules, reason);
  FUZZ_CHECK(good || rules.count == 0);
  if (good) (void)forced_find(&rules, "gemm/f32>f32>f32/nn.single/b0m10n10k10", &tuning);
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  read_file(data, size);
  read_rules(data, size);
  return 0;
}
