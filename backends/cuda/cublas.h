/* SPDX-License-Identifier: MIT */
/* Our declarations of the used part of cuBLASLt: types, constants and prototypes of versions 12 and
 * 13. The library is column-major; a row-major matrix is passed as its transpose. */
#ifndef CUDA_CUBLAS_H
#define CUDA_CUBLAS_H

#include "vendor.h"

/* cublasLtMatmulDescOpaque_t and similar structs, which may be copied. */
typedef struct cublas_operation {
  uint64_t data[32];
} cublas_operation;
typedef struct cublas_layout {
  uint64_t data[8];
} cublas_layout;
typedef struct cublas_preference {
  uint64_t data[8];
} cublas_preference;
typedef struct cublas_algorithm {
  uint64_t data[8];
} cublas_algorithm;

/* cublasLtMatmulHeuristicResult_t */
typedef struct cublas_proposal {
  cublas_algorithm algorithm;
  size_t workspace_bytes;
  int32_t state;
  float waves;
  int32_t reserved[4];
} cublas_proposal;

enum {
  CUBLAS_OK = 0,
  CUBLAS_NO_CONTEXT = 1, /* CUBLAS_STATUS_NOT_INITIALIZED */
  CUBLAS_NO_MEMORY = 3,
  CUBLAS_INVALID = 7,
  CUBLAS_ARCHITECTURE = 8,
  CUBLAS_EXECUTION = 13,
  CUBLAS_INTERNAL = 14,
  CUBLAS_UNSUPPORTED = 15,

  CUBLAS_TYPE_F32 = 0, /* cudaDataType */
  CUBLAS_TYPE_F64 = 1,
  CUBLAS_TYPE_F16 = 2,
  CUBLAS_TYPE_BF16 = 14,

  CUBLAS_BY_F32 = 68, /* cublasComputeType_t */
  CUBLAS_BY_F64 = 70,
  CUBLAS_BY_TF32 = 77,

  CUBLAS_AS_IT_IS = 0, /* cublasOperation_t */
  CUBLAS_TRANSPOSED = 1,

  CUBLAS_OPERATION_TRANSPOSE_A = 3, /* cublasLtMatmulDescAttributes_t */
  CUBLAS_OPERATION_TRANSPOSE_B = 4,
  CUBLAS_OPERATION_EPILOGUE = 7,
  CUBLAS_OPERATION_BIAS = 8,
  CUBLAS_OPERATION_BIAS_TYPE = 26,

  CUBLAS_LAYOUT_BATCHES = 5, /* cublasLtMatrixLayoutAttribute_t */
  CUBLAS_LAYOUT_DISTANCE = 6,

  CUBLAS_PREFERENCE_WORKSPACE = 1, /* cublasLtMatmulPreferenceAttributes_t */
  CUBLAS_PREFERENCE_REDUCTION = 3,
  CUBLAS_PREFERENCE_ALIGNMENT_A = 5, /* B, C and D follow */
  CUBLAS_REDUCTION_BY_COMPUTE_TYPE = 2,

  CUBLAS_EPILOGUE_NONE = 1, /* cublasLtEpilogue_t: bits, except this one */
  CUBLAS_EPILOGUE_RELU = 2,
  CUBLAS_EPILOGUE_BIAS = 4,
  CUBLAS_EPILOGUE_GELU = 32 /* the tanh form */
};

/* X(member, symbol, result type, parameters) */
#define CUBLAS_FUNCTIONS(X)                                                                        \
  X(version, cublasLtGetVersion, size_t, (void))                                                   \
  X(create, cublasLtCreate, int32_t, (void **handle))                                              \
  X(destroy, cublasLtDestroy, int32_t, (void *handle))                                             \
  X(layout_init, cublasLtMatrixLayoutInit_internal, int32_t,                                       \
    (cublas_layout * layout, size_t bytes, int32_t type, uint64_t rows, uint64_t columns,          \
     int64_t leading))                                                                             \
  X(layout_set, cublasLtMatrixLayoutSetAttribute, int32_t,                                         \
    (cublas_layout * layout, int32_t attribute, const void *value, size_t bytes))                  \
  X(operation_init, cublasLtMatmulDescInit_internal, int32_t,                                      \
    (cublas_operation * operation, size_t bytes, int32_t compute_type, int32_t scale_type))        \
  X(operation_set, cublasLtMatmulDescSetAttribute, int32_t,                                        \
    (cublas_operation * operation, int32_t attribute, const void *value, size_t bytes))            \
  X(preference_init, cublasLtMatmulPreferenceInit_internal, int32_t,                               \
    (cublas_preference * preference, size_t bytes))                                                \
  X(preference_set, cublasLtMatmulPreferenceSetAttribute, int32_t,                                 \
    (cublas_preference * preference, int32_t attribute, const void *value, size_t bytes))          \
  X(propose, cublasLtMatmulAlgoGetHeuristic, int32_t,                                              \
    (void *handle, cublas_operation *operation, cublas_layout *a, cublas_layout *b,                \
     cublas_layout *c, cublas_layout *d, cublas_preference *preference, int32_t wanted,            \
     cublas_proposal *proposals, int32_t *count))                                                  \
  X(check, cublasLtMatmulAlgoCheck, int32_t,                                                       \
    (void *handle, cublas_operation *operation, cublas_layout *a, cublas_layout *b,                \
     cublas_layout *c, cublas_layout *d, const cublas_algorithm *algorithm,                        \
     cublas_proposal *result))                                                                     \
  X(multiply, cublasLtMatmul, int32_t,                                                             \
    (void *handle, cublas_operation *operation, const void *alpha, const void *a,                  \
     cublas_layout *a_layout, const void *b, cublas_layout *b_layout, const void *beta,            \
     const void *c, cublas_layout *c_layout, void *d, cublas_layout *d_layout,                     \
     const cublas_algorithm *algorithm, void *workspace, size_t workspace_bytes,                   \
     cuda_stream stream))

#define CUBLAS_MEMBER(member, symbol, type, parameters) type(*member) parameters;
typedef struct cublas_functions {
  CUBLAS_FUNCTIONS(CUBLAS_MEMBER)
} cublas_functions;

/* A product in cuBLASLt's form. If the result is row-major (`swapped`), the transposed product is
 * computed, so the first factor is the descriptor's second. All bytes count: the struct is
 * compared, and hashed as a key of the disk cache. */
typedef struct cublas_problem {
  int32_t type, result_type, compute_type, scale_type, epilogue, swapped;
  int32_t transpose[2];
  int64_t rows[3], columns[3], leading[3]; /* first factor, second, result; as stored */
  int64_t batches, distance[3];            /* in elements */
  int64_t element_bytes[2];                /* of the factors, of the result */
  int64_t bias_length;                     /* 0: no bias */
} cublas_problem;

/* Translates the whole descriptor, or returns false with a reason (a constant text). */
bool cublas_translate(const compute_kernel_descriptor *descriptor, cublas_problem *problem,
                      const char **reason);

#endif
