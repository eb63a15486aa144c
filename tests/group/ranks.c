/* SPDX-License-Identifier: MIT */
/* One rank of the tests over MPI (mpi.sh), linked to the real library like a user's program.
 *
 *   ranks calls                    collective calls, their values, and a difference between ranks
 *   ranks gradients                collectives in a graph, and the gradient of all ranks' losses
 *   ranks gpus WORDS               calls on a GPU for each rank; WORDS describe the transport
 *   ranks train DATA CHECKPOINT    digits: a dense and a residual network, against one process
 *   ranks resume DATA CHECKPOINT   resumes from a checkpoint, against one process
 *   ranks divide DATA CHECKPOINT   digits with the optimizer's state divided, against undivided
 *   ranks stop FILE                rank 1 stops; the others must end with an error
 *   ranks die FILE                 the same if rank 1 is killed
 *   ranks late FILE                rank 1 of 2 does not open a second group
 *
 * In the last three, rank 0 writes its error to FILE. Status 0: as expected. Failed checks are
 * printed. */
#include <compute/compute.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static compute_context *context;
static compute_process_group *group;
static compute_group_info info;
static int failures;

#define CHECK(condition) check((condition), #condition, __LINE__)

static void check(int condition, const char *text, int line) {
  if (condition) return;
  compute_error error = {.status = COMPUTE_OK};
  compute_error_get(context, &error);
  printf("rank %d: line %d: %s; the last error: %s\n", info.rank, line, text, error.message);
  failures++;
}

/* ---- Calls --------------------------------------------------------------------------------- */

static void call_everything(void) {
  static const int64_t counts[] = {3, 5000, 1500001};
  CHECK(info.local_size == info.size && info.local_rank == info.rank && info.hosts == 1);
  for (int k = 0; k < 3; k++) {
    const int64_t n = counts[k];
    compute_tensor *x = NULL, *all = NULL, *part = NULL;
    CHECK(!compute_tensor_full(info.device, COMPUTE_F32, COMPUTE_SHAPE(n), info.rank + 1, &x));
    CHECK(!compute_tensor_full(info.device, COMPUTE_F32, COMPUTE_SHAPE(n * info.size), 0, &all));
    CHECK(!compute_tensor_full(info.device, COMPUTE_F32, COMPUTE_SHAPE(n), 0, &part));
    CHECK(!compute_group_all_gather(group, x, all, NULL, NULL));
    const float *seen = compute_tensor_data(all);
    for (int32_t r = 0; r < info.size; r++)
      CHECK(seen[r * n] == (float)(r + 1) && seen[(r + 1) * n - 1] == (float)(r + 1));
    CHECK(!compute_group_reduce_scatter(group, COMPUTE_GROUP_SUM, all, part, NULL, NULL));
    const float *own = compute_tensor_data(part);
    CHECK(own[0] == (float)(info.size * (info.rank + 1)) && own[n - 1] == own[0]);
    CHECK(!compute_group_all_reduce(group, COMPUTE_GROUP_SUM, x, x, NULL, NULL));
    const float *sum = compute_tensor_data(x);
    const float wanted = (float)(info.size * (info.size + 1) / 2);
    for (int64_t i = 0; i < n; i++)
      if (sum[i] != wanted) CHECK(sum[i] == wanted);
    if (info.size > 1 && info.rank < 2)
      CHECK(!(info.rank == 0 ? compute_group_send(group, all, 1, NULL, NULL)
                             : compute_group_receive(group, all, 0, NULL, NULL)));
    CHECK(!compute_group_broadcast(group, part, info.size - 1, NULL, NULL));
    CHECK(own[n - 1] == (float)(info.size * info.size));
    compute_tensor_release(x);
    compute_tensor_release(all);
    compute_tensor_release(part);
  }
  compute_process_group *second = NULL;
  CHECK(compute_group_open(context, NULL, &second) == COMPUTE_ERROR_INVALID_STATE);
  if (info.size == 1) return;
  CHECK(compute_group_agree(group, "trial", info.rank == 1 ? "b" : "a") ==
        COMPUTE_ERROR_INVALID_ARGUMENT);
  CHECK(!compute_group_barrier(group));
}

/* ---- Graphs -------------------------------------------------------------------------------- */

/* The loss of all ranks together. */
static double loss_at(const compute_plan *plan, compute_node in, compute_tensor *x,
                      compute_node loss, compute_tensor *value) {
  double sum = 0;
  CHECK(!compute_run(plan, (compute_binding[]){{in, x}, {loss, value}}, 2, NULL));
  CHECK(!compute_group_all_reduce(group, COMPUTE_GROUP_SUM, value, value, NULL, NULL));
  CHECK(!compute_tensor_read(value, &sum, sizeof sum));
  return sum;
}

/* Checks by differences: sum((all_reduce(x) · own weights)²) plus a term of a gather and a
 * scatter. */
static void check_gradients(void) {
  const double step = 1e-5;
  compute_graph *g = compute_graph_create(context);
  const compute_node in = compute_input(g, COMPUTE_F64, COMPUTE_SHAPE(3, 12));
  const compute_node own = compute_scalar(g, COMPUTE_F64, info.rank + 1);
  const compute_node sum = compute_all_reduce(g, group, COMPUTE_GROUP_SUM, compute_sin(g, in));
  const compute_node gathered = compute_all_gather(g, group, compute_mul(g, in, own), 1);
  const compute_node part =
      compute_reduce_scatter(g, group, COMPUTE_GROUP_MEAN, compute_exp(g, gathered), 1);
  const compute_node terms = compute_mul(g, compute_mul(g, sum, part), own);
  const compute_node loss = compute_sum(g, terms, COMPUTE_ALL_AXES, false);
  compute_node gradient;
  compute_plan *forward = NULL, *backward = NULL;
  compute_tensor *x = NULL, *value = NULL, *found = NULL;
  CHECK(!compute_gradients(g, loss, &in, 1, &gradient));
  CHECK(!compute_compile(g, &loss, 1, NULL, &forward));
  CHECK(!compute_compile(g, &gradient, 1, NULL, &backward));
  CHECK(!compute_tensor_full(info.device, COMPUTE_F64, COMPUTE_SHAPE(3, 12), 0, &x));
  CHECK(!compute_tensor_full(info.device, COMPUTE_F64, COMPUTE_SCALAR, 0, &value));
  CHECK(!compute_plan_create_tensor(backward, gradient, &found));
  double *at = compute_tensor_data(x);
  for (int i = 0; i < 36; i++) at[i] = 0.2 * sin(1.3 * i + info.rank);
  CHECK(!compute_run(backward, (compute_binding[]){{in, x}, {gradient, found}}, 2, NULL));
  for (int32_t r = 0; r < info.size; r++) {
    for (int i = 0; i < 36; i += 7) {
      const double kept = at[i], own_step = r == info.rank ? step : 0;
      at[i] = kept + own_step;
      const double more = loss_at(forward, in, x, loss, value);
      at[i] = kept - own_step;
      const double wanted = (more - loss_at(forward, in, x, loss, value)) / (2 * step);
      at[i] = kept;
      const double *given = compute_tensor_data(found);
      CHECK(r != info.rank || fabs(given[i] - wanted) < 1e-7 * (1 + fabs(wanted)));
    }
  }
  compute_tensor_release(x);
  compute_tensor_release(value);
  compute_tensor_release(found);
  compute_plan_release(forward);
  compute_plan_release(backward);
  compute_graph_release(g);
}

/* The parent finalizes MPI: a child ends without it. */
static void end_a_child(void) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(5);
    exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* ---- Training ------------------------------------------------------------------------------ */

/* Without batch norm, whose statistics cover only one rank's items. */
static compute_layer *block(compute_device *d, int64_t channels, uint64_t seed) {
  const compute_conv2d_layer_options first = {.weights.seed = seed, .padding = {1}};
  const compute_conv2d_layer_options second = {.weights.seed = seed + 1, .padding = {1}};
  return compute_residual(
      compute_sequential(
          (compute_layer *[]){compute_conv2d_layer(d, channels, channels, 3, &first),
                              compute_activation(COMPUTE_RELU),
                              compute_conv2d_layer(d, channels, channels, 3, &second)},
          3),
      compute_identity());
}

static compute_layer *residual_network(compute_device *d) {
  const compute_conv2d_layer_options stem = {.weights.seed = 1, .padding = {1}};
  return compute_sequential(
      (compute_layer *[]){compute_conv2d_layer(d, 1, 8, 3, &stem), block(d, 8, 2),
                          compute_activation(COMPUTE_RELU), block(d, 8, 4), compute_flatten(),
                          compute_dense(d, 512, 10, &(compute_weights_options){.seed = 6})},
      6);
}

static compute_layer *dense_network(compute_device *d) {
  return compute_sequential(
      (compute_layer *[]){compute_flatten(),
                          compute_dense(d, 64, 128, &(compute_weights_options){.seed = 1}),
                          compute_activation(COMPUTE_RELU),
                          compute_dense(d, 128, 10, &(compute_weights_options){.seed = 2})},
      4);
}

static compute_node scale(void *user, compute_graph *g, compute_node x, bool training,
                          compute_node seed) {
  (void)user;
  (void)training;
  (void)seed;
  return compute_mul(g, x, compute_scalar(g, COMPUTE_F32, 1.0 / 16));
}

/* ---- GPUs ---------------------------------------------------------------------------------- */

enum { GPU_COUNT = 1500001 };

static void check_values(const compute_tensor *tensor, int64_t count, float first, float more) {
  float *values = malloc((size_t)count * sizeof *values);
  CHECK(values && !compute_tensor_read(tensor, values, (size_t)count * sizeof *values));
  bool right = true;
  for (int64_t i = 0; values && i < count; i++)
    right &= values[i] == first + more * (float)(i / GPU_COUNT);
  CHECK(right);
  free(values);
}

/* Each rank's tensor holds its number plus one. */
static void exchange_on_gpus(const char *words) {
  compute_tensor *x = NULL, *all = NULL;
  char route[512] = "";
  CHECK(!compute_group_route(group, info.device, route, sizeof route));
  CHECK(strstr(route, words) != NULL);
  if (!strstr(route, words)) printf("rank %d: %s\n", info.rank, route);
  const float sum = (float)(info.size * (info.size + 1) / 2);
  CHECK(
      !compute_tensor_full(info.device, COMPUTE_F32, COMPUTE_SHAPE(GPU_COUNT), info.rank + 1, &x));
  CHECK(!compute_tensor_full(info.device, COMPUTE_F32,
                             COMPUTE_SHAPE((int64_t)GPU_COUNT * info.size), 0, &all));
  CHECK(!compute_group_all_gather(group, x, all, NULL, NULL));
  check_values(all, (int64_t)GPU_COUNT * info.size, 1, 1);
  CHECK(!compute_group_all_reduce(group, COMPUTE_GROUP_SUM, all, all, NULL, NULL));
  check_values(all, (int64_t)GPU_COUNT * info.size, (float)info.size, (float)info.size);
  CHECK(!compute_group_reduce_scatter(group, COMPUTE_GROUP_MEAN, all, x, NULL, NULL));
  check_values(x, GPU_COUNT, (float)(info.size * (info.rank + 1)), 0);
  compute_tensor_release(x);
  x = NULL;
  CHECK(
      !compute_tensor_full(info.device, COMPUTE_F32, COMPUTE_SHAPE(GPU_COUNT), info.rank + 1, &x));
  if (info.rank < 2)
    CHECK(!(info.rank ? compute_group_receive(group, x, 0, NULL, NULL)
                      : compute_group_send(group, x, 1, NULL, NULL)));
  if (info.rank == 1) check_values(x, GPU_COUNT, 1, 0);
  CHECK(!compute_group_all_reduce(group, COMPUTE_GROUP_SUM, x, x,
                                  &(compute_group_call_options){.fixed_order = true}, NULL));
  check_values(x, GPU_COUNT, sum - 1, 0);
  CHECK(!compute_group_broadcast(group, x, info.size - 1, NULL, NULL));
  check_values(x, GPU_COUNT, sum - 1, 0);
  compute_tensor_release(x);
  compute_tensor_release(all);
}

/* Trains a network with the group (NULL: alone), from checkpoint `load` to `save`. */
static compute_training_score train(compute_layer *net, compute_dataset *set, compute_dataset *test,
                                    compute_process_group *ranks, uint32_t flags, int64_t epochs,
                                    const char *load, const char *save) {
  compute_trainer *trainer = NULL;
  compute_training_score score = {0};
  const compute_trainer_options o = {
      .model = net,
      .input = {COMPUTE_F32, COMPUTE_SHAPE(1, 8, 8)},
      .target = {COMPUTE_I64, COMPUTE_SCALAR},
      .batch = 61, /* divisible by no number of ranks */
      .optimizer = {.kind = COMPUTE_SGD, .learning_rate = 0.05, .momentum = 0.9},
      .prepare = scale,
      .seed = 3,
      .flags = flags,
      .group = ranks};
  CHECK(!compute_trainer_create(context, &o, &trainer));
  if (!trainer) return score;
  if (load) CHECK(!compute_trainer_load(trainer, load));
  CHECK(!compute_trainer_run(
      trainer, set, &(compute_trainer_run_options){.epochs = epochs, .checkpoint = save}, NULL));
  CHECK(!compute_trainer_evaluate(trainer, test, &score));
  compute_trainer_release(trainer);
  return score;
}

static double distance(const compute_layer *a, const compute_layer *b) {
  double largest = 0, most = 0;
  for (size_t i = 0; i < compute_layer_parameter_count(a); i++) {
    compute_layer_parameter p, q;
    CHECK(!compute_layer_parameter_at(a, i, &p) && !compute_layer_parameter_at(b, i, &q));
    const float *x = compute_tensor_data(p.tensor), *y = compute_tensor_data(q.tensor);
    for (int64_t k = 0; k < compute_tensor_count(p.tensor); k++) {
      if (!(fabs((double)x[k] - (double)y[k]) <= most)) most = fabs((double)x[k] - (double)y[k]);
      if (fabs((double)x[k]) > largest) largest = fabs((double)x[k]);
    }
  }
  return most / largest;
}

/* Rank 0 also trains alone and compares. */
static void compare(compute_layer *(*network)(compute_device *), compute_dataset *set,
                    compute_dataset *test, int64_t epochs, double accuracy, const char *load,
                    const char *save) {
  compute_layer *together = network(info.device), *alone = network(info.device);
  CHECK(together && alone);
  const compute_training_score a = train(together, set, test, group, 0, epochs, load, save);
  if (info.rank == 0) {
    const compute_training_score b =
        train(alone, set, test, NULL, 0, epochs + (load ? epochs : 0), NULL, NULL);
    const double difference = distance(together, alone);
    printf("%d ranks: accuracy %.4f, alone %.4f; weights differ by %.2g\n", info.size, a.accuracy,
           b.accuracy, difference);
    CHECK(difference < 1e-6);
    CHECK(fabs(a.accuracy - b.accuracy) < 1e-9);
    CHECK(a.accuracy > accuracy);
  }
  compute_layer_release(together);
  compute_layer_release(alone);
}

/* The weights have the same bits, also after resuming with ranks that do not divide. */
static void divide(compute_dataset *set, compute_dataset *test, const char *path) {
  const uint32_t flags = COMPUTE_TRAIN_DIVIDE_STATE;
  compute_layer *with = dense_network(info.device), *without = dense_network(info.device);
  CHECK(with && without);
  train(with, set, test, group, flags, 1, NULL, path);
  train(with, set, test, group, 0, 1, path, NULL);
  train(without, set, test, group, 0, 2, NULL, NULL);
  CHECK(distance(with, without) == 0);
  compute_layer_release(with);
  compute_layer_release(without);
}

static void train_digits(const char *what, const char *data, const char *checkpoint) {
  compute_dataset *set = NULL, *test = NULL;
  CHECK(!compute_dataset_from_csv(context, data, -1, COMPUTE_SHAPE(1, 8, 8), &set));
  CHECK(set && !compute_dataset_split(set, 0.2, 1, &test));
  if (!test) return;
  if (strcmp(what, "divide") == 0) {
    divide(set, test, checkpoint);
  } else if (strcmp(what, "resume") == 0) {
    compare(dense_network, set, test, 4, 0.9, checkpoint, NULL);
  } else {
    compare(dense_network, set, test, 4, 0.9, NULL, checkpoint);
    compare(residual_network, set, test, 2, 0.9, NULL, NULL);
  }
  compute_dataset_release(set);
  compute_dataset_release(test);
}

/* ---- Faults -------------------------------------------------------------------------------- */

/* Reduces until rank 1 stops or dies; this rank must then see an error, the same one twice. */
static void lose_a_rank(int signal_number, const char *path) {
  compute_tensor *x = NULL;
  signal(SIGUSR1, SIG_IGN); /* MPICH's launcher reports a death with it */
  CHECK(!compute_tensor_full(info.device, COMPUTE_F32, COMPUTE_SHAPE(300000), 1, &x));
  compute_status status = COMPUTE_OK;
  for (int i = 0; i < 1000 && !status; i++) {
    if (i == 3 && info.rank == 1) raise(signal_number);
    if (i == 3 && info.rank == 2) sleep(1); /* arrives in time, but waits after rank 0's error */
    status = compute_group_all_reduce(group, COMPUTE_GROUP_MEAN, x, x, NULL, NULL);
  }
  CHECK(status == COMPUTE_ERROR_TIMEOUT || status == COMPUTE_ERROR_TRANSFER);
  CHECK(compute_group_barrier(group) == status);
  FILE *file = info.rank == 0 && !failures ? fopen(path, "w") : NULL;
  if (file) {
    fprintf(file, "rank 0: %s\n", compute_error_message(context));
    fclose(file);
  }
  /* The launcher waits for the stopped rank. */
  compute_group_member lost;
  CHECK(!compute_group_member_at(group, 1, &lost));
  if (info.rank == 2) kill((pid_t)lost.process, SIGKILL);
  compute_tensor_release(x);
}

/* Rank 0 opens another group alone. */
static void open_alone(const char *path) {
  compute_group_member other;
  CHECK(!compute_group_member_at(group, 1, &other));
  compute_group_close(group);
  group = NULL;
  if (info.rank == 1) pause();
  const compute_group_options options = {.timeout = 1};
  CHECK(compute_group_open(context, &options, &group) == COMPUTE_ERROR_TIMEOUT);
  FILE *file = fopen(path, "w");
  CHECK(file != NULL);
  if (file) {
    fprintf(file, "rank 0: %s\n", compute_error_message(context));
    CHECK(compute_group_open(context, NULL, &group) == COMPUTE_ERROR_TRANSFER);
    fprintf(file, "rank 0: %s\n", compute_error_message(context));
    fclose(file);
  }
  kill((pid_t)other.process, SIGTERM);
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "calls";
  const bool gpus = strcmp(what, "gpus") == 0;
  const compute_open_options options = {.device = gpus ? "cuda" : "cpu", .threads = 1};
  if (compute_open(&context, &options) || compute_group_open(context, NULL, &group)) {
    check(0, "open", __LINE__);
    return 1;
  }
  CHECK(!compute_group_query(group, &info));
  if (strcmp(what, "calls") == 0) call_everything();
  if (strcmp(what, "gradients") == 0) check_gradients();
  if (gpus && argc > 2) exchange_on_gpus(argv[2]);
  if (argc > 3) train_digits(what, argv[2], argv[3]);
  if (argc > 2 && strcmp(what, "stop") == 0) lose_a_rank(SIGSTOP, argv[2]);
  if (argc > 2 && strcmp(what, "die") == 0) lose_a_rank(SIGKILL, argv[2]);
  if (argc > 2 && strcmp(what, "late") == 0) open_alone(argv[2]);
  if (failures == 0 && info.rank == 0)
    printf("%s: %d ranks over %s\n", what, info.size, info.transport);
  compute_group_close(group);
  if (strcmp(what, "calls") == 0) end_a_child();
  CHECK(!compute_close(context));
  return failures > 0;
}
