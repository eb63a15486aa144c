#include "faults.h"

#include <stddef.h>

uint32_t fault_take(fault_table *table, uint32_t label) {
  uint32_t record = 1;
  if (table->used == 0) table->used = 1; /* the shared record */
  while (record < table->used && table->labels[record] != label) record++;
  if (label == 0 || record == FAULT_RECORDS) return 0;
  if (record == table->used) table->labels[table->used++] = label;
  return record * COMPUTE_GENERATED_FAULT_WORDS;
}

static int64_t join(const int32_t *halves) {
  return (int64_t)((uint64_t)(uint32_t)halves[1] << 32 | (uint32_t)halves[0]);
}

compute_status fault_report(fault_table *table, const compute_services *services,
                            const int32_t *words, const char *device) {
  const uint32_t used = table->used;
  table->used = 0;
  for (uint32_t i = 0; i < used; i++) {
    const int32_t *record = words + (size_t)i * COMPUTE_GENERATED_FAULT_WORDS;
    if (record[0] == 0) continue;
    if (services->struct_size >=
            offsetof(compute_services, fail_index) + sizeof services->fail_index &&
        services->fail_index)
      return services->fail_index(services->host, i > 0 ? table->labels[i] : 0, join(record + 2),
                                  join(record + 4));
    return services->fail(services->host, COMPUTE_ERROR_INDEX, 0,
                          "check the values of index tensors before the call",
                          "%s: an index in the data is out of range", device);
  }
  return COMPUTE_OK;
}
