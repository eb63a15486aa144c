/* SPDX-License-Identifier: MIT */
/* A stand-in for libcublasLt.so.13. It proposes four algorithms: the first reports a failure, the
 * second fails when used, the third is slow, the fourth is fast. So it exposes a caller that does
 * not check or does not measure. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../../backends/cuda/cublas.h"
#include "cuda_driver/libraries/library.h"

enum { MAGIC = 0x4c74, VERSION = 130100, ALGORITHMS = 4, FAILS = 1, SLOW = 2, FAST = 3 };

#define CUBLAS_PROTOTYPE(member, symbol, type, parameters) EXPORT type symbol parameters;
CUBLAS_FUNCTIONS(CUBLAS_PROTOTYPE)

#define CALL()                                                                                     \
  do {                                                                                             \
    const int32_t code = library_call(__func__);                                                   \
    if (code) return code;                                                                         \
  } while (0)

/* Contents of the opaque structs. */
typedef struct operation {
  uint64_t magic;
  int32_t compute, scale, transpose[2], epilogue, bias_type;
  const void *bias;
} operation;

typedef struct layout {
  uint64_t magic;
  int32_t type, batches;
  int64_t rows, columns, leading, distance;
} layout;

typedef struct preference {
  uint64_t magic, workspace;
  uint32_t reduction, alignment[4];
} preference;

typedef struct algorithm {
  uint64_t magic, which, workspace, alignment[2]; /* [0]: factors, [1]: other operands */
} algorithm;

_Static_assert(sizeof(operation) <= sizeof(cublas_operation), "fits");
_Static_assert(sizeof(layout) <= sizeof(cublas_layout), "fits");
_Static_assert(sizeof(preference) <= sizeof(cublas_preference), "fits");
_Static_assert(sizeof(algorithm) <= sizeof(cublas_algorithm), "fits");

static element element_of(int32_t type) {
  switch (type) {
  case CUBLAS_TYPE_F32: return ELEMENT_F32;
  case CUBLAS_TYPE_F64: return ELEMENT_F64;
  case CUBLAS_TYPE_F16: return ELEMENT_F16;
  case CUBLAS_TYPE_BF16: return ELEMENT_BF16;
  default: return ELEMENT_NONE;
  }
}

/* ---- Handles and descriptors --------------------------------------------------------------- */

size_t cublasLtGetVersion(void) {
  return (size_t)library_version(VERSION);
}

int32_t cublasLtCreate(void **handle) {
  CALL();
  if (!library_starts(VERSION / 10000)) return CUBLAS_NO_CONTEXT;
  *handle = malloc(64);
  if (!*handle) return CUBLAS_NO_MEMORY;
  library_object(1);
  return CUBLAS_OK;
}

int32_t cublasLtDestroy(void *handle) {
  CALL();
  free(handle);
  library_object(-1);
  return CUBLAS_OK;
}

int32_t cublasLtMatrixLayoutInit_internal(cublas_layout *made, size_t bytes, int32_t type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  CALL();
  const layout l = {MAGIC, type, 1, (int64_t)rows, (int64_t)columns, leading, 0};
  if (bytes < sizeof *made) return CUBLAS_NO_MEMORY;
  if (element_of(type) == ELEMENT_NONE) return CUBLAS_INVALID;
  memset(made, 0, sizeof *made);
  memcpy(made, &l, sizeof l);
  return CUBLAS_OK;
}

int32_t cublasLtMatrixLayoutSetAttribute(cublas_layout *changed, int32_t attribute,
                                         const void *value, size_t bytes) {
  CALL();
  layout l;
  memcpy(&l, changed, sizeof l);
  if (l.magic != MAGIC) return CUBLAS_INVALID;
  if (attribute == CUBLAS_LAYOUT_BATCHES && bytes == sizeof l.batches)
    memcpy(&l.batches, value, bytes);
  else if (attribute == CUBLAS_LAYOUT_DISTANCE && bytes == sizeof l.distance)
    memcpy(&l.distance, value, bytes);
  else
    return CUBLAS_INVALID;
  memcpy(changed, &l, sizeof l);
  return CUBLAS_OK;
}

int32_t cublasLtMatmulDescInit_internal(cublas_operation *made, size_t bytes, int32_t compute,
                                        int32_t scale) {
  CALL();
  const operation o = {MAGIC, compute, scale, {0, 0}, CUBLAS_EPILOGUE_NONE, -1, NULL};
  if (bytes < sizeof *made) return CUBLAS_NO_MEMORY;
  memset(made, 0, sizeof *made);
  memcpy(made, &o, sizeof o);
  return CUBLAS_OK;
}

int32_t cublasLtMatmulDescSetAttribute(cublas_operation *changed, int32_t attribute,
                                       const void *value, size_t bytes) {
  CALL();
  operation o;
  memcpy(&o, changed, sizeof o);
  void *to = attribute == CUBLAS_OPERATION_TRANSPOSE_A   ? &o.transpose[0]
             : attribute == CUBLAS_OPERATION_TRANSPOSE_B ? &o.transpose[1]
             : attribute == CUBLAS_OPERATION_EPILOGUE    ? &o.epilogue
             : attribute == CUBLAS_OPERATION_BIAS_TYPE   ? &o.bias_type
             : attribute == CUBLAS_OPERATION_BIAS        ? (void *)&o.bias
                                                         : NULL;
  if (o.magic != MAGIC || !to || bytes != (attribute == CUBLAS_OPERATION_BIAS ? 8U : 4U))
    return CUBLAS_INVALID;
  memcpy(to, value, bytes);
  memcpy(changed, &o, sizeof o);
  return CUBLAS_OK;
}

int32_t cublasLtMatmulPreferenceInit_internal(cublas_preference *made, size_t bytes) {
  CALL();
  const preference p = {MAGIC, 0, 7, {256, 256, 256, 256}};
  if (bytes < sizeof *made) return CUBLAS_NO_MEMORY;
  memset(made, 0, sizeof *made);
  memcpy(made, &p, sizeof p);
  return CUBLAS_OK;
}

int32_t cublasLtMatmulPreferenceSetAttribute(cublas_preference *changed, int32_t attribute,
                                             const void *value, size_t bytes) {
  CALL();
  preference p;
  memcpy(&p, changed, sizeof p);
  if (p.magic != MAGIC) return CUBLAS_INVALID;
  if (attribute == CUBLAS_PREFERENCE_WORKSPACE && bytes == sizeof p.workspace)
    memcpy(&p.workspace, value, bytes);
  else if (attribute == CUBLAS_PREFERENCE_REDUCTION && bytes == sizeof p.reduction)
    memcpy(&p.reduction, value, bytes);
  else if (attribute >= CUBLAS_PREFERENCE_ALIGNMENT_A &&
           attribute < CUBLAS_PREFERENCE_ALIGNMENT_A + 4 && bytes == sizeof *p.alignment)
    memcpy(&p.alignment[attribute - CUBLAS_PREFERENCE_ALIGNMENT_A], value, bytes);
  else
    return CUBLAS_INVALID;
  memcpy(changed, &p, sizeof p);
  return CUBLAS_OK;
}

/* ---- Accepted descriptors ------------------------------------------------------------------ */

/* All parameters of a call of the library. */
typedef struct job {
  operation o;
  layout l[3];
  int64_t m, n, k;
  double alpha, beta;
  const void *a, *b;
  void *d, *workspace;
  uint64_t workspace_bytes;
  bool slow;
} job;

static bool types_are_served(const job *j) {
  const int32_t type = j->l[0].type, result = j->l[2].type;
  if (j->l[1].type != type) return false;
  if (j->o.compute == CUBLAS_BY_F64)
    return j->o.scale == CUBLAS_TYPE_F64 && type == CUBLAS_TYPE_F64 && result == CUBLAS_TYPE_F64;
  if (j->o.scale != CUBLAS_TYPE_F32 || type == CUBLAS_TYPE_F64) return false;
  if (j->o.compute == CUBLAS_BY_TF32) return type == CUBLAS_TYPE_F32 && result == CUBLAS_TYPE_F32;
  return j->o.compute == CUBLAS_BY_F32 && (result == type || result == CUBLAS_TYPE_F32);
}

static int32_t read_job(job *j, const cublas_operation *o, const cublas_layout *a,
                        const cublas_layout *b, const cublas_layout *c, const cublas_layout *d) {
  memset(j, 0, sizeof *j);
  memcpy(&j->o, o, sizeof j->o);
  memcpy(&j->l[0], a, sizeof *j->l);
  memcpy(&j->l[1], b, sizeof *j->l);
  memcpy(&j->l[2], d, sizeof *j->l);
  if (j->o.magic != MAGIC || memcmp(c, d, sizeof *c) != 0) return CUBLAS_INVALID;
  for (int i = 0; i < 3; i++) {
    const layout *l = &j->l[i];
    if (l->magic != MAGIC || l->rows <= 0 || l->columns <= 0 || l->leading < l->rows ||
        l->batches != j->l[0].batches || l->batches < 1)
      return CUBLAS_INVALID;
  }
  const int ta = j->o.transpose[0], tb = j->o.transpose[1];
  if ((ta & ~1) || (tb & ~1)) return CUBLAS_INVALID;
  j->m = ta ? j->l[0].columns : j->l[0].rows;
  j->k = ta ? j->l[0].rows : j->l[0].columns;
  j->n = tb ? j->l[1].rows : j->l[1].columns;
  if ((tb ? j->l[1].columns : j->l[1].rows) != j->k || j->l[2].rows != j->m ||
      j->l[2].columns != j->n)
    return CUBLAS_INVALID;
  const int32_t known = CUBLAS_EPILOGUE_BIAS | CUBLAS_EPILOGUE_RELU | CUBLAS_EPILOGUE_GELU;
  if (j->o.epilogue != CUBLAS_EPILOGUE_NONE &&
      (j->o.epilogue == 0 || (j->o.epilogue & ~known) ||
       (j->o.epilogue & (CUBLAS_EPILOGUE_RELU | CUBLAS_EPILOGUE_GELU)) ==
           (CUBLAS_EPILOGUE_RELU | CUBLAS_EPILOGUE_GELU)))
    return CUBLAS_INVALID;
  if ((j->o.epilogue & CUBLAS_EPILOGUE_BIAS) &&
      (!j->o.bias || (j->o.bias_type != -1 && j->o.bias_type != j->l[2].type)))
    return CUBLAS_INVALID;
  return types_are_served(j) ? CUBLAS_OK : CUBLAS_UNSUPPORTED;
}

int32_t cublasLtMatmulAlgoGetHeuristic(void *handle, cublas_operation *o, cublas_layout *a,
                                       cublas_layout *b, cublas_layout *c, cublas_layout *d,
                                       cublas_preference *preferred, int32_t wanted,
                                       cublas_proposal *proposals, int32_t *count) {
  CALL();
  job j;
  preference p;
  const int32_t code = read_job(&j, o, a, b, c, d);
  memcpy(&p, preferred, sizeof p);
  if (!handle || p.magic != MAGIC || wanted < 1) return CUBLAS_INVALID;
  if (code != CUBLAS_OK) return code;
  if (p.reduction & ~(uint32_t)CUBLAS_REDUCTION_BY_COMPUTE_TYPE)
    library_misuse("cuBLASLt may combine sums in a narrower type");
  *count = 0;
  for (int i = wanted > 1 ? 0 : FAST; i < ALGORITHMS && *count < wanted; i++) {
    const algorithm made = {
        MAGIC, (uint64_t)i, (uint64_t)i << 10, {p.alignment[0], p.alignment[3]}};
    cublas_proposal *proposal = &proposals[(*count)++];
    memset(proposal, 0, sizeof *proposal);
    memcpy(&proposal->algorithm, &made, sizeof made);
    proposal->workspace_bytes = made.workspace;
    proposal->state = i == 0 ? CUBLAS_UNSUPPORTED : CUBLAS_OK;
    if (made.workspace > p.workspace) proposal->state = CUBLAS_UNSUPPORTED;
  }
  return CUBLAS_OK;
}

int32_t cublasLtMatmulAlgoCheck(void *handle, cublas_operation *o, cublas_layout *a,
                                cublas_layout *b, cublas_layout *c, cublas_layout *d,
                                const cublas_algorithm *checked, cublas_proposal *result) {
  CALL();
  job j;
  algorithm found;
  const int32_t code = read_job(&j, o, a, b, c, d);
  memcpy(&found, checked, sizeof found);
  if (!handle || found.magic != MAGIC || found.which >= ALGORITHMS) return CUBLAS_INVALID;
  if (code != CUBLAS_OK) return code;
  memset(result, 0, sizeof *result);
  result->algorithm = *checked;
  result->workspace_bytes = found.workspace;
  return CUBLAS_OK;
}

/* ---- The product --------------------------------------------------------------------------- */

static double factor(const job *j, int which, int64_t batch, int64_t row, int64_t column) {
  const layout *l = &j->l[which];
  const int64_t at = batch * l->distance + (j->o.transpose[which] ? row * l->leading + column
                                                                  : column * l->leading + row);
  const double value = element_load(element_of(l->type), which ? j->b : j->a, at);
  return j->o.compute == CUBLAS_BY_TF32 ? element_to_tf32(value) : value;
}

static double epilogue(const job *j, int64_t row, double value) {
  if (j->o.epilogue == CUBLAS_EPILOGUE_NONE) return value;
  if (j->o.epilogue & CUBLAS_EPILOGUE_BIAS)
    value += element_load(element_of(j->l[2].type), j->o.bias, row);
  if (j->o.epilogue & CUBLAS_EPILOGUE_RELU) return value > 0 || isnan(value) ? value : 0;
  if (j->o.epilogue & CUBLAS_EPILOGUE_GELU)
    return 0.5 * value *
           (1 + tanh(0.79788456080286535588 * (value + 0.044715 * value * value * value)));
  return value;
}

static void run(void *data) {
  const job *j = data;
  const layout *d = &j->l[2];
  if (j->slow) nanosleep(&(struct timespec){0, 1500000}, NULL);
  for (int64_t batch = 0; batch < d->batches; batch++)
    for (int64_t column = 0; column < j->n; column++)
      for (int64_t row = 0; row < j->m; row++) {
        double sum = 0;
        for (int64_t k = 0; k < j->k; k++)
          sum += factor(j, 0, batch, row, k) * factor(j, 1, batch, k, column);
        element_store(element_of(d->type), j->d, batch * d->distance + column * d->leading + row,
                      epilogue(j, row, j->alpha * sum));
      }
  if (j->workspace_bytes) memset(j->workspace, 0xee, j->workspace_bytes); /* may hold any bytes */
}

static uint64_t extent(const layout *l) {
  return (uint64_t)((l->batches - 1) * l->distance + (l->columns - 1) * l->leading + l->rows) *
         element_bytes(element_of(l->type));
}

/* Checks that the addresses have the promised alignment and that the memory holds all operands. */
static bool addresses_are_good(const job *j, const algorithm *way, const void *workspace) {
  const void *addresses[4] = {j->a, j->b, j->d,
                              j->o.epilogue & CUBLAS_EPILOGUE_BIAS ? j->o.bias : j->d};
  const uint64_t bytes[4] = {extent(&j->l[0]), extent(&j->l[1]), extent(&j->l[2]),
                             j->o.epilogue & CUBLAS_EPILOGUE_BIAS
                                 ? (uint64_t)j->m * element_bytes(element_of(j->l[2].type))
                                 : 1};
  for (int i = 0; i < 4; i++) {
    if ((uintptr_t)addresses[i] % way->alignment[i < 2 ? 0 : 1]) {
      library_misuse("cuBLASLt: operand %d is not aligned as its algorithm was promised", i);
      return false;
    }
    if (!library_on_device(addresses[i], bytes[i])) {
      library_misuse("cuBLASLt: operand %d leaves the device's memory", i);
      return false;
    }
    const char *operand = addresses[i], *result = j->d;
    if (i != 2 && addresses[i] != j->d && operand < result + bytes[2] &&
        result < operand + bytes[i]) {
      library_misuse("cuBLASLt: the result overlaps operand %d", i);
      return false;
    }
  }
  if (way->workspace == 0 || library_on_device(workspace, way->workspace)) return true;
  library_misuse("cuBLASLt: there is no workspace");
  return false;
}

int32_t cublasLtMatmul(void *handle, cublas_operation *o, const void *alpha, const void *a,
                       cublas_layout *a_layout, const void *b, cublas_layout *b_layout,
                       const void *beta, const void *c, cublas_layout *c_layout, void *d,
                       cublas_layout *d_layout, const cublas_algorithm *chosen, void *workspace,
                       size_t workspace_bytes, cuda_stream stream) {
  CALL();
  job j;
  algorithm way;
  (void)c;
  const int32_t code = read_job(&j, o, a_layout, b_layout, c_layout, d_layout);
  memcpy(&way, chosen, sizeof way);
  if (code != CUBLAS_OK) return code;
  j.a = a;
  j.b = b;
  j.d = d;
  j.slow = way.which == SLOW;
  j.workspace = workspace;
  j.workspace_bytes = way.workspace;
  const element scale = j.o.scale == CUBLAS_TYPE_F64 ? ELEMENT_F64 : ELEMENT_F32;
  j.alpha = element_load(scale, alpha, 0);
  j.beta = element_load(scale, beta, 0);
  if (!handle || way.magic != MAGIC || j.beta != 0 || workspace_bytes < way.workspace)
    return CUBLAS_INVALID;
  if (way.which == FAILS) return CUBLAS_UNSUPPORTED;
  if (!addresses_are_good(&j, &way, workspace)) return CUBLAS_INVALID;
  library_call(way.which == FAST ? "fast" : "slow");
  job *submitted = malloc(sizeof j);
  if (!submitted) return CUBLAS_NO_MEMORY;
  *submitted = j;
  return library_submit(stream, run, submitted) ? CUBLAS_EXECUTION : CUBLAS_OK;
}
