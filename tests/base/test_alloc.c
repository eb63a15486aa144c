/* SPDX-License-Identifier: MIT */
/* Host memory, growing arrays and texts, hashes. */
#include "support/harness/test.h"

#include <stdbool.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/hash.h"
#include "core/base/text.h"
#include "support/harness/failing_allocator.h"

static bool all_zero(const void *data, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    if (((const unsigned char *)data)[i] != 0) return false;
  }
  return true;
}

static void memory_is_zeroed_and_products_are_checked(void **state) {
  (void)state;
  unsigned char *block = base_allocate(100, 10);
  assert_non_null(block);
  assert_true(all_zero(block, 1000));
  base_release(block);
  void *nothing = base_allocate(0, 8);
  assert_non_null(nothing);
  base_release(nothing);
  base_release(NULL);
  assert_null(base_allocate(SIZE_MAX / 2, 3));
  assert_null(base_allocate_aligned(SIZE_MAX - 3, 64));
}

static void alignment_is_honoured(void **state) {
  (void)state;
  for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
    void *block = base_allocate_aligned(alignment + 1, alignment);
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % alignment, 0);
    base_release(block);
  }
}

static void an_array_grows_and_keeps_its_content(void **state) {
  (void)state;
  void *array = NULL;
  size_t capacity = 0;
  for (size_t i = 0; i < 1000; i++) {
    assert_int_equal(base_grow(&array, &capacity, i + 1, sizeof(uint32_t)), 0);
    assert_true(capacity > i);
    assert_true(all_zero((uint32_t *)array + i, (capacity - i) * sizeof(uint32_t)));
    ((uint32_t *)array)[i] = (uint32_t)i;
  }
  for (uint32_t i = 0; i < 1000; i++) assert_int_equal(((uint32_t *)array)[i], i);
  void *before = array;
  const size_t capacity_before = capacity;
  assert_int_equal(base_grow(&array, &capacity, SIZE_MAX / 2, sizeof(uint32_t)), -1);
  assert_ptr_equal(array, before);
  assert_int_equal(capacity, capacity_before);
  base_release(array);
}

static void the_allocator_can_be_replaced_while_no_context_is_open(void **state) {
  (void)state;
  const compute_allocator half = {0};
  assert_fails(compute_allocator_set(&half), COMPUTE_ERROR_NULL_POINTER);
  failing_allocator_install();
  void *block = base_allocate(3, 5);
  assert_true(all_zero(block, 15));
  assert_int_equal(failing_allocator_live(), 1);
  base_release(block);
  base_context_opened();
  assert_fails(compute_allocator_set(NULL), COMPUTE_ERROR_INVALID_STATE);
  test_check_message(NULL, "1 context");
  base_context_closed();
  assert_int_equal(failing_allocator_remove(), 0);
}

static void text_grows_and_can_be_handed_over(void **state) {
  (void)state;
  text_buffer text = {0};
  for (int i = 0; i < 500; i++) text_add(&text, "%d,", i);
  assert_false(text.failed);
  assert_int_equal(text.length, strlen(text.data));
  assert_int_equal(strncmp(text.data, "0,1,2,3,", 8), 0);
  compute_text_free(text.data);
  compute_text_free(NULL);
}

static void text_without_memory_keeps_what_fitted(void **state) {
  (void)state;
  failing_allocator_install();
  text_buffer text = {0};
  text_add(&text, "abc");
  failing_allocator_arm(1, true);
  text_add(&text, "%200s", "x");
  assert_true(text.failed);
  text_add(&text, "d");
  assert_string_equal(text.data, "abc");
  text_release(&text);
  assert_null(text.data);
  assert_int_equal(failing_allocator_remove(), 0);
}

static void hashes_tell_bytes_lengths_and_seeds_apart(void **state) {
  (void)state;
  unsigned char data[64] = {0};
  uint64_t seen[65 + 64 * 8];
  size_t count = 0;
  for (size_t length = 0; length <= 64; length++) {
    seen[count++] = hash_bytes(HASH_SEED, data, length);
  }
  for (size_t bit = 0; bit < 64 * 8; bit++) {
    data[bit / 8] ^= (unsigned char)(1u << bit % 8);
    seen[count++] = hash_bytes(HASH_SEED, data, sizeof data);
    data[bit / 8] = 0;
  }
  for (size_t i = 0; i < count; i++) {
    for (size_t j = 0; j < i; j++) assert_true(seen[i] != seen[j]);
  }
  assert_true(hash_bytes(1, data, 8) != hash_bytes(2, data, 8));
  assert_true(hash_bytes(1, data + 1, 8) == hash_bytes(1, data, 8));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory_is_zeroed_and_products_are_checked),
      cmocka_unit_test(alignment_is_honoured),
      cmocka_unit_test(an_array_grows_and_keeps_its_content),
      cmocka_unit_test(the_allocator_can_be_replaced_while_no_context_is_open),
      cmocka_unit_test(text_grows_and_can_be_handed_over),
      cmocka_unit_test(text_without_memory_keeps_what_fitted),
      cmocka_unit_test(hashes_tell_bytes_lengths_and_seeds_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
