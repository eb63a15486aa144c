/* SPDX-License-Identifier: MIT */
/* In a forked child, every public function refuses the parent's objects at once, even if other
 * threads were inside the library at the fork: fork_calls [FORKS]. rows.h, which fork_calls.py
 * writes, has one row per function. */
#include <compute/compute.h>
#include <compute/dlpack.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The beginning of DLPack's struct, up to the deleter. */
struct DLManagedTensor {
  struct {
    void *data;
    int32_t device[2], dimensions;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
  } tensor;
  void *owner;
  void (*deleter)(struct DLManagedTensor *self);
};

/* One object of each type; NULL if this machine cannot create one. */
static struct {
  compute_context *context;
  compute_device *device;
  compute_queue *queue;
  compute_event *event;
  compute_kernel *kernel;
  compute_tensor *tensor;
  compute_plan *plan;
  compute_graph *graph;
  compute_model *model;
  compute_batch *batch;
  compute_fit *fit;
  compute_trainer *trainer;
  compute_layer *layer;
  compute_dataset *dataset;
  compute_process_group *process_group;
  compute_group_request *group_request;
  compute_job *job;
} objects;

#include "rows.h"

static struct DLManagedTensor *shared_before;
static atomic_bool stop;
static compute_node x, y;

#define MUST(call)                                                                                 \
  do {                                                                                             \
    if (call) {                                                                                    \
      printf("%s: %s\n", #call, compute_error_message(NULL));                                      \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

/* ---- Objects ------------------------------------------------------------------------------- */

static void build(void *user, compute_graph *graph, int64_t items, const compute_node *inputs,
                  compute_node *outputs) {
  (void)user;
  (void)items;
  outputs[0] = compute_exp(graph, inputs[0]);
}

static void make_graph(void) {
  objects.graph = compute_graph_create(objects.context);
  x = compute_input(objects.graph, COMPUTE_F32, COMPUTE_SHAPE(64, 64));
  y = compute_exp(objects.graph, compute_matmul(objects.graph, x, x));
  const compute_model_value in = {"x", x}, out = {"y", y};
  MUST(compute_graph_save_onnx(objects.graph, &in, 1, &out, 1, "fork_calls.onnx", NULL));
  MUST(compute_model_load(objects.context, "fork_calls.onnx", NULL, &objects.model));
  MUST(compute_compile(objects.graph, &y, 1, NULL, &objects.plan));
}

static void make_learners(void) {
  compute_tensor *targets;
  const compute_batch_port port = {.dtype = COMPUTE_F32, .item = COMPUTE_SHAPE(64)};
  const compute_batch_options batch = {.build = build,
                                       .inputs = &port,
                                       .input_count = 1,
                                       .output_count = 1,
                                       .batch = 4,
                                       .name = "rows"};
  const compute_fit_options fit = {
      .problem = {.model = COMPUTE_FIT_XYNB, .rows = 9, .columns = 9, .sigma = {1.3f, 1.3f}}};
  MUST(compute_batch_create(objects.context, &batch, &objects.batch));
  MUST(compute_fit_create(objects.context, &fit, &objects.fit));
  objects.layer = compute_dense(objects.device, 64, 64, NULL);
  if (!objects.layer) MUST(COMPUTE_ERROR_INTERNAL);
  const compute_trainer_options trainer = {.model = objects.layer,
                                           .input = port,
                                           .target = port,
                                           .batch = 4,
                                           .loss = COMPUTE_LOSS_MEAN_SQUARED_ERROR,
                                           .optimizer = {.learning_rate = 0.1}};
  MUST(compute_trainer_create(objects.context, &trainer, &objects.trainer));
  MUST(compute_tensor_full(objects.device, COMPUTE_F32, COMPUTE_SHAPE(64, 64), 1, &targets));
  MUST(compute_dataset_from_tensors(objects.context, objects.tensor, targets, &objects.dataset));
}

static void make_objects(void) {
  compute_tensor *result;
  MUST(compute_open(&objects.context, &(compute_open_options){.device = "cpu", .threads = 3}));
  objects.device = compute_default_device(objects.context);
  MUST(compute_tensor_full(objects.device, COMPUTE_F32, COMPUTE_SHAPE(64, 64), 1, &objects.tensor));
  MUST(compute_queue_create(objects.device, &objects.queue));
  MUST(compute_event_record(objects.queue, &objects.event));
  if (compute_kernel_compile(objects.device, "KERNEL void k(void) {}", "k", NULL,
                             COMPUTE_KERNEL_PORTABLE, &objects.kernel))
    objects.kernel = NULL; /* no compiler */
  make_graph();
  make_learners();
  MUST(compute_group_open(objects.context, &(compute_group_options){.transport = "none"},
                          &objects.process_group));
  MUST(compute_group_all_reduce(objects.process_group, COMPUTE_GROUP_SUM, objects.tensor,
                                objects.tensor, NULL, &objects.group_request));
  MUST(compute_plan_create_tensor(objects.plan, y, &result));
  MUST(compute_submit(objects.plan, (compute_binding[]){{x, objects.tensor}, {y, result}}, 2, NULL,
                      &objects.job));
  MUST(compute_job_wait(objects.job, 0));
  MUST(compute_tensor_to_dlpack(objects.tensor, NULL, &shared_before));
  MUST(compute_profile_start(objects.context, NULL));
}

/* ---- Load ---------------------------------------------------------------------------------- */

static void quiet(void *user, compute_log_level level, const char *module, const char *message) {
  (void)user;
  (void)level;
  (void)module;
  (void)message;
}

static compute_status run_kernels(void) {
  compute_tensor *a, *b = NULL;
  compute_model_binding out = {"y", NULL};
  compute_job *job = NULL;
  compute_status s = compute_tensor_full(objects.device, COMPUTE_F32, COMPUTE_SHAPE(64, 64), 1, &a);
  if (s) return s;
  s = compute_tensor_matmul(a, a, &b);
  if (!s) s = compute_submit(objects.plan, (compute_binding[]){{x, a}, {y, b}}, 2, NULL, &job);
  if (!s) s = compute_job_wait(job, 0);
  if (!s) s = compute_model_run(objects.model, &(compute_model_binding){"x", a}, 1, &out, 1);
  compute_log_set(quiet, NULL, COMPUTE_LOG_DEBUG);
  compute_job_release(job);
  compute_tensor_release(out.tensor);
  compute_tensor_release(b);
  compute_tensor_release(a);
  return s;
}

/* Uses the state that all contexts of the process share: the lists of contexts, errors, scopes. */
static compute_status open_and_close(void) {
  compute_context *own;
  compute_tensor *a;
  compute_status s = compute_open(&own, &(compute_open_options){.device = "cpu", .threads = 2});
  if (s) return s;
  s = compute_memory_scope_push(own);
  if (!s)
    s = compute_tensor_full(compute_default_device(own), COMPUTE_F32, COMPUTE_SHAPE(8), 1, &a);
  if (!s && compute_tensor_full(NULL, COMPUTE_F32, COMPUTE_SHAPE(8), 1, &a) == COMPUTE_OK)
    s = COMPUTE_ERROR_INTERNAL;
  if (!s) s = compute_memory_scope_pop(own);
  return s ? s : compute_close(own);
}

static compute_status run_batches(void) {
  static float pixels[40][81], results[40][64];
  compute_batch_result result;
  const compute_batch_run_options batch = {.items = 20,
                                           .sources = (compute_batch_source[]){{.array = pixels}},
                                           .sinks = (compute_batch_sink[]){{.array = results}}};
  compute_fit_summary summary;
  float parameters[40 * COMPUTE_FIT_MAX_PARAMETERS];
  const compute_status s = compute_batch_run(objects.batch, &batch, &result);
  if (s) return s;
  const compute_fit_run_options fit = {
      .count = 40, .pixels = {.array = pixels}, .results = {.parameters = parameters}};
  return compute_fit_run(objects.fit, &fit, &summary);
}

static compute_status share_tensors(void) {
  struct DLManagedTensor *shared;
  char *text = NULL;
  compute_status s = compute_tensor_to_dlpack(objects.tensor, NULL, &shared);
  if (s) return s;
  shared->deleter(shared);
  s = compute_profile_text(objects.context, &text);
  compute_text_free(text);
  return s ? s : compute_group_barrier(objects.process_group);
}

static compute_status (*const works[])(void) = {run_kernels, open_and_close, run_batches,
                                                share_tensors};
enum { THREADS = sizeof works / sizeof *works };

static atomic_int ended;

static void *work(void *once) {
  compute_status (*const *function)(void) = once;
  compute_status s = COMPUTE_OK;
  while (!stop && !s) s = (*function)();
  if (s) printf("a busy thread: %s\n", compute_error_message(NULL));
  ended += s != COMPUTE_OK;
  return NULL;
}

/* ---- The child ----------------------------------------------------------------------------- */

/* Uses a new context in the child. */
static int use_own(void) {
  compute_context *own;
  compute_tensor *a, *b;
  float value = 0;
  if (compute_open(&own, &(compute_open_options){.device = "cpu", .threads = 2})) return 0;
  const int right = !compute_tensor_full(compute_default_device(own), COMPUTE_F32,
                                         COMPUTE_SHAPE(100, 100), 1, &a) &&
                    !compute_tensor_matmul(a, a, &b) &&
                    !compute_tensor_sum(b, COMPUTE_ALL_AXES, false, &b) &&
                    !compute_tensor_read(b, &value, sizeof value);
  return right && value == 1e6f;
}

static int in_child(void) {
  int wrong = 0;
  alarm(60);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (!*rows[i].object) continue;
    compute_error_clear(NULL);
    if (!rows[i].call()) {
      printf("%s does not refuse: %s\n", rows[i].name, compute_error_message(NULL));
      wrong++;
    }
  }
  shared_before->deleter(shared_before);
  if (compute_close(objects.context) != COMPUTE_ERROR_INVALID_STATE ||
      !strstr(compute_error_message(NULL), "forked"))
    wrong += printf("compute_close: %s\n", compute_error_message(NULL)) > 0;
  if (!use_own()) wrong += printf("own context: %s\n", compute_error_message(NULL)) > 0;
  fflush(stdout);
  return wrong != 0;
}

int main(int argc, char **argv) {
  const int forks = argc > 1 ? atoi(argv[1]) : 40;
  pthread_t thread[THREADS];
  int failed = 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  make_objects();
  for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, work, (void *)&works[i]);
  for (int i = 0; i < forks && !failed; i++) {
    usleep((useconds_t)(rand() % 3000));
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) _exit(in_child());
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) printf("fork %d: signal %d (14: it hung)\n", i, WTERMSIG(status));
    failed = status != 0;
  }
  stop = true;
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  if (!objects.kernel) puts("not called, as there is no compiler: functions of kernels");
  printf("%d forks, %zu functions\n", forks, sizeof rows / sizeof *rows);
  return failed || ended;
}
