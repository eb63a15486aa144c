/* SPDX-License-Identifier: MIT */
/* Makes the fit's problem from the command line: parameter names become indices, lists become
 * fields, and the astigmatism file is read. The library checks ranges that depend on the model.
 * Camera maps are checked before any fit. */
#include "programs/fit/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/fit/array_file.h"
#include "programs/fit/command.h"
#include "programs/fit/spline_file.h"

int32_t problem_parameter(compute_fit_model model, const char *name) {
  static const char *const also[][2] = {{"N", "photons"},
                                        {"bg", "background"},
                                        {"background", "bg"},
                                        {"sx", "sigma_x"},
                                        {"sy", "sigma_y"}};
  const int32_t count = compute_fit_parameter_count(model);
  for (int32_t i = 0; i < count; i++) {
    const char *own = compute_fit_parameter_name(model, i);
    if (!strcmp(own, name)) return i;
    for (size_t k = 0; k < sizeof also / sizeof *also; k++)
      if (!strcmp(also[k][0], name) && !strcmp(also[k][1], own)) return i;
  }
  return -1;
}

/* ---- NAME=VALUE lists ---------------------------------------------------------------------- */

/* Lists the model's parameters for a message: "photons, x, …". */
static void list_parameters(compute_fit_model model, char *text, size_t bytes) {
  text[0] = '\0';
  for (int32_t i = 0; i < compute_fit_parameter_count(model); i++) {
    const size_t used = strlen(text);
    snprintf(text + used, bytes - used, "%s%s", i ? ", " : "",
             compute_fit_parameter_name(model, i));
  }
}

static bool read_double(const char *text, double *value) {
  char *end;
  errno = 0;
  *value = strtod(text, &end);
  return end != text && *end == '\0' && isfinite(*value);
}

/* Takes one "NAME" or "NAME=VALUE" of an option; false if the value is invalid. */
typedef bool (*take_function)(compute_fit_problem *problem, int32_t parameter, const char *value);

static bool take_fix(compute_fit_problem *problem, int32_t i, const char *value) {
  problem->fixed |= 1u << i;
  if (!value) return true;
  problem->start_set |= 1u << i;
  return read_double(value, &problem->start[i]);
}

static bool take_start(compute_fit_problem *problem, int32_t i, const char *value) {
  problem->start_set |= 1u << i;
  return value && read_double(value, &problem->start[i]);
}

static bool take_bounds(compute_fit_problem *problem, int32_t i, const char *value) {
  char low[64];
  const char *colon = value ? strchr(value, ':') : NULL;
  if (!colon || (size_t)(colon - value) >= sizeof low) return false;
  snprintf(low, sizeof low, "%.*s", (int)(colon - value), value);
  if (low[0]) problem->lower_set |= 1u << i;
  if (colon[1]) problem->upper_set |= 1u << i;
  return (low[0] || colon[1]) && (!low[0] || read_double(low, &problem->lower[i])) &&
         (!colon[1] || read_double(colon + 1, &problem->upper[i])) &&
         !(low[0] && colon[1] && problem->lower[i] > problem->upper[i]);
}

static int take_list(compute_fit_problem *problem, const char *option, const char *list,
                     const char *allowed, take_function take) {
  char item[128], names[128];
  while (list && *list) {
    const size_t length = strcspn(list, ",");
    snprintf(item, sizeof item, "%.*s", (int)length, list);
    list += length + (list[length] == ',');
    char *value = strchr(item, '=');
    if (value) *value++ = '\0';
    const int32_t parameter = problem_parameter(problem->model, item);
    if (parameter < 0) {
      list_parameters(problem->model, names, sizeof names);
      fit_say("%s: %s has no parameter '%s'; it has %s", option,
              compute_fit_model_name(problem->model), item, names);
      return EXIT_USAGE;
    }
    if (take(problem, parameter, value)) continue;
    fit_say("%s: '%s%s%s' is not %s", option, item, value ? "=" : "", value ? value : "", allowed);
    return EXIT_USAGE;
  }
  return EXIT_GOOD;
}

/* ---- Outputs ------------------------------------------------------------------------------- */

/* The default outputs for a camera: readout has no test of the fit. */
static uint32_t usual_outputs(compute_fit_camera camera) {
  const uint32_t tests = COMPUTE_FIT_RATIO | COMPUTE_FIT_P_RAW | COMPUTE_FIT_P_VALUE;
  return COMPUTE_FIT_USUAL_OUTPUTS & ~(camera == COMPUTE_FIT_READOUT ? tests : 0);
}

static int take_outputs(const char *list, compute_fit_camera camera, uint32_t *outputs) {
  const struct {
    const char *name;
    uint32_t bits;
  } output[] = {{"parameters", COMPUTE_FIT_PARAMETERS},
                {"std", COMPUTE_FIT_STD},
                {"covariance", COMPUTE_FIT_COVARIANCE},
                {"ratio", COMPUTE_FIT_RATIO},
                {"p-raw", COMPUTE_FIT_P_RAW},
                {"p-value", COMPUTE_FIT_P_VALUE},
                {"iterations", COMPUTE_FIT_ITERATIONS},
                {"status", COMPUTE_FIT_STATUS},
                {"significance", COMPUTE_FIT_SIGNIFICANCE},
                {"usual", usual_outputs(camera)},
                {"all", COMPUTE_FIT_ALL_OUTPUTS}};
  /* Parameters and status are always written. */
  *outputs = COMPUTE_FIT_PARAMETERS | COMPUTE_FIT_STATUS;
  while (*list) {
    const size_t length = strcspn(list, ",");
    size_t i = 0, count = sizeof output / sizeof *output;
    while (i < count && (strlen(output[i].name) != length || strncmp(output[i].name, list, length)))
      i++;
    if (i == count) {
      fit_say("--outputs: unknown output '%.*s'; the outputs are parameters, std, covariance, "
              "ratio, p-raw, "
              "p-value, iterations, status, significance, usual and all",
              (int)length, list);
      return EXIT_USAGE;
    }
    *outputs |= output[i].bits;
    list += length + (list[length] == ',');
  }
  return EXIT_GOOD;
}

/* ---- Astigmatism --------------------------------------------------------------------------- */

static void trim(char *text) {
  text[strcspn(text, "#\n")] = '\0';
  size_t length = strlen(text), start = strspn(text, " \t\r");
  while (length > start && strchr(" \t\r", text[length - 1])) length--;
  text[length] = '\0';
  memmove(text, text + start, length - start + 1);
}

/* Reads "key: number" lines. All keys must be present: a file without one was truncated. */
static int read_astigmatism(const char *path, compute_fit_problem *problem) {
  struct {
    const char *key;
    double *value;
    bool found;
  } entry[] = {{"depth", &problem->depth, false},      {"gamma", &problem->gamma, false},
               {"ax", &problem->a[0], false},          {"ay", &problem->a[1], false},
               {"bx", &problem->b[0], false},          {"by", &problem->b[1], false},
               {"sigma_x", &problem->sigma[0], false}, {"sigma_y", &problem->sigma[1], false}};
  const size_t count = sizeof entry / sizeof *entry;
  char line[256];
  int result = EXIT_GOOD;
  FILE *file = fopen(path, "r");
  if (!file) {
    fit_say("--astigmatism: cannot read '%s': %s", path, strerror(errno));
    return EXIT_FAILED;
  }
  for (int number = 1; result == EXIT_GOOD && fgets(line, sizeof line, file); number++) {
    trim(line);
    if (!line[0] || !strcmp(line, "---")) continue;
    char *value = strchr(line, ':');
    if (value) *value++ = '\0';
    size_t i = 0;
    if (value) {
      trim(line);
      trim(value);
      while (i < count && strcmp(entry[i].key, line)) i++;
    }
    if (!value || i == count || !read_double(value, entry[i].value)) {
      fit_say("--astigmatism: %s, line %d is not 'KEY: NUMBER' with one of the keys depth, gamma, "
              "ax, ay, bx, by, sigma_x, sigma_y",
              path, number);
      result = EXIT_FAILED;
    } else {
      entry[i].found = true;
    }
  }
  if (!result && ferror(file)) {
    fit_say("--astigmatism: cannot read '%s': %s", path, strerror(errno));
    result = EXIT_FAILED;
  }
  for (size_t i = 0; !result && i < count; i++)
    if (!entry[i].found) {
      fit_say("--astigmatism: %s does not say %s: is it whole?", path, entry[i].key);
      result = EXIT_FAILED;
    }
  fclose(file);
  return result;
}

static double second(const list_value *list) {
  return list->value[list->count > 1];
}

static int take_spline(const fit_arguments *a, compute_fit_problem *p) {
  spline_values s = {0};
  failure why = {0};
  if (!a->calibration) {
    fit_say("SPLINE needs --calibration FILE, which calibrate --model SPLINE writes");
    return EXIT_USAGE;
  }
  compute_status status = spline_file_read(a->calibration, &s, &why);
  if (!status) status = spline_values_use(&s, p, &why);
  free(s.values);
  return status ? fit_say_failure(&why) : EXIT_GOOD;
}

/* Takes the options for z. Both models with z accept --z-start. */
static int take_depth(const fit_arguments *a, compute_fit_problem *p) {
  static const char *const option[] = {"--astigmatism", "--depth", "--gamma",
                                       "--a",           "--b",     "--z-start"};
  if (p->model == COMPUTE_FIT_SPLINE) {
    for (size_t i = 0; i < 5; i++) /* all except --z-start */
      if (option_given(&a->line, option[i]) && strcmp(option[i], "--astigmatism")) {
        fit_say("%s is for --model XYZNB, not for SPLINE", option[i]);
        return EXIT_USAGE;
      }
    p->z_start_count = a->z_start.count;
    memcpy(p->z_start, a->z_start.value, sizeof p->z_start);
    return take_spline(a, p);
  }
  if (p->model != COMPUTE_FIT_XYZNB) {
    for (size_t i = 0; i < sizeof option / sizeof *option; i++) {
      if (!option_given(&a->line, option[i])) continue;
      /* validate and bench run several models, including XYZNB. */
      if (a->line.command & (COMMAND_VALIDATE | COMMAND_BENCH)) continue;
      fit_say("%s is for --model XYZNB, not for %s", option[i], compute_fit_model_name(p->model));
      return EXIT_USAGE;
    }
    return EXIT_GOOD;
  }
  p->depth = a->depth;
  p->gamma = a->gamma;
  int result = a->astigmatism ? read_astigmatism(a->astigmatism, p) : EXIT_GOOD;
  /* Options take precedence over the file. */
  if (option_given(&a->line, "--depth")) p->depth = a->depth;
  if (option_given(&a->line, "--gamma")) p->gamma = a->gamma;
  if (option_given(&a->line, "--sigma")) {
    p->sigma[0] = a->sigma.value[0];
    p->sigma[1] = second(&a->sigma);
  }
  if (a->a.count) p->a[0] = a->a.value[0], p->a[1] = second(&a->a);
  if (a->b.count) p->b[0] = a->b.value[0], p->b[1] = second(&a->b);
  p->z_start_count = a->z_start.count;
  memcpy(p->z_start, a->z_start.value, sizeof p->z_start);
  return result;
}

/* ---- Camera -------------------------------------------------------------------------------- */

/* Refuses options for another camera, because they would have no effect. */
static int take_camera(const fit_arguments *a, compute_fit_problem *p) {
  static const struct {
    const char *option, *allowed;
    bool emccd, readout;
  } rule[] = {{"--offset", "emccd, scmos and readout", true, true},
              {"--gain", "emccd, scmos and readout", true, true},
              {"--gain-adu-per-electron", "emccd, scmos and readout", true, true},
              {"--em-gain", "emccd", true, false},
              {"--variance", "scmos and readout", false, true}};
  static const char *const name[] = {"ideal", "emccd", "scmos", "readout"};
  for (size_t i = 0; i < sizeof rule / sizeof *rule; i++) {
    const bool allowed[] = {false, rule[i].emccd, rule[i].readout, rule[i].readout};
    if (!option_given(&a->line, rule[i].option) || allowed[a->camera]) continue;
    fit_say("%s is for the cameras %s; the camera here is %s (--camera)", rule[i].option,
            rule[i].allowed, name[a->camera]);
    return EXIT_USAGE;
  }
  if (option_given(&a->line, "--gain") && option_given(&a->line, "--gain-adu-per-electron")) {
    fit_say("--gain and --gain-adu-per-electron set the same value; give only one of them");
    return EXIT_USAGE;
  }
  p->offset = a->offset.file ? 0 : a->offset.number;
  p->gain =
      option_given(&a->line, "--gain-adu-per-electron") ? 1 / a->gain_adu.number : a->gain.number;
  p->em_gain = a->em_gain;
  p->variance = a->variance.file ? 0 : a->variance.number;
  return EXIT_GOOD;
}

int problem_from_arguments(const fit_arguments *a, compute_fit_problem *problem) {
  *problem = (compute_fit_problem){.model = (compute_fit_model)a->model,
                                   .profile = (compute_fit_profile)a->profile,
                                   .solver = (compute_fit_solver)a->solver,
                                   .camera = (compute_fit_camera)a->camera,
                                   .rows = a->roi.rows,
                                   .columns = a->roi.columns,
                                   .iterations = (int32_t)a->iterations,
                                   .epsilon = a->epsilon,
                                   .sigma = {a->sigma.value[0], second(&a->sigma)}};
  int result = take_depth(a, problem);
  if (!result) result = take_camera(a, problem);
  problem->outputs = usual_outputs(problem->camera);
  if (!result && a->outputs) result = take_outputs(a->outputs, problem->camera, &problem->outputs);
  if (!result && a->where && strstr(a->where, "significance"))
    problem->outputs |= COMPUTE_FIT_SIGNIFICANCE;
  if (!result) result = take_list(problem, "--fix", a->fix, "NAME or NAME=NUMBER", take_fix);
  if (!result) result = take_list(problem, "--start", a->start, "NAME=NUMBER", take_start);
  if (!result)
    result =
        take_list(problem, "--bounds", a->bounds,
                  "NAME=LOW:HIGH, with either or both bounds, and LOW not above HIGH", take_bounds);
  return result;
}

/* ---- Maps of the camera -------------------------------------------------------------------- */

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

/* Checks every pixel, and converts counts per electron to electrons per count. */
static int check_pixels(const char *option, const char *path, map_kind kind, float *value,
                        int64_t count, int64_t columns) {
  static const char *const allowed[] = {"offsets must be finite", "gains must be above 0",
                                        "gains must be above 0", "variances must be at least 0"};
  for (int64_t i = 0; i < count; i++) {
    const float v = value[i];
    const bool good = kind == MAP_OFFSET ? true : kind == MAP_VARIANCE ? v >= 0 : v > 0;
    if (!isfinite(v) || !good) return say_pixel(option, path, columns, i, (double)v, allowed[kind]);
    if (kind == MAP_INVERSE_GAIN) value[i] = 1 / v;
  }
  return EXIT_GOOD;
}

static int read_map(const char *option, const map_value *from, map_kind kind,
                    const wanted_shape *wanted, compute_fit_map *map) {
  array_data array = {0};
  failure why = {0};
  if (!from->file) return EXIT_GOOD;
  if (array_read(from->file, COMPUTE_F32, 2, 2, &array, &why)) {
    fit_say("%s must be a number or a map:", option);
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
