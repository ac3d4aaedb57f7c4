// The engine's collectives through its ABI, ranks as threads, small and large messages, inline and on streams.

#include <array>
#include <atomic>
#include <stdexcept>
#include <vector>

#include "check.h"
#include "hostccl/hostccl.h"
#include "hostccl_world.h"

using namespace nccl_abi;
using namespace hostccl;
using hostccl_test::expect;
using hostccl_test::expect_success;
using hostccl_test::run_world;

namespace {

// Elements: nothing, in the header's line, beside it, at the limits, and through the rings, also not a multiple of anything.
#ifdef __SANITIZE_THREAD__  // every load and store costs: fewer of the same kinds
const int kWorlds[] = {1, 2, 3};
const size_t kCounts[] = {0, 1, 20, 333, 16385, 60'007};
#else
const int kWorlds[] = {1, 2, 3, 4, 7};
const size_t kCounts[] = {0, 1, 7, 20, 333, 16384, 16385, 100'003, 600'007};
#endif

float value(int rank, size_t i) { return static_cast<float>((i * 7 + static_cast<size_t>(rank) * 13) % 101); }

std::vector<float> filled(int rank, size_t count) {
  std::vector<float> data(count);
  for (size_t i = 0; i < count; ++i) data[i] = value(rank, i);
  return data;
}

float sum_of(int nranks, size_t i) {
  float sum = 0;
  for (int rank = 0; rank < nranks; ++rank) sum += value(rank, i);
  return sum;
}

void for_all(const std::function<void(int nranks, size_t count)>& test) {
  for (const int nranks : kWorlds) {
    for (const size_t count : kCounts) test(nranks, count);
  }
}

}  // namespace

TEST(all_reduce_sums) {
  for_all([](int nranks, size_t count) {
    const std::string errors = run_world(nranks, [&](int rank, CommHandle comm) {
      for (int round = 0; round < 3; ++round) {
        std::vector<float> data = filled(rank, count);
        expect_success(ncclAllReduce(data.data(), data.data(), count, kFloat32, kSum, comm, nullptr), "all_reduce");
        for (size_t i = 0; i < count; ++i) expect(data[i] == sum_of(nranks, i), "all_reduce value");
      }
    });
    CHECK_EQ(errors, std::string());
  });
}

TEST(reduce_and_broadcast_for_every_root) {
  for_all([](int nranks, size_t count) {
    const std::string errors = run_world(nranks, [&](int rank, CommHandle comm) {
      for (int root = 0; root < nranks; ++root) {
        std::vector<float> in = filled(rank, count), out(count, -1);
        expect_success(ncclReduce(in.data(), out.data(), count, kFloat32, kSum, root, comm, nullptr), "reduce");
        for (size_t i = 0; i < count; ++i) expect(out[i] == (rank == root ? sum_of(nranks, i) : -1), "reduce value");
        expect_success(ncclBroadcast(in.data(), out.data(), count, kFloat32, root, comm, nullptr), "broadcast");
        for (size_t i = 0; i < count; ++i) expect(out[i] == value(root, i), "broadcast value");
      }
    });
    CHECK_EQ(errors, std::string());
  });
}

TEST(gathers_and_scatters) {
  for_all([](int nranks, size_t count) {
    const auto n = static_cast<size_t>(nranks);
    const std::string errors = run_world(nranks, [&](int rank, CommHandle comm) {
      const std::vector<float> mine = filled(rank, count), all_of_mine = filled(rank, count * n);
      std::vector<float> all(count * n), piece(count);
      expect_success(ncclAllGather(mine.data(), all.data(), count, kFloat32, comm, nullptr), "all_gather");
      for (size_t i = 0; i < all.size(); ++i) {
        expect(all[i] == value(static_cast<int>(i / count), i % count), "all_gather value");
      }
      expect_success(ncclReduceScatter(all_of_mine.data(), piece.data(), count, kFloat32, kSum, comm, nullptr),
                     "reduce_scatter");
      for (size_t i = 0; i < count; ++i) {
        expect(piece[i] == sum_of(nranks, i + static_cast<size_t>(rank) * count), "reduce_scatter value");
      }
      for (int root = 0; root < nranks; ++root) {
        std::vector<float> gathered(count * n, -1);
        expect_success(ncclGather(mine.data(), gathered.data(), count, kFloat32, root, comm, nullptr), "gather");
        for (size_t i = 0; i < gathered.size(); ++i) {
          expect(gathered[i] == (rank == root ? value(static_cast<int>(i / count), i % count) : -1), "gather value");
        }
        expect_success(ncclScatter(all_of_mine.data(), piece.data(), count, kFloat32, root, comm, nullptr), "scatter");
        for (size_t i = 0; i < count; ++i) {
          expect(piece[i] == value(root, i + static_cast<size_t>(rank) * count), "scatter value");
        }
      }
      expect_success(ncclAlltoAll(all_of_mine.data(), all.data(), count, kFloat32, comm, nullptr), "all_to_all");
      for (size_t i = 0; i < all.size(); ++i) {
        const size_t offset = static_cast<size_t>(rank) * count + i % count;
        expect(all[i] == value(static_cast<int>(i / count), offset), "all_to_all value");
      }
    });
    CHECK_EQ(errors, std::string());
  });
}

TEST(counts_per_rank) {
  for (const int nranks : {1, 2, 3, 5}) {
    for (const size_t unit : {size_t{0}, size_t{3}, size_t{40'001}}) {
      const std::string errors = run_world(nranks, [&](int rank, CommHandle comm) {
        const auto n = static_cast<size_t>(nranks);
        std::vector<size_t> counts(n);
        for (size_t r = 0; r < n; ++r) counts[r] = r * unit;
        std::vector<std::vector<float>> pieces(n);
        std::vector<void*> out(n);
        for (size_t r = 0; r < n; ++r) pieces[r].resize(counts[r] + 1), out[r] = pieces[r].data();
        const std::vector<float> mine = filled(rank, counts[static_cast<size_t>(rank)] + 1);
        expect_success(hostcclAllGatherv(mine.data(), out.data(), counts.data(), kFloat32, comm, nullptr),
                       "all_gather_v");
        for (size_t r = 0; r < n; ++r) {
          for (size_t i = 0; i < counts[r]; ++i)
            expect(pieces[r][i] == value(static_cast<int>(r), i), "all_gather_v value");
        }
        // rank r sends (r + peer) units to peer
        std::vector<size_t> sent(n), got(n);
        std::vector<std::vector<float>> to(n), from(n);
        std::vector<const void*> to_list(n);
        std::vector<void*> from_list(n);
        for (size_t r = 0; r < n; ++r) {
          sent[r] = got[r] = (static_cast<size_t>(rank) + r) * unit;
          to[r] = filled(rank * 10 + static_cast<int>(r), sent[r] + 1);
          from[r].resize(got[r] + 1);
          to_list[r] = to[r].data(), from_list[r] = from[r].data();
        }
        expect_success(
            hostcclAllToAllv(to_list.data(), sent.data(), from_list.data(), got.data(), kFloat32, comm, nullptr),
            "all_to_all_v");
        for (size_t r = 0; r < n; ++r) {
          for (size_t i = 0; i < got[r]; ++i) {
            expect(from[r][i] == value(static_cast<int>(r) * 10 + rank, i), "all_to_all_v value");
          }
        }
        std::vector<float> piece(counts[static_cast<size_t>(rank)] + 1);
        std::vector<std::vector<float>> parts(n);
        std::vector<const void*> in(n);
        for (size_t r = 0; r < n; ++r) parts[r] = filled(rank, counts[r] + 1), in[r] = parts[r].data();
        expect_success(hostcclReduceScatterv(in.data(), piece.data(), counts.data(), kFloat32, kSum, comm, nullptr),
                       "reduce_scatter_v");
        for (size_t i = 0; i < counts[static_cast<size_t>(rank)]; ++i) {
          expect(piece[i] == sum_of(nranks, i), "reduce_scatter_v value");
        }
      });
      CHECK_EQ(errors, std::string());
    }
  }
}

TEST(premultiplied_sum_uses_each_ranks_factor) {
  for (const size_t count : {size_t{5}, size_t{200'000}}) {
    const std::string errors = run_world(3, [&](int rank, CommHandle comm) {
      float factor = static_cast<float>(rank + 1);
      RedOp op;
      expect_success(ncclRedOpCreatePreMulSum(&op, &factor, kFloat32, kScalarHostImmediate, comm), "create");
      std::vector<float> data = filled(rank, count);
      expect_success(ncclAllReduce(data.data(), data.data(), count, kFloat32, op, comm, nullptr), "all_reduce");
      expect_success(ncclRedOpDestroy(op, comm), "destroy");
      for (size_t i = 0; i < count; ++i) expect(data[i] == value(0, i) + 2 * value(1, i) + 3 * value(2, i), "value");
      expect(ncclAllReduce(data.data(), data.data(), count, kFloat32, op, comm, nullptr) == kInvalidArgument,
             "stale op");
    });
    CHECK_EQ(errors, std::string());
  }
}

TEST(a_factor_that_is_no_double_is_refused) {
  const std::string errors = run_world(1, [](int, CommHandle comm) {
    constexpr int64_t kExact = int64_t{1} << 53;
    RedOp op;
    const auto create = [&](auto factor, DataType type) {
      return ncclRedOpCreatePreMulSum(&op, &factor, type, kScalarHostImmediate, comm);
    };
    for (const int64_t good : {kExact, -kExact}) expect_success(create(good, kInt64), "int64");
    for (const int64_t bad : {kExact + 1, -kExact - 1}) expect(create(bad, kInt64) == kInvalidArgument, "int64");
    expect(create(~uint64_t{0}, kUint64) == kInvalidArgument, "uint64");
    expect_success(create(std::array<float, 2>{3, 0}, kComplex64), "a real number");
    expect(create(std::array<float, 2>{3, 1}, kComplex64) == kInvalidArgument, "complex64");
    expect(create(std::array<double, 2>{0, 1}, kComplex128) == kInvalidArgument, "complex128");
  });
  CHECK_EQ(errors, std::string());
}

TEST(all_reduce_of_memory_that_others_can_map) {
  for (const int nranks : {1, 2, 3}) {
    for (const int private_rank : {-1, 0}) {  // one rank with private memory: all fall back
      const std::string errors = run_world(nranks, [&](int rank, CommHandle comm) {
        for (const size_t count : {size_t{100}, size_t{100'003}, size_t{300'001}}) {
          std::vector<float> own = filled(rank, count);
          void* memory = nullptr;
          expect_success(ncclMemAlloc(&memory, (count + 5) * sizeof(float)), "allocate");
          auto* data = rank == private_rank ? own.data() : static_cast<float*>(memory) + 5;
          for (int round = 0; round < 2; ++round) {
            for (size_t i = 0; i < count; ++i) data[i] = value(rank, i);
            expect_success(ncclAllReduce(data, data, count, kFloat32, kSum, comm, nullptr), "all_reduce");
            for (size_t i = 0; i < count; ++i) expect(data[i] == sum_of(nranks, i), "value");
          }
          expect_success(ncclMemFree(memory), "free");
        }
      });
      CHECK_EQ(errors, std::string());
    }
  }
}

TEST(streams_run_in_order_and_notify) {
  const std::string errors = run_world(3, [](int rank, CommHandle comm) {
    StreamHandle stream;
    expect_success(hostcclStreamCreate(&stream, "test"), "create");
    constexpr size_t kOps = 50, kCount = 30'000;
    std::vector<std::vector<float>> data(kOps);
    std::atomic<int> ended{0};
    uint64_t position = 0;
    for (size_t i = 0; i < kOps; ++i) {
      data[i] = filled(rank, i % 2 ? kCount : 10);
      expect_success(ncclAllReduce(data[i].data(), data[i].data(), data[i].size(), kFloat32, kSum, comm, stream),
                     "issue");
      expect_success(hostcclStreamNotify(
                         stream, [](void* arg, Result r) { *static_cast<std::atomic<int>*>(arg) += r == kSuccess; },
                         &ended, &position),
                     "notify");
    }
    if (rank == 1)
      while (hostcclStreamHelp(stream, position)) {
      }
    expect_success(hostcclStreamDestroy(stream), "destroy");
    expect(ended == static_cast<int>(kOps), "every notification came");
    for (const auto& one : data) {
      for (size_t i = 0; i < one.size(); ++i) expect(one[i] == sum_of(3, i), "value");
    }
  });
  CHECK_EQ(errors, std::string());
}

CHECK_MAIN()
