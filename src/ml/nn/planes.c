/* SPDX-License-Identifier: MIT */
/* Layers over planes: convolution, transposed convolution, pooling. */
#include <inttypes.h>

#include "core/base/arithmetic.h"
#include "core/base/error.h"
#include "ml/nn/layer.h"

static compute_node bias_of(const compute_layer *layer, const layer_record *record, compute_node x,
                            const compute_node *parameters) {
  if (layer->own_count == 1) return (compute_node){0};
  return layer_weight_for(record, parameters[1], x);
}

static compute_node apply(const compute_layer *layer, layer_record *record, compute_node x,
                          const compute_node *parameters) {
  return compute_conv2d(record->graph, x, layer_weight_for(record, parameters[0], x),
                        bias_of(layer, record, x, parameters), &layer->as.conv);
}

static compute_node apply_transpose(const compute_layer *layer, layer_record *record,
                                    compute_node x, const compute_node *parameters) {
  return compute_conv2d_transpose(record->graph, x, layer_weight_for(record, parameters[0], x),
                                  bias_of(layer, record, x, parameters), &layer->as.conv);
}

static const layer_kind conv2d = {"conv2d", apply};
static const layer_kind conv2d_transpose = {"conv2d_transpose", apply_transpose};

/* Values that a constructor computes before it creates a layer. */
typedef struct conv_call {
  const char *operation;
  compute_context *context;
  int64_t inputs, outputs, kernel[2];
  compute_weights_options weights;
  compute_conv2d_options conv;
} conv_call;

static compute_status check_groups(const conv_call *call) {
  const int64_t groups = call->conv.groups;
  if (groups < 1 || groups > INT32_MAX)
    return error_set(call->context, COMPUTE_ERROR_INVALID_ARGUMENT, call->operation,
                     "groups is %" PRId64 "; it must be 1 … 2^31 − 1 (0 means 1)", groups);
  if (call->inputs % groups == 0 && call->outputs % groups == 0) return COMPUTE_OK;
  return error_set(call->context, COMPUTE_ERROR_SHAPE, call->operation,
                   "%" PRId64 " groups do not divide %" PRId64 " inputs and %" PRId64 " outputs",
                   groups, call->inputs, call->outputs);
}

/* A stride or dilation with its default. */
static int64_t step_of(const int64_t *given, int i) {
  return given[i] ? given[i] : i && given[0] ? given[0] : 1;
}

/* Checks strides, dilation and padding. The graph's builder would refuse them only when the layer
 * is used. */
static compute_status check_steps(const conv_call *call, bool transposed) {
  const compute_conv2d_options *o = &call->conv;
  const char *wrong = NULL;
  for (int i = 0; i < 2; i++) {
    const int64_t stride = step_of(o->stride, i), dilation = step_of(o->dilation, i);
    const int64_t more = o->output_padding[i];
    if (stride < 1) wrong = "stride must not be negative";
    if (dilation < 1) wrong = "dilation must not be negative";
    if (o->padding[i] < 0) wrong = "padding must not be negative (padding[1] may be -1)";
    if (o->padding_more[i] < -o->padding[i]) wrong = "padding_more must be at least -padding";
    if (!transposed && more != 0) wrong = "only transposed convolution has output_padding";
    if (more < 0 || (transposed && more > 0 && more >= stride && more >= dilation))
      wrong = "output_padding must be at least 0 and less than stride or dilation";
  }
  if (!wrong) return COMPUTE_OK;
  return error_set(call->context, COMPUTE_ERROR_INVALID_ARGUMENT, call->operation, "%s", wrong);
}

static compute_status read_call(conv_call *call, int64_t kernel,
                                const compute_conv2d_layer_options *given, bool transposed) {
  static const compute_conv2d_layer_options usual;
  const compute_conv2d_layer_options *o = given ? given : &usual;
  const bool square = o->kernel[0] == 0 && o->kernel[1] == 0;
  compute_status status = error_if_reserved(call->context, call->operation, "options", o->reserved);
  if (!status)
    status = layer_check_weights(call->context, call->operation, "options.weights", &o->weights,
                                 &call->weights);
  if (!status) status = layer_check_size(call->context, call->operation, "inputs", call->inputs);
  if (!status) status = layer_check_size(call->context, call->operation, "outputs", call->outputs);
  call->conv.groups = o->groups == 0 ? 1 : o->groups;
  for (int i = 0; i < 2; i++) {
    call->kernel[i] = o->kernel[i] == 0 ? kernel : o->kernel[i];
    /* With a square kernel, {1} means both axes. */
    const bool same = i == 1 && (o->padding[1] == -1 || (square && o->padding[1] == 0));
    call->conv.padding[i] = same ? o->padding[0] : o->padding[i];
    call->conv.padding_more[i] = o->padding_more[i];
    call->conv.stride[i] = o->stride[i];
    call->conv.dilation[i] = o->dilation[i];
    const bool same_more = i == 1 && square && o->output_padding[1] == 0;
    call->conv.output_padding[i] = same_more ? o->output_padding[0] : o->output_padding[i];
    if (!status)
      status = layer_check_size(call->context, call->operation, "kernel", call->kernel[i]);
  }
  if (!status) status = check_steps(call, transposed);
  return status ? status : check_groups(call);
}

static compute_layer *create(const char *operation, const layer_kind *kind, compute_device *device,
                             int64_t inputs, int64_t outputs, int64_t kernel,
                             const compute_conv2d_layer_options *given) {
  if (layer_check_device(device, operation)) return NULL;
  const bool transposed = kind == &conv2d_transpose;
  conv_call call = {.operation = operation,
                    .context = compute_device_context(device),
                    .inputs = inputs,
                    .outputs = outputs};
  if (read_call(&call, kernel, given, transposed)) return NULL;
  /* As in PyTorch, the fans of the transposed form follow the tensor's shape, not the
   * arithmetic. */
  const int64_t first = transposed ? inputs : outputs;
  const int64_t second = (transposed ? outputs : inputs) / call.conv.groups;
  int64_t area, fan_in, fan_out;
  if (!checked_multiply(call.kernel[0], call.kernel[1], &area) ||
      !checked_multiply(area, second, &fan_in) || !checked_multiply(area, first, &fan_out)) {
    error_set(call.context, COMPUTE_ERROR_OVERFLOW, operation,
              "the number of weights exceeds 63 bits");
    return NULL;
  }
  compute_layer *layer = layer_create(kind, operation, call.context);
  if (!layer) return NULL;
  layer->as.conv = call.conv;
  const layer_wish weight = {.name = "weight",
                             .dtype = call.weights.dtype,
                             .shape = COMPUTE_SHAPE(first, second, call.kernel[0], call.kernel[1]),
                             .fan_in = fan_in,
                             .fan_out = fan_out};
  const layer_wish bias = {.name = "bias",
                           .dtype = call.weights.dtype,
                           .shape = COMPUTE_SHAPE(outputs),
                           .role = ROLE_BIAS,
                           .fan_in = fan_in};
  compute_status status = layer_add(layer, operation, device, &weight);
  if (!status && !call.weights.no_bias) status = layer_add(layer, operation, device, &bias);
  return layer_finish(layer, operation, status, call.weights.initializer, call.weights.seed);
}

compute_layer *compute_conv2d_layer(compute_device *device, int64_t inputs, int64_t outputs,
                                    int64_t kernel, const compute_conv2d_layer_options *options) {
  if (IS_INHERITED(device, context)) return NULL;
  return create("compute_conv2d_layer", &conv2d, device, inputs, outputs, kernel, options);
}

compute_layer *compute_conv2d_transpose_layer(compute_device *device, int64_t inputs,
                                              int64_t outputs, int64_t kernel,
                                              const compute_conv2d_layer_options *options) {
  if (IS_INHERITED(device, context)) return NULL;
  return create("compute_conv2d_transpose_layer", &conv2d_transpose, device, inputs, outputs,
                kernel, options);
}

/* ---- Pooling ------------------------------------------------------------------------------- */

static compute_node apply_pool(const compute_layer *layer, layer_record *record, compute_node x,
                               const compute_node *parameters) {
  (void)parameters;
  const compute_pool2d_options *options = &layer->as.pool.options;
  return layer->as.pool.average ? compute_average_pool2d(record->graph, x, options)
                                : compute_max_pool2d(record->graph, x, options);
}

static compute_node apply_global_pool(const compute_layer *layer, layer_record *record,
                                      compute_node x, const compute_node *parameters) {
  (void)layer;
  (void)parameters;
  return compute_global_average_pool2d(record->graph, x);
}

static const layer_kind max_pool = {"max_pool", apply_pool};
static const layer_kind average_pool = {"average_pool", apply_pool};
static const layer_kind global_average_pool = {"global_average_pool", apply_global_pool};

/* Returns the reason why the options are invalid, or NULL. The builder would report it only when
 * the layer is used. */
static const char *pool_problem(const compute_pool2d_options *o, bool average) {
  for (int i = 0; i < 2; i++) {
    if (o->size[i] < 1) return "size must be at least 1";
    if (o->stride[i] < 0) return "stride must not be negative";
    if (o->dilation[i] < 0) return "dilation must not be negative";
    if (o->padding[i] < 0 ||
        (o->padding[i] > 0 && (o->padding[i] - 1) / step_of(o->dilation, i) >= o->size[i] - 1))
      return "padding must be at least 0 and less than a window";
    if (o->padding_more[i] < -o->padding[i]) return "padding_more must be at least -padding";
  }
  return !average && o->exclude_padding ? "only average pooling has exclude_padding" : NULL;
}

static compute_layer *create_pool(const char *operation, const layer_kind *kind, int64_t size,
                                  const compute_pool2d_options *given) {
  compute_pool2d_options o = given ? *given : (compute_pool2d_options){0};
  const bool average = kind == &average_pool;
  const bool square = o.size[0] == 0 && o.size[1] == 0;
  for (int i = 0; i < 2; i++)
    if (o.size[i] == 0) o.size[i] = i == 1 && !square ? o.size[0] : size;
  /* With a square window, {1} means both axes. */
  if (o.padding[1] == -1 || (square && o.padding[1] == 0)) o.padding[1] = o.padding[0];
  if (error_if_reserved(NULL, operation, "options", o.reserved)) return NULL;
  const char *wrong = pool_problem(&o, average);
  if (wrong) {
    error_set(NULL, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
              "%s; size is %" PRId64 " × %" PRId64 ", padding %" PRId64 " × %" PRId64, wrong,
              o.size[0], o.size[1], o.padding[0], o.padding[1]);
    return NULL;
  }
  compute_layer *layer = layer_create(kind, operation, NULL);
  if (!layer) return NULL;
  layer->as.pool.options = o;
  layer->as.pool.average = average;
  return layer;
}

compute_layer *compute_max_pool(int64_t size, const compute_pool2d_options *options) {
  return create_pool("compute_max_pool", &max_pool, size, options);
}

compute_layer *compute_average_pool(int64_t size, const compute_pool2d_options *options) {
  return create_pool("compute_average_pool", &average_pool, size, options);
}

compute_layer *compute_global_average_pool(void) {
  return layer_create(&global_average_pool, "compute_global_average_pool", NULL);
}
