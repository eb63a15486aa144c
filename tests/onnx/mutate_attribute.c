/* SPDX-License-Identifier: MIT */
/* Attributes with extreme values: see mutate.h. An existing attribute is drawn again, or the node
 * gets some of a family that it does not have. */
#include <string.h>

#include "model/onnx.h"
#include "onnx/mutate.h"

enum { NODE_ATTRIBUTE = 5, GRAPH_NODE = 1, MODEL_GRAPH = 7, LONG_TEXT = 5000 };

/* ---- Values ---------------------------------------------------------------------------------- */

static int64_t draw_extreme(draw *d) {
  static const int64_t values[] = {0,
                                   0,
                                   1,
                                   1,
                                   -1,
                                   2,
                                   -2,
                                   7,
                                   INT32_MAX,
                                   INT32_MIN,
                                   INT64_C(1) << 31,
                                   INT64_C(1) << 32,
                                   (INT64_C(1) << 32) + 1,
                                   (INT64_C(1) << 53) + 1,
                                   INT64_C(1) << 62,
                                   -(INT64_C(1) << 62),
                                   INT64_MAX,
                                   INT64_MAX - 1,
                                   INT64_MIN,
                                   INT64_MIN + 1};
  return values[draw_below(d, sizeof values / sizeof *values)];
}

/* NaN, infinities, the largest, the smallest, zeros, ordinary values, and values beyond the range
 * of integers. */
static uint32_t draw_bits(draw *d) {
  static const uint32_t bits[] = {0x7fc00000, 0xffc00000, 0x7f800000, 0xff800000, 0x7f7fffff,
                                  0xff7fffff, 0x00000001, 0x80000000, 0x00000000, 0x3f800000,
                                  0xbf800000, 0x3f000000, 0x5f000000, 0xdf000000, 0x4f000000};
  return bits[draw_below(d, sizeof bits / sizeof *bits)];
}

static void put_float(message *to, uint32_t number, uint32_t bits) {
  message_copy(to, &(wire_field){.number = number, .type = WIRE_FIXED32, .value = bits});
}

/* Mostly a valid length; also none, one, and more than the maximum rank. */
static uint32_t draw_length(draw *d) {
  static const uint32_t lengths[] = {0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 6, 8, 9, 17, 64, 1000};
  return lengths[draw_below(d, sizeof lengths / sizeof *lengths)];
}

static void put_integers(draw *d, message *to, uint32_t length) {
  const uint32_t how = draw_below(d, 3);
  const int64_t all = draw_extreme(d);
  const uint32_t odd = length > 0 ? draw_below(d, length) : 0;
  for (uint32_t i = 0; i < length; i++) {
    int64_t value = how == 0 ? draw_extreme(d) : all;
    if (how == 2 && i != odd) value = 1;
    message_integer(to, 8, (uint64_t)value);
  }
}

static void put_text(draw *d, message *to, uint32_t number) {
  static const char *const texts[] = {"", " ", "%s%n", "\xff\xfe", "relu", "i,j->", "...,...->..."};
  char text[LONG_TEXT];
  memset(text, 'i', sizeof text);
  switch (draw_below(d, 4)) {
  case 0: message_bytes(to, number, text, sizeof text); break;
  case 1: message_bytes(to, number, "a\0b", 3); break;
  default: message_text(to, number, texts[draw_below(d, sizeof texts / sizeof *texts)]); break;
  }
}

/* An attribute of this name and type; a list of integers has `length` elements. */
static message draw_attribute(draw *d, const void *name, size_t name_bytes, int type,
                              uint32_t length) {
  message to = {0};
  message_bytes(&to, 1, name, name_bytes);
  switch (type) {
  case ONNX_ATTRIBUTE_FLOAT: put_float(&to, 2, draw_bits(d)); break;
  case ONNX_ATTRIBUTE_INT: message_integer(&to, 3, (uint64_t)draw_extreme(d)); break;
  case ONNX_ATTRIBUTE_STRING: put_text(d, &to, 4); break;
  case ONNX_ATTRIBUTE_FLOATS:
    for (uint32_t i = draw_length(d); i > 0; i--) put_float(&to, 7, draw_bits(d));
    break;
  case ONNX_ATTRIBUTE_INTS: put_integers(d, &to, length); break;
  case ONNX_ATTRIBUTE_STRINGS:
    for (uint32_t i = draw_length(d); i > 0; i--) put_text(d, &to, 9);
    break;
  default: break;
  }
  message_integer(&to, 20, (uint64_t)type);
  return to;
}

/* ---- Families -------------------------------------------------------------------------------- */

/* Names, each after the letter of its type: Integer, Real, Text, or in lower case a list of
 * them. */
static const char *const families[][13] = {
    {"ikernel_shape", "istrides", "ipads", "idilations", "Igroup", "Iceil_mode", "Tauto_pad",
     "Icount_include_pad", "Istorage_order", "ioutput_shape", "ioutput_padding", "Ip"},
    {"Iaxis", "iaxes", "Ikeepdims", "Inoop_with_empty_axes", "Iselect_last_index", "Iexclusive",
     "Ireverse", "Ilargest", "Isorted", "Ik", "Ibatch_dims", "Inew_axis"},
    {"Ito", "Idtype", "Isaturate", "Iblock_size", "Ioutput_dtype", "Iprecision", "Tround_mode",
     "Iaxis", "Iblocksize", "Ifmod", "Tdirection", "Tmode"},
    {"Ihidden_size", "Tdirection", "tactivations", "ractivation_alpha", "ractivation_beta", "Rclip",
     "Iinput_forget", "Ilayout", "Ilinear_before_reset"},
    {"Iq_num_heads", "Ikv_num_heads", "Rscale", "Rsoftcap", "Iis_causal", "Iqk_matmul_output_mode",
     "Isoftmax_precision", "Iinterleaved", "Inum_heads", "Irotary_embedding_dim",
     "Ileft_window_size", "Iright_window_size"},
    {"Tmode", "Tcoordinate_transformation_mode", "Tnearest_mode", "Rcubic_coeff_a",
     "Iexclude_outside", "Rextrapolation_value", "iaxes", "Iantialias", "Tkeep_aspect_ratio_policy",
     "rscales", "Ialign_corners", "Tpadding_mode"},
    {"Ialpha", "Ralpha", "Rbeta", "Rgamma", "Repsilon", "Rbias", "Rlambd", "Rmomentum", "Isize",
     "Inum_groups", "Istash_type", "Itraining_mode"},
    {"iperm", "ishape", "Iallowzero", "Iaxis", "istarts", "iends", "isteps", "isplit",
     "Inum_outputs", "Iupper", "Istart", "Iend"},
    {"Ionesided", "Iinverse", "Iperiodic", "Ioutput_datatype", "Isample_size", "Rseed", "Rlow",
     "Rhigh", "Rmean", "Rscale", "Ibatch_axis", "Itime_axis"},
    {"Ioutput_height", "Ioutput_width", "Isampling_ratio", "Rspatial_scale", "Icenter_point_box",
     "Tmode", "ipooled_shape", "Igroups", "Ioffset_group", "Idetect_positive", "Idetect_negative",
     "Iignore_index"}};

static int type_of(char letter) {
  switch (letter) {
  case 'R': return ONNX_ATTRIBUTE_FLOAT;
  case 'T': return ONNX_ATTRIBUTE_STRING;
  case 'i': return ONNX_ATTRIBUTE_INTS;
  case 'r': return ONNX_ATTRIBUTE_FLOATS;
  case 't': return ONNX_ATTRIBUTE_STRINGS;
  default: return ONNX_ATTRIBUTE_INT;
  }
}

static void add_family(draw *d, message *node) {
  const char *const *family = families[draw_below(d, sizeof families / sizeof *families)];
  uint32_t count = 0;
  while (family[count]) count++;
  for (uint32_t i = 1 + draw_below(d, 3); i > 0; i--) {
    const char *name = family[draw_below(d, count)];
    message attribute =
        draw_attribute(d, name + 1, strlen(name + 1), type_of(name[0]), draw_length(d));
    message_take(node, NODE_ATTRIBUTE, &attribute);
  }
}

/* ---- A node ---------------------------------------------------------------------------------- */

static uint32_t count_fields(wire from, uint32_t number) {
  uint32_t count = 0;
  for (wire_field field; wire_next(&from, &field) == WIRE_FIELD;) count += field.number == number;
  return count;
}

/* The number of integers of an attribute, packed or as single fields. */
static uint32_t count_integers(wire attribute) {
  const wire packed = message_find(attribute, 8);
  if (!packed.at) return count_fields(attribute, 8);
  uint32_t count = 0;
  for (const uint8_t *at = packed.at; at < packed.end; at++) count += *at < 0x80;
  return count;
}

/* Another attribute of this type. Lists mostly keep their length, since a wrong length is refused
 * early. */
static message redraw_attribute(draw *d, wire from, wire name, int type) {
  const uint32_t length = draw_below(d, 4) ? count_integers(from) : draw_length(d);
  return draw_attribute(d, name.at, wire_bytes(name), type, length);
}

/* Draws each attribute with some probability, and at least one. Tensors and graphs stay. */
static message redraw_node(draw *d, wire node) {
  message to = {0};
  const uint32_t count = count_fields(node, NODE_ATTRIBUTE);
  const uint32_t wanted = count > 0 ? draw_below(d, count) : 0;
  uint32_t seen = 0;
  for (wire_field field; wire_next(&node, &field) == WIRE_FIELD;) {
    const bool drawn = field.number == NODE_ATTRIBUTE && field.type == WIRE_BYTES &&
                       (seen++ == wanted || draw_below(d, 4) == 0);
    const wire name = drawn ? message_find(field.bytes, 1) : (wire){0};
    const int type = drawn ? (int)message_find_integer(field.bytes, 20) : 0;
    if (!name.at || type == ONNX_ATTRIBUTE_TENSOR || type == ONNX_ATTRIBUTE_GRAPH) {
      message_copy(&to, &field);
      continue;
    }
    message attribute = redraw_attribute(d, field.bytes, name, type);
    message_take(&to, NODE_ATTRIBUTE, &attribute);
  }
  if (count == 0 || draw_below(d, 3) == 0) add_family(d, &to);
  return to;
}

/* The message after `change` of its `wanted`-th field with this number. */
static message change_field(draw *d, wire from, uint32_t number, uint32_t wanted,
                            message (*change)(draw *d, wire from)) {
  message to = {0};
  uint32_t seen = 0;
  for (wire_field field; wire_next(&from, &field) == WIRE_FIELD;) {
    if (field.number != number || field.type != WIRE_BYTES || seen++ != wanted) {
      message_copy(&to, &field);
      continue;
    }
    message part = change(d, field.bytes);
    message_take(&to, number, &part);
  }
  return to;
}

static message redraw_in_graph(draw *d, wire graph) {
  const uint32_t nodes = count_fields(graph, GRAPH_NODE);
  return change_field(d, graph, GRAPH_NODE, nodes > 0 ? draw_below(d, nodes) : 0, redraw_node);
}

message redraw_attributes(draw *d, wire model) {
  return change_field(d, model, MODEL_GRAPH, 0, redraw_in_graph);
}
