/* SPDX-License-Identifier: MIT */
/* The layout of the structs between core and modules. These numbers are the ABI: a module from last
 * year relies on them. New fields go to the end of a struct, and new numbers to the end of its list
 * here. Changing a number requires a new COMPUTE_BACKEND_ABI_MAJOR. */
#include "support/harness/test.h"

#include <string.h>

#include "compute/backend/fit_kinds.h"
#include "compute/backend.h"
#include "compute/backend/transport.h"

#define AT(type, field, offset)                                                                    \
  _Static_assert(offsetof(type, field) == (offset), #type "." #field " has moved")
#define SIZE(type, bytes)   _Static_assert(sizeof(type) == (bytes), #type " has another size")
#define VALUE(name, number) _Static_assert((name) == (number), #name " was renumbered")

VALUE(COMPUTE_BACKEND_ABI_MAJOR, 2);
VALUE(COMPUTE_BACKEND_ABI_MINOR, 8);

AT(compute_backend, struct_size, 0);
AT(compute_backend, abi_major, 8);
AT(compute_backend, abi_minor, 12);
AT(compute_backend, name, 16);
AT(compute_backend, description, 24);
AT(compute_backend, version, 32);
AT(compute_backend, open, 40);
AT(compute_backend, close, 48);
AT(compute_backend, device_count, 56);
AT(compute_backend, device_open, 64);
AT(compute_backend, device_close, 72);
AT(compute_backend, device_describe, 80);
AT(compute_backend, memory_allocate, 88);
AT(compute_backend, memory_release, 96);
AT(compute_backend, memory_import, 104);
AT(compute_backend, queue_create, 112);
AT(compute_backend, queue_destroy, 120);
AT(compute_backend, queue_wait, 128);
AT(compute_backend, event_record, 136);
AT(compute_backend, event_destroy, 144);
AT(compute_backend, event_wait, 152);
AT(compute_backend, event_query, 160);
AT(compute_backend, queue_wait_event, 168);
AT(compute_backend, upload, 176);
AT(compute_backend, download, 184);
AT(compute_backend, copy, 192);
AT(compute_backend, supports, 200);
AT(compute_backend, kernel_prepare, 208);
AT(compute_backend, kernel_destroy, 216);
AT(compute_backend, kernel_describe, 224);
AT(compute_backend, enqueue, 232);
/* Since 1.1. */
AT(compute_backend, can_wait, 240);
AT(compute_backend, device_target, 248);
AT(compute_backend, kernel_prepare_tuned, 256);
AT(compute_backend, implementation_name, 264);
AT(compute_backend, build_statistics, 272);
AT(compute_backend, custom_build, 280);
AT(compute_backend, custom_destroy, 288);
AT(compute_backend, custom_launch, 296);
AT(compute_backend, copy_from_peer, 304);
AT(compute_backend, record_begin, 312);
AT(compute_backend, record_end, 320);
AT(compute_backend, record_submit, 328);
AT(compute_backend, record_destroy, 336);
/* Since 1.2. */
AT(compute_backend, timer_record, 344);
AT(compute_backend, timer_read, 352);
AT(compute_backend, timer_destroy, 360);
AT(compute_backend, host_allocate, 368);
AT(compute_backend, host_release, 376);
AT(compute_backend, host_register, 384);
AT(compute_backend, host_unregister, 392);
AT(compute_backend, device_recover, 400);
/* Since 1.5. */
AT(compute_backend, flags, 408);
VALUE(COMPUTE_BACKEND_ENVIRONMENT_SAFE, 1);
VALUE(COMPUTE_BACKEND_CHANNELS_LAST, 4);
VALUE(COMPUTE_BACKEND_STAGES_COPIES, 8);
AT(compute_backend, queue_label, 416);
AT(compute_backend, kernel_packed_bytes, 424);
AT(compute_backend, kernel_pack, 432);
/* Since 2.1. */
AT(compute_backend, memory_export, 440);
AT(compute_backend, memory_adopt, 448);
AT(compute_backend, queue_native, 456);
AT(compute_backend, queue_signal, 464);
/* Since 2.2. */
AT(compute_backend, communicator_offer, 472);
AT(compute_backend, communicator_identify, 480);
AT(compute_backend, communicator_open, 488);
AT(compute_backend, communicator_supports, 496);
AT(compute_backend, communicator_submit, 504);
AT(compute_backend, communicator_test, 512);
AT(compute_backend, communicator_finish, 520);
AT(compute_backend, communicator_close, 528);
/* Since 2.8. */
AT(compute_backend, queue_flush, 536);

AT(compute_services, struct_size, 0);
AT(compute_services, abi_major, 8);
AT(compute_services, abi_minor, 12);
AT(compute_services, host, 16);
AT(compute_services, allocate, 24);
AT(compute_services, release, 32);
AT(compute_services, log, 40);
AT(compute_services, fail, 48);
AT(compute_services, thread_count, 56);
AT(compute_services, parallel, 64);
AT(compute_services, variable, 72);
/* Since 1.1. */
AT(compute_services, generate, 80);
AT(compute_services, generated_release, 88);
AT(compute_services, generates, 96);
AT(compute_services, dialect_text, 104);
AT(compute_services, tuning_lookup, 112);
AT(compute_services, cache_load, 120);
AT(compute_services, cache_store, 128);
/* Since 1.5. */
AT(compute_services, trusts_environment, 136);
AT(compute_services, fail_index, 144);
AT(compute_services, best_priority, 152);
/* Since 2.3. */
AT(compute_services, load_begin, 160);
AT(compute_services, load_end, 168);

VALUE(COMPUTE_TRANSPORT_ABI_MAJOR, 1);
VALUE(COMPUTE_TRANSPORT_ABI_MINOR, 2);

AT(compute_transport, struct_size, 0);
AT(compute_transport, abi_major, 8);
AT(compute_transport, abi_minor, 12);
AT(compute_transport, name, 16);
AT(compute_transport, prepare, 24);
AT(compute_transport, open, 32);
AT(compute_transport, close, 40);
AT(compute_transport, error_text, 48);
AT(compute_transport, exchange, 56);
AT(compute_transport, gather, 64);
AT(compute_transport, broadcast, 72);
AT(compute_transport, send, 80);
AT(compute_transport, receive, 88);
AT(compute_transport, test, 96);
AT(compute_transport, reaches, 104);
AT(compute_transport, missing, 112);

AT(compute_cache_part, bytes, 8);
AT(compute_custom_argument, offset, 8);
AT(compute_custom_argument, value, 16);
AT(compute_custom_argument, bytes, 24);
SIZE(compute_custom_argument, 32);
SIZE(compute_tuning, 48);
VALUE(COMPUTE_TARGET_FAULT_RECORDS, 32);
VALUE(COMPUTE_TARGET_MATRIX_F64, 64);
VALUE(COMPUTE_TARGET_WARPGROUP_MATRIX, 128);
AT(compute_target, dialect, 8);
AT(compute_target, type, 12);
AT(compute_target, flags, 16);
AT(compute_target, backend, 20);
AT(compute_target, vendor, 52);
AT(compute_target, family, 116);
AT(compute_target, model, 148);
AT(compute_target, driver, 276);
AT(compute_target, compute_units, 404);
AT(compute_target, group_limit_of, 420);
AT(compute_target, local_bytes, 432);
AT(compute_target, cache_bytes, 440);
AT(compute_target, launch_local_bytes, 448);
SIZE(compute_target, 456);
SIZE(compute_generated_launch, 64);
AT(compute_generated_launch, groups, 20);
AT(compute_generated_launch, buffers, 40);
AT(compute_generated_launch, shape, 48);
AT(compute_generated_launch, shape_bytes, 56);
AT(compute_generated_launch, local_bytes, 60);
AT(compute_generated, source, 8);
AT(compute_generated, workspace_bytes, 24);
AT(compute_generated, faults, 32);
AT(compute_generated, launch_count, 36);
AT(compute_generated, launches, 40);
AT(compute_generated, tuning, 296);
AT(compute_generated, text, 344);

AT(compute_kernel_descriptor, struct_size, 0);
AT(compute_kernel_descriptor, kind, 8);
AT(compute_kernel_descriptor, rank, 12);
AT(compute_kernel_descriptor, size, 16);
AT(compute_kernel_descriptor, input_count, 80);
AT(compute_kernel_descriptor, output_count, 84);
AT(compute_kernel_descriptor, inputs, 88);
AT(compute_kernel_descriptor, outputs, 96);
AT(compute_kernel_descriptor, prologue, 104);
AT(compute_kernel_descriptor, epilogue, 128);
AT(compute_kernel_descriptor, prologue_inputs, 152);
AT(compute_kernel_descriptor, accumulate, 156);
AT(compute_kernel_descriptor, attributes, 160);
AT(compute_kernel_descriptor, attribute_bytes, 168);
AT(compute_kernel_descriptor, constant_inputs, 176);
AT(compute_kernel_descriptor, demands, 180);
AT(compute_reduce_attributes, kept_rank, 0);
AT(compute_reduce_attributes, combine, 4);
AT(compute_row_attributes, operation, 0);
AT(compute_row_attributes, epsilon, 8);
AT(compute_gemm_attributes, k, 0);
AT(compute_gemm_attributes, precision, 8);
AT(compute_index_attributes, axis_size, 0);
AT(compute_index_attributes, axis_stride, 8);
AT(compute_index_attributes, from_zero, 16);
AT(compute_scan_attributes, combine, 0);
AT(compute_scan_attributes, exclusive, 4);
AT(compute_scan_attributes, reverse, 5);
AT(compute_top_k_attributes, axis_size, 0);
AT(compute_top_k_attributes, smallest, 8);
AT(compute_fit_attributes, problem, 0);
AT(compute_fit_attributes, frames, sizeof(compute_fit_problem));
SIZE(compute_sort_attributes, 3);
AT(compute_sort_attributes, descending, 0);
AT(compute_sort_attributes, values, 1);
AT(compute_sort_attributes, positions, 2);
SIZE(compute_spots_attributes, 104);
AT(compute_spots_attributes, step, 16);
AT(compute_spots_attributes, sigma, 32);
AT(compute_spots_attributes, first, 56);
AT(compute_spots_attributes, gain, 88);
AT(compute_spots_attributes, tile, 96);
SIZE(compute_window_attributes, 120);
AT(compute_window_attributes, operation, 0);
AT(compute_window_attributes, by_data, 4);
AT(compute_window_attributes, count_padding, 5);
AT(compute_window_attributes, data_size, 8);
AT(compute_window_attributes, result_size, 24);
AT(compute_window_attributes, size, 40);
AT(compute_window_attributes, stride, 56);
AT(compute_window_attributes, dilation, 72);
AT(compute_window_attributes, padding, 88);
AT(compute_window_attributes, padding_more, 104);
SIZE(compute_attention_attributes, 32);
AT(compute_attention_attributes, keys, 0);
AT(compute_attention_attributes, width, 8);
AT(compute_attention_attributes, scale, 16);
AT(compute_attention_attributes, causal, 24);
AT(compute_attention_attributes, biased, 25);
AT(compute_attention_attributes, formula, 26);
AT(compute_attention_attributes, zero_weights, 27);
SIZE(compute_recurrent_attributes, 32);
AT(compute_recurrent_attributes, cell, 0);
AT(compute_recurrent_attributes, reverse, 4);
AT(compute_recurrent_attributes, reset_after, 5);
AT(compute_recurrent_attributes, lengths, 6);
AT(compute_recurrent_attributes, bias, 7);
AT(compute_recurrent_attributes, peepholes, 8);
AT(compute_recurrent_attributes, clip, 16);
AT(compute_recurrent_attributes, quantized, 24);
SIZE(compute_bincount_attributes, 8);
AT(compute_bincount_attributes, axis_size, 0);
SIZE(compute_fourier_attributes, 32);
AT(compute_fourier_attributes, length, 0);
AT(compute_fourier_attributes, points, 8);
AT(compute_fourier_attributes, scale, 16);
AT(compute_fourier_attributes, inverse, 24);
AT(compute_fourier_attributes, real, 25);
AT(compute_fourier_attributes, halved, 26);
SIZE(compute_linalg_attributes, 32);
AT(compute_linalg_attributes, function, 0);
AT(compute_linalg_attributes, flags, 4);
AT(compute_linalg_attributes, rows, 8);
AT(compute_linalg_attributes, columns, 16);
AT(compute_linalg_attributes, right, 24);
SIZE(compute_trees_attributes, 48);
AT(compute_trees_attributes, features, 0);
AT(compute_trees_attributes, columns, 8);
AT(compute_trees_attributes, nodes, 16);
AT(compute_trees_attributes, trees, 24);
AT(compute_trees_attributes, values, 32);
AT(compute_trees_attributes, combine, 40);
AT(compute_trees_attributes, words, 44);
SIZE(compute_quantized_gemm_attributes, 24);
AT(compute_quantized_gemm_attributes, k, 0);
AT(compute_quantized_gemm_attributes, block, 8);
AT(compute_quantized_gemm_attributes, bits, 16);
AT(compute_quantized_gemm_attributes, zeros, 20);
AT(compute_fit_problem, model, 0);
AT(compute_fit_problem, profile, 4);
AT(compute_fit_problem, solver, 8);
AT(compute_fit_problem, camera, 12);
AT(compute_fit_problem, rows, 16);
AT(compute_fit_problem, columns, 20);
AT(compute_fit_problem, iterations, 24);
AT(compute_fit_problem, outputs, 28);
AT(compute_fit_problem, inputs, 32);
AT(compute_fit_problem, flags, 36);
AT(compute_fit_problem, epsilon, 40);
AT(compute_fit_problem, fixed, 48);
AT(compute_fit_problem, start_set, 52);
AT(compute_fit_problem, lower_set, 56);
AT(compute_fit_problem, upper_set, 60);
AT(compute_fit_problem, start, 64);
AT(compute_fit_problem, lower, 112);
AT(compute_fit_problem, upper, 160);
AT(compute_fit_problem, sigma, 208);
AT(compute_fit_problem, depth, 224);
AT(compute_fit_problem, gamma, 232);
AT(compute_fit_problem, a, 240);
AT(compute_fit_problem, b, 256);
AT(compute_fit_problem, spline, 208);
AT(compute_fit_problem, z_step, 224);
AT(compute_fit_problem, z_first, 232);
AT(compute_fit_problem, spot, 240);
AT(compute_fit_problem, cells, 256);
AT(compute_fit_problem, z_start_count, 272);
AT(compute_fit_problem, unused, 276);
AT(compute_fit_problem, z_start, 280);
AT(compute_fit_problem, offset, 344);
AT(compute_fit_problem, gain, 352);
AT(compute_fit_problem, em_gain, 360);
AT(compute_fit_problem, variance, 368);
SIZE(compute_fit_problem, 376); /* compared as bytes: no padding, and its size is fixed */
AT(compute_conv_attributes, groups, 4);
AT(compute_conv_attributes, batch, 8);
AT(compute_conv_attributes, data_size, 32);
AT(compute_conv_attributes, result_size, 48);
AT(compute_conv_attributes, filter_size, 64);
AT(compute_conv_attributes, stride, 80);
AT(compute_conv_attributes, dilation, 96);
AT(compute_conv_attributes, padding, 112);
AT(compute_conv_attributes, precision, 128);
AT(compute_conv_attributes, pool, 132);
SIZE(compute_conv_attributes, 136);

/* These structs have no size field, so they may not grow. */
SIZE(compute_program, 24);
AT(compute_program, output_count, 4);
AT(compute_program, instructions, 8);
AT(compute_program, outputs, 16);
SIZE(compute_instruction, 16);
AT(compute_instruction, type, 1);
AT(compute_instruction, a, 2);
AT(compute_instruction, b, 4);
AT(compute_instruction, c, 6);
AT(compute_instruction, immediate, 8);
SIZE(compute_operand, 72);
AT(compute_operand, stride, 8);
SIZE(compute_memory, 24);
AT(compute_memory, host, 8);
AT(compute_memory, bytes, 16);
SIZE(compute_argument, 16);
AT(compute_argument, offset, 8);
SIZE(compute_foreign_memory, 24);
AT(compute_foreign_memory, device_id, 4);
AT(compute_foreign_memory, data, 8);
AT(compute_foreign_memory, byte_offset, 16);
SIZE(compute_device_info, 1056);
AT(compute_device_info, type, 416);
AT(compute_device_info, capabilities, 424);
AT(compute_device_info, memory_total, 448);
AT(compute_device_info, notes, 480);

VALUE(COMPUTE_F64, 1);
VALUE(COMPUTE_F32, 2);
VALUE(COMPUTE_F16, 3);
VALUE(COMPUTE_BF16, 4);
VALUE(COMPUTE_I64, 5);
VALUE(COMPUTE_I32, 6);
VALUE(COMPUTE_U8, 7);
VALUE(COMPUTE_BOOL, 8);
VALUE(COMPUTE_U16, 9);
VALUE(COMPUTE_I8, 10);
VALUE(COMPUTE_I16, 11);
VALUE(COMPUTE_U32, 12);
VALUE(COMPUTE_U64, 13);
VALUE(COMPUTE_MAX_RANK, 8);
VALUE(COMPUTE_KERNEL_MAP, 0);
VALUE(COMPUTE_KERNEL_COPY, 6);
VALUE(COMPUTE_KERNEL_CONV, 7);
VALUE(COMPUTE_KERNEL_FIT, 8);
VALUE(COMPUTE_KERNEL_WINDOW, 9);
VALUE(COMPUTE_KERNEL_SCAN, 10);
VALUE(COMPUTE_KERNEL_TOP_K, 11);
VALUE(COMPUTE_KERNEL_ATTENTION, 12);
VALUE(COMPUTE_KERNEL_SPOTS, 13);
VALUE(COMPUTE_KERNEL_SORT, 14);
VALUE(COMPUTE_KERNEL_CALL, 15);
VALUE(COMPUTE_KERNEL_RECURRENT, 16);
VALUE(COMPUTE_KERNEL_QUANTIZED_GEMM, 17);
VALUE(COMPUTE_KERNEL_BINCOUNT, 18);
VALUE(COMPUTE_KERNEL_FOURIER, 19);
VALUE(COMPUTE_KERNEL_LINALG, 20);
VALUE(COMPUTE_KERNEL_TREES, 21);
VALUE(COMPUTE_TREES_HEAD, 4);
VALUE(COMPUTE_TREES_MOST, 1 << 24);
VALUE(COMPUTE_LINALG_CHOLESKY, 0);
VALUE(COMPUTE_LINALG_TRIANGULAR, 1);
VALUE(COMPUTE_LINALG_LU, 2);
VALUE(COMPUTE_LINALG_SOLVE, 3);
VALUE(COMPUTE_LINALG_QR, 4);
VALUE(COMPUTE_LINALG_EIGH, 5);
VALUE(COMPUTE_LINALG_SVD, 6);
VALUE(COMPUTE_LINALG_EIG, 7);
VALUE(COMPUTE_LINALG_EXPM, 8);
VALUE(COMPUTE_LINALG_UPPER, 1);
VALUE(COMPUTE_LINALG_UNIT_DIAGONAL, 2);
VALUE(COMPUTE_LINALG_VECTORS, 4);
VALUE(COMPUTE_LINALG_FULL, 8);
VALUE(COMPUTE_RECURRENT_RNN, 0);
VALUE(COMPUTE_RECURRENT_GRU, 1);
VALUE(COMPUTE_RECURRENT_LSTM, 2);
VALUE(COMPUTE_WINDOW_MAX, 0);
VALUE(COMPUTE_WINDOW_AVERAGE, 1);
VALUE(COMPUTE_WINDOW_ARGMAX, 2);
VALUE(COMPUTE_FIT_XYZNB, 3);
VALUE(COMPUTE_FIT_SPLINE, 4);
VALUE(COMPUTE_FIT_SAMPLED, 1);
VALUE(COMPUTE_FIT_LEAST_SQUARES, 3);
VALUE(COMPUTE_FIT_SCMOS, 2);
VALUE(COMPUTE_FIT_READOUT, 3);
VALUE(COMPUTE_FIT_BAD_DATA, 5);
VALUE(COMPUTE_FIT_STATUS, 128);
VALUE(COMPUTE_FIT_SIGNIFICANCE, 256);
VALUE(COMPUTE_FIT_WITH_UPPER, 256);
VALUE(COMPUTE_FIT_WITH_SPLINE, 512);
VALUE(COMPUTE_FIT_STACK, 1);
VALUE(COMPUTE_PRECISION_TF32, 1);
VALUE(COMPUTE_PRECISION_WINOGRAD, 2);
VALUE(COMPUTE_PRECISION_REPRODUCIBLE, 4);
VALUE(COMPUTE_PRECISION_SATURATE, 8);
VALUE(COMPUTE_CONVOLUTION_BY_FILTER, 2);
VALUE(COMPUTE_COMBINE_ARGMIN, 5);
VALUE(COMPUTE_ROW_NORMALIZE, 2);
VALUE(COMPUTE_I_NEG, 16);
VALUE(COMPUTE_I_SQUARE, 19);
VALUE(COMPUTE_I_EXP, 23);
VALUE(COMPUTE_I_TANH, 29);
VALUE(COMPUTE_I_RELU, 35);
VALUE(COMPUTE_I_LEAKY_RELU, 41);
VALUE(COMPUTE_I_NOT, 45);
VALUE(COMPUTE_I_ROUND_F16, 46);
VALUE(COMPUTE_I_ROUND_BF16, 47);
VALUE(COMPUTE_I_ATAN, 48);
VALUE(COMPUTE_I_TAN, 49);
VALUE(COMPUTE_I_ASIN, 50);
VALUE(COMPUTE_I_ACOS, 51);
VALUE(COMPUTE_I_SINH, 52);
VALUE(COMPUTE_I_COSH, 53);
VALUE(COMPUTE_I_ASINH, 54);
VALUE(COMPUTE_I_ACOSH, 55);
VALUE(COMPUTE_I_ATANH, 56);
VALUE(COMPUTE_I_BIT_NOT, 57);
VALUE(COMPUTE_I_DRAW_NORMAL, 58);
VALUE(COMPUTE_I_DRAW_EXPONENTIAL, 59);
VALUE(COMPUTE_I_DRAW_GUMBEL, 60);
VALUE(COMPUTE_I_DRAW_GAMMA, 86);
VALUE(COMPUTE_I_DRAW_POISSON, 87);
VALUE(COMPUTE_I_DRAW_BETA, 97);
VALUE(COMPUTE_I_DRAW_BINOMIAL, 98);
VALUE(COMPUTE_I_DRAW_TRUNCATED_NORMAL, 99);
VALUE(COMPUTE_I_DRAW_GAMMA_SLOPE, 100);
VALUE(COMPUTE_I_BIT_AND, 81);
VALUE(COMPUTE_I_SHIFT_LEFT, 84);
VALUE(COMPUTE_I_SHIFT_RIGHT, 85);
VALUE(COMPUTE_I_ADD, 64);
VALUE(COMPUTE_I_EQ, 72);
VALUE(COMPUTE_I_XOR, 80);
VALUE(COMPUTE_I_SELECT, 96);
VALUE(COMPUTE_I_END, 128);
VALUE(COMPUTE_ERROR_INVALID_ARGUMENT, 100);
VALUE(COMPUTE_ERROR_SHAPE, 200);
VALUE(COMPUTE_ERROR_NO_DEVICE, 300);
VALUE(COMPUTE_ERROR_UNSUPPORTED, 304);
VALUE(COMPUTE_ERROR_OUT_OF_MEMORY, 400);
VALUE(COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY, 401);
VALUE(COMPUTE_ERROR_LAUNCH, 501);
VALUE(COMPUTE_ERROR_FILE, 600);
VALUE(COMPUTE_ERROR_INTERNAL, 900);

static void the_running_library_has_the_version_of_its_text(void **state) {
  (void)state;
  unsigned major = 0, minor = 0, patch = 0;
  assert_int_equal(sscanf(compute_version_text(), "%u.%u.%u", &major, &minor, &patch), 3);
  assert_int_equal(compute_version(), major * 10000 + minor * 100 + patch);
}

static void every_status_has_a_name_and_a_text(void **state) {
  (void)state;
  const size_t count = compute_status_list(0, NULL);
  assert_true(count >= 28);
  for (size_t i = 0; i < count; i++) {
    compute_status status;
    assert_int_equal(compute_status_list(i, &status), count);
    assert_non_null(strstr(compute_status_name(status), "COMPUTE_"));
    assert_true(compute_status_text(status)[0] != '\0');
    assert_string_not_equal(compute_status_text(status), "unknown status");
  }
  assert_string_equal(compute_status_text((compute_status)4711), "unknown status");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_running_library_has_the_version_of_its_text),
      cmocka_unit_test(every_status_has_a_name_and_a_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
