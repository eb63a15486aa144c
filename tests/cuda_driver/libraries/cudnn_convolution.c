/* SPDX-License-Identifier: MIT */
/* A convolution of the stand-in: one loop over the indices of y and w for all three directions. It
 * adds products in double to the tensor that is the result. */
#include <stdlib.h>
#include <string.h>

#include "cuda_driver/libraries/cudnn.h"

enum { W, X, Y };

/* ---- Reading the operation ----------------------------------------------------------------- */

static element element_of(int32_t type) {
  switch (type) {
  case CUDNN_F32: return ELEMENT_F32;
  case CUDNN_F64: return ELEMENT_F64;
  case CUDNN_F16: return ELEMENT_F16;
  case CUDNN_BF16: return ELEMENT_BF16;
  default: return ELEMENT_NONE;
  }
}

static bool read_tensor(const void *tensor, int which, cudnn_work *work) {
  int32_t type = -1;
  if (!tensor || !cudnn_read(tensor, CUDNN_TENSOR_TYPE, CUDNN_IS_DATA_TYPE, 1, &type) ||
      !cudnn_read(tensor, CUDNN_TENSOR_SIZES, CUDNN_IS_INT64, 4, work->sizes[which]) ||
      !cudnn_read(tensor, CUDNN_TENSOR_STRIDES, CUDNN_IS_INT64, 4, work->strides[which]) ||
      !cudnn_read(tensor, CUDNN_TENSOR_NAME, CUDNN_IS_INT64, 1, &work->name[which]) ||
      !cudnn_read(tensor, CUDNN_TENSOR_ALIGNMENT, CUDNN_IS_INT64, 1, &work->alignment[which]))
    return false;
  work->type[which] = element_of(type);
  for (int i = 0; i < 4; i++)
    if (work->sizes[which][i] < 1 || work->strides[which][i] < 1) return false;
  return work->type[which] != ELEMENT_NONE;
}

static bool read_factor(const void *operation, int32_t name, double expected) {
  float f = -1;
  double d = -1;
  return cudnn_read(operation, name, CUDNN_IS_DOUBLE, 1, &d)
             ? d == expected
             : cudnn_read(operation, name, CUDNN_IS_FLOAT, 1, &f) && (double)f == expected;
}

/* Returns true if sizes, padding and strides are consistent. */
static bool sizes_fit(const cudnn_work *work, const int64_t after[2]) {
  const int64_t *w = work->sizes[W], *x = work->sizes[X], *y = work->sizes[Y];
  if (x[0] != y[0] || y[1] != w[0] || x[1] % w[1] != 0 || w[0] % (x[1] / w[1]) != 0) return false;
  for (int i = 0; i < 2; i++) {
    const int64_t reach = (w[2 + i] - 1) * work->dilation[i] + 1;
    const int64_t room = x[2 + i] + work->padding[i] + after[i] - reach;
    if (after[i] < 0 || room < 0 || room / work->stride[i] + 1 != y[2 + i]) return false;
  }
  return true;
}

int32_t cudnn_read_work(const void *operation, cudnn_work *work) {
  const int kind = cudnn_kind_of(operation);
  const int32_t first = kind == CUDNN_KIND_FORWARD   ? CUDNN_FORWARD_ALPHA
                        : kind == CUDNN_KIND_BY_DATA ? CUDNN_BY_DATA_ALPHA
                                                     : CUDNN_BY_FILTER_ALPHA;
  int64_t rank = 0, after[2];
  int32_t mode = -1, sum = -1;
  memset(work, 0, sizeof *work);
  work->operation = kind;
  work->result = kind == CUDNN_KIND_FORWARD ? Y : kind == CUDNN_KIND_BY_DATA ? X : W;
  if (kind != CUDNN_KIND_FORWARD && kind != CUDNN_KIND_BY_DATA && kind != CUDNN_KIND_BY_FILTER)
    return CUDNN_UNSUPPORTED;
  for (int i = 0; i < 3; i++)
    if (!read_tensor(cudnn_follow(operation, first + 3 + i, CUDNN_KIND_TENSOR), i, work))
      return CUDNN_BAD_PARAMETER;
  const void *c = cudnn_follow(operation, first + 2, CUDNN_KIND_CONVOLUTION);
  if (!c || !read_factor(operation, first, 1) || !read_factor(operation, first + 1, 0) ||
      !cudnn_read(c, CUDNN_CONVOLUTION_RANK, CUDNN_IS_INT64, 1, &rank) || rank != 2 ||
      !cudnn_read(c, CUDNN_CONVOLUTION_TYPE, CUDNN_IS_DATA_TYPE, 1, &sum) ||
      !cudnn_read(c, CUDNN_CONVOLUTION_MODE, CUDNN_IS_CONVOLUTION_MODE, 1, &mode) ||
      mode != CUDNN_MODE_CROSS_CORRELATION ||
      !cudnn_read(c, CUDNN_CONVOLUTION_PADDING, CUDNN_IS_INT64, 2, work->padding) ||
      !cudnn_read(c, CUDNN_CONVOLUTION_PADDING_AFTER, CUDNN_IS_INT64, 2, after) ||
      !cudnn_read(c, CUDNN_CONVOLUTION_DILATION, CUDNN_IS_INT64, 2, work->dilation) ||
      !cudnn_read(c, CUDNN_CONVOLUTION_STRIDE, CUDNN_IS_INT64, 2, work->stride))
    return CUDNN_BAD_PARAMETER;
  if ((work->type[W] == ELEMENT_F64) != (sum == CUDNN_F64)) return CUDNN_UNSUPPORTED;
  return sizes_fit(work, after) ? CUDNN_OK : CUDNN_BAD_PARAMETER;
}

/* ---- Running it ---------------------------------------------------------------------------- */

static int64_t at(const cudnn_work *work, int which, const int64_t index[4]) {
  int64_t place = 0;
  for (int i = 0; i < 4; i++) place += index[i] * work->strides[which][i];
  return place;
}

static double value(const cudnn_work *work, int which, const int64_t index[4]) {
  const double v = element_load(work->type[which], work->data[which], at(work, which, index));
  return work->rounds ? element_to_tf32(v) : v;
}

/* Index of the element in a dense array of sums. */
static int64_t dense(const int64_t sizes[4], const int64_t index[4]) {
  return ((index[0] * sizes[1] + index[1]) * sizes[2] + index[2]) * sizes[3] + index[3];
}

static void add(const cudnn_work *work, double *sums, const int64_t *const index[3]) {
  const int result = work->result, a = result == W ? X : W, b = result == Y ? X : Y;
  sums[dense(work->sizes[result], index[result])] +=
      value(work, a, index[a]) * value(work, b, index[b]);
}

/* Sums all products of one element of w with x. */
static void add_for_filter(const cudnn_work *work, double *sums, const int64_t w[4]) {
  const int64_t *sizes = work->sizes[Y];
  const int64_t group = w[0] / (work->sizes[W][0] / (work->sizes[X][1] / work->sizes[W][1]));
  for (int64_t n = 0; n < sizes[0]; n++)
    for (int64_t p = 0; p < sizes[2]; p++)
      for (int64_t q = 0; q < sizes[3]; q++) {
        const int64_t h = p * work->stride[0] + w[2] * work->dilation[0] - work->padding[0];
        const int64_t v = q * work->stride[1] + w[3] * work->dilation[1] - work->padding[1];
        if (h < 0 || v < 0 || h >= work->sizes[X][2] || v >= work->sizes[X][3]) continue;
        const int64_t x[4] = {n, group * work->sizes[W][1] + w[1], h, v}, y[4] = {n, w[0], p, q};
        const int64_t *const index[3] = {w, x, y};
        add(work, sums, index);
      }
}

static void run(void *data) {
  const cudnn_work *work = data;
  const int64_t *w = work->sizes[W], *result = work->sizes[work->result];
  double *sums = calloc((size_t)(result[0] * result[1] * result[2] * result[3]), sizeof *sums);
  if (!sums) return;
  for (int64_t o = 0; o < w[0]; o++)
    for (int64_t c = 0; c < w[1]; c++)
      for (int64_t r = 0; r < w[2]; r++)
        for (int64_t s = 0; s < w[3]; s++)
          add_for_filter(work, sums, (const int64_t[4]){o, c, r, s});
  int64_t i[4];
  for (i[0] = 0; i[0] < result[0]; i[0]++)
    for (i[1] = 0; i[1] < result[1]; i[1]++)
      for (i[2] = 0; i[2] < result[2]; i[2]++)
        for (i[3] = 0; i[3] < result[3]; i[3]++)
          element_store(work->type[work->result], work->data[work->result],
                        at(work, work->result, i), sums[dense(result, i)]);
  memset(work->workspace, 0xee, WORKSPACE_BYTES); /* invalidates its previous contents */
  free(sums);
}

static bool address_is_good(const cudnn_work *work, int which) {
  const int64_t last[4] = {work->sizes[which][0] - 1, work->sizes[which][1] - 1,
                           work->sizes[which][2] - 1, work->sizes[which][3] - 1};
  const uint64_t bytes = (uint64_t)(at(work, which, last) + 1) * element_bytes(work->type[which]);
  if ((uintptr_t)work->data[which] % (uintptr_t)work->alignment[which]) {
    library_misuse("cuDNN: tensor %d is not aligned as was said", which);
    return false;
  }
  if (library_on_device(work->data[which], bytes)) return true;
  library_misuse("cuDNN: tensor %d leaves the device's memory", which);
  return false;
}

int32_t cudnn_run(cudnn_work *work, const void *bindings, cuda_stream stream) {
  int64_t names[3];
  void *pointers[3], *workspace = NULL;
  if (!cudnn_read(bindings, CUDNN_BINDINGS_NAMES, CUDNN_IS_INT64, 3, names) ||
      !cudnn_read(bindings, CUDNN_BINDINGS_POINTERS, CUDNN_IS_POINTER, 3, pointers) ||
      !cudnn_read(bindings, CUDNN_BINDINGS_WORKSPACE, CUDNN_IS_POINTER, 1, &workspace))
    return CUDNN_BAD_PARAMETER;
  if (!library_on_device(workspace, WORKSPACE_BYTES))
    library_misuse("cuDNN: there is no workspace");
  work->workspace = workspace;
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < 3; k++)
      if (names[k] == work->name[i]) work->data[i] = pointers[k];
    if (!address_is_good(work, i)) return CUDNN_BAD_PARAMETER;
  }
  cudnn_work *submitted = malloc(sizeof *submitted);
  if (!submitted) return CUDNN_HOST_MEMORY;
  *submitted = *work;
  return library_submit(stream, run, submitted) ? CUDNN_EXECUTION : CUDNN_OK;
}
