/* SPDX-License-Identifier: MIT */
/* Runs generated kernels of the C dialect on the host, item by item.
 *
 * A source is compiled by the machine's C compiler into a shared object (kept by the source's hash,
 * so that a second run compiles nothing), loaded, and launched as a GPU would: groups one after the
 * other, the items of a group as coroutines that change places at barriers. What a real device
 * hides shows here: local memory holds a pattern before each group, so that a missing barrier reads
 * nonsense; items run in several orders; an item that ends, or waits at another barrier, while the
 * rest wait is an error; buffers end at a page that cannot be touched.
 *
 * Needs neither cmocka nor the library. One launch at a time in a process. */
#ifndef SUPPORT_EMULATOR_H
#define SUPPORT_EMULATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/backend.h"

/* ---- Programs ------------------------------------------------------------------------------ */

typedef struct emulator_program emulator_program;

/* What to compile: a source, and the entry points that will be launched. */
typedef struct emulator_source {
  const char *text;
  const char *entries[COMPUTE_GENERATED_LAUNCHES];
  uint32_t entry_count;
} emulator_source;

emulator_source emulator_source_of(const compute_generated *generated);

/* Compiles those of the sources that `folder` has no object of yet, several at once. False if some
 * do not compile; then `problem` gets the compiler's words about the first of them. */
bool emulator_compile(const char *folder, const emulator_source *sources, size_t count,
                      char *problem, size_t problem_bytes);

/* Loads one, compiling it if need be. NULL with `problem` filled if that fails. */
emulator_program *emulator_open(const char *folder, const emulator_source *source, char *problem,
                                size_t problem_bytes);
void emulator_close(emulator_program *program); /* NULL is allowed */

/* ---- Buffers ------------------------------------------------------------------------------- */

/* Memory whose last byte is followed by a page that faults; a pattern lies before the first. */
typedef struct emulator_buffer {
  unsigned char *data;
  size_t bytes;
  unsigned char *pages;
  size_t page_bytes;
} emulator_buffer;

/* Filled with the pattern. False without memory. */
bool emulator_buffer_create(size_t bytes, emulator_buffer *buffer);
void emulator_buffer_release(emulator_buffer *buffer);

/* Whether nothing was written before the first byte. */
bool emulator_buffer_intact(const emulator_buffer *buffer);

/* ---- Launches ------------------------------------------------------------------------------ */

/* In which order the items of a group, and the groups, take their turns. */
typedef enum emulator_order {
  EMULATOR_ASCENDING,
  EMULATOR_DESCENDING,
  EMULATOR_MIXED,
  EMULATOR_ORDERS
} emulator_order;

/* One launch. `buffers` are the addresses of the first elements, in the order of the launch's
 * buffers. False with `problem` filled when the kernel misbehaves. */
bool emulator_launch(emulator_program *program, const compute_generated_launch *launch,
                     void *const *buffers, emulator_order order, char *problem,
                     size_t problem_bytes);

/* All launches of a kernel. `arguments` are the inputs, then the outputs. `fault` tells whether the
 * kernel found an index out of range. */
bool emulator_run(emulator_program *program, const compute_generated *generated,
                  void *const *arguments, emulator_order order, bool *fault, char *problem,
                  size_t problem_bytes);

#endif
