/* SPDX-License-Identifier: MIT */
/** @file
 * Quantization of models: an ONNX file with numbers of 8, 4 or 16 bits from a model of floats.
 * @code
 *   compute_model_binding samples[] = {{"image", first}, {"image", second}};
 *   compute_quantize_options options = {.samples = samples, .sample_count = 2};
 *   compute_quantize_report *report = NULL;
 *   if (compute_model_quantize(model, "small.onnx", &options, &report)) …
 * @endcode
 * A graph is quantized by writing it (compute_graph_save_onnx) and loading the file. The result
 * uses operators of ONNX and of com.microsoft, which ONNX Runtime computes as well. */
#ifndef COMPUTE_QUANTIZE_H
#define COMPUTE_QUANTIZE_H

#include "compute/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum compute_quantize_method {
  /** Weights and activations of convolutions and products, and of the pools, sums and views between
   * them, as 8-bit integers: QuantizeLinear and DequantizeLinear around each node. Needs samples.
   */
  COMPUTE_QUANTIZE_STATIC = 0,
  /** Weights only. Products take MatMulNBits with a scale for each block of a column; convolutions
   * take i8 weights with a scale for each channel. */
  COMPUTE_QUANTIZE_WEIGHTS,
  COMPUTE_QUANTIZE_F16, /**< f32 values and weights become f16; inputs and outputs stay f32 */
  COMPUTE_QUANTIZE_BF16 /**< the same with bf16, which needs opset 13 */
} compute_quantize_method;

/** How the range of an activation follows from its values. It always contains 0. */
typedef enum compute_quantize_range {
  COMPUTE_RANGE_MIN_MAX = 0,
  COMPUTE_RANGE_PERCENTILE, /**< cuts the tails outside options.percentile */
  COMPUTE_RANGE_ENTROPY,    /**< least Kullback-Leibler divergence (Migacz 2017) */
  COMPUTE_RANGE_MSE         /**< least mean squared error */
} compute_quantize_range;

typedef enum compute_quantize_rounding {
  COMPUTE_ROUNDING_SEARCH = 0, /**< to nearest, with the scale of least squared error */
  COMPUTE_ROUNDING_NEAREST,    /**< to nearest, with the scale of the largest weight */
  /** Each rounding error is spread over the weights that are rounded later (Frantar 2022). For
   * products with COMPUTE_QUANTIZE_WEIGHTS and at most 4096 rows of weights; needs samples. A
   * product with K rows takes about K³ operations and 8 K² bytes. All samples run again for each
   * 512 MiB of these bytes. */
  COMPUTE_ROUNDING_GPTQ
} compute_quantize_rounding;

typedef struct compute_quantize_options {
  compute_quantize_method method;
  compute_quantize_range range;
  compute_quantize_rounding rounding;
  double percentile; /**< of values in the range, above 50 and at most 100; 0: 99.99 */
  /** Of activations: COMPUTE_U8 or COMPUTE_I8; 0: u8 */
  compute_dtype activations;
  /** Of a weight; 0: 8. COMPUTE_QUANTIZE_STATIC takes 8 or 7. 7 bits avoid the sums of 16 bits that
   * saturate in ONNX Runtime on AVX2. COMPUTE_QUANTIZE_WEIGHTS takes 8 or 4. */
  int32_t bits;
  int32_t block;   /**< weights with one scale, a power of two from 16 to 256; 0: 32 */
  bool per_tensor; /**< COMPUTE_QUANTIZE_STATIC: one scale for a weight, not one for each channel */
  /** Patterns of nodes that keep f32, with * for any text and ? for any character. A pattern is
   * compared with the name of a node, with its operator, and with its first output. */
  const char *const *keep;
  size_t keep_count;
  /** `sample_count` times the required inputs of the model, by name. NULL: `next`, which must be
   * NULL otherwise. */
  const compute_model_binding *samples;
  size_t sample_count;
  /** Sets the tensors of the model's `count` required inputs, whose names are set, for sample
   * `index`. Sets *more to false past the last sample. The tensors must live until the next call.
   * It is called for all samples, from 0 on, for each 512 observed values. A report calls it again
   * for the first samples. Each pass must give the same samples. Another status ends the call with
   * this status. It must return (compute.h). */
  compute_status (*next)(void *user, size_t index, compute_model_binding *inputs, size_t count,
                         bool *more);
  void *user;           /**< for `next` */
  uint64_t reserved[8]; /**< must be zero */
} compute_quantize_options;

/** A node of the model. */
typedef struct compute_quantize_layer {
  const char *name;      /**< of the first output; lives as long as the report */
  const char *operation; /**< the operator */
  bool quantized;
  const char *reason; /**< why it keeps f32, or how its weights are stored; "" for neither */
  /** Errors of the first output against the model of floats, over at most four samples: the root
   * mean square relative to the output's, and the largest. NaN without samples, and for outputs
   * that are texts or sequences. */
  double relative_error, largest_error;
  uint64_t reserved[4]; /**< zero */
} compute_quantize_layer;

typedef struct compute_quantize_report compute_quantize_report;

/** Writes `model` with its current weights, quantized, as the ONNX file `path`. The file appears
 * when it is complete and has been loaded once. `options` may be NULL only for methods without
 * samples. `report` may be NULL; ownership of *report passes to the caller.
 *
 * Only nodes of the main graph are quantized. Nodes that cannot be quantized keep f32, and the
 * report has the reason: weights computed at run time, nodes that are quantized already, values
 * that are infinite or NaN in a sample. A weight that other nodes use as f32 is also kept.
 * An input with a default stays an input, so it is no weight. Before IR version 4, every weight is
 * an input, and quantized ones are removed from the inputs.
 *
 * f16 overflows beyond 65504. Nodes with a larger constant keep f32, and so do the nodes that read
 * their results. Values are not checked.
 *
 * Samples may have different shapes. Up to 512 observed values are outputs of each run, so memory
 * for them is needed at once. More values take more runs.
 *
 * - COMPUTE_ERROR_INVALID_ARGUMENT for options outside their limits, for no samples where the
 *   method needs them, and for a path that does not end in ".onnx".
 * - _UNSUPPORTED for an opset before 10 with COMPUTE_QUANTIZE_STATIC or before 13 with
 *   COMPUTE_QUANTIZE_BF16, and for files of 2 GiB and more.
 * - The errors of compute_model_load_memory, also for a graph in a node with weights in an external
 *   file. Weights of the main graph may be external.
 * - The errors of compute_model_run for samples; the status of `next`; _FILE; _OUT_OF_MEMORY;
 *   _NULL_POINTER.
 *
 * Thread-safe. Not while another thread trains the model. */
COMPUTE_API compute_status compute_model_quantize(compute_model *model, const char *path,
                                                  const compute_quantize_options *options,
                                                  compute_quantize_report **report);

COMPUTE_API size_t compute_quantize_report_count(const compute_quantize_report *report);

/** Layer `index`, in the order of the file; the outputs of the model follow with the operator
 * "output". COMPUTE_ERROR_INVALID_ARGUMENT past the end; _NULL_POINTER. Thread-safe. */
COMPUTE_API compute_status compute_quantize_report_at(const compute_quantize_report *report,
                                                      size_t index, compute_quantize_layer *layer);

typedef enum compute_quantize_format {
  COMPUTE_REPORT_TEXT = 0, /**< a table */
  COMPUTE_REPORT_JSON,     /**< an object with the list "layers"; unknown errors are null */
  COMPUTE_REPORT_SVG       /**< a picture: a bar for the relative error of each layer */
} compute_quantize_format;

/** Writes the report as text. Free it with compute_text_free. COMPUTE_ERROR_OUT_OF_MEMORY;
 * _INVALID_ARGUMENT for another format; _NULL_POINTER. Thread-safe. */
COMPUTE_API compute_status compute_quantize_report_text(const compute_quantize_report *report,
                                                        compute_quantize_format format,
                                                        char **text);

/** NULL is allowed. */
COMPUTE_API void compute_quantize_report_release(compute_quantize_report *report);

/* ---- Training ------------------------------------------------------------------------------- */

/** x after QuantizeLinear and DequantizeLinear: (q − zero) · scale, where q is x / scale + zero,
 * rounded to an integer from `low` to `high`. The rounding has the gradient 1 (the straight-through
 * estimator, Bengio 2013): x has the gradient 1 if x / scale + zero is from `low` to `high`, limits
 * included, and 0 outside. `scale` has the gradient of learned step sizes (Esser 2019). A `scale`
 * that must not be trained is no parameter.
 *
 * x, `scale` and `zero` are f32; `scale` and `zero` broadcast to the shape of x. Returns {0} with
 * the graph's error: COMPUTE_ERROR_DTYPE, _SHAPE, and _INVALID_ARGUMENT for low >= high and for
 * limits beyond 65536. */
COMPUTE_API compute_node compute_fake_quantize(compute_graph *graph, compute_node x,
                                               compute_node scale, compute_node zero, double low,
                                               double high);

#ifdef __cplusplus
}
#endif
#endif
