# SPDX-License-Identifier: MIT
# Makes plain text of links that lead from the installed pages below `pages` to files of the source tree.
file(GLOB_RECURSE files "${pages}/*.md")
foreach(file IN LISTS files)
  file(READ "${file}" text)
  string(REGEX REPLACE
    "\\[([^]\n]*)\\]\\((\\.\\./)*(backends|bench|include|kernels|src|tests)[^)\n]*\\)" "\\1" plain "${text}")
  if(NOT plain STREQUAL text)
    file(WRITE "${file}" "${plain}")
  endif()
endforeach()
