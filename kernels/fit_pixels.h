/* SPDX-License-Identifier: MIT */
/* The pixels of an ROI: their sources, and their conversion to photo-electrons.
 *
 * MASKED, OFFSET_MAP, GAIN_MAP, VARIANCE_MAP: 1 for inputs that exist. CAMERA: 0 ideal, 1 EMCCD, 2
 * sCMOS, 3 readout. HELD: 0: pixels are read and converted whenever they are needed; 1: local
 * memory holds converted pixels; 2: local memory holds pixels as in global memory, converted when
 * needed. In local memory the pixels of one ROI are HELD_STEP apart, so that neighbouring items use
 * neighbouring addresses. */
//@ fit_pixels

/* An ROI in global memory: addresses of its first pixel. */
typedef struct fit_input {
  GLOBAL const PIXEL_TYPE *pixels;
  i64 pixels_row, pixels_column;
#if OFFSET_MAP
  GLOBAL const f32 *offsets;
  i64 offsets_row, offsets_column;
#endif
#if GAIN_MAP
  GLOBAL const f32 *gains;
  i64 gains_row, gains_column;
#endif
#if VARIANCE_MAP
  GLOBAL const f32 *variances;
  i64 variances_row, variances_column;
#endif
#if MASKED
  GLOBAL const u8 *mask;
  i64 mask_row, mask_column;
#endif
  f32 offset, gain, variance; /* gain: electrons, without the multiplier's gain */
  f32 multiplied;             /* factor of a map's gain: 1 / the multiplier's gain */
} fit_input;

#define FIT_AT(from, map, row, column)                                                             \
  ((from)->map[(i64)(row) * (from)->map##_row + (i64)(column) * (from)->map##_column])
#if PIXELS_ADJACENT
#define FIT_PIXEL(from, row, column) ((from)->pixels[(i64)(row) * (from)->pixels_row + (column)])
#else
#define FIT_PIXEL(from, row, column) FIT_AT(from, pixels, row, column)
#endif

/* A u16 becomes the low bits of 2^23, which is faster than a conversion. */
#if PIXELS_WHOLE && !defined(FOR_CPU)
#define FIT_WIDEN(value) (as_f32(0x4b000000u | (u32)(value)) - 8388608.0f)
#else
#define FIT_WIDEN(value) ((f32)(value))
#endif

/* NaN stays NaN. */
DEVICE f32 fit_electrons(f32 value, f32 offset, f32 gain, f32 variance) {
#if CAMERA == 0
  const f32 electrons = value;
#elif CAMERA == 1
  const f32 electrons = (value - offset) * gain;
#elif CAMERA == 3
  const f32 electrons = (value - offset) * gain;
  return electrons; /* values below 0 are valid */
#else
  const f32 electrons = MAD_f32(value - offset, gain, variance);
#endif
  return electrons < 0.0f ? 0.0f : electrons;
}

/* Masked pixels. With CAMERA 3 photo-electrons may be negative. */
#if CAMERA == 3
#define FIT_MASKED            (-INFINITY_f32)
#define FIT_COUNTS(electrons) ((electrons) > -INFINITY_f32)
#else
#define FIT_MASKED            (-1.0f)
#define FIT_COUNTS(electrons) ((electrons) >= 0.0f)
#endif
/* The part of `extra` that is added to the model. */
#if CAMERA == 3
#define FIT_ON_TOP(extra) 0.0f
#else
#define FIT_ON_TOP(extra) (extra)
#endif

/* A pixel's photo-electrons (sCMOS: plus its variance). FIT_MASKED if it is masked; NaN if it, or a
 * map's value for it, is not a number. `extra` is its readout variance. */
DEVICE f32 fit_read(const fit_input *from, int row, int column, f32 *extra) {
#if VARIANCE_MAP
  const f32 variance = FIT_AT(from, variances, row, column);
#else
  const f32 variance = from->variance;
#endif
#if OFFSET_MAP
  const f32 offset = FIT_AT(from, offsets, row, column);
#else
  const f32 offset = from->offset;
#endif
#if GAIN_MAP
  const f32 map_gain = FIT_AT(from, gains, row, column), gain = map_gain * from->multiplied;
#else
  const f32 gain = from->gain;
#endif
  f32 electrons = fit_electrons(FIT_WIDEN(FIT_PIXEL(from, row, column)), offset, gain, variance);
  *extra = variance;
#if GAIN_MAP
  electrons = map_gain > 0.0f && map_gain < INFINITY_f32 ? electrons : NAN_f32;
#endif
#if OFFSET_MAP
  electrons = BUILTIN_f32(fabs)(offset) < INFINITY_f32 ? electrons : NAN_f32;
#endif
#if VARIANCE_MAP
  electrons = variance >= 0.0f && variance < INFINITY_f32 ? electrons : NAN_f32;
#endif
#if CAMERA == 3
  electrons = BUILTIN_f32(fabs)(electrons) < INFINITY_f32 ? electrons : NAN_f32;
#else
  electrons = electrons < INFINITY_f32 ? electrons : NAN_f32;
#endif
#if MASKED
  if (FIT_AT(from, mask, row, column) == 0) {
    *extra = 0.0f;
    return FIT_MASKED;
  }
#endif
  return electrons;
}

/* The inputs of a fit, and for a group with a common ROI its shared memory. */
typedef struct fit_source {
#if HELD
  LOCAL const HELD_TYPE *held;
#if VARIANCE_MAP
  LOCAL const f32 *extra;
#endif
#if HELD == 2
  f32 offset, gain;
#endif
  f32 variance;
#else
  fit_input input;
#endif
#if SHARED
  LOCAL f32 *partial;
  LOCAL struct fit_axes *axes;
#endif
} fit_source;

DEVICE f32 fit_take(const fit_source *source, int row, int column, f32 *extra) {
#if HELD
  const int at = (row * COLUMNS + column) * HELD_STEP;
#if VARIANCE_MAP
  *extra = source->extra[at];
#else
  *extra = source->variance;
#endif
#if HELD == 2
  return fit_electrons(FIT_WIDEN(source->held[at]), source->offset, source->gain, source->variance);
#else
  return source->held[at];
#endif
#else
  return fit_read(&source->input, row, column, extra);
#endif
}
