/* SPDX-License-Identifier: MIT */
/* The dialect in C11 with GNU extensions, to run generated kernels without a device compiler: tests
 * build a shared object from the source and call it.
 *
 * The object needs no symbols from its runner. It exports
 *
 *   void dialect_enter(dialect_item *item)
 *       sets the item that runs in the calling thread
 *   void <entry>_call(void **arguments)
 *       runs one item of the kernel <entry> from beginning to end. arguments: a pointer for each
 *       buffer in order, then a pointer to the struct `shape`
 *
 * A runner makes one coroutine for each item of a group, all of them in one thread. When an item
 * reaches a barrier, it calls item->barrier(item) on its stack. The runner then switches to another
 * item (and calls dialect_enter for it), and returns only when all items have reached the barrier.
 * Local arrays are thread-local, so one thread runs one group at a time. Atomics are real: several
 * threads may run groups of one launch.
 *
 * DIALECT_OWN_ITEMS means that the includer has already defined an item's identity, local arrays
 * and barriers. backends/cpu/custom runs users' kernels this way. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#ifndef DIALECT_OWN_ITEMS
typedef struct dialect_item {
  uint32_t local_id[3], group_id[3], group_size[3], group_count[3];
  void (*barrier)(struct dialect_item *item);
  void *runner; /* for the runner */
  /* Called by every item where a local array is declared. The runner may fill the array before the
   * first item of a group uses it. The last DIALECT_FENCE bytes are not part of the array: a write
   * there is out of bounds. May be NULL. */
  void (*local)(struct dialect_item *item, void *memory, uint64_t bytes);
  int line; /* the barrier that the item has reached */
} dialect_item;

static _Thread_local dialect_item *dialect_current;

__attribute__((visibility("default"))) void dialect_enter(dialect_item *item);
__attribute__((visibility("default"))) void dialect_enter(dialect_item *item) {
  dialect_current = item;
}
#endif

typedef int8_t i8;
typedef uint8_t u8;
typedef int16_t i16;
typedef uint16_t u16;
typedef int32_t i32;
typedef uint32_t u32;
typedef int64_t i64;
typedef uint64_t u64;
typedef float f32;
typedef double f64;
typedef int boolean;
typedef unsigned int uint;

#define KERNEL static
#define DEVICE static inline __attribute__((unused))
#define GLOBAL
#define LOCAL
#define CONSTANT_TABLE static const
#define RESTRICT       restrict
#define REQUIRE_GROUP(x, y, z)
#define REQUIRE_ROOM(x, y, z, groups)
#ifndef DIALECT_OWN_ITEMS
#define DIALECT_FENCE 256
#define LOCAL_ARRAY(type, name, count)                                                             \
  static _Thread_local struct {                                                                    \
    type array[count];                                                                             \
    unsigned char fence[DIALECT_FENCE];                                                            \
  } name##_held;                                                                                   \
  type *const name = name##_held.array;                                                            \
  if (dialect_current->local)                                                                      \
  dialect_current->local(dialect_current, &name##_held, sizeof name##_held)

#define LOCAL_ARRAY_ASKED LOCAL_ARRAY

#define LOCAL_ID_X    (dialect_current->local_id[0])
#define LOCAL_ID_Y    (dialect_current->local_id[1])
#define LOCAL_ID_Z    (dialect_current->local_id[2])
#define GROUP_ID_X    (dialect_current->group_id[0])
#define GROUP_ID_Y    (dialect_current->group_id[1])
#define GROUP_ID_Z    (dialect_current->group_id[2])
#define GROUP_SIZE_X  (dialect_current->group_size[0])
#define GROUP_SIZE_Y  (dialect_current->group_size[1])
#define GROUP_SIZE_Z  (dialect_current->group_size[2])
#define GROUP_COUNT_X (dialect_current->group_count[0])
#define GROUP_COUNT_Y (dialect_current->group_count[1])
#define GROUP_COUNT_Z (dialect_current->group_count[2])
#define GLOBAL_ID_X   (GROUP_ID_X * GROUP_SIZE_X + LOCAL_ID_X)
#define GLOBAL_ID_Y   (GROUP_ID_Y * GROUP_SIZE_Y + LOCAL_ID_Y)
#define GLOBAL_ID_Z   (GROUP_ID_Z * GROUP_SIZE_Z + LOCAL_ID_Z)

#define BARRIER()        (dialect_current->line = __LINE__, dialect_current->barrier(dialect_current))
#define BARRIER_GLOBAL() BARRIER()
#endif

#define ATOMIC_ADD(pointer, value) __atomic_fetch_add(pointer, value, __ATOMIC_RELAXED)
#define ATOMIC_MIN(pointer, value) dialect_atomic_extremum(pointer, value, 0)
#define ATOMIC_MAX(pointer, value) dialect_atomic_extremum(pointer, value, 1)
DEVICE i32 ATOMIC_CAS(i32 *pointer, i32 expected, i32 value) {
  __atomic_compare_exchange_n(pointer, &expected, value, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
DEVICE i32 dialect_atomic_extremum(i32 *pointer, i32 value, int largest) {
  for (;;) {
    i32 old = __atomic_load_n(pointer, __ATOMIC_RELAXED);
    i32 now = (largest ? old >= value : old <= value) ? old : value;
    if (ATOMIC_CAS(pointer, old, now) == old) return old;
  }
}

#define DIALECT_REINTERPRET(to, from)                                                              \
  DEVICE to as_##to(from x) {                                                                      \
    to y;                                                                                          \
    memcpy(&y, &x, sizeof y);                                                                      \
    return y;                                                                                      \
  }
DIALECT_REINTERPRET(u32, f32)
DIALECT_REINTERPRET(i32, f32)
DIALECT_REINTERPRET(f32, u32)
DIALECT_REINTERPRET(u64, f64)
DIALECT_REINTERPRET(i64, f64)
DIALECT_REINTERPRET(f64, u64)

#define BUILTIN_f32(name) name##f
#define BUILTIN_f64(name) name
#define INFINITY_f32      __builtin_inff()
#define NAN_f32           __builtin_nanf("")
#define INFINITY_f64      __builtin_inf()
#define NAN_f64           __builtin_nan("")
#define MAD_f32(a, b, c)  ((a) * (b) + (c))
#define MAD_f64(a, b, c)  ((a) * (b) + (c))

#define QUOTIENT_f32(a, b) ((a) / (b))
#define FAST_RECIPROCAL(x) (1.0f / (x))
#define FAST_RSQRT(x)      (1.0f / sqrtf(x))
#define FAST_EXP2(x)       exp2f(x)

#define INDEPENDENT
#define UNROLL
#define NO_UNROLL

#define ALIGNED(pointer, bytes) ((uintptr_t)(pointer) % (bytes) == 0)

/* Checked in tests, because a device would fault on an unaligned access that works here. */
#ifdef DIALECT_OWN_ITEMS
#define DIALECT_EXPECT(aligned)
#else
#define DIALECT_EXPECT(aligned)                                                                    \
  if (!(aligned)) __builtin_trap()
#endif
#define VLOAD(n, type, array, pointer)                                                             \
  do {                                                                                             \
    const type *from_ = (const type *)(pointer);                                                   \
    DIALECT_EXPECT((uintptr_t)from_ % ((n) * sizeof(type)) == 0);                                  \
    for (int lane_ = 0; lane_ < (n); lane_++) (array)[lane_] = from_[lane_];                       \
  } while (0)
#define VSTORE(n, type, pointer, array)                                                            \
  do {                                                                                             \
    type *to_ = (type *)(pointer);                                                                 \
    DIALECT_EXPECT((uintptr_t)to_ % ((n) * sizeof(type)) == 0);                                    \
    for (int lane_ = 0; lane_ < (n); lane_++) to_[lane_] = (array)[lane_];                         \
  } while (0)

/* Warps: 32 consecutive items. */
#define DIALECT_SHUFFLE(type)                                                                      \
  DEVICE type SHUFFLE_XOR_##type(type x, int step) {                                               \
    static _Thread_local type held[1024];                                                          \
    const u32 item = LOCAL_ID_X;                                                                   \
    held[item] = x;                                                                                \
    BARRIER();                                                                                     \
    const type other = held[item ^ (u32)step];                                                     \
    BARRIER();                                                                                     \
    return other;                                                                                  \
  }
DIALECT_SHUFFLE(f32)
DIALECT_SHUFFLE(f64)

/* Matrix units. The items of a warp (32 in a row) share their operands, and each computes its four
 * sums from them. */
DEVICE u32 F32_TO_TF32(f32 x) {
  const u32 bits = as_u32(x);
  return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & ~0x1fffu;
}
DEVICE f32 dialect_unit_f16(u32 word, int which) {
  const u32 bits = word >> 16 * which & 0xffffu, sign = (bits & 0x8000u) << 16;
  const u32 exponent = bits >> 10 & 31, mantissa = bits & 1023;
  if (exponent == 0) return as_f32(as_u32((f32)mantissa * 0x1p-24f) | sign);
  return as_f32(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | mantissa << 13);
}
DEVICE f32 dialect_unit_bf16(u32 word, int which) {
  return as_f32((word >> 16 * which & 0xffffu) << 16);
}
DEVICE f32 dialect_unit_tf32(u32 word, int which) {
  return which == 0 ? as_f32(word & ~0x1fffu) : 0;
}
DEVICE void dialect_load_blocks(u32 *to, const void *row, boolean across) {
  static _Thread_local const unsigned char *rows[1024];
  const u32 item = LOCAL_ID_X, lane = item % 32;
  DIALECT_EXPECT((uintptr_t)row % 16 == 0);
  rows[item] = (const unsigned char *)row;
  BARRIER();
  const unsigned char *const *warp = rows + (item - lane);
  for (u32 block = 0; block < 4; block++) {
    const unsigned char *const *of = warp + 8 * block;
    unsigned char *word = (unsigned char *)(to + block);
    if (across) {
      memcpy(word, of[lane % 4 * 2] + lane / 4 * 2, 2);
      memcpy(word + 2, of[lane % 4 * 2 + 1] + lane / 4 * 2, 2);
    } else {
      memcpy(word, of[lane / 4] + lane % 4 * 4, 4);
    }
  }
  BARRIER();
}
#define LOAD_BLOCKS(to, row)        dialect_load_blocks(to, row, 0)
#define LOAD_BLOCKS_ACROSS(to, row) dialect_load_blocks(to, row, 1)

/* Asynchronous copies are performed as late as possible: when they are waited for. Until then the
 * destination is filled with bytes that no kernel can use. */
enum { DIALECT_COPIES = 96 };
typedef struct dialect_copies {
  u32 count, ends;
  struct {
    void *to;
    const void *from;
    u32 room, bytes, ends;
  } copy[DIALECT_COPIES];
} dialect_copies;
DEVICE dialect_copies *dialect_copies_of_item(void) {
  static _Thread_local dialect_copies copies[1024];
  return &copies[LOCAL_ID_X];
}
DEVICE void dialect_copy(void *to, const void *from, int room, int bytes) {
  dialect_copies *c = dialect_copies_of_item();
  DIALECT_EXPECT((uintptr_t)to % (uintptr_t)room == 0 && (uintptr_t)from % (uintptr_t)room == 0 &&
                 bytes >= 0 && bytes <= room && c->count < DIALECT_COPIES);
  memset(to, 0xff, (size_t)room);
  c->copy[c->count].to = to;
  c->copy[c->count].from = from;
  c->copy[c->count].room = (u32)room;
  c->copy[c->count].bytes = (u32)bytes;
  c->copy[c->count++].ends = c->ends;
}
DEVICE void dialect_copies_wait(u32 ends) {
  dialect_copies *c = dialect_copies_of_item();
  u32 left = 0;
  for (u32 i = 0; i < c->count; i++) {
    if (c->ends - c->copy[i].ends > ends) {
      memset(c->copy[i].to, 0, c->copy[i].room);
      if (c->copy[i].bytes > 0) memcpy(c->copy[i].to, c->copy[i].from, c->copy[i].bytes);
    } else {
      c->copy[left++] = c->copy[i];
    }
  }
  c->count = left;
}
#define COPY_PART(to, from, bytes)  dialect_copy(to, from, 16, bytes)
#define COPY_PIECE(to, from)        dialect_copy(to, from, 16, 16)
#define COPY_WORD(to, from, inside) dialect_copy(to, from, 4, (inside) ? 4 : 0)
#define COPIES_END()                ((void)dialect_copies_of_item()->ends++)
#define COPIES_WAIT(ends)           dialect_copies_wait(ends)

typedef struct dialect_held {
  u32 a[4], b[2];
} dialect_held;
DEVICE void dialect_multiply(f32 *sum, const u32 *a, const u32 *b, f32 (*unit)(u32, int)) {
  static _Thread_local dialect_held held[1024];
  const u32 item = LOCAL_ID_X, lane = item % 32;
  memcpy(held[item].a, a, sizeof held->a);
  memcpy(held[item].b, b, sizeof held->b);
  BARRIER();
  const dialect_held *warp = held + (item - lane);
  for (u32 i = 0; i < 4; i++) {
    const u32 row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    f64 exact = sum[i];
    for (u32 word = 0; word < 8; word++) {
      const u32 of_a = warp[row % 8 * 4 + word % 4].a[row / 8 + word / 4 * 2];
      const u32 of_b = warp[column * 4 + word % 4].b[word / 4];
      for (int which = 0; which < 2; which++)
        exact += (f64)unit(of_a, which) * (f64)unit(of_b, which);
    }
    sum[i] = (f32)exact;
  }
  BARRIER();
}
#define MATRIX_MULTIPLY_f16(sum, a, b)  dialect_multiply(sum, a, b, dialect_unit_f16)
#define MATRIX_MULTIPLY_bf16(sum, a, b) dialect_multiply(sum, a, b, dialect_unit_bf16)
#define MATRIX_MULTIPLY_tf32(sum, a, b) dialect_multiply(sum, a, b, dialect_unit_tf32)
typedef struct dialect_held_f64 {
  f64 a[4], b[2];
} dialect_held_f64;
DEVICE void MATRIX_MULTIPLY_f64(f64 *sum, const f64 *a, const f64 *b) {
  static _Thread_local dialect_held_f64 held[1024];
  const u32 item = LOCAL_ID_X, lane = item % 32;
  memcpy(held[item].a, a, sizeof held->a);
  memcpy(held[item].b, b, sizeof held->b);
  BARRIER();
  const dialect_held_f64 *warp = held + (item - lane);
  for (u32 i = 0; i < 4; i++) {
    const u32 row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (u32 k = 0; k < 8; k++)
      sum[i] +=
          warp[row % 8 * 4 + k % 4].a[row / 8 + k / 4 * 2] * warp[column * 4 + k % 4].b[k / 4];
  }
  BARRIER();
}
DEVICE u32 dialect_bits_bf16(f32 x) {
  const u32 bits = as_u32(x);
  return x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
DEVICE u32 dialect_bits_f16(f32 x) {
  const u32 bits = as_u32(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  if (x != x) return 0x7fff;
  if (size >= 0x477ff000) return sign | 0x7c00; /* from 65520 on */
  if (size < 0x38800000) return sign | (as_u32(as_f32(size) + 0.5f) - as_u32(0.5f));
  return sign | ((size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13);
}
#define MATRIX_PACK_f16(low, high)  (dialect_bits_f16(low) | dialect_bits_f16(high) << 16)
#define MATRIX_PACK_bf16(low, high) (dialect_bits_bf16(low) | dialect_bits_bf16(high) << 16)

/* Warpgroups. Products are also performed as late as possible, from the slabs at that time. A
 * descriptor is an address, with the distance between blocks, in units of 16 bytes, in its upper
 * bits. */
enum { DIALECT_PRODUCTS = 32 };
typedef struct dialect_product {
  f32 *sum;
  u64 a, b;
  u32 held[2][8]; /* A's words of the item's two rows */
  f32 (*unit)(u32, int);
  int columns, bytes;
  boolean is_held, across_a, across_b, add;
  u32 ends;
} dialect_product;
typedef struct dialect_products {
  u32 count, ends;
  dialect_product product[DIALECT_PRODUCTS];
} dialect_products;
DEVICE dialect_products *dialect_products_of_item(void) {
  static _Thread_local dialect_products products[1024];
  return &products[LOCAL_ID_X];
}
DEVICE u64 SLAB_AT(const void *place, u32 apart) {
  DIALECT_EXPECT((uintptr_t)place % 16 == 0 && (uintptr_t)place >> 48 == 0 && apart % 16 == 0);
  return (u64)(uintptr_t)place | (u64)(apart / 16) << 48;
}
#define SLAB_FORTH(slab, bytes) ((slab) + (u64)(bytes))
/* Element k of a line, as a word. */
DEVICE u32 dialect_slab_element(u64 slab, u32 line, u32 k, boolean across, int bytes) {
  const u64 apart = (slab >> 48) * 16, size = (u64)bytes;
  u64 address = slab & 0xffffffffffffu;
  if (across)
    address += line / 64 * apart + line % 64 * size + k / 8 * 1024 + k % 8 * 128;
  else
    address += line / 8 * 1024 + line % 8 * 128 + k * size;
  address ^= (address >> 7 & 7) << 4;
  u32 word = 0;
  memcpy(&word, (const void *)(uintptr_t)address, (size_t)bytes);
  return word;
}
DEVICE void dialect_product_perform(const dialect_product *p) {
  const u32 item = LOCAL_ID_X, lane = item % 32, step = p->bytes == 2 ? 16 : 8;
  for (u32 half = 0; half < 2; half++) {
    const u32 row = item / 32 % 4 * 16 + lane / 4 + half * 8;
    f32 of_a[16];
    for (u32 k = 0; k < step; k++) {
      const u32 word = p->is_held ? p->held[half][p->bytes == 2 ? k / 2 : k]
                                  : dialect_slab_element(p->a, row, k, p->across_a, p->bytes);
      of_a[k] = p->unit(word, p->is_held && p->bytes == 2 ? (int)(k % 2) : 0);
    }
    for (int i = 0; i < p->columns / 4; i++) {
      const u32 column = (u32)i / 2 * 8 + lane % 4 * 2 + (u32)i % 2;
      f32 *sum = p->sum + i / 2 * 4 + (int)half * 2 + i % 2;
      f64 exact = p->add ? *sum : 0;
      for (u32 k = 0; k < step; k++) {
        const u32 word = dialect_slab_element(p->b, column, k, p->across_b, p->bytes);
        exact += (f64)of_a[k] * (f64)p->unit(word, 0);
      }
      *sum = (f32)exact;
    }
  }
}
DEVICE void dialect_products_wait(u32 ends) {
  dialect_products *all = dialect_products_of_item();
  u32 left = 0;
  for (u32 i = 0; i < all->count; i++) {
    if (all->ends - all->product[i].ends > ends)
      dialect_product_perform(&all->product[i]);
    else
      all->product[left++] = all->product[i];
  }
  all->count = left;
}
DEVICE dialect_product *dialect_product_begin(f32 *sum, u64 b, int columns, f32 (*unit)(u32, int),
                                              boolean b_across, boolean add) {
  dialect_products *all = dialect_products_of_item();
  DIALECT_EXPECT(all->count < DIALECT_PRODUCTS && GROUP_SIZE_X % 128 == 0);
  dialect_product *p = &all->product[all->count++];
  *p = (dialect_product){.sum = sum,
                         .b = b,
                         .columns = columns,
                         .unit = unit,
                         .across_b = b_across,
                         .add = add,
                         .bytes = unit == dialect_unit_tf32 ? 4 : 2,
                         .ends = all->ends};
  DIALECT_EXPECT(p->bytes == 2 || !b_across);
  return p;
}
DEVICE void dialect_product_hold(dialect_product *p, const u32 *a) {
  static _Thread_local u32 held[1024][4];
  const u32 item = LOCAL_ID_X;
  memcpy(held[item], a, sizeof *held);
  BARRIER();
  for (u32 half = 0; half < 2; half++)
    for (u32 word = 0; word < 8; word++)
      p->held[half][word] = held[item / 4 * 4 + word % 4][half + word / 4 * 2];
  p->is_held = 1;
  BARRIER();
}

/* An arrival counts its phases in the lower half, and the expected bytes in the upper half. */
enum { DIALECT_BULKS = 32 };
typedef struct dialect_bulks {
  u32 count;
  struct {
    void *to;
    const void *from;
    u32 bytes;
    u64 *arrival;
  } copy[DIALECT_BULKS];
} dialect_bulks;
DEVICE dialect_bulks *dialect_bulks_of_group(void) {
  static _Thread_local dialect_bulks bulks;
  return &bulks;
}
DEVICE void COPY_BULK(void *to, const void *from, u32 bytes, u64 *arrival) {
  dialect_bulks *all = dialect_bulks_of_group();
  DIALECT_EXPECT((uintptr_t)to % 16 == 0 && (uintptr_t)from % 16 == 0 && bytes % 16 == 0 &&
                 all->count < DIALECT_BULKS);
  memset(to, 0xff, bytes);
  all->copy[all->count].to = to;
  all->copy[all->count].from = from;
  all->copy[all->count].bytes = bytes;
  all->copy[all->count++].arrival = arrival;
}
DEVICE void ARRIVAL_BEGIN(u64 *arrival) {
  *arrival = 0;
}
DEVICE void ARRIVAL_EXPECT(u64 *arrival, u32 bytes) {
  DIALECT_EXPECT(*arrival >> 32 == 0);
  *arrival += (u64)bytes << 32;
}
DEVICE void ARRIVAL_WAIT(u64 *arrival, u32 phase) {
  dialect_bulks *all = dialect_bulks_of_group();
  u32 left = 0, bytes = 0;
  for (u32 i = 0; i < all->count; i++) {
    if (all->copy[i].arrival == arrival) {
      memcpy(all->copy[i].to, all->copy[i].from, all->copy[i].bytes);
      bytes += all->copy[i].bytes;
    } else {
      all->copy[left++] = all->copy[i];
    }
  }
  all->count = left;
  DIALECT_EXPECT(*arrival >> 32 == bytes);
  if (bytes > 0) *arrival = (*arrival & 0xffffffffu) + 1;
  DIALECT_EXPECT(*arrival > 0 && (*arrival - 1) % 2 == phase);
}
#define WARP_UNIFORM(x)             (x)
#define SLABS_SHOW()                ((void)0)
#define PRODUCTS_BEGIN()            ((void)0)
#define PRODUCTS_END()              ((void)dialect_products_of_item()->ends++)
#define PRODUCTS_WAIT(ends)         dialect_products_wait(ends)
#define PRODUCTS_KEEP(array, count) ((void)0)
#define WARPGROUP_UNIT(name, n, type, a_across, b_across)                                          \
  DEVICE void name(f32 *sum, u64 a, u64 b, boolean add) {                                          \
    dialect_product *p = dialect_product_begin(sum, b, n, dialect_unit_##type, b_across, add);     \
    DIALECT_EXPECT(p->bytes == 2 || !(a_across));                                                  \
    p->a = a;                                                                                      \
    p->across_a = a_across;                                                                        \
  }
#define WARPGROUP_UNIT_HELD(name, n, type, b_across)                                               \
  DEVICE void name(f32 *sum, const u32 *a, u64 b, boolean add) {                                   \
    dialect_product_hold(dialect_product_begin(sum, b, n, dialect_unit_##type, b_across, add), a); \
  }
