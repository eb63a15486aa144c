/* ROW: softmax, its logarithm, and normalisation of a row at a time. */
#include <math.h>

#include "validate/kinds.h"

/* What all elements of a row share. */
typedef struct whole_row {
  double peak, peak_error;  /* softmax */
  double log_sum, relative; /* of the sum of exponentials; its relative error */
  double mean, mean_error, scale, scale_relative; /* normalisation */
  bool vague, spoilt;                             /* a NaN is in it */
} whole_row;

/* The exponent's rounding and the function's own, relative to the exponential. */
static double exponential_error(double epsilon, const number *x, const whole_row *r) {
  return x->error + r->peak_error + epsilon * (24 + 2 * fabs(x->real - r->peak));
}

static void read_softmax(const number *x, int64_t count, double epsilon, whole_row *r) {
  double sum = 0, error = 0;
  r->peak = -(double)INFINITY;
  for (int64_t j = 0; j < count; j++) {
    if (x[j].real > r->peak) r->peak = x[j].real;
    r->peak_error = fmax(r->peak_error, x[j].error);
    r->vague |= number_is_vague(&x[j]);
    r->spoilt |= isnan(x[j].real);
  }
  r->vague |= r->peak == (double)INFINITY;
  if (isinf(r->peak)) r->peak = 0;
  for (int64_t j = 0; j < count; j++) {
    const double power = exp(x[j].real - r->peak);
    if (power == 0) continue;
    sum += power;
    error += power * exponential_error(epsilon, &x[j], r);
  }
  r->log_sum = log(sum);
  r->relative = sum > 0 ? error / sum + epsilon * (8 + sqrt((double)count)) : 0;
}

static number softmax(const compute_kernel_descriptor *d, const number *x, const whole_row *r) {
  const double epsilon = number_epsilon(d->accumulate);
  const double value = exp(x->real - r->peak - r->log_sum);
  const double error = value > 0 ? value * (exponential_error(epsilon, x, r) + r->relative) : 0;
  return number_round(d->accumulate, value, error, 4, !isfinite(value));
}

static number log_softmax(const compute_kernel_descriptor *d, const number *x, const whole_row *r) {
  const double epsilon = number_epsilon(d->accumulate);
  const double value = x->real - r->peak - r->log_sum;
  const double error = x->error + r->peak_error + r->relative +
                       4 * epsilon * (fabs(x->real) + fabs(r->peak) + fabs(r->log_sum) + 1);
  return number_round(d->accumulate, value, isfinite(value) ? error : 0, 4, !isfinite(value));
}

static void read_moments(const compute_kernel_descriptor *d, const number *x, int64_t count,
                         whole_row *r) {
  const double epsilon = number_epsilon(d->accumulate), n = (double)count;
  const double growth = epsilon * (8 + 4 * sqrt(n));
  double magnitude = 0, error = 0, variance = 0, variance_error = 0;
  for (int64_t j = 0; j < count; j++) {
    r->mean += x[j].real / n;
    magnitude += fabs(x[j].real) / n;
    error += x[j].error / n;
    r->vague |= number_is_vague(&x[j]);
    r->spoilt |= !isfinite(x[j].real);
  }
  r->mean_error = error + growth * magnitude;
  for (int64_t j = 0; j < count; j++) {
    const double apart = x[j].real - r->mean;
    const double off = x[j].error + r->mean_error + epsilon * (fabs(x[j].real) + fabs(r->mean));
    variance += apart * apart / n;
    variance_error += (2 * fabs(apart) * off + off * off) / n;
  }
  variance_error += growth * variance;
  const double divisor = variance + compute_row_of(d)->epsilon;
  r->scale = 1 / sqrt(divisor);
  r->scale_relative =
      variance_error < divisor / 2 ? variance_error / divisor + 8 * epsilon : (double)INFINITY;
}

static number normalized(const compute_kernel_descriptor *d, const number *x, const whole_row *r) {
  const double epsilon = number_epsilon(d->accumulate);
  const double value = (x->real - r->mean) * r->scale;
  const double off = x->error + r->mean_error + epsilon * (fabs(x->real) + fabs(r->mean));
  const double scale = r->scale * (1 + r->scale_relative);
  return number_round(d->accumulate, value, off * scale + fabs(value) * r->scale_relative, 4,
                      false);
}

static number element(const compute_kernel_descriptor *d, const number *x, const whole_row *r) {
  if (r->vague) return (number){.real = 0, .error = (double)INFINITY};
  if (r->spoilt) return (number){.real = (double)NAN};
  switch (compute_row_of(d)->operation) {
  case COMPUTE_ROW_SOFTMAX: return softmax(d, x, r);
  case COMPUTE_ROW_LOG_SOFTMAX: return log_softmax(d, x, r);
  default: return normalized(d, x, r);
  }
}

void evaluate_row(const evaluation *e, int64_t row, workspace *w) {
  const compute_kernel_descriptor *d = e->d;
  const int64_t count = e->unit_length, first = row * count;
  int64_t coordinate[COMPUTE_MAX_RANK];
  whole_row shared = {0};
  for (int64_t j = 0; j < count; j++) {
    evaluate_coordinates(d->size, d->rank, first + j, coordinate);
    w->row[j] = evaluate_prologue(e, coordinate, first + j, w);
  }
  if (compute_row_of(d)->operation == COMPUTE_ROW_NORMALIZE)
    read_moments(d, w->row, count, &shared);
  else
    read_softmax(w->row, count, number_epsilon(d->accumulate), &shared);
  for (int64_t j = 0; j < count; j++) {
    const number value = element(d, &w->row[j], &shared);
    evaluate_coordinates(d->size, d->rank, first + j, coordinate);
    evaluate_epilogue(e, &value, d->prologue_inputs, coordinate, first + j, w,
                      w->results + j * d->output_count);
  }
}
