/* Vectors of LANES sums, for products that one item computes by itself. */
#if defined(__OPENCL_VERSION__)
typedef VECTOR_PASTE(SUM_BASE, LANES) VECTOR;
#define VECTOR_LOAD(pointer)         VECTOR_PASTE(vload, LANES)(0, pointer)
#define VECTOR_STORE(pointer, value) VECTOR_PASTE(vstore, LANES)(value, 0, pointer)
#define VECTOR_OF(x)                 ((VECTOR)(x))
#define VECTOR_MAD(a, b, c)          SUM_MAD(a, b, c)
#else
typedef struct VECTOR {
  SUM lane[LANES];
} VECTOR;
DEVICE VECTOR VECTOR_LOAD(const SUM *from) {
  VECTOR value;
  UNROLL for (int i = 0; i < LANES; i++) value.lane[i] = from[i];
  return value;
}
DEVICE void VECTOR_STORE(SUM *to, VECTOR value) {
  UNROLL for (int i = 0; i < LANES; i++) to[i] = value.lane[i];
}
DEVICE VECTOR VECTOR_OF(SUM x) {
  VECTOR value;
  UNROLL for (int i = 0; i < LANES; i++) value.lane[i] = x;
  return value;
}
DEVICE VECTOR VECTOR_MAD(VECTOR a, VECTOR b, VECTOR c) {
  UNROLL for (int i = 0; i < LANES; i++) c.lane[i] = SUM_MAD(a.lane[i], b.lane[i], c.lane[i]);
  return c;
}
#endif
