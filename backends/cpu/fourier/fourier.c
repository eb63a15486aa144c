/* SPDX-License-Identifier: MIT */
/* FOURIER: discrete Fourier transforms along one dimension.
 *
 * Real numbers of an even length are transformed as half as many complex ones. An inverse transform
 * is a forward one with real and imaginary parts exchanged on both sides.
 *
 * A kernel transforms `lanes` neighbouring lines at once, or one line after the other. Lines that
 * fill the lanes and stay in the cache take the first way. Both make the same operations on each
 * number, so the bits of a line do not depend on its neighbours. */
#include "fourier/fourier.h"

#include <stdio.h>
#include <string.h>

#include "core/nest.h"

enum {
  SOURCE = 0,
  RESULT = 1,
  WORK = 1 << 13, /* with fewer points, another thread does not pay */
  TASKS_PER_THREAD = 4,
  ALIGNED = 64,
  BLOCK_BYTES = 1 << 14 /* contiguous lines of longer blocks are faster one by one */
};

typedef enum fourier_form {
  COMPLEX,
  REAL_PAIRS, /* real numbers, an even length */
  REAL_ODD,
  HALF_PAIRS, /* half of a symmetric spectrum, an even length */
  HALF_ODD
} fourier_form;

typedef struct fourier_kernel {
  cpu_kernel head;
  cpu_fourier_plan plan;  /* of `signal` points */
  cpu_fourier_plan inner; /* CONVOLUTION: of the convolution */
  cpu_nest rows;
  fourier_form form;
  compute_dtype dtype;
  uint32_t element;
  int64_t length, signal, points, results, row_count;
  int64_t point[2], part[2];
  bool inverse, by_blocks;
  double scale;
  void *factors; /* of pairs */
  int64_t groups_per_line, groups, tasks;
  uint64_t area_bytes, inner_bytes, square_bytes, block_bytes, blocks_bytes, worker_bytes;
} fourier_kernel;

typedef struct launch {
  const fourier_kernel *kernel;
  void *const *pointers;
  unsigned char *memory;
} launch;

/* ---- Single elements ------------------------------------------------------------------------- */

/* Contiguous complex numbers from anywhere; part 0: real ones. And back. */
#define ELEMENTS(type, name)                                                                             \
  static void gather_##name(const void *from, int64_t point, int64_t part, int64_t count,                \
                            int64_t padded, void *to) {                                                  \
    const type *x = from;                                                                                \
    type *y = to;                                                                                        \
    for (int64_t k = 0; k < count; k++) {                                                                \
      y[2 * k] = x[k * point];                                                                           \
      y[2 * k + 1] = part == 0 ? 0 : x[k * point + part];                                                \
    }                                                                                                    \
    memset(y + 2 * count, 0, (size_t)(padded - count) * 2 * sizeof *y);                                  \
  }                                                                                                      \
  static void gather_real_##name(const void *from, int64_t point, int64_t count, int64_t padded,         \
                                 void *to) {                                                             \
    const type *x = from;                                                                                \
    type *y = to;                                                                                        \
    for (int64_t k = 0; k < count; k++) y[k] = x[k * point];                                             \
    memset(y + count, 0, (size_t)(padded - count) * sizeof *y);                                          \
  }                                                                                                      \
  static void scatter_##name(const void *from, int64_t point, int64_t part, int64_t count,               \
                             void *to) {                                                                 \
    const type *x = from;                                                                                \
    type *y = to;                                                                                        \
    for (int64_t k = 0; k < count; k++) {                                                                \
      y[k * point] = x[2 * k];                                                                           \
      if (part != 0) y[k * point + part] = x[2 * k + 1];                                                 \
    }                                                                                                    \
  }                                                                                                      \
  static void scatter_real_##name(const void *from, int64_t point, int64_t count, void *to) {            \
    const type *x = from;                                                                                \
    type *y = to;                                                                                        \
    for (int64_t k = 0; k < count; k++) y[k * point] = x[k];                                             \
  }                                                                                                      \
  /* Points n / 2 + 1 … n − 1 mirror those before them, which become their conjugates. A point has \
   * `lanes` real parts, then imaginary ones. */ \
  static void mirror_##name(void *points, int64_t n, int64_t lanes) {                                    \
    type *x = points;                                                                                    \
    for (int64_t k = 1; 2 * k < n; k++) {                                                                \
      memcpy(x + 2 * lanes * (n - k), x + 2 * lanes * k, 2 * (size_t)lanes * sizeof *x);                 \
      for (int64_t j = 0; j < lanes; j++) x[2 * lanes * k + lanes + j] *= -1;                            \
    }                                                                                                    \
  }
ELEMENTS(float, f32)
ELEMENTS(double, f64)

#define BY_DTYPE(kernel, name, ...)                                                                \
  ((kernel)->dtype == COMPUTE_F64 ? name##_f64(__VA_ARGS__) : name##_f32(__VA_ARGS__))

static unsigned char *element_at(const fourier_kernel *kernel, void *data, int64_t at) {
  return (unsigned char *)data + at * (int64_t)kernel->element;
}

static int64_t half_points(const fourier_kernel *kernel) {
  return kernel->length / 2 + 1;
}

/* ---- Several lines at once ------------------------------------------------------------------- */

/* Where the first lines of a dimension are. */
static void find_groups(const launch *l, int64_t dimension, cpu_fourier_lines first[2]) {
  const fourier_kernel *kernel = l->kernel;
  cpu_walk walk;
  cpu_walk_start(&kernel->rows, kernel->rows.rank - 1, dimension, &walk);
  for (int o = 0; o < 2; o++)
    first[o] = (cpu_fourier_lines){.data = element_at(kernel, l->pointers[o], walk.offset[o]),
                                   .point = kernel->point[o],
                                   .lane = cpu_nest_step(&kernel->rows, o),
                                   .part = kernel->part[o]};
}

/* The lines of group `place` of the dimension. */
static void find_group(const fourier_kernel *kernel, const cpu_fourier_lines first[2],
                       int64_t place, cpu_fourier_lines lines[2]) {
  const int64_t width = kernel->plan.loops->lanes, begin = place * width;
  for (int o = 0; o < 2; o++) {
    lines[o] = first[o];
    lines[o].data = element_at(kernel, first[o].data, begin * first[o].lane);
    lines[o].count = (int32_t)cpu_min(width, cpu_nest_length(&kernel->rows) - begin);
  }
}

static void swap_parts(const fourier_kernel *kernel, cpu_fourier_lines *lines) {
  lines->data = element_at(kernel, lines->data, lines->part);
  lines->part = -lines->part;
}

static void make_pairs(cpu_fourier_lines *lines) {
  lines->part = lines->point;
  lines->point *= 2;
}

/* Reads the lines into x or y, and returns where the signals are. */
static void *load_block(const fourier_kernel *kernel, cpu_fourier_lines *from, void *x, void *y) {
  const cpu_fourier_loops *loops = kernel->plan.loops;
  const int64_t half = kernel->length / 2;
  switch (kernel->form) {
  case COMPLEX:
    if (kernel->inverse) swap_parts(kernel, from);
    loops->load(from, kernel->points, kernel->signal, x);
    return x;
  case REAL_PAIRS:
    make_pairs(from);
    loops->load(from, kernel->points / 2, kernel->signal, x);
    return x;
  case REAL_ODD:
    from->part = 0;
    loops->load(from, kernel->points, kernel->signal, x);
    return x;
  case HALF_PAIRS:
    loops->load(from, kernel->points, half + 1, y);
    loops->entangle(half, kernel->factors, y, x);
    return x;
  default:
    loops->load(from, kernel->points, half + 1, x);
    BY_DTYPE(kernel, mirror, x, kernel->length, loops->lanes);
    return x;
  }
}

static void store_block(const fourier_kernel *kernel, cpu_fourier_lines *to, void *made,
                        void *other) {
  const cpu_fourier_loops *loops = kernel->plan.loops;
  const int64_t half = kernel->length / 2;
  int64_t results = kernel->results;
  switch (kernel->form) {
  case COMPLEX:
    if (kernel->inverse) swap_parts(kernel, to);
    break;
  case REAL_PAIRS:
    loops->untangle(half, kernel->factors, made, other);
    made = other;
    break;
  case HALF_PAIRS:
    make_pairs(to);
    swap_parts(kernel, to);
    results /= 2;
    break;
  case HALF_ODD: to->part = 0; break;
  default: break;
  }
  loops->store(to, results, kernel->scale, made);
}

static void block_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const fourier_kernel *kernel = l->kernel;
  const cpu_fourier_plan *plan = &kernel->plan;
  unsigned char *x = l->memory + (uint64_t)worker * kernel->worker_bytes;
  unsigned char *y = x + kernel->block_bytes;
  const int64_t end = (task + 1) * kernel->groups / kernel->tasks;
  cpu_fourier_lines first[2];
  int64_t number = task * kernel->groups / kernel->tasks, place = number % kernel->groups_per_line;
  find_groups(l, number / kernel->groups_per_line, first);
  for (; number < end; number++, place++) {
    cpu_fourier_lines lines[2];
    if (place == kernel->groups_per_line) {
      find_groups(l, number / kernel->groups_per_line, first);
      place = 0;
    }
    find_group(kernel, first, place, lines);
    void *from = load_block(kernel, &lines[SOURCE], x, y), *to = from == x ? y : x;
    const bool split = plan->way == CPU_FOURIER_SPLIT;
    void *made = plan->loops->passes(&plan->first, split ? plan->loops->lanes : 1, from, to);
    to = made == x ? y : x;
    if (split) {
      plan->loops->join(plan->first.length, plan->factors, made, to);
      from = made;
      made = to;
      to = from;
    }
    store_block(kernel, &lines[RESULT], made, to);
  }
}

/* ---- One line -------------------------------------------------------------------------------- */

/* A worker's memory for lines: contiguous numbers a and b, then u and v of a convolution, the
 * square, and blocks. */
typedef struct areas {
  unsigned char *a, *b, *u, *v, *square, *blocks;
} areas;

static areas find_areas(const launch *l, int32_t worker) {
  const fourier_kernel *kernel = l->kernel;
  areas m;
  m.a = l->memory + (uint64_t)worker * kernel->worker_bytes;
  m.b = m.a + kernel->area_bytes;
  m.u = m.b + kernel->area_bytes;
  m.v = m.u + kernel->inner_bytes;
  m.square = m.v + kernel->inner_bytes;
  m.blocks = m.square + kernel->square_bytes;
  return m;
}

static void transform(const fourier_kernel *kernel, const areas *m, cpu_fourier_line *line) {
  cpu_device *device = kernel->head.device;
  const cpu_fourier_plan *plan = &kernel->plan;
  line->plan = plan;
  line->square = m->square;
  line->blocks = m->blocks;
  line->block_bytes = kernel->block_bytes;
  if (plan->way != CPU_FOURIER_CONVOLUTION) {
    cpu_fourier_transform(device, line, 0);
    return;
  }
  const int64_t count = kernel->signal, whole = kernel->inner.length;
  cpu_fourier_line inner = *line;
  inner.plan = &kernel->inner;
  inner.scale = 1;
  inner.swapped = inner.swapped_source = false;
  inner.source = m->u;
  inner.result = m->v;
  plan->loops->multiply(count, line->source, line->swapped_source, plan->chirp, m->u, false, 1);
  memset(m->u + count * 2 * (int64_t)kernel->element, 0,
         (size_t)(whole - count) * 2 * kernel->element);
  cpu_fourier_transform(device, &inner, 0);
  plan->loops->multiply(whole, m->v, false, plan->spectrum, m->u, true, 1);
  cpu_fourier_transform(device, &inner, 0);
  plan->loops->multiply(count, m->v, true, plan->chirp, line->result, line->swapped, line->scale);
}

/* True if an operand's complex numbers are contiguous. */
static bool is_contiguous(const fourier_kernel *kernel, int o) {
  return (kernel->point[o] == 2 || (o == SOURCE ? kernel->points : kernel->results) == 1) &&
         kernel->part[o] == 1;
}

static void complex_line(const fourier_kernel *kernel, const areas *m, const void *from, void *to) {
  const bool direct = is_contiguous(kernel, RESULT) && kernel->results == kernel->signal;
  cpu_fourier_line line = {.source = from,
                           .result = direct ? to : m->b,
                           .swapped_source = kernel->inverse,
                           .swapped = kernel->inverse,
                           .scale = kernel->scale};
  if (kernel->form == REAL_ODD || kernel->points < kernel->signal ||
      !is_contiguous(kernel, SOURCE)) {
    BY_DTYPE(kernel, gather, from, kernel->point[SOURCE],
             kernel->form == REAL_ODD ? 0 : kernel->part[SOURCE], kernel->points, kernel->signal,
             m->a);
    line.source = m->a;
  }
  transform(kernel, m, &line);
  if (!direct)
    BY_DTYPE(kernel, scatter, line.result, kernel->point[RESULT], kernel->part[RESULT],
             kernel->results, to);
}

static void real_line(const fourier_kernel *kernel, const areas *m, const void *from, void *to) {
  const bool direct = is_contiguous(kernel, RESULT) && kernel->results == half_points(kernel);
  cpu_fourier_line line = {.source = from, .result = m->b, .scale = 1};
  if (kernel->points < kernel->length || kernel->point[SOURCE] != 1) {
    BY_DTYPE(kernel, gather_real, from, kernel->point[SOURCE], kernel->points, kernel->length,
             m->a);
    line.source = m->a;
  }
  transform(kernel, m, &line);
  void *made = direct ? to : m->a;
  kernel->plan.loops->untangle_line(kernel->signal, kernel->factors, m->b, made, kernel->scale);
  if (!direct)
    BY_DTYPE(kernel, scatter, made, kernel->point[RESULT], kernel->part[RESULT], kernel->results,
             to);
}

static void half_line(const fourier_kernel *kernel, const areas *m, const void *from, void *to) {
  const bool direct = kernel->point[RESULT] == 1 && kernel->results == kernel->length;
  const bool pairs = kernel->form == HALF_PAIRS;
  cpu_fourier_line line = {
      .source = m->b, .result = direct ? to : m->a, .swapped = true, .scale = kernel->scale};
  if (!pairs || kernel->points < half_points(kernel) || !is_contiguous(kernel, SOURCE)) {
    BY_DTYPE(kernel, gather, from, kernel->point[SOURCE], kernel->part[SOURCE], kernel->points,
             half_points(kernel), m->a);
    from = m->a;
  }
  if (pairs) {
    kernel->plan.loops->entangle_line(kernel->signal, kernel->factors, from, m->b);
    transform(kernel, m, &line);
    if (!direct) BY_DTYPE(kernel, scatter_real, m->a, kernel->point[RESULT], kernel->results, to);
    return;
  }
  BY_DTYPE(kernel, mirror, m->a, kernel->length, 1);
  line = (cpu_fourier_line){.source = m->a, .result = m->b, .scale = kernel->scale};
  transform(kernel, m, &line);
  BY_DTYPE(kernel, scatter, m->b, kernel->point[RESULT], 0, kernel->results, to);
}

static void one_line(const launch *l, int64_t number, int32_t worker) {
  const fourier_kernel *kernel = l->kernel;
  const areas m = find_areas(l, worker);
  cpu_walk walk;
  cpu_walk_start(&kernel->rows, kernel->rows.rank, number, &walk);
  const void *from = element_at(kernel, l->pointers[SOURCE], walk.offset[SOURCE]);
  void *to = element_at(kernel, l->pointers[RESULT], walk.offset[RESULT]);
  switch (kernel->form) {
  case REAL_PAIRS: real_line(kernel, &m, from, to); break;
  case HALF_PAIRS:
  case HALF_ODD: half_line(kernel, &m, from, to); break;
  default: complex_line(kernel, &m, from, to);
  }
}

static void line_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const fourier_kernel *kernel = l->kernel;
  const int64_t end = (task + 1) * kernel->groups / kernel->tasks;
  for (int64_t number = task * kernel->groups / kernel->tasks; number < end; number++)
    one_line(l, number, worker);
}

/* True if one line uses all threads. */
static bool shares_lines(const fourier_kernel *kernel) {
  return kernel->plan.shared || kernel->inner.shared;
}

static compute_status fourier_run(const cpu_kernel *head, void *const *pointers) {
  const fourier_kernel *kernel = (const fourier_kernel *)head;
  cpu_device *device = head->device;
  const bool shared = !kernel->by_blocks && shares_lines(kernel);
  const uint64_t workers = !shared && kernel->tasks > 1 ? (uint64_t)device->threads : 1;
  uint64_t bytes = workers * kernel->worker_bytes;
  if (shared) bytes += kernel->blocks_bytes * (uint64_t)(device->threads - 1);
  if (kernel->row_count == 0 || kernel->results == 0) return COMPUTE_OK;
  launch l = {kernel, pointers, cpu_workspace_acquire(device, bytes)};
  if (!l.memory) return cpu_out_of_memory(device, bytes);
  if (kernel->by_blocks)
    cpu_parallel(device, kernel->tasks, block_task, &l);
  else if (shared)
    for (int64_t number = 0; number < kernel->groups; number++) one_line(&l, number, 0);
  else
    cpu_parallel(device, kernel->tasks, line_task, &l);
  cpu_workspace_return(device, l.memory);
  return COMPUTE_OK;
}

/* ---- Preparing ------------------------------------------------------------------------------- */

/* The spectrum of the chirp's conjugate, in double precision, divided by its length. */
static bool plan_spectrum(cpu_device *device, cpu_fourier_plan *plan, int64_t whole) {
  const int64_t n = plan->length;
  const uint64_t bytes = (uint64_t)whole * 2 * sizeof(double);
  cpu_fourier_plan exact = {0};
  bool good = cpu_fourier_plan_smooth(device, COMPUTE_F64, whole, &exact);
  const uint64_t own = good ? cpu_fourier_block_bytes(&exact) : 0;
  const uint64_t block = good ? own * cpu_fourier_block_count(&exact) : 0;
  double *chirp = cpu_allocate(device, bytes), *made = cpu_allocate(device, bytes);
  void *square = cpu_allocate(device, bytes);
  unsigned char *blocks = cpu_allocate(device, block * (uint64_t)device->threads);
  plan->spectrum = cpu_allocate(device, (uint64_t)whole * 2 * cpu_dtype_size(plan->dtype));
  good = good && chirp && made && square && blocks && plan->spectrum;
  if (good) {
    for (int64_t k = 0; k < n; k++) {
      double root[2];
      cpu_fourier_root(k * k % (2 * n), 2 * n, root);
      chirp[2 * k] = root[0];
      chirp[2 * k + 1] = -root[1];
      if (k > 0) memcpy(chirp + 2 * (whole - k), chirp + 2 * k, 2 * sizeof *chirp);
    }
    const cpu_fourier_line line = {.plan = &exact,
                                   .source = chirp,
                                   .result = made,
                                   .scale = 1 / (double)whole,
                                   .square = square,
                                   .blocks = blocks,
                                   .block_bytes = own};
    cpu_fourier_transform(device, &line, 0);
    for (int64_t k = 0; k < whole; k++)
      cpu_fourier_set(plan->spectrum, plan->dtype, k, made + 2 * k);
  }
  cpu_release(device, chirp);
  cpu_release(device, made);
  cpu_release(device, square);
  cpu_release(device, blocks);
  cpu_fourier_plan_clear(device, &exact);
  return good;
}

static bool plan_convolution(fourier_kernel *kernel) {
  cpu_device *device = kernel->head.device;
  cpu_fourier_plan *plan = &kernel->plan;
  const int64_t n = kernel->signal;
  plan->loops = CPU_PICK_FLOAT(device->isa, cpu_fourier, kernel->dtype);
  plan->dtype = kernel->dtype;
  plan->length = n;
  plan->way = CPU_FOURIER_CONVOLUTION;
  plan->chirp = cpu_allocate(device, (uint64_t)n * 2 * kernel->element);
  if (!plan->chirp) return false;
  for (int64_t k = 0; k < n; k++) {
    double root[2];
    cpu_fourier_root(k * k % (2 * n), 2 * n, root);
    cpu_fourier_set(plan->chirp, plan->dtype, k, root);
  }
  const int64_t whole = cpu_fourier_smooth_length(2 * n - 1, plan->loops->lanes);
  return cpu_fourier_plan_smooth(device, kernel->dtype, whole, &kernel->inner) &&
         plan_spectrum(device, plan, whole);
}

static bool plan_lengths(fourier_kernel *kernel) {
  cpu_device *device = kernel->head.device;
  const int64_t half = kernel->length / 2;
  if (kernel->form == REAL_PAIRS || kernel->form == HALF_PAIRS) {
    kernel->factors = cpu_allocate(device, (uint64_t)(half + 1) * 2 * kernel->element);
    if (!kernel->factors) return false;
    for (int64_t k = 0; k <= half; k++) {
      double root[2];
      cpu_fourier_root(k, kernel->length, root);
      cpu_fourier_set(kernel->factors, kernel->dtype, k, root);
    }
  }
  return cpu_fourier_is_smooth(kernel->signal)
             ? cpu_fourier_plan_smooth(device, kernel->dtype, kernel->signal, &kernel->plan)
             : plan_convolution(kernel);
}

/* Lines that only partly fill the lanes, or whose blocks exceed the cache, go one by one. */
static bool suits_blocks(const fourier_kernel *kernel) {
  const cpu_fourier_plan *plan = &kernel->plan;
  const int64_t lanes = plan->loops->lanes, lines = cpu_nest_length(&kernel->rows);
  const bool half_pair = (kernel->form == REAL_PAIRS && kernel->points % 2 != 0) ||
                         (kernel->form == HALF_PAIRS && kernel->results % 2 != 0);
  if (half_pair) return false;
  if (plan->way != CPU_FOURIER_SPLIT) return plan->way == CPU_FOURIER_PASSES_ONLY;
  const uint64_t bytes = (uint64_t)(kernel->signal * lanes) * 4 * kernel->element;
  const bool along = is_contiguous(kernel, SOURCE) && is_contiguous(kernel, RESULT);
  const uint64_t most = along ? BLOCK_BYTES : kernel->head.device->l2_bytes;
  return 2 * lines > lanes && bytes <= most;
}

static void choose_memory(fourier_kernel *kernel) {
  const uint64_t number = 2 * kernel->element;
  const cpu_fourier_plan *own = &kernel->plan, *inner = &kernel->inner;
  if (kernel->by_blocks) {
    const uint64_t points = (uint64_t)kernel->signal + 1;
    kernel->block_bytes =
        (uint64_t)cpu_round_up((int64_t)(points * (uint64_t)own->loops->lanes * number), 4096) +
        192;
    kernel->worker_bytes = 2 * kernel->block_bytes;
    return;
  }
  const bool convolves = own->way == CPU_FOURIER_CONVOLUTION;
  const cpu_fourier_plan *plan = convolves ? inner : own;
  kernel->area_bytes = cpu_whole_lines((uint64_t)(kernel->length + 2) * number);
  kernel->inner_bytes = convolves ? cpu_whole_lines((uint64_t)inner->length * number) + ALIGNED : 0;
  kernel->square_bytes =
      plan->way == CPU_FOURIER_SQUARE ? cpu_whole_lines((uint64_t)plan->length * number) : 0;
  kernel->block_bytes = cpu_fourier_block_bytes(plan);
  kernel->blocks_bytes = cpu_fourier_block_count(plan) * kernel->block_bytes;
  kernel->worker_bytes = 2 * kernel->area_bytes + 2 * kernel->inner_bytes + kernel->square_bytes +
                         kernel->blocks_bytes;
}

static void choose_tasks(fourier_kernel *kernel) {
  const int64_t threads = kernel->head.device->threads, lines = cpu_nest_length(&kernel->rows);
  const int64_t lanes = kernel->plan.loops->lanes;
  int64_t total;
  if (__builtin_mul_overflow(kernel->row_count, kernel->length, &total)) total = INT64_MAX;
  kernel->by_blocks = suits_blocks(kernel);
  kernel->groups_per_line = cpu_divide_up(lines, lanes);
  kernel->groups =
      kernel->by_blocks ? kernel->row_count / lines * kernel->groups_per_line : kernel->row_count;
  const int64_t wanted = cpu_max(1, cpu_min(threads * TASKS_PER_THREAD, total / WORK));
  kernel->tasks = threads > 1 ? cpu_min(kernel->groups, wanted) : 1;
  choose_memory(kernel);
}

/* The last dimension of the nest fills the lanes: neighbours in memory, or else the longest. */
static void choose_lanes(fourier_kernel *kernel) {
  cpu_nest *rows = &kernel->rows;
  int32_t best = rows->rank - 1;
  for (int32_t d = 0; d < rows->rank; d++)
    if (cpu_min(rows->size[d], CPU_FOURIER_MOST_LANES) >
        cpu_min(rows->size[best], CPU_FOURIER_MOST_LANES))
      best = d;
  cpu_nest_make_last(rows, best);
}

static compute_status prepare(cpu_kernel *head, const compute_kernel_descriptor *descriptor) {
  fourier_kernel *kernel = (fourier_kernel *)head;
  const compute_fourier_attributes *a = compute_fourier_of(descriptor);
  const compute_operand *const operands[] = {&descriptor->inputs[0], &descriptor->outputs[0]};
  const int32_t axis = descriptor->rank - 2;
  const bool even = a->length % 2 == 0;
  static const char *const ways[] = {"passes", "split", "rows and columns", "convolution"};
  kernel->dtype = descriptor->accumulate;
  kernel->element = cpu_dtype_size(kernel->dtype);
  kernel->length = a->length;
  kernel->points = a->points;
  kernel->results = descriptor->size[axis];
  kernel->scale = a->scale;
  kernel->inverse = a->inverse && !a->halved;
  kernel->form = a->real     ? (even ? REAL_PAIRS : REAL_ODD)
                 : a->halved ? (even ? HALF_PAIRS : HALF_ODD)
                             : COMPLEX;
  kernel->signal = even && kernel->form != COMPLEX ? a->length / 2 : a->length;
  for (int o = 0; o < 2; o++) {
    kernel->point[o] = operands[o]->stride[axis];
    kernel->part[o] = operands[o]->stride[axis + 1];
  }
  cpu_nest_begin(&kernel->rows, descriptor, 0, axis);
  cpu_nest_sort(&kernel->rows, RESULT);
  cpu_nest_collapse(&kernel->rows);
  cpu_nest_finish(&kernel->rows);
  if (!cpu_nest_count(&kernel->rows, kernel->rows.rank, &kernel->row_count))
    return cpu_fail_overflow(head);
  if (kernel->row_count > 0 && kernel->results > 0) {
    if (!plan_lengths(kernel)) return cpu_out_of_memory(head->device, 0);
    choose_lanes(kernel);
    choose_tasks(kernel);
  }
  snprintf(head->description, sizeof head->description, "fourier %lld %s, %s, %s",
           (long long)kernel->length, head->device->isa->name, ways[kernel->plan.way],
           kernel->by_blocks ? "lines in lanes" : "line by line");
  return COMPUTE_OK;
}

static void clear(cpu_kernel *head) {
  fourier_kernel *kernel = (fourier_kernel *)head;
  cpu_fourier_plan_clear(head->device, &kernel->plan);
  cpu_fourier_plan_clear(head->device, &kernel->inner);
  cpu_release(head->device, kernel->factors);
}

const cpu_kind cpu_fourier_kind = {.name = "fourier",
                                   .bytes = sizeof(fourier_kernel),
                                   .prepare = prepare,
                                   .run = fourier_run,
                                   .clear = clear};
