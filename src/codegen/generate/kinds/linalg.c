/* SPDX-License-Identifier: MIT */
/* LINALG: Cholesky, triangular, LU and general solves of matrices that fit in local memory, one for
 * each team of items. The CPU runs larger ones, and the functions that iterate.
 *
 * Parameters: group_x, and group_y (items of a team). */
#include <inttypes.h>
#include <stdio.h>

#include "codegen/generate/emit/emit.h"

enum {
  GROUP = 64,
  MOST_TEAM = 64,
  MOST_GROUPS = 1 << 16, /* beyond this, groups stride */
  MOST_NUMBERS = 1 << 14 /* of a matrix: positions are ints */
};

typedef struct linalg_kernel {
  generation *g;
  const compute_linalg_attributes *a;
  emit_space space; /* over the matrices */
  int64_t matrices, group, team, teams;
  int64_t a_numbers, b_numbers; /* of local memory for a team */
  uint32_t bytes;
} linalg_kernel;

static bool has_order(const linalg_kernel *k) {
  return k->a->function == COMPUTE_LINALG_LU;
}

/* ---- Choice ---------------------------------------------------------------------------------- */

/* Numbers of local memory for `count`: eight sizes for each power of two, so that one text serves
 * several shapes. */
static int64_t rounded(int64_t count) {
  const int64_t step = emit_power_of_two(count) / 16;
  return step > 1 ? divide_up(count, step) * step : emit_clamp(count, 1, INT64_MAX);
}

/* LU keeps the permutation and its sign as B. */
static compute_status choose(linalg_kernel *k) {
  generation *g = k->g;
  const compute_linalg_attributes *a = k->a;
  const double b = has_order(k) ? (double)a->rows + 1 : (double)a->rows * (double)a->right;
  const double numbers = (double)a->rows * (double)a->columns;
  const int64_t state = 2 * (int64_t)sizeof(int32_t);
  if (numbers > MOST_NUMBERS || b > MOST_NUMBERS)
    return emit_refuse(g, "linalg: a matrix of %" PRId64 " x %" PRId64 " does not fit", a->rows,
                       a->columns);
  k->a_numbers = rounded((int64_t)numbers);
  k->b_numbers = rounded((int64_t)b);
  const int64_t each = (k->a_numbers + k->b_numbers) * k->bytes + state;
  const int64_t most = (int64_t)emit_local_limit(g) / each;
  if (most < 1) return emit_refuse(g, "linalg: %" PRId64 " bytes of local memory", each);
  k->group =
      emit_for_cpu(g) ? 1 : emit_group_items(g, g->tuning.group_x ? g->tuning.group_x : GROUP);
  const int64_t wide = a->rows > a->right ? a->rows : a->right;
  k->team = g->tuning.group_y ? emit_power_of_two(g->tuning.group_y) : emit_power_of_two(wide) / 2;
  k->team = emit_clamp(k->team, 1, k->group < MOST_TEAM ? k->group : MOST_TEAM);
  while (k->group / k->team > most && k->team < k->group) k->team *= 2;
  k->teams = k->group / k->team;
  g->tuning.group_x = (uint32_t)k->group;
  g->tuning.group_y = (uint32_t)k->team;
  return COMPUTE_OK;
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void define(linalg_kernel *k) {
  generation *g = k->g;
  text_buffer *to = &g->definitions;
  const bool wide = k->bytes == 8, triangular = k->a->function == COMPUTE_LINALG_TRIANGULAR;
  const bool upper = k->a->flags & COMPUTE_LINALG_UPPER;
  const bool unit = k->a->flags & COMPUTE_LINALG_UNIT_DIAGONAL;
  emit_define(to, "VALUE", wide ? "f64" : "f32");
  emit_define(to, "LINALG_NAN", wide ? "NAN_f64" : "NAN_f32");
  emit_define(to, "LINALG_ABS(x)", wide ? "BUILTIN_f64(fabs)(x)" : "BUILTIN_f32(fabs)(x)");
  emit_define(to, "LINALG_SQRT(x)", wide ? "sqrt_f64(x)" : "sqrt_f32(x)");
  emit_define_number(to, "LINALG_TEAM", k->team);
  emit_define_number(to, "LINALG_TEAMS", k->teams);
  emit_define_number(to, "LINALG_A", k->a_numbers);
  emit_define_number(to, "LINALG_B", k->b_numbers);
  emit_define(to, "LINALG_READS(i, j)",
              k->a->function == COMPUTE_LINALG_CHOLESKY ? "(j) <= (i)"
              : !triangular                             ? "1"
              : upper                                   ? unit ? "(j) > (i)" : "(j) >= (i)"
              : unit                                    ? "(j) < (i)"
                                                        : "(j) <= (i)");
  emit_template(g, to, "linalg_write");
}

static void add_substitution(linalg_kernel *k, text_buffer *text, bool upper, bool unit) {
  emit_define(text, "LINALG_UPWARD", upper ? "1" : "0");
  emit_define(text, "LINALG_ONE", unit ? "1" : "0");
  emit_template(k->g, text, "linalg_substitute");
}

static void write_results(text_buffer *text, const char *result, const char *loop) {
  emit_define(text, "LINALG_RESULT(e)", result);
  text_add(text, "%s\n", loop);
}

static void add_cholesky(linalg_kernel *k, text_buffer *text) {
  emit_template(k->g, text, "linalg_cholesky");
  write_results(text, "a[e]", "LINALG_WRITE(0, rows * rows, state[0] != 0)");
}

static void add_triangular(linalg_kernel *k, text_buffer *text) {
  const bool unit = k->a->flags & COMPUTE_LINALG_UNIT_DIAGONAL;
  emit_define(text, "LINALG_ONE", unit ? "1" : "0");
  emit_template(k->g, text, "linalg_diagonal");
  add_substitution(k, text, k->a->flags & COMPUTE_LINALG_UPPER, unit);
  write_results(text, "b[e]", "LINALG_WRITE(0, rows * right, state[0] != 0)");
}

static void add_solve(linalg_kernel *k, text_buffer *text) {
  emit_define(text, "LINALG_OTHERS", "right");
  emit_define(text, "LINALG_SWAP(i, k, e)",
              "const VALUE kept_ = b[(i) * right + (e)];"
              " b[(i) * right + (e)] = b[(k) * right + (e)]; b[(k) * right + (e)] = kept_;");
  emit_define(text, "LINALG_FORWARD(i, k, factor)",
              "for (int c = 0; c < right; c++)"
              " b[(i) * right + c] -= (factor) * b[(k) * right + c];");
  emit_template(k->g, text, "linalg_eliminate");
  add_substitution(k, text, true, false);
  write_results(text, "b[e]", "LINALG_WRITE(0, rows * right, state[0] != 0)");
}

/* b has the permutation, then its sign. */
static void add_lu(linalg_kernel *k, text_buffer *text) {
  text_add(text,
           "LOCAL VALUE *const b = rights + team * LINALG_B;\n"
           "for (int i = seat; i <= rows; i += LINALG_TEAM) b[i] = i < rows ? (VALUE)i : 1;\n");
  emit_define(text, "LINALG_OTHERS", "1");
  emit_define(text, "LINALG_SWAP(i, k, e)",
              "const VALUE kept_ = b[i]; b[i] = b[k]; b[k] = kept_; b[rows] = -b[rows];");
  emit_define(text, "LINALG_FORWARD(i, k, factor)", "");
  emit_template(k->g, text, "linalg_eliminate");
  write_results(text, "a[e]", "LINALG_WRITE(0, rows * columns, state[0] < 0)");
  write_results(text, "(state[0] < 0 ? (VALUE)(e) : b[e])",
                "LINALG_WRITE(rows * columns, rows, 0)");
  write_results(text, "b[rows + (e)]", "LINALG_WRITE(rows * columns + rows, 1, state[0] < 0)");
}

static void add_fields(linalg_kernel *k, emit_launch *launch) {
  generation *g = k->g;
  const compute_kernel_descriptor *d = g->descriptor;
  const int32_t last = d->rank - 1;
  emit_field_index(g, launch, "count", k->matrices);
  emit_field_index(g, launch, "rows", k->a->rows);
  emit_field_index(g, launch, "columns", k->a->columns);
  emit_field_index(g, launch, "right", k->a->right);
  emit_field_index(g, launch, "a_row", d->inputs[0].stride[last - 1]);
  emit_field_index(g, launch, "a_column", d->inputs[0].stride[last]);
  if (d->input_count > 1) {
    emit_field_index(g, launch, "b_row", d->inputs[1].stride[last - 1]);
    emit_field_index(g, launch, "b_column", d->inputs[1].stride[last]);
  }
  emit_field_index(g, launch, "out_step", d->outputs[0].stride[last]);
  emit_field_index(g, launch, "last", d->size[last] - 1);
  emit_space_fields(g, launch, &k->space, 0, k->space.rank);
}

static void add_launch(linalg_kernel *k) {
  generation *g = k->g;
  const int64_t pieces = divide_up(k->matrices, k->teams);
  emit_launch *launch =
      emit_launch_line(g, "linalg", (uint32_t)k->group, emit_clamp(pieces, 1, MOST_GROUPS));
  if (!launch) return;
  emit_inputs(g, launch, 0, g->descriptor->input_count);
  emit_outputs(g, launch);
  add_fields(k, launch);
  text_buffer *text = &launch->body;
  text_add(text, "LOCAL_ARRAY(VALUE, matrices, LINALG_TEAMS * LINALG_A);\n"
                 "LOCAL_ARRAY(VALUE, rights, LINALG_TEAMS * LINALG_B);\n"
                 "LOCAL_ARRAY(i32, states, LINALG_TEAMS * 2);\n"
                 "const int team = (int)LOCAL_ID_X / LINALG_TEAM;\n"
                 "const int seat = (int)LOCAL_ID_X %% LINALG_TEAM;\n"
                 "for (INDEX at = (INDEX)GROUP_ID_X * LINALG_TEAMS; at < shape.count;\n"
                 "     at += (INDEX)GROUP_COUNT_X * LINALG_TEAMS) {\n"
                 "const boolean inside = at + team < shape.count;\n"
                 "const INDEX row = inside ? at + team : 0;\n");
  emit_offsets(g, text, &k->space, 0, k->space.rank, "row", "row");
  emit_template(g, text, "linalg_begin");
  if (g->descriptor->input_count > 1) emit_template(g, text, "linalg_begin_right");
  switch (k->a->function) {
  case COMPUTE_LINALG_CHOLESKY: add_cholesky(k, text); break;
  case COMPUTE_LINALG_TRIANGULAR: add_triangular(k, text); break;
  case COMPUTE_LINALG_LU: add_lu(k, text); break;
  default: add_solve(k, text); break;
  }
  write_results(text, "(VALUE)state[0]", "LINALG_WRITE(shape.last, 1, 0)");
  text_add(text, "}\n");
}

static compute_status emit(generation *g) {
  const compute_kernel_descriptor *d = g->descriptor;
  linalg_kernel k = {.g = g, .a = compute_linalg_of(d), .bytes = emit_value_bytes(d->accumulate)};
  if (k.a->function > COMPUTE_LINALG_SOLVE)
    return emit_refuse(g, "linalg: the CPU runs functions that iterate, and QR");
  if (!space_rows(g, &k.space, d->rank - 2)) return COMPUTE_OK;
  k.matrices = space_count(&k.space, 0, k.space.rank);
  const compute_status status = choose(&k);
  if (status) return status;
  if ((double)k.matrices > 0x1p45) return emit_refuse(g, "linalg: too many matrices");
  /* The last group's matrices are rounded up. */
  sweep_measure(g, (double)k.matrices + (double)MOST_GROUPS * (double)k.teams);
  define(&k);
  add_launch(&k);
  snprintf(g->text, sizeof g->text, "linalg by groups of %" PRId64 ", %" PRId64 " matrices each",
           k.group, k.teams);
  return COMPUTE_OK;
}

const emit_kind emit_linalg = {.name = "LINALG", .emit = emit};
