# The CUDA backend without a GPU: the suites of the CPU backend once more on a stand-in for the
# driver and NVRTC (cuda_driver/), which LD_LIBRARY_PATH puts in their place. CMakeLists.txt includes
# this file.

if(NOT TARGET compute-cuda)
  return()
endif()

set(cuda_stand_in ${CMAKE_CURRENT_BINARY_DIR}/cuda_stand_in)
set(kernel_texts ${CMAKE_BINARY_DIR}/generated/kernel_texts.c)
set_source_files_properties(${kernel_texts} PROPERTIES GENERATED TRUE)

add_library(cuda_stand_in_driver SHARED cuda_driver/control.c cuda_driver/devices.c
  cuda_driver/memory.c cuda_driver/stream.c cuda_driver/copy.c cuda_driver/kernels.c
  cuda_driver/object.c support/emulator.c ${kernel_texts})
set_target_properties(cuda_stand_in_driver PROPERTIES OUTPUT_NAME cuda SOVERSION 1)
add_library(cuda_stand_in_nvrtc SHARED cuda_driver/nvrtc.c cuda_driver/object.c ${kernel_texts})
set_target_properties(cuda_stand_in_nvrtc PROPERTIES OUTPUT_NAME nvrtc SOVERSION 13)
foreach(target cuda_stand_in_driver cuda_stand_in_nvrtc)
  add_dependencies(${target} compute_core) # which makes the kernels' text
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(${target} PRIVATE
    STAND_IN_OBJECTS="${CMAKE_CURRENT_BINARY_DIR}/cuda_objects"
    STAND_IN_COMPILER="${CMAKE_C_COMPILER}")
  target_link_libraries(${target} PRIVATE compute_flags Threads::Threads ${CMAKE_DL_LIBS})
  target_link_options(${target} PRIVATE -Wl,-Bsymbolic)
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${cuda_stand_in}
    C_VISIBILITY_PRESET hidden)
endforeach()

set(cuda_environment
  LD_LIBRARY_PATH=${cuda_stand_in}
  COMPUTE_CACHE_DIR=${CMAKE_CURRENT_BINARY_DIR}/cache_cuda
  COMPUTE_TUNING_FILE=none)

foreach(source ${sources})
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(room ${folder} NAME)
  if(NOT room STREQUAL cuda)
    continue()
  endif()
  get_filename_component(name ${source} NAME_WE)
  string(REGEX REPLACE "^test_" "cuda_" name ${name})
  add_dependencies(${name} cuda_stand_in_driver cuda_stand_in_nvrtc)
  target_compile_definitions(${name} PRIVATE TEST_CUDA_STAND_IN="${cuda_stand_in}")
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT ${cuda_environment})
endforeach()

if(COMPUTE_SANITIZE) # the rest repeats tests
  return()
endif()

# The same programs on the device. Nothing may be left to the CPU.
set(on_device COMPUTE_TEST_DEVICE=cuda:0 COMPUTE_TEST_STRICT=1 COMPUTE_TEST_SPREAD=5
  ${cuda_environment})
foreach(name cast elementwise gradients indexed matmul random_graphs reduction row sources
        structural eager)
  compute_add_variant(operations_${name} cuda "${on_device}")
  compute_record_errors(operations_${name}_cuda operations_${name})
endforeach()
foreach(name plan_run plan_bindings plan_training graph_eager graph_gradients
        graph_gradient_cases graph_optimizer tensor_tensor tensor_tensor_copy tensor_tensor_fill
        tensor_tensor_view public_use)
  compute_add_variant(${name} cuda "${on_device}")
endforeach()
