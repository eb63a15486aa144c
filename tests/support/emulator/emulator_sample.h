/* SPDX-License-Identifier: MIT */
/* Runs generated kernels of samples in the emulator, on the operands of sample_memory.h. A buffer
 * has no guards, because it ends at a page that faults. */
#ifndef SUPPORT_EMULATOR_SAMPLE_H
#define SUPPORT_EMULATOR_SAMPLE_H

#include "support/emulator/emulator.h"
#include "support/samples/sample_memory.h"

typedef struct emulator_sample {
  sample_memory host;
  emulator_buffer buffer[COMPUTE_MAX_OPERANDS];
} emulator_sample;

/* Returns false without memory. */
bool emulator_sample_create(const sample_kernel *sample, emulator_sample *m);
void emulator_sample_release(emulator_sample *m);

/* Runs a kernel on the operands as they were at first. Returns false, with `problem` filled, if it
 * misbehaves. */
bool emulator_sample_run(emulator_sample *m, emulator_program *program,
                         const compute_generated *generated, emulator_order order, bool *fault,
                         char *problem, size_t problem_bytes);

/* Returns true if nothing was written before a buffer. */
bool emulator_sample_intact(const emulator_sample *m, char *problem, size_t problem_bytes);

/* Returns true if the results of the last run agree with sample_memory_expect. */
bool emulator_sample_check(emulator_sample *m, char *problem, size_t problem_bytes);

/* Returns true if a run in another order gives the bits of the last run. */
bool emulator_sample_repeats(emulator_sample *m, emulator_program *program,
                             const compute_generated *generated, emulator_order order,
                             char *problem, size_t problem_bytes);

#endif
