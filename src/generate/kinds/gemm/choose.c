/* Which variant of matrix multiplication with which parameters, where nobody has said so, and
 * whether the target can run what somebody has said. */
#include "generate/kinds/gemm/gemm.h"
#include "type/dtype.h"

/* Products of so few multiplications are not worth a source of their own. */
enum { TINY = 32768, FEW_ROWS = 8 };

/* Panels and parts beyond this are no longer worth their memory. */
static const uint64_t workspace_limit = UINT64_C(1) << 30;

static uint32_t smaller(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

static int64_t tiles(int64_t size, uint32_t tile) {
  return (size + tile - 1) / tile;
}

static bool is_power(uint32_t value) {
  return value > 0 && (value & (value - 1)) == 0;
}

/* 0 in a target's limit means that it is not known; what every OpenCL device has is assumed. */
uint32_t gemm_group_limit(const generation *g) {
  uint32_t limit = g->target->group_limit ? g->target->group_limit : 64;
  if (g->target->group_limit_of[0]) limit = smaller(limit, g->target->group_limit_of[0]);
  return limit;
}

uint64_t gemm_local_limit(const generation *g) {
  return g->target->local_bytes ? g->target->local_bytes : 32768;
}

static void set_default(uint32_t *value, uint32_t preset) {
  if (*value == 0) *value = preset;
}

/* ---- Tiles --------------------------------------------------------------------------------- */

typedef struct tile_shape {
  uint32_t m, n, k, item_m, item_n;
} tile_shape;

/* From the most products for each element read to the most groups. */
static const tile_shape tile_shapes[] = {
    {128, 128, 16, 8, 8}, {128, 64, 16, 8, 8}, {64, 64, 16, 8, 4}, {32, 32, 16, 4, 2}};

static uint64_t tile_bytes(const gemm_problem *problem, const compute_tuning *t) {
  return (uint64_t)gemm_local_sums(t) * problem->sum_bytes;
}

static bool tile_fits(const generation *g, const gemm_problem *problem, const tile_shape *tile) {
  const compute_tuning t = {
      .tile_m = tile->m, .tile_n = tile->n, .tile_k = tile->k, .item_m = tile->item_m};
  return tile_bytes(problem, &t) <= gemm_local_limit(g) &&
         (tile->m / tile->item_m) * (tile->n / tile->item_n) <= gemm_group_limit(g) &&
         tile->item_m * tile->item_n * problem->sum_bytes <= 256; /* registers */
}

/* The largest tile that gives all compute units something to do and is not mostly edge. */
static tile_shape choose_tile(const generation *g, const gemm_problem *problem) {
  const int64_t units = g->target->compute_units ? g->target->compute_units : 1;
  enum { COUNT = sizeof tile_shapes / sizeof *tile_shapes };
  for (int i = 0; i < COUNT - 1; i++) {
    const tile_shape *tile = &tile_shapes[i];
    const double groups = (double)tiles(problem->m, tile->m) * (double)tiles(problem->n, tile->n) *
                          (double)problem->batches;
    if (tile_fits(g, problem, tile) && groups >= (double)units && problem->m > tile->m / 2 &&
        problem->n > tile->n / 2)
      return *tile;
  }
  return tile_shapes[COUNT - 1];
}

/* Parts of k that give the compute units two groups each; parts are not shorter than 256. */
static uint32_t choose_parts(const generation *g, const gemm_problem *problem, int64_t groups) {
  const int64_t units = g->target->compute_units ? g->target->compute_units : 1;
  if (problem->batches >= 2 * units || groups >= units) return 1;
  int64_t parts = 2 * units / (groups > 0 ? groups : 1);
  if (parts > problem->k / 256) parts = problem->k / 256;
  if (parts > GEMM_SPLIT_LIMIT) parts = GEMM_SPLIT_LIMIT;
  return parts > 1 ? (uint32_t)parts : 1;
}

static uint32_t load_vector(const gemm_problem *problem) {
  const size_t a = compute_dtype_size(problem->a.dtype), b = compute_dtype_size(problem->b.dtype);
  return a < 4 || b < 4 ? 8 : 4;
}

static void complete_tiles(generation *g, const gemm_problem *problem) {
  compute_tuning *t = &g->tuning;
  tile_shape tile = choose_tile(g, problem);
  if (t->variant == GEMM_SPLIT && t->tile_m == 0 && t->tile_n == 0) {
    for (int i = 2; i < 4; i++)
      if (tile_fits(g, problem, &tile_shapes[i])) {
        tile = tile_shapes[i];
        break;
      }
  }
  set_default(&t->tile_m, tile.m);
  set_default(&t->tile_n, tile.n);
  set_default(&t->tile_k, tile.k);
  set_default(&t->item_m, t->tile_m < tile.item_m ? t->tile_m : tile.item_m);
  set_default(&t->item_n, t->tile_n < tile.item_n ? t->tile_n : tile.item_n);
  set_default(&t->vector, load_vector(problem));
  if (t->variant == GEMM_SPLIT && t->groups == 0) {
    const int64_t groups =
        tiles(problem->m, t->tile_m) * tiles(problem->n, t->tile_n) * problem->batches;
    t->groups = choose_parts(g, problem, groups);
    if (t->groups < 2) t->groups = 2;
  }
}

/* Whether the workspace of k in parts stays reasonable. */
static bool parts_fit(const gemm_problem *problem, uint32_t parts) {
  return (double)problem->m * (double)problem->n * (double)problem->batches * parts *
             problem->sum_bytes <=
         (double)workspace_limit;
}

static compute_status check_tiles(generation *g, const gemm_problem *problem) {
  const compute_tuning *t = &g->tuning;
  if (t->tile_m > 256 || t->tile_n > 256 || t->tile_k > 64 || t->tile_m % 4 || t->tile_n % 4)
    return emit_refuse(g, "a tile of %ux%ux%u is out of range or no multiple of 4",
                       (unsigned)t->tile_m, (unsigned)t->tile_n, (unsigned)t->tile_k);
  if (t->item_m > 16 || t->item_n > 16 || t->tile_m % t->item_m || t->tile_n % t->item_n)
    return emit_refuse(g, "a tile of %ux%u cannot be cut into %ux%u per item", (unsigned)t->tile_m,
                       (unsigned)t->tile_n, (unsigned)t->item_m, (unsigned)t->item_n);
  const uint32_t items = (t->tile_m / t->item_m) * (t->tile_n / t->item_n);
  if (items > gemm_group_limit(g))
    return emit_refuse(g, "the tile needs groups of %u items, the device has at most %u",
                       (unsigned)items, (unsigned)gemm_group_limit(g));
  if (t->tile_m * t->tile_k % items || t->tile_n * t->tile_k % items)
    return emit_refuse(g, "%u items cannot share the loads of a tile of %ux%ux%u evenly",
                       (unsigned)items, (unsigned)t->tile_m, (unsigned)t->tile_n,
                       (unsigned)t->tile_k);
  if (tile_bytes(problem, t) > gemm_local_limit(g))
    return emit_refuse(g, "the tile needs %llu bytes of local memory, the device has %llu",
                       (unsigned long long)tile_bytes(problem, t),
                       (unsigned long long)gemm_local_limit(g));
  if (!is_power(t->vector) || t->vector > 16)
    return emit_refuse(g, "there are no loads of %u elements", (unsigned)t->vector);
  if (t->variant == GEMM_SPLIT && (t->groups < 2 || t->groups > GEMM_SPLIT_LIMIT))
    return emit_refuse(g, "k cannot be cut into %u parts", (unsigned)t->groups);
  if (t->variant == GEMM_SPLIT && problem->k < 2) return emit_refuse(g, "k is too short to be cut");
  return COMPUTE_OK;
}

/* ---- Matrix units -------------------------------------------------------------------------- */

/* Rows and columns of a warp in the place of an item's. */
static const tile_shape matrix_shapes[] = {
    {128, 128, 32, 64, 32}, {128, 64, 32, 32, 32}, {64, 64, 32, 32, 32}, {32, 32, 32, 16, 16}};

/* As choose_tile; a line of a slab has 16 words for every kind of element. */
static void complete_matrix(generation *g, const gemm_problem *problem) {
  compute_tuning *t = &g->tuning;
  const int64_t units = g->target->compute_units ? g->target->compute_units : 1;
  enum { COUNT = sizeof matrix_shapes / sizeof *matrix_shapes };
  const tile_shape *tile = &matrix_shapes[COUNT - 1];
  for (int i = COUNT - 2; i >= 0; i--) {
    const tile_shape *larger = &matrix_shapes[i];
    const double groups = (double)tiles(problem->m, larger->m) *
                          (double)tiles(problem->n, larger->n) * (double)problem->batches;
    if (groups >= (double)units && problem->m > larger->m / 2 && problem->n > larger->n / 2)
      tile = larger;
  }
  set_default(&t->tile_m, tile->m);
  set_default(&t->tile_n, tile->n);
  set_default(&t->tile_k, 2 * gemm_matrix_step(g, problem));
  set_default(&t->item_m, smaller(tile->item_m, t->tile_m));
  set_default(&t->item_n, smaller(tile->item_n, t->tile_n));
  set_default(&t->vector, load_vector(problem));
  const double groups = (double)tiles(problem->m, t->tile_m) *
                        (double)tiles(problem->n, t->tile_n) * (double)problem->batches;
  set_default(&t->groups, groups < 1e6 ? choose_parts(g, problem, (int64_t)groups) : 1);
}

static compute_status check_matrix(generation *g, const gemm_problem *problem) {
  const compute_tuning *t = &g->tuning;
  if (t->tile_m > 256 || t->tile_n > 256 || t->tile_k > 64 || t->item_m % 16 || t->item_n % 8 ||
      t->item_m * t->item_n > 4096 || t->tile_m % t->item_m || t->tile_n % t->item_n ||
      t->tile_k % gemm_matrix_step(g, problem))
    return emit_refuse(g, "a tile of %ux%ux%u cannot be cut into %ux%u for each warp",
                       (unsigned)t->tile_m, (unsigned)t->tile_n, (unsigned)t->tile_k,
                       (unsigned)t->item_m, (unsigned)t->item_n);
  const uint32_t items = gemm_items(t);
  if (items > gemm_group_limit(g) || t->tile_m * t->tile_k % items || t->tile_n * t->tile_k % items)
    return emit_refuse(g, "groups of %u items are too large for the tile or the device",
                       (unsigned)items);
  if (gemm_matrix_local_bytes(g, problem) > gemm_local_limit(g))
    return emit_refuse(g, "the tile needs %llu bytes of local memory, the device has %llu",
                       (unsigned long long)gemm_matrix_local_bytes(g, problem),
                       (unsigned long long)gemm_local_limit(g));
  if (!is_power(t->vector) || t->vector > 16)
    return emit_refuse(g, "there are no loads of %u elements", (unsigned)t->vector);
  if (t->groups > GEMM_SPLIT_LIMIT || !parts_fit(problem, t->groups))
    return emit_refuse(g, "k cannot be cut into %u parts", (unsigned)t->groups);
  return COMPUTE_OK;
}

/* ---- Dot products -------------------------------------------------------------------------- */

/* What an item alone reads with vectors: both dense along k, in the type of the sums. */
static bool is_dense(const gemm_problem *problem) {
  return problem->a.k == 1 && problem->b.k == 1 && problem->a.dtype == problem->accumulate &&
         problem->b.dtype == problem->accumulate;
}

uint32_t gemm_choose_lanes(const generation *g, const gemm_problem *problem) {
  uint32_t lanes = g->target->vector_width * 4 / problem->sum_bytes;
  if (lanes < 2) lanes = 2;
  while (!is_power(lanes)) lanes &= lanes - 1;
  return lanes < 16 ? lanes : 16;
}

static void complete_dot(generation *g, const gemm_problem *problem) {
  compute_tuning *t = &g->tuning;
  if (emit_for_cpu(g)) {
    set_default(&t->item_m, 4);
    set_default(&t->vector, gemm_choose_lanes(g, problem));
    return;
  }
  /* Along k, an item should have a few vectors; across rows, neighbours read a cache line. */
  const bool along_k = gemm_along_k(&problem->a);
  uint32_t sharers = along_k ? 32 : 8;
  while (along_k && sharers < 256 && problem->k > 16 * (int64_t)sharers) sharers *= 2;
  uint32_t items = smaller(gemm_group_limit(g), 256);
  while (items > 1 && items * (uint64_t)problem->n * problem->sum_bytes > gemm_local_limit(g))
    items /= 2;
  while (sharers > items || !is_power(sharers)) sharers /= 2;
  set_default(&t->group_x, sharers);
  uint32_t rows = 1;
  while (rows * 2 * t->group_x <= items) rows *= 2;
  set_default(&t->group_y, rows);
  set_default(&t->vector, load_vector(problem));
  set_default(&t->groups, choose_parts(g, problem, tiles(problem->m, t->group_y)));
}

static compute_status check_dot(generation *g, const gemm_problem *problem) {
  const compute_tuning *t = &g->tuning;
  if (problem->n > GEMM_DOT_COLUMNS)
    return emit_refuse(g, "dot products are for at most %d columns", GEMM_DOT_COLUMNS);
  if (!is_power(t->vector) || t->vector > 16)
    return emit_refuse(g, "there are no loads of %u elements", (unsigned)t->vector);
  if (emit_for_cpu(g)) {
    if (!is_dense(problem) || t->vector < 2)
      return emit_refuse(g, "dot products need dense vectors along k");
    if (t->item_m > 8) return emit_refuse(g, "%u rows are too many", (unsigned)t->item_m);
    return COMPUTE_OK;
  }
  const uint64_t items = (uint64_t)t->group_x * t->group_y;
  if (!is_power(t->group_x) || !is_power(t->group_y) || items > gemm_group_limit(g))
    return emit_refuse(g, "a group cannot have %ux%u items", (unsigned)t->group_x,
                       (unsigned)t->group_y);
  if (items * (uint64_t)problem->n * problem->sum_bytes > gemm_local_limit(g))
    return emit_refuse(g, "the group needs more local memory than the device has");
  if (t->groups > GEMM_SPLIT_LIMIT || !parts_fit(problem, t->groups))
    return emit_refuse(g, "k cannot be cut into %u parts", (unsigned)t->groups);
  return COMPUTE_OK;
}

/* ---- Blocks of one item -------------------------------------------------------------------- */

static double padded_area(const gemm_problem *problem, uint32_t m, uint32_t n) {
  return (double)tiles(problem->m, m) * m * (double)tiles(problem->n, n) * n;
}

/* Sums, a row of B and an element of A fill the registers: 32 vectors where they are of 64 bytes,
 * else 16. Of two blocks that do, the one with less edge. */
static void choose_block(const generation *g, const gemm_problem *problem, uint32_t lanes,
                         uint32_t *rows, uint32_t *columns) {
  const bool many = lanes * problem->sum_bytes >= 64;
  const uint32_t tall = many ? 12 : 6, flat = many ? 8 : 4;
  const bool is_tall =
      padded_area(problem, tall, 2 * lanes) < padded_area(problem, flat, 3 * lanes);
  *rows = is_tall ? tall : flat;
  *columns = (is_tall ? 2 : 3) * lanes;
  if (g->tuning.variant == GEMM_DIRECT) {
    *rows = 1;
    while (*rows < problem->m && *rows < flat) *rows *= 2;
    *columns = (*rows <= 2 ? 4 : 3) * lanes;
    while (*columns > problem->n && *columns > lanes) *columns -= lanes;
  }
}

/* Few rows are read in place the way round in which B has dense columns. */
static void complete_direct(generation *g, gemm_problem *problem) {
  compute_tuning *t = &g->tuning;
  if (t->variant == GEMM_DIRECT && problem->b.outer != 1 && problem->a.outer == 1)
    emit_gemm_swap(problem);
  set_default(&t->vector, gemm_choose_lanes(g, problem));
  uint32_t rows, columns;
  choose_block(g, problem, t->vector, &rows, &columns);
  set_default(&t->item_m, rows);
  set_default(&t->item_n, columns);
  set_default(&t->group_x, emit_for_cpu(g) ? 1 : smaller(64, gemm_group_limit(g)));
}

static uint64_t panel_bytes(const gemm_problem *problem) {
  const double k = (double)problem->k * problem->sum_bytes, batches = (double)problem->batches;
  const double a = (double)problem->m * k * (problem->a.batched ? batches : 1);
  const double b = (double)problem->n * k * (problem->b.batched ? batches : 1);
  return a + b < 1e18 ? (uint64_t)(a + b) : UINT64_MAX;
}

static bool can_read_in_place(const gemm_problem *problem, uint32_t columns) {
  return problem->b.outer == 1 && problem->b.dtype == problem->accumulate && problem->n >= columns;
}

static compute_status check_direct(generation *g, const gemm_problem *problem) {
  const compute_tuning *t = &g->tuning;
  if (!is_power(t->vector) || t->vector < 2 || t->vector > 16 || t->item_n % t->vector)
    return emit_refuse(g, "%u columns are no vectors of %u", (unsigned)t->item_n,
                       (unsigned)t->vector);
  if (t->item_m > 16 || t->item_n / t->vector > 8)
    return emit_refuse(g, "a block of %ux%u is too large", (unsigned)t->item_m,
                       (unsigned)t->item_n);
  if (problem->k == 0) return emit_refuse(g, "there is nothing to multiply");
  if (t->variant == GEMM_DIRECT && !can_read_in_place(problem, t->item_n))
    return emit_refuse(g, "B does not have %u dense columns in the type of the sums",
                       (unsigned)t->item_n);
  if (t->group_x > gemm_group_limit(g))
    return emit_refuse(g, "groups of %u items are too large", (unsigned)t->group_x);
  return COMPUTE_OK;
}

/* ---- Variants ------------------------------------------------------------------------------ */

static gemm_variant choose_for_cpu(const generation *g, const gemm_problem *problem) {
  const double products =
      (double)problem->m * (double)problem->n * (double)problem->k * (double)problem->batches;
  if (products <= TINY) return GEMM_PLAIN;
  if (problem->n <= GEMM_DOT_COLUMNS && is_dense(problem)) return GEMM_DOT;
  gemm_problem swapped = *problem;
  if (problem->b.outer != 1 && problem->a.outer == 1) emit_gemm_swap(&swapped);
  const uint32_t lanes = gemm_choose_lanes(g, problem);
  if (swapped.m <= FEW_ROWS && can_read_in_place(&swapped, lanes)) return GEMM_DIRECT;
  return panel_bytes(problem) <= workspace_limit ? GEMM_PACKED : GEMM_PLAIN;
}

gemm_variant gemm_choose_tiled(const generation *g, const gemm_problem *problem) {
  const tile_shape tile = choose_tile(g, problem);
  if (!tile_fits(g, problem, &tile)) return GEMM_PLAIN;
  const double groups = (double)tiles(problem->m, tile.m) * (double)tiles(problem->n, tile.n) *
                        (double)problem->batches;
  return groups < 1e6 && choose_parts(g, problem, (int64_t)groups) > 1 ? GEMM_SPLIT : GEMM_TILED;
}

static gemm_variant choose_for_gpu(const generation *g, const gemm_problem *problem) {
  if (problem->k == 0) return GEMM_PLAIN;
  if (problem->n <= GEMM_DOT_COLUMNS) return GEMM_DOT;
  const bool units = gemm_matrix_serves(g, problem) && problem->m >= 16 && problem->n >= 8 &&
                     problem->k >= 16 && gemm_group_limit(g) >= 256 && gemm_local_limit(g) >= 32768;
  return units ? GEMM_MATRIX : gemm_choose_tiled(g, problem);
}

static gemm_variant choose_variant(const generation *g, const gemm_problem *problem) {
  if (emit_for_cpu(g)) return choose_for_cpu(g, problem);
  if (emit_has(g, COMPUTE_TARGET_FAST_LOCAL)) return choose_for_gpu(g, problem);
  if (problem->k == 0 || panel_bytes(problem) > workspace_limit) return GEMM_PLAIN;
  return GEMM_PACKED;
}

compute_status gemm_choose(generation *g, gemm_problem *problem) {
  compute_tuning *t = &g->tuning;
  if (t->variant == 0) t->variant = choose_variant(g, problem);
  switch ((gemm_variant)t->variant) {
  case GEMM_PLAIN:
    set_default(&t->group_x, smaller(64, gemm_group_limit(g)));
    if (t->group_x <= gemm_group_limit(g)) return COMPUTE_OK;
    return emit_refuse(g, "groups of %u items are too large", (unsigned)t->group_x);
  case GEMM_TILED:
  case GEMM_SPLIT: complete_tiles(g, problem); return check_tiles(g, problem);
  case GEMM_DOT: complete_dot(g, problem); return check_dot(g, problem);
  case GEMM_DIRECT:
  case GEMM_PACKED: complete_direct(g, problem); return check_direct(g, problem);
  case GEMM_MATRIX:
    if (!gemm_matrix_serves(g, problem))
      return emit_refuse(g, "the device has no matrix units for these factors (f16, bf16, or f32 "
                            "where TF32 is allowed)");
    if (problem->k == 0) return emit_refuse(g, "there is nothing to multiply");
    complete_matrix(g, problem);
    return check_matrix(g, problem);
  }
  return emit_refuse(g, "GEMM has no variant %u", (unsigned)t->variant);
}
