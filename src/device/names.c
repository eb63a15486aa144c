/* Names of backends and devices. Only plain ASCII: names end up in file names and messages. */
#include "device/names.h"

#include <string.h>

static bool name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

static bool name_span_is_valid(const char *name, size_t length) {
  if (length == 0 || length >= NAMES_BACKEND_BYTES) return false;
  for (size_t i = 0; i < length; i++) {
    if (!name_character(name[i])) return false;
  }
  return true;
}

bool names_backend_is_valid(const char *name) {
  return name_span_is_valid(name, strlen(name));
}

bool names_list_is_valid(const char *list) {
  for (const char *entry = list; *entry;) {
    size_t length = strcspn(entry, ",");
    if (length > 0 && !name_span_is_valid(entry, length)) return false;
    entry += length;
    if (*entry == ',') entry++;
  }
  return true;
}

bool names_list_contains(const char *list, const char *name) {
  if (!list || !*list) return true;
  size_t name_length = strlen(name);
  for (const char *entry = list; *entry;) {
    size_t length = strcspn(entry, ",");
    if (length == name_length && memcmp(entry, name, length) == 0) return true;
    entry += length;
    if (*entry == ',') entry++;
  }
  return false;
}

bool names_device_parse(const char *text, char backend[NAMES_BACKEND_BYTES], int64_t *index) {
  size_t length = strcspn(text, ":");
  if (!name_span_is_valid(text, length)) return false;
  memcpy(backend, text, length);
  backend[length] = '\0';
  *index = -1;
  if (text[length] == '\0') return true;
  const char *digits = text + length + 1;
  size_t digit_count = strspn(digits, "0123456789");
  if (digit_count == 0 || digit_count > 9 || digits[digit_count] != '\0') return false;
  *index = 0;
  for (size_t i = 0; i < digit_count; i++) *index = *index * 10 + (digits[i] - '0');
  return true;
}
