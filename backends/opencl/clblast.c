/* SPDX-License-Identifier: MIT */
/* CLBlast as a second implementation of GEMM. It is used where the tuner measured it to be faster.
 *
 * It has a C interface but is C++ inside, so it is opened at run time and never closed. It compiles
 * its kernels at the first call for each kind of product, so preparation of a kernel warms it up.
 * It serves plain products of f32 or f64 whose matrices have one contiguous dimension; the stride
 * between batches must be constant. */
#include "opencl.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/loading.h"
#include "core/platform/names.h"

#define LIBRARY_NAME   PLATFORM_NAME_OF("libclblast.so.1", "clblast.dll", "libclblast.1.dylib")
#define WARM_UP_BYTES  ((uint64_t)256 << 20) /* larger problems are not warmed up */
#define LARGEST_EXTENT ((int64_t)1 << 31)    /* its kernels count in 32 bits */

/* Declarations of the few functions in use. Their status codes are OpenCL's or below -1000; layout
 * and transposition are numbers. */
enum { ROW_MAJOR = 101, COLUMN_MAJOR = 102, AS_IT_IS = 111, TRANSPOSED = 112 };

#define CLBLAST_TYPES(name, real)                                                                  \
  typedef int (*name##_function)(                                                                  \
      int layout, int a_transpose, int b_transpose, size_t m, size_t n, size_t k, real alpha,      \
      cl_mem a, size_t a_offset, size_t a_ld, cl_mem b, size_t b_offset, size_t b_ld, real beta,   \
      cl_mem c, size_t c_offset, size_t c_ld, cl_command_queue *queue, cl_event *event);           \
  typedef int (*name##_batched_function)(                                                          \
      int layout, int a_transpose, int b_transpose, size_t m, size_t n, size_t k, real alpha,      \
      cl_mem a, size_t a_offset, size_t a_ld, size_t a_stride, cl_mem b, size_t b_offset,          \
      size_t b_ld, size_t b_stride, real beta, cl_mem c, size_t c_offset, size_t c_ld,             \
      size_t c_stride, size_t count, cl_command_queue *queue, cl_event *event);
CLBLAST_TYPES(sgemm, float)
CLBLAST_TYPES(dgemm, double)
typedef int (*clear_function)(void);

typedef struct clblast_library {
  bool tried, present;
  char reason[160];
  sgemm_function sgemm;
  dgemm_function dgemm;
  sgemm_batched_function sgemm_batched;
  dgemm_batched_function dgemm_batched;
  clear_function clear;
} clblast_library;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static clblast_library library;

/* A product in CLBlast's form; strides and offsets in elements. */
struct opencl_gemm {
  bool f64;
  int layout, transpose[2];
  size_t m, n, k, batch_stride[3], batch_count;
  int64_t ld[3];
  uint64_t extent[3]; /* elements from the first to the last element of A, B, C */
};

/* ---- Library ------------------------------------------------------------------------------- */

static bool find(void *handle, const char *name, void *function) {
  void *address = dlsym(handle, name);
  memcpy(function, &address, sizeof address);
  return address != NULL;
}

static void open_library(void) {
  library.tried = true;
  void *handle = dlopen(LIBRARY_NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle) {
    const char *words = dlerror();
    snprintf(library.reason, sizeof library.reason, "%s", words ? words : LIBRARY_NAME);
    return;
  }
  find(handle, "CLBlastClearCache", &library.clear);
  library.present = find(handle, "CLBlastSgemm", &library.sgemm) &&
                    find(handle, "CLBlastDgemm", &library.dgemm) &&
                    find(handle, "CLBlastSgemmStridedBatched", &library.sgemm_batched) &&
                    find(handle, "CLBlastDgemmStridedBatched", &library.dgemm_batched);
  if (!library.present)
    snprintf(library.reason, sizeof library.reason, LIBRARY_NAME " is missing functions");
}

static const clblast_library *clblast(const compute_services *services) {
  loading_begin(services);
  pthread_mutex_lock(&mutex);
  if (!library.tried) open_library();
  pthread_mutex_unlock(&mutex);
  loading_end(services);
  return &library;
}

/* CLBlast keeps the programs of a context forever, and with them the context. */
void opencl_clblast_forget(void) {
  pthread_mutex_lock(&mutex);
  if (library.present && library.clear) library.clear();
  pthread_mutex_unlock(&mutex);
}

/* ---- A descriptor in CLBlast's form -------------------------------------------------------- */

/* Merges all batch dimensions into one, with a constant stride for each operand. */
static bool batch_layout(const compute_kernel_descriptor *d, const compute_operand *operands[3],
                         opencl_gemm *gemm) {
  gemm->batch_count = 1;
  for (int dim = d->rank - 3; dim >= 0; dim--) {
    if (d->size[dim] == 1) continue;
    for (int i = 0; i < 3; i++) {
      const int64_t stride = operands[i]->stride[dim];
      if (stride < 0) return false;
      if (gemm->batch_count == 1)
        gemm->batch_stride[i] = (size_t)stride;
      else if ((size_t)stride != gemm->batch_stride[i] * gemm->batch_count)
        return false;
    }
    gemm->batch_count *= (size_t)d->size[dim];
  }
  return true;
}

static const char *translate(const compute_kernel_descriptor *d, opencl_gemm *gemm) {
  if (d->kind != COMPUTE_KERNEL_GEMM) return "it is not a matrix product";
  if (d->epilogue.count > 0 || d->input_count != 2 || d->output_count != 1)
    return "something else is fused to the product";
  const compute_operand *operands[3] = {&d->inputs[0], &d->inputs[1], &d->outputs[0]};
  const compute_dtype dtype = operands[0]->dtype;
  if (dtype != COMPUTE_F32 && dtype != COMPUTE_F64) return "it is for f32 and f64";
  if (operands[1]->dtype != dtype || operands[2]->dtype != dtype || d->accumulate != dtype)
    return "it cannot mix dtypes";
  const int64_t m = d->size[d->rank - 2], n = d->size[d->rank - 1], k = compute_gemm_of(d)->k;
  const int64_t rows[3] = {m, k, m}, columns[3] = {k, n, n};
  bool by_columns[3];
  *gemm =
      (opencl_gemm){.f64 = dtype == COMPUTE_F64, .m = (size_t)m, .n = (size_t)n, .k = (size_t)k};
  for (int dim = 0; dim < d->rank; dim++)
    if (d->size[dim] == 0) return "the product is empty";
  if (k == 0) return "the product is empty";
  for (int i = 2; i >= 0; i--) {
    if (!builder_matrix_lies(rows[i], columns[i], &operands[i]->stride[d->rank - 2],
                             i < 2 && by_columns[2], &by_columns[i], &gemm->ld[i]))
      return "a matrix is not contiguous";
  }
  if (!batch_layout(d, operands, gemm)) return "the batches are not evenly spaced";
  gemm->layout = by_columns[2] ? COLUMN_MAJOR : ROW_MAJOR;
  for (int i = 0; i < 3; i++) {
    const int64_t outer = by_columns[i] ? columns[i] : rows[i];
    const int64_t inner = by_columns[i] ? rows[i] : columns[i];
    if (i < 2) gemm->transpose[i] = by_columns[i] == by_columns[2] ? AS_IT_IS : TRANSPOSED;
    gemm->extent[i] = (uint64_t)(outer - 1) * (uint64_t)gemm->ld[i] + (uint64_t)inner +
                      (gemm->batch_count - 1) * gemm->batch_stride[i];
    if (gemm->extent[i] >= (uint64_t)LARGEST_EXTENT) return "it counts in 32 bits";
  }
  return NULL;
}

bool opencl_clblast_serves(opencl_device *device, const compute_kernel_descriptor *descriptor,
                           char *reason, size_t reason_bytes) {
  opencl_gemm gemm;
  const char *refusal = translate(descriptor, &gemm);
  if (!refusal && gemm.f64 && !(device->target.flags & COMPUTE_TARGET_F64))
    refusal = "the device has no f64";
  if (!refusal) {
    const clblast_library *blas = clblast(device->services);
    if (!blas->present) refusal = blas->reason;
  }
  if (refusal && reason) snprintf(reason, reason_bytes, "%s", refusal);
  return refusal == NULL;
}

/* ---- Calling ------------------------------------------------------------------------------- */

static int call(const opencl_gemm *g, const cl_mem memory[3], const size_t offset[3],
                cl_command_queue queue, cl_event *event) {
  const clblast_library *blas = &library; /* opened in `serves` */
  const int ta = g->transpose[0], tb = g->transpose[1];
  const size_t ld[3] = {(size_t)g->ld[0], (size_t)g->ld[1], (size_t)g->ld[2]};
  const size_t *distance = g->batch_stride;
  if (g->batch_count == 1 && g->f64)
    return blas->dgemm(g->layout, ta, tb, g->m, g->n, g->k, 1.0, memory[0], offset[0], ld[0],
                       memory[1], offset[1], ld[1], 0.0, memory[2], offset[2], ld[2], &queue,
                       event);
  if (g->batch_count == 1)
    return blas->sgemm(g->layout, ta, tb, g->m, g->n, g->k, 1.0F, memory[0], offset[0], ld[0],
                       memory[1], offset[1], ld[1], 0.0F, memory[2], offset[2], ld[2], &queue,
                       event);
  if (g->f64)
    return blas->dgemm_batched(g->layout, ta, tb, g->m, g->n, g->k, 1.0, memory[0], offset[0],
                               ld[0], distance[0], memory[1], offset[1], ld[1], distance[1], 0.0,
                               memory[2], offset[2], ld[2], distance[2], g->batch_count, &queue,
                               event);
  return blas->sgemm_batched(g->layout, ta, tb, g->m, g->n, g->k, 1.0F, memory[0], offset[0], ld[0],
                             distance[0], memory[1], offset[1], ld[1], distance[1], 0.0F, memory[2],
                             offset[2], ld[2], distance[2], g->batch_count, &queue, event);
}

/* CLBlast's codes are below -1000, apart from OpenCL's. */
static compute_status fail_call(opencl_device *device, int code) {
  if (code > -1000) return opencl_fail(device, code, "a product by CLBlast");
  return device->services->fail(device->services->host, COMPUTE_ERROR_LAUNCH, code,
                                "set another implementation in the tuning file",
                                "opencl: CLBlast failed with code %d", code);
}

/* Runs the product once on scratch memory. */
static compute_status warm_up(opencl_device *device, const opencl_gemm *gemm) {
  const opencl_library *cl = device->cl;
  const uint64_t size = gemm->f64 ? 8 : 4;
  const size_t offset[3] = {0, 0, 0};
  cl_mem memory[3] = {NULL, NULL, NULL};
  cl_event event = NULL;
  cl_int code = CL_SUCCESS;
  if ((gemm->extent[0] + gemm->extent[1] + gemm->extent[2]) * size > WARM_UP_BYTES)
    return COMPUTE_OK;
  cl_command_queue queue = cl->clCreateCommandQueue(device->context, device->id, 0, &code);
  for (int i = 0; i < 3 && queue && code == CL_SUCCESS; i++)
    memory[i] = cl->clCreateBuffer(device->context, CL_MEM_READ_WRITE,
                                   (size_t)(gemm->extent[i] * size), NULL, &code);
  if (queue && code == CL_SUCCESS) code = call(gemm, memory, offset, queue, &event);
  if (queue) {
    const cl_int finished = cl->clFinish(queue);
    if (code == CL_SUCCESS) code = finished;
    cl->clReleaseCommandQueue(queue);
  }
  if (event) cl->clReleaseEvent(event);
  for (int i = 0; i < 3; i++)
    if (memory[i]) cl->clReleaseMemObject(memory[i]);
  return code == CL_SUCCESS ? COMPUTE_OK : fail_call(device, code);
}

compute_status opencl_clblast_prepare(opencl_device *device,
                                      const compute_kernel_descriptor *descriptor,
                                      opencl_gemm **result) {
  opencl_gemm *gemm = builder_allocate(&device->builder, sizeof *gemm);
  if (!gemm) return opencl_fail_memory(device->services, "a kernel");
  (void)translate(descriptor, gemm); /* cannot fail: `serves` has checked it */
  atomic_store_explicit(&device->clblast_used, true, memory_order_relaxed);
  const compute_status status = warm_up(device, gemm);
  if (status == COMPUTE_OK)
    *result = gemm;
  else
    builder_free(&device->builder, gemm);
  return status;
}

void opencl_clblast_destroy(opencl_device *device, opencl_gemm *gemm) {
  builder_free(&device->builder, gemm);
}

compute_status opencl_clblast_enqueue(opencl_queue *queue, const opencl_gemm *gemm,
                                      const compute_argument *arguments) {
  opencl_device *device = queue->device;
  opencl_memory *memories[3];
  cl_mem memory[3];
  size_t offset[3];
  for (int i = 0; i < 3; i++) {
    memories[i] = arguments[i].memory->handle;
    memory[i] = memories[i]->buffer;
    offset[i] = (size_t)arguments[i].offset / (gemm->f64 ? 8 : 4);
  }
  opencl_lane *lane;
  cl_event wait, event = NULL;
  int code = CL_SUCCESS;
  if (opencl_lane_enter(queue, LANE_COMPUTE, memories, 3, &lane, &wait)) {
    cl_event barrier = NULL;
    code = device->cl->clEnqueueBarrierWithWaitList(lane->queue, 1, &wait, &barrier);
    if (code == CL_SUCCESS) opencl_lane_submitted(queue, lane, barrier, memories, 3);
  }
  if (code == CL_SUCCESS) code = call(gemm, memory, offset, lane->queue, &event);
  if (code != CL_SUCCESS) return fail_call(device, code);
  opencl_lane_submitted(queue, lane, event, memories, 3);
  return COMPUTE_OK;
}
