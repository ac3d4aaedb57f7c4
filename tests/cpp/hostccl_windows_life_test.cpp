// How windows are made, end, and are outlived by what is mapped of them.

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
  CHECK_EQ(run_world(2,
                     [](int rank, nccl_abi::CommHandle comm) {
                       Mine window(comm, 8);
                       if (rank == 0) {
                         expect_success(hostcclWindowClose(window.handle, 0, kPatience), "alone");
                         hostcclBarrier(comm, nullptr);
                       } else {
                         hostcclBarrier(comm, nullptr);
                         uint64_t value = 0;
                         expect(window.get(0, 0, &value, 8) == nccl_abi::kRemoteError &&
                                    last_says("rank 0 has closed the window"),
                                "get");
                         expect(window.wait({0}, true, 0, 1) == nccl_abi::kRemoteError && names(last(), 0), "wait");
                         expect_success(hostcclWindowClose(window.handle, 0, kPatience), "alone");
                       }
                       hostcclBarrier(comm, nullptr);  // nobody leaves before the other has looked
                     }),
           std::string());
}

TEST(whoever_closes_with_the_others_does_not_wait_for_one_that_has_closed_alone) {
  for (const int alone : {0, 1, 2}) {
    CHECK_EQ(run_world(3,
                       [alone](int rank, nccl_abi::CommHandle comm) {
                         Mine window(comm, 8);
                         const auto start = pycomms::now_ns();
                         expect_success(hostcclWindowClose(window.handle, rank != alone, kPatience), "close");
                         expect(pycomms::now_ns() - start < kPatience / 2, "at once");
                         Mine again(comm, 16);
                         const int64_t one = rank;
                         expect_success(again.put((rank + 1) % 3, 0, &one, sizeof(one)), "put");
                       }),
             std::string());
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
