/* SPDX-License-Identifier: MIT */
/* LINALG: functions of matrices that fit in local memory, one for each team of items. The CPU runs
 * larger ones, and eigenvalues of general matrices and exponentials.
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
  int64_t rows, columns, wide;             /* of A or, for singular values, of the tall one of A
                                            * and its transpose; columns of Q in B */
  int64_t a_numbers, b_numbers, c_numbers; /* of local memory for a team */
  bool asks;                               /* the launch asks for local memory */
  uint32_t bytes;
} linalg_kernel;

static bool is_orthogonal(const linalg_kernel *k) {
  return k->a->function >= COMPUTE_LINALG_QR;
}

static bool has_vectors(const linalg_kernel *k) {
  return k->a->flags & COMPUTE_LINALG_VECTORS;
}

/* ---- Choice ---------------------------------------------------------------------------------- */

/* Numbers of local memory for `count`: eight sizes for each power of two, so that one text serves
 * several shapes. */
static int64_t rounded(int64_t count) {
  const int64_t step = emit_power_of_two(count) / 16;
  return step > 1 ? divide_up(count, step) * step : emit_clamp(count, 1, INT64_MAX);
}

/* Numbers of B: LU keeps the permutation and its sign there, QR has Q and SVD first V, then U. */
static double right_numbers(const linalg_kernel *k) {
  const double rows = (double)k->rows, columns = (double)k->columns, wide = (double)k->wide;
  switch (k->a->function) {
  case COMPUTE_LINALG_LU: return rows + 1;
  case COMPUTE_LINALG_QR: return rows * wide;
  case COMPUTE_LINALG_EIGH: return 0;
  case COMPUTE_LINALG_SVD:
    if (!has_vectors(k)) return 0;
    return columns * columns > rows * wide ? columns * columns : rows * wide;
  default: return rows * (double)k->a->right;
  }
}

static void set_sizes(linalg_kernel *k) {
  const compute_linalg_attributes *a = k->a;
  const bool turned = a->function == COMPUTE_LINALG_SVD && a->rows < a->columns;
  k->rows = turned ? a->columns : a->rows;
  k->columns = turned ? a->rows : a->columns;
  k->wide = a->flags & COMPUTE_LINALG_FULL || k->rows < k->columns ? k->rows : k->columns;
}

static compute_status choose(linalg_kernel *k) {
  generation *g = k->g;
  const compute_linalg_attributes *a = k->a;
  set_sizes(k);
  const double b = right_numbers(k), numbers = (double)k->rows * (double)k->columns;
  const double most_numbers = MOST_NUMBERS;
  const int64_t state = 2 * (int64_t)sizeof(int32_t);
  if (numbers > most_numbers || b > most_numbers || k->columns > MOST_NUMBERS)
    return emit_refuse(g, "linalg: a matrix of %" PRId64 " x %" PRId64 " does not fit", a->rows,
                       a->columns);
  k->a_numbers = rounded((int64_t)numbers);
  k->b_numbers = rounded((int64_t)b);
  k->c_numbers = is_orthogonal(k) ? rounded(4 * k->columns + 1) : 1;
  const int64_t each = (k->a_numbers + k->b_numbers + k->c_numbers) * k->bytes + state;
  int64_t most = ((int64_t)emit_local_limit(g) - state) / each;
  k->asks = most < 1;
  if (k->asks) most = ((int64_t)emit_most_local_limit(g) - state) / each;
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
  emit_define_number(to, "LINALG_C", k->c_numbers);
  emit_define(to, "LINALG_READS(i, j)",
              k->a->function == COMPUTE_LINALG_CHOLESKY ? "(j) <= (i)"
              : !triangular                             ? "1"
              : upper                                   ? unit ? "(j) > (i)" : "(j) >= (i)"
              : unit                                    ? "(j) < (i)"
                                                        : "(j) <= (i)");
  const bool mirrors = k->a->function == COMPUTE_LINALG_EIGH; /* the lower triangle */
  emit_define(to, "LINALG_ROW(i, j)", mirrors ? "((i) > (j) ? (i) : (j))" : "(i)");
  emit_define(to, "LINALG_COLUMN(i, j)", mirrors ? "((i) > (j) ? (j) : (i))" : "(j)");
  emit_template(g, to, "linalg_read");
  emit_template(g, to, "linalg_write");
  if (!is_orthogonal(k)) return;
  emit_define(to, "LINALG_EPSILON", wide ? "0x1p-52" : "0x1p-23f");
  emit_define(to, "LINALG_EXPONENT", wide ? "1000" : "120");
  emit_define(to, "LINALG_TINY", wide ? "0x1p-960" : "0x1p-100f");
  emit_define(to, "LINALG_NEGLIGIBLE", wide ? "0x1p-1000" : "0x1p-120f");
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

static void add_reflections(linalg_kernel *k, text_buffer *text, const char *column) {
  emit_define(text, "LINALG_AT(k)", column);
  emit_template(k->g, text, "linalg_reflect");
  emit_template(k->g, text, "linalg_orthogonal");
}

/* Makes R's diagonal positive. */
static void define_sign(text_buffer *text) {
  emit_define(text, "LINALG_SIGN(j)", "((j) < least && diagonal[j] < 0 ? (VALUE)-1 : (VALUE)1)");
}

static void add_qr(linalg_kernel *k, text_buffer *text) {
  emit_template(k->g, text, "linalg_scale");
  add_reflections(k, text, "(k)");
  define_sign(text);
  write_results(text, "(b[e] * LINALG_SIGN((e) % wide))",
                "LINALG_WRITE(0, rows * wide, state[0] != 0)");
  emit_define(text, "LINALG_FACTOR(i, j)",
              "((j) < (i) ? (VALUE)0 : LINALG_SIGN(i) * ((j) == (i) ? diagonal[i] :"
              " a[(i) * columns + (j)]))");
  write_results(text, "(LINALG_FACTOR((e) / columns, (e) % columns) / scale)",
                "LINALG_WRITE(rows * wide, wide * columns, state[0] != 0)");
}

static void add_eigenvalues(linalg_kernel *k, text_buffer *text) {
  generation *g = k->g;
  emit_template(g, text, "linalg_scale");
  emit_template(g, text, "linalg_shift");
  emit_define(text, "LINALG_TURN", "");
  emit_template(g, text, "linalg_rotate");
  emit_template(g, text, "linalg_lengths");
  emit_template(g, text, "linalg_quotients");
  emit_define(text, "LINALG_BEFORE(x, y)", "((x) < (y))");
  emit_template(g, text, "linalg_order");
  write_results(text, "(values[(int)order[e]] / scale)", "LINALG_WRITE(0, columns, state[0] != 0)");
  if (has_vectors(k))
    write_results(text, "a[(e) / columns * columns + (int)order[(e) % columns]]",
                  "LINALG_WRITE(columns, rows * columns, state[0] != 0)");
}

/* The columns that the rotations leave are U times the values. Reflections of them, the longest
 * first, also give the directions of values that are 0. A is turned if it is wide. */
static void add_singular_values(linalg_kernel *k, text_buffer *text) {
  generation *g = k->g;
  const bool vectors = has_vectors(k), turned = k->rows != k->a->rows;
  emit_template(g, text, "linalg_scale");
  if (vectors) {
    text_add(text, "LOCAL VALUE *const b = rights + team * LINALG_B;\n");
    emit_template(g, text, "linalg_unit");
    emit_template(g, text, "linalg_turn");
  } else {
    emit_define(text, "LINALG_TURN", "");
  }
  emit_template(g, text, "linalg_rotate");
  emit_template(g, text, "linalg_lengths");
  emit_define(text, "LINALG_BEFORE(x, y)", "((x) > (y))");
  emit_template(g, text, "linalg_order");
  write_results(text, "(values[(int)order[e]] / scale)", "LINALG_WRITE(0, columns, state[0] != 0)");
  if (!vectors) return;
  write_results(text,
                turned ? "b[(e) / columns * columns + (int)order[(e) % columns]]"
                       : "b[(e) % columns * columns + (int)order[(e) / columns]]",
                turned ? "LINALG_WRITE(columns, columns * columns, state[0] != 0)"
                       : "LINALG_WRITE(columns + rows * (int)shape.wide, columns * columns, "
                         "state[0] != 0)");
  text_add(text, "BARRIER();\n");
  add_reflections(k, text, "(int)order[k]");
  define_sign(text);
  emit_define(text, "LINALG_LEFT(i, j)", "(b[(i) * wide + (j)] * LINALG_SIGN(j))");
  write_results(
      text, turned ? "LINALG_LEFT((e) % rows, (e) / rows)" : "LINALG_LEFT((e) / wide, (e) % wide)",
      turned ? "LINALG_WRITE(columns + columns * columns, rows * wide, state[0] != 0)"
             : "LINALG_WRITE(columns, rows * wide, state[0] != 0)");
}

static void add_fields(linalg_kernel *k, emit_launch *launch) {
  generation *g = k->g;
  const compute_kernel_descriptor *d = g->descriptor;
  const int32_t last = d->rank - 1;
  emit_field_index(g, launch, "count", k->matrices);
  const int32_t turned = k->rows != k->a->rows;
  emit_field_index(g, launch, "rows", k->rows);
  emit_field_index(g, launch, "columns", k->columns);
  emit_field_index(g, launch, "right", k->a->right);
  if (is_orthogonal(k)) emit_field_index(g, launch, "wide", k->wide);
  emit_field_index(g, launch, "a_row", d->inputs[0].stride[last - 1 + turned]);
  emit_field_index(g, launch, "a_column", d->inputs[0].stride[last - turned]);
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
  if (k->asks)
    launch->local_bytes =
        (uint32_t)(k->teams * (k->a_numbers + k->b_numbers + k->c_numbers) * k->bytes);
  text_add(text,
           "LOCAL_ARRAY%s(VALUE, matrices, LINALG_TEAMS * (LINALG_A + LINALG_B + LINALG_C));\n",
           k->asks ? "_ASKED" : "");
  text_add(text, "LOCAL_ARRAY(i32, states, LINALG_TEAMS * 2 + 2);\n"
                 "LOCAL VALUE *const rights = matrices + LINALG_TEAMS * LINALG_A;\n"
                 "LOCAL VALUE *const vectors = rights + LINALG_TEAMS * LINALG_B;\n"
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
  case COMPUTE_LINALG_QR:
    text_add(text, "LOCAL VALUE *const b = rights + team * LINALG_B;\n");
    add_qr(k, text);
    break;
  case COMPUTE_LINALG_EIGH: add_eigenvalues(k, text); break;
  case COMPUTE_LINALG_SVD: add_singular_values(k, text); break;
  default: add_solve(k, text); break;
  }
  write_results(text, "(VALUE)state[0]", "LINALG_WRITE(shape.last, 1, 0)");
  text_add(text, "}\n");
}

static compute_status emit(generation *g) {
  const compute_kernel_descriptor *d = g->descriptor;
  linalg_kernel k = {.g = g, .a = compute_linalg_of(d), .bytes = emit_value_bytes(d->accumulate)};
  if (k.a->function > COMPUTE_LINALG_SVD)
    return emit_refuse(g, "linalg: the CPU runs eigenvalues of general matrices and exponentials");
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
