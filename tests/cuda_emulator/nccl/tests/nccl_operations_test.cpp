// Operations of the emulated libnccl, alone and in groups, and its one-sided ones.

#include <numeric>

#include "base/clock.h"
#include "check.h"
#include "library.h"

using namespace nccl_abi;
using namespace nccl_test;
using fake::on_device;

TEST(a_group_may_not_mix_blocking_and_nonblocking_communicators) {
  const std::string errors = run_world(1, true, [](int, CommHandle& comm) {
    Config config = nonblocking();
    CommHandle other = nullptr;
    nccl().comm_init_rank_config(&other, 1, unique_id(), 0, &config);
    expect_success(settle(other), "ready");
    fake::Stream stream;
    float x = 1;
    expect_success(nccl().group_start(), "start");
    all_reduce(&x, 1, comm, stream);
    all_reduce(&x, 1, other, stream);
    expect(nccl().group_end() == kInvalidArgument, "refused");
    expect_success(nccl().comm_destroy(other), "destroy");
  });
  CHECK_EQ(errors, std::string());
}

TEST(a_premultiplied_sum_may_be_destroyed_in_the_group_that_uses_it) {
  const std::string errors = run_world(2, true, [](int, CommHandle& comm) {
    fake::Stream stream;
    float x = 2, factor = 5;
    expect_success(nccl().group_start(), "start");
    RedOp op{};
    expect_success(nccl().red_op_create_pre_mul_sum(&op, &factor, kFloat32, kScalarHostImmediate, comm), "create");
    expect_success(nccl().all_reduce(on_device(&x), on_device(&x), 1, kFloat32, op, comm, &stream), "all_reduce");
    expect_success(nccl().red_op_destroy(op, comm), "destroy");
    expect_success(nccl().group_end(), "end");
    stream.synchronize();
    expect(x == 20, "value");
    expect(nccl().red_op_destroy(op, comm) != kSuccess, "it is gone");
  });
  CHECK_EQ(errors, std::string());
}

TEST(all_to_all_by_sends_and_receives_in_a_group) {
  const std::string errors = run_world(3, false, [](int rank, CommHandle& comm) {
    fake::Stream stream;
    constexpr size_t kCount = 100'000;
    std::vector<std::vector<int32_t>> out(3), in(3, std::vector<int32_t>(kCount));
    expect_success(nccl().group_start(), "start");
    for (int peer = 0; peer < 3; ++peer) {
      const auto at = static_cast<size_t>(peer);
      out[at].assign(kCount, 10 * rank + peer);
      expect_success(nccl().send(on_device(out[at].data()), kCount, kInt32, peer, comm, &stream), "send");
      expect_success(nccl().recv(on_device(in[at].data()), kCount, kInt32, peer, comm, &stream), "recv");
    }
    expect_success(nccl().group_end(), "end");
    stream.synchronize();
    for (int peer = 0; peer < 3; ++peer) {
      const auto& got = in[static_cast<size_t>(peer)];
      expect(got.front() == 10 * peer + rank && got.back() == got.front(), "value");
    }
  });
  CHECK_EQ(errors, std::string());
}

TEST(a_put_arrives_with_its_signal) {
  const std::string errors = run_world(3, true, [](int rank, CommHandle& comm) {
    fake::Stream stream;
    const int right = (rank + 1) % 3, left = (rank + 2) % 3;
    std::vector<float> window(64, -1), local(16, static_cast<float>(rank));
    Window registered = nullptr;
    expect(more().ncclSignal(right, 0, 0, 0, comm, &stream) == kInvalidUsage, "no window yet");
    expect_success(more().ncclCommWindowRegister(comm, on_device(window.data()), 256, &registered, 0), "register");
    void* start = nullptr;
    expect_success(more().ncclWinGetUserPtr(comm, registered, &start), "pointer");
    expect(start == on_device(window.data()), "it is ours");
    expect_success(more().ncclGetPeerDevicePointer(registered, 8, rank, &start), "own");
    expect(start == on_device(window.data() + 2), "own memory has an address");
    expect_success(more().ncclGetPeerDevicePointer(registered, 8, right, &start), "a peer's");
    expect(start == nullptr, "a peer's has none");
    for (int round = 0; round < 3; ++round) {
      expect_success(
          more().ncclPutSignal(on_device(local.data()), 16, kFloat32, right, registered, 64, 3, 0, 0, comm, &stream),
          "put");
      nccl_abi::WaitSignal wanted{1, left, 3, 0};
      expect_success(more().ncclWaitSignal(1, &wanted, comm, &stream), "wait");
    }
    stream.synchronize();
    expect(window[15] == -1 && window[16] == static_cast<float>(left) && window[31] == window[16] && window[32] == -1,
           "the data is where it belongs");
    expect_success(all_reduce(local.data(), 1, comm, stream), "nobody leaves before all have got theirs");
    stream.synchronize();
    expect_success(more().ncclCommWindowDeregister(comm, registered), "deregister");
    expect(more().ncclCommWindowDeregister(comm, registered) == kInvalidArgument, "once");
  });
  CHECK_EQ(errors, std::string());
}

TEST(a_put_beyond_the_window_breaks_the_communicator) {
  const std::string errors = run_world(1, true, [](int, CommHandle& comm) {
    fake::Stream stream;
    std::vector<float> memory(16);
    Window window = nullptr;
    expect_success(more().ncclCommWindowRegister(comm, on_device(memory.data()), 64, &window, 0), "register");
    more().ncclPutSignal(on_device(memory.data()), 8, kFloat32, 0, window, 40, 0, 0, 0, comm, &stream);
    stream.synchronize();
    expect(async_error(comm) == kRemoteError, "broken");
    expect(std::string(nccl().get_last_error(comm)).find("into a window of 64") != std::string::npos, "says why");
  });
  CHECK_EQ(errors, std::string());
}

TEST(abort_ends_a_wait_for_signals) {
  const std::string errors = run_world(1, true, [](int, CommHandle& comm) {
    fake::Stream stream;
    std::vector<float> memory(16);
    Window window = nullptr;
    expect_success(more().ncclCommWindowRegister(comm, on_device(memory.data()), 64, &window, 0), "register");
    nccl_abi::WaitSignal wanted{1, 0, 0, 0};
    expect_success(more().ncclWaitSignal(1, &wanted, comm, &stream), "wait");
    expect_success(nccl().comm_abort(std::exchange(comm, nullptr)), "abort");
    stream.synchronize();
  });
  CHECK_EQ(errors, std::string());
}

CHECK_MAIN()
