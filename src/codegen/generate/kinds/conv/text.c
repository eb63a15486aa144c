/* SPDX-License-Identifier: MIT */
/* The text that all variants of convolution share. */
#include <stdio.h>

#include "codegen/generate/kinds/conv/conv.h"

enum { COMBINE_GROUP = 64 };

void conv_define(generation *g, conv_problem *p) {
  const char *column = p->position_columns ? "POSITION" : "CHANNEL";
  const char *row = p->position_columns ? "CHANNEL" : "POSITION";
  text_buffer *text = &g->definitions;
  gemm_define(g, &p->product, true);
  for (int i = 0; i < 2; i++) {
    const char *name = i ? "WEIGHT" : "DATA";
    const char letter = p->position_columns == (i == 0) ? 'B' : 'A';
    text_add(text, "#define LOAD_%s(i) LOAD_%c(i)\n#define %s_TYPE %c_TYPE\n#define IN_%s IN_%c\n",
             name, letter, name, letter, name, letter);
  }
  text_add(text, "#define %s column\n#define %s row\n", column, row);
  text_add(text, "#define ROWS %s\n#define COLUMNS %s\n",
           p->position_columns ? "shape.channels" : "POSITIONS",
           p->position_columns ? "POSITIONS" : "shape.channels");
  text_add(text, "#define DATA_V %s\n", p->data_plane[1] == 1 ? "1" : "shape.data_v");
  text_add(text, "#define WEIGHT_K2 %s\n", p->weight_term[2] == 1 ? "1" : "shape.weight_k2");
  emit_constant(g, "PHASED", p->phased);
  emit_constant(g, "TERM_CHANNELS_FAST", p->channels_fast);
  emit_template(g, text, "conv_window");
}

static void phase_fields(generation *g, emit_launch *launch, const conv_problem *p) {
  const compute_conv_attributes *c = compute_conv_of(g->descriptor);
  char name[32];
  for (int i = 0; i < 2; i++) {
    const struct {
      const char *name;
      int64_t value;
    } fields[] = {{"size", c->data_size[i]},       {"stride", c->stride[i]},
                  {"padding", c->padding[i]},      {"dilation", c->dilation[i]},
                  {"filter", c->filter_size[i]},   {"tap_step", p->tap_step[i]},
                  {"weight_tap", p->weight_tap[i]}};
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
      snprintf(name, sizeof name, "%s_%c", fields[f].name, i ? 'v' : 'h');
      emit_field_index(g, launch, name, fields[f].value);
    }
  }
}

static void window_fields(generation *g, emit_launch *launch, const conv_problem *p) {
  char name[32];
  emit_field_index(g, launch, "m0", p->position_size[0]);
  emit_field_divisor(g, launch, "k0", p->term_size[0]);
  if (p->phased) {
    phase_fields(g, launch, p);
  } else {
    emit_field_divisor(g, launch, "m1", p->position_size[1]);
    emit_field_divisor(g, launch, "m2", p->position_size[2]);
    emit_field_divisor(g, launch, "k1", p->term_size[1]);
    emit_field_divisor(g, launch, "k2", p->term_size[2]);
    emit_field_index(g, launch, "h_first", p->first[0]);
    emit_field_index(g, launch, "v_first", p->first[1]);
    emit_field_index(g, launch, "positions", p->positions);
    emit_field_index(g, launch, "terms", p->terms);
  }
  emit_field_index(g, launch, "channels", p->channels);
  emit_field_index(g, launch, "height", p->bound[0]);
  emit_field_index(g, launch, "width", p->bound[1]);
  emit_field_index(g, launch, "data_m0", p->data_position);
  emit_field_index(g, launch, "data_k0", p->data_term);
  for (int i = 0; i < 2; i++) {
    const char letter = i ? 'v' : 'h';
    snprintf(name, sizeof name, "data_%c", letter);
    emit_field_index(g, launch, name, p->data_plane[i]);
    snprintf(name, sizeof name, "%c_m", letter);
    emit_field_index(g, launch, name, p->by_position[i]);
    snprintf(name, sizeof name, "%c_k", letter);
    emit_field_index(g, launch, name, p->by_term[i]);
  }
  emit_field_index(g, launch, "weight_channel", p->weight_channel);
  for (int i = 0; i < 3; i++) {
    snprintf(name, sizeof name, "weight_k%d", i);
    emit_field_index(g, launch, name, p->weight_term[i]);
  }
}

void conv_take(generation *g, emit_launch *launch, const conv_problem *p) {
  gemm_take_factors(g, launch, &p->product);
}

void conv_take_epilogue(generation *g, emit_launch *launch, const conv_problem *p) {
  gemm_take_epilogue(g, launch, &p->product);
}

void conv_begin_batches(generation *g, emit_launch *launch, const conv_problem *p) {
  window_fields(g, launch, p);
  emit_space_fields(g, launch, &p->tile, 0, p->tile.rank);
  gemm_begin_batches(g, launch, &p->product);
  if (p->phased) text_add(&launch->body, "BEGIN_WINDOW\nif (POSITIONS == 0) continue;\n");
}

void conv_store_at(generation *g, text_buffer *text, const conv_problem *p, const char *sum) {
  static const char *const digits[] = {"m0", "m1", "m2", "CHANNEL"};
  char argument[96];
  text_add(text, "{\n");
  for (uint32_t i = 0; i < p->tile.walk_count; i++) {
    const char *walk = p->tile.walk[i].name;
    text_add(text, "const INDEX at_%s = batch_%s", walk, walk);
    for (int32_t d = 0; d < p->tile.rank; d++) emit_term(text, &p->tile, walk, d, digits[d]);
    text_add(text, ";\n");
  }
  snprintf(argument, sizeof argument, "(%s)(%s)", emit_type(p->product.accumulate), sum);
  emit_apply(g, text, &p->product.epilogue, argument, "at_$");
  text_add(text, "\n}\n");
}

void conv_store(generation *g, text_buffer *text, const conv_problem *p, const char *sum) {
  text_add(text, "{\nSPLIT_POSITION(POSITION)\n");
  conv_store_at(g, text, p, sum);
  text_add(text, "}\n");
}

/* ---- Parts --------------------------------------------------------------------------------- */

conv_parts conv_cut(const conv_problem *p, uint32_t parts, uint32_t multiple) {
  const int64_t pieces = (p->terms + multiple - 1) / multiple;
  conv_parts cut = {.count = 1, .length = pieces * multiple};
  if (parts < 2 || pieces == 0) return cut;
  cut.length = (pieces + parts - 1) / parts * multiple;
  cut.count = (p->terms + cut.length - 1) / cut.length;
  return cut;
}

void conv_find_part(generation *g, emit_launch *launch, const conv_parts *parts) {
  emit_field_index(g, launch, "part", parts->length);
  text_add(&launch->body,
           "const INDEX k_begin = (INDEX)GROUP_ID_Y * shape.part;\n"
           "const INDEX k_end = TERMS - k_begin < shape.part ? TERMS : k_begin + shape.part;\n");
}

void conv_emit_combine(generation *g, const conv_problem *p, const conv_parts *parts) {
  const uint32_t limit = emit_group_limit(g), group = limit < COMBINE_GROUP ? limit : COMBINE_GROUP;
  const int64_t elements = p->positions * p->channels;
  emit_launch *launch =
      gemm_launch(g, &p->product, "conv_combine", group, (elements + group - 1) / group, 1);
  if (!launch) return;
  emit_workspace(g, launch, "partial", "SUM", p->product.sum_bytes, 0, false);
  conv_take_epilogue(g, launch, p);
  emit_field_divisor(g, launch, "columns", p->product.n);
  emit_field_index(g, launch, "elements", elements);
  emit_field_index(g, launch, "parts", parts->count);
  text_buffer *text = &launch->body;
  gemm_begin_element(text, group, "columns");
  conv_begin_batches(g, launch, p);
  gemm_add_parts(text);
  conv_store(g, text, p, "sum");
  text_add(text, "}\n");
}
