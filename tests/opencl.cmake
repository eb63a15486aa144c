# SPDX-License-Identifier: MIT
# The whole OpenCL backend: the suites of the CPU backend again on PoCL, a failing driver
# (opencl_layer/), and oclgrind. CMakeLists.txt includes this file.
#
# The device is always PoCL, even on a machine with a GPU. To test a GPU, set COMPUTE_TEST_DEVICE
# for all tests.

# A driver without a device, which records when and how it is started.
add_library(opencl_idle_driver MODULE opencl_layer/idle_driver.c)
target_link_libraries(opencl_idle_driver PRIVATE compute_flags Threads::Threads m)
set_target_properties(opencl_idle_driver PROPERTIES PREFIX ""
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/bin)
add_dependencies(opencl_waiting opencl_idle_driver)
target_compile_definitions(opencl_waiting PRIVATE
  TEST_IDLE_DRIVER="${CMAKE_CURRENT_BINARY_DIR}/bin/opencl_idle_driver.so")

find_path(COMPUTE_OPENCL_LAYER_INCLUDE CL/cl_layer.h)
find_file(COMPUTE_OCLGRIND_ICD liboclgrind-rt-icd.so PATHS /usr/lib/oclgrind
  /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/oclgrind NO_DEFAULT_PATH)
if(NOT TARGET compute-opencl OR NOT COMPUTE_OPENCL_LAYER_INCLUDE OR NOT COMPUTE_POCL_ICD)
  compute_leave_out("tests on an OpenCL device"
    "no OpenCL headers or no PoCL (Debian: ocl-icd-opencl-dev, pocl-opencl-icd)")
  return()
endif()

# PoCL compiles at a kernel's first launch and caches the result in one folder for all tests. The
# layer's declarations in place of all of OpenCL's, and no optimiser, reduce the compile time to a
# fraction; conformance_opencl and conformance_opencl_gpu run optimised kernels.
set(opencl_layer ${CMAKE_CURRENT_BINARY_DIR}/bin/opencl_layer.so)
set(opencl_builtins "-D_OPENCL_H_ -DLAYER_BUILTINS")
set(opencl_environment
  OCL_ICD_VENDORS=${COMPUTE_POCL_ICD}
  OPENCL_LAYERS=${opencl_layer}
  "POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable ${opencl_builtins}"
  COMPUTE_CACHE_DIR=${CMAKE_CURRENT_BINARY_DIR}/cache_opencl
  COMPUTE_TUNING_FILE=none)

add_library(opencl_layer MODULE opencl_layer/layer.c opencl_layer/builtins.c opencl_layer/hooks.c)
add_dependencies(test_support opencl_layer) # any test may run with it
target_include_directories(opencl_layer PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_include_directories(opencl_layer SYSTEM PRIVATE ${COMPUTE_OPENCL_LAYER_INCLUDE})
target_link_libraries(opencl_layer PRIVATE compute_flags)
set_target_properties(opencl_layer PROPERTIES PREFIX ""
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/bin)

set_property(TEST model_placement APPEND PROPERTY ENVIRONMENT ${opencl_environment})
set_property(TEST generate_opencl_compile APPEND PROPERTY ENVIRONMENT
  OPENCL_LAYERS=${opencl_layer} "POCL_EXTRA_BUILD_FLAGS=${opencl_builtins}")

foreach(name faults_opencl opencl_recover opencl_fallback opencl_fit_fallback)
  target_compile_definitions(${name} PRIVATE TEST_OPENCL_LAYER="${opencl_layer}")
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT ${opencl_environment})
endforeach()

# If it is found as CLBlast, it lacks all functions.
add_library(slow_clblast SHARED process/slow_load.c)
target_link_libraries(slow_clblast PRIVATE compute_flags)
set_target_properties(slow_clblast PROPERTIES OUTPUT_NAME clblast SOVERSION 1
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/slow_clblast)
add_dependencies(process_fork_in_load slow_clblast)
set(variant_labels quick default full)
compute_add_variant(process_fork_in_load opencl
  "COMPUTE_TEST_DEVICE=opencl:0;LD_LIBRARY_PATH=${CMAKE_CURRENT_BINARY_DIR}/slow_clblast;${opencl_environment}")

# Under the name of a GPU, whose memory the host cannot access.
set(variant_labels default full even) # cuda.cmake's are for the odd days
compute_add_variant(group_collectives opencl
  "COMPUTE_TEST_DEVICE=opencl:0;COMPUTE_TEST_LAYER=gpu=1;${opencl_environment}")

# These run on the CPU anyway; here their driver fails.
foreach(name faults_long_run train_faults batch_misuse)
  target_compile_definitions(${name} PRIVATE TEST_OPENCL_LAYER="${opencl_layer}")
endforeach()

if(COMPUTE_SANITIZE) # the rest repeats tests
  return()
endif()

# The same programs on the device, without fallback to the CPU. PoCL takes a tenth of a second for
# each program, and each pattern of strides is a program, so operations and dtypes share the samples.
# The CPU runs all samples, and the simulated CUDA driver has another share, on the other days
# (cuda.cmake).
set(on_device COMPUTE_TEST_DEVICE=opencl:0 COMPUTE_TEST_STRICT=1 COMPUTE_TEST_SPREAD=18
  ${opencl_environment})
set(fewer COMPUTE_TEST_SAMPLES=16 COMPUTE_TEST_SPREAD=30)
set(on_device_sampled ${on_device} ${fewer})
set(variant_labels default full even)
compute_add_operation_variants(opencl opencl "${on_device}" "${fewer}")
foreach(name plan_run plan_call plan_bindings plan_index_errors plan_endurance graph_gradients
        graph_gradient_cases graph_optimizer tensor_tensor tensor_tensor_copy tensor_tensor_fill
        tensor_tensor_view tensor_dlpack public_use batch_batch batch_progress batch_steps
        fit_spots fit_run fit_frames fit_graph nn_initialise nn_networks nn_weights train_dataset
        train_call)
  compute_add_variant(${name} opencl "${on_device}")
endforeach()
# Every kind of kernel again in a program that has called setlocale, without a cache.
set(opencl_locale ${on_device_sampled} COMPUTE_TEST_LOCALE=de_DE.UTF-8
  LOCPATH=${CMAKE_CURRENT_BINARY_DIR}/locales COMPUTE_CACHE_DIR=${CMAKE_CURRENT_BINARY_DIR}/cache_opencl_locale)
compute_add_operation_variants(locale opencl_locale "${opencl_locale}" "")
foreach(name fit_run fit_spots)
  compute_add_variant(${name} opencl_locale "${opencl_locale}")
endforeach()
compute_add_variant(model_norm_range opencl "${on_device}")
set(variant_labels full even) # the remaining tests repeat others, or take long
foreach(name eager_eager job_job model_loops model_sizes plan_training threads_plans)
  compute_add_variant(${name} opencl "${on_device}")
endforeach()
# With PoCL's optimiser and declarations, which took minutes for loops with barriers.
compute_add_variant(operations_linalg opencl_optimised
  "COMPUTE_TEST_DEVICE=opencl:0;COMPUTE_TEST_STRICT=1;COMPUTE_TEST_SPREAD=90;COMPUTE_TEST_SAMPLES=16;OCL_ICD_VENDORS=${COMPUTE_POCL_ICD};COMPUTE_CACHE_DIR=${CMAKE_CURRENT_BINARY_DIR}/cache_opencl_optimised;COMPUTE_TUNING_FILE=none")
compute_add_variant(train_faults opencl "COMPUTE_TEST_DEVICE=opencl:0;${opencl_environment}")
# Two devices, each with half of the cores. train_trainer covers a trainer on one device.
compute_add_variant(train_replicas opencl
  "COMPUTE_TEST_DEVICE=opencl:0;COMPUTE_TEST_DEVICES=2;COMPUTE_OPENCL_SUBDEVICES=2;${opencl_environment}")

compute_add_variant(batch_misuse opencl
  "COMPUTE_TEST_DEVICE=opencl:0;COMPUTE_TEST_SAMPLES=2;${opencl_environment}")
compute_add_variant(faults_long_run opencl
  "COMPUTE_TEST_DEVICE=opencl:0;COMPUTE_TEST_SPREAD=30;${opencl_environment}")
# Validation must not find an error here either. operations_row_opencl has the same kernels.
compute_add_variant(operations_row opencl_validated "${on_device_sampled};COMPUTE_VALIDATE=strict")

# PoCL under the name of a GPU gets the kernels for GPUs.
set(on_gpu ${on_device_sampled} COMPUTE_TEST_SAMPLES=48 COMPUTE_TEST_LAYER=gpu=1)
compute_add_operation_variants(opencl_gpu opencl_gpu "${on_gpu}" "")
compute_add_variant(plan_index_errors opencl_gpu "${on_gpu}")

if(NOT COMPUTE_OCLGRIND_ICD)
  compute_leave_out("tests under oclgrind" "it is missing (Debian: oclgrind)")
  return()
endif()
add_executable(opencl_small_kernels opencl/small_kernels.c)
target_link_libraries(opencl_small_kernels PRIVATE test_support test_core)
add_dependencies(opencl_small_kernels compute-cpu compute-opencl)
set_target_properties(opencl_small_kernels PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/bin)
set(oclgrind ${COMPUTE_OCLGRIND_ICD} ${opencl_layer})
foreach(type gpu cpu)
  compute_add_script(oclgrind_races_${type} opencl/oclgrind.sh "full;even" ${oclgrind} races ${type}=1)
endforeach()
# Every eleventh convolution.
foreach(type gpu cpu)
  compute_add_script(oclgrind_convolution_${type} opencl/oclgrind.sh "full;even"
    ${oclgrind} races ${type}=1)
  set_property(TEST oclgrind_convolution_${type} APPEND PROPERTY ENVIRONMENT
    "TEST_PROGRAM=${CMAKE_BINARY_DIR}/bin/compute-conformance"
    "TEST_ARGUMENTS=--filter kernel/conv/* opencl:0" COMPUTE_TEST_SPREAD=11)
endforeach()
compute_add_script(oclgrind_uninitialised opencl/oclgrind.sh "full;even"
  ${oclgrind} uninitialised gpu=1)
