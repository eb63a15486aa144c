/* What becomes of a fit's numbers: f32, in the order in which kernels keep parameters. */
#include <float.h>
#include <math.h>

#include "generate/kinds/fit.h"
#include "kernel/fit_problem.h"

/* Rounded to f32; numbers that f32 does not hold become its largest, infinities stay. */
static float rounded(double x) {
  if (isinf(x)) return x > 0 ? INFINITY : -INFINITY;
  return x > (double)FLT_MAX ? FLT_MAX : x < -(double)FLT_MAX ? -FLT_MAX : (float)x;
}

static int32_t outer_place(compute_fit_model model, int32_t a) {
  if (model != COMPUTE_FIT_XYZNB || a < 2) return a;
  return a == 4 ? 2 : a + 1;
}

/* Without a list of starts for z the start of z is the list. */
static void list_z_starts(fit_task *task) {
  const compute_fit_problem *p = task->problem;
  task->z_start_count = p->z_start_count > 0 ? (uint32_t)p->z_start_count : 1;
  for (int32_t i = 0; i < p->z_start_count; i++) task->z_start[i] = rounded(p->z_start[i]);
  if (p->z_start_count == 0 && (task->start_set >> 4 & 1) != 0) task->z_start[0] = task->start[4];
  task->start_set &= ~(UINT32_C(1) << 4);
}

static void read_camera(fit_task *task) {
  const compute_fit_problem *p = task->problem;
  const bool map = (p->inputs & COMPUTE_FIT_WITH_GAIN) != 0;
  task->offset = rounded(p->offset);
  task->gain = rounded(p->gain / p->em_gain);
  task->variance = p->camera == COMPUTE_FIT_SCMOS ? rounded(p->variance) : 0;
  task->multiplied = map ? rounded(1 / p->em_gain) : 1;
}

fit_task fit_task_of(const compute_kernel_descriptor *d) {
  const compute_fit_problem *p = &compute_fit_of(d)->problem;
  fit_task task = {.descriptor = d, .problem = p};
  task.parameters = compute_fit_parameter_count(p->model);
  task.widths = task.parameters - 4;
  task.astigmatic = p->model == COMPUTE_FIT_XYZNB;
  task.curved = p->solver == COMPUTE_FIT_NEWTON;
  task.slopes = task.widths > 0 || task.curved;
  task.corners = (p->inputs & COMPUTE_FIT_WITH_CORNERS) != 0;
  task.frames = task.corners && (p->flags & COMPUTE_FIT_STACK) == 0;
  task.free_parameters = fit_problem_free_count(p);
  for (int32_t a = 0; a < task.parameters; a++) {
    const int32_t outer = outer_place(p->model, a);
    double lower, upper;
    fit_problem_bounds(p, outer, &lower, &upper);
    task.outer[a] = outer;
    task.lower[a] = rounded(lower);
    task.upper[a] = rounded(upper);
    task.start[a] = rounded(p->start[outer]);
    task.fixed |= (p->fixed >> outer & 1) << a;
    task.start_set |= (p->start_set >> outer & 1) << a;
  }
  if (task.astigmatic) list_z_starts(&task);
  read_camera(&task);
  return task;
}
