/* SPDX-License-Identifier: MIT */
/* Opens a context with the first argument as options.backends, and a group with the transport of
 * the second. Computes a product, and prints the state of each module, the CPU's BLAS, and the
 * group's size. run.sh gives this program a set-user-ID bit. */
#include <compute/compute.h>
#include <stdio.h>
#include <unistd.h>

static int fail(const char *what) {
  printf("%s: %s\n", what, compute_error_message(NULL));
  return 1;
}

static void open_group(compute_context *context, const char *transport) {
  const compute_group_options options = {.transport = transport};
  compute_process_group *group = NULL;
  compute_group_info info = {0};
  if (compute_group_open(context, &options, &group) || compute_group_query(group, &info))
    printf("group: %s\n", compute_error_message(context));
  else
    printf("group of %d\n", (int)info.size);
  compute_group_close(group);
}

int main(int argc, char **argv) {
  const compute_open_options options = {.backends = argc > 1 && argv[1][0] ? argv[1] : NULL};
  compute_context *context;
  printf("user %ld rights %ld\n", (long)getuid(), (long)geteuid());
  if (compute_open(&context, &options)) return fail("compute_open");
  const compute_probe *probe;
  for (size_t i = 0; (probe = compute_probe_at(context, i)) != NULL; i++)
    printf("module %s: %s: %s; %s\n", probe->name, compute_probe_state_text(probe->state),
           probe->detail, probe->remedy);
  compute_device_info info;
  compute_device_describe(compute_default_device(context), &info);
  printf("default %s, driver %s\n", info.name, info.driver);

  open_group(context, argc > 2 ? argv[2] : NULL);

  const float four[4] = {1, 2, 3, 4};
  float product[4] = {0};
  compute_tensor *a = NULL, *b = NULL;
  if (compute_tensor_from_host(compute_default_device(context), COMPUTE_F32, COMPUTE_SHAPE(2, 2),
                               four, &a) ||
      compute_tensor_matmul(a, a, &b) || compute_tensor_read(b, product, sizeof product))
    return fail("matmul");
  printf("product %g %g %g %g\n", (double)product[0], (double)product[1], (double)product[2],
         (double)product[3]);
  compute_tensor_release(a);
  compute_tensor_release(b);
  return compute_close(context) ? fail("compute_close") : 0;
}
