/* Local memory of the matrix multiplication on matrix units: two slabs, A's with the rows of the
 * tile below each other and B's with its columns, each a line of TILE_K elements along k. Elements
 * are what the units take: f16, bf16, or f32 cut to TF32.
 *
 * Four words at the end of each line keep the 32 lanes of a warp, which read 8 lines times 4 words
 * at once, off each other's banks, and lines at multiples of 16 bytes. */
#define WARPS_N    (TILE_N / WARP_N)
#define WARPS_M    (TILE_M / WARP_M)
#define GROUP      (32 * WARPS_M * WARPS_N)
#define PER_WORD   ((int)(4 / sizeof(MATRIX_TYPE)))
#define PITCH_A    (TILE_K + 4 * PER_WORD)
#define PITCH_B    PITCH_A
#define LINE_WORDS (TILE_K / PER_WORD)

/* What an item holds of the warp's WARP_M × WARP_N sums: four of each 16 × 8 block. */
#define ITEM_M (WARP_M / 16)
#define ITEM_N (WARP_N / 8 * 4)

#define IS_ALIGNED(from, step, vector, type)                                                       \
  ((size_t)(from) % ((vector) * sizeof(type)) == 0 && (step) % (vector) == 0)

#if defined(__CUDACC__)
typedef vector_of<SUM, 4> SLAB;
#define NO_UNROLL _Pragma("unroll 1")
#else
typedef struct __attribute__((aligned(16))) SLAB {
  SUM element[4];
} SLAB;
#define NO_UNROLL
#endif
