/* SPDX-License-Identifier: MIT */
/* The disk cache stays within its limit, survives a full disk, and is shared by threads and
 * processes that may end at any time. */
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "cache/cache_fixture.h"

/* ---- Space --------------------------------------------------------------------------------- */

static int store_under_a_file_size_limit(void) {
  static const char large[10000];
  const struct rlimit limit = {2000, 2000};
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 77;
  disk_cache *cache = disk_cache_create();
  size_t bytes;
  store(cache, "large", large, sizeof large);
  if (load(cache, "large", &bytes)) return 1;
  store(cache, "small", "payload", 7);
  void *small = load(cache, "small", &bytes);
  if (!small || bytes != 7) return 2;
  base_release(small);
  if (counters(cache).stores != 1 || files_named("new-") != 0) return 3;
  disk_cache_release(cache);
  return 0;
}

static void a_limit_of_file_sizes_does_not_end_the_program(void **state) {
  (void)state;
  in_another_process(store_under_a_file_size_limit);
}

static int store_on_a_full_disk(void) {
  static const char large[64 * 1024];
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mkdir(ROOT, 0700) != 0 || mount("none", ROOT, "tmpfs", 0, "size=32k,mode=0700") != 0)
    return 77;
  disk_cache *cache = disk_cache_create();
  size_t bytes;
  store(cache, "large", large, sizeof large);
  if (load(cache, "large", &bytes)) return 1;
  if (files_named("") != 0) return 2;
  store(cache, "small", "payload", 7);
  void *small = load(cache, "small", &bytes);
  if (!small || bytes != 7) return 3;
  base_release(small);
  disk_cache_release(cache);
  return 0;
}

static void a_full_disk_leaves_no_half_entry(void **state) {
  (void)state;
  in_another_process(store_on_a_full_disk);
}

static void the_least_recently_used_entries_go_first(void **state) {
  (void)state;
  char key[32], path[NAME_BYTES];
  limit_to(16 * BLOCK);
  disk_cache *cache = create();
  for (int i = 0; i < 16; i++) {
    snprintf(key, sizeof key, "entry %d", i);
    store_block(cache, key);
    set_age(path_of(key, path), 1000 - i);
  }
  assert_int_equal(files_named(""), 16);
  assert_int_equal(counters(cache).evictions, 0);
  assert_true(finds_block(cache, "entry 0")); /* now the newest */
  store_block(cache, "one more");
  assert_false(finds_block(cache, "entry 1"));
  assert_true(finds_block(cache, "entry 0"));
  for (int i = 2; i < 16; i++) {
    snprintf(key, sizeof key, "entry %d", i);
    assert_true(finds_block(cache, key));
  }
  assert_int_equal(counters(cache).evictions, 1);
  disk_cache_release(cache);
}

static void the_folder_never_exceeds_its_limit(void **state) {
  (void)state;
  static const char data[20 * BLOCK];
  char key[32];
  limit_to(100 * BLOCK);
  disk_cache *cache = create();
  srand(2);
  for (int i = 0; i < 300; i++) {
    snprintf(key, sizeof key, "%d", i);
    store(cache, key, data, (size_t)rand() % sizeof data);
    assert_true(folder_cost() <= 100 * BLOCK);
  }
  assert_int_equal(counters(cache).stores, 300);
  assert_true(counters(cache).evictions > 200);
  assert_true(folder_cost() > 50 * BLOCK);
  disk_cache_release(cache);
}

static void an_entry_larger_than_the_limit_is_not_stored(void **state) {
  (void)state;
  static const char data[20 * BLOCK];
  limit_to(16 * BLOCK);
  disk_cache *cache = create();
  store_block(cache, "small");
  store(cache, "large", data, 16 * BLOCK);
  assert_true(finds_block(cache, "small"));
  store(cache, "just", data, 16 * BLOCK - ENTRY_HEADER_BYTES); /* takes all of it */
  assert_true(finds(cache, "just", data, 16 * BLOCK - ENTRY_HEADER_BYTES));
  assert_false(finds_block(cache, "small"));
  assert_int_equal(files_named(""), 1);
  disk_cache_release(cache);
}

static void an_entry_from_the_future_is_not_kept_for_ever(void **state) {
  (void)state;
  char path[NAME_BYTES];
  limit_to(4 * BLOCK);
  disk_cache *cache = create();
  store_block(cache, "future");
  set_age(path_of("future", path), -1000000);
  store_block(cache, "a");
  store_block(cache, "b");
  store_block(cache, "c");
  store_block(cache, "d");
  assert_false(exists(path));
  disk_cache_release(cache);
}

static void only_stale_leftovers_are_removed(void **state) {
  (void)state;
  static const struct {
    const char *path;
    int age;
    bool stays;
  } files[] = {{KERNELS "/new-1-2-3", 4000, false},
               {KERNELS "/new-1-2-4", 60, true},
               {KERNELS "/new-1-2-5", -100000, false},
               {KERNELS "/notes.txt", 100000, true}};
  disk_cache *cache = create();
  store_block(cache, "first"); /* scans the folder, then not again for a long time */
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    write_bytes(files[i].path, "half", 4);
    set_age(files[i].path, files[i].age);
  }
  for (int i = 0; i < 100; i++) store(cache, "again", &i, sizeof i);
  assert_true(exists(files[0].path));
  disk_cache_release(cache);
  cache = create();
  store_block(cache, "second");
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    assert_int_equal(exists(files[i].path), files[i].stays);
  assert_true(finds_block(cache, "first"));
  disk_cache_release(cache);
}

/* ---- Threads and processes ----------------------------------------------------------------- */

enum { PROCESSES = 4, THREADS = 3, ROUNDS = 300, KEYS = 40 };

/* A payload of varying length that is unique for its key. */
static size_t payload_of(int key, unsigned char *data) {
  const size_t bytes = (size_t)(key * 997 % 9000);
  for (size_t i = 0; i < bytes; i++) data[i] = (unsigned char)((size_t)key * 31 + i * 7);
  return bytes;
}

static disk_cache *shared;

static void *hammer(void *argument) {
  unsigned seed = (unsigned)(uintptr_t)argument ^ (unsigned)getpid();
  unsigned char expected[9000];
  uintptr_t wrong = 0;
  for (int round = 0; round < ROUNDS; round++) {
    const int number = rand_r(&seed) % KEYS;
    const compute_cache_part part = {&number, sizeof number};
    const size_t bytes = payload_of(number, expected);
    size_t got;
    void *found = disk_cache_load(shared, &part, 1, &got);
    if (found && (got != bytes || memcmp(found, expected, bytes) != 0)) wrong++;
    if (!found || round % 5 == 0) disk_cache_store(shared, &part, 1, expected, bytes);
    base_release(found);
  }
  return (void *)wrong;
}

static int hammer_by_threads(void) {
  pthread_t threads[THREADS];
  uintptr_t wrong = 0;
  shared = disk_cache_create();
  if (!shared) return 1;
  for (uintptr_t i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, hammer, (void *)(i * 7919))) return 1;
  for (int i = 0; i < THREADS; i++) {
    void *result;
    pthread_join(threads[i], &result);
    wrong += (uintptr_t)result;
  }
  const disk_cache_statistics s = counters(shared);
  disk_cache_release(shared);
  return wrong || s.damaged || s.hits + s.misses != THREADS * ROUNDS || s.hits == 0 ? 1 : 0;
}

static void processes_and_threads_share_a_folder(void **state) {
  (void)state;
  pid_t children[PROCESSES];
  limit_to(48 * BLOCK); /* so that entries are also evicted while they are read */
  fflush(NULL);
  for (int i = 0; i < PROCESSES; i++) {
    children[i] = fork();
    assert_true(children[i] >= 0);
    if (children[i] == 0) _exit(hammer_by_threads());
  }
  for (int i = 0; i < PROCESSES; i++) {
    int status = 0;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_int_equal(status, 0);
  }
  assert_int_equal(files_named("new-"), 0);
  assert_true(folder_cost() <= (48 + 3 * PROCESSES) * BLOCK);
}

static void store_for_ever(void) {
  static char data[1 << 20];
  disk_cache *cache = disk_cache_create();
  for (;;) store(cache, "key", data, sizeof data);
}

static void a_killed_process_leaves_no_false_entry(void **state) {
  (void)state;
  static char data[1 << 20];
  for (int i = 0; i < 20; i++) {
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) store_for_ever();
    usleep((useconds_t)(2000 + i * 1300));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    disk_cache *cache = create();
    const bool found = finds(cache, "key", data, sizeof data);
    char path[NAME_BYTES];
    assert_true(found || !exists(path_of("key", path)));
    assert_int_equal(counters(cache).damaged, 0);
    disk_cache_release(cache);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      CACHE_TEST(a_limit_of_file_sizes_does_not_end_the_program),
      CACHE_TEST(a_full_disk_leaves_no_half_entry),
      CACHE_TEST(the_least_recently_used_entries_go_first),
      CACHE_TEST(the_folder_never_exceeds_its_limit),
      CACHE_TEST(an_entry_larger_than_the_limit_is_not_stored),
      CACHE_TEST(an_entry_from_the_future_is_not_kept_for_ever),
      CACHE_TEST(only_stale_leftovers_are_removed),
      CACHE_TEST(processes_and_threads_share_a_folder),
      CACHE_TEST(a_killed_process_leaves_no_false_entry),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
