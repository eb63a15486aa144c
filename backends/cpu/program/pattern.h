/* SPDX-License-Identifier: MIT */
/* Patterns of programs. A pattern is a tree of instructions, some of them optional, whose leaves are
 * roles: inputs and numbers. One function compares programs with all of them.
 *
 * A pattern is written with the macros below as an expression, which becomes text in postfix form:
 * "i1r0*" is the product of IN(1) and REPEATED(0). Operands have the program's order. */
#ifndef CPU_PROGRAM_PATTERN_H
#define CPU_PROGRAM_PATTERN_H

#include "program/program.h"

/* Leaves. IN and REPEATED load inputs of the dtype that the caller names; REPEATED may also be a
 * constant, and NUMBER is one. FIRST loads input 0 as f32. */
#define IN(n)       "i" #n
#define REPEATED(n) "r" #n
#define NUMBER(n)   "n" #n
#define FIRST       "x"
#define VALUE(n)    "v" #n /* the value of output n */
/* Input 0, of i32, plus or minus terms of other inputs (cpu_requantize_term_i32). */
#define FIRST_AND_TERMS "t"
/* Loads input n of bytes; for one of them also an f32 that is converted to i32 and limited to a
 * byte's range. */
#define BYTES(n) "b" #n

/* Instructions of f32. */
#define OUT(n, e)       e "o" #n
#define ADD(a, b)       a b "+"
#define SUB(a, b)       a b "-"
#define MUL(a, b)       a b "*"
#define DIV(a, b)       a b "/"
#define SQUARE(a)       a "q"
#define SQRT(a)         a "s"
#define RELU(a)         a "m"
#define LE(a, b)        a b "<"
#define SELECT(c, a, b) c a b "?"
#define ROUND(a)        a "u"
#define TO_F32(a)       a "c"
#define AT_LEAST(a, n)  a "n" #n "l" /* a maximum with NUMBER(n), or relu */
#define AT_MOST(a, n)   a "n" #n "h&"

/* The last instruction of `e` may have swapped operands; it may be missing, and its first operand
 * takes its place. */
#define EITHER(e) e "&"
#define MAYBE(e)  e "~"

/* The end of programs that round a value to quantized bytes. */
#define REQUANTIZED(e)                                                                             \
  MAYBE(EITHER(                                                                                    \
      ADD(ROUND(MAYBE(DIV(MAYBE(AT_MOST(MAYBE(AT_LEAST(e, 0)), 1)), NUMBER(2)))), NUMBER(3))))

enum { CPU_PATTERN_TOKENS = 64 };

/* Compares a program with a pattern: each OUT, or the only output. */
bool cpu_pattern_match(const char *pattern, const compute_program *program,
                       const compute_dtype *inputs, compute_dtype dtype, cpu_match *match);

#endif
