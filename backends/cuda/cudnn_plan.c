/* SPDX-License-Identifier: MIT */
/* A convolution in cuDNN's form, and its plans.
 *
 * The operation is a graph of one node. The heuristics name engines with settings, and an engine's
 * notes describe its numerics. Strict f32 refuses engines that round the factors (the tensor cores'
 * formats). Winograd is used if allowed, in the tile sizes whose errors that permission covers.
 * Three kinds of engines are never used: those that transform larger pieces (a large element would
 * drown small ones far from it), those that combine sums in a narrower type, and those whose order
 * of summation changes from run to run. */
#include "cudnn.h"

#include <stdio.h>
#include <string.h>

enum { MOST_SETTINGS = 48 };

/* ---- The problem --------------------------------------------------------------------------- */

/* The cases of COMPUTE_PRECISION_WINOGRAD: 3 × 3 filters with stride 1, in f32. */
static bool may_be_filtered(const compute_kernel_descriptor *d) {
  const compute_conv_attributes *c = compute_conv_of(d);
  for (int i = 0; i < 2; i++)
    if (c->filter_size[i] != 3 || c->stride[i] != 1 || c->dilation[i] != 1) return false;
  return (c->precision & COMPUTE_PRECISION_WINOGRAD) && d->inputs[0].dtype == COMPUTE_F32;
}

static bool types_fit(const compute_kernel_descriptor *d, cudnn_problem *p) {
  const compute_dtype dtype = d->inputs[0].dtype, result = d->outputs[0].dtype;
  const compute_dtype sum = dtype == COMPUTE_F64 ? COMPUTE_F64 : COMPUTE_F32;
  p->strict = dtype == COMPUTE_F32 && !(compute_conv_of(d)->precision & COMPUTE_PRECISION_TF32);
  p->winograd = may_be_filtered(d);
  return d->inputs[1].dtype == dtype && d->accumulate == sum &&
         (result == dtype || result == sum) && cuda_vendor_type(dtype, CUDNN_BF16, &p->type) &&
         cuda_vendor_type(sum, CUDNN_BF16, &p->sum_type) &&
         cuda_vendor_type(result, CUDNN_BF16, &p->result_type);
}

/* Padding after the last row or column, as far as the results read. */
static bool padding_fits(const compute_conv_attributes *c, cudnn_problem *p) {
  for (int i = 0; i < 2; i++) {
    const int64_t reach =
        (c->result_size[i] - 1) * c->stride[i] + (c->filter_size[i] - 1) * c->dilation[i] + 1;
    const int64_t after = reach - c->data_size[i] - c->padding[i];
    if (after <= -c->stride[i]) return false; /* cuDNN would have one more result */
    p->padding_after[i] = after > 0 ? after : 0;
    p->stride[i] = c->stride[i];
    p->dilation[i] = c->dilation[i];
    p->padding[i] = c->padding[i];
  }
  return true;
}

/* The strides of a tensor. For a dimension of one element they matter only to cuDNN. */
static bool tensor_fits(const compute_operand *o, const int64_t sizes[4], int64_t strides[4]) {
  for (int i = 3; i >= 0; i--) {
    strides[i] = o->stride[i];
    if (sizes[i] == 1) strides[i] = i == 3 ? 1 : sizes[i + 1] * strides[i + 1];
    if (sizes[i] == 0 || strides[i] <= 0) return false;
  }
  return true;
}

static const char *refusal(const compute_kernel_descriptor *d, cudnn_problem *p) {
  if (d->kind != COMPUTE_KERNEL_CONV) return "it is not a convolution";
  if (d->epilogue.count || d->input_count != 2 || d->output_count != 1)
    return "something is fused to the convolution";
  if (!types_fit(d, p)) return "it does not support this combination of dtypes";
  const compute_conv_attributes *c = compute_conv_of(d);
  if (c->pool > 0) return "the results are pooled";
  if (!padding_fits(c, p)) return "the results do not reach the end of the data";
  const int64_t x[4] = {c->batch, c->data_channels, c->data_size[0], c->data_size[1]};
  const int64_t w[4] = {c->result_channels, c->data_channels / c->groups, c->filter_size[0],
                        c->filter_size[1]};
  const int64_t y[4] = {c->batch, c->result_channels, c->result_size[0], c->result_size[1]};
  const int64_t *sizes[3] = {x, w, y};
  p->operation = CUDNN_KIND_FORWARD;
  if (c->direction == COMPUTE_CONVOLUTION_BY_DATA) {
    p->operation = CUDNN_KIND_BY_DATA;
    sizes[0] = y;
    sizes[2] = x;
  } else if (c->direction == COMPUTE_CONVOLUTION_BY_FILTER) {
    p->operation = CUDNN_KIND_BY_FILTER;
    sizes[1] = y;
    sizes[2] = w;
  }
  const compute_operand *of[3] = {&d->inputs[0], &d->inputs[1], &d->outputs[0]};
  for (int i = 0; i < 3; i++) {
    memcpy(p->sizes[i], sizes[i], sizeof p->sizes[i]);
    if (!tensor_fits(of[i], p->sizes[i], p->strides[i])) return "a tensor repeats or is empty";
  }
  return NULL;
}

bool cudnn_translate(const compute_kernel_descriptor *d, cudnn_problem *p, const char **reason) {
  memset(p, 0, sizeof *p); /* padding as well: the whole struct is a key */
  *reason = refusal(d, p);
  return *reason == NULL;
}

static const char *type_name(const cudnn_problem *p) {
  switch (p->type) {
  case CUDNN_F64: return "f64";
  case CUDNN_F16: return "f16";
  case CUDNN_BF16: return "bf16";
  default: return p->strict ? "f32" : "f32 (TF32 allowed)";
  }
}

void cudnn_describe(const cudnn_problem *p, char *text, size_t text_bytes) {
  const char *direction = p->operation == CUDNN_KIND_BY_DATA     ? " by data"
                          : p->operation == CUDNN_KIND_BY_FILTER ? " by filter"
                                                                 : "";
  const int64_t *a = p->sizes[0], *b = p->sizes[1];
  snprintf(text, text_bytes, "convolution%s of %lldx%lldx%lldx%lld and %lldx%lldx%lldx%lld in %s%s",
           direction, (long long)a[0], (long long)a[1], (long long)a[2], (long long)a[3],
           (long long)b[0], (long long)b[1], (long long)b[2], (long long)b[3], type_name(p),
           p->winograd ? ", Winograd allowed" : "");
}

/* ---- Descriptors --------------------------------------------------------------------------- */

void cudnn_way_clear(const cudnn_functions *f, cudnn_way *way) {
  if (way->plan) f->forget(way->plan);
  if (way->settings) f->forget(way->settings);
  *way = (cudnn_way){0};
}

void cudnn_pile_clear(cudnn_pile *pile) {
  while (pile->count > 0) pile->functions->forget(pile->descriptors[--pile->count]);
}

/* An attribute to set; a table of attributes makes a descriptor. */
typedef struct attribute {
  int32_t name, type;
  int64_t count;
  const void *values;
} attribute;

/* Creates a finished descriptor and adds it to the pile. */
static int32_t make(cudnn_pile *pile, int32_t kind, const attribute *attributes, int count,
                    cudnn_descriptor *result) {
  const cudnn_functions *f = pile->functions;
  cudnn_descriptor made = NULL;
  *result = NULL;
  if (pile->count == sizeof pile->descriptors / sizeof *pile->descriptors) return CUDNN_INTERNAL;
  int32_t code = f->describe(kind, &made);
  if (code != CUDNN_OK) return code;
  pile->descriptors[pile->count++] = made;
  for (int i = 0; i < count && code == CUDNN_OK; i++) {
    const attribute *a = &attributes[i];
    code = f->set(made, a->name, a->type, a->count, a->values);
  }
  if (code == CUDNN_OK) code = f->finalize(made);
  if (code == CUDNN_OK) *result = made;
  return code;
}

static int32_t tensor_make(cudnn_pile *pile, const cudnn_problem *p, int which, int64_t alignment,
                           cudnn_descriptor *result) {
  const int64_t name = which + 1;
  const attribute attributes[] = {
      {CUDNN_TENSOR_TYPE, CUDNN_IS_DATA_TYPE, 1, which == 2 ? &p->result_type : &p->type},
      {CUDNN_TENSOR_SIZES, CUDNN_IS_INT64, 4, p->sizes[which]},
      {CUDNN_TENSOR_STRIDES, CUDNN_IS_INT64, 4, p->strides[which]},
      {CUDNN_TENSOR_NAME, CUDNN_IS_INT64, 1, &name},
      {CUDNN_TENSOR_ALIGNMENT, CUDNN_IS_INT64, 1, &alignment},
  };
  return make(pile, CUDNN_KIND_TENSOR, attributes, 5, result);
}

static int32_t convolution_make(cudnn_pile *pile, const cudnn_problem *p,
                                cudnn_descriptor *result) {
  const int32_t mode = CUDNN_MODE_CROSS_CORRELATION;
  const int64_t rank = 2;
  const attribute attributes[] = {
      {CUDNN_CONVOLUTION_RANK, CUDNN_IS_INT64, 1, &rank},
      {CUDNN_CONVOLUTION_TYPE, CUDNN_IS_DATA_TYPE, 1, &p->sum_type},
      {CUDNN_CONVOLUTION_MODE, CUDNN_IS_CONVOLUTION_MODE, 1, &mode},
      {CUDNN_CONVOLUTION_PADDING, CUDNN_IS_INT64, 2, p->padding},
      {CUDNN_CONVOLUTION_PADDING_AFTER, CUDNN_IS_INT64, 2, p->padding_after},
      {CUDNN_CONVOLUTION_DILATION, CUDNN_IS_INT64, 2, p->dilation},
      {CUDNN_CONVOLUTION_STRIDE, CUDNN_IS_INT64, 2, p->stride},
  };
  return make(pile, CUDNN_KIND_CONVOLUTION, attributes, 7, result);
}

/* Creates the node. Its attributes have one order for all directions: alpha, beta, convolution, w,
 * x, y. */
static int32_t operation_make(cudnn_pile *pile, const cudnn_problem *p,
                              cudnn_descriptor convolution, const cudnn_descriptor tensors[3],
                              cudnn_descriptor *result) {
  static const float one32 = 1, zero32 = 0;
  static const double one64 = 1, zero64 = 0;
  /* The index of w, x and y among inputs[0], inputs[1] and the output. */
  static const int forward[3] = {1, 0, 2}, by_data[3] = {1, 2, 0}, by_filter[3] = {2, 0, 1};
  const bool f64 = p->sum_type == CUDNN_F64;
  const int32_t scale = f64 ? CUDNN_IS_DOUBLE : CUDNN_IS_FLOAT;
  int32_t first = CUDNN_FORWARD_ALPHA;
  const int *place = forward;
  if (p->operation == CUDNN_KIND_BY_DATA) {
    first = CUDNN_BY_DATA_ALPHA;
    place = by_data;
  } else if (p->operation == CUDNN_KIND_BY_FILTER) {
    first = CUDNN_BY_FILTER_ALPHA;
    place = by_filter;
  }
  const attribute attributes[] = {
      {first, scale, 1, f64 ? (const void *)&one64 : (const void *)&one32},
      {first + 1, scale, 1, f64 ? (const void *)&zero64 : (const void *)&zero32},
      {first + 2, CUDNN_IS_DESCRIPTOR, 1, &convolution},
      {first + 3, CUDNN_IS_DESCRIPTOR, 1, &tensors[place[0]]},
      {first + 4, CUDNN_IS_DESCRIPTOR, 1, &tensors[place[1]]},
      {first + 5, CUDNN_IS_DESCRIPTOR, 1, &tensors[place[2]]},
  };
  return make(pile, p->operation, attributes, 6, result);
}

static int32_t graph_make(cudnn_pile *pile, void *handle, const cudnn_problem *p, int64_t alignment,
                          cudnn_descriptor *graph) {
  cudnn_descriptor tensors[3], convolution, operation;
  int32_t code = CUDNN_OK;
  for (int i = 0; i < 3 && code == CUDNN_OK; i++)
    code = tensor_make(pile, p, i, alignment, &tensors[i]);
  if (code == CUDNN_OK) code = convolution_make(pile, p, &convolution);
  if (code == CUDNN_OK) code = operation_make(pile, p, convolution, tensors, &operation);
  if (code != CUDNN_OK) return code;
  const attribute attributes[] = {
      {CUDNN_GRAPH_HANDLE, CUDNN_IS_HANDLE, 1, &handle},
      {CUDNN_GRAPH_OPERATIONS, CUDNN_IS_DESCRIPTOR, 1, &operation},
  };
  return make(pile, CUDNN_KIND_GRAPH, attributes, 2, graph);
}

/* ---- Engines ------------------------------------------------------------------------------- */

static bool note_fits(const cudnn_problem *p, int32_t note) {
  switch (note) {
  case CUDNN_NOTE_REDUCED_REDUCTION:
  case CUDNN_NOTE_NONDETERMINISTIC:
  case CUDNN_NOTE_FFT:
  case CUDNN_NOTE_WINOGRAD_13: return false;
  case CUDNN_NOTE_WINOGRAD:
  case CUDNN_NOTE_WINOGRAD_4:
  case CUDNN_NOTE_WINOGRAD_6: return p->winograd;
  case CUDNN_NOTE_TENSOR_CORE: return !p->strict;
  case CUDNN_NOTE_DOWN_CONVERT: return !p->strict && p->type == CUDNN_F32;
  default: return true;
  }
}

/* `true` if the numerics of the settings' engine are allowed; also sets its number. False if the
 * engine does not report them. */
static bool engine_fits(const cudnn_functions *f, const cudnn_problem *p, cudnn_way *way) {
  int32_t notes[CUDNN_NOTES];
  int64_t count = 0, ones = 0;
  cudnn_descriptor engine = NULL;
  if (f->describe(CUDNN_KIND_ENGINE, &engine) != CUDNN_OK) return false;
  bool good =
      f->get(way->settings, CUDNN_SETTINGS_ENGINE, CUDNN_IS_DESCRIPTOR, 1, &ones, &engine) ==
          CUDNN_OK &&
      f->get(engine, CUDNN_ENGINE_NOTES, CUDNN_IS_NOTE, CUDNN_NOTES, &count, notes) == CUDNN_OK;
  for (int64_t i = 0; i < count && i < CUDNN_NOTES && good; i++) good = note_fits(p, notes[i]);
  if (good &&
      f->get(engine, CUDNN_ENGINE_INDEX, CUDNN_IS_INT64, 1, &ones, &way->engine) != CUDNN_OK)
    way->engine = -1;
  f->forget(engine);
  return good;
}

/* Builds the plan for the settings, if it fits the workspace limit. */
static bool plan_make(const cudnn_functions *f, void *handle, int64_t workspace_limit,
                      cudnn_way *way) {
  int64_t count = 0;
  if (f->describe(CUDNN_KIND_PLAN, &way->plan) != CUDNN_OK) {
    way->plan = NULL;
    return false;
  }
  return f->set(way->plan, CUDNN_PLAN_HANDLE, CUDNN_IS_HANDLE, 1, &handle) == CUDNN_OK &&
         f->set(way->plan, CUDNN_PLAN_SETTINGS, CUDNN_IS_DESCRIPTOR, 1, &way->settings) ==
             CUDNN_OK &&
         f->finalize(way->plan) == CUDNN_OK &&
         f->get(way->plan, CUDNN_PLAN_WORKSPACE, CUDNN_IS_INT64, 1, &count,
                &way->workspace_bytes) == CUDNN_OK &&
         way->workspace_bytes >= 0 && way->workspace_bytes <= workspace_limit;
}

static bool is_known(const cudnn_way *ways, int32_t count, int64_t engine) {
  for (int32_t i = 0; i < count; i++)
    if (ways[i].engine == engine) return true;
  return false;
}

/* The proposals of one mode of heuristics: several settings per engine, or, in fallback mode, only
 * engines not found already. */
static int32_t propose(const cuda_library *library, const cudnn_problem *p, cudnn_pile *pile,
                       cudnn_descriptor graph, int32_t mode, int64_t workspace_limit,
                       int64_t engine, cudnn_way *ways, int32_t room, int32_t *found) {
  const cudnn_functions *f = pile->functions;
  cudnn_descriptor heuristics, settings[MOST_SETTINGS] = {NULL};
  const attribute attributes[] = {
      {CUDNN_HEURISTICS_GRAPH, CUDNN_IS_DESCRIPTOR, 1, &graph},
      {CUDNN_HEURISTICS_MODE, CUDNN_IS_HEURISTICS, 1, &mode},
  };
  int64_t count = 0;
  int32_t code = make(pile, CUDNN_KIND_HEURISTICS, attributes, 2, &heuristics);
  for (int i = 0; i < MOST_SETTINGS && code == CUDNN_OK; i++) {
    code = f->describe(CUDNN_KIND_ENGINE_SETTINGS, &settings[i]);
    if (code != CUDNN_OK) settings[i] = NULL;
  }
  if (code == CUDNN_OK)
    code = f->get(heuristics, CUDNN_HEURISTICS_RESULTS, CUDNN_IS_DESCRIPTOR, MOST_SETTINGS, &count,
                  settings);
  if (code != CUDNN_OK) count = 0;
  for (int i = 0; i < MOST_SETTINGS; i++) {
    cudnn_way way = {.settings = settings[i]};
    if (i < count && *found < room && engine_fits(f, p, &way) &&
        (engine == CUDNN_ANY_ENGINE || way.engine == engine) &&
        (mode == CUDNN_HEURISTICS_A || !is_known(ways, *found, way.engine)) &&
        plan_make(f, library->handle, workspace_limit, &way))
      ways[(*found)++] = way;
    else
      cudnn_way_clear(f, &way);
  }
  return code;
}

int32_t cudnn_propose(const cuda_library *library, const cudnn_problem *p, int64_t alignment,
                      int64_t workspace_limit, int64_t engine, cudnn_pile *pile, cudnn_way *ways,
                      int32_t room, int32_t *found) {
  cudnn_descriptor graph;
  *found = 0;
  int32_t code = graph_make(pile, library->handle, p, alignment, &graph);
  if (code != CUDNN_OK) return code;
  code = propose(library, p, pile, graph, CUDNN_HEURISTICS_A, workspace_limit, engine, ways, room,
                 found);
  if (*found < room)
    code = propose(library, p, pile, graph, CUDNN_HEURISTICS_FALLBACK, workspace_limit, engine,
                   ways, room, found);
  if (*found > 0) return CUDNN_OK;
  return code == CUDNN_OK ? CUDNN_UNSUPPORTED : code;
}
