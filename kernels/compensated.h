/* Adds to a total and keeps what rounding lost: Kahan, "Further remarks on reducing truncation
 * errors", 1965. Long sums add up sums of short blocks like this, so that their error is that of a
 * block. */
DEVICE VALUE compensated(VALUE total, VALUE value, VALUE *lost) {
  const VALUE corrected = value - *lost, sum = total + corrected;
  const VALUE rest = (sum - total) - corrected;
  *lost = rest - rest == 0 ? rest : 0; /* infinities and NaN lose nothing */
  return sum;
}
