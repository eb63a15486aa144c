/* SPDX-License-Identifier: MIT */
/* The parts of a compiled program, shared by building and running. */
#ifndef SUPPORT_EMULATOR_PROGRAM_H
#define SUPPORT_EMULATOR_PROGRAM_H

#include "support/emulator/emulator.h"

/* The running item, as kernels/dialect_c.h declares it. */
typedef struct dialect_item {
  uint32_t local_id[3], group_id[3], group_size[3], group_count[3];
  void (*barrier)(struct dialect_item *item);
  void *runner;
  void (*local)(struct dialect_item *item, void *memory, uint64_t bytes);
  int line;
} dialect_item;

enum { DIALECT_FENCE = 256 }; /* guard bytes after each local array */

struct emulator_program {
  void *library;
  void (*enter)(dialect_item *item);
  uint32_t entry_count;
  struct {
    char name[64];
    void (*call)(void **arguments);
    uint64_t shape_bytes; /* in the source */
  } entries[COMPUTE_GENERATED_LAUNCHES];
};

/* Runs one launch of `call`, an entry point of a loaded object, with these arguments. Returns
 * false, with `problem` filled, if the kernel misbehaves. */
bool emulator_launch_plain(void (*enter)(dialect_item *), void (*call)(void **arguments),
                           const uint32_t group[3], const uint32_t groups[3], void **arguments,
                           emulator_order order, char *problem, size_t problem_bytes);

/* Writes a problem, cut to fit. Returns false. */
bool emulator_explain(char *problem, size_t bytes, const char *format, ...) COMPUTE_PRINTF(3, 4);

#endif
