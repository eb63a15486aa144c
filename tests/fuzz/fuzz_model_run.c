/* SPDX-License-Identifier: MIT */
/* Runs models. The bytes are a recipe for a model with a few nodes of any operators. Attributes,
 * sizes and values, some of them wild, are inputs and constants. The model is computed or refused
 * with a message; a second run does the same; nothing leaks.
 *
 * Four bytes select a node: they choose its operator and seed the generator of its other
 * properties. Memory is limited, so that no recipe takes long. */
#include <stdio.h>
#include <string.h>

#include "compute/compute.h"
#include "fuzz.h"
#include "model/onnx.h"
#include "model/record.h"
#include "onnx/limits.h"
#include "onnx/message.h"

enum { MOST_NODES = 6, MOST_INPUTS = 6, MOST_OUTPUTS = 3, MOST_VALUES = 48, MOST_ELEMENTS = 96 };

static compute_context *context;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  FUZZ_CHECK(limits_open(&context));
  return 0;
}

/* ---- Drawing -------------------------------------------------------------------------------- */

typedef struct draw {
  uint64_t state;
} draw;

static uint64_t next(draw *d) {
  uint64_t z = d->state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

static uint32_t below(draw *d, uint32_t count) {
  return (uint32_t)(next(d) % count);
}

/* Mostly small; sometimes at the edges of a range. */
static int64_t integer(draw *d) {
  static const int64_t wild[] = {INT64_MIN, INT64_MAX,        -1, INT32_MAX, INT32_MIN, -8,
                                 65536,     INT64_C(1) << 40, 9,  1000003};
  return below(d, 24) ? (int64_t)below(d, 6) - (below(d, 4) == 0 ? 3 : 0)
                      : wild[below(d, sizeof wild / sizeof *wild)];
}

static float number(draw *d) {
  static const uint32_t wild[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x7f7fffff, 1, 0x80000000};
  float value;
  if (below(d, 16)) return (float)((int32_t)below(d, 33) - 16) / 8;
  memcpy(&value, &wild[below(d, sizeof wild / sizeof *wild)], sizeof value);
  return value;
}

/* ---- Values --------------------------------------------------------------------------------- */

typedef struct value {
  char name[16];
  int32_t type; /* onnx_type */
  compute_shape shape;
  bool constant;
  _Alignas(8) uint8_t data[MOST_ELEMENTS * 8];
  size_t bytes;
} value;

typedef struct recipe {
  value values[MOST_VALUES]; /* the values after `given` are results of nodes */
  uint32_t count, given;
} recipe;

static void fill(draw *d, value *v, int64_t count) {
  v->bytes = (size_t)count * compute_dtype_size(onnx_dtype(v->type));
  for (size_t i = 0; i < (size_t)count; i++) {
    const int64_t whole = integer(d);
    const float real = number(d);
    const double wide = (double)real;
    switch (v->type) {
    case ONNX_FLOAT: memcpy(v->data + 4 * i, &real, 4); break;
    case ONNX_DOUBLE: memcpy(v->data + 8 * i, &wide, 8); break;
    case ONNX_INT64: memcpy(v->data + 8 * i, &whole, 8); break;
    case ONNX_INT32: memcpy(v->data + 4 * i, &(int32_t){(int32_t)whole}, 4); break;
    case ONNX_BOOL: v->data[i] = whole & 1; break;
    default:
      for (size_t k = 0; k < compute_dtype_size(onnx_dtype(v->type)); k++)
        v->data[i * compute_dtype_size(onnx_dtype(v->type)) + k] = (uint8_t)next(d);
    }
  }
}

static void draw_value(draw *d, value *v, uint32_t number_of) {
  static const int32_t types[] = {ONNX_FLOAT, ONNX_FLOAT, ONNX_FLOAT,   ONNX_FLOAT,   ONNX_INT64,
                                  ONNX_INT64, ONNX_INT64, ONNX_INT32,   ONNX_BOOL,    ONNX_DOUBLE,
                                  ONNX_UINT8, ONNX_INT8,  ONNX_FLOAT16, ONNX_BFLOAT16};
  snprintf(v->name, sizeof v->name, "v%u", number_of);
  v->type = types[below(d, sizeof types / sizeof *types)];
  v->constant = below(d, 2);
  const bool list = v->type == ONNX_INT64 && below(d, 4);
  v->shape.rank = list ? (int32_t)below(d, 2) : (int32_t)below(d, 5);
  int64_t count = 1;
  for (int32_t i = 0; i < v->shape.rank; i++) {
    const int64_t size = below(d, 12) ? 1 + below(d, 4) : 0;
    v->shape.size[i] = count * size > MOST_ELEMENTS ? 1 : size;
    count *= v->shape.size[i];
  }
  fill(d, v, count);
}

/* ---- The model ------------------------------------------------------------------------------ */

static void put_value(message *graph, uint32_t field, const char *name) {
  message info = {0};
  message_text(&info, 1, name);
  message_take(graph, field, &info);
}

static void put_constant(message *graph, const value *v) {
  message tensor = {0};
  for (int32_t i = 0; i < v->shape.rank; i++)
    message_integer(&tensor, 1, (uint64_t)v->shape.size[i]);
  message_integer(&tensor, 2, (uint64_t)v->type);
  message_text(&tensor, 8, v->name);
  message_bytes(&tensor, 9, v->data, v->bytes);
  message_take(graph, 5, &tensor);
}

static const char *const integer_names[] = {"K",
                                            "N",
                                            "align_corners",
                                            "allowzero",
                                            "antialias",
                                            "axis",
                                            "axis",
                                            "batch_axis",
                                            "batch_dims",
                                            "bits",
                                            "block_size",
                                            "blocksize",
                                            "ceil_mode",
                                            "center_point_box",
                                            "channels_last",
                                            "count_include_pad",
                                            "detect_negative",
                                            "do_rotary",
                                            "dtype",
                                            "dtype",
                                            "end",
                                            "exclude_outside",
                                            "exclusive",
                                            "fmod",
                                            "gather_axis",
                                            "group",
                                            "ignore_index",
                                            "interleaved",
                                            "inverse",
                                            "is_causal",
                                            "keepdims",
                                            "k",
                                            "kv_num_heads",
                                            "largest",
                                            "layout",
                                            "new_axis",
                                            "noop_with_empty_axes",
                                            "num_groups",
                                            "num_heads",
                                            "num_outputs",
                                            "num_scan_inputs",
                                            "offset_group",
                                            "onesided",
                                            "output_dtype",
                                            "p",
                                            "periodic",
                                            "q_num_heads",
                                            "qk_matmul_output_mode",
                                            "quantize_axis",
                                            "reverse",
                                            "rotary_embedding_dim",
                                            "hidden_size",
                                            "sample_size",
                                            "sampling_ratio",
                                            "saturate",
                                            "select_last_index",
                                            "size",
                                            "softmax_precision",
                                            "sorted",
                                            "start",
                                            "stash_type",
                                            "time_axis",
                                            "to",
                                            "to",
                                            "training_mode",
                                            "transA",
                                            "transB",
                                            "unidirectional",
                                            "upper",
                                            "activation",
                                            "output_height",
                                            "output_width"};
static const char *const number_names[] = {
    "alpha",    "beta",  "bias", "clip",    "cubic_coeff_a", "epsilon",    "extrapolation_value",
    "gamma",    "high",  "low",  "lambd",   "max",           "min",        "mean",
    "momentum", "scale", "seed", "softcap", "spatial_scale", "value_float"};
static const char *const list_names[] = {"axes",
                                         "dilations",
                                         "output_shape",
                                         "pads",
                                         "perm",
                                         "shape",
                                         "strides",
                                         "kernel_shape",
                                         "split",
                                         "starts",
                                         "ends",
                                         "value_ints",
                                         "scan_input_axes",
                                         "scan_output_axes",
                                         "scan_input_directions",
                                         "output_padding"};
static const char *const text_names[] = {"activation",
                                         "approximate",
                                         "auto_pad",
                                         "direction",
                                         "coordinate_transformation_mode",
                                         "equation",
                                         "mode",
                                         "reduction",
                                         "round_mode",
                                         "nearest_mode",
                                         "keep_aspect_ratio_policy",
                                         "padding_mode"};
static const char *const texts[] = {"",
                                    "relu",
                                    "tanh",
                                    "SAME_UPPER",
                                    "SAME_LOWER",
                                    "VALID",
                                    "forward",
                                    "reverse",
                                    "bidirectional",
                                    "linear",
                                    "cubic",
                                    "nearest",
                                    "constant",
                                    "reflect",
                                    "edge",
                                    "wrap",
                                    "add",
                                    "mul",
                                    "max",
                                    "min",
                                    "none",
                                    "sum",
                                    "mean",
                                    "ij,jk->ik",
                                    "...i->i",
                                    "ii->i",
                                    "i,i",
                                    "align_corners",
                                    "asymmetric",
                                    "DCR",
                                    "CRD",
                                    "tf_crop_and_resize",
                                    "floor",
                                    "round_prefer_ceil",
                                    "avg",
                                    "zeros",
                                    "border",
                                    "reflection",
                                    "half_pixel",
                                    "bilinear"};

#define COUNT(array) (uint32_t)(sizeof(array) / sizeof *(array))

static void put_attribute(draw *d, message *node, const char *name, int32_t type) {
  message attribute = {0};
  message_text(&attribute, 1, name);
  message_integer(&attribute, 20, (uint64_t)type);
  const uint32_t count = below(d, 5);
  uint32_t bits;
  const float real = number(d);
  switch (type) {
  case ONNX_ATTRIBUTE_INT: message_integer(&attribute, 3, (uint64_t)integer(d)); break;
  case ONNX_ATTRIBUTE_FLOAT:
    memcpy(&bits, &real, sizeof bits);
    message_copy(&attribute, &(wire_field){.number = 2, .type = WIRE_FIXED32, .value = bits});
    break;
  case ONNX_ATTRIBUTE_STRING: message_text(&attribute, 4, texts[below(d, COUNT(texts))]); break;
  case ONNX_ATTRIBUTE_INTS:
    for (uint32_t i = 0; i < count; i++) message_integer(&attribute, 8, (uint64_t)integer(d));
    break;
  }
  message_take(node, 5, &attribute);
}

static void put_attributes(draw *d, message *node) {
  const struct {
    const char *const *names;
    uint32_t count;
    int32_t type;
  } kinds[] = {{integer_names, COUNT(integer_names), ONNX_ATTRIBUTE_INT},
               {number_names, COUNT(number_names), ONNX_ATTRIBUTE_FLOAT},
               {list_names, COUNT(list_names), ONNX_ATTRIBUTE_INTS},
               {text_names, COUNT(text_names), ONNX_ATTRIBUTE_STRING}};
  const uint32_t rarity = 2 + below(d, 6);
  for (size_t kind = 0; kind < COUNT(kinds); kind++)
    for (uint32_t i = 0; i < kinds[kind].count; i++)
      if (below(d, rarity) == 0) put_attribute(d, node, kinds[kind].names[i], kinds[kind].type);
}

/* A subgraph of a node: it returns some inputs and a value computed from an outer one. */
static void put_graph(draw *d, message *node, const char *name, uint32_t inputs,
                      const char *outside) {
  message graph = {0}, attribute = {0};
  char label[16];
  message_text(&graph, 2, name);
  const uint32_t kept = below(d, inputs + 1);
  for (uint32_t i = 0; i < inputs; i++) {
    snprintf(label, sizeof label, "%.4s%u", name, i);
    put_value(&graph, 11, label);
    if (i >= kept) put_value(&graph, 12, label);
  }
  if (below(d, 2)) {
    message add = {0};
    message_text(&add, 1, outside);
    message_text(&add, 2, "inner");
    message_text(&add, 4, below(d, 2) ? "Identity" : "Neg");
    message_take(&graph, 1, &add);
    put_value(&graph, 12, "inner");
  }
  message_text(&attribute, 1, name);
  message_take(&attribute, 6, &graph);
  message_integer(&attribute, 20, ONNX_ATTRIBUTE_GRAPH);
  message_take(node, 5, &attribute);
}

/* An integer value: sizes, axes or indices. Results of nodes count as floats. */
static bool is_list(const value *v) {
  return v->type == ONNX_INT64 || v->type == ONNX_INT32;
}

static uint32_t operator_count(void) {
  static uint32_t count;
  while (operator_at(count)) count++;
  return count;
}

/* Adds a node of an operator and its output values. */
static void put_node(recipe *r, message *graph, const uint8_t bytes[4]) {
  draw d = {(uint64_t)bytes[2] | (uint64_t)bytes[3] << 8};
  const operator_row *row =
      operator_at(((uint32_t)bytes[0] | (uint32_t)bytes[1] << 8) % operator_count());
  message node = {0};
  const uint32_t inputs = below(&d, 8) ? 1 + below(&d, 3) : below(&d, MOST_INPUTS + 1);
  const uint32_t outputs = below(&d, 4) ? 1 : 1 + below(&d, MOST_OUTPUTS);
  const bool plain = below(&d, 4); /* floats first */
  for (uint32_t i = 0; i < inputs; i++) {
    uint32_t at = below(&d, r->count);
    for (int tries = 0; plain && tries < 4 && is_list(&r->values[at]) != (i > 0); tries++)
      at = below(&d, r->count);
    message_text(&node, 1, below(&d, 16) ? r->values[at].name : "");
  }
  const char *outside = r->values[below(&d, r->count)].name;
  for (uint32_t i = 0; i < outputs && r->count < MOST_VALUES; i++) {
    value *made = &r->values[r->count];
    snprintf(made->name, sizeof made->name, "v%u", r->count++);
    message_text(&node, 2, made->name);
  }
  message_text(&node, 4, row->name);
  message_text(&node, 7, row->domain);
  put_attributes(&d, &node);
  if (!strcmp(row->name, "If")) {
    put_graph(&d, &node, "then_branch", 0, outside);
    put_graph(&d, &node, "else_branch", 0, outside);
  } else if (strstr("Loop Scan SequenceMap", row->name)) {
    put_graph(&d, &node, "body", inputs + below(&d, 2), outside);
  }
  message_take(graph, 1, &node);
}

static message make_model(recipe *r, const uint8_t *data, size_t size) {
  static const uint64_t versions[] = {7, 9, 11, 13, 16, 18, 21, 23};
  message graph = {0}, model = {0}, opset = {0}, other = {0};
  message_text(&graph, 2, "drawn");
  draw d = {(uint64_t)data[0] | (uint64_t)data[1] << 8};
  r->given = 6 + below(&d, 8);
  for (; r->count < r->given; r->count++) draw_value(&d, &r->values[r->count], r->count);
  for (uint32_t i = 0; i < r->given; i++) {
    if (r->values[i].constant)
      put_constant(&graph, &r->values[i]);
    else
      put_value(&graph, 11, r->values[i].name);
  }
  for (size_t i = 0; i < MOST_NODES && 3 + 4 * i + 4 <= size; i++)
    put_node(r, &graph, data + 3 + 4 * i);
  for (uint32_t i = r->given; i < r->count; i++) put_value(&graph, 12, r->values[i].name);
  message_text(&opset, 1, "");
  message_integer(&opset, 2, versions[data[2] % COUNT(versions)]);
  message_text(&other, 1, "com.microsoft");
  message_integer(&other, 2, 1);
  message_integer(&model, 1, 10);
  message_take(&model, 7, &graph);
  message_take(&model, 8, &opset);
  message_take(&model, 8, &other);
  return model;
}

/* ---- Running -------------------------------------------------------------------------------- */

static void check_failure(compute_status status) {
  compute_error error;
  compute_error_get(context, &error);
  FUZZ_CHECK(status != COMPUTE_ERROR_INTERNAL);
  FUZZ_CHECK(error.status == status && error.message[0]);
}

static void read_all(const compute_tensor *tensor) {
  const size_t bytes =
      (size_t)compute_tensor_count(tensor) * compute_dtype_size(compute_tensor_dtype(tensor));
  void *data = malloc(bytes ? bytes : 1);
  FUZZ_CHECK(data && (!bytes || !compute_tensor_read(tensor, data, bytes)));
  free(data);
}

/* Runs each value separately, so that one failure does not hide the others. */
static compute_status run(compute_model *model, const compute_model_binding *inputs, size_t count,
                          const char *name) {
  compute_model_binding output = {name, NULL};
  const compute_status status = compute_model_run(model, inputs, count, &output, 1);
  FUZZ_CHECK((status == COMPUTE_OK) == (output.tensor != NULL));
  if (status)
    check_failure(status);
  else
    read_all(output.tensor);
  compute_tensor_release(output.tensor);
  return status;
}

static void run_all(compute_model *model, recipe *r) {
  compute_model_binding inputs[MOST_VALUES];
  size_t count = 0;
  for (uint32_t i = 0; i < r->given; i++) {
    value *v = &r->values[i];
    if (v->constant) continue;
    inputs[count].name = v->name;
    FUZZ_CHECK(!compute_tensor_from_host(compute_default_device(context), onnx_dtype(v->type),
                                         v->shape, v->data, &inputs[count++].tensor));
  }
  for (uint32_t i = r->given; i < r->count; i++) {
    const compute_status first = run(model, inputs, count, r->values[i].name);
    FUZZ_CHECK(run(model, inputs, count, r->values[i].name) == first);
  }
  for (size_t i = 0; i < count; i++) compute_tensor_release(inputs[i].tensor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static recipe r;
  if (size < 7) return 0;
  memset(&r, 0, sizeof r);
  message file = make_model(&r, data, size);
  compute_model *model = NULL;
  const compute_status status =
      compute_model_load_memory(context, file.data, file.bytes, NULL, &model);
  if (status)
    check_failure(status);
  else
    run_all(model, &r);
  compute_model_release(model);
  message_release(&file);
  compute_pool_statistics pool;
  FUZZ_CHECK(!compute_pool_query(compute_default_device(context), &pool) && !pool.bytes_active);
  return 0;
}
