/* SPDX-License-Identifier: MIT */
/* Micro-batches: a large batch runs a few items at a time through the steps whose values exceed the
 * caches.
 *
 * With a large batch, a layer of an image network writes more than the caches hold, and the next
 * layer reads it back from memory. So a run of steps that compute each item independently is
 * repeated for one micro-batch (slice) after another. A value used only inside the run needs memory
 * for one micro-batch. Each micro-batch reuses this memory, so it stays in the caches.
 *
 * If single micro-batches keep all threads busy, each thread computes a separate micro-batch in an
 * arena that only this thread writes (lane). Threads then do not wait for each other at every step.
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
  SLICE_SHARE = 4,   /* the operands of a micro-batch's step fill this part of the caches … */
  SLICE_KIB = 256,   /* … but at least so much per thread; less would not pay */
  LARGE = 2,         /* a step is large if its operands are so many times as much */
  REREAD_SHARE = 32, /* limit on the data that each micro-batch rereads, to stay cached */
  MOST_FLOPS = 100,  /* per byte; with more, computation hides the slow memory */
  CLOSE_KIB = 1024,  /* per thread: the operands of a micro-batch near its core … */
  CLOSE_FLOPS = 24,  /* … with at most so many operations per byte */
  BUSY = 7,          /* each thread takes its own micro-batch if the threads are busy … */
  BUSY_OF = 8,       /* … BUSY of BUSY_OF parts of the time */
  LANE_SLICES = 2,   /* per thread, of steps that are not large */
  REREAD_PART = 2,   /* limit for those: bytes reread, relative to the bytes of the items */
  MOST_STEPS = 4096  /* of a segment, over all micro-batches */
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
  uint32_t first, last, slices;
  uint32_t lanes; /* per-thread arenas; 1: all threads work on one micro-batch after another */
  int64_t items;
} segment;

/* How the steps of one run use a storage. */
enum { WRITTEN = 1, NOT_APART = 2 };

typedef struct slicer {
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
} slicer;

compute_status slices_out_of_memory(const lowering *l) {
  return error_set(l->plan->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_compile",
                   "not enough memory for the slices or bands of the plan");
}

uint64_t slices_cache_bytes(const lowering *l, const build_step *s) {
  const compute_device_info *device = &l->plan->device[s->device]->info;
  return (device->capabilities & COMPUTE_CAPABILITY_HOST) != 0 ? device->cache_bytes : 0;
}

static uint64_t slice_bytes(const slicer *z, const build_step *s) {
  const uint64_t threads = z->l->plan->device[s->device]->info.compute_units;
  const uint64_t share = slices_cache_bytes(z->l, s) / SLICE_SHARE;
  const uint64_t least = threads * (uint64_t)(SLICE_KIB << 10);
  const uint64_t close = threads * (uint64_t)(CLOSE_KIB << 10);
  const uint64_t bytes = share > least ? share : least;
  return z->close && close < bytes ? close : bytes;
}

static bool is_large(const slicer *z, const build_step *s, uint64_t bytes) {
  return slices_cache_bytes(z->l, s) > 0 && bytes > LARGE * slice_bytes(z, s);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

bool slices_lie_apart(const compute_kernel_descriptor *d, uint32_t operand, int32_t dimension,
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
  if (slices_lie_apart(d, k, 0, s->operand[k].offset, bytes)) how->apart |= UINT32_C(1) << k;
}

/* Steps that write parameters stay whole: either the whole step runs, or none of it. */
static bool writes_parameter(const lowering *l, const build_step *s) {
  for (uint32_t k = s->input_count; k < s->operand_count; k++)
    if (l->storages[s->operand[k].storage].node != IR_NONE) return true;
  return false;
}

bool slices_can_divide(const lowering *l, const build_step *s, descriptor_copy *copy) {
  if (!s->kernel || slices_cache_bytes(l, s) == 0 || s->checked != IR_NONE ||
      writes_parameter(l, s))
    return false;
  kernel_key_read(s->kernel->key, copy);
  return true;
}

static void divide_step(const slicer *z, const build_step *s, division *how) {
  const lowering *l = z->l;
  const compute_kernel_descriptor *d = &z->copy->descriptor;
  if (!slices_can_divide(l, s, z->copy) || !kernel_splits(d) || d->size[0] < 2) return;
  for (uint32_t k = 0; k < s->operand_count; k++) divide_operand(l, s, d, k, how);
  how->rows = d->size[0];
}

/* ---- Runs of steps --------------------------------------------------------------------------- */

/* True if step i can join the run: all steps use each value written in the run in separate ranges.
 * No micro-batch then sees the data of another. */
static bool joins(slicer *z, uint32_t i) {
  const build_step *s = &z->l->steps[i];
  const division *how = &z->steps[i];
  for (uint32_t k = 0; k < s->operand_count; k++) {
    const uint32_t id = s->operand[k].storage;
    if (z->run_of[id] != z->run) z->uses[id] = 0;
    z->run_of[id] = z->run;
    if (k >= s->input_count) z->uses[id] |= WRITTEN;
    if ((how->apart >> k & 1) == 0) z->uses[id] |= NOT_APART;
    if (z->uses[id] == (WRITTEN | NOT_APART)) return false;
  }
  return true;
}

/* Returns the step after the longest run from `first` on, and sets the number of its items. */
static uint32_t find_run(slicer *z, uint32_t first, int64_t *items) {
  uint32_t i = first;
  z->run++;
  *items = 0;
  for (; i < z->l->step_count; i++) {
    const int64_t rows = z->steps[i].rows;
    if (rows == 0 || z->l->steps[i].device != z->l->steps[first].device) break;
    const bool fewer = *items == 0 || *items % rows == 0;
    if (!fewer && rows % *items != 0) break;
    if (!joins(z, i)) break;
    if (fewer) *items = rows;
  }
  return i;
}

static bool rereads_much(const slicer *z, uint32_t i) {
  return z->steps[i].whole > slices_cache_bytes(z->l, &z->l->steps[i]) / REREAD_SHARE;
}

/* Returns the bytes that stay in the caches: values used only by steps of the segment. */
static uint64_t kept_bytes(const slicer *z, const segment *g) {
  const lowering *l = z->l;
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
static bool pays(const slicer *z, const segment *g) {
  uint64_t flops = 0, bytes = 0;
  for (uint32_t i = g->first; i <= g->last; i++) {
    flops += z->l->steps[i].flops;
    bytes += z->steps[i].divided;
  }
  return flops / (z->close ? CLOSE_FLOPS : MOST_FLOPS) <= bytes &&
         is_large(z, &z->l->steps[g->first], kept_bytes(z, g));
}

/* The bytes per item of the largest step. */
static uint64_t item_bytes(const slicer *z, const segment *g) {
  uint64_t most = 0;
  for (uint32_t i = g->first; i <= g->last; i++)
    if (z->steps[i].divided > most) most = z->steps[i].divided;
  return most / (uint64_t)g->items;
}

/* Returns the number of threads if the items keep all threads busy nearly all the time and one item
 * per thread fits the caches; otherwise 1. */
static uint32_t count_lanes(const slicer *z, const segment *g) {
  const lowering *l = z->l;
  const compute_context *context = l->plan->context;
  const build_step *s = &l->steps[g->first];
  if (l->plan->device[s->device] != context->cpu) return 1;
  const int64_t threads = thread_pool_count(context->threads);
  if ((uint64_t)threads * item_bytes(z, g) > slices_cache_bytes(l, s)) return 1;
  const int64_t turns = (g->items + threads - 1) / threads;
  return g->items * BUSY_OF >= turns * threads * BUSY ? (uint32_t)threads : 1;
}

/* Returns enough micro-batches that the operands of a step fit, unless that makes too many steps.
 * With several threads, it is a multiple of their number. */
static uint32_t count_slices(const slicer *z, const segment *g) {
  const uint64_t room = slice_bytes(z, &z->l->steps[g->first]) / g->lanes;
  const uint64_t item = item_bytes(z, g), all = (uint64_t)g->items;
  const uint64_t items = item > 0 && item < room ? room / item : 1;
  const uint64_t limit = MOST_STEPS / (g->last - g->first + 1);
  const uint64_t even = ((all + items - 1) / items + g->lanes - 1) / g->lanes * g->lanes;
  const uint64_t slices = even < all ? even : all;
  return (uint32_t)(slices <= limit ? slices : limit / g->lanes * g->lanes);
}

/* Adds a segment for the steps after segment g, so that threads keep their items. It ends at `end`,
 * or before a step that rereads much beside the items of a micro-batch. Its micro-batches are
 * larger, so the reread data serve more items. */
static void go_on(slicer *z, const segment *g, uint32_t end) {
  const uint64_t most = (uint64_t)g->lanes * LANE_SLICES, items = (uint64_t)g->items;
  const uint64_t slices = most < items ? most : items;
  segment next = {.first = g->last + 1,
                  .last = g->last,
                  .slices = (uint32_t)slices,
                  .lanes = g->lanes,
                  .items = g->items};
  for (uint32_t i = next.first; i < end && (i + 1 - next.first) * slices <= MOST_STEPS; i++) {
    if (z->steps[i].whole > REREAD_PART * (z->steps[i].divided / slices)) break;
    next.last = i;
  }
  if (next.last > next.first) z->segments[z->count++] = next;
}

/* Finds the segments of a run: from a large step to the last large step before one that rereads
 * much. */
static void choose(slicer *z, uint32_t first, uint32_t end, int64_t items) {
  for (uint32_t i = first; i < end; i++) {
    segment g = {.first = IR_NONE, .items = items};
    for (; i < end && !rereads_much(z, i); i++) {
      if (!is_large(z, &z->l->steps[i], z->steps[i].divided)) continue;
      if (g.first == IR_NONE) g.first = i;
      g.last = i;
    }
    if (g.first == IR_NONE || !pays(z, &g)) continue;
    g.lanes = count_lanes(z, &g);
    if (z->close && g.lanes == 1) continue;
    g.slices = count_slices(z, &g);
    if (g.slices == 0) { /* one micro-batch per thread would exceed MOST_STEPS */
      if (z->close) continue;
      g.lanes = 1;
      g.slices = count_slices(z, &g);
    }
    if (g.slices < 2) continue;
    z->segments[z->count++] = g;
    if (g.lanes > 1) go_on(z, &g, i);
  }
}

static void find_segments(slicer *z) {
  for (uint32_t first = 0; first < z->l->step_count;) {
    int64_t items;
    const uint32_t end = find_run(z, first, &items);
    choose(z, first, end, items);
    first = end > first ? end : first + 1;
  }
}

/* ---- Cutting --------------------------------------------------------------------------------- */

/* Marks the storages that only the segment's steps use. */
static void mark_inside(slicer *z, const segment *g, const build_step *steps) {
  for (uint32_t i = g->first; i <= g->last; i++)
    for (uint32_t k = 0; k < steps[i].operand_count; k++) {
      const storage *s = &z->l->storages[steps[i].operand[k].storage];
      z->inside[steps[i].operand[k].storage] =
          s->slot == IR_NONE && s->first >= g->first && s->last <= g->last;
    }
}

/* Sets the operands of a micro-batch. Storages inside the segment get a separate storage of one
 * micro-batch, shared by all of them and large enough for each. Others get the range of the
 * micro-batch. */
static bool cut_operands(slicer *z, const segment *g, const division *how, uint32_t region,
                         build_step *s) {
  lowering *l = z->l;
  for (uint32_t k = 0; k < s->operand_count; k++) {
    const uint32_t id = s->operand[k].storage;
    if ((how->moving >> k & 1) == 0) continue;
    if (!z->inside[id]) {
      s->operand[k].offset += (uint64_t)(how->stride[k] * (how->rows / g->items) * s->first_item);
      continue;
    }
    if (z->local[id] == IR_NONE) {
      const int64_t most = (g->items + g->slices - 1) / g->slices;
      const uint64_t bytes = l->storages[id].bytes / (uint64_t)g->items * (uint64_t)most;
      const uint32_t made = storage_add(l, IR_NONE, s->device, bytes);
      if (made == IR_NONE) return false;
      l->storages[made].region = region;
      z->local[id] = made;
    }
    s->operand[k].storage = z->local[id];
  }
  return true;
}

compute_status slices_set_kernel(lowering *l, const compute_kernel_descriptor *d, build_step *s) {
  s->kernel = NULL;
  const compute_status status =
      kernel_cache_get(l->plan->device[s->device]->kernels, d, &s->kernel);
  if (status != COMPUTE_OK) return status;
  return step_describe(l, d, s) ? COMPUTE_OK : slices_out_of_memory(l);
}

/* Sets the kernel for the items of a micro-batch. */
static compute_status cut_kernel(slicer *z, const segment *g, const division *how, build_step *s) {
  lowering *l = z->l;
  compute_kernel_descriptor *d = &z->copy->descriptor;
  kernel_key_read(s->kernel->key, z->copy);
  kernel_resize(d, how->rows / g->items * s->items, &z->copy->attributes);
  return slices_set_kernel(l, d, s);
}

/* Returns items · slice / slices; the product itself may overflow. */
static int64_t first_of(const segment *g, uint32_t slice) {
  return g->items / g->slices * slice + g->items % g->slices * slice / g->slices;
}

/* Appends the steps of a micro-batch. `twin` is the first step of an earlier micro-batch of the
 * same size, or IR_NONE. */
static compute_status cut_slice(slicer *z, const segment *g, const build_step *steps,
                                uint32_t slice, uint32_t twin, uint32_t region) {
  lowering *l = z->l;
  const int64_t begin = first_of(g, slice), end = first_of(g, slice + 1);
  compute_status status = COMPUTE_OK;
  for (uint32_t i = g->first; status == COMPUTE_OK && i <= g->last; i++) {
    const division *how = &z->steps[i];
    build_step *s = &l->steps[l->step_count];
    *s = steps[i];
    s->slice = slice;
    s->slices = g->slices;
    s->first_item = begin;
    s->items = end - begin;
    s->of_items = g->items;
    s->side_by_side = g->lanes > 1;
    if (twin != IR_NONE && (s->constant_inputs & how->moving) == 0) s->twin = twin + i - g->first;
    status = cut_kernel(z, g, how, s);
    if (s->kernel) l->step_count++;
    if (status == COMPUTE_OK && !cut_operands(z, g, how, region, s))
      status = slices_out_of_memory(l);
  }
  return status;
}

uint32_t slices_add_region(lowering *l, uint32_t device, uint32_t lanes) {
  const uint32_t region = storage_add(l, IR_NONE, device, 0);
  if (region != IR_NONE) l->storages[region].lanes = lanes;
  if (lanes > l->plan->lanes) l->plan->lanes = lanes;
  return region;
}

static compute_status cut_segment(slicer *z, const segment *g, const build_step *steps) {
  lowering *l = z->l;
  uint32_t twins[2] = {IR_NONE, IR_NONE}; /* of the smaller and the larger micro-batches */
  const uint32_t region = slices_add_region(l, steps[g->first].device, g->lanes);
  compute_status status = region != IR_NONE ? COMPUTE_OK : slices_out_of_memory(l);
  mark_inside(z, g, steps);
  for (uint32_t k = 0; status == COMPUTE_OK && k < g->slices; k++) {
    const int64_t items = first_of(g, k + 1) - first_of(g, k);
    uint32_t *twin = &twins[items > g->items / g->slices];
    const uint32_t first = l->step_count;
    status = cut_slice(z, g, steps, k, *twin, region);
    if (*twin == IR_NONE) *twin = first;
  }
  for (uint32_t i = g->first; i <= g->last; i++)
    kernel_cache_return(l->plan->device[steps[i].device]->kernels, steps[i].kernel);
  return status;
}

compute_status slices_begin_steps(lowering *l, uint32_t capacity) {
  build_step *made = scratch_take(l->memory, capacity, sizeof *made);
  if (!made) return slices_out_of_memory(l);
  l->steps = made;
  l->step_capacity = capacity;
  l->step_count = 0;
  return COMPUTE_OK;
}

/* Replaces the steps of all segments. On every path, each kernel belongs to exactly one step. */
static compute_status cut_all(slicer *z) {
  lowering *l = z->l;
  const build_step *steps = l->steps;
  const uint32_t count = l->step_count;
  uint32_t total = count;
  for (uint32_t i = 0; i < z->count; i++)
    total += (z->segments[i].last - z->segments[i].first + 1) * z->segments[i].slices;
  compute_status status = slices_begin_steps(l, total);
  if (status != COMPUTE_OK) return status;
  const segment *next = z->segments, *end = z->segments + z->count;
  for (uint32_t i = 0; i < count; i++) {
    if (status == COMPUTE_OK && next < end && next->first == i) {
      status = cut_segment(z, next, steps);
      i = next++->last;
    } else {
      l->steps[l->step_count++] = steps[i];
    }
  }
  return status;
}

/* Values in a per-thread arena have the lifetimes of the first micro-batch. */
void slices_find_lifetimes(lowering *l) {
  for (uint32_t i = 0; i < l->storage_count; i++) l->storages[i].first = IR_NONE;
  for (uint32_t i = 0; i < l->step_count; i++)
    for (uint32_t k = 0; k < l->steps[i].operand_count; k++) {
      const uint32_t id = l->steps[i].operand[k].storage, region = l->storages[id].region;
      if (region != IR_NONE) storage_touch(l, region, i);
      if (region == IR_NONE || l->steps[i].slice == 0) storage_touch(l, id, i);
    }
}

/* Returns false for steps that were divided before: a second division would not fit the
 * segments. */
static bool has_large_step(const slicer *z) {
  bool found = false;
  for (uint32_t i = 0; i < z->l->step_count; i++) {
    const build_step *s = &z->l->steps[i];
    if (s->slices > 1) return false;
    found = found || is_large(z, s, s->bytes_read + s->bytes_written);
  }
  return found;
}

/* If no segment exceeds the caches, micro-batches per thread may still keep values near the
 * cores. */
compute_status slices_cut(lowering *l) {
  slicer z = {.l = l, .close = true};
  if (!has_large_step(&z)) return COMPUTE_OK;
  z.steps = scratch_take(l->memory, l->step_count, sizeof *z.steps);
  z.segments = scratch_take(l->memory, l->step_count, sizeof *z.segments);
  z.run_of = scratch_take(l->memory, l->storage_count, sizeof *z.run_of);
  z.uses = scratch_take(l->memory, l->storage_count, 1);
  z.inside = scratch_take(l->memory, l->storage_count, 1);
  z.local = scratch_take(l->memory, l->storage_count, sizeof *z.local);
  z.copy = scratch_take(l->memory, 1, sizeof *z.copy);
  if (!z.steps || !z.segments || !z.run_of || !z.uses || !z.inside || !z.local || !z.copy)
    return slices_out_of_memory(l);
  memset(z.local, 0xff, sizeof *z.local * l->storage_count);
  for (uint32_t i = 0; i < l->step_count; i++) divide_step(&z, &l->steps[i], &z.steps[i]);
  z.close = false;
  find_segments(&z);
  z.close = z.count == 0;
  if (z.close) find_segments(&z);
  if (z.count == 0) return COMPUTE_OK;
  const compute_status status = cut_all(&z);
  slices_find_lifetimes(l);
  return status;
}
