/* Configured by
 *
 *   VALUE                        type of scores and sums
 *   ATTENTION_EXP(x)
 *   ATTENTION_MAD(a, b, c)
 *   ATTENTION_LOWEST             minus infinity
 *   ATTENTION_CAUSAL             whether queries see no keys behind their own
 *   ATTENTION_BIASED
 *   ATTENTION_QUERY(i, j), _KEY(i, j), _VALUE(i, j), _BIAS(i, j), _STORE(i, j, value)
 *                                elements of the batch at hand
 *
 * Scores that are minus infinity weigh nothing, and a query that sees no other gives 0: until a
 * larger score is found, exponentials are those of the scores themselves. A NaN is the largest. */
#define ATTENTION_LARGER(a, b)    ((((a) > (b)) | ((a) != (a))) ? (a) : (b))
#define ATTENTION_SHIFT(peak)     ((peak) == ATTENTION_LOWEST ? (VALUE)0 : (peak))
#define ATTENTION_SHRINK(old, peak)                                                                \
  ((old) == (peak) ? (VALUE)1 : ATTENTION_EXP((old)-ATTENTION_SHIFT(peak)))
#if ATTENTION_CAUSAL
#define ATTENTION_SEEN(query) attention_seen((query) + 1 + shape.keys - shape.queries, shape.keys)
#else
#define ATTENTION_SEEN(query) shape.keys
#endif
DEVICE INDEX attention_seen(INDEX last, INDEX keys) {
  return last < 0 ? 0 : last < keys ? last : keys;
}
