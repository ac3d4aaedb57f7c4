// Data in windows of ranks that map each other's memory: what arrives where, what is atomic, and what is refused.
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "check.h"
#include "window_of_rank.h"

using namespace hostccl;
using namespace hostccl_test;

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

TEST(elements_that_are_misplaced_are_not_updated) {
  CHECK_EQ(
      run_world(2,
                [](int rank, nccl_abi::CommHandle comm) {
                  alignas(8) std::array<std::byte, 33> memory{};
                  const bool maps = rank == 0;  // rank 1's is private
                  void* shared = nullptr;
                  expect_success(nccl_abi::ncclMemAlloc(&shared, memory.size()), "memory");
                  std::byte* const data = (maps ? static_cast<std::byte*>(shared) : memory.data()) + 4;
                  const WindowOptions options;
                  WindowHandle window = nullptr;
                  expect_success(hostcclWindowCreate(comm, data, 24, &options, kPatience, &window), "create");
                  const WindowPiece piece{8, 8};
                  const int64_t one = 1;
                  int64_t old = 0;
                  for (const int peer : {0, 1}) {
                    expect(hostcclWindowUpdate(window, peer, &piece, 1, nccl_abi::kInt64, WindowOp::kSum, &one, &old,
                                               kPatience) == nccl_abi::kInvalidArgument &&
                               last_says("4 bytes behind a multiple of 8"),
                           "an update of 8 bytes");
                    expect(hostcclWindowCompareSwap(window, peer, 8, nccl_abi::kInt64, &old, &one, &old, kPatience) ==
                               nccl_abi::kInvalidArgument,
                           "compare_swap");
                    expect_success(hostcclWindowUpdate(window, peer, &piece, 1, nccl_abi::kInt32, WindowOp::kSum, &one,
                                                       &old, kPatience),
                                   "an update of 4 bytes");
                  }
                  const WindowPiece last_one{16, 8};
                  expect_success(hostcclWindowPut(window, 1 - rank, &last_one, 1, &one, nullptr, kPatience), "put");
                  expect_success(hostcclWindowClose(window, 1, kPatience), "close");
                  hostcclWindowFree(window);
                  nccl_abi::ncclMemFree(shared);
                }),
      std::string());
}

CHECK_MAIN()
