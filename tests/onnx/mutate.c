/* SPDX-License-Identifier: MIT */
/* Structural mutation: see mutate.h. A change is made at one place of the message, drawn among all
 * places of a few kinds; the rest is copied. */
#include "onnx/mutate.h"

#include <string.h>

#include "model/onnx.h"
#include "model/record.h"

/* ---- Drawing -------------------------------------------------------------------------------- */

uint64_t draw_next(draw *d) {
  uint64_t z = d->state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

uint32_t draw_below(draw *d, uint32_t count) {
  return (uint32_t)(draw_next(d) % count);
}

int64_t draw_integer(draw *d) {
  /* No values between: such sizes would take minutes of work. */
  static const int64_t wild[] = {INT64_MIN, INT64_MAX,        -1, INT32_MAX,          INT32_MIN, -8,
                                 300,       INT64_C(1) << 40, 9,  -(INT64_C(1) << 40)};
  return draw_below(d, 8) ? (int64_t)draw_below(d, 6) - (draw_below(d, 3) == 0 ? 3 : 0)
                          : wild[draw_below(d, sizeof wild / sizeof *wild)];
}

static int32_t draw_type(draw *d) {
  return 1 + (int32_t)draw_below(d, 23); /* of TensorProto.DataType */
}

/* ---- Messages of ONNX ----------------------------------------------------------------------- */

typedef enum kind {
  LEAF,
  MODEL,
  OPSET,
  GRAPH,
  NODE,
  ATTRIBUTE,
  TENSOR,
  VALUE,
  TYPE,
  TENSOR_TYPE,
  SHAPE,
  DIMENSION,
  FUNCTION
} kind;

/* The message type of a field. */
static const struct {
  kind of;
  uint32_t number;
  kind is;
} parts[] = {{MODEL, 7, GRAPH},      {MODEL, 8, OPSET},       {MODEL, 25, FUNCTION},
             {FUNCTION, 7, NODE},    {GRAPH, 1, NODE},        {GRAPH, 5, TENSOR},
             {GRAPH, 11, VALUE},     {GRAPH, 12, VALUE},      {NODE, 5, ATTRIBUTE},
             {ATTRIBUTE, 5, TENSOR}, {ATTRIBUTE, 6, GRAPH},   {VALUE, 2, TYPE},
             {TYPE, 1, TENSOR_TYPE}, {TENSOR_TYPE, 2, SHAPE}, {SHAPE, 1, DIMENSION}};

static kind part_of(kind of, const wire_field *field) {
  for (size_t i = 0; field->type == WIRE_BYTES && i < sizeof parts / sizeof *parts; i++)
    if (parts[i].of == of && parts[i].number == field->number) return parts[i].is;
  return LEAF;
}

/* Returns true if a change may begin here: at shapes, dtypes, operands and attributes. */
static bool may_change(kind of, const wire_field *field) {
  switch (of) {
  case OPSET: return field->number == 2;
  case GRAPH: return field->number == 1 || field->number == 11 || field->number == 5;
  case NODE: return field->number != 3 && field->number != 6 && field->number != 7;
  case ATTRIBUTE: return field->number != 13;
  case TENSOR: return field->number == 1 || field->number == 2;
  case VALUE: return field->number == 2;
  case TENSOR_TYPE:
  case SHAPE:
  case DIMENSION: return true;
  default: return false;
  }
}

/* ---- One change ----------------------------------------------------------------------------- */

typedef struct mutation {
  draw *d;
  wire model;
  uint32_t at, place; /* places counted so far, and the one to change */
} mutation;

/* The name of a value: one of this model, or an unknown one. */
static void put_name(mutation *m, message *to, uint32_t number) {
  const wire graph = message_find(m->model, 7);
  uint32_t seen = 0, wanted = draw_below(m->d, 12);
  wire nodes = graph, found = {0};
  for (wire_field node; wire_next(&nodes, &node) == WIRE_FIELD;) {
    if (node.type != WIRE_BYTES || (node.number != 1 && node.number != 11 && node.number != 5))
      continue;
    const uint32_t names = node.number == 11 ? 1 : node.number == 5 ? 8 : 0;
    wire fields = node.bytes;
    for (wire_field f; wire_next(&fields, &f) == WIRE_FIELD;)
      if (f.type == WIRE_BYTES && (names ? f.number == names : f.number == 1 || f.number == 2) &&
          (!found.at || seen++ < wanted))
        found = f.bytes;
  }
  if (draw_below(m->d, 4) == 0) found = (wire){0};
  message_bytes(to, number, found.at ? (const void *)found.at : "", wire_bytes(found));
}

static void put_operator(mutation *m, message *to) {
  uint32_t count = 0;
  while (operator_at(count)) count++;
  message_text(to, 4, operator_at(draw_below(m->d, count))->name);
}

static void put_text(mutation *m, message *to, uint32_t number) {
  static const char *const texts[] = {"",
                                      "relu",
                                      "tanh",
                                      "SAME_UPPER",
                                      "SAME_LOWER",
                                      "VALID",
                                      "reverse",
                                      "bidirectional",
                                      "linear",
                                      "cubic",
                                      "nearest",
                                      "constant",
                                      "reflect",
                                      "edge",
                                      "wrap",
                                      "add",
                                      "mul",
                                      "max",
                                      "none",
                                      "sum",
                                      "mean",
                                      "ij,jk->ik",
                                      "...i->i",
                                      "ii->i",
                                      "i,i",
                                      "align_corners",
                                      "asymmetric",
                                      "DCR",
                                      "tf_crop_and_resize",
                                      "avg",
                                      "zeros",
                                      "border",
                                      "half_pixel",
                                      "bilinear",
                                      "forward",
                                      "i->ii"};
  message_text(to, number, texts[draw_below(m->d, sizeof texts / sizeof *texts)]);
}

/* Bytes of packed integers; one of them is changed, omitted or added. */
static void put_packed(mutation *m, message *to, const wire_field *field) {
  message packed = {0};
  wire from = field->bytes;
  const uint32_t changed = draw_below(m->d, 4), how = draw_below(m->d, 3);
  uint64_t value;
  for (uint32_t i = 0; from.at < from.end && wire_take_varint(&from, &value); i++) {
    if (i == changed && how == 0) continue;
    if (i == changed && how == 1) value = (uint64_t)draw_integer(m->d);
    message_varint(&packed, value);
    if (i == changed && how == 2) message_varint(&packed, (uint64_t)draw_integer(m->d));
  }
  message_take(to, field->number, &packed);
}

static void put_integer_like(mutation *m, message *to, kind of, uint32_t number) {
  const bool is_type = (of == TENSOR && number == 2) || (of == TENSOR_TYPE && number == 1);
  int64_t value = draw_integer(m->d);
  if (is_type) value = draw_type(m->d);
  if (of == OPSET) value = 1 + draw_below(m->d, 24);
  if (of == ATTRIBUTE && number == 20) value = draw_below(m->d, 12);
  message_integer(to, number, (uint64_t)value);
}

static void put_changed(mutation *m, message *to, kind of, const wire_field *field) {
  static const uint32_t wild[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x7f7fffff, 1, 0x80000000};
  if (field->type == WIRE_VARINT) {
    put_integer_like(m, to, of, field->number);
  } else if (field->type == WIRE_FIXED32) {
    message_copy(to, &(wire_field){.number = field->number,
                                   .type = WIRE_FIXED32,
                                   .value = wild[draw_below(m->d, sizeof wild / sizeof *wild)]});
  } else if (of == NODE && (field->number == 1 || field->number == 2)) {
    put_name(m, to, field->number);
  } else if (of == NODE && field->number == 4) {
    put_operator(m, to);
  } else if (of == ATTRIBUTE && field->number == 4) {
    put_text(m, to, 4);
  } else if ((of == ATTRIBUTE && field->number == 8) || (of == TENSOR && field->number == 1)) {
    put_packed(m, to, field);
  } else if (draw_below(m->d, 2)) {
    message_copy(to, field); /* twice or never */
    message_copy(to, field);
  }
}

/* Omits, repeats or changes a field. */
static void put_mutated(mutation *m, message *to, kind of, const wire_field *field) {
  switch (draw_below(m->d, 5)) {
  case 0: break;
  case 1:
    message_copy(to, field);
    put_changed(m, to, of, field);
    break;
  default: put_changed(m, to, of, field); break;
  }
}

static message copy_changed(mutation *m, wire from, kind of) {
  message to = {0};
  for (wire_field field; wire_next(&from, &field) == WIRE_FIELD;) {
    if (may_change(of, &field) && m->at++ == m->place) {
      put_mutated(m, &to, of, &field);
      continue;
    }
    const kind is = part_of(of, &field);
    if (is == LEAF) {
      message_copy(&to, &field);
    } else {
      message part = copy_changed(m, field.bytes, is);
      message_take(&to, field.number, &part);
    }
  }
  return to;
}

/* ---- Tensors with matching elements ---------------------------------------------------------- */

/* A tensor of another dtype or shape with the matching number of bytes. If only the fields changed,
 * the reader would refuse it. */
static message redraw_tensor(draw *d, wire from) {
  message to = {0};
  const wire name = message_find(from, 8);
  const int32_t type = draw_below(d, 3) ? draw_type(d) : ONNX_INT64;
  const uint32_t rank = draw_below(d, 4);
  uint64_t count = 1;
  for (uint32_t i = 0; i < rank; i++) {
    const uint64_t size = draw_below(d, 12) ? 1 + draw_below(d, 4) : 0;
    message_integer(&to, 1, size);
    count *= size;
  }
  message_integer(&to, 2, (uint64_t)type);
  if (name.at) message_bytes(&to, 8, name.at, wire_bytes(name));
  uint8_t data[64 * 8];
  const size_t size = compute_dtype_size(onnx_dtype(type));
  for (size_t i = 0; i < count; i++) {
    const int64_t value = draw_integer(d);
    memcpy(data + i * size, &value, size); /* floats get random bits as well */
  }
  message_bytes(&to, 9, data, count * size);
  return to;
}

/* An unchanged input with another dtype. */
static message retype(wire from, kind of, int32_t type) {
  message to = {0};
  for (wire_field field; wire_next(&from, &field) == WIRE_FIELD;) {
    const kind is = part_of(of, &field);
    if (of == TENSOR_TYPE && field.number == 1) {
      message_integer(&to, 1, (uint64_t)type);
    } else if (is == TYPE || is == TENSOR_TYPE) {
      message part = retype(field.bytes, is, type);
      message_take(&to, field.number, &part);
    } else {
      message_copy(&to, &field);
    }
  }
  return to;
}

/* The graph with one change: a constant is drawn again, an input becomes a constant, or an input
 * gets another dtype. */
static message redraw_one(draw *d, wire graph) {
  message to = {0};
  const bool retypes = draw_below(d, 2);
  const uint32_t wanted = draw_below(d, retypes ? 3 : 6);
  uint32_t seen = 0;
  for (wire_field field; wire_next(&graph, &field) == WIRE_FIELD;) {
    if (field.number != 5 && field.number != 11) {
      message_copy(&to, &field);
    } else if (seen++ != wanted || (retypes && field.number == 5)) {
      message_copy(&to, &field);
    } else if (retypes) {
      message value = retype(field.bytes, VALUE, 1 + (int32_t)draw_below(d, 16));
      message_take(&to, 11, &value);
    } else {
      message named = {0};
      const wire name = message_find(field.bytes, field.number == 5 ? 8 : 1);
      message_bytes(&named, 8, name.at ? (const void *)name.at : "", wire_bytes(name));
      message tensor = redraw_tensor(d, message_wire(&named));
      message_take(&to, 5, &tensor);
      message_release(&named);
    }
  }
  return to;
}

static message redraw_constants(draw *d, wire model) {
  message to = {0};
  for (wire_field field; wire_next(&model, &field) == WIRE_FIELD;) {
    if (field.number != 7 || field.type != WIRE_BYTES) {
      message_copy(&to, &field);
      continue;
    }
    message graph = redraw_one(d, field.bytes);
    message_take(&to, 7, &graph);
  }
  return to;
}

/* ---- A model --------------------------------------------------------------------------------- */

static message mutate_once(draw *d, wire model) {
  const uint32_t how = draw_below(d, 3);
  if (how == 0) return redraw_constants(d, model);
  if (how == 1) return redraw_attributes(d, model);
  mutation m = {.d = d, .model = model, .place = UINT32_MAX};
  message whole = copy_changed(&m, model, MODEL);
  if (m.at == 0) return whole;
  message_release(&whole);
  m.place = draw_below(d, m.at);
  m.at = 0;
  return copy_changed(&m, model, MODEL);
}

message mutate_model(wire model, draw *d, uint32_t count) {
  message result = mutate_once(d, model);
  for (uint32_t i = 1; i < count; i++) {
    message more = mutate_once(d, message_wire(&result));
    message_release(&result);
    result = more;
  }
  return result;
}
