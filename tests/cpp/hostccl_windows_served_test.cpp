// Windows over TCP: what every operation does, and what becomes of those who ask wrongly, stop, or die.

#include <cstring>
#include <numeric>

#include "windows_world.h"

using namespace windows_test;

namespace {

std::span<const WindowPiece> one(const WindowPiece& piece) { return {&piece, 1}; }

void check_put_and_get(World& world, size_t bytes, Deadline deadline) {
  WindowMemory& memory = world[1].open(7, bytes);
  const auto data = large_pattern(bytes, bytes);
  const WindowPiece piece{0, bytes};
  must(world[0].origin->put(1, 7, one(piece), data.data(), nullptr, deadline));
  must(world[0].origin->flush(1, deadline));
  CHECK(holds(memory, data));
  std::vector<std::byte> back(bytes);
  must(world[0].origin->get(1, 7, one(piece), back.data(), deadline));
  CHECK(holds(memory, back));
  world[1].close(7);
}

}  // namespace

TEST(put_and_get_of_all_sizes) {
  World world(2);
  for (const size_t bytes : {0, 1, 2, 4, 8, 1000, 16 << 10, 100'001, 3 << 20}) check_put_and_get(world, bytes, soon());
}

TEST(put_and_get_of_64_MiB) {
  World world(2);
  check_put_and_get(world, 64 << 20, Deadline::after(50 * pycomms::kSecond));
}

// Zero, small and large ones, at odd places; more than go into one request.
TEST(many_pieces_in_one_call) {
  World world(2);
  WindowMemory& memory = world[1].open(1, 8 << 20);
  std::vector<WindowPiece> pieces;
  uint64_t at = 3, total = 0;
  for (size_t i = 0; i < 1000; ++i) {
    const uint64_t bytes = i % 100 == 50 ? 100'000 + i : i % 7 == 0 ? 0 : i % 300;
    pieces.push_back({at, bytes});
    at += bytes + i % 3;
    total += bytes;
  }
  const auto data = pattern(total, 5);
  const WindowSignal signal{3, SignalChange::kAdd, 1};
  must(world[0].origin->put(1, 1, pieces, data.data(), &signal, soon()));
  // What was put is there when the signal is.
  CHECK(net_test::eventually([&] { return memory.layout.signal(memory.block, 0, 3).load() > 0; }));
  CHECK_EQ(memory.layout.signal(memory.block, 0, 3).load(), 1);
  const std::byte* source = data.data();
  for (const WindowPiece& piece : pieces) {
    CHECK(std::memcmp(memory.data + piece.offset, source, piece.bytes) == 0);
    source += piece.bytes;
  }
  std::vector<std::byte> back(total);
  must(world[0].origin->get(1, 1, pieces, back.data(), soon()));
  CHECK(back == data);
}

namespace {

// Whatever is done over TCP is what is done here.
template <typename T>
void check_updates(World& world, DataType type, size_t count) {
  WindowMemory& memory = world[1].open(2, count * sizeof(T));
  const auto expected = make_memory(2, count * sizeof(T));
  std::vector<T> operands(count), old(count), expected_old(count);
  for (size_t i = 0; i < count; ++i) {
    elements_of<T>(memory)[i] = elements_of<T>(*expected)[i] = static_cast<T>(i % 50);
    operands[i] = static_cast<T>(i % 7 + 1);
  }
  std::vector<WindowPiece> pieces{{0, sizeof(T) * (count / 2)}, {sizeof(T) * (count / 2 + 1), 0}};
  pieces.push_back({sizeof(T) * (count / 2), memory.bytes - pieces[0].bytes});
  const auto* bytes = reinterpret_cast<const std::byte*>(operands.data());
  for (int op = 0; op <= static_cast<int>(WindowOp::kFetch); ++op) {
    const auto what = static_cast<WindowOp>(op);
    if (!check_update(type, what).empty()) continue;
    for (const bool wanted : {false, true}) {
      must(world[0].origin->update(1, 2, pieces, type, what, what == WindowOp::kFetch ? nullptr : bytes,
                                   wanted ? reinterpret_cast<std::byte*>(old.data()) : nullptr, soon()));
      update_piece(*expected, {0, expected->bytes}, type, what, bytes,
                   reinterpret_cast<std::byte*>(expected_old.data()));
      if (wanted) CHECK(old == expected_old);
      must(world[0].origin->flush(1, soon()));
      CHECK(holds(memory, {expected->data, expected->bytes}));
    }
  }
  world[1].close(2);
}

template <typename T>
void check_compare_swap(World& world, DataType type) {
  WindowMemory& memory = world[1].open(3, 4 * sizeof(T));
  T& cell = elements_of<T>(memory)[2];
  cell = 10;
  const T ten = 10, eleven = 11, twelve = 12;
  T old = 0;
  must(world[0].origin->compare_swap(1, 3, 2 * sizeof(T), type, &ten, &eleven, &old, soon()));
  CHECK_EQ(old, ten);
  CHECK_EQ(cell, eleven);
  must(world[0].origin->compare_swap(1, 3, 2 * sizeof(T), type, &ten, &twelve, &old, soon()));
  CHECK_EQ(old, eleven);
  CHECK_EQ(cell, eleven);
  world[1].close(3);
}

template <typename T>
void check_type(World& world, DataType type) {
  check_updates<T>(world, type, 1);
  check_updates<T>(world, type, 9'000);
  check_compare_swap<T>(world, type);
}

}  // namespace

TEST(updates_and_compare_swap_of_all_types) {
  World world(2);
  check_type<int32_t>(world, nccl_abi::kInt32);
  check_type<uint32_t>(world, nccl_abi::kUint32);
  check_type<int64_t>(world, nccl_abi::kInt64);
  check_type<uint64_t>(world, nccl_abi::kUint64);
  check_type<float>(world, nccl_abi::kFloat32);
  check_type<double>(world, nccl_abi::kFloat64);
}

TEST(signals_are_added_or_set) {
  World world(3);
  WindowMemory& memory = world[1].open(1, 0);
  for (const int from : {0, 2}) {
    must(world[from].origin->signal(1, 1, {5, SignalChange::kSet, 40}, soon()));
    must(world[from].origin->signal(1, 1, {5, SignalChange::kAdd, from}, soon()));
    must(world[from].origin->flush(1, soon()));
    CHECK_EQ(memory.layout.signal(memory.block, from, 5).load(), 40 + from);
  }
}

// Nothing is lost, and everybody who adds one sees another number.
TEST(hammered_by_several_ranks) {
  constexpr int kRanks = 5, kAdds = 1500, kSwaps = 300;
  World world(kRanks);
  WindowMemory& memory = world[0].open(1, 16);
  std::vector<std::vector<int64_t>> seen(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 1; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const WindowPiece first{0, 8};
      for (int i = 0; i < kAdds; ++i) {
        const int64_t add = 1;
        int64_t old = -1;
        static_cast<void>(world[rank].origin->update(0, 1, one(first), nccl_abi::kInt64, WindowOp::kSum,
                                                     reinterpret_cast<const std::byte*>(&add),
                                                     reinterpret_cast<std::byte*>(&old), soon()));
        seen[static_cast<size_t>(rank)].push_back(old);
      }
      int64_t expected = 0;
      for (int i = 0; i < kSwaps;) {
        const int64_t desired = expected + 1;
        int64_t old = -1;
        static_cast<void>(
            world[rank].origin->compare_swap(0, 1, 8, nccl_abi::kInt64, &expected, &desired, &old, soon()));
        i += old == expected;
        expected = old == expected ? desired : old;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<int64_t> all;
  for (const auto& each : seen) all.insert(all.end(), each.begin(), each.end());
  std::ranges::sort(all);
  std::vector<int64_t> expected(all.size());
  std::iota(expected.begin(), expected.end(), 0);
  CHECK(all == expected);
  CHECK_EQ(elements_of<int64_t>(memory)[0], (kRanks - 1) * kAdds);
  CHECK_EQ(elements_of<int64_t>(memory)[1], (kRanks - 1) * kSwaps);
}

// Several threads of a rank use the same connection, in both directions at once.
TEST(threads_of_a_rank_share_a_connection) {
  constexpr int kThreads = 3;
  constexpr size_t kBytes = 300'000;
  World world(2);
  world[1].open(1, kThreads * kBytes);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const WindowPiece mine{static_cast<uint64_t>(i) * kBytes, kBytes};
      std::vector<std::byte> back(kBytes);
      for (uint64_t round = 0; round < 10; ++round) {
        const auto data = large_pattern(kBytes, round * kThreads + static_cast<uint64_t>(i));
        const bool ok = world[0].origin->put(1, 1, one(mine), data.data(), nullptr, soon()).is_ok() &&
                        world[0].origin->get(1, 1, one(mine), back.data(), soon()).is_ok() && back == data;
        wrong += !ok;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
}

// Each of the two asks the other for much while it sends much.
TEST(large_updates_with_answers_do_not_block_each_other) {
  constexpr size_t kCount = 1 << 17;
  World world(2, kNarrow);
  for (const int rank : {0, 1}) world[rank].open(1, kCount * 8);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (const int rank : {0, 1}) {
    threads.emplace_back([&, rank] {
      const WindowPiece all{0, kCount * 8};
      const std::vector<int64_t> ones(kCount, 1);
      std::vector<int64_t> old(kCount);
      for (int64_t round = 0; round < 3; ++round) {
        const Status status = world[rank].origin->update(1 - rank, 1, one(all), nccl_abi::kInt64, WindowOp::kSum,
                                                         reinterpret_cast<const std::byte*>(ones.data()),
                                                         reinterpret_cast<std::byte*>(old.data()), soon());
        wrong += !status.is_ok() || old != std::vector<int64_t>(kCount, round);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
}

CHECK_MAIN()
