// Faults on order: calls that stay in progress, operations that hang, asynchronous errors.

#include <barrier>
#include <cstring>

#include "base/clock.h"
#include "check.h"
#include "library.h"

using namespace nccl_abi;
using namespace nccl_test;
using namespace std::chrono_literals;

namespace {

constexpr int64_t kForEver = -1;

void polls_in_progress(CommHandle comm, int times) {
  for (int i = 0; i < times; ++i) expect(async_error(comm) == kInProgress, "poll " + std::to_string(i));
}

// No fault of one test is left for the next.
struct Faults {
  Faults() { more().ncclEmulatorClearFaults(); }
  ~Faults() { more().ncclEmulatorClearFaults(); }
};

}  // namespace

TEST(init_stays_in_progress_for_some_polls) {
  const Faults faults;
  CHECK_EQ(more().ncclEmulatorStayInProgress(ncclEmulatorInit, 3, 0, 1), 0);
  Config config = nonblocking();
  CommHandle comm = nullptr;
  CHECK_EQ(nccl().comm_init_rank_config(&comm, 1, unique_id(), 0, &config), kInProgress);
  polls_in_progress(comm, 3);
  CHECK_EQ(settle(comm), kSuccess);
  CHECK_EQ(nccl().comm_destroy(comm), kSuccess);
}

TEST(init_stays_in_progress_for_ever_and_can_be_aborted) {
  const Faults faults;
  CHECK_EQ(more().ncclEmulatorStayInProgress(ncclEmulatorInit, kForEver, 0, 1), 0);
  Config config = nonblocking();
  CommHandle comm = nullptr;
  CHECK_EQ(nccl().comm_init_rank_config(&comm, 1, unique_id(), 0, &config), kInProgress);
  polls_in_progress(comm, 100);
  CHECK_EQ(nccl().comm_abort(comm), kSuccess);
  CHECK_EQ(nccl().comm_init_rank_config(&comm, 1, unique_id(), 0, &config), kInProgress);
  CHECK_EQ(settle(comm), kSuccess);  // the plan was for one
  CHECK_EQ(nccl().comm_destroy(comm), kSuccess);
  CHECK_EQ(live_communicators(), 0);
}

TEST(split_stays_in_progress_for_ever_and_the_parent_survives) {
  const Faults faults;
  const std::string errors = run_world(1, false, [](int, CommHandle& comm) {
    more().ncclEmulatorStayInProgress(ncclEmulatorSplit, kForEver, 0, 1);
    CommHandle child = nullptr;
    expect(nccl().comm_split(comm, 0, 0, &child, nullptr) == kInProgress, "split");
    polls_in_progress(comm, 10);
    polls_in_progress(child, 10);
    CommHandle other = nullptr;
    expect(nccl().comm_split(comm, 0, 0, &other, nullptr) == kInvalidArgument, "the parent is busy");
    expect_success(nccl().comm_abort(child), "abort");
    expect_success(settle(comm), "the parent is free again");
    expect(nccl().comm_split(comm, 0, 0, &other, nullptr) == kInProgress, "split again");
    expect_success(settle(other), "made");
    expect_success(nccl().comm_destroy(other), "destroy");
  });
  CHECK_EQ(errors, std::string());
}

TEST(a_parent_that_is_aborted_takes_its_unborn_child_along) {
  const Faults faults;
  const std::string errors = run_world(1, false, [](int, CommHandle& comm) {
    more().ncclEmulatorStayInProgress(ncclEmulatorSplit, kForEver, 0, 1);
    CommHandle child = nullptr;
    nccl().comm_split(comm, 0, 0, &child, nullptr);
    expect_success(nccl().comm_abort(std::exchange(comm, nullptr)), "abort");
    expect(settle(child) == kInternalError, "the child has failed");
    expect_success(nccl().comm_destroy(child), "destroy");
  });
  CHECK_EQ(errors, std::string());
}

TEST(an_operation_is_not_on_the_stream_before_the_polls_are_over) {
  const Faults faults;
  more().ncclEmulatorStayInProgress(ncclEmulatorOperation, 2, 1, 1);  // the second
  const std::string errors = run_world(1, false, [](int, CommHandle& comm) {
    fake::Stream stream;
    float x = 1;
    expect_success(all_reduce(&x, 1, comm, stream), "the first passes");
    expect(all_reduce(&x, 1, comm, stream) == kInProgress, "the second");
    stream.push([&] { x = 5; });  // a program that goes on without waiting
    stream.synchronize();
    expect(all_reduce(&x, 1, comm, stream) == kInvalidArgument, "no third before");
    polls_in_progress(comm, 2);
    expect_success(settle(comm), "issued");
    stream.synchronize();
    expect(x == 5, "it ran after the rest");
    expect_success(all_reduce(&x, 1, comm, stream), "the third");
    stream.synchronize();
  });
  CHECK_EQ(errors, std::string());
}

TEST(a_group_that_stays_in_progress_for_ever_is_aborted_or_revoked) {
  for (const bool revoke : {false, true}) {
    const Faults faults;
    more().ncclEmulatorStayInProgress(ncclEmulatorOperation, kForEver, 0, 1);
    const std::string errors = run_world(1, false, [&](int, CommHandle& comm) {
      fake::Stream stream;
      float x = 1, y = 1;
      expect_success(nccl().group_start(), "start");
      all_reduce(&x, 1, comm, stream);
      all_reduce(&y, 1, comm, stream);
      expect(nccl().group_end() == kInProgress, "end");
      polls_in_progress(comm, 10);
      if (revoke) {
        expect(more().ncclCommRevoke(comm, 0) == kInProgress, "revoke");
      } else {
        expect_success(nccl().comm_abort(std::exchange(comm, nullptr)), "abort");
      }
    });
    CHECK_EQ(errors, std::string());
  }
}

TEST(an_asynchronous_error_after_some_operations) {
  const Faults faults;
  const std::string errors = run_world(1, false, [](int, CommHandle& comm) {
    fake::Stream stream;
    float x = 1;
    more().ncclEmulatorFailOperation(2, kSystemError, "the cable was pulled");
    for (int i = 0; i < 3; ++i) expect_success(all_reduce(&x, 1, comm, stream), "issued");
    expect(async_error(comm) == kSystemError, "the error");
    expect(std::strcmp(nccl().get_last_error(comm), "the cable was pulled") == 0, nccl().get_last_error(comm));
    const auto ended = stream.record();
    expect(!ended->wait(50ms), "the operation does not end");
    expect(all_reduce(&x, 1, comm, stream) == kSystemError, "no more operations");
    expect_success(nccl().comm_abort(std::exchange(comm, nullptr)), "abort");
    expect(ended->wait(), "now it does");
  });
  CHECK_EQ(errors, std::string());
}

TEST(an_operation_that_only_hangs) {
  const Faults faults;
  std::barrier together(2);
  const std::string errors = run_world(2, true, [&](int rank, CommHandle& comm) {
    fake::Stream stream;
    float x = 1;
    if (rank == 1) together.arrive_and_wait();
    if (rank == 0) more().ncclEmulatorFailOperation(0, kSuccess, nullptr);
    expect_success(all_reduce(&x, 1, comm, stream), "issued");
    if (rank == 0) together.arrive_and_wait();
    const auto ended = stream.record();
    expect(!ended->wait(50ms) && async_error(comm) == kSuccess, "neither rank gets on, and nothing tells why");
    together.arrive_and_wait();
    expect_success(nccl().comm_abort(std::exchange(comm, nullptr)), "abort");
    expect(ended->wait(), "ended");
  });
  CHECK_EQ(errors, std::string());
}

TEST(plans_that_make_no_sense_are_refused_and_calls_are_counted) {
  CHECK_EQ(more().ncclEmulatorStayInProgress(9, 1, 0, 1), 1);
  CHECK_EQ(more().ncclEmulatorFailOperation(0, kInProgress, nullptr), 1);
  const uint64_t before = more().ncclEmulatorCalls("ncclGetVersion");
  int version = 0;
  CHECK_EQ(nccl().get_version(&version), kSuccess);
  CHECK_EQ(version, 23007);
  CHECK_EQ(more().ncclEmulatorCalls("ncclGetVersion"), before + 1);
}

CHECK_MAIN()
