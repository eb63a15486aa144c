/* SPDX-License-Identifier: MIT */
/* The arena places blocks like a plain search for the lowest free offset. */
#include "plan/compile/lower/arena.h"
#include "support/harness/test.h"
#include "support/harness/values.h"

enum { MOST_BLOCKS = 600 };

typedef struct block {
  uint32_t first, last;
  uint64_t begin, end;
} block;

static uint64_t round_up(uint64_t bytes) {
  return (bytes + OCCUPANCY_UNIT - 1) / OCCUPANCY_UNIT * OCCUPANCY_UNIT;
}

/* The lowest free offset: 0, or the end of another block. */
static uint64_t find_plainly(const block *blocks, int count, const block *wanted) {
  uint64_t best = UINT64_MAX;
  for (int i = -1; i < count; i++) {
    const uint64_t begin = i < 0 ? 0 : blocks[i].end, end = begin + wanted->end;
    bool free = begin < best;
    for (int k = 0; free && k < count; k++)
      free = blocks[k].last < wanted->first || wanted->last < blocks[k].first ||
             blocks[k].end <= begin || end <= blocks[k].begin;
    if (free) best = begin;
  }
  return best;
}

/* `sizes` different sizes; lifetimes of up to `longest` steps; `run` blocks at a time begin one
 * after the other. */
static void place_blocks(uint32_t steps, int count, int64_t sizes, int64_t longest, int run,
                         uint64_t seed) {
  static block blocks[MOST_BLOCKS];
  test_random random = {seed};
  scratch memory = {0};
  occupancy o;
  occupancy_begin(&o, steps, &memory);
  for (int i = 0; i < count; i++) {
    block *b = &blocks[i];
    b->first = (uint32_t)((uint64_t)(i % run) * steps / (uint64_t)run);
    if (run == 1) b->first = (uint32_t)test_random_integer(&random, 0, (int64_t)steps - 1);
    b->last = b->first + (uint32_t)test_random_integer(&random, 0, longest);
    if (b->last >= steps) b->last = steps - 1;
    const uint64_t bytes = (uint64_t)test_random_integer(&random, 1, sizes) * 40 - 39;
    b->end = round_up(bytes);
    const uint64_t expected = find_plainly(blocks, i, b);
    assert_true(occupancy_place(&o, b->first, b->last, bytes, &b->begin));
    if (b->begin != expected)
      fail_msg("block %d of %llu bytes, steps %u to %u of %u, lies at %llu, not at %llu", i,
               (unsigned long long)bytes, b->first, b->last, steps, (unsigned long long)b->begin,
               (unsigned long long)expected);
    b->end += b->begin;
  }
  scratch_release(&memory);
}

static void blocks_lie_as_low_as_they_can(void **state) {
  (void)state;
  static const uint32_t steps[] = {1, 2, 3, 7, 64, 65, 1000};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
    for (int64_t longest = 0; longest <= 1000; longest = 8 * longest + 1)
      for (int64_t sizes = 1; sizes <= 100; sizes *= 10)
        for (int run = 1; run <= 60; run = 4 * run + 2)
          place_blocks(steps[i], 60, sizes, longest, run, (uint64_t)(i * 1000) + (uint64_t)longest);
}

static void so_do_very_many(void **state) {
  (void)state;
  place_blocks(1000, MOST_BLOCKS, 1, 3000, 1, 1);
  place_blocks(1000, MOST_BLOCKS, 50, 40, 1, 2);
  place_blocks(1000, MOST_BLOCKS, 1, 3000, MOST_BLOCKS, 3);
  place_blocks(1000, MOST_BLOCKS, 20, 300, 100, 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_lie_as_low_as_they_can),
      cmocka_unit_test(so_do_very_many),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
