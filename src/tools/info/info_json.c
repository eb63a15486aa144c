/* compute-info for programs: one JSON object. Memory running out while it is made is noticed once,
 * at the end: jansson's calls pass NULL on and report it. */
#include <stdlib.h>
#include <string.h>

#include "tools/describe.h"
#include "tools/info/info.h"
#include "tools/json_text.h"

extern char **environ;

static json_t *modules(const compute_context *context) {
  json_t *list = json_array();
  const compute_probe *probe;
  for (size_t i = 0; (probe = compute_probe_at(context, i)); i++)
    json_array_append_new(
        list,
        json_pack("{s:o,s:o,s:s,s:o,s:o,s:o,s:I}", "name", json_text(probe->name), "path",
                  json_text(probe->path), "state", compute_probe_state_text(probe->state), "detail",
                  json_text(probe->detail), "remedy", json_text(probe->remedy), "version",
                  json_text(probe->version), "device_count", (json_int_t)probe->device_count));
  return list;
}

static json_t *capabilities(uint64_t bits) {
  json_t *list = json_array();
  for (const describe_capability *c = describe_capabilities; c->bit; c++)
    if (bits & c->bit) json_array_append_new(list, json_string(c->name));
  return list;
}

/* The lines of `text` that are not empty. */
static json_t *lines(const char *text) {
  json_t *list = json_array();
  char copy[sizeof((compute_device_info *)NULL)->notes], *position;
  strncpy(copy, text, sizeof copy - 1);
  copy[sizeof copy - 1] = '\0';
  for (char *l = strtok_r(copy, "\n", &position); l; l = strtok_r(NULL, "\n", &position))
    json_array_append_new(list, json_text(l));
  return list;
}

static json_t *device(compute_device *handle, bool is_default) {
  compute_device_info info = {0};
  compute_status status = compute_device_describe(handle, &info);
  json_t *object = json_pack(
      "{s:o,s:b,s:o,s:s,s:o,s:o,s:o,s:o,s:i,s:I,s:I,s:I}", "name", json_text(info.name), "default",
      (int)is_default, "backend", json_text(info.backend), "type", describe_device_type(info.type),
      "model", json_text(info.model), "vendor", json_text(info.vendor), "driver",
      json_text(info.driver), "isa", json_text(info.isa), "priority", (int)info.priority, "index",
      (json_int_t)info.index, "compute_units", (json_int_t)info.compute_units, "vector_width",
      (json_int_t)info.vector_width);
  json_t *more = json_pack(
      "{s:o,s:I,s:I,s:I,s:I,s:o,s:o}", "capabilities", capabilities(info.capabilities),
      "memory_total", (json_int_t)info.memory_total, "memory_free", (json_int_t)info.memory_free,
      "memory_max_allocation", (json_int_t)info.memory_max_allocation, "cache_bytes",
      (json_int_t)info.cache_bytes, "warnings", lines(info.notes), "error",
      status ? json_text(compute_error_message(NULL)) : json_null());
  json_object_update(object, more);
  json_decref(more);
  return object;
}

static json_t *devices(const compute_context *context) {
  json_t *list = json_array();
  compute_device *handle;
  for (size_t i = 0; (handle = compute_device_at(context, i)); i++)
    json_array_append_new(list, device(handle, handle == compute_default_device(context)));
  return list;
}

static json_t *variables(void) {
  json_t *list = json_array();
  const compute_variable *variable;
  for (size_t i = 0; (variable = compute_variable_at(i)); i++)
    json_array_append_new(list,
                          json_pack("{s:s,s:o,s:s,s:s}", "name", variable->name, "value",
                                    json_text(compute_variable_value(variable->name)), "values",
                                    variable->values, "description", variable->description));
  return list;
}

static json_t *blas_variables(void) {
  json_t *object = json_object();
  for (char **entry = environ; *entry; entry++) {
    char name[128];
    size_t length = strcspn(*entry, "=");
    if (!describe_is_blas_variable(*entry) || length >= sizeof name) continue;
    memcpy(name, *entry, length);
    name[length] = '\0';
    json_object_set_new(object, name, json_text(*entry + length + ((*entry)[length] == '=')));
  }
  return object;
}

static json_t *problem(const compute_error *error) {
  if (!error->status) return json_null();
  return json_pack("{s:s,s:o,s:o}", "status", compute_status_name(error->status), "message",
                   json_text(error->message), "remedy", json_text(error->remedy));
}

int info_print_json(const info_report *report) {
  json_t *root =
      json_pack("{s:s,s:I,s:o,s:o,s:o,s:o,s:o,s:o}", "version", compute_version_text(),
                "version_number", (json_int_t)compute_version(), "error", problem(&report->error),
                "modules", modules(report->context), "devices", devices(report->context),
                "variables", variables(), "environment", blas_variables(), "cache_folder",
                report->cache_folder[0] ? json_text(report->cache_folder) : json_null());
  int result = root ? json_write(root, "-") : -1;
  json_decref(root);
  return result;
}
