/* SPDX-License-Identifier: MIT */
/* Spots have two forms: a CPU kernel and a composition of other operations. Both find the same
 * spots in any frames. The kernel's answer is independent of the number of threads, the
 * neighbouring frames and the memory layout. */
#include "spots_fixture.h"

#include "plan/compile/capture/ir.h"

/* Sums for the noise may round differently. A response within this relative distance of the
 * threshold may be on either side. */
#define TIE 1e-5

static const char *const sets[] = {"scalar", "avx2", "avx512"};
enum { SETS = sizeof sets / sizeof *sets };

/* A context on the CPU with one of the instruction sets. A missing set is replaced by another
 * one. */
static compute_context *open_cpu(int set, int threads) {
  compute_context *context = NULL;
  const compute_open_options options = {.device = "cpu", .threads = threads};
  setenv("COMPUTE_CPU_ISA", sets[set], 1);
  const compute_status status = compute_open(&context, &options);
  unsetenv("COMPUTE_CPU_ISA");
  if (status == COMPUTE_ERROR_INVALID_ARGUMENT)
    assert_ok(compute_open(&context, &options));
  else
    assert_ok(status);
  return context;
}

/* ---- Running ------------------------------------------------------------------------------- */

typedef enum lie { DENSE, TRANSPOSED, SLICED } lie;

static void *stored(const movie *m, compute_dtype dtype) {
  const size_t size = compute_dtype_size(dtype);
  void *values = malloc((size_t)m->count * size);
  assert_non_null(values);
  for (int64_t i = 0; i < m->count; i++)
    if (dtype == COMPUTE_U16)
      ((uint16_t *)values)[i] = (uint16_t)m->value[i];
    else
      ((float *)values)[i] = m->value[i];
  return values;
}

/* The movie as a node: unchanged, by its columns, or as every other column, from the second row on,
 * of a larger tensor that the graph computes first. */
static compute_node frames_of(compute_graph *g, const movie *m, compute_dtype dtype, lie how,
                              compute_node *input) {
  const compute_shape shape = COMPUTE_SHAPE(m->frames, m->height, m->width);
  *input = compute_input(g, dtype, shape);
  if (how == DENSE) return *input;
  if (how == TRANSPOSED) {
    const compute_node kept = compute_transpose(g, *input, COMPUTE_AXES(0, 2, 1));
    const compute_node dense = compute_concat(g, (compute_node[]){kept}, 1, 0);
    return compute_transpose(g, dense, COMPUTE_AXES(0, 2, 1));
  }
  const compute_node wide = compute_embed(g, *input, 2, 2 * m->width + 3, 1, 2);
  const compute_node high = compute_embed(g, wide, 1, m->height + 2, 1, 1);
  return compute_slice(g, compute_slice(g, high, 1, 1, m->height, 1), 2, 1, m->width, 2);
}

static answer run_form(compute_context *context, const movie *m, compute_dtype dtype,
                       const compute_spot_options *options, lie how, bool composed) {
  const compute_shape shape = COMPUTE_SHAPE(m->frames, m->height, m->width);
  compute_graph *g = compute_graph_create(context);
  compute_node input, out[2];
  out[0] = compute_find_spots(g, frames_of(g, m, dtype, how, &input), options, &out[1]);
  compute_plan *plan = NULL;
  const compute_plan_options how_compiled = {.flags = composed ? COMPUTE_PLAN_NO_FUSION : 0};
  assert_ok(compute_compile(g, out, 2, &how_compiled, &plan));
  compute_plan_info info;
  assert_ok(compute_plan_describe(plan, &info));
  if (how == DENSE) assert_int_equal(info.steps == 2, !composed);
  void *values = stored(m, dtype);
  compute_tensor *in = test_tensor(context, dtype, shape, values), *t[2];
  for (int i = 0; i < 2; i++) assert_ok(compute_plan_create_tensor(plan, out[i], &t[i]));
  const compute_binding bindings[] = {{input, in}, {out[0], t[0]}, {out[1], t[1]}};
  assert_ok(compute_run(plan, bindings, 3, NULL));
  answer a = {malloc((size_t)m->count), malloc((size_t)m->count * sizeof(float))};
  assert_non_null(a.spot);
  assert_non_null(a.response);
  assert_ok(compute_tensor_read(t[0], a.spot, (size_t)m->count));
  assert_ok(compute_tensor_read(t[1], a.response, (size_t)m->count * sizeof(float)));
  free(values);
  compute_tensor_release(in);
  for (int i = 0; i < 2; i++) compute_tensor_release(t[i]);
  compute_plan_release(plan);
  compute_graph_release(g);
  return a;
}

/* ---- Comparing ----------------------------------------------------------------------------- */

static bool close_to(float a, float b) {
  if (isnan(a) || isnan(b) || isinf(a) || isinf(b)) return (isnan(a) && isnan(b)) || a == b;
  return fabs((double)a - (double)b) <= TIE * fabs((double)b);
}

/* The number of spots. Fails if the two answers differ. */
static int64_t check_same(const char *what, const movie *m, const compute_spot_options *o,
                          const answer *kernel, const answer *composed) {
  const double threshold = o->threshold > 0 ? o->threshold : 4.2;
  int64_t spots = 0;
  for (int64_t i = 0; i < m->count; i++) {
    const float a = kernel->response[i], b = composed->response[i];
    spots += composed->spot[i];
    if (!close_to(a, b))
      fail_msg("%s, %lld x %lld, filter %d, sigma %g: response %lld is %.9g and composed %.9g",
               what, (long long)m->height, (long long)m->width, (int)o->filter, o->sigma,
               (long long)i, (double)a, (double)b);
    if (kernel->spot[i] != composed->spot[i] && fabs((double)b - threshold) > TIE * threshold)
      fail_msg("%s, %lld x %lld, filter %d, sigma %g: pixel %lld, response %.9g, is %s composed",
               what, (long long)m->height, (long long)m->width, (int)o->filter, o->sigma,
               (long long)i, (double)b, composed->spot[i] ? "a spot only" : "no spot only");
  }
  return spots;
}

static bool same_bits(const answer *a, const answer *b, int64_t first, int64_t count) {
  return memcmp(a->spot + first, b->spot + first, (size_t)count) == 0 &&
         memcmp(a->response + first, b->response + first, (size_t)count * sizeof(float)) == 0;
}

/* ---- Movies -------------------------------------------------------------------------------- */

enum { NOISE, SPOTS, ZERO, EQUAL, SATURATED, BAD_PIXELS, TIES, KINDS };

static movie make_movie(int kind, int64_t frames, int64_t height, int64_t width, bool whole,
                        uint64_t seed) {
  test_random random = {seed};
  movie m = movie_create(frames, height, width, kind == ZERO ? 0 : kind == SATURATED ? 65535 : 200);
  for (int64_t i = 0; kind == SPOTS && i < 1 + m.count / 200; i++)
    add_spot(&m, test_random_integer(&random, 0, frames - 1),
             test_random_uniform(&random, 0, (double)height - 1),
             test_random_uniform(&random, 0, (double)width - 1), 1.3,
             test_random_uniform(&random, 20, 300));
  if (kind == NOISE || kind == SPOTS || kind == BAD_PIXELS) add_noise(&m, 10, seed + 1);
  for (int64_t i = 0; kind == SATURATED && i < m.count / 9; i++)
    m.value[test_random_integer(&random, 0, m.count - 1)] = 0;
  for (int64_t i = 0; kind == TIES && i < m.count; i++)
    m.value[i] = (float)(100 * test_random_integer(&random, 0, 2));
  if (whole) round_values(&m);
  static const float bad[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-42f};
  for (int64_t i = 0; kind == BAD_PIXELS && !whole && i < 1 + m.count / 500; i++)
    m.value[test_random_integer(&random, 0, m.count - 1)] = bad[test_random_integer(&random, 0, 5)];
  return m;
}

static compute_spot_options random_options(test_random *random) {
  static const double sigma[] = {0.2, 0.5, 1, 1.3, 1.3, 1.7, 2.4};
  static const double threshold[] = {0, 0.01, 1, 2.5, 5};
  return (compute_spot_options){.filter = (compute_spot_filter)test_random_integer(random, 0, 1),
                                .sigma = sigma[test_random_integer(random, 0, 6)],
                                .threshold = threshold[test_random_integer(random, 0, 4)],
                                .distance = (int32_t)test_random_integer(random, 0, 6)};
}

/* ---- Promises ------------------------------------------------------------------------------ */

static void both_forms_find_the_same(void **state) {
  (void)state;
  int64_t spots = 0;
  for (int set = 0; set < SETS; set++) {
    compute_context *context = open_cpu(set, 2);
    test_random random = {40 + (uint64_t)set};
    for (int round = 0; round < 42; round++) {
      const bool whole = round % 2 == 0;
      const int kind = round % KINDS;
      const int64_t frames = test_random_integer(&random, 1, 3);
      const int64_t height = test_random_integer(&random, 3, round % 3 ? 60 : 8);
      const int64_t width = test_random_integer(&random, 3, round % 4 ? 90 : 8);
      const compute_spot_options options = random_options(&random);
      movie m = make_movie(kind, frames, height, width, whole, 1000 + (uint64_t)round);
      const compute_dtype dtype = whole ? COMPUTE_U16 : COMPUTE_F32;
      const lie how = (lie)(round / 7 % 3);
      answer kernel = run_form(context, &m, dtype, &options, how, false);
      answer composed = run_form(context, &m, dtype, &options, how, true);
      spots += check_same(sets[set], &m, &options, &kernel, &composed);
      answer_release(&kernel);
      answer_release(&composed);
      free(m.value);
    }
    assert_ok(compute_close(context));
  }
  assert_true(spots > 1000);
}

static void a_movie_full_of_spots_has_the_same_list(void **state) {
  (void)state;
  for (int filter = 0; filter <= COMPUTE_SPOT_BOXES; filter++) {
    const compute_spot_options options = {.filter = (compute_spot_filter)filter, .sigma = 1.3};
    compute_context *context = open_cpu(2, 2);
    movie m = make_movie(SPOTS, 4, 200, 211, true, 77 + (uint64_t)filter);
    answer kernel = run_form(context, &m, COMPUTE_U16, &options, DENSE, false);
    answer composed = run_form(context, &m, COMPUTE_U16, &options, DENSE, true);
    assert_true(check_same("spots", &m, &options, &kernel, &composed) > 500);
    assert_memory_equal(kernel.spot, composed.spot, (size_t)m.count); /* no tie among them */
    answer_release(&kernel);
    answer_release(&composed);
    free(m.value);
    assert_ok(compute_close(context));
  }
}

/* Enough rows for several threads to divide a frame. */
static void threads_and_neighbours_do_not_matter(void **state) {
  (void)state;
  for (int set = 0; set < SETS; set++)
    for (int filter = 0; filter <= COMPUTE_SPOT_BOXES; filter++) {
      const compute_spot_options options = {
          .filter = (compute_spot_filter)filter, .sigma = 1.1, .threshold = 3};
      movie m = make_movie(SPOTS, 3, 700, 61, filter == 0, 5 + (uint64_t)set);
      const compute_dtype dtype = filter == 0 ? COMPUTE_U16 : COMPUTE_F32;
      answer first = {0};
      for (int threads = 1; threads <= 5; threads += 2) {
        compute_context *context = open_cpu(set, threads);
        answer all = run_form(context, &m, dtype, &options, DENSE, false);
        if (threads == 1)
          first = all;
        else
          assert_true(same_bits(&all, &first, 0, m.count));
        const int64_t pixels = m.height * m.width;
        movie one = {1, m.height, m.width, pixels, m.value + pixels};
        answer alone = run_form(context, &one, dtype, &options, DENSE, false);
        const answer second = {first.spot + pixels, first.response + pixels};
        assert_true(same_bits(&alone, &second, 0, pixels));
        answer lying = run_form(context, &one, dtype, &options, SLICED, false);
        assert_true(same_bits(&lying, &second, 0, pixels));
        answer_release(&alone);
        answer_release(&lying);
        if (threads > 1) answer_release(&all);
        assert_ok(compute_close(context));
      }
      answer_release(&first);
      free(m.value);
    }
}

/* Filters, distances and frames of all relative sizes. */
static void large_filters_agree(void **state) {
  (void)state;
  static const struct {
    int64_t height, width;
    compute_spot_options options;
  } cases[] = {{70, 45, {.sigma = 9, .threshold = 1}},
               {3, 300, {.sigma = 6, .threshold = 1, .distance = 40}},
               {300, 3, {.sigma = 6, .threshold = 1, .distance = 40}},
               {40, 40, {.filter = COMPUTE_SPOT_BOXES, .sigma = 20, .threshold = 1}},
               {64, 64, {.sigma = 1, .threshold = 1, .distance = 100}}};
  compute_context *context = open_cpu(1, 2);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    movie m = make_movie(SPOTS, 1, cases[i].height, cases[i].width, i % 2 == 0, i);
    const compute_dtype dtype = i % 2 == 0 ? COMPUTE_U16 : COMPUTE_F32;
    answer kernel = run_form(context, &m, dtype, &cases[i].options, DENSE, false);
    answer composed = run_form(context, &m, dtype, &cases[i].options, DENSE, true);
    check_same("large", &m, &cases[i].options, &kernel, &composed);
    answer_release(&kernel);
    answer_release(&composed);
    free(m.value);
  }
  assert_ok(compute_close(context));
}

/* A response has its gradient through the composed form. */
static void responses_have_gradients(void **state) {
  (void)state;
  const compute_spot_options options = {.sigma = 1, .threshold = 1};
  compute_context *context = open_cpu(1, 1);
  compute_graph *g = compute_graph_create(context);
  const compute_shape shape = COMPUTE_SHAPE(1, 12, 13);
  const compute_node x = compute_input(g, COMPUTE_F32, shape);
  compute_node response, gradient;
  (void)compute_find_spots(g, x, &options, &response);
  const compute_node loss =
      compute_sum(g, compute_square(g, response), COMPUTE_AXES(0, 1, 2), false);
  assert_ok(compute_gradients(g, loss, &x, 1, &gradient));
  compute_plan *plan;
  assert_ok(compute_compile(g, &gradient, 1, NULL, &plan));
  movie m = make_movie(SPOTS, 1, 12, 13, false, 3);
  compute_tensor *in = test_tensor(context, COMPUTE_F32, shape, m.value), *out;
  assert_ok(compute_plan_create_tensor(plan, gradient, &out));
  assert_ok(compute_run(plan, (compute_binding[]){{x, in}, {gradient, out}}, 2, NULL));
  double size = 0;
  for (int64_t i = 0; i < m.count; i++) size += fabs(test_element(out, i));
  assert_true(size > 0 && isfinite(size));
  compute_tensor_release(in);
  compute_tensor_release(out);
  compute_plan_release(plan);
  compute_graph_release(g);
  free(m.value);
  assert_ok(compute_close(context));
}

/* A plan with the kernel folds no constants: only the composed form has a mask of the frame. */
static void the_kernel_leaves_nothing_to_fold(void **state) {
  (void)state;
  compute_context *context = open_cpu(1, 1);
  compute_graph *g = compute_graph_create(context);
  const compute_node frames = compute_input(g, COMPUTE_U16, COMPUTE_SHAPE(2, 60, 50));
  const compute_spot_options options = {.sigma = 1.3};
  const compute_node spots = compute_find_spots(g, frames, &options, NULL);
  assert_int_equal(compute_graph_status(g), COMPUTE_OK);
  const uint32_t output = spots.id - 1;
  const compute_device *kernels[] = {compute_default_device(context), NULL};
  for (int composed = 0; composed < 2; composed++) {
    scratch memory = {0};
    folding folded;
    assert_ok(fold_nodes(g, &output, 1, kernels[composed], NULL, 0, &memory, &folded));
    assert_int_equal(folded.count > 0, composed);
    fold_release(&folded);
    scratch_release(&memory);
  }
  compute_graph_release(g);
  assert_ok(compute_close(context));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(both_forms_find_the_same),
      cmocka_unit_test(a_movie_full_of_spots_has_the_same_list),
      cmocka_unit_test(threads_and_neighbours_do_not_matter),
      cmocka_unit_test(large_filters_agree),
      cmocka_unit_test(responses_have_gradients),
      cmocka_unit_test(the_kernel_leaves_nothing_to_fold),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
