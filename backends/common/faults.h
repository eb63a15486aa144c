/* Faults of kernels that meet an index outside its axis (compute/generator.h): which of a queue's
 * records belongs to whom. For modules that find out only when the queue is waited for. */
#ifndef COMMON_FAULTS_H
#define COMMON_FAULTS_H

#include <stdint.h>

#include "compute/backend.h"

/* Of one queue. Kernels that come when all records are taken share the first one, without a
 * label. */
#define FAULT_RECORDS     64
#define FAULT_WORDS       (FAULT_RECORDS * COMPUTE_GENERATED_FAULT_WORDS)
#define FAULT_TABLE_BYTES (FAULT_WORDS * sizeof(int32_t))

typedef struct fault_table {
  uint32_t label; /* of what is enqueued now */
  uint32_t used;  /* records that kernels have been given since the last wait; 0: none */
  uint32_t labels[FAULT_RECORDS];
} fault_table;

/* The first word of the record for a kernel with this label, counted from the queue's first. */
uint32_t fault_take(fault_table *table, uint32_t label);

/* Words that kernels may have set since the last wait. */
static inline uint32_t fault_words(const fault_table *table) {
  return table->used * COMPUTE_GENERATED_FAULT_WORDS;
}

/* Looks at those words after a wait: COMPUTE_OK, or the error about the first that is set. Every
 * record is free again; a fault has to be zeroed by the module. */
compute_status fault_report(fault_table *table, const compute_services *services,
                            const int32_t *words, const char *device);

#endif
