/* SPDX-License-Identifier: MIT */
/* ATTENTION: softmax(scale · Q Kᵀ + bias) V without the matrix of scores in memory.
 *
 * Keys are taken in blocks. A query keeps the largest score so far, and relative to it the sum of
 * exponentials and the weighted sum of V's rows. A larger score shrinks both sums. So each key is
 * read once (M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax", 2018).
 *
 * PLAIN  an item for some columns of a query's result: for CPUs, few queries and any case that
 *        TILED cannot hold
 * TILED  a group for tile_m queries and tile_n columns of V; tiles of Q, K, V and the exponentials
 *        pass through local memory (T. Dao et al., "FlashAttention", 2022). Further groups take the
 *        columns of V beyond tile_n; they compute the scores again
 * MATRIX the same on matrix units, for f16 and bf16
 * WARPGROUP the same by products of warpgroups from local memory
 *
 * Parameters: variant; for PLAIN item_n (columns of an item). For TILED group_x (128 for each share
 * of a block's keys), tile_m (queries; 16 … 128), tile_n (columns of V; 32 … 256), tile_k (keys of
 * a block; 8 … 64) and items (the width of a slice of Q and K; 16 … 64). For MATRIX group_x (128 or
 * 256), tile_m (64 or 128; 16 or 32 for each warp), tile_n (16 … 128) and tile_k (16 … 64). For
 * WARPGROUP group_x (128 … 512), tile_m (64 for each warpgroup, or for several that share them),
 * tile_n (32, 64 or 128) and tile_k (keys of a warpgroup's block: 32, 64 or 128). */
#include <float.h>
#include <inttypes.h>
#include <stdio.h>

#include "codegen/generate/emit/emit.h"

enum {
  PLAIN = 1,
  TILED = 2,
  MATRIX = 3,
  WARPGROUP = 4,
  ACROSS = 8, /* items of a group side by side: columns of tiles */
  DOWN = 16,  /* items below each other: rows */
  WARP = 32,
  FOUR_WARPS = 4 * WARP, /* a warpgroup */
  PLAIN_GROUP = 64,
  PLAIN_COLUMNS = 16,
  CPU_COLUMNS = 64,
  MOST_COLUMNS = 256,
  MOST_WIDTH = 128, /* of Q and K, in the registers of MATRIX */
  KEY_BLOCK = 16,   /* of PLAIN */
  FEW_QUERIES = 8,
  SLAB_BYTES = 1024,
  STAGES = 3, /* of WARPGROUP */
  MOST_GROUPS_Y = 65535
};

typedef struct attention_kernel {
  generation *g;
  const compute_attention_attributes *a;
  emit_space space; /* over the batch dimensions */
  int64_t batches, queries, columns;
  uint32_t bytes; /* of a value */
} attention_kernel;

/* ---- Choice -------------------------------------------------------------------------------- */

/* True if the items of a query, neighbours in a warp, exchange values without local memory. */
static bool shuffles(const generation *g) {
  return emit_has(g, COMPUTE_TARGET_LOCKSTEP) && g->target->lanes == WARP &&
         g->target->dialect != COMPUTE_DIALECT_OPENCL;
}

/* The number of subgroups of TILED that share queries: each has its share of a block's keys. */
static uint32_t sides_of(const compute_tuning *t) {
  return t->group_x / (ACROSS * DOWN);
}

static uint64_t tile_values(const compute_tuning *t) {
  const uint64_t sides = sides_of(t), keys = sides * t->tile_k;
  const uint64_t slices = (t->tile_m + keys) * (t->items + 4);
  const uint64_t tiles = slices + sides * t->tile_m * (t->tile_k + 8) + keys * t->tile_n;
  /* Other sides write their sums, peaks and totals here for the first side. */
  const uint64_t shown = (sides - 1) * t->tile_m * (t->tile_n + 2 * ACROSS);
  return tiles > shown ? tiles : shown;
}

static uint64_t local_bytes(const attention_kernel *k, const compute_tuning *t) {
  const uint64_t peaks = shuffles(k->g) ? 0 : (uint64_t)sides_of(t) * t->tile_m * (ACROSS + 1);
  return (tile_values(t) + peaks) * k->bytes;
}

/* True if tiles of TILED arrive while others are multiplied. */
static bool copies(const attention_kernel *k, const compute_tuning *t) {
  const compute_operand *in = k->g->descriptor->inputs;
  return shuffles(k->g) && emit_has(k->g, COMPUTE_TARGET_MATRIX_CORES) &&
         k->g->descriptor->accumulate == COMPUTE_F32 && in[0].dtype == COMPUTE_F32 &&
         in[1].dtype == COMPUTE_F32 && in[2].dtype == COMPUTE_F32 && k->a->width <= t->items;
}

/* True if the bytes exceed the limit for a source, but the launch can ask for them. */
static bool asks(const attention_kernel *k, uint64_t bytes) {
  return bytes > k->g->target->local_bytes && bytes <= emit_asked_local_limit(k->g);
}

static uint64_t local_limit(const attention_kernel *k, const compute_tuning *t) {
  const uint64_t declared = k->g->target->local_bytes, asked = emit_asked_local_limit(k->g);
  return copies(k, t) && asked > declared ? asked : declared;
}

/* The type of the matrix units, or NULL. */
static const char *unit_of(const attention_kernel *k) {
  const generation *g = k->g;
  const compute_operand *in = g->descriptor->inputs;
  if (!emit_has(g, COMPUTE_TARGET_MATRIX_CORES) || !shuffles(g) || k->a->width == 0 ||
      k->a->width > MOST_WIDTH || g->descriptor->accumulate != COMPUTE_F32 ||
      in[1].dtype != in[0].dtype || in[2].dtype != in[0].dtype)
    return NULL;
  return in[0].dtype == COMPUTE_F16 ? "f16" : in[0].dtype == COMPUTE_BF16 ? "bf16" : NULL;
}

static uint32_t matrix_width(const attention_kernel *k) {
  return (uint32_t)(divide_up(k->a->width, 16) * 16);
}

static bool is_multiple(uint32_t n, uint32_t of) {
  return n > 0 && n % of == 0;
}

static bool grid_fits(const attention_kernel *k, const compute_tuning *t) {
  return divide_up(k->columns, t->tile_n) <= MOST_GROUPS_Y &&
         (double)k->batches * (double)divide_up(k->queries, t->tile_m) <= INT32_MAX;
}

static bool tiles_fit(const attention_kernel *k, const compute_tuning *t) {
  const compute_target *target = k->g->target;
  const bool group = (!target->group_limit || t->group_x <= target->group_limit) &&
                     (!target->group_limit_of[0] || t->group_x <= target->group_limit_of[0]);
  return group && is_multiple(t->group_x, ACROSS * DOWN) && is_multiple(t->tile_m, DOWN) &&
         t->tile_m <= 8 * DOWN && is_multiple(t->tile_n, 4 * ACROSS) && t->tile_n <= 32 * ACROSS &&
         is_multiple(t->tile_k, ACROSS) && t->tile_k <= 8 * ACROSS && is_multiple(t->items, 4) &&
         t->items <= 64 && local_bytes(k, t) <= local_limit(k, t) && grid_fits(k, t);
}

/* Tiles that arrive by copies. Items have 8 × 8 scores under three conditions: no compute unit
 * becomes idle, the sums also fit into registers, and tiles of 64 queries would not save padding.
 * Otherwise items have 4 × 8 scores, and with few groups two sides share the keys. */
static void choose_copies(const attention_kernel *k, compute_tuning *t) {
  const int64_t units = emit_units(k->g), tall = divide_up(k->queries, 8 * DOWN);
  const int64_t low = divide_up(k->queries, 4 * DOWN);
  const bool few = k->batches * tall < 3 * units / 2;
  t->group_x = few ? 2 * ACROSS * DOWN : ACROSS * DOWN;
  t->tile_m = !few && k->columns <= 64 && (2 * tall == low || tall > 4) ? 8 * DOWN : 4 * DOWN;
  t->tile_k = 8 * ACROSS;
  while (t->tile_m > DOWN && 2 * k->batches * divide_up(k->queries, t->tile_m) <= units)
    t->tile_m /= 2;
  while (t->tile_k > 2 * ACROSS && !tiles_fit(k, t)) t->tile_k /= 2;
}

/* Tall tiles read keys less often. If they would leave compute units idle, lower tiles are chosen.
 * Tiles that do not fit into local memory shrink. */
static void choose_tiles(const attention_kernel *k, compute_tuning *t) {
  const bool open[4] = {!t->tile_m, !t->tile_n, !t->tile_k, !t->items};
  const int64_t width = k->a->width;
  if (open[1]) t->tile_n = k->columns <= 32 ? 32 : k->columns <= 64 ? 64 : 128;
  if (open[3]) t->items = width <= 16 ? 16 : width <= 32 ? 32 : 64;
  const bool fixed = emit_is_reproducible(k->g);
  if (open[0] && open[2] && !t->group_x && !fixed && copies(k, t)) choose_copies(k, t);
  emit_default(&t->group_x, ACROSS * DOWN);
  emit_default(&t->tile_k, 4 * ACROSS);
  if (!t->tile_m) {
    t->tile_m = 4 * DOWN;
    while (t->tile_m > DOWN && (k->queries <= t->tile_m / 2 ||
                                (!fixed && k->batches * divide_up(k->queries, t->tile_m) <
                                               t->tile_m / (2 * DOWN) * emit_units(k->g))))
      t->tile_m /= 2;
  }
  while (!tiles_fit(k, t)) {
    if (open[3] && t->items > 32)
      t->items /= 2;
    else if (open[2] && t->tile_k > ACROSS)
      t->tile_k /= 2;
    else if (open[1] && t->tile_n > 32)
      t->tile_n /= 2;
    else if (open[0] && t->tile_m > DOWN)
      t->tile_m /= 2;
    else
      return;
  }
}

static uint64_t matrix_bytes(const compute_tuning *t) {
  const uint64_t queries = (uint64_t)t->tile_m * (t->items + 8);
  const uint64_t block = (uint64_t)t->tile_k * (t->items + 8 + t->tile_n + 8);
  return 2 * (block + (queries > block ? queries : block));
}

static bool matrix_fits(const attention_kernel *k, const compute_tuning *t) {
  const compute_target *target = k->g->target;
  return (t->group_x == 4 * WARP || t->group_x == 8 * WARP) &&
         (!target->group_limit || t->group_x <= target->group_limit) &&
         (!target->group_limit_of[0] || t->group_x <= target->group_limit_of[0]) &&
         is_multiple(t->tile_m, t->group_x / WARP * 16) && t->tile_m <= 128 &&
         is_multiple(t->tile_n, 16) && t->tile_n <= 128 && is_multiple(t->tile_k, 16) &&
         t->tile_k <= 64 && matrix_bytes(t) <= target->local_bytes && grid_fits(k, t);
}

static bool choose_matrix(const attention_kernel *k, compute_tuning *t) {
  const bool open = !t->tile_k;
  t->items = matrix_width(k);
  emit_default(&t->group_x, t->tile_m ? min_u32(t->tile_m * 2, 8 * WARP) : 4 * WARP);
  emit_default(&t->tile_m, t->group_x / WARP * 16);
  emit_default(&t->tile_n, k->columns <= 32 ? 32 : k->columns <= 64 ? 64 : 128);
  emit_default(&t->tile_k, t->items <= 64 && t->tile_n <= 64 ? 64 : 32);
  while (open && t->tile_k > 16 && !matrix_fits(k, t)) t->tile_k /= 2;
  return matrix_fits(k, t);
}

static bool has_warpgroups(const attention_kernel *k) {
  return unit_of(k) && emit_has(k->g, COMPUTE_TARGET_WARPGROUP_MATRIX);
}

static uint64_t warpgroup_bytes(const compute_tuning *t) {
  const uint64_t sides = t->group_x / 2 / t->tile_m, width = (t->items + 63) / 64 * 64;
  const uint64_t shown = (sides - 1) * t->tile_m * 2 * (t->tile_n / 2 + 4) * 4;
  const uint64_t columns = (t->tile_n + 63) / 64 * 64;
  const uint64_t stage = sides * t->tile_k * (width + columns) * 2;
  const uint64_t slabs = STAGES * stage + t->tile_m * width * 2;
  return slabs > shown ? slabs : (shown + SLAB_BYTES - 1) / SLAB_BYTES * SLAB_BYTES;
}

static bool warpgroup_fits(const attention_kernel *k, const compute_tuning *t) {
  return is_multiple(t->group_x, FOUR_WARPS) && t->group_x <= 4 * FOUR_WARPS &&
         t->group_x <= emit_group_limit(k->g) && is_multiple(t->tile_m, 64) &&
         is_multiple(t->group_x, 2 * t->tile_m) &&
         (t->tile_n == 32 || t->tile_n == 64 || t->tile_n == 128) &&
         (t->tile_k == 32 || t->tile_k == 64 || t->tile_k == 128) &&
         (warpgroup_bytes(t) <= k->g->target->local_bytes || asks(k, warpgroup_bytes(t))) &&
         grid_fits(k, t);
}

/* If groups of 128 queries would leave compute units idle, use twice as many groups of 64 queries,
 * whose warpgroups share the keys. */
static bool choose_warpgroup(const attention_kernel *k, compute_tuning *t) {
  const bool open = !t->tile_k;
  const bool few =
      !emit_is_reproducible(k->g) && k->batches * divide_up(k->queries, 128) < emit_units(k->g);
  t->items = matrix_width(k);
  emit_default(&t->tile_m, few || t->group_x == FOUR_WARPS ? 64 : 128);
  emit_default(&t->group_x, 2 * FOUR_WARPS);
  emit_default(&t->tile_n, k->columns <= 32 ? 32 : k->columns <= 64 ? 64 : 128);
  emit_default(&t->tile_k, 64);
  if (open && !warpgroup_fits(k, t)) t->tile_k = 32;
  return warpgroup_fits(k, t);
}

/* Sixteen warps on a compute unit, if 128 registers for each item are enough. */
static uint32_t warpgroup_room(const compute_tuning *t) {
  enum { WARPS = 16 };
  return t->tile_n <= 64 && t->tile_k <= 64 ? WARPS * WARP / t->group_x : 0;
}

/* The number of groups that should fit on a compute unit. Sixteen warps have 128 registers for each
 * item: enough beside this many words of Q, scores and sums. */
static uint32_t matrix_room(const compute_tuning *t) {
  enum { WARPS = 16, WORDS = 80 };
  const uint32_t rows = t->tile_m / (t->group_x / WARP * 16);
  const uint32_t words = rows * (t->items / 4 + t->tile_k / 2 + t->tile_n / 2);
  return words <= WORDS ? WARPS * WARP / t->group_x : 0;
}

/* Sets the parameters of the variant. Returns true if the variant is possible. */
static bool complete(const attention_kernel *k, uint32_t variant, compute_tuning *t) {
  t->variant = variant;
  if (variant == WARPGROUP) return has_warpgroups(k) && choose_warpgroup(k, t);
  if (variant == MATRIX) return unit_of(k) && choose_matrix(k, t);
  if (variant == TILED) {
    choose_tiles(k, t);
    return tiles_fit(k, t);
  }
  emit_default(&t->item_n, emit_for_cpu(k->g) ? CPU_COLUMNS : PLAIN_COLUMNS);
  return t->item_n <= MOST_COLUMNS;
}

static compute_status choose(attention_kernel *k) {
  generation *g = k->g;
  compute_tuning *t = &g->tuning;
  if (t->variant > WARPGROUP)
    return emit_refuse(g, "attention: there is no variant %u", t->variant);
  const bool open = t->variant == 0;
  const bool wise = !emit_for_cpu(g) && k->queries >= FEW_QUERIES;
  uint32_t variant = !open ? t->variant : wise ? WARPGROUP : PLAIN;
  for (;; variant--) {
    compute_tuning tried = *t;
    const bool fits = complete(k, variant, &tried);
    if (!fits && open && variant > PLAIN) continue;
    *t = tried;
    if (fits) return COMPUTE_OK;
    return emit_refuse(g, "attention: variant %u with tiles of %ux%ux%u, %u columns of an item",
                       t->variant, t->tile_m, t->tile_n, t->tile_k, t->item_n);
  }
}

/* ---- Text ---------------------------------------------------------------------------------- */

static const char *const names[] = {"query", "key", "value", "bias", "result"};

static const compute_operand *operand(const attention_kernel *k, int which) {
  const compute_kernel_descriptor *d = k->g->descriptor;
  return which == 4 ? &d->outputs[0] : &d->inputs[which];
}

static bool has_operand(const attention_kernel *k, int which) {
  return which != 3 || k->a->biased;
}

/* Powers of two are accurate enough. The error of an exponent grows with the exponent, but the
 * weight falls much faster. */
static bool powers_of_two(const attention_kernel *k) {
  return k->g->tuning.variant != PLAIN && k->g->descriptor->accumulate == COMPUTE_F32;
}

/* True if the scale converts scores to exponents of two. With the formula, its largest finite
 * scores would become infinite; there, differences of scores are converted instead. */
static bool scales_to_two(const attention_kernel *k) {
  return powers_of_two(k) && !k->a->formula;
}

/* True if shape.share scales the weights, so that they add up to at most 1. f16 does not need it:
 * its sums are far from the largest f32. */
static bool shares(const attention_kernel *k) {
  return k->a->formula && k->g->descriptor->inputs[0].dtype != COMPUTE_F16;
}

static void define_formula(attention_kernel *k) {
  generation *g = k->g;
  emit_define_number(&g->definitions, "ATTENTION_SHARED", shares(k));
  emit_define(&g->definitions, "ATTENTION_BLIND(sum)",
              !k->a->formula       ? "(VALUE)0"
              : k->a->zero_weights ? "(sum)"
                                   : "-(ATTENTION_LOWEST - ATTENTION_LOWEST)");
}

/* The address of an element, and a test that `vector` neighbours of a line are one load or
 * store. */
static void define_address(attention_kernel *k, int which, const char *head, int vector,
                           bool whole) {
  generation *g = k->g;
  const compute_operand *o = operand(k, which);
  const bool dense = o->stride[g->descriptor->rank - 1] == 1;
  char name[48], pointer[8];
  text_buffer text = {0};
  snprintf(pointer, sizeof pointer, which == 4 ? "out0" : "in%d", which);
  snprintf(name, sizeof name, "ATTENTION_%s_AT(i, j)", head);
  text_add(&text, "(%s + at_%s + (i) * shape.%s_row + (j)", pointer, pointer, names[which]);
  if (!dense) text_add(&text, " * shape.%s_column", names[which]);
  text_add(&text, ")");
  emit_define_text(&g->definitions, name, &text);
  snprintf(name, sizeof name, "ATTENTION_%s_WHOLE", head);
  if (dense && whole)
    text_add(&text, "(shape.%s_row %% %d == 0 && shape.%s %% %d == 0 && ALIGNED(%s + at_%s, %d))",
             names[which], vector, which < 2 ? "width" : "columns", vector, pointer, pointer,
             vector * (int)compute_dtype_size(o->dtype));
  else
    text_add(&text, "0");
  emit_define_text(&g->definitions, name, &text);
}

/* True if the scale can wait for the exponential: one factor > 0 for all scores, with nothing
 * added. With the formula it cannot: its scores may become infinite only after the scale. */
static bool folds_scale(const attention_kernel *k) {
  return k->a->scale >= FLT_MIN && !k->a->biased && !k->a->formula;
}

/* For tiles: MATRIX loads eight elements at once, TILED four values. Items of MATRIX have two
 * neighbours of the result, and round them as they round weights. */
static void define_addresses(attention_kernel *k) {
  static const char *const heads[] = {"QUERY", "KEY", "VALUE"};
  generation *g = k->g;
  const compute_kernel_descriptor *d = g->descriptor;
  const bool matrix = g->tuning.variant >= MATRIX;
  for (int i = 0; i < 3; i++)
    define_address(k, i, heads[i], matrix ? 8 : 4, matrix || d->inputs[i].dtype == d->accumulate);
  if (matrix) define_address(k, 4, "RESULT", 2, d->outputs[0].dtype == d->inputs[0].dtype);
  if (matrix)
    text_add(&g->definitions,
             "#define MATRIX_MULTIPLY MATRIX_MULTIPLY_%s\n"
             "#define MATRIX_PACK MATRIX_PACK_%s\n"
             "#define MATRIX_WIDEN widen_%s\n"
             "#define ATTENTION_FOLDED %d\n",
             unit_of(k), unit_of(k), unit_of(k), folds_scale(k));
}

static void define_units(attention_kernel *k) {
  generation *g = k->g;
  const compute_tuning *t = &g->tuning;
  const char *unit = unit_of(k);
  emit_constant(g, "LOCAL_SLABS", (int64_t)warpgroup_bytes(t) / SLAB_BYTES);
  emit_constant(g, "WEIGHTS_CUT", g->descriptor->inputs[0].dtype == COMPUTE_BF16);
  text_add(&g->definitions,
           "WARPGROUP_UNIT(SCORE_UNIT, %u, %s, 0, 0)\nWARPGROUP_UNIT_HELD(SUM_UNIT, %u, %s, 1)\n",
           (unsigned)t->tile_k, unit, (unsigned)t->tile_n, unit);
}

static void define(attention_kernel *k) {
  generation *g = k->g;
  const compute_kernel_descriptor *d = g->descriptor;
  const bool wide = d->accumulate == COMPUTE_F64;
  text_buffer *definitions = &g->definitions, text = {0};
  emit_define(definitions, "VALUE", emit_type(d->accumulate));
  emit_define(definitions, "ATTENTION_EXP",
              powers_of_two(k) ? "FAST_EXP2"
              : wide           ? "exp_f64"
                               : "exp_f32");
  emit_define(definitions, "ATTENTION_UNIT", scales_to_two(k) ? "1.44269504f" : "1");
  emit_define(definitions, "ATTENTION_STEP(x)",
              powers_of_two(k) && !scales_to_two(k) ? "((x) * 1.44269504f)" : "(x)");
  define_formula(k);
  if (shuffles(g))
    emit_define(definitions, "ATTENTION_SHUFFLE", wide ? "SHUFFLE_XOR_f64" : "SHUFFLE_XOR_f32");
  emit_define(definitions, "ATTENTION_MAD", wide ? "MAD_f64" : "MAD_f32");
  emit_define(definitions, "ATTENTION_LOWEST", emit_lowest(d->accumulate));
  emit_define_number(definitions, "ATTENTION_CAUSAL", k->a->causal);
  emit_define_number(definitions, "ATTENTION_BIASED", k->a->biased);
  for (int i = 0; i < 5; i++) {
    char head[48], index[128], pointer[8], step[32];
    if (!has_operand(k, i)) continue;
    const compute_operand *o = operand(k, i);
    /* Contiguous neighbours get a constant stride of 1 in the text. */
    if (o->stride[d->rank - 1] == 1)
      snprintf(step, sizeof step, "(j)");
    else
      snprintf(step, sizeof step, "(j) * shape.%s_column", names[i]);
    snprintf(pointer, sizeof pointer, i == 4 ? "out0" : "in%d", i);
    snprintf(index, sizeof index, "at_%s + (i) * shape.%s_row + %s", pointer, names[i], step);
    snprintf(head, sizeof head, i == 4 ? "ATTENTION_STORE(i, j, stored)" : "ATTENTION_%s(i, j)",
             i == 0   ? "QUERY"
             : i == 1 ? "KEY"
             : i == 2 ? "VALUE"
                      : "BIAS");
    if (i == 4)
      emit_store(&text, o->dtype, d->accumulate, pointer, index, "stored");
    else
      emit_load(&text, o->dtype, pointer, index);
    emit_define_text(definitions, head, &text);
  }
  if (g->tuning.variant != PLAIN) define_addresses(k);
  if (g->tuning.variant == WARPGROUP) define_units(k);
  emit_template(g, definitions, "attention");
}

static void add_fields(attention_kernel *k, emit_launch *launch) {
  generation *g = k->g;
  const compute_kernel_descriptor *d = g->descriptor;
  char name[32];
  for (int i = 0; i < 5; i++) {
    if (!has_operand(k, i)) continue;
    const int64_t *stride = operand(k, i)->stride;
    snprintf(name, sizeof name, "%s_row", names[i]);
    emit_field_index(g, launch, name, stride[d->rank - 2]);
    snprintf(name, sizeof name, "%s_column", names[i]);
    emit_field_index(g, launch, name, stride[d->rank - 1]);
  }
  emit_field_divisor(g, launch, "queries", k->queries);
  emit_field_index(g, launch, "keys", k->a->keys);
  emit_field_index(g, launch, "width", k->a->width);
  emit_field_index(g, launch, "columns", k->columns);
  if (d->accumulate == COMPUTE_F64)
    emit_field_f64(g, launch, "scale", k->a->scale);
  else
    emit_field_f32(g, launch, "scale",
                   (float)(k->a->scale * (scales_to_two(k) ? 1.4426950408889634 : 1)));
  if (shares(k) && d->accumulate == COMPUTE_F64)
    emit_field_f64(g, launch, "share", compute_attention_share(k->a));
  else if (shares(k))
    emit_field_f32(g, launch, "share", (float)compute_attention_share(k->a));
  emit_space_fields(g, launch, &k->space, 0, k->space.rank);
}

/* ---- Launches ------------------------------------------------------------------------------ */

static void emit_items(attention_kernel *k) {
  generation *g = k->g;
  const uint32_t columns = g->tuning.item_n;
  const int64_t blocks = divide_up(k->columns, columns);
  const sweep s = sweep_plan(g, k->batches * k->queries * blocks, 1, PLAIN_GROUP);
  emit_launch *launch = emit_launch_line(g, "attention", s.group, s.groups);
  if (!launch) return;
  text_buffer *text = &launch->body;
  emit_inputs(g, launch, 0, g->descriptor->input_count);
  emit_output(g, launch, 0);
  add_fields(k, launch);
  emit_field_divisor(g, launch, "blocks", blocks);
  emit_define_number(text, "ATTENTION_COLUMNS", columns);
  emit_define_number(text, "ATTENTION_KEYS", KEY_BLOCK);
  sweep_begin(g, launch, &s);
  text_add(text, "const INDEX line = DIVIDE(at, shape.blocks);\n"
                 "const INDEX column = (at - line * shape.blocks) * ATTENTION_COLUMNS;\n"
                 "const INDEX batch = DIVIDE(line, shape.queries);\n"
                 "const INDEX query = line - batch * shape.queries;\n");
  emit_offsets(g, text, &k->space, 0, k->space.rank, "batch", "at");
  emit_template(g, text, "attention_item");
  text_add(text, "}\n");
  snprintf(g->text, sizeof g->text, "attention, %u columns of a query by an item",
           (unsigned)columns);
}

/* Later queries see more keys, so their groups take longer. Groups start in order: if the longest
 * start first, the short ones fill the gaps at the end. With many batches there are enough groups
 * anyway; then the groups of a batch should share its keys and values in a cache. */
static bool longest_first(const attention_kernel *k) {
  return k->a->causal && k->batches <= emit_units(k->g);
}

static void add_warpgroup(generation *g, text_buffer *text) {
  emit_template(g, text, "attention_lines");
  emit_template(g, text, "attention_warpgroup");
  emit_template(g, text, "attention_warpgroup_weights");
  text_add(text, "SPLIT_WEIGHTS()\n"
                 "for (INDEX block = BLOCK_KEYS; block < end; block += BLOCK_KEYS) {\n");
  emit_template(g, text, "attention_warpgroup_scores");
  emit_template(g, text, "attention_warpgroup_weights");
  emit_template(g, text, "attention_warpgroup_sums");
  text_add(text, "}\n");
  emit_template(g, text, "attention_warpgroup_end");
}

static void add_templates(generation *g, text_buffer *text) {
  switch (g->tuning.variant) {
  case WARPGROUP: add_warpgroup(g, text); break;
  case MATRIX:
    emit_template(g, text, "attention_lines");
    emit_template(g, text, "attention_matrix");
    break;
  default: emit_template(g, text, "attention_tile");
  }
}

static void emit_tiles(attention_kernel *k) {
  generation *g = k->g;
  compute_tuning *t = &g->tuning;
  const int64_t tiles = divide_up(k->queries, t->tile_m);
  const uint32_t group = t->group_x;
  const uint32_t across = (uint32_t)divide_up(k->columns, t->tile_n);
  emit_launch *launch = emit_launch_begin(g, "attention", (uint32_t[3]){group, 1, 1},
                                          (uint32_t[3]){(uint32_t)(k->batches * tiles), across, 1});
  if (!launch) return;
  if (t->variant == MATRIX) launch->room = matrix_room(t);
  if (t->variant == WARPGROUP) launch->room = warpgroup_room(t);
  text_buffer *text = &launch->body;
  emit_inputs(g, launch, 0, g->descriptor->input_count);
  emit_output(g, launch, 0);
  add_fields(k, launch);
  emit_field_divisor(g, launch, "tiles", tiles);
  emit_field_divisor(g, launch, "batches", k->batches);
  emit_define_number(text, "TILE_QUERIES", t->tile_m);
  emit_define_number(text, "TILE_COLUMNS", t->tile_n);
  emit_define_number(text, "TILE_KEYS", t->tile_k);
  emit_define_number(text, "TILE_WIDTH", t->items);
  emit_define_number(text, "TILE_ACROSS", ACROSS);
  emit_define_number(text, "TILE_DOWN", DOWN);
  emit_define_number(text, "TILE_GROUP", group);
  if (t->variant == TILED) {
    emit_define_number(text, "TILE_SIDES", sides_of(t));
    emit_define_number(text, "TILE_COPIES", copies(k, t));
    emit_define_number(text, "TILE_QUADS", (int64_t)tile_values(t) / 4);
  }
  if (t->variant != MATRIX) {
    const uint64_t bytes = t->variant == TILED ? local_bytes(k, t) : warpgroup_bytes(t);
    emit_define(text, "TILE_ARRAY", asks(k, bytes) ? "LOCAL_ARRAY_ASKED" : "LOCAL_ARRAY");
    if (asks(k, bytes)) launch->local_bytes = (uint32_t)bytes;
  }
  if (longest_first(k))
    text_add(text, "const INDEX turn = DIVIDE((INDEX)GROUP_ID_X, shape.batches);\n"
                   "const INDEX batch = (INDEX)GROUP_ID_X - turn * shape.batches;\n"
                   "const INDEX tile = shape.tiles - 1 - turn;\n");
  else
    text_add(text, "const INDEX batch = DIVIDE((INDEX)GROUP_ID_X, shape.tiles);\n"
                   "const INDEX tile = (INDEX)GROUP_ID_X - batch * shape.tiles;\n");
  text_add(text, "const INDEX query = tile * TILE_QUERIES;\n"
                 "const INDEX column = (INDEX)GROUP_ID_Y * TILE_COLUMNS;\n");
  emit_offsets(g, text, &k->space, 0, k->space.rank, "batch", "at");
  add_templates(g, text);
  snprintf(g->text, sizeof g->text, "attention%s by tiles of %u queries, %u keys, %u columns",
           t->variant == WARPGROUP ? " of warpgroups"
           : t->variant == MATRIX  ? " on matrix units"
                                   : "",
           (unsigned)t->tile_m, (unsigned)t->tile_k, (unsigned)t->tile_n);
}

static compute_status emit(generation *g) {
  const compute_kernel_descriptor *d = g->descriptor;
  attention_kernel k = {.g = g,
                        .a = compute_attention_of(d),
                        .queries = d->size[d->rank - 2],
                        .columns = d->size[d->rank - 1],
                        .bytes = emit_value_bytes(d->accumulate)};
  if (k.queries == 0 || k.columns == 0 || !space_rows(g, &k.space, d->rank - 2)) return COMPUTE_OK;
  k.batches = space_count(&k.space, 0, k.space.rank);
  double more = (double)k.a->keys + (double)k.queries;
  if ((double)k.a->width > more) more = (double)k.a->width;
  sweep_measure(g, 2 * more);
  const compute_status status = choose(&k);
  if (status) return status;
  define(&k);
  if (g->tuning.variant == PLAIN)
    emit_items(&k);
  else
    emit_tiles(&k);
  return COMPUTE_OK;
}

static const tuning_grid grids[] = {
    {TUNE_OTHERS,
     {TUNE(variant, 4), TUNE(group_x, 128, 256, 512), TUNE(tile_m, 64, 128), TUNE(tile_n, 64, 128),
      TUNE(tile_k, 32, 64)}},
    {TUNE_OTHERS,
     {TUNE(variant, 3), TUNE(group_x, 128, 256), TUNE(tile_m, 64, 128), TUNE(tile_n, 32, 64, 128),
      TUNE(tile_k, 16, 32, 64)}},
    {TUNE_OTHERS,
     {TUNE(variant, 2), TUNE(tile_m, 16, 32, 64, 128), TUNE(tile_n, 32, 64, 128),
      TUNE(tile_k, 16, 32, 64), TUNE(items, 32, 64)}},
    {TUNE_OTHERS,
     {TUNE(variant, 2), TUNE(group_x, 256, 512), TUNE(tile_m, 32, 64), TUNE(tile_n, 32, 64),
      TUNE(tile_k, 16, 32, 64)}},
    {TUNE_OTHERS, {TUNE(variant, 1), TUNE(item_n, 4, 8, 16, 32)}},
    {TUNE_CPU, {TUNE(variant, 1), TUNE(item_n, 16, 32, 64, 128)}},
    {.target = TUNE_END},
};

const emit_kind emit_attention = {.name = "ATTENTION", .emit = emit, .grids = grids};
