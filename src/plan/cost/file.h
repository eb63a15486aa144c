/* SPDX-License-Identifier: MIT */
/* The file of costs: a text file next to the tuning file, with one line per device,
 *
 *   costs 1 <key> <model> <launch> <wait> stream=12288:1100,786432:15300 … <checksum>
 *
 * The fields are: the version of the format; a hexadecimal hash of everything that identifies the
 * device, its threads and the library's version; the model as text; picoseconds of a launch and of
 * a wait; the points (work:picoseconds) of each measured class; the CRC-32 of everything before the
 * last space. The file is append-only. The last valid line of a device is in effect; invalid lines
 * are skipped. */
#ifndef COST_FILE_H
#define COST_FILE_H

#include "core/device/device.h"
#include "plan/cost/costs.h"

enum { COSTS_REASON_BYTES = 256, COSTS_LINE_BYTES = 4096 };

/* Returns the path; free it with base_release. NULL if there is none or when out of memory. */
char *costs_file_path(const compute_context *context);

/* Reads the device's costs from the file; false if it has none. */
bool costs_file_find(const compute_device *device, device_costs *costs);

/* Appends a line. `reason` has room for COSTS_REASON_BYTES. */
compute_status costs_file_add(const compute_device *device, const device_costs *costs,
                              char *reason);

/* `costs_line_print` writes a line with its newline to a buffer of COSTS_LINE_BYTES and returns its
 * length. `costs_line_parse` reads a line without its newline and returns true if it is valid for
 * `key`. */
size_t costs_line_print(uint64_t key, const char *model, const device_costs *costs, char *line);
bool costs_line_parse(const char *line, size_t length, uint64_t key, device_costs *costs);

/* Finds the last valid line for `key` in a text. */
bool costs_text_find(const char *text, size_t bytes, uint64_t key, device_costs *costs);

#endif
