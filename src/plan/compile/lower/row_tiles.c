/* SPDX-License-Identifier: MIT */
/* Row tiles with halo ("bands" in compute_explain): each thread computes some rows of one image
 * through several steps.
 *
 * One image has no items for micro-batches (micro_batches.c). Its threads would wait for each other
 * at every step and fetch data from each other's caches. So a run of convolutions is repeated for
 * each tile of rows. The tiles run concurrently, and values used only inside the run get memory per
 * thread.
 *
 * Windows reach beyond the rows of a tile. These halo rows are computed for both neighbouring
 * tiles. Runs are so short that these rows are few. */
#include "core/device/device.h"
#include "core/type/dtype.h"
#include "plan/compile/lower/micro_batches.h"

enum {
  ROWS = 2,             /* the dimension of rows in the space of a convolution */
  LENGTH = 6,           /* limit on the steps of a run */
  TILES_PER_THREAD = 2, /* row tiles per thread, so that a late thread gets help; otherwise one */
  LEAST_RESULTS = 64,   /* per plane of a tile; smaller ones may use another algorithm */
  MOST_FLOPS = 40,      /* per byte; with more, computation hides the slow memory */
  EXTRA_SHARE = 5       /* limit on the extra work, as a fraction, including uneven tiles */
};

/* A step and the way to divide it. */
typedef struct division {
  int64_t rows;                       /* of its results; 0: it cannot be divided */
  int64_t width;                      /* results in a row */
  kernel_window reads;                /* the window on input 0 */
  uint32_t moving;                    /* operands (bits) with a separate part for each row, … */
  uint32_t apart;                     /* … and those with consecutive, separate rows */
  uint64_t row[COMPUTE_MAX_OPERANDS]; /* of moving operands: bytes from row to row */
  uint64_t divided, whole;            /* bytes of moving operands, and of the others */
} division;

/* Steps first … last that run one row tile at a time. */
typedef struct tile_run {
  uint32_t first, last, tiles;
} tile_run;

typedef struct tiling {
  lowering *l;
  const build_step *from; /* the undivided steps */
  uint32_t from_count;
  division *steps;
  tile_run *runs;
  uint32_t count;
  uint32_t *local; /* by storage used only inside a run: its rows in the per-thread arena */
  descriptor_copy *copy;
} tiling;

/* ---- Steps ----------------------------------------------------------------------------------- */

static void divide_operand(const build_step *s, const compute_kernel_descriptor *d, uint32_t k,
                           uint64_t bytes, division *how) {
  const bool input = k < d->input_count;
  const compute_operand *o = input ? &d->inputs[k] : &d->outputs[k - d->input_count];
  if (o->stride[ROWS] == 0 || (input && !kernel_input_splits(d, k))) {
    how->whole += bytes;
    return;
  }
  how->moving |= UINT32_C(1) << k;
  how->divided += bytes;
  how->row[k] = (uint64_t)o->stride[ROWS] * compute_dtype_size(o->dtype);
  if (operand_lies_apart(d, k, ROWS, s->operand[k].offset, bytes)) how->apart |= UINT32_C(1) << k;
}

static void divide_step(const tiling *t, const build_step *s, division *how) {
  const lowering *l = t->l;
  const compute_kernel_descriptor *d = &t->copy->descriptor;
  if (s->micro_batches > 1 || s->kind != COMPUTE_KERNEL_CONV ||
      l->plan->device[s->device] != l->plan->context->cpu || !step_is_divisible(l, s, t->copy) ||
      d->size[0] != 1 || !kernel_splits_rows(d, &how->reads))
    return;
  uint32_t own = 1; /* data and results; a crop of planes would change the products */
  for (uint32_t k = 0; k < s->operand_count; k++) {
    divide_operand(s, d, k, l->storages[s->operand[k].storage].bytes, how);
    if (k >= s->input_count) own |= UINT32_C(1) << k;
  }
  if ((how->apart & own) != own) return;
  how->rows = d->size[ROWS];
  how->width = d->size[ROWS + 1];
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Returns the step of the run (from `first` on) that writes input k of step i, or IR_NONE. */
static uint32_t find_writer(const tiling *t, uint32_t first, uint32_t i, uint32_t k) {
  const uint32_t id = t->from[i].operand[k].storage, at = t->l->storages[id].first;
  if (at < first || at >= i) return IR_NONE;
  const build_step *s = &t->from[at];
  for (uint32_t o = s->input_count; o < s->operand_count; o++)
    if (s->operand[o].storage == id) return at;
  return IR_NONE;
}

/* Returns the rows of input k that the rows of results need. */
static kernel_rows rows_of_input(const tiling *t, uint32_t i, uint32_t k, kernel_rows results) {
  return k == 0 ? kernel_rows_read(&t->steps[i].reads, results) : results;
}

/* Computes the rows of each step's results that a tile needs, including the halo. The index is the
 * step's position in the run. */
static void find_rows(const tiling *t, const tile_run *run, uint32_t tile,
                      kernel_rows rows[LENGTH]) {
  const int64_t all = t->steps[run->last].rows, tiles = run->tiles;
  for (uint32_t i = run->first; i < run->last; i++)
    rows[i - run->first] = (kernel_rows){INT64_MAX, 0};
  rows[run->last - run->first] = (kernel_rows){all * tile / tiles, all * (tile + 1) / tiles};
  for (uint32_t i = run->last; i > run->first; i--)
    for (uint32_t k = 0; k < t->from[i].input_count; k++) {
      const uint32_t writer = find_writer(t, run->first, i, k);
      if (writer == IR_NONE) continue;
      const kernel_rows read = rows_of_input(t, i, k, rows[i - run->first]);
      kernel_rows *all_read = &rows[writer - run->first];
      if (read.first < all_read->first) all_read->first = read.first;
      if (read.end > all_read->end) all_read->end = read.end;
    }
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* True if step i, not the last one, writes only for steps of the run. */
static bool stays_inside(const tiling *t, const tile_run *run, uint32_t i) {
  const build_step *s = &t->from[i];
  for (uint32_t k = s->input_count; k < s->operand_count; k++) {
    const storage *to = &t->l->storages[s->operand[k].storage];
    if (to->slot != IR_NONE || to->first != i || to->last == i || to->last > run->last)
      return false;
  }
  return true;
}

/* True if step i reads the run's values row by row, and reads nothing that the last step writes.
 * Another tile may already be complete. */
static bool reads_rows(const tiling *t, const tile_run *run, uint32_t i) {
  const build_step *s = &t->from[i], *last = &t->from[run->last];
  for (uint32_t k = 0; k < s->input_count; k++) {
    if (find_writer(t, run->first, i, k) != IR_NONE && (t->steps[i].apart >> k & 1) == 0)
      return false;
    for (uint32_t o = last->input_count; o < last->operand_count; o++)
      if (last->operand[o].storage == s->operand[k].storage) return false;
  }
  return true;
}

static bool is_possible(const tiling *t, const tile_run *run) {
  for (uint32_t i = run->first; i <= run->last; i++)
    if (!reads_rows(t, run, i) || (i < run->last && !stays_inside(t, run, i))) return false;
  return true;
}

/* True if the steps are limited by memory: more bytes of values would stay with a thread than each
 * tile reads of weights. */
static bool pays(const tiling *t, const tile_run *run) {
  uint64_t flops = 0, divided = 0, whole = 0, kept = 0;
  for (uint32_t i = run->first; i <= run->last; i++) {
    const build_step *s = &t->from[i];
    flops += s->flops;
    divided += t->steps[i].divided;
    whole += t->steps[i].whole;
    for (uint32_t k = s->input_count; i < run->last && k < s->operand_count; k++)
      kept += t->l->storages[s->operand[k].storage].bytes;
  }
  return whole <= kept && flops / MOST_FLOPS <= divided;
}

/* Returns the operations of a tile; 0 if it is too small. */
static double count_flops(const tiling *t, const tile_run *run, uint32_t tile) {
  kernel_rows rows[LENGTH];
  double flops = 0;
  find_rows(t, run, tile, rows);
  for (uint32_t i = run->first; i <= run->last; i++) {
    const kernel_rows *r = &rows[i - run->first];
    const kernel_rows reads = kernel_rows_read(&t->steps[i].reads, *r);
    const int64_t count = r->end - r->first;
    if (count * t->steps[i].width < LEAST_RESULTS || reads.first >= reads.end) return 0;
    flops += (double)t->from[i].flops * (double)count / (double)t->steps[i].rows;
  }
  return flops;
}

/* True if the halo adds little work, and the tiles have about equal work. */
static bool is_even(const tiling *t, const tile_run *run) {
  double flops = 0, most = 0;
  for (uint32_t i = run->first; i <= run->last; i++) flops += (double)t->from[i].flops;
  for (uint32_t tile = 0; tile < run->tiles; tile++) {
    const double here = count_flops(t, run, tile);
    if (here == 0) return false;
    if (here > most) most = here;
  }
  return most * run->tiles <= flops * (1 + 1.0 / EXTRA_SHARE);
}

/* Finds the longest run from `first` on. */
static bool find_run(const tiling *t, uint32_t first, tile_run *found) {
  const uint32_t threads = (uint32_t)thread_pool_count(t->l->plan->context->threads);
  tile_run run = {.first = first, .last = first};
  found->tiles = 0;
  for (; run.last < t->from_count && run.last < first + LENGTH; run.last++) {
    if (t->steps[run.last].rows == 0) break;
    if (run.last == first || !is_possible(t, &run) || !pays(t, &run)) continue;
    run.tiles = TILES_PER_THREAD * threads;
    if (!is_even(t, &run)) run.tiles = threads;
    if (is_even(t, &run)) *found = run;
  }
  return found->tiles > 0;
}

static void find_runs(tiling *t) {
  for (uint32_t i = 0; i < t->from_count; i++) divide_step(t, &t->from[i], &t->steps[i]);
  for (uint32_t i = 0; i < t->from_count; i++)
    if (find_run(t, i, &t->runs[t->count])) i = t->runs[t->count++].last;
}

/* ---- Cutting --------------------------------------------------------------------------------- */

/* A tile that is being cut. */
typedef struct cutting {
  const tile_run *run;
  uint32_t tile, begin; /* the run's first new step */
  kernel_rows rows[LENGTH];
} cutting;

/* Adds per-thread memory for the values used only inside the run, with enough rows for each
 * tile. */
static compute_status add_locals(tiling *t, const tile_run *run, uint32_t region) {
  int64_t most[LENGTH] = {0};
  for (uint32_t tile = 0; tile < run->tiles; tile++) {
    kernel_rows rows[LENGTH];
    find_rows(t, run, tile, rows);
    for (uint32_t i = 0; i < run->last - run->first; i++)
      if (rows[i].end - rows[i].first > most[i]) most[i] = rows[i].end - rows[i].first;
  }
  for (uint32_t i = run->first; i < run->last; i++) {
    const build_step *s = &t->from[i];
    for (uint32_t k = s->input_count; k < s->operand_count; k++) {
      const uint64_t bytes = (uint64_t)most[i - run->first] * t->steps[i].row[k];
      const uint32_t made = storage_add(t->l, IR_NONE, s->device, bytes);
      if (made == IR_NONE) return division_out_of_memory(t->l);
      t->l->storages[made].region = region;
      t->local[s->operand[k].storage] = made;
    }
  }
  return COMPUTE_OK;
}

/* Sets the operands of step i to the tile's rows, in the per-thread arena or in the image. */
static void cut_operands(const tiling *t, const cutting *c, uint32_t i, build_step *s) {
  const uint32_t first = c->run->first;
  const division *how = &t->steps[i];
  for (uint32_t k = 0; k < s->operand_count; k++) {
    if ((how->moving >> k & 1) == 0) continue;
    int64_t row = rows_of_input(t, i, k, c->rows[i - first]).first;
    const uint32_t writer = k < s->input_count ? find_writer(t, first, i, k) : i;
    if (writer != IR_NONE && writer != c->run->last) {
      row -= c->rows[writer - first].first;
      s->operand[k].storage = t->local[s->operand[k].storage];
    }
    s->operand[k].offset += (uint64_t)row * how->row[k];
  }
}

static bool has_same_constants(const build_step *a, const build_step *b) {
  if (a->kernel != b->kernel) return false;
  for (uint32_t k = 0; a->constant_inputs >> k != 0; k++)
    if ((a->constant_inputs >> k & 1) != 0 && (a->operand[k].storage != b->operand[k].storage ||
                                               a->operand[k].offset != b->operand[k].offset))
      return false;
  return true;
}

/* Returns an earlier step of the run's tiles with the same kernel and constants, or IR_NONE. */
static uint32_t find_like(const lowering *l, const cutting *c, const build_step *s) {
  for (uint32_t i = c->begin; i < l->step_count; i++)
    if (l->steps[i].like == IR_NONE && has_same_constants(&l->steps[i], s)) return i;
  return IR_NONE;
}

static compute_status cut_step(tiling *t, const cutting *c, uint32_t i) {
  lowering *l = t->l;
  build_step *s = &l->steps[l->step_count];
  *s = t->from[i];
  s->micro_batch = c->tile;
  s->micro_batches = c->run->tiles;
  s->of_items = t->steps[c->run->last].rows;
  s->row_tile = s->side_by_side = true;
  s->first_in_place = s->input_count; /* no reuse in place: values have different halos */
  kernel_key_read(s->kernel->key, t->copy);
  kernel_crop(&t->copy->descriptor, c->rows[i - c->run->first], &t->copy->attributes);
  const compute_status status = step_set_kernel(l, &t->copy->descriptor, s);
  if (!s->kernel) return status;
  cut_operands(t, c, i, s);
  s->like = find_like(l, c, s);
  l->step_count++;
  return status;
}

static compute_status cut_run(tiling *t, const tile_run *run) {
  lowering *l = t->l;
  cutting c = {.run = run, .begin = l->step_count};
  const uint32_t threads = (uint32_t)thread_pool_count(l->plan->context->threads);
  const uint32_t region = storage_add_region(l, t->from[run->first].device, threads);
  compute_status status = region != IR_NONE ? COMPUTE_OK : division_out_of_memory(l);
  if (status == COMPUTE_OK) status = add_locals(t, run, region);
  for (; status == COMPUTE_OK && c.tile < run->tiles; c.tile++) {
    find_rows(t, run, c.tile, c.rows);
    for (uint32_t i = run->first; status == COMPUTE_OK && i <= run->last; i++)
      status = cut_step(t, &c, i);
  }
  for (uint32_t i = run->first; i <= run->last; i++)
    kernel_cache_return(l->plan->device[t->from[i].device]->kernels, t->from[i].kernel);
  return status;
}

/* Replaces the steps of all runs. On every path, each kernel belongs to exactly one step. */
static compute_status cut_all(tiling *t) {
  lowering *l = t->l;
  uint32_t total = t->from_count;
  for (uint32_t i = 0; i < t->count; i++)
    total += (t->runs[i].last - t->runs[i].first + 1) * t->runs[i].tiles;
  compute_status status = steps_begin(l, total);
  if (status != COMPUTE_OK) return status;
  const tile_run *next = t->runs, *end = t->runs + t->count;
  for (uint32_t i = 0; i < t->from_count; i++) {
    if (status == COMPUTE_OK && next < end && next->first == i) {
      status = cut_run(t, next);
      i = next++->last;
    } else {
      build_step *s = &l->steps[l->step_count];
      *s = t->from[i];
      if (s->like != IR_NONE) s->like += l->step_count - i; /* of a micro-batch: shifted alike */
      l->step_count++;
    }
  }
  return status;
}

compute_status row_tiles_cut(lowering *l) {
  if (!l->plan->context->cpu || thread_pool_count(l->plan->context->threads) < 2) return COMPUTE_OK;
  tiling t = {.l = l, .from = l->steps, .from_count = l->step_count};
  t.steps = scratch_take(l->memory, l->step_count, sizeof *t.steps);
  t.runs = scratch_take(l->memory, (size_t)l->step_count + 1, sizeof *t.runs);
  t.local = scratch_take(l->memory, l->storage_count, sizeof *t.local);
  t.copy = scratch_take(l->memory, 1, sizeof *t.copy);
  if (!t.steps || !t.runs || !t.local || !t.copy) return division_out_of_memory(l);
  find_runs(&t);
  if (t.count == 0) return COMPUTE_OK;
  const compute_status status = cut_all(&t);
  storages_find_lifetimes(l);
  return status;
}
