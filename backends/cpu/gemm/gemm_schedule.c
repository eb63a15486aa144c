/* SPDX-License-Identifier: MIT */
/* How the own implementation cuts its work.
 *
 * Tasks share nothing: each packs what it needs of A and B for itself. That costs a little packing
 * twice, but needs no barrier and no second parallel loop, which at n = 128 would take as long as
 * the product itself; and the sums of every element are built in the order of k whoever builds
 * them. Only where C is small and k long are there several parts of k, as many for any number of
 * threads, and a second loop adds them in their order.
 *
 * The number and shape of tiles comes from a model in units of one vector operation's time: the
 * multiplications, with tiles rounded up to whole register tiles; packing; a start-up per unit; and
 * a share of one unit for the thread that finishes last. */
#include "gemm.h"

enum {
  SUMS_LIMIT = 1 << 20,    /* of sums in scratch memory per thread */
  FEW_ROWS = 16,           /* so few rows do not repay packing B */
  TALL_BLOCKS = 3,         /* of k that tall tiles read in one go, out of the level-2 cache; */
  WORD_BLOCKS = 4,         /* the same of words of bf16, */
  BYTE_BLOCKS = 2,         /* and of words of bytes, whose sums need not be apart */
  DIRECT_B = 40 << 10,     /* a B this small is read where it lies, if its rows are close */
  NEAR_STRIDE = 2048,      /* bytes; rows of A further apart than that compete for cache sets */
  UNIT_OPERATIONS = 800,   /* the model's price of starting a unit */
  RUN_OPERATIONS = 120,    /* of starting the epilogue on a run … */
  STEP_OPERATIONS = 30,    /* … and each of its instructions on a tile's elements */
  FILLED_PANELS = 16,      /* of a tile whose B is computed: the rest of its source stays close; */
  FILLED_STEP = 128,       /* blocks of k begin where its words and blocks usually do */
  SPLIT_LIMIT = 256 << 10, /* bytes of C up to which k may be split, */
  SPLIT_TILES = 64,        /* … and register tiles, if more of these can be divided instead */
  SPLIT_TILED = 1024,      /* so long is a part of k at least (MOST_POINT_CHANNELS of bands), */
  SPLIT_STREAM = 2048,     /* of a large C, whose sums then pass between the threads' caches, */
  STREAM_PART = 128,       /* of k whose sums are apart (gemm_few.h) */
  SPLIT_N = 512,           /* and so wide a piece of its rows */
  MOST_SPLITS = 8,
  NEAR_OPERATIONS = 30,     /* of an addition to a row of bytes */
  NEAR_BYTES = 32 << 10,    /* of results that wait for an addition, … */
  MOST_NEAR_COLUMNS = 1024, /* of so many columns, or … */
  NEAR_COLUMNS = 256        /* … of these, if B is large */
};

/* Multiplications that pay for one thread more. */
#define THREAD_PRODUCTS (64.0 * 64.0 * 64.0)

/* Of one unit's time, what the thread that ends last costs: they rarely run at the same speed, and
 * end evenly spread over a unit's time; half of that for constant weights, whose units all cost the
 * same. */
static double late_share(const cpu_gemm *gemm, int64_t threads) {
  return (gemm->packed_b ? 0.25 : 0.5) * (1.0 - 1.0 / (double)threads);
}

/* The length of blocks of k that come from cutting it into equal parts of at most `most`. */
static int64_t equal_blocks(int64_t k, int64_t most) {
  const int64_t cuts = cpu_max(cpu_divide_up(k, most), 1);
  return cpu_max(cpu_divide_up(k, cuts), 1);
}

/* Whether vectors have 64 bytes. */
static bool fills_vectors(const gemm_problem *problem) {
  return problem->type->lanes * (int64_t)problem->size == 64;
}

static int64_t most_tile_k(const gemm_problem *problem) {
  const int64_t close = GEMM_CLOSE_CACHE / (problem->type->columns * (int64_t)problem->size);
  return problem->type->terms && fills_vectors(problem) ? BYTE_BLOCKS * close : close;
}

int64_t gemm_packed_block(const gemm_problem *problem) {
  return equal_blocks(problem->k, most_tile_k(problem));
}

int64_t gemm_word_row(int64_t words) {
  enum { LINE = 16 };
  return cpu_round_up(words, LINE) | LINE;
}

static bool is_native(const gemm_problem *problem, const gemm_operand *operand) {
  return operand->dtype == problem->accumulate;
}

/* Whether A's elements, or neighbours along k as words, can be read where they lie. Words need no
 * shift then (gemm_pack_words.h), and rows begin whole words apart. */
static bool can_read_a(const gemm_problem *problem) {
  const gemm_operand *a = &problem->a;
  const int32_t group = problem->type->group;
  if (group == 1) return is_native(problem, a);
  const bool as_is = a->dtype == COMPUTE_BF16 ||
                     (group == 4 && a->dtype == COMPUTE_U8 && problem->b.dtype == COMPUTE_I8);
  return as_is && a->column == 1 && a->row % group == 0 && problem->elements % group == 0;
}

/* Whether register tiles are tall, of 64-byte vectors of numbers. */
static bool is_tall(const gemm_problem *problem) {
  return problem->type->group == 1 && fills_vectors(problem);
}

/* Whether the rows of A that a tile reads do not get into each other's way. Tall tiles, of 64-byte
 * vectors, take so long for each k that runs of memory which the hardware does not foresee arrive
 * in time from the level-2 cache: only many rows that compete for few cache sets are copied. */
static bool lies_well(const gemm_problem *problem) {
  const gemm_operand *a = &problem->a;
  const int64_t bytes = cpu_max(a->row, a->column) * (int64_t)a->size;
  if (cpu_min(a->row, a->column) != 1) return false;
  return bytes <= NEAR_STRIDE || (a->column == 1 && is_tall(problem) &&
                                  (problem->m <= CPU_GEMM_FORESEEN || bytes % NEAR_STRIDE != 0));
}

/* Threads that this much work keeps busy. */
static int64_t useful_threads(const cpu_gemm *gemm) {
  const gemm_problem *problem = &gemm->problem;
  const double products = (double)problem->batches * (double)problem->m * (double)problem->n *
                          (double)cpu_max(problem->k, 1);
  const double threads = products / THREAD_PRODUCTS;
  return threads < gemm->head.device->threads ? cpu_max((int64_t)threads, 1)
                                              : gemm->head.device->threads;
}

static bool is_few(const cpu_gemm *gemm, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const gemm_operand *a = &problem->a, *b = &problem->b;
  const bool words = problem->type->group > 1;
  if (problem->m > FEW_ROWS || !problem->type->dot || gemm->filled || gemm->even) return false;
  const double b_bytes = (double)problem->k * (double)problem->n * b->size;
  if (b->row == 1 && (b->column != 1 || problem->n == 1)) {
    schedule->method = GEMM_DOT;
    schedule->pack_a = !can_read_a(problem) || a->column != 1;
    schedule->block_k = 1024;
    schedule->piece = 8;
  } else if (words && b->column == 1 && problem->m <= CPU_GEMM_STREAMED) {
    schedule->method = GEMM_STREAM; /* of any size: panels are not packed as fast as read */
    schedule->pack_a = !can_read_a(problem) || a->column != 1;
    schedule->block_k = STREAM_PART;
    schedule->piece = 2048;
  } else if (!words && b->column == 1 && b_bytes > (double)gemm->head.device->l2_bytes) {
    schedule->method = GEMM_STREAM;
    schedule->pack_a = !is_native(problem, a);
    schedule->block_k = is_native(problem, b) ? STREAM_PART : STREAM_PART / 4;
    schedule->piece = is_native(problem, b) ? 2048 : 1024;
  } else {
    return false;
  }
  schedule->depth = schedule->block_k;
  schedule->pack_b = words || is_native(problem, b) ? GEMM_PACK_NONE : GEMM_PACK_PANEL;
  return true;
}

/* What does not depend on the tiles. */
static void choose_methods(const cpu_gemm *gemm, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const gemm_operand *b = &problem->b;
  const int64_t size = problem->size, columns = problem->type->columns;
  if (!gemm->packed_b && is_few(gemm, schedule)) return;
  schedule->method = GEMM_TILES;
  schedule->depth = schedule->block_k = most_tile_k(problem);
  if (fills_vectors(problem) && !problem->type->terms && !gemm->filled)
    schedule->block_k *= problem->type->group == 1 ? TALL_BLOCKS : WORD_BLOCKS;
  const bool close_b = problem->k * problem->n * size <= DIRECT_B && b->row * size <= 512;
  const bool in_place = !gemm->filled && is_native(problem, b) && b->column == 1 &&
                        (problem->m <= FEW_ROWS || close_b);
  schedule->pack_b = gemm->packed_b ? GEMM_PACKED : in_place ? GEMM_PACK_NONE : GEMM_PACK_BLOCK;
  schedule->pack_a = !can_read_a(problem) || (!lies_well(problem) && problem->n >= 8 * columns);
}

/* Cache blocks: A's block fills a part of the level-2 cache; k is cut into equal parts. */
static void choose_blocks(const cpu_gemm *gemm, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const int64_t parts = cpu_divide_up(problem->k, schedule->splits);
  const int64_t together = schedule->block_k / schedule->depth;
  schedule->depth = equal_blocks(parts, schedule->depth);
  if (gemm->filled) schedule->depth = cpu_round_up(schedule->depth, FILLED_STEP);
  schedule->block_k = cpu_min(cpu_max(parts, 1), together * schedule->depth);
  const uint64_t fifths = schedule->block_k > schedule->depth ? 3 : 2;
  const int64_t fit = (int64_t)(gemm->head.device->l2_bytes * fifths / 5) /
                      (schedule->block_k * (int64_t)problem->size);
  const int64_t rows = cpu_max(fit / problem->type->rows, 1) * problem->type->rows;
  const int64_t blocks = cpu_divide_up(schedule->tile_m, rows);
  schedule->block_m = cpu_min(
      cpu_round_up(cpu_divide_up(schedule->tile_m, blocks), problem->type->rows), schedule->tile_m);
}

/* What the epilogue's runs cost besides the work on their elements: a wide tile has fewer. What the
 * micro-kernel computes has none. */
static double run_cost(const cpu_gemm *gemm, int64_t tile_m, int64_t tile_n) {
  const cpu_program *program = gemm->finishes ? gemm->epilogue->rest : gemm->epilogue;
  if (gemm->finishes && gemm->epilogue->bytes) return (double)tile_m * NEAR_OPERATIONS;
  if (gemm->identity || !program || (gemm->finishes && gemm->epilogue->rest_rows)) return 0;
  const double chunks = (double)cpu_divide_up(tile_n, cpu_program_tile_elements(program));
  return (double)tile_m * (RUN_OPERATIONS + chunks * STEP_OPERATIONS * program->passes);
}

/* The model's time of one unit. */
static double unit_cost(const cpu_gemm *gemm, const gemm_schedule *schedule, int64_t tile_m,
                        int64_t tile_n) {
  const gemm_problem *problem = &gemm->problem;
  const double columns = problem->type->columns, k = (double)problem->k;
  const double m = (double)tile_m, n = (double)cpu_round_up(tile_n, problem->type->columns);
  /* Two multiply-adds on vectors per time step; tiles of few rows wait for their own sums. */
  const double height = m / (double)cpu_divide_up(tile_m, problem->type->rows);
  double cost = m * n * k / columns * (height < 4 ? 4 / height : 1);
  const double copied = columns / 2;
  const bool as_it_lies =
      !gemm->filled && is_native(problem, &problem->b) && problem->b.column == 1;
  if (schedule->pack_b != GEMM_PACK_NONE && schedule->pack_b != GEMM_PACKED)
    cost += n * k * 4 / copied * (as_it_lies ? 1 : gemm->filled ? 4 : 2);
  if (schedule->pack_a) cost += m * k * (gemm->packed_b ? 20 : 8) / copied;
  /* What does not fit the level-2 cache comes from farther away once per unit. */
  const double l2 = (double)gemm->head.device->l2_bytes, line = k * (double)problem->size;
  if ((double)problem->m * line > l2) cost += m * line / 16;
  if (gemm->packed_b)
    cost += n * line / ((double)problem->n * line > l2 / 2 ? 32 : 64);
  else if ((double)problem->n * line > l2)
    cost += n * line / 16;
  cost += m * n * 4 / columns; /* C itself, and the epilogue */
  return cost + run_cost(gemm, tile_m, tile_n) + UNIT_OPERATIONS;
}

/* Half of one thread's share of the last cache: for packed B, and for sums in outputs[0], which are
 * read again for each block of k. */
static int64_t cache_share(const cpu_gemm *gemm) {
  const cpu_device *device = gemm->head.device;
  return cpu_max((int64_t)device->share_bytes / 2 / device->threads, SUMS_LIMIT);
}

/* The widest tile of this height that scratch memory and caches allow, in whole panels of B. */
static int64_t widest_tile(const cpu_gemm *gemm, const gemm_schedule *schedule, bool direct,
                           int64_t tile_m) {
  const gemm_problem *problem = &gemm->problem;
  const int64_t size = problem->size;
  int64_t widest = (direct ? cache_share(gemm) : SUMS_LIMIT) / (tile_m * size);
  if (schedule->pack_b != GEMM_PACK_NONE)
    widest = cpu_min(widest, cache_share(gemm) / (schedule->block_k * size));
  if (gemm->filled) widest = cpu_min(widest, FILLED_PANELS * problem->type->columns);
  return cpu_max(widest / problem->type->columns, 1) * problem->type->columns;
}

/* The rows of each of some tiles. Tall register tiles of one row less lose nothing, and equal tiles
 * keep threads equally busy; but with six rows, or where each unit packs B, whole register tiles
 * are worth more. */
static int64_t tile_height(const cpu_gemm *gemm, int64_t tiles) {
  const gemm_problem *problem = &gemm->problem;
  const int64_t rows = cpu_divide_up(problem->m, tiles);
  if (gemm->packed_b && fills_vectors(problem)) return rows;
  return cpu_min(cpu_round_up(rows, problem->type->rows), problem->m);
}

/* Tries every grid of up to some units per thread and keeps the cheapest. */
static void choose_tiles(const cpu_gemm *gemm, int64_t threads, bool direct,
                         gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const int64_t rows = problem->type->rows, columns = problem->type->columns;
  const int64_t enough = GEMM_UNITS_PER_THREAD * threads;
  const int64_t tallest =
      (direct ? cache_share(gemm) : SUMS_LIMIT) / (columns * (int64_t)problem->size * rows) * rows;
  const int64_t least_m = cpu_divide_up(problem->m, tallest);
  const int64_t most_m = cpu_min(cpu_divide_up(problem->m, rows), cpu_max(least_m, enough));
  double best = -1;
  for (int64_t tiles_m = least_m; tiles_m <= most_m; tiles_m++) {
    const int64_t tile_m = tile_height(gemm, tiles_m);
    const int64_t units_n = problem->batches * cpu_divide_up(problem->m, tile_m);
    const int64_t most_n = cpu_divide_up(problem->n, columns);
    int64_t tiles_n = cpu_divide_up(problem->n, widest_tile(gemm, schedule, direct, tile_m));
    for (bool more = true; more && tiles_n <= most_n; tiles_n++) {
      const int64_t tile_n =
          cpu_min(cpu_round_up(cpu_divide_up(problem->n, tiles_n), columns), problem->n);
      const int64_t units = units_n * cpu_divide_up(problem->n, tile_n);
      const double unit = unit_cost(gemm, schedule, tile_m, tile_n);
      const double cost =
          (double)cpu_divide_up(units, threads) * unit + late_share(gemm, threads) * unit;
      if (best < 0 || cost < best) {
        best = cost;
        schedule->tile_m = tile_m;
        schedule->tile_n = tile_n;
      }
      more = units < enough;
    }
  }
}

/* In how many parts k is summed: several where C has too few tiles for many threads, or where B is
 * read as it lies, by whole rows. Neither threads nor batch entries count: an element of C has the
 * same bits for any number of them. */
static int64_t parts_of_k(const cpu_gemm *gemm, const gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  if (gemm->even) return 1;                     /* the number of rows must not count */
  if (gemm->packed_b || gemm->filled) return 1; /* of which there are enough panels */
  const int64_t elements = problem->m * problem->n;
  if (elements > SPLIT_LIMIT / (int64_t)problem->size) return 1;
  const int64_t tiles = cpu_divide_up(problem->m, problem->type->rows) *
                        cpu_divide_up(problem->n, problem->type->columns);
  const bool stream = schedule->method == GEMM_STREAM;
  if (!stream && tiles > SPLIT_TILES) return 1;
  const double worth = (double)elements * (double)problem->k / THREAD_PRODUCTS;
  const int64_t most = cpu_min(problem->k / (stream ? SPLIT_STREAM : SPLIT_TILED), MOST_SPLITS);
  return worth < (double)most ? cpu_max((int64_t)worth, 1) : cpu_max(most, 1);
}

/* Units of a part of k are the whole of C; or pieces of its rows, where the parts cannot be divided
 * among the threads. */
static void choose_splits(const cpu_gemm *gemm, int64_t threads, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  schedule->splits = parts_of_k(gemm, schedule);
  if (schedule->splits == 1) return;
  const int64_t parts = problem->batches * schedule->splits;
  const int64_t pieces = parts % threads == 0 ? 1 : threads;
  schedule->tile_m = problem->m;
  schedule->tile_n = cpu_min(
      cpu_max(cpu_round_up(cpu_divide_up(problem->n, pieces), problem->type->columns), SPLIT_N),
      problem->n);
}

static void choose_scratch(const cpu_gemm *gemm, bool direct, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const int64_t columns = problem->type->columns, size = problem->size;
  int64_t packed =
      schedule->pack_b == GEMM_PACK_BLOCK ? cpu_round_up(schedule->tile_n, columns) : columns;
  if (schedule->pack_b == GEMM_PACKED) packed = 0;
  if (schedule->method != GEMM_TILES)
    packed = schedule->pack_b == GEMM_PACK_NONE ? 0 : schedule->piece;
  const int64_t lines = schedule->block_k + problem->type->terms;
  schedule->b_bytes = (uint64_t)cpu_round_up(packed * lines * size, 64);
  const int64_t a_lines = problem->type->group > 1 ? gemm_word_row(lines) : lines;
  if (gemm->filled) {
    schedule->fill_bytes = (uint64_t)cpu_round_up(columns * lines * size, 64);
    schedule->b_bytes += schedule->fill_bytes;
  }
  schedule->a_bytes =
      schedule->pack_a ? (uint64_t)cpu_round_up(schedule->block_m * a_lines * size, 64) : 0;
  schedule->sums_bytes =
      direct || schedule->splits > 1
          ? 0
          : (uint64_t)cpu_round_up(schedule->tile_m * schedule->tile_n * size, 64);
}

/* With one block of rows each panel is used once and may as well be packed then, in a close cache.
 * But a large B that is not turned is read in longer runs when it is packed as a whole. */
static void choose_moment(const cpu_gemm *gemm, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  if (schedule->pack_b != GEMM_PACK_BLOCK || schedule->tile_m > schedule->block_m) return;
  if (gemm->filled) {
    schedule->pack_b = GEMM_PACK_PANEL;
    return;
  }
  const double bytes = (double)problem->k * (double)problem->n * problem->size;
  const bool words = problem->type->group > 1; /* turned into them in runs, too */
  if (problem->b.column != 1 || (!is_native(problem, &problem->b) && !words))
    schedule->pack_b = GEMM_PACK_PANEL;
  else if (!words && bytes <= (double)gemm->head.device->l2_bytes)
    schedule->pack_b = GEMM_PACK_ON_USE;
}

/* Words of bf16 are made from pairs of rows of B as they lie, for a few rows of A just once:
 * long runs of each row arrive faster than short ones, which jump from page to page. */
static void widen_tiles(const cpu_gemm *gemm, int64_t threads, gemm_schedule *schedule) {
  enum { RUN = 1024 };
  const gemm_problem *problem = &gemm->problem;
  if (gemm->packed_b || gemm->filled || problem->m > CPU_GEMM_STREAMED || problem->b.column != 1 ||
      problem->type->group == 1 || !problem->type->dot || schedule->method == GEMM_DOT)
    return;
  const int64_t share = cpu_round_up(cpu_divide_up(problem->n, threads), problem->type->columns);
  schedule->tile_n = cpu_min(cpu_max(schedule->tile_n, cpu_min(share, RUN)), problem->n);
}

/* Bytes to which others are added stay near the core meanwhile. Whole rows of them are best, which
 * are read and written as one run; a large B should not be read too often, though. */
static void choose_near(const cpu_gemm *gemm, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const int64_t rows = problem->type->rows, columns = problem->type->columns;
  const int64_t bytes = schedule->tile_n * problem->k * (int64_t)problem->size;
  const bool large = bytes > (int64_t)gemm->head.device->l2_bytes / 2;
  const int64_t widest = large ? NEAR_COLUMNS : MOST_NEAR_COLUMNS;
  schedule->group = cpu_min(cpu_round_up(schedule->tile_n, columns), widest);
  const int64_t fit = cpu_max(NEAR_BYTES / schedule->group / rows, 2) * rows;
  schedule->block_m = cpu_min(schedule->block_m, fit);
}

void gemm_schedule_make(const cpu_gemm *gemm, bool direct, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const int64_t threads = useful_threads(gemm);
  *schedule = (gemm_schedule){.splits = 1};
  choose_methods(gemm, schedule);
  choose_tiles(gemm, threads, direct, schedule);
  if (gemm->packed_b && problem->m <= problem->type->rows) {
    const int64_t panels = problem->m <= 2 ? problem->type->abreast : 1;
    schedule->tile_n = cpu_min(panels * problem->type->columns, problem->n);
  }
  widen_tiles(gemm, threads, schedule);
  choose_splits(gemm, threads, schedule);
  schedule->tiles_m = cpu_divide_up(problem->m, schedule->tile_m);
  schedule->tiles_n = cpu_divide_up(problem->n, schedule->tile_n);
  choose_blocks(gemm, schedule);
  const int64_t close =
      (int64_t)gemm->head.device->l2_bytes * 2 / 5 / (schedule->block_m * (int64_t)problem->size);
  schedule->group = cpu_max(close, 256) / problem->type->columns * problem->type->columns;
  if (gemm->finishes && gemm->epilogue->bytes) choose_near(gemm, schedule);
  choose_moment(gemm, schedule);
  const int64_t units = problem->batches * schedule->tiles_m * schedule->tiles_n * schedule->splits;
  schedule->chunk = threads == 1 ? units : cpu_max(units / (GEMM_UNITS_PER_THREAD * threads), 1);
  schedule->tasks = cpu_divide_up(units, schedule->chunk);
  choose_scratch(gemm, direct, schedule);
}
