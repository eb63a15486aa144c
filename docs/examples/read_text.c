/* SPDX-License-Identifier: MIT */
/* Reads the text in a picture with PP-OCR's networks, from the Python package rapidocr-onnxruntime:
 * one finds text, one reads it, line by line.
 *
 *   cc read_text.c $(pkg-config --cflags --libs compute libpng) -lm -o read_text
 *   ./read_text DETECTION.onnx RECOGNITION.onnx PICTURE.png [DEVICE]
 *
 * Text must be upright. Prints for each line of text its box (left, top, width, height), the
 * network's confidence, and the text. */
#include <compute/compute.h>
#include <string.h>

#include "picture.h"

enum { LONGEST_SIDE = 1536, READ_HEIGHT = 48, READ_WIDTH = 320, STEP = 32 };
static const double text_above = 0.3, box_above = 0.5, line_above = 0.5, growth = 1.6;

static compute_status complain(const char *what) {
  fprintf(stderr, "read_text: %s\n", what);
  return COMPUTE_ERROR_FORMAT;
}

/* Runs a network of one input and one output on part `b`; *values is the caller's to free. */
static compute_status run(compute_context *context, compute_model *model, const picture *p, box b,
                          int width, int height, int row_width, compute_shape *shape,
                          float **values) {
  compute_model_port in = {0}, out = {0};
  const size_t count = 3 * (size_t)row_width * (size_t)height;
  float *pixels = calloc(count, sizeof *pixels);
  compute_tensor *x = NULL;
  compute_status s = pixels ? COMPUTE_OK : complain("out of memory");
  if (!s) sample(p, b, width, height, row_width, pixels);
  if (!s) s = compute_model_input_at(model, 0, &in);
  if (!s) s = compute_model_output_at(model, 0, &out);
  if (!s)
    s = compute_tensor_from_host(compute_default_device(context), COMPUTE_F32,
                                 COMPUTE_SHAPE(1, 3, height, row_width), pixels, &x);
  free(pixels);
  compute_model_binding input = {in.name, x}, output = {out.name, NULL};
  if (!s) s = compute_model_run(model, &input, 1, &output, 1);
  compute_tensor_release(x);
  if (s) return s;
  const size_t bytes = (size_t)compute_tensor_count(output.tensor) * sizeof **values;
  *shape = compute_tensor_shape(output.tensor);
  if (compute_tensor_dtype(output.tensor) != COMPUTE_F32 || !(*values = malloc(bytes + 1)))
    s = complain("the network's result has an unexpected dtype or shape");
  if (!s) s = compute_tensor_read(output.tensor, *values, bytes);
  compute_tensor_release(output.tensor);
  return s;
}

/* Removes the connected pixels above the threshold around `start` from the map. Returns whether
 * they are text, and their box, grown by as much as training had shrunk it (Liao et al. 2020). */
static bool take_box(float *map, int width, int height, int start, int *stack, box *found) {
  int left = width, right = 0, top = height, bottom = 0, waiting = 0, count = 0;
  double sum = map[start];
  stack[waiting++] = start;
  map[start] = 0;
  for (; waiting > 0; count++) {
    const int at = stack[--waiting], x = at % width, y = at / width;
    if (x < left) left = x;
    if (x > right) right = x;
    if (y < top) top = y;
    if (y > bottom) bottom = y;
    for (int k = 0; k < 9; k++) {
      const int u = x + k % 3 - 1, v = y + k / 3 - 1, next = v * width + u;
      if (u < 0 || v < 0 || u >= width || v >= height || map[next] <= text_above) continue;
      sum += map[next];
      map[next] = 0;
      stack[waiting++] = next;
    }
  }
  const double w = right - left + 1, h = bottom - top + 1, more = growth * w * h / (2 * (w + h));
  *found = (box){left - more, top - more, w + 2 * more, h + 2 * more};
  return w >= 3 && h >= 3 && sum / count > box_above;
}

/* All boxes in the picture's pixels, from top to bottom, and within a line from left to right. */
static compute_status find_boxes(compute_context *context, compute_model *model, const picture *p,
                                 box **boxes, size_t *count) {
  const int longest = p->width > p->height ? p->width : p->height;
  const double scale = longest > LONGEST_SIDE ? (double)LONGEST_SIDE / longest : 1;
  const int w = STEP * (int)ceil(p->width * scale / STEP);
  const int h = STEP * (int)ceil(p->height * scale / STEP);
  compute_shape shape;
  float *map = NULL;
  const box whole = {0, 0, p->width, p->height};
  compute_status s = run(context, model, p, whole, w, h, w, &shape, &map);
  if (!s && !compute_shape_equal(shape, COMPUTE_SHAPE(1, 1, h, w)))
    s = complain("the first network's result is not a map of the picture");
  int *stack = malloc((size_t)w * (size_t)h * sizeof *stack);
  *boxes = malloc((size_t)w * (size_t)h / 4 * sizeof **boxes); /* more could not be separate */
  if (!s && (!stack || !*boxes)) s = complain("out of memory");
  for (int i = 0; i < w * h && !s; i++) {
    box b;
    if (map[i] <= text_above || !take_box(map, w, h, i, stack, &b)) continue;
    b.left *= (double)p->width / w, b.width *= (double)p->width / w;
    b.top *= (double)p->height / h, b.height *= (double)p->height / h;
    size_t at = (*count)++;
    for (; at > 0; at--) { /* boxes are ordered by their tops */
      const box *before = &(*boxes)[at - 1];
      if (before->left < b.left || b.top > before->top + before->height / 2) break;
      (*boxes)[at] = *before;
    }
    (*boxes)[at] = b;
  }
  free(map);
  free(stack);
  return s;
}

/* The characters of a network: class 0 is no character, the last a space. *text becomes the
 * caller's. */
static compute_status load_characters(const compute_model *model, char **text, char ***characters,
                                      size_t *count) {
  const char *key, *value = NULL;
  for (size_t i = 0; i < compute_model_metadata_count(model); i++) {
    if (compute_model_metadata_at(model, i, &key, &value)) return COMPUTE_ERROR_FORMAT;
    if (!strcmp(key, "character")) break;
    value = NULL;
  }
  if (!value) return complain("the second network has no metadata called 'character'");
  *text = malloc(strlen(value) + 1);
  *characters = malloc((strlen(value) + 3) * sizeof **characters);
  if (!*text || !*characters) return complain("out of memory");
  strcpy(*text, value);
  (*characters)[(*count)++] = "";
  for (char *at = *text; *at; (*count)++) {
    (*characters)[*count] = at;
    at += strcspn(at, "\n");
    if (*at) *at++ = '\0';
  }
  (*characters)[(*count)++] = " ";
  return COMPUTE_OK;
}

/* The likeliest class at each position; equal neighbours are one character (CTC, Graves et al.
 * 2006). */
static compute_status read_line(compute_context *context, compute_model *model, const picture *p,
                                box b, char **characters, size_t classes) {
  const int wide = (int)limit(ceil(READ_HEIGHT * b.width / b.height), 1, 1 << 14);
  const int row = wide <= READ_WIDTH ? READ_WIDTH : (wide + STEP - 1) / STEP * STEP;
  compute_shape shape;
  float *scores = NULL;
  compute_status s = run(context, model, p, b, wide, READ_HEIGHT, row, &shape, &scores);
  if (!s && (shape.rank != 3 || shape.size[2] != (int64_t)classes))
    s = complain("the second network's classes do not match its metadata");
  size_t *line = s ? NULL : malloc((size_t)shape.size[1] * sizeof *line + 1), length = 0, last = 0;
  double sum = 0;
  for (int64_t t = 0; !s && line && t < shape.size[1]; t++) {
    const float *at = scores + (size_t)t * classes;
    size_t best = 0;
    for (size_t k = 1; k < classes; k++)
      if (at[k] > at[best]) best = k;
    if (best != last && best) sum += at[best], line[length++] = best;
    last = best;
  }
  if (length > 0 && sum / (double)length >= line_above) {
    printf("%.0f %.0f %.0f %.0f\t%.3f\t", b.left, b.top, b.width, b.height, sum / (double)length);
    for (size_t i = 0; i < length; i++) fputs(characters[line[i]], stdout);
    putchar('\n');
  }
  free(line);
  free(scores);
  return s;
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "--help"))
    return puts("usage: read_text DETECTION.onnx RECOGNITION.onnx PICTURE.png [DEVICE]\n"
                "Prints the lines of text in the picture: box, confidence, text."),
           0;
  if (argc < 4 || argc > 5) return complain("wrong arguments; see read_text --help"), 2;
  compute_context *context = NULL;
  compute_model *find = NULL, *read = NULL;
  picture p = {0};
  box *boxes = NULL;
  char *text = NULL, **characters = NULL;
  size_t count = 0, classes = 0;
  compute_status s = picture_load(&p, argv[3]) ? COMPUTE_OK : complain(p.problem);
  if (!s) s = compute_open(&context, &(compute_open_options){.device = argc > 4 ? argv[4] : NULL});
  if (!s) s = compute_model_load(context, argv[1], NULL, &find);
  if (!s) s = compute_model_load(context, argv[2], NULL, &read);
  if (!s) s = load_characters(read, &text, &characters, &classes);
  if (!s) s = find_boxes(context, find, &p, &boxes, &count);
  for (size_t i = 0; i < count && !s; i++)
    s = read_line(context, read, &p, boxes[i], characters, classes);
  compute_error error = {0};
  compute_error_get(NULL, &error);
  if (s && error.status) complain(error.message);
  compute_model_release(find), compute_model_release(read);
  compute_close(context);
  picture_release(&p);
  free(boxes), free(text), free(characters);
  return s ? 1 : 0;
}
