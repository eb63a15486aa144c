/* The inner loops of Winograd's minimal filtering, F(4 × 4, 3 × 3) in f32, per instruction set.
 *
 * A tile of 4 × 4 results comes from a patch of 6 × 6 of the source. Patch, filter and sums are
 * turned into 36 numbers each, its positions, which are multiplied one by one: 36 products where
 * the plain sum takes 144. Tiles lie side by side in vectors; a plane is one element of all
 * patches. conv_winograd.c says how they are arranged. */
#ifndef CPU_WINOGRAD_TABLE_H
#define CPU_WINOGRAD_TABLE_H

#include <stdint.h>

enum {
  CPU_WINOGRAD_TILE = 4,       /* results in each direction */
  CPU_WINOGRAD_PATCH = 6,      /* elements of the source that they need */
  CPU_WINOGRAD_POSITIONS = 36, /* PATCH² */
  CPU_WINOGRAD_ROWS = 16,      /* rows of a filter tile have room for so many; as lanes at most */
};

typedef struct cpu_winograd {
  int32_t lanes; /* `count`s below are multiples of it; memory is there to the full */

  /* One row of neighbouring patches into its six planes: planes[j·pitch + t] = line[4·t + j]. Reads
   * 4·count + 4 elements. */
  void (*split)(const float *line, int64_t count, float *planes, int64_t pitch);

  /* Patches, as 36 planes, to positions. Tile t of position p goes to
   * to[p·position + t / panel · panel_step + t % panel]; `panel` is a multiple of lanes. */
  void (*source)(const float *planes, int64_t pitch, int64_t count, float *to, int64_t position,
                 int64_t panel, int64_t panel_step);

  /* `rows` ≤ ROWS filters (from one to the next: `outer`) of each of `depth` channels (`inner`) to
   * positions: to[p·position + c·rows + i]. taps[t] says where tap t is; in elements, as all. */
  void (*filter)(const float *filter, int64_t rows, int64_t outer, int64_t depth, int64_t inner,
                 const int64_t taps[9], float *to, int64_t position);

  /* Sums of all positions to planes of results: 16 of them, `pitch` apart. */
  void (*result)(const float *sums, int64_t position, int64_t count, float *planes, int64_t pitch);

  /* One row of results from its four planes: line[4·t + j] = planes[j·pitch + t]. */
  void (*join)(const float *planes, int64_t pitch, int64_t count, float *line);
} cpu_winograd;

extern const cpu_winograd cpu_winograd_scalar, cpu_winograd_avx2, cpu_winograd_avx512;

#endif
