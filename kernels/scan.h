/* Running folds. Configured by
 *
 *   VALUE, FOLD(a, b), FOLD_IDENTITY, FOLD_IS_SUM      as fold.h
 *   SCAN_EXCLUSIVE                whether an element's result leaves it out
 *   SCAN_GROUP, SCAN_ITEMS        items of a group, elements of an item in a chunk
 *   SCAN_ELEMENT(place)           element of the row at hand, in the order of the scan
 *   SCAN_STORE(place, value)
 *   SCAN_PARTS                    whether rows are cut into parts, of shape.share elements
 *   SCAN_TOTALS                   1: the fold of a part is all that is asked for, as
 *                                 totals[part * rows + row]
 *
 * scan_item.h and scan_group.h are bodies of a loop over parts of rows: at, part, row and the
 * offsets of the row.
 *
 * SCAN_ADD adds the fold of a block to a total; sums of floats keep what rounding loses. */
#if FOLD_IS_SUM
#define SCAN_ADD(total, value, lost) compensated(total, value, lost)
#else
#define SCAN_ADD(total, value, lost) FOLD(total, value)
#endif
#define SCAN_BLOCK 32
