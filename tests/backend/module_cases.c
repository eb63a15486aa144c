/* SPDX-License-Identifier: MIT */
/* A module's description of itself and of its devices; two instances at once. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "backend/subject.h"

/* ---- The vtable ---------------------------------------------------------------------------- */

static void all_or_none(run *r, const char *names, size_t count, const bool *there) {
  for (size_t i = 1; i < count; i++)
    EXPECT(r, there[i] == there[0], "of %s the module offers some and others not", names);
}

#define TOGETHER(r, names, ...)                                                                    \
  all_or_none(r, names, sizeof((const bool[]){__VA_ARGS__}) / sizeof(bool),                        \
              (const bool[]){__VA_ARGS__})

static void the_vtable_is_complete(run *r, const void *user) {
  const compute_backend *b = r->backend;
  (void)user;
  EXPECT(r, b->abi_major == COMPUTE_BACKEND_ABI_MAJOR, "ABI %u instead of %u", b->abi_major,
         (unsigned)COMPUTE_BACKEND_ABI_MAJOR);
  EXPECT(r, b->name && b->name[0], "the module has no name");
  EXPECT(r, b->description && b->description[0], "the module has no description");
  EXPECT(r, b->version && b->version[0], "the module has no version");
  const bool required = b->open && b->close && b->device_count && b->device_open &&
                        b->device_close && b->device_describe && b->memory_allocate &&
                        b->memory_release && b->queue_create && b->queue_destroy && b->queue_wait &&
                        b->upload && b->download && b->copy && b->supports && b->kernel_prepare &&
                        b->kernel_destroy && b->enqueue;
  EXPECT(r, required, "a slot that is not optional is NULL");
  TOGETHER(r, "the five slots of events", b->event_record, b->event_destroy, b->event_wait,
           b->event_query, b->queue_wait_event);
  TOGETHER(r, "custom_build, _destroy and _launch", b->custom_build, b->custom_destroy,
           b->custom_launch);
  TOGETHER(r, "the four slots of recordings", b->record_begin, b->record_end, b->record_submit,
           b->record_destroy);
  TOGETHER(r, "the three slots of timers", b->timer_record, b->timer_read, b->timer_destroy);
  TOGETHER(r, "host_allocate and host_release", b->host_allocate, b->host_release);
  TOGETHER(r, "host_register and host_unregister", b->host_register, b->host_unregister);
  const uint64_t known = COMPUTE_BACKEND_ENVIRONMENT_SAFE | COMPUTE_BACKEND_PORTABLE_KERNELS |
                         COMPUTE_BACKEND_CHANNELS_LAST | COMPUTE_BACKEND_STAGES_COPIES;
  EXPECT(r, !(b->flags & ~known), "flags 0x%llx has unknown bits", (unsigned long long)b->flags);
}

static void the_device_is_described(run *r, const void *user) {
  compute_device_info first = {0}, second = {0};
  (void)user;
  EXPECT_OK(r, r->backend->device_describe(r->device, &first));
  EXPECT_OK(r, r->backend->device_describe(r->device, &second));
  EXPECT(r, first.model[0] && memchr(first.model, '\0', sizeof first.model),
         "the device has no model");
  EXPECT(r, !strcmp(first.model, second.model) && first.type == second.type,
         "two descriptions differ");
  EXPECT(r, first.memory_total > 0, "memory_total is 0");
  EXPECT(r, first.memory_free <= first.memory_total, "more memory is free than there is");
  EXPECT(r, first.memory_max_allocation > 0, "memory_max_allocation is 0");
}

static void the_target_can_be_generated_for(run *r, const void *user) {
  compute_target target = {.struct_size = sizeof target};
  (void)user;
  NEEDS(r, device_target);
  EXPECT_OK(r, r->backend->device_target(r->device, &target));
  EXPECT(r, target.dialect >= COMPUTE_DIALECT_OPENCL && target.dialect <= COMPUTE_DIALECT_C,
         "dialect %d", (int)target.dialect);
  EXPECT(r, !strcmp(target.backend, r->backend->name), "the target's backend is '%s'",
         target.backend);
  EXPECT(r, target.lanes >= 1 && target.compute_units >= 1, "no lanes or no compute units");
  EXPECT(r,
         target.group_limit >= 1 && target.group_limit_of[0] >= 1 &&
             target.group_limit_of[1] >= 1 && target.group_limit_of[2] >= 1,
         "a group has no items");
}

/* A caller with an older, shorter struct. */
static void the_target_keeps_to_the_callers_size(run *r, const void *user) {
  enum { GUARD = 0x5a };
  const size_t sizes[] = {offsetof(compute_target, launch_local_bytes),
                          offsetof(compute_target, compute_units)};
  (void)user;
  NEEDS(r, device_target);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    compute_target target;
    const unsigned char *bytes = (const unsigned char *)&target;
    memset(&target, GUARD, sizeof target);
    target.struct_size = sizes[i];
    EXPECT_OK(r, r->backend->device_target(r->device, &target));
    EXPECT(r, target.struct_size == sizes[i], "of %zu bytes, %zu are said to be there", sizes[i],
           target.struct_size);
    EXPECT(r, !strcmp(target.backend, r->backend->name), "the target's backend is '%s'",
           target.backend);
    for (size_t at = sizes[i]; at < sizeof target; at++)
      EXPECT(r, bytes[at] == GUARD, "byte %zu was written past a struct of %zu", at, sizes[i]);
  }
}

static void waiting_is_answered(run *r, const void *user) {
  (void)user;
  NEEDS(r, can_wait);
  const bool first = r->backend->can_wait(&r->services.services);
  EXPECT(r, first == r->backend->can_wait(&r->services.services), "two answers differ");
}

static void statistics_add_up(run *r, const void *user) {
  compute_build_statistics before = {0}, after = {0};
  (void)user;
  NEEDS(r, build_statistics);
  r->backend->build_statistics(r->device, &before);
  case_affine(r);
  r->backend->build_statistics(r->device, &after);
  const uint64_t first = before.programs_compiled + before.programs_from_disk +
                         before.programs_from_driver + before.programs_shared;
  const uint64_t second = after.programs_compiled + after.programs_from_disk +
                          after.programs_from_driver + after.programs_shared;
  EXPECT(r, second > first, "a kernel was prepared, and no program was built or found again");
  EXPECT(r, after.programs_failed == before.programs_failed, "a program failed unnoticed");
  r->backend->build_statistics(r->device, &after);
  EXPECT(r,
         after.programs_compiled + after.programs_from_disk + after.programs_from_driver +
                 after.programs_shared >=
             2 * second,
         "build_statistics does not add to what it is given");
}

static void implementations_have_names(run *r, const void *user) {
  enum { MOST = 1000 };
  static const compute_operand operand = {.dtype = COMPUTE_F32, .stride = {8, 1}};
  const compute_operand in[2] = {operand, operand};
  const compute_kernel_descriptor d = {.struct_size = sizeof d,
                                       .kind = COMPUTE_KERNEL_COPY,
                                       .rank = 2,
                                       .size = {8, 8},
                                       .input_count = 1,
                                       .output_count = 1,
                                       .inputs = in,
                                       .outputs = &operand};
  uint32_t index = 1;
  const char *name;
  (void)user;
  NEEDS(r, implementation_name);
  for (; (name = r->backend->implementation_name(r->device, &d, index)) && index < MOST; index++)
    EXPECT(r, name[0], "implementation %u has an empty name", index);
  EXPECT(r, index < MOST, "the list of implementations does not end");
}

static void an_unknown_kind_is_refused(run *r, const void *user) {
  static const compute_operand operand = {.dtype = COMPUTE_F32, .stride = {1}};
  const compute_kernel_descriptor d = {.struct_size = sizeof d,
                                       .kind = (compute_kernel_kind)1000,
                                       .rank = 1,
                                       .size = {8},
                                       .input_count = 1,
                                       .output_count = 1,
                                       .inputs = &operand,
                                       .outputs = &operand};
  char reason[CASE_WORDS] = "";
  void *kernel = NULL;
  (void)user;
  EXPECT(r, !r->backend->supports(r->device, &d, reason, sizeof reason),
         "supports accepts kind 1000");
  EXPECT(r, reason[0], "supports refuses kind 1000 without a reason");
  EXPECT_STATUS(r, r->backend->kernel_prepare(r->device, &d, &kernel), COMPUTE_ERROR_UNSUPPORTED);
}

/* A reason that does not fit is truncated. */
static void a_reason_keeps_to_its_room(run *r, const void *user) {
  static const compute_operand operand = {.dtype = COMPUTE_F32, .stride = {1}};
  const compute_kernel_descriptor d = {.struct_size = sizeof d,
                                       .kind = (compute_kernel_kind)1000,
                                       .rank = 1,
                                       .size = {8},
                                       .input_count = 1,
                                       .output_count = 1,
                                       .inputs = &operand,
                                       .outputs = &operand};
  char room[64];
  (void)user;
  memset(room, 'x', sizeof room);
  EXPECT(r, !r->backend->supports(r->device, &d, room, 8), "supports accepts kind 1000");
  EXPECT(r, memchr(room, '\0', 8), "the reason does not end within its 8 bytes");
  for (size_t i = 8; i < sizeof room; i++)
    EXPECT(r, room[i] == 'x', "the reason was written past its 8 bytes");
}

/* ---- Opening ------------------------------------------------------------------------------- */

static void check_job(run *r, run *other, const char *which) {
  char words[SERVICES_WORDS];
  bool right = false;
  const compute_status s = subject_job(other, &right);
  services_said(&other->services, words);
  EXPECT(r, !s, "%s: %s: %s", which, compute_status_name(s), words);
  EXPECT(r, right, "%s: wrong numbers", which);
}

static void check_open(run *r, run *other, const char *which) {
  char words[SERVICES_WORDS];
  const compute_status s = subject_open(other);
  services_said(&other->services, words);
  EXPECT(r, !s, "%s does not open: %s: %s", which, compute_status_name(s), words);
}

static void nothing_is_left_at_the_end(run *r, const void *user) {
  static run own;
  (void)user;
  for (int i = 0; i < 2; i++) {
    subject_prepare(&own, r->subject);
    check_open(r, &own, i ? "the second instance" : "the first instance");
    check_job(r, &own, i ? "the second instance" : "the first instance");
    subject_close(&own);
    EXPECT(r, own.services.live == 0, "%lld blocks of services->allocate were not released",
           (long long)own.services.live);
  }
}

static void two_instances_live_side_by_side(run *r, const void *user) {
  static run first, second;
  (void)user;
  subject_prepare(&first, r->subject);
  subject_prepare(&second, r->subject);
  check_open(r, &first, "the first instance");
  check_open(r, &second, "a second instance");
  check_job(r, &first, "the first instance");
  check_job(r, &second, "the second instance");
  subject_close(&first);
  check_job(r, &second, "after the first was closed, the second");
  subject_close(&second);
}

/* A core of ABI minor 0 has only the slots before `generate`: the module works with these, or
 * refuses with a reason. */
static void an_older_core_is_served_or_told_so(run *r, const void *user) {
  static run own;
  char words[SERVICES_WORDS];
  (void)user;
  subject_prepare(&own, r->subject);
  const size_t bytes = offsetof(compute_services, generate);
  memset((char *)&own.services.services + bytes, 0, sizeof own.services.services - bytes);
  own.services.services.struct_size = bytes;
  own.services.services.abi_minor = 0;
  const compute_status status = subject_open(&own);
  if (status) {
    EXPECT(r, services_said(&own.services, words) == status && words[0],
           "refuses an older core without words");
    case_refuse(r, "%s", words);
  }
  bool right = false;
  const compute_status worked = subject_job(&own, &right);
  services_said(&own.services, words);
  subject_close(&own);
  EXPECT(r, !worked, "%s: %s", compute_status_name(worked), words);
  EXPECT(r, right, "wrong numbers");
}

void module_cases(case_visitor add, void *user) {
  static const conformance_case cases[] = {
      {"module/vtable", the_vtable_is_complete, NULL, false},
      {"module/describe", the_device_is_described, NULL, false},
      {"module/target", the_target_can_be_generated_for, NULL, false},
      {"module/target_size", the_target_keeps_to_the_callers_size, NULL, false},
      {"module/can_wait", waiting_is_answered, NULL, false},
      {"module/build_statistics", statistics_add_up, NULL, false},
      {"module/implementation_name", implementations_have_names, NULL, false},
      {"module/unknown kind", an_unknown_kind_is_refused, NULL, false},
      {"module/length of a reason", a_reason_keeps_to_its_room, NULL, false},
      {"module/nothing is left", nothing_is_left_at_the_end, NULL, true},
      {"module/two instances", two_instances_live_side_by_side, NULL, true},
      {"module/an older core", an_older_core_is_served_or_told_so, NULL, true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) add(&cases[i], user);
}
