/* SPDX-License-Identifier: MIT */
/* Plans of transforms of smooth lengths, and transforms of contiguous numbers. */
#include "fourier/fourier.h"

#include "core/portable.h"

enum {
  CODELET = 32,           /* up to here, passes have constant bounds and fill the registers */
  SQUARE_BYTES = 1 << 23, /* a longer line is transformed as columns and rows … */
  CACHED_BYTES = 1 << 16, /* up to here, memory need not be moved in pieces */
  SQUARE_POINTS = 1 << 8, /* … and so is a length that cannot be split, from here on */
  GROUPS = 4, /* of columns or rows in a task: memory is moved in pieces of this many vectors */
  POINTS = 8  /* … for so many points in turn */
};

static const double turn = 6.28318530717958647693;

void cpu_fourier_root(int64_t k, int64_t n, double root[2]) {
  /* In units of 1 / (8 n) turn: an angle of at most an eighth. */
  int64_t u = 8 * k;
  const bool below = u > 4 * n;
  if (below) u = 8 * n - u;
  const bool left = u > 2 * n;
  if (left) u = 4 * n - u;
  const bool steep = u > n;
  if (steep) u = 2 * n - u;
  const double angle = turn * (double)u / (8 * (double)n);
  double c, s;
  cpu_sin_cos(angle, steep ? &c : &s, steep ? &s : &c);
  root[0] = left ? -c : c;
  root[1] = below ? s : -s;
}

void cpu_fourier_set(void *table, compute_dtype dtype, int64_t at, const double number[2]) {
  for (int part = 0; part < 2; part++) {
    if (dtype == COMPUTE_F64)
      ((double *)table)[2 * at + part] = number[part];
    else
      ((float *)table)[2 * at + part] = (float)number[part];
  }
}

static void set_root(void *table, compute_dtype dtype, int64_t at, int64_t k, int64_t n) {
  double root[2];
  cpu_fourier_root(k % n, n, root);
  cpu_fourier_set(table, dtype, at, root);
}

/* One part of a vector. */
static void set_lane(void *table, compute_dtype dtype, int64_t at, double value) {
  if (dtype == COMPUTE_F64)
    ((double *)table)[at] = value;
  else
    ((float *)table)[at] = (float)value;
}

static void set_vector(const cpu_fourier_plan *plan, void *table, int64_t vector, int32_t lane,
                       int64_t k) {
  const int64_t at = 2 * vector * plan->loops->lanes + lane;
  double root[2];
  cpu_fourier_root(k % plan->length, plan->length, root);
  set_lane(table, plan->dtype, at, root[0]);
  set_lane(table, plan->dtype, at + plan->loops->lanes, root[1]);
}

static uint64_t number_bytes(compute_dtype dtype) {
  return 2 * (uint64_t)cpu_dtype_size(dtype);
}

/* ---- Lengths --------------------------------------------------------------------------------- */

static int64_t without(int64_t n, int64_t factor) {
  while (n % factor == 0) n /= factor;
  return n;
}

bool cpu_fourier_is_smooth(int64_t n) {
  for (int64_t factor = 2; factor <= CPU_FOURIER_MOST_RADIX && n > 1; factor++)
    n = without(n, factor);
  return n == 1;
}

int64_t cpu_fourier_smooth_length(int64_t n, int32_t lanes) {
  static const int64_t odd[] = {1, 3, 5, 9, 15};
  int64_t best = INT64_MAX;
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    int64_t length = odd[i] * lanes * lanes;
    while (length < n) length *= 2;
    best = cpu_min(best, length);
  }
  return best;
}

/* The divisor of a smooth length next to its square root; rows are at least as long as columns. */
static int64_t column_length(int64_t n) {
  int64_t best = 1;
  for (int64_t d = 1; d <= n / d; d++)
    if (n % d == 0) best = d;
  return best;
}

static void choose_way(cpu_fourier_plan *plan) {
  const int64_t n = plan->length, lanes = plan->loops->lanes;
  const bool splits = n > CODELET && n % lanes == 0 && n / lanes >= lanes;
  const bool large = (uint64_t)n * number_bytes(plan->dtype) > SQUARE_BYTES;
  plan->way = large || (!splits && n >= SQUARE_POINTS) ? CPU_FOURIER_SQUARE
              : splits                                 ? CPU_FOURIER_SPLIT
                                                       : CPU_FOURIER_PASSES_ONLY;
  if (plan->way == CPU_FOURIER_SQUARE && column_length(n) == 1) plan->way = CPU_FOURIER_PASSES_ONLY;
  plan->shared = large && plan->way == CPU_FOURIER_SQUARE;
}

/* ---- Passes ---------------------------------------------------------------------------------- */

static bool is_generic(int32_t radix) {
  return radix > 5 && radix != 8;
}

/* Twos as eights and fours, then the odd primes. */
static void choose_radices(cpu_fourier_steps *steps, int64_t length) {
  int64_t left = length;
  int32_t twos = 0;
  steps->length = length;
  for (; left % 2 == 0; left /= 2) twos++;
  for (; twos > 0;) {
    const int32_t bits = twos >= 3 && twos != 4 ? 3 : twos >= 2 ? 2 : 1;
    steps->radix[steps->passes++] = 1 << bits;
    twos -= bits;
  }
  for (int32_t factor = 3; left > 1; factor += 2)
    for (; left % factor == 0; left /= factor) steps->radix[steps->passes++] = factor;
}

static bool plan_steps(cpu_device *device, compute_dtype dtype, int64_t length,
                       cpu_fourier_steps *steps) {
  choose_radices(steps, length);
  int64_t count = 1, m = length, at = 0;
  for (int32_t i = 0; i < steps->passes; i++) {
    m /= steps->radix[i];
    count += m * (steps->radix[i] - 1) + steps->radix[i];
  }
  void *table = cpu_allocate(device, (uint64_t)count * number_bytes(dtype));
  steps->factors = table;
  if (!table) return false;
  m = length;
  for (int32_t i = 0; i < steps->passes; i++) {
    const int32_t radix = steps->radix[i];
    for (int32_t j = 0; is_generic(radix) && j < radix; j++) set_root(table, dtype, at++, j, radix);
    for (int64_t p = 0; p < m / radix; p++)
      for (int32_t k = 1; k < radix; k++) set_root(table, dtype, at++, p * k, m);
    m /= radix;
  }
  return true;
}

/* ---- Plans ----------------------------------------------------------------------------------- */

static bool plan_split(cpu_device *device, cpu_fourier_plan *plan) {
  const int64_t lanes = plan->loops->lanes, m = plan->length / lanes;
  const int64_t blocks = cpu_divide_up(m, lanes);
  if (!plan_steps(device, plan->dtype, m, &plan->first)) return false;
  plan->factors =
      cpu_allocate(device, (uint64_t)(blocks * lanes * lanes) * number_bytes(plan->dtype));
  if (!plan->factors) return false;
  for (int64_t b = 0, vector = 0; b < blocks; b++)
    for (int64_t l = 1; l < lanes; l++, vector++)
      for (int32_t i = 0; i < lanes; i++)
        set_vector(plan, plan->factors, vector, i,
                   (cpu_min(b * lanes, m - lanes) + plan->loops->order[i]) * l);
  return true;
}

/* The first column or row of a group, of n. The last group may overlap its neighbour, because whole
 * vectors are faster. Not where threads share the line: both would write the same numbers. */
static int64_t group_start(const cpu_fourier_plan *plan, int64_t n, int64_t group) {
  const int64_t lanes = plan->loops->lanes, start = group * lanes;
  return plan->shared || n < lanes ? start : cpu_min(start, n - lanes);
}

static bool plan_square(cpu_device *device, cpu_fourier_plan *plan) {
  const int64_t lanes = plan->loops->lanes, height = column_length(plan->length);
  const int64_t width = plan->length / height, groups = cpu_divide_up(width, lanes);
  if (!plan_steps(device, plan->dtype, height, &plan->first) ||
      !plan_steps(device, plan->dtype, width, &plan->second))
    return false;
  plan->rows = cpu_allocate(device, (uint64_t)(height * lanes) * number_bytes(plan->dtype));
  plan->factors = cpu_allocate(device, (uint64_t)(height * groups) * number_bytes(plan->dtype));
  if (!plan->rows || !plan->factors) return false;
  for (int64_t k = 0; k < height; k++)
    for (int32_t l = 0; l < lanes; l++)
      set_vector(plan, plan->rows, k, l, k * plan->loops->order[l]);
  for (int64_t g = 0; g < groups; g++)
    for (int64_t k = 0; k < height; k++)
      set_root(plan->factors, plan->dtype, g * height + k, group_start(plan, width, g) * k,
               plan->length);
  return true;
}

bool cpu_fourier_plan_smooth(cpu_device *device, compute_dtype dtype, int64_t length,
                             cpu_fourier_plan *plan) {
  plan->loops = CPU_PICK_FLOAT(device->isa, cpu_fourier, dtype);
  plan->dtype = dtype;
  plan->length = length;
  choose_way(plan);
  if (plan->way == CPU_FOURIER_SPLIT) return plan_split(device, plan);
  if (plan->way == CPU_FOURIER_SQUARE) return plan_square(device, plan);
  return plan_steps(device, dtype, length, &plan->first);
}

void cpu_fourier_plan_clear(cpu_device *device, cpu_fourier_plan *plan) {
  cpu_release(device, (void *)plan->first.factors);
  cpu_release(device, (void *)plan->second.factors);
  cpu_release(device, plan->factors);
  cpu_release(device, plan->rows);
  cpu_release(device, plan->chirp);
  cpu_release(device, plan->spectrum);
}

uint64_t cpu_fourier_block_bytes(const cpu_fourier_plan *plan) {
  const uint64_t lanes = (uint64_t)plan->loops->lanes;
  const uint64_t points = plan->way == CPU_FOURIER_SPLIT ? (uint64_t)plan->length / lanes
                          : plan->way == CPU_FOURIER_SQUARE
                              ? (uint64_t)cpu_max(plan->first.length, plan->second.length)
                              : (uint64_t)plan->length;
  /* Blocks a multiple of 4096 bytes apart would share the sets of a cache. */
  return (uint64_t)cpu_round_up((int64_t)(points * lanes * number_bytes(plan->dtype)), 4096) + 192;
}

uint64_t cpu_fourier_block_count(const cpu_fourier_plan *plan) {
  return plan->way == CPU_FOURIER_SQUARE ? GROUPS + 1 : 2;
}

/* ---- Transforms ------------------------------------------------------------------------------ */

static unsigned char *at_element(const void *data, compute_dtype dtype, int64_t element) {
  return (unsigned char *)(uintptr_t)data + element * (int64_t)cpu_dtype_size(dtype);
}

static cpu_fourier_lines lines_at(const cpu_fourier_line *line, const void *data, int64_t number,
                                  bool swapped) {
  return (cpu_fourier_lines){.data = at_element(data, line->plan->dtype, 2 * number + swapped),
                             .part = swapped ? -1 : 1};
}

static void transform_split(const cpu_fourier_line *line, unsigned char *x, unsigned char *y) {
  const cpu_fourier_plan *plan = line->plan;
  const void *made = plan->loops->lead(&plan->first, line->source, line->swapped_source, x, y);
  plan->loops->finish(plan->first.length, plan->factors, made, line->result, line->swapped,
                      line->scale);
}

static void transform_alone(const cpu_fourier_line *line, unsigned char *x, unsigned char *y) {
  const cpu_fourier_plan *plan = line->plan;
  cpu_fourier_lines from = lines_at(line, line->source, 0, line->swapped_source);
  cpu_fourier_lines to = lines_at(line, line->result, 0, line->swapped);
  from.point = to.point = 2;
  from.count = to.count = 1;
  plan->loops->load(&from, plan->length, plan->length, x);
  plan->loops->store(&to, plan->length, line->scale, plan->loops->passes(&plan->first, 1, x, y));
}

static unsigned char *block_of(const cpu_fourier_line *line, int32_t worker) {
  return line->blocks + cpu_fourier_block_count(line->plan) * (uint64_t)worker * line->block_bytes;
}

/* Neighbouring lines of a task, in groups that fill the lanes. */
typedef struct line_groups {
  const cpu_fourier_line *line;
  int64_t points, lines; /* of a line; of the square */
  int64_t first, count;  /* groups */
  double scale;
  void *block[GROUPS];
} line_groups;

static line_groups find_task(const cpu_fourier_line *line, int64_t task, int64_t points,
                             int64_t lines, double scale) {
  const int64_t groups = cpu_divide_up(lines, line->plan->loops->lanes), first = task * GROUPS;
  return (line_groups){.line = line,
                       .points = points,
                       .lines = lines,
                       .first = first,
                       .count = cpu_min(GROUPS, groups - first),
                       .scale = scale};
}

/* Moves `points` points in turns over the groups. Lines that are neighbours in memory are then read
 * and written in pieces that are longer than a vector. */
static void move_groups(const line_groups *groups, const cpu_fourier_lines *where, int64_t points,
                        bool in) {
  const cpu_fourier_plan *plan = groups->line->plan;
  const cpu_fourier_loops *loops = plan->loops;
  for (int64_t k = 0; k < groups->points; k += points)
    for (int64_t g = 0; g < groups->count; g++) {
      const int64_t first = group_start(plan, groups->lines, groups->first + g);
      const int64_t some = cpu_min(points, groups->points - k);
      cpu_fourier_lines lines = *where;
      lines.data = at_element(where->data, plan->dtype, k * where->point + first * where->lane);
      lines.count = (int32_t)cpu_min(loops->lanes, groups->lines - first);
      void *block = at_element(groups->block[g], plan->dtype, 2 * k * loops->lanes);
      if (in)
        loops->load(&lines, some, some, block);
      else
        loops->store(&lines, some, groups->scale, block);
    }
}

/* Gives each group a block, and returns one more. */
static unsigned char *find_blocks(line_groups *groups, int32_t worker) {
  unsigned char *next = block_of(groups->line, worker);
  for (int g = 0; g < GROUPS; g++, next += groups->line->block_bytes) groups->block[g] = next;
  return next;
}

/* Transforms a group with the help of a spare block. Returns the block that is spare then. */
static unsigned char *transform_group(line_groups *groups, const cpu_fourier_steps *steps,
                                      int64_t g, unsigned char *spare) {
  unsigned char *own = groups->block[g];
  groups->block[g] = groups->line->plan->loops->passes(steps, 1, own, spare);
  return groups->block[g] == own ? spare : own;
}

/* Points that are moved at once. */
static int64_t turn_points(const cpu_fourier_plan *plan, int64_t points) {
  return (uint64_t)plan->length * number_bytes(plan->dtype) > CACHED_BYTES ? POINTS : points;
}

/* Columns: point k of column c becomes number k · width + c of the square, times the c · k-th
 * root. */
static void column_task(void *argument, int64_t task, int32_t worker) {
  const cpu_fourier_line *line = argument;
  const cpu_fourier_plan *plan = line->plan;
  const int64_t height = plan->first.length, width = plan->second.length;
  line_groups groups = find_task(line, task, height, width, 1);
  cpu_fourier_lines from = lines_at(line, line->source, 0, line->swapped_source);
  cpu_fourier_lines to = lines_at(line, line->square, 0, false);
  from.point = to.point = 2 * width;
  from.lane = to.lane = 2;
  unsigned char *spare = find_blocks(&groups, worker);
  move_groups(&groups, &from, turn_points(plan, height), true);
  for (int64_t g = 0; g < groups.count; g++) {
    spare = transform_group(&groups, &plan->first, g, spare);
    plan->loops->turn(height, plan->rows,
                      at_element(plan->factors, plan->dtype, 2 * (groups.first + g) * height),
                      groups.block[g]);
  }
  move_groups(&groups, &to, turn_points(plan, height), false);
}

static void row_task(void *argument, int64_t task, int32_t worker) {
  const cpu_fourier_line *line = argument;
  const cpu_fourier_plan *plan = line->plan;
  const int64_t height = plan->first.length, width = plan->second.length;
  line_groups groups = find_task(line, task, width, height, line->scale);
  cpu_fourier_lines from = lines_at(line, line->square, 0, false);
  cpu_fourier_lines to = lines_at(line, line->result, 0, line->swapped);
  from.point = to.lane = 2;
  from.lane = 2 * width;
  to.point = 2 * height;
  unsigned char *spare = find_blocks(&groups, worker);
  move_groups(&groups, &from, width, true);
  for (int64_t g = 0; g < groups.count; g++)
    spare = transform_group(&groups, &plan->second, g, spare);
  move_groups(&groups, &to, turn_points(plan, width), false);
}

/* On all threads, or one after the other. */
static void run_tasks(cpu_device *device, int64_t count, void (*task)(void *, int64_t, int32_t),
                      const cpu_fourier_line *line, int32_t worker) {
  void *argument = (void *)(uintptr_t)line;
  if (line->plan->shared) {
    cpu_parallel(device, count, task, argument);
    return;
  }
  for (int64_t i = 0; i < count; i++) task(argument, i, worker);
}

void cpu_fourier_transform(cpu_device *device, const cpu_fourier_line *line, int32_t worker) {
  const cpu_fourier_plan *plan = line->plan;
  unsigned char *x = block_of(line, worker);
  if (plan->way == CPU_FOURIER_SPLIT) {
    transform_split(line, x, x + line->block_bytes);
  } else if (plan->way == CPU_FOURIER_SQUARE) {
    const int64_t lanes = plan->loops->lanes;
    run_tasks(device, cpu_divide_up(plan->second.length, GROUPS * lanes), column_task, line,
              worker);
    run_tasks(device, cpu_divide_up(plan->first.length, GROUPS * lanes), row_task, line, worker);
  } else {
    transform_alone(line, x, x + line->block_bytes);
  }
}
