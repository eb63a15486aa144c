/* SPDX-License-Identifier: MIT */
/* Row tiles with halo (bands): each thread computes some rows of one image through several steps.
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
  ROWS = 2,           /* the dimension of rows in the space of a convolution */
  LENGTH = 6,         /* limit on the steps of a run */
  BANDS = 2,          /* row tiles per thread, so that a late thread gets help; otherwise one */
  LEAST_RESULTS = 64, /* per plane of a tile; smaller ones may use another algorithm */
  MOST_FLOPS = 40,    /* per byte; with more, computation hides the slow memory */
  EXTRA_SHARE = 5     /* limit on the extra work, as a fraction, including uneven tiles */
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
typedef struct band_run {
  uint32_t first, last, bands;
} band_run;

typedef struct bander {
  lowering *l;
  const build_step *from; /* the undivided steps */
  uint32_t from_count;
  division *steps;
  band_run *runs;
  uint32_t count;
  uint32_t *local; /* by storage used only inside a run: its rows in the per-thread arena */
  descriptor_copy *copy;
} bander;

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
  if (slices_lie_apart(d, k, ROWS, s->operand[k].offset, bytes)) how->apart |= UINT32_C(1) << k;
}

static void divide_step(const bander *z, const build_step *s, division *how) {
  const lowering *l = z->l;
  const compute_kernel_descriptor *d = &z->copy->descriptor;
  if (s->slices > 1 || s->kind != COMPUTE_KERNEL_CONV ||
      l->plan->device[s->device] != l->plan->context->cpu || !slices_can_divide(l, s, z->copy) ||
      d->size[0] != 1 || !kernel_bands(d, &how->reads))
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
static uint32_t find_writer(const bander *z, uint32_t first, uint32_t i, uint32_t k) {
  const uint32_t id = z->from[i].operand[k].storage, at = z->l->storages[id].first;
  if (at < first || at >= i) return IR_NONE;
  const build_step *s = &z->from[at];
  for (uint32_t o = s->input_count; o < s->operand_count; o++)
    if (s->operand[o].storage == id) return at;
  return IR_NONE;
}

/* Returns the rows of input k that the rows of results need. */
static kernel_rows rows_of_input(const bander *z, uint32_t i, uint32_t k, kernel_rows results) {
  return k == 0 ? kernel_rows_read(&z->steps[i].reads, results) : results;
}

/* Computes the rows of each step's results that a tile needs, including the halo. The index is the
 * step's position in the run. */
static void find_rows(const bander *z, const band_run *run, uint32_t band,
                      kernel_rows rows[LENGTH]) {
  const int64_t all = z->steps[run->last].rows, bands = run->bands;
  for (uint32_t i = run->first; i < run->last; i++)
    rows[i - run->first] = (kernel_rows){INT64_MAX, 0};
  rows[run->last - run->first] = (kernel_rows){all * band / bands, all * (band + 1) / bands};
  for (uint32_t i = run->last; i > run->first; i--)
    for (uint32_t k = 0; k < z->from[i].input_count; k++) {
      const uint32_t writer = find_writer(z, run->first, i, k);
      if (writer == IR_NONE) continue;
      const kernel_rows read = rows_of_input(z, i, k, rows[i - run->first]);
      kernel_rows *all_read = &rows[writer - run->first];
      if (read.first < all_read->first) all_read->first = read.first;
      if (read.end > all_read->end) all_read->end = read.end;
    }
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* True if step i, not the last one, writes only for steps of the run. */
static bool stays_inside(const bander *z, const band_run *run, uint32_t i) {
  const build_step *s = &z->from[i];
  for (uint32_t k = s->input_count; k < s->operand_count; k++) {
    const storage *to = &z->l->storages[s->operand[k].storage];
    if (to->slot != IR_NONE || to->first != i || to->last == i || to->last > run->last)
      return false;
  }
  return true;
}

/* True if step i reads the run's values row by row, and reads nothing that the last step writes.
 * Another tile may already be complete. */
static bool reads_rows(const bander *z, const band_run *run, uint32_t i) {
  const build_step *s = &z->from[i], *last = &z->from[run->last];
  for (uint32_t k = 0; k < s->input_count; k++) {
    if (find_writer(z, run->first, i, k) != IR_NONE && (z->steps[i].apart >> k & 1) == 0)
      return false;
    for (uint32_t o = last->input_count; o < last->operand_count; o++)
      if (last->operand[o].storage == s->operand[k].storage) return false;
  }
  return true;
}

static bool is_possible(const bander *z, const band_run *run) {
  for (uint32_t i = run->first; i <= run->last; i++)
    if (!reads_rows(z, run, i) || (i < run->last && !stays_inside(z, run, i))) return false;
  return true;
}

/* True if the steps are limited by memory: more bytes of values would stay with a thread than each
 * tile reads of weights. */
static bool pays(const bander *z, const band_run *run) {
  uint64_t flops = 0, divided = 0, whole = 0, kept = 0;
  for (uint32_t i = run->first; i <= run->last; i++) {
    const build_step *s = &z->from[i];
    flops += s->flops;
    divided += z->steps[i].divided;
    whole += z->steps[i].whole;
    for (uint32_t k = s->input_count; i < run->last && k < s->operand_count; k++)
      kept += z->l->storages[s->operand[k].storage].bytes;
  }
  return whole <= kept && flops / MOST_FLOPS <= divided;
}

/* Returns the operations of a tile; 0 if it is too small. */
static double count_flops(const bander *z, const band_run *run, uint32_t band) {
  kernel_rows rows[LENGTH];
  double flops = 0;
  find_rows(z, run, band, rows);
  for (uint32_t i = run->first; i <= run->last; i++) {
    const kernel_rows *r = &rows[i - run->first];
    const kernel_rows reads = kernel_rows_read(&z->steps[i].reads, *r);
    const int64_t count = r->end - r->first;
    if (count * z->steps[i].width < LEAST_RESULTS || reads.first >= reads.end) return 0;
    flops += (double)z->from[i].flops * (double)count / (double)z->steps[i].rows;
  }
  return flops;
}

/* True if the halo adds little work, and the tiles have about equal work. */
static bool is_even(const bander *z, const band_run *run) {
  double flops = 0, most = 0;
  for (uint32_t i = run->first; i <= run->last; i++) flops += (double)z->from[i].flops;
  for (uint32_t band = 0; band < run->bands; band++) {
    const double here = count_flops(z, run, band);
    if (here == 0) return false;
    if (here > most) most = here;
  }
  return most * run->bands <= flops * (1 + 1.0 / EXTRA_SHARE);
}

/* Finds the longest run from `first` on. */
static bool find_run(const bander *z, uint32_t first, band_run *found) {
  const uint32_t threads = (uint32_t)thread_pool_count(z->l->plan->context->threads);
  band_run run = {.first = first, .last = first};
  found->bands = 0;
  for (; run.last < z->from_count && run.last < first + LENGTH; run.last++) {
    if (z->steps[run.last].rows == 0) break;
    if (run.last == first || !is_possible(z, &run) || !pays(z, &run)) continue;
    run.bands = BANDS * threads;
    if (!is_even(z, &run)) run.bands = threads;
    if (is_even(z, &run)) *found = run;
  }
  return found->bands > 0;
}

static void find_runs(bander *z) {
  for (uint32_t i = 0; i < z->from_count; i++) divide_step(z, &z->from[i], &z->steps[i]);
  for (uint32_t i = 0; i < z->from_count; i++)
    if (find_run(z, i, &z->runs[z->count])) i = z->runs[z->count++].last;
}

/* ---- Cutting --------------------------------------------------------------------------------- */

/* A tile that is being cut. */
typedef struct cutting {
  const band_run *run;
  uint32_t band, begin; /* the run's first new step */
  kernel_rows rows[LENGTH];
} cutting;

/* Adds per-thread memory for the values used only inside the run, with enough rows for each
 * tile. */
static compute_status add_locals(bander *z, const band_run *run, uint32_t region) {
  int64_t most[LENGTH] = {0};
  for (uint32_t band = 0; band < run->bands; band++) {
    kernel_rows rows[LENGTH];
    find_rows(z, run, band, rows);
    for (uint32_t i = 0; i < run->last - run->first; i++)
      if (rows[i].end - rows[i].first > most[i]) most[i] = rows[i].end - rows[i].first;
  }
  for (uint32_t i = run->first; i < run->last; i++) {
    const build_step *s = &z->from[i];
    for (uint32_t k = s->input_count; k < s->operand_count; k++) {
      const uint64_t bytes = (uint64_t)most[i - run->first] * z->steps[i].row[k];
      const uint32_t made = storage_add(z->l, IR_NONE, s->device, bytes);
      if (made == IR_NONE) return slices_out_of_memory(z->l);
      z->l->storages[made].region = region;
      z->local[s->operand[k].storage] = made;
    }
  }
  return COMPUTE_OK;
}

/* Sets the operands of step i to the tile's rows, in the per-thread arena or in the image. */
static void cut_operands(const bander *z, const cutting *c, uint32_t i, build_step *s) {
  const uint32_t first = c->run->first;
  const division *how = &z->steps[i];
  for (uint32_t k = 0; k < s->operand_count; k++) {
    if ((how->moving >> k & 1) == 0) continue;
    int64_t row = rows_of_input(z, i, k, c->rows[i - first]).first;
    const uint32_t writer = k < s->input_count ? find_writer(z, first, i, k) : i;
    if (writer != IR_NONE && writer != c->run->last) {
      row -= c->rows[writer - first].first;
      s->operand[k].storage = z->local[s->operand[k].storage];
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
static uint32_t find_twin(const lowering *l, const cutting *c, const build_step *s) {
  for (uint32_t i = c->begin; i < l->step_count; i++)
    if (l->steps[i].twin == IR_NONE && has_same_constants(&l->steps[i], s)) return i;
  return IR_NONE;
}

static compute_status cut_step(bander *z, const cutting *c, uint32_t i) {
  lowering *l = z->l;
  build_step *s = &l->steps[l->step_count];
  *s = z->from[i];
  s->slice = c->band;
  s->slices = c->run->bands;
  s->of_items = z->steps[c->run->last].rows;
  s->in_bands = s->side_by_side = true;
  s->first_in_place = s->input_count; /* no reuse in place: values have different halos */
  kernel_key_read(s->kernel->key, z->copy);
  kernel_crop(&z->copy->descriptor, c->rows[i - c->run->first], &z->copy->attributes);
  const compute_status status = slices_set_kernel(l, &z->copy->descriptor, s);
  if (!s->kernel) return status;
  cut_operands(z, c, i, s);
  s->twin = find_twin(l, c, s);
  l->step_count++;
  return status;
}

static compute_status cut_run(bander *z, const band_run *run) {
  lowering *l = z->l;
  cutting c = {.run = run, .begin = l->step_count};
  const uint32_t threads = (uint32_t)thread_pool_count(l->plan->context->threads);
  const uint32_t region = slices_add_region(l, z->from[run->first].device, threads);
  compute_status status = region != IR_NONE ? COMPUTE_OK : slices_out_of_memory(l);
  if (status == COMPUTE_OK) status = add_locals(z, run, region);
  for (; status == COMPUTE_OK && c.band < run->bands; c.band++) {
    find_rows(z, run, c.band, c.rows);
    for (uint32_t i = run->first; status == COMPUTE_OK && i <= run->last; i++)
      status = cut_step(z, &c, i);
  }
  for (uint32_t i = run->first; i <= run->last; i++)
    kernel_cache_return(l->plan->device[z->from[i].device]->kernels, z->from[i].kernel);
  return status;
}

/* Replaces the steps of all runs. On every path, each kernel belongs to exactly one step. */
static compute_status cut_all(bander *z) {
  lowering *l = z->l;
  uint32_t total = z->from_count;
  for (uint32_t i = 0; i < z->count; i++)
    total += (z->runs[i].last - z->runs[i].first + 1) * z->runs[i].bands;
  compute_status status = slices_begin_steps(l, total);
  if (status != COMPUTE_OK) return status;
  const band_run *next = z->runs, *end = z->runs + z->count;
  for (uint32_t i = 0; i < z->from_count; i++) {
    if (status == COMPUTE_OK && next < end && next->first == i) {
      status = cut_run(z, next);
      i = next++->last;
    } else {
      build_step *s = &l->steps[l->step_count];
      *s = z->from[i];
      if (s->twin != IR_NONE) s->twin += l->step_count - i; /* of a micro-batch: shifted alike */
      l->step_count++;
    }
  }
  return status;
}

compute_status bands_cut(lowering *l) {
  if (!l->plan->context->cpu || thread_pool_count(l->plan->context->threads) < 2) return COMPUTE_OK;
  bander z = {.l = l, .from = l->steps, .from_count = l->step_count};
  z.steps = scratch_take(l->memory, l->step_count, sizeof *z.steps);
  z.runs = scratch_take(l->memory, (size_t)l->step_count + 1, sizeof *z.runs);
  z.local = scratch_take(l->memory, l->storage_count, sizeof *z.local);
  z.copy = scratch_take(l->memory, 1, sizeof *z.copy);
  if (!z.steps || !z.runs || !z.local || !z.copy) return slices_out_of_memory(l);
  find_runs(&z);
  if (z.count == 0) return COMPUTE_OK;
  const compute_status status = cut_all(&z);
  slices_find_lifetimes(l);
  return status;
}
