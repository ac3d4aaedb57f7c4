// Signals and locks of windows: what is counted, who waits for whom, who is kept out.
#include <string>

#include "check.h"
#include "window_of_rank.h"

using namespace hostccl;
using namespace hostccl_test;

TEST(signals_are_counted_for_each_source_and_slot) {
  CHECK_EQ(run_world(3,
                     [](int rank, nccl_abi::CommHandle comm) {
                       Mine window(comm, 8, {.slots = 2});
                       if (rank > 0) {
                         const WindowSignal twice{0, SignalChange::kAdd, rank};
                         expect_success(hostcclWindowSignal(window.handle, 0, &twice, kPatience), "signal");
                         const WindowSignal set{1, SignalChange::kSet, 10 * rank};
                         expect_success(hostcclWindowSignal(window.handle, 0, &set, kPatience), "signal");
                       } else {
                         expect_success(window.wait({1, 2}, true, 0, 1), "both");
                         expect_success(window.wait({2}, true, 0, 1), "one more of rank 2");
                         expect(window.wait({1, 2}, true, 0, 1, 0) == nccl_abi::kTimeout, "no more");
                         size_t which = 9;
                         expect_success(window.wait({1}, true, 1, 10), "set");
                         expect_success(window.wait({1, 2}, false, 1, 20, kPatience, &which), "any");
                         expect(which == 1, "it was rank 2");
                         int64_t left = 9;
                         expect_success(hostcclWindowReadSignal(window.handle, 2, 1, &left), "read");
                         expect(left == 0, "all is taken");
                       }
                     }),
           std::string());
}

TEST(a_wait_for_all_that_fails_takes_nothing) {
  CHECK_EQ(
      run_world(2,
                [](int rank, nccl_abi::CommHandle comm) {
                  Mine window(comm, 8);
                  const WindowSignal signal = one(0);
                  expect_success(hostcclWindowSignal(window.handle, rank, &signal, kPatience), "signal to oneself");
                  expect(window.wait({0, 1}, true, 0, 1, 2'000'000) == nccl_abi::kTimeout, "one has not come");
                  expect(last_says("a count of 1 in slot 0") && last_says("rank " + std::to_string(1 - rank) + " (0)"),
                         last().text);
                  expect_success(window.wait({rank}, true, 0, 1, 0), "it is still there");
                }),
      std::string());
}

TEST(the_lock_keeps_others_out) {
  CHECK_EQ(run_world(4,
                     [](int, nccl_abi::CommHandle comm) {
                       Mine window(comm, 64);
                       int broken = 0;
                       for (int i = 0; i < 500; ++i) {
                         expect_success(hostcclWindowLock(window.handle, 1, 0, kPatience, &broken), "lock");
                         expect(broken == -1, "nobody has died");
                         int64_t value = 0;
                         expect_success(window.get(1, 8, &value, 8), "get");
                         ++value;
                         expect_success(window.put(1, 8, &value, 8), "put");
                         expect_success(hostcclWindowUnlock(window.handle, 1, 0, kPatience), "unlock");
                         if (i % 10 != 0) continue;
                         int64_t first = 0, second = 0;
                         expect_success(hostcclWindowLock(window.handle, 1, 1, kPatience, &broken), "shared");
                         window.get(1, 8, &first, 8);
                         window.get(1, 8, &second, 8);
                         expect(first == second, "nobody writes while it is shared");
                         expect_success(hostcclWindowUnlock(window.handle, 1, 1, kPatience), "unlock");
                       }
                       expect_success(hostcclBarrier(comm, nullptr), "barrier");
                       int64_t value = 0;
                       window.get(1, 8, &value, 8);
                       expect(value == 2000, "no update was lost");
                     }),
           std::string());
}

TEST(a_lock_that_is_held_is_waited_for_in_vain_by_name) {
  CHECK_EQ(run_world(2,
                     [](int rank, nccl_abi::CommHandle comm) {
                       Mine window(comm, 8);
                       int broken = 0;
                       if (rank == 0)
                         expect_success(hostcclWindowLock(window.handle, 0, 0, kPatience, &broken), "lock");
                       hostcclBarrier(comm, nullptr);
                       if (rank == 1) {
                         for (const int shared : {0, 1}) {
                           expect(hostcclWindowLock(window.handle, 0, shared, 5'000'000, &broken) == nccl_abi::kTimeout,
                                  "held");
                           expect(last_says("which rank 0 holds"), last().text);
                         }
                       }
                       hostcclBarrier(comm, nullptr);
                       if (rank == 0) expect_success(hostcclWindowUnlock(window.handle, 0, 0, kPatience), "unlock");
                       expect_success(hostcclWindowLock(window.handle, 0, 1, kPatience, &broken), "shared by both");
                       hostcclBarrier(comm, nullptr);
                       expect_success(hostcclWindowUnlock(window.handle, 0, 1, kPatience), "unlock");
                     }),
           std::string());
}

CHECK_MAIN()
