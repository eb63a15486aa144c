/* The prologue or the epilogue of a REDUCE or ROW kernel: a program together with the operands it
 * reads and writes, ready to run along one dimension of a loop nest.
 *
 * The space of such a kernel is the product of two nests. Between the stages stand plain dense
 * values of one type: a prologue writes them, an epilogue reads them as its input 0. */
#ifndef CPU_STAGE_H
#define CPU_STAGE_H

#include "interpreter.h"
#include "core/nest.h"

typedef struct cpu_stage {
  cpu_program *program;
  int64_t tile_elements;         /* of one run of the program */
  int32_t first_input, inputs;   /* operands that the program loads */
  int32_t first_output, outputs; /* operands that it stores; none for a prologue */
  uint32_t value_bytes;          /* of one value between the stages */
  uint32_t bytes[CPU_NEST_OPERANDS];
  int32_t position; /* operand number of the row-major position; −1 if the program needs none */
  bool epilogue;
  bool identity;    /* the values themselves, in the same dtype */
  bool coordinates; /* the program asks for them: dimensions must not be merged */
  bool positions;   /* the program asks for them: set `position` */
} cpu_stage;

/* `value` is the type between the stages. The caller releases the stage even when this fails. */
compute_status cpu_stage_prepare_prologue(cpu_device *device,
                                          const compute_kernel_descriptor *descriptor,
                                          compute_dtype value, cpu_stage *stage);
compute_status cpu_stage_prepare_epilogue(cpu_device *device,
                                          const compute_kernel_descriptor *descriptor,
                                          compute_dtype value, cpu_stage *stage);
void cpu_stage_release(cpu_device *device, cpu_stage *stage);

/* One point of the space. */
typedef struct cpu_place {
  int64_t offset[CPU_NEST_OPERANDS]; /* in elements */
  int64_t coordinate[COMPUTE_MAX_RANK];
} cpu_place;

/* A nest, a walk through all its dimensions but the last, and an index along that one. */
typedef struct cpu_position {
  const cpu_nest *nest;
  const cpu_walk *walk;
  int64_t last;
} cpu_position;

void cpu_place_set(cpu_place *place, cpu_position a, cpu_position b);

/* Runs `count` ≥ 1 elements along the last dimension of `along`, from `place` on. `pointers` are
 * the launch's. */
void cpu_stage_run(const cpu_stage *stage, const cpu_nest *along, const cpu_place *place,
                   void *const *pointers, void *values, int64_t count, cpu_scratch *scratch,
                   bool stream);

/* The address of an operand's element at a place. */
static inline void *cpu_place_address(const cpu_stage *stage, const cpu_place *place,
                                      void *const *pointers, int32_t operand) {
  return (unsigned char *)pointers[operand] +
         place->offset[operand] * (int64_t)stage->bytes[operand];
}

#endif
