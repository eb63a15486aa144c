/* Small symmetric matrices. Of PARAMETERS rows, the lower triangle: AT(a, b) for b <= a. Every loop
 * unrolls, so that they stay in registers. */
#define PACKED   (PARAMETERS * (PARAMETERS + 1) / 2)
#define AT(a, b) ((a) * ((a) + 1) / 2 + (b))

/* The inverse of the Cholesky factor of `matrix`, whose diagonal grows by the factor 1 + damping.
 * Parameters whose bit is set in `still` are left out: their rows and columns become those of the
 * identity. False when there is no such factor. */
DEVICE boolean fit_factor(const f32 *matrix, u32 still, f32 damping, f32 *factor) {
  boolean sound = 1;
  UNROLL for (int a = 0; a < PARAMETERS; a++) {
    UNROLL for (int b = 0; b <= a; b++) {
      const boolean out = (still >> a & 1u) | (still >> b & 1u);
      const f32 entry = a == b ? matrix[AT(a, a)] * (1.0f + damping) : matrix[AT(a, b)];
      f32 sum = out ? (a == b ? 1.0f : 0.0f) : entry;
      const f32 least = 1e-6f * sum;
      UNROLL for (int k = 0; k < b; k++) {
        sum = MAD_f32(-factor[AT(a, k)], factor[AT(b, k)], sum);
      }
      if (a == b) {
        const boolean good = sum > least && sum < INFINITY_f32;
        sound &= good;
        factor[AT(a, a)] = FAST_RSQRT(good ? sum : 1.0f);
      } else {
        factor[AT(a, b)] = sum * factor[AT(b, b)];
      }
    }
  }
  UNROLL for (int a = 1; a < PARAMETERS; a++) {
    UNROLL for (int b = 0; b < a; b++) {
      f32 sum = 0.0f;
      UNROLL for (int k = b; k < a; k++) {
        sum = MAD_f32(factor[AT(a, k)], factor[AT(k, b)], sum);
      }
      factor[AT(a, b)] = -sum * factor[AT(a, a)];
    }
  }
  return sound;
}

/* The product of the inverse matrix and `vector`. */
DEVICE void fit_apply(const f32 *factor, u32 still, const f32 *vector, f32 *product) {
  f32 partial[PARAMETERS];
  UNROLL for (int a = 0; a < PARAMETERS; a++) {
    partial[a] = 0.0f;
    UNROLL for (int b = 0; b <= a; b++) {
      partial[a] = MAD_f32(factor[AT(a, b)], still >> b & 1u ? 0.0f : vector[b], partial[a]);
    }
  }
  UNROLL for (int b = 0; b < PARAMETERS; b++) {
    product[b] = 0.0f;
    UNROLL for (int a = b; a < PARAMETERS; a++) {
      product[b] = MAD_f32(factor[AT(a, b)], partial[a], product[b]);
    }
  }
}

/* An entry of the inverse matrix, b <= a. */
DEVICE f32 fit_inverse(const f32 *factor, int a, int b) {
  f32 sum = 0.0f;
  UNROLL for (int k = 0; k < PARAMETERS; k++) {
    if (k >= a) sum = MAD_f32(factor[AT(k, a)], factor[AT(k, b)], sum);
  }
  return sum;
}
