/* SPDX-License-Identifier: MIT */
/* The program of index.html: trains the network of digits.c, writes it as an ONNX file, and reads
 * drawn digits with that or another ONNX file. digits_worker.js calls these functions; they return
 * 0, or a status whose message is reader_message(). One thread calls them. */
#define main digits_main /* the page calls its parts */
#include "../examples/digits.c"
#undef main

#define EXPORTED __attribute__((used, visibility("default")))

static network all;
static double held_out;
static compute_model *model;
static compute_model_port input, output;
static compute_tensor *image;
static const char *refused; /* the reader's own message, or NULL */

EXPORTED const char *reader_message(void);
EXPORTED const char *reader_instructions(void);
EXPORTED int reader_threads(void);
EXPORTED int reader_open(void);
EXPORTED int reader_train(const char *images, const char *onnx);
EXPORTED double reader_accuracy(void);
EXPORTED int reader_load(const char *onnx);
EXPORTED int reader_read(const float *pixels, float *scores);

const char *reader_message(void) {
  return refused ? refused : compute_error_message(NULL);
}

/* The instruction set of the CPU backend. */
const char *reader_instructions(void) {
  return all.info.isa;
}

int reader_threads(void) {
  return (int)all.info.compute_units;
}

int reader_open(void) {
  compute_status s = compute_open(&all.context, &(compute_open_options){.device = "cpu"});
  all.device = compute_default_device(all.context);
  if (!s) s = compute_device_describe(all.device, &all.info);
  return (int)s;
}

/* The graph of one image with the trained weights, as an ONNX file. */
static compute_status save(const network *n, const char *path) {
  compute_graph *g = compute_graph_create(n->context);
  compute_node w[4];
  for (int i = 0; i < 4; i++) w[i] = compute_parameter(g, n->weights[i]);
  const compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(1, PIXELS));
  const compute_node y = compute_softmax(g, logits(g, x, w), 1);
  const compute_status s = compute_graph_save_onnx(
      g, &(compute_model_value){"image", x}, 1, &(compute_model_value){"scores", y}, 1, path, NULL);
  compute_graph_release(g);
  return s;
}

/* Trains the network with the file `images`, and writes it to the file `onnx`. */
int reader_train(const char *images, const char *onnx) {
  network n = {.context = all.context, .device = all.device};
  compute_status s = load(&n, images);
  if (!s) s = create_weights(&n);
  if (!s) s = build(&n);
  if (!s) s = train(&n, &held_out);
  if (!s) s = save(&n, onnx);
  n.context = NULL; /* stays open */
  release(&n);
  return (int)s;
}

/* Of the last training, on images that it has not seen. */
double reader_accuracy(void) {
  return held_out;
}

static int refuse(const char *words) {
  refused = words;
  return COMPUTE_ERROR_INVALID_ARGUMENT;
}

/* Loads a model of one image: 64 values of f32 in, 10 values of f32 out, in any shape. */
int reader_load(const char *onnx) {
  compute_model *loaded = NULL;
  refused = NULL;
  const compute_model_options options = {.device = all.device, .files = COMPUTE_MODEL_COPY};
  compute_status s = compute_model_load(all.context, onnx, &options, &loaded);
  if (s) return (int)s;
  compute_model_release(model);
  compute_tensor_release(image);
  model = loaded;
  image = NULL;
  if (compute_model_input_count(model) != 1 || compute_model_output_count(model) < 1)
    return refuse("the model must have one input and an output");
  s = compute_model_input_at(model, 0, &input);
  if (!s) s = compute_model_output_at(model, 0, &output);
  if (s) return (int)s;
  compute_shape shape = {.rank = input.rank};
  int64_t values = 1;
  for (int32_t i = 0; i < input.rank; i++) { /* an open size is the batch */
    shape.size[i] = input.size[i] < 0 ? 1 : input.size[i];
    values *= shape.size[i] <= PIXELS ? shape.size[i] : PIXELS + 1;
    if (values > PIXELS) break;
  }
  if (input.rank < 1 || values != PIXELS || input.dtype != COMPUTE_F32 ||
      output.dtype != COMPUTE_F32)
    return refuse("the model's input must be one image of 64 values of f32, its output f32");
  return (int)compute_tensor_create(all.device, COMPUTE_F32, shape, &image);
}

/* Runs the model with 64 values of 0 … 16, and writes 10 scores. */
int reader_read(const float *pixels, float *scores) {
  refused = NULL;
  if (!image) return refuse("no model is loaded");
  compute_model_binding result = {output.name, NULL};
  compute_status s = compute_tensor_write(image, pixels, PIXELS * sizeof *pixels);
  if (!s) s = compute_model_run(model, &(compute_model_binding){input.name, image}, 1, &result, 1);
  if (!s) s = compute_tensor_read(result.tensor, scores, CLASSES * sizeof *scores);
  compute_tensor_release(result.tensor);
  return (int)s;
}
