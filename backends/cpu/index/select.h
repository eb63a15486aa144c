/* SPDX-License-Identifier: MIT */
/* Selects and sorts the k largest of many keys. select_keys.h generates the functions of one key
 * type. An entry is a key with its position, packed so that the earlier entry in the order is the
 * larger unsigned number: a higher key, or an equal one at a lower position. All entries of a row
 * differ. */
#ifndef CPU_INDEX_SELECT_H
#define CPU_INDEX_SELECT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/isa.h"
#include "program/isa/tile_table.h"

/* The functions of TOP_K for keys of 32 or of 64 bits. */
typedef struct select_functions {
  uint32_t entry_bytes;

  /* Appends the keys among 0 … count − 1, at positions `first` …, that exceed `bound` (all if
   * NULL); returns the new number of entries. */
  int64_t (*append)(void *entries, int64_t held, const void *keys, int64_t count, int64_t first,
                    const void *bound);

  /* Moves the k largest of `count` ≥ k ≥ 1 entries to the front, and returns the smallest of their
   * keys. `room` has space for as many entries. */
  void (*keep)(void *entries, int64_t count, int64_t k, void *room, void *bound);

  void (*sort)(void *entries, int64_t count, void *room); /* largest first */
  int64_t (*position)(const void *entries, int64_t index);
} select_functions;

extern const select_functions select_32, select_64;

/* ---- Keys, by instruction set ---------------------------------------------------------------- */

/* Keys of TOP_K, by computing type and instruction set. They are signed integers in the order of
 * the elements, where the key of the first result is the largest, so that one selection serves
 * every type. */

enum { SELECT_LANES = 128, SELECT_RUN = 16, SELECT_GROUP = 16 };

typedef struct cpu_select_loops {
  /* Keys as wide as the elements. Both zeros are equal, and so are all NaNs, which are larger than
   * all numbers. `smallest` reverses the order. */
  void (*keys)(void *keys, const void *elements, int64_t count, int32_t smallest);

  /* peaks[j] = the largest of keys j, j + SELECT_LANES, …; `count` is at least SELECT_LANES. */
  void (*peaks)(void *peaks, const void *keys, int64_t count);

  /* Marks the runs of SELECT_RUN keys that contain a key above the bound: bit i for run i, of at
   * most 64. */
  uint64_t (*above)(const void *keys, int64_t count, const void *bound);

  /* SELECT_GROUP rows side by side, whose keys of one position are neighbours: adds the keys at
   * positions first … first + count − 1 to the lists of the k largest keys and their places. */
  void (*group)(void *best, void *place, const void *keys, int64_t first, int64_t count, int64_t k);
} cpu_select_loops;

struct cpu_select_table {
  cpu_select_loops type[CPU_TYPE_COUNT];
};

CPU_DECLARE(struct cpu_select_table, cpu_select_table);

#endif
