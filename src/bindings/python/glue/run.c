/* SPDX-License-Identifier: MIT */
/* Runs of plans, models, trainers and fits, which a signal of Python's main thread ends. */
#include "glue.h"

/* ---- Plans --------------------------------------------------------------------------------- */

/* The bindings of a run: inputs from a dictionary, outputs in the order of the plan. */
compute_binding *bindings_of(PyObject *self, PyObject *inputs, PyObject *outputs, scratch *s,
                             size_t *count) {
  if (!PyDict_Check(inputs)) {
    PyErr_SetString(PyExc_TypeError, "inputs are a dictionary of arrays by node");
    return NULL;
  }
  PyObject *nodes = ((object *)self)->extra, *key, *value;
  const size_t input_count = (size_t)PyDict_Size(inputs);
  compute_binding *made =
      scratch_memory(s, (input_count + (size_t)PyTuple_Size(nodes) + 1) * sizeof *made);
  Py_ssize_t at = 0;
  *count = 0;
  while (made && PyDict_Next(inputs, &at, &key, &value)) {
    compute_binding *b = &made[(*count)++];
    if (to_node(key, NULL, &b->node) || to_object(value, KIND_TENSOR, s, (void **)&b->tensor) ||
        scratch_keep(s, value))
      return NULL;
  }
  for (Py_ssize_t i = 0; made && i < PyTuple_Size(nodes); i++) {
    PyObject *output = PyList_GetItem(outputs, i);
    if (output == Py_None) continue;
    compute_binding *b = &made[(*count)++];
    b->node = ((node_object *)PyTuple_GetItem(nodes, i))->node;
    if (to_object(output, KIND_TENSOR, s, (void **)&b->tensor)) return NULL;
  }
  return made;
}

/* A list with a tensor for each output that has a value: the caller's, or a new one. */
PyObject *outputs_of(PyObject *self, PyObject *given) {
  object *o = (object *)self;
  const Py_ssize_t count = PyTuple_Size(o->extra);
  PyObject *list = PyList_New(count);
  PyObject *from = given && !is_kind(given, KIND_TENSOR) ? PySequence_Tuple(given) : NULL;
  if (given && !from && !is_kind(given, KIND_TENSOR)) Py_CLEAR(list);
  for (Py_ssize_t i = 0; list && i < count; i++) {
    const node_object *node = (node_object *)PyTuple_GetItem(o->extra, i);
    PyObject *one = NULL;
    if (compute_node_dtype(((object *)node->graph)->handle, node->node) == COMPUTE_DTYPE_NONE) {
      one = Py_NewRef(Py_None);
    } else if (from ? i < PyTuple_Size(from) && PyTuple_GetItem(from, i) != Py_None
                    : given && i == 0) {
      one = Py_NewRef(from ? PyTuple_GetItem(from, i) : given);
    } else {
      compute_tensor *tensor = NULL;
      const compute_status status = compute_plan_create_tensor(o->handle, node->node, &tensor);
      one = status ? fail(status) : array_object(tensor, o->context);
    }
    if (!one || PyList_SetItem(list, i, one)) Py_CLEAR(list);
  }
  Py_XDECREF(from);
  return list;
}

/* As a job, which a signal cancels. */
static compute_status run_watched(const compute_plan *plan, const compute_binding *bindings,
                                  size_t count, const compute_run_options *options,
                                  bool *interrupted) {
  compute_job *job = NULL;
  compute_status status = compute_submit(
      plan, bindings, count,
      &(compute_submit_options){.fallback = options->fallback, .time_limit = options->time_limit},
      &job);
  if (status) return status;
  bool done = false;
  while (!done) {
    PyThreadState *const unlocked = PyEval_SaveThread();
    (void)compute_job_wait(job, 0.05);
    PyEval_RestoreThread(unlocked);
    if (compute_job_poll(job, &done)) break;
    if (!done && !*interrupted && PyErr_CheckSignals()) {
      *interrupted = true;
      compute_job_cancel(job);
    }
  }
  PyThreadState *const unlocked = PyEval_SaveThread();
  status = compute_job_wait(job, 0); /* its status, and its error for this thread */
  PyEval_RestoreThread(unlocked);
  compute_job_release(job);
  return status;
}

PyObject *plan_result(PyObject *self, PyObject *list) {
  if (((object *)self)->single) return Py_NewRef(PyList_GetItem(list, 0));
  return PySequence_Tuple(list);
}

static PyObject *plan_run(PyObject *self, PyObject *const *args, Py_ssize_t count,
                          PyObject *names) {
  static const char *const keys[] = {"inputs", "out"};
  static const form f = {"_run", keys, 2, 1, true};
  PyObject *v[2], *given = NULL, *list = NULL, *result = NULL;
  scratch s = {0};
  object *o = (object *)self;
  compute_run_options options = {0};
  compute_binding *bindings = NULL;
  size_t number = 0;
  bool interrupted = false;
  if (form_take(&f, args, count, names, v, &given)) goto end;
  if ((o->exclusive && scratch_use(&s, o)) ||
      fill(&compute_run_options_form, given, &options, &s) ||
      (list = outputs_of(self, v[1])) == NULL ||
      (bindings = bindings_of(self, v[0], list, &s, &number)) == NULL)
    goto end;
  compute_status status;
  if (o->lengthy) {
    status = run_watched(o->handle, bindings, number, &options, &interrupted);
  } else {
    PyThreadState *const unlocked = PyEval_SaveThread();
    status = compute_run_with(o->handle, bindings, number, &options, NULL);
    PyEval_RestoreThread(unlocked);
  }
  if (!interrupted) result = status ? fail(status) : plan_result(self, list);
end:
  Py_XDECREF(list);
  Py_XDECREF(given);
  scratch_end(&s);
  return result;
}

static PyObject *plan_outputs(PyObject *self, void *unused) {
  (void)unused;
  return Py_NewRef(((object *)self)->extra);
}

PyGetSetDef plan_members[] = {{"outputs", plan_outputs, NULL, "the nodes that it computes", NULL},
                              {"context", object_context, NULL, "the context", NULL},
                              {NULL, NULL, NULL, NULL, NULL}};

/* ---- Models -------------------------------------------------------------------------------- */

static compute_model_binding *model_bindings(PyObject *values, scratch *s, size_t *count) {
  *count = (size_t)PyDict_Size(values);
  compute_model_binding *made = scratch_memory(s, (*count + 1) * sizeof *made);
  PyObject *key, *value;
  Py_ssize_t at = 0;
  for (size_t i = 0; made && PyDict_Next(values, &at, &key, &value); i++) {
    if (to_text(key, s, &made[i].name) ||
        (value != Py_None &&
         (to_object(value, KIND_TENSOR, s, (void **)&made[i].tensor) || scratch_keep(s, value))))
      return NULL;
  }
  return made;
}

/* {name: array} of the outputs; new arrays belong to the run's caller. */
static PyObject *model_results(PyObject *outputs, const compute_model_binding *bindings,
                               PyObject *context) {
  PyObject *result = PyDict_New(), *key, *value;
  Py_ssize_t at = 0;
  for (size_t i = 0; PyDict_Next(outputs, &at, &key, &value); i++) {
    PyObject *one = value != Py_None ? Py_NewRef(value) : array_object(bindings[i].tensor, context);
    if (result && (!one || PyDict_SetItem(result, key, one))) Py_CLEAR(result);
    Py_XDECREF(one);
  }
  return result;
}

/* Asked by the thread that runs the model, now and then. */
static bool signals_go_on(void *user) {
  watch *w = user;
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool go_on = PyErr_CheckSignals() == 0;
  watch_catch(w);
  PyGILState_Release(state);
  return go_on;
}

static PyObject *model_run(PyObject *self, PyObject *const *args, Py_ssize_t count,
                           PyObject *names) {
  static const char *const keys[] = {"inputs", "outputs"};
  static const form f = {"_run", keys, 2, 2, false};
  PyObject *v[2], *result = NULL;
  scratch s = {0};
  compute_model *model = NULL;
  compute_model_binding *inputs = NULL, *outputs = NULL;
  size_t input_count = 0, output_count = 0;
  watch w = {0};
  if (form_take(&f, args, count, names, v, NULL)) return NULL;
  if (!PyDict_Check(v[0]) || !PyDict_Check(v[1]))
    return PyErr_Format(PyExc_TypeError, "inputs and outputs are dictionaries of arrays by name");
  if (to_object(self, KIND_MODEL, &s, (void **)&model) ||
      (inputs = model_bindings(v[0], &s, &input_count)) == NULL ||
      (outputs = model_bindings(v[1], &s, &output_count)) == NULL)
    goto end;
  compute_status status;
  PyThreadState *const unlocked = PyEval_SaveThread();
  status = compute_model_run_with(model, inputs, input_count, outputs, output_count,
                                  &(compute_model_run_options){.go_on = signals_go_on, .user = &w});
  PyEval_RestoreThread(unlocked);
  result = status ? fail(status) : model_results(v[1], outputs, context_of(self));
  if (w.failed) {
    Py_CLEAR(result);
    result = watch_raise(&w);
  }
end:
  scratch_end(&s);
  return result;
}

static int model_arguments(PyObject *values, scratch *s, compute_model_argument *made) {
  PyObject *key, *value;
  Py_ssize_t at = 0;
  for (size_t i = 0; PyDict_Next(values, &at, &key, &value); i++)
    if (to_text(key, s, &made[i].name) || to_item(value, s, &made[i].item)) return -1;
  return 0;
}

static PyObject *item_results(const compute_model_argument *outputs, size_t count,
                              PyObject *context) {
  PyObject *result = PyDict_New();
  for (size_t i = 0; result && i < count; i++) {
    PyObject *one = item_object(outputs[i].item, context);
    if (!one || PyDict_SetItemString(result, outputs[i].name, one)) Py_CLEAR(result);
    Py_XDECREF(one);
  }
  return result;
}

/* As model_run, with ports of any kind: values as in item.c, and a list of the outputs' names. */
static PyObject *model_run_items(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                 PyObject *names) {
  static const char *const keys[] = {"inputs", "outputs"};
  static const form f = {"_run_items", keys, 2, 2, false};
  PyObject *v[2], *result = NULL;
  scratch s = {0};
  compute_model *model = NULL;
  watch w = {0};
  if (form_take(&f, args, count, names, v, NULL)) return NULL;
  if (!PyDict_Check(v[0]) || !PyList_Check(v[1]))
    return PyErr_Format(PyExc_TypeError, "inputs are a dictionary, outputs a list of names");
  const size_t in = (size_t)PyDict_Size(v[0]), out = (size_t)PyList_Size(v[1]);
  compute_model_argument *inputs = scratch_memory(&s, (in + 1) * sizeof *inputs);
  compute_model_argument *outputs = scratch_memory(&s, (out + 1) * sizeof *outputs);
  if (!inputs || !outputs || to_object(self, KIND_MODEL, &s, (void **)&model)) goto end;
  for (size_t i = 0; i < out; i++)
    if (to_text(PyList_GetItem(v[1], (Py_ssize_t)i), &s, &outputs[i].name)) goto end;
  if (model_arguments(v[0], &s, inputs)) goto end;
  compute_status status;
  PyThreadState *const unlocked = PyEval_SaveThread();
  status =
      compute_model_run_items(model, inputs, in, outputs, out,
                              &(compute_model_run_options){.go_on = signals_go_on, .user = &w});
  PyEval_RestoreThread(unlocked);
  result = status ? fail(status) : item_results(outputs, out, context_of(self));
  if (w.failed) {
    Py_CLEAR(result);
    result = watch_raise(&w);
  }
end:
  for (size_t i = 0; inputs && i < in; i++) compute_model_item_release(inputs[i].item);
  for (size_t i = 0; outputs && i < out; i++) compute_model_item_release(outputs[i].item);
  scratch_end(&s);
  return result;
}

static PyObject *model_metadata(PyObject *self, PyObject *none) {
  (void)none;
  scratch s = {0};
  compute_model *model = NULL;
  if (to_object(self, KIND_MODEL, &s, (void **)&model)) return NULL;
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < compute_model_metadata_count(model); i++) {
    const char *key = "", *value = "";
    const compute_status status = compute_model_metadata_at(model, i, &key, &value);
    PyObject *pair = status ? fail(status) : Py_BuildValue("(ss)", key, value);
    if (!pair || PyList_Append(list, pair)) Py_CLEAR(list);
    Py_XDECREF(pair);
  }
  scratch_end(&s);
  return list;
}

/* Records the model into the graph of `inputs`' nodes, or into `graph`. */
static PyObject *model_record(PyObject *self, PyObject *const *args, Py_ssize_t count,
                              PyObject *names) {
  static const char *const keys[] = {"graph", "inputs", "outputs"};
  static const form f = {"record", keys, 3, 3, false};
  PyObject *v[3], *key, *value, *result = NULL, *list = NULL;
  scratch s = {0};
  compute_model *model = NULL;
  compute_graph *graph = NULL;
  if (form_take(&f, args, count, names, v, NULL) ||
      to_object(self, KIND_MODEL, &s, (void **)&model) ||
      to_object(v[0], KIND_GRAPH, &s, (void **)&graph))
    goto end;
  if (!PyDict_Check(v[1]) || (list = PySequence_Tuple(v[2])) == NULL) {
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_TypeError, "inputs are a dictionary of nodes by name");
    goto end;
  }
  const size_t input_count = (size_t)PyDict_Size(v[1]), output_count = (size_t)PyTuple_Size(list);
  compute_model_value *inputs = scratch_memory(&s, (input_count + 1) * sizeof *inputs);
  compute_model_value *outputs = scratch_memory(&s, (output_count + 1) * sizeof *outputs);
  if (!inputs || !outputs) goto end;
  Py_ssize_t at = 0;
  for (size_t i = 0; PyDict_Next(v[1], &at, &key, &value); i++) {
    if (to_text(key, &s, &inputs[i].name) || to_node(value, v[0], &inputs[i].node)) goto end;
  }
  for (size_t i = 0; i < output_count; i++) {
    if (to_text(PyTuple_GetItem(list, (Py_ssize_t)i), &s, &outputs[i].name)) goto end;
  }
  const compute_status status =
      compute_model_record(model, graph, inputs, input_count, outputs, output_count);
  result = status ? fail(status) : PyDict_New();
  for (size_t i = 0; result && i < output_count; i++) {
    PyObject *node = node_new(v[0], outputs[i].node);
    if (!node || PyDict_SetItem(result, PyTuple_GetItem(list, (Py_ssize_t)i), node))
      Py_CLEAR(result);
    Py_XDECREF(node);
  }
end:
  Py_XDECREF(list);
  scratch_end(&s);
  return result;
}

/* ---- Progress ------------------------------------------------------------------------------ */

void watch_catch(watch *w) {
  if (!PyErr_Occurred()) return;
  if (w->failed) {
    PyErr_Clear();
    return;
  }
  w->failed = true;
  PyErr_Fetch(&w->type, &w->value, &w->trace);
}

/* Called with the interpreter's lock. False ends the run. */
static bool watch_ask(watch *w, PyObject *now) {
  bool go_on = now && PyErr_CheckSignals() == 0;
  if (go_on && w->call) {
    PyObject *answer = PyObject_CallFunctionObjArgs(w->call, now, NULL);
    go_on = answer && answer != Py_False;
    Py_XDECREF(answer);
  }
  Py_XDECREF(now);
  watch_catch(w);
  return go_on;
}

PyObject *watch_raise(watch *w) {
  PyErr_Restore(w->type, w->value, w->trace);
  w->type = w->value = w->trace = NULL;
  w->failed = false;
  return NULL;
}

void watch_clear(watch *w) {
  Py_CLEAR(w->type);
  Py_CLEAR(w->value);
  Py_CLEAR(w->trace);
}

static bool training_progress(void *user, const compute_training_progress *now) {
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool go_on = watch_ask(user, taken(&compute_training_progress_form, now, NULL));
  PyGILState_Release(state);
  return go_on;
}

static PyObject *trainer_run(PyObject *self, PyObject *const *args, Py_ssize_t count,
                             PyObject *names) {
  static const char *const keys[] = {"dataset", "progress"};
  static const form f = {"run", keys, 2, 1, true};
  PyObject *v[2], *given = NULL, *result = NULL;
  scratch s = {0};
  compute_trainer *trainer = NULL;
  compute_dataset *dataset = NULL;
  compute_trainer_run_options options = {.epochs = 1};
  compute_training_score score = {0}, best = {0};
  watch w = {0};
  if (form_take(&f, args, count, names, v, &given) ||
      to_object(self, KIND_TRAINER, &s, (void **)&trainer) ||
      to_object(v[0], KIND_DATASET, &s, (void **)&dataset) ||
      fill(&compute_trainer_run_options_form, given, &options, &s))
    goto end;
  w.call = v[1];
  options.progress = training_progress;
  options.user = &w;
  options.best = options.validation ? &best : NULL;
  compute_status status;
  PyThreadState *const unlocked = PyEval_SaveThread();
  status = compute_trainer_run(trainer, dataset, &options, &score);
  PyEval_RestoreThread(unlocked);
  if (w.failed)
    result = watch_raise(&w);
  else if (status)
    fail(status);
  else if (options.validation)
    result = Py_BuildValue("(NN)", taken(&compute_training_score_form, &score, NULL),
                           taken(&compute_training_score_form, &best, NULL));
  else
    result = taken(&compute_training_score_form, &score, NULL);
end:
  Py_XDECREF(given);
  scratch_end(&s);
  return result;
}

/* ---- Fits ---------------------------------------------------------------------------------- */

bool batch_progress(void *user, const compute_batch_progress *now) {
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool go_on = watch_ask(
      user, Py_BuildValue("(LLd)", (long long)now->items, (long long)now->total, now->seconds));
  PyGILState_Release(state);
  return go_on;
}

static PyObject *fit_run(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
  static const char *const keys[] = {"progress"};
  static const form f = {"_run", keys, 1, 0, true};
  PyObject *v[1], *given = NULL, *result = NULL;
  scratch s = {0};
  compute_fit *fit = NULL;
  compute_fit_run_options options = {0};
  compute_fit_summary summary = {0};
  watch w = {0};
  if (form_take(&f, args, count, names, v, &given) ||
      to_object(self, KIND_FIT, &s, (void **)&fit) ||
      fill(&compute_fit_run_options_form, given, &options, &s))
    goto end;
  w.call = v[0];
  options.progress = batch_progress;
  options.progress_user = &w;
  compute_status status;
  PyThreadState *const unlocked = PyEval_SaveThread();
  status = compute_fit_run(fit, &options, &summary);
  PyEval_RestoreThread(unlocked);
  if (w.failed)
    result = watch_raise(&w);
  else
    result = status ? fail(status) : taken(&compute_fit_summary_form, &summary, NULL);
end:
  Py_XDECREF(given);
  scratch_end(&s);
  return result;
}

static PyObject *fit_parameters(PyObject *self, PyObject *model) {
  (void)self;
  int32_t number = 0;
  if (to_i32(model, "model", &number)) return NULL;
  PyObject *list = PyList_New(0);
  for (int32_t i = 0; list && i < compute_fit_parameter_count((compute_fit_model)number); i++) {
    PyObject *name = PyUnicode_FromString(compute_fit_parameter_name((compute_fit_model)number, i));
    if (!name || PyList_Append(list, name)) Py_CLEAR(list);
    Py_XDECREF(name);
  }
  return list;
}

#define METHOD(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL | METH_KEYWORDS

PyMethodDef plan_methods[] = {{"_run", METHOD(plan_run), NULL},
                              {"_submit", METHOD(plan_submit), NULL},
                              {NULL, NULL, 0, NULL}};

PyMethodDef model_methods[] = {
    {"_run", METHOD(model_run), NULL},
    {"_run_items", METHOD(model_run_items), NULL},
    {"record", METHOD(model_record),
     "record($self, graph, inputs, outputs)\n--\n\nRecords what computes the values `outputs` from "
     "`inputs`, {name: node}, into the graph. Returns {name: node}."},
    {"metadata", model_metadata, METH_NOARGS,
     "metadata($self)\n--\n\nThe file's metadata: pairs of a key and a value."},
    {NULL, NULL, 0, NULL}};

PyMethodDef trainer_methods[] = {
    {"run", METHOD(trainer_run),
     "run($self, dataset, progress=None, **options)\n--\n\nTrains for epochs of shuffled batches. "
     "`progress` gets a TrainingProgress; False ends the run. Options: epochs, in_order, "
     "checkpoint, validation, patience, keep_best. With a validation set it returns the score of "
     "the last epoch and the validation score of the best one."},
    {NULL, NULL, 0, NULL}};

PyMethodDef fit_methods[] = {{"_run", METHOD(fit_run), NULL}, {NULL, NULL, 0, NULL}};

PyMethodDef run_functions[] = {
    {"fit_parameter_names", fit_parameters, METH_O,
     "fit_parameter_names(model)\n--\n\nThe names of a model's parameters."},
    {NULL, NULL, 0, NULL}};
