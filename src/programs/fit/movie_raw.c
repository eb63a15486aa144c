/* SPDX-License-Identifier: MIT */
/* Raw pixels, described by a YAML side-car file with the same name, as Picasso writes it. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/fit/movie_private.h"
#include "programs/fit/movie_scale.h"
#include "programs/fit/side_car.h"

#ifdef FIT_WITH_YAML
#include <yaml.h>
#endif

/* ---- YAML ---------------------------------------------------------------------------------- */

/* Reads libyaml's events one by one. Nothing is built from nested, repeated or aliased parts of the
 * file, so memory does not grow with its size. */

typedef struct yaml_entry {
  const char *key; /* the key to find */
  char value[64];  /* the value's text; empty if the key is missing */
} yaml_entry;

#ifdef FIT_WITH_YAML
typedef struct yaml_walk {
  const char *path;
  yaml_entry *entries;
  size_t count;
  yaml_parser_t parser;
  int depth;   /* nesting of lists and mappings; the document's mapping is 1 */
  bool at_key; /* the next scalar at depth 1 is a key */
  bool done;
  yaml_entry *matched; /* the entry whose value follows, or NULL */
} yaml_walk;

static compute_status fail_syntax(const yaml_walk *walk, failure *why) {
  const yaml_parser_t *parser = &walk->parser;
  if (parser->error == YAML_MEMORY_ERROR)
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory to read %s",
                       walk->path);
  return failure_set(why, COMPUTE_ERROR_FORMAT, NULL, "%s, line %zu: invalid YAML: %s", walk->path,
                     parser->problem_mark.line + 1, parser->problem ? parser->problem : "damaged");
}

static compute_status take_key(yaml_walk *walk, const char *text, failure *why) {
  walk->at_key = false;
  walk->matched = NULL;
  for (size_t i = 0; i < walk->count; i++) {
    if (strcmp(walk->entries[i].key, text) != 0) continue;
    if (walk->entries[i].value[0]) {
      return failure_set(why, COMPUTE_ERROR_FORMAT, NULL, "%s has \"%s\" twice", walk->path, text);
    }
    walk->matched = &walk->entries[i];
  }
  return COMPUTE_OK;
}

static compute_status take_value(yaml_walk *walk, const char *text, failure *why) {
  yaml_entry *entry = walk->matched;
  walk->at_key = true;
  walk->matched = NULL;
  if (!entry) return COMPUTE_OK;
  if (strlen(text) == 0 || strlen(text) >= sizeof entry->value) {
    return failure_set(why, COMPUTE_ERROR_FORMAT, NULL, "%s: invalid value of \"%s\"", walk->path,
                       entry->key);
  }
  memcpy(entry->value, text, strlen(text) + 1);
  return COMPUTE_OK;
}

/* Handles the start of a list or mapping. */
static compute_status enter(yaml_walk *walk, bool mapping, failure *why) {
  if (walk->depth == 0 && !mapping)
    return failure_set(why, COMPUTE_ERROR_FORMAT, NULL, "%s is not a list of keys and values",
                       walk->path);
  if (walk->depth == 1 && walk->matched)
    return failure_set(why, COMPUTE_ERROR_FORMAT, NULL, "%s: invalid value of \"%s\"", walk->path,
                       walk->matched->key);
  walk->depth++;
  if (walk->depth == 1) walk->at_key = true;
  return COMPUTE_OK;
}

static void leave(yaml_walk *walk) {
  walk->depth--;
  if (walk->depth == 1)
    walk->at_key = !walk->at_key; /* the end of a value or of a key that is not
                                   * a scalar */
}

static compute_status take_event(yaml_walk *walk, const yaml_event_t *event, failure *why) {
  switch (event->type) {
  case YAML_SCALAR_EVENT: {
    const char *text = (const char *)event->data.scalar.value;
    if (walk->depth == 0) return enter(walk, false, why);
    if (walk->depth > 1) return COMPUTE_OK;
    return walk->at_key ? take_key(walk, text, why) : take_value(walk, text, why);
  }
  case YAML_ALIAS_EVENT: /* anchored values are not kept */
    if (walk->depth > 1) return COMPUTE_OK;
    return walk->at_key ? take_key(walk, "", why) : take_value(walk, "", why);
  case YAML_SEQUENCE_START_EVENT: return enter(walk, false, why);
  case YAML_MAPPING_START_EVENT: return enter(walk, true, why);
  case YAML_SEQUENCE_END_EVENT:
  case YAML_MAPPING_END_EVENT: leave(walk); return COMPUTE_OK;
  case YAML_DOCUMENT_END_EVENT:
  case YAML_STREAM_END_EVENT: walk->done = true; return COMPUTE_OK;
  default: return COMPUTE_OK;
  }
}

static compute_status yaml_map_read(const char *path, yaml_entry *entries, size_t count,
                                    failure *why) {
  yaml_walk walk = {.path = path, .entries = entries, .count = count};
  for (size_t i = 0; i < count; i++) entries[i].value[0] = 0;
  FILE *file = fopen(path, "rbe");
  if (!file) return failure_set_system(why, errno, NULL, "cannot open %s", path);
  if (!yaml_parser_initialize(&walk.parser)) {
    fclose(file);
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory to read %s", path);
  }
  yaml_parser_set_input_file(&walk.parser, file);
  compute_status status = COMPUTE_OK;
  while (!walk.done && !status) {
    yaml_event_t event;
    if (!yaml_parser_parse(&walk.parser, &event)) {
      status = fail_syntax(&walk, why);
      break;
    }
    status = take_event(&walk, &event, why);
    yaml_event_delete(&event);
  }
  yaml_parser_delete(&walk.parser);
  fclose(file);
  return status;
}

#else

static compute_status yaml_map_read(const char *path, yaml_entry *entries, size_t count,
                                    failure *why) {
  (void)entries;
  (void)count;
  return failure_set(why, COMPUTE_ERROR_UNSUPPORTED, "build it again with libyaml's headers",
                     "%s cannot be read: this program was built without libyaml", path);
}

#endif

/* ---- Raw files ----------------------------------------------------------------------------- */

enum { WIDTH, HEIGHT, FRAMES, DATA_TYPE, ORDER, PIXEL_SIZE, KEYS };

typedef struct raw_type {
  const char *name, *code; /* NumPy's name and code */
  compute_dtype dtype;
} raw_type;

static const raw_type types[] = {{"uint8", "u1", COMPUTE_U8},
                                 {"uint16", "u2", COMPUTE_U16},
                                 {"float32", "f4", COMPUTE_F32},
                                 {"float64", "f8", COMPUTE_F64}};

static compute_status read_number(const char *path, const yaml_entry *entry, int64_t *number,
                                  failure *why) {
  if (!entry->value[0])
    return failure_set(why, COMPUTE_ERROR_FORMAT,
                       "it needs Width, Height, Frames and Data Type (for example, uint16)",
                       "%s lacks \"%s\"", path, entry->key);
  char *end;
  errno = 0;
  long long value = strtoll(entry->value, &end, 10);
  if (*end || errno || value < 0)
    return failure_set(why, COMPUTE_ERROR_FORMAT, NULL, "%s: \"%s: %s\" is not a number", path,
                       entry->key, entry->value);
  *number = value;
  return COMPUTE_OK;
}

/* Reads a type such as "uint16", "u2" or "<u2". The byte order may be part of the type. */
static compute_status read_type(const char *path, const yaml_entry *entries, compute_dtype *dtype,
                                bool *big, failure *why) {
  const char *text = entries[DATA_TYPE].value, *order = entries[ORDER].value;
  if (!text[0])
    return failure_set(why, COMPUTE_ERROR_FORMAT,
                       "it needs Width, Height, Frames and Data Type (for example, uint16)",
                       "%s lacks \"Data Type\"", path);
  char sign = strchr("<>|=", text[0]) ? *text++ : '=';
  if (order[0] && strcmp(order, "<") != 0 && strcmp(order, ">") != 0)
    return failure_set(why, COMPUTE_ERROR_FORMAT, NULL, "%s: \"Byte Order: %s\" is neither < nor >",
                       path, order);
  if ((sign == '<' || sign == '>') && order[0] && order[0] != sign)
    return failure_set(why, COMPUTE_ERROR_FORMAT, NULL,
                       "%s: Data Type and Byte Order contradict each other", path);
  *big = sign == '>' || order[0] == '>';
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (strcmp(text, types[i].name) != 0 && strcmp(text, types[i].code) != 0) continue;
    *dtype = types[i].dtype;
    return COMPUTE_OK;
  }
  return failure_set(why, COMPUTE_ERROR_FORMAT, NULL,
                     "%s: \"Data Type: %s\" is not uint8, uint16, float32 or float64", path,
                     entries[DATA_TYPE].value);
}

static compute_status check_length(const movie *file, const char *side, int64_t frames,
                                   compute_dtype dtype, failure *why) {
  uint64_t each = (uint64_t)file->info.rows * (uint64_t)file->info.columns *
                  compute_dtype_size(dtype); /* ≤ 2^33 */
  uint64_t needed;
  if (!__builtin_mul_overflow((uint64_t)frames, each, &needed) && needed == file->info.file_bytes)
    return COMPUTE_OK;
  return failure_set(
      why, COMPUTE_ERROR_FORMAT, "correct the side-car, or copy the file again if it is truncated",
      "%s: %" PRId64 " frames of %" PRId64 " x %" PRId64 " %s are not the %" PRIu64
      " bytes of %s, which hold %.6g frames",
      side, frames, file->info.rows, file->info.columns, compute_dtype_name(dtype),
      file->info.file_bytes, file->path, (double)file->info.file_bytes / (double)each);
}

static compute_status open_with(movie *file, const char *side, failure *why) {
  yaml_entry entries[KEYS] = {{.key = "Width"},     {.key = "Height"},     {.key = "Frames"},
                              {.key = "Data Type"}, {.key = "Byte Order"}, {.key = "Pixelsize"}};
  compute_status status = yaml_map_read(side, entries, KEYS, why);
  int64_t width = 0, height = 0, frames = 0;
  compute_dtype dtype = COMPUTE_DTYPE_NONE;
  bool big = false;
  if (!status) status = read_number(side, &entries[WIDTH], &width, why);
  if (!status) status = read_number(side, &entries[HEIGHT], &height, why);
  if (!status) status = read_number(side, &entries[FRAMES], &frames, why);
  if (!status) status = read_type(side, entries, &dtype, &big, why);
  if (!status) status = movie_set_size(file, dtype, frames, height, width, why);
  if (!status) status = check_length(file, side, frames, dtype, why);
  if (status) return status;
  file->swapped = big != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) && dtype != COMPUTE_U8;
  file->info.format = "raw";
  file->info.pixel_size = movie_scale_nm(strtod(entries[PIXEL_SIZE].value, NULL));
  snprintf(file->info.stored, sizeof file->info.stored, "%s%s", compute_dtype_name(dtype),
           big ? ", big-endian" : "");
  movie_use_flat(file);
  return COMPUTE_OK;
}

compute_status movie_raw_open(movie *file, failure *why) {
  char *side = side_car_path(file->path);
  if (!side)
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory to open %s",
                       file->path);
  compute_status status = open_with(file, side, why);
  free(side);
  return status;
}
