/* SPDX-License-Identifier: MIT */
/* compute.hpp does what it says: owners release, references count, failures throw with their texts.
 * hpp.sh compiles and runs it. */
#include <cstdio>
#include <cstdlib>

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
  bool refused = false;
  try {
    (void)bad.constant(compute::shape(3), std::vector<float>{1, 2});
  } catch (const std::invalid_argument &) {
    refused = true;
  }
  expect(refused, "a constant of too few values");
}

int main() {
  compute::context context;
  compute::context moved = std::move(context);
  tensors(moved);
  graphs(moved);
  expect(compute::describe(moved.device()).name[0] != 0, "a device has a name");
  expect(!moved.devices().empty(), "there is a device");
  expect(thrown([&] { (void)moved.device("nothing:7"); }) == COMPUTE_ERROR_NO_DEVICE, "no device");
  moved.close();
  return 0;
}
