/* SPDX-License-Identifier: MIT */
/* Assigns ROIs to items or groups, and reads their pixels. The body is fit_tile with fit_roi
 * inside.
 *
 * A tile is GROUP_ITEMS ROIs (with SHARED, one ROI) that are read together. Neighbouring items read
 * neighbouring pixels, of any ROI, and write them to local memory pixel by pixel. Without HELD an
 * item processes shape.run consecutive ROIs. */
//@ fit_kernel
#define HELD_COUNT    (ROWS * COLUMNS * HELD_STEP)
#define PARTIAL_COUNT (PARTIAL * (GROUP_ITEMS + 1))

#if WITH_CORNERS
#define CORNER_OF(roi)                                                                             \
  const i64 corner_at_ = (roi)*shape.corners_roi;                                                  \
  const i64 frame_ = CORNERS[corner_at_], top_ = CORNERS[corner_at_ + shape.corners_column];       \
  const i64 left_ = CORNERS[corner_at_ + 2 * shape.corners_column];                                \
  inside = top_ >= 0 && top_ <= shape.frame_rows - ROWS && left_ >= 0 &&                           \
           left_ <= shape.frame_columns - COLUMNS &&                                               \
           (!FRAMES || (frame_ >= 0 && frame_ < shape.frames));                                    \
  const i64 number_ = FRAMES ? (inside ? frame_ : 0) : (roi);                                      \
  const i64 top = inside ? top_ : 0, left = inside ? left_ : 0;
#define PIXELS_FIRST                                                                               \
  (number_ * shape.pixels_roi +                                                                    \
   (FRAMES ? top * shape.pixels_row + left * shape.pixels_column : (i64)0))
#define MAP_FIRST(roi, map)                                                                        \
  ((roi)*shape.map##_roi + top * shape.map##_row + left * shape.map##_column)
#else
#define CORNER_OF(roi)      inside = 1;
#define PIXELS_FIRST        (roi_ * shape.pixels_roi)
#define MAP_FIRST(roi, map) ((roi)*shape.map##_roi)
#endif
#define PLACE_MAP(roi, map, NAME)                                                                  \
  input.map = NAME + MAP_FIRST(roi, map);                                                          \
  input.map##_row = shape.map##_row;                                                               \
  input.map##_column = shape.map##_column;
#if OFFSET_MAP
#define PLACE_OFFSET(roi) PLACE_MAP(roi, offsets, OFFSETS)
#else
#define PLACE_OFFSET(roi)
#endif
#if GAIN_MAP
#define PLACE_GAIN(roi) PLACE_MAP(roi, gains, GAINS)
#else
#define PLACE_GAIN(roi)
#endif
#if VARIANCE_MAP
#define PLACE_VARIANCE(roi) PLACE_MAP(roi, variances, VARIANCES)
#else
#define PLACE_VARIANCE(roi)
#endif
#if MASKED
#define PLACE_MASK(roi) PLACE_MAP(roi, mask, MASK)
#else
#define PLACE_MASK(roi)
#endif
/* Declares `inside` for an ROI, and its position. */
#define FIND_ROI(roi)                                                                              \
  boolean inside;                                                                                  \
  const i64 roi_ = (roi);                                                                          \
  CORNER_OF(roi_)
/* Declares `input`, after FIND_ROI. Reads no pixels or maps. */
#define PLACE_ROI                                                                                  \
  fit_input input;                                                                                 \
  input.pixels = in0 + PIXELS_FIRST;                                                               \
  input.pixels_row = shape.pixels_row;                                                             \
  input.pixels_column = shape.pixels_column;                                                       \
  PLACE_OFFSET(roi_)                                                                               \
  PLACE_GAIN(roi_)                                                                                 \
  PLACE_VARIANCE(roi_)                                                                             \
  PLACE_MASK(roi_)                                                                                 \
  input.offset = shape.offset;                                                                     \
  input.gain = shape.gain;                                                                         \
  input.variance = shape.variance;                                                                 \
  input.multiplied = shape.multiplied;
