# SPDX-License-Identifier: MIT
# Writes kernels/*.h as C arrays: cmake -DOUTPUT=<file.c> -DSOURCES=<a.h,b.h,…> -P embed.cmake
# Removes comments and blank lines: only readers of the files need them.
string(REPLACE "," ";" SOURCES "${SOURCES}")
set(arrays "")
set(table "")
foreach(path ${SOURCES})
  get_filename_component(name ${path} NAME)
  string(MAKE_C_IDENTIFIER ${name} symbol)
  file(READ ${path} text)
  string(REGEX REPLACE "/\\*([^*]|\\*+[^*/])*\\*+/" "" text "${text}")
  string(REGEX REPLACE "[ \t]+\n" "\n" text "${text}")
  string(REGEX REPLACE "\n\n+" "\n" text "${text}")
  string(REGEX REPLACE "^\n+" "" text "${text}")
  string(LENGTH "${text}" length)
  string(HEX "${text}" bytes)
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "static const char ${symbol}[] = {\n${bytes}0};\n")
  string(APPEND table "    {\"${name}\", ${symbol}, sizeof ${symbol} - 1},\n")
endforeach()
set(content "/* Made from kernels/ by src/codegen/generate/embed.cmake. */
#include \"codegen/generate/emit/emit.h\"

${arrays}
const kernel_text kernel_texts[] = {
${table}    {0, 0, 0},
};
")
set(old "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} old)
endif()
if(NOT content STREQUAL old)
  file(WRITE ${OUTPUT} "${content}")
else()
  file(TOUCH ${OUTPUT})
endif()
