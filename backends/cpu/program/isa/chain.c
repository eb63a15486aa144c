/* SPDX-License-Identifier: MIT */
/* The instructions of chains. core/isa.h explains how this file is compiled, chain_table.h explains
 * chains. The code processes one element after the other; compilers turn it into vector
 * instructions, and the final calls into jumps. If a compiler does not, the results are the
 * same. */
#include "chain_table.h"

#include "arithmetic.h"
#include "program/isa/tile_loops.h"

#if defined(__AVX__)
#include <immintrin.h>
#endif

/* As many packs as are passed in registers. */
#define PACKS(what)     what(0) what(1) what(2) what(3) what(4) what(5) what(6) what(7)
#define PACK_PARAMETERS pack p0, pack p1, pack p2, pack p3, pack p4, pack p5, pack p6, pack p7
#define PACK_ARGUMENTS  p0, p1, p2, p3, p4, p5, p6, p7
enum { BLOCK = 8 * pack_lanes };

/* Elements i … i + BLOCK − 1. */
typedef void (*handler)(const cpu_chain_code *code, int64_t i, PACK_PARAMETERS);

#define HANDLER(name)  static void name(const cpu_chain_code *code, int64_t i, PACK_PARAMETERS)
#define GO_ON(entries) ((handler)code[entries].handler)(code + entries, i, PACK_ARGUMENTS)
#define ADDRESS(name)  ((cpu_chain_handler)(name))

ALWAYS_INLINE real element_of(const cpu_chain_code *code) {
  real x;
  __builtin_memcpy(&x, code->repeated, sizeof x);
  return x;
}

/* Pack n of an entry's operand. */
#define DENSE(entry, n)    pack_load((const real *)code[entry].from + i + pack_lanes * n)
#define REPEATED(entry, n) pack_all(element_of(&code[entry]))

/* ---- Memory ---------------------------------------------------------------------------------- */

#define LOAD_DENSE(n)    p##n = DENSE(0, n);
#define LOAD_REPEATED(n) p##n = REPEATED(0, n);
#define STORE(n)         __builtin_memcpy(to + pack_lanes * n, &p##n, sizeof p##n);
#define IGNORE(n)        (void)p##n;

HANDLER(load_dense) {
  PACKS(LOAD_DENSE)
  GO_ON(1);
}

HANDLER(load_repeated) {
  PACKS(LOAD_REPEATED)
  GO_ON(1);
}

HANDLER(store) {
  real *to = (real *)code->to + i;
  PACKS(STORE)
  GO_ON(1);
}

HANDLER(end) {
  (void)code, (void)i;
  PACKS(IGNORE)
}

/* ---- Arithmetic ------------------------------------------------------------------------------ */

#define LANES     for (int j = 0; j < pack_lanes; j++)
#define PARAMETER parameter

#define UNARY_PACK(name, type, result, value)                                                      \
  ALWAYS_INLINE pack name##_pack(pack a, real parameter) {                                         \
    type r;                                                                                        \
    (void)parameter;                                                                               \
    LANES {                                                                                        \
      const real x = a[j];                                                                         \
      r[j] = result(value);                                                                        \
    }                                                                                              \
    return (pack)r;                                                                                \
  }
#define BINARY_PACK(name, type, result, value)                                                     \
  ALWAYS_INLINE pack name##_pack(pack a, pack b) {                                                 \
    type r;                                                                                        \
    LANES {                                                                                        \
      const real x = a[j], y = b[j];                                                               \
      r[j] = result(value);                                                                        \
    }                                                                                              \
    return (pack)r;                                                                                \
  }
#define ITSELF(value)  (value)
#define AS_MASK(value) -(MASK)(value)

#define UNARY_HANDLER(name)                                                                        \
  HANDLER(name##_chain) {                                                                          \
    const real parameter = (real)code->immediate;                                                  \
    p0 = name##_pack(p0, parameter), p1 = name##_pack(p1, parameter);                              \
    p2 = name##_pack(p2, parameter), p3 = name##_pack(p3, parameter);                              \
    p4 = name##_pack(p4, parameter), p5 = name##_pack(p5, parameter);                              \
    p6 = name##_pack(p6, parameter), p7 = name##_pack(p7, parameter);                              \
    GO_ON(1);                                                                                      \
  }
#define BINARY_HANDLER(name, operand, call)                                                        \
  HANDLER(name) {                                                                                  \
    p0 = call(p0, operand(0, 0)), p1 = call(p1, operand(0, 1));                                    \
    p2 = call(p2, operand(0, 2)), p3 = call(p3, operand(0, 3));                                    \
    p4 = call(p4, operand(0, 4)), p5 = call(p5, operand(0, 5));                                    \
    p6 = call(p6, operand(0, 6)), p7 = call(p7, operand(0, 7));                                    \
    GO_ON(1);                                                                                      \
  }
#define BINARY_HANDLERS(name)                                                                      \
  ALWAYS_INLINE pack name##_reversed(pack b, pack a) {                                             \
    return name##_pack(a, b);                                                                      \
  }                                                                                                \
  BINARY_HANDLER(name##_chain, DENSE, name##_pack)                                                 \
  BINARY_HANDLER(name##_chain_1, REPEATED, name##_pack)                                            \
  BINARY_HANDLER(name##_chain_2, DENSE, name##_reversed)                                           \
  BINARY_HANDLER(name##_chain_3, REPEATED, name##_reversed)

#define UNARY(CODE, name, value)  UNARY_PACK(name, pack, ITSELF, value) UNARY_HANDLER(name)
#define BINARY(CODE, name, value) BINARY_PACK(name, pack, ITSELF, value) BINARY_HANDLERS(name)
ARITHMETIC_UNARY(UNARY)
ARITHMETIC_BINARY(BINARY)

/* ---- Masks, which are as wide as f32 --------------------------------------------------------- */

#if defined(CPU_VARIANT_F32)

#define QUESTION(CODE, name, value) UNARY_PACK(name, pack_mask, AS_MASK, value) UNARY_HANDLER(name)
#define COMPARISON(CODE, name, value)                                                              \
  BINARY_PACK(name, pack_mask, AS_MASK, value) BINARY_HANDLERS(name)
ARITHMETIC_QUESTION(QUESTION)
COMPARISONS(COMPARISON)

ALWAYS_INLINE pack select_pack(pack a, pack yes, pack no) {
  const pack_mask mask = (pack_mask)a;
  pack r;
  LANES r[j] = mask[j] < 0 ? yes[j] : no[j];
  return r;
}

#define SELECT_HANDLER(name, yes, no)                                                              \
  HANDLER(name) {                                                                                  \
    p0 = select_pack(p0, yes(0, 0), no(1, 0)), p1 = select_pack(p1, yes(0, 1), no(1, 1));          \
    p2 = select_pack(p2, yes(0, 2), no(1, 2)), p3 = select_pack(p3, yes(0, 3), no(1, 3));          \
    p4 = select_pack(p4, yes(0, 4), no(1, 4)), p5 = select_pack(p5, yes(0, 5), no(1, 5));          \
    p6 = select_pack(p6, yes(0, 6), no(1, 6)), p7 = select_pack(p7, yes(0, 7), no(1, 7));          \
    GO_ON(2);                                                                                      \
  }
SELECT_HANDLER(select_chain, DENSE, DENSE)
SELECT_HANDLER(select_chain_1, REPEATED, DENSE)
SELECT_HANDLER(select_chain_2, DENSE, REPEATED)
SELECT_HANDLER(select_chain_3, REPEATED, REPEATED)

ALWAYS_INLINE pack convert_pack(pack a, real parameter) {
  const pack_mask integers = (pack_mask)a;
  pack r;
  (void)parameter;
  LANES r[j] = (real)integers[j];
  return r;
}
UNARY_HANDLER(convert)

#endif

/* ---- The table ------------------------------------------------------------------------------- */

#define UNARY_HANDLERS_OF(CODE, name, value) [COMPUTE_I_##CODE] = {ADDRESS(name##_chain)},
#define BINARY_HANDLERS_OF(CODE, name, value)                                                      \
  [COMPUTE_I_##CODE] = {ADDRESS(name##_chain), ADDRESS(name##_chain_1), ADDRESS(name##_chain_2),   \
                        ADDRESS(name##_chain_3)},

/* clang-format off */
static const cpu_chain_row rows[COMPUTE_I_END] = {
    ARITHMETIC_UNARY(UNARY_HANDLERS_OF)
    ARITHMETIC_BINARY(BINARY_HANDLERS_OF)
#if defined(CPU_VARIANT_F32)
    ARITHMETIC_QUESTION(UNARY_HANDLERS_OF)
    COMPARISONS(BINARY_HANDLERS_OF)
    BINARY_HANDLERS_OF(SELECT, select, )
#endif
};
/* clang-format on */

/* Compilers leave vzeroupper to functions without vector parameters, and assume here that it was
 * done. Without it the following code may be several times slower. */
static void leave_vectors(void) {
#if defined(__AVX__)
  _mm256_zeroupper();
#endif
}

static void run_block(const cpu_chain_code *code, int64_t i) {
  const pack p = {0};
  ((handler)code->handler)(code, i, p, p, p, p, p, p, p, p);
}

static void run(const cpu_chain_code *code, int64_t count) {
  int64_t i = 0;
  for (; i + BLOCK <= count; i += BLOCK) run_block(code, i);
  if (i < count) run_block(code, count - BLOCK);
  leave_vectors();
}

const cpu_chain_table CPU_VARIANT_SYMBOL(cpu_chain) = {
    .block = BLOCK,
    .element_bytes = sizeof(real),
    .load = {ADDRESS(load_dense), ADDRESS(load_repeated)},
    .store = ADDRESS(store),
    .end = ADDRESS(end),
#if defined(CPU_VARIANT_F32)
    .convert = ADDRESS(convert_chain),
#endif
    .row = &rows,
    .run = run,
};
