/* SPDX-License-Identifier: MIT */
/* Evaluates a kernel's units and compares them with the device's results. The context's threads
 * share the units. Each thread collects separate results, which are merged afterwards. */

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/kernel/kernel.h"
#include "core/type/dtype.h"
#include "plan/validate/evaluate/evaluate.h"

/* ---- Units --------------------------------------------------------------------------------- */

#define KIND(code, number, name) extern const evaluation_kind evaluation_kind_##name;
COMPUTE_KERNEL_KINDS(KIND)
#undef KIND

static const evaluation_kind *const kinds[COMPUTE_KERNEL_KIND_COUNT] = {
#define KIND(code, number, name) [number] = &evaluation_kind_##name,
    COMPUTE_KERNEL_KINDS(KIND)
#undef KIND
};

bool evaluation_prepare(evaluation *e, const compute_kernel_descriptor *d) {
  const evaluation_kind *kind = kinds[d->kind];
  if (!kind->evaluate) return false;
  e->d = d;
  e->kind = kind;
  e->out_rank = kernel_output_rank(d);
  e->units = evaluate_count(d->size, 0, e->out_rank);
  e->unit_length = 1;
  if (kind->cut) kind->cut(e);
  const uint64_t program = 4 + 8 * (uint64_t)(d->prologue.count + d->epilogue.count);
  e->unit_work = (kind->work ? kind->work(d, program) : program) *
                 (uint64_t)(e->unit_length > 0 ? e->unit_length : 1);
  return true;
}

static bool workspace_make(const evaluation *e, workspace *w) {
  w->values = base_allocate(COMPUTE_MAX_INSTRUCTIONS, sizeof *w->values);
  w->row = base_allocate(e->row_length > 0 ? (uint64_t)e->row_length : 1, sizeof *w->row);
  w->results = base_allocate((uint64_t)e->unit_length * e->d->output_count, sizeof *w->results);
  return w->values && w->row && w->results;
}

static void workspace_release(workspace *w) {
  base_release(w->values);
  base_release(w->row);
  base_release(w->results);
}

/* Returns the type of output `k` in the results. */
static compute_dtype type_of(const evaluation *e, uint32_t k) {
  const compute_kernel_descriptor *d = e->d;
  if (d->epilogue.count > 0)
    return (compute_dtype)d->epilogue.instructions[d->epilogue.outputs[k]].type;
  return e->kind->type ? e->kind->type(d) : d->accumulate;
}

/* Returns the offset of result `j` of a unit in output `k`. */
static int64_t offset_of(const evaluation *e, uint32_t k, int64_t unit, int64_t j) {
  int64_t coordinate[COMPUTE_MAX_RANK];
  if (e->kind->adds) return e->added.low + j;
  evaluate_coordinates(e->d->size, e->out_rank, unit * e->unit_length + j, coordinate);
  return evaluate_offset(e->d->outputs[k].stride, e->out_rank, coordinate);
}

/* ---- One element --------------------------------------------------------------------------- */

/* The smallest difference of two numbers, or the largest number that a device may flush to zero. */
static double smallest(compute_dtype dtype) {
  return dtype == COMPUTE_F16 ? 0x1p-24 : dtype == COMPUTE_F64 ? DBL_MIN : (double)FLT_MIN;
}

/* Returns the expected result in memory. */
static number stored(const number *n, compute_dtype type, compute_dtype dtype) {
  const double real = number_is_float(type) ? n->real : (double)n->integer;
  if (number_is_vague(n)) return *n;
  if (!dtype_is_float(dtype)) {
    unsigned char element[8], low[8], high[8];
    if (!number_is_float(type)) {
      dtype_store_integer(dtype, element, n->integer);
      return (number){.integer = dtype_load_integer(dtype, element)};
    }
    dtype_store(dtype, element, real);
    dtype_store(dtype, low, real - n->error);
    dtype_store(dtype, high, real + n->error);
    const int64_t value = dtype_load_integer(dtype, element);
    const bool sure = n->error == 0 || (dtype_load_integer(dtype, low) == value &&
                                        dtype_load_integer(dtype, high) == value);
    return (number){.integer = value, .error = sure ? 0 : (double)INFINITY};
  }
  if (!isfinite(real)) return (number){.real = real};
  const double unit = number_is_float(type) && number_epsilon(type) >= number_epsilon(dtype)
                          ? 0
                          : number_epsilon(dtype);
  const double error =
      n->error + unit * fabs(real) + (unit > 0 || n->error > 0 ? smallest(dtype) : 0);
  if (fabs(real) + error <= dtype_largest(dtype)) return (number){.real = real, .error = error};
  const bool beyond = fabs(real) - error > dtype_largest(dtype);
  return (number){.real = beyond ? copysign((double)INFINITY, real) : real,
                  .error = beyond ? 0 : (double)INFINITY};
}

typedef struct comparison {
  bool good, vague;
  compute_validation_kind kind;
  double actual, expected, error, tolerance;
} comparison;

static comparison compare_element(const number *n, compute_dtype dtype,
                                  const unsigned char *element, double scale) {
  comparison j = {.vague = number_is_vague(n)};
  if (!dtype_is_float(dtype)) {
    const int64_t actual = dtype_load_integer(dtype, element);
    j.good = j.vague || actual == n->integer;
    j.actual = (double)actual;
    j.expected = (double)n->integer;
    j.error = fabs(j.actual - j.expected);
    return j;
  }
  j.actual = dtype_load(dtype, element);
  j.expected = n->real;
  j.error = fabs(j.actual - j.expected);
  j.tolerance = n->error * scale;
  j.good = j.vague || j.error <= j.tolerance || j.actual == j.expected ||
           (isnan(j.actual) && isnan(j.expected));
  if (j.good) return j;
  if (isfinite(j.expected) && isnan(j.actual)) j.kind = COMPUTE_VALIDATION_NAN;
  if (isfinite(j.expected) && isinf(j.actual)) j.kind = COMPUTE_VALIDATION_INFINITE;
  if (isnan(j.error)) j.error = (double)INFINITY;
  return j;
}

/* NaN is worse than infinity, infinity than other errors. These compare in units of their
 * tolerance. */
static bool is_worse(const check_result *a, const check_result *b) {
  if (!b->found || !a->found) return a->found && !b->found;
  if (a->kind != b->kind) {
    static const int rank[] = {0, 2, 1, 0};
    return rank[a->kind] > rank[b->kind];
  }
  const double x = a->tolerance > 0 ? a->error / a->tolerance : a->error * DBL_MAX;
  const double y = b->tolerance > 0 ? b->error / b->tolerance : b->error * DBL_MAX;
  if (x != y) return x > y;
  return a->position < b->position;
}

static void take_worst(check_result *into, const check_result *from) {
  into->kind = from->kind;
  into->position = from->position;
  into->actual = from->actual;
  into->expected = from->expected;
  into->error = from->error;
  into->tolerance = from->tolerance;
  into->found = true;
}

static void note(check_result *r, const comparison *j, int64_t position, bool is_finite) {
  r->compared++;
  r->vague += j->vague;
  if (j->good) {
    if (j->vague || is_finite) return;
    if (r->spoilt++ == 0 || position < r->spoilt_position) {
      r->spoilt_position = position;
      r->spoilt_value = j->actual;
    }
    return;
  }
  r->bad++;
  const check_result this = {.found = true,
                             .kind = j->kind,
                             .position = position,
                             .actual = j->actual,
                             .expected = j->expected,
                             .error = j->error,
                             .tolerance = j->tolerance};
  if (is_worse(&this, r)) take_worst(r, &this);
}

static void merge(check_result *into, const check_result *from) {
  into->compared += from->compared;
  into->vague += from->vague;
  into->bad += from->bad;
  if (is_worse(from, into)) take_worst(into, from);
  if (from->spoilt > 0 && (into->spoilt == 0 || from->spoilt_position < into->spoilt_position)) {
    into->spoilt_position = from->spoilt_position;
    into->spoilt_value = from->spoilt_value;
  }
  into->spoilt += from->spoilt;
}

/* ---- All of them --------------------------------------------------------------------------- */

typedef struct job {
  const check_request *request;
  check_result *results;
  int64_t tasks;
  pthread_mutex_t mutex; /* protects the results */
  bool failed;           /* out of memory, or the device accepted an invalid index */
} job;

static void replace_element(const number *n, compute_dtype type, compute_dtype dtype,
                            unsigned char *element) {
  if (number_is_float(type))
    dtype_store(dtype, element, n->real);
  else
    dtype_store_integer(dtype, element, n->integer);
}

static void check_unit(const check_request *q, int64_t unit, const workspace *w,
                       check_result *results) {
  const evaluation *e = q->e;
  const uint32_t outputs = e->d->output_count;
  for (int64_t j = 0; j < e->unit_length; j++) {
    for (uint32_t k = 0; k < outputs; k++) {
      const compute_dtype type = type_of(e, k), dtype = q->output[k].dtype;
      unsigned char *element = view_at(&q->output[k], offset_of(e, k, unit, j));
      const number *n = &w->results[j * outputs + k];
      if (q->replace) {
        replace_element(n, type, dtype, element);
        continue;
      }
      const number expected = stored(n, type, dtype);
      const comparison compared = compare_element(&expected, dtype, element, q->tolerance);
      note(&results[k], &compared, unit * e->unit_length + j,
           !dtype_is_float(dtype) || isfinite(compared.actual));
    }
  }
}

static void run_task(void *argument, int64_t task, int32_t worker) {
  job *work = argument;
  const check_request *q = work->request;
  const uint32_t outputs = q->e->d->output_count;
  check_result results[COMPUTE_MAX_OPERANDS] = {0};
  workspace w;
  bool good = workspace_make(q->e, &w);
  (void)worker;
  for (int64_t unit = task * q->every; good && unit < q->e->units; unit += work->tasks * q->every) {
    good = q->e->kind->evaluate(q->e, unit, &w);
    if (good) check_unit(q, unit, &w, results);
  }
  workspace_release(&w);
  pthread_mutex_lock(&work->mutex);
  work->failed |= !good;
  for (uint32_t k = 0; k < outputs; k++) merge(&work->results[k], &results[k]);
  pthread_mutex_unlock(&work->mutex);
}

bool check_run(thread_pool *threads, const check_request *request, check_result *results) {
  job work = {.request = request, .results = results};
  memset(results, 0, request->e->d->output_count * sizeof *results);
  const int64_t units = divide_up(request->e->units, request->every);
  work.tasks = 4 * (int64_t)thread_pool_count(threads);
  if (work.tasks > units) work.tasks = units;
  if (work.tasks == 0) return true;
  pthread_mutex_init(&work.mutex, NULL);
  thread_pool_run(threads, work.tasks, run_task, &work);
  pthread_mutex_destroy(&work.mutex);
  return !work.failed;
}

/* The distance is odd, so that all rows and columns are covered. */
int64_t check_every(const evaluation *e, uint64_t most) {
  const double all = (double)e->units * (double)e->unit_work;
  return all <= (double)most ? 1 : ((int64_t)(all / (double)most) + 1) | 1;
}

void check_range(const view *v, const extent *e, compute_validation_input *input) {
  *input = (compute_validation_input){.dtype = v->dtype};
  int64_t index[COMPUTE_MAX_RANK + 1] = {0}, offset = 0;
  bool any = false;
  if (e->high < e->low) return;
  for (int32_t axis = 0; axis >= 0;) {
    const number n = number_load(v->dtype, view_at(v, offset));
    const double x = dtype_is_float(v->dtype) ? n.real : (double)n.integer;
    input->count++;
    input->nans += isnan(x) != 0;
    input->infinite += isinf(x) != 0;
    if (isfinite(x)) {
      if (!any || x < input->least) input->least = x;
      if (!any || x > input->most) input->most = x;
      any = true;
    }
    for (axis = e->rank - 1; axis >= 0; axis--) {
      offset += e->stride[axis];
      if (++index[axis] < e->size[axis]) break;
      offset -= e->stride[axis] * e->size[axis];
      index[axis] = 0;
    }
  }
}
