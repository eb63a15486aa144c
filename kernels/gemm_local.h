/* Local memory of the tiled matrix multiplication: two slabs, TILE_K rows each, A's with the rows
 * of the tile side by side and B's with its columns. Both are read in pieces of up to 16 bytes.
 *
 * An item's rows are not neighbours: it has a piece here, and the next one where those of all other
 * items have ended. So neighbouring items read neighbouring pieces, without bank conflicts. The
 * four elements at the end of a slab's row keep transposing stores off each other's banks. */
#define ITEMS_M (TILE_M / ITEM_M)
#define ITEMS_N (TILE_N / ITEM_N)
#define GROUP   (ITEMS_M * ITEMS_N)
#define PITCH_A (TILE_M + 4)
#define PITCH_B (TILE_N + 4)

#define TILED_ROW(i) STAGED_ROW(i, item_row)
#define TILED_COLUMN(j)                                                                            \
  ((j) / COLUMN_PIECE * (ITEMS_N * COLUMN_PIECE) + item_column * COLUMN_PIECE + (j) % COLUMN_PIECE)

/* The row of the tile that TILED_ROW(i) is for the items of line `line`. */
#define STAGED_ROW(i, line)                                                                        \
  ((i) / ROW_PIECE * (ITEMS_M * ROW_PIECE) + (line)*ROW_PIECE + (i) % ROW_PIECE)

/* Whether an operand may be read in vectors: the address of its first element and the step between
 * its rows are whole vectors. */
#define IS_ALIGNED(from, step, vector, type)                                                       \
  ((size_t)(from) % ((vector) * sizeof(type)) == 0 && (step) % (vector) == 0)

/* LOCAL_LOAD and LOCAL_STORE move a piece of 1, 2 or 4 sums; SLAB is 16 bytes of a slab. */
#if defined(__OPENCL_VERSION__)
typedef VECTOR_PASTE(SUM_BASE, SLAB_SUMS) SLAB;
#define LOCAL_LOAD(n, array, pointer)  VECTOR_PASTE(LOCAL_LOAD_, n)(array, pointer)
#define LOCAL_STORE(n, pointer, array) VECTOR_PASTE(LOCAL_STORE_, n)(pointer, array)
#define LOCAL_LOAD_1(array, pointer)   ((array)[0] = *(pointer))
#define LOCAL_LOAD_2(array, pointer)                                                               \
  vstore2(*(LOCAL const VECTOR_PASTE(SUM_BASE, 2) *)(pointer), 0, array)
#define LOCAL_LOAD_4(array, pointer)                                                               \
  vstore4(*(LOCAL const VECTOR_PASTE(SUM_BASE, 4) *)(pointer), 0, array)
#define LOCAL_STORE_1(pointer, array) (*(pointer) = (array)[0])
#define LOCAL_STORE_2(pointer, array)                                                              \
  (*(LOCAL VECTOR_PASTE(SUM_BASE, 2) *)(pointer) = vload2(0, array))
#define LOCAL_STORE_4(pointer, array)                                                              \
  (*(LOCAL VECTOR_PASTE(SUM_BASE, 4) *)(pointer) = vload4(0, array))
#define UNROLL_SLAB _Pragma("unroll 2")
#define NO_UNROLL   _Pragma("unroll 1")
#elif defined(__CUDACC__)
typedef vector_of<SUM, SLAB_SUMS> SLAB;
#define LOCAL_LOAD(n, array, pointer)  VLOAD(n, SUM, array, pointer)
#define LOCAL_STORE(n, pointer, array) VSTORE(n, SUM, pointer, array)
#define UNROLL_SLAB                    _Pragma("unroll 2")
#define NO_UNROLL                      _Pragma("unroll 1")
#else
typedef struct __attribute__((aligned(16))) SLAB {
  SUM element[SLAB_SUMS];
} SLAB;
#define LOCAL_LOAD(n, array, pointer)  VLOAD(n, SUM, array, pointer)
#define LOCAL_STORE(n, pointer, array) VSTORE(n, SUM, pointer, array)
#define UNROLL_SLAB
#define NO_UNROLL
#endif
