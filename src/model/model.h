/* SPDX-License-Identifier: MIT */
/* Internals of a model.
 *
 * A model runs in stages. A stage is a plan for inputs with certain dtypes and shapes. It covers
 * as many nodes as possible: up to the model's end, or up to a node whose result depends on
 * values that are known only during a run. The next stage depends on these values, or on the
 * shapes of the tensors that a host function returned. Each such case has its own child stage.
 * The stages form a tree, and leaves that were not used for a long time are evicted. Most models
 * have one stage for each size of their inputs. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/device/device.h"
#include "model/call/text.h"
#include "model/record.h"

/* Values that a rule keeps until its node is done, in the recording's memory. The list is
 * append-only once it is shared, so a reader with an older count sees no change. */
typedef struct held_values {
  model_value *values;
  size_t count, capacity;
} held_values;

/* A graph that is being recorded: the main graph, a function's body or a graph attribute. */
typedef struct model_frame {
  struct model_frame *caller; /* the frame of the node that records this graph, or NULL */
  const onnx_graph *graph;
  const onnx_function *function; /* the function whose body this is, or NULL */
  size_t next;                   /* the node being recorded */
  model_value *values;           /* as graph->values */
  const bool *needed;            /* per node; NULL: all nodes */
  const bool *given;             /* per value: provided by the caller, do not set; or NULL */
  frame_finish finish;
  void *state;
  size_t state_bytes;
  held_values held;
} model_frame;

typedef struct stage_slot {
  int64_t id; /* in the table of a run */
  compute_node node;
  compute_dtype dtype;
  compute_shape shape;
  int64_t least; /* of `asked`: as in call_integer_at_least; 0: asks for the values */
} stage_slot;

typedef struct slot_list {
  stage_slot *slots;
  size_t count, capacity;
} slot_list;

typedef enum stage_end {
  STAGE_ENDS,   /* the model's outputs are complete */
  STAGE_VALUES, /* the next stage depends on the values of `asked` */
  STAGE_HOST    /* a host function or a compiled loop comes next */
} stage_end;

/* An output of the model where a stage ends it: a tensor, the tensors of a sequence or an
 * optional, or nothing. */
typedef struct stage_result {
  uint32_t kind; /* COMPUTE_MODEL_… */
  bool wanted, labels;
  size_t count;
  stage_slot *slots;
} stage_result;

/* A value that is passed to a host function. */
typedef struct host_input {
  int64_t id; /* −1: known now, or omitted */
  host_tensor known;
  compute_dtype dtype;
  compute_shape shape;
} host_input;

typedef struct model_stage {
  struct model_stage *parent, *children, *sibling;
  uint8_t *key;
  size_t key_bytes;
  uint32_t users;     /* runs inside this stage or its descendants */
  uint64_t last_used; /* in ticks of the model's clock */
  uint64_t bytes;     /* plan (without weights) and arena */
  model_arena arena;  /* owns the arrays below */
  compute_plan *plan; /* NULL: nothing to compute */
  slot_list inputs, outputs;
  slot_list asked;        /* STAGE_VALUES */
  host_function function; /* STAGE_HOST: the function, or NULL for a loop */
  double rows;            /* of the function, as in call_on_host */
  struct model_loop *loop;
  model_call host_node;
  host_input *host_inputs;
  int64_t host_output; /* the id of its first output */
  stage_end end;
  model_frame *top; /* the frame where recording continues */
  int64_t next_id;
  int64_t *live; /* ids that descendants need */
  size_t live_count;
  stage_result *results; /* STAGE_ENDS: one per output of the model */
} model_stage;

typedef struct weight_entry {
  const onnx_tensor *tensor;
  compute_tensor *on_device;
  size_t slot; /* index in the weights of the recording that used it last; may be stale */
} weight_entry;

/* The file. Tensors that point into it hold a reference. */
typedef struct model_storage {
  _Atomic int64_t references;
  onnx_file file;
} model_storage;

typedef struct graph_uses {
  const onnx_graph *graph;
  const int64_t *last; /* per value: the last node that uses it; INT64_MAX: an output */
} graph_uses;

struct compute_model {
  compute_context *context;
  model_storage *storage;
  compute_model_options options;
  compute_model_operator *operators;
  pthread_mutex_t recording; /* locked while a stage is made (slow); first in the lock order */
  pthread_mutex_t lock;      /* locked for moments only */
  /* Guarded by `recording`: */
  weight_entry *weights; /* hash table keyed by address */
  size_t weight_count, weight_capacity;
  graph_uses *uses; /* sorted by the graph's address */
  size_t uses_count;
  /* Guarded by both: a writer locks both, a reader locks either one. */
  model_stage root; /* has no plan: its children are the first stages */
  uint64_t stages, stage_bytes;
  bool exposed; /* recorded into a caller's graph: even scalars may be trained */
  /* Guarded by `lock`, like the stages' `users`: */
  uint64_t clock, stages_made, hits, runs;
  model_texts texts; /* has its own lock */
};

static inline const onnx_graph *model_graph(const compute_model *model) {
  return &model->storage->file.graph;
}

/* Ids in a run's table: first the main graph's inputs, then the seed, the items of inputs that are
 * sequences or optionals, and values. */
static inline int64_t model_seed_id(const compute_model *model) {
  return (int64_t)model_graph(model)->input_count;
}
static inline int64_t model_first_id(const compute_model *model) {
  return model_seed_id(model) + 1;
}

/* ---- record.c ------------------------------------------------------------------------------ */

typedef struct asked_value {
  model_value *value;
  int64_t least; /* as in a stage_slot */
} asked_value;

struct model_recorder {
  compute_model *model;
  const char *operation;
  compute_graph *graph;
  model_arena *arena;
  model_frame *top;
  int64_t next_id;
  slot_list inputs;                /* of the plan */
  slot_list weights;               /* parameters of the graph; `id` is the tensor's address */
  model_value seed;                /* the run's random seed; absent if no run binds it */
  size_t nodes;                    /* number of recorded nodes */
  bool training;                   /* all floats of the file are parameters */
  bool pushed;                     /* the rule has pushed a frame */
  bool draws;                      /* a rule draws random numbers */
  compute_error refused;           /* the first failure that a rule may have missed, or none */
  const struct loop_makers *loops; /* set for stages, which may end at a loop; else NULL */
  asked_value *asked;              /* values that the rule asked for */
  size_t asked_count, asked_capacity;
  host_function function;      /* the host function that the rule asked for … */
  double rows;                 /* … and its work */
  const model_call *host_call; /* the call of `function` or `loop` */
  struct model_loop *loop;     /* the loop that the rule asked for, with its plans; in the arena */
};

/* Records until the stage ends. On COMPUTE_OK at the model's end, recorder->top is NULL and
 * `results` has the main graph's outputs. Otherwise the recorder has the request. */
compute_status record_run(model_recorder *recorder, stage_end *end);

/* Records to the end of `body`, the top frame. *complete becomes false if a rule asks for values
 * first. */
compute_status record_body(model_recorder *recorder, const model_frame *body, bool *complete);

/* Returns a value's node in the recorder's graph. On failure it returns {0} and the recorder
 * keeps the error. */
compute_node record_node(model_recorder *recorder, model_value *value);

/* The i64 scalar that seeds random operators without a `seed` attribute. */
compute_node record_seed(model_recorder *recorder);

/* Keeps the thread's last error unless an error is already kept. */
void record_refuse(model_recorder *recorder);

compute_status record_push(model_recorder *recorder, const onnx_graph *graph, model_frame **frame);

/* Copies frames and clears their values' nodes, which belong to another graph. NULL if out of
 * memory. */
model_frame *record_copy_frames(model_arena *arena, const model_frame *top);

/* Fills in a value for one of the file's tensors. */
compute_status record_tensor(model_recorder *recorder, const onnx_tensor *tensor,
                             model_value *value);

/* Makes a known value's elements aligned. The file does not align weights; only the few values
 * that are read on the host are copied. Returns false if out of memory. */
bool record_align(model_recorder *recorder, model_value *value);

/* Reads element `at` of integers or bools as i64. Returns false for other dtypes. */
bool record_integer(compute_dtype dtype, const void *data, size_t at, int64_t *value);

/* Marks the main-graph nodes that the marked values need, and the values that these nodes use.
 * The search stops at given values (`given` NULL: at none). */
void record_mark_needed(const onnx_graph *graph, const bool *given, bool *values, bool *needed);

/* Fills in model->uses. Returns false if out of memory. */
bool record_find_uses(compute_model *model);

int64_t record_last_use(const compute_model *model, const onnx_graph *graph, int32_t value);

/* Returns true if `node`, a node of the graph, is the only user of the value and the value is
 * not an output. */
bool record_is_only_use(const onnx_graph *graph, const onnx_node *node, int32_t value);

/* ---- labels.c ------------------------------------------------------------------------------ */

/* Returns true if the node only moves elements of its first input, which may be labels. */
bool labels_pass(const onnx_node *node);

/* Returns true if input i of the node may have texts. */
bool texts_pass(const onnx_node *node, size_t i);

/* Returns true if the node's outputs have elements of its inputs only, which may be texts. */
bool texts_move(const onnx_node *node);

/* ---- into.c -------------------------------------------------------------------------------- */

/* compute_model_record with checked arguments. Without `training`, scalar floats stay constants
 * until a caller's graph may train them. */
compute_status record_into(compute_model *model, const char *operation, compute_graph *graph,
                           const compute_model_value *inputs, size_t input_count,
                           compute_model_value *outputs, size_t output_count, bool training);

/* ---- weights.c ------------------------------------------------------------------------------ */

/* Returns elements at an aligned address: in place, or in a copy that is made once and lives as
 * long as the model. NULL on failure. The caller holds model->recording. */
const void *weight_elements(compute_model *model, const onnx_tensor *tensor);

/* Returns a weight's entry. Its tensor is on the model's device and is not retained. The pointer
 * is valid until the next call. NULL on failure. The caller holds model->recording. */
weight_entry *weight_find_or_make(compute_model *model, const char *operation,
                                  const onnx_tensor *tensor);

/* As weight_find_or_make, but returns only the tensor. */
compute_tensor *weight_tensor(compute_model *model, const char *operation,
                              const onnx_tensor *tensor);

/* Returns the tensor if it exists, else NULL. */
compute_tensor *weight_find(const compute_model *model, const onnx_tensor *tensor);

/* Call right after a plan of the recording is compiled. Aligns the weights that the plan reads
 * directly from the file. */
compute_status weights_align(model_recorder *recorder, const compute_plan *plan);

/* Drops the existing weights, which plans keep as frozen constants. Later requests create new
 * ones. */
void weights_forget(compute_model *model);

void weights_release(compute_model *model);

/* The device of plans and weights; the CPU if plans choose their devices. */
compute_device *model_device(const compute_model *model);

/* Drops a reference to a model_storage. A compute_release_function. */
void storage_release(void *storage, void *data);

#endif
