/* SPDX-License-Identifier: MIT */
/* PNG files as inputs of compute-run. The first byte selects the input's description and the
 * resizing; the other bytes are the file. The file becomes a tensor that suits the input, or is
 * refused. Nothing leaks. */
#include <stdio.h>

#include "fuzz.h"
#include "programs/run/run.h"

const option_program run_program = {.name = "fuzz_image"};

static model_run program;
static run_arguments arguments;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  setenv("COMPUTE_THREADS", "1", 1);
  FUZZ_CHECK(!compute_open(&program.context, &(compute_open_options){.backends = "cpu"}));
  program.a = &arguments;
  return 0;
}

/* ---- The rest of compute-run: messages ------------------------------------------------------- */

void option_say(const option_program *from, const char *format, ...) {
  (void)from;
  (void)format;
}

int run_fail(const compute_context *context) {
  FUZZ_CHECK(compute_error_message(context)[0]);
  return EXIT_FAILED;
}

int run_out_of_memory(void) {
  return EXIT_FAILED;
}

char *port_text(const compute_model_port *port, char *text, size_t bytes) {
  snprintf(text, bytes, "rank %d", (int)port->rank);
  return text;
}

/* ---- Images ---------------------------------------------------------------------------------- */

/* The bits of a byte select axes, channels first or last, fixed or open sizes, and the dtype. */
static compute_model_port port_of(uint8_t bits) {
  static const int64_t sizes[4][4] = {{1, 3, -1, -1}, {-1, -1, -1, 4}, {1, 1, 8, 8}, {1, 5, 7, 3}};
  compute_model_port port = {.name = "x", .rank = 2 + bits % 3};
  port.dtype = bits & 32 ? COMPUTE_U8 : COMPUTE_F32;
  for (int32_t i = 0; i < port.rank; i++) port.size[i] = sizes[bits >> 2 & 3][4 - port.rank + i];
  return port;
}

static void check_tensor(const compute_tensor *tensor, const compute_model_port *port) {
  const compute_shape shape = compute_tensor_shape(tensor);
  FUZZ_CHECK(shape.rank == port->rank && compute_tensor_dtype(tensor) == port->dtype);
  for (int32_t i = 0; i < shape.rank; i++)
    FUZZ_CHECK(port->size[i] < 0 || shape.size[i] == port->size[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return 0;
  const compute_model_port port = port_of(data[0]);
  compute_tensor *tensor = NULL;
  arguments.resize = data[0] & 64 ? (size_value){8, 8} : (size_value){0};
  if (!image_read(&program, &port, fuzz_file(data + 1, size - 1), &tensor))
    check_tensor(tensor, &port);
  compute_tensor_release(tensor);
  compute_pool_statistics pool;
  FUZZ_CHECK(!compute_pool_query(compute_default_device(program.context), &pool) &&
             !pool.bytes_active);
  return 0;
}
