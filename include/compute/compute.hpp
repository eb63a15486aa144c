/* SPDX-License-Identifier: MIT */
/** @file
 * libcompute in C++17: owning handles, exceptions, operators. A header-only wrapper of compute.h:
 * every object converts to the C type it owns, so that C functions can be mixed in.
 *
 *     compute::context context;
 *     compute::tensor x(context.device(), compute::shape(2, 2), {1.f, 2.f, 3.f, 4.f});
 *     std::vector<float> squares = (x * x).read<float>();
 *
 * Calls throw compute::error when the underlying C function fails, and nothing else, except
 * std::bad_alloc where a container of C++ gets no memory. Thread-safety, limits and the meaning of
 * arguments are as in C. An object must not outlive its context: declare the context before its
 * objects, because C++ destroys in reverse order. A handle that was moved from owns nothing and may
 * only be destroyed or assigned to. */
#ifndef COMPUTE_COMPUTE_HPP
#define COMPUTE_COMPUTE_HPP

#if !(__cplusplus >= 201703L || (defined(_MSVC_LANG) && _MSVC_LANG >= 201703L))
#error "compute.hpp needs C++17: compile with -std=c++17 or later"
#else

#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "compute/compute.h"

namespace compute {

/* ---- Errors -------------------------------------------------------------------------------- */

/** A failed call; what() is the message: "matmul: inner sizes differ: [2,3] x [4,5]". */
class error : public std::runtime_error {
public:
  explicit error(const compute_error &e)
      : std::runtime_error(e.message[0] ? e.message : compute_status_text(e.status)), error_(e) {}
  /** As if `operation` had failed with this message. */
  error(compute_status status, const std::string &operation, const std::string &message)
      : std::runtime_error(message) {
    error_.status = status;
    operation.copy(error_.operation, sizeof error_.operation - 1);
    message.copy(error_.message, sizeof error_.message - 1);
  }
  compute_status status() const { return error_.status; }
  const char *operation() const { return error_.operation; } /**< "matmul" */
  const char *remedy() const { return error_.remedy; }       /**< an action for the caller, or "" */
  int64_t native_code() const { return error_.native_code; } /**< a driver's code, or 0 */

private:
  compute_error error_{};
};

/** Throws the thread's last error if `status` is not COMPUTE_OK: for direct calls of C
 * functions. */
inline void check(compute_status status) {
  if (status == COMPUTE_OK) return;
  compute_error e{};
  (void)compute_error_get(nullptr, &e);
  if (e.status != status) e = compute_error{};
  e.status = status;
  throw error(e);
}

/* ---- Shapes and dtypes --------------------------------------------------------------------- */

/** shape(64, 784); shape() is a scalar's. For the macros COMPUTE_SHAPE and COMPUTE_SCALAR. */
template <class... Sizes> constexpr compute_shape shape(Sizes... sizes) {
  static_assert(sizeof...(Sizes) <= COMPUTE_MAX_RANK, "too many dimensions");
  static_assert((std::is_integral_v<Sizes> && ...), "sizes are integers");
  return compute_shape{static_cast<int32_t>(sizeof...(Sizes)), {static_cast<int64_t>(sizes)...}};
}

/** axes(0, −1), for COMPUTE_AXES; all_axes and no_axes for the macros of these names. */
template <class... Axes> constexpr compute_axes axes(Axes... list) {
  static_assert(sizeof...(Axes) > 0 && sizeof...(Axes) <= COMPUTE_MAX_RANK, "1 to 8 axes");
  return compute_axes{static_cast<int32_t>(sizeof...(Axes)), {static_cast<int32_t>(list)...}};
}
inline constexpr compute_axes all_axes{0, {}};
inline constexpr compute_axes no_axes{INT32_MIN, {}};

/** The dtype of a C++ type: dtype_of<float> is COMPUTE_F32. f16 and bf16 have no C++ type. */
template <class T> inline constexpr compute_dtype dtype_of = COMPUTE_DTYPE_NONE;
template <> inline constexpr compute_dtype dtype_of<double> = COMPUTE_F64;
template <> inline constexpr compute_dtype dtype_of<float> = COMPUTE_F32;
template <> inline constexpr compute_dtype dtype_of<int64_t> = COMPUTE_I64;
template <> inline constexpr compute_dtype dtype_of<int32_t> = COMPUTE_I32;
template <> inline constexpr compute_dtype dtype_of<int16_t> = COMPUTE_I16;
template <> inline constexpr compute_dtype dtype_of<int8_t> = COMPUTE_I8;
template <> inline constexpr compute_dtype dtype_of<uint64_t> = COMPUTE_U64;
template <> inline constexpr compute_dtype dtype_of<uint32_t> = COMPUTE_U32;
template <> inline constexpr compute_dtype dtype_of<uint16_t> = COMPUTE_U16;
template <> inline constexpr compute_dtype dtype_of<uint8_t> = COMPUTE_U8;
template <> inline constexpr compute_dtype dtype_of<bool> = COMPUTE_BOOL;

/* ---- Owners -------------------------------------------------------------------------------- */

/** Releases an object of the C interface. */
struct releaser {
  void operator()(compute_batch *p) const { compute_batch_release(p); }
  void operator()(compute_dataset *p) const { compute_dataset_release(p); }
  void operator()(compute_event *p) const { compute_event_release(p); }
  void operator()(compute_fit *p) const { compute_fit_release(p); }
  void operator()(compute_graph *p) const { compute_graph_release(p); }
  void operator()(compute_group_request *p) const { compute_group_request_release(p); }
  void operator()(compute_job *p) const { compute_job_release(p); }
  void operator()(compute_kernel *p) const { compute_kernel_release(p); }
  void operator()(compute_layer *p) const { compute_layer_release(p); }
  void operator()(compute_model *p) const { compute_model_release(p); }
  void operator()(compute_plan *p) const { compute_plan_release(p); }
  /** A collective call: every rank closes its group. */
  void operator()(compute_process_group *p) const { compute_group_close(p); }
  void operator()(compute_queue *p) const { compute_queue_release(p); }
  void operator()(compute_tensor *p) const { compute_tensor_release(p); }
  void operator()(compute_tensor_file *p) const { compute_tensor_file_close(p); }
  void operator()(compute_trainer *p) const { compute_trainer_release(p); }
  void operator()(compute_tree_model *p) const { compute_tree_model_release(p); }
  void operator()(char *p) const { compute_text_free(p); }
};

/** Owns an object of the C interface: owner<compute_trainer>. */
template <class T> using owner = std::unique_ptr<T, releaser>;

/** Calls a function that returns an object through its last argument, and owns the object:
 * `auto queue = compute::make<compute_queue>(compute_queue_create, device);` The function is a C
 * function, or a function object that returns a status. */
template <class T, class Function, class... Arguments>
owner<T> make(Function &&function, Arguments &&...arguments) {
  static_assert(std::is_invocable_r_v<compute_status, Function, Arguments..., T **>,
                "the function takes these arguments and an address, and returns a status");
  T *made = nullptr;
  const compute_status status =
      std::invoke(std::forward<Function>(function), std::forward<Arguments>(arguments)..., &made);
  owner<T> owned(made);
  check(status);
  return owned;
}

/* ---- Callbacks ----------------------------------------------------------------------------- */

namespace detail {
/** Passes the exception's text to the callbacks that can take one. */
template <class... Arguments>
void explain(compute_status, const char *, const Arguments &...) noexcept {}
inline void explain(compute_status status, const char *what,
                    const compute_call_arguments *const &arguments, const int32_t &,
                    const int32_t &) noexcept {
  (void)compute_call_fail(arguments, status, "%s", what);
}
inline void explain(compute_status status, const char *what,
                    compute_model_call *const &call) noexcept {
  (void)compute_model_call_fail(call, status, "%s", what);
}

/** The status for C. */
template <class... Arguments>
compute_status status_of(const std::exception_ptr &exception,
                         const Arguments &...arguments) noexcept {
  compute_status status = COMPUTE_ERROR_LAUNCH;
  try {
    std::rethrow_exception(exception);
  } catch (const error &e) {
    explain(status = e.status(), e.what(), arguments...);
  } catch (const std::bad_alloc &e) {
    explain(status = COMPUTE_ERROR_OUT_OF_MEMORY, e.what(), arguments...);
  } catch (const std::exception &e) {
    explain(status, e.what(), arguments...);
  } catch (...) {
    explain(status, "an exception of an unknown type", arguments...);
  }
  return status;
}
} // namespace detail

/** A function object as one of C's callbacks that take `void *user` first:
 *
 *     compute::callback<compute_batch_read_function> read(
 *         [&](int64_t first, int64_t items, void *data, int64_t *count) { … });
 *     source.read = read.function();
 *     source.user = read.user();
 *
 * An exception that the object throws ends here, because C cannot pass it on. C gets a status:
 * compute::error's, COMPUTE_ERROR_OUT_OF_MEMORY for std::bad_alloc, else COMPUTE_ERROR_LAUNCH; or
 * false, NULL or {0} if the callback returns another type. rethrow() throws the first of them once
 * C has returned. An object that returns nothing, where C expects a status, succeeds.
 *
 * It stays where it is, and must outlive its use by C. Calls may overlap where C's do. */
template <class Function> class callback;

template <class Result, class... Arguments> class callback<Result (*)(void *, Arguments...)> {
public:
  template <class Object, class = std::enable_if_t<std::is_invocable_v<Object &, Arguments...>>>
  explicit callback(Object object) {
    if constexpr (std::is_void_v<std::invoke_result_t<Object &, Arguments...>> &&
                  std::is_same_v<Result, compute_status>)
      call_ = [object = std::move(object)](Arguments... arguments) mutable {
        std::invoke(object, arguments...);
        return COMPUTE_OK;
      };
    else
      call_ = std::move(object);
  }
  callback(const callback &) = delete;
  callback &operator=(const callback &) = delete;

  using pointer = Result (*)(void *, Arguments...);
  pointer function() const { return run; }
  void *user() const { return const_cast<callback *>(this); }

  /** Throws the first exception since the last call, if there was one. */
  void rethrow() {
    std::exception_ptr first;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      std::swap(first, first_);
    }
    if (first) std::rethrow_exception(first);
  }

private:
  static Result run(void *user, Arguments... arguments) noexcept {
    callback *self = static_cast<callback *>(user);
    try {
      return self->call_(arguments...);
    } catch (...) {
      return self->keep(std::current_exception(), arguments...);
    }
  }
  Result keep(const std::exception_ptr &exception, const Arguments &...arguments) noexcept {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!first_) first_ = exception;
    }
    if constexpr (std::is_same_v<Result, compute_status>)
      return detail::status_of(exception, arguments...);
    else if constexpr (!std::is_void_v<Result>)
      return Result{};
  }
  std::function<Result(Arguments...)> call_;
  std::mutex mutex_;
  std::exception_ptr first_;
};

/* ---- Context ------------------------------------------------------------------------------- */

/** An open context; closed by the destructor, which does not report the errors of close(). */
class context {
public:
  context() { check(compute_open(&context_, nullptr)); }
  explicit context(const compute_open_options &options) {
    check(compute_open(&context_, &options));
  }
  context(context &&other) noexcept : context_(std::exchange(other.context_, nullptr)) {}
  context &operator=(context &&other) noexcept {
    context taken(std::move(other));
    std::swap(context_, taken.context_);
    return *this;
  }
  ~context() {
    if (context_) (void)compute_close(context_);
  }
  operator compute_context *() const { return context_; }

  /** Closes it; throws, and leaves it open, while objects of it exist (compute_close). */
  void close() {
    check(compute_close(context_));
    context_ = nullptr;
  }

  compute_device *device() const { return compute_default_device(context_); }
  compute_device *device(const char *name) const { /**< "cuda:0" */
    compute_device *found = nullptr;
    check(compute_device_by_name(context_, name, &found));
    return found;
  }
  /** All devices, the best first. */
  std::vector<compute_device *> devices() const {
    std::vector<compute_device *> all;
    for (compute_device *d; (d = compute_device_at(context_, all.size())) != nullptr;)
      all.push_back(d);
    return all;
  }

private:
  compute_context *context_ = nullptr;
};

/** The static properties of a device. */
inline compute_device_info describe(const compute_device *device) {
  compute_device_info info;
  check(compute_device_describe(device, &info));
  return info;
}

/* ---- Tensors ------------------------------------------------------------------------------- */

/** A reference to a tensor. Copies are references to the same tensor, as compute_tensor_retain
 * makes them; clone() copies the elements. */
class tensor {
public:
  tensor() = default;
  /** Takes over a reference that the caller owns. */
  explicit tensor(compute_tensor *owned) : tensor_(owned) {}
  tensor(owner<compute_tensor> owned) : tensor_(std::move(owned)) {}
  /** Elements are undefined. */
  tensor(compute_device *device, compute_dtype dtype, compute_shape shape)
      : tensor_(make<compute_tensor>(compute_tensor_create, device, dtype, shape)) {}
  /** A copy of `values`, as many as the shape has. */
  template <class T>
  tensor(compute_device *device, compute_shape shape, const std::vector<T> &values)
      : tensor(device, shape, values.data(), values.size()) {}
  template <class T>
  tensor(compute_device *device, compute_shape shape, std::initializer_list<T> values)
      : tensor(device, shape, values.begin(), values.size()) {}
  template <class T>
  tensor(compute_device *device, compute_shape shape, const T *values, size_t count) {
    static_assert(dtype_of<T> != COMPUTE_DTYPE_NONE, "this type has no dtype");
    tensor made(device, dtype_of<T>, shape);
    check(compute_tensor_write(made, values, count * sizeof(T)));
    *this = std::move(made);
  }
  /** A scalar. */
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  tensor(compute_device *device, T value) : tensor(device, compute_shape{}, &value, 1) {}

  tensor(const tensor &other)
      : tensor_(other.tensor_ ? compute_tensor_retain(other.get()) : nullptr) {}
  tensor(tensor &&) noexcept = default;
  tensor &operator=(tensor other) noexcept {
    tensor_ = std::move(other.tensor_);
    return *this;
  }

  compute_tensor *get() const { return tensor_.get(); }
  operator compute_tensor *() const { return get(); }

  compute_shape shape() const { return compute_tensor_shape(get()); }
  compute_dtype dtype() const { return compute_tensor_dtype(get()); }
  int64_t count() const { return compute_tensor_count(get()); } /**< elements */
  compute_device *device() const { return compute_tensor_device(get()); }

  /** The elements, dense and row-major. T must be the type of the tensor's dtype. */
  template <class T> std::vector<T> read() const {
    static_assert(!std::is_same_v<T, bool>, "read<uint8_t>() reads bool, too");
    std::vector<T> values(static_cast<size_t>(count()));
    check_type<T>("read");
    check(compute_tensor_read(get(), values.data(), values.size() * sizeof(T)));
    return values;
  }
  template <class T> void write(const std::vector<T> &values) const {
    check_type<T>("write");
    check(compute_tensor_write(get(), values.data(), values.size() * sizeof(T)));
  }

  /** A dense copy on `to`, or on its own device. */
  tensor clone(compute_device *to = nullptr) const {
    return make<compute_tensor>(compute_tensor_to_device, get(), to ? to : device());
  }

private:
  template <class T> void check_type(const char *operation) const {
    const bool same = dtype_of<T> == dtype() || (dtype() == COMPUTE_BOOL && sizeof(T) == 1);
    if (same) return;
    throw error(COMPUTE_ERROR_DTYPE, operation,
                std::string(operation) + ": the tensor is " + compute_dtype_name(dtype()) +
                    ", the vector " + compute_dtype_name(dtype_of<T>));
  }
  owner<compute_tensor> tensor_;
};

/** An eager operation: eager(compute_tensor_matmul, a, b). It may be a function object, as for
 * make: one that fills in attributes, for example. */
template <class Operation, class... Arguments>
tensor eager(Operation &&operation, Arguments &&...arguments) {
  return make<compute_tensor>(std::forward<Operation>(operation),
                              std::forward<Arguments>(arguments)...);
}

inline tensor operator+(const tensor &a, const tensor &b) {
  return eager(compute_tensor_add, a, b);
}
inline tensor operator-(const tensor &a, const tensor &b) {
  return eager(compute_tensor_sub, a, b);
}
inline tensor operator*(const tensor &a, const tensor &b) {
  return eager(compute_tensor_mul, a, b);
}
inline tensor operator/(const tensor &a, const tensor &b) {
  return eager(compute_tensor_div, a, b);
}
inline tensor operator-(const tensor &x) {
  return eager(compute_tensor_neg, x);
}

namespace detail {
/** `value` as a scalar of x's dtype, beside x. */
inline tensor scalar_like(const tensor &x, double value) {
  return eager(compute_tensor_full, x.device(), x.dtype(), compute_shape{}, value);
}
} // namespace detail

inline tensor operator+(const tensor &a, double b) {
  return a + detail::scalar_like(a, b);
}
inline tensor operator-(const tensor &a, double b) {
  return a - detail::scalar_like(a, b);
}
inline tensor operator*(const tensor &a, double b) {
  return a * detail::scalar_like(a, b);
}
inline tensor operator/(const tensor &a, double b) {
  return a / detail::scalar_like(a, b);
}
inline tensor operator+(double a, const tensor &b) {
  return detail::scalar_like(b, a) + b;
}
inline tensor operator-(double a, const tensor &b) {
  return detail::scalar_like(b, a) - b;
}
inline tensor operator*(double a, const tensor &b) {
  return detail::scalar_like(b, a) * b;
}
inline tensor operator/(double a, const tensor &b) {
  return detail::scalar_like(b, a) / b;
}

/* Without these, a == b would compare addresses. compute_tensor_equal and its like compare
 * elements, a.get() == b.get() identities. */
void operator==(const tensor &, const tensor &) = delete;
void operator!=(const tensor &, const tensor &) = delete;
void operator<(const tensor &, const tensor &) = delete;
void operator<=(const tensor &, const tensor &) = delete;
void operator>(const tensor &, const tensor &) = delete;
void operator>=(const tensor &, const tensor &) = delete;

/* ---- Graphs -------------------------------------------------------------------------------- */

/** A node with its graph, which must outlive it, so that operators can record. */
struct node {
  compute_graph *graph = nullptr;
  compute_node value{};

  operator compute_node() const { return value; }
  compute_shape shape() const { return compute_node_shape(graph, value); }
  compute_dtype dtype() const { return compute_node_dtype(graph, value); }
};

inline node operator+(node a, node b) {
  return {a.graph, compute_add(a.graph, a, b)};
}
inline node operator-(node a, node b) {
  return {a.graph, compute_sub(a.graph, a, b)};
}
inline node operator*(node a, node b) {
  return {a.graph, compute_mul(a.graph, a, b)};
}
inline node operator/(node a, node b) {
  return {a.graph, compute_div(a.graph, a, b)};
}
inline node operator-(node x) {
  return {x.graph, compute_neg(x.graph, x)};
}

namespace detail {
/** `value` as a scalar of x's dtype. */
inline node scalar_like(node x, double value) {
  return {x.graph, compute_scalar(x.graph, x.dtype(), value)};
}
} // namespace detail

inline node operator+(node a, double b) {
  return a + detail::scalar_like(a, b);
}
inline node operator-(node a, double b) {
  return a - detail::scalar_like(a, b);
}
inline node operator*(node a, double b) {
  return a * detail::scalar_like(a, b);
}
inline node operator/(node a, double b) {
  return a / detail::scalar_like(a, b);
}
inline node operator+(double a, node b) {
  return detail::scalar_like(b, a) + b;
}
inline node operator-(double a, node b) {
  return detail::scalar_like(b, a) - b;
}
inline node operator*(double a, node b) {
  return detail::scalar_like(b, a) * b;
}
inline node operator/(double a, node b) {
  return detail::scalar_like(b, a) / b;
}

/** A compiled graph. */
class plan {
public:
  plan() = default;
  plan(owner<compute_plan> owned) : plan_(std::move(owned)) {}
  operator compute_plan *() const { return plan_.get(); }

  /** Runs it with inputs and outputs bound: plan.run({{x, in}, {y, out}}). See compute_run. */
  void run(std::initializer_list<compute_binding> bindings, compute_queue *queue = nullptr) const {
    check(compute_run(*this, bindings.begin(), bindings.size(), queue));
  }
  void run(const std::vector<compute_binding> &bindings, compute_queue *queue = nullptr) const {
    check(compute_run(*this, bindings.data(), bindings.size(), queue));
  }
  /** Starts a run in the background (compute_submit); compute_job_wait waits for it. */
  owner<compute_job> submit(std::initializer_list<compute_binding> bindings,
                            const compute_submit_options *options = nullptr) const {
    return make<compute_job>(compute_submit, plan_.get(), bindings.begin(), bindings.size(),
                             options);
  }
  /** A tensor with the shape and dtype of an input or output, on the plan's device. */
  tensor create_tensor(compute_node of) const {
    return make<compute_tensor>(compute_plan_create_tensor, plan_.get(), of);
  }
  /** The steps as text. */
  std::string explain() const { return make<char>(compute_explain, plan_.get()).get(); }

private:
  owner<compute_plan> plan_;
};

/** A graph under construction. Any builder can be called through it, without the graph:
 * `g(compute_softmax, x, -1)`. Errors of builders appear in compile(). */
class graph {
public:
  explicit graph(compute_context *context) : graph_(compute_graph_create(context)) {
    if (graph_) return;
    check(context ? COMPUTE_ERROR_OUT_OF_MEMORY : COMPUTE_ERROR_NULL_POINTER);
  }
  operator compute_graph *() const { return graph_.get(); }

  template <class... Parameters, class... Arguments>
  node operator()(compute_node (*builder)(compute_graph *, Parameters...),
                  Arguments &&...arguments) const {
    return {*this, builder(*this, std::forward<Arguments>(arguments)...)};
  }
  node input(compute_dtype dtype, compute_shape shape) const {
    return (*this)(compute_input, dtype, shape);
  }
  node parameter(compute_tensor *tensor) const { return (*this)(compute_parameter, tensor); }
  node scalar(compute_dtype dtype, double value) const {
    return (*this)(compute_scalar, dtype, value);
  }
  /** A constant of the given shape and values. */
  template <class T> node constant(compute_shape shape, const std::vector<T> &values) const {
    static_assert(dtype_of<T> != COMPUTE_DTYPE_NONE, "this type has no dtype");
    int64_t count = -1;
    if (compute_shape_count(shape, &count) == COMPUTE_OK &&
        static_cast<uint64_t>(count) != values.size())
      throw error(COMPUTE_ERROR_SHAPE, "constant",
                  "constant: " + std::to_string(values.size()) + " values for a shape of " +
                      std::to_string(count));
    return (*this)(compute_constant, dtype_of<T>, shape, values.data());
  }
  plan compile(std::initializer_list<compute_node> outputs,
               const compute_plan_options *options = nullptr) const {
    return make<compute_plan>(compute_compile, graph_.get(), outputs.begin(), outputs.size(),
                              options);
  }
  plan compile(const std::vector<compute_node> &outputs,
               const compute_plan_options *options = nullptr) const {
    return make<compute_plan>(compute_compile, graph_.get(), outputs.data(), outputs.size(),
                              options);
  }

private:
  owner<compute_graph> graph_;
};

} // namespace compute

#endif /* C++17 */
#endif
