/* Keys of TOP_K, by computing type and instruction set: signed integers that are ordered as the
 * elements should be, the first result's the largest. Then one selection serves every type. */
#ifndef CPU_ISA_SELECT_TABLE_H
#define CPU_ISA_SELECT_TABLE_H

#include "core/isa.h"
#include "program/isa/tile_table.h"

typedef struct cpu_select_loops {
  /* Keys as wide as the elements. The zeros are alike, and so are NaNs, which are larger than all
   * numbers. `smallest`: the other way round. */
  void (*keys)(void *keys, const void *elements, int64_t count, int32_t smallest);

  /* How many keys are larger than a bound. */
  int64_t (*above)(const void *keys, int64_t count, const void *bound);
} cpu_select_loops;

struct cpu_select_table {
  cpu_select_loops type[CPU_TYPE_COUNT];
};

extern const cpu_select_table cpu_select_table_scalar, cpu_select_table_avx2,
    cpu_select_table_avx512;

#endif
