/* SPDX-License-Identifier: MIT */
/* Shared helpers of the disk cache tests: a separate folder that starts empty, and entries with a
 * text as their key. */
#ifndef CACHE_FIXTURE_H
#define CACHE_FIXTURE_H

#include "support/harness/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "codegen/cache/disk_cache.h"
#include "codegen/cache/entry.h"
#include "core/base/alloc.h"

#define ROOT    TEST_SCRATCH_DIR "/root"
#define KERNELS ROOT "/kernels"

enum { BLOCK = 4096, NAME_BYTES = 512 };

/* ---- The folder ---------------------------------------------------------------------------- */

static inline int remove_one(const char *path, const struct stat *status, int kind,
                             struct FTW *where) {
  (void)status;
  (void)kind;
  (void)where;
  return remove(path);
}

static inline void wipe(void) {
  nftw(ROOT, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline int fresh(void **state) {
  (void)state;
  wipe();
  setenv("COMPUTE_CACHE_DIR", ROOT, 1);
  unsetenv("COMPUTE_CACHE_LIMIT");
  return 0;
}

static inline void limit_to(uint64_t bytes) {
  char text[32];
  snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
  setenv("COMPUTE_CACHE_LIMIT", text, 1);
}

/* Counts the files in the cache's folder with this prefix. */
static inline size_t files_named(const char *prefix) {
  DIR *stream = opendir(KERNELS);
  size_t count = 0;
  if (!stream) return 0;
  for (const struct dirent *e; (e = readdir(stream)) != NULL;)
    count += e->d_name[0] != '.' && strncmp(e->d_name, prefix, strlen(prefix)) == 0;
  closedir(stream);
  return count;
}

static inline void write_bytes(const char *path, const void *data, size_t bytes) {
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  assert_true(file >= 0);
  assert_int_equal(write(file, data, bytes), bytes);
  close(file);
}

static inline void set_age(const char *path, int seconds) {
  const time_t now = time(NULL);
  const struct timespec times[2] = {{now - seconds, 0}, {now - seconds, 0}};
  assert_int_equal(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

static inline bool exists(const char *path) {
  struct stat status;
  return lstat(path, &status) == 0;
}

static inline uint64_t folder_cost(void) {
  DIR *stream = opendir(KERNELS);
  uint64_t cost = 0;
  for (const struct dirent *e; stream && (e = readdir(stream)) != NULL;) {
    char path[NAME_BYTES];
    struct stat status;
    snprintf(path, sizeof path, KERNELS "/%s", e->d_name);
    if (e->d_name[0] != '.' && stat(path, &status) == 0)
      cost += (uint64_t)(status.st_size + BLOCK - 1) / BLOCK * BLOCK;
  }
  if (stream) closedir(stream);
  return cost;
}

/* ---- Entries by a text as their key -------------------------------------------------------- */

static inline compute_cache_part part_of(const char *text) {
  return (compute_cache_part){text, strlen(text)};
}

static inline void store(disk_cache *cache, const char *key, const void *data, size_t bytes) {
  const compute_cache_part part = part_of(key);
  disk_cache_store(cache, &part, 1, data, bytes);
}

static inline void store_block(disk_cache *cache, const char *key) {
  store(cache, key, key, strlen(key));
}

static inline void *load(disk_cache *cache, const char *key, size_t *bytes) {
  const compute_cache_part part = part_of(key);
  return disk_cache_load(cache, &part, 1, bytes);
}

/* Returns true if the cache has the key with exactly these bytes. */
static inline bool finds(disk_cache *cache, const char *key, const void *data, size_t bytes) {
  size_t got = 77;
  void *found = load(cache, key, &got);
  if (!found) assert_int_equal(got, 0);
  const bool same = found && got == bytes && memcmp(found, data, bytes) == 0;
  if (found && !same) fail_msg("%s: %zu wrong bytes", key, got);
  base_release(found);
  return same;
}

static inline bool finds_block(disk_cache *cache, const char *key) {
  return finds(cache, key, key, strlen(key));
}

static inline const char *path_of(const char *key, char path[NAME_BYTES]) {
  const compute_cache_part part = part_of(key);
  entry_key made;
  entry_key_make(&made, &part, 1);
  snprintf(path, NAME_BYTES, KERNELS "/%s", made.name);
  return path;
}

static inline disk_cache_statistics counters(disk_cache *cache) {
  disk_cache_statistics statistics;
  disk_cache_query(cache, &statistics);
  return statistics;
}

static inline disk_cache *create(void) {
  disk_cache *cache = disk_cache_create();
  assert_non_null(cache);
  return cache;
}

/* ---- Processes ----------------------------------------------------------------------------- */

/* Runs `body` in a separate process, for changes that cannot be undone. A failure fails the
 * test. */
static inline void in_another_process(int (*body)(void)) {
  fflush(NULL);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) _exit(body());
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) test_skip("this process may not set that up");
  assert_int_equal(WEXITSTATUS(status), 0);
}

#define CACHE_TEST(test) cmocka_unit_test_setup_teardown(test, fresh, fresh)

#endif
