/* SPDX-License-Identifier: MIT */
/* Walks through trees of one form of record: RECORD, its leaf's NUMBER, FORM for names. Included by
 * trees.c. Thresholds are numbers of ELEMENT, so their conversion is exact. */

/* The records near the root, by place: place 1 is the root, 2 i and 2 i + 1 follow place i. */
typedef struct FORM(near) {
  ELEMENT threshold[NEAR];
  int64_t column[NEAR];
  uint32_t next[NEAR];
} FORM(near);

/* Below a leaf, the places to its left are never reached; their records are others of the tree. */
static void FORM(look_near)(const RECORD *nodes, FORM(near) * near) {
  uint32_t at[2 * NEAR];
  at[1] = 1;
  for (int i = 1; i < NEAR; i++) {
    const RECORD *r = nodes + at[i];
    near->threshold[i] = (ELEMENT)r->threshold;
    near->column[i] = (int64_t)r->column * CPU_TREES_ROWS;
    at[2 * i] = r->left;
    at[2 * i + 1] = r->left + 1u;
  }
  for (int i = 0; i < NEAR; i++) near->next[i] = at[NEAR + i];
}

/* One step of `count` walks: `column` reads the column of walk i. */
#define STEP(count, record_of, column)                                                             \
  _Pragma("GCC unroll 16") for (int i = 0; i < (count); i++) {                                     \
    const RECORD *r = (record_of);                                                                 \
    const uint32_t next = r->left + (uint32_t) !((column) <= (ELEMENT)r->threshold);               \
    moved |= next ^ at[i];                                                                         \
    at[i] = next;                                                                                  \
  }

/* LANES rows from `x` on, through one tree. */
static void FORM(walk)(const RECORD *restrict nodes, const FORM(near) * near,
                       const ELEMENT *restrict x, int64_t depth, uint32_t *restrict result) {
#define RIGHT(i)                                                                                   \
  ((tests) ~(*(const lanes *)(x + near->column[i]) <= (lanes){0} + near->threshold[i]))
  const tests a = RIGHT(1);
  const tests b = EITHER(a, RIGHT(3), RIGHT(2));
  const tests c = EITHER(a, EITHER(b, RIGHT(7), RIGHT(6)), EITHER(b, RIGHT(5), RIGHT(4)));
  const tests d =
      EITHER(a, EITHER(b, EITHER(c, RIGHT(15), RIGHT(14)), EITHER(c, RIGHT(13), RIGHT(12))),
             EITHER(b, EITHER(c, RIGHT(11), RIGHT(10)), EITHER(c, RIGHT(9), RIGHT(8))));
#undef RIGHT
  const tests place = -(8 * a + 4 * b + 2 * c + d);
  uint32_t at[LANES], moved = 0;
  _Pragma("GCC unroll 8") for (int i = 0; i < LANES; i++) at[i] = near->next[place[i]];
  int64_t left = depth - LEVELS;
  while (left >= SPAN) {
    for (int s = 1; s < SPAN; s++)
      STEP(LANES, nodes + at[i], x[(int64_t)r->column * CPU_TREES_ROWS + i])
    moved = 0;
    STEP(LANES, nodes + at[i], x[(int64_t)r->column * CPU_TREES_ROWS + i])
    left = moved ? left - SPAN : 0;
  }
  for (; left > 0; left--) STEP(LANES, nodes + at[i], x[(int64_t)r->column * CPU_TREES_ROWS + i])
  _Pragma("GCC unroll 8") for (int i = 0; i < LANES; i++) result[i] = NUMBER(nodes + at[i]);
}

static void FORM(block)(const cpu_trees *trees, const void *data, int64_t rows, double *results) {
  const ELEMENT *x = data;
  for (int64_t t = trees->first; t < trees->end; t++) {
    const int64_t *head = trees->heads + t * COMPUTE_TREES_HEAD;
    const RECORD *nodes = (const RECORD *)trees->nodes + head[0];
    const leaves to = leaves_of(trees, head, CPU_TREES_ROWS);
    FORM(near) near;
    FORM(look_near)(nodes, &near);
    for (int64_t row = 0; row < rows; row += LANES) {
      uint32_t leaf[LANES];
      FORM(walk)(nodes, &near, x + row, head[1], leaf);
      if (to.combine == COMPUTE_COMBINE_SUM && to.target >= 0) {
        double *sums = results + to.target * CPU_TREES_ROWS + row;
        for (int i = 0; i < LANES; i++) sums[i] += to.values[leaf[i]];
      } else {
        for (int i = 0; i < LANES; i++) finish(&to, leaf[i], results + row + i);
      }
    }
  }
}

/* TOGETHER trees; several may be the same. */
static void FORM(row_walk)(const RECORD *const *restrict nodes, const ELEMENT *restrict x,
                           int64_t depth, uint32_t *restrict result) {
  uint32_t at[TOGETHER], moved = 1;
  for (int i = 0; i < TOGETHER; i++) at[i] = 1;
  while (depth >= SPAN && moved) {
    for (int s = 1; s < SPAN; s++) STEP(TOGETHER, nodes[i] + at[i], x[r->column])
    moved = 0;
    STEP(TOGETHER, nodes[i] + at[i], x[r->column])
    depth -= SPAN;
  }
  for (; depth > 0 && moved; depth--) STEP(TOGETHER, nodes[i] + at[i], x[r->column])
  for (int i = 0; i < TOGETHER; i++) result[i] = NUMBER(nodes[i] + at[i]);
}

static void FORM(row)(const cpu_trees *trees, const void *data, double *results) {
  for (int64_t t = trees->first; t < trees->end; t += TOGETHER) {
    const RECORD *nodes[TOGETHER];
    const int64_t count = trees->end - t < TOGETHER ? trees->end - t : TOGETHER;
    const int64_t *head = trees->heads + t * COMPUTE_TREES_HEAD;
    int64_t depth = 0;
    for (int64_t i = 0; i < TOGETHER; i++) {
      const int64_t *own = head + (i < count ? i : 0) * COMPUTE_TREES_HEAD;
      nodes[i] = (const RECORD *)trees->nodes + own[0];
      if (own[1] > depth) depth = own[1];
    }
    uint32_t leaf[TOGETHER];
    FORM(row_walk)(nodes, data, depth, leaf);
    for (int64_t i = 0; i < count; i++) {
      const leaves to = leaves_of(trees, head + i * COMPUTE_TREES_HEAD, 1);
      finish(&to, leaf[i], results);
    }
  }
}

#undef STEP
