/* SPDX-License-Identifier: MIT */
/* Matrix products and convolutions by NVIDIA's libraries, if installed.
 *
 *   vendor.c          chooses the library for a kernel; the epilogue after a product
 *   library.c         opens libraries at run time, once per process and per device
 *   elements.c        element types and sizes of operands
 *   autotune.c        autotunes: times candidates on scratch memory
 *   verify.c          verifies that a candidate has the requested precision
 *   candidates.c      a library's kernel against a generated one
 *   flip.c            flips the filter: a convolution as the gradient of one, and vice versa
 *   cublas.[ch]       cuBLASLt: declarations; products
 *   cublas_problem.c  a descriptor in cuBLASLt's form
 *   cudnn.[ch]        cuDNN 9: declarations; convolutions
 *   cudnn_plan.c      a descriptor in cuDNN's form, and the plans that its heuristics propose
 *   cudnn_sum.c       one result of a convolution in double
 *
 * No library is required. A library that is missing, outdated, or does not start is logged once per
 * device, and generated kernels serve. */
#ifndef CUDA_VENDOR_H
#define CUDA_VENDOR_H

#include "compute/backend.h"
#include "../common/builder.h"
#include "driver.h"

struct cuda_device;
struct cuda_queue;
struct cuda_kernel;

/* ---- Libraries ----------------------------------------------------------------------------- */

#define CUDA_LIBRARY_NAMES 4

typedef enum cuda_library_id { CUDA_CUBLAS, CUDA_CUDNN, CUDA_NCCL, CUDA_LIBRARIES } cuda_library_id;

/* A library as used by one device. `handle` is the library's handle, or NULL with the cause in
 * `reason`. */
typedef struct cuda_library {
  bool tried;
  void *handle;
  const void *functions; /* cublas_functions, cudnn_functions, nccl_functions */
  size_t version;        /* 130100 for 13.1.0 */
  char name[32];         /* "cuBLASLt 13.1.0" */
  char reason[256];
} cuda_library;

/* Opens a library; makes the device's context current first. NULL if the library does not support
 * this device; the device's record then has the reason. Thread-safe. The first call may take 100 ms
 * or more. */
const cuda_library *cuda_library_open(struct cuda_device *device, cuda_library_id id);

const char *cuda_library_title(cuda_library_id id);

/* Records a library's failure, or the loss of the device if that is the cause. Returns the
 * status. */
compute_status cuda_library_fail(struct cuda_device *device, compute_status status, int64_t code,
                                 const char *remedy, const char *format, ...) COMPUTE_PRINTF(5, 6);

/* Destroys the handles. The libraries must not be in use any more. */
void cuda_libraries_close(struct cuda_device *device);

/* How to open a library and start it on a device; cublas.c, cudnn.c and nccl.c define one each. */
typedef struct cuda_library_kind {
  const char *title, *choice;                /* "cuBLASLt"; its name in COMPUTE_CUDA_LIBRARIES */
  const char *names[CUDA_LIBRARY_NAMES + 1]; /* newest first, NULL-terminated */
  const library_row *rows;
  uint32_t row_count;
  void *functions; /* an array of structs, one per name, filled in once per process */
  size_t function_bytes;
  size_t (*version)(const void *functions);                /* 130100 for 13.1.0 */
  size_t oldest;                                           /* oldest supported version */
  int32_t (*create)(const void *functions, void **handle); /* 0 is success */
  int32_t (*destroy)(const void *functions, void *handle);
} cuda_library_kind;

/* CUDA_LIBRARY defines the contents of CUDA_LIBRARY_FIELDS from a library's function list X and its
 * struct of functions. */
#define CUDA_LIBRARY_ROW(member, symbol, type, parameters)                                         \
  {#symbol, offsetof(functions_of, member)},
#define CUDA_LIBRARY(functions_type, X)                                                            \
  typedef functions_type functions_of;                                                             \
  static const library_row rows[] = {X(CUDA_LIBRARY_ROW)};                                         \
  static functions_type functions[CUDA_LIBRARY_NAMES];                                             \
  static size_t version(const void *of) {                                                          \
    return ((const functions_type *)of)->version();                                                \
  }                                                                                                \
  static int32_t create(const void *of, void **handle) {                                           \
    return ((const functions_type *)of)->create(handle);                                           \
  }                                                                                                \
  static int32_t destroy(const void *of, void *handle) {                                           \
    return ((const functions_type *)of)->destroy(handle);                                          \
  }
#define CUDA_LIBRARY_FIELDS                                                                        \
  .rows = rows, .row_count = sizeof rows / sizeof *rows, .functions = functions,                   \
  .function_bytes = sizeof *functions, .version = version, .create = create, .destroy = destroy

extern const cuda_library_kind cublas_kind, cudnn_kind, nccl_kind;

/* cudaDataType of cuBLASLt and cudnnDataType_t agree except for bf16, passed in `bf16`; false for
 * other dtypes. */
bool cuda_vendor_type(compute_dtype dtype, int32_t bf16, int32_t *type);

uint64_t cuda_element_bytes(compute_dtype dtype);

/* The bytes from the first to after the last element of an operand over `rank` dimensions. */
uint64_t cuda_extent_bytes(const int64_t *size, const int64_t *stride, int32_t rank,
                           compute_dtype dtype);

/* ---- Products ------------------------------------------------------------------------------ */

/* A library's part of a kernel. The library's product struct starts with it. */
typedef struct cuda_product {
  const struct cuda_vendor *vendor;
  uint64_t workspace_bytes;  /* required by the library */
  uint64_t operand_bytes[3]; /* for the two factors and the result */
  /* A generated kernel may be faster, so the two are timed (candidates.c). */
  bool autotuned;
  char text[96]; /* "cuBLASLt 13.1, bias and gelu (tanh)" */
} cuda_product;

typedef struct cuda_vendor {
  cuda_library_id library;
  compute_kernel_kind kind;
  /* `true` if the library can compute the whole kernel, judged by the descriptor alone, without the
   * library; `reason` is a constant text. */
  bool (*serves)(const compute_kernel_descriptor *descriptor, const char **reason);
  /* Prepares a kernel that the library serves. Records the error. */
  compute_status (*prepare)(struct cuda_device *device, const compute_kernel_descriptor *descriptor,
                            cuda_product **product);
  void (*destroy)(struct cuda_device *device, cuda_product *product);
  /* Submits the product to the queue's stream. The operands are the library's inputs, then the
   * output. Records the error. */
  compute_status (*submit)(struct cuda_queue *queue, const cuda_product *product,
                           const cuda_pointer *operands, cuda_pointer workspace);
} cuda_vendor;

extern const cuda_vendor cublas_vendor, cudnn_vendor;

/* Releases cuDNN's objects of a queue. */
void cudnn_queue_release(struct cuda_queue *queue);

/* compute_tuning.implementation, from 1 */
enum { CUDA_BY_LIBRARY = 1, CUDA_FLIPPED = 2 };

/* The name of an implementation that can serve the kernel: the library ("cuBLASLt"), or the library
 * with a flipped filter; otherwise NULL. */
const char *cuda_implementation_name(void *device, const compute_kernel_descriptor *descriptor,
                                     uint32_t index);

/* `true` if the kernel is large enough to try a library when nobody has tuned it. */
bool cuda_vendor_is_preferred(const struct cuda_device *device,
                              const compute_kernel_descriptor *descriptor);

/* Fills in a kernel by one of these implementations. On failure the kernel is unchanged and the
 * error is recorded. */
compute_status cuda_implementation_prepare(struct cuda_device *device,
                                           const compute_kernel_descriptor *descriptor,
                                           uint32_t implementation, struct cuda_kernel *kernel);

/* `true` if a library can compute at least the kernel's product, judged by the descriptor alone. */
bool cuda_vendor_serves(const compute_kernel_descriptor *descriptor);

/* Fills in a kernel by a library, with a generated epilogue after the product if the library lacks
 * it. On failure the kernel is unchanged and the error is recorded. */
compute_status cuda_vendor_prepare(struct cuda_device *device,
                                   const compute_kernel_descriptor *descriptor,
                                   struct cuda_kernel *kernel);
void cuda_vendor_destroy(struct cuda_device *device, struct cuda_kernel *kernel);

/* Replaces a prepared library kernel by a generated one, or by the library's with a flipped filter,
 * if that is faster, as measured now or earlier. Only if the product is `autotuned`. */
void cuda_candidates_choose(struct cuda_device *device, const compute_kernel_descriptor *descriptor,
                            const compute_tuning *tuning, struct cuda_kernel *kernel);

/* Submits a kernel's product. The workspace is the whole workspace of the kernel. */
compute_status cuda_vendor_submit(struct cuda_queue *queue, const struct cuda_kernel *kernel,
                                  const cuda_pointer *operands, cuda_pointer workspace);

/* ---- Flipped filters ----------------------------------------------------------------------- */

typedef struct cuda_flip cuda_flip;

/* `true` if the other direction should be tried for a convolution, judged by its descriptor. */
bool cuda_flip_may_pay(const compute_kernel_descriptor *descriptor);

/* `true` if a library can serve it with a flipped filter, without looking for the library. */
bool cuda_flip_serves(const compute_kernel_descriptor *descriptor);

/* As cuda_vendor_prepare, with the filter flipped first. */
compute_status cuda_flip_prepare(struct cuda_device *device,
                                 const compute_kernel_descriptor *descriptor,
                                 struct cuda_kernel *kernel);
void cuda_flip_destroy(struct cuda_device *device, cuda_flip *flip); /* NULL is allowed */

/* Submits the flip to the queue's stream; `result` is in the kernel's workspace. Records the
 * error. */
compute_status cuda_flip_submit(struct cuda_queue *queue, const cuda_flip *flip,
                                cuda_pointer filter, cuda_pointer workspace, cuda_pointer *result);

/* ---- Autotuning ---------------------------------------------------------------------------- */

/* Verification of results that are sums of products of operands 0 and 1, stored in operand 2. */
typedef struct cuda_verification {
  compute_dtype dtype[3]; /* of the operands */
  double terms;           /* approximate number of terms of a sum */
  double allowed;         /* error, relative to the sum of the products' magnitudes */
  /* A result chosen by a random number: its place in the operand (in elements), its value and the
   * sum of the magnitudes. Element i of a factor is values[i mod period]. */
  void (*sum)(const void *of, uint64_t random, const double *const values[2], int64_t period,
              int64_t *place, double *sum, double *magnitude);
  const void *of;
} cuda_verification;

typedef struct cuda_expected cuda_expected;

/* Fills operands 0 and 1 and computes some results; NULL if that is impossible. */
cuda_expected *cuda_verify_begin(struct cuda_device *device, const cuda_verification *verification,
                                 const cuda_pointer *operands, const uint64_t *operand_bytes,
                                 cuda_stream stream);
void cuda_verify_end(struct cuda_device *device, cuda_expected *expected);

/* Call cuda_verify_prepare before each candidate: it erases the previous results; false if the
 * driver fails. Call cuda_verify_error after it: it returns the error relative to the allowed one,
 * so at most 1 passes; INFINITY if the driver fails. */
bool cuda_verify_prepare(struct cuda_device *device, cuda_pointer result, uint64_t bytes,
                         cuda_stream stream);
double cuda_verify_error(struct cuda_device *device, const cuda_verification *verification,
                         const cuda_expected *expected, cuda_pointer result, cuda_stream stream);

typedef struct cuda_autotune {
  uint32_t count;
  uint64_t operand_bytes[COMPUTE_MAX_OPERANDS]; /* 0: no such operand */
  uint64_t workspace_bytes;                     /* the largest of all candidates */
  cuda_stream stream;                           /* NULL: the autotuner creates one */
  float lead; /* relative time that a candidate must gain over an earlier one to win */
  /* Submits candidate `which`; false if it cannot. */
  bool (*submit)(void *argument, uint32_t which, const cuda_pointer *operands,
                 cuda_pointer workspace, cuda_stream stream);
  /* The candidate's name, and the purpose, for the log; NULL: no log. */
  void (*name)(void *argument, uint32_t which, char *text, size_t text_bytes);
  const char *what;
  void *argument;
  const cuda_verification *verify; /* verification that candidates must pass; NULL: none */
} cuda_autotune;

/* Returns the fastest candidate: the first of those within `lead`. Without memory, or if timing
 * fails, it returns the first one and sets `timed` to false: do not store that. -1 if no candidate
 * could be submitted, or none passed. */
int32_t cuda_autotune_run(struct cuda_device *device, const cuda_autotune *autotune, bool *timed);

/* The stored winner under this key, for this device and driver; -1 if there is none among
 * `count`. */
#define CUDA_AUTOTUNE_KEY 8
int32_t cuda_autotune_recall(const struct cuda_device *device, const compute_cache_part *key,
                             uint32_t key_parts, int32_t count);
void cuda_autotune_remember(const struct cuda_device *device, const compute_cache_part *key,
                            uint32_t key_parts, int32_t count, int32_t winner);

#endif
