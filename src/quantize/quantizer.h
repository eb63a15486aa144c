/* SPDX-License-Identifier: MIT */
/* The parts of compute_model_quantize. */
#ifndef QUANTIZE_QUANTIZER_H
#define QUANTIZE_QUANTIZER_H

#include "quantize/edit.h"
#include "quantize/observe.h"

typedef struct quantizer {
  edit e;
  compute_model *model;
  compute_quantize_options o;      /* defaults are filled in */
  size_t input_count;              /* required inputs of the model */
  bool *quantized;                 /* per node */
  const char **reasons;            /* per node, or NULL */
  struct written_weight **written; /* WRITTEN_AXES per value */
} quantizer;

/* ---- choose.c -------------------------------------------------------------------------------- */

/* True if `text` matches `pattern` (* and ?). */
bool choose_matches(const char *pattern, const char *text);

/* The reason why a node must not change, or NULL. */
const char *choose_refusal(const quantizer *q, const onnx_node *node);

/* The problem with a tensor as weights of f32, or NULL. NULL is no tensor. */
const char *choose_weights(const onnx_tensor *tensor);

/* True for a node of ONNX's own domain that has this operator. */
bool choose_is(const onnx_node *node, const char *type);

int64_t choose_integer(const onnx_node *node, const char *name, int64_t fallback);

/* True for a Gemm that only multiplies and adds a bias. */
bool choose_plain_gemm(const onnx_node *node);

/* ---- round.c --------------------------------------------------------------------------------- */

/* Rounds weights to integers of −limit to limit times a scale for each index along `axis`, or for
 * the tensor if `axis` is −1. */
void round_channels(const float *weights, compute_shape shape, int32_t axis, int32_t limit,
                    compute_quantize_rounding rounding, int8_t *values, float *scales);

/* The scale of one block, whose integers are −limit − 1 to limit. */
float round_block_scale(const float *weights, int64_t count, int64_t stride, int32_t limit,
                        compute_quantize_rounding rounding);

/* The nearest integer from `low` to `high`. */
int32_t round_to(float value, float scale, int32_t low, int32_t high);

/* Adjusts `weights` [rows, columns] in turn and rounds them in blocks of `block` rows. `moments`
 * [rows, rows] is the sum of x xᵀ over the inputs x of the product, and is overwritten. `error`
 * [columns] is workspace. `values` and `scales` [blocks, columns] receive the result. False if the
 * moments are singular. */
bool round_gptq(float *weights, double *moments, int64_t rows, int64_t columns, int64_t block,
                int32_t limit, float *error, int8_t *values, float *scales);

/* ---- channels.c ------------------------------------------------------------------------------ */

/* A weight of i8 in the written file. */
typedef struct written_weight {
  int64_t channels; /* 1 for one scale */
  const float *scales;
  const char *made; /* the name of the dequantized value */
} written_weight;

enum { WRITTEN_AXES = 3 };

/* Writes the constant `value` as integers of −limit to limit with a scale for each index along
 * `axis`, which is 0 or 1, or with one scale if `axis` is −1. Nodes with the same axis share the
 * result. NULL if out of memory. */
const written_weight *channels_put(quantizer *q, int32_t value, int32_t axis, int32_t limit);

/* com.microsoft for operators that this opset lacks: QuantizeLinear exists from opset 10, its axis
 * from opset 13. */
const char *channels_domain(const edit *e);

/* ---- sample.c -------------------------------------------------------------------------------- */

/* A model with some values as outputs. */
typedef struct sampled {
  compute_model *model;
  wire_buffer file; /* must outlive the model */
  compute_model_binding *outputs;
  size_t output_count;
} sampled;

/* Plans have at most 1024 outputs: more values need several passes over the samples. */
enum { MOST_SAMPLED = 512 };

/* `values` are at most MOST_SAMPLED different values of the main graph; their names are the same
 * in `file`. */
compute_status sampled_open(quantizer *q, const wire_buffer *file, const int32_t *values,
                            size_t count, sampled *s);
void sampled_close(sampled *s);

/* The bindings of the required inputs, without tensors, in the edit's memory; NULL if out of
 * memory. */
compute_model_binding *sample_inputs(quantizer *q);

/* True if the method cannot work without samples. */
bool sample_needed(const compute_quantize_options *o);

/* Fills in `inputs`; *more is false past the last sample. No samples are an error if needed. */
compute_status sample_next(quantizer *q, size_t index, compute_model_binding *inputs, bool *more);

compute_status sampled_run(sampled *s, const compute_model_binding *inputs, size_t count);
void sampled_clear(sampled *s); /* releases the outputs of a run */

/* The elements of a tensor as f32; NULL on failure, with its status. Free with base_release. */
float *sample_floats(const compute_tensor *tensor, compute_status *status);

/* ---- The methods ----------------------------------------------------------------------------- */

compute_status static_quantize(quantizer *q);
compute_status weights_quantize(quantizer *q);
compute_status half_quantize(quantizer *q);

/* ---- report.c -------------------------------------------------------------------------------- */

compute_status report_make(quantizer *q, const wire_buffer *made, compute_quantize_report **report);

#endif
