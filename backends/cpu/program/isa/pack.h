/* Vectors of one element type, for accumulators that must stay in registers: a template for
 * reduce_kernels.h and row_kernels.h, which say what ELEMENT, ARITHMETIC, MASK and NAME(x) are.
 *
 * Ordinary loops are vectorised well enough everywhere else; but an array of accumulators is kept
 * in memory by the compilers, and short lines would spend their time clearing and reloading it. */
typedef ELEMENT NAME(pack) __attribute__((vector_size(VECTOR_BYTES)));
typedef MASK NAME(mask) __attribute__((vector_size(VECTOR_BYTES)));
typedef ARITHMETIC NAME(arithmetic_pack) __attribute__((vector_size(VECTOR_BYTES)));

enum { NAME(vector) = VECTOR_BYTES / (int)sizeof(ELEMENT) }; /* elements of a pack */

ALWAYS_INLINE NAME(pack) NAME(pack_load)(const ELEMENT *x) {
  NAME(pack) p;
  __builtin_memcpy(&p, x, sizeof p);
  return p;
}

ALWAYS_INLINE NAME(pack) NAME(pack_all)(ELEMENT x) {
  NAME(pack) p;
  for (int j = 0; j < NAME(vector); j++) p[j] = x;
  return p;
}

ALWAYS_INLINE NAME(pack) NAME(pack_add)(NAME(pack) a, NAME(pack) b) {
  return (NAME(pack))((NAME(arithmetic_pack))a + (NAME(arithmetic_pack))b);
}

/* The sum of all elements, in a tree. */
ALWAYS_INLINE ELEMENT NAME(pack_sum)(NAME(pack) p) {
  ELEMENT part[NAME(vector)];
  __builtin_memcpy(part, &p, sizeof p);
  for (int half = NAME(vector) / 2; half > 0; half /= 2)
    for (int j = 0; j < half; j++)
      part[j] = (ELEMENT)((ARITHMETIC)part[j] + (ARITHMETIC)part[j + half]);
  return part[0];
}
