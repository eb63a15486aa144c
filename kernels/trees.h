/* SPDX-License-Identifier: MIT */
/* Ensembles of decision trees. A group has a few rows. The items of a row walk through different
 * trees and leave the numbers of the leaves in local memory. Then each item adds up its targets in
 * the order of the trees. Configured by
 *
 *   VALUE              type of features and values, f32 or f64
 *   TREES_SUM          type of the results before the last rounding
 *   TREES_LANES        items of a row
 *   TREES_ROWS         rows of a group
 *   TREES_CHUNK        trees whose leaves local memory holds for each row
 *   TREES_TARGETS      targets whose results it holds
 *   TREES_BEGIN        declares `sum`, and `lost` of a compensated sum: the result without a tree
 *   TREES_TAKE(at)     declares them with the values of local memory
 *   TREES_KEEP(at)     writes them there
 *   TREES_COMBINE(sum, value)
 *   TREES_RESULT(sum)  the value to store
 *   TREES_STORE(at, value)
 *   TREES_STEP(at)     reads record `at` into `threshold`, `column`, `left`
 *   TREES_LEAF(at)     the number of the leaf of record `at`
 *   TREES_X(i)         the feature at this offset */

/* A comparison with NaN is false, so NaN goes to the second branch. Columns from `features` on are
 * the features again, with NaN as the lowest number. A leaf's threshold is NaN, and leads to
 * itself. */
//@ trees
#define TREES_WALK(leaf, tree)                                                                     \
  {                                                                                                \
    const INDEX base_ = (INDEX)in2[4 * (tree)];                                                    \
    INDEX at_ = base_ + 1;                                                                         \
    for (INDEX left_ = (INDEX)in2[4 * (tree) + 1]; left_ > 0; left_--) {                           \
      TREES_STEP(at_)                                                                              \
      const boolean again = column >= shape.features;                                              \
      const INDEX feature = again ? column - shape.features : column;                              \
      const VALUE x = TREES_X(x_row + feature * shape.x_column);                                   \
      at_ = base_ + left + (x <= threshold || (again && x != x) ? 0 : 1);                          \
    }                                                                                              \
    leaf = TREES_LEAF(at_);                                                                        \
  }

/* The body of a loop over groups of rows. */
//@ trees_rows
const boolean inside = row < shape.rows;
const INDEX x_row = (inside ? row : 0) * shape.x_row;
const INDEX rest = shape.targets - first_target;
const int targets = rest < TREES_TARGETS ? (int)rest : TREES_TARGETS;
for (int i = seat; i < targets; i += TREES_LANES) {
  TREES_BEGIN
  TREES_KEEP(place * TREES_TARGETS + i)
}
for (INDEX start = 0; start < shape.trees; start += TREES_CHUNK) {
  const int count = shape.trees - start < TREES_CHUNK ? (int)(shape.trees - start) : TREES_CHUNK;
  BARRIER();
  if (inside) {
    for (int t = seat; t < count; t += TREES_LANES)
      TREES_WALK(leaves[place * TREES_CHUNK + t], start + t)
  }
  BARRIER();
  if (inside) {
    for (int i = seat; i < targets; i += TREES_LANES) {
      TREES_TAKE(place * TREES_TARGETS + i)
      for (int t = 0; t < count; t++) {
        const i64 own = in2[4 * (start + t) + 2], first = in2[4 * (start + t) + 3];
        const INDEX leaf = leaves[place * TREES_CHUNK + t], target = first_target + i;
        if (own < 0)
          TREES_COMBINE(sum, in3[(INDEX)first + leaf * shape.targets + target])
        else if ((INDEX)own == target)
          TREES_COMBINE(sum, in3[(INDEX)first + leaf])
      }
      TREES_KEEP(place * TREES_TARGETS + i)
    }
  }
}
if (inside) {
  for (int i = seat; i < targets; i += TREES_LANES) {
    TREES_TAKE(place * TREES_TARGETS + i)
    TREES_STORE(row * shape.y_row + (first_target + i) * shape.y_target, TREES_RESULT(sum))
  }
}
