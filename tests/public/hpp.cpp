/* SPDX-License-Identifier: MIT */
/* compute.hpp keeps its promises: owners release, references count, failures throw with their
 * texts. hpp.sh compiles and runs this file. */
#include <cstdio>
#include <cstdlib>
#include <string>

#include "compute/compute.hpp"

static void expect(bool good, const char *what) {
  if (good) return;
  std::fprintf(stderr, "FAILED: %s\n", what);
  std::exit(1);
}

template <class F> static compute_status thrown(F &&call) {
  try {
    call();
  } catch (const compute::error &e) {
    expect(e.what()[0] != '\0', "an error has a message");
    return e.status();
  }
  return COMPUTE_OK;
}

static void tensors(compute::context &context) {
  compute_device *device = context.device();
  compute::tensor a(device, compute::shape(2, 3), std::vector<int32_t>{1, 2, 3, 4, 5, 6});
  compute::tensor same = a, copy = a.clone();
  copy.write(std::vector<int32_t>(6, 9));
  expect(a.read<int32_t>()[0] == 1, "a clone has elements of its own");
  same.write(std::vector<int32_t>{7, 2, 3, 4, 5, 6});
  expect(a.read<int32_t>()[0] == 7, "a copy refers to the same tensor");
  expect(same.get() == a.get() && a.count() == 6 && a.shape().rank == 2, "facts of a tensor");
  a = std::move(copy);
  expect((a - same).read<int32_t>()[0] == 2, "a moved tensor keeps its elements");
  a = compute::tensor();
  compute::tensor self(device, 2.5);
  self = *&self;
  expect(self.read<double>() == std::vector<double>{2.5}, "a scalar, assigned to itself");

  expect(thrown([&] { (void)same.read<float>(); }) == COMPUTE_ERROR_DTYPE, "another type is read");
  expect(thrown([&] { same.write(std::vector<int32_t>(5)); }) == COMPUTE_ERROR_SHAPE, "too few");
  expect(thrown([&] { (void)compute::tensor(device, compute::shape(3), {1.f}); }) ==
             COMPUTE_ERROR_SHAPE,
         "too few values for a shape");
  expect(thrown([&] { (void)compute::eager(compute_tensor_matmul, same, same); }) ==
             COMPUTE_ERROR_SHAPE,
         "shapes that do not fit");
}

static void graphs(compute::context &context) {
  compute::graph g(context);
  auto x = g.input(COMPUTE_F32, compute::shape(2, 2));
  auto y = g(compute_sum, 1.0 - -(x * 2.0 + x) / 3.0, compute::axes(-1), false);
  auto all = g(compute_sum, x, compute::all_axes, true);
  compute::plan plan = g.compile({y, all});
  compute::tensor in(context.device(), compute::shape(2, 2), {1.f, 2.f, 3.f, 4.f});
  compute::tensor out = plan.create_tensor(y), sum = plan.create_tensor(all);
  plan.run({{x, in}, {y, out}, {all, sum}});
  expect(out.read<float>() == std::vector<float>{5, 9}, "values of a graph");
  expect(sum.shape().rank == 2 && sum.read<float>()[0] == 10, "the sum of all");
  auto job = plan.submit({{x, in}, {y, out}, {all, sum}});
  compute::check(compute_job_wait(job.get(), 0));
  auto queue = compute::make<compute_queue>(compute_queue_create, context.device());
  plan.run({{x, in}, {y, out}, {all, sum}}, queue.get());
  compute::check(compute_queue_wait(queue.get()));
  expect(!plan.explain().empty(), "steps as text");

  compute::graph bad(context);
  auto wrong =
      bad.input(COMPUTE_F32, compute::shape(3)) + bad.input(COMPUTE_F32, compute::shape(4));
  expect(thrown([&] { (void)bad.compile({wrong}); }) == COMPUTE_ERROR_SHAPE, "a builder's error");
  expect(thrown([&] {
           (void)bad.constant(compute::shape(3), std::vector<float>{1, 2});
         }) == COMPUTE_ERROR_SHAPE,
         "a constant of too few values");
  expect(thrown([] { (void)compute::graph(nullptr); }) == COMPUTE_ERROR_NULL_POINTER,
         "a graph without a context");
}

/* Every object of the C interface has an owner. */
static void owners() {
  (void)compute::owner<compute_batch>();
  (void)compute::owner<compute_dataset>();
  (void)compute::owner<compute_event>();
  (void)compute::owner<compute_fit>();
  (void)compute::owner<compute_graph>();
  (void)compute::owner<compute_group_request>();
  (void)compute::owner<compute_job>();
  (void)compute::owner<compute_kernel>();
  (void)compute::owner<compute_layer>();
  (void)compute::owner<compute_model>();
  (void)compute::owner<compute_plan>();
  (void)compute::owner<compute_process_group>();
  (void)compute::owner<compute_queue>();
  (void)compute::owner<compute_tensor>();
  (void)compute::owner<compute_tensor_file>();
  (void)compute::owner<compute_trainer>();
  (void)compute::owner<compute_tree_model>();
}

template <class T, class = void> struct equality_exists : std::false_type {};
template <class T>
struct equality_exists<T, std::void_t<decltype(std::declval<T>() == std::declval<T>())>>
    : std::true_type {};
template <class T, class = void> struct order_exists : std::false_type {};
template <class T>
struct order_exists<T, std::void_t<decltype(std::declval<T>() < std::declval<T>())>>
    : std::true_type {};
static_assert(!equality_exists<const compute::tensor &>::value &&
                  !order_exists<const compute::tensor &>::value,
              "tensors are not compared by their addresses");

static void numbers_beside_tensors(compute::context &context) {
  const compute::tensor x(context.device(), compute::shape(2), {1.f, 4.f});
  const std::vector<float> values = (3 - 8.0 / (2.f * x + 2) * 1).read<float>();
  expect(values == std::vector<float>{1.f, 2.2f}, "numbers beside tensors");
  const compute::tensor sum = compute::eager(
      [](const compute_tensor *of, compute_tensor **result) {
        return compute_tensor_sum(of, compute::axes(0), false, result);
      },
      x);
  expect(sum.read<float>()[0] == 5, "a function object as an eager operation");
}

static void moves(compute::context &context) {
  compute::context first, second;
  compute_context *const kept = second;
  first = std::move(second);
  expect(static_cast<compute_context *>(second) == nullptr, "a moved-from context owns nothing");
  expect(static_cast<compute_context *>(first) == kept, "and its new owner has it");
  compute::graph g(context), taken = std::move(g);
  expect(static_cast<compute_graph *>(g) == nullptr, "a moved-from graph owns nothing");
}

struct unknown {};

/* Throws according to its input: 0 nothing, 1 to 4 an exception. */
static void throw_number(int number) {
  if (number == 1) throw compute::error(COMPUTE_ERROR_FORMAT, "mine", "a message of mine");
  if (number == 2) throw std::bad_alloc();
  if (number == 3) throw std::runtime_error("not today");
  if (number == 4) throw unknown();
}

static void exceptions_of_calls(compute::context &context) {
  static const compute_status statuses[] = {COMPUTE_OK, COMPUTE_ERROR_FORMAT,
                                            COMPUTE_ERROR_OUT_OF_MEMORY, COMPUTE_ERROR_LAUNCH,
                                            COMPUTE_ERROR_LAUNCH};
  static const char *const texts[] = {"", "a message of mine", "", "not today", "unknown type"};
  int number = 0;
  compute::callback<compute_call_function> twice(
      [&](const compute_call_arguments *a, int32_t, int32_t) {
        throw_number(number);
        const float *in = static_cast<const float *>(a->inputs[0].data);
        for (int64_t i = 0; i < a->outputs[0].count; i++)
          static_cast<float *>(a->outputs[0].data)[i] = 2 * in[i];
      });
  compute::graph g(context);
  auto x = g.input(COMPUTE_F32, compute::shape(4));
  const compute_node from = x;
  const compute_call_output form = {COMPUTE_F32, compute::shape(4)};
  auto y = g(compute_call, twice.function(), twice.user(), &from, 1, &form, 1, nullptr, nullptr);
  compute::plan plan = g.compile({y});
  compute::tensor in(context.device(), compute::shape(4), {1.f, 2.f, 3.f, 4.f});
  compute::tensor out = plan.create_tensor(y);
  for (number = 4; number >= 0; number--) {
    std::string text;
    compute_status status = COMPUTE_OK;
    try {
      plan.run({{x, in}, {y, out}});
    } catch (const compute::error &e) {
      status = e.status();
      text = e.what();
    }
    expect(status == statuses[number], "the status of an exception");
    expect(text.find(texts[number]) != std::string::npos, "the text of an exception");
    bool again = false;
    try {
      twice.rethrow();
    } catch (...) {
      again = true;
    }
    expect(again == (number > 0), "the exception itself");
  }
  expect(out.read<float>()[3] == 8, "a function object as an operation");
}

/* A source that throws in the middle, and a progress function that throws. */
static void exceptions_of_batches(compute::context &context) {
  compute::callback<compute_batch_build_function> build(
      [](compute_graph *graph, int64_t, const compute_node *inputs, compute_node *outputs) {
        outputs[0] = compute_neg(graph, inputs[0]);
      });
  bool fails = true;
  compute::callback<compute_batch_read_function> read(
      [&](int64_t first, int64_t items, void *data, int64_t *count) {
        if (fails && first >= 100) throw std::runtime_error("the camera is off");
        for (int64_t i = 0; i < items; i++) static_cast<float *>(data)[i] = 1;
        *count = items;
      });
  double sum = 0;
  compute::callback<compute_batch_write_function> write(
      [&](int64_t, int64_t items, const void *data) {
        for (int64_t i = 0; i < items; i++) sum += static_cast<const float *>(data)[i];
      });
  compute_batch_port input = {};
  input.dtype = COMPUTE_F32;
  compute_batch_options options = {};
  options.build = build.function();
  options.user = build.user();
  options.inputs = &input;
  options.input_count = 1;
  options.batch = 50;
  options.output_count = 1;
  auto batch = compute::make<compute_batch>(compute_batch_create,
                                            static_cast<compute_context *>(context), &options);
  compute_batch_source source = {};
  source.read = read.function();
  source.user = read.user();
  compute_batch_sink sink = {};
  sink.write = write.function();
  sink.user = write.user();
  compute_batch_run_options run = {};
  run.items = 1000;
  run.sources = &source;
  run.sinks = &sink;
  expect(compute_batch_run(batch.get(), &run, nullptr) == COMPUTE_ERROR_LAUNCH, "a source throws");
  std::string text;
  try {
    read.rethrow();
  } catch (const std::runtime_error &e) {
    text = e.what();
  }
  expect(text == "the camera is off" && sum == -100, "what was read before is delivered");
  fails = false;
  expect(compute_batch_run(batch.get(), &run, nullptr) == COMPUTE_OK && sum == -1100,
         "the next run");
}

int main() {
  compute::context context;
  compute::context moved = std::move(context);
  tensors(moved);
  graphs(moved);
  owners();
  numbers_beside_tensors(moved);
  moves(moved);
  exceptions_of_calls(moved);
  exceptions_of_batches(moved);
  expect(compute::describe(moved.device()).name[0] != 0, "a device has a name");
  expect(!moved.devices().empty(), "there is a device");
  expect(thrown([&] { (void)moved.device("nothing:7"); }) == COMPUTE_ERROR_NO_DEVICE, "no device");
  moved.close();
  return 0;
}
