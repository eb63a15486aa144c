/* SPDX-License-Identifier: MIT */
/* Ports of compute-run that are not a tensor of numbers: texts, sequences and optionals. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/run/run.h"

enum { TEXTS_SHOWN = 8 };

bool items_needed(const model_run *run) {
  bool needed = false;
  for (size_t i = 0; i < run->input_count; i++) needed |= run->inputs[i].port.kind != 0;
  for (size_t i = 0; i < run->output_count; i++) {
    const uint32_t kind = run->outputs[i].port.kind;
    needed |= (kind & ~(uint32_t)COMPUTE_MODEL_TEXT) != 0 ||
              (kind && compute_model_label_count(run->model, i) == 0);
  }
  return needed;
}

/* ---- Files --------------------------------------------------------------------------------- */

/* The bytes of a file and a zero; NULL if it cannot be read. */
static char *read_all(const char *path) {
  FILE *file = fopen(path, "rb");
  char *text = NULL;
  size_t bytes = 0, capacity = 0, taken = 1;
  while (file && taken > 0) {
    if (bytes + 1 >= capacity) {
      capacity = 2 * capacity + 4096;
      char *larger = realloc(text, capacity);
      if (!larger) break;
      text = larger;
    }
    taken = fread(text + bytes, 1, capacity - bytes - 1, file);
    bytes += taken;
    text[bytes] = '\0';
  }
  const bool good = file && taken == 0 && !ferror(file);
  if (file) fclose(file);
  if (good) return text;
  free(text);
  return NULL;
}

/* Lines as texts: a scalar if the input is one, [1, lines] for two dimensions, else [lines]. */
static int make_texts(const run_port *input, char *text, compute_model_item **item) {
  int64_t count = 0, at = 0;
  for (const char *c = text; *c; c++) count += *c == '\n' || !c[1];
  const char **lines = calloc((size_t)count + 1, sizeof *lines);
  if (!lines) return run_out_of_memory();
  for (char *line = text; *line && at < count;) {
    lines[at++] = line;
    line += strcspn(line, "\n");
    if (line > text && line[-1] == '\r') line[-1] = '\0';
    if (*line) *line++ = '\0';
  }
  compute_shape shape = COMPUTE_SHAPE(count);
  if (input->port.rank == 0 && count == 1) shape = COMPUTE_SCALAR;
  if (input->port.rank == 2) shape = COMPUTE_SHAPE(1, count);
  const compute_status status = compute_model_item_from_texts(shape, lines, item);
  free(lines);
  return status ? run_fail(NULL) : EXIT_GOOD; /* items have no context */
}

static int read_item(const model_run *run, const run_port *input, const char *path,
                     compute_model_item **item) {
  if (input->port.kind & COMPUTE_MODEL_TEXT) {
    char *text = read_all(path);
    if (!text) {
      option_say(&run_program, "%s cannot be read", path);
      return EXIT_FAILED;
    }
    const int result = make_texts(input, text, item);
    free(text);
    return result;
  }
  compute_tensor *tensor = NULL;
  compute_status status = compute_npy_read(compute_default_device(run->context), path, &tensor);
  if (!status) status = compute_model_item_from_tensor(tensor, item);
  compute_tensor_release(tensor);
  return status ? run_fail(run->context) : EXIT_GOOD;
}

int items_take(const model_run *run, run_port *input, const char *path) {
  compute_model_item *one = NULL;
  const bool sequence = (input->port.kind & COMPUTE_MODEL_SEQUENCE) != 0;
  if (input->item && !sequence) {
    option_say(&run_program, "--input: '%s' is given twice, by %s and by %s", input->port.name,
               input->source, path);
    return EXIT_USAGE;
  }
  const int result = read_item(run, input, path, &one);
  if (result) return result;
  snprintf(input->source, sizeof input->source, "%s", path);
  if (!sequence) {
    input->item = one;
    return EXIT_GOOD;
  }
  compute_status status = input->item ? COMPUTE_OK : compute_model_item_sequence(&input->item);
  if (!status) status = compute_model_item_append(input->item, one);
  compute_model_item_release(one);
  return status ? run_fail(NULL) : EXIT_GOOD;
}

/* ---- The run ------------------------------------------------------------------------------- */

/* Drops the results of the run before. */
static void release_outputs(const model_run *run) {
  for (size_t i = 0; i < run->output_count; i++) {
    compute_model_item_release(run->outputs[i].item);
    compute_tensor_release(run->outputs[i].tensor);
    run->outputs[i].item = NULL;
    run->outputs[i].tensor = NULL;
  }
}

static compute_status bind_inputs(const model_run *run, compute_model_argument *in, size_t *count) {
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < run->input_count; i++) {
    const run_port *port = &run->inputs[i];
    if (!port->item && !port->tensor) continue;
    in[*count] = (compute_model_argument){port->port.name, compute_model_item_retain(port->item)};
    if (!port->item) status = compute_model_item_from_tensor(port->tensor, &in[*count].item);
    ++*count;
  }
  return status;
}

int items_run(const model_run *run) {
  size_t count = 0;
  compute_model_argument *in = calloc(run->input_count + 1, sizeof *in);
  compute_model_argument *out = calloc(run->output_count + 1, sizeof *out);
  compute_status status = in && out ? bind_inputs(run, in, &count) : COMPUTE_ERROR_OUT_OF_MEMORY;
  for (size_t i = 0; out && i < run->output_count; i++) out[i].name = run->outputs[i].port.name;
  if (!status)
    status = compute_model_run_items(run->model, in, count, out, run->output_count, NULL);
  release_outputs(run);
  for (size_t i = 0; !status && i < run->output_count; i++) {
    run->outputs[i].item = out[i].item;
    run->outputs[i].tensor = compute_tensor_retain(compute_model_item_tensor(out[i].item));
  }
  for (size_t i = 0; in && i < count; i++) compute_model_item_release(in[i].item);
  free(in);
  free(out);
  return status ? run_fail(run->context) : EXIT_GOOD;
}

/* ---- Printing ------------------------------------------------------------------------------ */

static void print_plain(const compute_model_item *item) {
  char shape[160];
  const compute_tensor *tensor = compute_model_item_tensor(item);
  const size_t count = compute_model_item_count(item);
  printf("%s %s", tensor ? compute_dtype_name(compute_tensor_dtype(tensor)) : "text",
         compute_shape_text(compute_model_item_shape(item), shape, sizeof shape));
  for (size_t i = 0; !tensor && i < count && i < TEXTS_SHOWN; i++)
    printf("%s'%s'", i ? ", " : ": ", compute_model_item_text(item, i));
  printf("%s\n", count > TEXTS_SHOWN ? ", …" : "");
}

void items_print(const run_port *port) {
  const compute_model_item *item = port->item;
  printf("    %-16s ", port->port.name);
  if (compute_model_item_kind(item) & COMPUTE_MODEL_OPTIONAL) {
    item = compute_model_item_at(item, 0);
    printf("optional %s", item ? "with " : "without a value\n");
    if (!item) return;
  }
  if (!(compute_model_item_kind(item) & COMPUTE_MODEL_SEQUENCE)) {
    print_plain(item);
    return;
  }
  const size_t count = compute_model_item_count(item);
  printf("sequence of %zu\n", count);
  for (size_t i = 0; i < count && i < TEXTS_SHOWN; i++) {
    printf("    %-16s   ", "");
    print_plain(compute_model_item_at(item, i));
  }
  if (count > TEXTS_SHOWN) printf("    %-16s   …\n", "");
}
