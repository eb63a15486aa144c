/* SPDX-License-Identifier: MIT */
/* Every reader of bytes that come from outside the process is given random ones here, by libFuzzer
 * (clang's). A file fuzz_<name>.c is one target; corpus/<name>/ holds inputs to begin with, and
 * those that once found something. run.sh builds and runs them. */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* What must hold for every input; libFuzzer keeps the input that breaks it. */
#define FUZZ_CHECK(condition)                                                                      \
  do {                                                                                             \
    if (!(condition)) abort();                                                                     \
  } while (0)

/* The bytes as a file in memory: its path, which stays good until the next call. */
const char *fuzz_file(const void *data, size_t size);

#endif
