/* SPDX-License-Identifier: MIT */
/** @file
 * The interface between libcompute and its backends, for authors of backends.
 *
 * A backend is a shared library with one exported symbol, compute_backend_entry. It needs no symbol
 * of libcompute: the core's services are passed in a compute_services struct. backends/null is the
 * skeleton to copy, docs/internals/backends.md the guide.
 *
 * Versioning: every struct that crosses the interface starts with its size; fields are only ever
 * appended. Any other change raises COMPUTE_BACKEND_ABI_MAJOR, and a module with another major
 * version is refused. The core treats a slot past the module's struct_size as NULL, and asks before
 * calling any slot marked optional. A module must do the same with the services.
 *
 * Threads: the core may call every function from any thread, several at once, except that calls on
 * one queue never overlap. Errors: return a status and say why through services->fail. */
#ifndef COMPUTE_BACKEND_H
#define COMPUTE_BACKEND_H

#include <stdarg.h>

#include "compute/device.h"
#include "compute/fit_model.h"
#include "compute/generator.h"

#ifdef __cplusplus
extern "C" {
#endif

#define COMPUTE_BACKEND_ABI_MAJOR 2
#define COMPUTE_BACKEND_ABI_MINOR 2

/* ---- Programs ------------------------------------------------------------------------------
 *
 * A program computes one element of the iteration space from one element of each input: scalar
 * instructions in SSA form. Instruction i defines value i; operands name earlier values. Types:
 * F64, F32, I64, I32 and BOOL. Loads widen f16 and bf16 to F32, integers as dtype.h says; stores
 * convert back (also as in dtype.h). COPY does not take u64 to floats. Operands have the result's
 * type unless the row in compute/instructions.def says otherwise. Integer division and remainder by
 * zero give 0; integer overflow wraps. Minimum, maximum, relu and sign propagate NaN. */
typedef enum compute_instruction_code {
#define INSTRUCTION(code, number, name, operands, rule, cost, traits, text)                        \
  COMPUTE_I_##code = number,
#include "compute/instructions.def"
} compute_instruction_code;

enum { COMPUTE_I_END = 128 }; /**< above every code */

typedef struct compute_instruction {
  uint8_t code; /**< compute_instruction_code */
  uint8_t type; /**< compute_dtype of the result: F64, F32, I64, I32 or BOOL */
  uint16_t a, b, c;
  union {
    double f64;
    int64_t i64;
  } immediate;
} compute_instruction;

#define COMPUTE_MAX_OPERANDS     24  /**< inputs + outputs of one kernel */
#define COMPUTE_MAX_INSTRUCTIONS 256 /**< of one program */

typedef struct compute_program {
  uint32_t count; /**< 0: no program; results then pass through unchanged */
  uint32_t output_count;
  const compute_instruction *instructions;
  const uint16_t *outputs; /**< the value stored to each output */
} compute_program;

/* ---- Kernel descriptors -------------------------------------------------------------------- */

/** KIND(code, number, name): `COMPUTE_KERNEL_code = number`, which never changes. Tables generated
 * from this list cannot miss a kind. */
#define COMPUTE_KERNEL_KINDS(KIND)                                                                 \
  KIND(MAP, 0, map)                                                                                \
  KIND(REDUCE, 1, reduce)                                                                          \
  KIND(ROW, 2, row)                                                                                \
  KIND(GEMM, 3, gemm)                                                                              \
  KIND(GATHER, 4, gather)                                                                          \
  KIND(SCATTER, 5, scatter)                                                                        \
  KIND(COPY, 6, copy)                                                                              \
  KIND(CONV, 7, conv)                                                                              \
  KIND(FIT, 8, fit)                                                                                \
  KIND(WINDOW, 9, window)                                                                          \
  KIND(SCAN, 10, scan)                                                                             \
  KIND(TOP_K, 11, top_k)                                                                           \
  KIND(ATTENTION, 12, attention)                                                                   \
  KIND(SPOTS, 13, spots)                                                                           \
  KIND(SORT, 14, sort)                                                                             \
  KIND(CALL, 15, call)                                                                             \
  KIND(RECURRENT, 16, recurrent)                                                                   \
  KIND(QUANTIZED_GEMM, 17, quantized_gemm)

typedef enum compute_kernel_kind {
#define COMPUTE_KERNEL_KIND(code, number, name) COMPUTE_KERNEL_##code = number,
  COMPUTE_KERNEL_KINDS(COMPUTE_KERNEL_KIND)
#undef COMPUTE_KERNEL_KIND
} compute_kernel_kind;

#define COMPUTE_KERNEL_KIND_ONE(code, number, name) +1
enum { COMPUTE_KERNEL_KIND_COUNT = 0 COMPUTE_KERNEL_KINDS(COMPUTE_KERNEL_KIND_ONE) };
#undef COMPUTE_KERNEL_KIND_ONE

/** How a kernel walks one buffer: element strides over the iteration space, 0 where it repeats. The
 * first element is the binding's address. */
typedef struct compute_operand {
  compute_dtype dtype;
  int64_t stride[COMPUTE_MAX_RANK];
} compute_operand;

typedef enum compute_combine {
  COMPUTE_COMBINE_SUM = 0,
  COMPUTE_COMBINE_PROD = 1,
  COMPUTE_COMBINE_MAX = 2,
  COMPUTE_COMBINE_MIN = 3,
  COMPUTE_COMBINE_ARGMAX = 4, /**< the result is the row-major I64 position in the reduced dims */
  COMPUTE_COMBINE_ARGMIN = 5
} compute_combine;

typedef struct compute_reduce_attributes {
  int32_t kept_rank;
  compute_combine combine;
} compute_reduce_attributes;

typedef enum compute_row_operation {
  COMPUTE_ROW_SOFTMAX = 0,
  COMPUTE_ROW_LOG_SOFTMAX = 1,
  COMPUTE_ROW_NORMALIZE = 2 /**< (x - mean) / sqrt(variance + epsilon), biased variance */
} compute_row_operation;

typedef struct compute_row_attributes {
  compute_row_operation operation;
  double epsilon; /**< NORMALIZE; ≥ 0 */
} compute_row_attributes;

/** The precision of f32 products in GEMM and CONV: allowances, which may be combined by |. A device
 * may always be more exact. */
typedef enum compute_precision {
  COMPUTE_PRECISION_STRICT = 0, /**< as f32 does */
  COMPUTE_PRECISION_TF32 = 1,   /**< factors may be rounded to 10 bits of mantissa; sums are f32 */
  /** Winograd's minimal filtering is allowed, in f32; CONV only. */
  COMPUTE_PRECISION_WINOGRAD = 2
} compute_precision;

typedef struct compute_gemm_attributes {
  int64_t k;                   /**< ≥ 0 */
  compute_precision precision; /**< with accumulate F32 */
} compute_gemm_attributes;

/** GATHER and SCATTER. */
typedef struct compute_index_attributes {
  int64_t axis_size;
  int64_t axis_stride;       /**< elements */
  bool from_zero;            /**< negative indices are outside; otherwise they count from the end */
  compute_scatter_mode mode; /**< SCATTER */
} compute_index_attributes;

typedef enum compute_convolution_direction {
  COMPUTE_CONVOLUTION_FORWARD = 0,
  COMPUTE_CONVOLUTION_BY_DATA = 1,  /**< the gradient of the data from that of the result */
  COMPUTE_CONVOLUTION_BY_FILTER = 2 /**< the gradient of the filter */
} compute_convolution_direction;

/** A convolution (the field's name for a cross-correlation) in two dimensions, in groups:
 * @code
 *   y[n, o, p, q] = sum over c, r, s of w[o, c, r, s] · x[n, C·g + c, h, v]
 *   h = p·stride[0] + r·dilation[0] − padding[0],  v = q·stride[1] + s·dilation[1] − padding[1]
 * @endcode
 * where C is data_channels / groups, g is o / (result_channels / groups), 0 ≤ c < C, and x is 0
 * outside its height and width. One dimension is a height of 1. */
typedef struct compute_conv_attributes {
  compute_convolution_direction direction;
  int32_t groups;                 /**< ≥ 1; divides both numbers of channels */
  int64_t batch;                  /**< n */
  int64_t data_channels;          /**< of x, all groups together */
  int64_t result_channels;        /**< of y, all groups together */
  int64_t data_size[2];           /**< height and width of x */
  int64_t result_size[2];         /**< of y */
  int64_t filter_size[2];         /**< of w; ≥ 1 */
  int64_t stride[2], dilation[2]; /**< ≥ 1 */
  int64_t padding[2]; /**< before the first row and column; ≥ 0; after the last as needed */
  compute_precision precision; /**< with accumulate F32 */
  uint32_t reserved;           /**< 0 */
} compute_conv_attributes;

typedef struct compute_fit_attributes {
  compute_fit_problem problem; /**< with every 0 that means a default replaced */
  /** With corners: the number of frames (where the pixels are frames), and the size of frames and
   * maps. */
  int64_t frames, rows, columns;
} compute_fit_attributes;

typedef enum compute_window_operation {
  COMPUTE_WINDOW_MAX = 0, /**< NaN is the largest */
  COMPUTE_WINDOW_AVERAGE = 1,
  COMPUTE_WINDOW_ARGMAX = 2 /**< I64: where the first largest is, counted over all of the data */
} compute_window_operation;

/** Pooling: windows of a data plane, each folded to one element of the result. The window of result
 * (p, q) begins at row p·stride[0] − padding[0], column q·stride[1] − padding[1] and has size[0] ×
 * size[1] elements, dilation apart; those outside the data are ignored. */
typedef struct compute_window_attributes {
  compute_window_operation operation;
  bool by_data; /**< the gradient of the data from that of the result; not of ARGMAX */
  /** AVERAGE divides by all elements of the window that lie in the data or its padding (padding[i]
   * rows or columns before it, padding[i] + padding_more[i] after it); otherwise by those in the
   * data. */
  bool count_padding;
  int64_t data_size[2], result_size[2];
  int64_t size[2], stride[2], dilation[2]; /**< ≥ 1 */
  int64_t padding[2];                      /**< ≥ 0 */
  int64_t padding_more[2];                 /**< ≥ −padding[i]; only where padding is counted */
} compute_window_attributes;

typedef struct compute_scan_attributes {
  compute_combine combine; /**< SUM, PROD, MAX or MIN */
  bool exclusive;          /**< excluding the element itself: the identity first */
  bool reverse;            /**< from the end */
} compute_scan_attributes;

typedef struct compute_top_k_attributes {
  int64_t axis_size; /**< of the rows of inputs[0] */
  bool smallest;
} compute_top_k_attributes;

/** Scaled dot-product attention: softmax(scale · Q Kᵀ + bias) V. */
typedef struct compute_attention_attributes {
  int64_t keys;  /**< rows of K and V */
  int64_t width; /**< of rows of Q and K */
  double scale;
  bool causal; /**< query i of m sees keys j ≤ i + keys − m */
  bool biased; /**< there is an inputs[3] */
} compute_attention_attributes;

#define COMPUTE_SPOT_MOST_RADIUS 384

/** Finding spots in frames. Filters are sums of weighted pixels, first along columns, then along
 * rows, each the middle's product and then, from the nearest pair on, the product of the weight and
 * the sum of two pixels, in F32; a frame is continued by its edges.
 * @code
 *   filter 0  b − w(b): b is the frame blurred by a Gaussian of `sigma`, cut off past `radius`, w a
 *             blur by one of `wide_sigma`, cut off past `wide_radius`. Weights are
 *             exp(−i²/2σ²), divided by their sum.
 *   filter 1  the mean of the square of 2 radius + 1 pixels less that of 2 wide_radius + 1
 * @endcode
 * The noise comes from x = |second difference along columns of the second difference along rows| at
 * the inner pixels of rows 1, 1 + step, … ≤ height − 2, tile by tile: compute_spots_tiles_of says
 * where they lie. In a tile it is `first` times the sum of the finite x divided by the number of
 * all x, then, `rounds` times, the root of the mean square of the x ≤ clip · noise times `scale`,
 * and never less than `least` times what it was at first. The smaller of (noise · gain)² and 1e30
 * is the variance of the filtered frame at the tile's middle; between middles it is linear along
 * each axis, beyond them constant. Near the frame's edges, which the filter meets several times, it
 * is multiplied by what compute_spots_edges says of noise there, over the same far inside. A
 * response is the filtered pixel over the root of its variance,
 * and 0 where that is 0. */
typedef struct compute_spots_attributes {
  int32_t filter, distance;    /**< 0 or 1; 1 … COMPUTE_SPOT_MOST_RADIUS */
  int32_t radius, wide_radius; /**< 0 ≤ radius ≤ wide_radius ≤ COMPUTE_SPOT_MOST_RADIUS */
  int64_t step, rounds;        /**< ≥ 1, ≥ 0 */
  double sigma, wide_sigma;    /**< > 0 with filter 0 */
  double threshold;            /**< > 0 */
  double first, clip, scale, least, gain;
  int64_t tile; /**< side in pixels; 0: the whole frame is one */
} compute_spots_attributes;

/** Tiles along one axis of a frame. They have equal sizes and may overlap: tile i begins with
 * sample i (samples − size) / (count − 1), rounded down; its middle is at pixel origin + i · apart.
 */
typedef struct compute_spots_tiles {
  int64_t count, size, samples; /**< size: samples in a tile */
  double origin, apart;
} compute_spots_tiles;

/** Of an axis of `pixels` ≥ 3, of which every step-th is a sample, from 1 to pixels − 2. */
static inline compute_spots_tiles compute_spots_tiles_of(int64_t pixels, int64_t step,
                                                         int64_t tile) {
  compute_spots_tiles t = {1, 0, (pixels - 3) / step + 1, 0, 1};
  const int64_t wanted = tile / step > 0 ? tile / step : 1;
  t.size = tile == 0 || wanted > t.samples ? t.samples : wanted;
  t.count = (t.samples + t.size - 1) / t.size;
  t.origin = 1 + 0.5 * (double)(step * (t.size - 1));
  if (t.count > 1) t.apart = (double)(step * (t.samples - t.size)) / (double)(t.count - 1);
  return t;
}

static inline int64_t compute_spots_tile_start(const compute_spots_tiles *t, int64_t i) {
  return t->count > 1 ? i * (t->samples - t->size) / (t->count - 1) : 0;
}

/** Noise near the ends of an axis of `pixels` ≥ 2 that is continued by its edges, after a filter of
 * 2 reach + 1 weights a(y) a(x) − b(y) b(x): for each pixel the sums of a², ab and b² over the
 * pixels, an edge's weights added up, to sums[3 pixels]. White noise of variance 1 has the variance
 * aa(y) aa(x) − 2 ab(y) ab(x) + bb(y) bb(x). Pixels that are `reach` or more from both ends have
 * the same sums. */
static inline void compute_spots_edges(const double *a, const double *b, int32_t reach,
                                       int64_t pixels, double *sums) {
  for (int64_t i = 0; i < pixels; i++, sums += 3) {
    double edge_a[2] = {0, 0}, edge_b[2] = {0, 0};
    sums[0] = sums[1] = sums[2] = 0;
    for (int64_t k = -(int64_t)reach; k <= reach; k++) {
      const double x = a[reach + k], y = b[reach + k];
      const int side = i + k <= 0 ? 0 : i + k >= pixels - 1 ? 1 : -1;
      if (side >= 0) {
        edge_a[side] += x;
        edge_b[side] += y;
        continue;
      }
      sums[0] += x * x;
      sums[1] += x * y;
      sums[2] += y * y;
    }
    for (int side = 0; side < 2; side++) {
      sums[0] += edge_a[side] * edge_a[side];
      sums[1] += edge_a[side] * edge_b[side];
      sums[2] += edge_b[side] * edge_b[side];
    }
  }
}

typedef struct compute_sort_attributes {
  bool descending;
  bool values, positions; /**< the outputs, in this order: at least one */
} compute_sort_attributes;

typedef enum compute_recurrent_cell {
  COMPUTE_RECURRENT_RNN = 0,
  COMPUTE_RECURRENT_GRU = 1,
  COMPUTE_RECURRENT_LSTM = 2
} compute_recurrent_cell;

/** A recurrence over the steps of sequences. With σ the sigmoid, R(s) the product of a row of the
 * state with the gate's columns of R, and x the gate's columns of the step's input:
 * @code
 *   RNN    h' = tanh(x + R(h))
 *   GRU    z = σ(x₀ + R₀(h)), r = σ(x₁ + R₁(h))
 *          n = tanh(x₂ + R₂(r · h)), or with reset_after tanh(x₂ + r · (R₂(h) + bias))
 *          h' = (1 − z) · n + z · h
 *   LSTM   i = σ(x₀ + R₀(h) + p₀ · c), f = σ(x₂ + R₂(h) + p₂ · c)
 *          c' = f · c + i · tanh(x₃ + R₃(h)), o = σ(x₁ + R₁(h) + p₁ · c')
 *          h' = o · tanh(c')
 * @endcode
 * Arguments of these σ, and of each tanh but the last, are clamped to −clip … clip first. */
typedef struct compute_recurrent_attributes {
  compute_recurrent_cell cell;
  bool reverse;     /**< from the last step to the first */
  bool reset_after; /**< GRU */
  bool lengths;     /**< there are inputs for these */
  bool bias;        /**< GRU with reset_after */
  bool peepholes;   /**< LSTM: p */
  double clip;      /**< 0: none */
} compute_recurrent_attributes;

/** A right factor of small integers. Number p of a column is q, bits (p · bits) % 8 and up of byte
 * p · bits / 8, and stands for (q − zero) · scale. */
typedef struct compute_quantized_gemm_attributes {
  int64_t k;     /**< ≥ 0 */
  int64_t block; /**< numbers along k that share a scale; ≥ 1; block · bits is a multiple of 8 */
  int32_t bits;  /**< 2, 4 or 8 */
  bool zeros;    /**< there is an inputs[3]; otherwise each zero is 2^(bits − 1) */
} compute_quantized_gemm_attributes;

/** A function of the calling program, which only the CPU can call. */
typedef struct compute_call_attributes {
  /** Makes the call with the addresses of the inputs, then the outputs, and returns when it is
   * done; has reported any failure. May be called from several threads at once. */
  compute_status (*run)(const void *call, void *const *operands);
  const void *call; /**< first argument of run; lives as long as the kernel runs */
  const char *name; /**< for messages; likewise */
  int64_t count[COMPUTE_MAX_OPERANDS]; /**< elements of the inputs, then the outputs, all dense */
} compute_call_attributes;

/* clang-format off: the kinds keep their shape */
/* One kernel. inputs and outputs are numbered separately; a launch binds the inputs, then the
 * outputs. Outputs never alias inputs, except that in MAP and in the epilogues of GEMM, CONV and
 * REDUCE an output may be the very elements of an input that the epilogue alone reads (same address
 * and strides).
 *
 * MAP     `epilogue` runs over the space: its input i is inputs[i], its output k goes to
 *         outputs[k].
 *
 * REDUCE  The space is the kept dimensions (the first kept_rank), then the reduced ones.
 *         `prologue` (inputs 0 … prologue_inputs−1; one output) makes the element, or inputs[0]
 *         itself when it has no program; `combine` folds the reduced dimensions in the type of
 *         that element (`accumulate`); `epilogue` has the folded value (I64 for ARGMAX and ARGMIN)
 *         as its input 0 and inputs[prologue_inputs + j − 1] as its input j ≥ 1, over the kept
 *         dimensions. Operand strides of the epilogue are 0 in the reduced dimensions, as are the
 *         outputs'.
 *
 * ROW     The last dimension is the row. Prologue, row operation in `accumulate`, epilogue as in
 *         REDUCE, but the epilogue and the outputs run over the whole space.
 *
 * GEMM    The space is batch dimensions, then m, n (rank ≥ 2). inputs[0] is A with strides over
 *         (batch…, m, k), inputs[1] is B with strides over (batch…, k, n): their last two stride
 *         entries mean these. sum over k of A·B in `accumulate`; `epilogue` has that as its input
 *         0 and inputs[1 + j] as its input j ≥ 1, over (batch…, m, n). No prologue. k may be 0.
 *
 * GATHER  outputs[0][i…] = inputs[0][i… , with inputs[1][i…] along the axis]: inputs[0] has stride
 *         0 in the dimensions that the index replaces; the index moves it by axis_stride and lies
 *         in 0 … axis_size−1, negative ones counting from the end, or with from_zero being
 *         outside. inputs[1] is I32 or I64; the others share a dtype. No programs. An index
 *         outside fails the launch, or the wait for it, with COMPUTE_ERROR_INDEX:
 *         services->fail_index reports which.
 *
 * SCATTER outputs[0][… at inputs[1][i…]] += inputs[0][i…], where inputs[0] is the update and the
 *         output has stride 0, axis_stride and axis_size as GATHER's source. The output is read
 *         and written; several updates of one element are added in row-major order of the space,
 *         or in another order that is the same at every run. Indices as in GATHER. Other modes
 *         multiply, take the larger or smaller (not of U64), or set, in that order, so that the
 *         last update wins. BOOL can only be set.
 *
 * COPY    outputs[0] = inputs[0], converted. No programs.
 *
 * CONV    The space has rank 4: FORWARD (n, o, p, q), BY_DATA (n, data channel, height, width),
 *         BY_FILTER (o, c, r, s), with the sizes that the attributes say. inputs[0] and inputs[1]
 *         have strides over dimensions of their own: FORWARD x and w, BY_DATA y's gradient and w,
 *         BY_FILTER x and y's gradient; x as (n, data channel, height, width), w as (o, c, r, s),
 *         y as (n, o, p, q). Products are summed in `accumulate`; `epilogue` has the sum as its
 *         input 0 and inputs[1 + j] as its input j ≥ 1, over the space. No prologue.
 *
 * FIT     The space has rank 1: the ROIs. `problem` says what is computed, with every 0 that means
 *         a default replaced (outputs, iterations, epsilon, sigma[1], gain, em_gain). inputs[0] is
 *         the pixels, U16 or F32: strides over (ROI or frame, row, column). The inputs that
 *         problem.inputs names follow in the order of its bits: corners with strides over (ROI,
 *         3); maps and the mask over (ROI, row, column), the first usually 0; sigma, start and
 *         bounds over (ROI, parameter); the spline dense. outputs[0] is F32 with strides over (ROI,
 *         column of the record). An ROI that would reach outside frames × rows × columns is
 *         BAD_DATA. No programs. An ROI's record depends only on its own inputs, bit for bit.
 *
 * WINDOW  The space has rank 4: (n, channel, p, q), or with by_data (n, channel, height, width).
 *         inputs[0] is the data (n, channel, height, width); with by_data, MAX has the data and
 *         then the result's gradient (n, channel, p, q), AVERAGE only that gradient. Strides over
 *         dimensions of their own, as in CONV. The gradient of a maximum goes to its first place
 *         in row-major order. A window without an element of the data gives the least number of
 *         inputs[0]'s dtype (MAX), 0 (AVERAGE) or −1 (ARGMAX). MAX and ARGMAX, not by_data, take
 *         all dtypes of numbers but U64. Folded in `accumulate`; `epilogue` has the fold (I64 of
 *         ARGMAX) as its input 0 and the inputs after those named here as its further inputs. No
 *         prologue.
 *
 * SCAN    Running `combine` (SUM, PROD, MAX, MIN) of inputs[0] along the last dimension of the
 *         space, in `accumulate`; exclusive: of the elements before (the identity first); reverse:
 *         from the end. One output. No programs.
 *
 * TOP_K   The last dimension of the space has the k results of a row; inputs[0] has a stride for
 *         each dimension but the last, where it has that of the row's axis_size ≥ k elements.
 *         outputs[0], I64, are the positions in the row of its largest elements (smallest with
 *         `smallest`), in that order, ties by position; a NaN is larger than all numbers. No
 *         programs.
 *
 * ATTENTION The space is batch dimensions, then m (queries), e (width of V). Inputs Q, K, V with
 *         strides over the batch dimensions and two of their own, (m, width), (keys, width),
 *         (keys, e); then, if biased, the bias over (batch…, m, keys). All of one dtype; summed in
 *         `accumulate`. A query that sees no key gives 0. One output. No programs.
 *
 * SPOTS   The space is (frame, row, column), at least 3 rows and columns. inputs[0] is the frames,
 *         U16 or F32. outputs[0], F32: the filtered frame over its noise, as the attributes say.
 *         BOOL: true where that reaches the threshold and the filtered frame is larger than at the
 *         pixels before within `distance` rows and columns, in row-major order, and no smaller
 *         than at those after; outside the frame it is 0. A NaN there makes it false. No programs.
 *         The result of a frame depends on nothing else.
 *
 * SORT    The rows of inputs[0], which run along the last dimension of the space, in ascending
 *         order, or descending; equal elements (zeros are, of either sign) stay in the order of
 *         their positions, and so do NaNs, which come last in either order. Any dtype but BOOL.
 *         The outputs: with `values` the elements, of the input's dtype and bit for bit; then with
 *         `positions` where in the row each was, I64. No programs.
 *
 * RECURRENT The space is (row, batch, hidden), a row for each step, then one for the last h and,
 *         LSTM, one for the last c. Inputs, with strides over three dimensions of their own: the
 *         steps' inputs (step, batch, gates · hidden), R (1, hidden, gates · hidden), the first h
 *         (1, batch, hidden), LSTM the first c likewise; then those that the attributes name:
 *         lengths (1, 1, batch) in I32, bias (1, 1, hidden), peepholes (1, 1, 3 · hidden). All but
 *         lengths of one dtype; computed in `accumulate`. Row `step` of the output is h after that
 *         step. A sequence takes part in steps below its length; in others its h and c stay as
 *         they are, and the row is 0. One output. No programs.
 *
 * QUANTIZED_GEMM As GEMM, in floats. inputs[0] is A as there. B has no batch dimensions, and three
 *         inputs whose last two stride entries are over (n, byte), (n, block) and (n, block):
 *         inputs[1] the numbers, U8; inputs[2] their scales, floats; inputs[3], with `zeros`, their
 *         zero points, floats or U8. `epilogue` has the inputs after these as its further inputs.
 *
 * CALL    The attributes say what to call, and the number of elements of each operand, all of them
 *         dense. The space has one dimension, with the size of the largest output; the strides are
 *         ignored. Only a device that computes in host memory can run it. No programs.
 *
 * A program-less epilogue stores value 0 (in MAP: is not allowed), converted to outputs[0]'s dtype.
 * Any size may be 0: then nothing is stored, except that REDUCE over 0 elements stores the
 * identity (through the epilogue) and GEMM with k = 0 stores 0 (through the epilogue), as CONV does
 * where nothing is summed. */
/* clang-format on */
typedef struct compute_kernel_descriptor {
  size_t struct_size;
  compute_kernel_kind kind;
  int32_t rank;
  int64_t size[COMPUTE_MAX_RANK];
  uint32_t input_count;
  uint32_t output_count;
  const compute_operand *inputs;
  const compute_operand *outputs;
  compute_program prologue;
  compute_program epilogue;
  uint32_t prologue_inputs; /**< REDUCE, ROW */
  compute_dtype accumulate; /**< F64, F32, I64, I32 or (max, min) BOOL; MAP, COPY, …: not used */
  /** compute_<kind>_attributes, GATHER and SCATTER compute_index_attributes, MAP and COPY none. A
   * minor version may append fields to them: attribute_bytes says which are present. */
  const void *attributes;
  size_t attribute_bytes;
  /** Bit i: inputs[i] has the same elements at every launch, and the device may ask for it in a
   * form of its own (compute_backend.kernel_packed_bytes). GEMM and CONV: inputs 0 and 1. Of a
   * backend without that function always 0. */
  uint32_t constant_inputs;
} compute_kernel_descriptor;

/** The attributes of a descriptor of that kind. */
static inline const compute_reduce_attributes *
compute_reduce_of(const compute_kernel_descriptor *descriptor) {
  return (const compute_reduce_attributes *)descriptor->attributes;
}

static inline const compute_row_attributes *
compute_row_of(const compute_kernel_descriptor *descriptor) {
  return (const compute_row_attributes *)descriptor->attributes;
}

static inline const compute_gemm_attributes *
compute_gemm_of(const compute_kernel_descriptor *descriptor) {
  return (const compute_gemm_attributes *)descriptor->attributes;
}

static inline const compute_index_attributes *
compute_index_of(const compute_kernel_descriptor *descriptor) {
  return (const compute_index_attributes *)descriptor->attributes;
}

static inline const compute_conv_attributes *
compute_conv_of(const compute_kernel_descriptor *descriptor) {
  return (const compute_conv_attributes *)descriptor->attributes;
}

static inline const compute_fit_attributes *
compute_fit_of(const compute_kernel_descriptor *descriptor) {
  return (const compute_fit_attributes *)descriptor->attributes;
}

static inline const compute_window_attributes *
compute_window_of(const compute_kernel_descriptor *descriptor) {
  return (const compute_window_attributes *)descriptor->attributes;
}

static inline const compute_scan_attributes *
compute_scan_of(const compute_kernel_descriptor *descriptor) {
  return (const compute_scan_attributes *)descriptor->attributes;
}

static inline const compute_top_k_attributes *
compute_top_k_of(const compute_kernel_descriptor *descriptor) {
  return (const compute_top_k_attributes *)descriptor->attributes;
}

static inline const compute_attention_attributes *
compute_attention_of(const compute_kernel_descriptor *descriptor) {
  return (const compute_attention_attributes *)descriptor->attributes;
}

static inline const compute_spots_attributes *
compute_spots_of(const compute_kernel_descriptor *descriptor) {
  return (const compute_spots_attributes *)descriptor->attributes;
}

static inline const compute_sort_attributes *
compute_sort_of(const compute_kernel_descriptor *descriptor) {
  return (const compute_sort_attributes *)descriptor->attributes;
}
static inline const compute_recurrent_attributes *
compute_recurrent_of(const compute_kernel_descriptor *descriptor) {
  return (const compute_recurrent_attributes *)descriptor->attributes;
}

/** Gates of a cell; rows of the output after those of the steps. */
static inline int64_t compute_recurrent_gates(compute_recurrent_cell cell) {
  return cell == COMPUTE_RECURRENT_LSTM ? 4 : cell == COMPUTE_RECURRENT_GRU ? 3 : 1;
}
static inline int64_t compute_recurrent_states(compute_recurrent_cell cell) {
  return cell == COMPUTE_RECURRENT_LSTM ? 2 : 1;
}

static inline const compute_quantized_gemm_attributes *
compute_quantized_gemm_of(const compute_kernel_descriptor *descriptor) {
  return (const compute_quantized_gemm_attributes *)descriptor->attributes;
}

static inline const compute_call_attributes *
compute_call_of(const compute_kernel_descriptor *descriptor) {
  return (const compute_call_attributes *)descriptor->attributes;
}

/* ---- Services of the core ------------------------------------------------------------------ */

/** One task of a parallel loop; `worker` is below thread_count and unique among those running. */
typedef void (*compute_task)(void *argument, int64_t task, int32_t worker);

/** Part of a disk-cache key: any bytes. */
typedef struct compute_cache_part {
  const void *data;
  size_t bytes;
} compute_cache_part;

typedef struct compute_services {
  size_t struct_size;
  uint32_t abi_major, abi_minor; /**< of the core */
  void *host;                    /**< first argument of the functions below */

  /** Host memory, zeroed; NULL when out of memory (report it through fail). */
  void *(*allocate)(void *host, size_t bytes, size_t alignment);
  void (*release)(void *host, void *pointer);

  /** One log line. */
  void (*log)(void *host, compute_log_level level, const char *module, const char *format, ...)
      COMPUTE_PRINTF(4, 5);

  /** Records an error detail for the calling thread and returns `status`. `remedy` may be NULL. */
  compute_status (*fail)(void *host, compute_status status, int64_t native_code, const char *remedy,
                         const char *format, ...) COMPUTE_PRINTF(5, 6);

  /** Threads of the context's pool, including the caller: at least 1, constant. */
  int32_t (*thread_count)(void *host);

  /** Runs task(argument, 0 … tasks−1, worker) on the pool and the caller; returns when all are
   * done. Tasks are handed out in ascending order. When the pool is busy with another caller's loop
   * or the call is nested, the caller runs all of them itself, as worker 0. */
  void (*parallel)(void *host, int64_t tasks, compute_task task, void *argument);

  /** The text of an environment variable of the core's table, or NULL if unset or empty. */
  const char *(*variable)(void *host, const char *name);

  /** Writes a kernel's source (compute/generator.h). `tuning` may be NULL: the defaults.
   * COMPUTE_ERROR_UNSUPPORTED, with the reason as error detail, when the target does not have what
   * the kernel needs or cannot run these parameters. The result is constant; release it with
   * generated_release. */
  compute_status (*generate)(void *host, const compute_target *target,
                             const struct compute_kernel_descriptor *descriptor,
                             const compute_tuning *tuning, const compute_generated **generated);
  void (*generated_release)(void *host, const compute_generated *generated);

  /** Whether generate could serve the descriptor on this target; `reason` as in `supports`. */
  bool (*generates)(void *host, const compute_target *target,
                    const struct compute_kernel_descriptor *descriptor, char *reason,
                    size_t reason_bytes);

  /** The dialect's definitions, which precede every generated source: for a user's own kernels. */
  const char *(*dialect_text)(void *host, compute_dialect dialect);

  /** Fills in the parameters for a kernel on a target: forced, from the tuning file, from the
   * library's table, or all 0. */
  compute_tuning_source (*tuning_lookup)(void *host, const compute_target *target,
                                         const struct compute_kernel_descriptor *descriptor,
                                         compute_tuning *tuning);

  /** The disk cache. `parts` are everything that the entry depends on, in an order that the module
   * fixes; the core adds its own version. load returns memory to be freed with `release`, or NULL
   * if there is no such entry, it is damaged, or the cache is off. Neither call sets an error. */
  void *(*cache_load)(void *host, const compute_cache_part *parts, uint32_t count, size_t *bytes);
  void (*cache_store)(void *host, const compute_cache_part *parts, uint32_t count, const void *data,
                      size_t bytes);

  /** Whether the module called `backend` may open libraries that obey the environment of the
   * process: always, except in a program with raised privileges (set-user-ID, set-group-ID, file
   * capabilities) whose compute_open_options do not name the module. Constant while the context
   * lives. */
  bool (*trusts_environment)(void *host, const char *backend);

  /** fail for an index of GATHER or SCATTER that is outside its axis: its value, and where it was
   * read, in elements from the beginning of inputs[1]. `label` is what queue_label set when the
   * kernel was enqueued, 0 if that is not known or enqueue itself fails. Of several, report the one
   * with the lowest position, or any of them. Returns COMPUTE_ERROR_INDEX. */
  compute_status (*fail_index)(void *host, uint32_t label, int64_t index, int64_t offset);
} compute_services;

/* ---- A module's functions ------------------------------------------------------------------ */

/** A piece of device memory. `handle` is the module's own; `host` is its address if the CPU can
 * read and write it, else NULL. */
typedef struct compute_memory {
  void *handle;
  void *host;
  uint64_t bytes;
} compute_memory;

/** A kernel argument: `offset` bytes into `memory`. */
typedef struct compute_argument {
  const compute_memory *memory;
  uint64_t offset;
} compute_argument;

/** Memory as other libraries name it, in DLPack's terms: `byte_offset` bytes from `data` on. */
typedef struct compute_foreign_memory {
  int32_t device_type; /**< 1 the CPU, 2 CUDA, 3 the host's memory locked for CUDA, 4 OpenCL, … */
  int32_t device_id;   /**< among the devices of this type */
  void *data;          /**< an address, or a handle such as a cl_mem */
  uint64_t byte_offset;
} compute_foreign_memory;

/** An argument of a user's kernel: device memory if `memory` is set, else `bytes` of `value`, or
 * `bytes` of local memory if both are NULL. */
typedef struct compute_custom_argument {
  const compute_memory *memory;
  uint64_t offset;
  const void *value;
  uint64_t bytes;
} compute_custom_argument;

/* ---- Communicators ------------------------------------------------------------------------- */

/** What a device needs to communicate with those of other processes. Ranks with another `library`
 * cannot; nor can two ranks of one host with the same `place`. */
typedef struct compute_communicator_offer {
  char library[32]; /**< "NCCL 2.27.3" */
  char place[32];   /**< of the device on its host: "0000:41:00" */
  uint64_t reserved[4];
} compute_communicator_offer;

#define COMPUTE_COMMUNICATOR_ID_BYTES 128

typedef enum compute_collective_kind {
  COMPUTE_COLLECTIVE_ALL_REDUCE = 0,
  COMPUTE_COLLECTIVE_REDUCE_SCATTER = 1,
  COMPUTE_COLLECTIVE_ALL_GATHER = 2,
  COMPUTE_COLLECTIVE_BROADCAST = 3,
  COMPUTE_COLLECTIVE_SEND = 4,
  COMPUTE_COLLECTIVE_RECEIVE = 5
} compute_collective_kind;

/** What compute/distributed.h calls a compute_group_reduction, with its numbers. */
typedef enum compute_collective_reduction {
  COMPUTE_COLLECTIVE_SUM = 0,
  COMPUTE_COLLECTIVE_MEAN = 1,
  COMPUTE_COLLECTIVE_MAX = 2, /**< NaN if any is */
  COMPUTE_COLLECTIVE_MIN = 3
} compute_collective_reduction;

typedef struct compute_collective {
  compute_collective_kind kind;
  compute_collective_reduction reduction; /**< of the first two kinds */
  compute_dtype dtype;
  int32_t peer;  /**< the root of BROADCAST, the other rank of SEND and RECEIVE */
  int64_t count; /**< elements of the input; of what is received by BROADCAST and RECEIVE */
  uint64_t reserved[4];
} compute_collective;

typedef struct compute_backend {
  size_t struct_size;
  uint32_t abi_major, abi_minor; /**< COMPUTE_BACKEND_ABI_… it was built with */
  const char *name;        /**< "cpu"; lower-case letters, digits and '_'; device name prefix */
  const char *description; /**< one line */
  const char *version;

  /** Starts the module. Later calls get *instance. COMPUTE_ERROR_MISSING_LIBRARY, _NO_DEVICE, … if
   * it cannot start; the text given to services->fail becomes the probe's detail and remedy.
   * `services` lives until close. May be called once per context, several contexts at once.
   */
  compute_status (*open)(const compute_services *services, void **instance);
  void (*close)(void *instance);

  uint32_t (*device_count)(void *instance);
  /** _INVALID_ARGUMENT is for an environment variable that requests what the device cannot do:
   * compute_open fails with it. After any other failure the device is omitted. */
  compute_status (*device_open)(void *instance, uint32_t index, void **device);
  void (*device_close)(void *device);

  /** Fills in what is known: the core has zeroed `info` and sets name, backend and index itself.
   * With priority 0 the core ranks the device by its type and vendor. */
  compute_status (*device_describe)(void *device, compute_device_info *info);

  /** bytes > 0. Alignment at least 64. COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY makes the core evict and
   * retry. */
  compute_status (*memory_allocate)(void *device, uint64_t bytes, compute_memory *memory);
  void (*memory_release)(void *device, compute_memory *memory);

  /** Optional: wraps host memory without a copy, or returns COMPUTE_ERROR_UNSUPPORTED. */
  compute_status (*memory_import)(void *device, void *data, uint64_t bytes, compute_memory *memory);

  compute_status (*queue_create)(void *device, void **queue);
  void (*queue_destroy)(void *queue);
  compute_status (*queue_wait)(void *queue);

  /** Optional together; without them the core waits for the queue instead. */
  compute_status (*event_record)(void *queue, void **event);
  void (*event_destroy)(void *device, void *event);
  compute_status (*event_wait)(void *device, void *event);
  compute_status (*event_query)(void *device, void *event, bool *complete);
  compute_status (*queue_wait_event)(void *queue, void *event);

  /** Copies of bytes > 0 in queue order. upload may return before `source` has been read only if
   * the memory stays valid until the queue has been waited for; download likewise. */
  compute_status (*upload)(void *queue, const compute_argument *destination, const void *source,
                           uint64_t bytes);
  compute_status (*download)(void *queue, void *destination, const compute_argument *source,
                             uint64_t bytes);
  compute_status (*copy)(void *queue, const compute_argument *destination,
                         const compute_argument *source, uint64_t bytes);

  /** Whether the device can run this kernel. If not, `reason` gets a sentence. */
  bool (*supports)(void *device, const compute_kernel_descriptor *descriptor, char *reason,
                   size_t reason_bytes);

  /** Builds a kernel. The descriptor and what it points to live only during the call. A kernel is
   * immutable and may be enqueued from several threads on several queues. */
  compute_status (*kernel_prepare)(void *device, const compute_kernel_descriptor *descriptor,
                                   void **kernel);
  void (*kernel_destroy)(void *device, void *kernel);

  /** Optional: one line on the implementation chosen, for compute_explain. */
  void (*kernel_describe)(void *device, void *kernel, char *text, size_t text_bytes);

  /** Submits a kernel: arguments are the inputs, then the outputs. */
  compute_status (*enqueue)(void *queue, void *kernel, const compute_argument *arguments,
                            uint32_t count);

  /* ---- Optional functions ---- */

  /** True when the module cannot have a device that ranks above the CPU and is slow to start: the
   * core then opens it only when its devices are needed. Called before open; must be quick. */
  bool (*can_wait)(const compute_services *services);

  /** What the generator needs to know. A device without it has no generated kernels to tune. */
  compute_status (*device_target)(void *device, compute_target *target);

  /** kernel_prepare with these parameters and no others: for the tuner. Never falls back. */
  compute_status (*kernel_prepare_tuned)(void *device, const compute_kernel_descriptor *descriptor,
                                         const compute_tuning *tuning, void **kernel);

  /** The name of the module's own implementation `index` (≥ 1) of a kernel ("CLBlast"), or NULL
   * past the end: what compute_tuning.implementation chooses from. */
  const char *(*implementation_name)(void *device, const compute_kernel_descriptor *descriptor,
                                     uint32_t index);

  /** Adds what the device has built so far (device.h). */
  void (*build_statistics)(void *device, compute_build_statistics *statistics);

  /** A user's kernel. The build log becomes part of the error. Arguments as in kernel.h, with
   * tensors replaced by `memory` and `offset`. */
  compute_status (*custom_build)(void *device, const char *source, const char *entry,
                                 const char *options, void **kernel);
  void (*custom_destroy)(void *device, void *kernel);
  compute_status (*custom_launch)(void *queue, void *kernel, const uint32_t groups[3],
                                  const uint32_t group[3], const compute_custom_argument *arguments,
                                  uint32_t count);

  /** Copies from another device of the same module without the host in between, in the order of
   * this queue; the core has already waited for the source's work. COMPUTE_ERROR_UNSUPPORTED if the
   * two cannot reach each other: the core then copies through the host. */
  compute_status (*copy_from_peer)(void *queue, const compute_argument *destination,
                                   void *source_device, const compute_argument *source,
                                   uint64_t bytes);

  /** Together: recording a sequence of kernels once and submitting it as a whole. Between
   * record_begin and record_end, what is enqueued on the queue is recorded and does not run. The
   * caller does nothing else with the queue meanwhile. A recording is submitted with the arguments
   * of all its kernels, in the kernels' order, which may differ from the recorded ones in memory
   * and offset; submitting neither allocates nor waits. record_end fails with
   * COMPUTE_ERROR_UNSUPPORTED if the sequence cannot be recorded; with `recording` NULL it discards
   * the recording. One thread at a time submits a recording; submissions of one recording run in
   * sequence, whatever their queues. */
  compute_status (*record_begin)(void *queue);
  compute_status (*record_end)(void *queue, void **recording);
  compute_status (*record_submit)(void *queue, void *recording, const compute_argument *arguments,
                                  uint32_t count);
  void (*record_destroy)(void *device, void *recording);

  /** Together: times of points on a queue. timer_record marks the queue's progress so far,
   * timer_read waits until it is reached and returns the time of that, in nanoseconds of the host's
   * CLOCK_MONOTONIC (exact relative to other timers of the device; relative to the host's clock, as
   * exact as the driver allows). Without them the core reads the clock around calls.
   */
  compute_status (*timer_record)(void *queue, void **timer);
  compute_status (*timer_read)(void *device, void *timer, int64_t *nanoseconds);
  void (*timer_destroy)(void *device, void *timer);

  /** Together: page-locked host memory, which this device copies fastest. Copies are asynchronous:
   * upload returns before it has read such memory, download before it has written it. Not
   * initialised. COMPUTE_ERROR_OUT_OF_MEMORY. */
  compute_status (*host_allocate)(void *device, uint64_t bytes, void **data);
  void (*host_release)(void *device, void *data);

  /** Together: page-locks the caller's own memory for as long as it is registered. Slow; pays off
   * for memory that is copied many times. COMPUTE_ERROR_UNSUPPORTED if the driver cannot,
   * _INVALID_STATE if some of it is already page-locked, _OUT_OF_MEMORY. */
  compute_status (*host_register)(void *device, void *data, uint64_t bytes);
  void (*host_unregister)(void *device, void *data);

  /** Recovers a lost device, if the driver can do so within the process. Memory, kernels, queues,
   * existing events and recordings stay lost: their calls keep failing with
   * COMPUTE_ERROR_DEVICE_LOST, and releasing them is safe. */
  compute_status (*device_recover)(void *device);

  uint64_t flags; /**< COMPUTE_BACKEND_…, any of the bits below */

  /** Optional. Marks what is enqueued from now on, including recorded kernels, with a number for
   * fail_index. For modules that find invalid indices only when the queue is waited for. */
  void (*queue_label)(void *queue, uint32_t label);

  /** Together: inputs that never change, in a form that the kernel reads faster than the elements
   * as they lie. kernel_packed_bytes: the size of one of the descriptor's constant_inputs in that
   * form, or 0 if the kernel reads it as it lies. *form is a number: where it and the elements are
   * the same, kernels of this device share one packed copy. kernel_pack makes it from the
   * elements, in the order of the queue; launches have it as their argument in place of these. */
  uint64_t (*kernel_packed_bytes)(void *device, void *kernel, uint32_t input, uint64_t *form);
  compute_status (*kernel_pack)(void *queue, void *kernel, uint32_t input,
                                const compute_argument *packed, const compute_argument *source);

  /** Together, for devices with memory of their own: memory shared with other libraries in the
   * process (compute/dlpack.h). memory_export: what `argument` is called elsewhere, for as long as
   * its memory lives; with `argument` NULL only the device's numbers. memory_adopt: `bytes` > 0 of
   * another library's memory on this device, from `foreign->data` on; arguments get the
   * byte_offset. memory_release ends only what it made. COMPUTE_ERROR_UNSUPPORTED for memory that
   * the device does not reach. */
  void (*memory_export)(void *device, const compute_argument *argument,
                        compute_foreign_memory *foreign);
  compute_status (*memory_adopt)(void *device, const compute_foreign_memory *foreign,
                                 uint64_t bytes, compute_memory *memory);

  /** Together: queue_native returns the driver's own queue, if it is a single one, valid as long as
   * this queue. queue_signal makes another such queue of the driver wait for what has been enqueued
   * on this one. Without them the core waits. */
  void *(*queue_native)(void *queue);
  compute_status (*queue_signal)(void *queue, void *native);

  /** Together: collective operations with devices of other processes that do not pass through the
   * host. The core connects the processes: it compares what all ranks offer, has rank 0 make an id,
   * gives it to all of them and lets them open. Every rank makes the same collective calls in the
   * same order; one thread at a time calls for a communicator.
   *
   * No function waits for other ranks. communicator_open, _submit and _finish may return while the
   * call is in progress; then nothing else is called but communicator_test and _close until
   * communicator_test has set *done. It also reports what has failed in the background. */

  /** COMPUTE_ERROR_UNSUPPORTED, with the reason, where the device cannot. */
  compute_status (*communicator_offer)(void *device, compute_communicator_offer *offer);
  compute_status (*communicator_identify)(void *device, uint8_t id[COMPUTE_COMMUNICATOR_ID_BYTES]);
  compute_status (*communicator_open)(void *device, const uint8_t id[COMPUTE_COMMUNICATOR_ID_BYTES],
                                      int32_t rank, int32_t size, void **communicator);
  /** Whether it carries out such a call: the same answer on all ranks. */
  bool (*communicator_supports)(void *communicator, const compute_collective *collective);
  /** Puts a call on a queue of the device. After communicator_test, what is enqueued follows it.
   * NULL for an input or output that this rank does not have. */
  compute_status (*communicator_submit)(void *communicator, void *queue,
                                        const compute_collective *collective,
                                        const compute_argument *input,
                                        const compute_argument *output);
  compute_status (*communicator_test)(void *communicator, bool *done);
  /** Every rank finishes, when all of its calls have ended. */
  compute_status (*communicator_finish)(void *communicator);
  /** Without `orderly`, which means after communicator_finish and _test, what is in progress is
   * aborted: kernels that wait for other ranks end. Does not wait for other ranks. */
  void (*communicator_close)(void *communicator, bool orderly);
} compute_backend;

enum {
  /** The module asks services->trusts_environment before it opens a library that obeys the
   * environment of the process, as loaders of drivers do. Without this flag it is not opened in a
   * program with raised privileges, unless compute_open_options name it. */
  COMPUTE_BACKEND_ENVIRONMENT_SAFE = 1 << 0,

  /** custom_build takes only portable source, as the user wrote it: the module prepends a dialect
   * (services->dialect_text). */
  COMPUTE_BACKEND_PORTABLE_KERNELS = 1 << 1,

  /** Convolutions and pooling are fastest on data and results with the channels of a pixel side by
   * side (strides over (n, channel, height, width) of which the second is 1): plans store what lies
   * between them so. */
  COMPUTE_BACKEND_CHANNELS_LAST = 1 << 2
};

/** The one exported symbol. Returns the module's vtable, or NULL if it cannot work with a core of
 * this ABI. Must not have side effects. */
#define COMPUTE_BACKEND_ENTRY "compute_backend_entry"
typedef const compute_backend *(*compute_backend_entry_function)(uint32_t core_abi_major,
                                                                 uint32_t core_abi_minor);
COMPUTE_API const compute_backend *compute_backend_entry(uint32_t core_abi_major,
                                                         uint32_t core_abi_minor);

#ifdef __cplusplus
}
#endif
#endif
