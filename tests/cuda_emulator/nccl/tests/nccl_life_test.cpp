// The life of communicators in the emulated libnccl: made, split, shrunk, grown, revoked, suspended, ended.

#include <atomic>
#include <barrier>
#include <cstring>

#include "check.h"
#include "library.h"

using namespace nccl_abi;
using namespace nccl_test;
using namespace std::chrono_literals;

namespace {

void expect_sum(CommHandle comm, float want) {
  fake::Stream stream;
  float x = 1;
  expect_success(all_reduce(&x, 1, comm, stream), "all_reduce");
  stream.synchronize();
  expect(x == want, "the sum is " + std::to_string(x) + ", not " + std::to_string(want));
}

void finish(CommHandle& comm) { expect_success(nccl().comm_destroy(std::exchange(comm, nullptr)), "destroy"); }
void abandon(CommHandle& comm) { expect_success(nccl().comm_abort(std::exchange(comm, nullptr)), "abort"); }

}  // namespace

TEST(blocking_communicators_are_ready_when_the_call_returns) {
  const std::string errors = run_world(3, true, [](int rank, CommHandle& comm) {
    int count = 0, mine = -1;
    expect_success(nccl().comm_count(comm, &count), "count");
    expect_success(nccl().comm_user_rank(comm, &mine), "rank");
    expect(count == 3 && mine == rank, "count and rank");
    expect_sum(comm, 3);
    expect_success(nccl().comm_finalize(comm), "finalize");
    float x = 1;
    fake::Stream stream;
    expect(all_reduce(&x, 1, comm, stream) == kInvalidUsage, "finalized");
  });
  CHECK_EQ(errors, std::string());
  CHECK_EQ(live_communicators(), 0);
}

TEST(nonblocking_communicators_are_in_progress_until_all_have_come) {
  const UniqueId id = unique_id();
  std::barrier together(2);
  const std::string errors = run_ranks(2, [&](int rank) {
    Config config = nonblocking();
    CommHandle comm = nullptr;
    if (rank == 1) together.arrive_and_wait();
    expect(nccl().comm_init_rank_config(&comm, 2, id, rank, &config) == kInProgress, "begun");
    if (rank == 0) {
      expect(async_error(comm) == kInProgress, "in progress");
      float x = 1;
      fake::Stream stream;
      expect(all_reduce(&x, 1, comm, stream) == kInvalidArgument, "not to be used yet");
      expect(std::strstr(nccl().get_last_error(comm), "in progress"), nccl().get_last_error(comm));
      together.arrive_and_wait();
    }
    expect_success(settle(comm), "ready");
    expect_sum(comm, 2);
    expect(nccl().comm_finalize(comm) == kInProgress, "finalize");
    expect_success(settle(comm), "finalized");
    finish(comm);
  });
  CHECK_EQ(errors, std::string());
}

TEST(a_handle_that_was_given_back_is_refused) {
  const std::string errors = run_world(1, true, [](int, CommHandle& comm) {
    const CommHandle stale = comm;
    finish(comm);
    int count;
    expect(nccl().comm_count(stale, &count) == kInvalidArgument, "refused");
    expect(nccl().comm_abort(stale) == kInvalidArgument, "refused");
    expect(std::strstr(nccl().get_last_error(nullptr), "destroyed"), nccl().get_last_error(nullptr));
  });
  CHECK_EQ(errors, std::string());
}

TEST(split_in_colors_with_and_without_blocking) {
  for (const bool blocking : {true, false}) {
    const std::string errors = run_world(4, blocking, [&](int rank, CommHandle& comm) {
      CommHandle half = nullptr, none = nullptr;
      const Result begun = nccl().comm_split(comm, rank % 2, -rank, &half, nullptr);
      expect(begun == (blocking ? kSuccess : kInProgress), "split");
      expect_success(settle(comm), "the parent");
      expect_success(settle(half), "the child");
      int mine = -1;
      expect_success(nccl().comm_user_rank(half, &mine), "rank");
      expect(mine == (rank < 2 ? 1 : 0), "ordered by key");
      expect_sum(half, 2);
      const Result second = nccl().comm_split(comm, rank == 0 ? kSplitNoColor : 7, 0, &none, nullptr);
      expect(second == (blocking ? kSuccess : kInProgress), "split again");
      expect_success(settle(comm), "the parent");
      expect((none == nullptr) == (rank == 0), "no color, no communicator");
      if (none != nullptr) {
        expect_success(settle(none), "the other child");
        expect_sum(none, 3);
        finish(none);
      }
      finish(half);
    });
    CHECK_EQ(errors, std::string());
  }
  CHECK_EQ(live_communicators(), 0);
}

TEST(scalable_and_single_process_init) {
  UniqueId ids[2] = {unique_id(), unique_id()};
  std::string errors = run_ranks(2, [&](int rank) {
    CommHandle comm = nullptr;
    expect_success(more().ncclCommInitRankScalable(&comm, 2, rank, 2, ids, nullptr), "init");
    expect_sum(comm, 2);
    finish(comm);
  });
  CHECK_EQ(errors, std::string());
  CommHandle all[3] = {};
  CHECK_EQ(more().ncclCommInitAll(all, 3, nullptr), kSuccess);
  for (int device = 0; device < 3; ++device) {
    int told = -1;
    CHECK_EQ(nccl().comm_cu_device(all[device], &told), kSuccess);
    CHECK_EQ(told, device);
  }
  // All of one thread's communicators in one group.
  std::vector<fake::Stream> streams(3);
  float x[3] = {1, 2, 3};
  CHECK_EQ(nccl().group_start(), kSuccess);
  for (size_t i = 0; i < 3; ++i) CHECK_EQ(all_reduce(&x[i], 1, all[i], streams[i]), kSuccess);
  CHECK_EQ(nccl().group_end(), kSuccess);
  for (fake::Stream& stream : streams) stream.synchronize();
  CHECK(x[0] == 6 && x[1] == 6 && x[2] == 6);
  CHECK_EQ(nccl().group_start(), kSuccess);
  for (CommHandle comm : all) CHECK_EQ(nccl().comm_destroy(comm), kSuccess);
  CHECK_EQ(nccl().group_end(), kSuccess);
  CHECK_EQ(live_communicators(), 0);
}

TEST(survivors_shrink_while_an_operation_hangs) {
  const std::string errors = run_world(3, false, [](int rank, CommHandle& comm) {
    if (rank == 1) return abandon(comm);  // as if dead
    fake::Stream stream;
    float x = 1;
    all_reduce(&x, 1, comm, stream);
    int excluded[] = {1};
    CommHandle smaller = nullptr;
    expect(more().ncclCommShrink(comm, excluded, 1, &smaller, nullptr, 1) == kInProgress, "shrink");
    stream.synchronize();
    expect_success(settle(comm), "the parent");
    expect_success(settle(smaller), "the child");
    expect_sum(smaller, 2);
    abandon(comm);
    // The grandchild has a name of its own.
    CommHandle one = nullptr;
    int other[] = {rank == 0 ? 1 : 0};
    expect(more().ncclCommShrink(smaller, other, 1, &one, nullptr, 0) == kInProgress, "shrink again");
    expect_success(settle(one), "alone");
    expect_sum(one, 1);
    finish(one);
    expect_success(settle(smaller), "the parent is as it was");
    finish(smaller);
  });
  CHECK_EQ(errors, std::string());
}

TEST(grow_by_two) {
  UniqueId id{};
  std::barrier together(4);
  const std::string errors = run_ranks(4, [&](int rank) {
    static const UniqueId first = unique_id();
    CommHandle comm = nullptr, grown = nullptr;
    if (rank < 2) {
      expect_success(nccl().comm_init_rank(&comm, 2, first, rank), "init");
      if (rank == 0) {
        expect_success(more().ncclCommGetUniqueId(comm, &id), "id");
        UniqueId again;
        expect(more().ncclCommGetUniqueId(comm, &again) == kInvalidUsage, "not consumed yet");
      }
    }
    together.arrive_and_wait();
    const UniqueId* known = rank == 1 ? nullptr : &id;
    expect_success(more().ncclCommGrow(comm, 4, known, rank < 2 ? -1 : rank, &grown, nullptr), "grow");
    expect_sum(grown, 4);
    if (comm != nullptr) expect_sum(comm, 2);
    // All know the same name: they can shrink together.
    int excluded[] = {3};
    CommHandle smaller = nullptr;
    if (rank != 3) {
      expect_success(more().ncclCommShrink(grown, excluded, 1, &smaller, nullptr, 0), "shrink");
      expect_sum(smaller, 3);
      finish(smaller);
    }
    together.arrive_and_wait();
    finish(grown);
    if (comm != nullptr) finish(comm);
  });
  CHECK_EQ(errors, std::string());
}

TEST(revoke_ends_what_is_in_flight_and_leaves_only_management) {
  const std::string errors = run_world(2, false, [](int rank, CommHandle& comm) {
    fake::Stream stream;
    float x = 1;
    if (rank == 0) all_reduce(&x, 1, comm, stream);
    expect(more().ncclCommRevoke(comm, 0) == kInProgress, "revoke");
    expect_success(settle(comm), "revoked");
    stream.synchronize();
    expect(more().ncclCommRevoke(comm, 0) == kInvalidUsage, "once");
    expect(all_reduce(&x, 1, comm, stream) == kInvalidUsage, "no operations");
    expect(nccl().comm_finalize(comm) == kInvalidUsage, "no finalize");
  });
  CHECK_EQ(errors, std::string());
}

TEST(suspended_communicators_do_nothing_until_they_are_resumed) {
  const std::string errors = run_world(2, true, [](int, CommHandle& comm) {
    uint64_t value = 7;
    expect_success(more().ncclCommMemStats(comm, nccl_abi::kMemoryIsSuspended, &value), "stat");
    expect(value == 0, "active");
    expect(more().ncclCommResume(comm) == kInvalidUsage, "not suspended");
    expect_success(more().ncclCommSuspend(comm, 1), "suspend");
    expect_success(more().ncclCommMemStats(comm, nccl_abi::kMemoryIsSuspended, &value), "stat");
    expect(value == 1, "suspended");
    float x = 1;
    fake::Stream stream;
    expect(all_reduce(&x, 1, comm, stream) == kInvalidUsage, "no operations");
    expect_success(more().ncclCommResume(comm), "resume");
    expect_sum(comm, 2);
  });
  CHECK_EQ(errors, std::string());
}

TEST(eight_communicators_are_aborted_as_one_group) {
  const std::string errors = run_ranks(1, [](int) {
    std::vector<CommHandle> comms(8);
    std::vector<fake::Stream> streams(8);
    std::vector<std::shared_ptr<fake::Event>> held;
    std::vector<float> x(8);
    for (size_t i = 0; i < 8; ++i) {
      expect_success(nccl().comm_init_rank(&comms[i], 1, unique_id(), 0), "init");
      held.push_back(streams[i].hold());
      expect_success(all_reduce(&x[i], 1, comms[i], streams[i]), "queued");
    }
    expect_success(nccl().group_start(), "start");
    for (CommHandle comm : comms) expect_success(nccl().comm_abort(comm), "abort");
    expect_success(nccl().group_end(), "end");
    expect(live_communicators() == 0, "all gone");
    for (const auto& event : held) event->set();
    for (fake::Stream& stream : streams) expect(stream.last_result() == 0, "queued work ends in silence");
  });
  CHECK_EQ(errors, std::string());
}

TEST(a_simulated_group_runs_nothing) {
  const std::string errors = run_world(2, true, [](int, CommHandle& comm) {
    std::vector<float> x(25000, 1);
    fake::Stream stream;
    expect(more().ncclGroupSimulateEnd(nullptr) == kInvalidUsage, "no group");
    expect_success(nccl().group_start(), "start");
    for (int i = 0; i < 3; ++i) {
      expect_success(nccl().all_reduce(x.data(), x.data(), x.size(), kFloat32, kSum, comm, &stream), "all_reduce");
    }
    nccl_abi::SimulationInfo info;
    expect_success(more().ncclGroupSimulateEnd(&info), "simulate");
    expect(info.estimated_us == 60, "10 for each, and one for each 10 kB");
    stream.synchronize();
    expect(x[0] == 1, "nothing ran");
  });
  CHECK_EQ(errors, std::string());
}

TEST(properties_registration_and_stubs) {
  const std::string errors = run_world(2, true, [](int rank, CommHandle& comm) {
    nccl_abi::CommProperties properties;
    properties.magic = 0;
    expect(more().ncclCommQueryProperties(comm, &properties) == kInvalidArgument, "not initialised");
    properties.magic = kConfigMagic;
    expect_success(more().ncclCommQueryProperties(comm, &properties), "properties");
    expect(properties.rank == rank && properties.ranks == 2 && properties.host_rma, "their values");
    void *memory = nullptr, *number = nullptr;
    expect_success(nccl().mem_alloc(&memory, 4096), "alloc");
    expect_success(more().ncclCommRegister(comm, memory, 4096, &number), "register");
    expect_success(more().ncclCommDeregister(comm, number), "deregister");
    expect(more().ncclCommDeregister(comm, number) == kInvalidArgument, "once");
    float host;
    expect(more().ncclCommRegister(comm, &host, 4, &number) == kInvalidArgument, "no device memory");
    expect_success(nccl().mem_free(memory), "free");
    expect(more().ncclGetLsaDevicePointer() == kInvalidUsage, "a stub");
    expect(std::strstr(nccl().get_last_error(nullptr), "ncclGetLsaDevicePointer is not emulated"), "says so");
  });
  CHECK_EQ(errors, std::string());
}

CHECK_MAIN()
