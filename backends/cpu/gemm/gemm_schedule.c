/* SPDX-License-Identifier: MIT */
/* Cuts the work of our own GEMM implementation into tiles, units and tasks.
 *
 * Tasks share nothing: each packs the parts of A and B it needs. This packs some elements twice,
 * but avoids a barrier and a second parallel loop, which at n = 128 would take as long as the
 * product itself.
 *
 * The bits of an element depend on its row, its column, k, n and the types only. k is cut into
 * blocks of a length that depends on k and the types. Each block is summed from zero, and the
 * blocks' sums are added in order. Inside a block, register tiles and streams add in the order of
 * k. Dot products have another order; k and n decide whether they are used (gemm_problem.c). The
 * exception is a product that is not strict (pays_dots). If C is small and k is long, threads
 * compute different blocks, and a second parallel loop adds them.
 *
 * A cost model chooses the number and shape of tiles. Its unit is the time of one vector operation.
 * It counts the multiplications (with tiles rounded up to whole register tiles), packing, a
 * start-up cost per unit, and a share of one unit for the thread that finishes last. */
#include "gemm.h"
#include "gemm/isa/narrow_table.h"

enum {
  SUMS_LIMIT = 1 << 20,     /* bytes of sums in scratch memory per thread */
  FEW_ROWS = 16,            /* up to this many rows do not repay packing B */
  DOT_STEPS = 16,           /* of k for each of several rows: more pay for dot products */
  DOT_BLOCK = 1024,         /* of k that dot products sum separately */
  TALL_BLOCKS = 3,          /* L1 blocks of k that tall tiles read in one pass, from the L2 cache */
  WORD_BLOCKS = 4,          /* the same for words of bf16 */
  BYTE_BLOCKS = 2,          /* the same for words of bytes: exact sums need no parts */
  DIRECT_B = 40 << 10,      /* bytes; a B up to this size is read in place if its rows are close */
  NEAR_STRIDE = 2048,       /* bytes; rows of A further apart compete for cache sets */
  UNIT_OPERATIONS = 800,    /* cost of starting a unit */
  LEAST_DEPTH = 8,          /* of k: storing a sum takes as long as so many products */
  RUN_OPERATIONS = 120,     /* cost of starting the epilogue on a row of a tile */
  STEP_OPERATIONS = 30,     /* cost of each of its instructions per program tile */
  FILLED_PANELS = 16,       /* most panels of a tile whose B is computed; its source stays close */
  FILLED_STEP = 128,        /* k blocks are multiples of this if B is computed, as its blocks are */
  SPLIT_LIMIT = 256 << 10,  /* most bytes of C if k is split */
  SPLIT_TILES = 64,         /* with this many register tiles of C, tiles are divided, not k */
  SPLIT_TILED = 1024,       /* of k, twice as much pays (see MOST_POINT_CHANNELS) */
  SPLIT_STREAM = 2048,      /* the same for GEMM_STREAM, whose sums pass between cores' caches */
  SPLIT_N = 512,            /* least width of a column piece if k is split */
  NEAR_OPERATIONS = 30,     /* cost of adding a residual to a row of bytes */
  NEAR_BYTES = 32 << 10,    /* bytes of results that wait for a residual */
  MOST_NEAR_COLUMNS = 1024, /* columns of them … */
  NEAR_COLUMNS = 256        /* … and if B is large */
};

/* Multiplications that justify one more thread. */
#define THREAD_PRODUCTS (64.0 * 64.0 * 64.0)

/* The share of a unit's time lost to the thread that finishes last. Threads rarely run at the same
 * speed, so their finishing times spread evenly over one unit. Constant weights halve the share,
 * because their units all cost the same. */
static double late_share(const cpu_gemm *gemm, int64_t threads) {
  return (gemm->packed_b ? 0.25 : 0.5) * (1.0 - 1.0 / (double)threads);
}

/* The block length if k is cut into equal parts of at most `most`. */
static int64_t equal_blocks(int64_t k, int64_t most) {
  const int64_t cuts = cpu_max(cpu_divide_up(k, most), 1);
  return cpu_max(cpu_divide_up(k, cuts), 1);
}

/* True if vectors have 64 bytes. */
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

/* True if A, or words of its neighbours along k, can be read in place. For words, A must need no
 * shift (gemm_pack_words.h) and its rows must begin a whole number of words apart. */
static bool can_read_a(const gemm_problem *problem) {
  const gemm_operand *a = &problem->a;
  const int32_t group = problem->type->group;
  if (group == 1) return is_native(problem, a);
  const bool as_is =
      a->dtype == COMPUTE_BF16 || (group == 4 && !cpu_gemm_shifts_left(problem->type, a->dtype) &&
                                   problem->b.dtype == COMPUTE_I8);
  return as_is && a->column == 1 && a->row % group == 0 && problem->elements % group == 0;
}

/* True for the tall register tiles of unpacked numbers in 64-byte vectors. */
static bool is_tall(const gemm_problem *problem) {
  return problem->type->group == 1 && fills_vectors(problem);
}

/* True if the rows of A in a tile do not compete for cache sets. Tall tiles take so long per step
 * of k that rows which the hardware prefetcher misses still arrive in time from the L2 cache. They
 * copy A only if there are many rows and these compete for few cache sets. */
static bool lies_well(const gemm_problem *problem) {
  const gemm_operand *a = &problem->a;
  const int64_t bytes = cpu_max(a->row, a->column) * (int64_t)a->size;
  if (cpu_min(a->row, a->column) != 1) return false;
  return bytes <= NEAR_STRIDE || (a->column == 1 && is_tall(problem) &&
                                  (problem->m <= CPU_GEMM_FORESEEN || bytes % NEAR_STRIDE != 0));
}

/* The number of threads this product can keep busy. */
static int64_t useful_threads(const cpu_gemm *gemm) {
  const gemm_problem *problem = &gemm->problem;
  const double products = (double)problem->batches * (double)problem->m * (double)problem->n *
                          (double)cpu_max(problem->k, LEAST_DEPTH);
  const double threads = products / THREAD_PRODUCTS;
  return threads < gemm->head.device->threads ? cpu_max((int64_t)threads, 1)
                                              : gemm->head.device->threads;
}

/* True if rows of B are added to C as they arrive from memory. Register tiles store each sum once,
 * but read B in short runs: these only arrive in time from a cache. */
static bool streams(const cpu_gemm *gemm, double b_bytes) {
  const gemm_problem *problem = &gemm->problem;
  if (!is_native(problem, &problem->b))
    return problem->accumulate == COMPUTE_F32 && b_bytes > (double)gemm->head.device->l2_bytes;
  return problem->m <= CPU_GEMM_STREAMED && 3 * b_bytes > (double)gemm->head.device->share_bytes;
}

/* True if dot products are faster than packing panels of B, whose rows are contiguous along k: each
 * dot product ends with a sum over the lanes of a vector. Floats then round in another order than
 * with more rows. A strict product does not allow this, and a B that is converted anyway gains
 * little. A B that was the left factor is never constant, and its columns are the rows of users. A
 * short k is narrow or not by the size of the batch, so it has one order. */
static bool pays_dots(const gemm_problem *problem) {
  if (problem->dots) return true;
  if (cpu_dtype_is_float(problem->accumulate) &&
      (problem->strict || problem->swapped || problem->n == 1 || !is_native(problem, &problem->b) ||
       problem->k <= CPU_NARROW_DEPTH))
    return false;
  return problem->b.row == 1 && (problem->b.column != 1 || problem->n == 1) &&
         (problem->type->group > 1 || problem->m <= CPU_GEMM_STREAMED ||
          problem->m * DOT_STEPS <= problem->k);
}

static bool is_few(const cpu_gemm *gemm, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const gemm_operand *a = &problem->a, *b = &problem->b;
  const bool words = problem->type->group > 1;
  if (problem->m > FEW_ROWS || !problem->type->dot || gemm->filled) return false;
  const double b_bytes = (double)problem->k * (double)problem->n * b->size;
  if (pays_dots(problem)) {
    schedule->method = GEMM_DOT;
    schedule->pack_a = !can_read_a(problem) || a->column != 1;
    schedule->depth = schedule->block_k = DOT_BLOCK;
    schedule->piece = 8;
  } else if (words && b->column == 1 && problem->m <= CPU_GEMM_STREAMED && problem->type->stream) {
    schedule->method = GEMM_STREAM; /* of any size: packing panels is slower than reading B */
    schedule->pack_a = !can_read_a(problem) || a->column != 1;
  } else if (!words && b->column == 1 && streams(gemm, b_bytes)) {
    schedule->method = GEMM_STREAM;
    schedule->pack_a = !is_native(problem, a);
  } else if (!words && b->row == 1 && problem->m <= CPU_GEMM_STREAMED &&
             (problem->accumulate == COMPUTE_F32 ||
              (problem->accumulate == COMPUTE_F64 && is_native(problem, b)))) {
    schedule->method = GEMM_STREAM; /* transposes in registers */
    schedule->pack_a = !is_native(problem, a);
  } else {
    return false;
  }
  const bool in_place = (words || is_native(problem, b)) &&
                        (schedule->method == GEMM_STREAM || b->row == 1 || problem->k == 1);
  schedule->pack_b = in_place ? GEMM_PACK_NONE : GEMM_PACK_PANEL;
  return true;
}

/* Chooses everything that does not depend on the tiles. */
static void choose_methods(const cpu_gemm *gemm, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const gemm_operand *b = &problem->b;
  const int64_t size = problem->size, columns = problem->type->columns;
  schedule->depth = schedule->block_k = most_tile_k(problem);
  if (fills_vectors(problem) && !problem->type->terms && !gemm->filled)
    schedule->block_k *= problem->type->group == 1 ? TALL_BLOCKS : WORD_BLOCKS;
  if (!gemm->packed_b && is_few(gemm, schedule)) return;
  schedule->method = GEMM_TILES;
  const bool close_b = problem->k * problem->n * size <= DIRECT_B && b->row * size <= 512;
  const bool in_place = !gemm->filled && is_native(problem, b) && b->column == 1 &&
                        (problem->m <= FEW_ROWS || close_b);
  schedule->pack_b = gemm->packed_b ? GEMM_PACKED : in_place ? GEMM_PACK_NONE : GEMM_PACK_BLOCK;
  schedule->pack_a = !can_read_a(problem) || (!lies_well(problem) && problem->n >= 8 * columns);
}

/* Cuts k into equal blocks. This must depend on k and the types only. */
static void cut_k(const cpu_gemm *gemm, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const int64_t together = schedule->block_k / schedule->depth;
  schedule->depth = equal_blocks(problem->k, schedule->depth);
  if (gemm->filled) schedule->depth = cpu_round_up(schedule->depth, FILLED_STEP);
  schedule->block_k = cpu_min(cpu_max(problem->k, 1), together * schedule->depth);
}

/* Cache blocks: A's block fills part of the L2 cache. */
static void choose_blocks(const cpu_gemm *gemm, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const uint64_t fifths = schedule->block_k > schedule->depth ? 3 : 2;
  const int64_t fit = (int64_t)(gemm->head.device->l2_bytes * fifths / 5) /
                      (schedule->block_k * (int64_t)problem->size);
  const int64_t rows = cpu_max(fit / problem->type->rows, 1) * problem->type->rows;
  const int64_t blocks = cpu_divide_up(schedule->tile_m, rows);
  schedule->block_m = cpu_min(
      cpu_round_up(cpu_divide_up(schedule->tile_m, blocks), problem->type->rows), schedule->tile_m);
}

/* Cost of the epilogue's rows besides the work on their elements: a wide tile has fewer rows. An
 * epilogue in the micro-kernel costs nothing extra. */
static double run_cost(const cpu_gemm *gemm, int64_t tile_m, int64_t tile_n) {
  const cpu_program *program = gemm->finishes ? gemm->epilogue->rest : gemm->epilogue;
  if (gemm->finishes && gemm->epilogue->bytes) return (double)tile_m * NEAR_OPERATIONS;
  if (gemm->identity || !program || (gemm->finishes && gemm->epilogue->rest_rows)) return 0;
  const double chunks = (double)cpu_divide_up(tile_n, cpu_program_tile_elements(program));
  return (double)tile_m * (RUN_OPERATIONS + chunks * STEP_OPERATIONS * program->passes);
}

/* The model's time for one unit. */
static double unit_cost(const cpu_gemm *gemm, const gemm_schedule *schedule, int64_t tile_m,
                        int64_t tile_n) {
  const gemm_problem *problem = &gemm->problem;
  const double columns = problem->type->columns, k = (double)problem->k;
  const double m = (double)tile_m, n = (double)cpu_round_up(tile_n, problem->type->columns);
  /* Two vector multiply-adds per time step; tiles of few rows wait for their own sums. */
  const double height = m / (double)cpu_divide_up(tile_m, problem->type->rows);
  double cost = m * n * k / columns * (height < 4 ? 4 / height : 1);
  const double copied = columns / 2;
  const bool as_it_lies =
      !gemm->filled && is_native(problem, &problem->b) && problem->b.column == 1;
  if (schedule->pack_b != GEMM_PACK_NONE && schedule->pack_b != GEMM_PACKED)
    cost += n * k * 4 / copied * (as_it_lies ? 1 : gemm->filled ? 4 : 2);
  if (schedule->pack_a) cost += m * k * (gemm->packed_b ? 20 : 8) / copied;
  /* Operands that exceed the L2 cache are fetched from further away once per unit. */
  const double l2 = (double)gemm->head.device->l2_bytes, line = k * (double)problem->size;
  if ((double)problem->m * line > l2) cost += m * line / 16;
  if (gemm->packed_b)
    cost += n * line / ((double)problem->n * line > l2 / 2 ? 32 : 64);
  else if ((double)problem->n * line > l2)
    cost += n * line / 16;
  cost += m * n * 4 / columns; /* C itself, and the epilogue */
  return cost + run_cost(gemm, tile_m, tile_n) + UNIT_OPERATIONS;
}

/* Half of a thread's share of the last-level cache. It bounds packed B, and sums in outputs[0],
 * which each block of k reads again. */
static int64_t cache_share(const cpu_gemm *gemm) {
  const cpu_device *device = gemm->head.device;
  return cpu_max((int64_t)device->share_bytes / 2 / device->threads, SUMS_LIMIT);
}

/* The widest tile of this height that fits scratch memory and caches, in whole panels of B. */
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

/* The tile height if m is cut into `tiles` tiles. Equal heights keep threads equally busy, and tall
 * register tiles lose nothing with one row less. Other tiles are rounded up to whole register
 * tiles, which matters more with six rows, or if each unit packs B. */
static int64_t tile_height(const cpu_gemm *gemm, int64_t tiles) {
  const gemm_problem *problem = &gemm->problem;
  const int64_t rows = cpu_divide_up(problem->m, tiles);
  if (gemm->packed_b && fills_vectors(problem)) return rows;
  return cpu_min(cpu_round_up(rows, problem->type->rows), problem->m);
}

/* Tries every grid of up to GEMM_UNITS_PER_THREAD units per thread and keeps the cheapest. */
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

/* The number of parts into which k is split: 1, or its blocks. k is split if C has too few tiles
 * for many threads, or if B is read in place by whole rows. The bits do not depend on this. */
static int64_t parts_of_k(const cpu_gemm *gemm, int64_t threads, const gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const bool stream = schedule->method == GEMM_STREAM;
  if (gemm->packed_b || gemm->filled || threads == 1) return 1; /* has enough panels */
  const int64_t elements = problem->m * problem->n;
  if (elements > SPLIT_LIMIT / (int64_t)problem->size) return 1;
  const int64_t tiles = cpu_divide_up(problem->m, problem->type->rows) *
                        cpu_divide_up(problem->n, problem->type->columns);
  if (!stream && tiles > SPLIT_TILES) return 1;
  const double worth = (double)elements * (double)problem->k / THREAD_PRODUCTS;
  if (worth < 2 || problem->k / (stream ? SPLIT_STREAM : SPLIT_TILED) < 2) return 1;
  return cpu_divide_up(problem->k, schedule->block_k);
}

/* Shapes units if k is split. A unit is one part of k over all of C, or over a piece of its columns
 * if the parts do not divide evenly among the threads. */
static void choose_splits(const cpu_gemm *gemm, int64_t threads, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  schedule->splits = parts_of_k(gemm, threads, schedule);
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
  if (schedule->method == GEMM_STREAM) {
    const uint64_t converted = (uint64_t)cpu_max(GEMM_CONVERTED * GEMM_CONVERTED_ROWS,
                                                 GEMM_CONVERTED_TURNED * CPU_GEMM_WHOLE);
    schedule->b_bytes = 2 * GEMM_STREAM_SUMS * sizeof(float) +
                        (schedule->pack_b == GEMM_PACK_NONE ? 0 : converted * sizeof(float));
  }
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

/* Chooses when B is packed. With one block of rows each panel is used once, so it is packed right
 * before use, in a near cache. A large B with contiguous rows is packed as a whole instead, because
 * that reads longer runs. */
static void choose_moment(const cpu_gemm *gemm, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  if (schedule->pack_b != GEMM_PACK_BLOCK || schedule->tile_m > schedule->block_m) return;
  if (gemm->filled) {
    schedule->pack_b = GEMM_PACK_PANEL;
    return;
  }
  const double bytes = (double)problem->k * (double)problem->n * problem->size;
  const bool words = problem->type->group > 1; /* packed in runs as well */
  if (problem->b.column != 1 || (!is_native(problem, &problem->b) && !words))
    schedule->pack_b = GEMM_PACK_PANEL;
  else if (!words && bytes <= (double)gemm->head.device->l2_bytes)
    schedule->pack_b = GEMM_PACK_ON_USE;
}

/* Widens tiles for bf16 words of a row-major B. Words are made from pairs of rows, and with few
 * rows of A only once. Long runs of a row arrive faster than short ones, which jump from page to
 * page. */
static void widen_tiles(const cpu_gemm *gemm, int64_t threads, gemm_schedule *schedule) {
  enum { RUN = 1024 };
  const gemm_problem *problem = &gemm->problem;
  if (gemm->packed_b || gemm->filled || problem->m > CPU_GEMM_STREAMED || problem->b.column != 1 ||
      problem->type->group == 1 || !problem->type->dot || schedule->method == GEMM_DOT)
    return;
  const int64_t share = cpu_round_up(cpu_divide_up(problem->n, threads), problem->type->columns);
  schedule->tile_n = cpu_min(cpu_max(schedule->tile_n, cpu_min(share, RUN)), problem->n);
}

/* Blocks for a residual: result bytes wait for the addition near the core. Whole rows are best,
 * since they are read and written as one run; but a large B should not be read too often. */
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
  cut_k(gemm, schedule);
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
