# SPDX-License-Identifier: MIT
# Runs compute-conformance on every device of a machine without an accelerator: the CPU with each
# instruction set, the null device (which refuses most cases), OpenCL on PoCL, and CUDA on the fake
# driver. tests/external_backend/run.sh runs it on a module from outside the tree. CMakeLists.txt
# includes this file.

# The test conformance_NAME runs the suite on a device, with the given arguments and environment,
# and the expectations of expect/FILE.txt.
function(compute_add_conformance name device expect labels)
  cmake_parse_arguments(given "" "" "ARGUMENTS;ENVIRONMENT" ${ARGN})
  set(test conformance_${name})
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/scratch/${test})
  add_test(NAME ${test} COMMAND compute-conformance ${given_ARGUMENTS}
    --expect ${CMAKE_CURRENT_SOURCE_DIR}/backend/expect/${expect}.txt
    --json ${CMAKE_CURRENT_BINARY_DIR}/scratch/${test}/report.json ${device})
  set_tests_properties(${test} PROPERTIES LABELS "${labels}" TIMEOUT ${hang}
    ENVIRONMENT "${test_environment};COMPUTE_TUNING_FILE=none;${given_ENVIRONMENT}")
  add_custom_target(${test} DEPENDS compute-conformance compute-cpu compute-null) # for sanitize.sh
endfunction()

compute_add_conformance(cpu cpu cpu "quick;default;full")
compute_add_conformance(null null null "quick;default;full")

if(COMPUTE_SANITIZE) # the rest repeats tests
  return()
endif()

# They alternate daily, like the variants in opencl.cmake and cuda.cmake.
foreach(set ${instruction_sets})
  compute_add_conformance(cpu_${set} cpu cpu "default;full;odd" ENVIRONMENT COMPUTE_CPU_ISA=${set})
endforeach()

if(TARGET opencl_layer)
  compute_add_conformance(opencl opencl:0 opencl "default;full;even"
    ARGUMENTS --hooks ${opencl_layer} ENVIRONMENT ${opencl_environment}
    "POCL_EXTRA_BUILD_FLAGS=${opencl_builtins}")
  # With all of PoCL's declarations.
  compute_add_conformance(opencl_gpu opencl:0 opencl_gpu "full;even"
    ARGUMENTS --hooks ${opencl_layer} ENVIRONMENT ${opencl_environment} COMPUTE_TEST_LAYER=gpu=1
    POCL_EXTRA_BUILD_FLAGS=)
  compute_add_conformance(opencl_full opencl:0 opencl "full;even"
    ARGUMENTS --hooks ${opencl_layer} --full ENVIRONMENT ${opencl_environment} COMPUTE_TEST_SPREAD=4)
endif()

if(TARGET cuda_stand_in_driver)
  set(on_fake ${cuda_environment} COMPUTE_TEST_CUDA=device_count=2)
  compute_add_conformance(cuda cuda:0 cuda "default;full;odd"
    ARGUMENTS --hooks libcuda.so.1 ENVIRONMENT ${on_fake} COMPUTE_TEST_SPREAD=10)
  compute_add_conformance(cuda_full cuda:0 cuda "full;odd"
    ARGUMENTS --hooks libcuda.so.1 --full ENVIRONMENT ${on_fake} COMPUTE_TEST_SPREAD=3)
endif()

add_library(compute-broken MODULE backend/broken.c)
target_link_libraries(compute-broken PRIVATE compute_flags ${CMAKE_DL_LIBS})
target_include_directories(compute-broken PRIVATE ${PROJECT_SOURCE_DIR}/include)
set_target_properties(compute-broken PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/broken)
compute_add_script(conformance_notices backend/notices.sh "quick;default;full")
