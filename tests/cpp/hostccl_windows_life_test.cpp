// How windows are made, end, and are outlived by what is mapped of them.

#include <atomic>
#include <thread>

#include "base/clock.h"
#include "check.h"
#include "window_of_rank.h"

using namespace hostccl;
using namespace hostccl_test;

TEST(ranks_that_do_not_make_the_same_window_all_hear_of_it) {
  CHECK_EQ(run_world(3,
                     [](int rank, nccl_abi::CommHandle comm) {
                       WindowOptions options;
                       options.slots = rank == 2 ? 5 : 6;
                       WindowHandle window = nullptr;
                       expect(hostcclWindowCreate(comm, nullptr, 0, &options, kPatience, &window) != nccl_abi::kSuccess,
                              "slots differ");
                       expect(last_says("slots"), last().text);
                       options.slots = rank == 1 ? 0 : 6;
                       expect(hostcclWindowCreate(comm, nullptr, 0, &options, kPatience, &window) != nccl_abi::kSuccess,
                              "0 slots");
                       expect(last_says("slots is 0"), last().text);
                       Mine good(comm, 16);
                     }),
           std::string());
}

TEST(who_does_not_come_is_named) {
  CHECK_EQ(run_world(3,
                     [](int rank, nccl_abi::CommHandle comm) {
                       WindowHandle window = nullptr;
                       if (rank != 2) {
                         expect(
                             hostcclWindowCreate(comm, nullptr, 0, nullptr, 50'000'000, &window) == nccl_abi::kTimeout,
                             "rank 2");
                         expect(last_says("did not come"), last().text);
                       }
                       expect_success(hostcclBarrier(comm, nullptr), "the communicator is well");
                     }),
           std::string());
}

TEST(a_window_that_a_peer_has_closed_says_so) {
  for (const Memory kind : {Memory::kShared, Memory::kPrivate}) {
    CHECK_EQ(run_world(2,
                       [kind](int rank, nccl_abi::CommHandle comm) {
                         Mine window(comm, 8, {}, kind);
                         if (rank == 0) {
                           expect_success(hostcclWindowClose(window.handle, 0, kPatience), "alone");
                           hostcclBarrier(comm, nullptr);
                         } else {
                           hostcclBarrier(comm, nullptr);
                           uint64_t value = 0;
                           const auto says_so = [](Result result, const char* what) {
                             expect(result == nccl_abi::kRemoteError && names(last(), 0) &&
                                        last_says("rank 0 has closed the window"),
                                    std::string(what) + ": " + last().text);
                           };
                           says_so(window.wait({0}, true, 0, 1), "wait");  // nothing was asked of it before
                           says_so(window.get(0, 0, &value, 8), "get");
                           says_so(window.put(0, 0, &value, 8), "put");
                           says_so(hostcclWindowFlush(window.handle, 0, kPatience), "flush");
                           expect_success(hostcclWindowFlush(window.handle, -1, kPatience),
                                          "flush of all that are left");
                           expect_success(hostcclWindowClose(window.handle, 1, kPatience), "together with nobody");
                         }
                         hostcclBarrier(comm, nullptr);  // nobody leaves before the other has looked
                       }),
             std::string());
  }
}

// What was put there is lost, and whoever put it hears so.
TEST(a_put_into_a_window_that_was_closed_meanwhile_is_told_by_a_flush_of_all) {
  CHECK_EQ(run_world(2,
                     [](int rank, nccl_abi::CommHandle comm) {
                       Mine window(comm, 8, {}, Memory::kPrivate);
                       hostcclBarrier(comm, nullptr);
                       if (rank == 0) {
                         expect_success(hostcclWindowClose(window.handle, 0, kPatience), "alone");
                       } else {
                         const uint64_t value = 1;
                         Result result = nccl_abi::kSuccess;
                         const auto until = pycomms::now_ns() + kPatience;
                         while (result == nccl_abi::kSuccess && pycomms::now_ns() < until) {
                           result = window.put(0, 0, &value, sizeof(value));
                           if (result == nccl_abi::kSuccess) result = hostcclWindowFlush(window.handle, -1, kPatience);
                         }
                         expect(result == nccl_abi::kRemoteError && names(last(), 0), last().text);
                         expect(last_says("rank 0 has closed the window"), last().text);
                       }
                       hostcclBarrier(comm, nullptr);
                     }),
           std::string());
}

TEST(whoever_waits_for_a_peer_that_closes_is_woken) {
  for (const Memory kind : {Memory::kShared, Memory::kPrivate}) {
    std::atomic<bool> waits{false};
    CHECK_EQ(run_world(3,
                       [&](int rank, nccl_abi::CommHandle comm) {
                         Mine window(comm, 8, {}, kind);
                         if (rank == 0) {
                           waits = true;
                           const auto start = pycomms::now_ns();
                           expect(window.wait({1, 2}, true, 0, 1) == nccl_abi::kRemoteError && names(last(), 1), "all");
                           expect(pycomms::now_ns() - start < kPatience / 2, "soon");
                           expect(window.wait({1, 2}, false, 1, 1) == nccl_abi::kSuccess, "any");
                         } else {
                           while (!waits) std::this_thread::yield();
                           if (rank == 1) expect_success(hostcclWindowClose(window.handle, 0, kPatience), "alone");
                           const WindowSignal signal = one(1);
                           if (rank == 2) hostcclWindowSignal(window.handle, 0, &signal, kPatience);
                         }
                         hostcclBarrier(comm, nullptr);
                       }),
             std::string());
  }
}

TEST(whoever_closes_with_the_others_does_not_wait_for_one_that_has_closed_alone) {
  for (const Memory kind : {Memory::kShared, Memory::kPrivate}) {
    for (const int alone : {0, 1, 2}) {
      CHECK_EQ(run_world(3,
                         [=](int rank, nccl_abi::CommHandle comm) {
                           Mine window(comm, 8, {}, kind);
                           const auto start = pycomms::now_ns();
                           expect_success(hostcclWindowClose(window.handle, rank != alone, kPatience), "close");
                           expect(pycomms::now_ns() - start < kPatience / 2, "at once");
                           Mine again(comm, 16, {}, kind);
                           const int64_t one = rank;
                           expect_success(again.put((rank + 1) % 3, 0, &one, sizeof(one)), "put");
                         }),
               std::string());
    }
  }
}

// Also where one rank's memory can be mapped, and another's not.
TEST(closing_waits_for_all) {
  for (const int nprivate : {0, 1, 2, 3}) {
    std::atomic<int> closing{0};
    CHECK_EQ(run_world(3,
                       [&](int rank, nccl_abi::CommHandle comm) {
                         Mine window(comm, 8, {}, rank < nprivate ? Memory::kPrivate : Memory::kShared);
                         const int64_t mine = rank + 1;
                         expect_success(window.put((rank + 1) % 3, 0, &mine, sizeof(mine)), "put");
                         ++closing;
                         expect_success(hostcclWindowClose(window.handle, 1, kPatience), "close");
                         expect(closing == 3, "all have come");
                         expect(window.data<int64_t>()[0] == (rank + 2) % 3 + 1, "what was put is there");
                       }),
             std::string());
  }
}

TEST(windows_that_are_closed_in_different_orders_are_told_apart) {
  for (const Memory kind : {Memory::kShared, Memory::kPrivate}) {
    for (const int other : {0, 1, 2}) {
      CHECK_EQ(run_world(3,
                         [=](int rank, nccl_abi::CommHandle comm) {
                           Mine first(comm, 8, {}, kind), second(comm, 8, {}, kind);
                           Mine* const order[2] = {rank == other ? &second : &first, rank == other ? &first : &second};
                           const auto start = pycomms::now_ns();
                           int mismatches = 0;
                           for (Mine* each : order) {
                             const Result closed = hostcclWindowClose(each->handle, 1, kPatience);
                             if (closed == nccl_abi::kSuccess) continue;
                             expect(last().kind == FailureKind::kMismatch && last_says("same order"), last().text);
                             ++mismatches;
                           }
                           expect(mismatches > 0, "every rank hears of it");
                           expect(pycomms::now_ns() - start < kPatience / 2, "at once");
                           Mine again(comm, 16, {}, kind);
                         }),
               std::string());
    }
  }
}

TEST(a_window_ends_with_its_communicator) {
  CHECK_EQ(run_world(2,
                     [](int rank, nccl_abi::CommHandle comm) {
                       Mine window(comm, 8);
                       hostcclBarrier(comm, nullptr);
                       if (rank == 0) hostcclCommCancel(comm, "enough");
                       expect(window.wait({0, 1}, true, 0, 1) != nccl_abi::kSuccess, "no signal will come");
                       expect(last().kind == FailureKind::kAborted, last().text);
                       uint64_t value = 0;
                       expect(window.get(1 - rank, 0, &value, 8) != nccl_abi::kSuccess, "get");
                     }),
           std::string());
}

TEST(memory_can_be_mapped_for_longer_than_the_window) {
  CHECK_EQ(run_world(2,
                     [](int rank, nccl_abi::CommHandle comm) {
                       void* data = nullptr;
                       void* hold = nullptr;
                       Mine window(comm, 64);
                       window.data<int>()[0] = rank + 5;
                       hostcclBarrier(comm, nullptr);
                       expect_success(hostcclWindowMap(window.handle, 1 - rank, &data, &hold), "map");
                       hostcclBarrier(comm, nullptr);
                       expect_success(hostcclWindowClose(window.handle, 1, kPatience), "close");
                       expect(static_cast<int*>(data)[0] == 6 - rank, "still there");
                       hostcclWindowUnmap(hold);
                     }),
           std::string());
}

CHECK_MAIN()
