/* SPDX-License-Identifier: MIT */
/* On the CPU an item has the same bits in every batch, at every position, with any number of
 * threads and in every process; on other devices with COMPUTE_PLAN_REPRODUCIBLE
 * (docs/reference/reproducibility.md). */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/harness/test.h"
#include "support/harness/values.h"
#include "support/samples/operation_samples.h"
#include "support/samples/small_networks.h"

/* The first batch has all items; the others are parts of it. */
enum { MOST = 64 };
static const int64_t batches[] = {MOST, 33, 18, 17, 16, 8, 5, 3, 2, 1};
enum { BATCHES = sizeof batches / sizeof *batches };

/* Contexts with one thread and with two. */
static compute_context *contexts[2];
static long long compared, different;

static const char *device_name(void) {
  const char *name = getenv("COMPUTE_TEST_DEVICE");
  return name && name[0] ? name : "cpu";
}

static bool on_cpu(void) {
  return strncmp(device_name(), "cpu", 3) == 0;
}

/* The CPU makes the promise without a flag, but for some products. */
static uint32_t usual_flags(void) {
  return on_cpu() ? 0 : COMPUTE_PLAN_REPRODUCIBLE;
}

static int open_contexts(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    const compute_open_options options = {.device = device_name(), .threads = i + 1};
    if (compute_open(&contexts[i], &options)) return -1;
  }
  return 0;
}

static int close_contexts(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++)
    if (compute_close(contexts[i])) return -1;
  return 0;
}

static void begin_count(void) {
  compared = different = 0;
}

static void finish_count(const char *what) {
  print_message("%s: %lld comparisons, %lld different\n", what, compared, different);
  assert_true(compared > 0);
  assert_int_equal(different, 0);
}

/* ---- Items ----------------------------------------------------------------------------------- */

enum { MOST_INPUTS = OPERATION_MAX_OPERANDS };

/* A graph of any number of items. Inputs with `moves` have the items along axis 0; others are equal
 * in every batch. */
typedef struct work {
  compute_node (*build)(compute_graph *graph, const compute_node *inputs, const void *user);
  const void *user;
  test_values input[MOST_INPUTS]; /* of MOST items */
  bool moves[MOST_INPUTS], constant[MOST_INPUTS];
  size_t inputs;
  uint32_t flags;
} work;

static size_t item_bytes(const test_values *values) {
  return values->bytes / (size_t)values->shape.size[0];
}

/* The result of items first … first + count − 1, or NULL if there is no such graph, or its result
 * has no axis of items. The caller frees it. */
static unsigned char *run_items(const work *w, compute_context *context, int64_t first,
                                int64_t count, size_t *bytes, compute_dtype *dtype) {
  compute_graph *graph = compute_graph_create(context);
  compute_node inputs[MOST_INPUTS];
  compute_tensor *tensors[MOST_INPUTS + 1] = {NULL};
  compute_binding bindings[MOST_INPUTS + 1];
  compute_plan *plan = NULL;
  unsigned char *result = NULL;
  size_t bound = 0;
  for (size_t i = 0; i < w->inputs; i++) {
    const test_values *from = &w->input[i];
    compute_shape shape = from->shape;
    const unsigned char *data = from->data;
    if (w->moves[i]) {
      shape.size[0] = count;
      data += (size_t)first * item_bytes(from);
    }
    assert_ok(
        compute_tensor_create(compute_default_device(context), from->dtype, shape, &tensors[i]));
    const size_t size = w->moves[i] ? (size_t)count * item_bytes(from) : from->bytes;
    assert_ok(compute_tensor_write(tensors[i], data, size));
    if (w->constant[i]) {
      compute_tensor_freeze(tensors[i]);
      inputs[i] = compute_parameter(graph, tensors[i]);
    } else {
      inputs[i] = compute_input(graph, from->dtype, shape);
      bindings[bound++] = (compute_binding){inputs[i], tensors[i]};
    }
  }
  compute_node y = w->build(graph, inputs, w->user);
  const compute_plan_options options = {.device = compute_default_device(context),
                                        .fallback = COMPUTE_FALLBACK_STRICT,
                                        .flags = w->flags | usual_flags()};
  const compute_shape shape = compute_node_shape(graph, y);
  if (shape.rank > 0 && shape.size[0] == count && !compute_compile(graph, &y, 1, &options, &plan)) {
    int64_t elements = 0;
    assert_ok(compute_shape_count(shape, &elements));
    *dtype = compute_node_dtype(graph, y);
    *bytes = (size_t)elements * compute_dtype_size(*dtype);
    assert_ok(compute_plan_create_tensor(plan, y, &tensors[MOST_INPUTS]));
    bindings[bound++] = (compute_binding){y, tensors[MOST_INPUTS]};
    result = malloc(*bytes + 1);
    if (compute_run(plan, bindings, bound, NULL) ||
        compute_tensor_read(tensors[MOST_INPUTS], result, *bytes)) {
      free(result);
      result = NULL;
    }
  }
  for (size_t i = 0; i <= MOST_INPUTS; i++) compute_tensor_release(tensors[i]);
  compute_plan_release(plan);
  compute_graph_release(graph);
  return result;
}

/* True if two results are the same numbers but for their rounding. */
static bool are_near(compute_dtype dtype, const unsigned char *x, const unsigned char *y,
                     size_t bytes) {
  const int64_t count = (int64_t)(bytes / compute_dtype_size(dtype));
  test_values a = {.dtype = dtype, .data = (void *)(uintptr_t)x};
  test_values b = {.dtype = dtype, .data = (void *)(uintptr_t)y};
  const test_tolerance tolerance = {.ulp = 1000, .atol = 1e-3, .rtol = 0.02};
  for (int64_t i = 0; i < count; i++)
    if (!test_close_enough(dtype, test_values_get(&a, i), test_values_get(&b, i), &tolerance, NULL))
      return false;
  return true;
}

typedef enum outcome { NO_ITEMS, MIXED, SAME, OTHER_BITS } outcome;

/* Runs all batches and compares them with the largest one. With `may_mix`, items whose numbers
 * differ are no error: the operation mixes items, or numbers them. */
static outcome check_work(const work *w, const char *name, uint64_t seed, bool may_mix) {
  test_random random = {.state = seed};
  size_t all_bytes = 0, bytes = 0;
  compute_dtype dtype = COMPUTE_F32;
  unsigned char *all = run_items(w, contexts[1], 0, MOST, &all_bytes, &dtype);
  outcome seen = all ? SAME : NO_ITEMS;
  for (int i = 0; i < BATCHES && seen == SAME; i++) {
    const int64_t count = batches[i];
    if (!on_cpu() && i % 3 != 0) continue; /* MOST, 17, 5 and 1 */
    const int64_t first = test_random_integer(&random, 0, MOST - count);
    unsigned char *some = run_items(w, contexts[i % 2], first, count, &bytes, &dtype);
    const unsigned char *same = all + (size_t)first * (all_bytes / MOST);
    if (!some) {
      seen = NO_ITEMS;
    } else if (memcmp(some, same, bytes) != 0) {
      seen = may_mix && !are_near(dtype, some, same, bytes) ? MIXED : OTHER_BITS;
      if (seen == OTHER_BITS) {
        different++;
        print_message("%s: other bits in a batch of %d items from %d on, %d threads\n", name,
                      (int)count, (int)first, i % 2 + 1);
      }
    }
    compared += seen == SAME || seen == OTHER_BITS;
    free(some);
  }
  free(all);
  return seen;
}

static void add_input(work *w, compute_dtype dtype, compute_shape shape, bool moves, double low,
                      double high, uint64_t seed) {
  const size_t i = w->inputs++;
  w->input[i] = test_values_create(dtype, shape);
  test_values_fill(&w->input[i], FILL_RANGE, low, high, seed);
  w->moves[i] = moves;
}

static void release_work(work *w) {
  for (size_t i = 0; i < w->inputs; i++) test_values_release(&w->input[i]);
}

/* ---- Products -------------------------------------------------------------------------------- */

typedef struct product {
  bool turned;
  int ending;
} product;

static compute_node build_product(compute_graph *g, const compute_node *x, const void *user) {
  const product *p = user;
  const compute_node w = p->turned ? compute_transpose(g, x[1], COMPUTE_AXES(1, 0)) : x[1];
  const compute_node y = compute_matmul(g, x[0], w);
  switch (p->ending) {
  case 0: return compute_gelu(g, y);
  case 1: return compute_add(g, compute_relu(g, y), y);
  case 2: return compute_softmax(g, y, -1);
  default: return y;
  }
}

/* Sizes at which kernels change their method are drawn more often. */
static int64_t draw_size(test_random *random, int64_t most) {
  static const int64_t sizes[] = {1,  2,   3,   4,   7,   8,   9,    16,   17,   32,   33,
                                  64, 128, 256, 385, 512, 768, 1024, 1100, 2048, 3072, 4096};
  const size_t count = sizeof sizes / sizeof *sizes;
  const int64_t size = test_random_integer(random, 0, 1)
                           ? sizes[test_random_integer(random, 0, (int64_t)count - 1)]
                           : test_random_integer(random, 1, most);
  return size < most ? size : most;
}

static void products_have_the_same_bits_in_every_batch(void **state) {
  (void)state;
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F32, COMPUTE_BF16, COMPUTE_F16,
                                         COMPUTE_F64};
  const int draws = 400;
  begin_count();
  for (int i = 0; i < draws; i++) {
    if (!test_in_spread((size_t)i)) continue;
    test_random random = {.state = 1000 * test_seed() + (uint64_t)i};
    const compute_dtype dtype = dtypes[test_random_integer(&random, 0, 4)];
    const int64_t k = draw_size(&random, 4096), n = draw_size(&random, 1 + (1 << 19) / k);
    product p = {.turned = test_random_integer(&random, 0, 1),
                 .ending = (int)test_random_integer(&random, 0, 5)};
    work w = {.build = build_product, .user = &p};
    add_input(&w, dtype, COMPUTE_SHAPE(MOST, k), true, -1, 1, random.state);
    add_input(&w, dtype, p.turned ? COMPUTE_SHAPE(n, k) : COMPUTE_SHAPE(k, n), false, -1, 1,
              random.state + 1);
    w.constant[1] = test_random_integer(&random, 0, 1);
    if (p.turned && !w.constant[1]) w.flags = COMPUTE_PLAN_REPRODUCIBLE;
    char name[96];
    snprintf(name, sizeof name, "%s k %d n %d%s%s, ending %d", compute_dtype_name(dtype), (int)k,
             (int)n, p.turned ? " turned" : "", w.constant[1] ? " frozen" : "", p.ending);
    assert_int_not_equal(check_work(&w, name, random.state, false), NO_ITEMS);
    release_work(&w);
  }
  finish_count("products");
}

static compute_node build_quantized(compute_graph *g, const compute_node *x, const void *user) {
  return compute_quantized_matmul(g, x[0], x[1], x[2], (compute_node){0}, user);
}

static void quantized_products_have_the_same_bits_in_every_batch(void **state) {
  (void)state;
  static const int64_t blocks[] = {8, 16, 24, 32, 64, 128};
  begin_count();
  for (int i = 0; i < 60; i++) {
    if (!test_in_spread((size_t)i)) continue;
    test_random random = {.state = 1000 * test_seed() + (uint64_t)i};
    const compute_quantized_options options = {.bits = 2 << test_random_integer(&random, 0, 2),
                                               .block = blocks[test_random_integer(&random, 0, 5)]};
    const int64_t k = test_random_integer(&random, 1, 1500), n = draw_size(&random, 300);
    const int64_t count = (k + options.block - 1) / options.block;
    work w = {.build = build_quantized, .user = &options, .flags = COMPUTE_PLAN_REPRODUCIBLE};
    add_input(&w, COMPUTE_F32, COMPUTE_SHAPE(MOST, k), true, -1, 1, random.state);
    add_input(&w, COMPUTE_U8, COMPUTE_SHAPE(n, count * options.block * options.bits / 8), false, 0,
              255, random.state + 1);
    add_input(&w, COMPUTE_F32, COMPUTE_SHAPE(n, count), false, -1, 1, random.state + 2);
    w.constant[1] = w.constant[2] = true;
    char name[96];
    snprintf(name, sizeof name, "%d bits, blocks of %d, k %d n %d", (int)options.bits,
             (int)options.block, (int)k, (int)n);
    assert_int_not_equal(check_work(&w, name, random.state, false), NO_ITEMS);
    release_work(&w);
  }
  finish_count("quantized products");
}

/* ---- Operations ------------------------------------------------------------------------------ */

/* Every row of operations.def whose operands can have items along axis 0. */
static void operations_have_the_same_bits_in_every_batch(void **state) {
  (void)state;
  int rows = 0, without = 0, mixed = 0;
  begin_count();
  for (size_t r = 0; operation_sample_at(r); r++) {
    const operation_sample *row = operation_sample_at(r);
    operation_case sample;
    if (!on_cpu() && !test_in_spread(r)) continue;
    operation_sample_case(row, 0, &sample);
    const compute_shape *shape = &sample.operand[0].shape;
    work w = {.build = row->build};
    bool fits = sample.operand_count > 0 && shape->rank > 0 && shape->size[0] > 0;
    for (size_t i = 0; fits && i < sample.operand_count; i++) {
      const operation_operand *o = &sample.operand[i];
      compute_shape own = o->shape;
      const bool moves = own.rank > 0 && own.rank >= shape->rank && own.size[0] == shape->size[0];
      if (moves) own.size[0] = MOST;
      add_input(&w, o->dtype, own, moves, o->low, o->high, 7 * r + i);
    }
    const outcome seen = fits ? check_work(&w, row->name, r, true) : NO_ITEMS;
    rows += seen == SAME;
    without += seen == NO_ITEMS;
    mixed += seen == MIXED;
    release_work(&w);
  }
  print_message("%d rows of operations.def; %d without items along axis 0, %d that mix items\n",
                rows, without, mixed);
  assert_true(rows >= (on_cpu() ? 100 : 1));
  finish_count("operations");
}

/* ---- Operations at sizes where kernels change their method ------------------------------------ */

static compute_node large_softmax(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  return compute_softmax(g, x[0], -1);
}
static compute_node large_norm(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  return compute_layer_norm(g, x[0], (compute_node){0}, (compute_node){0}, 1e-5);
}
static compute_node large_sums(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  const compute_node sum = compute_sum(g, x[0], COMPUTE_AXES(-1), true);
  return compute_mul(g, sum, compute_max(g, compute_square(g, x[0]), COMPUTE_AXES(-1), true));
}
static compute_node large_mean(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  return compute_mean(g, x[0], COMPUTE_AXES(1), false);
}
static compute_node large_scan(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  return compute_cumulative_sum(g, x[0], 1, false, false);
}
static compute_node large_attention(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  return compute_scaled_attention(g, x[0], compute_silu(g, x[0]), compute_tanh(g, x[0]), NULL);
}
static compute_node large_scores(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  const compute_node turned = compute_transpose(g, x[0], COMPUTE_AXES(0, 2, 1));
  return compute_matmul(g, x[0], turned);
}
static compute_node large_filter(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  const compute_conv2d_options same = {.padding = {1, 1}};
  return compute_conv2d(g, x[0], x[1], (compute_node){0}, &same);
}
static compute_node large_point(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  return compute_conv2d(g, x[0], x[1], (compute_node){0}, NULL);
}
static compute_node large_lstm(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  const compute_node steps = compute_transpose(g, x[0], COMPUTE_AXES(1, 0, 2));
  const compute_node y = compute_lstm(g, steps, x[1], x[2], NULL, NULL);
  return compute_transpose(g, y, COMPUTE_AXES(1, 0, 2));
}

/* Inputs after the first are equal in every batch. */
static const struct {
  const char *name;
  compute_node (*build)(compute_graph *g, const compute_node *x, const void *user);
  compute_shape item, others[2];
} large[] = {
    {"softmax", large_softmax, SHAPE(MOST, 1000), {{0}}},
    {"softmax of long rows", large_softmax, SHAPE(MOST, 70000), {{0}}},
    {"layer_norm", large_norm, SHAPE(MOST, 12, 768), {{0}}},
    {"layer_norm of long rows", large_norm, SHAPE(MOST, 70000), {{0}}},
    {"sums", large_sums, SHAPE(MOST, 3000), {{0}}},
    {"sums of long rows", large_sums, SHAPE(MOST, 70000), {{0}}},
    {"mean of columns", large_mean, SHAPE(MOST, 700, 24), {{0}}},
    {"mean of short columns", large_mean, SHAPE(MOST, 9, 500), {{0}}},
    {"cumulative_sum", large_scan, SHAPE(MOST, 3000), {{0}}},
    {"cumulative_sum of columns", large_scan, SHAPE(MOST, 300, 7), {{0}}},
    {"attention", large_attention, SHAPE(MOST, 70, 64), {{0}}},
    {"attention of one query", large_attention, SHAPE(MOST, 1, 64), {{0}}},
    {"products of items", large_scores, SHAPE(MOST, 40, 300), {{0}}},
    {"convolution", large_filter, SHAPE(MOST, 16, 14, 14), {SHAPE(24, 16, 3, 3), {0}}},
    {"convolution of few channels", large_filter, SHAPE(MOST, 3, 30, 30), {SHAPE(4, 3, 3, 3), {0}}},
    {"convolution of points", large_point, SHAPE(MOST, 512, 7, 7), {SHAPE(300, 512, 1, 1), {0}}},
    {"convolution of pixels", large_point, SHAPE(MOST, 2048, 1, 1), {SHAPE(10, 2048, 1, 1), {0}}},
    {"lstm", large_lstm, SHAPE(MOST, 4, 96), {SHAPE(96, 256), SHAPE(64, 256)}},
};

static void large_operations_have_the_same_bits_in_every_batch(void **state) {
  (void)state;
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_BF16, COMPUTE_F64};
  enum { LARGE = sizeof large / sizeof *large };
  begin_count();
  for (size_t i = 0; i < LARGE; i++)
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
      const bool last = i + 1 == LARGE && compared == 0; /* a sample may have no other row */
      if (!on_cpu() && (d > 0 || !(last || test_in_spread(i)))) continue;
      work w = {.build = large[i].build};
      add_input(&w, dtypes[d], large[i].item, true, -1, 1, i);
      for (int o = 0; o < 2 && large[i].others[o].rank > 0; o++)
        add_input(&w, dtypes[d], large[i].others[o], false, -.2, .2, i + 50);
      w.constant[1] = i % 2;
      assert_int_not_equal(check_work(&w, large[i].name, i, false), NO_ITEMS);
      release_work(&w);
    }
  finish_count("large operations");
}

/* ---- Networks -------------------------------------------------------------------------------- */

static const compute_dtype network_dtypes[] = {COMPUTE_F32, COMPUTE_BF16};
enum { NETWORKS = 3 * 2 };

static work network_work(int i) {
  const small_network *network = small_network_at((size_t)i / 2);
  work w = {.build = network->build, .flags = usual_flags()};
  compute_shape shape = network->item;
  shape.size[0] = MOST;
  add_input(&w, network_dtypes[i % 2], shape, true, -1, 1, 3);
  return w;
}

static void networks_have_the_same_bits_in_every_batch(void **state) {
  (void)state;
  begin_count();
  for (int i = 0; i < NETWORKS; i++) {
    work w = network_work(i);
    const char *name = small_network_at((size_t)i / 2)->name;
    if (!on_cpu() && i % 2 != 0) continue; /* f32 */
    for (uint64_t seed = 0; seed < (on_cpu() ? 3 : 1); seed++)
      assert_int_not_equal(check_work(&w, name, seed, false), NO_ITEMS);
    w.flags |= on_cpu() ? COMPUTE_PLAN_PORTABLE : 0;
    if (on_cpu()) check_work(&w, name, 7, false); /* a build may have no portable kernels */
    release_work(&w);
  }
  finish_count("networks");
}

/* ---- Processes ------------------------------------------------------------------------------- */

/* A hash of the results of all networks, in batches of `count`. */
static uint64_t hash_networks(compute_context *context, int64_t count) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (int i = 0; i < NETWORKS; i++) {
    work w = network_work(i);
    for (int64_t first = 0; first + count <= MOST; first += count) {
      size_t bytes = 0;
      compute_dtype dtype;
      unsigned char *result = run_items(&w, context, first, count, &bytes, &dtype);
      for (size_t b = 0; result && b < bytes; b++)
        hash = (hash ^ result[b]) * UINT64_C(0x100000001b3);
      free(result);
    }
    release_work(&w);
  }
  return hash;
}

static int print_hash(int64_t count) {
  if (open_contexts(NULL)) return 1;
  printf("%llx\n", (unsigned long long)hash_networks(contexts[0], count));
  return close_contexts(NULL) != 0;
}

static void other_processes_get_the_same_bits(void **state) {
  (void)state;
  char program[512], command[600];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length <= 0) test_skip("the program does not know its own name");
  if (!on_cpu()) test_skip("a device compiles its kernels anew in every process");
  program[length] = 0;
  const uint64_t own = hash_networks(contexts[1], MOST);
  begin_count();
  for (int64_t count = 1; count <= 16; count *= 4) {
    char line[64] = "";
    snprintf(command, sizeof command, "'%s' %d", program, (int)count);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_non_null(fgets(line, sizeof line, pipe));
    assert_int_equal(pclose(pipe), 0);
    compared++;
    different += strtoull(line, NULL, 16) != own;
  }
  finish_count("processes");
}

int main(int count, char **arguments) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_have_the_same_bits_in_every_batch),
      cmocka_unit_test(quantized_products_have_the_same_bits_in_every_batch),
      cmocka_unit_test(operations_have_the_same_bits_in_every_batch),
      cmocka_unit_test(large_operations_have_the_same_bits_in_every_batch),
      cmocka_unit_test(networks_have_the_same_bits_in_every_batch),
      cmocka_unit_test(other_processes_get_the_same_bits),
  };
  if (count > 1) return print_hash(atoi(arguments[1]));
  return cmocka_run_group_tests(tests, open_contexts, close_contexts);
}
