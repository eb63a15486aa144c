/* SPDX-License-Identifier: MIT */
/* Moments, Kolmogorov-Smirnov and chi-squared tests of random numbers. Seeds are fixed, so a result
 * never depends on the day.
 *
 * A run draws 10^6 numbers of each law, and of one law, which alternates daily, 10^7.
 * COMPUTE_TEST_CALLS=N draws N · 10^6 of each. Devices other than the CPU draw 20,000. Numbers are
 * counted batch by batch. Each law prints its figures as one line of JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/test.h"
#include "support/reference/chi_squared.h"
#include "support/samples/random_laws.h"

enum { BATCH = 1000000, FEW = 20000, BINS = 1000, LONG = 10 };

/* A true sample exceeds each with a probability of about 10^-6. */
static const double most_chi = 4.75, most_distance = 2.7, most_deviations = 4.9;

static const int64_t first_seed = 20261130;

/* ---- Laws ------------------------------------------------------------------------------------ */

/* One law of each family, then further parameters. */
static const law laws[] = {
    {UNIFORM, 0, 0},       {NORMAL, 0, 0},
    {TRUNCATED, -1, 2},    {EXPONENTIAL, 0, 0},
    {GUMBEL, 0, 0},        {GAMMA, 2.5, 0},
    {BETA, 3, 2},          {POISSON, 55.5, 0},
    {BINOMIAL, 1000, 0.3}, {INTEGERS, 1000, 0},
    {BERNOULLI, 0.3, 0},   {CATEGORICAL, 5, 0},
    {PERMUTATION, 996, 0}, {CHOICE, 996, 60},
    {GAMMA, 0.1, 0},       {GAMMA, 0.7, 0},
    {GAMMA, 1, 0},         {GAMMA, 300, 0},
    {BETA, 0.2, 0.3},      {BETA, 0.5, 4},
    {BETA, 80, 20},        {TRUNCATED, 0.5, INFINITY},
    {TRUNCATED, -9, -5},   {TRUNCATED, -8, 30},
    {POISSON, 0.01, 0},    {POISSON, 3, 0},
    {POISSON, 9.75, 0},    {POISSON, 10, 0},
    {POISSON, 1e6, 0},     {BINOMIAL, 1, 0.25},
    {BINOMIAL, 20, 0.875}, {BINOMIAL, 30, 0.5},
    {BINOMIAL, 1e6, 1e-6}, {BINOMIAL, 1e6, 0.75},
    {INTEGERS, 999983, 0},
};

enum { LAWS = sizeof laws / sizeof *laws };

static double normal_below(double x) {
  return 0.5 * erfc(-x * 0.70710678118654752);
}

/* Orders have no moments here. */
static bool is_order(const law *w) {
  return w->kind == PERMUTATION || w->kind == CHOICE;
}

/* Mean, variance, and the fourth central moment divided by the variance's square. */
typedef struct moments {
  double mean, variance, kurtosis;
} moments;

/* From the moments around 0. */
static moments central(const double m[5]) {
  const double v = m[2] - m[1] * m[1];
  const double fourth =
      m[4] - 4 * m[1] * m[3] + 6 * m[1] * m[1] * m[2] - 3 * m[1] * m[1] * m[1] * m[1];
  return (moments){m[1], v, fourth / (v * v)};
}

static double density_times(double x, int power) {
  return isinf(x) ? 0 : pow(x, power) * exp(-0.5 * x * x) / sqrt(2 * M_PI);
}

static moments truncated_moments(const law *w) {
  const bool upper = w->a + w->b > 0;
  const double all =
      upper ? normal_below(-w->a) - normal_below(-w->b) : normal_below(w->b) - normal_below(w->a);
  double m[5] = {1};
  for (int k = 1; k < 5; k++)
    m[k] = (k > 1 ? (k - 1) * m[k - 2] : 0) +
           (density_times(w->a, k - 1) - density_times(w->b, k - 1)) / all;
  return central(m);
}

static moments class_moments(void) {
  double m[5] = {0}, sum = 0;
  for (int k = 0; k < LAW_CLASSES; k++) sum += exp(law_logit[k]);
  for (int k = 0; k < LAW_CLASSES; k++)
    for (int i = 0; i < 5; i++) m[i] += pow(k, i) * exp(law_logit[k]) / sum;
  return central(m);
}

static moments binomial_moments(double n, double p) {
  const double v = n * p * (1 - p);
  return (moments){n * p, v, 3 + (1 - 6 * p * (1 - p)) / v};
}

static moments moments_of(const law *w) {
  const double a = w->a, b = w->b, s = a + b;
  switch (w->kind) {
  case UNIFORM: return (moments){0.5, 1.0 / 12, 1.8};
  case NORMAL: return (moments){0, 1, 3};
  case TRUNCATED: return truncated_moments(w);
  case EXPONENTIAL: return (moments){1, 1, 9};
  case GUMBEL: return (moments){0.57721566490153286, M_PI * M_PI / 6, 5.4};
  case GAMMA: return (moments){a, a, 3 + 6 / a};
  case BETA:
    return (moments){a / s, a * b / (s * s * (s + 1)),
                     3 + 6 * ((a - b) * (a - b) * (s + 1) - a * b * (s + 2)) /
                             (a * b * (s + 2) * (s + 3))};
  case POISSON: return (moments){a, a, 3 + 1 / a};
  case BINOMIAL: return binomial_moments(a, b);
  case BERNOULLI: return binomial_moments(1, a);
  case INTEGERS:
    return (moments){(a - 1) / 2, (a * a - 1) / 12, 3 - 1.2 * (a * a + 1) / (a * a - 1)};
  case CATEGORICAL: return class_moments();
  default: return (moments){0};
  }
}

/* ---- Bins ------------------------------------------------------------------------------------ */

/* Bin i counts numbers above limit[i − 1] up to limit[i]; the last limit is infinity. */
typedef struct histogram {
  double limit[BINS], expected[BINS], seen[BINS];
  int bins;
} histogram;

static double quantile(const law *w, double share, const moments *m) {
  const double reach = 60 * sqrt(m->variance);
  double low = w->kind == GUMBEL || w->kind == NORMAL || w->kind == TRUNCATED ? m->mean - reach : 0;
  double high = m->mean + reach;
  for (int i = 0; i < 400; i++) {
    const double middle = 0.5 * (low + high);
    if (middle <= low || middle >= high) break;
    *(law_below(w, middle) < share ? &low : &high) = middle;
  }
  return high;
}

static int discrete_limits(const law *w, const moments *m, double *limit) {
  const double deviation = sqrt(m->variance);
  const double from = is_order(w) ? 0 : fmax(0, floor(m->mean - 5 * deviation));
  const double to = is_order(w)            ? 719
                    : w->kind == INTEGERS  ? w->a - 1
                    : w->kind == BERNOULLI ? 1
                                           : m->mean + 5 * deviation + 2;
  const double wanted = w->kind == INTEGERS ? 0 : deviation / 20;
  const double width = fmax(1, floor(fmax(wanted, (to - from) / (BINS - 2))));
  int count = 0;
  for (double at = from; count < BINS - 1 && at < to; at += width) limit[count++] = at;
  return count;
}

static void prepare(const law *w, const moments *m, double total, histogram *h) {
  double before = 0;
  memset(h, 0, sizeof *h);
  if (law_is_discrete(w))
    h->bins = discrete_limits(w, m, h->limit);
  else
    for (; h->bins < BINS - 1; h->bins++)
      h->limit[h->bins] = quantile(w, (h->bins + 1.0) / BINS, m);
  h->limit[h->bins++] = INFINITY;
  for (int i = 0; i < h->bins; i++) {
    const double to = i == h->bins - 1 ? 1 : law_below(w, h->limit[i]);
    h->expected[i] = (to - before) * total;
    before = to;
  }
}

static void count_number(histogram *h, double x) {
  int first = 0;
  for (int left = h->bins; left > 1; left -= left / 2)
    if (h->limit[first + left / 2 - 1] < x) first += left / 2;
  h->seen[first]++;
}

/* The place of the order of six different numbers among 720. */
static double order_of(const double *x) {
  int place = 0;
  for (int i = 0; i < 6; i++) {
    int smaller = 0;
    for (int j = i + 1; j < 6; j++) smaller += x[j] < x[i];
    place = place * (6 - i) + smaller;
  }
  return place;
}

/* ---- Judgement ------------------------------------------------------------------------------- */

typedef struct sample {
  const law *w;
  moments m;
  histogram h;
  double numbers, sum, squares; /* of differences from the mean */
} sample;

static void count_batch(sample *s, const double *x, int64_t count) {
  double sum = 0, squares = 0;
  if (is_order(s->w)) {
    for (int64_t i = 0; i < count; i += 6) count_number(&s->h, order_of(x + i));
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    const double off = x[i] - s->m.mean;
    if (law_is_discrete(s->w)) assert_true(x[i] == floor(x[i]) && x[i] >= 0);
    count_number(&s->h, x[i]);
    sum += off;
    squares += off * off;
  }
  s->sum += sum;
  s->squares += squares;
}

static void judge(const sample *s) {
  const law *w = s->w;
  const double n = s->numbers;
  double apart = 0, wanted = 0, found = 0, total = 0;
  for (int i = 0; i < s->h.bins; i++) total += s->h.expected[i];
  for (int i = 0; i < s->h.bins; i++) {
    wanted += s->h.expected[i], found += s->h.seen[i];
    apart = fmax(apart, fabs(found - wanted) / total);
  }
  const double chi = chi_excess(s->h.expected, s->h.seen, s->h.bins);
  const double distance = apart * sqrt(total);
  printf("{\"law\": \"%s\", \"a\": %g, \"b\": \"%g\", \"numbers\": %.0f, \"bins\": %d, "
         "\"chi_squared_deviations\": %.2f, \"kolmogorov_smirnov\": %.3f",
         law_name(w), w->a, w->b, n, s->h.bins, chi, distance);
  double mean = 0, variance = 0;
  if (!is_order(w)) {
    mean = s->sum / n / sqrt(s->m.variance / n);
    variance = (s->squares / n / s->m.variance - 1) / sqrt((s->m.kurtosis - 1) / n);
    printf(", \"mean_deviations\": %.2f, \"variance_deviations\": %.2f", mean, variance);
  }
  printf("}\n");
  fflush(stdout);
  /* Few numbers of a rare kind are not normal. */
  const bool normal = (s->m.kurtosis - 1) / n < 1e-3;
  if (!(chi <= most_chi && distance <= most_distance && fabs(mean) <= most_deviations &&
        (!normal || fabs(variance) <= most_deviations)))
    fail_msg(
        "%s (%g, %g): chi-squared %.2f deviations above, distance %.3f, mean %.2f and variance "
        "%.2f deviations off",
        law_name(w), w->a, w->b, chi, distance, mean, variance);
}

/* Draws at least `wanted` numbers in calls of up to `batch`. */
static void check_law(const law *w, uint32_t stream, int64_t batch, int64_t wanted) {
  static sample s;
  compute_graph *g = compute_graph_create(test_context);
  const compute_node seed = compute_input(g, COMPUTE_I64, COMPUTE_SCALAR);
  const compute_node y = compute_cast(g, law_build(g, w, batch, seed, stream), COMPUTE_F64);
  const compute_shape shape = compute_node_shape(g, y);
  int64_t count;
  assert_ok(compute_graph_status(g));
  assert_ok(compute_shape_count(shape, &count));
  const int64_t calls = (wanted + count - 1) / count;
  s = (sample){.w = w, .m = moments_of(w), .numbers = (double)(calls * count)};
  prepare(w, &s.m, is_order(w) ? s.numbers / 6 : s.numbers, &s.h);
  compute_plan *plan = test_compile(g, &y, 1, 0);
  compute_tensor *ts = test_tensor(test_context, COMPUTE_I64, COMPUTE_SCALAR, &first_seed);
  compute_tensor *ty = test_tensor(test_context, COMPUTE_F64, shape, NULL);
  double *x = malloc((size_t)count * sizeof *x);
  assert_non_null(x);
  for (int64_t k = 0; k < calls; k++) {
    const int64_t next = first_seed + k;
    assert_ok(compute_tensor_write(ts, &next, sizeof next));
    assert_ok(compute_run(plan, (compute_binding[]){{seed, ts}, {y, ty}}, 2, NULL));
    assert_ok(compute_tensor_read(ty, x, (size_t)count * sizeof *x));
    count_batch(&s, x, count);
  }
  free(x);
  compute_tensor_release(ts);
  compute_tensor_release(ty);
  compute_plan_release(plan);
  compute_graph_release(g);
  judge(&s);
}

static void numbers_have_their_distribution(void **state) {
  (void)state;
  const char *const calls = getenv("COMPUTE_TEST_CALLS");
  compute_device_info info;
  assert_ok(compute_device_describe(compute_default_device(test_context), &info));
  const bool large = !strcmp(info.backend, "cpu") && !getenv("COMPUTE_VALIDATE");
  const int64_t given = large && calls ? strtoll(calls, NULL, 10) : 0;
  for (size_t i = 0; i < LAWS; i++) {
    const bool turn = test_turn() % LAWS == i;
    const int64_t batches = given > 0 ? given : turn && large ? LONG : 1;
    const int64_t batch = large ? BATCH : FEW;
    check_law(&laws[i], (uint32_t)i, batch, batch * batches);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_have_their_distribution)};
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
