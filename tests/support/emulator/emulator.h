/* SPDX-License-Identifier: MIT */
/* Runs generated kernels of the C dialect on the host, item by item.
 *
 * The machine's C compiler compiles a source into a shared object. The object's name is the
 * source's hash, so that a second run compiles nothing. Groups run one after the other; the items
 * of a group are coroutines that switch at barriers. The emulator finds errors that a real device
 * hides:
 *
 * - local memory holds a pattern before each group, so that a missing barrier reads nonsense;
 * - items run in several orders;
 * - an item that ends, or waits at another barrier, while the others wait is an error;
 * - buffers end at an inaccessible page.
 *
 * It needs neither cmocka nor the library. A process runs one launch at a time. */
#ifndef SUPPORT_EMULATOR_H
#define SUPPORT_EMULATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/backend.h"

/* ---- Programs ------------------------------------------------------------------------------ */

typedef struct emulator_program emulator_program;

/* A source to compile, and its entry points. */
typedef struct emulator_source {
  const char *text;
  const char *entries[COMPUTE_GENERATED_LAUNCHES];
  uint32_t entry_count;
} emulator_source;

emulator_source emulator_source_of(const compute_generated *generated);

/* Compiles the sources that have no object in `folder` yet, several at once. Returns false if some
 * do not compile; then `problem` gets the compiler's message about the first of them. */
bool emulator_compile(const char *folder, const emulator_source *sources, size_t count,
                      char *problem, size_t problem_bytes);

/* Loads one program and compiles it if necessary. Returns NULL, with `problem` filled, if that
 * fails. */
emulator_program *emulator_open(const char *folder, const emulator_source *source, char *problem,
                                size_t problem_bytes);
void emulator_close(emulator_program *program); /* NULL is allowed */

/* ---- Buffers ------------------------------------------------------------------------------- */

/* Memory whose last byte is followed by a page that faults, and whose first byte follows a
 * pattern. */
typedef struct emulator_buffer {
  unsigned char *data;
  size_t bytes;
  unsigned char *pages;
  size_t page_bytes;
} emulator_buffer;

/* Fills the buffer with the pattern. Returns false if there is no memory. */
bool emulator_buffer_create(size_t bytes, emulator_buffer *buffer);
void emulator_buffer_release(emulator_buffer *buffer);

/* Returns true if nothing was written before the first byte. */
bool emulator_buffer_intact(const emulator_buffer *buffer);

/* ---- Launches ------------------------------------------------------------------------------ */

/* The order in which the groups, and the items of a group, run. */
typedef enum emulator_order {
  EMULATOR_ASCENDING,
  EMULATOR_DESCENDING,
  EMULATOR_MIXED,
  EMULATOR_ORDERS
} emulator_order;

/* Runs one launch. `buffers` are the addresses of the first elements, in the order of the launch's
 * buffers. Returns false, with `problem` filled, if the kernel misbehaves. */
bool emulator_launch(emulator_program *program, const compute_generated_launch *launch,
                     void *const *buffers, emulator_order order, char *problem,
                     size_t problem_bytes);

/* Runs all launches of a kernel. `arguments` are the inputs, then the outputs. `fault` is set to
 * true if the kernel found an index out of range. */
bool emulator_run(emulator_program *program, const compute_generated *generated,
                  void *const *arguments, emulator_order order, bool *fault, char *problem,
                  size_t problem_bytes);

#endif
