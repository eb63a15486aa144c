# SPDX-License-Identifier: MIT
# The CUDA backend without a GPU: the suites of the CPU backend again, on a simulated driver and
# NVRTC (cuda_driver/), which LD_LIBRARY_PATH selects. CMakeLists.txt includes this file.

if(NOT TARGET compute-cuda)
  return()
endif()

set(cuda_stand_in ${CMAKE_CURRENT_BINARY_DIR}/cuda_stand_in)
set(kernel_texts ${CMAKE_BINARY_DIR}/generated/kernel_texts.c)
set_source_files_properties(${kernel_texts} PROPERTIES GENERATED TRUE)

add_library(cuda_stand_in_driver SHARED cuda_driver/control.c cuda_driver/devices.c
  cuda_driver/memory.c cuda_driver/stream.c cuda_driver/copy.c cuda_driver/kernels.c
  cuda_driver/object.c cuda_driver/bridge.c cuda_driver/hooks.c support/emulator/emulator.c ${kernel_texts})
set_target_properties(cuda_stand_in_driver PROPERTIES OUTPUT_NAME cuda SOVERSION 1)
add_library(cuda_stand_in_nvrtc SHARED cuda_driver/nvrtc.c cuda_driver/object.c process/slow_load.c
  ${kernel_texts})
set_target_properties(cuda_stand_in_nvrtc PROPERTIES OUTPUT_NAME nvrtc SOVERSION 13)
foreach(target cuda_stand_in_driver cuda_stand_in_nvrtc)
  add_dependencies(${target} compute_core) # generates the kernels' text
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

# NVIDIA's libraries have a separate folder: most tests run without them, whatever the machine has.
set(cuda_libraries ${CMAKE_CURRENT_BINARY_DIR}/cuda_stand_in_libraries)
add_library(cuda_stand_in_cublaslt SHARED cuda_driver/libraries/cublaslt.c
  cuda_driver/libraries/library.c process/slow_load.c)
set_target_properties(cuda_stand_in_cublaslt PROPERTIES OUTPUT_NAME cublasLt SOVERSION 13)
add_library(cuda_stand_in_cudnn SHARED cuda_driver/libraries/cudnn.c
  cuda_driver/libraries/cudnn_convolution.c cuda_driver/libraries/library.c)
set_target_properties(cuda_stand_in_cudnn PROPERTIES OUTPUT_NAME cudnn SOVERSION 9)
add_library(cuda_stand_in_nccl SHARED cuda_driver/libraries/nccl.c
  cuda_driver/libraries/library.c)
set_target_properties(cuda_stand_in_nccl PROPERTIES OUTPUT_NAME nccl SOVERSION 2)
foreach(target cuda_stand_in_cublaslt cuda_stand_in_cudnn cuda_stand_in_nccl)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}
    ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${target} PRIVATE compute_flags Threads::Threads ${CMAKE_DL_LIBS} m)
  target_link_options(${target} PRIVATE -Wl,-Bsymbolic)
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${cuda_libraries}
    C_VISIBILITY_PRESET hidden)
endforeach()

# The keys of the disk cache do not cover the simulated compiler, so each state of its sources has a
# separate cache, and earlier ones are removed.
file(GLOB cuda_emulator CONFIGURE_DEPENDS cuda_driver/*.[ch] support/emulator/*.[ch]
  ${PROJECT_SOURCE_DIR}/kernels/dialect_*.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${cuda_emulator})
set(cuda_emulator_hash)
foreach(source ${cuda_emulator})
  file(SHA256 ${source} hash)
  string(SHA256 cuda_emulator_hash "${cuda_emulator_hash}${hash}")
endforeach()
string(SUBSTRING "${cuda_emulator_hash}" 0 12 cuda_emulator_hash)
set(cuda_cache ${CMAKE_CURRENT_BINARY_DIR}/cache_cuda_${cuda_emulator_hash})
file(GLOB earlier_caches ${CMAKE_CURRENT_BINARY_DIR}/cache_cuda*)
list(REMOVE_ITEM earlier_caches ${cuda_cache})
if(earlier_caches)
  file(REMOVE_RECURSE ${earlier_caches})
endif()

set(cuda_environment
  LD_LIBRARY_PATH=${cuda_stand_in}
  COMPUTE_CUDA_LIBRARIES=none
  COMPUTE_CACHE_DIR=${cuda_cache}
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

set(cuda_with_libraries ${cuda_environment} LD_LIBRARY_PATH=${cuda_libraries}:${cuda_stand_in}
  COMPUTE_CUDA_LIBRARIES=cublas,cudnn)
foreach(name cuda_libraries cuda_library_plans cuda_group)
  add_dependencies(${name} cuda_stand_in_cublaslt cuda_stand_in_cudnn cuda_stand_in_nccl)
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT ${cuda_with_libraries})
endforeach()

set(variant_labels quick default full)
add_dependencies(process_fork_in_load cuda_stand_in_driver cuda_stand_in_nvrtc cuda_stand_in_cublaslt)
compute_add_variant(process_fork_in_load cuda "COMPUTE_TEST_DEVICE=cuda:0;${cuda_with_libraries}")

set(variant_labels default full)
set_tests_properties(cuda_group PROPERTIES LABELS "default;full") # it waits for time limits
compute_add_variant(cuda_group without_nccl "${cuda_environment}")
set(variant_labels default full odd) # opencl.cmake's are for the even days
compute_add_variant(group_collectives cuda "COMPUTE_TEST_DEVICE=cuda:0;${cuda_environment}")

# Only this test needs the vendor's headers: it compares our declarations with them.
foreach(pair cuda.h:HAVE_CUDA_H nvrtc.h:HAVE_NVRTC_H cublasLt.h:HAVE_CUBLASLT_H
        cudnn_graph.h:HAVE_CUDNN_H nccl.h:HAVE_NCCL_H)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 header)
  list(GET pair 1 define)
  find_path(COMPUTE_${define} ${header} PATHS /usr/local/cuda/include)
  mark_as_advanced(COMPUTE_${define})
  if(COMPUTE_${define})
    target_include_directories(cuda_vendor_headers SYSTEM PRIVATE ${COMPUTE_${define}})
    target_compile_definitions(cuda_vendor_headers PRIVATE ${define})
  endif()
endforeach()

# This test measures time.
set_tests_properties(cuda_batch PROPERTIES RUN_SERIAL TRUE)

if(COMPUTE_SANITIZE) # the rest repeats tests
  return()
endif()

# The same programs on the device, without fallback to the CPU.
set(on_device COMPUTE_TEST_DEVICE=cuda:0 COMPUTE_TEST_STRICT=1 COMPUTE_TEST_SPREAD=10
  ${cuda_environment})
# Each program costs a run of the C compiler, so it takes another share of the samples than PoCL.
compute_add_operation_variants(cuda cuda "${on_device}" COMPUTE_TEST_SAMPLES=6)
compute_add_variant(operations_row cuda_locale
  "${on_device};COMPUTE_TEST_SAMPLES=6;COMPUTE_TEST_LOCALE=tr_TR.UTF-8;LOCPATH=${CMAKE_CURRENT_BINARY_DIR}/locales;COMPUTE_CACHE_DIR=${CMAKE_CURRENT_BINARY_DIR}/cache_cuda_locale")
foreach(name plan_run plan_call plan_bindings plan_dump plan_index_errors graph_gradients
        graph_gradient_cases graph_optimizer tensor_tensor tensor_tensor_copy tensor_tensor_fill
        tensor_tensor_view tensor_dlpack public_use batch_batch batch_progress batch_steps
        fit_spots fit_run fit_frames fit_graph nn_initialise nn_layers nn_networks nn_weights train_dataset
        train_call)
  compute_add_variant(${name} cuda "${on_device}")
endforeach()
# They write to one folder.
set_tests_properties(plan_dump plan_dump_cuda PROPERTIES RESOURCE_LOCK plan_dump)
foreach(name train_trainer train_replicas train_faults)
  compute_add_variant(${name} cuda
    "COMPUTE_TEST_DEVICE=cuda:0;COMPUTE_TEST_SPREAD=10;COMPUTE_TEST_DEVICES=2;COMPUTE_TEST_CUDA=device_count=2;${cuda_environment}")
endforeach()
compute_add_variant(batch_misuse cuda
  "COMPUTE_TEST_DEVICE=cuda:0;COMPUTE_TEST_SAMPLES=2;${cuda_environment}")
set(variant_labels full odd) # the remaining tests repeat others, or take long
foreach(name eager_eager job_job model_loops model_sizes plan_training)
  compute_add_variant(${name} cuda "${on_device}")
endforeach()
compute_add_variant(faults_long_run cuda
  "COMPUTE_TEST_DEVICE=cuda:0;COMPUTE_TEST_SPREAD=8;${cuda_environment}")
compute_add_variant(faults_open cuda "${cuda_environment}")

# Again with the libraries for every product that they support.
foreach(name operations_matmul plan_run)
  compute_add_variant(${name} cuda_libraries
    "${on_device};${cuda_with_libraries};COMPUTE_TUNING=gemm:implementation=1")
endforeach()
