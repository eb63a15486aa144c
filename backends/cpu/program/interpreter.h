/* Programs (compute/backend.h) run over tiles: a tile is a run of up to `tile_elements` consecutive
 * elements along one dimension, and each instruction is one vectorised loop over it. Intermediate
 * values stay in a scratch block that fits the L1 cache; a dense input of the computing type is
 * read in place, and the last instruction writes a dense output in place.
 *
 * Used by MAP for everything and by REDUCE, ROW and GEMM for prologues and epilogues. */
#ifndef CPU_INTERPRETER_H
#define CPU_INTERPRETER_H

#include "core/cpu.h"

typedef struct cpu_program cpu_program;

/* What one run works on. Strides are in elements, per step along the tile; 0 repeats one element.
 */
typedef struct cpu_tile {
  int64_t count; /* 1 … tile_elements */
  const void *input[COMPUTE_MAX_OPERANDS];
  int64_t input_stride[COMPUTE_MAX_OPERANDS];
  void *output[COMPUTE_MAX_OPERANDS];
  int64_t output_stride[COMPUTE_MAX_OPERANDS];
  int64_t coordinate[COMPUTE_MAX_RANK]; /* of the tile's first element */
  int32_t dimension;                    /* the one that the tile runs along */
  int64_t position;                     /* row-major position of the first element */
  int64_t position_step;                /* its step along the tile */
} cpu_tile;

/* Scratch for one running tile, on the caller's stack: 64 KiB, 64-aligned. */
#define CPU_SCRATCH_BYTES 65536
typedef struct cpu_scratch {
  _Alignas(64) unsigned char bytes[CPU_SCRATCH_BYTES];
} cpu_scratch;

/* Prepares a program for inputs and outputs of these dtypes. A program with count 0 means: store
 * input 0, converted, to output 0. */
compute_status cpu_program_prepare(cpu_device *device, const compute_program *program,
                                   uint32_t input_count, const compute_dtype *inputs,
                                   uint32_t output_count, const compute_dtype *outputs,
                                   cpu_program **result);
void cpu_program_release(cpu_device *device, cpu_program *program); /* NULL is allowed */

/* Largest tile.count, a multiple of 64, at least 64. */
int64_t cpu_program_tile_elements(const cpu_program *program);

/* Whether the program does nothing but store input 0 in the same dtype. */
bool cpu_program_is_identity(const cpu_program *program);

/* Runs one tile. With `stream`, dense outputs that are 64-byte aligned are written past the cache;
 * the caller issues cpu_stream_fence afterwards, once per task. */
void cpu_program_run(const cpu_program *program, const cpu_tile *tile, cpu_scratch *scratch,
                     bool stream);
void cpu_stream_fence(void);

#endif
