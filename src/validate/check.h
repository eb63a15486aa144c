/* Comparing what a device has stored with what the plain evaluation says. */
#ifndef VALIDATE_CHECK_H
#define VALIDATE_CHECK_H

#include "base/thread_pool.h"
#include "compute/validate.h"
#include "validate/evaluate.h"

typedef struct check_request {
  const evaluation *e;
  view *output;     /* what the device stored */
  double tolerance; /* multiplies every bound */
  int64_t every;    /* each so-many-th unit is checked */
  bool replace;     /* put the plain results into `output` instead of comparing */
} check_request;

/* Of one output. */
typedef struct check_result {
  uint64_t compared, vague, bad;
  bool found; /* the worst element: */
  compute_validation_kind kind;
  int64_t position;
  double actual, expected, error, tolerance;
  uint64_t spoilt; /* elements that are not finite, as they should be; the first of them: */
  int64_t spoilt_position;
  double spoilt_value;
} check_result;

/* Fills a result for each output. False when memory is short. */
bool check_run(thread_pool *threads, const check_request *request, check_result *results);

/* So that checking takes no more than about `most` operations. */
int64_t check_every(const evaluation *e, uint64_t most);

/* What an input holds. */
void check_range(const view *v, const extent *e, compute_validation_input *input);

#endif
