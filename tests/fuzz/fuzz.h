/* SPDX-License-Identifier: MIT */
/* libFuzzer (clang's) feeds random bytes to every reader of data from outside the process. A file
 * fuzz_<name>.c is one target. corpus/<name>/ holds initial inputs and inputs that once found an
 * error. run.sh builds and runs the targets. */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* A condition for every input; libFuzzer keeps the input that violates it. */
#define FUZZ_CHECK(condition)                                                                      \
  do {                                                                                             \
    if (!(condition)) abort();                                                                     \
  } while (0)

/* Writes the bytes to a file in memory and returns its path, which is valid until the next call. */
const char *fuzz_file(const void *data, size_t size);

#endif
