/* Prepared kernels, found again by the bytes of their descriptor.
 *
 * The key holds everything of the descriptor that its kind uses and nothing else, so that equal
 * work has equal keys whatever the unused fields contain. It is compared in full; the hash only
 * finds the bucket. A kernel is prepared without the lock held, since that may take long (a GPU
 * compiler): two threads may then prepare the same kernel at once, and the later one drops its own.
 */
#include "kernel/kernel_cache.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "device/device.h"
#include "kernel/program.h"

#define UNREFERENCED_LIMIT 512
#define FIRST_BUCKETS      64

struct kernel_cache {
  pthread_mutex_t mutex;
  compute_device *device;
  kernel_entry **buckets; /* a power of two of them */
  size_t bucket_count;
  size_t entry_count;
  kernel_entry *newest, *oldest; /* unreferenced ones in order of last use */
  size_t unreferenced;
};

/* ---- Keys ---------------------------------------------------------------------------------- */

/* Room for the head, every operand and two programs of the largest size. */
#define KEY_BYTES                                                                                  \
  (256 + COMPUTE_MAX_OPERANDS * (4 + 8 * COMPUTE_MAX_RANK) +                                       \
   2 * (COMPUTE_MAX_INSTRUCTIONS * sizeof(compute_instruction) + 2 * COMPUTE_MAX_OPERANDS))

typedef struct key_writer {
  size_t length;
  unsigned char bytes[KEY_BYTES];
} key_writer;

static void put(key_writer *key, const void *data, size_t bytes) {
  memcpy(key->bytes + key->length, data, bytes);
  key->length += bytes;
}

static void put_i64(key_writer *key, int64_t value) {
  put(key, &value, sizeof value);
}

static void put_operands(key_writer *key, const compute_operand *operands, uint32_t count,
                         int32_t rank) {
  for (uint32_t i = 0; i < count; i++) {
    uint32_t dtype = (uint32_t)operands[i].dtype;
    put(key, &dtype, sizeof dtype);
    put(key, operands[i].stride, (size_t)rank * sizeof *operands[i].stride);
  }
}

static void put_program(key_writer *key, const compute_program *program) {
  put_i64(key, program->count);
  if (program->count == 0) return;
  put_i64(key, program->output_count);
  for (uint32_t i = 0; i < program->count; i++) {
    compute_instruction instruction = program_normalize(program->instructions[i]);
    put(key, &instruction, sizeof instruction);
  }
  put(key, program->outputs, program->output_count * sizeof *program->outputs);
}

static void put_convolution(key_writer *key, const compute_convolution *c) {
  put_i64(key, c->direction);
  put_i64(key, c->groups);
  put_i64(key, c->batch);
  put_i64(key, c->data_channels);
  put_i64(key, c->result_channels);
  put(key, c->data_size, sizeof c->data_size);
  put(key, c->result_size, sizeof c->result_size);
  put(key, c->filter_size, sizeof c->filter_size);
  put(key, c->stride, sizeof c->stride);
  put(key, c->dilation, sizeof c->dilation);
  put(key, c->padding, sizeof c->padding);
}

static bool program_fits_key(const compute_program *program) {
  return program->count <= COMPUTE_MAX_INSTRUCTIONS &&
         program->output_count <= COMPUTE_MAX_OPERANDS &&
         (program->count == 0 || program->instructions) &&
         (program->output_count == 0 || program->outputs);
}

/* Whether the key can be written at all; descriptor_check says what is wrong. */
static bool fits_key(const compute_kernel_descriptor *d) {
  return d && d->rank >= 0 && d->rank <= COMPUTE_MAX_RANK &&
         d->input_count <= COMPUTE_MAX_OPERANDS && d->output_count <= COMPUTE_MAX_OPERANDS &&
         d->input_count + d->output_count <= COMPUTE_MAX_OPERANDS &&
         (d->input_count == 0 || d->inputs) && (d->output_count == 0 || d->outputs) &&
         program_fits_key(&d->prologue) && program_fits_key(&d->epilogue);
}

static void write_key(key_writer *key, const compute_kernel_descriptor *d) {
  key->length = 0;
  put_i64(key, d->kind);
  put_i64(key, d->rank);
  put(key, d->size, (size_t)d->rank * sizeof *d->size);
  put_i64(key, d->input_count);
  put_i64(key, d->output_count);
  put_operands(key, d->inputs, d->input_count, d->rank);
  put_operands(key, d->outputs, d->output_count, d->rank);
  put_program(key, &d->prologue);
  put_program(key, &d->epilogue);
  switch (d->kind) {
  case COMPUTE_KERNEL_REDUCE:
    put_i64(key, d->prologue_inputs);
    put_i64(key, d->accumulate);
    put_i64(key, d->kept_rank);
    put_i64(key, d->combine);
    break;
  case COMPUTE_KERNEL_ROW:
    put_i64(key, d->prologue_inputs);
    put_i64(key, d->accumulate);
    put_i64(key, d->row);
    if (d->row == COMPUTE_ROW_NORMALIZE) put(key, &d->epsilon, sizeof d->epsilon);
    break;
  case COMPUTE_KERNEL_GEMM:
    put_i64(key, d->accumulate);
    put_i64(key, d->precision);
    put_i64(key, d->k);
    break;
  case COMPUTE_KERNEL_CONV:
    put_i64(key, d->accumulate);
    put_i64(key, d->precision);
    put_convolution(key, &d->convolution);
    break;
  case COMPUTE_KERNEL_GATHER:
  case COMPUTE_KERNEL_SCATTER:
    put_i64(key, d->axis_size);
    put_i64(key, d->axis_stride);
    break;
  case COMPUTE_KERNEL_MAP:
  case COMPUTE_KERNEL_COPY: break;
  }
}

/* ---- Table and order of use (mutex held) --------------------------------------------------- */

static kernel_entry *find(const kernel_cache *cache, const key_writer *key, uint64_t hash) {
  if (cache->bucket_count == 0) return NULL;
  kernel_entry *entry = cache->buckets[hash & (cache->bucket_count - 1)];
  while (entry && !(entry->hash == hash && entry->key_bytes == key->length &&
                    !memcmp(entry->key, key->bytes, key->length))) {
    entry = entry->next;
  }
  return entry;
}

/* Makes room for one more entry. Long chains are slower but no fault, so that only the very first
 * table must be had. */
static bool grow(kernel_cache *cache) {
  if (cache->entry_count < cache->bucket_count) return true;
  size_t count = cache->bucket_count ? 2 * cache->bucket_count : FIRST_BUCKETS;
  kernel_entry **buckets = base_allocate(count, sizeof *buckets);
  if (!buckets) return cache->bucket_count > 0;
  for (size_t i = 0; i < cache->bucket_count; i++) {
    for (kernel_entry *entry = cache->buckets[i], *next; entry; entry = next) {
      next = entry->next;
      kernel_entry **head = &buckets[entry->hash & (count - 1)];
      entry->next = *head;
      *head = entry;
    }
  }
  base_release(cache->buckets);
  cache->buckets = buckets;
  cache->bucket_count = count;
  return true;
}

static void unlink_from_order(kernel_cache *cache, kernel_entry *entry) {
  *(entry->newer ? &entry->newer->older : &cache->newest) = entry->older;
  *(entry->older ? &entry->older->newer : &cache->oldest) = entry->newer;
  entry->newer = entry->older = NULL;
  cache->unreferenced--;
}

static void append_to_order(kernel_cache *cache, kernel_entry *entry) {
  entry->newer = NULL;
  entry->older = cache->newest;
  if (cache->newest) {
    cache->newest->newer = entry;
  } else {
    cache->oldest = entry;
  }
  cache->newest = entry;
  cache->unreferenced++;
}

static void take_reference(kernel_cache *cache, kernel_entry *entry) {
  if (entry->references++ == 0) unlink_from_order(cache, entry);
}

/* Takes the entry that was unused longest out of the cache, if there are more than the limit. */
static kernel_entry *take_surplus(kernel_cache *cache, size_t limit) {
  kernel_entry *entry = cache->oldest;
  if (cache->unreferenced <= limit) return NULL;
  unlink_from_order(cache, entry);
  kernel_entry **link = &cache->buckets[entry->hash & (cache->bucket_count - 1)];
  while (*link != entry) link = &(*link)->next;
  *link = entry->next;
  cache->entry_count--;
  return entry;
}

/* ---- Entries ------------------------------------------------------------------------------- */

/* Called without the lock. */
static void destroy_entry(const kernel_cache *cache, kernel_entry *entry) {
  if (!entry) return;
  if (entry->kernel) {
    cache->device->backend->kernel_destroy(cache->device->handle, entry->kernel);
  }
  base_release(entry->key);
  base_release(entry);
}

static compute_status fail_memory(const kernel_cache *cache) {
  return error_set(cache->device->context, COMPUTE_ERROR_OUT_OF_MEMORY, "kernel",
                   "no host memory for a kernel's record");
}

/* A new entry with one reference, not yet in the table. */
static compute_status prepare_entry(const kernel_cache *cache,
                                    const compute_kernel_descriptor *descriptor,
                                    const key_writer *key, uint64_t hash, kernel_entry **result) {
  compute_device *device = cache->device;
  char reason[256] = "";
  if (!descriptor_check(descriptor, reason, sizeof reason)) {
    return error_set(device->context, COMPUTE_ERROR_INTERNAL, "kernel",
                     "ill-formed kernel descriptor: %s", reason);
  }
  kernel_entry *entry = base_allocate(1, sizeof *entry);
  if (!entry) return fail_memory(cache);
  entry->references = 1;
  entry->hash = hash;
  entry->key_bytes = key->length;
  entry->key = base_allocate(1, key->length);
  compute_status status = entry->key ? COMPUTE_OK : fail_memory(cache);
  if (!status) {
    memcpy(entry->key, key->bytes, key->length);
    status = device->backend->kernel_prepare(device->handle, descriptor, &entry->kernel);
    if (status) entry->kernel = NULL;
  }
  if (status) {
    destroy_entry(cache, entry);
    return status;
  }
  *result = entry;
  return COMPUTE_OK;
}

/* Puts an entry into the table, unless another thread was faster: then that one is the result. */
static compute_status publish(kernel_cache *cache, const key_writer *key, kernel_entry *made,
                              kernel_entry **result) {
  pthread_mutex_lock(&cache->mutex);
  kernel_entry *other = find(cache, key, made->hash);
  bool room = other || grow(cache);
  if (other) {
    take_reference(cache, other);
    *result = other;
  } else if (room) {
    kernel_entry **head = &cache->buckets[made->hash & (cache->bucket_count - 1)];
    made->next = *head;
    *head = made;
    cache->entry_count++;
    *result = made;
    made = NULL;
  }
  pthread_mutex_unlock(&cache->mutex);
  destroy_entry(cache, made);
  return room ? COMPUTE_OK : fail_memory(cache);
}

/* The kernel with one more reference, or NULL. */
static kernel_entry *look_up(kernel_cache *cache, const key_writer *key, uint64_t hash) {
  pthread_mutex_lock(&cache->mutex);
  kernel_entry *entry = find(cache, key, hash);
  if (entry) take_reference(cache, entry);
  pthread_mutex_unlock(&cache->mutex);
  return entry;
}

kernel_entry *kernel_cache_find(kernel_cache *cache, const compute_kernel_descriptor *descriptor) {
  if (!fits_key(descriptor)) return NULL;
  key_writer key;
  write_key(&key, descriptor);
  return look_up(cache, &key, hash_bytes(HASH_SEED, key.bytes, key.length));
}

compute_status kernel_cache_get(kernel_cache *cache, const compute_kernel_descriptor *descriptor,
                                kernel_entry **entry) {
  *entry = NULL;
  char reason[256] = "";
  if (!fits_key(descriptor)) {
    descriptor_check(descriptor, reason, sizeof reason);
    return error_set(cache->device->context, COMPUTE_ERROR_INTERNAL, "kernel",
                     "ill-formed kernel descriptor: %s", reason);
  }
  key_writer key;
  write_key(&key, descriptor);
  uint64_t hash = hash_bytes(HASH_SEED, key.bytes, key.length);
  *entry = look_up(cache, &key, hash);
  if (*entry) return COMPUTE_OK;
  kernel_entry *made = NULL;
  compute_status status = prepare_entry(cache, descriptor, &key, hash, &made);
  return status ? status : publish(cache, &key, made, entry);
}

void kernel_cache_return(kernel_cache *cache, kernel_entry *entry) {
  if (!entry) return;
  pthread_mutex_lock(&cache->mutex);
  if (--entry->references == 0) append_to_order(cache, entry);
  kernel_entry *surplus = take_surplus(cache, UNREFERENCED_LIMIT);
  pthread_mutex_unlock(&cache->mutex);
  destroy_entry(cache, surplus);
}

/* ---- The cache itself ---------------------------------------------------------------------- */

kernel_cache *kernel_cache_create(compute_device *device) {
  kernel_cache *cache = base_allocate(1, sizeof *cache);
  if (!cache) return NULL;
  if (pthread_mutex_init(&cache->mutex, NULL)) {
    base_release(cache);
    return NULL;
  }
  cache->device = device;
  return cache;
}

void kernel_cache_release(kernel_cache *cache) {
  if (!cache) return;
  for (kernel_entry *entry = take_surplus(cache, 0); entry; entry = take_surplus(cache, 0)) {
    destroy_entry(cache, entry);
  }
  base_release(cache->buckets);
  pthread_mutex_destroy(&cache->mutex);
  base_release(cache);
}
