/* SPDX-License-Identifier: MIT */
/* With COMPUTE_PLAN_PORTABLE every processor computes the same bits
 * (docs/reference/reproducibility.md). portable.def has hashes of the results: a run on any machine
 * compares with the machine that wrote it. After a change of kernels,
 * `operations_portable write > portable.def` writes it anew. */
#include <string.h>

#include "support/harness/test.h"
#include "support/harness/values.h"
#include "support/samples/operation_samples.h"
#include "support/samples/small_networks.h"

static const struct {
  const char *name;
  unsigned sample;
  uint64_t hash;
} listed[] = {
#define PORTABLE(name, sample, hash) {name, sample, UINT64_C(hash)},
#include "portable.def"
};
enum { LISTED = sizeof listed / sizeof *listed };

/* ---- Results --------------------------------------------------------------------------------- */

typedef struct outcome {
  compute_status status;
  uint64_t hash;
} outcome;

/* Processors differ in the sign and the payload of a NaN: all of them count as one. */
static uint64_t hash_result(const test_values *y) {
  const size_t size = compute_dtype_size(y->dtype);
  const bool is_float = !test_is_integer(y->dtype) && y->dtype != COMPUTE_BOOL;
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (int64_t i = 0; i < y->count; i++) {
    uint64_t bits = 0;
    memcpy(&bits, (const char *)y->data + (size_t)i * size, size);
    const double value = is_float ? test_values_get(y, i) : 0;
    hash = (hash ^ (value != value ? UINT64_MAX : bits)) * UINT64_C(0x100000001b3);
  }
  return hash;
}

static outcome run_graph(compute_graph *g, compute_node y, const compute_node *inputs,
                         const test_values *values, size_t count, uint32_t flags) {
  compute_binding bindings[OPERATION_MAX_OPERANDS + 1];
  compute_tensor *tensors[OPERATION_MAX_OPERANDS + 1] = {NULL};
  compute_plan *plan = NULL;
  compute_device *device = compute_default_device(test_context);
  const compute_plan_options options = {.device = device, .flags = flags};
  outcome seen = {.status = compute_compile(g, &y, 1, &options, &plan)};
  if (!seen.status) {
    for (size_t i = 0; i < count; i++) {
      tensors[i] = test_tensor(test_context, values[i].dtype, values[i].shape, values[i].data);
      bindings[i] = (compute_binding){inputs[i], tensors[i]};
    }
    test_values result = test_values_create(compute_node_dtype(g, y), compute_node_shape(g, y));
    assert_ok(compute_plan_create_tensor(plan, y, &tensors[count]));
    bindings[count] = (compute_binding){y, tensors[count]};
    seen.status = compute_run(plan, bindings, count + 1, NULL);
    if (!seen.status) {
      assert_ok(compute_tensor_read(tensors[count], result.data, result.bytes));
      seen.hash = hash_result(&result);
    }
    test_values_release(&result);
  }
  for (size_t i = 0; i <= count; i++) compute_tensor_release(tensors[i]);
  compute_plan_release(plan);
  return seen;
}

static outcome run_sample(const operation_sample *row, const operation_case *sample,
                          uint32_t flags) {
  compute_graph *g = compute_graph_create(test_context);
  compute_node inputs[OPERATION_MAX_OPERANDS];
  test_values values[OPERATION_MAX_OPERANDS];
  for (size_t i = 0; i < sample->operand_count; i++) {
    const operation_operand *o = &sample->operand[i];
    values[i] = test_values_create(o->dtype, o->shape);
    test_values_fill(&values[i], FILL_RANGE, o->low, o->high, i + 1);
    inputs[i] = compute_input(g, o->dtype, o->shape);
  }
  const compute_node y = row->build(g, inputs, NULL);
  const outcome seen = run_graph(g, y, inputs, values, sample->operand_count, flags);
  for (size_t i = 0; i < sample->operand_count; i++) test_values_release(&values[i]);
  compute_graph_release(g);
  return seen;
}

static outcome run_network(const small_network *network, compute_dtype dtype, uint32_t flags) {
  enum { ITEMS = 5 };
  compute_graph *g = compute_graph_create(test_context);
  compute_shape shape = network->item;
  shape.size[0] = ITEMS;
  test_values values = test_values_create(dtype, shape);
  test_values_fill(&values, FILL_RANGE, -1, 1, 1);
  const compute_node x = compute_input(g, dtype, shape);
  const compute_node y = network->build(g, &x, NULL);
  const outcome seen = run_graph(g, y, &x, &values, 1, flags);
  test_values_release(&values);
  compute_graph_release(g);
  return seen;
}

/* Calls `take` for every result: samples of operations, then networks in two dtypes. */
typedef void taker(const char *name, unsigned sample, outcome portable, outcome usual);

static void run_all(taker *take) {
  for (size_t r = 0; operation_sample_at(r); r++) {
    const operation_sample *row = operation_sample_at(r);
    operation_case sample;
    for (unsigned i = 0; operation_sample_case(row, i, &sample); i++)
      take(row->name, i, run_sample(row, &sample, COMPUTE_PLAN_PORTABLE),
           run_sample(row, &sample, 0));
  }
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_BF16, COMPUTE_F16, COMPUTE_F64};
  for (size_t n = 0; small_network_at(n); n++)
    for (unsigned i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
      const small_network *network = small_network_at(n);
      char name[64];
      snprintf(name, sizeof name, "network_%s", network->name);
      take(name, i, run_network(network, dtypes[i], COMPUTE_PLAN_PORTABLE),
           run_network(network, dtypes[i], 0));
    }
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static int compared, differ, refused, unlisted, others;

static void compare(const char *name, unsigned sample, outcome portable, outcome usual) {
  if (portable.status == COMPUTE_ERROR_UNSUPPORTED && usual.status == COMPUTE_OK) {
    refused++;
    return;
  }
  assert_int_equal(portable.status, usual.status);
  if (portable.status) return;
  int at = 0;
  while (at < LISTED && (strcmp(listed[at].name, name) != 0 || listed[at].sample != sample)) at++;
  if (at == LISTED) {
    unlisted++;
    print_message("%s, sample %u: no hash in portable.def\n", name, sample);
    return;
  }
  compared++;
  others += portable.hash != usual.hash;
  if (portable.hash == listed[at].hash) return;
  differ++;
  print_message("%s, sample %u: other bits than in portable.def\n", name, sample);
}

static bool has_portable_kernels(void) {
  const small_network *network = small_network_at(0);
  return run_network(network, COMPUTE_F32, COMPUTE_PLAN_PORTABLE).status == COMPUTE_OK;
}

static void all_processors_compute_the_listed_bits(void **state) {
  (void)state;
  if (!has_portable_kernels()) test_skip("this build has no portable kernels");
  run_all(compare);
  print_message(
      "%d results compared, %d different; %d plans refused; %d plans without the flag have "
      "other bits\n",
      compared, differ, refused, others);
  assert_true(compared >= 200);
  assert_int_equal(differ, 0);
  assert_int_equal(unlisted, 0);
}

static void functions_of_the_c_library_are_refused(void **state) {
  (void)state;
  if (!has_portable_kernels()) test_skip("this build has no portable kernels");
  compute_graph *g = compute_graph_create(test_context);
  const compute_node y = compute_sin(g, compute_input(g, COMPUTE_F64, COMPUTE_SHAPE(3)));
  const compute_plan_options options = {.device = compute_default_device(test_context),
                                        .flags = COMPUTE_PLAN_PORTABLE};
  compute_plan *plan = NULL;
  assert_fails(compute_compile(g, &y, 1, &options, &plan), COMPUTE_ERROR_UNSUPPORTED);
  test_check_message(test_context, "C library");
  compute_graph_release(g);
}

static void write_row(const char *name, unsigned sample, outcome portable, outcome usual) {
  (void)usual;
  if (!portable.status)
    printf("PORTABLE(\"%s\", %u, 0x%016llx)\n", name, sample, (unsigned long long)portable.hash);
}

int main(int count, char **arguments) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_processors_compute_the_listed_bits),
      cmocka_unit_test(functions_of_the_c_library_are_refused),
  };
  if (count > 1 && strcmp(arguments[1], "write") == 0) {
    printf("/* SPDX-License-Identifier: MIT */\n"
           "/* Written by `operations_portable write`: hashes for test_portable.c. */\n");
    test_group_open(NULL);
    run_all(write_row);
    return test_group_close(NULL);
  }
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
