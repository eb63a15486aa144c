# SPDX-License-Identifier: MIT
"""What of the interface is bound, and under which name. glue/ has what is written by hand."""

# Objects: type in C, class in Python.
CLASSES = {
    "compute_context": "Context", "compute_device": "Device", "compute_tensor": "Array", "compute_graph": "Graph",
    "compute_plan": "Plan", "compute_model": "Model", "compute_layer": "Layer", "compute_dataset": "Dataset",
    "compute_trainer": "Trainer", "compute_fit": "Fitter", "compute_tensor_file": "TensorFile",
    "compute_job": "Job", "compute_batch": "Batch", "compute_process_group": "Group", "compute_kernel": "Kernel",
    "compute_batcher": "Batcher", "compute_batcher_request": "Request"}

# Methods: {class: {function: name}}. The object is the first parameter.
METHODS = {
    "Context": {"compute_fallback_query": "fallbacks", "compute_profile_start": "start_profile",
                "compute_profile_stop": "stop_profile", "compute_profile_clear": "clear_profile",
                "compute_profile_text": "profile", "compute_profile_write": "save_profile",
                "compute_profile_write_trace": "save_trace"},
    "Device": {"compute_device_describe": "describe", "compute_device_recover": "recover",
               "compute_pool_query": "pool", "compute_pool_set_budget": "set_pool_budget",
               "compute_pool_trim": "trim_pool", "compute_build_query": "builds"},
    "Array": {"compute_tensor_to_device": "_to_device", "compute_tensor_copy": "_copy_from",
              "compute_tensor_slice_view": "slice_view", "compute_tensor_transpose_view": "transpose_view",
              "compute_tensor_reshape_view": "reshape_view", "compute_tensor_broadcast_view": "broadcast_view",
              "compute_tensor_freeze": "freeze", "compute_tensor_is_frozen": "is_frozen",
              "compute_tensor_is_dense": "is_dense", "compute_tensor_stride": "stride", "compute_tensor_nonzero": "_nonzero",
              "compute_tensor_unique": "_unique", "compute_tensor_unique_slices": "unique_slices",
              "compute_npy_write": "save_npy"},
    "Plan": {"compute_plan_describe": "describe", "compute_explain": "explain", "compute_plan_device": "_device"},
    "Model": {"compute_model_describe": "describe", "compute_model_explain": "explain", "compute_model_save": "save",
              "compute_model_input_count": "_input_count", "compute_model_output_count": "_output_count",
              "compute_model_input_at": "_input_at", "compute_model_output_at": "_output_at"},
    "Layer": {"compute_layer_initialize": "initialize", "compute_layer_save": "save", "compute_layer_load": "load",
              "compute_layer_parameter_at": "_parameter_at", "compute_layer_parameter_count": "_parameter_count",
              "compute_layer_run": "run", "compute_layer_element_count": "element_count", "compute_layer_summary": "summary"},
    "Dataset": {"compute_dataset_split": "split", "compute_dataset_count": "__len__"},
    "Trainer": {"compute_trainer_step": "step", "compute_trainer_evaluate": "evaluate",
                "compute_trainer_predict": "predict", "compute_trainer_save": "save", "compute_trainer_load": "load",
                "compute_trainer_query": "describe"},
    "Fitter": {"compute_fit_times_get": "times"},
    "TensorFile": {"compute_tensor_file_count": "__len__", "compute_tensor_file_at": "at",
                   "compute_tensor_file_read": "read"},
    "Job": {"compute_job_poll": "done", "compute_job_cancel": "cancel", "compute_job_describe": "describe"},
    "Batch": {"compute_batch_cancel": "cancel", "compute_batch_times_get": "times"},
    "Group": {"compute_group_query": "describe", "compute_group_member_at": "member",
              "compute_group_barrier": "barrier", "compute_group_agree": "agree",
              "compute_group_all_reduce": "_all_reduce", "compute_group_reduce_scatter": "_reduce_scatter",
              "compute_group_all_gather": "_all_gather", "compute_group_broadcast": "_broadcast",
              "compute_group_send": "_send", "compute_group_receive": "_receive"},
    "Kernel": {},
    "Batcher": {"compute_batcher_describe": "describe", "compute_batcher_stop": "stop"},
    "Request": {"compute_batcher_poll": "done", "compute_batcher_cancel": "cancel"},
}
# len() calls these without arguments of its own.
LENGTHS = ("compute_dataset_count", "compute_tensor_file_count")

# Functions of the module, besides the operations.
FUNCTIONS = {
    "compute_version_text": "version_text", "compute_open": "open", "compute_device_by_name": "device_by_name",
    "compute_tensor_create": "empty", "compute_tensor_full": "full", "compute_tensor_full_i64": "full_i64",
    "compute_tensor_random": "random", "compute_tensor_index": "index",
    "compute_npy_read": "load_npy", "compute_csv_read": "load_csv", "compute_tensor_file_open": "open_tensors",
    "compute_dense": "Dense", "compute_conv2d_layer": "Conv2d", "compute_conv2d_transpose_layer": "ConvTranspose2d",
    "compute_batch_norm_layer": "BatchNorm", "compute_layer_norm_layer": "LayerNorm",
    "compute_dropout_layer": "Dropout", "compute_max_pool": "MaxPool", "compute_average_pool": "AveragePool",
    "compute_global_average_pool": "GlobalAveragePool", "compute_embedding": "Embedding",
    "compute_activation": "Activation", "compute_flatten": "Flatten", "compute_identity": "Identity",
    "compute_dataset_from_tensors": "dataset_from_tensors", "compute_dataset_from_files": "dataset_from_files",
    "compute_dataset_from_csv": "dataset_from_csv", "compute_model_load": "load_model",
    "compute_trainer_create": "trainer", "compute_fit_create": "fitter",
    "compute_group_open": "open_group", "compute_kernel_compile": "_kernel",
}

# Builders that glue/ has, or that belong to no graph of Python.
NOT_OPERATIONS = {
    "compute_input": "a method of Graph", "compute_parameter": "a method of Graph",
    "compute_constant": "a method of Graph", "compute_scalar": "numbers in expressions",
    "compute_scalar_i64": "numbers in expressions", "compute_full": "a method of Graph",
    "compute_full_i64": "a method of Graph", "compute_index": "a method of Graph", "compute_name": "a method of Node",
    "compute_parameter_at": "a method of Graph"}
OPERATION_HEADERS = ("graph.h", "graph_nn.h", "graph_array.h", "fft.h", "linalg.h", "random.h", "spots.h")

# Operands that may be omitted, and parameters with a default.
OPTIONAL = ("bias", "gain", "a_zero", "b_zero", "x_zero", "filter_zero", "zero", "weights")
DEFAULTS = {"keep_axes": "false", "keep_axis": "false", "axes": "all", "epsilon": "1e-5", "exclusive": "false",
            "reverse": "false", "smallest": "false", "descending": "false", "flags": "0", "trainable_only": "false",
            "options": "none", "value": "0", "correction": "0", "diagonal": "0", "right": "false",
            "interleaved": "false", "align_corners": "false"}
# Operands that get one dtype before a call, as bits: the rule of the array API standard.
UNIFIED = {"select": 6, "matmul": 3, "mean_squared_error": 3, "huber": 3, "atan2": 3, "copysign": 3, "hypot": 3,
           "logaddexp": 3, "searchsorted": 3, "interp": 7, "solve": 3, "solve_triangular": 3, "least_squares": 3}
# The dtype of numbers for the operands of operations in these headers; for a seed it is int64.
NUMBERS_AS = {"random.h": "COMPUTE_F64"}
# Results without a dtype argument are float32, besides those of these operations.
RESULT_DTYPES = {"compute_random_integers": "int64"}
ALONE = ("gather", "gather_elements", "scatter_add", "scatter_add_elements", "bincount", "cross_entropy",
         "cross_entropy_smoothed", "matmul_integer", "assign", "max_unpool", "dequantize", "quantized_matmul")

# Fields of options that glue/ fills in, or that this binding does not have.
OMITTED_FIELDS = {"user", "reserved", "unused", "operators", "operator_count", "prepare", "progress",
                  "release", "gradient", "write", "write_user", "progress_user", "progress_seconds", "folder",
                  "mask_rows", "mask_columns", "error"}
# Outputs that a call goes without: it waits instead.
WITHOUT = {"request"}

# Structs whose tables glue/ uses.
SHARED_TABLES = ("compute_fit_summary", "compute_fit_run_options", "compute_training_progress",
                 "compute_training_score", "compute_trainer_run_options", "compute_run_options",
                 "compute_plan_options", "compute_model_export_options", "compute_batch_options", "compute_batch_result",
                 "compute_spot_options", "compute_batcher_options")

# Operations that the package has under names of the array API standard, or as methods and indices.
RENAMED = {"sub", "mul", "div", "mod", "neg", "bit_and", "bit_or", "bit_xor", "bit_not", "shift_left", "shift_right",
           "is_nan", "is_finite", "select", "transpose", "broadcast", "slice", "fft"}
