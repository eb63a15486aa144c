/* SPDX-License-Identifier: MIT */
/* Every kernel of the samples: the device's result matches the double-precision reference, no other
 * byte is written, and the same input gives the same bits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/backend/fit_kinds.h"

#include "backend/conformance.h"
#include "core/kernel/kernel.h"
#include "support/samples/sample_fits.h"
#include "support/samples/sample_memory.h"

/* A sample on the device. */
typedef struct launch {
  run *r;
  void *queue;
  sample_memory host;
  compute_argument argument[COMPUTE_MAX_OPERANDS];
} launch;

/* The host's side of the last case, which a failure may have interrupted. */
static launch current;

static launch *launch_make(run *r, const sample_kernel *s, bool shift) {
  launch *l = &current;
  char reason[300];
  EXPECT(r, descriptor_check(&s->descriptor, reason, sizeof reason), "the sample is wrong: %s",
         reason);
  sample_memory_release(&l->host);
  *l = (launch){.r = r, .queue = case_queue(r)};
  EXPECT(r, sample_memory_create(s, shift, &l->host), "out of memory for the test's own data");
  for (uint32_t i = 0; i < l->host.count; i++)
    l->argument[i] = (compute_argument){case_memory(r, l->host.operand[i].bytes), 0};
  return l;
}

static void launch_upload(launch *l) {
  for (uint32_t i = 0; i < l->host.count; i++) {
    l->argument[i].offset = 0;
    EXPECT_OK(l->r, l->r->backend->upload(l->queue, &l->argument[i], l->host.operand[i].before,
                                          l->host.operand[i].bytes));
    l->argument[i].offset = l->host.operand[i].offset;
  }
}

static void launch_download(launch *l) {
  for (uint32_t i = 0; i < l->host.count; i++) {
    const compute_argument whole = {l->argument[i].memory, 0};
    EXPECT_OK(l->r, l->r->backend->download(l->queue, l->host.operand[i].after, &whole,
                                            l->host.operand[i].bytes));
  }
  EXPECT_OK(l->r, l->r->backend->queue_wait(l->queue));
}

static void launch_run(launch *l, void *kernel) {
  launch_upload(l);
  EXPECT_OK(l->r, l->r->backend->enqueue(l->queue, kernel, l->argument, l->host.count));
  launch_download(l);
}

static void launch_check(launch *l, const char *which) {
  char problem[400];
  if (!sample_memory_check(&l->host, problem, sizeof problem))
    case_fail(l->r, "%s%s", which, problem);
}

/* ---- Samples ------------------------------------------------------------------------------- */

static void check_words(run *r, void *kernel) {
  char text[200];
  memset(text, 'x', sizeof text);
  if (!r->backend->kernel_describe) return;
  r->backend->kernel_describe(r->device, kernel, text, 40);
  EXPECT(r, memchr(text, '\0', 40), "kernel_describe's text does not end within its 40 bytes");
  EXPECT(r, text[0], "kernel_describe says nothing");
}

/* A second run on the same queue gives the same bits. */
static void check_again(launch *l, void *kernel) {
  const uint32_t inputs = l->host.sample->descriptor.input_count;
  for (uint32_t i = inputs; i < l->host.count; i++)
    memcpy(l->host.operand[i].expected, l->host.operand[i].after, l->host.operand[i].bytes);
  launch_run(l, kernel);
  for (uint32_t i = inputs; i < l->host.count; i++)
    EXPECT(l->r,
           !memcmp(l->host.operand[i].expected, l->host.operand[i].after, l->host.operand[i].bytes),
           "output %u has other bits when the kernel runs again", i - inputs);
}

/* FIT: an ROI fitted alone gives the same bits as among others. */
static void check_alone(launch *l) {
  const sample_kernel *s = l->host.sample;
  const compute_fit_problem *p = &compute_fit_of(&s->descriptor)->problem;
  const bool frames = (p->inputs & COMPUTE_FIT_WITH_CORNERS) && !p->flags;
  const sample_operand *records = &l->host.operand[l->host.count - 1];
  const int64_t step = s->outputs[0].stride[0], columns = s->outputs[0].stride[1];
  const int64_t count = compute_fit_column(p->model, p->outputs, 0);
  compute_kernel_descriptor d = s->descriptor;
  d.size[0] = 1;
  void *kernel = case_kernel(l->r, &d);
  unsigned char *together = case_buffer(l->r, records->bytes);
  memcpy(together, records->after, records->bytes);
  for (int64_t roi = 0; roi < s->descriptor.size[0]; roi += 5) {
    compute_argument moved[COMPUTE_MAX_OPERANDS];
    for (uint32_t i = 0; i < l->host.count; i++) {
      const compute_operand *o = sample_kernel_operand(s, i);
      moved[i] = l->argument[i];
      const bool shared = (i == 0 && frames) || ((p->inputs & COMPUTE_FIT_WITH_SPLINE) &&
                                                 i == s->descriptor.input_count - 1);
      if (!shared) moved[i].offset += (uint64_t)(roi * o->stride[0]) * compute_dtype_size(o->dtype);
    }
    launch_upload(l);
    EXPECT_OK(l->r, l->r->backend->enqueue(l->queue, kernel, moved, l->host.count));
    launch_download(l);
    for (int64_t i = 0; i < count; i++) {
      const size_t at = records->offset + 4 * (size_t)(roi * step + i * columns);
      EXPECT(l->r, !memcmp(together + at, records->after + at, 4),
             "ROI %lld on its own has another record than among others", (long long)roi);
    }
  }
}

static uint64_t hash(const char *name) {
  uint64_t sum = UINT64_C(0xcbf29ce484222325);
  for (; *name; name++) sum = (sum ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
  return sum >> 17;
}

static void check_sample(run *r, const void *user) {
  const sample_kernel *s = user;
  void *kernel = case_kernel(r, &s->descriptor);
  launch *l = launch_make(r, s, s->descriptor.kind != COMPUTE_KERNEL_FIT && hash(s->name) % 2);
  check_words(r, kernel);
  EXPECT(r, sample_memory_expect(&l->host), "the reference does not know this kernel");
  launch_run(l, kernel);
  launch_check(l, "");
  if (s->descriptor.kind == COMPUTE_KERNEL_FIT) {
    check_alone(l);
    launch_run(l, kernel);
  }
  check_again(l, kernel);
}

/* ---- Tunings ------------------------------------------------------------------------------- */

static void check_tuning(launch *l, const compute_tuning *tuning, const char *which) {
  run *r = l->r;
  void *kernel = NULL;
  const compute_status status =
      r->backend->kernel_prepare_tuned(r->device, &l->host.sample->descriptor, tuning, &kernel);
  if (status == COMPUTE_ERROR_UNSUPPORTED) {
    case_status(r, "kernel_prepare_tuned", status, COMPUTE_ERROR_UNSUPPORTED);
    return;
  }
  EXPECT_OK(r, status);
  launch_upload(l);
  const compute_status ran = r->backend->enqueue(l->queue, kernel, l->argument, l->host.count);
  const compute_status ended = r->backend->queue_wait(l->queue);
  r->backend->kernel_destroy(r->device, kernel);
  EXPECT_OK(r, ran);
  EXPECT_OK(r, ended);
  launch_download(l);
  launch_check(l, which);
}

/* Runs the kernel with the sample's tunings. */
static void check_tunings(run *r, const void *user) {
  const sample_kernel *s = user;
  char which[40];
  NEEDS(r, kernel_prepare_tuned);
  case_kernel(r, &s->descriptor); /* or refuse the case */
  launch *l = launch_make(r, s, false);
  EXPECT(r, sample_memory_expect(&l->host), "the reference does not know this kernel");
  for (uint32_t i = 0; i < s->tuning_count; i++) {
    snprintf(which, sizeof which, "tuning %u: ", i);
    check_tuning(l, &s->tuning[i], which);
  }
}

/* ---- Constant inputs ----------------------------------------------------------------------- */

/* With constant inputs 0 and 1, the kernel may ask for packed copies; the result is the same. */
static void check_packed(run *r, const void *user) {
  const sample_kernel *s = user;
  compute_argument packed[COMPUTE_MAX_OPERANDS];
  NEEDS(r, kernel_packed_bytes);
  compute_kernel_descriptor d = s->descriptor;
  d.constant_inputs = 3;
  void *kernel = case_kernel(r, &d);
  launch *l = launch_make(r, s, false);
  EXPECT(r, sample_memory_expect(&l->host), "the reference does not know this kernel");
  launch_upload(l);
  memcpy(packed, l->argument, sizeof packed);
  for (uint32_t i = 0; i < 2; i++) {
    uint64_t form = 0, again = 0;
    const uint64_t bytes = r->backend->kernel_packed_bytes(r->device, kernel, i, &form);
    if (bytes == 0) continue;
    EXPECT(r,
           r->backend->kernel_packed_bytes(r->device, kernel, i, &again) == bytes && again == form,
           "kernel_packed_bytes of input %u says something else the second time", i);
    packed[i] = (compute_argument){case_memory(r, bytes), 0};
    EXPECT_OK(r, r->backend->kernel_pack(l->queue, kernel, i, &packed[i], &l->argument[i]));
  }
  EXPECT_OK(r, r->backend->enqueue(l->queue, kernel, packed, l->host.count));
  launch_download(l);
  launch_check(l, "packed: ");
}

/* ---- Indices out of range ------------------------------------------------------------------ */

/* Checks that the module reported this place, or no particular one. */
static void check_place(run *r, int64_t place, int64_t wrong) {
  uint32_t label;
  int64_t index, offset;
  if (!services_index(&r->services, &label, &index, &offset)) return;
  EXPECT(r, offset == place, "the index outside is reported at element %lld, not %lld",
         (long long)offset, (long long)place);
  EXPECT(r, index == wrong, "the index outside is reported as %lld, not %lld", (long long)index,
         (long long)wrong);
  EXPECT(r, label == 77 || label == 0, "the index outside is reported for label %u, not 77", label);
}

/* One index is out of range: the launch or the wait fails once; the queue works afterwards. */
static void check_outside(run *r, const void *user) {
  const sample_kernel *s = user;
  void *kernel = case_kernel(r, &s->descriptor);
  launch *l = launch_make(r, s, false);
  sample_operand *indices = &l->host.operand[1];
  const size_t size = compute_dtype_size(indices->dtype);
  const int64_t wrong[2] = {s->index_limit, -s->index_limit - 1};
  for (int way = 0; way < 2; way++) {
    unsigned char saved[8], *at = indices->before + indices->offset;
    const int64_t place = indices->elements / 3;
    const int32_t narrow = (int32_t)wrong[way];
    memcpy(saved, at + (size_t)place * size, size);
    memcpy(at + (size_t)place * size, size == 4 ? (const void *)&narrow : &wrong[way], size);
    launch_upload(l);
    EXPECT_OK(r, r->backend->queue_wait(l->queue));
    services_forget(&r->services);
    if (r->backend->queue_label) r->backend->queue_label(l->queue, 77);
    const compute_status launched =
        r->backend->enqueue(l->queue, kernel, l->argument, l->host.count);
    const compute_status waited = r->backend->queue_wait(l->queue);
    const compute_status status = launched ? launched : waited;
    EXPECT(r, status, "index %lld of an axis of %lld was not noticed", (long long)wrong[way],
           (long long)s->index_limit);
    if (status == COMPUTE_ERROR_INDEX) check_place(r, place, wrong[way]);
    EXPECT_STATUS(r, status, COMPUTE_ERROR_INDEX);
    EXPECT(r, !waited || waited == status, "the wait after it: %s", compute_status_name(waited));
    EXPECT_OK(r, r->backend->queue_wait(l->queue));
    memcpy(at + (size_t)place * size, saved, size);
  }
  EXPECT(r, sample_memory_expect(&l->host), "the reference does not know this kernel");
  launch_run(l, kernel);
  launch_check(l, "after indices outside: ");
}

/* ---- List of cases ------------------------------------------------------------------------- */

typedef struct adding {
  case_visitor add;
  void *user;
} adding;

/* "conv 1x64 /2 f32" becomes "kernel/conv/1x64 :2 f32": '/' is for groups of cases. */
static void name_case(const char *group, const sample_kernel *s, char name[CASE_NAME]) {
  const size_t kind = strcspn(s->name, " ");
  const int used = snprintf(name, CASE_NAME, "%s/%.*s/", group, (int)kind, s->name);
  snprintf(name + used, CASE_NAME - (size_t)used, "%s", s->name + kind + 1);
  for (char *c = name + used; *c; c++)
    if (*c == '/') *c = ':';
}

static void add_sample(const sample_kernel *s, void *user) {
  const adding *a = user;
  char name[CASE_NAME];
  if (s->large) return;
  name_case("kernel", s, name);
  a->add(&(conformance_case){name, check_sample, s, false}, a->user);
  name_case("tuning", s, name);
  if (s->tuning_count > 0) a->add(&(conformance_case){name, check_tunings, s, false}, a->user);
  name_case("packed", s, name);
  if (s->descriptor.kind == COMPUTE_KERNEL_GEMM || s->descriptor.kind == COMPUTE_KERNEL_CONV)
    a->add(&(conformance_case){name, check_packed, s, false}, a->user);
  const bool single = s->index_limit > 1 && s->inputs[1].dtype == COMPUTE_I64;
  if (!single || s->inputs[0].dtype != COMPUTE_F32 || s->outputs[0].dtype != COMPUTE_F32) return;
  if (s->descriptor.rank == 1 && s->descriptor.size[0] < 3) return;
  if (s->descriptor.size[0] == 0) return;
  snprintf(name, sizeof name, "index outside/%s", s->name);
  a->add(&(conformance_case){name, check_outside, s, false}, a->user);
}

void kernel_cases(case_visitor add, void *user, bool compiles) {
  adding a = {add, user};
  sample_kernels_visit_all(add_sample, &a);
  if (!compiles) sample_fits_in_full(add_sample, &a);
}
