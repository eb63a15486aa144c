/* Scratch memory of launches: a list of idle blocks, so that a step that needs a buffer at every
 * run does not ask the system for fresh pages at every run.
 *
 * A block is handed to one launch at a time. The smallest idle block that is large enough wins; at
 * most a few blocks stay idle, and the smallest goes first, so that a long-lived process converges
 * to as many blocks as launches run at once. */
#include "device.h"

#include <pthread.h>

enum { HEAD_BYTES = 64, IDLE_LIMIT = 8 };

typedef struct block {
  struct block *next;
  uint64_t bytes;
} block;

_Static_assert(sizeof(block) <= HEAD_BYTES, "a block's head must leave its memory aligned");

struct cpu_workspaces {
  pthread_mutex_t mutex;
  block *idle; /* by size, smallest first */
  int count;
};

struct cpu_workspaces *cpu_workspaces_create(cpu_device *device) {
  struct cpu_workspaces *spaces = cpu_allocate(device, sizeof *spaces);
  if (!spaces) return NULL;
  if (pthread_mutex_init(&spaces->mutex, NULL)) {
    cpu_release(device, spaces);
    return NULL;
  }
  return spaces;
}

void cpu_workspaces_release(cpu_device *device, struct cpu_workspaces *spaces) {
  if (!spaces) return;
  while (spaces->idle) {
    block *b = spaces->idle;
    spaces->idle = b->next;
    cpu_release(device, b);
  }
  pthread_mutex_destroy(&spaces->mutex);
  cpu_release(device, spaces);
}

void *cpu_workspace_acquire(cpu_device *device, uint64_t bytes) {
  if (bytes > UINT64_MAX / 4) return NULL;
  struct cpu_workspaces *spaces = device->workspaces;
  pthread_mutex_lock(&spaces->mutex);
  block **link = &spaces->idle;
  while (*link && (*link)->bytes < bytes) link = &(*link)->next;
  block *b = *link;
  if (b) {
    *link = b->next;
    spaces->count--;
  }
  pthread_mutex_unlock(&spaces->mutex);
  if (!b) {
    b = cpu_allocate(device, bytes + HEAD_BYTES);
    if (!b) return NULL;
    b->bytes = bytes;
  }
  return (unsigned char *)b + HEAD_BYTES;
}

void cpu_workspace_return(cpu_device *device, void *workspace) {
  if (!workspace) return;
  struct cpu_workspaces *spaces = device->workspaces;
  block *b = (void *)((unsigned char *)workspace - HEAD_BYTES);
  block *surplus = NULL;
  pthread_mutex_lock(&spaces->mutex);
  block **link = &spaces->idle;
  while (*link && (*link)->bytes < b->bytes) link = &(*link)->next;
  b->next = *link;
  *link = b;
  if (++spaces->count > IDLE_LIMIT) {
    surplus = spaces->idle;
    spaces->idle = surplus->next;
    spaces->count--;
  }
  pthread_mutex_unlock(&spaces->mutex);
  cpu_release(device, surplus);
}
