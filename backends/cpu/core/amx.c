/* SPDX-License-Identifier: MIT */
/* Detects AMX. It is used if the CPU has the instructions, the kernel permits the process to use
 * the tile registers, and two small products give correct results. libcompute's tests emulate the
 * instructions; the two products guard against machines on which AMX was never tested. */
#include "gemm/gemm.h"

#ifdef CPU_AMX
#include <cpuid.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* AMX-BF16, AMX-TILE and AMX-INT8, and both parts of their state in XCR0, which programs can read
 * if OSXSAVE is set. */
static bool is_present(void) {
  enum { OSXSAVE = 1 << 27, BF16 = 1 << 22, TILE = 1 << 24, INT8 = 1 << 25, STATE = 3 << 17 };
  const unsigned needed = BF16 | TILE | INT8;
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE)) return false;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & needed) != needed) return false;
  __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
  return (a & STATE) == STATE;
}

/* Requests the tile registers from Linux, for all threads of the process. Since 5.16 a process must
 * request them before the first use. Linux refuses if a thread's signal stack is too small for
 * them. */
static bool is_permitted(void) {
  enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
  return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0;
}

/* A product of small integers: two tiles of rows by two panels. The second panel is narrow. K
 * exceeds one tile register. */
enum { ROWS = 19, COLUMNS = 37, WIDTH = 64, K = 83, MOST_WORDS = (K + 1) / 2, A_WORDS = 48 };

typedef struct trial {
  unsigned char a[ROWS][A_WORDS * 4], b[K][COLUMNS * 2];
  uint32_t packed[WIDTH * (MOST_WORDS + 1)], c[ROWS][COLUMNS];
} trial;

static int a_at(int i, int p) {
  return (i * 59 + p * 101) % 200;
}

static int b_at(int p, int j) {
  return (p * 37 + j * 83) % 251 - 125;
}

/* Integers of up to 8 bits are exact in bf16. */
static void put(unsigned char *line, int i, int value, compute_dtype dtype) {
  const float number = (float)value;
  if (dtype == COMPUTE_BF16)
    memcpy(line + 2 * i, (const char *)&number + 2, 2);
  else
    line[i] = (unsigned char)value;
}

static bool is_right(const cpu_gemm_type *type, compute_dtype dtype, trial *t) {
  const int64_t words = (K + type->group - 1) / type->group;
  memset(t, 0, sizeof *t);
  for (int p = 0; p < K; p++) {
    for (int i = 0; i < ROWS; i++) put(t->a[i], p, a_at(i, p), dtype);
    for (int j = 0; j < COLUMNS; j++) put(t->b[p], j, b_at(p, j), dtype);
  }
  const int64_t row = dtype == COMPUTE_BF16 ? COLUMNS : 2 * COLUMNS; /* elements of b */
  const bool bf16 = dtype == COMPUTE_BF16;
  const cpu_gemm_source source = {t->b, bf16 ? COMPUTE_BF16 : COMPUTE_I8, row, 1};
  type->pack_words(t->packed, true, COLUMNS, K, &source, dtype);
  const cpu_gemm_block block = {.m = ROWS,
                                .n = COLUMNS,
                                .k = words,
                                .a = t->a,
                                .a_row = A_WORDS,
                                .a_k = 1,
                                .b = t->packed,
                                .b_k = type->columns,
                                .b_column = type->columns * (words + type->terms),
                                .c = t->c,
                                .c_row = COLUMNS};
  type->multiply(&block);
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < COLUMNS; j++) {
      int32_t sum = 0, found = (int32_t)t->c[i][j];
      float number;
      memcpy(&number, &t->c[i][j], sizeof number);
      if (bf16) found = number > -1e9F && number < 1e9F ? (int32_t)number : INT32_MIN;
      for (int p = 0; p < K; p++) sum += a_at(i, p) * b_at(p, j);
      if (found != sum) return false;
    }
  return true;
}

static bool works;

static void find_out(void) {
  static trial t;
  works = is_present() && is_permitted() && is_right(&cpu_gemm_amx_bytes_avx512, COMPUTE_U8, &t) &&
          is_right(&cpu_gemm_amx_bf16_avx512, COMPUTE_BF16, &t);
}

bool cpu_gemm_has_amx(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_out);
  return works;
}
#endif
