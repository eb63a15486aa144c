/* SPDX-License-Identifier: MIT */
/* SPOTS. */
#include "fuzz/attributes/attributes.h"

void read_spots(reader *r, compute_spots_attributes *o) {
  *o = (compute_spots_attributes){.filter = (int32_t)(byte(r) % 3),
                                  .distance = (int32_t)number(r),
                                  .radius = (int32_t)number(r),
                                  .wide_radius = (int32_t)number(r),
                                  .step = number(r),
                                  .rounds = byte(r),
                                  .sigma = byte(r) * 0.1,
                                  .wide_sigma = byte(r) * 0.1,
                                  .threshold = byte(r) * 0.1,
                                  .first = 1,
                                  .clip = byte(r),
                                  .scale = 1,
                                  .least = 0.001,
                                  .gain = 0.1};
}
