/* How the own implementation cuts its work.
 *
 * Tasks share nothing: each packs what it needs of A and B for itself. That costs a little packing
 * twice, but needs no barrier and no second parallel loop, which at n = 128 would take as long as
 * the product itself; and the sums of every element are built in the order of k whoever builds
 * them. Only where C is too small for all threads is k split, and the parts are added in a fixed
 * order by a second loop.
 *
 * The number and shape of tiles comes from a model in units of one vector operation's time: the
 * multiplications, with tiles rounded up to whole register tiles; packing; a start-up per unit; and
 * a share of one unit for the thread that finishes last. */
#include "gemm.h"
#include "program/interpreter_private.h"

enum {
  CLOSE_CACHE = 48 << 10,  /* of a level-1 cache, what a panel of B may fill */
  SUMS_LIMIT = 1 << 20,    /* of sums in scratch memory per thread */
  FEW_ROWS = 16,           /* so few rows do not repay packing B */
  DIRECT_B = 40 << 10,     /* a B this small is read where it lies, if its rows are close */
  NEAR_STRIDE = 2048,      /* bytes; rows of A further apart than that compete for cache sets */
  UNIT_OPERATIONS = 800,   /* the model's price of starting a unit */
  SPLIT_OPERATIONS = 8000, /* … and of the second loop that adds parts */
  RUN_OPERATIONS = 120,    /* of starting the epilogue on a run … */
  STEP_OPERATIONS = 30,    /* … and each of its instructions on a tile's elements */
  SPLIT_LIMIT = 256 << 10  /* bytes of C up to which k may be split */
};

/* Multiplications that pay for one thread more. */
#define THREAD_PRODUCTS (64.0 * 64.0 * 64.0)

/* Of one unit's time, what the thread that finishes last costs on average. */
#define LATE_SHARE 0.02

static int64_t minimum(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static int64_t maximum(int64_t a, int64_t b) {
  return a > b ? a : b;
}
static int64_t divide_up(int64_t a, int64_t b) {
  return a / b + (a % b != 0);
}
static int64_t round_up(int64_t a, int64_t b) {
  return divide_up(a, b) * b;
}

static bool is_native(const gemm_problem *problem, const gemm_operand *operand) {
  return operand->dtype == problem->accumulate;
}

/* Threads that this much work keeps busy. */
static int64_t useful_threads(const cpu_gemm *gemm) {
  const gemm_problem *problem = &gemm->problem;
  const double products = (double)problem->batches * (double)problem->m * (double)problem->n *
                          (double)maximum(problem->k, 1);
  const double threads = products / THREAD_PRODUCTS;
  return threads < gemm->head.device->threads ? maximum((int64_t)threads, 1)
                                              : gemm->head.device->threads;
}

static bool is_few(const cpu_gemm *gemm, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const gemm_operand *a = &problem->a, *b = &problem->b;
  if (problem->m > FEW_ROWS) return false;
  const double b_bytes = (double)problem->k * (double)problem->n * b->size;
  if (b->row == 1 && (b->column != 1 || problem->n == 1)) {
    schedule->method = GEMM_DOT;
    schedule->pack_a = !(is_native(problem, a) && a->column == 1);
    schedule->block_k = 1024;
    schedule->piece = 8;
  } else if (b->column == 1 && b_bytes > (double)gemm->head.device->l2_bytes) {
    schedule->method = GEMM_STREAM;
    schedule->pack_a = !is_native(problem, a);
    schedule->block_k = is_native(problem, b) ? 128 : 16;
    schedule->piece = 2048;
  } else {
    return false;
  }
  schedule->pack_b = is_native(problem, b) ? GEMM_PACK_NONE : GEMM_PACK_PANEL;
  return true;
}

/* What does not depend on the tiles. */
static void choose_methods(const cpu_gemm *gemm, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const gemm_operand *a = &problem->a, *b = &problem->b;
  const int64_t size = problem->size, columns = problem->type->columns;
  if (is_few(gemm, schedule)) return;
  schedule->method = GEMM_TILES;
  schedule->block_k = CLOSE_CACHE / (columns * size);
  const bool close_b = problem->k * problem->n * size <= DIRECT_B && b->row * size <= 512;
  const bool in_place =
      is_native(problem, b) && b->column == 1 && (problem->m <= FEW_ROWS || close_b);
  schedule->pack_b = in_place ? GEMM_PACK_NONE : GEMM_PACK_BLOCK;
  const bool near =
      minimum(a->row, a->column) == 1 && maximum(a->row, a->column) * size <= NEAR_STRIDE;
  schedule->pack_a = !is_native(problem, a) || (!near && problem->n >= 8 * columns);
}

/* Cache blocks: A's block fills a part of the level-2 cache; k is cut into equal parts. */
static void choose_blocks(const cpu_gemm *gemm, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const int64_t parts = divide_up(problem->k, schedule->splits);
  const int64_t cuts = maximum(divide_up(parts, schedule->block_k), 1);
  schedule->block_k = maximum(divide_up(parts, cuts), 1);
  const int64_t fit =
      (int64_t)(gemm->head.device->l2_bytes * 2 / 5) / (schedule->block_k * (int64_t)problem->size);
  const int64_t rows = maximum(fit / problem->type->rows, 1) * problem->type->rows;
  const int64_t blocks = divide_up(schedule->tile_m, rows);
  schedule->block_m =
      minimum(round_up(divide_up(schedule->tile_m, blocks), problem->type->rows), schedule->tile_m);
}

/* What the epilogue's runs cost besides the work on their elements: a wide tile has fewer. */
static double run_cost(const cpu_gemm *gemm, int64_t tile_m, int64_t tile_n) {
  if (gemm->identity) return 0;
  const double chunks = (double)divide_up(tile_n, cpu_program_tile_elements(gemm->epilogue));
  return (double)tile_m * (RUN_OPERATIONS + chunks * STEP_OPERATIONS * gemm->epilogue->step_count);
}

/* The model's time of one unit. */
static double unit_cost(const cpu_gemm *gemm, const gemm_schedule *schedule, int64_t tile_m,
                        int64_t tile_n, int64_t splits) {
  const gemm_problem *problem = &gemm->problem;
  const double columns = problem->type->columns;
  const double k = (double)problem->k / (double)splits;
  const double m = (double)tile_m, n = (double)round_up(tile_n, problem->type->columns);
  /* Two multiply-adds on vectors per time step; tiles of few rows wait for their own sums. */
  const double height = m / (double)divide_up(tile_m, problem->type->rows);
  double cost = m * n * k / columns * (height < 4 ? 4 / height : 1);
  const double copied = columns / 2;
  if (schedule->pack_b)
    cost +=
        n * k * 4 / copied * (is_native(problem, &problem->b) && problem->b.column == 1 ? 1 : 2);
  if (schedule->pack_a) cost += m * k * 8 / copied;
  /* Operands that do not fit the level-2 cache come from farther away once per unit. */
  const double bytes = (m + n) * k * (double)problem->size;
  if (bytes > (double)gemm->head.device->l2_bytes) cost += bytes / 16;
  cost += m * n * 4 / columns; /* C itself, and the epilogue */
  return cost + run_cost(gemm, tile_m, tile_n) + UNIT_OPERATIONS;
}

/* Half of one thread's share of the last cache: for packed B, and for sums in outputs[0], which are
 * read again for each block of k. */
static int64_t cache_share(const cpu_gemm *gemm) {
  const cpu_device *device = gemm->head.device;
  return maximum((int64_t)device->share_bytes / 2 / device->threads, SUMS_LIMIT);
}

/* The widest tile of this height that scratch memory and caches allow, in whole panels of B. */
static int64_t widest_tile(const cpu_gemm *gemm, const gemm_schedule *schedule, bool direct,
                           int64_t tile_m) {
  const gemm_problem *problem = &gemm->problem;
  const int64_t size = problem->size;
  int64_t widest = (direct ? cache_share(gemm) : SUMS_LIMIT) / (tile_m * size);
  if (schedule->pack_b) widest = minimum(widest, cache_share(gemm) / (schedule->block_k * size));
  return maximum(widest / problem->type->columns, 1) * problem->type->columns;
}

/* Tries every grid of up to some units per thread, keeps the cheapest and returns its cost. */
static double choose_tiles(const cpu_gemm *gemm, int64_t threads, bool direct,
                           gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const int64_t rows = problem->type->rows, columns = problem->type->columns;
  const int64_t enough = 16 * threads;
  const int64_t tallest =
      (direct ? cache_share(gemm) : SUMS_LIMIT) / (columns * (int64_t)problem->size * rows) * rows;
  const int64_t least_m = divide_up(problem->m, tallest);
  const int64_t most_m = minimum(divide_up(problem->m, rows), maximum(least_m, enough));
  double best = -1;
  for (int64_t tiles_m = least_m; tiles_m <= most_m; tiles_m++) {
    const int64_t tile_m = minimum(round_up(divide_up(problem->m, tiles_m), rows), problem->m);
    const int64_t units_n = problem->batches * divide_up(problem->m, tile_m);
    const int64_t most_n = divide_up(problem->n, columns);
    int64_t tiles_n = divide_up(problem->n, widest_tile(gemm, schedule, direct, tile_m));
    for (bool more = true; more && tiles_n <= most_n; tiles_n++) {
      const int64_t tile_n = minimum(round_up(divide_up(problem->n, tiles_n), columns), problem->n);
      const int64_t units = units_n * divide_up(problem->n, tile_n);
      const double unit = unit_cost(gemm, schedule, tile_m, tile_n, 1);
      const double cost =
          (double)divide_up(units, threads) * unit + (threads > 1 ? LATE_SHARE * unit : 0);
      if (best < 0 || cost < best) {
        best = cost;
        schedule->tile_m = tile_m;
        schedule->tile_n = tile_n;
      }
      more = units < enough;
    }
  }
  return best;
}

/* Parts of k instead of tiles of C, where C is small and that is cheaper. */
static void choose_splits(const cpu_gemm *gemm, int64_t threads, double cost,
                          gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const int64_t splits = divide_up(threads, problem->batches);
  if (splits == 1 || problem->k / splits < schedule->block_k) return;
  if (problem->m * problem->n > SPLIT_LIMIT / (int64_t)problem->size) return;
  const double unit = unit_cost(gemm, schedule, problem->m, problem->n, splits);
  const double elements = (double)(problem->batches * splits * problem->m * problem->n);
  const double split_cost = (double)divide_up(problem->batches * splits, threads) * unit +
                            SPLIT_OPERATIONS + elements / problem->type->columns;
  if (split_cost >= cost) return;
  schedule->splits = splits;
  schedule->tile_m = problem->m;
  schedule->tile_n = problem->n;
}

static void choose_scratch(const cpu_gemm *gemm, bool direct, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const int64_t columns = problem->type->columns, size = problem->size;
  int64_t packed =
      schedule->pack_b == GEMM_PACK_BLOCK ? round_up(schedule->tile_n, columns) : columns;
  if (schedule->method != GEMM_TILES)
    packed = schedule->pack_b == GEMM_PACK_NONE ? 0 : schedule->piece;
  schedule->b_bytes = (uint64_t)round_up(packed * schedule->block_k * size, 64);
  schedule->a_bytes =
      schedule->pack_a ? (uint64_t)round_up(schedule->block_m * schedule->block_k * size, 64) : 0;
  schedule->sums_bytes = direct || schedule->splits > 1
                             ? 0
                             : (uint64_t)round_up(schedule->tile_m * schedule->tile_n * size, 64);
}

/* With one block of rows each panel is used once and may as well be packed then, in a close cache.
 * But a large B that is not turned is read in longer runs when it is packed as a whole. */
static void choose_moment(const cpu_gemm *gemm, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  if (schedule->pack_b != GEMM_PACK_BLOCK || schedule->tile_m > schedule->block_m) return;
  const double bytes = (double)problem->k * (double)problem->n * problem->size;
  if (!is_native(problem, &problem->b) || problem->b.column != 1)
    schedule->pack_b = GEMM_PACK_PANEL;
  else if (bytes <= (double)gemm->head.device->l2_bytes)
    schedule->pack_b = GEMM_PACK_ON_USE;
}

void gemm_schedule_make(const cpu_gemm *gemm, bool direct, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const int64_t threads = useful_threads(gemm);
  *schedule = (gemm_schedule){.splits = 1};
  choose_methods(gemm, schedule);
  const double cost = choose_tiles(gemm, threads, direct, schedule);
  choose_splits(gemm, threads, cost, schedule);
  schedule->tiles_m = divide_up(problem->m, schedule->tile_m);
  schedule->tiles_n = divide_up(problem->n, schedule->tile_n);
  choose_blocks(gemm, schedule);
  choose_moment(gemm, schedule);
  const int64_t units = problem->batches * schedule->tiles_m * schedule->tiles_n * schedule->splits;
  schedule->chunk = threads == 1 ? units : maximum(units / (16 * threads), 1);
  schedule->tasks = divide_up(units, schedule->chunk);
  const int64_t close =
      (int64_t)gemm->head.device->l2_bytes * 2 / 5 / (schedule->block_m * (int64_t)problem->size);
  schedule->group = maximum(close, 256) / problem->type->columns * problem->type->columns;
  choose_scratch(gemm, direct, schedule);
}
