# SPDX-License-Identifier: MIT
# libcompute.a: the core and the CPU backend in one object, in which every symbol that is not public
# is local, so that a private name never meets one of the program's. CMakeLists.txt includes this
# file.

# The search for modules, compiled again with the CPU backend among them.
add_library(compute_with_cpu OBJECT src/core/device/module_search.c)
target_include_directories(compute_with_cpu PRIVATE include src)
target_compile_definitions(compute_with_cpu PRIVATE COMPUTE_WITH_CPU
  COMPUTE_MODULE_DIR="${CMAKE_INSTALL_FULL_LIBDIR}/compute")
target_link_libraries(compute_with_cpu PRIVATE compute_flags)

set(compute_static_objects $<TARGET_OBJECTS:compute_with_cpu> $<TARGET_OBJECTS:compute_cpu_objects>
  $<FILTER:$<TARGET_OBJECTS:compute_core>,EXCLUDE,/device/module_search\\.c>)
if(EMSCRIPTEN) # whose tools cannot make symbols local: private names of the library are visible
  add_library(compute STATIC ${compute_static_objects})
  set_target_properties(compute PROPERTIES LINKER_LANGUAGE C)
  target_link_options(compute INTERFACE ${compute_wasm_link})
  # No folder of libraries is searched by default; zlib and libmd lie beside this one.
  target_link_directories(compute INTERFACE $<INSTALL_INTERFACE:$<INSTALL_PREFIX>/${CMAKE_INSTALL_LIBDIR}>)
  return()
endif()
set(compute_static_object ${PROJECT_BINARY_DIR}/generated/libcompute.o)
add_custom_command(OUTPUT ${compute_static_object}
  COMMAND ${CMAKE_C_COMPILER} -r -nostdlib -o ${compute_static_object} ${compute_static_objects}
  COMMAND ${CMAKE_OBJCOPY} --localize-hidden --localize-symbol=compute_backend_entry
    ${compute_static_object}
  DEPENDS ${compute_static_objects}
  COMMAND_EXPAND_LISTS VERBATIM COMMENT "Making one object of the core and the CPU backend")
add_library(compute STATIC ${compute_static_object})
set_source_files_properties(${compute_static_object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
set_target_properties(compute PROPERTIES LINKER_LANGUAGE C)
target_link_options(compute INTERFACE ${compute_stack_option})
