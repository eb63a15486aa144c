/* Which variant of convolution with which parameters, where nobody has said so, and whether the
 * target can run what somebody has said. */
#include "generate/kinds/conv/conv.h"
#include "type/dtype.h"

/* Convolutions of so few multiplications are not worth a source of their own. */
enum { TINY = 32768, FEW_CHANNELS = 4, LONG_SUM = 256 };

/* A CPU's panel of the data should stay in the second cache; workspaces beyond the limit are no
 * longer worth their memory. */
static const int64_t panel_bytes = 512 << 10;
static const double workspace_limit = 1 << 30;

static uint32_t smaller(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

static bool is_power(uint32_t value) {
  return value > 0 && (value & (value - 1)) == 0;
}

static void set_default(uint32_t *value, uint32_t preset) {
  if (*value == 0) *value = preset;
}

static int64_t units_of(const generation *g) {
  return g->target->compute_units ? g->target->compute_units : 1;
}

static compute_status check_group(generation *g) {
  if (g->tuning.group_x <= gemm_group_limit(g)) return COMPUTE_OK;
  return emit_refuse(g, "groups of %u items are too large", (unsigned)g->tuning.group_x);
}

static compute_status check_parts(generation *g, const conv_problem *p) {
  const compute_tuning *t = &g->tuning;
  const double sums = (double)p->positions * (double)p->channels * (double)p->product.batches;
  if (t->groups > GEMM_SPLIT_LIMIT ||
      (t->groups > 1 && sums * t->groups * p->product.sum_bytes > workspace_limit))
    return emit_refuse(g, "the sums cannot be cut into %u parts", (unsigned)t->groups);
  if (t->groups > 1 && p->phased)
    return emit_refuse(g, "the sums of a convolution's phases cannot be cut into parts");
  return COMPUTE_OK;
}

/* ---- Tiles --------------------------------------------------------------------------------- */

static bool divides(uint32_t a, uint32_t b) {
  return a % b == 0 || b % a == 0;
}

/* What conv_tiled.c asks for besides what GEMM's tiles must be. */
static compute_status check_tile(generation *g, const conv_problem *p) {
  const compute_tuning *t = &g->tuning;
  const uint32_t items = (t->tile_m / t->item_m) * (t->tile_n / t->item_n);
  const uint64_t local = (uint64_t)gemm_local_sums(t) * p->product.sum_bytes + t->tile_k * 64u;
  if (!divides(t->tile_m, items) || !divides(t->tile_n, items) || items % t->tile_k != 0)
    return emit_refuse(g, "%u items cannot share a tile of %ux%ux%u in whole lines",
                       (unsigned)items, (unsigned)t->tile_m, (unsigned)t->tile_n,
                       (unsigned)t->tile_k);
  if (local > gemm_local_limit(g))
    return emit_refuse(g, "the tile needs %llu bytes of local memory, the device has %llu",
                       (unsigned long long)local, (unsigned long long)gemm_local_limit(g));
  return t->variant == CONV_SPLIT ? check_parts(g, p) : COMPUTE_OK;
}

static compute_status choose_tile(generation *g, conv_problem *p) {
  if (p->terms == 0) return emit_refuse(g, "there is nothing to multiply");
  g->tuning.vector = 1;
  const compute_status status = gemm_choose(g, &p->product);
  return status ? status : check_tile(g, p);
}

/* ---- Sums by a group ----------------------------------------------------------------------- */

/* Parts that give the compute units two groups each; no part is shorter than LONG_SUM. */
static uint32_t choose_parts(const generation *g, const conv_problem *p) {
  const double groups = (double)p->positions * (double)p->channels * (double)p->product.batches;
  const double units = (double)units_of(g);
  if (p->phased || groups >= units) return 1;
  int64_t parts = (int64_t)(2 * units / groups);
  if (parts > p->terms / LONG_SUM) parts = p->terms / LONG_SUM;
  if (parts > GEMM_SPLIT_LIMIT) parts = GEMM_SPLIT_LIMIT;
  return parts > 1 ? (uint32_t)parts : 1;
}

static compute_status choose_dot(generation *g, conv_problem *p) {
  compute_tuning *t = &g->tuning;
  if (emit_for_cpu(g)) {
    set_default(&t->vector, gemm_choose_lanes(g, &p->product));
    if (!is_power(t->vector) || t->vector > 64)
      return emit_refuse(g, "there are no %u lanes", (unsigned)t->vector);
    return COMPUTE_OK;
  }
  uint32_t items = 32;
  while (items < 256 && p->terms > 4 * (int64_t)items) items *= 2;
  while (items > gemm_group_limit(g) ||
         items * (uint64_t)p->product.sum_bytes > gemm_local_limit(g))
    items /= 2;
  set_default(&t->group_x, items);
  set_default(&t->groups, choose_parts(g, p));
  if (!is_power(t->group_x) || t->group_x * (uint64_t)p->product.sum_bytes > gemm_local_limit(g))
    return emit_refuse(g, "a group of %u items cannot add up a sum", (unsigned)t->group_x);
  const compute_status status = check_group(g);
  return status ? status : check_parts(g, p);
}

/* ---- Items by themselves ------------------------------------------------------------------- */

static compute_status choose_direct(generation *g, const conv_problem *p) {
  compute_tuning *t = &g->tuning;
  uint32_t results = emit_for_cpu(g) ? 64 : 4;
  while (results > 1 && results / 2 >= p->position_size[2]) results /= 2;
  set_default(&t->item_m, results);
  set_default(&t->group_x, emit_for_cpu(g) ? 1 : smaller(64, gemm_group_limit(g)));
  if (t->item_m > (emit_for_cpu(g) ? 1024u : 16u))
    return emit_refuse(g, "%u results are too many for an item", (unsigned)t->item_m);
  return check_group(g);
}

/* Of the blocks that fill the registers (see gemm_choose.c), the one with less edge. */
static void complete_block(generation *g, const conv_problem *p) {
  compute_tuning *t = &g->tuning;
  set_default(&t->vector, gemm_choose_lanes(g, &p->product));
  const bool many = t->vector * p->product.sum_bytes >= 64;
  const int64_t tall = many ? 12 : 6, flat = many ? 8 : 4;
  const bool is_tall =
      (p->channels + tall - 1) / tall * tall <= (p->channels + flat - 1) / flat * flat;
  set_default(&t->item_m, (uint32_t)(is_tall ? tall : flat));
  set_default(&t->item_n, (is_tall ? 2 : 3) * t->vector);
  const int64_t bytes = p->terms * t->item_n * p->product.sum_bytes;
  int64_t parts = (bytes + panel_bytes - 1) / panel_bytes;
  if (parts > GEMM_SPLIT_LIMIT) parts = GEMM_SPLIT_LIMIT;
  set_default(&t->groups, p->phased || parts < 1 ? 1 : (uint32_t)parts);
}

/* An upper bound; the plan's own sum is close to it. */
static bool workspace_fits(const generation *g, const conv_problem *p) {
  const compute_tuning *t = &g->tuning;
  const double bytes = p->product.sum_bytes, terms = (double)p->terms;
  const double batches = (double)p->product.batches, items = 16.0 * (double)units_of(g);
  return (((double)p->channels + t->item_m) * batches * terms +
          items * (terms + t->groups) * t->item_n +
          (t->groups > 1 ? t->groups : 0) * batches * (double)p->positions * (double)p->channels) *
             bytes <=
         workspace_limit;
}

static compute_status choose_packed(generation *g, const conv_problem *p) {
  compute_tuning *t = &g->tuning;
  complete_block(g, p);
  if (!p->position_columns || p->channels_fast) return emit_refuse(g, "packing is for CPUs");
  if (!is_power(t->vector) || t->vector < 2 || t->vector > 16 || t->item_n % t->vector)
    return emit_refuse(g, "%u positions are no vectors of %u", (unsigned)t->item_n,
                       (unsigned)t->vector);
  if (t->item_m > 16 || t->item_n / t->vector > 8)
    return emit_refuse(g, "a block of %ux%u is too large", (unsigned)t->item_m,
                       (unsigned)t->item_n);
  if (p->terms == 0) return emit_refuse(g, "there is nothing to multiply");
  if (!workspace_fits(g, p)) return emit_refuse(g, "the panels would take too much memory");
  return check_parts(g, p);
}

/* ---- Variants ------------------------------------------------------------------------------ */

static conv_variant choose_for_cpu(generation *g, const conv_problem *p) {
  const double products =
      (double)p->positions * (double)p->channels * (double)p->terms * (double)p->product.batches;
  if (products <= TINY) return CONV_PLAIN;
  if (p->channels >= FEW_CHANNELS) {
    const compute_tuning before = g->tuning;
    complete_block(g, p);
    const bool fits = workspace_fits(g, p);
    g->tuning = before;
    if (fits) return CONV_PACKED;
  }
  return conv_term_run(p) > conv_position_run(p) ? CONV_DOT : CONV_DIRECT;
}

/* Few results are sums of groups, if they are long; few channels have nothing to share. */
static conv_variant choose_for_gpu(const generation *g, const conv_problem *p) {
  const double results = (double)p->positions * (double)p->channels * (double)p->product.batches;
  const double items = (double)units_of(g) * 256;
  const bool narrow = p->channels < 2 * FEW_CHANNELS || p->positions < 2 * FEW_CHANNELS;
  if (narrow && p->terms >= LONG_SUM && results < items) return CONV_DOT;
  if (narrow) return CONV_DIRECT;
  const conv_variant tiled = (conv_variant)gemm_choose_tiled(g, &p->product);
  return tiled == CONV_SPLIT && p->phased ? CONV_TILED : tiled;
}

static conv_variant choose_variant(generation *g, const conv_problem *p) {
  if (p->terms == 0) return CONV_PLAIN;
  if (emit_for_cpu(g)) return choose_for_cpu(g, p);
  if (emit_has(g, COMPUTE_TARGET_FAST_LOCAL)) return choose_for_gpu(g, p);
  return p->channels < FEW_CHANNELS ? CONV_DIRECT : CONV_PLAIN;
}

compute_status conv_choose(generation *g, conv_problem *p) {
  compute_tuning *t = &g->tuning;
  if (t->variant == 0) t->variant = choose_variant(g, p);
  switch ((conv_variant)t->variant) {
  case CONV_PLAIN:
    set_default(&t->group_x, smaller(64, gemm_group_limit(g)));
    return check_group(g);
  case CONV_TILED:
  case CONV_SPLIT: return choose_tile(g, p);
  case CONV_DOT: return choose_dot(g, p);
  case CONV_DIRECT: return choose_direct(g, p);
  case CONV_PACKED: return choose_packed(g, p);
  }
  return emit_refuse(g, "a convolution has no variant %u", (unsigned)t->variant);
}
