/* SPDX-License-Identifier: MIT */
/* Tables of numbers: the first byte selects the reader's options; the other bytes are the file. */
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char separators[] = {0, ';', '\t', ' '};
  if (size == 0) return 0;
  compute_csv_options options = {.separator = separators[data[0] >> 3 & 3],
                                 .skip_rows = data[0] >> 5 & 1,
                                 .max_bytes = 1 << 20};
  compute_tensor *tensor;
  compute_status status =
      compute_csv_read(device, fuzz_file(data + 1, size - 1),
                       (compute_dtype)(1 + data[0] % (COMPUTE_DTYPE_COUNT - 1)), &options, &tensor);
  FUZZ_CHECK((status == COMPUTE_OK) == (tensor != NULL));
  compute_tensor_release(tensor);
  return 0;
}
