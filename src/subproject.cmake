# SPDX-License-Identifier: MIT
# What a project around this one needs, and a build of its own does not.

# The library opens its modules at run time: who links it needs them built.
get_property(modules GLOBAL PROPERTY COMPUTE_MODULE_TARGETS)
if(modules)
  add_dependencies(compute ${modules})
endif()

# The targets that libcompute.a names exist in the folders of this project only.
if(NOT BUILD_SHARED_LIBS)
  foreach(library Threads::Threads ZLIB::ZLIB)
    get_target_property(is_global ${library} IMPORTED_GLOBAL)
    if(NOT is_global)
      set_target_properties(${library} PROPERTIES IMPORTED_GLOBAL TRUE)
    endif()
  endforeach()
endif()
