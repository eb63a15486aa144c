/* The table of kinds, and what all of them are asked in the same way. */
#include "kernel/kind.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/arithmetic.h"

#define KIND(code, number, name) extern const kernel_kind kernel_kind_##name;
COMPUTE_KERNEL_KINDS(KIND)
#undef KIND

static const kernel_kind *const kinds[COMPUTE_KERNEL_KIND_COUNT] = {
#define KIND(code, number, name) [number] = &kernel_kind_##name,
    COMPUTE_KERNEL_KINDS(KIND)
#undef KIND
};

const kernel_kind *kernel_kind_of(compute_kernel_kind kind) {
  return (unsigned)kind < COMPUTE_KERNEL_KIND_COUNT ? kinds[kind] : NULL;
}

const char *kernel_kind_name(compute_kernel_kind kind) {
  const kernel_kind *k = kernel_kind_of(kind);
  return k ? k->name : "unknown";
}

bool kernel_kind_exists(const char *name, size_t length) {
  for (int i = 0; i < COMPUTE_KERNEL_KIND_COUNT; i++)
    if (strlen(kinds[i]->name) == length && memcmp(kinds[i]->name, name, length) == 0) return true;
  return false;
}

bool kernel_attributes_fit(const compute_kernel_descriptor *d) {
  const kernel_kind *kind = kernel_kind_of(d->kind);
  return kind && (kind->attribute_bytes == 0 ||
                  (d->attributes && d->attribute_bytes >= kind->attribute_bytes));
}

/* ---- Operands ------------------------------------------------------------------------------ */

uint32_t kernel_operands_own(const compute_kernel_descriptor *d) {
  const kernel_kind *kind = kinds[d->kind];
  return kind->own ? kind->own(d) : d->input_count;
}

void kernel_operand_sizes(const compute_kernel_descriptor *d, uint32_t index,
                          int64_t size[COMPUTE_MAX_RANK]) {
  const kernel_kind *kind = kinds[d->kind];
  memcpy(size, d->size, sizeof d->size);
  if (index < d->input_count && kind->sizes && index < kernel_operands_own(d))
    kind->sizes(d, index, size);
}

int32_t kernel_output_rank(const compute_kernel_descriptor *d) {
  const kernel_kind *kind = kinds[d->kind];
  return kind->output_rank ? kind->output_rank(d) : d->rank;
}

uint32_t kernel_first_in_place(const compute_kernel_descriptor *d) {
  return kinds[d->kind]->in_place ? kernel_operands_own(d) : d->input_count;
}

/* ---- Prices -------------------------------------------------------------------------------- */

int64_t kernel_elements(const compute_kernel_descriptor *d, int32_t first, int32_t end) {
  int64_t count = 1;
  for (int32_t i = first; i < end; i++) count *= d->size[i];
  return count;
}

uint64_t kernel_epilogue_flops(const compute_kernel_descriptor *d) {
  return (uint64_t)kernel_elements(d, 0, d->rank) * program_flops(&d->epilogue);
}

/* The cost of an operand is its distinct elements: those that stride 0 does not repeat. */
static uint64_t distinct_bytes(const compute_operand *o, const int64_t *size, int32_t rank) {
  uint64_t count = compute_dtype_size(o->dtype);
  for (int32_t i = 0; i < rank; i++)
    if (o->stride[i] != 0) count *= (uint64_t)size[i];
  return count;
}

static uint64_t input_bytes(const compute_kernel_descriptor *d, uint32_t input) {
  const kernel_kind *kind = kinds[d->kind];
  int64_t size[COMPUTE_MAX_RANK];
  if (kind->input_bytes) return kind->input_bytes(d, input);
  kernel_operand_sizes(d, input, size);
  return distinct_bytes(&d->inputs[input], size, d->rank);
}

kernel_cost kernel_cost_of(const compute_kernel_descriptor *d) {
  const kernel_kind *kind = kinds[d->kind];
  kernel_cost cost = {.flops = kind->flops(d)};
  for (uint32_t i = 0; i < d->input_count; i++) cost.bytes_read += input_bytes(d, i);
  for (uint32_t i = 0; i < d->output_count; i++)
    cost.bytes_written += kind->output_bytes ? kind->output_bytes(d, i)
                                             : distinct_bytes(&d->outputs[i], d->size, d->rank);
  return cost;
}

kernel_work kernel_work_of(const compute_kernel_descriptor *d) {
  const kernel_cost cost = kernel_cost_of(d);
  kernel_work work = {.moved = WORK_STREAM,
                      .product = WORK_CLASSES,
                      .bytes = (double)(cost.bytes_read + cost.bytes_written)};
  if (kinds[d->kind]->work) kinds[d->kind]->work(d, &cost, &work);
  return work;
}

/* 64-bit types fill twice the lanes. */
void work_add_program(const compute_program *program, double elements, kernel_work *work) {
  for (uint32_t i = 0; i < program->count; i++) {
    const compute_instruction *in = &program->instructions[i];
    const program_price price = program_code_price((compute_instruction_code)in->code);
    const double lanes = in->type == COMPUTE_F64 || in->type == COMPUTE_I64 ? 2 : 1;
    work->simple += price.simple * lanes * elements;
    work->functions += price.functions * lanes * elements;
  }
}

work_class work_product(compute_dtype factors) {
  return factors == COMPUTE_F64    ? WORK_GEMM_F64
         : factors == COMPUTE_F16  ? WORK_GEMM_F16
         : factors == COMPUTE_BF16 ? WORK_GEMM_BF16
                                   : WORK_GEMM_F32;
}

/* Products too narrow to fill tiles and lanes waste part of them. */
double work_narrowness(int64_t m, int64_t n, int64_t k) {
  const int64_t least = min_i64(min_i64(m, n), k);
  return least >= 32 ? 1 : 1 + 8.0 / (double)(least > 0 ? least : 1);
}

/* Whether neighbours in the last dimension that is not 1 are neighbours in memory. */
static bool in_memory_order(const compute_kernel_descriptor *d, const compute_operand *o) {
  for (int32_t i = d->rank - 1; i >= 0; i--)
    if (d->size[i] > 1) return o->stride[i] == 1 || o->stride[i] == 0;
  return true;
}

bool work_streams(const compute_kernel_descriptor *d) {
  for (uint32_t i = 0; i < d->input_count; i++)
    if (!in_memory_order(d, &d->inputs[i])) return false;
  for (uint32_t i = 0; i < d->output_count; i++)
    if (!in_memory_order(d, &d->outputs[i])) return false;
  return true;
}

/* ---- Text ---------------------------------------------------------------------------------- */

void text_add_pair(text_buffer *text, const char *name, const int64_t *pair, int64_t usual) {
  if (pair[0] == usual && pair[1] == usual) return;
  if (pair[0] == pair[1])
    text_add(text, ", %s %lld", name, (long long)pair[0]);
  else
    text_add(text, ", %s %lldx%lld", name, (long long)pair[0], (long long)pair[1]);
}

void kernel_describe(const compute_kernel_descriptor *d, text_buffer *text) {
  const kernel_kind *kind = kinds[d->kind];
  const char *operation = kind->operation ? kind->operation(d) : kind->title;
  text_add(text, "%s", kind->title);
  if (strcmp(kind->title, operation) != 0) text_add(text, " %s", operation);
  if (kind->print_details) kind->print_details(d, text);
  if (d->prologue.count > 0) {
    text_add(text, " of ");
    program_print(&d->prologue, text);
  }
  if (d->epilogue.count > 0) {
    text_add(text, d->kind == COMPUTE_KERNEL_MAP ? " " : ", then ");
    program_print(&d->epilogue, text);
  }
  if (kind->print_more) kind->print_more(d, text);
}

void kernel_describe_size(const compute_kernel_descriptor *d, char *text, size_t bytes) {
  const kernel_kind *kind = kinds[d->kind];
  const int32_t kept = kernel_output_rank(d);
  size_t used = 0;
  text[0] = 0;
  for (int32_t i = 0; i < d->rank && used < bytes; i++)
    used += (size_t)snprintf(text + used, bytes - used, "%s%lld",
                             i == 0      ? ""
                             : i == kept ? " | "
                                         : "x",
                             (long long)d->size[i]);
  if (kind->print_size && used < bytes) kind->print_size(d, text + used, bytes - used);
  if (d->rank == 0) snprintf(text, bytes, "scalar");
}

/* ---- Classes ------------------------------------------------------------------------------- */

void class_add(class_text *t, const char *format, ...) {
  va_list list;
  va_start(list, format);
  const int n = vsnprintf(t->text + t->used, KERNEL_CLASS_BYTES - t->used, format, list);
  va_end(list);
  if (n > 0 && (size_t)n < KERNEL_CLASS_BYTES - t->used) t->used += (size_t)n;
}

static void add_dtypes(class_text *t, const compute_operand *operands, uint32_t count) {
  bool any = false;
  for (int dtype = 1; dtype < COMPUTE_DTYPE_COUNT; dtype++) {
    bool occurs = false;
    for (uint32_t i = 0; i < count; i++) occurs |= operands[i].dtype == (compute_dtype)dtype;
    if (!occurs) continue;
    class_add(t, "%s%s", any ? "+" : "", compute_dtype_name((compute_dtype)dtype));
    any = true;
  }
  if (!any) class_add(t, "none");
}

void class_add_types(class_text *t, const compute_kernel_descriptor *d, uint32_t inputs) {
  add_dtypes(t, d->inputs, inputs);
  class_add(t, ">");
  if (kinds[d->kind]->has_accumulate) class_add(t, "%s>", compute_dtype_name(d->accumulate));
  add_dtypes(t, d->outputs, d->output_count);
  class_add(t, "/");
}

/* In whole numbers, so that it is the same everywhere: x lies above the middle 2^(b + 1/2) when x²
 * does above 2^(2b + 1). Rounded, so that 1000 and 1024, or 784 and 768, share a bucket, where a
 * cut at powers of two would part them. */
int class_bucket(int64_t count) {
  uint64_t x = count > 0 ? (uint64_t)count : 1;
  int shift = 0;
  while (x >> shift > UINT32_MAX) shift++;
  x >>= shift;
  int b = 0;
  while (x >> (b + 1)) b++; /* at most 31 */
  if (x * x >= UINT64_C(1) << (2 * b + 1)) b++;
  return b + shift;
}

int32_t class_fastest(const compute_kernel_descriptor *d, const compute_operand *operand) {
  int32_t found = -1;
  int64_t least = 0;
  for (int32_t i = d->rank - 1; i >= 0; i--) {
    if (d->size[i] <= 1 || operand->stride[i] == 0) continue;
    const int64_t stride = operand->stride[i] < 0 ? -operand->stride[i] : operand->stride[i];
    if (found >= 0 && stride >= least) continue;
    found = i;
    least = stride;
  }
  return found;
}

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

const char *class_walk(const compute_kernel_descriptor *d) {
  static const char *const names[] = {"dense", "broadcast", "strided"};
  walk worst = WALK_DENSE;
  for (uint32_t i = 0; i < d->input_count + d->output_count; i++) {
    const walk w = walk_of(d, i < d->input_count ? &d->inputs[i] : &d->outputs[i - d->input_count]);
    if (w > worst) worst = w;
  }
  return names[worst];
}

char *kernel_class_print(const compute_kernel_descriptor *d, char *text) {
  class_text t = {text, 0};
  text[0] = '\0';
  class_add(&t, "%s/", kinds[d->kind]->name);
  kinds[d->kind]->print_class(d, &t);
  return text;
}
