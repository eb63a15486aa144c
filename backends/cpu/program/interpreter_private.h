/* A prepared program: steps over values, each value with a place to live. */
#ifndef CPU_INTERPRETER_PRIVATE_H
#define CPU_INTERPRETER_PRIVATE_H

#include "interpreter.h"
#include "program/isa/tile_table.h"

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
  CPU_STEP_SELECT
} cpu_step_kind;

typedef struct cpu_step {
  uint8_t kind;
  uint8_t result_bytes; /* of one element */
  bool in_place;        /* a load that needs no register when the input is dense */
  uint16_t result;      /* a value, as the operands are */
  uint16_t operand[3];
  uint16_t input;             /* of a load */
  uint32_t offset;            /* of the result's register in the scratch block */
  int16_t direct_output;      /* output that the result may be written to in place, or −1 */
  cpu_immediate immediate;    /* also the dimension of a coordinate */
  const cpu_tile_loop *loops; /* by variant */
  cpu_convert_loop convert;   /* also what copies a value of the result's type */
  cpu_load_loop load;
  _Alignas(8) unsigned char constant[8]; /* one element */
} cpu_step;

typedef struct cpu_program_output {
  uint16_t value; /* after its conversion */
  bool same_type; /* the dtype is the value's own type */
  uint8_t value_bytes, element_bytes;
  uint16_t defined_at; /* step that makes the value */
  cpu_store_loop store;
} cpu_program_output;

struct cpu_program {
  const cpu_tile_table *table;
  uint32_t input_count, output_count, step_count;
  int64_t chunk; /* elements that the registers have room for */
  int64_t tile_elements;
  uint32_t stage_offset; /* room for one more value, while outputs are stored */
  bool identity;
  uint32_t cost; /* see cpu_program_cost */
  /* The last step that may read input i where it lies. */
  uint16_t input_last_use[COMPUTE_MAX_OPERANDS];
  uint8_t input_bytes[COMPUTE_MAX_OPERANDS];
  cpu_program_output output[COMPUTE_MAX_OPERANDS];
  cpu_step step[]; /* step_count of them */
};

/* Rough work per element in units of one simple vector instruction. */
uint32_t cpu_program_cost(const cpu_program *program);

/* Which of position and coordinates the program asks for: bit d for dimension d, bit 31 for the
 * position. */
uint32_t cpu_program_places(const cpu_program *program);
#define CPU_PLACES_POSITION (1u << 31)

static inline cpu_type cpu_type_of(compute_dtype dtype) {
  static const uint8_t type[COMPUTE_DTYPE_COUNT] = {
      [COMPUTE_F64] = CPU_TYPE_F64,  [COMPUTE_F32] = CPU_TYPE_F32,   [COMPUTE_F16] = CPU_TYPE_F32,
      [COMPUTE_BF16] = CPU_TYPE_F32, [COMPUTE_I64] = CPU_TYPE_I64,   [COMPUTE_I32] = CPU_TYPE_I32,
      [COMPUTE_U8] = CPU_TYPE_I32,   [COMPUTE_BOOL] = CPU_TYPE_BOOL, [COMPUTE_U16] = CPU_TYPE_I32};
  return (cpu_type)type[dtype];
}

/* Bytes of one value in a register; BOOL is a mask there. */
static inline uint32_t cpu_type_bytes(cpu_type type) {
  return type == CPU_TYPE_F64 || type == CPU_TYPE_I64 ? 8 : 4;
}

#endif
