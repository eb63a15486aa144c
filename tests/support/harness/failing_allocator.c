/* SPDX-License-Identifier: MIT */
#include "support/harness/failing_allocator.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "support/harness/test.h"
#include "core/platform/aligned.h"

static atomic_int_fast64_t live, requests, failures, failing_from, failing_to;

static void *failing_allocate(void *user, size_t bytes, size_t alignment) {
  (void)user;
  const int64_t number = atomic_fetch_add(&requests, 1) + 1;
  if (number >= atomic_load(&failing_from) && number <= atomic_load(&failing_to)) {
    atomic_fetch_add(&failures, 1);
    return NULL;
  }
  void *pointer = aligned_take(alignment, (bytes / alignment + 1) * alignment);
  if (!pointer) return NULL;
  atomic_fetch_add(&live, 1);
  return pointer;
}

static void failing_release(void *user, void *pointer) {
  (void)user;
  if (!pointer) return;
  atomic_fetch_sub(&live, 1);
  aligned_give(pointer);
}

void failing_allocator_install(void) {
  static const compute_allocator allocator = {failing_allocate, failing_release, NULL};
  atomic_store(&live, 0);
  failing_allocator_arm(0, false);
  assert_ok(compute_allocator_set(&allocator));
}

int64_t failing_allocator_remove(void) {
  failing_allocator_arm(0, false);
  assert_ok(compute_allocator_set(NULL));
  return atomic_load(&live);
}

void failing_allocator_arm(int64_t nth, bool onward) {
  atomic_store(&requests, 0);
  atomic_store(&failures, 0);
  atomic_store(&failing_from, nth > 0 ? nth : INT64_MAX);
  atomic_store(&failing_to, onward || nth <= 0 ? INT64_MAX : nth);
}

int64_t failing_allocator_requests(void) {
  return atomic_load(&requests);
}
int64_t failing_allocator_failures(void) {
  return atomic_load(&failures);
}
int64_t failing_allocator_live(void) {
  return atomic_load(&live);
}
