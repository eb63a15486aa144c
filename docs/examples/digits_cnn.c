/* SPDX-License-Identifier: MIT */
/* Trains a small residual network to read handwritten digits, saves it, and reads digits with the
 * saved weights.
 *
 *   cc digits_cnn.c $(pkg-config --cflags --libs compute) -o digits_cnn
 *   ./digits_cnn --save net.safetensors bench/data/digits.csv.gz
 *   ./digits_cnn --predict net.safetensors bench/data/digits.csv.gz
 *
 * The 1797 images of 8×8 pixels are divided as in digits.c: 1437 train the network, and the other
 * 360 test it on digits that it has never seen. Everything random has a fixed seed, and the random
 * numbers of libcompute are the same on every device.
 *
 * A trainer combines the network, the loss, the optimizer and its schedule. Reading digits needs no
 * trainer: the network is recorded in a graph and compiled for inference, in the process that
 * trained it as in any other; both print the same digest of all results. */
#include <compute/compute.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  SIDE = 8,
  PIXELS = SIDE * SIDE,
  CLASSES = 10,
  COLUMNS = PIXELS + 1,
  TRAIN = 1437,
  TEST = 360,
  IMAGES = TRAIN + TEST,
  BATCH = 32
};

static const double wanted_accuracy = 0.985;

typedef struct settings {
  const char *data, *device, *save, *predict, *table;
  int64_t epochs;
  uint64_t seed;
} settings;

typedef struct program {
  compute_context *context;
  compute_device *device;
  compute_device_info info;
  compute_layer *net;
  compute_dataset *train, *test;
  compute_tensor *test_images; /* [TEST,1,SIDE,SIDE], 0 … 16 */
  int64_t test_labels[TEST];
} program;

static int complain(const char *what) {
  fprintf(stderr, "digits_cnn: %s\n", what);
  return 1;
}

/* ---- Data ---------------------------------------------------------------------------------- */

/* A small generator for shuffling; SplitMix64 by Steele, Lea and Flood, 2014. */
static uint64_t random_next(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* Copies `count` images and labels, starting at `pixels` and `digits`, to the device, and makes a
 * data set of them. */
static compute_status make_set(program *p, int64_t count, const float *pixels,
                               const int64_t *digits, compute_tensor **images,
                               compute_dataset **set) {
  compute_tensor *labels = NULL;
  compute_status s = compute_tensor_from_host(p->device, COMPUTE_F32,
                                              COMPUTE_SHAPE(count, 1, SIDE, SIDE), pixels, images);
  if (!s)
    s = compute_tensor_from_host(p->device, COMPUTE_I64, COMPUTE_SHAPE(count), digits, &labels);
  if (!s) s = compute_dataset_from_tensors(p->context, *images, labels, set);
  compute_tensor_release(labels);
  return s;
}

/* Reads the table and divides its rows between the two sets. */
static compute_status load_data(program *p, const char *path) {
  static float table[IMAGES][COLUMNS], pixels[IMAGES][PIXELS];
  static int64_t digits[IMAGES];
  compute_tensor *csv = NULL, *train_images = NULL;
  compute_status s = compute_csv_read(p->device, path, COMPUTE_F32, NULL, &csv);
  if (!s && !compute_shape_equal(compute_tensor_shape(csv), COMPUTE_SHAPE(IMAGES, COLUMNS))) {
    complain("the file does not hold 1797 rows of 65 columns");
    s = COMPUTE_ERROR_FORMAT;
  }
  if (!s) s = compute_tensor_read(csv, table, sizeof table);
  compute_tensor_release(csv);
  if (s) return s;

  int order[IMAGES];
  uint64_t state = 1;
  for (int i = 0; i < IMAGES; i++) order[i] = i;
  for (int i = IMAGES - 1; i > 0; i--) {
    int j = (int)(random_next(&state) % (uint64_t)(i + 1)), kept = order[i];
    order[i] = order[j];
    order[j] = kept;
  }
  for (int i = 0; i < IMAGES; i++) {
    memcpy(pixels[i], table[order[i]], sizeof pixels[i]);
    digits[i] = (int64_t)table[order[i]][PIXELS];
  }
  memcpy(p->test_labels, digits + TRAIN, sizeof p->test_labels);
  s = make_set(p, TRAIN, pixels[0], digits, &train_images, &p->train);
  compute_tensor_release(train_images);
  if (!s) s = make_set(p, TEST, pixels[TRAIN], digits + TRAIN, &p->test_images, &p->test);
  return s;
}

/* ---- The network --------------------------------------------------------------------------- */

static compute_layer *convolution(compute_device *d, int64_t inputs, int64_t outputs,
                                  int64_t kernel, int64_t stride) {
  return compute_conv2d_layer(
      d, inputs, outputs, kernel,
      &(compute_conv2d_layer_options){.weights.no_bias = true, /* batch norm has its own */
                                      .stride = {stride},
                                      .padding = {kernel / 2}});
}

/* Two convolutions with a shortcut around them, projected where they change the shape; after He et
 * al., 2016 (arXiv:1512.03385). */
static compute_layer *block(compute_device *d, int64_t inputs, int64_t outputs, int64_t stride) {
  compute_layer *body = compute_sequential(
      (compute_layer *[]){convolution(d, inputs, outputs, 3, stride),
                          compute_batch_norm_layer(d, outputs, NULL),
                          compute_activation(COMPUTE_RELU), convolution(d, outputs, outputs, 3, 1),
                          compute_batch_norm_layer(d, outputs, NULL)},
      5);
  if (inputs == outputs && stride == 1) return compute_residual(body, compute_identity());
  return compute_residual(
      body, compute_sequential((compute_layer *[]){convolution(d, inputs, outputs, 1, stride),
                                                   compute_batch_norm_layer(d, outputs, NULL)},
                               2));
}

/* Parameters are called "stem.weight", "block2.shortcut.0.weight", … */
static compute_layer *network(compute_device *d) {
  return compute_sequential(
      (compute_layer *[]){
          compute_layer_name(convolution(d, 1, 16, 3, 1), "stem"),
          compute_batch_norm_layer(d, 16, NULL), compute_activation(COMPUTE_RELU),
          compute_layer_name(block(d, 16, 16, 1), "block1"), compute_activation(COMPUTE_RELU),
          compute_layer_name(block(d, 16, 32, 2), "block2"), compute_activation(COMPUTE_RELU),
          compute_global_average_pool(), compute_dropout_layer(0.2),
          compute_layer_name(compute_dense(d, 32, CLASSES, NULL), "head")},
      10);
}

static compute_status show(const program *p) {
  char *table = compute_layer_summary(p->net, COMPUTE_F32, COMPUTE_SHAPE(BATCH, 1, SIDE, SIDE));
  if (!table) return COMPUTE_ERROR_OUT_OF_MEMORY;
  fputs(table, stdout);
  compute_text_free(table);
  return COMPUTE_OK;
}

/* ---- Training ------------------------------------------------------------------------------ */

/* Pixels 0 … 16 as 0 … 1. While the network trains, each image is moved by −1, 0 or 1 columns,
 * drawn by `seed`, which changes from step to step: it learns digits, not positions. */
static compute_node prepare(void *user, compute_graph *g, compute_node x, bool training,
                            compute_node seed) {
  (void)user;
  if (training) {
    compute_shape shape = compute_node_shape(g, x), images = {4, {shape.size[0], 1, 1, 1}};
    compute_node draw = compute_random_uniform(g, COMPUTE_F32, images, seed, 100);
    compute_node three = compute_floor(g, compute_mul(g, draw, compute_scalar(g, COMPUTE_F32, 3)));
    compute_node columns = compute_add(g, compute_index(g, COMPUTE_I32, shape, 3),
                                       compute_cast(g, three, COMPUTE_I32));
    compute_node wide = compute_pad(g, x, 3, 1, 1, COMPUTE_PAD_CONSTANT, 0);
    x = compute_gather_elements(g, wide, columns, 3);
  }
  return compute_mul(g, x, compute_scalar(g, COMPUTE_F32, 1.0 / 16));
}

static bool progress(void *user, const compute_training_progress *now) {
  (void)user;
  if (now->step + 1 < now->steps) return true;
  printf("epoch %2" PRId64 " of %" PRId64 "   loss %.4f   rate %.5f   %.0f images/s\n",
         now->epoch + 1, now->epochs, now->loss, now->learning_rate, now->items_per_second);
  fflush(stdout);
  return true; /* false would stop */
}

static compute_status train(program *p, const settings *o) {
  compute_trainer *trainer = NULL;
  compute_training_score score;
  compute_status s = compute_layer_initialize(p->net, COMPUTE_INIT_KAIMING_NORMAL, o->seed);
  if (!s)
    s = compute_trainer_create(
        p->context,
        &(compute_trainer_options){
            .model = p->net,
            .input = {COMPUTE_F32, COMPUTE_SHAPE(1, SIDE, SIDE)},
            .target = {COMPUTE_I64, COMPUTE_SCALAR},
            .batch = BATCH,
            .loss = COMPUTE_LOSS_CROSS_ENTROPY,
            .label_smoothing = 0.1,
            .optimizer = {.kind = COMPUTE_ADAMW, .learning_rate = 0.008, .weight_decay = 0.01},
            .schedule = {.kind = COMPUTE_SCHEDULE_COSINE, .warm_up = TRAIN / BATCH},
            .seed = o->seed,
            .devices = &p->device,
            .device_count = 1,
            .prepare = prepare},
        &trainer);
  if (!s)
    s = compute_trainer_run(
        trainer, p->train,
        &(compute_trainer_run_options){.epochs = o->epochs, .progress = progress}, NULL);
  if (!s) s = compute_trainer_evaluate(trainer, p->test, &score);
  if (!s) printf("trained: loss %.4f on the held-out digits\n", score.loss);
  compute_trainer_release(trainer);
  return s;
}

/* ---- Reading digits ------------------------------------------------------------------------ */

/* The network's results for the held-out images, [TEST][CLASSES]. */
static compute_status infer(program *p, float (*results)[CLASSES]) {
  compute_graph *g = compute_graph_create(p->context);
  compute_node images = compute_input(g, COMPUTE_F32, compute_tensor_shape(p->test_images));
  compute_node y =
      compute_layer_apply(p->net, g, prepare(NULL, g, images, false, (compute_node){0}), NULL);
  compute_plan *plan = NULL;
  compute_tensor *out = NULL;
  compute_status s = compute_compile(
      g, &y, 1, &(compute_plan_options){.device = p->device, .name = "digits"}, &plan);
  if (!s) s = compute_plan_create_tensor(plan, y, &out);
  if (!s) s = compute_run(plan, (compute_binding[]){{images, p->test_images}, {y, out}}, 2, NULL);
  if (!s) s = compute_tensor_read(out, results, sizeof(float[TEST][CLASSES]));
  compute_tensor_release(out);
  compute_plan_release(plan);
  compute_graph_release(g);
  return s;
}

/* Accuracy, and a digest (FNV-1a) of all results to the last bit. */
static compute_status test(program *p, double *accuracy) {
  static float results[TEST][CLASSES];
  compute_status s = infer(p, results);
  if (s) return s;
  int right = 0;
  for (int i = 0; i < TEST; i++) {
    int64_t best = 0;
    for (int64_t c = 1; c < CLASSES; c++)
      if (results[i][c] > results[i][best]) best = c;
    right += best == p->test_labels[i];
  }
  uint64_t digest = UINT64_C(0xcbf29ce484222325);
  const unsigned char *bytes = (const unsigned char *)results;
  for (size_t i = 0; i < sizeof results; i++)
    digest = (digest ^ bytes[i]) * UINT64_C(0x100000001b3);
  *accuracy = (double)right / TEST;
  printf("accuracy %.4f on %d held-out digits, digest of the results %016" PRIx64 " (device %s)\n",
         *accuracy, TEST, digest, p->info.name);
  return COMPUTE_OK;
}

/* ---- Weights as text ----------------------------------------------------------------------- */

static compute_status write_tensor(FILE *file, const compute_layer_parameter *parameter) {
  compute_tensor *t = parameter->tensor;
  char shape[200];
  int64_t count = compute_tensor_count(t);
  compute_dtype dtype = compute_tensor_dtype(t);
  size_t bytes = (size_t)count * compute_dtype_size(dtype);
  void *values = malloc(bytes);
  if (!values) return COMPUTE_ERROR_OUT_OF_MEMORY;
  compute_status s = compute_tensor_read(t, values, bytes);
  fprintf(file, "%s\t%s\t%s\t", parameter->name, compute_dtype_name(dtype),
          compute_shape_text(compute_tensor_shape(t), shape, sizeof shape));
  for (int64_t i = 0; i < count && !s; i++) {
    if (dtype == COMPUTE_I64)
      fprintf(file, "%" PRId64 " ", ((int64_t *)values)[i]);
    else
      fprintf(file, "%.9g ", (double)((float *)values)[i]); /* enough digits for each float */
  }
  fputc('\n', file);
  free(values);
  return s;
}

/* A line for each parameter and statistic: name, dtype, shape, values. */
static compute_status write_table(const program *p, const char *path) {
  FILE *file = fopen(path, "w");
  compute_status s = file ? COMPUTE_OK : COMPUTE_ERROR_FILE;
  for (size_t i = 0; i < compute_layer_parameter_count(p->net) && !s; i++) {
    compute_layer_parameter parameter;
    s = compute_layer_parameter_at(p->net, i, &parameter);
    if (!s) s = write_tensor(file, &parameter);
  }
  if (file && fclose(file) && !s) s = COMPUTE_ERROR_FILE;
  if (s == COMPUTE_ERROR_FILE) perror(path);
  return s;
}

/* ---- The program --------------------------------------------------------------------------- */

static int help(void) {
  printf("usage: digits_cnn [OPTIONS] FILE\n"
         "Trains a small residual network on the digits in FILE (bench/data/digits.csv.gz) and\n"
         "tests it on 360 others.\n\n"
         "  --device NAME    cpu, cuda:0, opencl:0, …; default: the fastest\n"
         "  --epochs N       passes over the images (default: 10)\n"
         "  --seed N         for weights, order and dropout (default: 1)\n"
         "  --save PATH      writes the weights, as .safetensors or .npz\n"
         "  --predict PATH   reads the weights from PATH and does not train\n"
         "  --table PATH     writes names, dtypes, shapes and values of the weights as text\n\n"
         "Ends with status 1 after an error or when the accuracy is below %.3f.\n",
         wanted_accuracy);
  return 0;
}

/* A positive whole number, or 0 if invalid. */
static int64_t number(const char *text) {
  char *end;
  long long value = strtoll(text, &end, 10);
  return *text && !*end && value > 0 ? value : 0;
}

static bool read_arguments(int count, char **arguments, settings *o) {
  *o = (settings){.epochs = 10, .seed = 1};
  for (int i = 1; i < count; i++) {
    const char *name = arguments[i], *value = i + 1 < count ? arguments[i + 1] : "";
    if (strncmp(name, "--", 2) != 0 && !o->data) {
      o->data = name;
      continue;
    }
    i++;
    if (!strcmp(name, "--device"))
      o->device = value;
    else if (!strcmp(name, "--save"))
      o->save = value;
    else if (!strcmp(name, "--predict"))
      o->predict = value;
    else if (!strcmp(name, "--table"))
      o->table = value;
    else if (!strcmp(name, "--epochs"))
      o->epochs = number(value);
    else if (!strcmp(name, "--seed"))
      o->seed = (uint64_t)number(value);
    else
      return false;
    if (!*value || !o->epochs || !o->seed) return false;
  }
  return o->data != NULL;
}

static compute_status run(program *p, const settings *o, double *accuracy) {
  compute_status s = compute_open(&p->context, &(compute_open_options){.device = o->device});
  p->device = compute_default_device(p->context);
  if (!s) s = compute_device_describe(p->device, &p->info);
  if (!s) s = load_data(p, o->data);
  if (!s && !(p->net = network(p->device))) s = COMPUTE_ERROR_INVALID_STATE;
  if (!s && o->predict) s = compute_layer_load(p->net, o->predict, 0);
  if (!s && !o->predict) s = show(p);
  if (!s && !o->predict) s = train(p, o);
  if (!s) s = test(p, accuracy);
  if (!s && o->save) s = compute_layer_save(p->net, o->save);
  if (!s && o->table) s = write_table(p, o->table);
  return s;
}

int main(int argc, char **argv) {
  static program p;
  settings o;
  if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) return help();
  if (!read_arguments(argc, argv, &o)) {
    complain("wrong arguments; see digits_cnn --help");
    return 2;
  }
  double accuracy = 0;
  compute_status s = run(&p, &o, &accuracy);
  if (s) {
    compute_error error = {0};
    compute_error_get(NULL, &error);
    if (error.status) complain(error.message);
    if (error.remedy[0]) complain(error.remedy);
  } else if (accuracy < wanted_accuracy) {
    fprintf(stderr, "digits_cnn: accuracy %.4f, expected at least %.3f\n", accuracy,
            wanted_accuracy);
  }
  compute_tensor_release(p.test_images);
  compute_dataset_release(p.train);
  compute_dataset_release(p.test);
  compute_layer_release(p.net);
  compute_close(p.context);
  return s || accuracy < wanted_accuracy;
}
