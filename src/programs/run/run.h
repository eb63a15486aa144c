/* SPDX-License-Identifier: MIT */
/* The parts of compute-run. */
#ifndef TOOLS_RUN_H
#define TOOLS_RUN_H

#include "compute/compute.h"
#include "compute/model.h"
#include "programs/common/option.h"

typedef enum run_layout { LAYOUT_AUTO, LAYOUT_NCHW, LAYOUT_NHWC } run_layout;

typedef struct run_arguments {
  option_line line; /* its operand is the path of the model */
  text_list inputs, shapes, samples, keep;
  const char *device, *output, *profile, *compare, *quantize, *report;
  int64_t bench, seed, bits, block;
  bool explain, map, fast_formulas, signed_bytes, per_tensor;
  int32_t method, range, rounding; /* compute_quantize_method, _range, _rounding */
  list_value mean, scale, tolerance;
  int32_t layout; /* run_layout */
  size_value resize;
} run_arguments;

extern const option_program run_program;

/* An input or output of the model. */
typedef struct run_port {
  compute_model_port port;
  compute_tensor *tensor;   /* NULL: an input with its default value, or an output before the run */
  compute_model_item *item; /* of a port that is not a tensor of numbers; or NULL */
  char source[128];         /* description of an input's source; truncated if necessary */
} run_port;

typedef struct model_run {
  const run_arguments *a;
  compute_context *context;
  compute_model *model;
  run_port *inputs, *outputs;
  size_t input_count, output_count;
  double load_seconds, first_seconds;
  double *seconds; /* times of --bench, ascending */
} model_run;

/* The following functions return an exit status and print errors on standard error. */

/* Prints the context's last error; returns EXIT_FAILED. */
int run_fail(const compute_context *context);
int run_out_of_memory(void);

/* Returns true if the name of a file has the ending of a file with named tensors. */
bool run_holds_names(const char *path);

/* Returns true if the model has ports that a tensor of numbers cannot take. */
bool items_needed(const model_run *run);

/* Adds a file to an input of texts, or a sequence or optional. */
int items_take(const model_run *run, run_port *input, const char *path);

/* Runs a model that needs items. Outputs that are tensors become tensors of their ports. */
int items_run(const model_run *run);

/* Prints an item: texts in quotes, the number of items in a sequence. */
void items_print(const run_port *port);

/* Creates the tensors of all inputs, from files or random. */
int inputs_make(model_run *run);

/* Reads a PNG as the tensor of an input. */
int image_read(const model_run *run, const compute_model_port *port, const char *path,
               compute_tensor **tensor);

/* Prints the largest differences between the outputs and the file of --compare. Also returns
 * EXIT_FAILED if they exceed the tolerance. */
int compare_outputs(const model_run *run);

/* Checks the options of --quantize, and writes the quantized model and its report. */
int quantize_check(const run_arguments *a);
int quantize_model(const model_run *run);

/* Print the loaded model, and the outputs. */
void report_model(const model_run *run);
int report_run(const model_run *run);

static inline bool is_float(compute_dtype dtype) {
  return dtype == COMPUTE_F64 || dtype == COMPUTE_F32 || dtype == COMPUTE_F16 ||
         dtype == COMPUTE_BF16;
}

/* Writes "f32 [batch,3,?]" to `text`, and returns `text`. */
char *port_text(const compute_model_port *port, char *text, size_t bytes);

#endif
