/* From a descriptor to its class, and how well classes fit each other; kernel_class.h has the
 * grammar.
 *
 * Buckets are rounded logarithms, so that 1000 and 1024, or 784 and 768, share one, where a cut at
 * powers of two would part them. */
#include "tune/kernel_class.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Text ---------------------------------------------------------------------------------- */

typedef struct class_text {
  char *text;
  size_t used;
} class_text;

COMPUTE_PRINTF(2, 3) static void add(class_text *t, const char *format, ...) {
  va_list list;
  va_start(list, format);
  int n = vsnprintf(t->text + t->used, KERNEL_CLASS_BYTES - t->used, format, list);
  va_end(list);
  if (n > 0 && (size_t)n < KERNEL_CLASS_BYTES - t->used) t->used += (size_t)n;
}

static void add_types(class_text *t, const compute_operand *operands, uint32_t count) {
  bool any = false;
  for (int dtype = 1; dtype < COMPUTE_DTYPE_COUNT; dtype++) {
    bool occurs = false;
    for (uint32_t i = 0; i < count; i++) occurs |= operands[i].dtype == (compute_dtype)dtype;
    if (!occurs) continue;
    add(t, "%s%s", any ? "+" : "", compute_dtype_name((compute_dtype)dtype));
    any = true;
  }
  if (!any) add(t, "none");
}

/* ---- Sizes --------------------------------------------------------------------------------- */

/* The base-2 logarithm rounded to nearest; 0 for 0. In whole numbers, so that it is the same
 * everywhere: x lies above the middle 2^(b + 1/2) when x² does above 2^(2b + 1). */
static int bucket(int64_t count) {
  uint64_t x = count > 0 ? (uint64_t)count : 1;
  int shift = 0;
  while (x >> shift > UINT32_MAX) shift++;
  x >>= shift;
  int b = 0;
  while (x >> (b + 1)) b++; /* at most 31 */
  if (x * x >= UINT64_C(1) << (2 * b + 1)) b++;
  return b + shift;
}

static int64_t product(const compute_kernel_descriptor *d, int32_t first, int32_t end) {
  int64_t count = 1;
  for (int32_t i = first; i < end; i++) count *= d->size[i];
  return count;
}

/* ---- Patterns ------------------------------------------------------------------------------ */

typedef enum walk { WALK_DENSE, WALK_BROADCAST, WALK_STRIDED } walk;

static walk walk_of(const compute_kernel_descriptor *d, const compute_operand *operand) {
  int64_t expected = 1;
  walk found = WALK_DENSE;
  for (int32_t i = d->rank - 1; i >= 0; i--) {
    if (d->size[i] <= 1) continue;
    if (operand->stride[i] == 0) return WALK_BROADCAST;
    if (operand->stride[i] != expected) found = WALK_STRIDED;
    expected *= d->size[i];
  }
  return found;
}

static walk worst_walk(const compute_kernel_descriptor *d) {
  walk worst = WALK_DENSE;
  for (uint32_t i = 0; i < d->input_count + d->output_count; i++) {
    walk w = walk_of(d, i < d->input_count ? &d->inputs[i] : &d->outputs[i - d->input_count]);
    if (w > worst) worst = w;
  }
  return worst;
}

static const char *walk_name(walk w) {
  return w == WALK_DENSE ? "dense" : w == WALK_BROADCAST ? "broadcast" : "strided";
}

/* The dimension whose neighbours are nearest in memory, or −1 if the operand does not move. */
static int32_t fastest(const compute_kernel_descriptor *d, const compute_operand *operand) {
  int32_t found = -1;
  int64_t least = 0;
  for (int32_t i = d->rank - 1; i >= 0; i--) {
    if (d->size[i] <= 1 || operand->stride[i] == 0) continue;
    int64_t stride = operand->stride[i] < 0 ? -operand->stride[i] : operand->stride[i];
    if (found >= 0 && stride >= least) continue;
    found = i;
    least = stride;
  }
  return found;
}

static const char *copy_pattern(const compute_kernel_descriptor *d) {
  walk w = worst_walk(d);
  if (w != WALK_STRIDED) return walk_name(w);
  return fastest(d, &d->inputs[0]) == fastest(d, &d->outputs[0]) ? "strided" : "transpose";
}

static const char *reduce_pattern(const compute_kernel_descriptor *d) {
  if (product(d, 0, compute_reduce_of(d)->kept_rank) <= 1) return "full";
  int32_t dimension = d->input_count > 0 ? fastest(d, &d->inputs[0]) : -1;
  return dimension < 0 || dimension >= compute_reduce_of(d)->kept_rank ? "inner" : "outer";
}

/* Of a matrix with these strides of its rows and columns. */
static char letter(int64_t row_stride, int64_t rows, int64_t column_stride, int64_t columns) {
  if (columns <= 1 || column_stride == 1) return 'n';
  return rows <= 1 || row_stride == 1 ? 't' : 'x';
}

/* ---- Kinds --------------------------------------------------------------------------------- */

static void print_elements(class_text *t, const compute_kernel_descriptor *d, const char *kind) {
  add(t, "%s/", kind);
  add_types(t, d->inputs, d->input_count);
  add(t, ">");
  add_types(t, d->outputs, d->output_count);
  if (d->kind == COMPUTE_KERNEL_MAP) {
    static const char *const count[] = {"0", "1", "2", "3"};
    add(t, "/in%s.%s", d->input_count < 4 ? count[d->input_count] : "many",
        walk_name(worst_walk(d)));
  } else {
    add(t, "/%s", d->kind == COMPUTE_KERNEL_COPY ? copy_pattern(d) : "axis");
  }
  add(t, "/n%d", bucket(product(d, 0, d->rank)));
}

static void print_accumulating(class_text *t, const compute_kernel_descriptor *d, const char *kind,
                               uint32_t inputs) {
  add(t, "%s/", kind);
  add_types(t, d->inputs, inputs);
  add(t, ">%s>", compute_dtype_name(d->accumulate));
  add_types(t, d->outputs, d->output_count);
  add(t, "/");
}

static void print_gemm(class_text *t, const compute_kernel_descriptor *d) {
  const compute_operand *a = &d->inputs[0], *b = &d->inputs[1];
  const int32_t i = d->rank - 2, j = d->rank - 1;
  const int64_t m = d->size[i], n = d->size[j], batch = product(d, 0, i);
  print_accumulating(t, d, "gemm", 2);
  add(t, "%c%c.%s/b%dm%dn%dk%d", letter(a->stride[i], m, a->stride[j], compute_gemm_of(d)->k),
      letter(b->stride[i], compute_gemm_of(d)->k, b->stride[j], n), batch > 1 ? "batch" : "single",
      bucket(batch), bucket(m), bucket(n), bucket(compute_gemm_of(d)->k));
}

static void print_conv(class_text *t, const compute_kernel_descriptor *d) {
  static const char *const direction[] = {"forward", "data", "filter"};
  const compute_conv_attributes *c = compute_conv_of(d);
  bool point = c->filter_size[0] == 1 && c->filter_size[1] == 1;
  bool strided = c->stride[0] > 1 || c->stride[1] > 1;
  print_accumulating(t, d, "conv", 2);
  add(t, "%s%s%s%s/b%dc%do%dp%d", direction[c->direction], point ? ".point" : "",
      strided ? ".strided" : "", c->groups > 1 ? ".groups" : "", bucket(c->batch),
      bucket(c->data_channels / c->groups), bucket(c->result_channels / c->groups),
      bucket(c->result_size[0] * c->result_size[1]));
}

/* From here on a device is full, and more of them make no difference. */
enum { MANY_FITS = 1 << 15 };

static void print_fit(class_text *t, const compute_kernel_descriptor *d) {
  static const char *const model[] = {"xynb", "xynbs", "xynbsxsy", "xyznb"};
  static const char *const solver[] = {"fisher", "newton", "marquardt", "squares"};
  const compute_fit_problem *p = &compute_fit_of(d)->problem;
  const int64_t n = d->size[0] < MANY_FITS ? d->size[0] : MANY_FITS;
  add(t, "fit/");
  add_types(t, d->inputs, 1);
  add(t, ">");
  add_types(t, d->outputs, d->output_count);
  add(t, "/%s.%s/n%dp%d", model[p->model], solver[p->solver], bucket(n),
      bucket(p->rows * p->columns));
}

static void print_window(class_text *t, const compute_kernel_descriptor *d) {
  const compute_window_attributes *w = compute_window_of(d);
  const uint32_t own = w->by_data && w->operation == COMPUTE_WINDOW_MAX ? 2 : 1;
  print_accumulating(t, d, "window", own);
  add(t, "%s%s/b%dp%dw%d", w->operation == COMPUTE_WINDOW_MAX ? "max" : "average",
      w->by_data ? ".data" : "", bucket(product(d, 0, 2)), bucket(product(d, 2, 4)),
      bucket(w->size[0] * w->size[1]));
}

static void print_scan(class_text *t, const compute_kernel_descriptor *d) {
  print_accumulating(t, d, "scan", 1);
  add(t, "%s/r%dn%d", fastest(d, &d->inputs[0]) == d->rank - 1 ? "along" : "across",
      bucket(product(d, 0, d->rank - 1)), bucket(d->size[d->rank - 1]));
}

static void print_top_k(class_text *t, const compute_kernel_descriptor *d) {
  add(t, "top_k/");
  add_types(t, d->inputs, 1);
  add(t, ">");
  add_types(t, d->outputs, 1);
  add(t, "/axis/r%dn%dk%d", bucket(product(d, 0, d->rank - 1)),
      bucket(compute_top_k_of(d)->axis_size), bucket(d->size[d->rank - 1]));
}

static void print_attention(class_text *t, const compute_kernel_descriptor *d) {
  const compute_attention_attributes *a = compute_attention_of(d);
  print_accumulating(t, d, "attention", 3);
  add(t, "%s%s/b%dm%dk%dw%de%d", a->causal ? "causal" : "full", a->biased ? ".biased" : "",
      bucket(product(d, 0, d->rank - 2)), bucket(d->size[d->rank - 2]), bucket(a->keys),
      bucket(a->width), bucket(d->size[d->rank - 1]));
}

static void print_spots(class_text *t, const compute_kernel_descriptor *d) {
  add(t, "spots/");
  add_types(t, d->inputs, 1);
  add(t, ">");
  add_types(t, d->outputs, 1);
  add(t, "/%s/n%dh%dw%dr%d", compute_spots_of(d)->filter == 0 ? "gaussians" : "boxes",
      bucket(d->size[0]), bucket(d->size[1]), bucket(d->size[2]),
      (int)compute_spots_of(d)->wide_radius);
}

char *kernel_class_print(const compute_kernel_descriptor *d, char *text) {
  class_text t = {text, 0};
  text[0] = '\0';
  switch (d->kind) {
  case COMPUTE_KERNEL_MAP: print_elements(&t, d, "map"); break;
  case COMPUTE_KERNEL_COPY: print_elements(&t, d, "copy"); break;
  case COMPUTE_KERNEL_GATHER: print_elements(&t, d, "gather"); break;
  case COMPUTE_KERNEL_SCATTER: print_elements(&t, d, "scatter"); break;
  case COMPUTE_KERNEL_REDUCE:
    print_accumulating(&t, d, "reduce", d->prologue_inputs);
    add(&t, "%s%s/k%dr%d", reduce_pattern(d),
        compute_reduce_of(d)->combine >= COMPUTE_COMBINE_ARGMAX ? ".position" : "",
        bucket(product(d, 0, compute_reduce_of(d)->kept_rank)),
        bucket(product(d, compute_reduce_of(d)->kept_rank, d->rank)));
    break;
  case COMPUTE_KERNEL_ROW:
    print_accumulating(&t, d, "row", d->prologue_inputs);
    add(&t, "%s/r%dn%d",
        compute_row_of(d)->operation == COMPUTE_ROW_NORMALIZE ? "normalize" : "softmax",
        bucket(product(d, 0, d->rank - 1)), bucket(d->size[d->rank - 1]));
    break;
  case COMPUTE_KERNEL_GEMM: print_gemm(&t, d); break;
  case COMPUTE_KERNEL_CONV: print_conv(&t, d); break;
  case COMPUTE_KERNEL_FIT: print_fit(&t, d); break;
  case COMPUTE_KERNEL_WINDOW: print_window(&t, d); break;
  case COMPUTE_KERNEL_SCAN: print_scan(&t, d); break;
  case COMPUTE_KERNEL_TOP_K: print_top_k(&t, d); break;
  case COMPUTE_KERNEL_ATTENTION: print_attention(&t, d); break;
  case COMPUTE_KERNEL_SPOTS: print_spots(&t, d); break;
  }
  return text;
}

/* ---- Fit ----------------------------------------------------------------------------------- */

static const char *const kinds[] = {"map",     "reduce", "row",       "gemm", "gather",
                                    "scatter", "copy",   "conv",      "fit",  "window",
                                    "scan",    "top_k",  "attention", "spots"};

bool kernel_class_valid(const char *text, size_t length) {
  if (length == 0 || length >= KERNEL_CLASS_BYTES) return false;
  int parts = 1;
  bool empty = true;
  for (size_t i = 0; i < length; i++) {
    char c = text[i];
    bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || strchr("_.+>", c);
    if (c == '\0' || (c == '/' ? empty || ++parts > 4 : !word)) return false;
    empty = c == '/';
  }
  const char *slash = memchr(text, '/', length);
  const size_t kind_length = slash ? (size_t)(slash - text) : length;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strlen(kinds[i]) == kind_length && !memcmp(kinds[i], text, kind_length)) return !empty;
  return false;
}

/* The next "letter number" of both sizes; false when they do not go on alike. */
static bool next_buckets(const char **a, const char **b, int *difference) {
  if (**a != **b || !isdigit((unsigned char)(*a)[1]) || !isdigit((unsigned char)(*b)[1]))
    return false;
  char *end_a, *end_b;
  long value_a = strtol(*a + 1, &end_a, 10), value_b = strtol(*b + 1, &end_b, 10);
  if (value_a > 64 || value_b > 64) return false;
  *difference = abs((int)(value_a - value_b));
  *a = end_a;
  *b = end_b;
  return true;
}

static int size_fit(const char *a, const char *b) {
  int sum = 0;
  while (*a && *b) {
    int difference;
    if (!next_buckets(&a, &b, &difference) || difference > KERNEL_CLASS_REACH)
      return KERNEL_CLASS_APART;
    sum += difference;
  }
  return *a || *b ? KERNEL_CLASS_APART : sum;
}

int kernel_class_fit(const char *selector, const char *kernel_class) {
  const size_t length = strlen(selector);
  if (!strcmp(selector, kernel_class)) return 0;
  const char *size = strrchr(kernel_class, '/');
  if (!size) return KERNEL_CLASS_APART;
  const size_t head = (size_t)(size - kernel_class) + 1;
  if (length > head && !strncmp(selector, kernel_class, head))
    return size_fit(selector + head, size + 1);
  if (strncmp(selector, kernel_class, length) != 0 || kernel_class[length] != '/')
    return KERNEL_CLASS_APART;
  return 2 * KERNEL_CLASS_BYTES - (int)length;
}
