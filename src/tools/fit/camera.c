/* Maps of the camera from files, checked before anything is fitted with them. */
#include "tools/fit/camera.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/fit/array_file.h"
#include "tools/fit/command.h"

typedef struct wanted_shape {
  int64_t rows, columns, other_rows, other_columns;
  const char *whose;
} wanted_shape;

static int check_shape(const char *option, const char *path, int64_t rows, int64_t columns,
                       const wanted_shape *w) {
  char other[96] = "";
  if ((rows == w->rows && columns == w->columns) ||
      (w->other_rows > 0 && rows == w->other_rows && columns == w->other_columns))
    return EXIT_GOOD;
  if (w->other_rows > 0)
    snprintf(other, sizeof other, " or %" PRId64 " x %" PRId64, w->other_rows, w->other_columns);
  fit_say("%s: the map '%s' has %" PRId64 " x %" PRId64 " pixels; %s have %" PRId64 " x %" PRId64
          "%s",
          option, path, rows, columns, w->whose, w->rows, w->columns, other);
  return EXIT_FAILED;
}

static int say_pixel(const char *option, const char *path, int64_t columns, int64_t i, double value,
                     const char *allowed) {
  fit_say("%s: '%s' has %g in row %" PRId64 ", column %" PRId64 "; %s", option, path, value,
          i / columns, i % columns, allowed);
  return EXIT_FAILED;
}

typedef enum map_kind { MAP_OFFSET, MAP_GAIN, MAP_INVERSE_GAIN, MAP_VARIANCE } map_kind;

/* Checks every pixel, and turns counts per electron into electrons per count. */
static int check_pixels(const char *option, const char *path, map_kind kind, float *value,
                        int64_t count, int64_t columns) {
  static const char *const allowed[] = {"offsets are finite", "gains are above 0",
                                        "gains are above 0", "variances are at least 0"};
  for (int64_t i = 0; i < count; i++) {
    const float v = value[i];
    const bool good = kind == MAP_OFFSET ? true : kind == MAP_VARIANCE ? v >= 0 : v > 0;
    if (!isfinite(v) || !good) return say_pixel(option, path, columns, i, (double)v, allowed[kind]);
    if (kind == MAP_INVERSE_GAIN) value[i] = 1 / v;
  }
  return EXIT_GOOD;
}

static int read_map(const char *option, const camera_value *from, map_kind kind,
                    const wanted_shape *wanted, compute_fit_map *map) {
  array_data array = {0};
  failure why = {0};
  if (!from->file) return EXIT_GOOD;
  if (array_read(from->file, COMPUTE_F32, 2, 2, &array, &why)) {
    fit_say("%s is a number or a map:", option);
    return fit_say_failure(&why);
  }
  *map = (compute_fit_map){array.values, array.shape.size[0], array.shape.size[1]};
  int result = check_shape(option, from->file, map->rows, map->columns, wanted);
  if (!result)
    result = check_pixels(option, from->file, kind, array.values, array.count, map->columns);
  return result;
}

static int read_mask(const char *path, const wanted_shape *wanted, camera_maps *maps) {
  array_data array = {0};
  failure why = {0};
  if (!path) return EXIT_GOOD;
  if (array_read(path, COMPUTE_U8, 2, 2, &array, &why)) return fit_say_failure(&why);
  maps->mask = array.values;
  maps->mask_rows = array.shape.size[0];
  maps->mask_columns = array.shape.size[1];
  return check_shape("--mask", path, maps->mask_rows, maps->mask_columns, wanted);
}

static int check_alike(const camera_maps *maps) {
  int64_t rows, columns;
  const compute_fit_map *map[] = {&maps->offset, &maps->gain, &maps->variance};
  if (!camera_shape(maps, &rows, &columns)) return EXIT_GOOD;
  bool alike = !maps->mask || (maps->mask_rows == rows && maps->mask_columns == columns);
  for (size_t i = 0; i < 3; i++)
    alike &= !map[i]->values || (map[i]->rows == rows && map[i]->columns == columns);
  if (alike) return EXIT_GOOD;
  fit_say("the maps of the camera differ in size; all must be the ROI's or all the frame's");
  return EXIT_FAILED;
}

int camera_read(const fit_arguments *a, int64_t rows, int64_t columns, int64_t other_rows,
                int64_t other_columns, const char *whose, camera_maps *maps) {
  const wanted_shape wanted = {rows, columns, other_rows, other_columns, whose};
  const bool inverse = a->gain_adu.file != NULL;
  *maps = (camera_maps){0};
  int result = read_map("--offset", &a->offset, MAP_OFFSET, &wanted, &maps->offset);
  if (!result)
    result =
        read_map(inverse ? "--gain-adu-per-electron" : "--gain", inverse ? &a->gain_adu : &a->gain,
                 inverse ? MAP_INVERSE_GAIN : MAP_GAIN, &wanted, &maps->gain);
  if (!result)
    result = read_map("--variance", &a->variance, MAP_VARIANCE, &wanted, &maps->variance);
  if (!result) result = read_mask(a->mask, &wanted, maps);
  return result ? result : check_alike(maps);
}

bool camera_shape(const camera_maps *maps, int64_t *rows, int64_t *columns) {
  const compute_fit_map *map[] = {&maps->offset, &maps->gain, &maps->variance};
  for (size_t i = 0; i < 3; i++) {
    if (!map[i]->values) continue;
    *rows = map[i]->rows;
    *columns = map[i]->columns;
    return true;
  }
  *rows = maps->mask_rows;
  *columns = maps->mask_columns;
  return maps->mask != NULL;
}

void camera_release(camera_maps *maps) {
  free((void *)(uintptr_t)maps->offset.values);
  free((void *)(uintptr_t)maps->gain.values);
  free((void *)(uintptr_t)maps->variance.values);
  free(maps->mask);
  *maps = (camera_maps){0};
}
