/* SPDX-License-Identifier: MIT */
/* Scratch memory of launches. Launches of any sizes keep as many blocks as run at the same time;
 * unneeded blocks are released. Small blocks stay, one in each of a few slots. */
#include "kernel_fixture.h"

#include <time.h>

static fixture f;

static int64_t kept(int64_t before) {
  return f.live_blocks - before;
}

static void launches_of_growing_sizes_keep_one_block(void **state) {
  (void)state;
  assert_true(fixture_open(&f, 1, "scalar"));
  const int64_t before = f.live_blocks;
  uint32_t seed = 1;
  for (int i = 0; i < 300; i++) {
    seed = seed * 1664525u + 1013904223u;
    void *memory =
        cpu_workspace_acquire(f.device, (uint64_t)1000 * (uint64_t)(i + 200) * (1 + seed % 4));
    assert_non_null(memory);
    cpu_workspace_return(f.device, memory);
    assert_int_equal(kept(before), 1);
  }
  fixture_close(&f);
}

static void two_launches_at_a_time_keep_two_blocks(void **state) {
  (void)state;
  assert_true(fixture_open(&f, 1, "scalar"));
  const int64_t before = f.live_blocks;
  for (uint64_t i = 1; i < 100; i++) {
    void *small = cpu_workspace_acquire(f.device, 200000 + 100 * i);
    void *large = cpu_workspace_acquire(f.device, 300000 + 10000 * i);
    assert_true(small && large);
    cpu_workspace_return(f.device, i % 2 ? small : large);
    cpu_workspace_return(f.device, i % 2 ? large : small);
    assert_true(kept(before) <= 2);
  }
  fixture_close(&f);
}

static void a_block_that_no_launch_needs_goes_back(void **state) {
  (void)state;
  assert_true(fixture_open(&f, 1, "scalar"));
  const int64_t before = f.live_blocks;
  void *small = cpu_workspace_acquire(f.device, 200000);
  void *large = cpu_workspace_acquire(f.device, 1 << 20);
  cpu_workspace_return(f.device, small);
  cpu_workspace_return(f.device, large);
  assert_int_equal(kept(before), 2);
  nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 100000000}, NULL);
  for (int i = 0; i < 200; i++)
    cpu_workspace_return(f.device, cpu_workspace_acquire(f.device, 200000));
  assert_int_equal(kept(before), 1);
  fixture_close(&f);
}

/* One thread uses one slot, whatever small sizes it requests. */
static void small_launches_keep_one_block(void **state) {
  (void)state;
  assert_true(fixture_open(&f, 1, "scalar"));
  const int64_t before = f.live_blocks;
  for (uint64_t i = 0; i < 1000; i++) {
    void *memory = cpu_workspace_acquire(f.device, 1 + i * 7919 % 130000);
    assert_non_null(memory);
    cpu_workspace_return(f.device, memory);
    assert_true(kept(before) <= 2); /* one that was too small may wait in the list */
  }
  fixture_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_launches_keep_one_block),
      cmocka_unit_test(launches_of_growing_sizes_keep_one_block),
      cmocka_unit_test(two_launches_at_a_time_keep_two_blocks),
      cmocka_unit_test(a_block_that_no_launch_needs_goes_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
