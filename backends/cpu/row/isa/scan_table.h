/* The inner loops of running sums, products, maxima and minima, by type and instruction set.
 *
 * Every row is cut into blocks of CPU_SCAN_BLOCK elements. What a block stores is its own running
 * fold, combined with the fold of all blocks before it, so that blocks can be computed anywhere:
 * the result does not depend on who computes which. */
#ifndef CPU_ISA_SCAN_TABLE_H
#define CPU_ISA_SCAN_TABLE_H

#include <stdbool.h>

#include "core/isa.h"
#include "program/isa/tile_table.h"

enum { CPU_SCAN_BLOCK = 1024 };

typedef struct cpu_scan_loops {
  /* A block of up to CPU_SCAN_BLOCK elements along a row; local = its running fold. */
  void (*local)(void *local, const void *source, int64_t count);

  /* result[i] = carry with local[i] if inclusive, else result[0] = carry, result[i] = carry with
   * local[i − 1]. */
  void (*finish)(void *result, const void *carry, const void *local, int64_t count, bool exclusive);

  /* One step of `count` rows side by side. */
  void (*step)(void *result, const void *carry, void *local, const void *source, int64_t count,
               bool exclusive);

  void (*combine)(void *into, const void *other, int64_t count); /* into = into with other */
  void (*clear)(void *values, int64_t count);                    /* what changes no value */
  void (*identity)(void *value); /* as an exclusive fold begins with */
} cpu_scan_loops;

struct cpu_scan_table {
  cpu_scan_loops fold[4][CPU_TYPE_COUNT]; /* by compute_combine; none of BOOL */
};

extern const cpu_scan_table cpu_scan_table_scalar, cpu_scan_table_avx2, cpu_scan_table_avx512;

#endif
