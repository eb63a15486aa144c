/* Names of backends and devices, as users and files write them. */
#ifndef DEVICE_NAMES_H
#define DEVICE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest backend name and its zero: leaves room for ":4294967295" in compute_device_info.name. */
#define NAMES_BACKEND_BYTES 21

/* Lower-case letters, digits and '_', at least one, short enough. */
bool names_backend_is_valid(const char *name);

/* Whether every entry of "cpu,cuda" is a valid backend name; empty entries are passed over. */
bool names_list_is_valid(const char *list);

/* Whether the list names the backend; a list that is NULL or empty names all. */
bool names_list_contains(const char *list, const char *name);

/* Splits "cuda:1" into backend and index; without ":1", *index is −1. False if it is no device
 * name. */
bool names_device_parse(const char *text, char backend[NAMES_BACKEND_BYTES], int64_t *index);

#endif
