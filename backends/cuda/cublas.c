/* SPDX-License-Identifier: MIT */
/* Products by cuBLASLt. Preparation creates the descriptors and chooses the algorithm: it times the
 * best few of the library's proposals. The disk cache stores the winner under everything that can
 * change it. A launch copies the operation's descriptor to its stack, because the library expects
 * the address of the bias in it.
 *
 * The heuristics need the alignment of the addresses, which our descriptors do not contain. So a
 * product keeps two algorithms: one for the alignment of allocations and aligned views, and one for
 * any alignment. */
#include "cublas.h"

#include <stdio.h>
#include <string.h>

#include "cuda.h"
#include "core/platform/names.h"

enum {
  ALIGNED = 16, /* in bytes: the widest loads of kernels */
  ALGORITHMS = 2,
  PROPOSALS = 6
};

#define WORKSPACE_BYTES       ((uint64_t)8 << 20)
#define LARGE_WORKSPACE_BYTES ((uint64_t)32 << 20) /* from Hopper on, as NVIDIA recommends */

typedef struct cublas_product {
  cuda_product shared;
  cublas_problem problem;
  const cuda_library *library;
  cublas_operation operation;
  cublas_layout layout[3];
  struct {
    cublas_algorithm algorithm;
    uint64_t workspace_bytes;
  } way[ALGORITHMS]; /* for aligned addresses, for any */
} cublas_product;

/* ---- The library --------------------------------------------------------------------------- */

CUDA_LIBRARY(cublas_functions, CUBLAS_FUNCTIONS)

const cuda_library_kind cublas_kind = {
    .title = "cuBLASLt",
    .choice = "cublas",
    .names = {PLATFORM_NAME("libcublasLt.so.13", "cublasLt64_13.dll"),
              "/usr/local/cuda/lib64/libcublasLt.so.13",
              PLATFORM_NAME("libcublasLt.so.12", "cublasLt64_12.dll"),
              "/usr/local/cuda/lib64/libcublasLt.so.12"},
    .oldest = 120000,
    CUDA_LIBRARY_FIELDS,
};

static compute_status fail(cuda_device *device, int32_t code, const char *what) {
  static const struct {
    int32_t code;
    compute_status status;
    const char *words;
  } known[] = {
      {CUBLAS_NO_CONTEXT, COMPUTE_ERROR_LAUNCH, "not initialised"},
      {CUBLAS_NO_MEMORY, COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY, "out of memory"},
      {CUBLAS_INVALID, COMPUTE_ERROR_INTERNAL, "invalid value"},
      {CUBLAS_ARCHITECTURE, COMPUTE_ERROR_UNSUPPORTED, "not for this GPU"},
      {CUBLAS_EXECUTION, COMPUTE_ERROR_LAUNCH, "execution failed"},
      {CUBLAS_INTERNAL, COMPUTE_ERROR_LAUNCH, "internal error"},
      {CUBLAS_UNSUPPORTED, COMPUTE_ERROR_UNSUPPORTED, "not supported"},
  };
  compute_status status = COMPUTE_ERROR_LAUNCH;
  const char *words = "unknown code";
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].code == code) {
      status = known[i].status;
      words = known[i].words;
    }
  return cuda_library_fail(device, status, code, "set COMPUTE_CUDA_LIBRARIES=none, and report it",
                           "cuda:%u: %s: cuBLASLt reports %s (%d)", device->index, what, words,
                           code);
}

/* ---- Descriptors --------------------------------------------------------------------------- */

static int32_t layouts_make(cublas_product *product) {
  const cublas_functions *f = product->library->functions;
  const cublas_problem *p = &product->problem;
  int32_t code = CUBLAS_OK;
  for (int i = 0; i < 3 && code == CUBLAS_OK; i++) {
    cublas_layout *layout = &product->layout[i];
    const int32_t type = i == 2 ? p->result_type : p->type, batches = (int32_t)p->batches;
    code = f->layout_init(layout, sizeof *layout, type, (uint64_t)p->rows[i],
                          (uint64_t)p->columns[i], p->leading[i]);
    if (code != CUBLAS_OK || batches == 1) continue;
    code = f->layout_set(layout, CUBLAS_LAYOUT_BATCHES, &batches, sizeof batches);
    if (code == CUBLAS_OK)
      code = f->layout_set(layout, CUBLAS_LAYOUT_DISTANCE, &p->distance[i], sizeof(int64_t));
  }
  return code;
}

static int32_t operation_make(cublas_product *product) {
  const cublas_functions *f = product->library->functions;
  const cublas_problem *p = &product->problem;
  cublas_operation *o = &product->operation;
  int32_t code = f->operation_init(o, sizeof *o, p->compute_type, p->scale_type);
  for (int i = 0; i < 2 && code == CUBLAS_OK; i++)
    code = f->operation_set(o, CUBLAS_OPERATION_TRANSPOSE_A + i, &p->transpose[i], sizeof(int32_t));
  if (code == CUBLAS_OK)
    code = f->operation_set(o, CUBLAS_OPERATION_EPILOGUE, &p->epilogue, sizeof p->epilogue);
  if (code == CUBLAS_OK && p->bias_length)
    code = f->operation_set(o, CUBLAS_OPERATION_BIAS_TYPE, &p->result_type, sizeof p->result_type);
  return code;
}

/* Every operand is at least aligned to its elements. */
static uint32_t alignment_of(const cublas_problem *p, int64_t alignment, bool of_result) {
  const int64_t least = p->element_bytes[of_result];
  return (uint32_t)(alignment > least ? alignment : least);
}

/* The operation with a placeholder for the bias address. Only its alignment is correct: the choice
 * of an algorithm reads nothing else. */
static int32_t operation_with_bias(const cublas_product *product, int64_t alignment,
                                   cublas_operation *operation) {
  const cublas_functions *f = product->library->functions;
  const void *bias = (const void *)(uintptr_t)alignment_of(&product->problem, alignment, true);
  *operation = product->operation;
  if (!product->problem.bias_length) return CUBLAS_OK;
  return f->operation_set(operation, CUBLAS_OPERATION_BIAS, &bias, sizeof bias);
}

/* The constraints for the heuristics. Partial sums are never combined in a narrower type than their
 * type. */
static int32_t preference_make(const cuda_device *device, const cublas_product *product,
                               int64_t alignment, cublas_preference *preference) {
  const cublas_functions *f = product->library->functions;
  const uint64_t workspace = device->capability >= 90 ? LARGE_WORKSPACE_BYTES : WORKSPACE_BYTES;
  const uint32_t reduction = CUBLAS_REDUCTION_BY_COMPUTE_TYPE;
  int32_t code = f->preference_init(preference, sizeof *preference);
  if (code == CUBLAS_OK)
    code = f->preference_set(preference, CUBLAS_PREFERENCE_WORKSPACE, &workspace, sizeof workspace);
  if (code == CUBLAS_OK)
    code = f->preference_set(preference, CUBLAS_PREFERENCE_REDUCTION, &reduction, sizeof reduction);
  for (int i = 0; i < 4 && code == CUBLAS_OK; i++) { /* A, B, C, D */
    const uint32_t bytes = alignment_of(&product->problem, alignment, i >= 2);
    code = f->preference_set(preference, CUBLAS_PREFERENCE_ALIGNMENT_A + i, &bytes, sizeof bytes);
  }
  return code;
}

/* ---- Choosing an algorithm ----------------------------------------------------------------- */

static int32_t multiply(const cublas_product *product, const cublas_algorithm *algorithm,
                        uint64_t workspace_bytes, const cuda_pointer *operands,
                        cuda_pointer workspace, cuda_stream stream) {
  const cublas_functions *f = product->library->functions;
  const cublas_problem *p = &product->problem;
  static const double one64 = 1, zero64 = 0;
  static const float one32 = 1, zero32 = 0;
  const bool f64 = p->scale_type == CUBLAS_TYPE_F64;
  cublas_operation operation = product->operation;
  cublas_layout layout[3];
  memcpy(layout, product->layout, sizeof layout);
  const void *first = (const void *)(uintptr_t)operands[p->swapped ? 1 : 0];
  const void *second = (const void *)(uintptr_t)operands[p->swapped ? 0 : 1];
  const void *bias = (const void *)(uintptr_t)operands[2];
  void *result = (void *)(uintptr_t)operands[p->bias_length ? 3 : 2];
  if (p->bias_length) {
    const int32_t code = f->operation_set(&operation, CUBLAS_OPERATION_BIAS, &bias, sizeof bias);
    if (code != CUBLAS_OK) return code;
  }
  return f->multiply(product->library->handle, &operation,
                     f64 ? (const void *)&one64 : (const void *)&one32, first, &layout[0], second,
                     &layout[1], f64 ? (const void *)&zero64 : (const void *)&zero32, result,
                     &layout[2], result, &layout[2], algorithm, (void *)(uintptr_t)workspace,
                     workspace_bytes, stream);
}

typedef struct trial {
  const cublas_product *product;
  const cublas_proposal *proposals;
} trial;

static bool try_out(void *argument, uint32_t which, const cuda_pointer *operands,
                    cuda_pointer workspace, cuda_stream stream) {
  const trial *t = argument;
  const cublas_proposal *proposal = &t->proposals[which];
  return multiply(t->product, &proposal->algorithm, proposal->workspace_bytes, operands, workspace,
                  stream) == CUBLAS_OK;
}

/* The library's proposals that can run. */
static int32_t propose(const cuda_device *device, cublas_product *product, int64_t alignment,
                       int32_t wanted, cublas_proposal *proposals, int32_t *count) {
  const cublas_functions *f = product->library->functions;
  cublas_preference preference;
  cublas_operation operation;
  cublas_layout *l = product->layout;
  int32_t proposed = 0;
  *count = 0;
  int32_t code = preference_make(device, product, alignment, &preference);
  if (code == CUBLAS_OK) code = operation_with_bias(product, alignment, &operation);
  if (code == CUBLAS_OK)
    code = f->propose(product->library->handle, &operation, &l[0], &l[1], &l[2], &l[2], &preference,
                      wanted, proposals, &proposed);
  if (code != CUBLAS_OK) return code;
  for (int32_t i = 0; i < proposed && i < wanted; i++)
    if (proposals[i].state == CUBLAS_OK) proposals[(*count)++] = proposals[i];
  return *count ? CUBLAS_OK : CUBLAS_UNSUPPORTED;
}

static void measure_operands(cublas_product *product) {
  const cublas_problem *p = &product->problem;
  for (int i = 0; i < 3; i++) {
    const int64_t elements =
        (p->columns[i] - 1) * p->leading[i] + p->rows[i] + (p->batches - 1) * p->distance[i];
    product->shared.operand_bytes[i < 2 && p->swapped ? 1 - i : i] =
        (uint64_t)(elements * p->element_bytes[i == 2]);
  }
}

static void autotune_describe(const cublas_product *product, cuda_autotune *autotune) {
  const cublas_problem *p = &product->problem;
  const uint64_t *bytes = product->shared.operand_bytes;
  memcpy(autotune->operand_bytes, bytes, 2 * sizeof *bytes);
  autotune->operand_bytes[2] = (uint64_t)(p->bias_length * p->element_bytes[1]);
  autotune->operand_bytes[p->bias_length ? 3 : 2] = bytes[2];
}

/* ---- Stored choices ------------------------------------------------------------------------ */

enum { KEY_PARTS = 6 };

static void key_make(const cuda_device *device, const cublas_product *product,
                     compute_cache_part parts[KEY_PARTS]) {
  static const char what[] = "cublaslt algorithm 1";
  const compute_target *t = &device->target;
  parts[0] = (compute_cache_part){what, sizeof what};
  parts[1] = (compute_cache_part){&product->library->version, sizeof product->library->version};
  parts[2] = (compute_cache_part){t->model, strlen(t->model)};
  parts[3] = (compute_cache_part){t->family, strlen(t->family)};
  parts[4] = (compute_cache_part){t->driver, strlen(t->driver)};
  parts[5] = (compute_cache_part){&product->problem, sizeof product->problem};
}

/* `true` if the cache has the winner and the library still accepts it. */
static bool recall(const cuda_device *device, cublas_product *product) {
  const compute_services *services = device->services;
  const cublas_functions *f = product->library->functions;
  compute_cache_part parts[KEY_PARTS];
  cublas_algorithm algorithm;
  cublas_proposal checked = {.state = CUBLAS_UNSUPPORTED};
  cublas_operation operation;
  cublas_layout *l = product->layout;
  size_t bytes = 0;
  if (!services->cache_load) return false;
  key_make(device, product, parts);
  void *stored = services->cache_load(services->host, parts, KEY_PARTS, &bytes);
  const bool whole = stored && bytes == sizeof algorithm;
  if (whole) memcpy(&algorithm, stored, sizeof algorithm);
  if (stored) services->release(services->host, stored);
  if (!whole || operation_with_bias(product, ALIGNED, &operation) != CUBLAS_OK ||
      f->check(product->library->handle, &operation, &l[0], &l[1], &l[2], &l[2], &algorithm,
               &checked) != CUBLAS_OK)
    return false;
  if (checked.workspace_bytes > LARGE_WORKSPACE_BYTES) return false;
  product->way[0].algorithm = algorithm;
  product->way[0].workspace_bytes = checked.workspace_bytes;
  return true;
}

static void remember(const cuda_device *device, const cublas_product *product) {
  const compute_services *services = device->services;
  compute_cache_part parts[KEY_PARTS];
  if (!services->cache_store) return;
  key_make(device, product, parts);
  services->cache_store(services->host, parts, KEY_PARTS, &product->way[0].algorithm,
                        sizeof product->way[0].algorithm);
}

/* ---- Preparing ----------------------------------------------------------------------------- */

static void keep(cublas_product *product, int way, const cublas_proposal *proposal) {
  product->way[way].algorithm = proposal->algorithm;
  product->way[way].workspace_bytes = proposal->workspace_bytes;
}

static compute_status choose_timed(cuda_device *device, cublas_product *product) {
  cublas_proposal proposals[PROPOSALS];
  int32_t count;
  if (recall(device, product)) return COMPUTE_OK;
  const int32_t code = propose(device, product, ALIGNED, PROPOSALS, proposals, &count);
  if (code != CUBLAS_OK) return fail(device, code, "choosing an algorithm");
  trial t = {product, proposals};
  cuda_autotune autotune = {.count = (uint32_t)count, .submit = try_out, .argument = &t};
  for (int32_t i = 0; i < count; i++)
    if (proposals[i].workspace_bytes > autotune.workspace_bytes)
      autotune.workspace_bytes = proposals[i].workspace_bytes;
  autotune_describe(product, &autotune);
  bool timed;
  const int32_t winner = cuda_autotune_run(device, &autotune, &timed);
  const compute_status status = cuda_enter(device); /* autotuning may have lost the device */
  if (status != COMPUTE_OK) return status;
  if (winner < 0) return fail(device, CUBLAS_EXECUTION, "trying its algorithms");
  keep(product, 0, &proposals[winner]);
  if (timed) remember(device, product);
  return COMPUTE_OK;
}

static compute_status choose(cuda_device *device, cublas_product *product) {
  cublas_proposal proposal;
  int32_t count;
  const compute_status status = choose_timed(device, product);
  if (status != COMPUTE_OK) return status;
  const int32_t code = propose(device, product, 1, 1, &proposal, &count);
  if (code != CUBLAS_OK) return fail(device, code, "choosing an algorithm");
  keep(product, 1, &proposal);
  for (int i = 0; i < ALGORITHMS; i++)
    if (product->way[i].workspace_bytes > product->shared.workspace_bytes)
      product->shared.workspace_bytes = product->way[i].workspace_bytes;
  return COMPUTE_OK;
}

static void describe(cublas_product *product) {
  const cublas_problem *p = &product->problem;
  const char *bias = p->bias_length ? ", bias" : "";
  const char *rest = p->epilogue & CUBLAS_EPILOGUE_GELU ? ", gelu by tanh" : "";
  snprintf(product->shared.text, sizeof product->shared.text, "%s%s%s%s", product->library->name,
           p->compute_type == CUBLAS_BY_TF32 ? " in TF32" : "", bias, rest);
}

/* `true` if a generated kernel may be as fast. On matrix units the library is faster, with two
 * exceptions: products limited by reading the weights for a few rows, and, on GPUs with warpgroup
 * multiplication, products of a few microseconds. */
static bool is_autotuned(const cuda_device *device, const cublas_problem *p) {
  enum { FEW = 16 };
  const double few_products = 3e9;
  const int64_t m = p->rows[2], n = p->columns[2], k = p->transpose[0] ? p->rows[0] : p->columns[0];
  const bool plain = p->type == CUBLAS_TYPE_F32 && p->compute_type == CUBLAS_BY_F32;
  const bool short_lived = (device->target.flags & COMPUTE_TARGET_WARPGROUP_MATRIX) &&
                           p->element_bytes[0] == 2 &&
                           (double)m * (double)n * (double)k * (double)p->batches <= few_products;
  return plain || p->type == CUBLAS_TYPE_F64 || (m < n ? m : n) <= FEW || short_lived;
}

static bool serves(const compute_kernel_descriptor *descriptor, const char **reason) {
  cublas_problem problem;
  return cublas_translate(descriptor, &problem, reason);
}

static compute_status prepare(cuda_device *device, const compute_kernel_descriptor *descriptor,
                              cuda_product **result) {
  const char *reason;
  cublas_product *product = builder_allocate(&device->builder, sizeof *product);
  if (!product) return cuda_fail_memory(device->services, "a kernel");
  product->shared.vendor = &cublas_vendor;
  product->library = cuda_library_open(device, CUDA_CUBLAS);
  (void)cublas_translate(descriptor, &product->problem, &reason);
  measure_operands(product);
  product->shared.autotuned = is_autotuned(device, &product->problem);
  int32_t code = layouts_make(product);
  if (code == CUBLAS_OK) code = operation_make(product);
  compute_status status = COMPUTE_OK;
  if (code != CUBLAS_OK) status = fail(device, code, "describing a product");
  if (status == COMPUTE_OK) status = choose(device, product);
  if (status != COMPUTE_OK) {
    builder_free(&device->builder, product);
    return status;
  }
  describe(product);
  *result = &product->shared;
  return COMPUTE_OK;
}

static void product_destroy(cuda_device *device, cuda_product *product) {
  builder_free(&device->builder, product);
}

/* ---- Submitting ---------------------------------------------------------------------------- */

static compute_status submit(cuda_queue *queue, const cuda_product *submitted,
                             const cuda_pointer *operands, cuda_pointer workspace) {
  const cublas_product *product = (const cublas_product *)submitted;
  cuda_pointer all = 0;
  for (int i = 0; i < (product->problem.bias_length ? 4 : 3); i++) all |= operands[i];
  const int way = all % ALIGNED == 0 ? 0 : 1;
  const int32_t code =
      multiply(product, &product->way[way].algorithm, product->way[way].workspace_bytes, operands,
               workspace, queue->stream);
  return code == CUBLAS_OK ? COMPUTE_OK : fail(queue->device, code, "a product");
}

const cuda_vendor cublas_vendor = {
    .library = CUDA_CUBLAS,
    .kind = COMPUTE_KERNEL_GEMM,
    .serves = serves,
    .prepare = prepare,
    .destroy = product_destroy,
    .submit = submit,
};
