/* SPDX-License-Identifier: MIT */
/* Damaged or foreign entries of the disk cache: whatever their bytes are, each one is a miss and is
 * removed. */
#include "cache/cache_fixture.h"

/* ---- Damage -------------------------------------------------------------------------------- */

/* Replaces the entry by these bytes: they are refused, counted and removed, and the entry can be
 * stored again. */
static void check_damage(disk_cache *cache, const char *key, const void *file, size_t bytes) {
  char path[NAME_BYTES];
  write_bytes(path_of(key, path), file, bytes);
  const disk_cache_statistics before = counters(cache);
  size_t got;
  assert_null(load(cache, key, &got));
  assert_false(exists(path));
  const disk_cache_statistics after = counters(cache);
  assert_int_equal(after.damaged, before.damaged + 1);
  assert_int_equal(after.misses, before.misses + 1);
  assert_int_equal(after.hits, before.hits);
}

/* The file of a small entry. */
static size_t entry_bytes(const char *key, const char *data, unsigned char *file) {
  const compute_cache_part part = part_of(key);
  entry_key made;
  entry_key_make(&made, &part, 1);
  entry_header_make(file, &made, data, strlen(data));
  memcpy(file + ENTRY_HEADER_BYTES, data, strlen(data));
  return ENTRY_HEADER_BYTES + strlen(data);
}

static void a_file_cut_anywhere_is_a_miss(void **state) {
  (void)state;
  unsigned char file[256] = {0};
  disk_cache *cache = create();
  store(cache, "key", "payload", 7);
  const size_t whole = entry_bytes("key", "payload", file);
  for (size_t length = 0; length < whole; length++) check_damage(cache, "key", file, length);
  check_damage(cache, "key", file, whole + 1);
  store(cache, "key", "payload", 7);
  assert_true(finds(cache, "key", "payload", 7));
  disk_cache_release(cache);
}

static void a_flipped_bit_anywhere_is_a_miss(void **state) {
  (void)state;
  unsigned char file[256];
  disk_cache *cache = create();
  store(cache, "key", "payload", 7);
  const size_t whole = entry_bytes("key", "payload", file);
  for (size_t bit = 0; bit < 8 * whole; bit++) {
    file[bit / 8] ^= (unsigned char)(1U << bit % 8);
    check_damage(cache, "key", file, whole);
    file[bit / 8] ^= (unsigned char)(1U << bit % 8);
  }
  char path[NAME_BYTES];
  write_bytes(path_of("key", path), file, whole); /* the test's own entry is valid */
  assert_true(finds(cache, "key", "payload", 7));
  disk_cache_release(cache);
}

/* Random bytes with some valid fields, so that all checks are reached. */
static void any_bytes_are_survived(void **state) {
  (void)state;
  static const struct {
    size_t at, bytes;
  } fields[] = {{0, 8}, {8, 4}, {12, 4}, {16, 8}, {24, 32}, {56, 32}};
  unsigned char good[256], file[256];
  disk_cache *cache = create();
  store(cache, "key", "payload", 7);
  const size_t whole = entry_bytes("key", "payload", good);
  srand(1);
  for (int round = 0; round < 3000; round++) {
    const size_t length = round % 3 ? whole : (size_t)rand() % sizeof file;
    for (size_t i = 0; i < sizeof file; i++) file[i] = (unsigned char)(rand() >> 8);
    const int kept = rand();
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
      if (kept >> f & 1) memcpy(file + fields[f].at, good + fields[f].at, fields[f].bytes);
    if (length == whole && memcmp(file, good, whole) == 0) continue;
    check_damage(cache, "key", file, length);
  }
  disk_cache_release(cache);
}

static void an_entry_under_another_name_is_refused(void **state) {
  (void)state;
  char path[NAME_BYTES], other[NAME_BYTES];
  disk_cache *cache = create();
  store(cache, "key", "payload", 7);
  assert_int_equal(rename(path_of("key", path), path_of("other", other)), 0);
  assert_false(finds(cache, "other", "", 0));
  assert_false(exists(other));
  assert_int_equal(counters(cache).damaged, 1);
  disk_cache_release(cache);
}

static void a_false_length_allocates_nothing(void **state) {
  (void)state;
  unsigned char file[256];
  limit_to(1 << 20);
  disk_cache *cache = create();
  store(cache, "key", "payload", 7);
  entry_bytes("key", "payload", file);
  file[16 + 4] = 16; /* slightly over 64 GiB, and a sparse file of this size */
  char path[NAME_BYTES];
  write_bytes(path_of("key", path), file, ENTRY_HEADER_BYTES);
  if (truncate(path, ((off_t)16 << 32) + 7 + ENTRY_HEADER_BYTES) == 0) {
    size_t bytes;
    assert_null(load(cache, "key", &bytes));
    assert_int_equal(counters(cache).damaged, 1);
    assert_false(exists(path));
  }
  disk_cache_release(cache);
}

/* ---- Foreign files ------------------------------------------------------------------------- */

static void a_link_is_refused_and_its_target_left_alone(void **state) {
  (void)state;
  char path[NAME_BYTES];
  disk_cache *cache = create();
  store(cache, "key", "payload", 7);
  assert_int_equal(rename(path_of("key", path), ROOT "/elsewhere"), 0);
  assert_int_equal(symlink(ROOT "/elsewhere", path), 0);
  assert_false(finds(cache, "key", "", 0));
  assert_false(exists(path));
  assert_true(exists(ROOT "/elsewhere"));
  assert_int_equal(counters(cache).damaged, 1);
  /* A store replaces a symbolic link and does not write through it. */
  assert_int_equal(symlink(ROOT "/elsewhere", path), 0);
  assert_int_equal(truncate(ROOT "/elsewhere", 3), 0);
  store(cache, "key", "payload", 7);
  assert_true(finds(cache, "key", "payload", 7));
  struct stat status;
  assert_int_equal(stat(ROOT "/elsewhere", &status), 0);
  assert_int_equal(status.st_size, 3);
  disk_cache_release(cache);
}

static void what_is_no_file_is_refused_without_waiting(void **state) {
  (void)state;
  char path[NAME_BYTES];
  disk_cache *cache = create();
  store(cache, "first", "x", 1);
  assert_int_equal(mkfifo(path_of("pipe", path), 0600), 0);
  assert_false(finds(cache, "pipe", "", 0));
  assert_false(exists(path));
  assert_int_equal(mkdir(path_of("folder", path), 0700), 0);
  assert_false(finds(cache, "folder", "", 0));
  store(cache, "folder", "payload", 7); /* cannot replace it, without an error */
  assert_false(finds(cache, "folder", "", 0));
  assert_int_equal(files_named("new-"), 0);
  assert_int_equal(counters(cache).damaged, 3);
  disk_cache_release(cache);
}

static void a_file_that_others_could_have_written_is_refused(void **state) {
  (void)state;
  static const mode_t modes[] = {0620, 0602, 0666, 0777};
  char path[NAME_BYTES];
  disk_cache *cache = create();
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    store(cache, "key", "payload", 7);
    struct stat status;
    assert_int_equal(stat(path_of("key", path), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(chmod(path, modes[i]), 0);
    assert_false(finds(cache, "key", "", 0));
    assert_false(exists(path));
  }
  if (geteuid() == 0) {
    store(cache, "key", "payload", 7);
    assert_int_equal(chown(path, 65534, 65534), 0);
    assert_false(finds(cache, "key", "", 0));
    assert_int_equal(counters(cache).damaged, 5);
  }
  disk_cache_release(cache);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      CACHE_TEST(a_file_cut_anywhere_is_a_miss),
      CACHE_TEST(a_flipped_bit_anywhere_is_a_miss),
      CACHE_TEST(any_bytes_are_survived),
      CACHE_TEST(an_entry_under_another_name_is_refused),
      CACHE_TEST(a_false_length_allocates_nothing),
      CACHE_TEST(a_link_is_refused_and_its_target_left_alone),
      CACHE_TEST(what_is_no_file_is_refused_without_waiting),
      CACHE_TEST(a_file_that_others_could_have_written_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
