/* SPDX-License-Identifier: MIT */
/* Damaged or false .npz files are refused with a message, and no damage changes an element. */
#include "support/harness/test.h"

#include <zlib.h>

#include "io/npy.h"
#include "tensor_files.h"

/* ---- False archives ------------------------------------------------------------------------ */

/* Opens a file with one changed byte and reads all of it: the values are unchanged, or it is
 * refused. */
static void check_flipped(unsigned char *bytes, size_t count, size_t at, unsigned char flip) {
  static const float values[] = {1, 2, 3};
  float actual[3];
  bytes[at] ^= flip;
  write_bytes(NPZ, bytes, count);
  bytes[at] ^= flip;
  compute_tensor_file *file;
  if (compute_tensor_file_open(test_context, NPZ, &file)) return;
  for (size_t i = 0; i < compute_tensor_file_count(file); i++) {
    compute_tensor *tensor;
    if (compute_tensor_file_read(file, i, device(), &tensor)) continue;
    assert_int_equal(compute_tensor_count(tensor), 3);
    assert_ok(compute_tensor_read(tensor, actual, sizeof actual));
    assert_memory_equal(actual, values, sizeof values);
    compute_tensor_release(tensor);
  }
  compute_tensor_file_close(file);
}

static void no_changed_bit_changes_an_element(void **state) {
  (void)state;
  static const float values[] = {1, 2, 3};
  compute_tensor *tensor = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3), values);
  const compute_named_tensor tensors[] = {{"a", tensor}, {"b", tensor}};
  size_t count;
  assert_ok(compute_tensor_file_write(test_context, NPZ, tensors, 2));
  unsigned char *bytes = read_bytes(NPZ, &count);
  for (size_t i = 0; i < count; i++) {
    check_flipped(bytes, count, i, 1);
    check_flipped(bytes, count, i, 0x80);
    check_flipped(bytes, count, i, 0xff);
  }
  free(bytes);
  compute_tensor_release(tensor);
}

typedef struct made_member {
  const char *name;
  const void *packed;
  size_t packed_bytes;
  uint32_t unpacked, crc;
  unsigned method, flags;
} made_member;

static unsigned char *put(unsigned char *to, uint64_t value, int size) {
  for (int i = 0; i < size; i++) *to++ = (unsigned char)(value >> 8 * i);
  return to;
}

static unsigned char *put_fields(unsigned char *to, const made_member *m) {
  to = put(put(put(to, 20, 2), m->flags, 2), m->method, 2);
  to = put(put(to, 0, 4), m->crc, 4);
  to = put(put(to, m->packed_bytes, 4), m->unpacked, 4);
  return put(put(to, strlen(m->name), 2), 0, 2);
}

/* Writes an archive with these members. */
static void write_archive(const made_member *members, size_t count) {
  static unsigned char bytes[65536];
  unsigned char *to = bytes;
  size_t headers[4];
  for (size_t i = 0; i < count; i++) {
    headers[i] = (size_t)(to - bytes);
    to = put_fields(put(to, 0x04034b50, 4), &members[i]);
    memcpy(to, members[i].name, strlen(members[i].name));
    to += strlen(members[i].name);
    memcpy(to, members[i].packed, members[i].packed_bytes);
    to += members[i].packed_bytes;
  }
  size_t list = (size_t)(to - bytes);
  for (size_t i = 0; i < count; i++) {
    to = put_fields(put(put(to, 0x02014b50, 4), 20, 2), &members[i]);
    to = put(put(put(to, 0, 6), 0, 4), headers[i], 4);
    memcpy(to, members[i].name, strlen(members[i].name));
    to += strlen(members[i].name);
  }
  size_t end = (size_t)(to - bytes);
  to = put(put(put(to, 0x06054b50, 4), 0, 4), count, 2);
  to = put(put(put(put(to, count, 2), end - list, 4), list, 4), 0, 2);
  write_bytes(NPZ, bytes, (size_t)(to - bytes));
}

static size_t deflate_to(unsigned char *packed, const void *data, size_t bytes) {
  z_stream stream = {0};
  assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = (unsigned char *)(uintptr_t)data;
  stream.avail_in = (unsigned)bytes;
  stream.next_out = packed;
  stream.avail_out = 4096;
  assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
  deflateEnd(&stream);
  return 4096 - stream.avail_out;
}

/* A .npy file of 300 zeros, plain and deflated. */
static size_t make_npy(unsigned char *npy, unsigned char *packed, made_member *member) {
  size_t bytes = npy_header_make(COMPUTE_F32, COMPUTE_SHAPE(300), (char *)npy);
  memset(npy + bytes, 0, 1200);
  bytes += 1200;
  *member = (made_member){.name = "zeros.npy",
                          .packed = packed,
                          .packed_bytes = deflate_to(packed, npy, bytes),
                          .unpacked = (uint32_t)bytes,
                          .crc = (uint32_t)crc32(0, npy, (unsigned)bytes),
                          .method = 8};
  return bytes;
}

static void deflated_members_are_unpacked(void **state) {
  (void)state;
  static const unsigned char zeros[1200];
  unsigned char npy[2048], packed[4096], actual[1200];
  made_member member;
  make_npy(npy, packed, &member);
  write_archive(&member, 1);
  compute_tensor_file *file = open_file(NPZ);
  compute_tensor *tensor;
  assert_ok(compute_tensor_file_read(file, 0, device(), &tensor));
  assert_ok(compute_tensor_read(tensor, actual, sizeof actual));
  assert_memory_equal(actual, zeros, sizeof zeros);
  compute_tensor_release(tensor);
  compute_tensor_file_close(file);
}

static void members_that_lie_are_refused(void **state) {
  (void)state;
  unsigned char npy[2048], packed[4096];
  made_member good, two[2];
  make_npy(npy, packed, &good);
#define REFUSED(change, status, part)                                                              \
  do {                                                                                             \
    two[0] = two[1] = good;                                                                        \
    two[1].name = "other.npy";                                                                     \
    change;                                                                                        \
    write_archive(two, 2);                                                                         \
    assert_refused(NPZ, status, part);                                                             \
  } while (0)
  REFUSED(two[1].name = two[0].name, 601, "two tensors called \"zeros\"");
  REFUSED(two[1].name = "text.txt", 304, "does not end in .npy");
  REFUSED(two[1].name = "b\xff.npy", 601, "not UTF-8");
  REFUSED(two[1].flags = 1, 304, "encrypted");
  REFUSED(two[1].method = 14, 304, "neither stored nor deflated");
  REFUSED(two[1].unpacked = 0xfffffffe, 601, "claims an impossible size");
  REFUSED(two[1].unpacked = 0xffffffff, 601, "has no sizes");
  REFUSED(two[1].unpacked += 4, 601, "1204 bytes of elements, but its shape needs 1200");
  REFUSED(two[1].method = 0, 601, "claims an impossible size");
  REFUSED((two[1].method = 0, two[1].unpacked = (uint32_t)good.packed_bytes), 601, "as .npy");
  REFUSED((two[1].packed_bytes = 3, two[1].unpacked = 1000), 601, "is truncated");
}

static void damaged_elements_are_noticed_and_change_nothing(void **state) {
  (void)state;
  unsigned char npy[2048], packed[4096];
  made_member good, bad;
  size_t bytes = make_npy(npy, packed, &good);
  float ones[300], actual[300];
  for (int i = 0; i < 300; i++) ones[i] = 1;
  compute_tensor *tensor = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(300), ones);
  unsigned char longer[4096];
  for (int i = 0; i < 4; i++) {
    bad = good;
    if (i == 0) bad.crc ^= 1;
    if (i == 1) bad.packed_bytes -= 2;
    if (i == 2) {
      npy[bytes] = 1;
      bad.packed = longer;
      bad.packed_bytes = deflate_to(longer, npy, bytes + 1);
    }
    if (i == 3) {
      memcpy(longer, packed, good.packed_bytes);
      bad.packed = longer;
      bad.packed_bytes += 1;
    }
    write_archive(&bad, 1);
    compute_tensor_file *file = open_file(NPZ);
    compute_tensor *read;
    assert_fails(compute_tensor_file_read(file, 0, device(), &read), COMPUTE_ERROR_FORMAT);
    assert_null(read);
    assert_fails(compute_tensor_file_read_into(file, 0, tensor), COMPUTE_ERROR_FORMAT);
    test_check_message(test_context, "\"zeros\"");
    assert_ok(compute_tensor_read(tensor, actual, sizeof actual));
    assert_memory_equal(actual, ones, sizeof ones);
    compute_tensor_file_close(file);
  }
  compute_tensor_release(tensor);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_changed_bit_changes_an_element),
      cmocka_unit_test(deflated_members_are_unpacked),
      cmocka_unit_test(members_that_lie_are_refused),
      cmocka_unit_test(damaged_elements_are_noticed_and_change_nothing),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
