/* compute-tune --costs: the figures by which plans are placed. */
#include <stdio.h>

#include "tools/tune/tune.h"

/* Enough for every kind of kernel to be compiled, even where that is slow. */
static const double ALL_OF_IT = 10;

static void print_rate(const char *name, double per_second, const char *unit) {
  static const struct {
    double scale;
    const char *prefix;
  } step[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}};
  size_t i = 0;
  while (i < 2 && per_second < step[i].scale) i++;
  printf("    %-16s %8.3g %s%s/s\n", name, per_second / step[i].scale, step[i].prefix, unit);
}

static void print_time(const char *name, double seconds) {
  printf("    %-16s %8.3g us\n", name, seconds * 1e6);
}

static void print_costs(const compute_device_info *info, const compute_device_costs *costs) {
  static const char *const source[] = {"guessed", "measured before", "measured"};
  printf("  %s: %s", info->name, source[costs->source]);
  if (costs->measure_seconds > 0) printf(" in %.2f s", costs->measure_seconds);
  if (costs->source != COMPUTE_COSTS_GUESSED && costs->guessed > 0)
    printf(", %u kinds guessed from the rest", costs->guessed);
  printf("\n");
  print_time("launch", costs->launch_seconds);
  print_time("launch and wait", costs->wait_seconds);
  print_time("upload, least", costs->upload_seconds);
  print_time("download, least", costs->download_seconds);
  print_rate("upload", costs->upload_bytes_per_second, "B");
  print_rate("download", costs->download_bytes_per_second, "B");
  print_rate("memory", costs->bytes_per_second, "B");
  print_rate("caches", costs->cached_bytes_per_second, "B");
  print_rate("operations", costs->operations_per_second, "OP");
  print_rate("functions", costs->functions_per_second, "OP");
  print_rate("gemm f32", costs->gemm_f32, "FLOP");
  print_rate("gemm f64", costs->gemm_f64, "FLOP");
  print_rate("gemm f16", costs->gemm_f16, "FLOP");
  print_rate("gemm bf16", costs->gemm_bf16, "FLOP");
  print_rate("convolution f32", costs->convolution_f32, "FLOP");
}

compute_status tune_costs(compute_context *context, compute_device *only, bool dry, double limit) {
  compute_device *device;
  char path[4096] = "";
  for (size_t i = 0; (device = compute_device_at(context, i)) != NULL; i++) {
    compute_device_info info;
    compute_device_costs costs;
    if ((only && device != only) || compute_device_describe(device, &info) ||
        (!only && !(info.capabilities & COMPUTE_CAPABILITY_COMPUTE)))
      continue;
    compute_status status =
        dry ? compute_route_query(device, &costs)
            : compute_route_measure(device, limit > 0 ? limit : ALL_OF_IT, &costs);
    if (status) return status;
    print_costs(&info, &costs);
  }
  compute_route_path(context, path, sizeof path);
  if (!dry && *path) printf("kept in %s\n", path);
  return COMPUTE_OK;
}
