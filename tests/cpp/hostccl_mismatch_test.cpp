// Ranks that disagree about the next operation: all hear the same, which names both sides, and the communicator has failed.

#include <cstring>
#include <functional>
#include <vector>

#include "check.h"
#include "hostccl/hostccl.h"
#include "hostccl_world.h"

using namespace nccl_abi;
using namespace hostccl;
using hostccl_test::expect;
using hostccl_test::expect_success;
using hostccl_test::failure_of;
using hostccl_test::names;
using hostccl_test::run_world;

namespace {

// Rank 0 does one thing, all others another; all must hear kMismatch and both descriptions.
void expect_mismatch(const std::function<Result(bool odd_one, float* data, CommHandle comm)>& call,
                     const std::string& a, const std::string& b) {
  for (const int nranks : {2, 4}) {
    const std::string errors = run_world(nranks, [&](int rank, CommHandle comm) {
      std::vector<float> data(256, 1);
      const Result result = call(rank == 0, data.data(), comm);
      const Failure failure = failure_of(comm);
      expect(result == kInvalidUsage, "result " + std::to_string(result));
      expect(failure.kind == FailureKind::kMismatch, std::string("kind: ") + failure.text);
      expect(std::strstr(failure.text, a.c_str()) && std::strstr(failure.text, b.c_str()), failure.text);
      expect(names(failure, 0) && failure.nranks >= 2, "names both sides");
      // for good
      expect(hostcclBarrier(comm, nullptr) == kInvalidUsage, "the communicator has failed");
    });
    CHECK_EQ(errors, std::string());
  }
}

}  // namespace

TEST(mismatch_of_kind) {
  expect_mismatch(
      [](bool odd, float* data, CommHandle comm) {
        return odd ? ncclAllReduce(data, data, 8, kFloat32, kSum, comm, nullptr)
                   : ncclBroadcast(data, data, 8, kFloat32, 0, comm, nullptr);
      },
      "rank 0 called all_reduce float32[8] sum", "called broadcast float32[8] root 0");
}

TEST(mismatch_of_count_also_between_small_and_large) {
  expect_mismatch([](bool odd, float* data,
                     CommHandle comm) { return ncclAllReduce(data, data, odd ? 8 : 9, kFloat32, kSum, comm, nullptr); },
                  "float32[8]", "float32[9]");
  std::vector<float> large(1'000'000);
  expect_mismatch(
      [&](bool odd, float* data, CommHandle comm) {
        return odd ? ncclAllReduce(large.data(), large.data(), large.size(), kFloat32, kSum, comm, nullptr)
                   : ncclAllReduce(data, data, 9, kFloat32, kSum, comm, nullptr);
      },
      "float32[1000000]", "float32[9]");
}

TEST(mismatch_of_type_reduction_and_root) {
  expect_mismatch(
      [](bool odd, float* data, CommHandle comm) {
        return ncclAllReduce(data, data, 8, odd ? kInt32 : kFloat32, kSum, comm, nullptr);
      },
      "int32[8]", "float32[8]");
  expect_mismatch(
      [](bool odd, float* data, CommHandle comm) {
        return ncclAllReduce(data, data, 8, kFloat32, odd ? kMax : kSum, comm, nullptr);
      },
      "float32[8] max", "float32[8] sum");
  expect_mismatch([](bool odd, float* data,
                     CommHandle comm) { return ncclBroadcast(data, data, 8, kFloat32, odd ? 0 : 1, comm, nullptr); },
                  "root 0", "root 1");
}

TEST(mismatch_in_a_group_is_returned_by_its_end) {
  const std::string errors = run_world(2, [](int rank, CommHandle comm) {
    float data[4] = {};
    expect_success(ncclGroupStart(), "start");
    expect_success(ncclAllReduce(data, data, rank == 0 ? 3 : 4, kFloat32, kSum, comm, nullptr), "kept");
    expect(ncclGroupEnd() == kInvalidUsage, "both see it");
    expect(std::strstr(failure_of(comm).text, "float32[3]"), failure_of(comm).text);
  });
  CHECK_EQ(errors, std::string());
}

TEST(mismatch_of_pairwise_counts_is_seen_on_both_sides) {
  const std::string errors = run_world(2, [](int rank, CommHandle comm) {
    float in[8] = {}, out[8] = {};
    const void* send[] = {in, in + 4};
    void* recv[] = {out, out + 4};
    const size_t sent[] = {2, 2}, got[] = {2, rank == 0 ? size_t{3} : size_t{2}};
    expect(hostcclAllToAllv(send, sent, recv, got, kFloat32, comm, nullptr) == kInvalidUsage, "both see it");
    expect(std::strstr(failure_of(comm).text, "rank 1 sends 2 elements to rank 0, which expects 3"),
           failure_of(comm).text);
  });
  CHECK_EQ(errors, std::string());
}

TEST(mismatch_between_send_and_recv) {
  const std::string errors = run_world(2, [](int rank, CommHandle comm) {
    float data[4] = {};
    if (rank == 0) hostcclSend(data, 4, kFloat32, 1, 7, comm, nullptr, nullptr);
    if (rank == 1)
      expect(hostcclRecv(data, 3, kFloat32, 0, 7, comm, nullptr, nullptr, nullptr) == kInvalidUsage, "recv");
    expect(hostcclBarrier(comm, nullptr) == kInvalidUsage, "both have it");
    expect(std::strstr(failure_of(comm).text, "sends float32[4] with tag 7"), failure_of(comm).text);
  });
  CHECK_EQ(errors, std::string());
}

CHECK_MAIN()
