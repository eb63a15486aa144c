/* SPDX-License-Identifier: MIT */
/* One file for each entry, named by its key. A file is renamed into place when it is complete, and
 * each read checks it in full. So processes need no lock, and a crash leaves at most a temporary
 * file. Each call opens the folder again, because the folder may be deleted while the program runs.
 *
 * Devices execute the contents. Therefore only files are read that belong to this user and that no
 * other user can write. */
#include "codegen/cache/disk_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "codegen/cache/entry.h"
#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/variable.h"

#define DEFAULT_LIMIT ((int64_t)256 << 20)
#define SWEEP_PART                                                                                 \
  16 /* share of the limit: after it has stored this much, a process lists the folder again */

struct disk_cache {
  char *folder; /* NULL: none */
  uint64_t limit;
  atomic_bool off, complained;
  atomic_uint_fast64_t hits, misses, stores, damaged, evictions;
  pthread_mutex_t room_mutex; /* guards `room` */
  uint64_t room;              /* bytes to store before the folder is listed again */
};

/* ---- Life ---------------------------------------------------------------------------------- */

/* Logs at most one line per cache for all failures together. */
static void complain(disk_cache *cache, const char *what, const char *why) {
  if (atomic_exchange(&cache->complained, true)) return;
  log_write(COMPUTE_LOG_INFO, "core", "disk cache%s%s: %s: %s", cache->folder ? " " : "",
            cache->folder ? cache->folder : "", what, why);
}

static void switch_off(disk_cache *cache, const char *why) {
  atomic_store(&cache->off, true);
  complain(cache, "off", why);
}

disk_cache *disk_cache_create(void) {
  disk_cache *cache = base_allocate(1, sizeof *cache);
  if (!cache) return NULL;
  pthread_mutex_init(&cache->room_mutex, NULL);
  cache->limit = (uint64_t)variable_integer("COMPUTE_CACHE_LIMIT", 0, INT64_MAX, DEFAULT_LIMIT);
  if (cache->limit == 0) {
    switch_off(cache, "COMPUTE_CACHE_LIMIT is 0");
    return cache;
  }
  const char *reason;
  cache->folder = cache_folder_path("kernels", &reason);
  if (!cache->folder && *reason == '\0') {
    disk_cache_release(cache);
    return NULL;
  }
  if (!cache->folder) switch_off(cache, reason);
  return cache;
}

void disk_cache_release(disk_cache *cache) {
  if (!cache) return;
  pthread_mutex_destroy(&cache->room_mutex);
  base_release(cache->folder);
  base_release(cache);
}

static void release(void *content) {
  disk_cache_release(content);
}

room_slot disk_cache_slot = {.stage = SLOT_STANDS_ALONE, .release = release};

const char *disk_cache_folder(const disk_cache *cache) {
  return cache && cache->folder && !atomic_load(&cache->off) ? cache->folder : "";
}

void disk_cache_query(disk_cache *cache, disk_cache_statistics *statistics) {
  *statistics = (disk_cache_statistics){0};
  if (!cache) return;
  statistics->hits = atomic_load(&cache->hits);
  statistics->misses = atomic_load(&cache->misses);
  statistics->stores = atomic_load(&cache->stores);
  statistics->damaged = atomic_load(&cache->damaged);
  statistics->evictions = atomic_load(&cache->evictions);
}

/* ---- Folder -------------------------------------------------------------------------------- */

static bool is_ours_alone(const struct stat *status) {
  return status->st_uid == geteuid() && !(status->st_mode & (S_IWGRP | S_IWOTH));
}

/* The folder's descriptor, or -1. A permanent problem switches the cache off. */
static int folder_open(disk_cache *cache, bool make) {
  static const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  if (atomic_load(&cache->off)) return -1;
  int folder = open(cache->folder, flags);
  int problem = folder < 0 ? errno : 0;
  if (problem == ENOENT && !make) return -1; /* nothing has been stored yet */
  if (problem == ENOENT) {
    problem = cache_folder_make(cache->folder);
    if (problem == 0) folder = open(cache->folder, flags);
    if (problem == 0 && folder < 0) problem = errno;
  }
  struct stat status;
  if (problem == EMFILE || problem == ENFILE || problem == ENOMEM) return -1;
  if (problem != 0) {
    switch_off(cache, strerror(problem));
  } else if (fstat(folder, &status) != 0 || !is_ours_alone(&status)) {
    switch_off(cache, "its folder belongs to another user, or others can write to it");
  } else {
    return folder;
  }
  if (folder >= 0) close(folder);
  return -1;
}

/* ---- Loading ------------------------------------------------------------------------------- */

typedef enum entry_state { ENTRY_GOOD, ENTRY_ABSENT, ENTRY_DAMAGED } entry_state;

static entry_state state_of(int problem) {
  return problem == FILE_ENDED ? ENTRY_DAMAGED : problem ? ENTRY_ABSENT : ENTRY_GOOD;
}

static entry_state entry_read(const disk_cache *cache, int file, const entry_key *key, void **data,
                              size_t *bytes) {
  uint8_t header[ENTRY_HEADER_BYTES];
  uint64_t length;
  struct stat status;
  if (fstat(file, &status) != 0) return ENTRY_ABSENT;
  if (!S_ISREG(status.st_mode) || !is_ours_alone(&status)) return ENTRY_DAMAGED;
  entry_state state = state_of(file_read(file, header, sizeof header));
  if (state != ENTRY_GOOD) return state;
  /* The limit prevents a huge allocation if the length is wrong. */
  if (!entry_header_check(header, key, (uint64_t)status.st_size, &length) ||
      length > cache->limit || length > SIZE_MAX)
    return ENTRY_DAMAGED;
  void *payload = base_allocate((uint64_t)length, 1);
  if (!payload) return ENTRY_ABSENT;
  state = state_of(file_read(file, payload, (size_t)length));
  if (state == ENTRY_GOOD && !entry_payload_check(header, payload, (size_t)length))
    state = ENTRY_DAMAGED;
  if (state == ENTRY_GOOD) {
    futimens(file, NULL); /* marks it as used for sweep_folder */
    *data = payload;
    *bytes = (size_t)length;
  } else {
    base_release(payload);
  }
  return state;
}

static entry_state entry_load(const disk_cache *cache, int folder, const entry_key *key,
                              void **data, size_t *bytes) {
  /* Without O_NONBLOCK a pipe of this name would wait for its writer. */
  int file = openat(folder, key->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file < 0) {
    bool strange = errno == ELOOP || errno == EACCES || errno == ENXIO;
    return strange ? ENTRY_DAMAGED : ENTRY_ABSENT;
  }
  entry_state state = entry_read(cache, file, key, data, bytes);
  close(file);
  return state;
}

void *disk_cache_load(disk_cache *cache, const compute_cache_part *parts, uint32_t count,
                      size_t *bytes) {
  void *data = NULL;
  *bytes = 0;
  if (!cache || atomic_load(&cache->off)) return NULL;
  entry_key key;
  entry_key_make(&key, parts, count);
  int folder = folder_open(cache, false);
  entry_state state = ENTRY_ABSENT;
  if (folder >= 0) {
    state = entry_load(cache, folder, &key, &data, bytes);
    if (state == ENTRY_DAMAGED) {
      unlinkat(folder, key.name, 0);
      atomic_fetch_add(&cache->damaged, 1);
      log_write(COMPUTE_LOG_INFO, "core",
                "%s/%s is damaged, or other users can write to it; replacing it", cache->folder,
                key.name);
    }
    close(folder);
  }
  atomic_fetch_add(state == ENTRY_GOOD ? &cache->hits : &cache->misses, 1);
  return data;
}

/* ---- Storing ------------------------------------------------------------------------------- */

/* Takes `cost` bytes from the room that the last listing of the folder found, or lists it again.
 * Each process can add a SWEEP_PART of the limit that the others do not see. */
static bool take_room(disk_cache *cache, int folder, uint64_t cost) {
  pthread_mutex_lock(&cache->room_mutex);
  bool swept = true;
  if (cost > cache->room) {
    uint64_t left, evictions, part = cache->limit / SWEEP_PART;
    if (part < cost) part = cost;
    swept = sweep_folder(folder, cache->limit - part, &left, &evictions);
    uint64_t free_bytes = cache->limit > left ? cache->limit - left : 0;
    cache->room = !swept ? 0 : min_u64(free_bytes, part);
    atomic_fetch_add(&cache->evictions, evictions);
  }
  bool fits = cost <= cache->room;
  if (fits) cache->room -= cost;
  pthread_mutex_unlock(&cache->room_mutex);
  if (!fits) {
    complain(cache, "not stored",
             swept ? "the folder is full, and nothing in it can be removed"
                   : "the folder cannot be listed");
  }
  return fits;
}

/* Creates a file whose name is unique among threads and processes. Returns its descriptor, or
 * -1. */
static int temporary_open(int folder, char *name, size_t name_bytes) {
  static atomic_uint counter;
  for (int attempt = 0; attempt < 16; attempt++) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now); /* a process on another machine may have the same id */
    snprintf(name, name_bytes, SWEEP_TEMPORARY "%ld-%lld%09ld-%u", (long)getpid(),
             (long long)now.tv_sec, now.tv_nsec, atomic_fetch_add(&counter, 1));
    int file = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                      S_IRUSR | S_IWUSR);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

/* Writing past this limit would send a signal that kills the program. */
static bool exceeds_file_limit(uint64_t bytes) {
  struct rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         bytes > (uint64_t)limit.rlim_cur;
}

/* Returns 0 or an errno. Nothing is synchronised to the disk: after a power failure the checksum
 * detects the damage. */
static int entry_write(int folder, const entry_key *key, const void *data, size_t bytes) {
  uint8_t header[ENTRY_HEADER_BYTES];
  char name[96];
  int file = temporary_open(folder, name, sizeof name);
  if (file < 0) return errno;
  entry_header_make(header, key, data, bytes);
  int problem = file_write(file, header, sizeof header);
  if (problem == 0) problem = file_write(file, data, bytes);
  if (close(file) != 0 && problem == 0) problem = errno;
  if (problem == 0 && renameat(folder, name, folder, key->name) != 0) problem = errno;
  if (problem != 0) unlinkat(folder, name, 0);
  return problem;
}

void disk_cache_store(disk_cache *cache, const compute_cache_part *parts, uint32_t count,
                      const void *data, size_t bytes) {
  if (!cache || atomic_load(&cache->off)) return;
  uint64_t file_bytes = (uint64_t)bytes + ENTRY_HEADER_BYTES, cost = sweep_cost(file_bytes);
  if (bytes > SIZE_MAX - ENTRY_HEADER_BYTES || cost > cache->limit ||
      exceeds_file_limit(file_bytes)) {
    complain(cache, "not stored", "larger than COMPUTE_CACHE_LIMIT or the file size limit");
    return;
  }
  int folder = folder_open(cache, true);
  if (folder < 0) return;
  if (take_room(cache, folder, cost)) {
    entry_key key;
    entry_key_make(&key, parts, count);
    int problem = entry_write(folder, &key, data, bytes);
    if (problem == 0) {
      atomic_fetch_add(&cache->stores, 1);
    } else {
      complain(cache, "not stored", strerror(problem));
    }
  }
  close(folder);
}

/* ---- Keeping the folder within its size ------------------------------------------------------ */

/* The modification time of an entry is its time of last use. Each read sets it, because many
 * systems do not record access times. */

#define STALE_SECONDS 3600

typedef struct swept_entry {
  char name[ENTRY_NAME_LENGTH + 1];
  uint64_t cost;
  struct timespec used;
} swept_entry;

typedef struct sweep_list {
  swept_entry *entries;
  size_t count, capacity;
  uint64_t cost;
} sweep_list;

static bool list_add(sweep_list *list, const char *name, const struct stat *status, time_t now) {
  void *entries = list->entries;
  int grown = base_grow(&entries, &list->capacity, list->count + 1, sizeof *list->entries);
  list->entries = entries;
  if (grown != 0) return false;
  swept_entry *entry = &list->entries[list->count++];
  memcpy(entry->name, name, sizeof entry->name);
  entry->cost = sweep_cost((uint64_t)status->st_size);
  entry->used = status->st_mtim;
  /* The clock was wrong at the store. Without this, the entry would outlive all others. */
  if (entry->used.tv_sec > now + STALE_SECONDS) entry->used = (struct timespec){0};
  list->cost += entry->cost;
  return true;
}

static bool visit(int folder, const char *name, time_t now, sweep_list *list) {
  bool unfinished = strncmp(name, SWEEP_TEMPORARY, strlen(SWEEP_TEMPORARY)) == 0;
  if (!unfinished && !entry_name_is_valid(name)) return true; /* not ours */
  struct stat status;
  if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return true; /* gone already */
  if (!S_ISREG(status.st_mode)) return true;
  if (!unfinished) return list_add(list, name, &status, now);
  time_t age = now - status.st_mtim.tv_sec;
  if (age > STALE_SECONDS || age < -STALE_SECONDS) unlinkat(folder, name, 0);
  return true;
}

static bool list_folder(int folder, sweep_list *list) {
  /* A separate descriptor, because reading a folder moves the position of the descriptor. */
  int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *stream = again >= 0 ? fdopendir(again) : NULL;
  if (!stream) {
    if (again >= 0) close(again);
    return false;
  }
  time_t now = time(NULL);
  bool complete = true;
  for (const struct dirent *entry; complete && (entry = readdir(stream)) != NULL;) {
    complete = visit(folder, entry->d_name, now, list);
  }
  closedir(stream);
  return complete;
}

static int by_use(const void *first, const void *second) {
  const swept_entry *a = first, *b = second;
  if (a->used.tv_sec != b->used.tv_sec) return a->used.tv_sec < b->used.tv_sec ? -1 : 1;
  if (a->used.tv_nsec != b->used.tv_nsec) return a->used.tv_nsec < b->used.tv_nsec ? -1 : 1;
  return strcmp(a->name, b->name);
}

bool sweep_folder(int folder, uint64_t keep, uint64_t *left, uint64_t *evictions) {
  sweep_list list = {0};
  bool complete = list_folder(folder, &list);
  *left = list.cost;
  *evictions = 0;
  if (complete && *left > keep) {
    qsort(list.entries, list.count, sizeof *list.entries, by_use);
    for (size_t i = 0; i<list.count && * left> keep; i++) {
      bool removed = unlinkat(folder, list.entries[i].name, 0) == 0;
      if (removed) (*evictions)++;
      if (removed || errno == ENOENT) *left -= list.entries[i].cost;
    }
  }
  base_release(list.entries);
  return complete;
}
