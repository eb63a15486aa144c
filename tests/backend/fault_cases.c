/* SPDX-License-Identifier: MIT */
/* Failures of the module's memory (through the services) and of its driver (through hooks). After
 * each failure the module must have reported an error with a message, have left nothing behind, and
 * work again. */
#include <stdio.h>
#include <string.h>

#include "backend/subject.h"

enum { FIRST_FAILURES = 6, GROWTH_PERCENT = 40, MOST_FAILURES = 100000 };

/* The first failures of each kind, then ever fewer. */
static int64_t next_failure(int64_t nth) {
  return nth < FIRST_FAILURES ? nth + 1 : nth + 1 + nth * GROWTH_PERCENT / 100;
}

/* The failing function. */
typedef struct fault {
  bool memory; /* services->allocate; else the driver's `call` */
  const char *call;
  bool onward, lose;
} fault;

static const char *fault_text(const fault *f, int64_t nth, char *text, size_t bytes) {
  snprintf(text, bytes, "%s number %lld%s %s",
           f->memory ? "request for memory"
           : f->call ? f->call
                     : "call",
           (long long)nth, f->onward ? " and all after it" : "",
           f->lose ? "losing the device" : "failing");
  return text;
}

/* ---- One failure ----------------------------------------------------------------------------- */

static bool arm(const run *own, const fault *f, int64_t nth) {
  const conformance_hooks *hooks = own->subject->hooks;
  if (!f->memory) return hooks->arm(f->call, nth, f->onward, f->lose);
  services_arm((watched_services *)&own->services, nth, f->onward);
  return true;
}

static void disarm(run *own) {
  const conformance_hooks *hooks = own->subject->hooks;
  services_arm(&own->services, 0, false);
  if (hooks) hooks->arm(NULL, 0, false, false);
}

static int64_t failed_so_far(const run *own, const fault *f) {
  return f->memory ? own->services.failures : own->subject->hooks->failures();
}

static void expect_words(run *r, run *own, compute_status status, const char *when) {
  char words[SERVICES_WORDS];
  const compute_status said = services_said(&own->services, words);
  EXPECT(r, said == status && words[0], "%s: %s without words (services->fail had %s)", when,
         compute_status_name(status), compute_status_name(said));
  EXPECT(r, status > COMPUTE_OK, "%s: status %d", when, (int)status);
}

static void expect_nothing_left(run *r, const run *own, const char *when) {
  const conformance_hooks *hooks = own->subject->hooks;
  char text[300] = "";
  EXPECT(r, own->services.live == 0, "%s: %lld blocks of services->allocate are left", when,
         (long long)own->services.live);
  EXPECT(r, !hooks || hooks->live(text, sizeof text) == 0, "%s: left in the driver: %s", when,
         text);
  EXPECT(r, !hooks || !hooks->misuse || hooks->misuse(text, sizeof text) == 0, "%s: misuse: %s",
         when, text);
}

/* Checks the device after a failure. It works, or it is lost: then it reports this until
 * device_recover succeeds. If it cannot be recovered, a new instance works. */
static void expect_recovery(run *r, run *own, const char *when) {
  bool right = false;
  char words[SERVICES_WORDS];
  compute_status s = subject_job(own, &right);
  if (s == COMPUTE_ERROR_DEVICE_LOST) expect_words(r, own, s, when);
  if (s == COMPUTE_ERROR_DEVICE_LOST && own->backend->device_recover) {
    services_forget(&own->services);
    s = own->backend->device_recover(own->device);
    if (!s) s = subject_job(own, &right);
  }
  services_said(&own->services, words);
  if (s == COMPUTE_ERROR_DEVICE_LOST || s == COMPUTE_ERROR_UNSUPPORTED) return;
  if (s == COMPUTE_ERROR_COMPILATION) return; /* the compiler caches its failures */
  EXPECT(r, !s, "%s: the device is useless afterwards: %s: %s", when, compute_status_name(s),
         words);
  EXPECT(r, right, "%s: wrong numbers afterwards", when);
}

/* The instance whose calls fail. It is static because a case that fails leaves it open. */
static run failing;

/* Returns the number of failed calls; −1: this cannot fail. */
static int64_t fail_once(run *r, const fault *f, int64_t nth) {
  char when[160];
  bool right = false;
  fault_text(f, nth, when, sizeof when);
  subject_prepare(&failing, r->subject);
  if (!arm(&failing, f, nth)) return -1;
  compute_status s = subject_open(&failing);
  const bool opened = !s;
  if (opened) s = subject_job(&failing, &right);
  const int64_t failures = failed_so_far(&failing, f);
  disarm(&failing);
  if (s) expect_words(r, &failing, s, when);
  EXPECT(r, !s || failures > 0, "%s: %s although nothing failed", when, compute_status_name(s));
  EXPECT(r, s || right, "%s: wrong numbers", when);
  services_forget(&failing.services);
  if (opened) expect_recovery(r, &failing, when);
  subject_close(&failing);
  expect_nothing_left(r, &failing, when);
  return failures;
}

static void expect_a_new_one_works(run *r, const char *when) {
  static run own;
  char words[SERVICES_WORDS];
  bool right = false;
  subject_prepare(&own, r->subject);
  compute_status s = subject_open(&own);
  if (!s) s = subject_job(&own, &right);
  services_said(&own.services, words);
  subject_close(&own);
  EXPECT(r, !s && right, "%s, a new instance does not work: %s: %s", when, compute_status_name(s),
         words);
  expect_nothing_left(r, &own, "a new instance");
}

/* Fails the first call, the second, … until no call is left to fail. */
static void sweep(run *r, const void *user) {
  const fault *f = user;
  int64_t nth = 1, failed;
  subject_close(&failing);
  expect_a_new_one_works(r, "before any failure"); /* also fills the caches */
  while ((failed = fail_once(r, f, nth)) > 0 && nth < MOST_FAILURES) nth = next_failure(nth);
  EXPECT(r, nth > 1 || f->call || f->memory, "the hooks made no call of the driver fail");
  if (failed < 0) snprintf(r->words, sizeof r->words, "the hooks cannot make it fail like that");
  if (failed >= 0 && nth == 1) snprintf(r->words, sizeof r->words, "the module does not call it");
  expect_a_new_one_works(r, "after all failures");
}

/* ---- The cases ----------------------------------------------------------------------------- */

static void no_hooks(run *r, const void *user) {
  (void)user;
  case_refuse(r, "no hooks: --hooks names a library that makes the driver fail");
}

/* The device is lost during work and recovered. Earlier objects stay lost and can be released; new
 * objects work. */
static void a_lost_device_is_brought_back(run *r, const void *user) {
  static run own;
  char words[SERVICES_WORDS];
  bool right = false;
  (void)user;
  const conformance_hooks *hooks = r->subject->hooks;
  NEEDS(r, device_recover);
  subject_prepare(&own, r->subject);
  compute_status s = subject_open(&own);
  EXPECT(r, !s, "the device does not open");
  compute_memory memory = {0};
  void *queue = NULL;
  s = own.backend->queue_create(own.device, &queue);
  if (!s) s = own.backend->memory_allocate(own.device, 1 << 16, &memory);
  bool lost = false;
  for (int64_t nth = 1; nth < 40 && !s && !lost; nth++) {
    if (!hooks->arm(NULL, nth, false, true)) break;
    lost = subject_job(&own, &right) == COMPUTE_ERROR_DEVICE_LOST;
    hooks->arm(NULL, 0, false, false);
  }
  const compute_status recovered = lost ? own.backend->device_recover(own.device) : COMPUTE_OK;
  services_said(&own.services, words);
  services_forget(&own.services);
  const compute_status worked = !s && lost && !recovered ? subject_job(&own, &right) : COMPUTE_OK;
  const compute_argument at = {&memory, 0};
  const compute_status old =
      lost && !recovered && queue ? own.backend->copy(queue, &at, &at, 16) : COMPUTE_OK;
  if (memory.bytes) own.backend->memory_release(own.device, &memory);
  if (queue) own.backend->queue_destroy(queue);
  subject_close(&own);
  EXPECT(r, !s, "queue or memory: %s", compute_status_name(s));
  if (!lost) case_refuse(r, "the hooks do not lose this device");
  if (recovered == COMPUTE_ERROR_UNSUPPORTED) case_refuse(r, "%s", words);
  EXPECT(r, !recovered, "device_recover: %s: %s", compute_status_name(recovered), words);
  EXPECT(r, !worked && right, "a recovered device does not work: %s", compute_status_name(worked));
  EXPECT(r, old == COMPUTE_ERROR_DEVICE_LOST, "a queue made before the loss gives %s, not %s",
         compute_status_name(old), compute_status_name(COMPUTE_ERROR_DEVICE_LOST));
  expect_nothing_left(r, &own, "after a loss");
}

static void add_calls(const conformance_hooks *hooks, case_visitor add, void *user) {
  const char *call;
  int64_t count;
  for (uint32_t i = 0; (call = hooks->call_at(i, &count)); i++)
    for (int lose = 0; lose < 2; lose++) {
      char name[CASE_NAME];
      const fault f = {.call = call, .lose = lose == 1};
      snprintf(name, sizeof name, "fault/%s/%s", lose ? "lost in" : "fails", call);
      add(&(conformance_case){name, sweep, &f, true}, user);
    }
}

void fault_cases(case_visitor add, void *user, const conformance_hooks *hooks) {
  static const fault once = {.memory = true}, gone = {.memory = true, .onward = true};
  static const fault dead = {.onward = true}, lost = {.onward = true, .lose = true};
  add(&(conformance_case){"fault/memory", sweep, &once, true}, user);
  add(&(conformance_case){"fault/memory is gone", sweep, &gone, true}, user);
  if (!hooks) {
    add(&(conformance_case){"fault/driver", no_hooks, NULL, true}, user);
    return;
  }
  add(&(conformance_case){"fault/recover", a_lost_device_is_brought_back, NULL, true}, user);
  add(&(conformance_case){"fault/driver stops working", sweep, &dead, true}, user);
  add(&(conformance_case){"fault/driver is lost", sweep, &lost, true}, user);
  add_calls(hooks, add, user);
}
