/* SPDX-License-Identifier: MIT */
/* The buffer pool, over a source that counts, records the order of releases, and fails on
 * request. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "compute/status.h"
#include "core/device/buffer.h"

/* ---- A simulated memory source ------------------------------------------------------------- */

#define MOST_RELEASES 4096

typedef struct source_state {
  pthread_mutex_t mutex;
  uint64_t capacity;  /* bytes that can be allocated at once */
  uint64_t held;      /* bytes allocated now */
  uint64_t most_held; /* maximum of `held` */
  uint64_t calls;     /* calls of allocate */
  uint64_t refusals;
  uintptr_t serial;
  uintptr_t released[MOST_RELEASES]; /* handles in order */
  size_t release_count;
  compute_status failure; /* status to return instead of working */
} source_state;

static compute_status source_allocate(void *owner, uint64_t bytes, compute_memory *memory) {
  source_state *state = owner;
  compute_status status = COMPUTE_OK;
  pthread_mutex_lock(&state->mutex);
  state->calls++;
  if (state->failure) {
    status = state->failure;
  } else if (bytes > state->capacity - state->held) {
    state->refusals++;
    status = COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY;
  } else {
    state->held += bytes;
    if (state->held > state->most_held) state->most_held = state->held;
    *memory = (compute_memory){.handle = (void *)++state->serial, .bytes = bytes};
  }
  pthread_mutex_unlock(&state->mutex);
  return status;
}

static void source_release(void *owner, compute_memory *memory) {
  source_state *state = owner;
  pthread_mutex_lock(&state->mutex);
  assert_true(state->held >= memory->bytes);
  state->held -= memory->bytes;
  state->released[state->release_count++ % MOST_RELEASES] = (uintptr_t)memory->handle;
  pthread_mutex_unlock(&state->mutex);
}

/* The pool's clock, in nanoseconds. */
static _Atomic int64_t time_now;

static int64_t source_clock(void) {
  return time_now;
}

typedef struct fixture {
  source_state source;
  memory_pool *pool;
} fixture;

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  pthread_mutex_init(&f->source.mutex, NULL);
  f->source.capacity = (uint64_t)1 << 40;
  time_now = (int64_t)1 << 40;
  const pool_source source = {source_allocate, source_release, &f->source, source_clock};
  f->pool = pool_create(NULL, &source, "test");
  assert_non_null(f->pool);
  *state = f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  pool_release(f->pool);
  assert_int_equal(f->source.held, 0);
  pthread_mutex_destroy(&f->source.mutex);
  free(f);
  return 0;
}

static pool_block *take(fixture *f, uint64_t bytes) {
  pool_block *block;
  assert_int_equal(pool_allocate(f->pool, bytes, &block), COMPUTE_OK);
  assert_non_null(block);
  return block;
}

static compute_pool_statistics query(fixture *f) {
  compute_pool_statistics statistics;
  pool_query(f->pool, &statistics);
  assert_int_equal(statistics.bytes_allocated, statistics.bytes_active + statistics.bytes_cached);
  return statistics;
}

/* ---- Size classes -------------------------------------------------------------------------- */

static void check_slack(uint64_t bytes) {
  uint64_t block = pool_block_bytes(bytes);
  assert_true(block >= bytes);
  assert_int_equal(block % 64, 0);
  uint64_t slack = block - bytes;
  assert_true(slack < 4096 || slack <= bytes / 16);
}

static void slack_is_at_most_a_sixteenth(void **state) {
  (void)state;
  for (uint64_t bytes = 1; bytes <= 100000; bytes++) check_slack(bytes);
  for (int shift = 10; shift < 62; shift++) {
    for (uint64_t eighth = 8; eighth < 16; eighth++) {
      uint64_t edge = eighth << (shift - 3);
      check_slack(edge - 1);
      check_slack(edge);
      check_slack(edge + 1);
    }
  }
}

static void block_sizes_grow_with_requests(void **state) {
  (void)state;
  uint64_t last = 0;
  for (uint64_t bytes = 1; bytes < 300000; bytes += 7) {
    uint64_t block = pool_block_bytes(bytes);
    assert_true(block >= last);
    assert_int_equal(pool_block_bytes(block), block);
    last = block;
  }
}

static void sizes_that_overflow_are_refused(void **state) {
  fixture *f = *state;
  pool_block *block;
  assert_int_equal(pool_block_bytes(UINT64_MAX), 0);
  assert_int_equal(pool_block_bytes((uint64_t)INT64_MAX), 0);
  assert_int_equal(pool_allocate(f->pool, UINT64_MAX, &block), COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY);
  assert_null(block);
  assert_int_equal(f->source.calls, 0);
}

/* ---- Reuse --------------------------------------------------------------------------------- */

static void returned_block_is_reused(void **state) {
  fixture *f = *state;
  pool_block *block = take(f, 1000);
  void *handle = block->memory.handle;
  assert_int_equal(block->memory.bytes, pool_block_bytes(1000));
  pool_return(f->pool, block);
  block = take(f, 990);
  assert_ptr_equal(block->memory.handle, handle);
  assert_int_equal(f->source.calls, 1);
  compute_pool_statistics s = query(f);
  assert_int_equal(s.hits, 1);
  assert_int_equal(s.misses, 1);
  pool_return(f->pool, block);
}

static void most_recently_used_block_is_reused_first(void **state) {
  fixture *f = *state;
  pool_block *a = take(f, 5000), *b = take(f, 5000);
  void *last = b->memory.handle;
  pool_return(f->pool, a);
  pool_return(f->pool, b);
  pool_block *again = take(f, 5000);
  assert_ptr_equal(again->memory.handle, last);
  pool_return(f->pool, again);
}

static void other_class_is_a_miss(void **state) {
  fixture *f = *state;
  pool_return(f->pool, take(f, 1 << 20));
  pool_block *small = take(f, 1000);
  compute_pool_statistics s = query(f);
  assert_int_equal(s.hits, 0);
  assert_int_equal(s.misses, 2);
  pool_return(f->pool, small);
}

/* ---- Best fit ------------------------------------------------------------------------------ */

static void larger_block_close_by_serves_a_request(void **state) {
  fixture *f = *state;
  pool_block *large = take(f, 1000000), *larger = take(f, 1100000);
  void *handle = large->memory.handle;
  pool_return(f->pool, large);
  pool_return(f->pool, larger);
  pool_block *block = take(f, 900000);
  assert_ptr_equal(block->memory.handle, handle); /* the smaller of the two */
  assert_true(block->memory.bytes >= 1000000);
  assert_int_equal(query(f).bytes_requested, 900000);
  pool_return(f->pool, block);
  block = take(f, 1000000);
  assert_ptr_equal(block->memory.handle, handle); /* still in its own size class */
  pool_return(f->pool, block);
  assert_int_equal(f->source.calls, 2);
}

/* Below the limit, a block of the right size is allocated. At the limit, an allocation would evict
 * the larger block, so the pool uses that block. */
static void much_larger_block_is_used_rather_than_evicted(void **state) {
  fixture *f = *state;
  pool_return(f->pool, take(f, 8 << 20));
  pool_return(f->pool, take(f, 3 << 20));
  assert_int_equal(f->source.calls, 2);
  pool_block *block = take(f, 5 << 19);
  assert_int_equal(f->source.calls, 2);
  pool_return(f->pool, block);
  block = take(f, 3 << 19); /* 8 + 3 + 1.5 exceeds 8 and half of it */
  assert_int_equal(f->source.calls, 2);
  assert_true(block->memory.bytes >= 3 << 20 && block->memory.bytes <= 13 << 18);
  pool_return(f->pool, block);
  block = take(f, 1 << 16); /* both are far too large */
  assert_int_equal(f->source.calls, 3);
  pool_return(f->pool, block);
}

/* ---- The limit ----------------------------------------------------------------------------- */

static uint32_t next_random(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return *seed >> 8;
}

/* A run of a plan for sequences of `length`: input, output, and an arena between them. Returns the
 * requested bytes. */
static uint64_t run_with_length(fixture *f, uint64_t length) {
  pool_block *x = take(f, length * 1024), *y = take(f, length * 1024);
  pool_block *arena = take(f, length * 5120 + 7000);
  const uint64_t requested = query(f).bytes_requested;
  pool_return(f->pool, arena);
  pool_return(f->pool, x);
  pool_return(f->pool, y);
  return requested;
}

static void random_sizes_hold_at_most_half_more_than_the_largest(void **state) {
  fixture *f = *state;
  uint32_t seed = 1;
  uint64_t largest = 0;
  for (int run = 0; run < 20000; run++) {
    const uint64_t requested = run_with_length(f, 4 + next_random(&seed) % 797);
    if (requested > largest) largest = requested;
    time_now += 1000000;
    assert_true(query(f).bytes_allocated <= largest + largest / 2 + largest / 8 + (1 << 20));
  }
  const compute_pool_statistics s = query(f);
  assert_true(s.bytes_active == 0 && s.bytes_cached >= largest / 2);
  assert_true(s.misses < s.hits / 50);
}

static void random_sizes_in_use_at_once_hold_at_most_half_more(void **state) {
  fixture *f = *state;
  pool_block *held[20] = {NULL};
  uint32_t seed = 7;
  for (int i = 0; i < 50000; i++) {
    const size_t slot = next_random(&seed) % 20;
    pool_return(f->pool, held[slot]);
    held[slot] = take(f, (uint64_t)(1 + next_random(&seed) % 1000) << next_random(&seed) % 14);
    time_now += 100000;
  }
  for (size_t i = 0; i < 20; i++) pool_return(f->pool, held[i]);
  const compute_pool_statistics s = query(f);
  assert_true(f->source.most_held <= s.bytes_peak + s.bytes_peak / 2 + (1 << 20));
  assert_true(s.misses < s.hits / 5);
}

/* Memory for one large run is released after it was unused for a while: not before 5 ns a byte have
 * passed, and not after three times that. */
static void unused_memory_is_given_back_with_time(void **state) {
  fixture *f = *state;
  const int64_t begin = time_now;
  pool_return(f->pool, take(f, 1 << 30));
  while (query(f).bytes_cached >= 1 << 30) {
    time_now += 10000000;
    pool_return(f->pool, take(f, 1000));
    assert_true(time_now - begin < INT64_C(16500000000));
  }
  assert_true(time_now - begin > INT64_C(5000000000));
  assert_true(query(f).bytes_cached <= 1 << 20);
}

/* Long-lived tensors, such as weights, do not let the cache grow. */
static void memory_that_stays_allows_no_more_cache(void **state) {
  fixture *f = *state;
  uint32_t seed = 3;
  pool_block *weights = take(f, 1 << 28);
  for (int run = 0; run < 20000; run++) {
    run_with_length(f, 4 + next_random(&seed) % 797);
    time_now += 1000000;
  }
  assert_true(query(f).bytes_cached < 10 << 20);
  pool_return(f->pool, weights);
}

/* A result kept from each run does not keep the large block of another run's temporaries alive. */
static void kept_results_keep_no_large_blocks(void **state) {
  fixture *f = *state;
  pool_block *kept[100];
  for (int run = 0; run < 100; run++) {
    pool_block *large = take(f, 16 << 20);
    kept[run] = take(f, 1 << 20);
    pool_block *other = take(f, 3 << 20);
    pool_return(f->pool, large);
    pool_return(f->pool, other);
    time_now += 50000000;
  }
  const compute_pool_statistics s = query(f);
  assert_true(s.bytes_allocated < (uint64_t)(100 + 20 + 10) << 20);
  for (int run = 0; run < 100; run++) pool_return(f->pool, kept[run]);
}

/* Repeated runs find all their blocks again, though these exceed the limit together. */
static void repeated_runs_stop_missing(void **state) {
  fixture *f = *state;
  uint64_t misses = 0;
  for (int run = 0; run < 300; run++) {
    pool_block *ten[10], *five[5];
    for (int i = 0; i < 10; i++) ten[i] = take(f, 1000000);
    for (int i = 0; i < 10; i++) pool_return(f->pool, ten[i]);
    for (int i = 0; i < 5; i++) five[i] = take(f, 2100000);
    for (int i = 0; i < 5; i++) pool_return(f->pool, five[i]);
    time_now += 20000000;
    if (run == 20) misses = query(f).misses;
  }
  assert_int_equal(query(f).misses, misses);
}

static void runs_of_eight_lengths_stop_missing(void **state) {
  fixture *f = *state;
  uint64_t misses = 0;
  for (uint64_t run = 0; run < 3000; run++) {
    run_with_length(f, (run * 5 % 8 + 1) * 100);
    time_now += 2000000;
    if (run == 200) misses = query(f).misses;
  }
  assert_int_equal(query(f).misses, misses);
}

static void statistics_follow_every_block(void **state) {
  fixture *f = *state;
  pool_block *a = take(f, 100), *b = take(f, 10000);
  uint64_t bytes_a = pool_block_bytes(100), bytes_b = pool_block_bytes(10000);
  compute_pool_statistics s = query(f);
  assert_int_equal(s.bytes_active, bytes_a + bytes_b);
  assert_int_equal(s.bytes_requested, 10100);
  assert_int_equal(s.blocks_active, 2);
  assert_int_equal(s.blocks_cached, 0);
  pool_return(f->pool, b);
  s = query(f);
  assert_int_equal(s.bytes_active, bytes_a);
  assert_int_equal(s.bytes_cached, bytes_b);
  assert_int_equal(s.bytes_requested, 100);
  assert_int_equal(s.bytes_peak, bytes_a + bytes_b);
  assert_int_equal(s.blocks_active, 1);
  assert_int_equal(s.blocks_cached, 1);
  pool_return(f->pool, a);
  pool_return(f->pool, NULL);
  s = query(f);
  assert_int_equal(s.bytes_active, 0);
  assert_int_equal(s.bytes_requested, 0);
  assert_int_equal(s.blocks_cached, 2);
  assert_int_equal(s.bytes_allocated, f->source.held);
}

/* ---- Eviction ------------------------------------------------------------------------------ */

static void trim_evicts_in_order_of_last_use(void **state) {
  fixture *f = *state;
  pool_block *block[6];
  uintptr_t handle[6];
  for (size_t i = 0; i < 6; i++) {
    block[i] = take(f, 1000 * (i + 1)); /* different size classes */
    handle[i] = (uintptr_t)block[i]->memory.handle;
  }
  static const size_t order[6] = {3, 0, 5, 1, 4, 2};
  for (size_t i = 0; i < 6; i++) pool_return(f->pool, block[order[i]]);
  /* Using block 0 again makes it the newest. */
  pool_return(f->pool, take(f, 1000));
  pool_trim(f->pool, 0);
  static const size_t expected[6] = {3, 5, 1, 4, 2, 0};
  assert_int_equal(f->source.release_count, 6);
  for (size_t i = 0; i < 6; i++) assert_int_equal(f->source.released[i], handle[expected[i]]);
}

static void trim_keeps_what_is_allowed(void **state) {
  fixture *f = *state;
  pool_block *block[4];
  for (int i = 0; i < 4; i++) block[i] = take(f, 1024);
  for (int i = 0; i < 4; i++) pool_return(f->pool, block[i]);
  pool_trim(f->pool, 2 * 1024 + 500);
  compute_pool_statistics s = query(f);
  assert_int_equal(s.blocks_cached, 2);
  assert_int_equal(s.evictions, 2);
  pool_trim(f->pool, UINT64_MAX);
  assert_int_equal(query(f).blocks_cached, 2);
}

static void exhausted_source_makes_the_pool_evict_and_retry(void **state) {
  fixture *f = *state;
  f->source.capacity = 4 * 1024;
  pool_block *block[4];
  uintptr_t handle[4];
  for (int i = 0; i < 4; i++) {
    block[i] = take(f, 1024);
    handle[i] = (uintptr_t)block[i]->memory.handle;
  }
  pool_return(f->pool, block[2]);
  pool_return(f->pool, block[0]);
  pool_return(f->pool, block[3]);
  pool_block *large = take(f, 2048);
  assert_int_equal(f->source.refusals, 1);
  assert_int_equal(f->source.release_count, 2);
  /* Evicts only as much as necessary, least recently used first; the newest stays. */
  assert_true(f->source.released[0] + f->source.released[1] == handle[2] + handle[0]);
  compute_pool_statistics s = query(f);
  assert_int_equal(s.evictions, 2);
  assert_int_equal(s.blocks_cached, 1);
  pool_return(f->pool, large);
  pool_return(f->pool, block[1]);
}

static void source_that_stays_exhausted_is_an_error_with_an_empty_cache(void **state) {
  fixture *f = *state;
  f->source.capacity = 4 * 1024;
  pool_block *active = take(f, 1024), *cached = take(f, 1024), *failed;
  pool_return(f->pool, cached);
  assert_int_equal(pool_allocate(f->pool, 64 * 1024, &failed), COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY);
  assert_null(failed);
  compute_pool_statistics s = query(f);
  assert_int_equal(s.blocks_cached, 0);
  assert_int_equal(s.blocks_active, 1);
  assert_int_equal(s.bytes_allocated, 1024);
  assert_non_null(strstr(compute_error_message(NULL), "64.0 KiB"));
  /* The pool still works. */
  pool_return(f->pool, take(f, 1024));
  pool_return(f->pool, active);
}

static void other_failures_of_the_source_evict_nothing(void **state) {
  fixture *f = *state;
  pool_block *failed;
  pool_return(f->pool, take(f, 1024));
  f->source.failure = COMPUTE_ERROR_DEVICE_LOST;
  assert_int_equal(pool_allocate(f->pool, 4096, &failed), COMPUTE_ERROR_DEVICE_LOST);
  f->source.failure = COMPUTE_OK;
  compute_pool_statistics s = query(f);
  assert_int_equal(s.evictions, 0);
  assert_int_equal(s.bytes_allocated, 1024);
}

/* ---- Budget -------------------------------------------------------------------------------- */

static void budget_limits_what_is_held(void **state) {
  fixture *f = *state;
  pool_set_budget(f->pool, 4096);
  pool_block *a = take(f, 2048), *b = take(f, 1024), *failed;
  pool_return(f->pool, b);
  assert_int_equal(pool_allocate(f->pool, 4096, &failed), COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY);
  assert_non_null(strstr(compute_error_message(NULL), "budget"));
  /* A request that cannot fit evicts nothing. */
  assert_int_equal(query(f).blocks_cached, 1);
  /* A request that fits after eviction evicts. */
  pool_block *c = take(f, 2048);
  compute_pool_statistics s = query(f);
  assert_int_equal(s.bytes_allocated, 4096);
  assert_int_equal(s.evictions, 1);
  assert_true(f->source.most_held <= 4096);
  pool_return(f->pool, a);
  pool_return(f->pool, c);
}

static void smaller_budget_evicts_at_once(void **state) {
  fixture *f = *state;
  pool_block *block[4];
  for (int i = 0; i < 4; i++) block[i] = take(f, 1024);
  for (int i = 0; i < 3; i++) pool_return(f->pool, block[i]);
  pool_set_budget(f->pool, 2048);
  compute_pool_statistics s = query(f);
  assert_int_equal(s.bytes_budget, 2048);
  assert_int_equal(s.bytes_allocated, 2048);
  assert_int_equal(s.blocks_cached, 1);
  pool_set_budget(f->pool, 0);
  pool_block *large = take(f, 1 << 20);
  pool_return(f->pool, large);
  pool_return(f->pool, block[3]);
}

static void budget_comes_from_the_environment(void **state) {
  fixture *f = *state;
  setenv("COMPUTE_POOL_BUDGET", "8192", 1);
  const pool_source source = {source_allocate, source_release, &f->source, NULL};
  memory_pool *pool = pool_create(NULL, &source, "other");
  unsetenv("COMPUTE_POOL_BUDGET");
  compute_pool_statistics s;
  pool_query(pool, &s);
  assert_int_equal(s.bytes_budget, 8192);
  pool_release(pool);
}

/* ---- Threads ------------------------------------------------------------------------------- */

#define THREADS     4
#define ROUNDS      4000
#define MOST_BLOCKS 8

typedef struct worker {
  fixture *f;
  uint32_t number, seed;
} worker;

/* Takes and returns blocks at random. If a block were given to two threads at once, it would hold
 * the other thread's request. */
static void *churn(void *argument) {
  worker *w = argument;
  pool_block *held[MOST_BLOCKS] = {NULL};
  uint64_t asked[MOST_BLOCKS] = {0};
  for (int round = 0; round < ROUNDS; round++) {
    size_t slot = next_random(&w->seed) % MOST_BLOCKS;
    if (held[slot]) {
      if (held[slot]->requested != asked[slot]) return "a block changed hands";
      pool_return(w->f->pool, held[slot]);
      held[slot] = NULL;
    } else {
      /* Different threads never request the same number of bytes. */
      asked[slot] = THREADS * (1 + (uint64_t)next_random(&w->seed) % 5000) + w->number;
      if (pool_allocate(w->f->pool, asked[slot], &held[slot])) held[slot] = NULL;
    }
    if (round % 500 == 0) pool_trim(w->f->pool, 50000);
    time_now += 5000000; /* lets the pool check its limit */
  }
  for (size_t slot = 0; slot < MOST_BLOCKS; slot++) pool_return(w->f->pool, held[slot]);
  return NULL;
}

static void threads_share_one_pool(void **state) {
  fixture *f = *state;
  f->source.capacity = 300000;
  pthread_t thread[THREADS];
  worker workers[THREADS];
  for (uint32_t i = 0; i < THREADS; i++) {
    workers[i] = (worker){f, i, 17 * i + 1};
    assert_int_equal(pthread_create(&thread[i], NULL, churn, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    void *problem;
    pthread_join(thread[i], &problem);
    assert_null(problem);
  }
  compute_pool_statistics s = query(f);
  assert_int_equal(s.blocks_active, 0);
  assert_int_equal(s.bytes_requested, 0);
  assert_int_equal(s.bytes_cached, f->source.held);
  assert_true(s.bytes_peak <= f->source.capacity);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slack_is_at_most_a_sixteenth),
      cmocka_unit_test(block_sizes_grow_with_requests),
      cmocka_unit_test_setup_teardown(sizes_that_overflow_are_refused, set_up, tear_down),
      cmocka_unit_test_setup_teardown(returned_block_is_reused, set_up, tear_down),
      cmocka_unit_test_setup_teardown(most_recently_used_block_is_reused_first, set_up, tear_down),
      cmocka_unit_test_setup_teardown(other_class_is_a_miss, set_up, tear_down),
      cmocka_unit_test_setup_teardown(larger_block_close_by_serves_a_request, set_up, tear_down),
      cmocka_unit_test_setup_teardown(much_larger_block_is_used_rather_than_evicted, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(random_sizes_hold_at_most_half_more_than_the_largest, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(random_sizes_in_use_at_once_hold_at_most_half_more, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(unused_memory_is_given_back_with_time, set_up, tear_down),
      cmocka_unit_test_setup_teardown(memory_that_stays_allows_no_more_cache, set_up, tear_down),
      cmocka_unit_test_setup_teardown(kept_results_keep_no_large_blocks, set_up, tear_down),
      cmocka_unit_test_setup_teardown(repeated_runs_stop_missing, set_up, tear_down),
      cmocka_unit_test_setup_teardown(runs_of_eight_lengths_stop_missing, set_up, tear_down),
      cmocka_unit_test_setup_teardown(statistics_follow_every_block, set_up, tear_down),
      cmocka_unit_test_setup_teardown(trim_evicts_in_order_of_last_use, set_up, tear_down),
      cmocka_unit_test_setup_teardown(trim_keeps_what_is_allowed, set_up, tear_down),
      cmocka_unit_test_setup_teardown(exhausted_source_makes_the_pool_evict_and_retry, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(source_that_stays_exhausted_is_an_error_with_an_empty_cache,
                                      set_up, tear_down),
      cmocka_unit_test_setup_teardown(other_failures_of_the_source_evict_nothing, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(budget_limits_what_is_held, set_up, tear_down),
      cmocka_unit_test_setup_teardown(smaller_budget_evicts_at_once, set_up, tear_down),
      cmocka_unit_test_setup_teardown(budget_comes_from_the_environment, set_up, tear_down),
      cmocka_unit_test_setup_teardown(threads_share_one_pool, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
