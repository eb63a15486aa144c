/* SPDX-License-Identifier: MIT */
/* Running one of ONNX's node tests: see node_case.h. */
#include "onnx/node_case.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compute/model.h"
#include "model/file/types.h"
#include "onnx/rewrite.h"

enum { MOST_VALUES = 64, PATH_BYTES = 1024 };

/* A file in memory. */
typedef struct content {
  uint8_t *data;
  size_t bytes;
} content;

typedef struct node_case {
  compute_context *context;
  char *reason;
  content model, input_files[MOST_VALUES], output_files[MOST_VALUES];
  test_value inputs[MOST_VALUES], outputs[MOST_VALUES];
  size_t input_count, output_count;
  onnx_file file; /* the decoded model, for the types of its inputs and outputs */
  message rewritten;
  bool values, unlike; /* different values; neither is 0 */
  compute_model *loaded;
  compute_model_argument given[MOST_VALUES], wanted[MOST_VALUES];
} node_case;

static bool COMPUTE_PRINTF(2, 3) refuse(node_case *c, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(c->reason, REASON_BYTES, format, list);
  va_end(list);
  return false;
}

static bool refuse_status(node_case *c, const char *when, compute_status status) {
  return refuse(c, "%s: %s: %s", when, compute_status_name(status),
                compute_error_message(c->context));
}

/* ---- Files --------------------------------------------------------------------------------- */

static bool read_file(const char *path, content *result) {
  FILE *file = fopen(path, "rb");
  if (!file) return false;
  fseek(file, 0, SEEK_END);
  const long bytes = ftell(file);
  rewind(file);
  result->data = malloc(bytes > 0 ? (size_t)bytes : 1);
  if (result->data) result->bytes = fread(result->data, 1, (size_t)bytes, file);
  fclose(file);
  return result->data && result->bytes == (size_t)bytes;
}

static wire content_wire(const content *from) {
  return (wire){from->data, from->data + from->bytes};
}

static bool is_initializer(const onnx_graph *graph, const onnx_value_info *info) {
  for (size_t i = 0; i < graph->initializer_count; i++)
    if (graph->initializer_values[i] == info->value) return true;
  return false;
}

/* Reads the files input_0.pb, …, one for each input that is no initializer, until one is
 * missing. */
static bool read_values(node_case *c, const char *folder, const char *kind,
                        const onnx_value_info *infos, size_t info_count, content *files,
                        test_value *values, size_t *count) {
  char path[PATH_BYTES];
  for (size_t i = 0; i < info_count && *count < MOST_VALUES; i++) {
    if (infos == c->file.graph.inputs && is_initializer(&c->file.graph, &infos[i])) continue;
    snprintf(path, sizeof path, "%s/%s_%zu.pb", folder, kind, *count);
    if (access(path, F_OK)) return true;
    if (!read_file(path, &files[*count])) return refuse(c, "%s cannot be read", path);
    if (!test_value_read(content_wire(&files[*count]), &infos[i], &values[*count]))
      return refuse(c, "%s is damaged", path);
    ++*count;
  }
  return true;
}

static bool read_case(node_case *c, const char *folder, const char *set) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s/model.onnx", folder);
  if (!read_file(path, &c->model)) return refuse(c, "%s cannot be read", path);
  const compute_status status = onnx_decode(c->context, "test", "it", content_wire(&c->model),
                                            folder, COMPUTE_MODEL_MAP, &c->file);
  if (status) return refuse_status(c, "decoding", status);
  const onnx_graph *graph = &c->file.graph;
  return read_values(c, set, "input", graph->inputs, graph->input_count, c->input_files, c->inputs,
                     &c->input_count) &&
         read_values(c, set, "output", graph->outputs, graph->output_count, c->output_files,
                     c->outputs, &c->output_count);
}

/* ---- Items --------------------------------------------------------------------------------- */

/* Decodes a tensor of numbers or texts. */
static bool decode(node_case *c, const char *name, wire from, onnx_file *file,
                   onnx_tensor *tensor) {
  const onnx_tensor *decoded;
  const compute_status status = onnx_decode_tensor(c->context, "test", name, from, file, &decoded);
  if (status) return refuse_status(c, "decoding data", status);
  *tensor = *decoded;
  if (tensor->type != ONNX_STRING && onnx_dtype(tensor->type) == COMPUTE_DTYPE_NONE)
    refuse(c, "'%s' has elements of type %s", name, onnx_type_name(tensor->type));
  else if (tensor->rank < 0)
    refuse(c, "'%s' has more than %d axes", name, COMPUTE_MAX_RANK);
  else
    return true;
  onnx_release(file);
  return false;
}

static compute_status item_of_tensor(node_case *c, const onnx_tensor *from,
                                     compute_model_item **item) {
  static const uint64_t nothing;
  if (from->type == ONNX_STRING)
    return compute_model_item_from_texts(from->shape, from->strings, item);
  compute_tensor *tensor = NULL;
  compute_status status =
      compute_tensor_from_host(compute_default_device(c->context), onnx_dtype(from->type),
                               from->shape, from->data ? from->data : &nothing, &tensor);
  if (!status) status = compute_model_item_from_tensor(tensor, item);
  compute_tensor_release(tensor);
  return status;
}

static bool make_tensor(node_case *c, const char *name, wire from, compute_model_item **item) {
  onnx_file file;
  onnx_tensor tensor;
  if (!decode(c, name, from, &file, &tensor)) return false;
  const compute_status status = item_of_tensor(c, &tensor, item);
  onnx_release(&file);
  return !status || refuse_status(c, name, status);
}

static bool make_sequence(node_case *c, const test_value *value, compute_model_item **item) {
  compute_status status = compute_model_item_sequence(item);
  for (size_t i = 0; !status && i < value->count; i++) {
    compute_model_item *one = NULL;
    if (!make_tensor(c, value->info->name, value->tensors[i], &one)) return false;
    status = compute_model_item_append(*item, one);
    compute_model_item_release(one);
  }
  return !status || refuse_status(c, value->info->name, status);
}

static bool make_item(node_case *c, const test_value *value, compute_model_item **item) {
  bool good = true;
  if (value->sequence)
    good = make_sequence(c, value, item);
  else if (!value->absent)
    good = make_tensor(c, value->info->name, value->tensors[0], item);
  if (!good || !value->optional) return good;
  compute_model_item *held = *item;
  *item = NULL;
  const compute_status status = compute_model_item_optional(held, item);
  compute_model_item_release(held);
  return !status || refuse_status(c, value->info->name, status);
}

/* ---- Comparison ---------------------------------------------------------------------------- */

typedef struct tolerance {
  double relative, absolute;
} tolerance;

/* ONNX's runner allows 1e-3 and 1e-7 for all dtypes. */
static tolerance tolerance_of(compute_dtype dtype) {
  switch (dtype) {
  case COMPUTE_F64: return (tolerance){1e-6, 1e-8};
  case COMPUTE_F32: return (tolerance){1e-3, 1e-5};
  case COMPUTE_F16: return (tolerance){4e-3, 2e-3};
  case COMPUTE_BF16: return (tolerance){2e-2, 1e-2};
  default: return (tolerance){0, 0};
  }
}

static double from_f16(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double size = exponent == 31  ? (fraction ? (double)NAN : (double)INFINITY)
                      : exponent == 0 ? ldexp(fraction, -24)
                                      : ldexp(fraction + 1024, exponent - 25);
  return bits >> 15 ? -size : size;
}

/* A float, or an integer as a float that is exact enough to print. */
static double element(compute_dtype dtype, const void *values, int64_t index) {
  const unsigned char *at =
      (const unsigned char *)values + (size_t)index * compute_dtype_size(dtype);
  union {
#define FIELD(code, number, name, kind, bytes, type, element) element element_##name;
    COMPUTE_DTYPES(FIELD)
#undef FIELD
    uint32_t bits;
    float number;
  } value = {0};
  memcpy(&value, at, compute_dtype_size(dtype));
  if (dtype == COMPUTE_F16) return from_f16(value.element_f16);
  if (dtype == COMPUTE_BF16) {
    value.bits = (uint32_t)value.element_bf16 << 16;
    return (double)value.number;
  }
  switch (dtype) {
#define CASE(code, number, name, ...)                                                              \
  case COMPUTE_##code: return (double)value.element_##name;
    COMPUTE_DTYPES(CASE)
#undef CASE
  case COMPUTE_DTYPE_NONE: break;
  }
  return 0;
}

static bool is_near(tolerance allowed, double value, double expected) {
  if (value == expected || (isnan(value) && isnan(expected))) return true;
  if (!isfinite(value) || !isfinite(expected)) return false;
  return fabs(value - expected) <= allowed.absolute + allowed.relative * fabs(expected);
}

static bool compare_elements(node_case *c, const char *name, const onnx_tensor *expected,
                             const unsigned char *values) {
  const compute_dtype dtype = onnx_dtype(expected->type);
  const size_t size = compute_dtype_size(dtype);
  const tolerance allowed = tolerance_of(dtype);
  int64_t first = -1, wrong = 0;
  for (int64_t i = 0; i < expected->count; i++) {
    const size_t at = (size_t)i * size;
    if (!memcmp(values + at, (const unsigned char *)expected->data + at, size)) continue;
    /* Integers are equal or not, also beyond 2^53. */
    if (allowed.relative > 0 &&
        is_near(allowed, element(dtype, values, i), element(dtype, expected->data, i)))
      continue;
    if (first < 0) first = i;
    wrong++;
    if (element(dtype, values, i) != 0 && element(dtype, expected->data, i) != 0) c->unlike = true;
  }
  if (first < 0) return true;
  c->values = true;
  return refuse(c,
                "'%s': %" PRId64 " of %" PRId64 " elements differ, the first at %" PRId64
                ": %.9g, expected %.9g",
                name, wrong, expected->count, first, element(dtype, values, first),
                element(dtype, expected->data, first));
}

static bool compare(node_case *c, const char *name, const compute_tensor *tensor,
                    const onnx_tensor *expected) {
  char text[128], other[128];
  const compute_dtype dtype = compute_tensor_dtype(tensor), wanted = onnx_dtype(expected->type);
  const compute_shape shape = compute_tensor_shape(tensor);
  if (dtype != wanted)
    return refuse(c, "'%s' is %s, expected %s", name, compute_dtype_name(dtype),
                  compute_dtype_name(wanted));
  if (!compute_shape_equal(shape, expected->shape))
    return refuse(c, "'%s' has the shape %s, expected %s", name,
                  compute_shape_text(shape, text, sizeof text),
                  compute_shape_text(expected->shape, other, sizeof other));
  const size_t bytes = (size_t)expected->count * compute_dtype_size(wanted);
  unsigned char *values = malloc(bytes ? bytes : 1);
  if (!values) return refuse(c, "out of memory");
  const compute_status status = compute_tensor_read(tensor, values, bytes);
  const bool good =
      status ? refuse_status(c, name, status) : compare_elements(c, name, expected, values);
  free(values);
  return good;
}

static bool compare_texts(node_case *c, const char *name, const compute_model_item *item,
                          const onnx_tensor *expected) {
  char text[128], other[128];
  const compute_shape shape = compute_model_item_shape(item);
  if (compute_model_item_kind(item) != COMPUTE_MODEL_TEXT)
    return refuse(c, "'%s' is not text", name);
  if (!compute_shape_equal(shape, expected->shape))
    return refuse(c, "'%s' has the shape %s, expected %s", name,
                  compute_shape_text(shape, text, sizeof text),
                  compute_shape_text(expected->shape, other, sizeof other));
  for (size_t i = 0; i < (size_t)expected->count; i++)
    if (strcmp(compute_model_item_text(item, i), expected->strings[i]) != 0)
      return refuse(c, "'%s': text %zu is '%s', expected '%s'", name, i,
                    compute_model_item_text(item, i), expected->strings[i]);
  return true;
}

static bool compare_item(node_case *c, const char *name, const compute_model_item *item,
                         wire tensor) {
  onnx_file file;
  onnx_tensor expected;
  if (!decode(c, name, tensor, &file, &expected)) return false;
  bool same;
  if (expected.type == ONNX_STRING)
    same = compare_texts(c, name, item, &expected);
  else if (!compute_model_item_tensor(item))
    same = refuse(c, "'%s' is not a tensor", name);
  else
    same = compare(c, name, compute_model_item_tensor(item), &expected);
  onnx_release(&file);
  return same;
}

/* Compares all tensors of an output, so that c->unlike covers each. */
static bool compare_value(node_case *c, const test_value *expected,
                          const compute_model_item *item) {
  const char *name = expected->info->name;
  const uint32_t kind = compute_model_item_kind(item);
  bool good = true;
  if (expected->optional != ((kind & COMPUTE_MODEL_OPTIONAL) != 0))
    return refuse(c, "'%s' is %san optional", name, expected->optional ? "not " : "");
  if (expected->optional) {
    if (expected->absent != (compute_model_item_count(item) == 0))
      return refuse(c, "'%s' holds %s", name, expected->absent ? "a value" : "nothing");
    item = compute_model_item_at(item, 0);
  }
  if (expected->absent) return true;
  if (!expected->sequence) return compare_item(c, name, item, expected->tensors[0]);
  if (!(kind & COMPUTE_MODEL_SEQUENCE)) return refuse(c, "'%s' is not a sequence", name);
  if (compute_model_item_count(item) != expected->count)
    return refuse(c, "'%s' has %zu items, expected %zu", name, compute_model_item_count(item),
                  expected->count);
  for (size_t i = 0; i < expected->count; i++)
    good &= compare_item(c, name, compute_model_item_at(item, i), expected->tensors[i]);
  return good;
}

/* ---- The run ------------------------------------------------------------------------------- */

static bool load(node_case *c, const char *folder, unsigned flags) {
  wire model = content_wire(&c->model);
  const compute_model_options options = {
      .folder = folder, .fallback = flags & NODE_CASE_STRICT ? COMPUTE_FALLBACK_STRICT : 0};
  if (flags & NODE_CASE_CONSTANTS) {
    c->rewritten = rewrite_model(model, c->inputs, c->input_count);
    model = message_wire(&c->rewritten);
  }
  const compute_status status =
      compute_model_load_memory(c->context, model.at, wire_bytes(model), &options, &c->loaded);
  return !status || refuse_status(c, "loading", status);
}

static bool run(node_case *c, unsigned flags) {
  const size_t in = flags & NODE_CASE_CONSTANTS ? 0 : c->input_count;
  for (size_t i = 0; i < in; i++) {
    c->given[i].name = c->inputs[i].info->name;
    if (!make_item(c, &c->inputs[i], &c->given[i].item)) return false;
  }
  for (size_t i = 0; i < c->output_count; i++) c->wanted[i].name = c->outputs[i].info->name;
  const compute_status status =
      compute_model_run_items(c->loaded, c->given, in, c->wanted, c->output_count, NULL);
  return !status || refuse_status(c, "running", status);
}

static bool check(node_case *c) {
  bool good = true;
  for (size_t i = 0; i < c->output_count; i++) {
    const bool values = c->values;
    c->values = false;
    const bool same = compare_value(c, &c->outputs[i], c->wanted[i].item);
    if (!same && !c->values) return false;
    c->values |= values;
    good &= same;
  }
  return good;
}

static void release(node_case *c) {
  for (size_t i = 0; i < MOST_VALUES; i++) {
    compute_model_item_release(c->given[i].item);
    compute_model_item_release(c->wanted[i].item);
  }
  compute_model_release(c->loaded);
  onnx_release(&c->file);
  message_release(&c->rewritten);
  free(c->model.data);
  for (size_t i = 0; i < MOST_VALUES; i++) {
    free(c->inputs[i].tensors);
    free(c->outputs[i].tensors);
    free(c->input_files[i].data);
    free(c->output_files[i].data);
  }
}

node_result node_case_run(compute_context *context, const char *folder, unsigned flags,
                          char reason[REASON_BYTES]) {
  node_result result = NODE_PASSES;
  for (int i = 0; result >= NODE_PASSES; i++) {
    char set[PATH_BYTES];
    snprintf(set, sizeof set, "%s/test_data_set_%d", folder, i);
    if (i > 0 && access(set, F_OK)) break;
    node_case c = {.context = context, .reason = reason};
    const bool ran = read_case(&c, folder, set) && load(&c, folder, flags) && run(&c, flags);
    if (!ran || !check(&c)) result = ran && c.values && !c.unlike ? NODE_DRAWS : NODE_FAILS;
    release(&c);
  }
  return result;
}
