// One-sided windows between ranks that map each other's memory: what arrives where, what is atomic, and what goes wrong.
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "check.h"
#include "hostccl/hostccl_windows.h"
#include "hostccl_world.h"

using namespace hostccl;
using namespace hostccl_test;

namespace {

constexpr int64_t kPatience = 20'000'000'000;

// A window over memory of its own, closed by all together.
struct Mine {
  void* memory = nullptr;
  size_t bytes;
  WindowHandle handle = nullptr;

  Mine(nccl_abi::CommHandle comm, size_t nbytes, WindowOptions options = {}) : bytes(nbytes) {
    expect_success(nccl_abi::ncclMemAlloc(&memory, std::max<size_t>(bytes, 1)), "memory");
    expect_success(hostcclWindowCreate(comm, memory, bytes, &options, kPatience, &handle), "create");
  }
  ~Mine() {
    hostcclWindowClose(handle, 1, kPatience);
    hostcclWindowFree(handle);
    nccl_abi::ncclMemFree(memory);
  }
  template <typename T>
  T* data() {
    return static_cast<T*>(memory);
  }
  Result put(int peer, uint64_t offset, const void* source, size_t n, const WindowSignal* signal = nullptr) {
    const WindowPiece piece{offset, n};
    return hostcclWindowPut(handle, peer, &piece, 1, source, signal, kPatience);
  }
  Result get(int peer, uint64_t offset, void* destination, size_t n) {
    const WindowPiece piece{offset, n};
    return hostcclWindowGet(handle, peer, &piece, 1, destination, kPatience);
  }
  template <typename T>
  T update(int peer, uint64_t index, DataType type, WindowOp op, T operand) {
    const WindowPiece piece{index * sizeof(T), sizeof(T)};
    T old{};
    expect_success(hostcclWindowUpdate(handle, peer, &piece, 1, type, op, &operand, &old, kPatience), "update");
    return old;
  }
  Result wait(const std::vector<int>& peers, bool all_of, int slot, int64_t count, int64_t ns = kPatience,
              size_t* which = nullptr) {
    return hostcclWindowWaitSignal(handle, peers.data(), peers.size(), all_of, slot, count, ns, which);
  }
};

Failure last() {
  Failure failure{};
  hostcclLastFailure(&failure);
  return failure;
}

bool last_says(const std::string& what) { return std::string(last().text).find(what) != std::string::npos; }

WindowSignal one(int slot) { return {slot, SignalChange::kAdd, 1}; }

}  // namespace

TEST(a_put_with_a_signal_goes_round_the_ring) {
  for (const int n : {1, 2, 5}) {
    CHECK_EQ(run_world(n,
                       [n](int rank, nccl_abi::CommHandle comm) {
                         Mine window(comm, 1 << 20);
                         std::vector<uint8_t> mine(1 << 20, static_cast<uint8_t>(rank + 1));
                         for (const size_t bytes : {size_t{0}, size_t{1}, size_t{8}, size_t{4097}, size_t{1} << 20}) {
                           const WindowSignal signal = one(3);
                           expect_success(window.put((rank + 1) % n, 0, mine.data(), bytes, &signal), "put");
                           const int left = (rank + n - 1) % n;
                           expect_success(window.wait({left}, true, 3, 1), "wait");
                           for (size_t i = 0; i < bytes; ++i)
                             expect(window.data<uint8_t>()[i] == left + 1, "what left has put");
                           // Left may put again once we have looked.
                           const WindowSignal seen = one(4);
                           expect_success(hostcclWindowSignal(window.handle, left, &seen, kPatience), "signal");
                           expect_success(window.wait({(rank + 1) % n}, true, 4, 1), "wait");
                         }
                       }),
             std::string());
  }
}

TEST(a_million_contended_updates_lose_nothing) {
  constexpr int kRanks = 4;
  constexpr int kEach = 62'500;  // four kinds each
  CHECK_EQ(run_world(kRanks,
                     [](int rank, nccl_abi::CommHandle comm) {
                       Mine window(comm, 4096);
                       for (int i = 0; i < kEach; ++i) {
                         window.update<int64_t>(0, 0, nccl_abi::kInt64, WindowOp::kSum, 1);
                         window.update<double>(1, 1, nccl_abi::kFloat64, WindowOp::kSum, 1);
                         window.update<int32_t>(2, 2, nccl_abi::kInt32, WindowOp::kSum, 1);
                         uint64_t seen = window.update<uint64_t>(3, 3, nccl_abi::kUint64, WindowOp::kFetch, 0);
                         for (;;) {
                           const uint64_t next = seen + 1;
                           uint64_t old = 0;
                           expect_success(hostcclWindowCompareSwap(window.handle, 3, 24, nccl_abi::kUint64, &seen,
                                                                   &next, &old, kPatience),
                                          "compare_swap");
                           if (old == seen) break;
                           seen = old;
                         }
                       }
                       expect_success(hostcclBarrier(comm, nullptr), "barrier");
                       const int64_t total = int64_t{kRanks} * kEach;
                       if (rank == 0) expect(window.data<int64_t>()[0] == total, "fetch_add");
                       if (rank == 1)
                         expect(window.data<double>()[1] == static_cast<double>(total), "floating fetch_add");
                       if (rank == 2) expect(window.data<int32_t>()[2] == total, "fetch_add of 32 bits");
                       if (rank == 3)
                         expect(window.data<uint64_t>()[3] == static_cast<uint64_t>(total), "compare_swap");
                     }),
           std::string());
}

TEST(updates_do_what_they_are_called) {
  CHECK_EQ(run_world(2,
                     [](int rank, nccl_abi::CommHandle comm) {
                       Mine window(comm, 256);
                       hostcclBarrier(comm, nullptr);
                       if (rank == 0) {
                         const auto i32 = [&](WindowOp op, int32_t operand) {
                           return window.update<int32_t>(1, 0, nccl_abi::kInt32, op, operand);
                         };
                         expect(i32(WindowOp::kReplace, 12) == 0, "replace tells what was there");
                         expect(i32(WindowOp::kSum, -5) == 12 && i32(WindowOp::kProd, 3) == 7, "sum");
                         expect(i32(WindowOp::kMax, 40) == 21 && i32(WindowOp::kMin, 13) == 40, "product, max");
                         expect(i32(WindowOp::kBitAnd, 9) == 13 && i32(WindowOp::kBitOr, 6) == 9, "min, and");
                         expect(i32(WindowOp::kBitXor, 2) == 15 && i32(WindowOp::kFetch, 0) == 13, "or, xor");
                         i32(WindowOp::kReplace, INT32_MAX);
                         expect(i32(WindowOp::kSum, 1) == INT32_MAX && i32(WindowOp::kFetch, 0) == INT32_MIN,
                                "an overflow wraps");
                         const auto f32 = [&](WindowOp op, float operand) {
                           return window.update<float>(1, 1, nccl_abi::kFloat32, op, operand);
                         };
                         f32(WindowOp::kMax, std::numeric_limits<float>::quiet_NaN());
                         f32(WindowOp::kMax, 3);
                         expect(std::isnan(f32(WindowOp::kReplace, 0)), "NaN stays");
                         // A float's zeros differ in their bits.
                         const float minus = -0.0f, plus = 0.0f, five = 5;
                         float old = 1;
                         f32(WindowOp::kReplace, minus);
                         hostcclWindowCompareSwap(window.handle, 1, 4, nccl_abi::kFloat32, &plus, &five, &old,
                                                  kPatience);
                         expect(std::signbit(old) && std::signbit(f32(WindowOp::kFetch, 0)), "compared by bits");
                         expect(hostcclWindowCompareSwap(window.handle, 1, 4, nccl_abi::kFloat16, &plus, &five, &old,
                                                         kPatience) == nccl_abi::kInvalidArgument,
                                "float16");
                         const WindowPiece piece{4, 4};
                         expect(hostcclWindowUpdate(window.handle, 1, &piece, 1, nccl_abi::kFloat32, WindowOp::kBitAnd,
                                                    &five, nullptr, kPatience) == nccl_abi::kInvalidArgument &&
                                    last_says("band has no meaning"),
                                "bits");
                       }
                     }),
           std::string());
}

TEST(pieces_go_where_they_belong) {
  CHECK_EQ(run_world(2,
                     [](int rank, nccl_abi::CommHandle comm) {
                       Mine window(comm, 1000);
                       std::vector<uint8_t> source(300), back(300);
                       std::iota(source.begin(), source.end(), 1);
                       const WindowPiece pieces[] = {{900, 100}, {0, 1}, {10, 0}, {501, 199}};
                       hostcclBarrier(comm, nullptr);
                       if (rank == 0) {
                         expect_success(
                             hostcclWindowPut(window.handle, 1, pieces, 4, source.data(), nullptr, kPatience), "put");
                         expect_success(hostcclWindowGet(window.handle, 1, pieces, 4, back.data(), kPatience), "get");
                         expect(source == back, "what was put");
                         uint8_t zero[2] = {1, 1};
                         expect_success(window.get(1, 899, &zero[0], 1), "get");
                         expect_success(window.get(1, 700, &zero[1], 1), "get");
                         expect(zero[0] == 0 && zero[1] == 0, "nothing beside the pieces");
                       }
                     }),
           std::string());
}

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

TEST(what_is_wrong_with_a_call_harms_nobody) {
  CHECK_EQ(run_world(
               2,
               [](int rank, nccl_abi::CommHandle comm) {
                 Mine window(comm, rank == 0 ? 64 : 128);
                 uint64_t value = 7;
                 expect(window.put(0, 57, &value, 8) == nccl_abi::kInvalidArgument && last_says("8 bytes at offset 57"),
                        "end");
                 expect(window.put(0, UINT64_MAX - 3, &value, 8) == nccl_abi::kInvalidArgument, "a sum that wraps");
                 expect(window.put(1, 120, &value, 8) == nccl_abi::kSuccess, "that of rank 1 is larger");
                 expect(window.get(2, 0, &value, 8) == nccl_abi::kInvalidArgument && last_says("peer is 2"),
                        "no such rank");
                 expect(window.get(-1, 0, &value, 8) == nccl_abi::kInvalidArgument, "no such rank");
                 const WindowPiece odd{4, 8};
                 expect(hostcclWindowUpdate(window.handle, 0, &odd, 1, nccl_abi::kInt64, WindowOp::kSum, &value,
                                            nullptr, kPatience) == nccl_abi::kInvalidArgument &&
                            last_says("whole elements"),
                        "alignment");
                 const WindowSignal far = one(64);
                 expect(hostcclWindowSignal(window.handle, 0, &far, kPatience) == nccl_abi::kInvalidArgument &&
                            last_says("slots 0 to 63"),
                        "slot");
                 expect(hostcclWindowUnlock(window.handle, 0, 0, kPatience) == nccl_abi::kInvalidArgument, "not held");
                 expect_success(hostcclBarrier(comm, nullptr), "the communicator is well");
               }),
           std::string());
}

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
                     }),
           std::string());
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

// Nobody can map it: the service of each rank does what the others ask for.
TEST(private_memory_is_served) {
  constexpr int kRanks = 3;
  CHECK_EQ(run_world(kRanks,
                     [](int rank, nccl_abi::CommHandle comm) {
                       std::vector<int64_t> memory(1 << 16, rank);
                       WindowHandle window = nullptr;
                       expect_success(
                           hostcclWindowCreate(comm, memory.data(), memory.size() * 8, nullptr, kPatience, &window),
                           "create");
                       const int right = (rank + 1) % kRanks, left = (rank + kRanks - 1) % kRanks;
                       WindowAttr attr{};
                       expect_success(hostcclWindowAttr(window, right, &attr), "attr");
                       expect(attr.reach == WindowReach::kServed && attr.data == nullptr, "served");
                       const std::vector<int64_t> mine(memory.size() - 1, rank + 10);
                       const WindowPiece piece{8, mine.size() * 8};
                       const WindowSignal signal = one(1);
                       expect_success(hostcclWindowPut(window, right, &piece, 1, mine.data(), &signal, kPatience),
                                      "put");
                       expect_success(hostcclWindowWaitSignal(window, &left, 1, 1, 1, 1, kPatience, nullptr), "wait");
                       expect(memory[1] == left + 10 && memory.back() == left + 10, "what left has put");
                       const WindowPiece first{0, 8};
                       const int64_t add = 1;
                       int64_t old = -1;
                       for (int i = 0; i < 300; ++i) {
                         expect_success(hostcclWindowUpdate(window, 0, &first, 1, nccl_abi::kInt64, WindowOp::kSum,
                                                            &add, &old, kPatience),
                                        "update");
                       }
                       int broken = 0;
                       expect_success(hostcclWindowLock(window, 1, 0, kPatience, &broken), "lock");
                       expect_success(hostcclWindowGet(window, 1, &first, 1, &old, kPatience), "get");
                       ++old;
                       expect_success(hostcclWindowPut(window, 1, &first, 1, &old, nullptr, kPatience), "put");
                       expect_success(hostcclWindowUnlock(window, 1, 0, kPatience), "unlock");
                       expect_success(hostcclWindowFlush(window, -1, kPatience), "flush");
                       expect_success(hostcclBarrier(comm, nullptr), "barrier");
                       if (rank == 0) expect(memory[0] == 3 * 300, "no update was lost");
                       if (rank == 1) expect(memory[0] == 1 + 3, "the lock keeps others out");
                       const WindowPiece beyond{memory.size() * 8, 1};
                       expect(hostcclWindowPut(window, right, &beyond, 1, mine.data(), nullptr, kPatience) ==
                                  nccl_abi::kInvalidArgument,
                              "out of bounds");
                       void* data = nullptr;
                       void* hold = nullptr;
                       expect(hostcclWindowMap(window, right, &data, &hold) == nccl_abi::kInvalidArgument &&
                                  last_says("private memory"),
                              "it cannot be mapped");
                       expect_success(hostcclWindowClose(window, 1, kPatience), "close");
                       hostcclWindowFree(window);
                     }),
           std::string());
}

CHECK_MAIN()
