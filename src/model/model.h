/* SPDX-License-Identifier: MIT */
/* Inside of a model.
 *
 * A model is run in stages. A stage is a plan, for inputs of certain dtypes and shapes, that goes
 * as far as possible: to the end, or to a node whose result depends on values that only a run
 * knows. What comes then depends on these values, or on the shapes of what a function of the host
 * made of them: for each of them there is a stage that goes on. So stages form a tree, whose leaves
 * are given up when they have not been used for long. Most models have one stage for each size of
 * their inputs. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include <pthread.h>

#include "core/device/device.h"
#include "model/record.h"

/* What a rule keeps until its node is done; in memory of the recording. A list that has been passed
 * on is only added to, so that whoever still has it as it was sees no change. */
typedef struct held_values {
  model_value *values;
  size_t count, capacity;
} held_values;

/* A graph that is being recorded: the model's own, a function's or one within a node. */
typedef struct model_frame {
  struct model_frame *caller; /* the frame of the node that records this graph, or NULL */
  const onnx_graph *graph;
  const onnx_function *function; /* whose body it is, or NULL */
  size_t next;                   /* the node that is being recorded */
  model_value *values;           /* as graph->values */
  const bool *needed;            /* of each node, or NULL: all */
  const bool *given;             /* of each value: the caller's, not to be set; or NULL */
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
  int64_t least; /* of `asked`: call_integer_at_least's; 0: the values are asked for */
} stage_slot;

typedef struct slot_list {
  stage_slot *slots;
  size_t count, capacity;
} slot_list;

typedef enum stage_end {
  STAGE_ENDS,   /* the model's outputs are there */
  STAGE_VALUES, /* the next one depends on the values of `asked` */
  STAGE_HOST    /* a function of the host, or a loop that is run, comes next */
} stage_end;

/* A value that is passed to a function of the host. */
typedef struct host_input {
  int64_t id; /* −1: known, or left out */
  host_tensor known;
  compute_dtype dtype;
  compute_shape shape;
} host_input;

typedef struct model_stage {
  struct model_stage *parent, *children, *sibling;
  uint8_t *key;
  size_t key_bytes;
  uint32_t users;     /* runs that are in it or below */
  uint64_t last_used; /* by the model's clock */
  uint64_t bytes;     /* that it takes: its plan, without weights, and its arena */
  model_arena arena;  /* of what follows */
  compute_plan *plan; /* NULL: nothing to compute */
  slot_list inputs, outputs;
  slot_list asked;        /* STAGE_VALUES */
  host_function function; /* STAGE_HOST, or NULL: */
  struct model_loop *loop;
  model_call host_node;
  host_input *host_inputs;
  int64_t host_output; /* the id of its first output */
  stage_end end;
  model_frame *top; /* where recording goes on */
  int64_t next_id;
  int64_t *live; /* ids that are needed below */
  size_t live_count;
  stage_slot *results; /* STAGE_ENDS: for each of the model's outputs; id −1: not computed */
} model_stage;

typedef struct weight_entry {
  const onnx_tensor *tensor;
  compute_tensor *on_device;
  size_t slot; /* in the weights of the recording that used it last, if that has it there */
} weight_entry;

/* The file, which tensors that lie in it keep. */
typedef struct model_storage {
  int64_t references; /* atomic */
  onnx_file file;
} model_storage;

typedef struct graph_uses {
  const onnx_graph *graph;
  const int64_t *last; /* of each value, the last node that uses it; INT64_MAX: an output */
} graph_uses;

struct compute_model {
  compute_context *context;
  model_storage *storage;
  compute_model_options options;
  compute_model_operator *operators;
  pthread_mutex_t recording; /* held while a stage is made, which may take long; taken first */
  pthread_mutex_t lock;      /* held for moments */
  /* Of recording: */
  weight_entry *weights; /* a hash table by address */
  size_t weight_count, weight_capacity;
  graph_uses *uses; /* sorted by address of the graph */
  size_t uses_count;
  /* Of both: who changes it holds both, who reads it one of them. */
  model_stage root; /* no plan: its children are the first stages */
  uint64_t stages, stage_bytes;
  bool exposed; /* recorded into a graph of the caller's: even single numbers may be trained */
  /* Of lock, as are the users of stages: */
  uint64_t clock, stages_made, hits, runs;
};

static inline const onnx_graph *model_graph(const compute_model *model) {
  return &model->storage->file.graph;
}

/* The ids in a run's table: those of the main graph's inputs, the seed's, those of values. */
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
  slot_list inputs;      /* of the plan */
  slot_list weights;     /* parameters of the graph: `id` is the address of the tensor */
  model_value seed;      /* what a run draws its random numbers from; absent: no run binds it */
  size_t nodes;          /* that were recorded */
  bool training;         /* all floats of the file are parameters */
  bool pushed;           /* the rule has begun a frame */
  bool draws;            /* a rule has drawn random numbers */
  compute_error refused; /* the first failure that a rule may not have seen, or none */
  const struct loop_makers *loops; /* of a stage, which may end at a loop; or NULL */
  asked_value *asked;              /* that the rule asked for */
  size_t asked_count, asked_capacity;
  host_function function;      /* that the rule asked for */
  const model_call *host_call; /* during it, or during `loop` */
  struct model_loop *loop;     /* that the rule asked for; in the arena, with plans */
};

/* Records until something ends the stage. With COMPUTE_OK, recorder->top is NULL at the model's end
 * (then `results` has the main graph's outputs), else what is asked for is in the recorder. */
compute_status record_run(model_recorder *recorder, stage_end *end);

/* Records to the end of `body`, the frame on top. *complete becomes false if something is asked for
 * before. */
compute_status record_body(model_recorder *recorder, const model_frame *body, bool *complete);

/* The node of a value in the recorder's graph; {0} after a failure, which the recorder keeps. */
compute_node record_node(model_recorder *recorder, model_value *value);

/* The i64 scalar from which random operators without a seed of their own draw. */
compute_node record_seed(model_recorder *recorder);

/* Keeps the thread's last error, if nothing is kept yet. */
void record_refuse(model_recorder *recorder);

compute_status record_push(model_recorder *recorder, const onnx_graph *graph, model_frame **frame);

/* A copy of frames whose values belong to no graph yet; NULL when memory is short. */
model_frame *record_copy_frames(model_arena *arena, const model_frame *top);

/* Fills in a value for a tensor of the file. */
compute_status record_tensor(model_recorder *recorder, const onnx_tensor *tensor,
                             model_value *value);

/* Weights lie in the file as they happen to; few are looked at, and only these are copied: puts the
 * elements of a value that are known to where they are aligned. False when memory is short. */
bool record_align(model_recorder *recorder, model_value *value);

/* Element `at` of integers or bools, as i64; false for other dtypes. */
bool record_integer(compute_dtype dtype, const void *data, size_t at, int64_t *value);

/* Marks the nodes of a main graph that the marked values need, and the values that these use, but
 * goes no further where values are given (NULL: nowhere). */
void record_mark_needed(const onnx_graph *graph, const bool *given, bool *values, bool *needed);

/* Fills in model->uses; false when memory is short. */
bool record_find_uses(compute_model *model);

int64_t record_last_use(const compute_model *model, const onnx_graph *graph, int32_t value);

/* Whether `node`, one of the graph's, is the only one that uses a value of it, which is no output.
 */
bool record_is_only_use(const onnx_graph *graph, const onnx_node *node, int32_t value);

/* ---- into.c -------------------------------------------------------------------------------- */

/* compute_model_record, whose arguments are checked. Without `training`, floats that no graph of
 * the caller's may train yet stay constants where they are single numbers. */
compute_status record_into(compute_model *model, const char *operation, compute_graph *graph,
                           const compute_model_value *inputs, size_t input_count,
                           compute_model_value *outputs, size_t output_count, bool training);

/* ---- weights.c ------------------------------------------------------------------------------ */

/* Elements at an address that their type can be read from: where they are, or copied once for as
 * long as the model lives. NULL on failure. model->recording is held. */
const void *weight_elements(compute_model *model, const onnx_tensor *tensor);

/* The entry of a weight, whose tensor is on the model's device and not retained. NULL on failure.
 * It stays until the next is asked for. model->recording is held. */
weight_entry *weight_find_or_make(compute_model *model, const char *operation,
                                  const onnx_tensor *tensor);

/* Its tensor alone. */
compute_tensor *weight_tensor(compute_model *model, const char *operation,
                              const onnx_tensor *tensor);

/* The same if it has been made, else NULL. */
compute_tensor *weight_find(const compute_model *model, const onnx_tensor *tensor);

/* Right after a plan of the recording was compiled: aligns the weights that it reads as they lie.
 */
compute_status weights_settle(model_recorder *recorder, const compute_plan *plan);

/* Those made so far are frozen: from now on, others are made in their place. */
void weights_forget(compute_model *model);

void weights_release(compute_model *model);

/* Where its plans and weights are; the CPU where plans place themselves. */
compute_device *model_device(const compute_model *model);

/* Drops a reference to a model_storage; in the form of compute_release_function. */
void storage_release(void *storage, void *data);

#endif
