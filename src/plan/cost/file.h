/* SPDX-License-Identifier: MIT */
/* The file of costs: a text next to the tuning file with a line for each device,
 *
 *   costs 1 <key> <model> <launch> <wait> stream=12288:1100,786432:15300 … <checksum>
 *
 * that is: the format's version; a hash of everything that identifies the device, its threads and
 * the library's version, in hexadecimal; its model as text; picoseconds of a launch and of a wait;
 * for each class that was measured its points, work:picoseconds; the CRC-32 of all before the last
 * space. The file is append-only; the last valid line of a device is in effect, and invalid lines
 * are skipped. */
#ifndef COST_FILE_H
#define COST_FILE_H

#include "core/device/device.h"
#include "plan/cost/costs.h"

enum { COSTS_REASON_BYTES = 256, COSTS_LINE_BYTES = 4096 };

/* The path; free it with base_release. NULL if there is none or when out of memory. */
char *costs_file_path(const compute_context *context);

/* Whether the file has figures for this device. */
bool costs_file_find(const compute_device *device, device_costs *costs);

/* Appends a line. `reason` has COSTS_REASON_BYTES. */
compute_status costs_file_add(const compute_device *device, const device_costs *costs,
                              char *reason);

/* A line with its end, into COSTS_LINE_BYTES; its length. And back, without its end: whether it is
 * a valid line for `key`. */
size_t costs_line_print(uint64_t key, const char *model, const device_costs *costs, char *line);
bool costs_line_parse(const char *line, size_t length, uint64_t key, device_costs *costs);

/* The last valid line for `key` in a text. */
bool costs_text_find(const char *text, size_t bytes, uint64_t key, device_costs *costs);

#endif
