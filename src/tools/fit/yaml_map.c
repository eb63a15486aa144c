/* Events of libyaml, one after the other: nothing is built from what the file nests, repeats or
 * refers to, so it may be as large as it likes. */
#include "tools/fit/yaml_map.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#ifdef FIT_WITH_YAML
#include <yaml.h>

typedef struct yaml_walk {
  const char *path;
  yaml_entry *entries;
  size_t count;
  yaml_parser_t parser;
  int depth;   /* of nested lists and mappings; the document's mapping is 1 */
  bool at_key; /* the next scalar at depth 1 is a key */
  bool done;
  yaml_entry *matched; /* what the value that follows belongs to, or NULL */
} yaml_walk;

static compute_status fail_syntax(const yaml_walk *walk, failure *why) {
  const yaml_parser_t *parser = &walk->parser;
  if (parser->error == YAML_MEMORY_ERROR) {
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "no memory to read %s", walk->path);
  }
  return failure_set(why, COMPUTE_ERROR_FORMAT, NULL, "%s, line %zu: no valid YAML: %s", walk->path,
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
    return failure_set(why, COMPUTE_ERROR_FORMAT, NULL, "%s: the value of \"%s\" makes no sense",
                       walk->path, entry->key);
  }
  memcpy(entry->value, text, strlen(text) + 1);
  return COMPUTE_OK;
}

/* A list or mapping begins. */
static compute_status enter(yaml_walk *walk, bool mapping, failure *why) {
  if (walk->depth == 0 && !mapping) {
    return failure_set(why, COMPUTE_ERROR_FORMAT, NULL, "%s is no list of keys and values",
                       walk->path);
  }
  if (walk->depth == 1 && walk->matched) {
    return failure_set(why, COMPUTE_ERROR_FORMAT, NULL, "%s: the value of \"%s\" makes no sense",
                       walk->path, walk->matched->key);
  }
  walk->depth++;
  if (walk->depth == 1) walk->at_key = true;
  return COMPUTE_OK;
}

static void leave(yaml_walk *walk) {
  walk->depth--;
  if (walk->depth == 1) walk->at_key = !walk->at_key; /* a value has ended (or an odd key) */
}

static compute_status take_event(yaml_walk *walk, const yaml_event_t *event, failure *why) {
  switch (event->type) {
  case YAML_SCALAR_EVENT: {
    const char *text = (const char *)event->data.scalar.value;
    if (walk->depth == 0) return enter(walk, false, why);
    if (walk->depth > 1) return COMPUTE_OK;
    return walk->at_key ? take_key(walk, text, why) : take_value(walk, text, why);
  }
  case YAML_ALIAS_EVENT: /* what it stands for is not kept */
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

compute_status yaml_map_read(const char *path, yaml_entry *entries, size_t count, failure *why) {
  yaml_walk walk = {.path = path, .entries = entries, .count = count};
  for (size_t i = 0; i < count; i++) entries[i].value[0] = 0;
  FILE *file = fopen(path, "rbe");
  if (!file) return failure_set_system(why, errno, NULL, "cannot open %s", path);
  if (!yaml_parser_initialize(&walk.parser)) {
    fclose(file);
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "no memory to read %s", path);
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

compute_status yaml_map_read(const char *path, yaml_entry *entries, size_t count, failure *why) {
  (void)entries;
  (void)count;
  return failure_set(why, COMPUTE_ERROR_UNSUPPORTED, "build it again with libyaml's headers",
                     "%s cannot be read: this program was built without libyaml", path);
}

#endif
