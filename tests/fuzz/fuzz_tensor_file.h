/* SPDX-License-Identifier: MIT */
/* The checks of every opened file of named tensors. */
#ifndef FUZZ_TENSOR_FILE_H
#define FUZZ_TENSOR_FILE_H

#include "compute/compute.h"
#include "fuzz.h"

static compute_device *device;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  compute_context *context;
  FUZZ_CHECK(compute_open(&context, &(compute_open_options){
                                        .backends = "null", .device = "null", .threads = 1}) == 0);
  device = compute_default_device(context);
  return 0;
}

/* Every listed tensor can be found and read, except after a wrong checksum (`sums`). */
static void fuzz_tensor_file(const uint8_t *data, size_t size, bool sums) {
  const uint64_t most = (uint64_t)size * 1032;
  compute_tensor_file *file;
  compute_status status = compute_tensor_file_open(NULL, fuzz_file(data, size), &file);
  FUZZ_CHECK((status == COMPUTE_OK) == (file != NULL));
  for (size_t i = 0; i < compute_tensor_file_count(file); i++) {
    compute_tensor_file_entry entry;
    compute_tensor *tensor;
    FUZZ_CHECK(compute_tensor_file_at(file, i, &entry) == COMPUTE_OK);
    FUZZ_CHECK(compute_tensor_file_find(file, entry.name) == i);
    FUZZ_CHECK(entry.bytes <= most);
    if (entry.bytes > 1 << 20) continue;
    compute_status read = compute_tensor_file_read(file, i, device, &tensor);
    FUZZ_CHECK((read == COMPUTE_OK) == (tensor != NULL));
    FUZZ_CHECK(sums || read == COMPUTE_OK);
    FUZZ_CHECK(!tensor || compute_shape_equal(compute_tensor_shape(tensor), entry.shape));
    compute_tensor_release(tensor);
  }
  compute_tensor_file_close(file);
}

#endif
