/* SPDX-License-Identifier: MIT */
/* Runs of plans in the background. */
#include "glue.h"

/* How often a wait looks for signals, in seconds. */
static const double SLICE = 0.05;

/* The jobs of a sequence in memory of the call. */
static compute_job **jobs_of(PyObject *values, scratch *s, size_t *count) {
  PyObject *list = PySequence_Tuple(values);
  if (!list) return NULL;
  *count = (size_t)PyTuple_Size(list);
  compute_job **jobs = scratch_memory(s, (*count + 1) * sizeof(compute_job *));
  for (size_t i = 0; jobs && i < *count; i++) {
    if (to_object(PyTuple_GetItem(list, (Py_ssize_t)i), KIND_JOB, s, (void **)&jobs[i]))
      jobs = NULL;
  }
  Py_DECREF(list);
  return jobs;
}

PyObject *plan_submit(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
  static const char *const keys[] = {"inputs", "out", "after"};
  static const form f = {"_submit", keys, 3, 1, true};
  PyObject *v[3], *given = NULL, *list = NULL, *result = NULL;
  scratch s = {0};
  compute_plan *plan = NULL;
  compute_run_options options = {0};
  compute_binding *bindings = NULL;
  compute_job **after = NULL, *job = NULL;
  size_t number = 0, after_count = 0;
  if (form_take(&f, args, count, names, v, &given) ||
      to_object(self, KIND_PLAN, &s, (void **)&plan) ||
      fill(&compute_run_options_form, given, &options, &s) ||
      (v[2] && (after = jobs_of(v[2], &s, &after_count)) == NULL) ||
      (list = outputs_of(self, v[1])) == NULL ||
      (bindings = bindings_of(self, v[0], list, &s, &number)) == NULL || scratch_keep(&s, list))
    goto end;
  compute_status status;
  PyThreadState *const unlocked = PyEval_SaveThread();
  status = compute_submit(plan, bindings, number,
                          &(compute_submit_options){.after = after,
                                                    .after_count = after_count,
                                                    .fallback = options.fallback,
                                                    .time_limit = options.time_limit},
                          &job);
  PyEval_RestoreThread(unlocked);
  result = status ? fail(status) : object_new(KIND_JOB, job, true, &s);
  if (result && (((object *)result)->extra = plan_result(self, list)) == NULL) Py_CLEAR(result);
end:
  Py_XDECREF(list);
  Py_XDECREF(given);
  scratch_end(&s);
  return result;
}

PyObject *wait_in_slices(const waiting *w, PyObject *self, PyObject *const *args, Py_ssize_t count,
                         PyObject *names) {
  static const char *const keys[] = {"limit"};
  static const form f = {"wait", keys, 1, 0, false};
  PyObject *v[1], *result = NULL;
  scratch s = {0};
  void *handle = NULL;
  double limit = 0;
  bool done = false;
  if (form_take(&f, args, count, names, v, NULL) || (v[0] && to_f64(v[0], "limit", &limit)) ||
      to_object(self, w->kind, &s, &handle))
    goto end;
  for (double left = limit;; left -= SLICE) {
    const double slice = limit > 0 && left < SLICE ? (left > 1e-9 ? left : 1e-9) : SLICE;
    compute_status status;
    PyThreadState *const unlocked = PyEval_SaveThread();
    status = w->wait(handle, slice);
    PyEval_RestoreThread(unlocked);
    const bool polled = w->poll(handle, &done) == COMPUTE_OK;
    /* The work may end between the wait and the poll. */
    if (polled && done && status == COMPUTE_ERROR_TIMEOUT) status = w->wait(handle, 0);
    if (!polled || done || status != COMPUTE_ERROR_TIMEOUT) {
      result = status ? fail(status) : Py_NewRef(((object *)self)->extra);
      break;
    }
    if (PyErr_CheckSignals()) break;
    if (limit > 0 && left <= SLICE) {
      fail(status);
      break;
    }
  }
end:
  scratch_end(&s);
  return result;
}

static compute_status wait_for_job(void *job, double limit) {
  return compute_job_wait(job, limit);
}

static compute_status poll_job(void *job, bool *done) {
  return compute_job_poll(job, done);
}

static PyObject *job_wait(PyObject *self, PyObject *const *args, Py_ssize_t count,
                          PyObject *names) {
  static const waiting w = {KIND_JOB, wait_for_job, poll_job};
  return wait_in_slices(&w, self, args, count, names);
}

#define METHOD(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL | METH_KEYWORDS

PyMethodDef job_methods[] = {
    {"wait", METHOD(job_wait),
     "wait($self, limit=0)\n--\n\nWaits until the job has ended, and returns the arrays that the "
     "plan's run would. After `limit` seconds (0: none) it raises TimeoutError, and the job "
     "continues. Ctrl-C ends the wait, not the job."},
    {NULL, NULL, 0, NULL}};
