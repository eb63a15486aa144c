/* SPDX-License-Identifier: MIT */
/* SPOTS: detection of spots in frames. */
#include <math.h>

#include "compute/backend/fit_kinds.h"

#include "core/kernel/common/kind.h"

static bool check_search(const compute_spots_attributes *o, const explanation *why) {
  if (o->filter != 0 && o->filter != 1)
    return descriptor_refuse(why, "the filter is %d; it must be 0 or 1", (int)o->filter);
  if (o->radius < 0 || o->wide_radius < o->radius || o->wide_radius > COMPUTE_SPOT_MOST_RADIUS)
    return descriptor_refuse(why, "the filter's radii are %d and %d", (int)o->radius,
                             (int)o->wide_radius);
  if (o->distance < 1 || o->distance > COMPUTE_SPOT_MOST_RADIUS)
    return descriptor_refuse(why, "the distance is %d", (int)o->distance);
  if (o->step < 1 || o->rounds < 0 || o->rounds > 100)
    return descriptor_refuse(why, "the noise is of every %lld-th row in %lld rounds",
                             (long long)o->step, (long long)o->rounds);
  if (o->filter == 0 && !(o->sigma > 0 && o->wide_sigma > 0))
    return descriptor_refuse(why, "the filter's sigmas are %g and %g", o->sigma, o->wide_sigma);
  if (o->tile < 0) return descriptor_refuse(why, "tiles of %lld pixels", (long long)o->tile);
  if (!(o->threshold > 0)) return descriptor_refuse(why, "the threshold is %g", o->threshold);
  const double factor[] = {o->first, o->clip, o->scale, o->least, o->gain};
  for (size_t i = 0; i < sizeof factor / sizeof *factor; i++)
    if (!isfinite(factor[i]) || factor[i] < 0)
      return descriptor_refuse(why, "a factor of the noise is %g", factor[i]);
  return true;
}

static bool check(const compute_kernel_descriptor *d, const explanation *why) {
  if (d->rank != 3) return descriptor_refuse(why, "SPOTS has three dimensions");
  if (!descriptor_check_counts(d, 1, 1, why) || !descriptor_check_no_programs(d, why) ||
      !check_search(compute_spots_of(d), why))
    return false;
  if (d->size[1] < 3 || d->size[2] < 3)
    return descriptor_refuse(why, "frames of %lld × %lld; they need 3 × 3 pixels",
                             (long long)d->size[1], (long long)d->size[2]);
  if (d->inputs[0].dtype != COMPUTE_U16 && d->inputs[0].dtype != COMPUTE_F32)
    return descriptor_refuse(why, "frames are %s; they must be u16 or f32",
                             compute_dtype_name(d->inputs[0].dtype));
  if (d->outputs[0].dtype != COMPUTE_BOOL && d->outputs[0].dtype != COMPUTE_F32)
    return descriptor_refuse(why, "results are %s; they must be bool or f32",
                             compute_dtype_name(d->outputs[0].dtype));
  return descriptor_check_outputs_distinct(d, 3, why);
}

/* Two blurs along two axes, with a multiplication and two additions for each pair; noise and
 * maxima. */
static uint64_t flops(const compute_kernel_descriptor *d) {
  const compute_spots_attributes *a = compute_spots_of(d);
  return (uint64_t)kernel_elements(d, 0, 3) * (6 * (uint64_t)(a->radius + a->wide_radius) + 20);
}

/* Data stays in registers, as in fits. */
static void work(const compute_kernel_descriptor *d, const kernel_cost *cost, kernel_work *work) {
  (void)d;
  work->simple += 0.25 * (double)cost->flops;
}

static void print_class(const compute_kernel_descriptor *d, class_text *t) {
  const compute_spots_attributes *a = compute_spots_of(d);
  class_add_types(t, d, 1);
  class_add(t, "%s/n%dh%dw%dr%d", a->filter == 0 ? "gaussians" : "boxes", class_bucket(d->size[0]),
            class_bucket(d->size[1]), class_bucket(d->size[2]), (int)a->wide_radius);
}

static const char *operation(const compute_kernel_descriptor *d) {
  return compute_spots_of(d)->filter == 0 ? "by gaussians" : "by boxes";
}

const kernel_kind kernel_kind_spots = {
    .name = "spots",
    .title = "spots",
    .check = check,
    .flops = flops,
    .attribute_bytes = sizeof(compute_spots_attributes),
    .work = work,
    .print_class = print_class,
    .operation = operation,
};
