/* SPDX-License-Identifier: MIT */
/** @file
 * The work of a backend: programs, and the descriptors of kernels, kind by kind. For authors of
 * backends and generators of source; compute/backend.h has the functions that take them, and the
 * rules of their version. */
#ifndef COMPUTE_KERNEL_DESCRIPTOR_H
#define COMPUTE_KERNEL_DESCRIPTOR_H

#include "compute/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Programs ------------------------------------------------------------------------------
 *
 * A program computes one element of the iteration space from one element of each input: scalar
 * instructions in SSA form. Instruction i defines value i; operands name earlier values. Types:
 * F64, F32, I64, I32 and BOOL. Operands have the result's type unless the row in
 * compute/backend/instructions.def differs.
 *
 * Loads widen f16 and bf16 to F32, and integers as described in dtype.h; stores convert back (also
 * as in dtype.h). COPY does not take u64 to floats. Integer division and remainder by zero give 0;
 * integer overflow wraps. Minimum, maximum, relu and sign propagate NaN. */
typedef enum compute_instruction_code {
#define INSTRUCTION(code, number, name, operands, rule, cost, traits, text)                        \
  COMPUTE_I_##code = number,
#include "compute/backend/instructions.def"
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
  KIND(QUANTIZED_GEMM, 17, quantized_gemm)                                                         \
  KIND(BINCOUNT, 18, bincount)                                                                     \
  KIND(FOURIER, 19, fourier)                                                                       \
  KIND(LINALG, 20, linalg)                                                                         \
  KIND(TREES, 21, trees)

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
 * may always be more exact. REPRODUCIBLE is no allowance but a demand, also of f64. */
typedef enum compute_precision {
  COMPUTE_PRECISION_STRICT = 0, /**< as f32 does */
  COMPUTE_PRECISION_TF32 = 1,   /**< factors may be rounded to 10 bits of mantissa; sums are f32 */
  /** Winograd's minimal filtering is allowed, in f32; CONV only. */
  COMPUTE_PRECISION_WINOGRAD = 2,
  /** The order of sums must not depend on the number of rows; GEMM only. Devices may ignore it. */
  COMPUTE_PRECISION_REPRODUCIBLE = 4,
  /** Products of bytes, summed in I32, may be added in pairs along k that saturate at 16 bits. The
   * factor in a pair is inputs[0], shifted to 0 … 255, and inputs[1], shifted to −128 … 127. */
  COMPUTE_PRECISION_SATURATE = 8
} compute_precision;

typedef struct compute_gemm_attributes {
  int64_t k;                   /**< ≥ 0 */
  compute_precision precision; /**< with accumulate F32; SATURATE with I32; REPRODUCIBLE with any */
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
  COMPUTE_CONVOLUTION_BY_DATA = 1,  /**< the data's gradient from the result's */
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
  compute_precision precision; /**< with accumulate F32; SATURATE with I32 */
  /** FORWARD: 0, or p ≥ 2, which divides both result sizes. Each tile of p × p results of a plane
   * stores its largest (a NaN is the largest), and the space has result_size / p. The epilogue has
   * one output and never decreases when a sum increases, and its inputs do not vary within a plane:
   * so it may run before the largest is found or after. For finite numbers. */
  uint32_t pool;
} compute_conv_attributes;

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
  bool by_data; /**< the gradient of the data from the result's gradient; not of ARGMAX */
  /** AVERAGE divides by all elements of the window that are in the data or its padding (padding[i]
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
  /** Every key that is seen counts, also with a weight of 0. No sum exceeds the largest possible
   * with softmax weights, whose sum is 1. */
  bool formula;
  bool zero_weights; /**< with formula: weights of a query whose scores are all −infinity; otherwise
                      * NaN */
} compute_attention_attributes;

/** The power of two that weights are multiplied by: the largest that is at most 1 / keys. */
static inline double compute_attention_share(const compute_attention_attributes *attributes) {
  double share = 1;
  for (int64_t keys = attributes->keys - 1; keys > 0; keys >>= 1) share *= 0.5;
  return share;
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
 * Arguments of these σ, and of each tanh but the last, are clamped to −clip … clip first.
 *
 * With `quantized`, h is rounded to 8 bits for a column's product, exactly summed:
 * @code
 *   R(h) = (s · scale) · sum over k of (q[k] − z) · (R[k] − zero)
 *   s = (max(h, 0) − min(h, 0)) / 255, or 1 if that is 0;  z = round(−min(h, 0) / s)
 *   q[k] = clamp(round(h[k] / s) + z, 0, 255)
 * @endcode
 * over the units of one sequence; round is to nearest, ties to even. */
typedef struct compute_recurrent_attributes {
  compute_recurrent_cell cell;
  bool reverse;     /**< from the last step to the first */
  bool reset_after; /**< GRU */
  bool lengths;     /**< there is an input for these */
  bool bias;        /**< GRU with reset_after */
  bool peepholes;   /**< LSTM: p */
  double clip;      /**< 0: none */
  bool quantized;   /**< LSTM in F32: R is I8, with inputs for scale and zero of its columns */
} compute_recurrent_attributes;

/** A right factor of small integers. Number p of a column is q: bits (p · bits) % 8 and up of byte
 * p · bits / 8. Its value is (q − zero) · scale. */
typedef struct compute_quantized_gemm_attributes {
  int64_t k;     /**< ≥ 0 */
  int64_t block; /**< numbers along k that share a scale; ≥ 1; block · bits is a multiple of 8 */
  int32_t bits;  /**< 2, 4 or 8 */
  bool zeros;    /**< there is an inputs[3]; otherwise each zero is 2^(bits − 1) */
  bool reproducible; /**< as COMPUTE_PRECISION_REPRODUCIBLE */
} compute_quantized_gemm_attributes;

typedef struct compute_bincount_attributes {
  int64_t axis_size; /**< elements of a row; ≥ 0 */
} compute_bincount_attributes;

/** A discrete Fourier transform of n = `length` points:
 * @code
 *   y[k] = scale · sum over j < points of x[j] · exp(−2πi j k / n)
 * @endcode
 * with exp(+2πi j k / n) if `inverse`. */
typedef struct compute_fourier_attributes {
  int64_t length; /**< ≥ 1 */
  int64_t points; /**< of the input, at most length (halved: length / 2 + 1); zeros follow */
  double scale;
  bool inverse;
  bool real; /**< the input is real; not with inverse */
  /** With inverse: the input is half of a spectrum, and the result is real. The other half has the
   * conjugates: x[n − j] = conj(x[j]). */
  bool halved;
} compute_fourier_attributes;

typedef enum compute_linalg_function {
  COMPUTE_LINALG_CHOLESKY = 0,   /**< L [n, n], zero above the diagonal: A = L Lᵀ */
  COMPUTE_LINALG_TRIANGULAR = 1, /**< X [n, right]: A X = B with triangular A */
  COMPUTE_LINALG_LU = 2, /**< L below the diagonal of U [m, n], the row of A that each row was [m],
                          * and the sign of that permutation */
  COMPUTE_LINALG_SOLVE = 3, /**< X [n, right]: A X = B */
  COMPUTE_LINALG_QR = 4, /**< Q [m, k] and R [k, n] with k = min(m, n), or m with FULL: A = Q R. R's
                          * diagonal is not negative */
  COMPUTE_LINALG_EIGH = 5, /**< the eigenvalues [n] of symmetric A, ascending; with VECTORS also V
                            * [n, n], whose columns are the vectors */
  COMPUTE_LINALG_SVD = 6, /**< the singular values [k], descending, k = min(m, n); with VECTORS also
                           * U [m, k] and Vᵀ [k, n], with FULL [m, m] and [n, n]: A = U S Vᵀ */
  COMPUTE_LINALG_EIG = 7, /**< the eigenvalues [n, 2], complex; with VECTORS also V [n, n, 2] */
  COMPUTE_LINALG_EXPM = 8 /**< e^A [n, n] */
} compute_linalg_function;

enum {
  COMPUTE_LINALG_UPPER = 1,         /**< TRIANGULAR: the upper triangle; otherwise the lower one */
  COMPUTE_LINALG_UNIT_DIAGONAL = 2, /**< TRIANGULAR: the diagonal counts as ones */
  COMPUTE_LINALG_VECTORS = 4,       /**< EIGH, SVD, EIG */
  COMPUTE_LINALG_FULL = 8           /**< QR, SVD */
};

/** Dense linear algebra on matrices A [rows, columns], alone or with B [rows, right]. */
typedef struct compute_linalg_attributes {
  compute_linalg_function function;
  uint32_t flags;
  int64_t rows, columns; /**< 0 … 2^24 */
  int64_t right;         /**< TRIANGULAR, SOLVE: columns of B, 0 … 2^31; otherwise 0 */
} compute_linalg_attributes;

enum {
  COMPUTE_TREES_HEAD = 4,      /**< numbers of a tree's row: its first node, its depth, the target
                                 * of its leaves or −1, its first value */
  COMPUTE_TREES_MOST = 1 << 24 /**< features, targets */
};

/** An ensemble of decision trees. */
typedef struct compute_trees_attributes {
  int64_t features; /**< 1 … COMPUTE_TREES_MOST */
  int64_t columns;  /**< `features`, or twice as many */
  int64_t nodes;    /**< records */
  int64_t trees;
  int64_t values;          /**< of all leaves */
  compute_combine combine; /**< SUM, MIN or MAX */
  uint32_t words;          /**< numbers of a node: 1, narrow, with features in F32; 2, wide */
} compute_trees_attributes;

/** A function of the calling program, which only the CPU can call. */
typedef struct compute_call_attributes {
  /** Makes the call with the addresses of the inputs, then the outputs. Returns when it is done,
   * and has then reported any failure. May be called from several threads at once. */
  compute_status (*run)(const void *call, void *const *operands);
  const void *call; /**< first argument of run; lives as long as the kernel runs */
  const char *name; /**< for messages; likewise */
  int64_t count[COMPUTE_MAX_OPERANDS]; /**< elements of the inputs, then the outputs, all dense */
} compute_call_attributes;

/* clang-format off: the kinds keep their shape */
/* One kernel. Inputs and outputs are numbered separately; a launch binds the inputs, then the
 * outputs. Outputs never alias inputs, with one exception: in MAP and in the epilogues of GEMM,
 * CONV and REDUCE, an output may have the address and strides of an input that only the epilogue
 * reads.
 *
 * MAP     `epilogue` runs over the space: its input i is inputs[i], its output k goes to
 *         outputs[k].
 *
 * REDUCE  The space is the kept dimensions (the first kept_rank), then the reduced ones.
 *         `prologue` (inputs 0 … prologue_inputs−1; one output) makes the element; without a
 *         program inputs[0] is the element. `combine` folds the reduced dimensions in the type of
 *         that element (`accumulate`). `epilogue` has the folded value (I64 for ARGMAX and ARGMIN)
 *         as its input 0 and inputs[prologue_inputs + j − 1] as its input j ≥ 1, over the kept
 *         dimensions. Strides of the epilogue's operands and of the outputs are 0 in the reduced
 *         dimensions.
 *
 * ROW     The last dimension is the row. Prologue, row operation in `accumulate`, epilogue as in
 *         REDUCE, but the epilogue and the outputs run over the whole space.
 *
 * GEMM    The space is batch dimensions, then m, n (rank ≥ 2). inputs[0] is A with strides over
 *         (batch…, m, k), inputs[1] is B with strides over (batch…, k, n), in their last two
 *         stride entries. The sum over k of A·B is in `accumulate`. `epilogue` has the sum as its
 *         input 0 and inputs[1 + j] as its input j ≥ 1, over (batch…, m, n). No prologue. k may be
 *         0.
 *
 * GATHER  outputs[0][i…] = inputs[0][i… , with inputs[1][i…] along the axis]: inputs[0] has stride
 *         0 in the dimensions that the index replaces, and the index moves it by axis_stride. An
 *         index is in 0 … axis_size−1. Negative ones count from the end; with from_zero they are
 *         outside. inputs[1] is I32 or I64; the others share a dtype. No programs. An index
 *         outside fails the launch, or the wait for it, with COMPUTE_ERROR_INDEX;
 *         services->fail_index reports the index.
 *
 * SCATTER outputs[0][… at inputs[1][i…]] += inputs[0][i…], where inputs[0] is the update and the
 *         output has stride 0, axis_stride and axis_size as GATHER's source. Indices as in GATHER.
 *         The output is read and written. Several updates of one element are added in row-major
 *         order of the space, or in another order that is the same at every run. Other modes
 *         multiply, take the larger or smaller (not of U64), or set, in row-major order: with set
 *         the last update wins. BOOL can only be set.
 *
 * COPY    outputs[0] = inputs[0], converted. No programs.
 *
 * CONV    The space has rank 4: FORWARD (n, o, p, q), BY_DATA (n, data channel, height, width),
 *         BY_FILTER (o, c, r, s), with the sizes of the attributes. inputs[0] and inputs[1] are
 *         for FORWARD x and w, for BY_DATA y's gradient and w, for BY_FILTER x and y's gradient.
 *         Their strides are over their dimensions, not over the space: x (n, data channel, height,
 *         width), w (o, c, r, s), y (n, o, p, q). Products are summed in `accumulate`. `epilogue`
 *         has the sum as its input 0 and inputs[1 + j] as its input j ≥ 1, over the space. No
 *         prologue.
 *
 * FIT     compute/backend/fit_kinds.h.
 *
 * WINDOW  The space has rank 4: (n, channel, p, q), or with by_data (n, channel, height, width).
 *         inputs[0] is the data (n, channel, height, width); with by_data, MAX has the data and
 *         then the result's gradient (n, channel, p, q), AVERAGE only that gradient. Strides are
 *         over the input's dimensions, as in CONV. The gradient of a maximum goes to its first
 *         place in row-major order. A window without an element of the data gives the least number
 *         of inputs[0]'s dtype (MAX), 0 (AVERAGE) or −1 (ARGMAX). MAX and ARGMAX, not by_data,
 *         take all dtypes of numbers but U64. Folded in `accumulate`; `epilogue` has the fold (I64
 *         of ARGMAX) as its input 0 and all inputs after those named here as its further inputs.
 *         No prologue.
 *
 * SCAN    Running `combine` (SUM, PROD, MAX, MIN) of inputs[0] along the last dimension of the
 *         space, in `accumulate`. Exclusive: only elements before it count (the identity first).
 *         Reverse: from the end. One output. No programs.
 *
 * TOP_K   The last dimension of the space has the k results of a row. inputs[0]'s last stride is
 *         along the row's axis_size ≥ k elements. outputs[0], I64, has the positions in the row of
 *         its largest elements (smallest with `smallest`), in that order, ties by position; a NaN
 *         is larger than all numbers. No programs.
 *
 * ATTENTION The space is batch dimensions, then m (queries), e (width of V). Inputs Q, K, V with
 *         strides over the batch dimensions and two more, (m, width), (keys, width), (keys, e);
 *         then, if biased, the bias over (batch…, m, keys). All of one dtype; summed in
 *         `accumulate`. Without `formula`, a query that sees no key gives 0, and keys whose bias
 *         hides them may be left out. One output. No programs.
 *
 * SPOTS   compute/backend/fit_kinds.h.
 *
 * SORT    The rows of inputs[0], which run along the last dimension of the space, in ascending
 *         order, or descending. Equal elements (zeros of either sign are equal) stay in the order
 *         of their positions, and so do NaNs, which come last in either order. Any dtype but BOOL.
 *         The outputs: with `values` the elements, of the input's dtype and bit for bit; then with
 *         `positions` their former positions in the row, I64. No programs.
 *
 * RECURRENT The space is (row, batch, hidden), a row for each step, then one for the last h and,
 *         LSTM, one for the last c. Inputs, each with strides over three dimensions: the steps'
 *         inputs (step, batch, gates · hidden), R (1, hidden, gates · hidden), the first h (1,
 *         batch, hidden), LSTM the first c likewise; then the ones that the attributes name:
 *         lengths (1, 1, batch) in I32, bias (1, 1, hidden), peepholes (1, 1, 3 · hidden); with
 *         `quantized`, scale and zero (1, 1, gates · hidden), and R and zero are I8. All others of
 *         one dtype; computed in `accumulate`. Row `step` of the output is h after that
 *         step. A sequence takes part in steps below its length; in others its h and c stay as
 *         they are, and the row is 0. One output. No programs.
 *
 * QUANTIZED_GEMM As GEMM, in floats. inputs[0] is A as there. B has no batch dimensions, and three
 *         inputs whose last two stride entries are over (n, byte), (n, block) and (n, block):
 *         inputs[1] the numbers, U8; inputs[2] their scales, floats; inputs[3], with `zeros`, their
 *         zero points, floats or U8. `epilogue` has the inputs after these as its further inputs.
 *
 * BINCOUNT The last dimension of the space has the bins of a row. The last stride of each input is
 *         along the row's axis_size elements: inputs[0], I32 or I64, has their bins, and inputs[1],
 *         if present, their weights, floats. outputs[0] has for each bin the number of its
 *         elements, I64, or the sum of their weights, in the weights' dtype. The order of a sum is
 *         the same at every run. F32, F16 and BF16 are summed in F64, or in F32 with compensation.
 *         A row without elements gives zeros. A bin outside 0 … bins − 1 fails as an index of
 *         GATHER does. No programs.
 *
 * FOURIER The space is (batch…, points of the result, parts): 2 parts, the real and the imaginary
 *         one, or with `halved` 1. It has the first points of the result, at most `length`.
 *         inputs[0] has strides over (batch…, point, part). All in `accumulate`, F32 or F64. One
 *         output. No programs.
 *
 * LINALG  The space is (batch…, 1, results). inputs[0], A, has strides over (batch…, row, column),
 *         and so has inputs[1], B, of functions that have one. The results of a matrix are those
 *         that the function lists, each in row-major order, then its status: 0; −1 if A is not
 *         finite; i if the leading minor i is not positive (CHOLESKY), if the diagonal element i is
 *         0 (TRIANGULAR), or the pivot i (LU, SOLVE), counted from 1; above 0 if EIGH, SVD or EIG
 *         do not converge. If it is not 0, the other results are NaN. LU is different: a status
 *         above 0 leaves all, and −1 the permutation, which is then none. CHOLESKY, TRIANGULAR and
 *         EIGH read one triangle, EIGH the lower one. All in `accumulate`, F32 or F64. One output. The bits of a
 *         matrix do not depend on the batch. No programs.
 *
 * TREES   The space is (rows, targets). inputs[0] has strides over (row, feature). The other inputs
 *         are tables, with a last stride only: inputs[1] the nodes, I64; inputs[2] the trees, I64,
 *         COMPUTE_TREES_HEAD numbers each; inputs[3] the values of leaves. A row has `columns`:
 *         column `features` + i is feature i, with −infinity for NaN. A walk starts at record 1 of
 *         its tree and takes `depth` steps. A step goes to record `left` if the column is at most
 *         the threshold, otherwise (NaN included) to `left` + 1. A leaf has a NaN as threshold, its
 *         number in the low bits of the threshold, and `left` + 1 leads to itself. A narrow record
 *         has, from bit 0: the threshold, 32 bits; the column, 16; `left`, 16. A wide one has the
 *         threshold in F64, then the column, 32 bits; `left`, 32. The value of leaf i is at the
 *         tree's first value + i if the tree has one target; otherwise a leaf has a value for each
 *         target. A row's results combine the values tree by tree, a sum in F64. MIN and MAX ignore
 *         NaN; without any value the result is 0. All but the tables in `accumulate`, F32 or F64.
 *         Devices need not check the tables. No programs.
 *
 * CALL    The attributes have the function to call, and the number of elements of each operand.
 *         All operands are dense. The space has one dimension, with the size of the largest
 *         output; the strides are ignored. Only a device that computes in host memory can run it.
 *         No programs.
 *
 * An epilogue without a program stores value 0, converted to outputs[0]'s dtype; in MAP it is not
 * allowed. Any size may be 0: then nothing is stored. The exceptions store through the epilogue:
 * REDUCE over 0 elements stores the identity, GEMM with k = 0 stores 0, as CONV does where nothing
 * is summed. */
/* clang-format on */
/** Demands on the bits of a result, combined by |. A device that cannot keep one refuses. */
typedef enum compute_kernel_demand {
  /** An item's bits do not depend on the number of items: sizes of the kept dimensions of sums, and
   * rows or batches of products. */
  COMPUTE_DEMAND_REPRODUCIBLE = 1,
  /** The bits are equal on all processors of the CPU backend. Other backends never get it. */
  COMPUTE_DEMAND_PORTABLE = 2
} compute_kernel_demand;

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
   * minor version may append fields to them: attribute_bytes is the size of the fields that are
   * present. */
  const void *attributes;
  size_t attribute_bytes;
  /** Bit i: inputs[i] has the same elements at every launch, and the device may have it prepacked
   * (compute_backend.kernel_packed_bytes). GEMM and CONV: inputs 0 and 1. Always 0 for a backend
   * without that function. */
  uint32_t constant_inputs;
  uint32_t demands; /**< compute_kernel_demand; minor version 7 */
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

static inline const compute_sort_attributes *
compute_sort_of(const compute_kernel_descriptor *descriptor) {
  return (const compute_sort_attributes *)descriptor->attributes;
}
static inline const compute_recurrent_attributes *
compute_recurrent_of(const compute_kernel_descriptor *descriptor) {
  return (const compute_recurrent_attributes *)descriptor->attributes;
}

/** Gates of a cell; rows of the output after the steps' rows. */
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

static inline const compute_bincount_attributes *
compute_bincount_of(const compute_kernel_descriptor *descriptor) {
  return (const compute_bincount_attributes *)descriptor->attributes;
}

static inline const compute_fourier_attributes *
compute_fourier_of(const compute_kernel_descriptor *descriptor) {
  return (const compute_fourier_attributes *)descriptor->attributes;
}

static inline const compute_linalg_attributes *
compute_linalg_of(const compute_kernel_descriptor *descriptor) {
  return (const compute_linalg_attributes *)descriptor->attributes;
}

/** True if the function has an inputs[1]. */
static inline bool compute_linalg_has_right(const compute_linalg_attributes *attributes) {
  return attributes->function == COMPUTE_LINALG_TRIANGULAR ||
         attributes->function == COMPUTE_LINALG_SOLVE;
}

/** Results of a matrix, with its status. */
static inline int64_t compute_linalg_results(const compute_linalg_attributes *attributes) {
  const int64_t m = attributes->rows, n = attributes->columns, least = m < n ? m : n;
  const bool full = attributes->flags & COMPUTE_LINALG_FULL;
  const bool vectors = attributes->flags & COMPUTE_LINALG_VECTORS;
  switch (attributes->function) {
  case COMPUTE_LINALG_QR: return (full ? m : least) * (m + n) + 1;
  case COMPUTE_LINALG_EIGH: return n + (vectors ? n * n : 0) + 1;
  case COMPUTE_LINALG_SVD:
    return least + (!vectors ? 0 : full ? m * m + n * n : least * (m + n)) + 1;
  case COMPUTE_LINALG_EIG: return 2 * (n + (vectors ? n * n : 0)) + 1;
  case COMPUTE_LINALG_LU: return m * n + m + 2;
  case COMPUTE_LINALG_TRIANGULAR:
  case COMPUTE_LINALG_SOLVE: return n * attributes->right + 1;
  default: return m * n + 1;
  }
}

static inline const compute_trees_attributes *
compute_trees_of(const compute_kernel_descriptor *descriptor) {
  return (const compute_trees_attributes *)descriptor->attributes;
}

static inline const compute_call_attributes *
compute_call_of(const compute_kernel_descriptor *descriptor) {
  return (const compute_call_attributes *)descriptor->attributes;
}

#ifdef __cplusplus
}
#endif

#endif
