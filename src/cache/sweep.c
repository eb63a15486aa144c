/* An entry's time of last use is its modification time: reading an entry sets it, because access
 * times are switched off on many systems. */
#include "cache/sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cache/entry.h"

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
  /* From a time when the clock was wrong; left alone it would outlive all the others. */
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
  /* A descriptor of its own: reading a folder moves the descriptor's position. */
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
