/* One line of a tuning file: what kernels of a class run best with on a device.
 *
 *   tuning 1 "opencl" "Vendor" "Model" "Driver 3.1" map/f32>f32/in2.dense/n20 vector=4 81234
 * 9f27c1aa
 *
 * that is: the format's version; the device as its backend, vendor, model and driver name it; the
 * class (kernel_class.h); the parameters (parameters.h); the time of one kernel in nanoseconds; the
 * CRC-32 of all before the last space, in hexadecimal. Between quotes stand printable ASCII
 * characters; "\"", "\\" and everything else is \x and two hexadecimal digits.
 *
 * A device that changes its driver is another device: what was best may have changed with it. */
#ifndef TUNE_ENTRY_H
#define TUNE_ENTRY_H

#include "compute/backend.h"

#define ENTRY_VERSION        1
#define ENTRY_IDENTITY_BYTES 1536 /* every text of a target escaped */
#define ENTRY_LINE_BYTES     2560

/* Texts are zero-terminated and belong to somebody else. */
typedef struct tuning_entry {
  const char *identity; /* of the device, as it stands in the line */
  const char *kernel_class;
  compute_tuning tuning;
  uint64_t nanoseconds;
} tuning_entry;

typedef enum entry_state {
  ENTRY_GOOD = 0,
  ENTRY_DAMAGED = 1,
  ENTRY_FOREIGN = 2 /* of another version of the format */
} entry_state;

/* The device's part of a line, into `text` of ENTRY_IDENTITY_BYTES, which is returned. */
char *entry_identity(const compute_target *target, char *text);

/* Reads the `length` bytes of a line without its end. When it is good, zeros are put behind the
 * parts that `entry` then points to; otherwise nothing is changed. */
entry_state entry_parse(char *line, size_t length, tuning_entry *entry);

/* The line with its end, into `text` of ENTRY_LINE_BYTES; its length. */
size_t entry_print(const tuning_entry *entry, char *text);

#endif
