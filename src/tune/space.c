/* Candidates: for each kind of kernel a few grids, whose points are all combinations of some
 * values.
 *
 * The grids are generous, since what the target cannot run costs little: the generator refuses it,
 * or makes the same text from it as from another point, and both are sorted out before anything is
 * compiled. */
#include "tune/space.h"

#include <stddef.h>
#include <string.h>

#include "base/hash.h"
#include "generate/generate.h"

enum { AXES = 6, VALUES = 6 };

/* The values of one parameter; 0 ends them. */
typedef struct space_axis {
  size_t offset;
  uint32_t value[VALUES];
} space_axis;

typedef enum space_for { FOR_ANY, FOR_CPU, FOR_OTHERS } space_for;

typedef struct space_grid {
  compute_kernel_kind kind;
  space_for target;
  space_axis axis[AXES];
} space_grid;

#define AXIS(member, ...)                                                                          \
  {                                                                                                \
    offsetof(compute_tuning, member), {                                                            \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
  }

/* What each kind reads of the parameters is said where it is written, in generate/kinds/. */
static const space_grid grids[] = {
    {COMPUTE_KERNEL_MAP,
     FOR_OTHERS,
     {AXIS(group_x, 64, 128, 256, 512), AXIS(vector, 1, 2, 4, 8), AXIS(groups, 4, 8, 16, 32, 64)}},
    {COMPUTE_KERNEL_MAP, FOR_CPU, {AXIS(items, 1024, 4096, 16384, 65536, 262144, 1048576)}},
    {COMPUTE_KERNEL_COPY,
     FOR_OTHERS,
     {AXIS(group_x, 64, 128, 256, 512), AXIS(vector, 1, 2, 4, 8), AXIS(groups, 4, 8, 16, 32, 64)}},
    {COMPUTE_KERNEL_COPY, FOR_CPU, {AXIS(items, 1024, 4096, 16384, 65536, 262144, 1048576)}},
    {COMPUTE_KERNEL_COPY, FOR_OTHERS, {AXIS(tile_m, 16, 32, 64), AXIS(tile_n, 16, 32, 64)}},
    {COMPUTE_KERNEL_COPY,
     FOR_CPU,
     {AXIS(tile_m, 16, 32, 64, 128), AXIS(tile_n, 32, 64, 128, 256, 512)}},
    {COMPUTE_KERNEL_REDUCE,
     FOR_OTHERS,
     {AXIS(group_x, 64, 128, 256, 512), AXIS(tile_k, 8, 32, 128, 256), AXIS(items, 2, 4, 8),
      AXIS(groups, 4, 16)}},
    {COMPUTE_KERNEL_REDUCE, FOR_CPU, {AXIS(variant, 1, 2), AXIS(vector, 8, 16, 32, 64, 128, 256)}},
    {COMPUTE_KERNEL_ROW,
     FOR_OTHERS,
     {AXIS(group_x, 64, 128, 256, 512, 1024), AXIS(tile_k, 8, 32, 64, 128, 256, 512),
      AXIS(items, 4, 8, 16)}},
    {COMPUTE_KERNEL_ROW, FOR_CPU, {AXIS(variant, 1, 2), AXIS(vector, 4, 8, 16, 32, 64, 128)}},
    {COMPUTE_KERNEL_GEMM,
     FOR_OTHERS,
     {AXIS(variant, 2), AXIS(tile_m, 32, 64, 128), AXIS(tile_n, 32, 64, 128),
      AXIS(tile_k, 8, 16, 32), AXIS(item_m, 4, 8), AXIS(item_n, 4, 8)}},
    {COMPUTE_KERNEL_GEMM,
     FOR_OTHERS,
     {AXIS(variant, 3), AXIS(tile_m, 32, 64), AXIS(tile_n, 32, 64), AXIS(groups, 2, 4, 8, 16)}},
    {COMPUTE_KERNEL_GEMM,
     FOR_OTHERS,
     {AXIS(variant, 6), AXIS(item_m, 4, 8), AXIS(item_n, 4, 8), AXIS(vector, 2, 4),
      AXIS(group_x, 32, 64)}},
    {COMPUTE_KERNEL_GEMM,
     FOR_CPU,
     {AXIS(variant, 5, 6), AXIS(item_m, 4, 6, 8, 12, 14), AXIS(item_n, 8, 16, 32, 48),
      AXIS(vector, 4, 8, 16)}},
    {COMPUTE_KERNEL_CONV, FOR_OTHERS, {AXIS(variant, 5), AXIS(item_m, 1, 2, 4, 8)}},
    {COMPUTE_KERNEL_CONV,
     FOR_OTHERS,
     {AXIS(variant, 4), AXIS(group_x, 32, 64, 128, 256), AXIS(groups, 1, 4, 16)}},
    {COMPUTE_KERNEL_CONV,
     FOR_OTHERS,
     {AXIS(variant, 3), AXIS(tile_m, 32, 64), AXIS(tile_n, 32, 64), AXIS(groups, 4, 16, 32)}},
    {COMPUTE_KERNEL_CONV,
     FOR_OTHERS,
     {AXIS(variant, 2), AXIS(tile_m, 32, 64, 128), AXIS(tile_n, 32, 64, 128), AXIS(tile_k, 8, 16),
      AXIS(item_m, 4, 8), AXIS(item_n, 4, 8)}},
    {COMPUTE_KERNEL_CONV, FOR_CPU, {AXIS(variant, 4), AXIS(vector, 8, 16, 32)}},
    {COMPUTE_KERNEL_CONV, FOR_CPU, {AXIS(variant, 5), AXIS(item_m, 16, 32, 64, 128, 256)}},
    {COMPUTE_KERNEL_CONV,
     FOR_CPU,
     {AXIS(variant, 6), AXIS(item_m, 4, 6, 8, 12, 14), AXIS(item_n, 16, 32, 48),
      AXIS(vector, 8, 16)}},
    {COMPUTE_KERNEL_FIT,
     FOR_OTHERS,
     {AXIS(variant, 1), AXIS(group_x, 32, 64, 128), AXIS(groups, 2, 4, 6, 8, 10, 12)}},
    {COMPUTE_KERNEL_FIT, FOR_OTHERS, {AXIS(variant, 2), AXIS(group_x, 32, 64, 128, 256)}},
    {COMPUTE_KERNEL_FIT, FOR_OTHERS, {AXIS(variant, 3), AXIS(group_x, 64, 128, 256)}},
    {COMPUTE_KERNEL_FIT, FOR_CPU, {AXIS(items, 4, 16, 64, 256, 1024)}},
    {COMPUTE_KERNEL_WINDOW, FOR_OTHERS, {AXIS(variant, 1, 2), AXIS(group_x, 64, 128, 256, 512)}},
    {COMPUTE_KERNEL_WINDOW, FOR_CPU, {AXIS(variant, 1, 2)}},
    {COMPUTE_KERNEL_SCAN,
     FOR_OTHERS,
     {AXIS(variant, 2), AXIS(group_x, 64, 128, 256, 512), AXIS(items, 4, 8, 16),
      AXIS(groups, 2, 4, 8)}},
    {COMPUTE_KERNEL_SCAN, FOR_ANY, {AXIS(variant, 1), AXIS(groups, 1, 4, 16)}},
    {COMPUTE_KERNEL_TOP_K,
     FOR_OTHERS,
     {AXIS(variant, 2), AXIS(group_x, 32, 64, 128, 256), AXIS(groups, 2, 4, 8)}},
    {COMPUTE_KERNEL_TOP_K, FOR_OTHERS, {AXIS(variant, 3), AXIS(group_x, 64, 128, 256, 512)}},
    {COMPUTE_KERNEL_TOP_K, FOR_OTHERS, {AXIS(variant, 4), AXIS(group_x, 256, 512, 1024)}},
    {COMPUTE_KERNEL_TOP_K, FOR_CPU, {AXIS(variant, 1, 2, 3, 4)}},
    {COMPUTE_KERNEL_ATTENTION,
     FOR_OTHERS,
     {AXIS(variant, 2), AXIS(tile_m, 16, 32, 64), AXIS(tile_n, 32, 64, 128),
      AXIS(tile_k, 16, 32, 64)}},
    {COMPUTE_KERNEL_ATTENTION, FOR_OTHERS, {AXIS(variant, 1), AXIS(item_n, 4, 8, 16, 32)}},
    {COMPUTE_KERNEL_ATTENTION, FOR_CPU, {AXIS(variant, 1), AXIS(item_n, 16, 32, 64, 128)}},
};

/* ---- Points -------------------------------------------------------------------------------- */

static uint32_t axis_length(const space_axis *axis) {
  uint32_t length = 0;
  while (length < VALUES && axis->value[length] != 0) length++;
  return length;
}

static uint32_t grid_points(const space_grid *grid) {
  uint32_t points = 1;
  for (int i = 0; i < AXES && axis_length(&grid->axis[i]) > 0; i++)
    points *= axis_length(&grid->axis[i]);
  return points;
}

static compute_tuning grid_point(const space_grid *grid, uint32_t number) {
  compute_tuning tuning = {0};
  for (int i = 0; i < AXES && axis_length(&grid->axis[i]) > 0; i++) {
    const uint32_t length = axis_length(&grid->axis[i]);
    memcpy((char *)&tuning + grid->axis[i].offset, &grid->axis[i].value[number % length],
           sizeof(uint32_t));
    number /= length;
  }
  return tuning;
}

static bool grid_serves(const space_grid *grid, const compute_target *target,
                        compute_kernel_kind kind) {
  const bool cpu = target->type == COMPUTE_DEVICE_CPU;
  return grid->kind == kind && (grid->target == FOR_ANY || (grid->target == FOR_CPU) == cpu);
}

/* ---- What the generator makes of them ------------------------------------------------------- */

static bool within(uint64_t value, uint32_t limit) {
  return limit == 0 || value <= limit; /* 0: not known */
}

static bool fits_groups(const compute_target *target, const compute_tuning *tuning) {
  const uint64_t y = tuning->group_y ? tuning->group_y : 1;
  return within(tuning->group_x, target->group_limit_of[0]) &&
         within(y, target->group_limit_of[1]) && within(tuning->group_x * y, target->group_limit);
}

/* A number for the kernel that these parameters make; 0 if the generator refuses them. */
static uint64_t fingerprint(const compute_target *target,
                            const compute_kernel_descriptor *descriptor,
                            const compute_tuning *tuning) {
  const compute_generated *generated = NULL;
  char reason[256] = "";
  if (generate_kernel(target, descriptor, tuning, &generated, reason, sizeof reason)) return 0;
  uint64_t hash = hash_bytes(HASH_SEED, generated->source, generated->source_bytes);
  for (uint32_t i = 0; i < generated->launch_count; i++) {
    const compute_generated_launch *launch = &generated->launches[i];
    hash = hash_bytes(hash, launch->groups, sizeof launch->groups);
    hash = hash_bytes(hash, launch->group, sizeof launch->group);
    hash = hash_bytes(hash, launch->shape, launch->shape_bytes);
  }
  generate_release(generated);
  return hash ? hash : 1;
}

static bool is_new(uint64_t *seen, uint32_t count, uint64_t hash) {
  for (uint32_t i = 0; i < count; i++)
    if (seen[i] == hash) return false;
  seen[count] = hash;
  return true;
}

/* Keeps the first, and of the others as many as `limit` allows, at even distances. */
static uint32_t thin(compute_tuning *list, uint32_t count, uint32_t limit) {
  if (count <= limit) return count;
  for (uint32_t i = 1; i < limit; i++)
    list[i] = list[1 + (uint64_t)(i - 1) * (count - 1) / (limit - 1)];
  return limit;
}

/* Into an order in which the first few are as different as any: a run may not get further. The
 * order is always the same. */
static void shuffle(compute_tuning *list, uint32_t count) {
  for (uint32_t i = count; i > 2; i--) {
    const uint32_t other = 1 + (uint32_t)(hash_u64(HASH_SEED, i) % (i - 1));
    const compute_tuning swap = list[i - 1];
    list[i - 1] = list[other];
    list[other] = swap;
  }
}

uint32_t space_list(const compute_target *target, const compute_kernel_descriptor *descriptor,
                    bool quick, compute_tuning *list) {
  uint64_t seen[SPACE_LIMIT];
  uint32_t count = 1;
  list[0] = (compute_tuning){0};
  seen[0] = fingerprint(target, descriptor, &list[0]);
  for (size_t g = 0; g < sizeof grids / sizeof *grids; g++) {
    if (!grid_serves(&grids[g], target, descriptor->kind)) continue;
    const uint32_t points = grid_points(&grids[g]);
    for (uint32_t i = 0; i < points && count < SPACE_LIMIT; i++) {
      const compute_tuning tuning = grid_point(&grids[g], i);
      if (!fits_groups(target, &tuning)) continue;
      const uint64_t hash = fingerprint(target, descriptor, &tuning);
      if (hash && is_new(seen, count, hash)) list[count++] = tuning;
    }
  }
  count = thin(list, count, quick ? SPACE_QUICK_LIMIT : SPACE_LIMIT);
  shuffle(list, count);
  return count;
}
