/* SPDX-License-Identifier: MIT */
/* The draws' one definition, compiled as plain C under another name, because the core's object may
 * be linked as well. tests/operations/test_random.c judges it by statistics, and pins numbers. */
#define draw_number draw_number_again
#include "../../../src/core/kernel/common/draw.c"
#include "support/reference/graph_evaluate.h"

double evaluate_draw(int code, double u, double b, double c) {
  return draw_number((compute_instruction_code)code, u, b, c);
}
