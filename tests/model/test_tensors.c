/* SPDX-License-Identifier: MIT */
/* Elements of tensors in ONNX files: they are read exactly from every form that a file may use.
 * False sizes are refused. */
#include "model/decoding.h"

#include <math.h>

/* ---- Elements ------------------------------------------------------------------------------ */

typedef struct element_case {
  int32_t type;
  compute_dtype dtype;
  uint32_t field; /* of the list */
  int64_t count;
  uint64_t entries[4]; /* list entries: varints, or bits of floats */
  size_t entry_count;
  const char *raw;
  size_t raw_bytes;
  const char *expected; /* NULL: as raw */
} element_case;

static const element_case element_cases[] = {
    {ONNX_FLOAT, COMPUTE_F32, 4, 2, {0x3f800000, 0xc0000000}, 2, "\0\0\x80\x3f\0\0\0\xc0", 8, NULL},
    {ONNX_DOUBLE, COMPUTE_F64, 10, 1, {0x3ff8000000000000}, 1, "\0\0\0\0\0\0\xf8\x3f", 8, NULL},
    {ONNX_UINT8, COMPUTE_U8, 5, 3, {1, 200, 255}, 3, "\x01\xc8\xff", 3, NULL},
    {ONNX_INT8, COMPUTE_I8, 5, 2, {UINT64_MAX, 5}, 2, "\xff\x05", 2, NULL},
    {ONNX_UINT16, COMPUTE_U16, 5, 1, {0xfffe}, 1, "\xfe\xff", 2, NULL},
    {ONNX_INT16, COMPUTE_I16, 5, 1, {(uint64_t)-2}, 1, "\xfe\xff", 2, NULL},
    {ONNX_INT32, COMPUTE_I32, 5, 2, {(uint64_t)-3, 7}, 2, "\xfd\xff\xff\xff\x07\0\0\0", 8, NULL},
    {ONNX_INT64, COMPUTE_I64, 7, 1, {(uint64_t)-3}, 1, "\xfd\xff\xff\xff\xff\xff\xff\xff", 8, NULL},
    {ONNX_UINT32, COMPUTE_U32, 11, 1, {0xfffffffe}, 1, "\xfe\xff\xff\xff", 4, NULL},
    {ONNX_UINT64, COMPUTE_U64, 11, 1, {~1ull}, 1, "\xfe\xff\xff\xff\xff\xff\xff\xff", 8, NULL},
    {ONNX_BOOL, COMPUTE_BOOL, 5, 3, {0, 1, 2}, 3, "\0\1\2", 3, "\0\1\1"},
    {ONNX_FLOAT16, COMPUTE_F16, 5, 2, {0x3c00, 0xc000}, 2, "\0\x3c\0\xc0", 4, NULL},
    {ONNX_BFLOAT16, COMPUTE_BF16, 5, 1, {0x3f80}, 1, "\x80\x3f", 2, NULL},
    {ONNX_UINT4, COMPUTE_U8, 5, 3, {0xf1, 0x07}, 2, "\xf1\x07", 2, "\x01\x0f\x07"},
    {ONNX_INT4, COMPUTE_I8, 5, 3, {0xf1, 0x08}, 2, "\xf1\x08", 2, "\x01\xff\xf8"},
    {ONNX_UINT2, COMPUTE_U8, 5, 5, {0xe4, 0x02}, 2, "\xe4\x02", 2, "\0\1\2\3\2"},
    {ONNX_INT2, COMPUTE_I8, 5, 5, {0xe4, 0x01}, 2, "\xe4\x01", 2, "\0\1\xfe\xff\1"},
    {ONNX_FLOAT8E5M2, COMPUTE_F32, 5, 1, {0x3c}, 1, "\x3c", 1, "\0\0\x80\x3f"},
    {ONNX_FLOAT4E2M1, COMPUTE_F32, 5, 2, {0xa2}, 1, "\xa2", 1, "\0\0\x80\x3f\0\0\x80\xbf"},
    {ONNX_FLOAT6E2M3,
     COMPUTE_F32,
     5,
     2,
     {0x08, 0x28},
     2,
     "\x08\x0a",
     2,
     "\0\0\x80\x3f\0\0\x80\xbf"},
};

enum { ELEMENT_CASES = sizeof element_cases / sizeof *element_cases };

static void put_entry(proto *to, uint32_t field, uint64_t entry) {
  if (field == 4 || field == 10)
    put_raw(to, &entry, field == 4 ? 4 : 8);
  else
    put_varint(to, entry);
}

/* form 0: raw data; 1: a packed list; 2: single elements; 3: the first single, the rest packed */
static proto form_tensor(const element_case *test, int form) {
  proto tensor = tensor_message("w", test->type, 1, &test->count), run = {0};
  if (form == 0) {
    put_bytes(&tensor, 9, test->raw, test->raw_bytes);
    return tensor;
  }
  const uint64_t number_type = test->field == 4 ? 5 : test->field == 10 ? 1 : 0;
  for (size_t i = 0; i < test->entry_count; i++) {
    const bool single = form == 2 || (form == 3 && i == 0);
    if (single) put_varint(&tensor, (uint64_t)test->field << 3 | number_type);
    put_entry(single ? &tensor : &run, test->field, test->entries[i]);
  }
  put_message(&tensor, test->field, run);
  return tensor;
}

static void elements_arrive_in_every_form(void **state) {
  (void)state;
  for (size_t i = 0; i < ELEMENT_CASES; i++) {
    for (int form = 0; form < 4; form++) {
      const element_case *test = &element_cases[i];
      const char *expected = test->expected ? test->expected : test->raw;
      onnx_file file;
      assert_reads(with_initializer(form_tensor(test, form)), &file);
      const onnx_tensor *tensor = &file.graph.initializers[0];
      assert_int_equal(onnx_dtype(test->type), test->dtype);
      assert_int_equal(tensor->type, test->type);
      assert_int_equal(tensor->count, test->count);
      assert_int_equal(tensor->rank, 1);
      assert_memory_equal(tensor->data, expected,
                          (size_t)test->count * compute_dtype_size(test->dtype));
      assert_int_equal(file.weight_bytes, test->count * (int64_t)compute_dtype_size(test->dtype));
      const bool aligned = (uintptr_t)tensor->data % compute_dtype_size(test->dtype) == 0;
      assert_int_equal(file.mapped_bytes, tensor->in_file && aligned ? file.weight_bytes : 0);
      if (form == 0 && !test->expected) assert_true(tensor->in_file);
      onnx_release(&file);
    }
  }
}

static void every_count_but_the_shapes_is_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < ELEMENT_CASES; i++) {
    for (int form = 0; form < 4; form++) {
      for (int64_t more = -4; more <= 8; more += 12) {
        element_case test = element_cases[i];
        test.count = test.count + more > 0 ? test.count + more : 0;
        assert_refuses(with_initializer(form_tensor(&test, form)), "tensor 'w' has");
      }
    }
  }
}

static void small_floats_have_their_values(void **state) {
  (void)state;
  static const struct {
    int32_t type;
    unsigned char bits;
    float value;
  } cases[] = {
      {ONNX_FLOAT8E4M3FN, 0x7e, 448},
      {ONNX_FLOAT8E4M3FN, 0x01, 0x1p-9F},
      {ONNX_FLOAT8E4M3FN, 0x7f, NAN},
      {ONNX_FLOAT8E4M3FN, 0xff, NAN},
      {ONNX_FLOAT8E4M3FN, 0x78, 256},
      {ONNX_FLOAT8E4M3FNUZ, 0x7f, 240},
      {ONNX_FLOAT8E4M3FNUZ, 0x80, NAN},
      {ONNX_FLOAT8E4M3FNUZ, 0x01, 0x1p-10F},
      {ONNX_FLOAT8E5M2, 0x7b, 57344},
      {ONNX_FLOAT8E5M2, 0x7c, INFINITY},
      {ONNX_FLOAT8E5M2, 0xfc, -INFINITY},
      {ONNX_FLOAT8E5M2, 0x7d, NAN},
      {ONNX_FLOAT8E5M2FNUZ, 0x7f, 57344},
      {ONNX_FLOAT8E5M2FNUZ, 0x80, NAN},
      {ONNX_FLOAT8E5M2FNUZ, 0x01, 0x1p-17F},
      {ONNX_FLOAT8E8M0, 0x00, 0x1p-127F},
      {ONNX_FLOAT8E8M0, 0x7f, 1},
      {ONNX_FLOAT8E8M0, 0xfe, 0x1p127F},
      {ONNX_FLOAT8E8M0, 0xff, NAN},
      {ONNX_FLOAT4E2M1, 0x07, 6},
      {ONNX_FLOAT4E2M1, 0x09, -0.5F},
      {ONNX_FLOAT6E2M3, 0x1f, 7.5F},
      {ONNX_FLOAT6E3M2, 0x1f, 28},
      {ONNX_FLOAT6E3M2, 0x21, -0.0625F},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    proto tensor = tensor_message("w", cases[i].type, 0, NULL);
    put_bytes(&tensor, 9, &cases[i].bits, 1);
    onnx_file file;
    float value;
    assert_reads(with_initializer(tensor), &file);
    memcpy(&value, file.graph.initializers[0].data, 4);
    if (isnan(cases[i].value))
      assert_true(isnan(value));
    else
      assert_true(value == cases[i].value);
    onnx_release(&file);
  }
}

static void strings_arrive(void **state) {
  (void)state;
  proto tensor = tensor_message("w", ONNX_STRING, 2, (int64_t[]){2, 1});
  put_names(&tensor, 6, "one,two");
  onnx_file file;
  assert_reads(with_initializer(tensor), &file);
  assert_null(file.graph.initializers[0].data);
  assert_string_equal(file.graph.initializers[0].strings[1], "two");
  onnx_release(&file);
  tensor = tensor_message("w", ONNX_STRING, 1, (int64_t[]){2});
  put_names(&tensor, 6, "one,two,three");
  assert_refuses(with_initializer(tensor), "3 strings");
}

static void types_without_a_dtype_have_no_elements(void **state) {
  (void)state;
  static const int32_t types[] = {ONNX_COMPLEX64, ONNX_COMPLEX128, 99};
  for (size_t i = 0; i < 3; i++) {
    proto tensor = tensor_message("w", types[i], 1, (int64_t[]){1});
    put_bytes(&tensor, 9, "0123456789abcdef", 16);
    onnx_file file;
    assert_reads(with_initializer(tensor), &file);
    assert_null(file.graph.initializers[0].data);
    assert_int_equal(onnx_dtype(types[i]), COMPUTE_DTYPE_NONE);
    onnx_release(&file);
  }
  assert_string_equal(onnx_type_name(99), "unknown");
  assert_string_equal(onnx_type_name(ONNX_FLOAT16), "f16");
  assert_refuses(with_initializer(tensor_message("w", 0, 0, NULL)), "no element type");
}

static void every_dtype_has_a_type(void **state) {
  (void)state;
  for (int dtype = 1; dtype < COMPUTE_DTYPE_COUNT; dtype++) {
    const int32_t type = onnx_type_of((compute_dtype)dtype);
    assert_int_equal(onnx_dtype(type), dtype);
    assert_true(type < ONNX_FLOAT8E4M3FN);
  }
  assert_int_equal(onnx_type_of(COMPUTE_DTYPE_NONE), ONNX_UNDEFINED);
}

static void tensors_without_elements_and_of_many_axes_are_tensors(void **state) {
  (void)state;
  onnx_file file;
  assert_reads(with_initializer(tensor_message("w", ONNX_FLOAT, 2, (int64_t[]){0, 7})), &file);
  assert_null(file.graph.initializers[0].data);
  assert_int_equal(file.graph.initializers[0].count, 0);
  assert_int_equal(file.graph.initializers[0].shape.size[1], 7);
  onnx_release(&file);
  proto tensor = tensor_message("w", ONNX_UINT8, 9, (int64_t[]){1, 1, 1, 1, 2, 1, 1, 1, 1});
  put_bytes(&tensor, 9, "ab", 2);
  assert_reads(with_initializer(tensor), &file);
  assert_int_equal(file.graph.initializers[0].rank, -1);
  assert_int_equal(file.graph.initializers[0].count, 2);
  onnx_release(&file);
}

static void sizes_that_lie_are_refused(void **state) {
  (void)state;
  static const struct {
    int rank;
    int64_t sizes[3];
    const char *part;
  } cases[] = {
      {1, {-1}, "size -1"},
      {1, {INT64_MIN}, "size -9223372036854775808"},
      {1, {INT64_MAX}, "63 bits"},
      {1, {INT64_MAX / 4 + 1}, "63 bits"},
      {1, {INT64_MAX / 4}, "shape needs"},
      {2, {(int64_t)1 << 32, (int64_t)1 << 31}, "63 bits"},
      {3, {0, (int64_t)1 << 32, (int64_t)1 << 31}, "63 bits"},
      {3, {INT64_MAX, INT64_MAX, INT64_MAX}, "63 bits"},
      {1, {3}, "has 8 bytes of elements, but its shape needs 12"},
      {1, {1}, "has 8 bytes of elements, but its shape needs 4"},
      {1, {0}, "has 8 bytes of elements, but its shape needs 0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    proto tensor = tensor_message("w", ONNX_FLOAT, cases[i].rank, cases[i].sizes);
    put_bytes(&tensor, 9, "01234567", 8);
    assert_refuses(with_initializer(tensor), cases[i].part);
  }
}

static void elements_are_in_one_place_which_is_their_types(void **state) {
  (void)state;
  static const uint32_t lists[] = {5, 6, 7, 10, 11};
  for (size_t i = 0; i < 5; i++) {
    proto tensor = tensor_message("w", ONNX_FLOAT, 1, (int64_t[]){2});
    put_bytes(&tensor, lists[i], "01234567", 8);
    assert_refuses(with_initializer(tensor), "where f32 has none");
  }
  proto tensor = tensor_message("w", ONNX_FLOAT, 1, (int64_t[]){2});
  put_bytes(&tensor, 9, "01234567", 8);
  put_bytes(&tensor, 4, "01234567", 8);
  assert_refuses(with_initializer(tensor), "more than one place");
  tensor = tensor_message("w", ONNX_FLOAT, 1, (int64_t[]){2});
  put_bytes(&tensor, 9, "01234567", 8);
  put_integer(&tensor, 14, 1);
  assert_refuses(with_initializer(tensor), "more than one place");
  tensor = tensor_message("w", ONNX_FLOAT, 1, (int64_t[]){2});
  put_integer(&tensor, 14, 2);
  assert_refuses(with_initializer(tensor), "unknown location 2");
  tensor = tensor_message("w", ONNX_INT64, 1, (int64_t[]){2});
  put_bytes(&tensor, 7, "\x01\x80", 2);
  assert_refuses(with_initializer(tensor), "malformed int64_data");
  tensor = tensor_message("w", ONNX_FLOAT, 1, (int64_t[]){2});
  put_message(&tensor, 3, (proto){0});
  assert_refuses_in(with_initializer(tensor), NULL, COMPUTE_ERROR_UNSUPPORTED, "segment");
}

/* ---- Sparse tensors ------------------------------------------------------------------------ */

static proto with_sparse(proto sparse) {
  proto graph = graph_message(NULL, NULL);
  put_message(&graph, GRAPH_SPARSE, sparse);
  return model_message(graph);
}

static void sparse_tensors_become_dense(void **state) {
  (void)state;
  static const float dense[] = {0, 1, 0, 2, 0, 3};
  onnx_file file;
  for (int64_t width = 0; width <= 2; width += 2) {
    const int64_t *indices = width ? (int64_t[]){0, 1, 1, 0, 1, 2} : (int64_t[]){1, 3, 5};
    assert_reads(with_sparse(sparse_message("w", 2, (int64_t[]){2, 3}, indices, width)), &file);
    const onnx_tensor *tensor = &file.graph.initializers[0];
    assert_string_equal(tensor->name, "w");
    assert_int_equal(tensor->shape.size[1], 3);
    assert_memory_equal(tensor->data, dense, sizeof dense);
    onnx_release(&file);
  }
  static const int64_t wrong[][3] = {{1, 1, 2}, {2, 1, 3}, {-1, 2, 3}, {1, 2, 6}};
  for (size_t i = 0; i < 4; i++)
    assert_refuses(with_sparse(sparse_message("w", 2, (int64_t[]){2, 3}, wrong[i], 0)),
                   "out of range or order");
  assert_refuses(with_sparse(sparse_message("w", 2, (int64_t[]){0, 3}, wrong[0], 0)),
                 "out of range or order");
  assert_refuses(
      with_sparse(sparse_message("w", 2, (int64_t[]){2, 3}, (int64_t[]){0, 1, 1, 3, 1, 2}, 2)),
      "out of range or order");
  assert_refuses(with_sparse((proto){0}), "no values or no indices");
  assert_refuses_in(
      with_sparse(sparse_message("w", 1, (int64_t[]){1 << 28}, (int64_t[]){1, 3, 5}, 0)), NULL,
      COMPUTE_ERROR_UNSUPPORTED, "would take 1073741824 bytes");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(elements_arrive_in_every_form),
      cmocka_unit_test(every_count_but_the_shapes_is_refused),
      cmocka_unit_test(small_floats_have_their_values),
      cmocka_unit_test(strings_arrive),
      cmocka_unit_test(types_without_a_dtype_have_no_elements),
      cmocka_unit_test(every_dtype_has_a_type),
      cmocka_unit_test(tensors_without_elements_and_of_many_axes_are_tensors),
      cmocka_unit_test(sizes_that_lie_are_refused),
      cmocka_unit_test(elements_are_in_one_place_which_is_their_types),
      cmocka_unit_test(sparse_tensors_become_dense),
  };
  return cmocka_run_group_tests(tests, NULL, free_held);
}
