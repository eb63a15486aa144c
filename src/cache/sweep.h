/* Keeping the folder of the disk cache within its size. */
#ifndef CACHE_SWEEP_H
#define CACHE_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

#define SWEEP_TEMPORARY "new-" /* how the names of unfinished entries begin */

/* What a file costs on disk, nearly: whole blocks, so that very many tiny files count as well. */
static inline uint64_t sweep_cost(uint64_t bytes) {
  return bytes > UINT64_MAX - 4095 ? UINT64_MAX : (bytes + 4095) / 4096 * 4096;
}

/* Removes what other processes left unfinished more than an hour ago and, if the entries cost more
 * than `keep` bytes, the least recently used ones until they do not. *left is what then remains,
 * and *evictions the number of entries removed. False when the folder cannot be read or host memory
 * is short. Other processes may do the same at once: each file goes only once. */
bool sweep_folder(int folder, uint64_t keep, uint64_t *left, uint64_t *evictions);

#endif
