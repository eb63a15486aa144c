/* SPDX-License-Identifier: MIT */
/* Memory of the device, pinned memory of the host, and the attributes of addresses.
 *
 * Device memory ends less than 256 bytes before an inaccessible page. A pattern before it and in
 * those bytes detects writes outside. Freed memory stays mapped without access for a while, which
 * detects use after free. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver_private.h"

enum { ALIGNMENT = 256, FRONT_BYTES = 4096, KEPT = 64, NEW_PATTERN = 0xff };
#define FILLED_BYTES ((size_t)1 << 20) /* beginning of new memory */

static _Atomic int64_t used[MOST_DEVICES];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
  void *pages;
  size_t bytes;
} kept[KEPT]; /* freed and inaccessible */
static size_t next_kept;

static unsigned char pattern(size_t i) {
  return (unsigned char)(0xa5 + 7 * i);
}

/* ---- Device memory ------------------------------------------------------------------------- */

static cuda_result allocate(cuda_pointer *pointer, size_t bytes) {
  const int device = current_device();
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t room = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  const size_t inner = (room + FRONT_BYTES + page - 1) / page * page;
  if (bytes == 0) return CUDA_INVALID_VALUE;
  if (bytes > (size_t)stand_in_machine.memory) return CUDA_OUT_OF_MEMORY;
  if (atomic_fetch_add(&used[device], (int64_t)bytes) + (int64_t)bytes > stand_in_machine.memory) {
    atomic_fetch_sub(&used[device], (int64_t)bytes);
    return CUDA_OUT_OF_MEMORY;
  }
  unsigned char *pages =
      mmap(NULL, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return CUDA_OUT_OF_MEMORY;
  if (mprotect(pages + page, inner, PROT_READ | PROT_WRITE)) {
    munmap(pages, inner + 2 * page);
    return CUDA_OUT_OF_MEMORY;
  }
  memory *m = object_create(OBJECT_MEMORY, sizeof *m);
  if (!m) return CUDA_OUT_OF_MEMORY;
  m->pages = pages;
  m->page_bytes = inner + 2 * page;
  m->bytes = bytes;
  m->room = room;
  m->data = pages + page + inner - room;
  for (unsigned char *p = m->data - FRONT_BYTES; p < m->data; p++) *p = pattern((uintptr_t)p);
  memset(m->data, NEW_PATTERN, bytes < FILLED_BYTES ? bytes : FILLED_BYTES);
  for (unsigned char *p = m->data + bytes; p < m->data + room; p++) *p = pattern((uintptr_t)p);
  object_add(&m->header);
  *pointer = (cuda_pointer)(uintptr_t)m->data;
  return CUDA_OK;
}

static void check_guards(const memory *m) {
  for (const unsigned char *p = m->data - FRONT_BYTES; p < m->data; p++) {
    if (*p == pattern((uintptr_t)p)) continue;
    stand_in_misused("a write %zu bytes before a memory of %zu", (size_t)(m->data - p), m->bytes);
    return;
  }
  for (const unsigned char *p = m->data + m->bytes; p < m->data + m->room; p++) {
    if (*p == pattern((uintptr_t)p)) continue;
    stand_in_misused("a write %zu bytes behind a memory of %zu", (size_t)(p - m->data) - m->bytes,
                     m->bytes);
    return;
  }
}

/* Makes the pages inaccessible; they are unmapped after KEPT others. */
static void keep_untouchable(void *pages, size_t bytes) {
  mprotect(pages, bytes, PROT_NONE);
  madvise(pages, bytes, MADV_DONTNEED);
  pthread_mutex_lock(&mutex);
  const size_t i = next_kept++ % KEPT;
  if (kept[i].pages) munmap(kept[i].pages, kept[i].bytes);
  kept[i].pages = pages;
  kept[i].bytes = bytes;
  pthread_mutex_unlock(&mutex);
}

void memory_destroy(memory *m) {
  const int device = m->header.device;
  object_remove(&m->header);
  if (m->pages) {
    check_guards(m);
    atomic_fetch_sub(&used[device], (int64_t)m->bytes);
    keep_untouchable(m->pages, m->page_bytes);
  } else {
    memset(m->data, 0xdd, m->bytes);
    free(m->data);
  }
  free(m);
}

void registered_destroy(memory *m) {
  object_remove(&m->header);
  free(m);
}

static bool holds(const object *o, const void *address) {
  const memory *m = (const memory *)(const void *)o;
  const unsigned char *p = address;
  return !m->freed && p >= m->data && p < m->data + m->bytes;
}

memory *memory_at(const void *address) {
  static const int kinds[] = {OBJECT_MEMORY, OBJECT_HOST_MEMORY, OBJECT_REGISTERED};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    object *o = object_find(kinds[i], -1, holds, address);
    if (o) return (memory *)(void *)o;
  }
  return NULL;
}

bool memory_is_on_device(const void *address, size_t bytes) {
  const memory *m = memory_at(address);
  return m && (const unsigned char *)address + bytes <= m->data + m->bytes;
}

/* The memory of a kind that starts at the address. */
static memory *starting(int kind, const void *address) {
  memory *m = memory_at(address);
  return m && m->data == address && m->header.kind == kind ? m : NULL;
}

EXPORT cuda_result cuMemGetInfo(size_t *available, size_t *total) {
  ENTER(cuMemGetInfo);
  *total = (size_t)stand_in_machine.memory;
  *available = (size_t)(stand_in_machine.memory - atomic_load(&used[current_device()]));
  return CUDA_OK;
}

EXPORT cuda_result cuMemAlloc(cuda_pointer *pointer, size_t bytes) {
  ENTER(cuMemAlloc);
  return allocate(pointer, bytes);
}

EXPORT cuda_result cuMemFree(cuda_pointer pointer) {
  const cuda_result code = stand_in_enter(CALL_cuMemFree);
  memory *m = starting(OBJECT_MEMORY, (void *)(uintptr_t)pointer);
  if (!m) return CUDA_INVALID_VALUE;
  streams_drain(m->header.device);
  memory_destroy(m);
  return code;
}

/* ---- Pools --------------------------------------------------------------------------------- */

typedef struct pool {
  object header;
} pool;

EXPORT cuda_result cuMemPoolCreate(cuda_memory_pool *result,
                                   const cuda_memory_pool_properties *properties) {
  ENTER(cuMemPoolCreate);
  if (stand_in_machine.no_pools) return CUDA_NOT_SUPPORTED;
  if (properties->allocation_type != CUDA_ALLOCATION_PINNED ||
      properties->location.type != CUDA_LOCATION_DEVICE)
    return CUDA_INVALID_VALUE;
  pool *made = object_create(OBJECT_POOL, sizeof *made);
  if (!made) return CUDA_OUT_OF_MEMORY;
  object_add(&made->header);
  *result = (cuda_memory_pool)(void *)made;
  return CUDA_OK;
}

EXPORT cuda_result cuMemPoolDestroy(cuda_memory_pool destroyed) {
  const cuda_result code = stand_in_enter(CALL_cuMemPoolDestroy);
  if (!object_is(destroyed, OBJECT_POOL)) return INVALID_HANDLE;
  object_remove((object *)(void *)destroyed);
  free(destroyed);
  return code;
}

EXPORT cuda_result cuMemPoolSetAttribute(cuda_memory_pool set, int32_t attribute, void *value) {
  ENTER(cuMemPoolSetAttribute);
  if (!object_is(set, OBJECT_POOL)) return INVALID_HANDLE;
  return attribute == CUDA_POOL_RELEASE_THRESHOLD && value ? CUDA_OK : CUDA_INVALID_VALUE;
}

EXPORT cuda_result cuMemPoolSetAccess(cuda_memory_pool of, const cuda_memory_access *access,
                                      size_t count) {
  ENTER(cuMemPoolSetAccess);
  if (!object_is(of, OBJECT_POOL)) return INVALID_HANDLE;
  for (size_t i = 0; i < count; i++)
    if (access[i].location.type != CUDA_LOCATION_DEVICE || access[i].location.id < 0 ||
        access[i].location.id >= stand_in_machine.device_count)
      return CUDA_INVALID_VALUE;
  return stand_in_machine.no_peers ? CUDA_NOT_SUPPORTED : CUDA_OK;
}

EXPORT cuda_result cuMemPoolTrimTo(cuda_memory_pool trimmed, size_t keep) {
  ENTER(cuMemPoolTrimTo);
  (void)keep;
  return object_is(trimmed, OBJECT_POOL) ? CUDA_OK : INVALID_HANDLE;
}

EXPORT cuda_result cuMemAllocFromPoolAsync(cuda_pointer *pointer, size_t bytes,
                                           cuda_memory_pool from, cuda_stream on) {
  ENTER(cuMemAllocFromPoolAsync);
  if (!object_is(from, OBJECT_POOL) || !stream_of(on)) return INVALID_HANDLE;
  return allocate(pointer, bytes);
}

typedef struct free_operation {
  operation base;
  memory *freed;
} free_operation;

static void run_free(operation *self, int device) {
  (void)device;
  memory_destroy(((free_operation *)self)->freed);
}

EXPORT cuda_result cuMemFreeAsync(cuda_pointer pointer, cuda_stream on) {
  const cuda_result code = stand_in_enter(CALL_cuMemFreeAsync);
  memory *m = starting(OBJECT_MEMORY, (void *)(uintptr_t)pointer);
  free_operation *o = operation_create(sizeof *o, run_free);
  if (!m || !o) {
    free(o);
    return m ? CUDA_OUT_OF_MEMORY : CUDA_INVALID_VALUE;
  }
  o->base.always = true;
  o->freed = m;
  m->freed = true;
  const cuda_result submitted = stream_submit(on, o);
  return code != CUDA_OK ? code : submitted;
}

/* ---- Memory of the host -------------------------------------------------------------------- */

EXPORT cuda_result cuMemHostAlloc(void **pointer, size_t bytes, uint32_t flags) {
  ENTER(cuMemHostAlloc);
  (void)flags;
  memory *m = object_create(OBJECT_HOST_MEMORY, sizeof *m);
  if (!m) return CUDA_OUT_OF_MEMORY;
  m->bytes = bytes;
  if (posix_memalign((void **)&m->data, 4096, bytes)) {
    free(m);
    return CUDA_OUT_OF_MEMORY;
  }
  memset(m->data, NEW_PATTERN, bytes);
  object_add(&m->header);
  *pointer = m->data;
  return CUDA_OK;
}

/* Like the driver: copies in progress complete first. */
static void drain_devices(void) {
  for (int i = 0; i < stand_in_machine.device_count; i++) streams_drain(i);
}

EXPORT cuda_result cuMemFreeHost(void *pointer) {
  const cuda_result code = stand_in_enter(CALL_cuMemFreeHost);
  memory *m = starting(OBJECT_HOST_MEMORY, pointer);
  if (!m) return CUDA_INVALID_VALUE;
  drain_devices();
  memory_destroy(m);
  return code;
}

EXPORT cuda_result cuMemHostRegister(void *pointer, size_t bytes, uint32_t flags) {
  ENTER(cuMemHostRegister);
  (void)flags;
  if (stand_in_machine.no_register) return CUDA_NOT_SUPPORTED;
  if (!pointer || bytes == 0) return CUDA_INVALID_VALUE;
  if (memory_at(pointer)) return CUDA_HOST_MEMORY_ALREADY_REGISTERED;
  memory *m = object_create(OBJECT_REGISTERED, sizeof *m);
  if (!m) return CUDA_OUT_OF_MEMORY;
  m->bytes = bytes;
  m->data = pointer;
  object_add(&m->header);
  return CUDA_OK;
}

EXPORT cuda_result cuMemHostUnregister(void *pointer) {
  const cuda_result code = stand_in_enter(CALL_cuMemHostUnregister);
  memory *m = starting(OBJECT_REGISTERED, pointer);
  if (!m) return 713;
  drain_devices();
  registered_destroy(m);
  return code;
}

EXPORT cuda_result cuMemHostGetDevicePointer(cuda_pointer *device, void *host, uint32_t flags) {
  ENTER(cuMemHostGetDevicePointer);
  const memory *m = memory_at(host);
  if (flags || !m || m->header.kind == OBJECT_MEMORY) return CUDA_INVALID_VALUE;
  *device = (cuda_pointer)(uintptr_t)host;
  return CUDA_OK;
}

/* For an address unknown to the driver, every attribute is 0. */
static cuda_result attribute_of(const memory *m, int32_t attribute, cuda_pointer pointer,
                                void *value) {
  const bool on_device = m && m->header.kind == OBJECT_MEMORY;
  const uint32_t type = !m ? 0 : on_device ? CUDA_MEMORY_TYPE_DEVICE : CUDA_MEMORY_TYPE_HOST;
  const bool mapped = on_device || (m && !stand_in_machine.no_map);
  const cuda_pointer known = mapped ? pointer : 0, host = on_device || !m ? 0 : pointer;
  const int32_t ordinal = m ? m->header.device : 0;
  switch (attribute) {
  case CUDA_POINTER_MEMORY_TYPE: memcpy(value, &type, sizeof type); return CUDA_OK;
  case CUDA_POINTER_DEVICE_POINTER: memcpy(value, &known, sizeof known); return CUDA_OK;
  case CUDA_POINTER_DEVICE_ORDINAL: memcpy(value, &ordinal, sizeof ordinal); return CUDA_OK;
  case CUDA_POINTER_HOST_POINTER: memcpy(value, &host, sizeof host); return CUDA_OK;
  default: return CUDA_INVALID_VALUE;
  }
}

EXPORT cuda_result cuPointerGetAttributes(uint32_t count, int32_t *attributes, void **values,
                                          cuda_pointer pointer) {
  ENTER(cuPointerGetAttributes);
  const memory *m = memory_at((void *)(uintptr_t)pointer);
  cuda_result code = CUDA_OK;
  for (uint32_t i = 0; i < count && code == CUDA_OK; i++)
    code = attribute_of(m, attributes[i], pointer, values[i]);
  return code;
}
