/* The table of all loops of this instruction set, and the few that are about memory only. */
#include <string.h>

#include "tile_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

extern const cpu_tile_loops CPU_SYMBOL(cpu_tile_f64), CPU_SYMBOL(cpu_tile_f32),
    CPU_SYMBOL(cpu_tile_i64), CPU_SYMBOL(cpu_tile_i32), CPU_SYMBOL(cpu_tile_bool);
extern const cpu_load_loop CPU_SYMBOL(cpu_tile_load)[COMPUTE_DTYPE_COUNT];
extern const cpu_store_loop CPU_SYMBOL(cpu_tile_store)[COMPUTE_DTYPE_COUNT];
extern const cpu_convert_loop CPU_SYMBOL(cpu_tile_cast)[CPU_TYPE_COUNT][CPU_TYPE_COUNT];
extern const cpu_convert_loop CPU_SYMBOL(cpu_tile_narrow)[CPU_TYPE_COUNT][COMPUTE_DTYPE_COUNT];
extern const cpu_transpose_block CPU_SYMBOL(cpu_tile_transpose)[4];
extern const cpu_tile_table CPU_SYMBOL(cpu_tile_table);

#define FILL_CASE(type)                                                                            \
  case sizeof(type): {                                                                             \
    type value, *r = result;                                                                       \
    memcpy(&value, element, sizeof value);                                                         \
    for (int64_t i = 0; i < count; i++) r[i] = value;                                              \
    break;                                                                                         \
  }

static void fill(int64_t count, void *result, const void *element, uint32_t element_bytes) {
  switch (element_bytes) {
    FILL_CASE(uint8_t)
    FILL_CASE(uint16_t)
    FILL_CASE(uint32_t)
    FILL_CASE(uint64_t)
  default: break;
  }
}

static void sequence(int64_t count, int64_t *result, int64_t first, int64_t step) {
  for (int64_t i = 0; i < count; i++) result[i] = first + i * step;
}

#if defined(__AVX512F__)
typedef __m512i stream_vector;
#define STREAM_LOAD(from)      _mm512_loadu_si512(from)
#define STREAM_STORE(to, what) _mm512_stream_si512(to, what)
#elif defined(__AVX2__)
typedef __m256i stream_vector;
#define STREAM_LOAD(from)      _mm256_loadu_si256(from)
#define STREAM_STORE(to, what) _mm256_stream_si256(to, what)
#elif defined(__x86_64__)
typedef __m128i stream_vector;
#define STREAM_LOAD(from)      _mm_loadu_si128(from)
#define STREAM_STORE(to, what) _mm_stream_si128(to, what)
#endif

static void stream(void *destination, const void *source, int64_t bytes) {
  int64_t done = 0;
#if defined(STREAM_STORE)
  /* Whole cache lines, written without a pause, leave the processor in one piece. */
  for (; done + 64 <= bytes; done += 64) {
    const unsigned char *from = (const unsigned char *)source + done;
    unsigned char *to = (unsigned char *)destination + done;
    for (int64_t part = 0; part < 64; part += (int64_t)sizeof(stream_vector))
      STREAM_STORE((void *)(to + part), STREAM_LOAD((const void *)(from + part)));
  }
#endif
  memcpy((unsigned char *)destination + done, (const unsigned char *)source + done,
         (size_t)(bytes - done));
}

const cpu_tile_table CPU_SYMBOL(cpu_tile_table) = {
    .compute = {[CPU_TYPE_F64] = &CPU_SYMBOL(cpu_tile_f64),
                [CPU_TYPE_F32] = &CPU_SYMBOL(cpu_tile_f32),
                [CPU_TYPE_I64] = &CPU_SYMBOL(cpu_tile_i64),
                [CPU_TYPE_I32] = &CPU_SYMBOL(cpu_tile_i32),
                [CPU_TYPE_BOOL] = &CPU_SYMBOL(cpu_tile_bool)},
    .cast = CPU_SYMBOL(cpu_tile_cast),
    .narrow = CPU_SYMBOL(cpu_tile_narrow),
    .load = CPU_SYMBOL(cpu_tile_load),
    .store = CPU_SYMBOL(cpu_tile_store),
    .transpose = CPU_SYMBOL(cpu_tile_transpose),
    .fill = fill,
    .sequence = sequence,
    .stream = stream,
};
