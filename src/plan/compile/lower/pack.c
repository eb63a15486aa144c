/* SPDX-License-Identifier: MIT */
/* Prepacks operands that never change, such as the weights of networks. The device converts them
 * now to the layout that a kernel reads fastest, and the step reads the packed copy. */
#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/device/packed.h"
#include "core/device/transfer.h"
#include "core/tensor/tensor.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "plan/compile/lower/lower.h"

static compute_status short_of_memory(const lowering *l) {
  return error_set(l->plan->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_compile",
                   "not enough memory for the packed constants of the plan");
}

/* Returns the parameter or constant that input i of a step reads, or NULL. */
static const ir_node *read_node(const lowering *l, const build_step *s, uint32_t i) {
  const uint32_t node = l->storages[s->operand[i].storage].node;
  return node != IR_NONE ? &l->r->nodes[node] : NULL;
}

/* Returns the node's tensor if it is frozen and on the step's device; otherwise NULL. */
static const compute_tensor *frozen_tensor(const lowering *l, const build_step *s,
                                           const ir_node *n) {
  if (n->op != OP_parameter || !buffer_is_frozen(n->tensor->buffer) ||
      n->tensor->buffer->device != l->plan->device[s->device])
    return NULL;
  return n->tensor;
}

static bool is_constant(const ir_node *n) {
  return n->op == OP_constant && !n->uniform && shape_count(n->shape) > 0;
}

uint32_t pack_find_constants(const lowering *l, const compute_kernel_descriptor *k,
                             const build_step *s) {
  uint32_t constant = 0;
  if (!l->plan->device[s->device]->backend->kernel_packed_bytes) return 0;
  for (uint32_t i = 0; i < kernel_packable_inputs(k) && i < s->input_count; i++) {
    const ir_node *n = read_node(l, s, i);
    if (n && (frozen_tensor(l, s, n) || is_constant(n))) constant |= UINT32_C(1) << i;
  }
  return constant;
}

/* The elements of a constant input in host memory, or NULL. */
static const int8_t *constant_bytes(const lowering *l, const build_step *s, const ir_node *n) {
  const compute_tensor *tensor = frozen_tensor(l, s, n);
  if (!tensor) return n->constant;
  const unsigned char *host = tensor->buffer->memory.host;
  return host && shape_is_dense(tensor->shape, tensor->strides)
             ? (const int8_t *)host + tensor->offset
             : NULL;
}

/* `true` if all weights are in −64 … 64: two products with 255 then fit in 16 bits. */
static bool has_small_pairs(const int8_t *weights, int64_t count) {
  enum { CHUNK = 4096, MOST = 64 };
  int outside = 0;
  for (int64_t i = 0; i < count && !outside; i += CHUNK) {
    const int64_t end = i + CHUNK < count ? i + CHUNK : count;
    for (int64_t j = i; j < end; j++) outside |= (weights[j] > MOST) | (weights[j] < -MOST);
  }
  return !outside;
}

void pack_let_saturate(const lowering *l, const build_step *s, compute_kernel_descriptor *k,
                       pack_attributes *attributes) {
  const bool product = k->kind == COMPUTE_KERNEL_GEMM;
  if ((!product && k->kind != COMPUTE_KERNEL_CONV) || k->accumulate != COMPUTE_I32 ||
      k->inputs[1].dtype != COMPUTE_I8 || (k->constant_inputs & 2) == 0 ||
      (l->precision & COMPUTE_PRECISION_SATURATE) != 0)
    return;
  const ir_node *n = read_node(l, s, 1);
  const int8_t *weights = constant_bytes(l, s, n);
  if (!weights || !has_small_pairs(weights, shape_count(n->shape))) return;
  if (product) {
    attributes->gemm = *compute_gemm_of(k);
    attributes->gemm.precision |= COMPUTE_PRECISION_SATURATE;
  } else {
    attributes->conv = *compute_conv_of(k);
    attributes->conv.precision |= COMPUTE_PRECISION_SATURATE;
  }
  k->attributes = attributes;
}

/* Packs a constant from a temporary copy, as its memory is filled only when the plan is
 * complete. */
static compute_status pack_copy(const lowering *l, const ir_node *n, uint32_t device,
                                const packed_operand *operand, memory_buffer **packed) {
  compute_device *where = l->plan->device[device];
  const uint64_t bytes = (uint64_t)shape_count(n->shape) * compute_dtype_size(n->dtype);
  memory_buffer *copy = NULL;
  *packed = NULL;
  compute_status status = buffer_create(where, bytes, &copy);
  if (!status)
    status = transfer_upload(where, &(compute_argument){&copy->memory, 0}, n->constant, bytes);
  if (!status) status = packed_get(copy, operand, packed);
  buffer_release(copy);
  return status;
}

/* Replaces input i of the step by packed memory, if the kernel wants it packed. */
static compute_status pack_input(lowering *l, build_step *s, uint32_t i) {
  compute_plan *plan = l->plan;
  const ir_node *n = read_node(l, s, i);
  const compute_tensor *tensor = frozen_tensor(l, s, n);
  const step_operand source = s->operand[i];
  const uint64_t offset = tensor ? (uint64_t)tensor->offset : 0;
  const packed_operand operand = {s->kernel->kernel, i, offset + source.offset};
  memory_buffer *packed;
  const compute_status status = tensor ? packed_get(tensor->buffer, &operand, &packed)
                                       : pack_copy(l, n, s->device, &operand, &packed);
  if (status != COMPUTE_OK || !packed) return status;
  if (!tensor) l->packed_constant_bytes += packed->memory.bytes;
  if (base_grow((void **)&plan->packed, &plan->packed_capacity, plan->packed_count + 1,
                sizeof *plan->packed)) {
    buffer_release(packed);
    return short_of_memory(l);
  }
  const storage *lies = &l->storages[source.storage];
  plan->packed[plan->packed_count++] =
      (plan_packed){packed, {lies->slot, lies->offset + source.offset}};
  s->operand[i].storage = storage_add(l, plan->slot_count++, s->device, packed->memory.bytes);
  s->operand[i].offset = 0;
  return s->operand[i].storage == IR_NONE ? short_of_memory(l) : COMPUTE_OK;
}

static compute_status pack_step(lowering *l, build_step *s) {
  const build_step *like = s->like != IR_NONE ? &l->steps[s->like] : NULL;
  compute_status status = COMPUTE_OK;
  for (uint32_t i = 0; status == COMPUTE_OK && s->constant_inputs >> i != 0; i++) {
    if ((s->constant_inputs >> i & 1) == 0) continue;
    if (like)
      s->operand[i] = like->operand[i];
    else
      status = pack_input(l, s, i);
  }
  if (status != COMPUTE_OK && s->operation) error_attribute(l->plan->context, s->operation);
  return status;
}

compute_status pack_constants(lowering *l) {
  compute_status status = COMPUTE_OK;
  for (uint32_t i = 0; status == COMPUTE_OK && i < l->step_count; i++)
    status = pack_step(l, &l->steps[i]);
  return status;
}
