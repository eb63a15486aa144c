/* SPDX-License-Identifier: MIT */
/* The gradient of a call. The caller's gradient function records it.
 *
 * The backward walk visits the results of a call from the last to the first, the call itself. The
 * rule of the other results only ensures that the walk reaches the call. */
#include <stdio.h>

#include "core/type/dtype.h"
#include "graph/builders/build.h"
#include "graph/gradient/gradient.h"

static const char operation[] = "gradients";

enum { LABEL_BYTES = 64 };

void gradient_call_result(gradient_step *s) {
  const uint32_t call = s->node.inputs[s->node.input_count - 1];
  const graph_node *node = build_at(s->graph, call);
  const bool flows = dtype_is_float(node->dtype);
  s->walk->wanted[call] = true;
  if (!compute_node_is_valid(s->walk->gradient[call]))
    s->walk->gradient[call] =
        compute_full(s->graph, flows ? node->dtype : COMPUTE_F32, node->shape, 0);
}

/* Example: "call 'smooth'", or "call (node 7)" without a name. */
static const char *label(const gradient_step *s, char *text, size_t bytes) {
  const char *name = graph_call_of(&s->node)->key.name;
  if (name[0])
    snprintf(text, bytes, "call '%s'", name);
  else
    snprintf(text, bytes, "call (node %u)", (unsigned)s->result.id);
  return text;
}

/* The gradient of result `index` of the call; {0} if that result is not a float. */
static compute_node arrived(const gradient_step *s, uint32_t call, uint32_t index) {
  const compute_dtype dtype = build_at(s->graph, call + index)->dtype;
  const compute_shape shape = build_at(s->graph, call + index)->shape;
  if (!dtype_is_float(dtype)) return BUILD_NONE;
  const compute_node gradient =
      call + index < s->walk->capacity ? s->walk->gradient[call + index] : BUILD_NONE;
  return compute_node_is_valid(gradient) ? gradient : compute_full(s->graph, dtype, shape, 0);
}

static bool fits(const gradient_step *s, uint32_t input, compute_node part) {
  uint32_t index;
  if (!build_operands(s->graph, operation, &part, 1, &index)) return false;
  const graph_node *x = build_at(s->graph, s->node.inputs[input]),
                   *found = build_at(s->graph, index);
  char want[BUILD_TEXT], have[BUILD_TEXT], name[LABEL_BYTES];
  if (found->dtype == x->dtype && compute_shape_equal(found->shape, x->shape)) return true;
  return graph_refuse(s->graph, COMPUTE_ERROR_SHAPE, operation,
                      "the gradient of %s gives %s %s for input %u, which is %s %s",
                      label(s, name, sizeof name), compute_dtype_name(found->dtype),
                      compute_shape_text(found->shape, have, sizeof have), (unsigned)input,
                      compute_dtype_name(x->dtype),
                      compute_shape_text(x->shape, want, sizeof want));
}

void gradient_call(gradient_step *s) {
  compute_node inputs[COMPUTE_CALL_MAX_INPUTS], given[COMPUTE_CALL_MAX_INPUTS] = {{0}};
  compute_node outputs[COMPUTE_CALL_MAX_OUTPUTS], gradients[COMPUTE_CALL_MAX_OUTPUTS];
  const graph_call_key *key = &graph_call_of(&s->node)->key;
  const uint32_t call = s->result.id - 1;
  char name[LABEL_BYTES];
  if (!key->gradient) {
    graph_fail(s->graph, COMPUTE_ERROR_NOT_DIFFERENTIABLE, operation,
               "%s has no gradient; set `gradient` in its options", label(s, name, sizeof name));
    return;
  }
  for (uint32_t i = 0; i < s->node.input_count; i++) inputs[i] = gradient_operand(s, i);
  for (uint32_t k = 0; k < key->output_count; k++) {
    outputs[k] = graph_handle(s->graph, call + k);
    gradients[k] = arrived(s, call, k);
  }
  if (s->graph->status) return;
  const compute_status status =
      key->gradient(key->user, s->graph, inputs, outputs, gradients, given);
  if (status)
    graph_fail(s->graph, status, operation, "the gradient of %s returned %s",
               label(s, name, sizeof name), compute_status_name(status));
  for (uint32_t i = 0; i < s->node.input_count && !s->graph->status; i++) {
    if ((given[i].id == 0 && given[i].graph == 0) || !gradient_wanted(s, i)) continue;
    if (fits(s, i, given[i])) gradient_give(s, i, given[i]);
  }
}

/* The rule of the call itself follows in the walk, since the call was recorded earlier. */
void gradient_whole_call(gradient_step *s) {
  gradient_give(s, 0, s->upstream);
}
