/* SPDX-License-Identifier: MIT */
/* Writes a quantized form of the model, and the report of its errors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/quantize.h"
#include "programs/common/output_check.h"
#include "programs/run/run.h"

/* The samples: the files of --samples, or else the inputs of the run. */
typedef struct sampler {
  const model_run *run;
  compute_tensor **tensors; /* of the last file */
  size_t count;
} sampler;

static void clear(sampler *s) {
  for (size_t i = 0; i < s->count; i++) compute_tensor_release(s->tensors[i]);
  s->count = 0;
}

static compute_status read_file(sampler *s, const char *path, compute_model_binding *inputs,
                                size_t count) {
  compute_context *context = s->run->context;
  compute_tensor_file *file;
  compute_status status = compute_tensor_file_open(context, path, &file);
  if (status) return status;
  for (size_t i = 0; !status && i < count; i++) {
    const size_t index = compute_tensor_file_find(file, inputs[i].name);
    if (index == compute_tensor_file_count(file)) {
      option_say(&run_program, "%s has no tensor called '%s'", path, inputs[i].name);
      status = COMPUTE_ERROR_BINDING;
      break;
    }
    status =
        compute_tensor_file_read(file, index, compute_default_device(context), &inputs[i].tensor);
    if (!status) s->tensors[s->count++] = inputs[i].tensor;
  }
  compute_tensor_file_close(file);
  return status;
}

static compute_status next_sample(void *user, size_t index, compute_model_binding *inputs,
                                  size_t count, bool *more) {
  sampler *s = user;
  const text_list *files = &s->run->a->samples;
  clear(s);
  *more = index < (files->count ? (size_t)files->count : 1);
  if (!*more) return COMPUTE_OK;
  if (files->count) return read_file(s, files->value[index], inputs, count);
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < s->run->input_count; k++)
      if (!strcmp(inputs[i].name, s->run->inputs[k].port.name))
        inputs[i].tensor = s->run->inputs[k].tensor;
  return COMPUTE_OK;
}

/* ---- The report ------------------------------------------------------------------------------ */

static bool ends_with(const char *text, const char *ending) {
  const size_t length = strlen(text), more = strlen(ending);
  return length >= more && !strcmp(text + length - more, ending);
}

static int print_report(const model_run *run, const compute_quantize_report *report) {
  char *text = NULL;
  if (compute_quantize_report_text(report, COMPUTE_REPORT_TEXT, &text))
    return run_fail(run->context);
  printf("\nQuantized: %s\n%s", run->a->quantize, text);
  compute_text_free(text);
  return EXIT_GOOD;
}

static int write_report(const model_run *run, const compute_quantize_report *report) {
  const char *path = run->a->report;
  char *text = NULL;
  const compute_quantize_format format = ends_with(path, ".json")  ? COMPUTE_REPORT_JSON
                                         : ends_with(path, ".svg") ? COMPUTE_REPORT_SVG
                                                                   : COMPUTE_REPORT_TEXT;
  if (compute_quantize_report_text(report, format, &text)) return run_fail(run->context);
  FILE *file = fopen(path, "w");
  bool good = file && fputs(text, file) >= 0;
  if (file && fclose(file)) good = false;
  if (!good) option_say(&run_program, "cannot write %s", path);
  compute_text_free(text);
  return good ? EXIT_GOOD : EXIT_FAILED;
}

/* ---- All ------------------------------------------------------------------------------------- */

/* The first option that does not belong to the others, with the reason, or NULL. */
static const char *find_conflict(const run_arguments *a) {
  const bool whole = a->method == COMPUTE_QUANTIZE_STATIC;
  const bool weights = a->method == COMPUTE_QUANTIZE_WEIGHTS;
  const bool settings = a->method || a->range || a->rounding || a->bits || a->block ||
                        a->signed_bytes || a->per_tensor;
  if (!a->quantize)
    return a->report || a->samples.count || a->keep.count || settings
               ? "--method, --samples, --range, --rounding, --bits, --block, --signed, "
                 "--per-tensor, --keep and --report need --quantize"
               : NULL;
  if (a->output || a->compare || a->profile || a->bench || a->explain)
    return "--quantize does not run the model: --output, --compare, --profile, --bench and "
           "--explain are not possible";
  if (!whole && (a->range || a->signed_bytes || a->per_tensor))
    return "--range, --signed and --per-tensor need --method static";
  if (!weights && a->block) return "--block needs --method weights";
  if (!weights && a->rounding == COMPUTE_ROUNDING_GPTQ)
    return "--rounding gptq needs --method weights";
  if (!whole && !weights && (a->bits || a->rounding))
    return "--bits and --rounding need --method static or weights";
  return NULL;
}

int quantize_check(const run_arguments *a) {
  const int result = output_check(&run_program, "--quantize", a->quantize);
  if (result) return result;
  if (a->quantize && !ends_with(a->quantize, ".onnx")) {
    option_say(&run_program, "--quantize %s: the name must end in .onnx", a->quantize);
    return EXIT_USAGE;
  }
  const char *conflict = find_conflict(a);
  if (conflict) {
    option_say(&run_program, "%s", conflict);
    return EXIT_USAGE;
  }
  return output_check(&run_program, "--report", a->report);
}

int quantize_model(const model_run *run) {
  const run_arguments *a = run->a;
  compute_quantize_report *report = NULL;
  sampler s = {.run = run, .tensors = calloc(run->input_count + 1, sizeof *s.tensors)};
  if (!s.tensors) return run_out_of_memory();
  const compute_quantize_options options = {
      .method = (compute_quantize_method)a->method,
      .range = (compute_quantize_range)a->range,
      .rounding = (compute_quantize_rounding)a->rounding,
      .activations = a->signed_bytes ? COMPUTE_I8 : COMPUTE_U8,
      .bits = (int32_t)a->bits,
      .block = (int32_t)a->block,
      .per_tensor = a->per_tensor,
      .keep = a->keep.value,
      .keep_count = (size_t)a->keep.count,
      .next = next_sample,
      .user = &s,
  };
  int result = EXIT_GOOD;
  if (compute_model_quantize(run->model, a->quantize, &options, &report))
    result = run_fail(run->context);
  if (!result) result = print_report(run, report);
  if (!result && a->report) result = write_report(run, report);
  compute_quantize_report_release(report);
  clear(&s);
  free(s.tensors);
  return result;
}
