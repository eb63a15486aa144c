/* SPDX-License-Identifier: MIT */
/* Programs (compute/backend.h) run over tiles. A tile is a run of up to `tile_elements` consecutive
 * elements along one dimension, and each instruction is one vectorised loop over it. Intermediate
 * values stay in a scratch block that fits the L1 cache. A contiguous input of the computing type
 * is read in place, and the last instruction writes a contiguous output in place.
 *
 * MAP uses programs for everything; REDUCE, ROW and GEMM use them for prologues and epilogues. */
#ifndef CPU_PROGRAM_PROGRAM_H
#define CPU_PROGRAM_PROGRAM_H

#include "core/cpu.h"
#include "core/nest.h"
#include "program/isa/chain_table.h"
#include "program/isa/finish_table.h"
#include "program/isa/formulas_table.h"
#include "program/isa/requantize_sum_table.h"
#include "program/isa/tile_table.h"

typedef struct cpu_program cpu_program;

/* The tile of one run. Strides are in elements, per step along the tile; 0 repeats one element.
 */
typedef struct cpu_tile {
  int64_t count; /* 1 … tile_elements */
  const void *input[COMPUTE_MAX_OPERANDS];
  int64_t input_stride[COMPUTE_MAX_OPERANDS];
  void *output[COMPUTE_MAX_OPERANDS];
  int64_t output_stride[COMPUTE_MAX_OPERANDS];
  int64_t coordinate[COMPUTE_MAX_RANK]; /* of the tile's first element */
  int32_t dimension;                    /* the dimension along which the tile runs */
  int64_t position;                     /* row-major position of the first element */
  int64_t position_step;                /* its step along the tile */
} cpu_tile;

/* Scratch for one running tile, from cpu_workspace_acquire, because the caller's stack may be
 * small. */
#define CPU_SCRATCH_BYTES 32768
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

/* `true` if the program only stores input 0 in the same dtype. */
bool cpu_program_is_identity(const cpu_program *program);

/* Runs one tile. With `stream`, contiguous outputs that are 64-byte aligned use non-temporal
 * stores; the caller must then call cpu_stream_fence, once per task. */
void cpu_program_run(const cpu_program *program, const cpu_tile *tile, cpu_scratch *scratch,
                     bool stream);
void cpu_stream_fence(void);

/* Runs a line of any length ≥ 1, tile by tile. `tile` describes its start, except `count`, and is
 * modified. `pace` is the increment of the tile's coordinate per element. */
void cpu_program_run_line(const cpu_program *program, cpu_tile *tile, int64_t length, int64_t pace,
                          cpu_scratch *scratch, bool stream);

/* ---- Boxes ---------------------------------------------------------------------------------- */

enum { CPU_BOX_RANK = 4 };

/* The operands of an epilogue: a box of finished values (the program's input 0), which are still in
 * this core's cache, and the same elements of all other operands. Steps are in elements. */
typedef struct cpu_box {
  const cpu_program *program;
  int32_t rank;                         /* 1 … CPU_BOX_RANK */
  int64_t count[CPU_BOX_RANK];          /* each at least 1 */
  int32_t dimension[CPU_BOX_RANK];      /* of the space: the dimension whose coordinate changes, */
  int64_t pace[CPU_BOX_RANK];           /* and its increment */
  int64_t coordinate[COMPUTE_MAX_RANK]; /* of the first element; used only if the program needs
                                         * it */
  int64_t position, position_step[CPU_BOX_RANK];
  const unsigned char *input[COMPUTE_MAX_OPERANDS]; /* the first element */
  int64_t input_step[COMPUTE_MAX_OPERANDS][CPU_BOX_RANK];
  unsigned char *output[COMPUTE_MAX_OPERANDS];
  int64_t output_step[COMPUTE_MAX_OPERANDS][CPU_BOX_RANK];
} cpu_box;

/* `true` if dimensions d and d + 1 can be merged for the program, the outputs and the inputs from
 * number `first` on. */
bool cpu_box_continues(const cpu_box *box, int32_t d, uint32_t first);

/* Merges the last dimensions as far as possible. */
void cpu_box_merge(cpu_box *box);

/* Lines with fewer elements run together where that needs no copies for each set of lines. */
enum { CPU_SHORT_LINE = 16 };

/* Runs the program in lines along dimension `along`. Each line has a fixed cost, so long lines are
 * best. */
void cpu_box_run(const cpu_box *box, int32_t along);

/* Number of operands that an instruction uses. */
static inline int cpu_operand_count(uint8_t code) {
  static const uint8_t counts[COMPUTE_I_END] = {
#define INSTRUCTION(code, number, name, operands, rule, cost, traits, text) [number] = operands,
#include "compute/backend/instructions.def"
  };
  return code < COMPUTE_I_END ? counts[code] : 0;
}

/* ---- Internals of a prepared program --------------------------------------------------------- */

/* A prepared program: steps over values, each value with a location. */

/* Instructions, and one conversion for every output. */
#define CPU_MAX_VALUES (COMPUTE_MAX_INSTRUCTIONS + COMPUTE_MAX_OPERANDS)

typedef enum cpu_step_kind {
  CPU_STEP_CONSTANT,
  CPU_STEP_LOAD,
  CPU_STEP_COORDINATE,
  CPU_STEP_POSITION,
  CPU_STEP_CONVERT, /* one operand, through `convert` */
  CPU_STEP_UNARY,
  CPU_STEP_BINARY,
  CPU_STEP_SELECT,
  CPU_STEP_DRAW /* two or three operands, with one loop for every choice of repeated ones */
} cpu_step_kind;

/* An entry of a chain's code before the operands' locations are known (chain.h). */
typedef enum cpu_chain_kind {
  CPU_CHAIN_LOAD,
  CPU_CHAIN_UNARY,
  CPU_CHAIN_BINARY, /* also a select with its second operand */
  CPU_CHAIN_THIRD,  /* operand of the preceding select */
  CPU_CHAIN_STORE
} cpu_chain_kind;

typedef struct cpu_chain_entry {
  const cpu_chain_handler *handler; /* by variant */
  uint8_t kind;
  bool reversed;  /* binary: the second operand is in registers */
  bool outside;   /* the operand comes from outside the chain */
  uint16_t value; /* the operand, or the stored value */
  uint16_t step;  /* the step that computes it; for a unary entry: the entry's step */
} cpu_chain_entry;

/* Steps that run as a chain; count 0: none. */
typedef struct cpu_chain {
  const cpu_chain_table *table;
  const cpu_chain_entry *entry;
  uint16_t count, entries;
  uint16_t kept; /* results that never leave the registers */
} cpu_chain;

typedef struct cpu_step {
  uint8_t kind;
  uint8_t result_bytes;    /* of one element */
  uint8_t condition_bytes; /* the same of a select's condition */
  bool in_place;           /* a load that needs no register if the input is contiguous */
  uint16_t result;         /* a value number, like the operands */
  uint16_t operand[3];
  uint16_t input;             /* of a load */
  uint32_t offset;            /* of the result's register in the scratch block */
  int16_t direct_output;      /* output that may receive the result in place, or −1 */
  cpu_immediate immediate;    /* also the dimension of a coordinate */
  const cpu_tile_loop *loops; /* by variant */
  cpu_convert_loop convert;   /* also copies a value of the result's type */
  cpu_load_loop load;
  _Alignas(8) unsigned char constant[8]; /* one element */
  cpu_chain chain;                       /* the chain that starts with this step */
} cpu_step;

typedef struct cpu_program_output {
  uint16_t value; /* after its conversion */
  bool same_type; /* the dtype equals the value's type */
  bool converts;  /* `store` converts from another type */
  uint8_t value_bytes, element_bytes;
  uint16_t defined_at; /* the step that computes the value */
  cpu_store_loop store;
} cpu_program_output;

/* factor · input + constant, in wrapping i32. */
typedef struct cpu_requantize_term_i32 {
  int16_t input;
  uint32_t factor, constant;
} cpu_requantize_term_i32;

enum { CPU_REQUANTIZE_TERMS = 3 };

/* The operands of a program that matches a pattern (pattern.h), by their roles there. */
typedef struct cpu_match {
  int16_t input[CPU_FORMULA_INPUTS];     /* −1: none, as for the next */
  int16_t repeated[CPU_FORMULA_NUMBERS]; /* an input … */
  bool is_number[CPU_FORMULA_NUMBERS];   /* … or this constant, or unused */
  float number[CPU_FORMULA_NUMBERS];
  bool takes_limit; /* of equal zeros, a maximum is the number, not the value */
  bool is_signed[CPU_FORMULA_INPUTS];
  int32_t bytes; /* the f32 value that is limited to bytes, or −1 */
  uint32_t terms;
  cpu_requantize_term_i32 term[CPU_REQUANTIZE_TERMS];
} cpu_match;

/* A program as one loop (finish.h): the inputs added to input 0 (a, b and c of finish_table.h, −1
 * for none), and the limits. */
typedef struct cpu_finish {
  const cpu_finish_table *loops; /* NULL: the program has another form */
  compute_dtype dtype;           /* of addends and results: F32 or BF16 */
  int16_t input[3];              /* a, b and c of finish_table.h, −1 for none */
  float low, zero, high;
} cpu_finish;

enum { CPU_REQUANTIZE_OFFSET, CPU_REQUANTIZE_SCALE, CPU_REQUANTIZE_BIAS, CPU_REQUANTIZE_INPUTS };

/* The same for a program that converts sums to bytes (requantize.h): its inputs, −1 for none, and
 * its numbers, neutral ones for missing parts. With terms, which replace the offset, only products
 * run the loop: the zero points of both their operands require such sums. */
typedef struct cpu_requantize {
  const cpu_requantize_table *loops; /* NULL: the program has another form */
  int16_t input[CPU_REQUANTIZE_INPUTS];
  float scale_number, bias_number; /* used if there is no such input */
  float low, high, divisor, zero;
  bool subtracts; /* subtracts the offset */
  bool is_signed;
  bool divides; /* result of cpu_requantize_divides */
  uint32_t terms;
  cpu_requantize_term_i32 term[CPU_REQUANTIZE_TERMS];
} cpu_requantize;

/* The same for a program that converts the sum, or the product, of two tensors of bytes to bytes
 * (requantize.h). */
typedef struct cpu_requantize_sum {
  const cpu_requantize_sum_table *loops; /* NULL: the program has another form */
  cpu_requantize makes;                  /* without inputs */
  bool multiplies;
  int16_t input[2];
  bool is_signed[2];
  float zero[2], scale[2];
  float factor[2], added[2]; /* as in cpu_requantize_term */
} cpu_requantize_sum;

/* The same for a program of isa/formulas.def (formulas.h). */
typedef struct cpu_formula {
  cpu_formula_loop loop; /* NULL: the program matches no row */
  uint32_t outputs;
  cpu_match operands;
} cpu_formula;

struct cpu_program {
  const cpu_tile_table *table;
  cpu_finish finish;
  cpu_requantize requantize;
  cpu_requantize_sum requantize_sum;
  /* For a program that converts sums to bytes and adds them to other bytes: the program of the
   * first part, or NULL, and the addition; its input 0 is the result of the first part. */
  cpu_program *bytes;
  cpu_requantize_sum residual;
  cpu_formula formula;
  cpu_finish first;  /* of a program that is such a loop followed by `rest`, which reads only its
                      * result */
  cpu_program *rest; /* or NULL */
  cpu_tile_rows_loop rest_rows; /* the rest as one loop over rows, in place; or NULL */
  /* For a program with addends and results of bf16 that continues with functions of one value only:
   * the sum, and the functions, from f32 to f32; or NULL. */
  cpu_finish sum;
  cpu_program *functions;
  /* For a program that ends by adding an input to a value that would otherwise have a rest: the
   * program without that addition, and the input; or NULL. */
  cpu_program *before;
  int16_t added;
  cpu_device *device; /* for the scratch memory of boxes */
  uint32_t input_count, output_count, step_count;
  uint32_t passes;        /* loops over a tile: the steps, or one if a single loop does
                           * everything */
  int64_t chunk;          /* capacity of the registers, in elements */
  int64_t streamed_chunk; /* the same if results pass through them on their way to memory */
  int64_t block;          /* elements that chains compute at once; 1 without chains */
  int64_t tile_elements;
  uint32_t stage_offset; /* register for one more value, while outputs are stored */
  bool identity;
  bool one_byte; /* registers have one byte for each element (bytes.h) */
  /* For a function of one byte: its results for all bytes of this input, or −1. */
  int16_t table_input;
  bool copies_bytes; /* all of them are the byte itself */
  unsigned char table_of[256];
  uint32_t cost;   /* see cpu_program_cost */
  uint32_t places; /* see cpu_program_places */
  /* The last step that may read input i in place. */
  uint16_t input_last_use[COMPUTE_MAX_OPERANDS];
  uint8_t input_bytes[COMPUTE_MAX_OPERANDS];
  cpu_program_output output[COMPUTE_MAX_OPERANDS];
  cpu_step step[]; /* step_count of them */
};

/* Rough work per element in units of one simple vector instruction. */
uint32_t cpu_program_cost(const cpu_program *program);

/* Which of position and coordinates the program uses: bit d for dimension d, bit 31 for the
 * position. */
uint32_t cpu_program_places(const cpu_program *program);
#define CPU_PLACES_POSITION (1u << 31)

static inline cpu_type cpu_type_of(compute_dtype dtype) {
#define CPU_TYPE(code, number, name, kind, bytes, type, element) [COMPUTE_##code] = CPU_TYPE_##type,
  static const uint8_t type[COMPUTE_DTYPE_COUNT] = {COMPUTE_DTYPES(CPU_TYPE)};
#undef CPU_TYPE
  return (cpu_type)type[dtype];
}

/* Bytes of one value in a register; BOOL is a mask there. */
static inline uint32_t cpu_type_bytes(cpu_type type) {
  return type == CPU_TYPE_F64 || type == CPU_TYPE_I64 ? 8 : 4;
}

/* ---- Prologues and epilogues ----------------------------------------------------------------- */

/* The prologue or the epilogue of a REDUCE or ROW kernel: a program together with its operands,
 * ready to run along one dimension of a loop nest.
 *
 * The space of such a kernel is the product of two nests. Contiguous values of one type connect the
 * stages: a prologue writes them, and an epilogue reads them as its input 0. */

typedef struct cpu_stage {
  cpu_program *program;
  int64_t tile_elements;         /* in one run of the program */
  int32_t first_input, inputs;   /* operands that the program loads */
  int32_t first_output, outputs; /* operands that it stores; none for a prologue */
  uint32_t value_bytes;          /* of one value between the stages */
  uint32_t bytes[CPU_NEST_OPERANDS];
  int32_t position; /* operand number of the row-major position; −1 if unused */
  bool epilogue;
  bool identity;    /* passes the values on, in the same dtype */
  bool coordinates; /* the program uses coordinates: do not merge dimensions */
  bool positions;   /* the program uses positions: set `position` */
} cpu_stage;

/* `value` is the type between the stages. The caller releases the stage even after a failure. */
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

/* A nest, a walk through all its dimensions except the last, and an index along the last one. */
typedef struct cpu_position {
  const cpu_nest *nest;
  const cpu_walk *walk;
  int64_t last;
} cpu_position;

void cpu_place_set(cpu_place *place, cpu_position a, cpu_position b);

/* Runs `count` ≥ 1 elements along the last dimension of `along`, from `place` on. `pointers` are
 * the launch's pointers. */
void cpu_stage_run(const cpu_stage *stage, const cpu_nest *along, const cpu_place *place,
                   void *const *pointers, void *values, int64_t count, cpu_scratch *scratch,
                   bool stream);

/* The same for `lines` such lines of a prologue, each one step further along the last dimension of
 * `across`, if its program is one loop (formulas.h) that supports them, or only converts elements;
 * otherwise false. */
bool cpu_stage_run_lines(const cpu_stage *stage, const cpu_nest *along, const cpu_nest *across,
                         const cpu_place *place, void *const *pointers, void *values, int64_t lines,
                         int64_t count);

/* A box of elements of a prologue: along up to three dimensions of the two nests, the last one
 * varies fastest. Inputs that are not contiguous over the box are copied to `copies`, which holds
 * cpu_stage_copy_bytes for each input. */
typedef struct cpu_stage_box {
  int64_t count[3];
  const cpu_nest *nest[3];
  int32_t dimension[3]; /* of the nest */
  unsigned char *copies;
} cpu_stage_box;

/* The most bytes of a copy of `elements` elements. */
static inline uint64_t cpu_stage_copy_bytes(int64_t elements) {
  return cpu_whole_lines((uint64_t)elements * sizeof(double));
}

/* Runs all elements of a box together: for short lines, whose starts take longer than their
 * elements. The program must use neither coordinates nor positions. */
void cpu_stage_run_box(const cpu_stage *stage, const cpu_stage_box *box, const cpu_place *place,
                       void *const *pointers, void *values, cpu_scratch *scratch);

/* The address of an operand's element at a place. */
static inline void *cpu_place_address(const cpu_stage *stage, const cpu_place *place,
                                      void *const *pointers, int32_t operand) {
  return (unsigned char *)pointers[operand] +
         place->offset[operand] * (int64_t)stage->bytes[operand];
}

#endif
