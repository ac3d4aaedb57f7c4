// Ranks that meet without a unique id from anybody, and communicators made of others: nobody waits for the dead.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "check.h"
#include "hostccl/hostccl.h"
#include "hostccl/nccl_abi_newer.h"
#include "hostccl/residence.h"
#include "hostccl_joining.h"
#include "hostccl_world.h"

extern "C" {
namespace nccl_abi {
Result ncclCommRevoke(CommHandle comm, int flags);
Result ncclCommShrink(CommHandle comm, int* excluded, int count, CommHandle* newcomm, Config* config, int flags);
Result ncclCommGetUniqueId(CommHandle comm, UniqueId* id);
Result ncclCommGrow(CommHandle comm, int nranks, const UniqueId* id, int rank, CommHandle* newcomm, Config* config);
}  // namespace nccl_abi
}

using namespace nccl_abi;
using namespace hostccl;
using hostccl_test::begin_joining;
using hostccl_test::end_of;
using hostccl_test::expect;
using hostccl_test::expect_success;
using hostccl_test::failure_of;
using hostccl_test::kPatience;
using hostccl_test::meeting;
using hostccl_test::my_address;
using hostccl_test::names;
using hostccl_test::run_world;

namespace {

void convene_all(const UniqueId& id, const std::vector<std::string>& addresses, int64_t timeout = kPatience) {
  std::vector<const char*> texts;
  for (const std::string& address : addresses) texts.push_back(address.c_str());
  CHECK_EQ(hostcclConvene(&id, texts.data(), static_cast<int>(texts.size()), timeout), kSuccess);
}

float sum_of_ones(CommHandle comm) {
  float x = 1;
  hostcclCommSetTimeout(comm, kPatience);
  expect_success(ncclAllReduce(&x, &x, 1, kFloat32, kSum, comm, nullptr), "all_reduce");
  return x;
}

// A process that says where it is and then does nothing.
struct Bystander {
  pid_t pid = -1;
  std::string address;

  Bystander() {
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
      alarm(50);
      char text[kAddressBytes] = {};
      if (hostcclAddress(text, sizeof(text)) != kSuccess) _exit(3);
      if (write(ends[1], text, sizeof(text)) != sizeof(text)) _exit(4);
      for (;;) pause();
    }
    char text[kAddressBytes];
    CHECK_EQ(read(ends[0], text, sizeof(text)), static_cast<ssize_t>(sizeof(text)));
    address = text;
    close(ends[0]);
    close(ends[1]);
  }
  ~Bystander() { end(); }
  void end() {
    if (pid < 0) return;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    pid = -1;
  }
};

}  // namespace

TEST(an_address_is_read_as_it_was_written_and_nothing_else_is) {
  const std::string address = my_address();
  auto there = whereabouts_of(address);
  CHECK(there.is_ok());
  CHECK_EQ(to_text(there.value()), address);
  UniqueId id;
  for (std::string wrong : {std::string(), address.substr(1), address + ":", address + std::string(60, 'a'),
                            "G" + address.substr(1), address.substr(0, 40)}) {
    CHECK_EQ(hostcclMeetingId(wrong.c_str(), "secret", "agenda", &id), kInvalidArgument);
  }
  for (size_t i = 0; i < address.size(); ++i) {  // any text is taken or refused
    std::string changed = address;
    changed[i] = '\x7f';
    CHECK_EQ(hostcclMeetingId(changed.c_str(), "secret", "agenda", &id), kInvalidArgument);
  }
}

TEST(ranks_meet_by_a_secret_and_in_any_order) {
  const std::string address = my_address();
  const UniqueId id = meeting(address, "in any order");
  std::vector<CommHandle> comms(3);
  for (const int rank : {2, 1}) comms[rank] = begin_joining(id, rank, 3);  // the door is not open yet
  convene_all(id, {address, address, address});
  comms[0] = begin_joining(id, 0, 3);
  for (CommHandle comm : comms) CHECK_EQ(end_of(comm), kSuccess);
  std::vector<std::thread> threads;
  std::array<float, 3> sums{};
  for (size_t rank = 0; rank < 3; ++rank) threads.emplace_back([&, rank] { sums[rank] = sum_of_ones(comms[rank]); });
  for (std::thread& thread : threads) thread.join();
  for (const float sum : sums) CHECK_EQ(sum, 3.0f);
  for (CommHandle comm : comms) CHECK_EQ(ncclCommAbort(comm), kSuccess);
}

TEST(whoever_has_another_agenda_is_named) {
  const std::string address = my_address();
  convene_all(meeting(address, "agenda"), {address, address, address});
  CommHandle first = begin_joining(meeting(address, "agenda"), 0, 3);
  CommHandle other = begin_joining(meeting(address, "agenda", "some of us"), 2, 3);
  for (CommHandle comm : {first, other}) {
    CHECK(end_of(comm) != kSuccess);
    CHECK(failure_of(comm).kind == FailureKind::kMismatch);
    CHECK(std::strstr(failure_of(comm).text, "came for something else") != nullptr);
  }
  CommHandle late = begin_joining(meeting(address, "agenda"), 1, 3);
  CHECK(end_of(late) != kSuccess);
  CHECK(failure_of(late).kind == FailureKind::kMismatch);
  for (CommHandle comm : {first, other, late}) CHECK_EQ(ncclCommAbort(comm), kSuccess);
}

TEST(a_member_that_is_dead_before_it_comes_is_named_at_once) {
  Bystander dead;
  const std::string address = my_address();
  const UniqueId id = meeting(address, "dead");
  dead.end();
  const int64_t start = pycomms::now_ns();
  convene_all(id, {address, dead.address, address});
  CommHandle first = begin_joining(id, 0, 3);
  CommHandle last = begin_joining(id, 2, 3);
  for (CommHandle comm : {first, last}) {
    CHECK_EQ(end_of(comm), kRemoteError);
    CHECK(failure_of(comm).kind == FailureKind::kPeerDead);
    CHECK(names(failure_of(comm), 1) && failure_of(comm).nranks == 1);
    CHECK_EQ(ncclCommAbort(comm), kSuccess);
  }
  CHECK(pycomms::now_ns() - start < 5 * pycomms::kSecond);
}

TEST(a_member_that_dies_while_the_others_wait_for_it_is_named) {
  Bystander dying;
  const std::string address = my_address();
  const UniqueId id = meeting(address, "dying");
  convene_all(id, {address, dying.address});
  CommHandle comm = begin_joining(id, 0, 2);
  dying.end();
  CHECK_EQ(end_of(comm), kRemoteError);
  CHECK(failure_of(comm).kind == FailureKind::kPeerDead && names(failure_of(comm), 1));
  CHECK_EQ(ncclCommAbort(comm), kSuccess);
}

TEST(a_convener_that_dies_before_it_opens_is_named) {
  Bystander convener;
  CommHandle comm = begin_joining(meeting(convener.address, "nobody"), 1, 2);
  convener.end();
  CHECK_EQ(end_of(comm), kRemoteError);
  CHECK(failure_of(comm).kind == FailureKind::kPeerDead && names(failure_of(comm), 0));
  CHECK_EQ(ncclCommAbort(comm), kSuccess);
}

TEST(a_member_that_lives_and_does_not_come_is_named_at_the_deadline) {
  Bystander idle;
  const std::string address = my_address();
  constexpr int64_t kSoon = pycomms::kSecond;  // rank 0 itself has to come by then
  const UniqueId id = meeting(address, "idle");
  convene_all(id, {address, idle.address}, kSoon);
  CommHandle comm = begin_joining(id, 0, 2, kSoon);
  CHECK_EQ(end_of(comm), kTimeout);
  CHECK(names(failure_of(comm), 1) && failure_of(comm).nranks == 1);
  CommHandle without_convener = begin_joining(meeting(idle.address, "idle"), 1, 2, kSoon);
  CHECK_EQ(end_of(without_convener), kTimeout);
  CHECK(names(failure_of(without_convener), 0));
  for (CommHandle each : {comm, without_convener}) CHECK_EQ(ncclCommAbort(each), kSuccess);
}

// Visitors are connections to a process that nobody answers. To be let go is no death.
TEST(who_looks_after_a_process_goes_on_when_it_is_let_go) {
  auto here = residence();
  CHECK(here.is_ok());
  Lifeline lifeline(here.value());
  CHECK(!lifeline.has_ended());
  let_visitors_go();
  CHECK(!lifeline.has_ended());
  CHECK(!lifeline.has_ended());
}

TEST(an_exchange_brings_what_each_has_to_all) {
  std::atomic<int> left{0};
  const std::string errors = run_world(3, [&left](int rank, CommHandle comm) {
    const int mine = 10 + rank;
    std::array<int, 3> all{};
    std::array<int, 3> missing{};
    int nmissing = 0;
    for (int i = 0; i < 20; ++i) {
      all = {};
      expect_success(hostcclExchange(comm, &mine, all.data(), sizeof(int), kPatience, missing.data(), &nmissing),
                     "all");
      expect(all == std::array<int, 3>{10, 11, 12}, "by rank");
    }
    if (rank == 2) {
      while (left.load(std::memory_order_acquire) != 2) std::this_thread::yield();
      return;
    }
    const Result late = hostcclExchange(comm, &mine, all.data(), sizeof(int), 50'000'000, missing.data(), &nmissing);
    left.fetch_add(1, std::memory_order_release);
    expect(late == kTimeout && nmissing >= 1, "told");
    // Rank 1 may have come too late for rank 0, where the machine is slow.
    expect(rank != 0 || missing[static_cast<size_t>(nmissing - 1)] == 2, "and who");
  });
  CHECK_EQ(errors, std::string());
}

TEST(what_is_revoked_can_be_shrunk_and_the_smaller_one_again) {
  const std::string errors = run_world(4, [](int rank, CommHandle comm) {
    if (rank == 3) {
      expect(hostcclBarrier(comm, nullptr) != kSuccess, "revoked while it waits");
      return;
    }
    expect_success(ncclCommRevoke(comm, 0), "revoke");
    float x = 1;
    expect(ncclAllReduce(&x, &x, 1, kFloat32, kSum, comm, nullptr) != kSuccess, "of no use any more");
    CommHandle smaller = nullptr;
    int excluded[] = {3, 1};
    if (rank == 1) {
      expect(ncclCommShrink(comm, excluded, 2, &smaller, nullptr, 1) == kInvalidArgument, "it is excluded");
      return;
    }
    expect_success(ncclCommShrink(comm, excluded, 2, &smaller, nullptr, 1), "shrink");
    int now = -1;
    expect_success(ncclCommUserRank(smaller, &now), "rank");
    expect(now == rank / 2 && sum_of_ones(smaller) == 2, "in order");
    int other[] = {1};
    if (now == 0) {
      CommHandle one = nullptr;
      expect_success(ncclCommShrink(smaller, other, 1, &one, nullptr, 0), "once more");
      expect(sum_of_ones(one) == 1, "alone");
      expect_success(ncclCommDestroy(one), "destroy");
    }
    expect_success(ncclCommDestroy(smaller), "destroy");
  });
  CHECK_EQ(errors, std::string());
}

TEST(members_and_newcomers_make_a_larger_one) {
  UniqueId for_newcomer;
  std::atomic<bool> known{false};
  std::thread newcomer([&] {
    while (!known.load(std::memory_order_acquire)) std::this_thread::yield();
    CommHandle comm = nullptr;
    hostcclSetInitTimeout(kPatience);
    if (ncclCommGrow(nullptr, 3, &for_newcomer, 2, &comm, nullptr) != kSuccess) return;
    static_cast<void>(sum_of_ones(comm));
    ncclCommDestroy(comm);
  });
  const std::string errors = run_world(2, [&](int rank, CommHandle comm) {
    CommHandle larger = nullptr;
    expect(ncclCommGrow(comm, 2, nullptr, -1, &larger, nullptr) == kInvalidArgument, "not larger");
    if (rank == 1) {
      expect_success(ncclCommGetUniqueId(comm, &for_newcomer), "id");
      known.store(true, std::memory_order_release);
    }
    expect_success(ncclCommGrow(comm, 3, rank == 1 ? &for_newcomer : nullptr, -1, &larger, nullptr), "grow");
    expect(sum_of_ones(larger) == 3, "with the newcomer");
    expect_success(ncclCommDestroy(larger), "destroy");
  });
  known.store(true, std::memory_order_release);
  newcomer.join();
  CHECK_EQ(errors, std::string());
}

CHECK_MAIN()
