/* SPDX-License-Identifier: MIT */
/* Generates text, as token numbers, with a decoder whose caches have a fixed capacity.
 *
 *   cc decode.c $(pkg-config --cflags --libs compute) -o decode
 *   ./decode MODEL.onnx TOKENS ID [ID...]
 *
 * A step of the model takes one token, "ids" i64 [1, 1], its "position" i64 [1], and the caches
 * "past_…" [1, heads, capacity, size]; it gives "logits" f32 [1, 1, words] and the caches with the
 * token's key and value written at its position, "present_…" (TensorScatter of opset 24 or
 * ScatterND). Sizes stay the same from step to step, and so does the plan. bench/peers/networks.py
 * makes such a model: gpt2_cache. */
#include <compute/compute.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_PORTS = 256, PAST = 5, PRESENT = 8 }; /* lengths of "past_" and "present_" */

/* One decoding step. A cache is bound as an input and as an output, and so is updated in place.
 */
typedef struct decoder {
  compute_model *model;
  compute_device *device;
  compute_model_binding inputs[MOST_PORTS], outputs[MOST_PORTS];
  size_t input_count, output_count;
  compute_tensor *ids, *position;
  float *scores;
  int64_t words, capacity;
} decoder;

static int fail(compute_context *context, const char *what) {
  fprintf(stderr, "decode: %s: %s\n", what, compute_error_message(context));
  return 1;
}

static bool starts(const char *name, const char *with) {
  return strncmp(name, with, strlen(with)) == 0;
}

/* The name of the output that continues a cache; lives as long as the model. */
static const char *find_present(const decoder *d, const char *past) {
  compute_model_port port;
  for (size_t i = 0; !compute_model_output_at(d->model, i, &port); i++)
    if (starts(port.name, "present_") && strcmp(port.name + PRESENT, past + PAST) == 0)
      return port.name;
  return NULL;
}

/* A tensor of zeros for a cache of the model; symbolic sizes are those of one sequence. */
static compute_status add_cache(decoder *d, const compute_model_port *port) {
  const char *present = find_present(d, port->name);
  compute_shape shape = {.rank = port->rank};
  for (int32_t i = 0; i < port->rank; i++) shape.size[i] = port->size[i] < 0 ? 1 : port->size[i];
  if (!present || port->rank != 4 || d->input_count == MOST_PORTS) {
    fprintf(stderr, "decode: %s is not a cache with a matching output\n", port->name);
    return COMPUTE_ERROR_SHAPE;
  }
  d->capacity = shape.size[2];
  compute_model_binding *in = &d->inputs[d->input_count++], *out = &d->outputs[d->output_count++];
  *in = (compute_model_binding){port->name, NULL};
  const compute_status status = compute_tensor_full(d->device, port->dtype, shape, 0, &in->tensor);
  *out = (compute_model_binding){present, in->tensor};
  return status;
}

/* Inputs 0 and 1 are the token and its position, output 0 the scores; caches follow. */
static compute_status bind(decoder *d, compute_context *context) {
  compute_model_port port;
  d->device = compute_default_device(context);
  compute_status status =
      compute_tensor_create(d->device, COMPUTE_I64, COMPUTE_SHAPE(1, 1), &d->ids);
  if (!status)
    status = compute_tensor_create(d->device, COMPUTE_I64, COMPUTE_SHAPE(1), &d->position);
  d->inputs[d->input_count++] = (compute_model_binding){"ids", d->ids};
  d->inputs[d->input_count++] = (compute_model_binding){"position", d->position};
  d->outputs[d->output_count++] = (compute_model_binding){"logits", NULL};
  for (size_t i = 0; !status && i < compute_model_input_count(d->model); i++) {
    status = compute_model_input_at(d->model, i, &port);
    if (!status && starts(port.name, "past_")) status = add_cache(d, &port);
  }
  return status;
}

/* Runs one step; *next is the token with the highest score. */
static compute_status step(decoder *d, int64_t token, int64_t position, int64_t *next) {
  compute_status status = compute_tensor_write(d->ids, &token, sizeof token);
  if (!status) status = compute_tensor_write(d->position, &position, sizeof position);
  if (!status)
    status = compute_model_run(d->model, d->inputs, d->input_count, d->outputs, d->output_count);
  if (status) return status;
  compute_tensor *logits = d->outputs[0].tensor; /* created by the first run, then reused */
  d->words = compute_tensor_count(logits);
  if (!d->scores) d->scores = malloc((size_t)d->words * sizeof *d->scores);
  if (!d->scores) return COMPUTE_ERROR_OUT_OF_MEMORY;
  status = compute_tensor_read(logits, d->scores, (size_t)d->words * sizeof *d->scores);
  *next = 0;
  for (int64_t i = 1; !status && i < d->words; i++)
    if (d->scores[i] > d->scores[*next]) *next = i;
  return status;
}

static double now(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Feeds the prompt, token by token, and then each generated token. */
static compute_status generate(decoder *d, int64_t tokens, char **prompt, int64_t prompt_count) {
  int64_t token = 0;
  double started = now();
  compute_status status = COMPUTE_OK;
  for (int64_t at = 0; !status && at < prompt_count + tokens - 1; at++) {
    if (at < prompt_count) token = strtoll(prompt[at], NULL, 10);
    status = step(d, token, at, &token);
    if (at == 0) started = now(); /* the first one compiles the plan */
    if (!status && at >= prompt_count - 1) printf("%lld\n", (long long)token);
  }
  compute_model_info info;
  if (!status) status = compute_model_describe(d->model, &info);
  if (!status)
    fprintf(stderr, "%llu runs, %llu plan, %.2f ms a token\n", (unsigned long long)info.runs,
            (unsigned long long)info.plans_made, 1e3 * (now() - started) / (double)(info.runs - 1));
  return status;
}

static void release(decoder *d) {
  for (size_t i = 0; i < d->input_count; i++) compute_tensor_release(d->inputs[i].tensor);
  compute_tensor_release(d->outputs[0].tensor); /* the others are inputs, too */
  compute_model_release(d->model);
  free(d->scores);
}

int main(int argc, char **argv) {
  compute_context *context = NULL;
  decoder d = {0};
  const int64_t tokens = argc > 3 ? strtoll(argv[2], NULL, 10) : 0;
  if (tokens < 1) {
    fprintf(stderr, "usage: decode MODEL.onnx TOKENS ID [ID...]\n");
    return 2;
  }
  if (compute_open(&context, NULL)) return fail(NULL, "cannot open a device");
  int status = 0;
  if (compute_model_load(context, argv[1], NULL, &d.model))
    status = fail(context, "cannot load the model");
  else if (bind(&d, context))
    status = fail(context, "cannot create the caches");
  else if (d.capacity && argc - 3 + tokens - 1 > d.capacity)
    status = fprintf(stderr, "decode: the caches have room for %lld tokens\n",
                     (long long)d.capacity) > 0;
  else if (generate(&d, tokens, argv + 3, argc - 3))
    status = fail(context, "cannot decode");
  release(&d);
  compute_close(context);
  return status;
}
