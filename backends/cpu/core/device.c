/* SPDX-License-Identifier: MIT */
/* The processor, its memory and caches, and the memory of tensors.
 *
 * Tensor memory comes from the C library, not from the services' allocator: it need not be zeroed,
 * and the core's pool keeps it for reuse. Large blocks are aligned for huge pages: with 4 KiB
 * pages, a pass over hundreds of megabytes spends its time in page faults. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cpu.h"
#include "gemm/gemm.h"
#include "core/platform/aligned.h"

enum {
  SMALL_ALIGNMENT = 64,
  HUGE_PAGE = 2 << 20,
  HUGE_FROM = 2 << 20,    /* for tensor memory */
  HUGE_SCRATCH = 1 << 20, /* for scratch memory: at least half a huge page */
};

/* ---- Shorthands for the services ----------------------------------------------------------- */

static void *allocate_aligned(cpu_device *device, uint64_t bytes, size_t alignment) {
  if (bytes > SIZE_MAX / 2) return NULL;
  return device->services->allocate(device->services->host, (size_t)bytes, alignment);
}

void *cpu_allocate(cpu_device *device, uint64_t bytes) {
  return allocate_aligned(device, bytes, SMALL_ALIGNMENT);
}

void cpu_release(cpu_device *device, void *pointer) {
  if (pointer) device->services->release(device->services->host, pointer);
}

compute_status cpu_out_of_memory(cpu_device *device, uint64_t bytes) {
  return device->services->fail(device->services->host, COMPUTE_ERROR_OUT_OF_MEMORY, 0, NULL,
                                "cpu: not enough memory for %llu bytes", (unsigned long long)bytes);
}

void cpu_parallel(const cpu_device *device, int64_t tasks, compute_task task, void *argument) {
  if (tasks == 1)
    task(argument, 0, 0);
  else if (tasks > 1)
    device->services->parallel(device->services->host, tasks, task, argument);
}

/* ---- Properties of the machine ------------------------------------------------------------- */

/* The first number in a file, times 1024 for every K after it; false if there is none. */
static bool read_number(const char *path, uint64_t *value) {
  FILE *file = fopen(path, "re");
  if (!file) return false;
  unsigned long long number;
  char unit = 0;
  const int fields = fscanf(file, "%llu%c", &number, &unit);
  fclose(file);
  if (fields < 1) return false;
  if (unit == 'K') number <<= 10;
  if (unit == 'M') number <<= 20;
  *value = number;
  return true;
}

/* glibc's extensions; elsewhere a name that sysconf rejects. */
#ifdef _SC_LEVEL3_CACHE_SIZE
enum { L2_NAME = _SC_LEVEL2_CACHE_SIZE, L3_NAME = _SC_LEVEL3_CACHE_SIZE };
#else
enum { L2_NAME = -1, L3_NAME = -1 };
#endif

/* Reads the text after "key: " in a file of such lines; false if it is missing. */
static bool read_field(const char *path, const char *key, char *text, size_t bytes) {
  FILE *file = fopen(path, "re");
  if (!file) return false;
  char line[512];
  bool found = false;
  while (!found && fgets(line, sizeof line, file)) {
    char *colon = strchr(line, ':');
    if (!colon || strncmp(line, key, strlen(key)) != 0) continue;
    char *start = colon + 1 + strspn(colon + 1, " \t");
    start[strcspn(start, "\n")] = 0;
    snprintf(text, bytes, "%s", start);
    found = true;
  }
  fclose(file);
  return found;
}

/* Reads the kernel's table first: on some machines sysconf returns far too large values. */
static uint64_t cache_bytes(int level, int fallback_name, uint64_t fallback) {
  for (int index = 0; index < 8; index++) {
    char path[96], type[16];
    uint64_t number, bytes;
    const char *folder = "/sys/devices/system/cpu/cpu0/cache/index";
    snprintf(path, sizeof path, "%s%d/level", folder, index);
    if (!read_number(path, &number)) break;
    if (number != (uint64_t)level) continue;
    snprintf(path, sizeof path, "%s%d/type", folder, index);
    FILE *file = fopen(path, "re");
    if (!file) continue;
    const bool data = fgets(type, sizeof type, file) && type[0] != 'I';
    fclose(file);
    snprintf(path, sizeof path, "%s%d/size", folder, index);
    if (data && read_number(path, &bytes) && bytes) return bytes;
  }
  const int64_t bytes = sysconf(fallback_name);
  return bytes > 0 ? (uint64_t)bytes : fallback;
}

/* Limits for the device's share of the last-level cache. A virtual machine with a few processors
 * reports the whole cache of a socket, but its neighbours use most of it. No processor so far has
 * more than this per core. */
#define L3_OF_A_CORE  ((uint64_t)16 << 20)
#define L3_OF_A_GROUP ((uint64_t)32 << 20) /* usable by one core of current servers */

static uint64_t l3_share(uint64_t reported, int32_t threads) {
  uint64_t most = (uint64_t)threads * L3_OF_A_CORE;
  if (most < L3_OF_A_GROUP) most = L3_OF_A_GROUP;
  return reported < most ? reported : most;
}

/* `true` if memory gets huge pages on request. */
static bool has_huge_pages(void) {
  char modes[64];
  FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
  if (!file) return false;
  const bool known = fgets(modes, sizeof modes, file) != NULL;
  fclose(file);
  return known && !strstr(modes, "[never]");
}

void cpu_memory_query(uint64_t *total, uint64_t *available) {
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * page;
  uint64_t unused = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * page;
  char text[64];
  /* Unlike the number of free pages, this includes caches that the kernel would drop. */
  if (read_field("/proc/meminfo", "MemAvailable", text, sizeof text))
    unused = strtoull(text, NULL, 10) << 10;
  if (unused > all) unused = all;
  if (total) *total = all;
  if (available) *available = unused;
}

/* ---- The device ---------------------------------------------------------------------------- */

/* Typical caches: kernels choose blocks by them, so results must not see the machine's. */
#define PORTABLE_L2 ((uint64_t)512 << 10)
#define PORTABLE_L3 ((uint64_t)16 << 20)

/* Shares the workspaces. Without the kernels, `portable` stays NULL. */
static compute_status open_portable(cpu_device *device) {
  const cpu_isa *isa = cpu_isa_portable();
  if (!isa) return COMPUTE_OK;
  cpu_device *twin = cpu_allocate(device, sizeof *twin);
  if (!twin) return cpu_out_of_memory(device, sizeof *twin);
  twin->services = device->services;
  twin->isa = isa;
  twin->threads = device->threads;
  twin->l2_bytes = PORTABLE_L2;
  twin->l3_bytes = twin->share_bytes = PORTABLE_L3;
  twin->memory_bytes = device->memory_bytes;
  twin->huge_pages = device->huge_pages;
  twin->workspaces = device->workspaces;
  device->portable = twin;
  return COMPUTE_OK;
}

compute_status cpu_device_open(const compute_services *services, cpu_device **result) {
  cpu_device *device = services->allocate(services->host, sizeof(cpu_device), SMALL_ALIGNMENT);
  if (!device)
    return services->fail(services->host, COMPUTE_ERROR_OUT_OF_MEMORY, 0, NULL,
                          "cpu: not enough memory to open the device");
  device->services = services;
  const char *problem;
  device->isa = cpu_isa_select(services->variable(services->host, "COMPUTE_CPU_ISA"), &problem);
  if (problem) {
    const compute_status status = services->fail(
        services->host, COMPUTE_ERROR_INVALID_ARGUMENT, 0, "correct or unset the variable",
        "cpu: %s; %s is the best that it has", problem, device->isa->name);
    cpu_release(device, device);
    return status;
  }
  device->threads = services->thread_count(services->host);
  device->l2_bytes = cache_bytes(2, L2_NAME, 256 << 10);
  device->l3_bytes = cache_bytes(3, L3_NAME, 8 << 20);
  device->share_bytes = l3_share(device->l3_bytes, device->threads);
  cpu_memory_query(&device->memory_bytes, NULL);
  device->huge_pages = has_huge_pages();
  device->workspaces = cpu_workspaces_create(device);
  if (!device->workspaces) {
    const compute_status status = cpu_out_of_memory(device, 0);
    cpu_release(device, device);
    return status;
  }
  if (!cpu_blas_wanted(device)) {
    const compute_status status = services->fail(
        services->host, COMPUTE_ERROR_INVALID_ARGUMENT, 0, "correct or unset the variable",
        "cpu: the library that COMPUTE_BLAS names cannot be used: %s",
        cpu_blas_describe(device) + strlen("none: "));
    cpu_device_close(device);
    return status;
  }
  const compute_status status = open_portable(device);
  if (status != COMPUTE_OK) {
    cpu_device_close(device);
    return status;
  }
  *result = device;
  return COMPUTE_OK;
}

void cpu_device_close(cpu_device *device) {
  if (!device) return;
  cpu_release(device, device->portable);
  cpu_blas_close(device);
  cpu_workspaces_release(device, device->workspaces);
  cpu_release(device, device);
}

/* Appends one line to the notes, or nothing if it does not fit completely. */
static void add_note(compute_device_info *info, const char *format, ...) COMPUTE_PRINTF(2, 3);
static void add_note(compute_device_info *info, const char *format, ...) {
  const size_t used = strlen(info->notes), room = sizeof info->notes - used;
  const char *separator = used ? "\n" : "";
  char line[256];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (length >= 0 && (size_t)length < sizeof line && (size_t)length + 2 <= room)
    snprintf(info->notes + used, room, "%s%s", separator, line);
}

/* The core describes a device when it opens it, and that must not wait for OpenBLAS to load. Later
 * calls are real queries. */
static void describe_blas(cpu_device *device, compute_device_info *info) {
  if (atomic_fetch_add_explicit(&device->describes, 1, memory_order_relaxed) == 0) {
    snprintf(info->driver, sizeof info->driver, "BLAS not opened yet");
    return;
  }
  snprintf(info->driver, sizeof info->driver, "%s", cpu_blas_describe(device));
  const char *warning = cpu_blas_warning(device);
  if (warning) add_note(info, "%s", warning);
}

compute_status cpu_device_describe(cpu_device *device, compute_device_info *info) {
  char text[128];
  if (!read_field("/proc/cpuinfo", "model name", info->model, sizeof info->model))
    snprintf(info->model, sizeof info->model, "unknown processor");
  if (read_field("/proc/cpuinfo", "vendor_id", text, sizeof text))
    snprintf(info->vendor, sizeof info->vendor, "%.63s",
             strcmp(text, "AuthenticAMD") == 0   ? "AMD"
             : strcmp(text, "GenuineIntel") == 0 ? "Intel"
                                                 : text);
  snprintf(info->isa, sizeof info->isa, "%s", device->isa->name);
  info->type = COMPUTE_DEVICE_CPU;
  info->priority = 0;
  info->capabilities = COMPUTE_CAPABILITY_UNIFIED_MEMORY | COMPUTE_CAPABILITY_F64 |
                       COMPUTE_CAPABILITY_COMPUTE | COMPUTE_CAPABILITY_HOST;
#ifdef CPU_HAS_AVX2
  if (device->isa->vector_bytes >= 32) info->capabilities |= COMPUTE_CAPABILITY_AVX2;
#endif
  if (device->isa->vector_bytes >= 64) info->capabilities |= COMPUTE_CAPABILITY_AVX512;
  if (device->isa->gemm->bf16) info->capabilities |= COMPUTE_CAPABILITY_BF16;
  info->compute_units = (uint32_t)device->threads;
  info->vector_width = device->isa->vector_bytes / 4;
  cpu_memory_query(&info->memory_total, &info->memory_free);
  info->memory_max_allocation = info->memory_total;
  info->cache_bytes = device->share_bytes;
  describe_blas(device, info);
  const cpu_isa *best = cpu_isa_select("avx512", NULL); /* or the best set below it */
  if (best->vector_bytes > device->isa->vector_bytes)
    add_note(info, "COMPUTE_CPU_ISA=%s: this processor also has %s", device->isa->name, best->name);
  return COMPUTE_OK;
}

/* ---- Memory -------------------------------------------------------------------------------- */

/* Handle of imported memory: cpu_memory_release must not free it. */
static unsigned char imported;

/* Reused memory of the C library has small pages; drop them first. */
static void take_huge_pages(void *data, uint64_t bytes) {
  const size_t whole = (size_t)(bytes & ~(uint64_t)(HUGE_PAGE - 1));
  madvise(data, whole, MADV_DONTNEED);
  madvise(data, whole, MADV_HUGEPAGE);
}

compute_status cpu_memory_allocate(cpu_device *device, uint64_t bytes, compute_memory *memory) {
  const bool huge = bytes >= HUGE_FROM;
  const size_t alignment = huge ? HUGE_PAGE : SMALL_ALIGNMENT;
  void *data = NULL;
  const uint64_t total = device->memory_bytes;
  /* The system would overcommit, and kill the process at the first access. */
  if (bytes <= total && bytes <= SIZE_MAX - alignment)
    data = aligned_take(alignment, (size_t)((bytes + alignment - 1) & ~(alignment - 1)));
  if (!data)
    return device->services->fail(device->services->host, COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY,
                                  ENOMEM, "use smaller batches, or close other programs",
                                  "the machine has %.1f GiB, other programs use a part of it",
                                  (double)total / 1073741824);
  if (huge && device->huge_pages) take_huge_pages(data, bytes);
  *memory = (compute_memory){.handle = data, .host = data, .bytes = bytes};
  return COMPUTE_OK;
}

compute_status cpu_memory_import(cpu_device *device, void *data, uint64_t bytes,
                                 compute_memory *memory) {
  (void)device;
  *memory = (compute_memory){.handle = &imported, .host = data, .bytes = bytes};
  return COMPUTE_OK;
}

void cpu_memory_release(cpu_device *device, compute_memory *memory) {
  (void)device;
  if (memory->handle != &imported) aligned_give(memory->handle);
  *memory = (compute_memory){0};
}

/* ---- Kinds of kernels ---------------------------------------------------------------------- */

compute_status cpu_kind_prepare(const cpu_kind *kind, cpu_device *device,
                                const compute_kernel_descriptor *descriptor, cpu_kernel **kernel) {
  const char *reason = kind->refuse ? kind->refuse(descriptor) : NULL;
  if (reason)
    return device->services->fail(device->services->host, COMPUTE_ERROR_UNSUPPORTED, 0, NULL,
                                  "cpu: %s: %s", kind->name, reason);
  cpu_kernel *made = cpu_allocate(device, kind->bytes);
  if (!made) return cpu_out_of_memory(device, kind->bytes);
  *made = (cpu_kernel){.device = device, .kind = kind, .run = kind->run};
  const compute_status status = kind->prepare(made, descriptor);
  if (status)
    cpu_kernel_destroy(made);
  else
    *kernel = made;
  return status;
}

void cpu_kernel_destroy(cpu_kernel *kernel) {
  if (!kernel) return;
  if (kernel->kind->clear) kernel->kind->clear(kernel);
  cpu_release(kernel->device, kernel);
}

/* FNV-1a, by bytes. */
uint64_t cpu_form(const int64_t *numbers, int32_t count) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (int32_t i = 0; i < count; i++)
    for (int shift = 0; shift < 64; shift += 8)
      hash = (hash ^ ((uint64_t)numbers[i] >> shift & 0xff)) * UINT64_C(0x100000001b3);
  return hash;
}

compute_status cpu_implementation_choose(const cpu_implementation *list, cpu_kernel *kernel,
                                         const compute_kernel_descriptor *descriptor) {
  const compute_services *services = kernel->device->services;
  const char *reason = "";
  for (; list->name; list++) {
    const compute_status status = list->accept(kernel, descriptor, &reason);
    if (status || kernel->run) return status;
    services->log(services->host, COMPUTE_LOG_DEBUG, "cpu", "not with %s: %s", list->name, reason);
  }
  return services->fail(services->host, COMPUTE_ERROR_UNSUPPORTED, 0, NULL, "cpu: %s", reason);
}

compute_status cpu_fail_overflow(const cpu_kernel *kernel) {
  const compute_services *services = kernel->device->services;
  return services->fail(services->host, COMPUTE_ERROR_OVERFLOW, 0, NULL,
                        "%s: the space has more than 2^63 elements", kernel->kind->name);
}

compute_status cpu_run_nothing(const cpu_kernel *kernel, void *const *pointers) {
  (void)kernel;
  (void)pointers;
  return COMPUTE_OK;
}

/* ---- Scratch memory -------------------------------------------------------------------------- */

/* Scratch memory of launches: a list of idle blocks, so that a step that needs a buffer in every
 * run does not get new pages from the system each time.
 *
 * One launch owns a block at a time; each thread may run one launch (micro-batches side by side). A
 * request takes the smallest idle block that is large enough. If none is, a new block replaces the
 * largest one, so launches with growing sizes never own more blocks than run at once. The number of
 * idle blocks is limited; the smallest is freed first.
 *
 * Blocks unused for a second, or for 5 ns per byte if that is longer, are freed. New pages take
 * about 0.25 ns per byte, so they cost at most a twentieth of the time.
 *
 * A small block returns to a slot chosen by a hash of its thread, and is taken from there without
 * the lock: interpreters request one in every launch, and in every tile. */

enum {
  HEAD_BYTES = 64,
  IDLE_LIMIT = 8, /* or two per thread */
  NEAR_BYTES = 128 << 10,
  NEAR_PLACES_LOG2 = 4
};
enum { CLOCK_RETURNS = 64 /* returns between two readings of the clock */, STALE_PER_BYTE = 5 };
#define STALE_SHORTEST INT64_C(1000000000)

typedef struct block {
  struct block *next;
  uint64_t bytes;
  int64_t used; /* time of its return, by the last reading of the clock, in nanoseconds */
} block;

_Static_assert(sizeof(block) <= HEAD_BYTES, "a block's head must leave its memory aligned");

typedef struct near_place {
  _Alignas(64) block *_Atomic block;
} near_place;

struct cpu_workspaces {
  pthread_mutex_t mutex;
  block *idle; /* sorted by size, smallest first */
  int count;
  uint32_t returns;
  int64_t now;
  near_place near[1 << NEAR_PLACES_LOG2];
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

static void release_blocks(cpu_device *device, block *list) {
  while (list) {
    block *next = list->next;
    cpu_release(device, list);
    list = next;
  }
}

void cpu_workspaces_release(cpu_device *device, struct cpu_workspaces *spaces) {
  if (!spaces) return;
  for (int i = 0; i < 1 << NEAR_PLACES_LOG2; i++)
    cpu_release(device, atomic_load_explicit(&spaces->near[i].block, memory_order_relaxed));
  release_blocks(device, spaces->idle);
  pthread_mutex_destroy(&spaces->mutex);
  cpu_release(device, spaces);
}

/* Large blocks consist of whole huge pages. The data that a thread rereads often fills half of its
 * L2 cache. With small pages, at arbitrary addresses, that data would compete for the same cache
 * sets. */
static block *allocate_block(cpu_device *device, uint64_t bytes) {
  const bool huge = bytes >= HUGE_SCRATCH;
  const size_t alignment = huge ? HUGE_PAGE : SMALL_ALIGNMENT;
  const uint64_t whole = (bytes + HEAD_BYTES + alignment - 1) & ~(uint64_t)(alignment - 1);
  block *b = allocate_aligned(device, whole, alignment);
  if (!b) return NULL;
  if (huge) madvise(b, (size_t)whole, MADV_HUGEPAGE);
  b->bytes = whole - HEAD_BYTES;
  return b;
}

/* A thread handle is an address near its stack; such addresses differ in the higher bits. */
static near_place *near_place_of(struct cpu_workspaces *spaces) {
  const uint64_t thread = (uint64_t)(uintptr_t)pthread_self();
  return &spaces->near[(thread >> 12) * UINT64_C(0x9E3779B97F4A7C15) >> (64 - NEAR_PLACES_LOG2)];
}

static block *take_block(struct cpu_workspaces *spaces, block **link) {
  block *b = *link;
  *link = b->next;
  spaces->count--;
  return b;
}

static int64_t nanoseconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Removes the stale blocks and returns them as a list. */
static block *take_stale(struct cpu_workspaces *spaces) {
  block *list = NULL, **link = &spaces->idle;
  while (*link) {
    const int64_t idle = spaces->now - (*link)->used;
    if (idle < STALE_SHORTEST || (uint64_t)idle / STALE_PER_BYTE < (*link)->bytes) {
      link = &(*link)->next;
      continue;
    }
    block *b = take_block(spaces, link);
    b->next = list;
    list = b;
  }
  return list;
}

/* Returns a block of at least `bytes`, or NULL. */
static block *take_idle(cpu_device *device, struct cpu_workspaces *spaces, uint64_t bytes) {
  pthread_mutex_lock(&spaces->mutex);
  block **link = &spaces->idle, **largest = NULL, *outgrown = NULL, *b = NULL;
  while (*link && (*link)->bytes < bytes) link = &(*(largest = link))->next;
  if (*link)
    b = take_block(spaces, link);
  else if (largest)
    outgrown = take_block(spaces, largest);
  pthread_mutex_unlock(&spaces->mutex);
  cpu_release(device, outgrown);
  return b;
}

static void give_idle(cpu_device *device, struct cpu_workspaces *spaces, block *b) {
  block *surplus = NULL;
  pthread_mutex_lock(&spaces->mutex);
  const bool looks = spaces->returns++ % CLOCK_RETURNS == 0;
  if (looks) spaces->now = nanoseconds_now();
  b->used = spaces->now;
  block **link = &spaces->idle;
  while (*link && (*link)->bytes < b->bytes) link = &(*link)->next;
  b->next = *link;
  *link = b;
  if (looks) surplus = take_stale(spaces);
  if (++spaces->count > cpu_max(IDLE_LIMIT, 2 * device->threads)) {
    block *smallest = take_block(spaces, &spaces->idle);
    smallest->next = surplus;
    surplus = smallest;
  }
  pthread_mutex_unlock(&spaces->mutex);
  release_blocks(device, surplus);
}

void *cpu_workspace_acquire(cpu_device *device, uint64_t bytes) {
  if (bytes > UINT64_MAX / 4) return NULL;
  struct cpu_workspaces *spaces = device->workspaces;
  block *b = NULL;
  if (bytes <= NEAR_BYTES) {
    b = atomic_exchange_explicit(&near_place_of(spaces)->block, NULL, memory_order_acquire);
    if (b && b->bytes < bytes) {
      give_idle(device, spaces, b);
      b = NULL;
    }
  }
  if (!b) b = take_idle(device, spaces, bytes);
  if (!b) b = allocate_block(device, bytes);
  return b ? (unsigned char *)b + HEAD_BYTES : NULL;
}

void cpu_workspace_return(cpu_device *device, void *workspace) {
  if (!workspace) return;
  struct cpu_workspaces *spaces = device->workspaces;
  block *b = (void *)((unsigned char *)workspace - HEAD_BYTES);
  if (b->bytes <= NEAR_BYTES)
    b = atomic_exchange_explicit(&near_place_of(spaces)->block, b, memory_order_acq_rel);
  if (b) give_idle(device, spaces, b);
}
