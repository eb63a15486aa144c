/* SPDX-License-Identifier: MIT */
/* A kernel descriptor with its operands, attributes and programs in one object, for tests that spoil
 * one field at a time. */
#ifndef TEST_DESCRIPTOR_SAMPLE_H
#define TEST_DESCRIPTOR_SAMPLE_H

#include "core/kernel/common/program.h"
#include "core/kernel/kernel.h"
#include "core/kernel/kernel_key.h"
#include "support/harness/test.h"
#include "support/samples/attributes.h"

typedef struct sample {
  compute_kernel_descriptor d;
  any_attributes a;
  compute_operand input[5], output[1];
  program_builder prologue, epilogue;
} sample;

/* Connects the parts, also after a copy. */
static inline void bind(sample *s) {
  s->d.inputs = s->input;
  s->d.outputs = s->output;
  attributes_bind(&s->d, &s->a);
  if (s->prologue.count > 0) s->d.prologue = program_finish(&s->prologue);
  if (s->epilogue.count > 0) s->d.epilogue = program_finish(&s->epilogue);
}

/* True if the descriptor is valid; otherwise there is a reason. */
static inline bool passes(sample *s) {
  char reason[256] = "";
  bind(s);
  const bool good = descriptor_check(&s->d, reason, sizeof reason);
  assert_true(good || reason[0] != 0);
  return good;
}

/* `first` passes; after `change` it fails. */
#define SPOILED(first, change)                                                                     \
  do {                                                                                             \
    sample s = first;                                                                              \
    assert_true(passes(&s));                                                                       \
    change;                                                                                        \
    if (passes(&s)) fail_msg("passes with %s", #change);                                           \
  } while (0)

#endif
