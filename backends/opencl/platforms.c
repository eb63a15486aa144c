/* SPDX-License-Identifier: MIT */
/* The usable platforms and devices. Anything unusable is left out with a reason, checked in the
 * order that a user meets the obstacles: no driver registered, no device, an old version, switched
 * off, no compiler. */
#include "opencl.h"
#include "core/platform/names.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MOST_PLATFORMS 64
#define MOST_DEVICES   256 /* per platform */

/* ---- Words --------------------------------------------------------------------------------- */

static void leave_out(opencl_instance *instance, const char *format, ...) COMPUTE_PRINTF(2, 3);
static void leave_out(opencl_instance *instance, const char *format, ...) {
  char words[384];
  va_list list;
  va_start(list, format);
  vsnprintf(words, sizeof words, format, list);
  va_end(list);
  const compute_services *services = instance->services;
  services->log(services->host, COMPUTE_LOG_INFO, "opencl", "left out: %s", words);
  const size_t used = strlen(instance->left_out), room = sizeof instance->left_out - used;
  if (strlen(words) + 3 > room) return; /* whole sentences only; the log has all of them */
  snprintf(instance->left_out + used, room, "%s%s", used ? "; " : "", words);
}

static compute_status no_device(const opencl_instance *instance, cl_int code) {
  const compute_services *services = instance->services;
  static const char packages[] =
      PLATFORM_NAME("install a driver: pocl-opencl-icd (CPU), intel-opencl-icd, "
                    "mesa-opencl-icd (AMD), or NVIDIA's own",
                    "install the driver of the GPU's maker");
  if (instance->left_out[0]) {
    return services->fail(services->host, COMPUTE_ERROR_NO_DEVICE, code, packages,
                          "opencl: no usable device: %s", instance->left_out);
  }
  const char *place = services->variable(services->host, "OCL_ICD_VENDORS");
  return services->fail(services->host, COMPUTE_ERROR_NO_DEVICE, code,
                        place ? "unset OCL_ICD_VENDORS, or set it to a folder with .icd files"
                              : packages,
                        "opencl: no driver is registered: no usable %s in %s%s",
                        PLATFORM_NAME(".icd file", "library"), opencl_vendors(services),
                        place ? " (OCL_ICD_VENDORS)" : "");
}

/* ---- Same device on two platforms ---------------------------------------------------------- */

/* The device's PCI address, from any extension that reports it; false if none does. */
static bool pci_place(const opencl_library *cl, cl_device_id id, uint32_t place[3]) {
  if (opencl_has_extension(cl, id, "cl_khr_pci_bus_info")) {
    cl_device_pci_bus_info_khr info;
    if (cl->clGetDeviceInfo(id, CL_DEVICE_PCI_BUS_INFO_KHR, sizeof info, &info, NULL) ==
        CL_SUCCESS) {
      place[0] = info.pci_domain;
      place[1] = info.pci_bus;
      place[2] = info.pci_device;
      return true;
    }
  }
  if (opencl_has_extension(cl, id, "cl_nv_device_attribute_query")) {
    enum { NV_BUS = 0x4008, NV_SLOT = 0x4009, NV_DOMAIN = 0x400A };
    place[0] = (uint32_t)opencl_number(cl, id, NV_DOMAIN, 4, 0);
    place[1] = (uint32_t)opencl_number(cl, id, NV_BUS, 4, UINT32_MAX);
    place[2] = (uint32_t)opencl_number(cl, id, NV_SLOT, 4, UINT32_MAX) >> 3;
    return place[1] != UINT32_MAX;
  }
  if (opencl_has_extension(cl, id, "cl_amd_device_attribute_query")) {
    cl_device_topology_amd info;
    if (cl->clGetDeviceInfo(id, CL_DEVICE_TOPOLOGY_AMD, sizeof info, &info, NULL) == CL_SUCCESS &&
        info.raw.type == CL_DEVICE_TOPOLOGY_TYPE_PCIE_AMD) {
      place[0] = 0;
      place[1] = (uint8_t)info.pcie.bus;
      place[2] = (uint8_t)info.pcie.device;
      return true;
    }
  }
  return false;
}

static bool same_device(const opencl_library *cl, cl_device_id a, cl_device_id b) {
  uint32_t place_a[3], place_b[3];
  if (pci_place(cl, a, place_a) && pci_place(cl, b, place_b))
    return memcmp(place_a, place_b, sizeof place_a) == 0;
  char name_a[OPENCL_TEXT], name_b[OPENCL_TEXT];
  opencl_text(cl, a, CL_DEVICE_NAME, name_a, sizeof name_a);
  opencl_text(cl, b, CL_DEVICE_NAME, name_b, sizeof name_b);
  return opencl_number(cl, a, CL_DEVICE_VENDOR_ID, 4, 0) ==
             opencl_number(cl, b, CL_DEVICE_VENDOR_ID, 4, 1) &&
         strcasecmp(name_a, name_b) == 0;
}

/* Finds this device among the listed devices of another platform. Two equal cards on one platform
 * are paired with two on the other: each listed device is matched once. */
static opencl_place *match_find(opencl_instance *instance, const opencl_place *place) {
  if (!(place->type & CL_DEVICE_TYPE_GPU)) return NULL;
  for (uint32_t i = 0; i < instance->count; i++) {
    opencl_place *other = &instance->places[i];
    if (other->platform == place->platform || other->matched) continue;
    if (!(other->type & CL_DEVICE_TYPE_GPU)) continue;
    if (same_device(instance->cl, other->id, place->id)) return other;
  }
  return NULL;
}

/* ---- Devices ------------------------------------------------------------------------------- */

static compute_status place_add(opencl_instance *instance, const opencl_place *place) {
  const compute_services *services = instance->services;
  if (instance->count == instance->capacity) {
    const uint32_t capacity = instance->capacity ? 2 * instance->capacity : 8;
    opencl_place *places = services->allocate(services->host, capacity * sizeof *places, 16);
    if (!places) return opencl_fail_memory(services, "the list of devices");
    if (instance->count) memcpy(places, instance->places, instance->count * sizeof *places);
    if (instance->places) services->release(services->host, instance->places);
    instance->places = places;
    instance->capacity = capacity;
  }
  instance->places[instance->count++] = *place;
  return COMPUTE_OK;
}

/* The reason why a device cannot be used, or NULL. */
static const char *device_refusal(const opencl_library *cl, cl_device_id id) {
  char version[OPENCL_TEXT];
  opencl_text(cl, id, CL_DEVICE_VERSION, version, sizeof version);
  if (opencl_version(version) < 12) return "its OpenCL is older than 1.2";
  if (!opencl_number(cl, id, CL_DEVICE_AVAILABLE, 4, 0))
    return "it reports that it is not available";
  if (!opencl_number(cl, id, CL_DEVICE_COMPILER_AVAILABLE, 4, 0)) return "its compiler is missing";
  if (!opencl_number(cl, id, CL_DEVICE_ENDIAN_LITTLE, 4, 1)) return "it is big-endian";
  return NULL;
}

/* The requested number of sub-devices per CPU device; 0 and 1: none. */
static uint32_t divisions_wanted(const compute_services *services) {
  const char *text = services->variable(services->host, "COMPUTE_OPENCL_SUBDEVICES");
  if (!text) return 0;
  char *end;
  const long value = strtol(text, &end, 10);
  if (*end == '\0' && value >= 0 && value <= 64) return (uint32_t)value;
  services->log(services->host, COMPUTE_LOG_WARNING, "opencl",
                "COMPUTE_OPENCL_SUBDEVICES=%s is ignored: it must be a whole number from 0 to 64",
                text);
  return 0;
}

/* Divides into parts that differ by at most one unit, or equally if the driver does not support
 * counts. */
static cl_int divide(const opencl_library *cl, cl_device_id id, uint32_t units, uint32_t parts,
                     cl_device_id *made) {
  cl_device_partition_property counts[68] = {CL_DEVICE_PARTITION_BY_COUNTS};
  for (uint32_t i = 0; i < parts; i++)
    counts[1 + i] = (cl_device_partition_property)(units / parts + (i < units % parts));
  counts[1 + parts] = CL_DEVICE_PARTITION_BY_COUNTS_LIST_END;
  cl_uint count = 0;
  cl_int code = cl->clCreateSubDevices(id, counts, parts, made, &count);
  if (code != CL_SUCCESS && units % parts == 0) {
    const cl_device_partition_property equally[] = {
        CL_DEVICE_PARTITION_EQUALLY, (cl_device_partition_property)(units / parts), 0};
    code = cl->clCreateSubDevices(id, equally, parts, made, &count);
  }
  if (code != CL_SUCCESS) return code;
  return count == parts ? CL_SUCCESS : CL_DEVICE_PARTITION_FAILED;
}

static compute_status parts_add(opencl_instance *instance, const opencl_place *whole,
                                uint32_t parts, bool *added) {
  const opencl_library *cl = instance->cl;
  const compute_services *services = instance->services;
  const uint32_t units = (uint32_t)opencl_number(cl, whole->id, CL_DEVICE_MAX_COMPUTE_UNITS, 4, 1);
  cl_device_id made[64] = {NULL};
  if (parts > units) parts = units;
  const cl_int code =
      parts > 1 ? divide(cl, whole->id, units, parts, made) : CL_DEVICE_PARTITION_FAILED;
  *added = code == CL_SUCCESS;
  if (!*added) {
    services->log(services->host, COMPUTE_LOG_WARNING, "opencl",
                  "a CPU device with %u compute units is not split: the driver refuses (%s)", units,
                  opencl_error_name(code));
    return COMPUTE_OK;
  }
  compute_status status = COMPUTE_OK;
  for (uint32_t i = 0; i < parts; i++) {
    opencl_place part = *whole;
    part.id = made[i];
    part.divided = true;
    if (status == COMPUTE_OK) status = place_add(instance, &part);
    if (status != COMPUTE_OK) cl->clReleaseDevice(made[i]);
  }
  return status;
}

static compute_status device_add(opencl_instance *instance, opencl_place *place, uint32_t parts) {
  const opencl_library *cl = instance->cl;
  place->type = opencl_number(cl, place->id, CL_DEVICE_TYPE, 8, CL_DEVICE_TYPE_ACCELERATOR);
  const char *refusal = device_refusal(cl, place->id);
  char name[OPENCL_TEXT];
  opencl_text(cl, place->id, CL_DEVICE_NAME, name, sizeof name);
  if (refusal) {
    instance->uncertain |= !opencl_number(cl, place->id, CL_DEVICE_AVAILABLE, 4, 0);
    leave_out(instance, "%.100s of platform %.80s: %s", name, place->platform_name, refusal);
    return COMPUTE_OK;
  }
  opencl_place *match = match_find(instance, place);
  if (match) {
    const bool better = place->own && !match->own;
    leave_out(instance, "%.100s of platform %.80s: listed by platform %.80s", name,
              better ? match->platform_name : place->platform_name,
              better ? place->platform_name : match->platform_name);
    if (better) *match = *place;
    match->matched = true;
    return COMPUTE_OK;
  }
  bool added = false;
  compute_status status = COMPUTE_OK;
  if (parts > 1 && (place->type & CL_DEVICE_TYPE_CPU))
    status = parts_add(instance, place, parts, &added);
  return status == COMPUTE_OK && !added ? place_add(instance, place) : status;
}

/* ---- Platforms ----------------------------------------------------------------------------- */

/* Multi-vendor drivers: the vendor's driver is preferred. */
static bool is_third_party(const char *name) {
  static const char *const names[] = {"Clover", "rusticl", "Portable Computing Language"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcasecmp(name, names[i]) == 0) return true;
  return false;
}

static compute_status platform_add(opencl_instance *instance, cl_platform_id platform,
                                   uint32_t parts) {
  const opencl_library *cl = instance->cl;
  opencl_place place = {.platform = platform};
  opencl_platform_text(cl, platform, CL_PLATFORM_NAME, place.platform_name,
                       sizeof place.platform_name);
  opencl_platform_text(cl, platform, CL_PLATFORM_VERSION, place.platform_version,
                       sizeof place.platform_version);
  if (!place.platform_name[0])
    snprintf(place.platform_name, sizeof place.platform_name, "without a name");
  place.pocl = strcasecmp(place.platform_name, "Portable Computing Language") == 0;
  place.own = !is_third_party(place.platform_name);
  if (!place.platform_version[0]) {
    leave_out(instance, "platform %.80s: its driver does not respond", place.platform_name);
    instance->uncertain = true;
    return COMPUTE_OK;
  }
  if (opencl_version(place.platform_version) < 12) {
    leave_out(instance, "platform %.80s: version '%.80s' is older than OpenCL 1.2",
              place.platform_name, place.platform_version);
    return COMPUTE_OK;
  }
  cl_device_id devices[MOST_DEVICES];
  cl_uint count = 0;
  const cl_int code =
      cl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MOST_DEVICES, devices, &count);
  if (code != CL_SUCCESS || count == 0) {
    instance->uncertain |= code != CL_SUCCESS && code != CL_DEVICE_NOT_FOUND;
    leave_out(instance, "platform %.80s: it has no device (%s)", place.platform_name,
              code != CL_SUCCESS ? opencl_error_name(code) : "an empty list");
    return COMPUTE_OK;
  }
  if (count > MOST_DEVICES) count = MOST_DEVICES;
  compute_status status = COMPUTE_OK;
  for (cl_uint i = 0; i < count && status == COMPUTE_OK; i++) {
    opencl_place candidate = place;
    candidate.id = devices[i];
    status = device_add(instance, &candidate, parts);
  }
  for (uint32_t i = 0; i < instance->count; i++) instance->places[i].matched = false;
  return status;
}

/* GPUs first, then accelerators, then CPUs; the order is stable. */
static int rank(const opencl_place *place) {
  if (place->type & CL_DEVICE_TYPE_GPU) return 0;
  return place->type & CL_DEVICE_TYPE_CPU ? 2 : 1;
}

static void sort_places(opencl_instance *instance) {
  for (uint32_t i = 1; i < instance->count; i++) {
    const opencl_place moved = instance->places[i];
    uint32_t at = i;
    for (; at > 0 && rank(&instance->places[at - 1]) > rank(&moved); at--)
      instance->places[at] = instance->places[at - 1];
    instance->places[at] = moved;
  }
}

compute_status opencl_enumerate(opencl_instance *instance) {
  cl_platform_id platforms[MOST_PLATFORMS];
  cl_uint count = 0;
  const cl_int code = instance->cl->clGetPlatformIDs(MOST_PLATFORMS, platforms, &count);
  instance->uncertain = code != CL_SUCCESS && code != CL_PLATFORM_NOT_FOUND_KHR;
  if (instance->uncertain)
    leave_out(instance, "the list of platforms fails (%s, %d)", opencl_error_name(code), code);
  if (code != CL_SUCCESS || count == 0) return no_device(instance, code);
  if (count > MOST_PLATFORMS) count = MOST_PLATFORMS;
  const uint32_t parts = divisions_wanted(instance->services);
  compute_status status = COMPUTE_OK;
  for (cl_uint i = 0; i < count && status == COMPUTE_OK; i++)
    status = platform_add(instance, platforms[i], parts);
  if (status == COMPUTE_OK && instance->count == 0) status = no_device(instance, code);
  if (status == COMPUTE_OK) sort_places(instance);
  return status;
}

void opencl_places_release(opencl_instance *instance) {
  for (uint32_t i = 0; i < instance->count; i++) {
    if (instance->places[i].divided) instance->cl->clReleaseDevice(instance->places[i].id);
  }
  if (instance->places) instance->services->release(instance->services->host, instance->places);
  instance->places = NULL;
  instance->count = 0;
}
