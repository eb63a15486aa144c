/* SPDX-License-Identifier: MIT */
/* A device's table of programs. Each pair of source and options is compiled once and shared by all
 * kernels that use it.
 *
 * A program comes from the table, the disk cache or the compiler, in this order. A source that the
 * compiler refused stays in the table: the next request returns the same log without compiling
 * again. Unreferenced programs are kept for a while, because kernels often come back. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/builder.h"

#define FIRST_BUCKETS      64
#define UNREFERENCED_LIMIT 256
#define SLOW_NANOSECONDS   1000000000u /* slower builds are reported at levels above warnings */

/* ---- Shorthands ---------------------------------------------------------------------------- */

void *builder_allocate(const builder *b, size_t bytes) {
  return b->services->allocate(b->services->host, bytes, 16);
}

void builder_free(const builder *b, void *pointer) {
  if (pointer) b->services->release(b->services->host, pointer);
}

char *builder_duplicate(const builder *b, const char *text, size_t bytes) {
  char *copy = builder_allocate(b, bytes + 1);
  if (copy) memcpy(copy, text, bytes);
  return copy;
}

static void count(_Atomic uint64_t *counter, uint64_t more) {
  atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

/* ---- Problems ------------------------------------------------------------------------------ */

bool build_problem_set(build_problem *problem, compute_status status, int64_t code,
                       const char *code_name, const char *call) {
  problem->status = status;
  problem->final = false;
  problem->code = code;
  problem->code_name = code_name;
  problem->call = call;
  problem->remedy = NULL;
  problem->log[0] = '\0';
  return false;
}

void build_problem_log(build_problem *problem, const char *log) {
  const char *start = log + strspn(log, " \t\r\n");
  size_t length = strnlen(start, sizeof problem->log - 1);
  while (length > 0 && strchr(" \t\r\n", start[length - 1])) length--;
  memcpy(problem->log, start, length);
  problem->log[length] = '\0';
}

compute_status builder_fail(const builder *b, const build_problem *problem, const char *what) {
  const compute_services *services = b->services;
  const char *module = b->driver->module;
  const char *name = problem->code_name;
  if (problem->status == COMPUTE_ERROR_OUT_OF_MEMORY)
    return services->fail(services->host, problem->status, 0, NULL,
                          "%s: not enough host memory for %s", module, problem->call);
  return services->fail(
      services->host, problem->status, problem->code,
      problem->remedy ? problem->remedy : "run this step on the CPU, or update the driver",
      "%s:%u: %s (%s%s%s)%s%.400s", module, b->index, what, problem->call, name ? ": " : "",
      name ? name : "", problem->log[0] ? ": " : "", problem->log);
}

compute_status builder_fail_custom(const builder *b, const char *entry, build_problem *problem,
                                   int64_t misnamed_code, const char *misnamed_remedy) {
  char what[128];
  if (problem->status == COMPUTE_ERROR_COMPILATION) {
    b->services->log(b->services->host, COMPUTE_LOG_ERROR, b->driver->module, "kernel '%.60s': %s",
                     entry,
                     problem->log[0]      ? problem->log
                     : problem->code_name ? problem->code_name
                                          : problem->call);
    if (problem->code == misnamed_code)
      problem->remedy = misnamed_remedy;
    else if (!problem->remedy)
      problem->remedy = "correct the source; COMPUTE_LOG=error shows the compiler's full output";
  }
  snprintf(what, sizeof what, "kernel '%.60s' does not compile", entry);
  return builder_fail(b, problem, what);
}

/* ---- Table (call with the mutex locked) ---------------------------------------------------- */

static uint64_t hash_add(uint64_t hash, const char *bytes, size_t length) {
  for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3u;
  return hash;
}

static builder_program **bucket_of(const builder *b, uint64_t hash) {
  return &b->buckets[(hash ^ hash >> 32) & (b->bucket_count - 1)];
}

static void put(builder *b, builder_program *program) {
  builder_program **head = bucket_of(b, program->hash);
  program->next = *head;
  *head = program;
}

/* If memory is short, the table stays small: longer chains are slower but correct. Only the first
 * table is required. */
static bool grow(builder *b) {
  if (b->program_count < b->bucket_count) return true;
  const uint32_t old_count = b->bucket_count;
  builder_program **old = b->buckets;
  const uint32_t wanted = old_count ? 2 * old_count : FIRST_BUCKETS;
  builder_program **made = builder_allocate(b, wanted * sizeof *made);
  if (!made) return old_count > 0;
  b->buckets = made;
  b->bucket_count = wanted;
  for (uint32_t i = 0; i < old_count; i++) {
    for (builder_program *program = old[i], *next; program; program = next) {
      next = program->next;
      put(b, program);
    }
  }
  builder_free(b, old);
  return true;
}

static void unlist(builder *b, builder_program *program) {
  if (!program->listed) return;
  builder_program **link = bucket_of(b, program->hash);
  while (*link != program) link = &(*link)->next;
  *link = program->next;
  program->listed = false;
  b->program_count--;
}

static void reference(builder *b, builder_program *program) {
  if (program->references++ > 0) return;
  *(program->newer ? &program->newer->older : &b->newest) = program->older;
  *(program->older ? &program->older->newer : &b->oldest) = program->newer;
  program->newer = program->older = NULL;
  b->unreferenced--;
}

/* The least recently used unreferenced program, if there are more than `limit`. */
static builder_program *surplus_take(builder *b, uint32_t limit) {
  builder_program *program = b->oldest;
  if (b->unreferenced <= limit) return NULL;
  reference(b, program); /* removes it from the list */
  unlist(b, program);
  return program;
}

static builder_program *find(const builder *b, const char *source, size_t source_bytes,
                             const char *options, uint64_t hash) {
  if (b->bucket_count == 0) return NULL;
  builder_program *program = *bucket_of(b, hash);
  while (program && !(program->hash == hash && program->source_bytes == source_bytes &&
                      memcmp(program->source, source, source_bytes) == 0 &&
                      strcmp(program->options, options) == 0))
    program = program->next;
  return program;
}

/* ---- Programs ------------------------------------------------------------------------------ */

/* Called without the mutex. */
static void program_destroy(builder *b, builder_program *program) {
  if (!program) return;
  for (builder_entry *entry = program->entries, *next; entry; entry = next) {
    next = entry->next;
    builder_free(b, entry->name);
    b->driver->entry_destroy(b->device, entry);
  }
  if (program->handle) b->driver->unload(b->device, program->handle);
  builder_free(b, program->source);
  builder_free(b, program->options);
  builder_free(b, program);
}

static builder_program *program_create(builder *b, const char *source, size_t source_bytes,
                                       const char *options, uint64_t hash) {
  builder_program *program = builder_allocate(b, sizeof *program);
  if (!program) return NULL;
  program->hash = hash;
  program->references = 1;
  program->building = true;
  program->source = builder_duplicate(b, source, source_bytes);
  program->source_bytes = source_bytes;
  program->options = builder_duplicate(b, options, strlen(options));
  if (program->source && program->options) return program;
  program_destroy(b, program);
  return NULL;
}

/* Returns a program with one more reference: either from the table, with a finished build, or a new
 * one (*fresh), which the caller must build and publish. NULL: no host memory. */
static builder_program *take(builder *b, const char *source, size_t source_bytes,
                             const char *options, bool *fresh) {
  const uint64_t hash =
      hash_add(hash_add(0xcbf29ce484222325u, source, source_bytes), options, strlen(options));
  pthread_mutex_lock(&b->mutex);
  builder_program *program = find(b, source, source_bytes, options, hash);
  *fresh = program == NULL;
  if (program) {
    reference(b, program);
    while (program->building) pthread_cond_wait(&b->built, &b->mutex);
  } else if (grow(b)) {
    program = program_create(b, source, source_bytes, options, hash);
    if (program) {
      put(b, program);
      program->listed = true;
      b->program_count++;
    }
  }
  pthread_mutex_unlock(&b->mutex);
  return program;
}

/* Marks the build as finished and wakes waiting threads. `forget` removes the program from the
 * table, so that the next request tries again. */
static void publish(builder *b, builder_program *program, bool forget) {
  pthread_mutex_lock(&b->mutex);
  program->building = false;
  if (forget) unlist(b, program);
  pthread_cond_broadcast(&b->built);
  pthread_mutex_unlock(&b->mutex);
}

void builder_release(builder *b, builder_program *program) {
  if (!program) return;
  builder_program *unused = NULL;
  pthread_mutex_lock(&b->mutex);
  if (--program->references == 0) {
    if (program->listed) {
      program->older = b->newest;
      *(b->newest ? &b->newest->newer : &b->oldest) = program;
      b->newest = program;
      b->unreferenced++;
      unused = surplus_take(b, UNREFERENCED_LIMIT);
    } else {
      unused = program;
    }
  }
  pthread_mutex_unlock(&b->mutex);
  program_destroy(b, unused);
}

/* ---- Building ------------------------------------------------------------------------------ */

static uint32_t key_of(const builder *b, const builder_program *program,
                       compute_cache_part parts[BUILDER_KEY_PARTS + 3]) {
  parts[0] = (compute_cache_part){program->source, program->source_bytes};
  parts[1] = (compute_cache_part){b->driver->module, strlen(b->driver->module)};
  parts[2] = (compute_cache_part){program->options, strlen(program->options)};
  return 3 + b->driver->key_parts(b->device, parts + 3);
}

/* Loads from the disk cache, or returns NULL. `known` as in builder_driver.load. */
static void *load(builder *b, const builder_program *program, const compute_cache_part *parts,
                  uint32_t part_count, bool *known) {
  const compute_services *services = b->services;
  size_t bytes = 0;
  void *binary = services->cache_load(services->host, parts, part_count, &bytes);
  if (!binary) return NULL;
  void *handle = b->driver->load(b->device, program, binary, bytes, known);
  services->release(services->host, binary);
  if (!handle && !*known)
    services->log(services->host, COMPUTE_LOG_INFO, b->driver->module,
                  "the driver rejects a stored binary; compiling again");
  return handle;
}

/* Fills in `program->handle`, or leaves it NULL and fills in the problem. */
static void build(builder *b, builder_program *program, build_problem *problem) {
  const compute_services *services = b->services;
  builder_counters *counters = &b->counters;
  const size_t needed = offsetof(compute_services, cache_store) + sizeof services->cache_store;
  const bool cached =
      services->struct_size >= needed && services->cache_load && services->cache_store;
  const int64_t start = builder_now();
  compute_cache_part parts[BUILDER_KEY_PARTS + 3];
  const uint32_t part_count = cached ? key_of(b, program, parts) : 0;
  bool known = false;
  if (cached) program->handle = load(b, program, parts, part_count, &known);
  if (program->handle) {
    count(&counters->programs_from_disk, 1);
  } else {
    void *binary = NULL;
    size_t bytes = 0;
    services->log(services->host, COMPUTE_LOG_INFO, b->driver->module,
                  "compiling a program of %zu bytes for device %u", program->source_bytes,
                  b->index);
    program->handle =
        b->driver->compile(b->device, program, cached && !known ? &binary : NULL, &bytes, problem);
    if (!program->handle)
      count(&counters->programs_failed, 1);
    else
      count(known ? &counters->programs_from_driver : &counters->programs_compiled, 1);
    if (program->handle && binary)
      services->cache_store(services->host, parts, part_count, binary, bytes);
    builder_free(b, binary);
  }
  const uint64_t taken = (uint64_t)(builder_now() - start);
  services->log(services->host, taken > SLOW_NANOSECONDS ? COMPUTE_LOG_INFO : COMPUTE_LOG_DEBUG,
                b->driver->module, "the program took %.3f s", (double)taken * 1e-9);
  count(&counters->build_nanoseconds, taken);
}

builder_program *builder_get(builder *b, const char *source, size_t source_bytes,
                             const char *options, build_problem *problem) {
  bool fresh = false;
  builder_program *program = take(b, source, source_bytes, options ? options : "", &fresh);
  if (!program) {
    build_problem_set(problem, COMPUTE_ERROR_OUT_OF_MEMORY, 0, NULL, "a program");
    return NULL;
  }
  if (fresh) {
    build_problem_set(&program->problem, COMPUTE_ERROR_COMPILATION, 0, NULL, "the compiler");
    build(b, program, &program->problem);
    publish(b, program, !program->handle && !program->problem.final);
  } else if (program->handle) {
    count(&b->counters.programs_shared, 1);
  }
  if (program->handle) return program;
  *problem = program->problem;
  builder_release(b, program);
  return NULL;
}

builder_entry *builder_entry_get(builder *b, builder_program *program, const char *name,
                                 build_problem *problem) {
  pthread_mutex_lock(&b->mutex);
  builder_entry *entry = program->entries;
  while (entry && strcmp(entry->name, name) != 0) entry = entry->next;
  if (!entry) {
    char *copy = builder_duplicate(b, name, strlen(name));
    if (copy)
      entry = b->driver->entry_create(b->device, program, name, problem);
    else
      build_problem_set(problem, COMPUTE_ERROR_OUT_OF_MEMORY, 0, NULL, "a kernel of the program");
    if (entry) {
      entry->name = copy;
      entry->next = program->entries;
      program->entries = entry;
    } else {
      builder_free(b, copy);
    }
  }
  pthread_mutex_unlock(&b->mutex);
  return entry;
}

/* ---- Opening and closing ------------------------------------------------------------------- */

void builder_open(builder *b) {
  pthread_mutex_init(&b->mutex, NULL);
  pthread_cond_init(&b->built, NULL);
}

void builder_forget(builder *b) {
  for (builder_program *program; (program = surplus_take(b, 0));) program_destroy(b, program);
  for (uint32_t i = 0; i < b->bucket_count; i++)
    while (b->buckets[i]) unlist(b, b->buckets[i]);
}

void builder_close(builder *b) {
  builder_forget(b);
  builder_free(b, b->buckets);
  b->buckets = NULL;
  b->bucket_count = 0;
  pthread_cond_destroy(&b->built);
  pthread_mutex_destroy(&b->mutex);
}

void builder_count(const builder *b, compute_build_statistics *statistics) {
  const builder_counters *own = &b->counters;
  statistics->programs_compiled +=
      atomic_load_explicit(&own->programs_compiled, memory_order_relaxed);
  statistics->programs_from_disk +=
      atomic_load_explicit(&own->programs_from_disk, memory_order_relaxed);
  statistics->programs_from_driver +=
      atomic_load_explicit(&own->programs_from_driver, memory_order_relaxed);
  statistics->programs_shared += atomic_load_explicit(&own->programs_shared, memory_order_relaxed);
  statistics->programs_failed += atomic_load_explicit(&own->programs_failed, memory_order_relaxed);
  statistics->build_nanoseconds +=
      atomic_load_explicit(&own->build_nanoseconds, memory_order_relaxed);
}
