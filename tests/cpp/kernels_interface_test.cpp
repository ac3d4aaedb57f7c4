// What the kernels say of themselves and what they refuse: sizes and names of types, which pairs there are, the width of their
// vectors, the divisor of an average; and that any thread may call them. Their results are in kernels_test.cpp.
#include "hostccl/kernels/kernels.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "kernels_types.h"

using hostccl::Reduction;
using kernels_test::kTypes;
using kernels_test::widths;
using nccl_abi::DataType;

TEST(every_type_has_a_size_and_a_name) {
  for (DataType type : kTypes) {
    CHECK_NE(hostccl::element_size(type), 0u);
    CHECK_NE(std::string(hostccl::type_name(type)), "unknown");
  }
  CHECK_EQ(hostccl::element_size(static_cast<DataType>(12)), 0u);
  CHECK_EQ(hostccl::element_size(DataType::kComplex128), 16u);
  CHECK_STREQ(hostccl::type_name(DataType::kFloat8e4m3), "float8_e4m3fn");
  CHECK_STREQ(hostccl::reduction_name(Reduction::kPreMulSum), "premul_sum");
}

TEST(supported_pairs) {
  for (DataType type : kTypes) {
    const bool complex = type == DataType::kComplex64 || type == DataType::kComplex128;
    const bool boolean = type == DataType::kBool;
    const bool whole = boolean || type == DataType::kInt16 || type == DataType::kUint16 || type <= DataType::kUint64;
    for (Reduction reduction : {Reduction::kSum, Reduction::kProd}) CHECK(hostccl::supports(type, reduction));
    for (Reduction reduction : {Reduction::kMax, Reduction::kMin})
      CHECK_EQ(hostccl::supports(type, reduction), !complex);
    for (Reduction reduction : {Reduction::kAvg, Reduction::kPreMulSum}) {
      CHECK_EQ(hostccl::supports(type, reduction), !boolean);
    }
    for (Reduction reduction : {Reduction::kBitAnd, Reduction::kBitOr, Reduction::kBitXor}) {
      CHECK_EQ(hostccl::supports(type, reduction), whole);
    }
  }
  CHECK(!hostccl::supports(static_cast<DataType>(12), Reduction::kSum));
}

TEST(an_average_divides_by_what_it_is_told) {
  const std::vector<float> a(100, 5.0f), b(100, 10.0f);
  std::vector<float> out(100);
  const void* const inputs[] = {a.data(), b.data()};
  hostccl::reduce({.out = out.data(),
                   .inputs = inputs,
                   .ninputs = 2,
                   .count = out.size(),
                   .reduction = Reduction::kAvg,
                   .divisor = 6});
  for (const float each : out) CHECK_EQ(each, 2.5f);
}

TEST(threads_share_the_kernels) {
  const std::vector<float> a(5000, 1.5f), b(5000, 2.0f);
  std::vector<std::vector<float>> results(4);
  std::vector<std::thread> threads;
  for (std::vector<float>& result : results) {
    threads.emplace_back([&] {
      result.resize(a.size());
      const void* const inputs[] = {a.data(), b.data()};
      hostccl::reduce(
          {.out = result.data(), .inputs = inputs, .ninputs = 2, .count = result.size(), .stream_also = true});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& result : results) CHECK(result == std::vector<float>(5000, 3.5f));
}

TEST(unsupported_pair_ends_the_process) {
  const pid_t child = fork();
  CHECK_LE(0, child);
  if (child == 0) {
    float x = 0;
    const void* input = &x;
    hostccl::reduce({&x, nullptr, &input, 1, 1, DataType::kFloat32, Reduction::kBitXor, nullptr, false});
    _exit(0);
  }
  int status = 0;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK(WIFSIGNALED(status));
  CHECK_EQ(WTERMSIG(status), SIGABRT);
}

TEST(vector_width_is_chosen_by_name) {
  for (const std::string& width : widths()) {
    CHECK(hostccl::set_vector_width(width.c_str()));
    CHECK_STREQ(hostccl::vector_width(), width);
  }
  const std::string before = hostccl::vector_width();
  CHECK(!hostccl::set_vector_width("avx1024"));
  CHECK(!hostccl::set_vector_width(""));
  CHECK(!hostccl::set_vector_width(nullptr));
  CHECK_STREQ(hostccl::vector_width(), before);
  CHECK(hostccl::set_vector_width("baseline"));
  widths();
}

CHECK_MAIN()
