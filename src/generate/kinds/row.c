/* ROW: softmax, log-softmax and normalize along the last dimension, with a prologue and an
 * epilogue.
 *
 * Templates do the work, two for devices with groups and two for CPUs (row_plan.c chooses); around
 * them stand macros written here. Where there are few rows, each is cut into parts, which a first
 * launch measures; a second merges what the first left in the workspace and finishes. No atomics:
 * the same input gives the same bits. */
#include "generate/kinds/row.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct row_kernel {
  generation *g;
  emit_function prologue, epilogue;
  fold_order order;
  emit_space space;
  row_problem problem;
  row_cut cut;
} row_kernel;

static int64_t count_rows(const compute_kernel_descriptor *d) {
  int64_t count = 1;
  for (int32_t i = 0; i + 1 < d->rank; i++) count *= d->size[i];
  return count;
}

static void make_space(row_kernel *r) {
  generation *g = r->g;
  const compute_kernel_descriptor *d = g->descriptor;
  row_problem *p = &r->problem;
  p->rows = count_rows(d);
  p->length = d->size[d->rank - 1];
  p->bytes = fold_value_bytes(d->accumulate);
  r->order = fold_sort(d, d->rank - 1, d->prologue_inputs, &p->main_input);
  fold_space(&r->space, "space", d, &r->order, d->rank);
  r->space.fence = d->rank - 1;
  fold_add_function(&r->space, d, &r->prologue, &r->order, d->rank);
  fold_add_function(&r->space, d, &r->epilogue, &r->order, d->rank);
  fold_add_outputs(&r->space, d, &r->order);
  space_canonicalise(g, &r->space);
  /* Loops step past the end by as much as a group takes. */
  if (p->rows > INT32_MAX / 2 || p->length > INT32_MAX / 2) g->wide = true;
  p->space = &r->space;
}

/* ---- Text ---------------------------------------------------------------------------------- */

static void define_row(row_kernel *r) {
  generation *g = r->g;
  const compute_kernel_descriptor *d = g->descriptor;
  const row_cut *cut = &r->cut;
  const bool wide = d->accumulate == COMPUTE_F64;
  text_buffer *text = &g->definitions;
  fold_define(text, "VALUE", emit_type(d->accumulate));
  fold_define_number(text, "ROW_OPERATION", (int64_t)compute_row_of(d)->operation);
  if (compute_row_of(d)->operation == COMPUTE_ROW_NORMALIZE) {
    fold_define(text, "ROW_ROOT", wide ? "sqrt_f64" : "sqrt_f32");
  } else {
    fold_define(text, "ROW_EXP", wide ? "exp_f64" : "exp_f32");
    fold_define(text, "ROW_INFINITY", wide ? "INFINITY_f64" : "INFINITY_f32");
    fold_define(text, "ROW_NAN", wide ? "NAN_f64" : "NAN_f32");
  }
  if (compute_row_of(d)->operation == COMPUTE_ROW_LOG_SOFTMAX)
    fold_define(text, "ROW_LOG", wide ? "log_f64" : "log_f32");
  if (cut->form == ROW_HELD || cut->form == ROW_LONG) {
    fold_define_number(text, "ROW_GROUP", cut->group);
    fold_define_number(text, "ROW_LANES", cut->lanes);
    fold_define_number(text, "ROW_ROWS", cut->rows);
    fold_define_number(text, "ROW_ITEMS", cut->items);
    fold_define_number(text, "ROW_ACROSS", cut->across);
    fold_define_number(text, "ROW_PITCH", cut->across ? cut->rows : 1);
  } else {
    fold_define_number(text, "ROW_WIDTH", cut->width);
    fold_define_number(text, "ROW_HELD", cut->held);
  }
  if (cut->form != ROW_HELD) emit_template(g, text, "compensated.h");
  emit_template(g, text, "row.h");
  if (cut->form == ROW_ITEM) emit_template(g, text, "row_lines.h");
}

static void define_body(row_kernel *r, text_buffer *body) {
  generation *g = r->g;
  const emit_space *space = &r->space;
  const int32_t fence = space->fence;
  const bool tiled = r->cut.form == ROW_ACROSS;
  const char *index =
      tiled ? "row_$ + (INDEX)lane * across_$ + (at_step) * step_$" : "row_$ + (at_step) * step_$";
  text_buffer text = {0};
  fold_define_offsets(g, body, "ROW_OFFSETS", "at_row", space, 0, fence, "row");
  fold_steps(&text, "step", space, space->rank > fence ? space->rank - 1 : COMPUTE_MAX_RANK);
  if (tiled) fold_steps(&text, "across", space, fence > 0 ? fence - 1 : COMPUTE_MAX_RANK);
  fold_define_text(body, "ROW_STEPS", &text);
  emit_call(g, &text, &r->prologue, NULL, index);
  fold_define_text(body, "ELEMENT(at_step)", &text);
  fold_define_finish(g, body, &r->epilogue, "at_step, finished_value", "", "finished_value", index);
}

static const char *template_of(row_form form) {
  switch (form) {
  case ROW_HELD: return "row_held.h";
  case ROW_LONG: return "row_long.h";
  case ROW_ITEM: return "row_item.h";
  case ROW_ACROSS: break;
  }
  return "row_across.h";
}

/* ---- Launches ------------------------------------------------------------------------------ */

static void add_fields(row_kernel *r, emit_launch *launch) {
  generation *g = r->g;
  const compute_kernel_descriptor *d = g->descriptor;
  const row_cut *cut = &r->cut;
  emit_field_index(g, launch, "rows", r->problem.rows);
  emit_field_index(g, launch, "length", r->problem.length);
  emit_field_index(g, launch, "share", cut->share);
  emit_field_index(g, launch, "splits", cut->splits);
  emit_field_index(g, launch, "tiles", cut->tiles);
  if (cut->form == ROW_ITEM || cut->form == ROW_ACROSS) {
    emit_field_index(g, launch, "run", cut->run);
    emit_field_index(g, launch, "inner", cut->inner);
    emit_field_index(g, launch, "pieces", cut->pieces);
  }
  if (compute_row_of(d)->operation == COMPUTE_ROW_NORMALIZE) {
    if (d->accumulate == COMPUTE_F64)
      emit_field_f64(g, launch, "epsilon", compute_row_of(d)->epsilon);
    else
      emit_field_f32(g, launch, "epsilon", (float)compute_row_of(d)->epsilon);
  }
  emit_space_fields(g, launch, &r->space, 0, r->space.rank);
}

/* The parts' statistics, one array after the other. */
static void add_statistics(row_kernel *r, emit_launch *launch, bool written) {
  static const char *const names[] = {"shifts", "sums", "spreads"};
  generation *g = r->g;
  const compute_kernel_descriptor *d = g->descriptor;
  const uint64_t parts = (uint64_t)r->problem.rows * (uint64_t)r->cut.splits;
  const uint64_t bytes = (parts * r->problem.bytes + 63) / 64 * 64;
  const uint32_t count = compute_row_of(d)->operation == COMPUTE_ROW_NORMALIZE ? 3 : 2;
  for (uint32_t i = 0; i < count; i++)
    emit_workspace(g, launch, names[i], emit_type(d->accumulate), r->problem.bytes, i * bytes,
                   written);
  g->workspace_bytes = count * bytes;
}

static void add_launch(row_kernel *r, bool measure, bool apply) {
  generation *g = r->g;
  const compute_kernel_descriptor *d = g->descriptor;
  const row_cut *cut = &r->cut;
  const uint32_t group[3] = {cut->group, 1, 1};
  const uint32_t groups[3] = {(uint32_t)cut->groups, (uint32_t)cut->splits, 1};
  emit_launch *launch = emit_launch_begin(g, apply ? "row" : "row_parts", group, groups);
  if (!launch) return;
  emit_inputs(g, launch, 0, apply ? d->input_count : d->prologue_inputs);
  if (apply) emit_outputs(g, launch);
  if (!(measure && apply)) add_statistics(r, launch, measure);
  add_fields(r, launch);
  define_body(r, &launch->body);
  fold_define_number(&launch->body, "ROW_MEASURE", measure);
  fold_define_number(&launch->body, "ROW_APPLY", apply);
  emit_template(g, &launch->body, template_of(cut->form));
}

static void describe(const row_kernel *r) {
  static const char *const names[] = {"softmax", "log-softmax", "normalize"};
  generation *g = r->g;
  const row_cut *cut = &r->cut;
  char parts[48] = "";
  if (cut->splits > 1) snprintf(parts, sizeof parts, ", rows in %" PRId64 " parts", cut->splits);
  if (cut->form == ROW_ITEM || cut->form == ROW_ACROSS)
    snprintf(g->text, sizeof g->text, "row %s %s rows, %" PRIu32 " lanes%s",
             names[compute_row_of(g->descriptor)->operation], cut->across ? "across" : "along",
             cut->width, parts);
  else
    snprintf(g->text, sizeof g->text, "row %s %s, %" PRIu32 " items for a row%s",
             names[compute_row_of(g->descriptor)->operation],
             cut->form == ROW_HELD ? "in registers" : "in two passes", cut->lanes, parts);
}

compute_status emit_row(generation *g) {
  const compute_kernel_descriptor *d = g->descriptor;
  row_kernel r = {.g = g};
  if (count_rows(d) == 0 || d->size[d->rank - 1] == 0) return COMPUTE_OK;
  emit_program(g, &r.prologue, "prologue", &d->prologue, COMPUTE_DTYPE_NONE, 0, d->prologue_inputs);
  emit_program(g, &r.epilogue, "epilogue", &d->epilogue, d->accumulate, d->prologue_inputs,
               d->input_count);
  make_space(&r);
  if (!row_plan(g, &r.problem, &r.cut)) return COMPUTE_ERROR_UNSUPPORTED;
  define_row(&r);
  if (r.cut.splits > 1) add_launch(&r, true, false);
  add_launch(&r, r.cut.splits == 1, true);
  describe(&r);
  return COMPUTE_OK;
}
