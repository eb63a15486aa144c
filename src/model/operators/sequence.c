/* SPDX-License-Identifier: MIT */
/* Sequences and optionals: lists of values that exist only while a model is recorded. So positions
 * in them must be known at that time. As in ONNX, a sequence contains tensors, and an optional
 * contains a tensor or a sequence. Deeper nesting would let a short file describe more values than
 * fit in memory. */
#include <inttypes.h>
#include <string.h>

#include "core/type/shape.h"
#include "model/record.h"

/* Allocates `count` items, which the caller fills in. */
static model_value *new_items(model_call *call, size_t count) {
  return call_allocate(call, count, sizeof(model_value));
}

static compute_status output_sequence(model_call *call, const model_value *items, size_t count) {
  if (!items) return call_out_of_memory(call);
  const model_value sequence = {
      .kind = VALUE_SEQUENCE, .id = -1, .items = items, .item_count = count};
  return call_output_value(call, 0, &sequence);
}

static compute_status take_sequence(model_call *call, const model_value **sequence) {
  if (!call_has(call, 0) || call->inputs[0]->kind != VALUE_SEQUENCE)
    return call_fail(call, COMPUTE_ERROR_DTYPE, "its first input is not a sequence");
  *sequence = call->inputs[0];
  return COMPUTE_OK;
}

/* A sequence may contain only tensors. */
static compute_status check_item(model_call *call, const model_value *item) {
  return item->kind == VALUE_TENSOR && item->type != ONNX_LABEL
             ? COMPUTE_OK
             : call_fail(call, COMPUTE_ERROR_DTYPE, "an item of its sequence is not a tensor");
}

static compute_status construct(model_call *call) {
  for (size_t i = 0; i < call->input_count; i++) {
    const compute_status status = check_item(call, call->inputs[i]);
    if (status) return status;
  }
  model_value *items = new_items(call, call->input_count);
  for (size_t i = 0; items && i < call->input_count; i++) items[i] = *call->inputs[i];
  return output_sequence(call, items, call->input_count);
}

static compute_status empty(model_call *call) {
  return output_sequence(call, new_items(call, 0), 0);
}

/* Reads a position in a sequence of `count` items; it may count from the end. `fallback` if input i
 * is omitted. */
static compute_status take_position(model_call *call, size_t i, int64_t count, int64_t fallback,
                                    int64_t *position) {
  *position = fallback;
  const compute_status status = call_has(call, i) ? call_integer(call, i, position) : COMPUTE_OK;
  if (status) return status;
  if (*position < 0 && *position >= -count) *position += count;
  if (*position < 0 || *position >= count)
    return call_fail(call, COMPUTE_ERROR_INDEX, "there is no position %" PRId64 " among %" PRId64,
                     *position, count);
  return COMPUTE_OK;
}

/* ---- Inserting and erasing ------------------------------------------------------------------- */

/* An array that several sequences share. An insertion at an end writes next to the used part, which
 * no sequence reads yet. So a sequence that grows item by item is not copied each time. */
typedef struct item_room {
  model_value *values;
  size_t capacity, first, end; /* values[first … end − 1] are used */
} item_room;

/* Copies a sequence into an array with free space for as many more items, before or after it. */
static compute_status make_room(model_call *call, model_value *sequence, bool before) {
  enum { FEWEST = 4 };
  const size_t count = sequence->item_count, more = count + FEWEST;
  item_room *room = call_allocate(call, 1, sizeof *room);
  model_value *values = new_items(call, count + more);
  if (!room || !values) return call_out_of_memory(call);
  *room = (item_room){.values = values, .capacity = count + more, .first = before ? more : 0};
  room->end = room->first + count;
  if (count) memcpy(&values[room->first], sequence->items, count * sizeof *values);
  sequence->items = &values[room->first];
  sequence->room = room;
  return COMPUTE_OK;
}

/* Returns true if the array has free space directly before, or after, the sequence. */
static bool has_room(const model_value *sequence, bool before) {
  const item_room *room = sequence->room;
  if (!room) return false;
  const size_t first = (size_t)(sequence->items - room->values);
  return before ? first == room->first && first > 0
                : first + sequence->item_count == room->end && room->end < room->capacity;
}

static compute_status insert_at_end(model_call *call, model_value *sequence,
                                    const model_value *item, bool before) {
  if (!has_room(sequence, before)) {
    const compute_status status = make_room(call, sequence, before);
    if (status) return status;
  }
  item_room *room = sequence->room;
  if (before) sequence->items = &room->values[--room->first];
  room->values[before ? room->first : room->end++] = *item;
  sequence->item_count++;
  return COMPUTE_OK;
}

static compute_status insert_between(model_call *call, model_value *sequence,
                                     const model_value *item, size_t at) {
  model_value *items = new_items(call, sequence->item_count + 1);
  if (!items) return call_out_of_memory(call);
  memcpy(items, sequence->items, at * sizeof *items);
  items[at] = *item;
  memcpy(&items[at + 1], &sequence->items[at], (sequence->item_count - at) * sizeof *items);
  sequence->items = items;
  sequence->item_count++;
  sequence->room = NULL;
  return COMPUTE_OK;
}

/* Copies the sequence value without the name of its output. */
static model_value copy_of(const model_value *sequence) {
  return (model_value){.kind = VALUE_SEQUENCE,
                       .id = -1,
                       .items = sequence->items,
                       .item_count = sequence->item_count,
                       .room = sequence->room};
}

static compute_status insert(model_call *call) {
  const model_value *from = NULL;
  compute_status status = take_sequence(call, &from);
  if (!status && !call_has(call, 1))
    status = call_fail(call, COMPUTE_ERROR_FORMAT, "it has nothing to insert");
  if (!status) status = check_item(call, call->inputs[1]);
  if (status) return status;
  const int64_t count = (int64_t)from->item_count;
  /* `count` means the end; a negative position counts from the end. */
  int64_t at = count;
  if (call_has(call, 2)) status = call_integer(call, 2, &at);
  if (status) return status;
  if (at < 0 && at >= -count) at += count;
  if (at < 0 || at > count)
    return call_fail(call, COMPUTE_ERROR_INDEX, "there is no position %" PRId64 " among %" PRId64,
                     at, count);
  model_value sequence = copy_of(from);
  status = at == 0 || at == count ? insert_at_end(call, &sequence, call->inputs[1], at < count)
                                  : insert_between(call, &sequence, call->inputs[1], (size_t)at);
  return status ? status : call_output_value(call, 0, &sequence);
}

static compute_status erase(model_call *call) {
  const model_value *from = NULL;
  int64_t at;
  compute_status status = take_sequence(call, &from);
  if (status) return status;
  const int64_t count = (int64_t)from->item_count;
  status = take_position(call, 1, count, count - 1, &at);
  if (status) return status;
  model_value sequence = copy_of(from);
  sequence.item_count--;
  if (at == 0) {
    sequence.items++;
  } else if (at < count - 1) {
    model_value *items = new_items(call, sequence.item_count);
    if (!items) return call_out_of_memory(call);
    for (int64_t i = 0; i + 1 < count; i++) items[i] = from->items[i + (i >= at)];
    sequence.items = items;
    sequence.room = NULL;
  }
  return call_output_value(call, 0, &sequence);
}

/* ---- Looking into sequences ------------------------------------------------------------------ */

static compute_status item_at(model_call *call) {
  const model_value *from = NULL;
  int64_t at;
  compute_status status = take_sequence(call, &from);
  if (!status) status = take_position(call, 1, (int64_t)from->item_count, 0, &at);
  return status ? status : call_output_value(call, 0, &from->items[at]);
}

static compute_status length(model_call *call) {
  const model_value *from = NULL;
  const compute_status status = take_sequence(call, &from);
  if (status) return status;
  const int64_t count = (int64_t)from->item_count;
  return call_output_host(call, 0, COMPUTE_I64, COMPUTE_SCALAR, &count);
}

static compute_status concatenate(model_call *call) {
  const model_value *from = NULL;
  compute_status status = take_sequence(call, &from);
  if (status) return status;
  if (from->item_count == 0) return call_fail(call, COMPUTE_ERROR_SHAPE, "the sequence is empty");
  const bool stacked = call_attribute_i(call, "new_axis", 0) != 0;
  const int32_t rank = from->items[0].shape.rank + stacked;
  int32_t axis;
  status = call_axis(call, call_attribute_i(call, "axis", 0), rank, &axis);
  compute_node *parts = call_allocate(call, from->item_count, sizeof *parts);
  if (status || !parts) return status ? status : call_out_of_memory(call);
  const bool texts = from->items[0].type == ONNX_STRING;
  for (size_t i = 0; i < from->item_count; i++) {
    model_value item = from->items[i];
    if ((item.type == ONNX_STRING) != texts)
      return call_fail(call, COMPUTE_ERROR_DTYPE, "the sequence has texts and numbers");
    parts[i] = call_node(call, &item);
    if (!stacked) continue;
    compute_shape shape = {.rank = rank};
    for (int32_t k = 0; k < rank && rank <= COMPUTE_MAX_RANK; k++)
      shape_set(&shape, k, k == axis ? 1 : shape_at(item.shape, k - (k > axis)));
    parts[i] = compute_reshape(call->graph, parts[i], shape);
  }
  const compute_node joined = compute_concat(call->graph, parts, from->item_count, axis);
  return texts ? call_output_as(call, 0, ONNX_STRING, joined) : call_output(call, 0, joined);
}

/* ---- SplitToSequence ------------------------------------------------------------------------ */

/* The sizes of the parts: given, or equal except for a smaller last part. */
static compute_status take_parts(model_call *call, int64_t size, const int64_t **sizes,
                                 size_t *count) {
  int64_t each = 1;
  if (call_has(call, 1) && call_shape(call, 1).rank > 0) {
    const compute_status status = call_integers(call, 1, sizes, count);
    int64_t total = 0;
    for (size_t i = 0; !status && i < *count; i++) {
      if ((*sizes)[i] < 0 || (*sizes)[i] > size - total)
        return call_fail(call, COMPUTE_ERROR_SHAPE, "its parts do not make %" PRId64, size);
      total += (*sizes)[i];
    }
    if (!status && total != size)
      return call_fail(call, COMPUTE_ERROR_SHAPE, "its parts make %" PRId64 ", not %" PRId64, total,
                       size);
    return status;
  }
  const compute_status status = call_has(call, 1) ? call_integer(call, 1, &each) : COMPUTE_OK;
  if (status) return status;
  if (each < 1) return call_fail(call, COMPUTE_ERROR_SHAPE, "parts of %" PRId64, each);
  *count = (size_t)(size / each + (size % each != 0));
  int64_t *made = call_allocate(call, *count, sizeof *made);
  if (!made) return call_out_of_memory(call);
  for (size_t i = 0; i < *count; i++) {
    const int64_t left = size - (int64_t)i * each;
    made[i] = left < each ? left : each;
  }
  *sizes = made;
  return COMPUTE_OK;
}

static compute_status split(model_call *call) {
  const compute_shape shape = call_shape(call, 0);
  int32_t axis;
  compute_status status = call_axis(call, call_attribute_i(call, "axis", 0), shape.rank, &axis);
  if (status) return status;
  const int64_t *sizes;
  size_t count;
  status = take_parts(call, shape_at(shape, axis), &sizes, &count);
  if (status) return status;
  const bool drop = !call_has(call, 1) && call_attribute_i(call, "keepdims", 1) == 0;
  model_value *items = new_items(call, count);
  if (!items) return call_out_of_memory(call);
  int64_t start = 0;
  for (size_t i = 0; i < count; i++) {
    compute_node part = compute_slice(call->graph, call_input(call, 0), axis, start, sizes[i], 1);
    start += sizes[i];
    if (drop) {
      compute_shape less = {.rank = shape.rank - 1};
      for (int32_t k = 0; k < less.rank; k++) shape_set(&less, k, shape_at(shape, k + (k >= axis)));
      part = compute_reshape(call->graph, part, less);
    }
    items[i] = (model_value){.kind = VALUE_TENSOR,
                             .type = call_type(call, 0),
                             .id = -1,
                             .dtype = call_dtype(call, 0),
                             .node = part,
                             .shape = compute_node_shape(call->graph, part)};
  }
  return output_sequence(call, items, count);
}

/* ---- Optionals ------------------------------------------------------------------------------ */

static compute_status make_optional(model_call *call) {
  if (call_has(call, 0) && call->inputs[0]->kind == VALUE_OPTIONAL)
    return call_fail(call, COMPUTE_ERROR_DTYPE, "an optional cannot hold an optional");
  model_value *item = new_items(call, 1);
  if (!item) return call_out_of_memory(call);
  model_value value = {.kind = VALUE_OPTIONAL, .id = -1, .items = item};
  if (call_has(call, 0)) {
    *item = *call->inputs[0];
    value.item_count = 1;
  }
  return call_output_value(call, 0, &value);
}

static compute_status has_element(model_call *call) {
  const uint8_t has = call_has(call, 0) &&
                      (call->inputs[0]->kind != VALUE_OPTIONAL || call->inputs[0]->item_count > 0);
  return call_output_host(call, 0, COMPUTE_BOOL, COMPUTE_SCALAR, &has);
}

static compute_status get_element(model_call *call) {
  if (!call_has(call, 0)) return call_fail(call, COMPUTE_ERROR_FORMAT, "it has no input");
  if (call->inputs[0]->kind != VALUE_OPTIONAL) return call_output_value(call, 0, call->inputs[0]);
  if (!call->inputs[0]->item_count)
    return call_fail(call, COMPUTE_ERROR_INVALID_ARGUMENT, "the optional is empty");
  return call_output_value(call, 0, &call->inputs[0]->items[0]);
}

/* ---- SequenceMap ----------------------------------------------------------------------------- */

typedef struct map_state {
  size_t round, rounds;
} map_state;

static compute_status begin_map(model_call *call, const map_state *state);

/* The values collected in the loop are the outputs of the body, iteration by iteration. */
static compute_status end_map(model_call *call, size_t rounds) {
  for (size_t k = 0; k < call->output_count; k++) {
    model_value *items = new_items(call, rounds);
    if (!items) return call_out_of_memory(call);
    for (size_t i = 0; i < rounds; i++) items[i] = *call_held(call, i * call->output_count + k);
    const model_value sequence = {
        .kind = VALUE_SEQUENCE, .id = -1, .items = items, .item_count = rounds};
    call_output_value(call, k, &sequence);
  }
  return COMPUTE_OK;
}

static compute_status finish_map(model_call *call, const void *from, model_value *const *outputs,
                                 size_t count) {
  map_state state = *(const map_state *)from;
  if (count < call->output_count)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "its body has too few outputs");
  for (size_t i = 0; i < call->output_count; i++) {
    compute_status status = check_item(call, outputs[i]);
    if (!status) status = call_hold(call, outputs[i]);
    if (status) return status;
  }
  return ++state.round < state.rounds ? begin_map(call, &state) : end_map(call, state.rounds);
}

static compute_status begin_map(model_call *call, const map_state *state) {
  model_value **inputs = call_allocate(call, call->input_count, sizeof *inputs);
  model_value *items = new_items(call, call->input_count);
  if (!inputs || !items) return call_out_of_memory(call);
  for (size_t i = 0; i < call->input_count; i++) {
    const bool sequence = call->inputs[i]->kind == VALUE_SEQUENCE;
    if (sequence && call->inputs[i]->item_count <= state->round)
      return call_fail(call, COMPUTE_ERROR_SHAPE, "its sequences differ in length");
    items[i] = sequence ? call->inputs[i]->items[state->round] : *call->inputs[i];
    inputs[i] = &items[i];
  }
  const onnx_attribute *body = call_attribute(call, "body");
  if (!body || !body->graph) return call_fail(call, COMPUTE_ERROR_FORMAT, "its body is missing");
  return call_record_graph(call, body->graph, inputs, call->input_count, finish_map, state,
                           sizeof *state);
}

static compute_status map(model_call *call) {
  const model_value *from = NULL;
  const compute_status status = take_sequence(call, &from);
  if (status) return status;
  const map_state state = {0, from->item_count};
  return state.rounds ? begin_map(call, &state) : end_map(call, 0);
}

static const operator_row rows[] = {
    {"", "SequenceConstruct", 11, construct},
    {"", "SequenceEmpty", 11, empty},
    {"", "SequenceInsert", 11, insert},
    {"", "SequenceErase", 11, erase},
    {"", "SequenceAt", 11, item_at},
    {"", "SequenceLength", 11, length},
    {"", "ConcatFromSequence", 11, concatenate},
    {"", "SplitToSequence", 11, split},
    {"", "SequenceMap", 17, map},
    {"", "Optional", 15, make_optional},
    {"", "OptionalHasElement", 15, has_element},
    {"", "OptionalGetElement", 15, get_element},
};

const operator_family operators_sequence = OPERATOR_FAMILY(rows);
