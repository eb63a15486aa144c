/* SPDX-License-Identifier: MIT */
/* The inputs of compute-run: tensors from files, and random tensors of the right shape. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "programs/run/run.h"

static bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), wanted = strlen(end);
  return length >= wanted && !strcasecmp(text + length - wanted, end);
}

bool run_holds_names(const char *path) {
  return ends_with(path, ".npz") || ends_with(path, ".safetensors");
}

/* Returns the text after "NAME=" in an argument, or NULL if the argument does not begin with it. */
static const char *after_name(const char *argument, const char *name) {
  const size_t length = strlen(name);
  return !strncmp(argument, name, length) && argument[length] == '=' ? argument + length + 1 : NULL;
}

static run_port *find_input(const model_run *run, const char *argument, const char **value) {
  for (size_t i = 0; i < run->input_count; i++)
    if ((*value = after_name(argument, run->inputs[i].port.name))) return &run->inputs[i];
  return NULL;
}

/* Returns the only required input, or NULL. */
static run_port *only_input(const model_run *run) {
  run_port *only = NULL;
  for (size_t i = 0; i < run->input_count; i++) {
    if (run->inputs[i].port.optional) continue;
    if (only) return NULL;
    only = &run->inputs[i];
  }
  return only;
}

static int say_unknown(const model_run *run, const char *option, const char *argument) {
  char names[512] = "";
  for (size_t i = 0, used = 0; i < run->input_count && used < sizeof names;
       i++, used = strlen(names))
    snprintf(names + used, sizeof names - used, "%s'%s'", i ? ", " : "", run->inputs[i].port.name);
  option_say(&run_program, "%s %s does not begin with the name of an input and '='; there %s %s",
             option, argument, run->input_count == 1 ? "is" : "are",
             run->input_count ? names : "none");
  return EXIT_USAGE;
}

/* ---- Files --------------------------------------------------------------------------------- */

static int give(run_port *input, compute_tensor *tensor, const char *path) {
  if (input->tensor) {
    compute_tensor_release(tensor);
    option_say(&run_program, "--input: '%s' is given twice, by %s and by %s", input->port.name,
               input->source, path);
    return EXIT_USAGE;
  }
  input->tensor = tensor;
  snprintf(input->source, sizeof input->source, "%s", path);
  return EXIT_GOOD;
}

static int give_named(const model_run *run, run_port *input, const compute_tensor_file *file,
                      const char *path) {
  compute_tensor *tensor;
  const size_t index = compute_tensor_file_find(file, input->port.name);
  if (index == compute_tensor_file_count(file)) {
    option_say(&run_program, "%s has no tensor called '%s'", path, input->port.name);
    return EXIT_FAILED;
  }
  if (compute_tensor_file_read(file, index, compute_default_device(run->context), &tensor))
    return run_fail(run->context);
  return give(input, tensor, path);
}

/* Checks that each name in the file is the name of an input. Names of outputs are ignored, so that
 * a file for --compare can be used. */
static int check_names(const model_run *run, const compute_tensor_file *file, const char *path) {
  for (size_t i = 0; i < compute_tensor_file_count(file); i++) {
    compute_tensor_file_entry entry;
    bool known = false;
    if (compute_tensor_file_at(file, i, &entry)) return run_fail(run->context);
    for (size_t k = 0; k < run->input_count && !known; k++)
      known = !strcmp(entry.name, run->inputs[k].port.name);
    for (size_t k = 0; k < run->output_count && !known; k++)
      known = !strcmp(entry.name, run->outputs[k].port.name);
    if (known) continue;
    option_say(&run_program, "%s has a tensor '%s', which is not an input of the model", path,
               entry.name);
    return EXIT_FAILED;
  }
  return EXIT_GOOD;
}

/* Reads all inputs in the file, or only the input `only`. */
static int take_file(const model_run *run, run_port *only, const char *path) {
  compute_tensor_file *file;
  if (compute_tensor_file_open(run->context, path, &file)) return run_fail(run->context);
  int result = EXIT_GOOD;
  if (only) {
    result = give_named(run, only, file, path);
  } else {
    result = check_names(run, file, path);
    const size_t count = compute_tensor_file_count(file);
    for (size_t i = 0; i < run->input_count && !result; i++)
      if (compute_tensor_file_find(file, run->inputs[i].port.name) < count)
        result = give_named(run, &run->inputs[i], file, path);
  }
  compute_tensor_file_close(file);
  return result;
}

static int take_input(const model_run *run, const char *argument) {
  const char *path = argument;
  compute_tensor *tensor = NULL;
  run_port *input = find_input(run, argument, &path);
  if (!input && strchr(argument, '=') && access(argument, F_OK))
    return say_unknown(run, "--input", argument);
  if (!input) path = argument;
  if (!input && items_needed(run)) input = only_input(run);
  if (input && input->port.kind) return items_take(run, input, path);
  if (run_holds_names(path)) return take_file(run, input, path);
  if (!input) input = only_input(run);
  if (!input) return say_unknown(run, "--input", argument);
  if (ends_with(path, ".png")) {
    const int result = image_read(run, &input->port, path, &tensor);
    return result ? result : give(input, tensor, path);
  }
  if (compute_npy_read(compute_default_device(run->context), path, &tensor))
    return run_fail(run->context);
  return give(input, tensor, path);
}

/* ---- Shapes -------------------------------------------------------------------------------- */

/* Reads "1x3x224x224". Returns false for other text. */
static bool read_sizes(const char *text, compute_shape *shape) {
  shape->rank = 0;
  for (char *end;; text = end + 1) {
    errno = 0;
    const long long size = strtoll(text, &end, 10);
    if (*text < '0' || *text > '9' || errno || shape->rank == COMPUTE_MAX_RANK) return false;
    shape->size[shape->rank++] = size;
    if (!*end) return true;
    if (*end != 'x') return false;
  }
}

static bool is_symbol(const model_run *run, const char *argument, const char **value) {
  for (size_t i = 0; i < run->input_count; i++) {
    const compute_model_port *port = &run->inputs[i].port;
    for (int32_t axis = 0; axis < port->rank; axis++)
      if (port->symbol[axis] && (*value = after_name(argument, port->symbol[axis]))) return true;
  }
  return false;
}

/* Checks that every --shape names an existing input or size that can use it. */
static int check_shapes(const model_run *run) {
  const text_list *shapes = &run->a->shapes;
  for (int32_t i = 0; i < shapes->count; i++) {
    const char *argument = shapes->value[i], *value;
    compute_shape shape;
    const run_port *input = find_input(run, argument, &value);
    const bool symbol = !input && is_symbol(run, argument, &value);
    if (!input && !symbol) return say_unknown(run, "--shape", argument);
    if (!read_sizes(value, &shape) || (symbol && shape.rank != 1)) {
      option_say(&run_program, "--shape %s: what follows the '=' must be %s", argument,
                 symbol ? "a size, such as 8" : "sizes such as 1x3x224x224, at most 8 of them");
      return EXIT_USAGE;
    }
    if (input && input->tensor) {
      option_say(&run_program, "--shape %s: the values of this input are those of %s", argument,
                 input->source);
      return EXIT_USAGE;
    }
  }
  return EXIT_GOOD;
}

/* Finds the last --shape for `name`. Returns false if there is none. */
static bool find_shape(const model_run *run, const char *name, compute_shape *shape) {
  const text_list *shapes = &run->a->shapes;
  bool found = false;
  for (int32_t i = 0; i < shapes->count; i++) {
    const char *value = after_name(shapes->value[i], name);
    if (value) found = read_sizes(value, shape);
  }
  return found;
}

/* Finds the shape of a random input. Its source describes assumed sizes. */
static int find_sizes(const model_run *run, run_port *input, compute_shape *shape) {
  const compute_model_port *port = &input->port;
  compute_shape size;
  if (find_shape(run, port->name, shape)) return EXIT_GOOD;
  if (port->rank < 0) {
    option_say(
        &run_program,
        "the model does not say what shape its input '%s' has; give it with --shape %s=SIZES",
        port->name, port->name);
    return EXIT_USAGE;
  }
  *shape = (compute_shape){.rank = port->rank};
  for (int32_t i = 0; i < port->rank; i++) {
    const char *symbol = port->symbol[i];
    const size_t used = strlen(input->source);
    shape->size[i] = port->size[i];
    if (shape->size[i] >= 0) continue;
    shape->size[i] = 1;
    if (symbol && find_shape(run, symbol, &size))
      shape->size[i] = size.size[0];
    else if (symbol)
      snprintf(input->source + used, sizeof input->source - used, ", %s = 1", symbol);
    else
      snprintf(input->source + used, sizeof input->source - used, ", size %" PRId32 " = 1", i);
  }
  return EXIT_GOOD;
}

/* ---- Random values ------------------------------------------------------------------------- */

/* The integers are small, because they may be indices or a mask. */
static compute_status fill_integers(compute_device *device, compute_dtype dtype,
                                    compute_shape shape, uint64_t seed, compute_tensor **tensor) {
  compute_tensor *numbers = NULL;
  const double high = dtype == COMPUTE_U8 ? 256 : 2;
  compute_status status =
      compute_tensor_random(device, COMPUTE_F32, shape, 0, high, seed, &numbers);
  if (!status) status = compute_tensor_create(device, dtype, shape, tensor);
  if (!status) status = compute_tensor_copy(*tensor, numbers);
  compute_tensor_release(numbers);
  return status;
}

static int make_random(const model_run *run, run_port *input) {
  const compute_dtype dtype = input->port.dtype;
  const uint64_t seed = (uint64_t)run->a->seed + (uint64_t)(input - run->inputs);
  compute_device *device = compute_default_device(run->context);
  compute_shape shape;
  if (dtype == COMPUTE_DTYPE_NONE || input->port.kind) {
    option_say(&run_program, "input '%s' is not a tensor of numbers; give it with --input %s=FILE",
               input->port.name, input->port.name);
    return EXIT_FAILED;
  }
  snprintf(input->source, sizeof input->source, "random");
  const int result = find_sizes(run, input, &shape);
  if (result) return result;
  const compute_status status =
      is_float(dtype) ? compute_tensor_random(device, dtype, shape, 0, 1, seed, &input->tensor)
                      : fill_integers(device, dtype, shape, seed, &input->tensor);
  return status ? run_fail(run->context) : EXIT_GOOD;
}

int inputs_make(model_run *run) {
  const text_list *given = &run->a->inputs;
  int result = EXIT_GOOD;
  for (int32_t i = 0; i < given->count && !result; i++) result = take_input(run, given->value[i]);
  if (!result) result = check_shapes(run);
  for (size_t i = 0; i < run->input_count && !result; i++)
    if (!run->inputs[i].tensor && !run->inputs[i].item && !run->inputs[i].port.optional &&
        !(run->inputs[i].port.kind & COMPUTE_MODEL_OPTIONAL))
      result = make_random(run, &run->inputs[i]);
  return result;
}
