/* SPDX-License-Identifier: MIT */
#include "programs/info/group.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "programs/common/bytes.h"
#include "programs/common/clock.h"

/* Limits for the repetitions of one size: their total time and their number. */
#define SECONDS 0.2
#define MOST    1000

/* Sizes of the reduced vectors, in elements of f32. */
static const int64_t counts[] = {1, 16384, 4194304};
enum { COUNTS = sizeof counts / sizeof *counts };

/* Returns the shortest time of an all-reduce. Rank 0 decides when to stop. */
static compute_status measure(compute_process_group *group, const compute_group_info *info,
                              int64_t count, double *seconds) {
  compute_tensor *x = NULL, *goes_on = NULL;
  compute_device *cpu = NULL;
  float more = 1;
  const double end = clock_seconds() + SECONDS;
  compute_status status =
      compute_tensor_full(info->device, COMPUTE_F32, COMPUTE_SHAPE(count), 0, &x);
  if (!status) status = compute_device_by_name(compute_device_context(info->device), "cpu", &cpu);
  if (!status) status = compute_tensor_full(cpu, COMPUTE_F32, COMPUTE_SHAPE(1), 1, &goes_on);
  *seconds = 0;
  for (int i = 0; !status && more > 0 && i < MOST; i++) {
    const double began = clock_seconds();
    status = compute_group_all_reduce(group, COMPUTE_GROUP_SUM, x, x, NULL, NULL);
    const double passed = clock_seconds() - began;
    if (i == 0 || passed < *seconds) *seconds = passed;
    more = clock_seconds() < end ? 1 : 0;
    if (!status) status = compute_tensor_write(goes_on, &more, sizeof more);
    if (!status) status = compute_group_broadcast(group, goes_on, 0, NULL, NULL);
    if (!status) status = compute_tensor_read(goes_on, &more, sizeof more);
  }
  compute_tensor_release(x);
  compute_tensor_release(goes_on);
  return status;
}

/* Prints the transport for elements of the group's device, and for elements of the host if it is a
 * different one. */
static void print_routes(const compute_process_group *group, const compute_group_info *info) {
  char host[512] = "", device[512] = "";
  if (compute_group_route(group, NULL, host, sizeof host) ||
      compute_group_route(group, info->device, device, sizeof device))
    return;
  compute_device_info about;
  printf("    %-16s %s\n", "host memory", host);
  if (strcmp(host, device) != 0 && compute_device_describe(info->device, &about) == COMPUTE_OK)
    printf("    %-16s %s\n", about.name, device);
}

static void print_ranks(const compute_process_group *group, const compute_group_info *info) {
  compute_group_member m;
  printf("Group\n    %-16s %d on %d host%s\n", "ranks", info->size, info->hosts,
         info->hosts == 1 ? "" : "s");
  printf("    %-16s %g s\n", "time limit", info->timeout);
  print_routes(group, info);
  for (int32_t r = 0; r < info->size; r++) {
    if (compute_group_member_at(group, r, &m)) continue;
    printf("  rank %d: %s, local rank %d, process %" PRId64 ", device %s\n", r, m.host,
           m.local_rank, m.process, m.device);
  }
}

static void print_times(const double *seconds) {
  printf("\nAll-reduce of f32\n");
  for (int i = 0; i < COUNTS; i++) {
    char size[32];
    const double bytes = 4 * (double)counts[i];
    printf("    %-16s %.1f µs", bytes_text((uint64_t)bytes, size, sizeof size), 1e6 * seconds[i]);
    if (counts[i] > 1) printf(", %.2f GB/s", 1e-9 * bytes / seconds[i]);
    printf("\n");
  }
}

compute_status info_print_group(compute_context *context) {
  compute_process_group *group = NULL;
  compute_group_info info;
  double seconds[COUNTS];
  compute_status status = compute_group_open(context, NULL, &group);
  if (!status) status = compute_group_query(group, &info);
  for (int i = 0; !status && i < COUNTS; i++)
    status = measure(group, &info, counts[i], &seconds[i]);
  if (!status && info.rank == 0) {
    print_ranks(group, &info);
    print_times(seconds);
  }
  compute_group_close(group);
  return status;
}
