/* Numbers in ZIP archives. */
#ifndef IO_ZIP_FORMAT_H
#define IO_ZIP_FORMAT_H

#include <stdint.h>

#define ZIP_LOCAL        0x04034b50u /* signatures */
#define ZIP_ENTRY        0x02014b50u
#define ZIP_END          0x06054b50u
#define ZIP_END64        0x06064b50u
#define ZIP_END64_PLACE  0x07064b50u
#define ZIP_LOCAL_BYTES  30u /* of the parts of fixed size */
#define ZIP_ENTRY_BYTES  46u
#define ZIP_END_BYTES    22u
#define ZIP_END64_BYTES  56u
#define ZIP_PLACE_BYTES  20u
#define ZIP_STORED       0
#define ZIP_DEFLATED     8
#define ZIP_ENCRYPTED    0x0041u /* flags: encrypted, strongly */
#define ZIP_SIZES_FOLLOW 0x0008u
#define ZIP_UTF8         0x0800u
#define ZIP_EXTRA_64     1 /* the extra field with sizes of 64 bits */

static inline uint64_t zip_load(const unsigned char *bytes, int size) {
  uint64_t value = 0;
  for (int i = size - 1; i >= 0; i--) value = value << 8 | bytes[i];
  return value;
}

static inline uint16_t zip_load16(const unsigned char *bytes) {
  return (uint16_t)zip_load(bytes, 2);
}

static inline uint32_t zip_load32(const unsigned char *bytes) {
  return (uint32_t)zip_load(bytes, 4);
}

/* Returns where the next number goes. */
static inline unsigned char *zip_store(unsigned char *bytes, uint64_t value, int size) {
  for (int i = 0; i < size; i++) bytes[i] = (unsigned char)(value >> 8 * i);
  return bytes + size;
}

#endif
