/* SPDX-License-Identifier: MIT */
/* Internals of a layer.
 *
 * A layer has constants (layer_kind), its own weights, and the parts that it owns. A leaf has no
 * parts. `all` lists the weights of the layer and its parts with their dotted names, for the public
 * calls. It is created with the layer, so that queries can neither fail nor allocate. A repeated
 * tensor (custom layers may share one) is listed once. Its other names are `aliases`, which only
 * weight files use. */
#ifndef NN_LAYER_H
#define NN_LAYER_H

#include "compute/nn.h"
#include "core/base/text.h"
#include "graph/node/graph.h"

/* The initial value of a parameter. */
typedef enum layer_role {
  ROLE_WEIGHT,    /* set by the initialiser; by default uniform ± 1 / sqrt(fan in) */
  ROLE_BIAS,      /* by default uniform ± 1 / sqrt(fan in), with an initialiser zero */
  ROLE_EMBEDDING, /* set by the initialiser; by default standard normal */
  ROLE_ZERO,
  ROLE_ONE,
  ROLE_KEPT /* the caller's values, unchanged */
} layer_role;

typedef struct layer_parameter {
  char *name; /* "weight"; owned */
  compute_tensor *tensor;
  bool trainable;
  layer_role role;
  int64_t fan_in, fan_out;
} layer_parameter;

/* A running statistic and its value at the end of the run. */
typedef struct layer_update {
  compute_node parameter, value;
} layer_update;

/* One leaf of a recording, for compute_layer_summary. */
typedef struct layer_row {
  char *name; /* owned */
  const char *kind;
  compute_shape result;
  int64_t parameters;
  double multiply_adds;
} layer_row;

typedef struct layer_trace {
  layer_row *rows;
  size_t count, capacity;
} layer_trace;

/* One call of compute_layer_apply in progress. */
typedef struct layer_record {
  compute_graph *graph;
  bool training;
  compute_node seed;
  compute_dtype precision;      /* result dtype of an embedding; 0: the dtype of its weights */
  compute_process_group *group; /* a batch norm uses its statistics in training; or NULL */
  text_buffer path;             /* dotted name of the current layer; empty at the root */
  layer_update *updates;
  size_t update_count, update_capacity;
  layer_trace *trace; /* or NULL */
  bool located;       /* the graph's error already names the layer */
} layer_record;

/* Records the layer. `parameters` are the nodes of the layer's parameters, in their order. The
 * graph's error reports a failure. */
typedef compute_node (*layer_apply)(const compute_layer *layer, layer_record *record,
                                    compute_node x, const compute_node *parameters);

/* The maximum nesting depth of compositions. The limit exists because functions recurse into the
 * parts. */
enum { LAYER_MOST_DEPTH = 256 };

typedef struct layer_kind {
  const char *name; /* "dense" */
  layer_apply apply;
} layer_kind;

/* The plan of compute_layer_run, for one shape, dtype and device. */
typedef struct layer_plan {
  struct compute_plan *plan;
  compute_node x, result;
  compute_device *device;
  compute_dtype dtype;
  compute_shape shape;
} layer_plan;

struct compute_layer {
  const layer_kind *kind;
  void *own_kind;             /* the kind of a custom layer, owned */
  compute_context *context;   /* of its weights; NULL if there are none */
  const compute_layer *owner; /* the composition that owns it, or NULL */
  char *name;                 /* set by compute_layer_name; NULL: the owner's choice */
  layer_parameter *own;
  size_t own_count, own_capacity;
  compute_layer **parts;
  const char **part_names; /* the part's own name, or an element of part_numbers */
  char (*part_numbers)[24];
  size_t part_count;
  int depth;      /* nesting depth of compositions; 0 if there are no parts */
  layer_plan run; /* of the last run, or empty */
  compute_layer_parameter *all, *aliases; /* the names are owned */
  size_t all_count, alias_count;
  union {
    compute_conv2d_options conv;
    struct {
      compute_pool2d_options options;
      bool average;
    } pool;
    struct {
      double epsilon, momentum;
      int64_t size;
      bool affine;
    } norm;
    double probability;
    compute_activation_kind activation;
    struct {
      compute_layer_function apply;
      void *user;
    } custom;
  } as;
};

/* ---- Making one ---------------------------------------------------------------------------- */

/* Creates a layer without weights. Returns NULL, with the error set, when out of memory. */
compute_layer *layer_create(const layer_kind *kind, const char *operation,
                            compute_context *context);

/* The description of a parameter that layer_add allocates. */
typedef struct layer_wish {
  const char *name;
  compute_dtype dtype;
  compute_shape shape;
  layer_role role;
  int64_t fan_in, fan_out;
  bool fixed; /* not trainable */
} layer_wish;

/* Adds a parameter with uninitialised elements. */
compute_status layer_add(compute_layer *layer, const char *operation, compute_device *device,
                         const layer_wish *wish);

/* Adds the caller's tensor and retains it. */
compute_status layer_adopt(compute_layer *layer, const char *operation, const char *name,
                           compute_tensor *tensor);

/* The last step of every constructor: lists the parameters and initialises the layer's own ones.
 * Releases the layer and returns NULL if that fails, or if `status` is an error. */
compute_layer *layer_finish(compute_layer *layer, const char *operation, compute_status status,
                            compute_initializer initializer, uint64_t seed);

/* Fills layer->all. The lists of the parts are already complete. */
compute_status layer_list(compute_layer *layer, const char *operation);

/* ---- Arguments of constructors: a failed check sets the error -------------------------------- */

compute_status layer_check_device(compute_device *device, const char *operation);
compute_status layer_check_size(compute_context *context, const char *operation, const char *name,
                                int64_t value);
/* Copies the options, or the defaults for NULL, and fills in the dtype. Errors call the options
 * `what`. */
compute_status layer_check_weights(compute_context *context, const char *operation,
                                   const char *what, const compute_weights_options *given,
                                   compute_weights_options *options);
/* Replaces 0 by f32. Other values must be a float dtype. */
compute_status layer_check_float(compute_context *context, const char *operation,
                                 compute_dtype *dtype);

/* ---- First values -------------------------------------------------------------------------- */

bool layer_initializer_is_valid(compute_initializer initializer);

/* Draws the layer's own parameters and the parameters of its parts. Each uses its own stream of
 * random numbers; the first is *stream. */
compute_status layer_draw(const compute_layer *layer, const char *operation,
                          compute_initializer initializer, uint64_t seed, uint32_t *stream);

/* ---- Recording ----------------------------------------------------------------------------- */

/* Records a layer under the name that its owner gives it (NULL for the root). */
compute_node layer_record_part(layer_record *record, const compute_layer *layer, const char *name,
                               compute_node x);

/* The graph's single node for a tensor, named `name` if it is created now. */
compute_node layer_node(compute_graph *graph, compute_tensor *tensor, const char *name);

/* Returns a weight in the dtype that `x` needs: f32 weights are cast for f16 and bf16 data. */
compute_node layer_weight_for(const layer_record *record, compute_node weight, compute_node x);

/* Get and set the current value of a statistic in the recording. */
compute_node layer_current(const layer_record *record, compute_node parameter);
void layer_update_to(layer_record *record, compute_node parameter, compute_node value);

/* Releases the plan of the last run. */
void layer_forget_plan(compute_layer *layer);

/* Frees the recording's memory. */
void layer_record_release(layer_record *record);

/* Adds a leaf to the trace. The nodes from `first` on belong to it. The graph's error reports a
 * failure. */
void trace_add(layer_record *record, const compute_layer *layer, const char *name, size_t first,
               compute_node result);

void trace_release(layer_trace *trace);

#endif
