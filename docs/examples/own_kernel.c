/* SPDX-License-Identifier: MIT */
/* A kernel of your own, in the dialect that every device with a compiler supports: the Mandelbrot
 * set.
 *
 *   cc own_kernel.c $(pkg-config --cflags --libs compute) -o own_kernel && ./own_kernel [DEVICE] */
#include <compute/compute.h>
#include <stdint.h>
#include <stdio.h>

enum { WIDTH = 64, HEIGHT = 24, GROUP = 8 };

static const char source[] =
    "KERNEL void mandelbrot(GLOBAL i32 *steps, i32 width, i32 height, i32 most) {\n"
    "  i32 column = (i32)GLOBAL_ID_X, row = (i32)GLOBAL_ID_Y;\n"
    "  if (column >= width || row >= height) return;\n"
    "  f32 real = -2.25f + 3.0f * (f32)column / (f32)width;\n"
    "  f32 imaginary = -1.25f + 2.5f * (f32)row / (f32)height;\n"
    "  f32 x = 0.0f, y = 0.0f;\n"
    "  i32 step = 0;\n"
    "  while (step < most && x * x + y * y < 4.0f) {\n"
    "    f32 next = x * x - y * y + real;\n"
    "    y = 2.0f * x * y + imaginary;\n"
    "    x = next;\n"
    "    step++;\n"
    "  }\n"
    "  steps[row * width + column] = step;\n"
    "}\n";

/* Compiles for the device called `name`, or for the first one that has a compiler. */
static compute_status compile(compute_context *context, const char *name, compute_kernel **kernel,
                              compute_device **device) {
  compute_status status = COMPUTE_ERROR_NO_DEVICE;
  if (name) {
    status = compute_device_by_name(context, name, device);
    if (status) return status;
    return compute_kernel_compile(*device, source, "mandelbrot", NULL, COMPUTE_KERNEL_PORTABLE,
                                  kernel);
  }
  for (size_t i = 0; (*device = compute_device_at(context, i)) != NULL; i++) {
    status = compute_kernel_compile(*device, source, "mandelbrot", NULL, COMPUTE_KERNEL_PORTABLE,
                                    kernel);
    if (status != COMPUTE_ERROR_UNSUPPORTED) break;
  }
  return status;
}

static void print(int32_t steps[HEIGHT][WIDTH], int32_t most) {
  static const char shades[] = " .:-=+*%@#";
  for (int row = 0; row < HEIGHT; row++) {
    for (int column = 0; column < WIDTH; column++)
      putchar(shades[steps[row][column] * ((int32_t)sizeof shades - 2) / most]);
    putchar('\n');
  }
}

int main(int count, char **words) {
  static int32_t steps[HEIGHT][WIDTH];
  compute_context *context = NULL;
  compute_device *device = NULL;
  compute_kernel *kernel = NULL;
  compute_tensor *tensor = NULL;
  compute_error error;
  compute_device_info info;
  compute_status s = compute_open(&context, NULL);
  if (!s) s = compile(context, count > 1 ? words[1] : NULL, &kernel, &device);
  if (!s) s = compute_device_describe(device, &info);
  if (!s) {
    s = compute_tensor_create(device, COMPUTE_I32, COMPUTE_SHAPE(HEIGHT, WIDTH), &tensor);
  }
  const int32_t width = WIDTH, height = HEIGHT, most = 60;
  if (!s) {
    s = compute_kernel_launch(
        kernel,
        &(compute_launch){.groups = {WIDTH / GROUP, HEIGHT / GROUP}, .group = {GROUP, GROUP}},
        (compute_kernel_argument[]){COMPUTE_KERNEL_TENSOR(tensor), COMPUTE_KERNEL_VALUE(width),
                                    COMPUTE_KERNEL_VALUE(height), COMPUTE_KERNEL_VALUE(most)},
        4, NULL);
  }
  if (!s) s = compute_tensor_read(tensor, steps, sizeof steps);
  if (!s) {
    printf("on device %s, %s\n", info.name, info.model);
    print(steps, most);
  } else {
    compute_error_get(context, &error);
    fprintf(stderr, "own_kernel: %s%s%s\n", error.message, error.remedy[0] ? "; " : "",
            error.remedy);
  }
  compute_tensor_release(tensor);
  compute_kernel_release(kernel);
  compute_close(context);
  return s ? 1 : 0;
}
