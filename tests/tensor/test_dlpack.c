/* SPDX-License-Identifier: MIT */
/* Exchange with other libraries through DLPack, on every device. The test represents the other
 * library and uses only DLPack's structs. */
#include "support/harness/test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/device.h"
#include "core/tensor/tensor.h"
#include "core/tensor/dlpack.h"

/* The layout is the same for all libraries. */
#define AT(type, field, offset)                                                                    \
  _Static_assert(offsetof(type, field) == (offset), #type "." #field " is at another place")
AT(dlpack_tensor, device_type, 8);
AT(dlpack_tensor, rank, 16);
AT(dlpack_tensor, type, 20);
AT(dlpack_tensor, size, 24);
AT(dlpack_tensor, stride, 32);
AT(dlpack_tensor, byte_offset, 40);
AT(struct DLManagedTensor, owner, 48);
AT(struct DLManagedTensor, deleter, 56);
AT(struct DLManagedTensorVersioned, owner, 8);
AT(struct DLManagedTensorVersioned, deleter, 16);
AT(struct DLManagedTensorVersioned, flags, 24);
AT(struct DLManagedTensorVersioned, tensor, 32);
_Static_assert(sizeof(struct DLManagedTensorVersioned) == 80, "another size");

static void on_every_device(void (*check)(compute_device *device)) {
  compute_device *device;
  for (size_t i = 0; (device = compute_device_at(test_context, i)); i++) check(device);
}

static compute_device *the_cpu(void) {
  compute_device *device = NULL;
  assert_ok(compute_device_by_name(test_context, "cpu", &device));
  return device;
}

static bool shares(const compute_device *device) {
  int32_t type, id;
  return compute_device_dlpack(device, &type, &id) == COMPUTE_OK;
}

static int64_t live(void) {
  return context_objects_of(test_context, &tensor_object);
}

/* ---- Round trips --------------------------------------------------------------------------- */

static compute_tensor *numbers(compute_device *device) {
  compute_tensor *t = NULL;
  float values[24];
  for (int i = 0; i < 24; i++) values[i] = (float)i;
  assert_ok(compute_tensor_from_host(device, COMPUTE_F32, COMPUTE_SHAPE(2, 3, 4), values, &t));
  return t;
}

static void check_round_trip(compute_device *device) {
  struct DLManagedTensorVersioned *managed = NULL;
  compute_tensor *t = numbers(device), *column = NULL, *back = NULL;
  const int64_t before = live();
  assert_ok(compute_tensor_slice_view(t, 2, 1, 2, 2, &column)); /* strides 12, 4, 2; offset 1 */
  compute_tensor_release(t);
  if (!shares(device)) {
    assert_fails(compute_tensor_to_dlpack_versioned(column, NULL, &managed),
                 COMPUTE_ERROR_UNSUPPORTED);
    assert_null(managed);
    compute_tensor_release(column);
    return;
  }
  assert_ok(compute_tensor_to_dlpack_versioned(column, NULL, &managed));
  compute_tensor_release(column); /* the export keeps the memory alive */
  assert_int_equal(managed->major, 1);
  assert_int_equal(managed->flags, 0);
  assert_int_equal(managed->tensor.rank, 3);
  assert_int_equal(managed->tensor.size[2], 2);
  assert_int_equal(managed->tensor.stride[0], 12);
  assert_int_equal(managed->tensor.stride[2], 2);
  assert_ok(compute_tensor_from_dlpack_versioned(test_context, managed, &back));
  assert_ptr_equal(compute_tensor_device(back), device);
  assert_int_equal(live(), before + 1);
  assert_float_equal(test_element(back, 0), 1, 0);
  assert_float_equal(test_element(back, 11), 23, 0);
  const float written[12] = {-1};
  assert_ok(compute_tensor_write(back, written, sizeof written));
  assert_float_equal(test_element(back, 0), -1, 0);
  compute_tensor_release(back);
  assert_int_equal(live(), before - 1);
}

static void a_view_goes_there_and_back_without_a_copy(void **state) {
  (void)state;
  on_every_device(check_round_trip);
}

/* Each side reads the values that the other one writes. */
static void memory_is_one_on_the_cpu(void **state) {
  (void)state;
  struct DLManagedTensor *managed = NULL;
  compute_tensor *t = numbers(the_cpu()), *back = NULL;
  float *data = compute_tensor_data(t);
  assert_ok(compute_tensor_to_dlpack(t, NULL, &managed));
  assert_int_equal(managed->tensor.device_type, 1);
  assert_int_equal(managed->tensor.device_id, 0);
  assert_ptr_equal((char *)managed->tensor.data + managed->tensor.byte_offset, data);
  assert_ok(compute_tensor_from_dlpack(test_context, managed, &back));
  assert_ptr_equal(compute_tensor_data(back), data);
  data[5] = 50;
  assert_float_equal(test_element(back, 5), 50, 0);
  compute_tensor_release(t);
  assert_float_equal(test_element(back, 6), 6, 0);
  compute_tensor_release(back);
}

static void check_kinds(compute_device *device) {
  if (!shares(device)) return;
  for (int32_t dtype = 1; dtype < COMPUTE_DTYPE_COUNT; dtype++) {
    struct DLManagedTensor *managed = NULL;
    compute_tensor *t = NULL, *back = NULL;
    const uint64_t one = 1;
    uint64_t read = 0;
    assert_ok(compute_tensor_from_host(device, (compute_dtype)dtype, COMPUTE_SCALAR, &one, &t));
    assert_ok(compute_tensor_to_dlpack(t, NULL, &managed));
    assert_int_equal(managed->tensor.rank, 0);
    assert_int_equal(managed->tensor.type.bits, 8 * compute_dtype_size((compute_dtype)dtype));
    assert_ok(compute_tensor_from_dlpack(test_context, managed, &back));
    assert_int_equal(compute_tensor_dtype(back), dtype);
    assert_ok(compute_tensor_read(back, &read, compute_dtype_size((compute_dtype)dtype)));
    assert_true(read == one);
    compute_tensor_release(back);
    compute_tensor_release(t);
    assert_ok(compute_tensor_create(device, (compute_dtype)dtype, COMPUTE_SHAPE(3, 0), &t));
    assert_ok(compute_tensor_to_dlpack(t, NULL, &managed));
    compute_tensor_release(t);
    assert_ok(compute_tensor_from_dlpack(test_context, managed, &back));
    assert_true(compute_shape_equal(compute_tensor_shape(back), COMPUTE_SHAPE(3, 0)));
    compute_tensor_release(back);
  }
}

static void every_dtype_scalars_and_empty_tensors_go_there_and_back(void **state) {
  (void)state;
  on_every_device(check_kinds);
}

/* ---- Permission to write ------------------------------------------------------------------- */

static void check_read_only(compute_device *device) {
  if (!shares(device)) return;
  struct DLManagedTensor *plain = NULL;
  struct DLManagedTensorVersioned *managed = NULL;
  compute_tensor *row = NULL, *wide = NULL, *back = NULL;
  const float values[3] = {1, 2, 3}, other[6] = {0};
  assert_ok(compute_tensor_from_host(device, COMPUTE_F32, COMPUTE_SHAPE(3), values, &row));
  assert_ok(compute_tensor_broadcast_view(row, COMPUTE_SHAPE(2, 3), &wide));
  assert_fails(compute_tensor_to_dlpack(wide, NULL, &plain), COMPUTE_ERROR_INVALID_ARGUMENT);
  test_check_message(test_context, "read-only");
  assert_null(plain);
  assert_ok(compute_tensor_to_dlpack_versioned(wide, NULL, &managed));
  assert_int_equal(managed->flags, DLPACK_READ_ONLY);
  assert_ok(compute_tensor_from_dlpack_versioned(test_context, managed, &back));
  assert_float_equal(test_element(back, 4), 2, 0);
  assert_fails(compute_tensor_write(back, other, sizeof other), COMPUTE_ERROR_INVALID_ARGUMENT);
  compute_tensor_release(back);

  const compute_dlpack_options copy = {.copy = true};
  assert_ok(compute_tensor_to_dlpack_versioned(wide, &copy, &managed));
  assert_int_equal(managed->flags, DLPACK_COPIED);
  assert_ok(compute_tensor_from_dlpack_versioned(test_context, managed, &back));
  assert_true(compute_tensor_is_dense(back));
  assert_ok(compute_tensor_write(back, other, sizeof other));
  assert_float_equal(test_element(wide, 4), 2, 0);
  compute_tensor_release(back);
  assert_ok(compute_tensor_to_dlpack(wide, &copy, &plain));
  plain->deleter(plain);

  compute_tensor_freeze(row);
  assert_ok(compute_tensor_to_dlpack_versioned(row, NULL, &managed));
  assert_int_equal(managed->flags, DLPACK_READ_ONLY);
  managed->deleter(managed);
  compute_tensor_release(wide);
  compute_tensor_release(row);
}

static void read_only_tensors_say_so_and_copies_do_not(void **state) {
  (void)state;
  on_every_device(check_read_only);
}

/* ---- The other library ---------------------------------------------------------------------- */

/* The other library's tensor: a deleter that counts, and memory that it frees, so that late use is
 * detected. */
typedef struct other_tensor {
  struct DLManagedTensorVersioned managed;
  int64_t size[COMPUTE_MAX_RANK + 1], stride[COMPUTE_MAX_RANK + 1];
  int *deleted;
} other_tensor;

static void other_delete(struct DLManagedTensorVersioned *self) {
  other_tensor *other = self->owner;
  ++*other->deleted;
  free(self->tensor.data);
  free(other);
}

/* 4 × 3 of f64: 0, 1, 2, … */
static other_tensor *other_create(int *deleted) {
  other_tensor *other = calloc(1, sizeof *other);
  double *data = malloc(12 * sizeof *data);
  assert_non_null(other);
  assert_non_null(data);
  for (int i = 0; i < 12; i++) data[i] = i;
  other->deleted = deleted;
  other->size[0] = 4;
  other->size[1] = other->stride[0] = 3;
  other->stride[1] = 1;
  other->managed = (struct DLManagedTensorVersioned){
      .major = 1, .minor = 3, .owner = other, .deleter = other_delete};
  other->managed.tensor = (dlpack_tensor){.data = data,
                                          .device_type = 1,
                                          .rank = 2,
                                          .type = {DLPACK_FLOAT, 64, 1},
                                          .size = other->size,
                                          .stride = other->stride};
  return other;
}

static void the_deleter_is_called_once_after_the_last_view(void **state) {
  (void)state;
  int deleted = 0;
  other_tensor *other = other_create(&deleted);
  compute_tensor *t = NULL, *view = NULL;
  other->managed.tensor.byte_offset = 3 * sizeof(double); /* from the second row on */
  other->size[0] = 3;
  assert_ok(compute_tensor_from_dlpack_versioned(test_context, &other->managed, &t));
  assert_float_equal(test_element(t, 0), 3, 0);
  assert_ok(compute_tensor_slice_view(t, 0, 2, 1, 1, &view));
  compute_tensor_release(t);
  assert_int_equal(deleted, 0);
  assert_float_equal(test_element(view, 2), 11, 0);
  compute_tensor_release(view);
  assert_int_equal(deleted, 1);
}

static void strides_that_mean_nothing_are_ignored(void **state) {
  (void)state;
  int deleted = 0;
  compute_tensor *t = NULL;
  other_tensor *other = other_create(&deleted);
  other->size[0] = 1;
  other->stride[0] = -77;
  assert_ok(compute_tensor_from_dlpack_versioned(test_context, &other->managed, &t));
  assert_float_equal(test_element(t, 2), 2, 0);
  compute_tensor_release(t);
  other = other_create(&deleted);
  other->size[0] = 0;
  other->stride[1] = -1;
  assert_ok(compute_tensor_from_dlpack_versioned(test_context, &other->managed, &t));
  compute_tensor_release(t);
  other = other_create(&deleted);
  other->managed.tensor.stride = NULL;
  assert_ok(compute_tensor_from_dlpack_versioned(test_context, &other->managed, &t));
  assert_float_equal(test_element(t, 11), 11, 0);
  compute_tensor_release(t);
  assert_int_equal(deleted, 3);
}

static void a_tensor_without_a_deleter_is_left_alone(void **state) {
  (void)state;
  double value = 2;
  compute_tensor *t = NULL;
  struct DLManagedTensor managed = {
      .tensor = {.data = &value, .device_type = 1, .type = {DLPACK_FLOAT, 64, 1}}};
  assert_ok(compute_tensor_from_dlpack(test_context, &managed, &t));
  assert_float_equal(test_element(t, 0), 2, 0);
  compute_tensor_release(t);
  assert_float_equal(value, 2, 0);
}

/* ---- Refusals ------------------------------------------------------------------------------- */

static void spoil(other_tensor *other, int way) {
  dlpack_tensor *t = &other->managed.tensor;
  static const dlpack_type int4 = {0, 4, 1}, complex64 = {5, 64, 1}, vectors = {2, 64, 2},
                           float4 = {17, 4, 1}, unknown = {99, 8, 1};
  switch (way) {
  case 0: other->managed.major = 2; break;
  case 1: t->type = int4; break;
  case 2: t->type = complex64; break;
  case 3: t->type = vectors; break;
  case 4: t->type = float4; break;
  case 5: t->type = unknown; break;
  case 6: t->device_type = 10; break;
  case 7: t->rank = 9; break;
  case 8: t->rank = -1; break;
  case 9: t->size = NULL; break;
  case 10: other->size[0] = -4; break;
  case 11: other->stride[1] = -1; break;
  case 12: t->byte_offset = 4; break;
  case 13: t->byte_offset = UINT64_MAX - 7; break;
  case 14: other->stride[0] = INT64_MAX / 2; break;
  case 15: other->size[0] = other->size[1] = INT64_MAX / 2; break;
  default: free(t->data); t->data = NULL;
  }
}

static void what_cannot_be_imported_stays_the_callers(void **state) {
  (void)state;
  static const struct {
    compute_status status;
    const char *words;
  } cases[] = {{COMPUTE_ERROR_UNSUPPORTED, "version 2.3"},
               {COMPUTE_ERROR_DTYPE, "int4"},
               {COMPUTE_ERROR_DTYPE, "complex64"},
               {COMPUTE_ERROR_DTYPE, "float64 in vectors of 2"},
               {COMPUTE_ERROR_DTYPE, "float4_e2m1fn"},
               {COMPUTE_ERROR_DTYPE, "unknown"},
               {COMPUTE_ERROR_NO_DEVICE, "ROCm"},
               {COMPUTE_ERROR_SHAPE, "9 dimensions"},
               {COMPUTE_ERROR_SHAPE, "-1 dimensions"},
               {COMPUTE_ERROR_NULL_POINTER, "shape is NULL"},
               {COMPUTE_ERROR_SHAPE, "[-4,3]"},
               {COMPUTE_ERROR_INVALID_ARGUMENT, "stride -1 of axis 1 is negative"},
               {COMPUTE_ERROR_INVALID_ARGUMENT, "not aligned to the 8 bytes of f64"},
               {COMPUTE_ERROR_OVERFLOW, "63 bits"},
               {COMPUTE_ERROR_OVERFLOW, "63 bits"},
               {COMPUTE_ERROR_OVERFLOW, ""},
               {COMPUTE_ERROR_NULL_POINTER, "data is NULL"}};
  const int64_t before = live();
  for (int way = 0; way < (int)(sizeof cases / sizeof *cases); way++) {
    int deleted = 0;
    compute_tensor *t = (compute_tensor *)test_context;
    other_tensor *other = other_create(&deleted);
    spoil(other, way);
    assert_fails(compute_tensor_from_dlpack_versioned(test_context, &other->managed, &t),
                 cases[way].status);
    test_check_message(test_context, cases[way].words);
    assert_null(t);
    assert_int_equal(deleted, 0);
    other_delete(&other->managed);
  }
  assert_int_equal(live(), before);
}

static void null_is_refused(void **state) {
  (void)state;
  int deleted = 0;
  struct DLManagedTensor *plain = NULL;
  compute_tensor *t = NULL;
  other_tensor *other = other_create(&deleted);
  assert_fails(compute_tensor_to_dlpack(NULL, NULL, &plain), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_to_dlpack_versioned(NULL, NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_from_dlpack(test_context, NULL, &t), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_from_dlpack_versioned(NULL, &other->managed, &t),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_from_dlpack_versioned(test_context, &other->managed, NULL),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_device_dlpack(NULL, NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_null(compute_queue_native(NULL));
  assert_int_equal(deleted, 0);
  other_delete(&other->managed);
}

/* ---- Lifetimes ------------------------------------------------------------------------------ */

static void a_context_stays_open_while_an_export_is_in_use(void **state) {
  (void)state;
  compute_context *context = test_open();
  struct DLManagedTensor *managed = NULL;
  compute_tensor *t = NULL;
  assert_ok(compute_memory_scope_push(context));
  assert_ok(
      compute_tensor_full(compute_default_device(context), COMPUTE_F32, COMPUTE_SHAPE(5), 1, &t));
  compute_device_push(compute_default_device(context));
  const compute_status status = compute_tensor_to_dlpack(t, NULL, &managed);
  compute_device_pop(context);
  assert_ok(compute_memory_scope_pop(context)); /* releases the tensor, but not the export */
  if (status == COMPUTE_OK) {
    assert_fails(compute_close(context), COMPUTE_ERROR_INVALID_STATE);
    managed->deleter(managed);
  }
  test_close(context);
}

static void *delete_elsewhere(void *managed) {
  struct DLManagedTensor *deleted = managed;
  deleted->deleter(deleted);
  return NULL;
}

static void deleters_may_run_in_other_threads(void **state) {
  (void)state;
  enum { EXPORTS = 8 };
  pthread_t threads[EXPORTS];
  compute_tensor *t = numbers(the_cpu());
  const int64_t before = live();
  for (int i = 0; i < EXPORTS; i++) {
    struct DLManagedTensor *managed = NULL;
    assert_ok(compute_tensor_to_dlpack(t, NULL, &managed));
    assert_int_equal(pthread_create(&threads[i], NULL, delete_elsewhere, managed), 0);
  }
  compute_tensor_release(t);
  for (int i = 0; i < EXPORTS; i++) pthread_join(threads[i], NULL);
  assert_int_equal(live(), before - 1);
}

/* ---- Order with a queue --------------------------------------------------------------------- */

static void check_queue(compute_device *device) {
  if (!shares(device)) return;
  struct DLManagedTensorVersioned *managed = NULL;
  compute_queue *queue = NULL;
  compute_tensor *t = numbers(device);
  assert_ok(compute_queue_create(device, &queue));
  assert_ok(
      compute_tensor_to_dlpack_versioned(t, &(compute_dlpack_options){.queue = queue}, &managed));
  managed->deleter(managed);
  compute_context *apart = test_open();
  compute_queue *stranger = NULL;
  assert_ok(compute_queue_create(compute_default_device(apart), &stranger));
  assert_fails(
      compute_tensor_to_dlpack_versioned(t, &(compute_dlpack_options){.queue = stranger}, &managed),
      COMPUTE_ERROR_WRONG_CONTEXT);
  assert_fails(
      compute_tensor_to_dlpack_versioned(t, &(compute_dlpack_options){.reserved = {1}}, &managed),
      COMPUTE_ERROR_INVALID_ARGUMENT);
  compute_queue_release(stranger);
  test_close(apart);
  compute_queue_release(queue);
  compute_tensor_release(t);
}

static void an_export_waits_for_its_queue(void **state) {
  (void)state;
  on_every_device(check_queue);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_view_goes_there_and_back_without_a_copy),
      cmocka_unit_test(memory_is_one_on_the_cpu),
      cmocka_unit_test(every_dtype_scalars_and_empty_tensors_go_there_and_back),
      cmocka_unit_test(read_only_tensors_say_so_and_copies_do_not),
      cmocka_unit_test(the_deleter_is_called_once_after_the_last_view),
      cmocka_unit_test(strides_that_mean_nothing_are_ignored),
      cmocka_unit_test(a_tensor_without_a_deleter_is_left_alone),
      cmocka_unit_test(what_cannot_be_imported_stays_the_callers),
      cmocka_unit_test(null_is_refused),
      cmocka_unit_test(a_context_stays_open_while_an_export_is_in_use),
      cmocka_unit_test(deleters_may_run_in_other_threads),
      cmocka_unit_test(an_export_waits_for_its_queue),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
