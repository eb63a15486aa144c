/* The body of a loop: columns column … of the result of a query, ATTENTION_COLUMNS at most, over
 * blocks of ATTENTION_KEYS keys. Configured as attention.h. */
const INDEX seen = ATTENTION_SEEN(query), left = shape.columns - column;
const int columns = left < ATTENTION_COLUMNS ? (int)left : ATTENTION_COLUMNS;
VALUE sum[ATTENTION_COLUMNS];
VALUE peak = ATTENTION_LOWEST, total = 0;
for (int c = 0; c < ATTENTION_COLUMNS; c++) sum[c] = 0;
for (INDEX first = 0; first < seen; first += ATTENTION_KEYS) {
  const int keys = seen - first < ATTENTION_KEYS ? (int)(seen - first) : ATTENTION_KEYS;
  VALUE score[ATTENTION_KEYS], largest = peak, weights = 0;
  for (int n = 0; n < keys; n++) {
    VALUE product = 0;
    for (INDEX w = 0; w < shape.width; w++)
      product = ATTENTION_MAD(ATTENTION_QUERY(query, w), ATTENTION_KEY(first + n, w), product);
#if ATTENTION_BIASED
    score[n] = product * shape.scale + ATTENTION_BIAS(query, first + n);
#else
    score[n] = product * shape.scale;
#endif
    largest = ATTENTION_LARGER(score[n], largest);
  }
  const VALUE shift = ATTENTION_SHIFT(largest), shrink = ATTENTION_SHRINK(peak, largest);
  for (int n = 0; n < keys; n++) {
    score[n] = ATTENTION_EXP(score[n] - shift);
    weights += score[n];
  }
  total = total * shrink + weights;
  peak = largest;
  for (int c = 0; c < ATTENTION_COLUMNS; c++) sum[c] *= shrink;
  for (int n = 0; n < keys; n++) {
    const VALUE weight = score[n];
#ifdef FOR_CPU
    INDEPENDENT for (int c = 0; c < columns; c++)
      sum[c] = ATTENTION_MAD(weight, ATTENTION_VALUE(first + n, column + c), sum[c]);
#else
    UNROLL for (int c = 0; c < ATTENTION_COLUMNS; c++) {
      if (c < columns)
        sum[c] = ATTENTION_MAD(weight, ATTENTION_VALUE(first + n, column + c), sum[c]);
    }
#endif
  }
}
for (int c = 0; c < ATTENTION_COLUMNS; c++) {
  if (c < columns) {
    const VALUE result = total == 0 ? (VALUE)0 : sum[c] / total;
    ATTENTION_STORE(query, column + c, result)
  }
}
