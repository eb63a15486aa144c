/* SPDX-License-Identifier: MIT */
/* Batchers: single items from many threads, gathered to batches. */
#include "glue.h"

static PyObject *batcher_new(PyObject *self, PyObject *const *args, Py_ssize_t count,
                             PyObject *names) {
  static const char *const keys[] = {"batch"};
  static const form f = {"batcher", keys, 1, 1, true};
  PyObject *v[1], *given = NULL, *result = NULL;
  scratch s = {0};
  compute_batch *batch = NULL;
  compute_batcher *batcher = NULL;
  compute_batcher_options options = {0};
  watch *w = NULL;
  (void)self;
  if (form_take(&f, args, count, names, v, &given) ||
      to_object(v[0], KIND_BATCH, &s, (void **)&batch) || (w = batch_watch(v[0])) == NULL ||
      fill(&compute_batcher_options_form, given, &options, &s))
    goto end;
  compute_status status;
  PyThreadState *const unlocked = PyEval_SaveThread();
  status = compute_batcher_create(batch, &options, &batcher);
  PyEval_RestoreThread(unlocked);
  if (status)
    result = w->failed ? watch_raise(w) : fail(status);
  else
    result = object_new(KIND_BATCHER, batcher, true, &s);
  if (result) ((object *)result)->extra = Py_NewRef(v[0]);
end:
  Py_XDECREF(given);
  scratch_end(&s);
  return result;
}

static PyObject *batcher_batch(PyObject *self, void *unused) {
  (void)unused;
  return Py_NewRef(((object *)self)->extra);
}

/* The memory of a tuple of arrays, which the request keeps. */
static void **memory_of(PyObject *arrays, bool writable, scratch *s) {
  const Py_ssize_t count = PyTuple_Size(arrays);
  void **made = scratch_memory(s, ((size_t)count + 1) * sizeof *made);
  for (Py_ssize_t i = 0; made && i < count; i++) {
    if (to_memory(PyTuple_GetItem(arrays, i), writable, s, &made[i])) made = NULL;
  }
  return made;
}

/* The arrays fit the batch's inputs and outputs: the package has checked them. */
static PyObject *batcher_submit(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                PyObject *names) {
  static const char *const keys[] = {"inputs", "outputs", "time_limit"};
  static const form f = {"_submit", keys, 3, 3, false};
  PyObject *v[3], *result = NULL;
  scratch s = {0};
  compute_batcher *batcher = NULL;
  compute_batcher_request *request = NULL;
  compute_batcher_submit_options options = {0};
  void **inputs = NULL, **outputs = NULL;
  if (form_take(&f, args, count, names, v, NULL)) return NULL;
  if (!PyTuple_Check(v[0]) || !PyTuple_Check(v[1]))
    return PyErr_Format(PyExc_TypeError, "inputs and outputs are tuples of arrays");
  if (to_object(self, KIND_BATCHER, &s, (void **)&batcher) ||
      to_f64(v[2], "time_limit", &options.time_limit) ||
      (inputs = memory_of(v[0], false, &s)) == NULL ||
      (outputs = memory_of(v[1], true, &s)) == NULL)
    goto end;
  compute_status status;
  PyThreadState *const unlocked = PyEval_SaveThread();
  status =
      compute_batcher_submit(batcher, (const void *const *)inputs, outputs, &options, &request);
  PyEval_RestoreThread(unlocked);
  result = status ? fail(status) : object_new(KIND_BATCHER_REQUEST, request, true, &s);
  if (result)
    ((object *)result)->extra =
        Py_NewRef(PyTuple_Size(v[1]) == 1 ? PyTuple_GetItem(v[1], 0) : v[1]);
end:
  scratch_end(&s);
  return result;
}

static compute_status wait_for_request(void *request, double limit) {
  return compute_batcher_wait(request, limit);
}

static compute_status poll_request(void *request, bool *done) {
  return compute_batcher_poll(request, done);
}

static PyObject *request_wait(PyObject *self, PyObject *const *args, Py_ssize_t count,
                              PyObject *names) {
  static const waiting w = {KIND_BATCHER_REQUEST, wait_for_request, poll_request};
  return wait_in_slices(&w, self, args, count, names);
}

#define METHOD(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL | METH_KEYWORDS

PyGetSetDef batcher_members[] = {{"batch", batcher_batch, NULL, "the iterator", NULL},
                                 {"context", object_context, NULL, "the context", NULL},
                                 {NULL, NULL, NULL, NULL, NULL}};

PyMethodDef batcher_methods[] = {{"_submit", METHOD(batcher_submit), NULL}, {NULL, NULL, 0, NULL}};

PyMethodDef request_methods[] = {
    {"wait", METHOD(request_wait),
     "wait($self, limit=0)\n--\n\nWaits until the request has ended, and returns its arrays. After "
     "`limit` seconds (0: none) it raises TimeoutError, and the request continues. Ctrl-C ends the "
     "wait, not the request."},
    {NULL, NULL, 0, NULL}};

PyMethodDef batcher_functions[] = {
    {"batcher", METHOD(batcher_new),
     "batcher(batch, **options)\n--\n\nA batcher for the work of a batch iterator: run takes "
     "single "
     "items from any thread, and one run of the device serves those that have arrived. Options: "
     "most, wait_microseconds, full, queue."},
    {NULL, NULL, 0, NULL}};
