/* SPDX-License-Identifier: MIT */
/* One operation, a number of times, for counting instructions: KIND M N K TIMES. Products
 * [M, K] · [K, N] are f32, bf16, u8i8, i8i8 and q4 (weights of 4 bits in blocks of 32), with a
 * parameter as the right factor. `others` has the other kinds, all of f32: of rows [M, N], of
 * images [1, K, M, N], or of M heads [N, K]. Prints the sum of the last result's bytes. */
#include <compute/compute.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct product {
  const char *kind;
  int64_t m, n, k;
} product;

static int64_t elements(compute_shape shape) {
  int64_t count = 1;
  for (int32_t d = 0; d < shape.rank; d++) count *= shape.size[d];
  return count;
}

/* A tensor of bytes that repeat after 251; bf16 and scales get small normal numbers. */
static compute_status make(compute_device *device, compute_dtype dtype, compute_shape shape,
                           compute_tensor **result) {
  if (dtype == COMPUTE_F32 || dtype == COMPUTE_BF16)
    return compute_tensor_random(device, dtype, shape, 0.1, 1, 1, result);
  const int64_t count = elements(shape);
  uint8_t *bytes = malloc((size_t)count);
  if (!bytes) return COMPUTE_ERROR_OUT_OF_MEMORY;
  for (int64_t i = 0; i < count; i++) bytes[i] = (uint8_t)(i * 7 % 251);
  compute_status s = compute_tensor_create(device, dtype, shape, result);
  if (!s) s = compute_tensor_write(*result, bytes, (size_t)count);
  free(bytes);
  return s;
}

/* ---- Other kinds --------------------------------------------------------------------------- */

static compute_node record_sum(compute_graph *g, compute_node x, compute_node filter) {
  (void)filter;
  return compute_sum(g, x, COMPUTE_AXES(1), false);
}

static compute_node record_softmax(compute_graph *g, compute_node x, compute_node filter) {
  (void)filter;
  return compute_softmax(g, x, 1);
}

static compute_node record_exp(compute_graph *g, compute_node x, compute_node filter) {
  (void)filter;
  return compute_exp(g, x);
}

static compute_node record_scan(compute_graph *g, compute_node x, compute_node filter) {
  (void)filter;
  return compute_cumulative_sum(g, x, 1, false, false);
}

static compute_node record_sort(compute_graph *g, compute_node x, compute_node filter) {
  (void)filter;
  return compute_sort(g, x, 1, false);
}

static compute_node record_rfft(compute_graph *g, compute_node x, compute_node filter) {
  (void)filter;
  return compute_rfft(g, x, 0, 1, COMPUTE_FFT_BACKWARD);
}

static compute_node record_conv(compute_graph *g, compute_node x, compute_node filter) {
  const compute_node none = {0};
  return compute_conv2d(g, x, filter, none, &(compute_conv2d_options){.padding = {1, -1}});
}

static compute_node record_depthwise(compute_graph *g, compute_node x, compute_node filter) {
  const compute_node none = {0};
  const int64_t channels = compute_node_shape(g, x).size[1];
  return compute_conv2d(g, x, filter, none,
                        &(compute_conv2d_options){.padding = {1, -1}, .groups = channels});
}

static compute_node record_pool(compute_graph *g, compute_node x, compute_node filter) {
  (void)filter;
  return compute_max_pool2d(
      g, x, &(compute_pool2d_options){.size = {3}, .stride = {2}, .padding = {1, -1}});
}

static compute_node record_attention(compute_graph *g, compute_node x, compute_node filter) {
  (void)filter;
  return compute_scaled_attention(g, x, x, x, NULL);
}

enum { ROWS, IMAGE, HEADS };
static const struct {
  const char *kind;
  int form;
  compute_node (*record)(compute_graph *g, compute_node x, compute_node filter);
} others[] = {
    {"exp", ROWS, record_exp},         {"sum", ROWS, record_sum},
    {"softmax", ROWS, record_softmax}, {"scan", ROWS, record_scan},
    {"sort", ROWS, record_sort},       {"rfft", ROWS, record_rfft},
    {"conv", IMAGE, record_conv},      {"depthwise", IMAGE, record_depthwise},
    {"pool", IMAGE, record_pool},      {"attention", HEADS, record_attention},
};
enum { OTHERS = sizeof others / sizeof *others };

static compute_status build_other(compute_device *device, compute_graph *g, const product *p,
                                  int at, compute_tensor **held, compute_tensor **a,
                                  compute_node io[2]) {
  const bool each = strcmp(p->kind, "depthwise") == 0;
  const compute_shape shape = others[at].form == ROWS    ? COMPUTE_SHAPE(p->m, p->n)
                              : others[at].form == IMAGE ? COMPUTE_SHAPE(1, p->k, p->m, p->n)
                                                         : COMPUTE_SHAPE(p->m, p->n, p->k);
  compute_status s = make(device, COMPUTE_F32, shape, a);
  if (!s) s = make(device, COMPUTE_F32, COMPUTE_SHAPE(p->k, each ? 1 : p->k, 3, 3), held);
  if (s) return s;
  io[0] = compute_input(g, COMPUTE_F32, shape);
  io[1] = others[at].record(g, io[0], compute_parameter(g, *held));
  return COMPUTE_OK;
}

/* ---- Products ------------------------------------------------------------------------------ */

static compute_status build(compute_device *device, compute_graph *g, const product *p,
                            compute_tensor *held[2], compute_tensor **a, compute_node io[2]) {
  for (int at = 0; at < OTHERS; at++) {
    if (strcmp(p->kind, others[at].kind) == 0)
      return build_other(device, g, p, at, &held[0], a, io);
  }
  const bool few = strcmp(p->kind, "q4") == 0, half = strcmp(p->kind, "bf16") == 0;
  const bool bytes = strcmp(p->kind, "u8i8") == 0 || strcmp(p->kind, "i8i8") == 0;
  const compute_dtype real = half ? COMPUTE_BF16 : COMPUTE_F32;
  const compute_dtype left = !bytes ? real : p->kind[0] == 'u' ? COMPUTE_U8 : COMPUTE_I8;
  const compute_dtype right = few ? COMPUTE_U8 : bytes ? COMPUTE_I8 : real;
  compute_status s = make(device, left, COMPUTE_SHAPE(p->m, p->k), a);
  if (!s && few) s = make(device, right, COMPUTE_SHAPE(p->n, p->k / 2), &held[0]);
  if (!s && few) s = make(device, COMPUTE_F32, COMPUTE_SHAPE(p->n, p->k / 32), &held[1]);
  if (!s && !few) s = make(device, right, COMPUTE_SHAPE(p->k, p->n), &held[0]);
  if (s) return s;
  const compute_node none = {0}, b = compute_parameter(g, held[0]);
  io[0] = compute_input(g, left, COMPUTE_SHAPE(p->m, p->k));
  const compute_quantized_options four = {.bits = 4, .block = 32};
  io[1] = few ? compute_quantized_matmul(g, io[0], b, compute_parameter(g, held[1]), none, &four)
          : bytes ? compute_matmul_integer(g, io[0], b, none, none)
                  : compute_matmul(g, io[0], b);
  return COMPUTE_OK;
}

static compute_status run(compute_device *device, compute_graph *g, const product *p, int64_t times,
                          unsigned *sum) {
  compute_tensor *held[2] = {NULL}, *a = NULL, *c = NULL;
  compute_plan *plan = NULL;
  compute_node io[2];
  const compute_plan_options options = {.device = device};
  compute_status s = build(device, g, p, held, &a, io);
  if (!s) s = compute_compile(g, &io[1], 1, &options, &plan);
  if (!s) s = compute_plan_create_tensor(plan, io[1], &c);
  for (int64_t i = 0; i < times && !s; i++)
    s = compute_run(plan, (compute_binding[]){{io[0], a}, {io[1], c}}, 2, NULL);
  const size_t size =
      !c ? 0
         : (size_t)elements(compute_tensor_shape(c)) * compute_dtype_size(compute_tensor_dtype(c));
  uint8_t *bytes = malloc(size);
  if (!s && bytes) s = compute_tensor_read(c, bytes, size);
  for (size_t i = 0; i < size && !s && bytes; i++) *sum = *sum * 31 + bytes[i];
  free(bytes);
  compute_plan_release(plan);
  compute_tensor_release(held[0]), compute_tensor_release(held[1]);
  compute_tensor_release(a), compute_tensor_release(c);
  return s;
}

int main(int argc, char **argv) {
  if (argc != 6) return fprintf(stderr, "usage: products KIND M N K TIMES\n"), 2;
  const product p = {argv[1], atoll(argv[2]), atoll(argv[3]), atoll(argv[4])};
  compute_context *context = NULL;
  unsigned sum = 0;
  compute_status s = compute_open(&context, NULL);
  compute_graph *g = s ? NULL : compute_graph_create(context);
  if (!s) s = run(compute_default_device(context), g, &p, atoll(argv[5]), &sum);
  if (s) fprintf(stderr, "products: %s\n", compute_error_message(NULL));
  if (!s) printf("%08x\n", sum);
  compute_graph_release(g);
  compute_close(context);
  return s ? 1 : 0;
}
