/* SPDX-License-Identifier: MIT */
/* Micro-batches: a large batch runs a few items at a time through the steps whose values exceed the
 * caches.
 *
 * With a large batch, a layer of an image network writes more than the caches hold, and the next
 * layer reads it back from memory. So a run of steps that compute each item independently is
 * repeated for one micro-batch after another. A value used only inside the run needs memory for one
 * micro-batch. Each micro-batch reuses this memory, so it stays in the caches.
 *
 * If single micro-batches keep all threads busy, each thread computes a separate micro-batch in an
 * arena that only this thread writes. Threads then do not wait for each other at every step.
 * They also do not fetch data written by another thread, which is slow across different caches.
 *
 * An item is a position in the first dimension of the steps' index spaces. If one step's dimension
 * is a multiple of another's, such as the rows of a matrix product, an item is several
 * positions. */
#include <string.h>

#include "core/base/error.h"
#include "core/device/device.h"
#include "core/type/dtype.h"
#include "plan/compile/lower/micro_batches.h"

enum {
  MICRO_BATCH_SHARE = 4, /* the operands of a micro-batch's step fill this part of the caches … */
  MICRO_BATCH_KIB = 256, /* … but at least so much per thread; less would not pay */
  LARGE = 2,             /* a step is large if its operands are so many times as much */
  REREAD_SHARE = 32,     /* limit on the data that each micro-batch rereads, to stay cached */
  MOST_FLOPS = 100,      /* per byte; with more, computation hides the slow memory */
  CLOSE_KIB = 1024,      /* per thread: the operands of a micro-batch near its core … */
  CLOSE_FLOPS = 24,      /* … with at most so many operations per byte */
  BUSY = 7,              /* each thread takes its own micro-batch if the threads are busy … */
  BUSY_OF = 8,           /* … BUSY of BUSY_OF parts of the time */
  PER_THREAD = 2,        /* of steps that are not large */
  REREAD_PART = 2,       /* limit for those: bytes reread, relative to the bytes of the items */
  MOST_STEPS = 4096      /* of a segment, over all micro-batches */
};

/* A step and the way to divide it. */
typedef struct division {
  int64_t rows;    /* positions in the first dimension of its space; 0: it cannot be divided */
  uint32_t moving; /* operands (bits) with a separate part for each position, … */
  uint32_t apart;  /* … and those with position i in the i-th of equal ranges */
  int64_t stride[COMPUTE_MAX_OPERANDS]; /* of moving operands: bytes from position to position */
  uint64_t divided, whole;              /* bytes of moving operands, and of the others */
} division;

/* Steps first … last that run one micro-batch at a time. */
typedef struct segment {
  uint32_t first, last, micro_batches;
  uint32_t arenas; /* one per thread; 1: all threads work on one micro-batch after another */
  int64_t items;
} segment;

/* How the steps of one run use a storage. */
enum { WRITTEN = 1, NOT_APART = 2 };

typedef struct batching {
  lowering *l;
  bool close; /* micro-batches shall stay near a core, not only in the last cache */
  division *steps;
  uint32_t *run_of; /* by storage: the run described by `uses` */
  unsigned char *uses;
  uint32_t run;
  segment *segments;
  uint32_t count;
  uint32_t *local;       /* by storage: the storage of one micro-batch, or IR_NONE … */
  unsigned char *inside; /* … if only steps of the segment use it */
  descriptor_copy *copy;
} batching;

compute_status division_out_of_memory(const lowering *l) {
  return error_set(l->plan->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_compile",
                   "not enough memory for the slices or bands of the plan");
}

uint64_t step_cache_bytes(const lowering *l, const build_step *s) {
  const compute_device_info *device = &l->plan->device[s->device]->info;
  return (device->capabilities & COMPUTE_CAPABILITY_HOST) != 0 ? device->cache_bytes : 0;
}

static uint64_t micro_batch_bytes(const batching *m, const build_step *s) {
  const uint64_t threads = m->l->plan->device[s->device]->info.compute_units;
  const uint64_t share = step_cache_bytes(m->l, s) / MICRO_BATCH_SHARE;
  const uint64_t least = threads * (uint64_t)(MICRO_BATCH_KIB << 10);
  const uint64_t close = threads * (uint64_t)(CLOSE_KIB << 10);
  const uint64_t bytes = share > least ? share : least;
  return m->close && close < bytes ? close : bytes;
}

static bool is_large(const batching *m, const build_step *s, uint64_t bytes) {
  return step_cache_bytes(m->l, s) > 0 && bytes > LARGE * micro_batch_bytes(m, s);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

bool operand_lies_apart(const compute_kernel_descriptor *d, uint32_t operand, int32_t dimension,
                        uint64_t offset, uint64_t bytes) {
  const compute_operand *o =
      operand < d->input_count ? &d->inputs[operand] : &d->outputs[operand - d->input_count];
  const int64_t size = (int64_t)compute_dtype_size(o->dtype), step = o->stride[dimension];
  int64_t sizes[COMPUTE_MAX_RANK], end = 1;
  kernel_operand_sizes(d, operand, sizes);
  if (step <= 0 || (uint64_t)(step * sizes[dimension] * size) != bytes) return false;
  for (int32_t i = 0; i < d->rank; i++) {
    if (o->stride[i] < 0) return false;
    if (i != dimension) end += (sizes[i] - 1) * o->stride[i];
  }
  return offset <= bytes && (int64_t)offset + end * size <= step * size;
}

static void divide_operand(const lowering *l, const build_step *s,
                           const compute_kernel_descriptor *d, uint32_t k, division *how) {
  const bool input = k < d->input_count;
  const compute_operand *o = input ? &d->inputs[k] : &d->outputs[k - d->input_count];
  const uint64_t bytes = l->storages[s->operand[k].storage].bytes;
  if (o->stride[0] == 0 || (input && !kernel_input_splits(d, k))) {
    how->whole += bytes;
    return;
  }
  how->moving |= UINT32_C(1) << k;
  how->divided += bytes;
  how->stride[k] = o->stride[0] * (int64_t)compute_dtype_size(o->dtype);
  if (operand_lies_apart(d, k, 0, s->operand[k].offset, bytes)) how->apart |= UINT32_C(1) << k;
}

/* Steps that write parameters stay whole: either the whole step runs, or none of it. */
static bool writes_parameter(const lowering *l, const build_step *s) {
  for (uint32_t k = s->input_count; k < s->operand_count; k++)
    if (l->storages[s->operand[k].storage].node != IR_NONE) return true;
  return false;
}

bool step_is_divisible(const lowering *l, const build_step *s, descriptor_copy *copy) {
  if (!s->kernel || step_cache_bytes(l, s) == 0 || s->checked != IR_NONE || writes_parameter(l, s))
    return false;
  kernel_key_read(s->kernel->key, copy);
  return true;
}

static void divide_step(const batching *m, const build_step *s, division *how) {
  const lowering *l = m->l;
  const compute_kernel_descriptor *d = &m->copy->descriptor;
  if (!step_is_divisible(l, s, m->copy) || !kernel_splits(d) || d->size[0] < 2) return;
  for (uint32_t k = 0; k < s->operand_count; k++) divide_operand(l, s, d, k, how);
  how->rows = d->size[0];
}

/* ---- Runs of steps --------------------------------------------------------------------------- */

/* True if step i can join the run: all steps use each value written in the run in separate ranges.
 * No micro-batch then sees the data of another. */
static bool joins(batching *m, uint32_t i) {
  const build_step *s = &m->l->steps[i];
  const division *how = &m->steps[i];
  for (uint32_t k = 0; k < s->operand_count; k++) {
    const uint32_t id = s->operand[k].storage;
    if (m->run_of[id] != m->run) m->uses[id] = 0;
    m->run_of[id] = m->run;
    if (k >= s->input_count) m->uses[id] |= WRITTEN;
    if ((how->apart >> k & 1) == 0) m->uses[id] |= NOT_APART;
    if (m->uses[id] == (WRITTEN | NOT_APART)) return false;
  }
  return true;
}

/* Returns the step after the longest run from `first` on, and sets the number of its items. */
static uint32_t find_run(batching *m, uint32_t first, int64_t *items) {
  uint32_t i = first;
  m->run++;
  *items = 0;
  for (; i < m->l->step_count; i++) {
    const int64_t rows = m->steps[i].rows;
    if (rows == 0 || m->l->steps[i].device != m->l->steps[first].device) break;
    const bool fewer = *items == 0 || *items % rows == 0;
    if (!fewer && rows % *items != 0) break;
    if (!joins(m, i)) break;
    if (fewer) *items = rows;
  }
  return i;
}

static bool rereads_much(const batching *m, uint32_t i) {
  return m->steps[i].whole > step_cache_bytes(m->l, &m->l->steps[i]) / REREAD_SHARE;
}

/* Returns the bytes that stay in the caches: values used only by steps of the segment. */
static uint64_t kept_bytes(const batching *m, const segment *g) {
  const lowering *l = m->l;
  uint64_t bytes = 0;
  for (uint32_t i = g->first; i <= g->last; i++) {
    const build_step *s = &l->steps[i];
    for (uint32_t k = s->input_count; k < s->operand_count; k++) {
      const storage *to = &l->storages[s->operand[k].storage];
      if (to->slot == IR_NONE && to->first == i && to->last <= g->last) bytes += to->bytes;
    }
  }
  return bytes;
}

/* True if the steps are limited by memory, and enough values would stay in the caches. */
static bool pays(const batching *m, const segment *g) {
  uint64_t flops = 0, bytes = 0;
  for (uint32_t i = g->first; i <= g->last; i++) {
    flops += m->l->steps[i].flops;
    bytes += m->steps[i].divided;
  }
  return flops / (m->close ? CLOSE_FLOPS : MOST_FLOPS) <= bytes &&
         is_large(m, &m->l->steps[g->first], kept_bytes(m, g));
}

/* The bytes per item of the largest step. */
static uint64_t item_bytes(const batching *m, const segment *g) {
  uint64_t most = 0;
  for (uint32_t i = g->first; i <= g->last; i++)
    if (m->steps[i].divided > most) most = m->steps[i].divided;
  return most / (uint64_t)g->items;
}

/* Returns the number of threads if the items keep all threads busy nearly all the time and one item
 * per thread fits the caches; otherwise 1. */
static uint32_t count_arenas(const batching *m, const segment *g) {
  const lowering *l = m->l;
  const compute_context *context = l->plan->context;
  const build_step *s = &l->steps[g->first];
  if (l->plan->device[s->device] != context->cpu) return 1;
  const int64_t threads = thread_pool_count(context->threads);
  if ((uint64_t)threads * item_bytes(m, g) > step_cache_bytes(l, s)) return 1;
  const int64_t rounds = (g->items + threads - 1) / threads;
  return g->items * BUSY_OF >= rounds * threads * BUSY ? (uint32_t)threads : 1;
}

/* Returns enough micro-batches that the operands of a step fit, unless that makes too many steps.
 * With several threads, it is a multiple of their number. */
static uint32_t count_micro_batches(const batching *m, const segment *g) {
  const uint64_t room = micro_batch_bytes(m, &m->l->steps[g->first]) / g->arenas;
  const uint64_t item = item_bytes(m, g), all = (uint64_t)g->items;
  const uint64_t items = item > 0 && item < room ? room / item : 1;
  const uint64_t limit = MOST_STEPS / (g->last - g->first + 1);
  const uint64_t even = ((all + items - 1) / items + g->arenas - 1) / g->arenas * g->arenas;
  const uint64_t count = even < all ? even : all;
  return (uint32_t)(count <= limit ? count : limit / g->arenas * g->arenas);
}

/* Adds a segment for the steps after segment g, so that threads keep their items. It ends at `end`,
 * or before a step that rereads much beside the items of a micro-batch. Its micro-batches are
 * larger, so the reread data serve more items. */
static void go_on(batching *m, const segment *g, uint32_t end) {
  const uint64_t most = (uint64_t)g->arenas * PER_THREAD, items = (uint64_t)g->items;
  const uint64_t count = most < items ? most : items;
  segment next = {.first = g->last + 1,
                  .last = g->last,
                  .micro_batches = (uint32_t)count,
                  .arenas = g->arenas,
                  .items = g->items};
  for (uint32_t i = next.first; i < end && (i + 1 - next.first) * count <= MOST_STEPS; i++) {
    if (m->steps[i].whole > REREAD_PART * (m->steps[i].divided / count)) break;
    next.last = i;
  }
  if (next.last > next.first) m->segments[m->count++] = next;
}

/* Finds the segments of a run: from a large step to the last large step before one that rereads
 * much. */
static void choose(batching *m, uint32_t first, uint32_t end, int64_t items) {
  for (uint32_t i = first; i < end; i++) {
    segment g = {.first = IR_NONE, .items = items};
    for (; i < end && !rereads_much(m, i); i++) {
      if (!is_large(m, &m->l->steps[i], m->steps[i].divided)) continue;
      if (g.first == IR_NONE) g.first = i;
      g.last = i;
    }
    if (g.first == IR_NONE || !pays(m, &g)) continue;
    g.arenas = count_arenas(m, &g);
    if (m->close && g.arenas == 1) continue;
    g.micro_batches = count_micro_batches(m, &g);
    if (g.micro_batches == 0) { /* one micro-batch per thread would exceed MOST_STEPS */
      if (m->close) continue;
      g.arenas = 1;
      g.micro_batches = count_micro_batches(m, &g);
    }
    if (g.micro_batches < 2) continue;
    m->segments[m->count++] = g;
    if (g.arenas > 1) go_on(m, &g, i);
  }
}

static void find_segments(batching *m) {
  for (uint32_t first = 0; first < m->l->step_count;) {
    int64_t items;
    const uint32_t end = find_run(m, first, &items);
    choose(m, first, end, items);
    first = end > first ? end : first + 1;
  }
}

/* ---- Cutting --------------------------------------------------------------------------------- */

/* Marks the storages that only the segment's steps use. */
static void mark_inside(batching *m, const segment *g, const build_step *steps) {
  for (uint32_t i = g->first; i <= g->last; i++)
    for (uint32_t k = 0; k < steps[i].operand_count; k++) {
      const storage *s = &m->l->storages[steps[i].operand[k].storage];
      m->inside[steps[i].operand[k].storage] =
          s->slot == IR_NONE && s->first >= g->first && s->last <= g->last;
    }
}

/* Sets the operands of a micro-batch. Storages inside the segment get a separate storage of one
 * micro-batch, shared by all of them and large enough for each. Others get the range of the
 * micro-batch. */
static bool cut_operands(batching *m, const segment *g, const division *how, uint32_t region,
                         build_step *s) {
  lowering *l = m->l;
  for (uint32_t k = 0; k < s->operand_count; k++) {
    const uint32_t id = s->operand[k].storage;
    if ((how->moving >> k & 1) == 0) continue;
    if (!m->inside[id]) {
      s->operand[k].offset += (uint64_t)(how->stride[k] * (how->rows / g->items) * s->first_item);
      continue;
    }
    if (m->local[id] == IR_NONE) {
      const int64_t most = (g->items + g->micro_batches - 1) / g->micro_batches;
      const uint64_t bytes = l->storages[id].bytes / (uint64_t)g->items * (uint64_t)most;
      const uint32_t made = storage_add(l, IR_NONE, s->device, bytes);
      if (made == IR_NONE) return false;
      l->storages[made].region = region;
      m->local[id] = made;
    }
    s->operand[k].storage = m->local[id];
  }
  return true;
}

compute_status step_set_kernel(lowering *l, const compute_kernel_descriptor *d, build_step *s) {
  s->kernel = NULL;
  const compute_status status =
      kernel_cache_get(l->plan->device[s->device]->kernels, d, &s->kernel);
  if (status != COMPUTE_OK) return status;
  return step_describe(l, d, s) ? COMPUTE_OK : division_out_of_memory(l);
}

/* Sets the kernel for the items of a micro-batch. */
static compute_status cut_kernel(batching *m, const segment *g, const division *how,
                                 build_step *s) {
  lowering *l = m->l;
  compute_kernel_descriptor *d = &m->copy->descriptor;
  kernel_key_read(s->kernel->key, m->copy);
  kernel_resize(d, how->rows / g->items * s->items, &m->copy->attributes);
  return step_set_kernel(l, d, s);
}

/* Returns items · index / micro_batches; the product itself may overflow. */
static int64_t first_of(const segment *g, uint32_t index) {
  return g->items / g->micro_batches * index +
         g->items % g->micro_batches * index / g->micro_batches;
}

/* Appends the steps of a micro-batch. `like` is the first step of an earlier micro-batch of the
 * same size, or IR_NONE. */
static compute_status cut_micro_batch(batching *m, const segment *g, const build_step *steps,
                                      uint32_t index, uint32_t like, uint32_t region) {
  lowering *l = m->l;
  const int64_t begin = first_of(g, index), end = first_of(g, index + 1);
  compute_status status = COMPUTE_OK;
  for (uint32_t i = g->first; status == COMPUTE_OK && i <= g->last; i++) {
    const division *how = &m->steps[i];
    build_step *s = &l->steps[l->step_count];
    *s = steps[i];
    s->micro_batch = index;
    s->micro_batches = g->micro_batches;
    s->first_item = begin;
    s->items = end - begin;
    s->of_items = g->items;
    s->side_by_side = g->arenas > 1;
    if (like != IR_NONE && (s->constant_inputs & how->moving) == 0) s->like = like + i - g->first;
    status = cut_kernel(m, g, how, s);
    if (s->kernel) l->step_count++;
    if (status == COMPUTE_OK && !cut_operands(m, g, how, region, s))
      status = division_out_of_memory(l);
  }
  return status;
}

uint32_t storage_add_region(lowering *l, uint32_t device, uint32_t thread_arenas) {
  const uint32_t region = storage_add(l, IR_NONE, device, 0);
  if (region != IR_NONE) l->storages[region].thread_arenas = thread_arenas;
  if (thread_arenas > l->plan->thread_arenas) l->plan->thread_arenas = thread_arenas;
  return region;
}

static compute_status cut_segment(batching *m, const segment *g, const build_step *steps) {
  lowering *l = m->l;
  uint32_t like_of[2] = {IR_NONE, IR_NONE}; /* of the smaller and the larger micro-batches */
  const uint32_t region = storage_add_region(l, steps[g->first].device, g->arenas);
  compute_status status = region != IR_NONE ? COMPUTE_OK : division_out_of_memory(l);
  mark_inside(m, g, steps);
  for (uint32_t k = 0; status == COMPUTE_OK && k < g->micro_batches; k++) {
    const int64_t items = first_of(g, k + 1) - first_of(g, k);
    uint32_t *like = &like_of[items > g->items / g->micro_batches];
    const uint32_t first = l->step_count;
    status = cut_micro_batch(m, g, steps, k, *like, region);
    if (*like == IR_NONE) *like = first;
  }
  for (uint32_t i = g->first; i <= g->last; i++)
    kernel_cache_return(l->plan->device[steps[i].device]->kernels, steps[i].kernel);
  return status;
}

compute_status steps_begin(lowering *l, uint32_t capacity) {
  build_step *made = scratch_take(l->memory, capacity, sizeof *made);
  if (!made) return division_out_of_memory(l);
  l->steps = made;
  l->step_capacity = capacity;
  l->step_count = 0;
  return COMPUTE_OK;
}

/* Replaces the steps of all segments. On every path, each kernel belongs to exactly one step. */
static compute_status cut_all(batching *m) {
  lowering *l = m->l;
  const build_step *steps = l->steps;
  const uint32_t count = l->step_count;
  uint32_t total = count;
  for (uint32_t i = 0; i < m->count; i++)
    total += (m->segments[i].last - m->segments[i].first + 1) * m->segments[i].micro_batches;
  compute_status status = steps_begin(l, total);
  if (status != COMPUTE_OK) return status;
  const segment *next = m->segments, *end = m->segments + m->count;
  for (uint32_t i = 0; i < count; i++) {
    if (status == COMPUTE_OK && next < end && next->first == i) {
      status = cut_segment(m, next, steps);
      i = next++->last;
    } else {
      l->steps[l->step_count++] = steps[i];
    }
  }
  return status;
}

/* Values in a per-thread arena have the lifetimes of the first micro-batch. */
void storages_find_lifetimes(lowering *l) {
  for (uint32_t i = 0; i < l->storage_count; i++) l->storages[i].first = IR_NONE;
  for (uint32_t i = 0; i < l->step_count; i++)
    for (uint32_t k = 0; k < l->steps[i].operand_count; k++) {
      const uint32_t id = l->steps[i].operand[k].storage, region = l->storages[id].region;
      if (region != IR_NONE) storage_touch(l, region, i);
      if (region == IR_NONE || l->steps[i].micro_batch == 0) storage_touch(l, id, i);
    }
}

/* Returns false for steps that were divided before: a second division would not fit the
 * segments. */
static bool has_large_step(const batching *m) {
  bool found = false;
  for (uint32_t i = 0; i < m->l->step_count; i++) {
    const build_step *s = &m->l->steps[i];
    if (s->micro_batches > 1) return false;
    found = found || is_large(m, s, s->bytes_read + s->bytes_written);
  }
  return found;
}

/* If no segment exceeds the caches, micro-batches per thread may still keep values near the
 * cores. */
compute_status micro_batches_cut(lowering *l) {
  batching m = {.l = l, .close = true};
  if (!has_large_step(&m)) return COMPUTE_OK;
  m.steps = scratch_take(l->memory, l->step_count, sizeof *m.steps);
  m.segments = scratch_take(l->memory, l->step_count, sizeof *m.segments);
  m.run_of = scratch_take(l->memory, l->storage_count, sizeof *m.run_of);
  m.uses = scratch_take(l->memory, l->storage_count, 1);
  m.inside = scratch_take(l->memory, l->storage_count, 1);
  m.local = scratch_take(l->memory, l->storage_count, sizeof *m.local);
  m.copy = scratch_take(l->memory, 1, sizeof *m.copy);
  if (!m.steps || !m.segments || !m.run_of || !m.uses || !m.inside || !m.local || !m.copy)
    return division_out_of_memory(l);
  memset(m.local, 0xff, sizeof *m.local * l->storage_count);
  for (uint32_t i = 0; i < l->step_count; i++) divide_step(&m, &l->steps[i], &m.steps[i]);
  m.close = false;
  find_segments(&m);
  m.close = m.count == 0;
  if (m.close) find_segments(&m);
  if (m.count == 0) return COMPUTE_OK;
  const compute_status status = cut_all(&m);
  storages_find_lifetimes(l);
  return status;
}
