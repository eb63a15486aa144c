/* REDUCE: prologue, fold, epilogue.
 *
 * Templates do the folding, one for devices with groups and one for CPUs; around them stand macros
 * written here. Where there are few results, elements are cut into parts, whose partial results go
 * to the workspace, and a second launch of the same template folds these. No atomics: the same
 * input gives the same bits. */
#include "generate/kinds/reduce.h"

#include <inttypes.h>
#include <stdio.h>

enum { BLOCK = 64 }; /* rounds between fresh partial sums */

typedef struct reduction {
  generation *g;
  bool search; /* ARGMAX, ARGMIN */
  emit_function prologue, epilogue;
  fold_order order;
  emit_space space, result;
  reduce_problem problem;
  uint32_t value_bytes, place_bytes;
  int64_t splits;
} reduction;

/* ---- Spaces -------------------------------------------------------------------------------- */

static int64_t row_major_count(const compute_kernel_descriptor *d, int32_t first, int32_t end) {
  int64_t count = 1;
  for (int32_t i = first; i < end; i++) count *= d->size[i];
  return count;
}

static void make_spaces(reduction *r) {
  generation *g = r->g;
  const compute_kernel_descriptor *d = g->descriptor;
  const int32_t kept = compute_reduce_of(d)->kept_rank;
  reduce_problem *p = &r->problem;
  p->kept = row_major_count(d, 0, kept);
  p->count = row_major_count(d, kept, d->rank);
  r->order = fold_sort(d, kept, d->prologue_inputs, &p->main_input);

  fold_space(&r->space, "space", d, &r->order, d->rank);
  r->space.fence = kept;
  /* Of no elements none is ever read. */
  for (int32_t i = kept; i < d->rank && p->count == 0; i++) r->space.size[i] = 1;
  fold_add_function(&r->space, d, &r->prologue, &r->order, d->rank);
  if (r->search) fold_add_position(&r->space, "place", d, &r->order, kept, d->rank);
  space_canonicalise(g, &r->space);

  fold_space(&r->result, "result", d, &r->order, kept);
  fold_add_function(&r->result, d, &r->epilogue, &r->order, kept);
  fold_add_outputs(&r->result, d, &r->order);
  space_canonicalise(g, &r->result);

  /* Loops step past the end by as much as a group takes. */
  if (p->kept > INT32_MAX / 2 || p->count > INT32_MAX / 2) g->wide = true;
  p->space = &r->space;
  r->value_bytes = fold_value_bytes(d->accumulate);
  r->place_bytes = r->search ? (g->wide ? 8 : 4) : 0;
  p->bytes = r->value_bytes + r->place_bytes;
}

/* ---- Definitions --------------------------------------------------------------------------- */

static void define_fold(reduction *r) {
  generation *g = r->g;
  const compute_kernel_descriptor *d = g->descriptor;
  const compute_dtype type = d->accumulate;
  text_buffer *text = &g->definitions;
  const bool is_float = type == COMPUTE_F64 || type == COMPUTE_F32;
  const char *identity = "0";
  char wrapped[64] = "";
  fold_define(text, "VALUE", emit_type(type));
  switch (compute_reduce_of(d)->combine) {
  case COMPUTE_COMBINE_SUM:
  case COMPUTE_COMBINE_PROD: {
    const char operation = compute_reduce_of(d)->combine == COMPUTE_COMBINE_SUM ? '+' : '*';
    const char *wrap = type == COMPUTE_I64 ? "u64" : "u32";
    if (operation == '*') identity = "1";
    if (is_float)
      snprintf(wrapped, sizeof wrapped, "((a) %c (b))", operation);
    else
      snprintf(wrapped, sizeof wrapped, "(VALUE)((%s)(a) %c (%s)(b))", wrap, operation, wrap);
    fold_define(text, "FOLD(a, b)", wrapped);
    break;
  }
  /* A NaN in b is handed on by the comparison; only one in a needs care. */
  case COMPUTE_COMBINE_MAX:
    identity = fold_lowest(type);
    fold_define(text, "FOLD(a, b)",
                is_float ? "((((a) > (b)) | ((a) != (a))) ? (a) : (b))"
                         : "((a) > (b) ? (a) : (b))");
    break;
  case COMPUTE_COMBINE_MIN:
    identity = fold_highest(type);
    fold_define(text, "FOLD(a, b)",
                is_float ? "((((a) < (b)) | ((a) != (a))) ? (a) : (b))"
                         : "((a) < (b) ? (a) : (b))");
    break;
  case COMPUTE_COMBINE_ARGMAX:
    identity = fold_lowest(type);
    fold_define(text, "FOLD_MORE(b, a)", "((b) > (a))");
    break;
  case COMPUTE_COMBINE_ARGMIN:
    identity = fold_highest(type);
    fold_define(text, "FOLD_MORE(b, a)", "((b) < (a))");
    break;
  }
  fold_define(text, "FOLD_IDENTITY", identity);
  const bool is_sum = is_float && compute_reduce_of(d)->combine == COMPUTE_COMBINE_SUM;
  fold_define_number(text, "FOLD_IS_SUM", is_sum);
  if (is_sum) emit_template(g, text, "compensated.h");
  if (r->search) {
    fold_define(text, "FOLD_NAN(x)", is_float ? "((x) != (x))" : "0");
    fold_define(text, "FOLD_NOWHERE", fold_highest(g->wide ? COMPUTE_I64 : COMPUTE_I32));
  }
  emit_template(g, text, "fold.h");
}

/* What a pass reads: elements through the prologue, or the partial results of the pass before. */
static void define_source(reduction *r, const reduce_pass *pass, text_buffer *body, bool elements) {
  generation *g = r->g;
  const char *element = pass->items ? "ELEMENT(at_step)" : "ELEMENT";
  const char *place = pass->items ? "PLACE(at_step)" : "PLACE";
  if (!elements) {
    fold_define(body, "KEPT_OFFSETS(at_kept)", "const INDEX kept_partial = at_kept;");
    fold_define(body, "REDUCED_OFFSETS(at_element)",
                "const INDEX reduced_partial = (at_element)*shape.kept;");
    fold_define(body, element,
                pass->items ? "partials[kept_partial + reduced_partial + (at_step)]"
                            : "partials[kept_partial + reduced_partial]");
    fold_define(body, place,
                pass->items ? "places[kept_partial + reduced_partial + (at_step)]"
                            : "places[kept_partial + reduced_partial]");
    return;
  }
  const emit_space *space = &r->space;
  const char *index =
      pass->items ? "kept_$ + reduced_$ + (at_step) * step_$" : "kept_$ + reduced_$";
  text_buffer call = {0};
  fold_define_offsets(g, body, "KEPT_OFFSETS", "at_kept", space, 0, space->fence, "kept");
  fold_define_offsets(g, body, "REDUCED_OFFSETS", "at_element", space, space->fence, space->rank,
                      "reduced");
  emit_call(g, &call, &r->prologue, NULL, index);
  fold_define_text(body, element, &call);
  fold_define(body, place,
              pass->items ? "(kept_place + reduced_place + (at_step) * step_place)"
                          : "(kept_place + reduced_place)");
  if (pass->items) {
    const int32_t end = pass->across ? space->fence : space->rank;
    const int32_t first = pass->across ? 0 : space->fence;
    fold_steps(body, "step", space, end > first ? end - 1 : COMPUTE_MAX_RANK);
  }
}

/* What becomes of a folded value. */
static void define_sink(reduction *r, text_buffer *body, bool results) {
  static const char parameters[] = "at_result, folded_value, folded_place";
  generation *g = r->g;
  if (results) {
    fold_define_offsets(g, body, "RESULT_OFFSETS", "at_kept", &r->result, 0, r->result.rank,
                        "result");
    fold_define_finish(g, body, &r->epilogue, parameters, "RESULT_OFFSETS(at_result)",
                       r->search ? "(folded_place == FOLD_NOWHERE ? (i64)0 : (i64)folded_place)"
                                 : "folded_value",
                       "result_$");
    return;
  }
  char head[64];
  snprintf(head, sizeof head, "FINISH(%s)", parameters);
  fold_define(body, head,
              r->search ? "{ const INDEX slot = (INDEX)GROUP_ID_Y * shape.kept + at_result;"
                          " partials[slot] = folded_value; places[slot] = folded_place; }"
                        : "partials[(INDEX)GROUP_ID_Y * shape.kept + at_result] = folded_value;");
}

/* ---- Launches ------------------------------------------------------------------------------ */

static void add_buffers(reduction *r, emit_launch *launch, bool elements, bool results) {
  generation *g = r->g;
  const compute_kernel_descriptor *d = g->descriptor;
  if (elements) emit_inputs(g, launch, 0, d->prologue_inputs);
  if (results) {
    emit_inputs(g, launch, d->prologue_inputs, d->input_count);
    emit_outputs(g, launch);
  }
  if (elements && results) return;
  const uint64_t partials = (uint64_t)r->problem.kept * (uint64_t)r->splits;
  const uint64_t places_start = (partials * r->value_bytes + 63) / 64 * 64;
  emit_workspace(g, launch, "partials", emit_type(d->accumulate), r->value_bytes, 0, elements);
  if (r->search)
    emit_workspace(g, launch, "places", "INDEX", r->place_bytes, places_start, elements);
  g->workspace_bytes = places_start + partials * r->place_bytes;
}

static void add_fields(reduction *r, emit_launch *launch, const reduce_pass *pass, bool elements,
                       bool results) {
  generation *g = r->g;
  emit_field_index(g, launch, "kept", r->problem.kept);
  emit_field_index(g, launch, "count", pass->count);
  emit_field_index(g, launch, "share", pass->share);
  emit_field_index(g, launch, "tiles", pass->tiles);
  if (pass->items) {
    emit_field_index(g, launch, "run", pass->run);
    emit_field_index(g, launch, "inner", pass->inner);
    emit_field_index(g, launch, "pieces", pass->pieces);
  }
  if (elements) emit_space_fields(g, launch, &r->space, 0, r->space.rank);
  if (results) emit_space_fields(g, launch, &r->result, 0, r->result.rank);
}

static void add_pass(reduction *r, const reduce_pass *pass, bool elements, bool results) {
  generation *g = r->g;
  const uint32_t group[3] = {pass->group, 1, 1};
  const uint32_t groups[3] = {(uint32_t)pass->groups, (uint32_t)pass->splits, 1};
  emit_launch *launch = emit_launch_begin(g, results ? "reduce" : "reduce_parts", group, groups);
  if (!launch) return;
  add_buffers(r, launch, elements, results);
  add_fields(r, launch, pass, elements, results);
  text_buffer *body = &launch->body;
  define_source(r, pass, body, elements);
  define_sink(r, body, results);
  fold_define_number(body, "REDUCE_GROUP", pass->group);
  fold_define_number(body, "REDUCE_LANES", pass->lanes);
  fold_define_number(body, "REDUCE_COLUMNS", pass->columns);
  fold_define_number(body, "REDUCE_UNROLL", pass->unroll);
  fold_define_number(body, "REDUCE_ACROSS", pass->across);
  fold_define_number(body, "REDUCE_BLOCK", BLOCK);
  fold_define_number(body, "REDUCE_LINES", elements && r->space.rank - r->space.fence > 1);
  emit_template(g, body, pass->items ? "reduce_item.h" : "reduce_group.h");
}

static void describe(const reduction *r, const reduce_pass *pass) {
  static const char *const names[] = {"sum", "prod", "max", "min", "argmax", "argmin"};
  generation *g = r->g;
  char parts[40] = "";
  if (pass->splits > 1) snprintf(parts, sizeof parts, ", in %" PRId64 " parts", pass->splits);
  snprintf(g->text, sizeof g->text, "reduce %s by %s, %" PRIu32 " %s%s",
           names[compute_reduce_of(g->descriptor)->combine], pass->across ? "columns" : "rows",
           pass->lanes, pass->items ? "lanes" : "items for a result", parts);
}

compute_status emit_reduce(generation *g) {
  const compute_kernel_descriptor *d = g->descriptor;
  reduction r = {.g = g};
  reduce_pass passes[2];
  r.search = compute_reduce_of(d)->combine == COMPUTE_COMBINE_ARGMAX ||
             compute_reduce_of(d)->combine == COMPUTE_COMBINE_ARGMIN;
  if (row_major_count(d, 0, compute_reduce_of(d)->kept_rank) == 0) return COMPUTE_OK;
  emit_program(g, &r.prologue, "prologue", &d->prologue, COMPUTE_DTYPE_NONE, 0, d->prologue_inputs);
  emit_program(g, &r.epilogue, "epilogue", &d->epilogue, r.search ? COMPUTE_I64 : d->accumulate,
               d->prologue_inputs, d->input_count);
  make_spaces(&r);
  const uint32_t count = reduce_plan(g, &r.problem, passes);
  if (count == 0) return COMPUTE_ERROR_UNSUPPORTED;
  r.splits = passes[0].splits;
  define_fold(&r);
  add_pass(&r, &passes[0], true, count == 1);
  if (count == 2) add_pass(&r, &passes[1], false, true);
  describe(&r, &passes[0]);
  return COMPUTE_OK;
}
