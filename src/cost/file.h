/* SPDX-License-Identifier: MIT */
/* The file of costs: a text beside the tuning file with a line for each device,
 *
 *   costs 1 <key> <model> <launch> <wait> stream=12288:1100,786432:15300 … <checksum>
 *
 * that is: the format's version; a number made of all that identifies the device, its threads and
 * the library's version, in hexadecimal; its model in words; picoseconds of a launch and of a wait;
 * for each class that was measured its points, work:picoseconds; the CRC-32 of all before the last
 * space. Only ever appended to; the last good line of a device is in force, and whatever is not a
 * good line is passed over. */
#ifndef COST_FILE_H
#define COST_FILE_H

#include "device/device.h"
#include "cost/costs.h"

enum { COSTS_REASON_BYTES = 256, COSTS_LINE_BYTES = 4096 };

/* The path, to be freed with base_release; NULL if there is none or memory is short. */
char *costs_file_path(const compute_context *context);

/* Whether the file has figures for this device. */
bool costs_file_find(const compute_device *device, device_costs *costs);

/* Appends a line. `reason` has COSTS_REASON_BYTES. */
compute_status costs_file_add(const compute_device *device, const device_costs *costs,
                              char *reason);

/* A line with its end, into COSTS_LINE_BYTES; its length. And back, without its end: whether it is
 * a good line for `key`. */
size_t costs_line_print(uint64_t key, const char *model, const device_costs *costs, char *line);
bool costs_line_parse(const char *line, size_t length, uint64_t key, device_costs *costs);

/* The last good line for `key` in a text. */
bool costs_text_find(const char *text, size_t bytes, uint64_t key, device_costs *costs);

#endif
