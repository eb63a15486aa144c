/* SPDX-License-Identifier: MIT */
/* See movie_scale.h. A resolution without a description is often a printer's (72 dots per inch), so
 * large pixels are not trusted. */
#include "programs/fit/movie_scale.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_NM           0.1
#define MOST_NM            1e6
#define MOST_OF_RESOLUTION 2e4

/* The size in nm of the unit at the start of `text`; 0: unknown. */
static double unit_at(const char *text) {
  static const struct {
    const char *name;
    double nm;
  } units[] = {{"nm", 1},          {"micron", 1e3},  {"um", 1e3},      {"\xc2\xb5m", 1e3},
               {"\xce\xbcm", 1e3}, {"&#181;m", 1e3}, {"&#xB5;m", 1e3}, {"\\u00B5m", 1e3},
               {"\xb5m", 1e3},     {"mm", 1e6},      {"cm", 1e7},      {"inch", 25.4e6},
               {"pm", 1e-3},       {"m\"", 1e9},     {"m'", 1e9}};
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (!strncmp(text, units[i].name, strlen(units[i].name))) return units[i].nm;
  return 0;
}

/* The value of an attribute, in single or double quotes; NULL if it is missing. */
static const char *attribute_of(const char *xml, const char *name) {
  const size_t length = strlen(name);
  for (const char *at = strstr(xml, name); at; at = strstr(at + 1, name)) {
    const char *value = at + length + strspn(at + length, " \t\r\n");
    if (*value != '=') continue;
    value += 1 + strspn(value + 1, " \t\r\n");
    if (*value == '"' || *value == '\'') return value + 1;
  }
  return NULL;
}

static double of_ome(const char *xml) {
  const char *number = attribute_of(xml, "PhysicalSizeX"),
             *unit = attribute_of(xml, "PhysicalSizeXUnit");
  return number ? strtod(number, NULL) * (unit ? unit_at(unit) : 1e3) : 0;
}

static double of_imagej(const char *text, double per_unit) {
  const char *unit = strstr(text, "\nunit=");
  return unit && per_unit > 0 ? unit_at(unit + 6) / per_unit : 0;
}

/* Rounds to six digits, because files store resolutions as floats. 0 if it is out of range. */
static double within(double nm, double most) {
  char text[32];
  if (!(nm >= LEAST_NM && nm <= most)) return 0;
  snprintf(text, sizeof text, "%.6g", nm);
  return strtod(text, NULL);
}

double movie_scale_nm(double nm) {
  return within(nm, MOST_NM);
}

double movie_scale(const char *description, double per_unit, double unit_nm) {
  double nm = 0;
  if (description && strstr(description, "PhysicalSizeX"))
    nm = of_ome(description);
  else if (description && !strncmp(description, "ImageJ=", 7))
    nm = of_imagej(description, per_unit);
  if (nm > 0) return within(nm, MOST_NM);
  return per_unit > 0 ? within(unit_nm / per_unit, MOST_OF_RESOLUTION) : 0;
}
