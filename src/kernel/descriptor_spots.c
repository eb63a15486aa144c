/* The check of SPOTS. */
#include <math.h>

#include "kernel/descriptor_check.h"

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
  if (!(o->threshold > 0)) return descriptor_refuse(why, "the threshold is %g", o->threshold);
  const double factor[] = {o->first, o->clip, o->scale, o->least, o->gain};
  for (size_t i = 0; i < sizeof factor / sizeof *factor; i++)
    if (!isfinite(factor[i]) || factor[i] < 0)
      return descriptor_refuse(why, "a factor of the noise is %g", factor[i]);
  return true;
}

bool descriptor_check_spots(const compute_kernel_descriptor *d, const explanation *why) {
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
