/* SPDX-License-Identifier: MIT */
#include "support/emulator/emulator_sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t used_bytes(const sample_operand *o) {
  return (size_t)o->elements * compute_dtype_size(o->dtype);
}

bool emulator_sample_create(const sample_kernel *sample, emulator_sample *m) {
  memset(m, 0, sizeof *m);
  if (!sample_memory_create(sample, false, &m->host)) return false;
  for (uint32_t i = 0; i < m->host.count; i++) {
    if (emulator_buffer_create(used_bytes(&m->host.operand[i]), &m->buffer[i])) continue;
    m->host.count = i;
    emulator_sample_release(m);
    return false;
  }
  return true;
}

void emulator_sample_release(emulator_sample *m) {
  for (uint32_t i = 0; i < m->host.count; i++) emulator_buffer_release(&m->buffer[i]);
  sample_memory_release(&m->host);
}

bool emulator_sample_run(emulator_sample *m, emulator_program *program,
                         const compute_generated *generated, emulator_order order, bool *fault,
                         char *problem, size_t problem_bytes) {
  void *arguments[COMPUTE_MAX_OPERANDS];
  for (uint32_t i = 0; i < m->host.count; i++) {
    const sample_operand *o = &m->host.operand[i];
    memcpy(m->buffer[i].data, o->before + SAMPLE_GUARD, used_bytes(o));
    arguments[i] = m->buffer[i].data + (o->offset - SAMPLE_GUARD);
  }
  *fault = false;
  return generated->launch_count == 0 ||
         emulator_run(program, generated, arguments, order, fault, problem, problem_bytes);
}

bool emulator_sample_intact(const emulator_sample *m, char *problem, size_t problem_bytes) {
  for (uint32_t i = 0; i < m->host.count; i++) {
    if (emulator_buffer_intact(&m->buffer[i])) continue;
    snprintf(problem, problem_bytes, "wrote before operand %u", i);
    return false;
  }
  return true;
}

bool emulator_sample_check(emulator_sample *m, char *problem, size_t problem_bytes) {
  for (uint32_t i = 0; i < m->host.count; i++) {
    const sample_operand *o = &m->host.operand[i];
    memcpy(o->after, o->before, o->bytes);
    memcpy(o->after + SAMPLE_GUARD, m->buffer[i].data, used_bytes(o));
  }
  return emulator_sample_intact(m, problem, problem_bytes) &&
         sample_memory_check(&m->host, problem, problem_bytes);
}

bool emulator_sample_repeats(emulator_sample *m, emulator_program *program,
                             const compute_generated *generated, emulator_order order,
                             char *problem, size_t problem_bytes) {
  bool fault;
  for (uint32_t i = 0; i < m->host.count; i++)
    memcpy(m->host.operand[i].after + SAMPLE_GUARD, m->buffer[i].data, m->buffer[i].bytes);
  if (!emulator_sample_run(m, program, generated, order, &fault, problem, problem_bytes))
    return false;
  for (uint32_t i = 0; i < m->host.count; i++)
    if (memcmp(m->host.operand[i].after + SAMPLE_GUARD, m->buffer[i].data, m->buffer[i].bytes)) {
      snprintf(problem, problem_bytes, "other bits when items run in another order");
      return false;
    }
  return true;
}
