/* SPDX-License-Identifier: MIT */
/* Loading tree ensembles from files of XGBoost and LightGBM, and recording them. */
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/file.h"
#include "core/base/float_environment.h"
#include "graph/builders/parts.h"
#include "io/new_file.h"
#include "model/trees/files.h"

enum { MOST = 1 << 24 }; /* features and results of compute_tree_ensemble */

/* ---- Bytes ----------------------------------------------------------------------------------- */

typedef enum format { FORMAT_UNKNOWN, FORMAT_TEXT, FORMAT_UBJ, FORMAT_JSON } format;

/* The format by the first bytes: the line "tree", { and the marker of a length, or {"…. A zero follows
 * the bytes. */
static format format_of(const char *data, size_t bytes) {
  if (bytes > 4 && strncmp(data, "tree", 4) == 0 && strchr("\r\n", data[4])) return FORMAT_TEXT;
  if (bytes > 1 && data[0] == '{' && data[1] && strchr("iUIlL#", data[1])) return FORMAT_UBJ;
  return data[strspn(data, " \t\r\n")] == '{' ? FORMAT_JSON : FORMAT_UNKNOWN;
}

static compute_status unknown_format(tree_reader *reader) {
  return tree_refuse(reader, COMPUTE_ERROR_FORMAT,
                     "it is no JSON or UBJ file of XGBoost and no text file of LightGBM");
}

static compute_status read_file(tree_reader *reader, int descriptor) {
  struct stat status;
  if (fstat(descriptor, &status) != 0)
    return file_error(reader->context, reader->operation, reader->path, "look at", errno);
  if (!S_ISREG(status.st_mode))
    return tree_refuse(reader, COMPUTE_ERROR_FILE, "it is not a regular file");
  const uint64_t bytes = (uint64_t)status.st_size;
  reader->data = bytes < SIZE_MAX ? base_allocate(bytes + 1, 1) : NULL;
  if (!reader->data) return tree_no_memory(reader);
  reader->bytes = (size_t)bytes;
  /* A large file of another kind is refused before it is read. */
  const size_t first = reader->bytes < 256 ? reader->bytes : 256;
  int code = file_read(descriptor, reader->data, first);
  if (code == 0 && format_of(reader->data, first) == FORMAT_UNKNOWN) return unknown_format(reader);
  if (code == 0) code = file_read(descriptor, reader->data + first, reader->bytes - first);
  if (code == FILE_ENDED)
    return tree_refuse(reader, COMPUTE_ERROR_FILE, "it has become shorter while it was read");
  return code ? file_error(reader->context, reader->operation, reader->path, "read", code)
              : COMPUTE_OK;
}

static compute_status open_file(tree_reader *reader) {
  const int descriptor = open(reader->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    return file_error(reader->context, reader->operation, reader->path, "open", errno);
  const compute_status status = read_file(reader, descriptor);
  close(descriptor);
  return status;
}

/* ---- Loading --------------------------------------------------------------------------------- */

static compute_status read_format(tree_reader *reader) {
  switch (format_of(reader->data, reader->bytes)) {
  case FORMAT_TEXT: return lightgbm_read(reader);
  case FORMAT_UBJ: return xgboost_read(reader, true);
  case FORMAT_JSON: return xgboost_read(reader, false);
  case FORMAT_UNKNOWN: break;
  }
  return unknown_format(reader);
}

/* Checks what recording would refuse, and lists the roots. */
static compute_status check_model(tree_reader *reader) {
  compute_tree_model *m = reader->model;
  if (m->features < 1 || m->features > MOST || m->targets > MOST)
    return tree_refuse(reader, COMPUTE_ERROR_FORMAT, "%" PRId64 " features, %" PRId64 " results",
                       m->features, m->targets);
  for (size_t i = 0; i < m->node_count; i++)
    if (m->nodes[i].feature >= m->features)
      return tree_refuse(reader, COMPUTE_ERROR_FORMAT, "feature %" PRId64 " of %" PRId64,
                         m->nodes[i].feature, m->features);
  m->roots = base_allocate(m->tree_count, sizeof *m->roots);
  if (!m->roots) return tree_no_memory(reader);
  for (size_t t = 0; t < m->tree_count; t++) m->roots[t] = m->trees[t].root;
  return COMPUTE_OK;
}

static compute_status load(tree_reader *reader, const void *data, compute_tree_model **model) {
  FLOAT_ENVIRONMENT_DEFAULT;
  compute_tree_model *m = base_allocate(1, sizeof *m);
  if (!m)
    return error_set(reader->context, COMPUTE_ERROR_OUT_OF_MEMORY, reader->operation,
                     "not enough memory");
  *m = (compute_tree_model){.divisor = 1, .scale = 1};
  reader->model = m;
  reader->c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  compute_status status = reader->c_locale ? COMPUTE_OK : tree_no_memory(reader);
  if (!status && reader->path) {
    status = open_file(reader);
  } else if (!status) {
    reader->data = reader->bytes < SIZE_MAX ? base_allocate((uint64_t)reader->bytes + 1, 1) : NULL;
    if (!reader->data) status = tree_no_memory(reader);
    if (!status && reader->bytes) memcpy(reader->data, data, reader->bytes);
  }
  if (!status) status = read_format(reader);
  if (!status) status = check_model(reader);
  base_release(reader->data);
  for (int i = 0; i < COLUMN_COUNT; i++) base_release(reader->columns[i].data);
  if (reader->c_locale) freelocale(reader->c_locale);
  if (status)
    compute_tree_model_release(m);
  else
    *model = m;
  return status;
}

compute_status compute_tree_model_load(const compute_context *context, const char *path,
                                       compute_tree_model **model) {
  static const char operation[] = "compute_tree_model_load";
  REFUSE_INHERITED_CONTEXT(context);
  if (model) *model = NULL;
  compute_status status = error_if_null(context, operation, path, model);
  tree_reader reader = {.context = context, .operation = operation, .path = path};
  return status ? status : load(&reader, NULL, model);
}

compute_status compute_tree_model_load_memory(const compute_context *context, const void *data,
                                              size_t bytes, compute_tree_model **model) {
  static const char operation[] = "compute_tree_model_load_memory";
  REFUSE_INHERITED_CONTEXT(context);
  if (model) *model = NULL;
  compute_status status = error_if_null(context, operation, data, model);
  tree_reader reader = {.context = context, .operation = operation, .bytes = bytes};
  return status ? status : load(&reader, data, model);
}

void compute_tree_model_release(compute_tree_model *model) {
  if (!model) return;
  base_release(model->objective);
  base_release(model->nodes);
  base_release(model->values);
  base_release(model->trees);
  base_release(model->roots);
  base_release(model);
}

compute_status compute_tree_model_describe(const compute_tree_model *model,
                                           compute_tree_model_info *info) {
  compute_status status = error_if_null(NULL, "compute_tree_model_describe", model, info);
  if (status) return status;
  *info = (compute_tree_model_info){.format = model->format,
                                    .objective = model->objective ? model->objective : "",
                                    .features = model->features,
                                    .targets = model->targets,
                                    .trees = (int64_t)model->tree_count,
                                    .nodes = (int64_t)model->node_count};
  return COMPUTE_OK;
}

/* ---- Recording ------------------------------------------------------------------------------- */

static compute_node apply_link(compute_graph *graph, const compute_tree_model *m, compute_node y) {
  switch (m->link) {
  case LINK_LOGISTIC:
    if (m->scale != 1) y = compute_mul(graph, y, part_number(graph, y, m->scale));
    return compute_sigmoid(graph, y);
  case LINK_SOFTMAX: return compute_softmax(graph, y, -1);
  case LINK_EXP: return compute_exp(graph, y);
  case LINK_HINGE:
    return part_cast(graph, compute_greater(graph, y, part_number(graph, y, 0)),
                     compute_node_dtype(graph, y));
  case LINK_SQUARE: return compute_mul(graph, y, compute_abs(graph, y));
  case LINK_LOG1P: return compute_softplus(graph, y);
  case LINK_NONE:
  case LINK_UNKNOWN: break;
  }
  return y;
}

compute_node compute_tree_model_record(compute_graph *graph, compute_node x,
                                       const compute_tree_model *model, bool sums) {
  static const char operation[] = "tree_model";
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  if (!build_start(graph, operation)) return BUILD_NONE;
  if (!model) return graph_fail(graph, COMPUTE_ERROR_NULL_POINTER, operation, "model is NULL");
  if (!sums && model->link == LINK_UNKNOWN)
    return graph_fail(graph, COMPUTE_ERROR_UNSUPPORTED, operation,
                      "the objective '%.60s' is unknown; only the sums can be computed",
                      model->objective ? model->objective : "");
  uint32_t input;
  if (!build_operands(graph, operation, &x, 1, &input)) return BUILD_NONE;
  const compute_shape shape = build_at(graph, input)->shape;
  if (shape.rank == 0 || shape.size[shape.rank - 1] != model->features)
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "x must have %" PRId64 " features along its last axis", model->features);
  const compute_dtype dtype = compute_node_dtype(graph, x);
  if (dtype == COMPUTE_F64 && model->rounds)
    x = part_cast(graph, part_cast(graph, x, COMPUTE_F32), COMPUTE_F64);
  const compute_tree_ensemble_options options = {.nodes = model->nodes,
                                                 .values = model->values,
                                                 .roots = model->roots,
                                                 .node_count = (int64_t)model->node_count,
                                                 .value_count = (int64_t)model->value_count,
                                                 .tree_count = (int64_t)model->tree_count,
                                                 .targets = model->targets};
  /* Sums of f16 could overflow before they are divided. */
  compute_node y = compute_tree_ensemble(graph, part_wide(graph, x), &options);
  if (!sums && model->divisor != 1)
    y = compute_div(graph, y, part_number(graph, y, model->divisor));
  if (!sums) y = apply_link(graph, model, y);
  return part_cast(graph, y, dtype);
}
