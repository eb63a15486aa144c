/* SPDX-License-Identifier: MIT */
/* Dense linear algebra on small matrices in local memory. The items of a group form teams, and a
 * team has one matrix. All teams take the same steps, so barriers fit. Each number is computed by
 * the same operations whatever the team's size. Configured by
 *
 *   VALUE               f32 or f64
 *   LINALG_TEAM         items of a team
 *   LINALG_TEAMS        teams of a group
 *   LINALG_A, LINALG_B  numbers of A and of B that local memory holds for a team
 *   LINALG_NAN          NaN in VALUE
 *   LINALG_ABS(x), LINALG_SQRT(x)
 *   LINALG_READS(i, j)  1 if the function reads this element of A; others become 0
 *   LINALG_ONE          1: the diagonal counts as ones
 *
 * Variables: `seat` in the team, `team`, `inside`, and the offsets of a matrix. A team that is not
 * `inside` repeats the first matrix. */

/* Reads A, and counts its numbers that are not finite. */
//@ linalg_begin
const int rows = (int)shape.rows, columns = (int)shape.columns, right = (int)shape.right;
LOCAL VALUE *const a = matrices + team * LINALG_A;
LOCAL i32 *const state = states + 2 * team; /* the status; the row of a pivot */
BARRIER();
if (seat == 0) state[0] = 0;
BARRIER();
for (int e = seat; e < rows * columns; e += LINALG_TEAM) {
  const int i = e / columns, j = e - i * columns;
  VALUE value = 0;
  if (LINALG_READS(i, j)) value = in0[row_in0 + i * shape.a_row + j * shape.a_column];
  if (!(value - value == 0)) ATOMIC_MIN(&state[0], -1);
  a[e] = value;
}

//@ linalg_begin_right
LOCAL VALUE *const b = rights + team * LINALG_B;
for (int e = seat; e < rows * right; e += LINALG_TEAM) {
  const int i = e / right, j = e - i * right;
  b[e] = in1[row_in1 + i * shape.b_row + j * shape.b_column];
}

/* A column of L at a time. The pivot stays in place until the others have read it. */
//@ linalg_cholesky
for (int k = 0; k < rows; k++) {
  BARRIER();
  const VALUE pivot = a[k * rows + k], root = LINALG_SQRT(pivot);
  for (int i = k + 1 + seat; i < rows; i += LINALG_TEAM) a[i * rows + k] /= root;
  BARRIER();
  if (seat == 0) {
    if (!(pivot > 0) && state[0] == 0) state[0] = k + 1;
    a[k * rows + k] = root;
  }
  for (int i = k + 1 + seat; i < rows; i += LINALG_TEAM) {
    const VALUE factor = a[i * rows + k];
    for (int j = k + 1; j <= i; j++) a[i * rows + j] -= factor * a[j * rows + k];
  }
}
BARRIER();

/* The largest pivot of a column comes first. LINALG_SWAP(i, k, e) also swaps the other numbers of
 * the rows, LINALG_OTHERS of them; LINALG_FORWARD(i, k, e) eliminates there. */
//@ linalg_eliminate
for (int k = 0; k < rows && k < columns; k++) {
  BARRIER();
  if (seat == 0) {
    int best = k;
    for (int i = k + 1; i < rows; i++)
      if (LINALG_ABS(a[i * columns + k]) > LINALG_ABS(a[best * columns + k])) best = i;
    state[1] = best;
    if (a[best * columns + k] == 0 && state[0] == 0) state[0] = k + 1;
  }
  BARRIER();
  const int best = state[1];
  for (int e = seat; e < columns + LINALG_OTHERS && best != k; e += LINALG_TEAM) {
    if (e < columns) {
      const VALUE kept = a[k * columns + e];
      a[k * columns + e] = a[best * columns + e];
      a[best * columns + e] = kept;
    } else {
      LINALG_SWAP(best, k, e - columns)
    }
  }
  BARRIER();
  const VALUE pivot = a[k * columns + k];
  for (int i = k + 1 + seat; i < rows; i += LINALG_TEAM) {
    const VALUE factor = pivot == 0 ? a[i * columns + k] : a[i * columns + k] / pivot;
    a[i * columns + k] = factor;
    for (int j = k + 1; j < columns; j++) a[i * columns + j] -= factor * a[k * columns + j];
    LINALG_FORWARD(i, k, factor)
  }
}
BARRIER();

/* A row of X at a time; then the others lose it. */
//@ linalg_substitute
for (int s = 0; s < rows; s++) {
  const int k = LINALG_UPWARD ? rows - 1 - s : s;
  BARRIER();
  if (!LINALG_ONE)
    for (int c = seat; c < right; c += LINALG_TEAM) b[k * right + c] /= a[k * columns + k];
  BARRIER();
  const int others = LINALG_UPWARD ? k : rows - 1 - k, first = LINALG_UPWARD ? 0 : k + 1;
  for (int e = seat; e < others * right; e += LINALG_TEAM) {
    const int o = e / right, i = first + o, c = e - o * right;
    b[i * right + c] -= a[i * columns + k] * b[k * right + c];
  }
}
BARRIER();

/* The first zero of the diagonal. */
//@ linalg_diagonal
BARRIER();
if (seat == 0 && state[0] == 0 && !LINALG_ONE) {
  for (int i = rows - 1; i >= 0; i--)
    if (a[i * columns + i] == 0) state[0] = i + 1;
}

/* Writes `count` results of LINALG_RESULT(e) from `start` on, NaN where `bad`. */
//@ linalg_write
#define LINALG_WRITE(start, count, bad)                                                            \
  for (int e = seat; e < (count) && inside; e += LINALG_TEAM)                                      \
    out0[row_out0 + ((start) + e) * shape.out_step] = (bad) ? LINALG_NAN : LINALG_RESULT(e);
