/* SPDX-License-Identifier: MIT */
/* Matrix products and convolutions by NVIDIA's own libraries, where they are installed.
 *
 *   vendor.c          which library, if any, serves a kernel; the epilogue after a product
 *   library.c         opening them at run time, once for each process and for each device
 *   contest.c         timing ways to compute the same, on memory of no interest
 *   exam.c            whether such a way is as exact as was asked for
 *   rivals.c          a library's kernel against one of our own
 *   turn.c            a convolution as the gradient of one, and vice versa
 *   cublas.[ch]       cuBLASLt: its declarations; products
 *   cublas_problem.c  a descriptor in cuBLASLt's terms
 *   cudnn.[ch]        cuDNN 9: its declarations; convolutions
 *   cudnn_plan.c      a descriptor in cuDNN's terms, and what its heuristics propose
 *   cudnn_sum.c       a result of a convolution in double
 *
 * No library is needed: what is missing, too old, or does not start is logged once for each device,
 * and kernels of our own serve. */
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

/* A library as one device uses it. `handle` is the library's own, or NULL; then `reason` says why.
 */
typedef struct cuda_library {
  bool tried;
  void *handle;
  const void *functions; /* cublas_functions, cudnn_functions, nccl_functions */
  size_t version;        /* 130100 for 13.1.0 */
  char name[32];         /* "cuBLASLt 13.1.0" */
  char reason[256];
} cuda_library;

/* Makes the device's context current before; NULL when the library does not serve this device, with
 * the reason in the device's record. Thread-safe. The first call may take 100 ms and more. */
const cuda_library *cuda_library_open(struct cuda_device *device, cuda_library_id id);

const char *cuda_library_title(cuda_library_id id);

/* Records what a library has failed with; when the device is lost behind it, that. Returns the
 * status. */
compute_status cuda_library_fail(struct cuda_device *device, compute_status status, int64_t code,
                                 const char *remedy, const char *format, ...) COMPUTE_PRINTF(5, 6);

/* Gives the handles back. Nothing of the libraries is in use any more. */
void cuda_libraries_close(struct cuda_device *device);

/* How a library is opened and started on a device; cublas.c, cudnn.c and nccl.c have
 * one each. */
typedef struct cuda_library_kind {
  const char *title, *choice;                /* "cuBLASLt"; its word in COMPUTE_CUDA_LIBRARIES */
  const char *names[CUDA_LIBRARY_NAMES + 1]; /* newest first, NULL-terminated */
  const library_row *rows;
  uint32_t row_count;
  void *functions; /* an array of structs, one for each name, filled in once for the process */
  size_t function_bytes;
  size_t (*version)(const void *functions);                /* 130100 for 13.1.0 */
  size_t oldest;                                           /* that is served */
  int32_t (*create)(const void *functions, void **handle); /* 0 is success */
  int32_t (*destroy)(const void *functions, void *handle);
} cuda_library_kind;

/* CUDA_LIBRARY defines, from the list X of a library's functions and the struct of them, what
 * CUDA_LIBRARY_FIELDS puts into its kind. */
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

/* ---- Products ------------------------------------------------------------------------------ */

/* What a library computes of a kernel. The library's own struct begins with it. */
typedef struct cuda_product {
  const struct cuda_vendor *vendor;
  uint64_t workspace_bytes;  /* of the library */
  uint64_t operand_bytes[3]; /* of the two factors and the result */
  /* A kernel of our own may be faster: it is timed against it (rivals.c). */
  bool contested;
  char text[96]; /* "cuBLASLt 13.1, bias and gelu (tanh)" */
} cuda_product;

typedef struct cuda_vendor {
  cuda_library_id library;
  compute_kernel_kind kind;
  /* Whether it can take over all of the kernel, by the descriptor alone, without the library;
   * `reason` is a constant text. */
  bool (*serves)(const compute_kernel_descriptor *descriptor, const char **reason);
  /* A kernel that it serves. Records the error. */
  compute_status (*prepare)(struct cuda_device *device, const compute_kernel_descriptor *descriptor,
                            cuda_product **product);
  void (*destroy)(struct cuda_device *device, cuda_product *product);
  /* Puts the product on the queue's stream. The operands are the inputs that the library reads,
   * then the output. Records the error. */
  compute_status (*submit)(struct cuda_queue *queue, const cuda_product *product,
                           const cuda_pointer *operands, cuda_pointer workspace);
} cuda_vendor;

extern const cuda_vendor cublas_vendor, cudnn_vendor;

/* Gives back what cuDNN keeps for a queue. */
void cudnn_queue_release(struct cuda_queue *queue);

/* compute_tuning.implementation, from 1 */
enum { CUDA_BY_LIBRARY = 1, CUDA_TURNED = 2 };

/* The name of an implementation that can serve the kernel: the library ("cuBLASLt"), or the library
 * with its filter turned; or NULL. */
const char *cuda_implementation_name(void *device, const compute_kernel_descriptor *descriptor,
                                     uint32_t index);

/* Whether the kernel is of a size at which a library should be tried when nobody has measured. */
bool cuda_vendor_is_preferred(const struct cuda_device *device,
                              const compute_kernel_descriptor *descriptor);

/* Fills in a kernel by one of these implementations. Leaves it as it was, and records the error,
 * when that is not possible. */
compute_status cuda_implementation_prepare(struct cuda_device *device,
                                           const compute_kernel_descriptor *descriptor,
                                           uint32_t implementation, struct cuda_kernel *kernel);

/* Whether a library can take over at least the product of it, by the descriptor alone. */
bool cuda_vendor_serves(const compute_kernel_descriptor *descriptor);

/* Fills in a kernel that a library serves, with a generated epilogue after the product where the
 * library lacks it. Leaves it as it was, and records the error, when that is not possible. */
compute_status cuda_vendor_prepare(struct cuda_device *device,
                                   const compute_kernel_descriptor *descriptor,
                                   struct cuda_kernel *kernel);
void cuda_vendor_destroy(struct cuda_device *device, struct cuda_kernel *kernel);

/* A library's kernel that is prepared becomes a generated one, or the library's with a turned
 * filter, where that is faster, as it was timed now or before. Only where the product is contested.
 */
void cuda_rivals_meet(struct cuda_device *device, const compute_kernel_descriptor *descriptor,
                      const compute_tuning *tuning, struct cuda_kernel *kernel);

/* Submits a kernel's product. The workspace is the kernel's whole one. */
compute_status cuda_vendor_submit(struct cuda_queue *queue, const struct cuda_kernel *kernel,
                                  const cuda_pointer *operands, cuda_pointer workspace);

/* ---- Turned filters ------------------------------------------------------------------------ */

typedef struct cuda_turn cuda_turn;

/* Whether a convolution should be tried in the other direction, by its descriptor. */
bool cuda_turn_may_pay(const compute_kernel_descriptor *descriptor);

/* Whether a library can serve it so, without looking for the library. */
bool cuda_turn_serves(const compute_kernel_descriptor *descriptor);

/* As cuda_vendor_prepare, with the filter turned first. */
compute_status cuda_turn_prepare(struct cuda_device *device,
                                 const compute_kernel_descriptor *descriptor,
                                 struct cuda_kernel *kernel);
void cuda_turn_destroy(struct cuda_device *device, cuda_turn *turn); /* NULL is allowed */

/* Puts it on the queue's stream; `result` is in the kernel's workspace. Records the error. */
compute_status cuda_turn_submit(struct cuda_queue *queue, const cuda_turn *turn,
                                cuda_pointer filter, cuda_pointer workspace, cuda_pointer *result);

/* ---- Choosing by time ---------------------------------------------------------------------- */

/* What is asked of results that are sums of products of operands 0 and 1, in operand 2. */
typedef struct cuda_exam {
  compute_dtype dtype[3]; /* of the operands */
  double terms;           /* of a sum, about */
  double allowed;         /* error, relative to the sum of the products' magnitudes */
  /* A result chosen by a random number: its place in the operand, in elements, its value and the
   * sum of the magnitudes. Element i of a factor is values[i mod period]. */
  void (*sum)(const void *of, uint64_t random, const double *const values[2], int64_t period,
              int64_t *place, double *sum, double *magnitude);
  const void *of;
} cuda_exam;

typedef struct cuda_exam_paper cuda_exam_paper;

/* Fills operands 0 and 1, and works some results out; NULL when that is not possible. */
cuda_exam_paper *cuda_exam_begin(struct cuda_device *device, const cuda_exam *exam,
                                 const cuda_pointer *operands, const uint64_t *operand_bytes,
                                 cuda_stream stream);
void cuda_exam_end(struct cuda_device *device, cuda_exam_paper *paper);

/* Before a candidate runs: nothing of the one before is left; false when the driver fails. After
 * it: how far off its results are, as part of what is allowed, so that at most 1 passes; INFINITY
 * also when the driver fails. */
bool cuda_exam_prepare(struct cuda_device *device, cuda_pointer result, uint64_t bytes,
                       cuda_stream stream);
double cuda_exam_error(struct cuda_device *device, const cuda_exam *exam,
                       const cuda_exam_paper *paper, cuda_pointer result, cuda_stream stream);

typedef struct cuda_contest {
  uint32_t count;
  uint64_t operand_bytes[COMPUTE_MAX_OPERANDS]; /* 0: no such operand */
  uint64_t workspace_bytes;                     /* the largest of all candidates */
  cuda_stream stream;                           /* to run on; NULL: one made for it */
  float lead; /* part of the time by which a candidate must win against one before it */
  /* Submits candidate `which`; false when it cannot. */
  bool (*submit)(void *argument, uint32_t which, const cuda_pointer *operands,
                 cuda_pointer workspace, cuda_stream stream);
  /* The candidate's name, and what for, in the log; NULL: nothing is logged. */
  void (*name)(void *argument, uint32_t which, char *text, size_t text_bytes);
  const char *what;
  void *argument;
  const cuda_exam *exam; /* that candidates must pass; NULL: none */
} cuda_contest;

/* The fastest candidate, the first of those within `lead`. Where there is no memory for trying, or
 * timing fails, the first one, and `timed` is false: that is nothing to remember. -1 when none
 * could be submitted, or none has passed. */
int32_t cuda_contest_hold(struct cuda_device *device, const cuda_contest *contest, bool *timed);

/* The winner of an earlier contest in the disk cache, under this key and for this device and
 * driver; -1 when there is none among `count`. */
#define CUDA_CONTEST_KEY 8
int32_t cuda_contest_recall(const struct cuda_device *device, const compute_cache_part *key,
                            uint32_t key_parts, int32_t count);
void cuda_contest_remember(const struct cuda_device *device, const compute_cache_part *key,
                           uint32_t key_parts, int32_t count, int32_t winner);

/* cudaDataType of cuBLASLt and cudnnDataType_t agree in all but bf16, which is `bf16`; false for
 * other dtypes. */
bool cuda_vendor_type(compute_dtype dtype, int32_t bf16, int32_t *type);

uint64_t cuda_element_bytes(compute_dtype dtype);

/* The bytes from the first to after the last element of an operand over `rank` dimensions. */
uint64_t cuda_extent_bytes(const int64_t *size, const int64_t *stride, int32_t rank,
                           compute_dtype dtype);

#endif
