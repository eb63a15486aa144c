/* SPDX-License-Identifier: MIT */
/* Dense linear algebra on small matrices in local memory. The items of a group form teams, and a
 * team has one matrix. All teams take the same steps, so barriers fit. Each number is computed by
 * the same operations whatever the team's size. Configured by
 *
 *   VALUE               f32 or f64
 *   LINALG_TEAM         items of a team
 *   LINALG_TEAMS        teams of a group
 *   LINALG_A, LINALG_B, LINALG_C   numbers of A, B and C that local memory holds for a team
 *   LINALG_NAN          NaN in VALUE
 *   LINALG_ABS(x), LINALG_SQRT(x)
 *   LINALG_ROW(i, j), LINALG_COLUMN(i, j)  the place of this element of A in memory
 *   LINALG_READS(i, j)  1 if the function reads this element of A; others become 0
 *   LINALG_ONE          1: the diagonal counts as ones
 *   LINALG_EPSILON      the distance of 1 to the next number
 *   LINALG_EXPONENT     of a power of two whose reciprocal is normal
 *   LINALG_TINY         counts as 0 in a matrix whose largest element is about 1
 *   LINALG_NEGLIGIBLE   the square of a length that counts as 0 there
 *   LINALG_AT(k)        the column of A that reflection k leaves
 *
 * Variables: `seat` in the team, `team`, `inside`, and the offsets of a matrix. A team that is not
 * `inside` repeats the first matrix. */

/* An element of A in memory. */
//@ linalg_read
#define LINALG_READ(i, j)                                                                          \
  in0[row_in0 + LINALG_ROW(i, j) * shape.a_row + LINALG_COLUMN(i, j) * shape.a_column]

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
  if (LINALG_READS(i, j)) value = LINALG_READ(i, j);
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

/* Scales A by a power of two, so that its largest element is from 1 to 2. Squares of elements then
 * neither overflow nor vanish. A matrix that is not finite becomes 0. */
//@ linalg_scale
LOCAL VALUE *const c = vectors + team * LINALG_C;
BARRIER();
for (int j = seat; j < columns; j += LINALG_TEAM) {
  VALUE most = 0;
  for (int i = 0; i < rows; i++) {
    if (state[0] != 0) a[i * columns + j] = 0;
    const VALUE size = LINALG_ABS(a[i * columns + j]);
    if (size > most) most = size;
  }
  c[j] = most;
}
BARRIER();
VALUE scale = 1, largest = 0;
for (int j = 0; j < columns; j++)
  if (c[j] > largest) largest = c[j];
for (int k = 0; k < LINALG_EXPONENT && largest > 0 && largest * scale < 1; k++) scale *= 2;
for (int k = 0; k < LINALG_EXPONENT && largest * scale >= 2; k++) scale *= (VALUE)0.5;
for (int j = seat; j < columns; j += LINALG_TEAM)
  for (int i = 0; i < rows; i++) a[i * columns + j] *= scale;

/* Reflections I - tau v v^T leave R in A, and below its diagonal each v, whose first element is 1.
 * C has each tau, R's diagonal and a divisor. */
//@ linalg_reflect
const int least = rows < columns ? rows : columns;
LOCAL VALUE *const diagonal = c + least;
for (int k = 0; k < least; k++) {
  LOCAL VALUE *const v = a + k * columns + LINALG_AT(k);
  const int count = rows - k;
  BARRIER();
  if (seat == 0) {
    const VALUE head = v[0];
    VALUE most = 0, sum = 0;
    for (int i = 1; i < count; i++)
      if (LINALG_ABS(v[i * columns]) > most) most = LINALG_ABS(v[i * columns]);
    const boolean nothing = most < LINALG_TINY;
    const VALUE unit = nothing ? 1 : LINALG_ABS(head) > most ? LINALG_ABS(head) : most;
    for (int i = 0; i < count; i++) sum += (v[i * columns] / unit) * (v[i * columns] / unit);
    const VALUE norm = unit * LINALG_SQRT(sum), beta = head > 0 ? -norm : norm;
    c[k] = nothing ? 0 : (beta - head) / beta;
    diagonal[k] = nothing ? head : beta;
    diagonal[least] = head - beta;
  }
  BARRIER();
  const VALUE tau = c[k], divisor = diagonal[least];
  for (int i = 1 + seat; i < count; i += LINALG_TEAM)
    v[i * columns] = tau == 0 ? 0 : v[i * columns] / divisor;
  BARRIER();
  for (int j = k + 1 + seat; j < columns; j += LINALG_TEAM) {
    LOCAL VALUE *const to = a + k * columns + LINALG_AT(j);
    VALUE sum = to[0];
    for (int i = 1; i < count; i++) sum += v[i * columns] * to[i * columns];
    sum *= tau;
    to[0] -= sum;
    for (int i = 1; i < count; i++) to[i * columns] -= sum * v[i * columns];
  }
}

/* The first columns of the product of the reflections, in B. */
//@ linalg_orthogonal
const int wide = (int)shape.wide;
BARRIER();
for (int j = seat; j < wide; j += LINALG_TEAM) {
  LOCAL VALUE *const to = b + j;
  for (int i = 0; i < rows; i++) to[i * wide] = i == j ? 1 : 0;
  for (int k = j < least ? j : least - 1; k >= 0; k--) {
    LOCAL const VALUE *const v = a + LINALG_AT(k);
    VALUE sum = to[k * wide];
    for (int i = k + 1; i < rows; i++) sum += v[i * columns] * to[i * wide];
    sum *= c[k];
    to[k * wide] -= sum;
    for (int i = k + 1; i < rows; i++) to[i * wide] -= sum * v[i * columns];
  }
}
BARRIER();

/* B begins as I, and turns with A. */
//@ linalg_unit
for (int e = seat; e < columns * columns; e += LINALG_TEAM)
  b[e] = e / columns == e % columns ? 1 : 0;

/* Rotations make the columns of A orthogonal. B gets the same rotations (LINALG_TURN). In a turn,
 * pairs have no column in common, as in a tournament. A team that is done rotates nothing while
 * others go on. */
//@ linalg_rotate
const int players = columns + columns % 2, others = players - 1;
const VALUE limit = LINALG_EPSILON * LINALG_SQRT((VALUE)rows);
for (int round = 0; round < 40; round++) {
  BARRIER();
  if (LOCAL_ID_X == 0) states[2 * LINALG_TEAMS] = 0;
  if (seat == 0) state[1] = 0;
  for (int turn = 0; turn < others; turn++) {
    BARRIER();
    for (int pair = seat; pair < players / 2; pair += LINALG_TEAM) {
      const int one = pair == 0 ? others : (turn + pair) % others;
      const int two = (turn + others - pair) % others;
      const int p = one < two ? one : two, q = one < two ? two : one;
      if (q >= columns) continue;
      VALUE xx = 0, yy = 0, xy = 0;
      for (int i = 0; i < rows; i++) {
        const VALUE x = a[i * columns + p], y = a[i * columns + q];
        xx += x * x;
        yy += y * y;
        xy += x * y;
      }
      if (!(LINALG_ABS(xy) > limit * LINALG_SQRT(xx) * LINALG_SQRT(yy)) ||
          !(xx > LINALG_NEGLIGIBLE && yy > LINALG_NEGLIGIBLE))
        continue;
      const VALUE zeta = (yy - xx) / (xy + xy);
      const VALUE angle = 1 / (LINALG_ABS(zeta) + LINALG_SQRT(1 + zeta * zeta));
      const VALUE cosine = 1 / LINALG_SQRT(1 + angle * angle);
      const VALUE sine = zeta < 0 ? cosine * angle : -(cosine * angle);
      const VALUE part = sine / (1 + cosine);
      if (sine == 0) continue;
      ATOMIC_MAX(&states[2 * LINALG_TEAMS], 1);
      ATOMIC_MAX(&state[1], p + 1);
      for (int i = 0; i < rows; i++) {
        const VALUE x = a[i * columns + p], y = a[i * columns + q];
        a[i * columns + p] = x + sine * (y - part * x);
        a[i * columns + q] = y - sine * (x + part * y);
      }
      LINALG_TURN
    }
  }
  BARRIER();
  if (states[2 * LINALG_TEAMS] == 0) break;
}
if (seat == 0 && state[0] == 0) state[0] = state[1];

/* The columns of B. */
//@ linalg_turn
#define LINALG_TURN                                                                                \
  for (int i = 0; i < columns; i++) {                                                              \
    const VALUE x = b[i * columns + p], y = b[i * columns + q];                                    \
    b[i * columns + p] = x + sine * (y - part * x);                                                \
    b[i * columns + q] = y - sine * (x + part * y);                                                \
  }

/* The lengths of the columns. */
//@ linalg_lengths
LOCAL VALUE *const values = c + 2 * columns + 1, *const order = values + columns;
BARRIER();
for (int j = seat; j < columns; j += LINALG_TEAM) {
  VALUE sum = 0;
  for (int i = 0; i < rows; i++) sum += a[i * columns + j] * a[i * columns + j];
  values[j] = LINALG_SQRT(sum);
}

/* A multiple of I makes the eigenvalues positive and leaves the vectors. */
//@ linalg_shift
BARRIER();
for (int j = seat; j < columns; j += LINALG_TEAM) {
  VALUE sum = 0;
  for (int i = 0; i < rows; i++) sum += LINALG_ABS(a[i * columns + j]);
  c[j] = sum;
}
BARRIER();
VALUE shift = 0;
for (int j = 0; j < columns; j++)
  if (c[j] > shift) shift = c[j];
for (int j = seat; j < columns; j += LINALG_TEAM) a[j * columns + j] += shift > 0 ? 2 * shift : 1;

/* Columns of length 1, and the eigenvalues v^T A v, which do not have the errors of the shift. */
//@ linalg_quotients
for (int j = seat; j < columns; j += LINALG_TEAM) {
  LOCAL VALUE *const v = a + j;
  VALUE value = 0;
  for (int i = 0; i < rows; i++) v[i * columns] /= values[j];
  for (int i = 0; i < rows && state[0] >= 0; i++) {
    VALUE sum = 0;
    for (int k = 0; k < i; k++) sum += v[k * columns] * (LINALG_READ(i, k) * scale);
    value += v[i * columns] * (2 * sum + v[i * columns] * (LINALG_READ(i, i) * scale));
  }
  values[j] = value;
}

/* The numbers of the values in order: LINALG_BEFORE(x, y). */
//@ linalg_order
BARRIER();
for (int j = seat; j < columns; j += LINALG_TEAM) {
  int at = 0;
  for (int k = 0; k < columns; k++)
    if (LINALG_BEFORE(values[k], values[j]) || (values[k] == values[j] && k < j)) at++;
  order[at] = (VALUE)j;
}
BARRIER();
