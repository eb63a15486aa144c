/* SPDX-License-Identifier: MIT */
/* Running models. Plans are cached by the input sizes. A run waits for values that decide about
 * shapes. Several threads may run one model. Errors name their cause. */
#include <pthread.h>
#include <time.h>

#include "compute/compute.h"
#include "model/message_writer.h"

static proto operator_node(const char *type, const char *inputs, const char *outputs) {
  return node_message(type, type, inputs, outputs);
}

static void add_node(proto *graph, const char *type, const char *inputs, const char *outputs) {
  put_message(graph, GRAPH_NODE, operator_node(type, inputs, outputs));
}

/* Messages must outlive the models that read them. */
static void *messages[64];
static size_t message_count;

static compute_model *load_message(proto message, const compute_model_options *options) {
  compute_model *model = NULL;
  assert_ok(compute_model_load_memory(test_context, message.data, message.bytes, options, &model));
  assert_true(message_count < sizeof messages / sizeof *messages);
  messages[message_count++] = message.data;
  return model;
}

static compute_model *load(proto graph, const compute_model_options *options) {
  return load_message(model_message(graph), options);
}

static compute_tensor *numbers(int64_t count, const float *values) {
  return test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(count), values);
}

static void assert_values(compute_tensor *tensor, const float *expected, int64_t count) {
  float values[64];
  assert_int_equal(compute_tensor_count(tensor), count);
  assert_ok(compute_tensor_read(tensor, values, (size_t)count * sizeof *values));
  for (int64_t i = 0; i < count; i++) assert_float_equal(values[i], expected[i], 1e-6f);
}

static compute_tensor *run(compute_model *model, compute_tensor *x) {
  compute_model_binding in = {"x", x}, out = {"y", NULL};
  assert_ok(compute_model_run(model, &in, 1, &out, 1));
  return out.tensor;
}

/* y = relu(x + w) */
static proto small_graph(void) {
  proto graph = graph_message("x", "y");
  put_message(&graph, GRAPH_INITIALIZER, vector_message("w", (float[]){1, -2}, 2));
  add_node(&graph, "Add", "x,w", "s");
  add_node(&graph, "Relu", "s", "y");
  return graph;
}

static void a_model_runs(void **state) {
  (void)state;
  compute_model *model = load(small_graph(), NULL);
  compute_tensor *x = numbers(2, (float[]){3, 1}), *y = run(model, x);
  assert_values(y, (float[]){4, 0}, 2);
  compute_tensor_release(y);
  compute_tensor_release(x);
  compute_model_release(model);
}

/* A file aligns nothing. A weight at any address is used, and trained exactly once. */
static void weights_lie_anywhere(void **state) {
  (void)state;
  static const char path[] = TEST_SCRATCH_DIR "/anywhere.onnx";
  static const char *const names[] = {"w", "ww", "www", "wwww"};
  for (size_t i = 0; i < 4; i++) {
    char inputs[16];
    snprintf(inputs, sizeof inputs, "x,%s", names[i]);
    proto graph = graph_message("x", "y");
    put_message(&graph, GRAPH_INITIALIZER, vector_message(names[i], (float[]){1, 2, 3}, 3));
    add_node(&graph, "Mul", inputs, "y");
    proto message = model_message(graph);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(message.data, 1, message.bytes, file), message.bytes);
    assert_int_equal(fclose(file), 0);
    free(message.data);
    compute_model *model;
    assert_ok(compute_model_load(test_context, path, NULL, &model));
    for (int64_t rows = 1; rows < 3; rows++) {
      compute_tensor *x = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(rows, 3),
                                      (float[]){1, 1, 1, 1, 1, 1});
      compute_model_binding in = {"x", x}, out = {"y", NULL};
      assert_ok(compute_model_run(model, &in, 1, &out, 1));
      assert_values(out.tensor, (float[]){1, 2, 3, 1, 2, 3}, 3 * rows);
      compute_tensor_release(out.tensor);
      compute_tensor_release(x);
    }
    compute_model_release(model);
  }
}

static void plans_are_kept_by_size(void **state) {
  (void)state;
  proto graph = graph_message("x", "y");
  add_node(&graph, "Relu", "x", "y");
  compute_model *model = load(graph, &(compute_model_options){.max_plans = 3});
  const float zeros[8] = {0};
  for (int round = 0; round < 3; round++)
    for (int64_t size = 1; size <= 3; size++) {
      compute_tensor *x = numbers(size, zeros);
      compute_tensor_release(run(model, x));
      compute_tensor_release(x);
    }
  compute_model_info info;
  assert_ok(compute_model_describe(model, &info));
  assert_int_equal(info.plans_made, 3);
  assert_int_equal(info.plan_hits, 6);
  for (int64_t size = 4; size <= 8; size++) {
    compute_tensor *x = numbers(size, zeros);
    compute_tensor_release(run(model, x));
    compute_tensor_release(x);
  }
  assert_ok(compute_model_describe(model, &info));
  assert_int_equal(info.plans_made, 8);
  assert_true(info.plans <= 3);
  assert_int_equal(info.runs, 14);
  compute_model_release(model);
}

/* y = the nonzero elements of x, twice: the size of NonZero's result depends on values. */
static void results_may_depend_on_values(void **state) {
  (void)state;
  proto graph = graph_message("x", "y");
  add_node(&graph, "Add", "x,x", "t");
  add_node(&graph, "NonZero", "t", "at");
  add_node(&graph, "Transpose", "at", "list");
  add_node(&graph, "GatherND", "t,list", "y");
  compute_model *model = load(graph, NULL);
  compute_tensor *x = numbers(4, (float[]){0, 3, 0, 5}), *z = numbers(4, (float[]){1, 2, 3, 0});
  for (int round = 0; round < 2; round++) {
    compute_tensor *y = run(model, x);
    assert_values(y, (float[]){6, 10}, 2);
    compute_tensor_release(y);
    y = run(model, z);
    assert_values(y, (float[]){2, 4, 6}, 3);
    compute_tensor_release(y);
  }
  compute_model_info info;
  assert_ok(compute_model_describe(model, &info));
  assert_int_equal(info.plans_made, 3); /* one first, one for each number of elements */
  compute_tensor_release(x);
  compute_tensor_release(z);
  compute_model_release(model);
}

typedef struct thread_work {
  compute_model *model;
  int number, failures;
} thread_work;

static void *run_often(void *argument) {
  thread_work *work = argument;
  for (int i = 0; i < 50; i++) {
    float values[8], result[8];
    const int64_t size = 1 + (work->number + i) % 8;
    for (int64_t k = 0; k < size; k++) values[k] = (float)(k - 2 + work->number);
    compute_tensor *x = NULL;
    if (compute_tensor_from_host(compute_default_device(test_context), COMPUTE_F32,
                                 COMPUTE_SHAPE(size), values, &x)) {
      work->failures++;
      continue;
    }
    compute_model_binding in = {"x", x}, out = {"y", NULL};
    if (compute_model_run(work->model, &in, 1, &out, 1) ||
        compute_tensor_read(out.tensor, result, (size_t)size * sizeof *result))
      work->failures++;
    else
      for (int64_t k = 0; k < size; k++)
        work->failures += result[k] != (values[k] > 0 ? values[k] : 0);
    compute_tensor_release(out.tensor);
    compute_tensor_release(x);
  }
  return NULL;
}

static void threads_share_a_model(void **state) {
  (void)state;
  proto graph = graph_message("x", "y");
  add_node(&graph, "Relu", "x", "y");
  compute_model *model = load(graph, &(compute_model_options){.max_plans = 4});
  pthread_t threads[4];
  thread_work work[4];
  for (int i = 0; i < 4; i++) {
    work[i] = (thread_work){model, i, 0};
    assert_int_equal(pthread_create(&threads[i], NULL, run_often, &work[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(work[i].failures, 0);
  }
  compute_model_release(model);
}

/* An operator whose recording, for vectors of two, lasts until a run of another size has ended. */
typedef struct slow_operator {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool recording, other_ended, waited_in_vain;
} slow_operator;

static void await(slow_operator *slow, const bool *flag) {
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += 30;
  while (!*flag && !slow->waited_in_vain)
    slow->waited_in_vain = pthread_cond_timedwait(&slow->changed, &slow->lock, &end) != 0;
}

static compute_status record_slowly(void *user, compute_model_call *call) {
  slow_operator *slow = user;
  compute_graph *graph = compute_model_call_graph(call);
  const compute_node x = compute_model_call_input(call, 0);
  pthread_mutex_lock(&slow->lock);
  if (compute_node_shape(graph, x).size[0] == 2) {
    slow->recording = true;
    pthread_cond_broadcast(&slow->changed);
    await(slow, &slow->other_ended);
  }
  pthread_mutex_unlock(&slow->lock);
  return compute_model_call_output(call, 0, compute_relu(graph, x));
}

static void *run_two(void *user) {
  compute_tensor *x = numbers(2, (float[]){-1, 1});
  compute_model_binding in = {"x", x}, out = {"y", NULL};
  const bool failed = compute_model_run(user, &in, 1, &out, 1) != COMPUTE_OK;
  compute_tensor_release(x);
  return failed ? NULL : out.tensor;
}

static void runs_do_not_wait_for_plans_of_others(void **state) {
  (void)state;
  slow_operator slow = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  const compute_model_operator own = {"", "Slow", record_slowly, &slow, {0}};
  proto graph = graph_message("x", "y");
  add_node(&graph, "Slow", "x", "y");
  compute_model *model =
      load(graph, &(compute_model_options){.operators = &own, .operator_count = 1});
  compute_tensor *x = numbers(3, (float[]){1, -2, 3}), *y = run(model, x);
  compute_tensor_release(y);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, run_two, model), 0);
  pthread_mutex_lock(&slow.lock);
  await(&slow, &slow.recording);
  pthread_mutex_unlock(&slow.lock);
  y = run(model, x); /* its plan is there */
  assert_values(y, (float[]){1, 0, 3}, 3);
  compute_tensor_release(y);
  compute_model_info info;
  assert_ok(compute_model_describe(model, &info));
  assert_int_equal(info.plan_hits, 1);
  pthread_mutex_lock(&slow.lock);
  slow.other_ended = true;
  pthread_cond_broadcast(&slow.changed);
  pthread_mutex_unlock(&slow.lock);
  void *result = NULL;
  pthread_join(thread, &result);
  assert_false(slow.waited_in_vain);
  assert_non_null(result);
  assert_values(result, (float[]){0, 1}, 2);
  compute_tensor_release(result);
  compute_tensor_release(x);
  compute_model_release(model);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void all_missing_operators_are_named(void **state) {
  (void)state;
  proto graph = graph_message("x", "y");
  add_node(&graph, "Sum2", "x,x", "a");
  add_node(&graph, "Sum2", "a,x", "b");
  add_node(&graph, "Other", "b", "y");
  proto message = model_message(graph);
  compute_model *model = NULL;
  assert_fails(compute_model_load_memory(test_context, message.data, message.bytes, NULL, &model),
               COMPUTE_ERROR_UNSUPPORTED);
  test_check_message(test_context, "2 operators of the model are missing: Sum2");
  test_check_message(test_context, "2 times; Other");
  assert_null(model);
  free(message.data);
}

static void wrong_bindings_are_named(void **state) {
  (void)state;
  compute_model *model = load(small_graph(), NULL);
  compute_tensor *x = numbers(2, (float[]){3, 1}), *wrong = numbers(3, (float[]){1, 2, 3});
  compute_model_binding in = {"x", x}, out = {"z", NULL};
  assert_fails(compute_model_run(model, &in, 1, &out, 1), COMPUTE_ERROR_BINDING);
  test_check_message(test_context, "no output 'z'");
  out.name = "y";
  assert_fails(compute_model_run(model, NULL, 0, &out, 1), COMPUTE_ERROR_BINDING);
  test_check_message(test_context, "input 'x' is not bound");
  assert_fails(compute_model_run(model, (compute_model_binding[]){in, in}, 2, &out, 1),
               COMPUTE_ERROR_BINDING);
  in.name = "q";
  assert_fails(compute_model_run(model, &in, 1, &out, 1), COMPUTE_ERROR_BINDING);
  in = (compute_model_binding){"x", wrong};
  assert_fails(compute_model_run(model, &in, 1, &out, 1), COMPUTE_ERROR_SHAPE);
  test_check_message(test_context, "node 'Add' (Add): add:");
  in.tensor = x;
  out.tensor = wrong;
  assert_fails(compute_model_run(model, &in, 1, &out, 1), COMPUTE_ERROR_SHAPE);
  compute_tensor_release(x);
  compute_tensor_release(wrong);
  compute_model_release(model);
}

/* ---- Custom operators ------------------------------------------------------------------------ */

static compute_status record_scaled(void *user, compute_model_call *call) {
  const double factor = compute_model_call_number(call, "factor", *(const double *)user);
  compute_graph *graph = compute_model_call_graph(call);
  const compute_node x = compute_model_call_input(call, 0);
  const compute_node scale = compute_scalar(graph, compute_node_dtype(graph, x), factor);
  return compute_model_call_output(call, 0, compute_mul(graph, x, scale));
}

static compute_status record_failure(void *user, compute_model_call *call) {
  (void)user;
  return compute_model_call_fail(call, COMPUTE_ERROR_CANCELLED, "not %s", "today");
}

static void operators_can_be_added(void **state) {
  (void)state;
  double factor = 3;
  compute_model_operator own = {"", "Scaled", record_scaled, &factor, {0}};
  const compute_model_options options = {.operators = &own, .operator_count = 1};
  proto graph = graph_message("x", "y");
  add_node(&graph, "Scaled", "x", "y");
  compute_model *model = load(graph, &options);
  compute_tensor *x = numbers(2, (float[]){3, 1}), *y = run(model, x);
  assert_values(y, (float[]){9, 3}, 2);
  compute_tensor_release(y);
  compute_model_release(model);

  own.record = record_failure;
  graph = graph_message("x", "y");
  add_node(&graph, "Scaled", "x", "y");
  model = load(graph, &options);
  compute_model_binding in = {"x", x}, out = {"y", NULL};
  assert_fails(compute_model_run(model, &in, 1, &out, 1), COMPUTE_ERROR_CANCELLED);
  test_check_message(test_context, "node 'Scaled' (Scaled): not today");
  compute_tensor_release(x);
  compute_model_release(model);
}

/* ---- Training and writing back --------------------------------------------------------------- */

/* One step down the gradient of sum((x + w)²): w becomes w − 2·rate·(x + w). */
static void train(compute_model *model) {
  compute_graph *graph = compute_graph_create(test_context);
  compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2));
  compute_model_value in = {"x", x}, out = {"s", {0}};
  assert_ok(compute_model_record(model, graph, &in, 1, &out, 1));
  const compute_node loss =
      compute_sum(graph, compute_square(graph, out.node), COMPUTE_ALL_AXES, false);
  const compute_node weight = compute_parameter_at(graph, 0);
  const compute_node step =
      compute_sgd_step(graph, loss, &weight, 1, &(compute_sgd_options){.learning_rate = 0.25});
  compute_plan *plan = NULL;
  assert_ok(compute_compile(graph, &step, 1, NULL, &plan));
  compute_tensor *values = numbers(2, (float[]){1, 0});
  assert_ok(compute_run(plan, &(compute_binding){x, values}, 1, NULL));
  compute_tensor_release(values);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static void weights_can_be_trained_and_written(void **state) {
  (void)state;
  static const char path[] = TEST_SCRATCH_DIR "/trained.onnx",
                    weights[] = TEST_SCRATCH_DIR "/trained.safetensors";
  compute_model *model = load(small_graph(), NULL), *again = NULL;
  compute_tensor *x = numbers(2, (float[]){3, 1}), *y = run(model, x);
  assert_values(y, (float[]){4, 0}, 2);
  compute_tensor_release(y);
  train(model); /* w: 1 - 2/4*(1+1) = 0, -2 - 2/4*(0-2) = -1 */
  y = run(model, x);
  assert_values(y, (float[]){3, 0}, 2);
  compute_tensor_release(y);
  assert_ok(compute_model_save(model, path));
  assert_ok(compute_model_save(model, weights));
  assert_fails(compute_model_save(model, "trained.txt"), COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_ok(compute_model_load(test_context, path, NULL, &again));
  y = run(again, x);
  assert_values(y, (float[]){3, 0}, 2);
  compute_tensor_release(y);
  compute_tensor_file *file;
  assert_ok(compute_tensor_file_open(test_context, weights, &file));
  assert_int_equal(compute_tensor_file_find(file, "w"), 0);
  compute_tensor_file_close(file);
  compute_tensor_release(x);
  compute_model_release(again);
  compute_model_release(model);
}

/* Scalars are constants of plans, unless the model is in a graph that may train them. */
static void single_numbers_can_be_trained(void **state) {
  (void)state;
  proto message = graph_message("x", "s");
  put_message(&message, GRAPH_INITIALIZER, vector_message("w", (float[]){1}, 1));
  add_node(&message, "Add", "x,w", "s");
  compute_model *model = load(message, NULL);
  compute_tensor *x = numbers(2, (float[]){1, 0});
  for (int round = 0; round < 2; round++) {
    compute_model_binding in = {"x", x}, out = {"s", NULL};
    assert_ok(compute_model_run(model, &in, 1, &out, 1));
    /* d/dw ((1 + w)^2 + w^2) = 2 + 4 w: w = 1 becomes 1 - 6 / 4 */
    assert_values(out.tensor, round ? (float[]){0.5f, -0.5f} : (float[]){2, 1}, 2);
    compute_tensor_release(out.tensor);
    if (!round) train(model);
  }
  compute_tensor_release(x);
  compute_model_release(model);
}

static void parts_need_their_inputs(void **state) {
  (void)state;
  compute_model *model = load(small_graph(), NULL);
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node s = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2));
  compute_model_value in = {"s", s}, out = {"y", {0}};
  assert_ok(compute_model_record(model, graph, &in, 1, &out, 1)); /* from the middle */
  assert_int_equal(compute_node_shape(graph, out.node).size[0], 2);
  in.name = "none";
  assert_fails(compute_model_record(model, graph, &in, 1, &out, 1), COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_model_record(model, graph, NULL, 0, &out, 1), COMPUTE_ERROR_BINDING);
  test_check_message(test_context, "input 'x' is required");
  assert_ok(compute_graph_status(graph));
  compute_graph_release(graph);
  compute_model_release(model);
}

static void put_metadata(proto *model, const char *key, const char *value) {
  proto entry = {0};
  if (key) put_text(&entry, 1, key);
  if (value) put_text(&entry, 2, value);
  put_message(model, 14, entry);
}

/* An operator whose runs take longer than the time between two questions. */
static compute_status sleep_once(void *user, const compute_call_arguments *arguments, int32_t part,
                                 int32_t parts) {
  (void)part, (void)parts;
  const struct timespec pause = {.tv_nsec = 60000000};
  nanosleep(&pause, NULL);
  *(float *)arguments->outputs[0].data = *(const float *)arguments->inputs[0].data + 1;
  ++*(int *)user;
  return COMPUTE_OK;
}

static compute_status record_sleep(void *user, compute_model_call *call) {
  compute_graph *graph = compute_model_call_graph(call);
  const compute_node x = compute_model_call_input(call, 0);
  const compute_call_output output = {compute_node_dtype(graph, x), compute_node_shape(graph, x)};
  return compute_model_call_output(
      call, 0, compute_call(graph, sleep_once, user, &x, 1, &output, 1, NULL, NULL));
}

typedef struct question {
  int asked, refused; /* it is refused from this question on; 0: never */
  pthread_t thread;
} question;

static bool answer(void *user) {
  question *q = user;
  assert_true(pthread_equal(q->thread, pthread_self()));
  return ++q->asked != q->refused;
}

static void a_caller_can_end_a_run(void **state) {
  (void)state;
  int calls = 0;
  const compute_model_operator own = {"", "Sleep", record_sleep, &calls, {0}};
  proto graph = graph_message("x", "y");
  add_node(&graph, "Sleep", "x", "a");
  add_node(&graph, "Sleep", "a", "b");
  add_node(&graph, "Sleep", "b", "y");
  compute_model *model =
      load(graph, &(compute_model_options){.operators = &own, .operator_count = 1});
  compute_tensor *x = numbers(1, (float[]){1});
  compute_model_binding in = {"x", x}, out = {"y", NULL};
  for (int refused = 0; refused <= 2; refused++) {
    question q = {.refused = refused, .thread = pthread_self()};
    const compute_model_run_options options = {.go_on = answer, .user = &q};
    calls = 0;
    const compute_status status = compute_model_run_with(model, &in, 1, &out, 1, &options);
    assert_int_equal(status, refused ? COMPUTE_ERROR_CANCELLED : COMPUTE_OK);
    assert_int_equal(q.asked, refused ? refused : 2);
    assert_int_equal(calls, refused ? refused : 3);
    if (refused) assert_null(out.tensor);
    if (!refused) assert_values(out.tensor, (float[]){4}, 1);
    compute_tensor_release(out.tensor);
    out.tensor = NULL;
  }
  compute_tensor_release(x);
  compute_model_release(model);
}

static void metadata_can_be_read(void **state) {
  (void)state;
  proto message = model_message(small_graph());
  put_metadata(&message, "character", "a\nb\n");
  put_metadata(&message, NULL, "x");
  put_metadata(&message, "character", NULL);
  compute_model *model = load_message(message, NULL), *bare = load(small_graph(), NULL);
  static const char *const expected[][2] = {{"character", "a\nb\n"}, {"", "x"}, {"character", ""}};
  const char *key = NULL, *value = NULL;
  assert_int_equal(compute_model_metadata_count(model), 3);
  for (size_t i = 0; i < 3; i++) {
    assert_ok(compute_model_metadata_at(model, i, &key, &value));
    assert_string_equal(key, expected[i][0]);
    assert_string_equal(value, expected[i][1]);
  }
  assert_fails(compute_model_metadata_at(model, 3, &key, &value), COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_model_metadata_at(model, 0, NULL, &value), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_model_metadata_at(model, 0, &key, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_int_equal(compute_model_metadata_count(bare), 0);
  assert_int_equal(compute_model_metadata_count(NULL), 0);
  compute_model_release(model);
  compute_model_release(bare);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_model_runs),
      cmocka_unit_test(weights_lie_anywhere),
      cmocka_unit_test(plans_are_kept_by_size),
      cmocka_unit_test(results_may_depend_on_values),
      cmocka_unit_test(threads_share_a_model),
      cmocka_unit_test(runs_do_not_wait_for_plans_of_others),
      cmocka_unit_test(all_missing_operators_are_named),
      cmocka_unit_test(wrong_bindings_are_named),
      cmocka_unit_test(operators_can_be_added),
      cmocka_unit_test(weights_can_be_trained_and_written),
      cmocka_unit_test(single_numbers_can_be_trained),
      cmocka_unit_test(parts_need_their_inputs),
      cmocka_unit_test(a_caller_can_end_a_run),
      cmocka_unit_test(metadata_can_be_read),
  };
  const int failures = cmocka_run_group_tests(tests, test_group_open, test_group_close);
  for (size_t i = 0; i < message_count; i++) free(messages[i]);
  return failures;
}
