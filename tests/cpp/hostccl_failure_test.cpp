// What happens when something goes wrong: every member learns the same reason, soon, and nothing hangs.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "base/clock.h"
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

TEST(wrong_arguments_harm_nobody) {
  const std::string errors = run_world(2, [](int rank, CommHandle comm) {
    float x = 1;
    expect(ncclAllReduce(nullptr, &x, 1, kFloat32, kSum, comm, nullptr) == kInvalidArgument, "null");
    expect(ncclBroadcast(&x, &x, 1, kFloat32, 2, comm, nullptr) == kInvalidArgument, "root");
    expect(ncclAllReduce(&x, &x, 1, static_cast<DataType>(50), kSum, comm, nullptr) == kInvalidArgument, "type");
    expect(ncclAllReduce(&x, &x, 1, kFloat32, kBitAnd, comm, nullptr) == kInvalidArgument, "bits of floats");
    if (rank == 0) expect(hostcclSend(&x, 1, kFloat32, 5, 0, comm, nullptr, nullptr) == kInvalidArgument, "peer");
    Failure failure{};
    hostcclLastFailure(&failure);
    expect(failure.kind == FailureKind::kUsage, "usage");
    expect_success(ncclAllReduce(&x, &x, 1, kFloat32, kSum, comm, nullptr), "works");
    expect(x == 2, "and right");
  });
  CHECK_EQ(errors, std::string());
}

TEST(timeout_names_who_did_not_come) {
  std::atomic<bool> is_on_its_way{false};
  const std::string errors = run_world(3, [&](int rank, CommHandle comm) {
    if (rank == 2) {
      Result state = kSuccess;
      while (state == kSuccess) ncclCommGetAsyncError(comm, &state);
    } else {
      // Rank 0 is the one whose time runs out, and begins when rank 1 has, more or less.
      if (rank == 0) {
        while (!is_on_its_way) std::this_thread::yield();
        hostcclCommSetTimeout(comm, pycomms::kSecond);
      }
      is_on_its_way = true;
      expect(hostcclBarrier(comm, nullptr) == kTimeout, "times out");
    }
    const Failure failure = failure_of(comm);
    expect(failure.kind == FailureKind::kTimeout && failure.nranks == 1 && names(failure, 2), failure.text);
    expect(std::strstr(failure.text, "ranks 0, 1 arrived; rank 2 did not"), failure.text);
  });
  CHECK_EQ(errors, std::string());
}

TEST(cancel_ends_a_blocked_collective_and_tells_the_others) {
  const std::string errors = run_world(3, [](int rank, CommHandle comm) {
    if (rank == 2) {
      expect_success(hostcclCommCancel(comm, "the test says so"), "cancel");
      expect(hostcclBarrier(comm, nullptr) == kRemoteError, "here too");
    } else {
      expect(hostcclBarrier(comm, nullptr) == kRemoteError, "told");
    }
    expect(failure_of(comm).kind == FailureKind::kAborted && names(failure_of(comm), 2), failure_of(comm).text);
  });
  CHECK_EQ(errors, std::string());
}

TEST(abort_of_a_communicator_that_never_assembles) {
  UniqueId id;
  CHECK_EQ(ncclGetUniqueId(&id), kSuccess);
  CommHandle comm = nullptr;
  Config config;
  config.blocking = 0;
  CHECK_EQ(ncclCommInitRankConfig(&comm, 2, id, 0, &config), kInProgress);
  Result state = kSuccess;
  CHECK_EQ(ncclCommGetAsyncError(comm, &state), kSuccess);
  CHECK_EQ(state, kInProgress);
  const int64_t start = pycomms::now_ns();
  CHECK_EQ(ncclCommAbort(comm), kSuccess);
  CHECK(pycomms::now_ns() - start < 5 * pycomms::kSecond);
}

TEST(missing_ranks_are_named_when_initialisation_times_out) {
  UniqueId id;
  CHECK_EQ(ncclGetUniqueId(&id), kSuccess);
  hostcclSetInitTimeout(100'000'000);
  CommHandle comm = nullptr;
  CHECK_EQ(ncclCommInitRankConfig(&comm, 3, id, 1, nullptr), kTimeout);
  CHECK(std::strstr(ncclGetLastError(comm), "did not come in time: 0, 2") != nullptr);
  CHECK(names(failure_of(comm), 0) && names(failure_of(comm), 2));
  CHECK_EQ(ncclCommDestroy(comm), kSuccess);
}

TEST(whoever_comes_when_the_others_have_given_up_hears_why) {
  UniqueId id;
  CHECK_EQ(ncclGetUniqueId(&id), kSuccess);
  hostcclSetInitTimeout(1'000'000);
  CommHandle early = nullptr;
  CHECK_EQ(ncclCommInitRankConfig(&early, 3, id, 0, nullptr), kTimeout);
  hostcclSetInitTimeout(20'000'000'000);
  for (const int rank : {2, 1}) {
    CommHandle late = nullptr;
    CHECK_EQ(ncclCommInitRankConfig(&late, 3, id, rank, nullptr), kTimeout);
    CHECK(failure_of(late).kind == FailureKind::kTimeout);
    CHECK(names(failure_of(late), 1) && names(failure_of(late), 2) && !names(failure_of(late), 0));
    CHECK_EQ(ncclCommDestroy(late), kSuccess);
  }
  CHECK_EQ(ncclCommDestroy(early), kSuccess);
}

TEST(a_failure_from_elsewhere_reaches_all_members) {
  const std::string errors = run_world(3, [](int rank, CommHandle comm) {
    expect_success(hostcclCommNeedAll(comm, "something else"), "all are there");
    expect_success(hostcclBarrier(comm, nullptr), "all are well");
    if (rank == 2) {
      Failure failure{};
      failure.kind = FailureKind::kTimeout;
      failure.nranks = 1;
      failure.ranks[0] = 1;
      std::strcpy(failure.text, "learned elsewhere");
      expect_success(hostcclCommFail(comm, &failure), "told");
    }
    expect(hostcclBarrier(comm, nullptr) == kTimeout, "failed");
    expect(std::strcmp(failure_of(comm).text, "learned elsewhere") == 0 && names(failure_of(comm), 1), "the same");
    expect(hostcclCommNeedAll(comm, "something else") == kTimeout, "and stays so");
  });
  CHECK_EQ(errors, std::string());
}

namespace {

// Runs `child` as rank 1 in a process of its own and `parent` as rank 0 here.
void with_a_process(const std::function<void(CommHandle)>& parent, const std::function<void(CommHandle)>& child,
                    pid_t* pid) {
  UniqueId id;
  CHECK_EQ(ncclGetUniqueId(&id), kSuccess);  // its thread lives here, in the parent
  *pid = fork();
  hostcclSetInitTimeout(20'000'000'000);
  CommHandle comm = nullptr;
  if (*pid == 0) {
    alarm(30);
    if (ncclCommInitRankConfig(&comm, 2, id, 1, nullptr) != kSuccess) _exit(3);
    child(comm);
    _exit(0);
  }
  CHECK_EQ(ncclCommInitRankConfig(&comm, 2, id, 0, nullptr), kSuccess);
  hostcclCommSetTimeout(comm, 20'000'000'000);
  parent(comm);
  CHECK_EQ(ncclCommDestroy(comm), kSuccess);
  int status;
  CHECK_EQ(waitpid(*pid, &status, 0), *pid);
}

}  // namespace

TEST(a_killed_process_is_seen_at_once) {
  pid_t pid = 0;
  with_a_process(
      [&](CommHandle comm) {
        float x = 1;
        expect_success(ncclAllReduce(&x, &x, 1, kFloat32, kSum, comm, nullptr), "both there");
        kill(pid, SIGKILL);
        const int64_t start = pycomms::now_ns();
        expect(hostcclBarrier(comm, nullptr) == kRemoteError, "told");
        expect(pycomms::now_ns() - start < 5 * pycomms::kSecond, "soon: no timeout is that short");
        const Failure failure = failure_of(comm);
        expect(failure.kind == FailureKind::kPeerDead && failure.nranks == 1 && names(failure, 1), failure.text);
      },
      [](CommHandle comm) {
        float x = 1;
        ncclAllReduce(&x, &x, 1, kFloat32, kSum, comm, nullptr);
        for (;;) pause();
      },
      &pid);
}

TEST(a_rank_that_dies_while_the_communicator_is_made_is_named) {
  UniqueId id;
  CHECK_EQ(ncclGetUniqueId(&id), kSuccess);
  const pid_t pid = fork();
  if (pid == 0) {  // joins, and is gone before anybody could see it in the segment
    hostcclSetInitTimeout(20'000'000'000);
    Config config;
    config.blocking = 0;
    CommHandle comm = nullptr;
    ncclCommInitRankConfig(&comm, 3, id, 2, &config);
    for (;;) pause();
  }
  hostcclSetInitTimeout(20'000'000'000);
  Config config;
  config.blocking = 0;
  CommHandle comm = nullptr;
  CHECK_EQ(ncclCommInitRankConfig(&comm, 3, id, 0, &config), kInProgress);
  kill(pid, SIGKILL);
  int status;
  CHECK_EQ(waitpid(pid, &status, 0), pid);
  Result state = kInProgress;
  const int64_t start = pycomms::now_ns();
  CommHandle late = nullptr;  // rank 1 comes when rank 2 is dead: whether rank 2 had said hello or not, nobody hangs
  hostcclSetInitTimeout(500'000'000);
  CHECK(ncclCommInitRankConfig(&late, 3, id, 1, nullptr) != kSuccess);
  while (state == kInProgress) ncclCommGetAsyncError(comm, &state);
  CHECK(state != kSuccess);
  CHECK(pycomms::now_ns() - start < 10 * pycomms::kSecond);
  CHECK_EQ(ncclCommDestroy(late), kSuccess);
  CHECK_EQ(ncclCommDestroy(comm), kSuccess);
}

TEST(a_member_that_closes_too_early_is_named) {
  pid_t pid = 0;
  with_a_process(
      [&](CommHandle comm) {
        expect(hostcclBarrier(comm, nullptr) == kRemoteError, "told");
        const Failure failure = failure_of(comm);
        expect(failure.kind == FailureKind::kPeerClosed && names(failure, 1), failure.text);
      },
      [](CommHandle comm) { ncclCommDestroy(comm); }, &pid);
}

TEST(whoever_needs_all_members_notices_one_that_has_died_or_closed) {
  for (const bool dies : {true, false}) {
    pid_t pid = 0;
    with_a_process(
        [&](CommHandle comm) {
          Result state = kSuccess;
          while (state == kSuccess) state = hostcclCommNeedAll(comm, "something else");
          expect(state == kRemoteError, "told");
          const Failure failure = failure_of(comm);
          expect(failure.kind == (dies ? FailureKind::kPeerDead : FailureKind::kPeerClosed), failure.text);
          expect(names(failure, 1) && std::strstr(failure.text, "something else"), failure.text);
        },
        [&](CommHandle comm) {
          if (dies) _exit(0);
          ncclCommDestroy(comm);
        },
        &pid);
  }
}

TEST(whoever_needs_living_members_only_hears_of_one_that_has_closed) {
  for (const bool dies : {true, false}) {
    pid_t pid = 0;
    with_a_process(
        [&](CommHandle comm) {
          Result state = kSuccess;
          int has_closed = 0;
          while (state == kSuccess && has_closed == 0) {
            state = hostcclCommNeedLiving(comm, "something else", &has_closed);
          }
          expect((state == kSuccess) == !dies && (has_closed != 0) == !dies, "told");
          expect(failure_of(comm).kind == (dies ? FailureKind::kPeerDead : FailureKind::kNone), failure_of(comm).text);
        },
        [&](CommHandle comm) {
          if (dies) _exit(0);
          ncclCommDestroy(comm);
        },
        &pid);
  }
}

TEST(a_receive_from_any_rank_ends_when_all_others_have_closed) {
  pid_t pid = 0;
  with_a_process(
      [&](CommHandle comm) {
        float x = 0;
        expect(hostcclRecv(&x, 1, kFloat32, kAnySource, 0, comm, nullptr, nullptr, nullptr) == kRemoteError, "told");
        const Failure failure = failure_of(comm);
        expect(failure.kind == FailureKind::kPeerClosed && names(failure, 1), failure.text);
        expect(std::strstr(failure.text, "recv from any rank tag 0 float32[1]"), failure.text);
      },
      [](CommHandle comm) { ncclCommDestroy(comm); }, &pid);
}

TEST(what_was_posted_before_closing_still_arrives) {
  pid_t pid = 0;
  with_a_process(
      [&](CommHandle comm) {
        float x[3] = {};
        int status;
        waitpid(pid, &status, WNOWAIT);
        expect_success(hostcclRecv(x, 3, kFloat32, 1, 0, comm, nullptr, nullptr, nullptr), "recv");
        expect(x[2] == 3, "value");
      },
      [](CommHandle comm) {
        const float x[3] = {1, 2, 3};
        hostcclSend(x, 3, kFloat32, 0, 0, comm, nullptr, nullptr);
        ncclCommDestroy(comm);
      },
      &pid);
}

TEST(a_forked_child_cannot_use_the_communicator_and_does_no_harm) {
  const std::string errors = run_world(1, [](int, CommHandle comm) {
    float x = 1, y = 0;
    std::atomic<int> ended{0};
    auto count = [](void* arg, Result) { static_cast<std::atomic<int>*>(arg)->fetch_add(1); };
    expect_success(hostcclRecv(&y, 1, kFloat32, 0, 3, comm, count, &ended, nullptr), "a request in flight");
    // The allocator of ASan before GCC 14 does not survive a fork while another thread is in it. What a refusal takes is
    // in this thread's own cache once it has been refused.
    expect(hostcclBarrier(nullptr, nullptr) == kInvalidArgument, "a refusal");
    const pid_t pid = fork();
    if (pid == 0) {
      alarm(20);
      const bool refused = hostcclBarrier(comm, nullptr) == kInvalidUsage;
      hostcclCommProgress(comm);
      hostcclCommCancel(comm, "from a child");
      ncclCommAbort(comm);
      _exit(refused ? 0 : 1);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child was refused and ended");
    expect_success(hostcclBarrier(comm, nullptr), "the parent's works");
    expect_success(hostcclSend(&x, 1, kFloat32, 0, 3, comm, nullptr, nullptr), "send");
    while (ended.load() == 0) hostcclCommProgress(comm);
    expect(y == 1, "the request in flight was not disturbed");
  });
  CHECK_EQ(errors, std::string());
}

CHECK_MAIN()
