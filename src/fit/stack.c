/* Stacks of ROIs: each is an item of a batch iterator that compiles the graph itself. Arrays of
 * single ROIs (widths, starts, …) are further inputs with as many items. */
#include "base/error.h"
#include "fit/delivery.h"

#define PARTS 6 /* inputs of single ROIs */

/* The inputs of single ROIs, in the order of their bits. */
static const int32_t single[PARTS] = {0, 5, 6, 7, 8, -1};

static void build(void *user, compute_graph *graph, int64_t items, const compute_node *inputs,
                  compute_node *outputs) {
  const compute_fit *fit = user;
  compute_node nodes[FIT_INPUTS] = {{0}};
  size_t next = 1;
  (void)items;
  for (int i = 0; single[i] >= 0; i++)
    if (fit->batch_inputs >> single[i] & 1) nodes[single[i]] = inputs[next++];
  outputs[0] = fit_record(fit, graph, inputs[0], fit->batch_inputs, nodes, fit->maps);
}

compute_status stack_open(compute_fit *fit, uint32_t inputs) {
  const compute_fit_problem *p = &fit->problem;
  compute_batch_port ports[1 + PARTS] = {{fit->dtype, COMPUTE_SHAPE(p->rows, p->columns)}};
  compute_batch_options options = fit_batch_options(fit);
  options.build = build;
  options.inputs = ports;
  options.input_count = 1;
  for (int i = 0; single[i] >= 0; i++)
    if (inputs >> single[i] & 1)
      ports[options.input_count++] = (compute_batch_port){
          fit_input_dtype(single[i]), COMPUTE_SHAPE(fit_input_width(fit, single[i]))};
  compute_batch_release(fit->batch);
  fit->batch = NULL;
  fit->batch_inputs = inputs;
  return compute_batch_create(fit->context, &options, &fit->batch);
}

static compute_status deliver(void *user, int64_t first, int64_t items, const void *data) {
  fit_delivery *d = user;
  const int32_t *corners = d->options->corners;
  const compute_status s = delivery_begin(d, items);
  if (s != COMPUTE_OK) return s;
  delivery_take(d, 0, items, data);
  return delivery_end(d, items, corners != NULL ? corners + 3 * first : NULL, 0);
}

compute_status stack_run(compute_fit *fit, const compute_fit_run_options *options,
                         fit_delivery *delivery) {
  compute_batch_source sources[1 + PARTS] = {options->pixels};
  const compute_batch_sink sink = {.write = deliver, .user = delivery};
  size_t count = 1;
  for (int i = 0; single[i] >= 0; i++)
    if (fit->batch_inputs >> single[i] & 1)
      sources[count++].array = fit_input_array(options, single[i]);
  return fit_run_batch(fit, fit->batch,
                       &(compute_batch_run_options){.items = options->count,
                                                    .sources = sources,
                                                    .sinks = &sink,
                                                    .progress = options->progress,
                                                    .progress_user = options->progress_user,
                                                    .progress_seconds = options->progress_seconds},
                       delivery);
}
