/* SPDX-License-Identifier: MIT */
/* The disk cache: an entry is found again by its whole key, in the right folder. The cache switches
 * itself off silently if it cannot work. */
#include <sys/syscall.h>

#include "cache/cache_fixture.h"
#include "support/harness/failing_allocator.h"

/* ---- Storing and finding ------------------------------------------------------------------- */

static void what_is_stored_is_found_again_later(void **state) {
  (void)state;
  enum { LARGE = 1 << 20 };
  unsigned char *large = malloc(LARGE);
  for (int i = 0; i < LARGE; i++) large[i] = (unsigned char)((unsigned)i * 2654435761U >> 24);
  disk_cache *cache = create();
  assert_string_equal(disk_cache_folder(cache), KERNELS);
  assert_false(finds(cache, "a", "", 0));
  assert_false(exists(ROOT)); /* a lookup creates nothing */
  store(cache, "a", "binary\0with zeros", 17);
  store(cache, "empty", NULL, 0);
  store(cache, "large", large, LARGE);
  assert_true(finds(cache, "a", "binary\0with zeros", 17));
  disk_cache_release(cache);

  cache = create();
  assert_true(finds(cache, "a", "binary\0with zeros", 17));
  assert_true(finds(cache, "empty", "", 0));
  assert_true(finds(cache, "large", large, LARGE));
  assert_false(finds(cache, "b", "", 0));
  store(cache, "a", "other", 5);
  assert_true(finds(cache, "a", "other", 5));
  const disk_cache_statistics s = counters(cache);
  assert_int_equal(s.hits, 4);
  assert_int_equal(s.misses, 1);
  assert_int_equal(s.stores, 1);
  assert_int_equal(s.damaged + s.evictions, 0);
  assert_int_equal(files_named(""), 3);
  disk_cache_release(cache);
  free(large);
}

static void every_part_of_the_key_counts(void **state) {
  (void)state;
  static const char *const words[] = {"opencl", "device", "driver 1.2", "-cl-std=CL1.2", "source"};
  enum { PARTS = sizeof words / sizeof *words };
  compute_cache_part parts[PARTS + 1] = {{NULL, 0}};
  for (int i = 0; i < PARTS; i++) parts[i] = part_of(words[i]);
  disk_cache *cache = create();
  size_t bytes;
  disk_cache_store(cache, parts, PARTS, "x", 1);
  for (int i = 0; i < PARTS; i++) {
    char changed[32];
    snprintf(changed, sizeof changed, "%s", words[i]);
    changed[strlen(changed) - 1] ^= 1;
    parts[i] = part_of(changed);
    assert_null(disk_cache_load(cache, parts, PARTS, &bytes));
    parts[i] = (compute_cache_part){words[i], strlen(words[i]) - 1};
    assert_null(disk_cache_load(cache, parts, PARTS, &bytes));
    parts[i] = (compute_cache_part){NULL, 0};
    assert_null(disk_cache_load(cache, parts, PARTS, &bytes));
    parts[i] = part_of(words[i]);
  }
  assert_null(disk_cache_load(cache, parts, PARTS - 1, &bytes));
  assert_null(disk_cache_load(cache, parts, PARTS + 1, &bytes));
  assert_null(disk_cache_load(cache, NULL, 0, &bytes));
  void *found = disk_cache_load(cache, parts, PARTS, &bytes);
  assert_non_null(found);
  base_release(found);
  disk_cache_release(cache);
}

static void a_boundary_between_parts_counts(void **state) {
  (void)state;
  static const char *const pairs[][2] = {
      {"ab", "c"}, {"a", "bc"}, {"abc", ""}, {"", "abc"}, {"c", "ab"}};
  enum { PAIRS = sizeof pairs / sizeof *pairs };
  disk_cache *cache = create();
  for (int i = 0; i < PAIRS; i++) {
    const compute_cache_part parts[2] = {part_of(pairs[i][0]), part_of(pairs[i][1])};
    size_t bytes;
    assert_null(disk_cache_load(cache, parts, 2, &bytes));
    disk_cache_store(cache, parts, 2, "x", 1);
  }
  assert_int_equal(files_named(""), PAIRS);
  disk_cache_release(cache);
}

/* ---- Choice of the folder ------------------------------------------------------------------ */

static int log_lines;

static void count_line(void *user, compute_log_level level, const char *module, const char *words) {
  (void)user;
  (void)module;
  if (level == COMPUTE_LOG_INFO && strstr(words, "disk cache")) log_lines++;
}

/* The cache finds and stores nothing, and logs the reason once. */
static void check_off(void) {
  log_lines = 0;
  compute_log_set(count_line, NULL, COMPUTE_LOG_INFO);
  disk_cache *cache = create();
  for (int i = 0; i < 3; i++) {
    store(cache, "key", "payload", 7);
    assert_false(finds(cache, "key", "", 0));
  }
  compute_log_set(NULL, NULL, COMPUTE_LOG_OFF);
  assert_int_equal(log_lines, 1);
  assert_string_equal(disk_cache_folder(cache), "");
  assert_int_equal(counters(cache).stores, 0);
  disk_cache_release(cache);
}

static void without_a_usable_folder_it_is_off(void **state) {
  (void)state;
  assert_int_equal(mkdir(ROOT, 0700), 0);
  write_bytes(ROOT "/file", "x", 1);
  setenv("COMPUTE_CACHE_DIR", ROOT "/file", 1); /* a file in place of the folder */
  check_off();
  setenv("COMPUTE_CACHE_DIR", ROOT "/file/below", 1);
  check_off();
  setenv("COMPUTE_CACHE_DIR", "/proc/compute/cache", 1);
  check_off();
  setenv("COMPUTE_CACHE_DIR", ROOT, 1);
  write_bytes(KERNELS, "x", 1);
  check_off();
  assert_int_equal(unlink(KERNELS), 0);
  setenv("COMPUTE_CACHE_LIMIT", "0", 1);
  check_off();
  assert_false(exists(KERNELS));
}

static void a_folder_that_others_may_write_is_not_used(void **state) {
  (void)state;
  assert_int_equal(mkdir(ROOT, 0700), 0);
  assert_int_equal(mkdir(KERNELS, 0700), 0);
  assert_int_equal(chmod(KERNELS, 0777), 0);
  check_off();
  assert_int_equal(chmod(KERNELS, 0770), 0);
  check_off();
  if (geteuid() == 0) {
    assert_int_equal(chmod(KERNELS, 0700), 0);
    assert_int_equal(chown(KERNELS, 65534, 65534), 0);
    check_off();
  }
  assert_int_equal(files_named(""), 0);
}

/* Permissions do not restrict root, unless it drops this capability. Another user could not reach
 * the folder if the tree is in root's home. */
static bool permissions_hold(void) {
  enum { VERSION_3 = 0x20080522, DAC_OVERRIDE = 1 };
  struct {
    uint32_t version;
    int process;
  } head = {VERSION_3, 0};
  struct {
    uint32_t effective, permitted, inheritable;
  } rights[2];
  if (geteuid() != 0) return true;
  if (syscall(SYS_capget, &head, rights) != 0) return false;
  rights[0].effective &= ~(1U << DAC_OVERRIDE);
  return syscall(SYS_capset, &head, rights) == 0;
}

static int use_a_read_only_folder(void) {
  size_t bytes;
  if (!permissions_hold()) return 77;
  disk_cache *cache = disk_cache_create();
  void *found = load(cache, "key", &bytes);
  if (!found || bytes != 7) return 1;
  base_release(found);
  store(cache, "other", "payload", 7);
  if (load(cache, "other", &bytes) || counters(cache).stores != 0) return 2;
  disk_cache_release(cache);
  return 0;
}

static void a_read_only_folder_still_serves_what_it_has(void **state) {
  (void)state;
  disk_cache *cache = create();
  store(cache, "key", "payload", 7);
  disk_cache_release(cache);
  assert_int_equal(chmod(KERNELS, 0500), 0);
  in_another_process(use_a_read_only_folder);
  assert_int_equal(chmod(KERNELS, 0700), 0);
}

static void check_folder(const char *expected) {
  disk_cache *cache = create();
  assert_string_equal(disk_cache_folder(cache), expected);
  disk_cache_release(cache);
}

static void the_folder_is_the_first_absolute_path_of_three(void **state) {
  (void)state;
  assert_int_equal(mkdir(ROOT, 0700), 0);
  setenv("XDG_CACHE_HOME", ROOT "/xdg", 1);
  setenv("HOME", ROOT, 1);
  check_folder(KERNELS);
  setenv("COMPUTE_CACHE_DIR", "relative", 1);
  check_folder(ROOT "/xdg/compute/kernels");
  unsetenv("COMPUTE_CACHE_DIR");
  check_folder(ROOT "/xdg/compute/kernels");
  setenv("XDG_CACHE_HOME", "./xdg", 1);
  check_folder(ROOT "/.cache/compute/kernels");
  disk_cache *cache = create();
  store(cache, "key", "payload", 7);
  disk_cache_release(cache);
  static const char *const made[] = {ROOT "/.cache", ROOT "/.cache/compute",
                                     ROOT "/.cache/compute/kernels"};
  for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
    struct stat status;
    assert_int_equal(stat(made[i], &status), 0);
    assert_int_equal(status.st_mode & 07777, 0700);
  }
  setenv("HOME", ROOT "/nobody", 1); /* a missing home is not created */
  check_off();
  assert_false(exists(ROOT "/nobody"));
  unsetenv("HOME");
  check_off();
  unsetenv("XDG_CACHE_HOME");
}

static void a_folder_deleted_meanwhile_is_made_again(void **state) {
  (void)state;
  disk_cache *cache = create();
  store(cache, "key", "payload", 7);
  wipe();
  assert_false(finds(cache, "key", "", 0));
  store(cache, "key", "payload", 7);
  assert_true(finds(cache, "key", "payload", 7));
  disk_cache_release(cache);
}

/* ---- Host memory --------------------------------------------------------------------------- */

static void without_host_memory_it_is_a_miss(void **state) {
  (void)state;
  failing_allocator_install();
  for (int64_t nth = 1;; nth++) {
    wipe();
    failing_allocator_arm(nth, false);
    disk_cache *cache = disk_cache_create();
    if (cache) {
      store_block(cache, "key");
      const bool found = finds_block(cache, "key");
      const int64_t failures = failing_allocator_failures();
      failing_allocator_arm(0, false);
      store_block(cache, "key");
      assert_true(finds_block(cache, "key"));
      assert_int_equal(counters(cache).damaged, 0);
      disk_cache_release(cache);
      assert_int_equal(failing_allocator_live(), 0);
      if (failures == 0) {
        assert_true(found && nth > 3);
        break;
      }
    }
    assert_int_equal(failing_allocator_live(), 0);
  }
  assert_int_equal(failing_allocator_remove(), 0);
}

static void no_cache_at_all_is_one_that_is_off(void **state) {
  (void)state;
  store(NULL, "key", "payload", 7);
  assert_false(finds(NULL, "key", "", 0));
  assert_string_equal(disk_cache_folder(NULL), "");
  assert_int_equal(counters(NULL).misses, 0);
  disk_cache_release(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      CACHE_TEST(what_is_stored_is_found_again_later),
      CACHE_TEST(every_part_of_the_key_counts),
      CACHE_TEST(a_boundary_between_parts_counts),
      CACHE_TEST(without_a_usable_folder_it_is_off),
      CACHE_TEST(a_folder_that_others_may_write_is_not_used),
      CACHE_TEST(a_read_only_folder_still_serves_what_it_has),
      CACHE_TEST(the_folder_is_the_first_absolute_path_of_three),
      CACHE_TEST(a_folder_deleted_meanwhile_is_made_again),
      CACHE_TEST(without_host_memory_it_is_a_miss),
      CACHE_TEST(no_cache_at_all_is_one_that_is_off),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
