/* SPDX-License-Identifier: MIT */
/* Trains a small network to read handwritten digits.
 *
 *   cc digits.c $(pkg-config --cflags --libs compute) -o digits
 *   ./digits bench/data/digits.csv.gz [device]
 *
 * 1797 images of 8×8 pixels; 1437 of them train a 64-128-10 network with a hidden layer of relu,
 * the other 360 test it on digits that it has never seen. A fixed shuffle divides the images: the
 * file is ordered by writer, and the handwriting of the last ones differs from the rest. Everything
 * random has a fixed seed and the random numbers of libcompute are the same on every device, so
 * every device starts from the same weights and sees the same batches.
 *
 * One graph, two plans: a training step (forward, loss, gradients, Adam's update of the weights)
 * and the prediction for the held-out images. The images stay on the device; a step gets only the
 * indices of the images in its batch. */
#include <compute/compute.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  PIXELS = 64,
  HIDDEN = 128,
  CLASSES = 10,
  COLUMNS = PIXELS + 1,
  TRAIN = 1437,
  TEST = 360,
  IMAGES = TRAIN + TEST,
  BATCH = 32,
  STEPS = TRAIN / BATCH, /* of one epoch; the few images left over differ from epoch to epoch */
  EPOCHS = 30
};

static const double wanted_accuracy = 0.96;

typedef struct network {
  compute_context *context;
  compute_device *device;
  compute_device_info info;
  compute_tensor *images, *labels, *test_images; /* [TRAIN,PIXELS], [TRAIN], [TEST,PIXELS] */
  int64_t test_labels[TEST];
  compute_tensor *weights[4]; /* hidden weights, hidden bias, output weights, output bias */
  compute_graph *graph;
  compute_node rows, loss, step, prediction;
  compute_plan *train, *predict;
  compute_tensor *row_values, *loss_value, *predicted; /* what the plans read and write */
} network;

/* A small generator for shuffling; SplitMix64 by Steele, Lea and Flood, 2014. */
static uint64_t random_next(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static void shuffle(int32_t *values, int32_t count, uint64_t *state) {
  for (int32_t i = count - 1; i > 0; i--) {
    int32_t j = (int32_t)(random_next(state) % (uint64_t)(i + 1)), kept = values[i];
    values[i] = values[j];
    values[j] = kept;
  }
}

static int complain(const char *what) {
  fprintf(stderr, "digits: %s\n", what);
  return 1;
}

/* Reads the table and divides its rows between the two sets. */
static compute_status load(network *n, const char *path) {
  static float table[IMAGES][COLUMNS], pixels[IMAGES][PIXELS];
  static int64_t digits[IMAGES];
  compute_tensor *csv = NULL;
  compute_status s = compute_csv_read(n->device, path, COMPUTE_F32, NULL, &csv);
  if (!s && !compute_shape_equal(compute_tensor_shape(csv), COMPUTE_SHAPE(IMAGES, COLUMNS))) {
    complain("the file does not hold 1797 rows of 65 columns");
    s = COMPUTE_ERROR_FORMAT;
  }
  if (!s) s = compute_tensor_read(csv, table, sizeof table);
  compute_tensor_release(csv);
  if (s) return s;

  int32_t order[IMAGES];
  uint64_t state = 1;
  for (int32_t i = 0; i < IMAGES; i++) order[i] = i;
  shuffle(order, IMAGES, &state);
  for (int32_t i = 0; i < IMAGES; i++) {
    memcpy(pixels[i], table[order[i]], sizeof pixels[i]);
    digits[i] = (int64_t)table[order[i]][PIXELS];
  }
  memcpy(n->test_labels, digits + TRAIN, sizeof n->test_labels);
  s = compute_tensor_from_host(n->device, COMPUTE_F32, COMPUTE_SHAPE(TRAIN, PIXELS), pixels,
                               &n->images);
  if (!s)
    s = compute_tensor_from_host(n->device, COMPUTE_I64, COMPUTE_SHAPE(TRAIN), digits, &n->labels);
  if (!s)
    s = compute_tensor_from_host(n->device, COMPUTE_F32, COMPUTE_SHAPE(TEST, PIXELS), pixels[TRAIN],
                                 &n->test_images);
  return s;
}

/* Weights uniform within ±sqrt(6 / inputs), after He et al., 2015 (arXiv:1502.01852); biases 0. */
static compute_status create_weights(network *n) {
  compute_device *d = n->device;
  compute_status s = compute_tensor_random(d, COMPUTE_F32, COMPUTE_SHAPE(PIXELS, HIDDEN), -0.306,
                                           0.306, 11, &n->weights[0]);
  if (!s) s = compute_tensor_full(d, COMPUTE_F32, COMPUTE_SHAPE(HIDDEN), 0, &n->weights[1]);
  if (!s)
    s = compute_tensor_random(d, COMPUTE_F32, COMPUTE_SHAPE(HIDDEN, CLASSES), -0.217, 0.217, 12,
                              &n->weights[2]);
  if (!s) s = compute_tensor_full(d, COMPUTE_F32, COMPUTE_SHAPE(CLASSES), 0, &n->weights[3]);
  return s;
}

/* The network's answer before softmax, for images [batch,PIXELS] with values 0 … 16. */
static compute_node logits(compute_graph *g, compute_node images, const compute_node *w) {
  compute_node x = compute_mul(g, images, compute_scalar(g, COMPUTE_F32, 1.0 / 16));
  compute_node hidden = compute_relu(g, compute_add(g, compute_matmul(g, x, w[0]), w[1]));
  return compute_add(g, compute_matmul(g, hidden, w[2]), w[3]);
}

static compute_status build(network *n) {
  compute_graph *g = n->graph = compute_graph_create(n->context);
  compute_node w[4];
  for (int i = 0; i < 4; i++) w[i] = compute_parameter(g, n->weights[i]);

  n->rows = compute_input(g, COMPUTE_I32, COMPUTE_SHAPE(BATCH));
  compute_node images = compute_gather(g, compute_parameter(g, n->images), n->rows, 0);
  compute_node labels = compute_gather(g, compute_parameter(g, n->labels), n->rows, 0);
  n->loss = compute_cross_entropy(g, logits(g, images, w), labels);
  n->step = compute_adam_step(g, n->loss, w, 4, &(compute_adam_options){.learning_rate = 0.002});
  n->prediction = compute_argmax(g, logits(g, compute_parameter(g, n->test_images), w), 1, false);

  compute_plan_options options = {.device = n->device, .name = "digits: train"};
  compute_status s = compute_compile(g, (compute_node[]){n->loss, n->step}, 2, &options, &n->train);
  options.name = "digits: predict";
  if (!s) s = compute_compile(g, &n->prediction, 1, &options, &n->predict);
  if (!s) s = compute_plan_create_tensor(n->train, n->rows, &n->row_values);
  if (!s) s = compute_plan_create_tensor(n->train, n->loss, &n->loss_value);
  if (!s) s = compute_plan_create_tensor(n->predict, n->prediction, &n->predicted);
  return s;
}

/* One pass over the training images in a new order; *loss is the mean over its steps. */
static compute_status train_epoch(network *n, int32_t *order, uint64_t *state, double *loss) {
  compute_status s = COMPUTE_OK;
  *loss = 0;
  shuffle(order, TRAIN, state);
  for (int i = 0; i < STEPS && !s; i++) {
    float value = 0;
    s = compute_tensor_write(n->row_values, order + i * BATCH, BATCH * sizeof *order);
    if (!s)
      s = compute_run(n->train,
                      (compute_binding[]){{n->rows, n->row_values}, {n->loss, n->loss_value}}, 2,
                      NULL);
    if (!s) s = compute_tensor_read(n->loss_value, &value, sizeof value);
    *loss += (double)value / STEPS;
  }
  return s;
}

static compute_status test(network *n, double *accuracy) {
  int64_t predicted[TEST];
  compute_status s =
      compute_run(n->predict, &(compute_binding){n->prediction, n->predicted}, 1, NULL);
  if (!s) s = compute_tensor_read(n->predicted, predicted, sizeof predicted);
  int right = 0;
  for (int i = 0; i < TEST && !s; i++) right += predicted[i] == n->test_labels[i];
  *accuracy = (double)right / TEST;
  return s;
}

static compute_status train(network *n, double *accuracy) {
  compute_status s = COMPUTE_OK;
  int32_t order[TRAIN];
  uint64_t state = 2;
  for (int32_t i = 0; i < TRAIN; i++) order[i] = i;
  for (int epoch = 1; epoch <= EPOCHS && !s; epoch++) {
    double loss;
    s = train_epoch(n, order, &state, &loss);
    if (!s) s = test(n, accuracy);
    if (s) break;
    printf("epoch %2d of %d   loss %.4f   accuracy %.4f\n", epoch, EPOCHS, loss, *accuracy);
    fflush(stdout);
  }
  return s;
}

static void release(network *n) {
  compute_tensor *tensors[] = {n->images,     n->labels,     n->test_images, n->weights[0],
                               n->weights[1], n->weights[2], n->weights[3],  n->row_values,
                               n->loss_value, n->predicted};
  for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) compute_tensor_release(tensors[i]);
  compute_plan_release(n->train);
  compute_plan_release(n->predict);
  compute_graph_release(n->graph);
  compute_close(n->context);
}

int main(int argc, char **argv) {
  if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
    printf("usage: digits FILE [DEVICE]\n"
           "Trains a 64-128-10 network on the digits in FILE (bench/data/digits.csv.gz) on DEVICE\n"
           "(cpu, cuda:0, …; the fastest by default) and tests it on 360 others.\n"
           "Ends with status 1 after an error or when the accuracy is below %.2f.\n",
           wanted_accuracy);
    return 0;
  }
  if (argc < 2 || argc > 3) return complain("usage: digits FILE [DEVICE]; see digits --help");

  static network n;
  double accuracy = 0;
  compute_status s =
      compute_open(&n.context, &(compute_open_options){.device = argc > 2 ? argv[2] : NULL});
  n.device = compute_default_device(n.context);
  if (!s) s = compute_device_describe(n.device, &n.info);
  if (!s) s = load(&n, argv[1]);
  if (!s) s = create_weights(&n);
  if (!s) s = build(&n);
  if (!s) s = train(&n, &accuracy);
  if (s) {
    compute_error error = {0};
    compute_error_get(NULL, &error);
    if (error.status) complain(error.message);
    if (error.remedy[0]) complain(error.remedy);
  } else {
    printf("accuracy %.4f on %d held-out digits (device %s)\n", accuracy, TEST, n.info.name);
    if (accuracy < wanted_accuracy)
      fprintf(stderr, "digits: accuracy %.4f, expected at least %.2f\n", accuracy, wanted_accuracy);
  }
  release(&n);
  return s || accuracy < wanted_accuracy;
}
