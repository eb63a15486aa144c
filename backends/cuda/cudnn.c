/* SPDX-License-Identifier: MIT */
/* Convolutions by cuDNN. Preparation creates a plan: it times the best few plans that the
 * heuristics propose. The disk cache stores the winner: with the same library and GPU the
 * heuristics give the same answer again.
 *
 * A cuDNN handle serves one thread and one stream at a time, so each queue has a separate handle,
 * and preparation holds a lock. A plan states the alignment of its operands. As with products,
 * there is one plan for aligned addresses and one for any alignment. */
#include "cudnn.h"

#include <stdio.h>
#include <string.h>

#include "cuda.h"
#include "core/platform/names.h"

enum {
  ALIGNED = 16,
  PROPOSALS = 10,
  WORKSPACE_PART = 64 /* fraction of the device's memory: 1/64 */
};

#define LEAST_WORKSPACE ((int64_t)256 << 20) /* lower and upper bound */
#define MOST_WORKSPACE  ((int64_t)2 << 30)

typedef struct cudnn_product {
  cuda_product shared;
  cudnn_problem problem;
  const cuda_library *library;
  cudnn_pile pile[CUDNN_WAYS];
  cudnn_way way[CUDNN_WAYS]; /* for aligned addresses, for any */
} cudnn_product;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* protects the devices' handles */

/* ---- The library --------------------------------------------------------------------------- */

CUDA_LIBRARY(cudnn_functions, CUDNN_FUNCTIONS)

const cuda_library_kind cudnn_kind = {
    .title = "cuDNN",
    .choice = "cudnn",
    .names = {PLATFORM_NAME("libcudnn.so.9", "cudnn64_9.dll"),
              "/usr/local/cuda/lib64/libcudnn.so.9"},
    .oldest = 90000,
    CUDA_LIBRARY_FIELDS,
};

static compute_status fail(cuda_device *device, int32_t code, const char *what) {
  const cudnn_functions *f = device->libraries[CUDA_CUDNN].functions;
  const compute_status status = code == CUDNN_HOST_MEMORY     ? COMPUTE_ERROR_OUT_OF_MEMORY
                                : code == CUDNN_DEVICE_MEMORY ? COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY
                                : code / 1000 == CUDNN_BAD_PARAMETER / 1000 ? COMPUTE_ERROR_INTERNAL
                                : code / 1000 == CUDNN_UNSUPPORTED / 1000
                                    ? COMPUTE_ERROR_UNSUPPORTED
                                    : COMPUTE_ERROR_LAUNCH;
  return cuda_library_fail(device, status, code, "set COMPUTE_CUDA_LIBRARIES=cublas, and report it",
                           "cuda:%u: %s: cuDNN reports %s (%d)", device->index, what,
                           f->error_text(code), code);
}

/* ---- Running a plan ------------------------------------------------------------------------ */

static int32_t execute(const cudnn_functions *f, void *handle, cudnn_descriptor plan,
                       const cuda_pointer *operands, cuda_pointer workspace) {
  static const int64_t names[3] = {1, 2, 3};
  void *pointers[3], *scratch = (void *)(uintptr_t)workspace;
  cudnn_descriptor bindings = NULL;
  for (int i = 0; i < 3; i++) pointers[i] = (void *)(uintptr_t)operands[i];
  int32_t code = f->describe(CUDNN_KIND_BINDINGS, &bindings);
  if (code != CUDNN_OK) return code;
  code = f->set(bindings, CUDNN_BINDINGS_NAMES, CUDNN_IS_INT64, 3, names);
  if (code == CUDNN_OK)
    code = f->set(bindings, CUDNN_BINDINGS_POINTERS, CUDNN_IS_POINTER, 3, pointers);
  if (code == CUDNN_OK)
    code = f->set(bindings, CUDNN_BINDINGS_WORKSPACE, CUDNN_IS_POINTER, 1, &scratch);
  if (code == CUDNN_OK) code = f->finalize(bindings);
  if (code == CUDNN_OK) code = f->execute(handle, plan, bindings);
  f->forget(bindings);
  return code;
}

/* ---- Choosing a plan ----------------------------------------------------------------------- */

typedef struct trial {
  const cudnn_product *product;
  const cudnn_way *ways;
} trial;

static bool try_out(void *argument, uint32_t which, const cuda_pointer *operands,
                    cuda_pointer workspace, cuda_stream stream) {
  const trial *t = argument;
  const cuda_library *library = t->product->library;
  const cudnn_functions *f = library->functions;
  return f->set_stream(library->handle, stream) == CUDNN_OK &&
         execute(f, library->handle, t->ways[which].plan, operands, workspace) == CUDNN_OK;
}

static void name(void *argument, uint32_t which, char *text, size_t text_bytes) {
  const trial *t = argument;
  const cudnn_way *way = &t->ways[which];
  const long long mebibytes = (long long)(way->workspace_bytes >> 20);
  if (mebibytes > 0)
    snprintf(text, text_bytes, "engine %lld (%lld MiB)", (long long)way->engine, mebibytes);
  else
    snprintf(text, text_bytes, "engine %lld", (long long)way->engine);
}

static compute_dtype dtype_of(int32_t type) {
  switch (type) {
  case CUDNN_F64: return COMPUTE_F64;
  case CUDNN_F16: return COMPUTE_F16;
  case CUDNN_BF16: return COMPUTE_BF16;
  default: return COMPUTE_F32;
  }
}

static void sum(const void *of, uint64_t random, const double *const values[2], int64_t period,
                int64_t *place, double *value, double *magnitude) {
  cudnn_sum(of, random, values, period, place, value, magnitude);
}

/* The allowed error of a plan: four times the last place of the sums' type; twelve times that if
 * Winograd is allowed; for TF32, the rounding of two factors. Matrix units truncate sums of f16 and
 * bf16; sums in the factors' type would be ten times less exact than this bound. */
static cuda_verification verification_of(const cudnn_problem *p) {
  const bool half = p->type == CUDNN_F16 || p->type == CUDNN_BF16;
  cuda_verification v = {.sum = sum, .of = p, .allowed = 4 * 0x1p-23};
  if (p->sum_type == CUDNN_F64) v.allowed = 4 * 0x1p-52;
  if (p->winograd) v.allowed *= 12;
  if (half) v.allowed = 0x1p-16;
  if (p->type == CUDNN_F32 && !p->strict) v.allowed = 0x1p-8;
  for (int i = 0; i < 3; i++) v.dtype[i] = dtype_of(i == 2 ? p->result_type : p->type);
  v.terms = 1;
  const int64_t *size = p->sizes[1]; /* the result has one of its two outer dimensions */
  const int outer = p->operation == CUDNN_KIND_FORWARD ? 1 : 0;
  for (int i = 0; i < 4; i++)
    if (i > 1 || i == outer) v.terms *= (double)size[i];
  return v;
}

static int32_t autotune(cuda_device *device, const cudnn_product *product, const cudnn_way *ways,
                        int32_t count, bool *timed) {
  trial t = {product, ways};
  char what[160];
  const cuda_verification v = verification_of(&product->problem);
  cuda_autotune c = {
      .count = (uint32_t)count, .submit = try_out, .name = name, .argument = &t, .verify = &v};
  cudnn_describe(&product->problem, what, sizeof what);
  c.what = what;
  memcpy(c.operand_bytes, product->shared.operand_bytes, sizeof product->shared.operand_bytes);
  for (int32_t i = 0; i < count; i++)
    if ((uint64_t)ways[i].workspace_bytes > c.workspace_bytes)
      c.workspace_bytes = (uint64_t)ways[i].workspace_bytes;
  const int32_t winner = cuda_autotune_run(device, &c, timed);
  const cudnn_functions *f = product->library->functions;
  if (cuda_enter_to_release(device)) /* the autotuner's stream is gone */
    f->set_stream(product->library->handle, NULL);
  return winner;
}

/* The fastest of these plans, measured now or earlier; -1 if none can run, or none is exact enough.
 * `way`: the kind of alignment. */
static int32_t fastest(cuda_device *device, const cudnn_product *product, int32_t way,
                       const cudnn_way *ways, int32_t count) {
  static const char what[] = "cudnn plan 4";
  const compute_cache_part key[] = {
      {what, sizeof what},
      {&way, sizeof way},
      {&product->library->version, sizeof product->library->version},
      {&product->problem, sizeof product->problem},
  };
  int32_t winner = cuda_autotune_recall(device, key, 4, count);
  if (winner >= 0) return winner;
  bool timed;
  winner = autotune(device, product, ways, count, &timed);
  if (timed) cuda_autotune_remember(device, key, 4, count, winner);
  return winner;
}

/* ---- Preparing ----------------------------------------------------------------------------- */

static bool serves(const compute_kernel_descriptor *descriptor, const char **reason) {
  cudnn_problem problem;
  return cudnn_translate(descriptor, &problem, reason);
}

static void measure_operands(cudnn_product *product) {
  const cudnn_problem *p = &product->problem;
  for (int i = 0; i < 3; i++)
    product->shared.operand_bytes[i] = cuda_extent_bytes(
        p->sizes[i], p->strides[i], 4, dtype_of(i == 2 ? p->result_type : p->type));
}

static void product_destroy(cuda_device *device, cuda_product *destroyed) {
  cudnn_product *product = (cudnn_product *)destroyed;
  const bool usable = cuda_enter_to_release(device); /* otherwise the library's part is only
                                                      * forgotten */
  for (int i = 0; i < CUDNN_WAYS && usable; i++) {
    cudnn_way_clear(product->library->functions, &product->way[i]);
    cudnn_pile_clear(&product->pile[i]);
  }
  builder_free(&device->builder, product);
}

/* Engines that transform whole tensors need a large workspace: as much as a large GPU can spare. */
static int64_t workspace_limit(const cuda_device *device) {
  const int64_t part = (int64_t)(device->memory_bytes / WORKSPACE_PART);
  return part < LEAST_WORKSPACE ? LEAST_WORKSPACE : part > MOST_WORKSPACE ? MOST_WORKSPACE : part;
}

/* The plans for one kind of alignment. For any alignment, it uses only the engine that won for
 * aligned addresses, if that engine accepts any: then there is nothing to time. */
static int32_t propose(const cuda_device *device, cudnn_product *product, int which,
                       cudnn_way *ways, int32_t *count) {
  const int64_t element = (int64_t)cuda_element_bytes(dtype_of(product->problem.type));
  const int64_t limit = workspace_limit(device);
  cudnn_pile *pile = &product->pile[which];
  pile->functions = product->library->functions;
  if (which > 0 && product->way[0].engine >= 0) {
    const int32_t code = cudnn_propose(product->library, &product->problem, element, limit,
                                       product->way[0].engine, pile, ways, 1, count);
    if (code == CUDNN_OK) return code;
    cudnn_pile_clear(pile);
  }
  return cudnn_propose(product->library, &product->problem, which == 0 ? ALIGNED : element, limit,
                       CUDNN_ANY_ENGINE, pile, ways, PROPOSALS, count);
}

/* Keeps one of the proposed plans and destroys the others. */
static compute_status choose(cuda_device *device, cudnn_product *product, int which) {
  const cuda_library *library = product->library;
  cudnn_way ways[PROPOSALS];
  int32_t count = 0;
  const int32_t code = propose(device, product, which, ways, &count);
  if (code != CUDNN_OK) return fail(device, code, "choosing a plan");
  const bool known = which > 0 && ways[0].engine >= 0 && ways[0].engine == product->way[0].engine;
  const int32_t winner = known ? 0 : fastest(device, product, which, ways, count);
  const compute_status status = cuda_enter(device); /* autotuning may have lost the device */
  for (int32_t i = 0; i < count; i++) {
    if (i == winner)
      product->way[which] = ways[i];
    else if (status == COMPUTE_OK)
      cudnn_way_clear(library->functions, &ways[i]);
  }
  if (status != COMPUTE_OK) return status;
  if (winner < 0) return fail(device, CUDNN_EXECUTION, "trying its plans");
  const uint64_t workspace = (uint64_t)product->way[which].workspace_bytes;
  if (workspace > product->shared.workspace_bytes) product->shared.workspace_bytes = workspace;
  return COMPUTE_OK;
}

static compute_status prepare(cuda_device *device, const compute_kernel_descriptor *descriptor,
                              cuda_product **result) {
  const char *reason;
  cudnn_product *product = builder_allocate(&device->builder, sizeof *product);
  if (!product) return cuda_fail_memory(device->services, "a kernel");
  product->shared.vendor = &cudnn_vendor;
  product->library = cuda_library_open(device, CUDA_CUDNN);
  (void)cudnn_translate(descriptor, &product->problem, &reason);
  measure_operands(product);
  /* On matrix units the library is far ahead, so nothing is timed against it. */
  product->shared.autotuned = product->problem.strict || product->problem.type == CUDNN_F64;
  compute_status status = COMPUTE_OK;
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < CUDNN_WAYS && status == COMPUTE_OK; i++) status = choose(device, product, i);
  pthread_mutex_unlock(&mutex);
  if (status != COMPUTE_OK) {
    product_destroy(device, &product->shared);
    return status;
  }
  snprintf(product->shared.text, sizeof product->shared.text, "%s, engine %lld",
           product->library->name, (long long)product->way[0].engine);
  *result = &product->shared;
  return COMPUTE_OK;
}

/* ---- Submitting ---------------------------------------------------------------------------- */

static int32_t handle_of(cuda_queue *queue, const cuda_library *library) {
  const cudnn_functions *f = library->functions;
  void *handle = NULL;
  if (queue->convolutions) return CUDNN_OK;
  int32_t code = f->create(&handle);
  if (code != CUDNN_OK) return code;
  code = f->set_stream(handle, queue->stream);
  if (code == CUDNN_OK)
    queue->convolutions = handle;
  else
    f->destroy(handle);
  return code;
}

static compute_status submit(cuda_queue *queue, const cuda_product *submitted,
                             const cuda_pointer *operands, cuda_pointer workspace) {
  const cudnn_product *product = (const cudnn_product *)submitted;
  const cuda_library *library = product->library;
  const int way = (operands[0] | operands[1] | operands[2]) % ALIGNED == 0 ? 0 : 1;
  int32_t code = handle_of(queue, library);
  if (code == CUDNN_OK)
    code = execute(library->functions, queue->convolutions, product->way[way].plan, operands,
                   workspace);
  return code == CUDNN_OK ? COMPUTE_OK : fail(queue->device, code, "a convolution");
}

void cudnn_queue_release(cuda_queue *queue) {
  const cudnn_functions *f = queue->device->libraries[CUDA_CUDNN].functions;
  if (queue->convolutions && cuda_enter_to_release(queue->device)) f->destroy(queue->convolutions);
  queue->convolutions = NULL;
}

const cuda_vendor cudnn_vendor = {
    .library = CUDA_CUDNN,
    .kind = COMPUTE_KERNEL_CONV,
    .serves = serves,
    .prepare = prepare,
    .destroy = product_destroy,
    .submit = submit,
};
