/* SPDX-License-Identifier: MIT */
/* FIT, with problems that are valid in most inputs. */
#include "fuzz/attributes/attributes.h"
#include "core/kernel/common/fit_problem.h"

void read_fit(reader *r, compute_fit_attributes *a) {
  compute_fit_problem *p = &a->problem;
  p->model = (compute_fit_model)bits(r, 3);
  p->profile = (compute_fit_profile)bits(r, 1);
  p->solver = (compute_fit_solver)bits(r, 3);
  p->camera = byte(r) < 250 ? COMPUTE_FIT_SCMOS : (compute_fit_camera)bits(r, 3);
  p->rows = (int32_t)number(r);
  p->columns = (int32_t)number(r);
  p->iterations = (int32_t)bits(r, 63);
  p->outputs = bits(r, COMPUTE_FIT_ALL_OUTPUTS);
  p->inputs = bits(r, 0xff) << 1 | bits(r, 1);
  p->flags = bits(r, 1);
  p->epsilon = real(r, 0.02);
  p->fixed = bits(r, 7);
  p->start_set = bits(r, 15);
  p->lower_set = bits(r, 15);
  p->upper_set = bits(r, 15);
  for (int i = 0; i < COMPUTE_FIT_MAX_PARAMETERS; i++) {
    p->start[i] = real(r, 2);
    p->lower[i] = real(r, 0.25);
    p->upper[i] = real(r, 8);
    p->z_start[i] = real(r, 0.1);
  }
  for (int i = 0; i < 2; i++) {
    p->sigma[i] = real(r, 1.3);
    p->a[i] = real(r, 0.1);
    p->b[i] = real(r, 0.2);
  }
  p->depth = real(r, 0.4);
  p->gamma = real(r, 0.2);
  p->z_start_count = (int32_t)bits(r, 3);
  p->offset = real(r, 100);
  p->gain = real(r, 2);
  p->em_gain = real(r, 0);
  p->variance = real(r, 3);
  a->frames = number(r);
  a->rows = number(r);
  a->columns = number(r);
  char reason[256] = "";
  if (!fit_problem_check(p, reason, sizeof reason)) {
    FUZZ_CHECK(reason[0] != 0);
    return;
  }
  *p = fit_problem_normalize(p);
  FUZZ_CHECK(fit_problem_is_normal(p, reason, sizeof reason));
}
