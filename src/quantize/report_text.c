/* SPDX-License-Identifier: MIT */
/* A report as text, JSON and a picture. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/json.h"
#include "core/base/real.h"
#include "quantize/report.h"

size_t compute_quantize_report_count(const compute_quantize_report *report) {
  return report ? report->count : 0;
}

compute_status compute_quantize_report_at(const compute_quantize_report *report, size_t index,
                                          compute_quantize_layer *layer) {
  static const char operation[] = "compute_quantize_report_at";
  const compute_status status = error_if_null(NULL, operation, report, layer);
  if (status) return status;
  if (index >= report->count)
    return error_set(NULL, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "there is no layer %zu; the report has %zu", index, report->count);
  *layer = report->layers[index];
  return COMPUTE_OK;
}

void compute_quantize_report_release(compute_quantize_report *report) {
  if (!report) return;
  arena_release(&report->memory);
  base_release(report);
}

/* ---- Text ------------------------------------------------------------------------------------ */

static const char *number_text(double value, int digits, char text[REAL_TEXT_BYTES]) {
  return isfinite(value) ? real_decimal(value, digits, text) : isnan(value) ? "-" : "inf";
}

/* Writes at most `most` characters of a name. Control characters cannot be shown, and markup is
 * escaped in a picture. */
static void put_name(text_buffer *text, const char *words, size_t most, bool markup) {
  for (; *words && most > 0; most--) {
    const size_t length = utf8_length(words);
    const unsigned char first = (unsigned char)*words;
    if (markup && *words == '<')
      text_add(text, "&lt;");
    else if (markup && *words == '&')
      text_add(text, "&amp;");
    else if (length == 0 || first < 32 || first == 127 ||
             (first == 0xc2 && (unsigned char)words[1] < 0xa0))
      text_add(text, UTF8_REPLACEMENT);
    else
      text_add(text, "%.*s", (int)length, words);
    words += length ? length : 1;
  }
}

static void put_table(const compute_quantize_report *r, text_buffer *text) {
  char a[REAL_TEXT_BYTES], b[REAL_TEXT_BYTES], from[32], to[32];
  size_t quantized = 0;
  for (size_t i = 0; i < r->count; i++) quantized += r->layers[i].quantized;
  text_add(text, "%zu of %zu layers quantized; %s instead of %s\n", quantized,
           r->count - r->outputs, bytes_text(r->made_bytes, to, sizeof to),
           bytes_text(r->source_bytes, from, sizeof from));
  text_add(text, "%10s %10s  %-20s %s\n", "relative", "largest", "operator", "value");
  for (size_t i = 0; i < r->count; i++) {
    const compute_quantize_layer *l = &r->layers[i];
    text_add(text, "%10s %10s  ", number_text(l->relative_error, 3, a),
             number_text(l->largest_error, 3, b));
    put_name(text, l->operation, SIZE_MAX, false);
    text_add(text, "%*s", (int)(strlen(l->operation) < 20 ? 21 - strlen(l->operation) : 1), "");
    put_name(text, l->name, SIZE_MAX, false);
    text_add(text, "%s%s\n", l->reason[0] ? l->quantized ? ": " : ": kept, " : "", l->reason);
  }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_error(text_buffer *text, const char *name, double value) {
  if (isfinite(value))
    json_put_number(text, name, value);
  else
    text_add(text, ", \"%s\": null", name);
}

static void put_json(const compute_quantize_report *r, text_buffer *text) {
  text_add(text, "{\"source_bytes\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"layers\": [",
           r->source_bytes, r->made_bytes);
  for (size_t i = 0; i < r->count; i++) {
    const compute_quantize_layer *l = &r->layers[i];
    text_add(text, "%s\n  {", i ? "," : "");
    json_put_member(text, "name", l->name);
    text_add(text, ", ");
    json_put_member(text, "operator", l->operation);
    text_add(text, ", \"quantized\": %s, ", l->quantized ? "true" : "false");
    json_put_member(text, "reason", l->reason);
    put_error(text, "relative_error", l->relative_error);
    put_error(text, "largest_error", l->largest_error);
    text_add(text, "}");
  }
  text_add(text, "\n]}\n");
}

/* ---- Picture --------------------------------------------------------------------------------- */

enum { ROW = 16, LEFT = 320, WIDTH = 400, TOP = 40, MOST_ROWS = 1000, MOST_CHARACTERS = 44 };

/* The length of a bar: 0 for 10⁻⁵ and less, the width for 1 and more. */
static int bar_of(double error) {
  if (!(error > 1e-5)) return 0;
  return error >= 1 ? WIDTH : (int)((log10(error) + 5) / 5 * WIDTH);
}

static void put_bar(const compute_quantize_layer *l, size_t row, text_buffer *text) {
  char number[REAL_TEXT_BYTES];
  const int y = TOP + (int)row * ROW, length = bar_of(l->relative_error);
  text_add(text, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", LEFT - 6, y + 12);
  put_name(text, l->name, MOST_CHARACTERS, true);
  text_add(text, " ");
  put_name(text, l->operation, MOST_CHARACTERS, true);
  text_add(text, "</text>\n<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n",
           LEFT, y + 2, length, ROW - 4, l->quantized ? "#3b6ea5" : "#b0b0b0");
  text_add(text, "<text x=\"%d\" y=\"%d\">%s</text>\n", LEFT + length + 4, y + 12,
           number_text(l->relative_error, 3, number));
}

static void put_picture(const compute_quantize_report *r, text_buffer *text) {
  const size_t rows = r->count < MOST_ROWS ? r->count : MOST_ROWS;
  text_add(text,
           "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
           "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" "
           "fill=\"white\"/>\n",
           LEFT + WIDTH + 80, TOP + (int)rows * ROW + 8);
  text_add(text, "<text x=\"6\" y=\"16\">Error of each layer relative to its root mean square "
                 "(logarithmic, 0.00001 to 1); grey: f32</text>\n");
  for (size_t i = 0; i < rows; i++) put_bar(&r->layers[i], i, text);
  text_add(text, "</svg>\n");
}

compute_status compute_quantize_report_text(const compute_quantize_report *report,
                                            compute_quantize_format format, char **text) {
  static const char operation[] = "compute_quantize_report_text";
  FLOAT_ENVIRONMENT_DEFAULT;
  text_buffer made = {0};
  const compute_status status = error_if_null(NULL, operation, report, text);
  if (status) return status;
  switch (format) {
  case COMPUTE_REPORT_TEXT: put_table(report, &made); break;
  case COMPUTE_REPORT_JSON: put_json(report, &made); break;
  case COMPUTE_REPORT_SVG: put_picture(report, &made); break;
  default:
    return error_set(NULL, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "format %d does not exist",
                     (int)format);
  }
  if (!made.failed) {
    *text = made.data;
    return COMPUTE_OK;
  }
  text_release(&made);
  return error_set(NULL, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
}
