/* SPDX-License-Identifier: MIT */
/* compute-run: runs an ONNX model on the inputs of the command line. */
#include "programs/run/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/common/clock.h"
#include "programs/common/output_check.h"
#include "programs/common/terminal.h"

/* ---- The model ----------------------------------------------------------------------------- */

static int open_context(model_run *run) {
  const compute_open_options options = {.device = run->a->device};
  if (compute_open(&run->context, &options)) return run_fail(NULL);
  if (!run->a->profile) return EXIT_GOOD;
  const compute_profile_options steps = {.flags = COMPUTE_PROFILE_STEPS};
  return compute_profile_start(run->context, &steps) ? run_fail(run->context) : EXIT_GOOD;
}

static int load(model_run *run) {
  const double begin = clock_seconds();
  const compute_model_options options = {
      .files = run->a->map ? COMPUTE_MODEL_MAP : COMPUTE_MODEL_COPY_SHARED,
      .formulas = run->a->fast_formulas ? COMPUTE_FORMULAS_FAST : COMPUTE_FORMULAS_EXACT,
      .seed = (uint64_t)run->a->seed};
  if (compute_model_load(run->context, run->a->line.operand, &options, &run->model))
    return run_fail(run->context);
  run->load_seconds = clock_seconds() - begin;
  run->input_count = compute_model_input_count(run->model);
  run->output_count = compute_model_output_count(run->model);
  run->inputs = calloc(run->input_count + 1, sizeof *run->inputs);
  run->outputs = calloc(run->output_count + 1, sizeof *run->outputs);
  if (!run->inputs || !run->outputs) return run_out_of_memory();
  for (size_t i = 0; i < run->input_count; i++)
    if (compute_model_input_at(run->model, i, &run->inputs[i].port)) return run_fail(run->context);
  for (size_t i = 0; i < run->output_count; i++)
    if (compute_model_output_at(run->model, i, &run->outputs[i].port))
      return run_fail(run->context);
  return EXIT_GOOD;
}

/* ---- Runs ---------------------------------------------------------------------------------- */

typedef struct bindings {
  compute_model_binding *inputs, *outputs;
  size_t input_count;
} bindings;

static int bind(const model_run *run, bindings *b) {
  b->inputs = calloc(run->input_count + 1, sizeof *b->inputs);
  b->outputs = calloc(run->output_count + 1, sizeof *b->outputs);
  if (!b->inputs || !b->outputs) return run_out_of_memory();
  for (size_t i = 0; i < run->input_count; i++)
    if (run->inputs[i].tensor)
      b->inputs[b->input_count++] =
          (compute_model_binding){run->inputs[i].port.name, run->inputs[i].tensor};
  for (size_t i = 0; i < run->output_count; i++) b->outputs[i].name = run->outputs[i].port.name;
  return EXIT_GOOD;
}

static int run_once(const model_run *run, const bindings *b, double *seconds) {
  const double begin = clock_seconds();
  if (items_needed(run)) {
    const int result = items_run(run);
    *seconds = clock_seconds() - begin;
    return result;
  }
  const compute_status status =
      compute_model_run(run->model, b->inputs, b->input_count, b->outputs, run->output_count);
  *seconds = clock_seconds() - begin;
  return status ? run_fail(run->context) : EXIT_GOOD;
}

static int compare_numbers(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static int run_many(model_run *run, const bindings *b) {
  const size_t count = (size_t)run->a->bench;
  progress_bar bar = progress_begin(false, 0);
  int result = EXIT_GOOD;
  run->seconds = calloc(count, sizeof *run->seconds);
  if (!run->seconds) return run_out_of_memory();
  for (size_t i = 0; i < count && !result; i++) {
    progress_draw(&bar, (double)i / (double)count, "run %zu of %zu", i + 1, count);
    result = run_once(run, b, &run->seconds[i]);
  }
  progress_hide(&bar);
  qsort(run->seconds, count, sizeof *run->seconds, compare_numbers);
  return result;
}

static int run_model(model_run *run) {
  bindings b = {0};
  int result = bind(run, &b);
  if (!result) result = run_once(run, &b, &run->first_seconds);
  for (size_t i = 0; i < run->output_count && b.outputs && !items_needed(run); i++)
    run->outputs[i].tensor = b.outputs[i].tensor;
  if (!result && run->a->bench) result = run_many(run, &b);
  free(b.inputs);
  free(b.outputs);
  return result;
}

/* ---- Results ------------------------------------------------------------------------------- */

static int write_outputs(const model_run *run) {
  compute_named_tensor *named = calloc(run->output_count + 1, sizeof *named);
  if (!named) return run_out_of_memory();
  size_t count = 0;
  for (size_t i = 0; i < run->output_count; i++) {
    if (!run->outputs[i].tensor) { /* texts, or a sequence */
      option_say(&run_program, "--output %s: '%s' is not a tensor of numbers and is left out",
                 run->a->output, run->outputs[i].port.name);
      continue;
    }
    size_t k = 0; /* a model may list an output several times */
    while (k < count && strcmp(named[k].name, run->outputs[i].port.name) != 0) k++;
    if (k == count)
      named[count++] = (compute_named_tensor){run->outputs[i].port.name, run->outputs[i].tensor};
  }
  const compute_status status =
      compute_tensor_file_write(run->context, run->a->output, named, count);
  free(named);
  return status ? run_fail(run->context) : EXIT_GOOD;
}

static int explain(const model_run *run) {
  char *text;
  if (compute_model_explain(run->model, &text)) return run_fail(run->context);
  printf("\n%s", text);
  compute_text_free(text);
  return EXIT_GOOD;
}

static int check_output_name(const char *path) {
  if (!path || run_holds_names(path)) return EXIT_GOOD;
  option_say(&run_program, "--output %s: the name must end in .npz or .safetensors", path);
  return EXIT_USAGE;
}

static int run_and_report(model_run *run) {
  const run_arguments *a = run->a;
  int result = run_model(run);
  if (!result) result = report_run(run);
  if (!result && a->explain) result = explain(run);
  if (!result && a->output) result = write_outputs(run);
  if (!result && a->profile && compute_profile_write(run->context, a->profile))
    result = run_fail(run->context);
  if (!result && a->compare) result = compare_outputs(run);
  return result;
}

static int do_all(model_run *run) {
  const run_arguments *a = run->a;
  int result = check_output_name(a->output);
  if (!result) result = quantize_check(a);
  if (!result) result = output_check(&run_program, "--output", a->output);
  if (!result) result = output_check(&run_program, "--profile", a->profile);
  if (!result) result = open_context(run);
  if (!result) result = load(run);
  if (!result) report_model(run);
  if (!result) result = inputs_make(run);
  if (!result) result = a->quantize ? quantize_model(run) : run_and_report(run);
  if (fflush(stdout) && result == EXIT_GOOD) {
    perror("compute-run: standard output");
    result = EXIT_FAILED;
  }
  return result;
}

static void release(model_run *run) {
  for (size_t i = 0; run->inputs && i < run->input_count; i++) {
    compute_tensor_release(run->inputs[i].tensor);
    compute_model_item_release(run->inputs[i].item);
  }
  for (size_t i = 0; run->outputs && i < run->output_count; i++) {
    compute_tensor_release(run->outputs[i].tensor);
    compute_model_item_release(run->outputs[i].item);
  }
  free(run->inputs);
  free(run->outputs);
  free(run->seconds);
  compute_model_release(run->model);
  compute_close(run->context);
}

int main(int argc, char **argv) {
  static run_arguments a = {.tolerance = {{1e-3, 1e-5}, 2}};
  int status;
  if (!option_read(&run_program, argc, argv, &a, &status)) return status;
  if (!a.line.operand) {
    option_say(&run_program, "a MODEL is missing; see compute-run --help");
    return EXIT_USAGE;
  }
  if (a.tolerance.count == 1) a.tolerance.value[1] = 1e-5;
  model_run run = {.a = &a};
  status = do_all(&run);
  release(&run);
  return status;
}
