#include "hostccl/layout.h"

#include <algorithm>
#include <bit>

namespace hostccl {
namespace {

constexpr size_t kPage = 4096;

size_t page_up(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// With more ranks each ring is smaller, so that what is in use together stays in the last-level cache.
size_t shrink(size_t at_two_ranks, int nranks, size_t least) {
  const auto divisor = std::bit_ceil(static_cast<size_t>(std::max(nranks, 2))) / 2;
  return std::max(at_two_ranks / divisor, least);
}

}  // namespace

Layout::Layout(int nranks)
    : nranks_(nranks),
      flat_(2 * kMiB),
      shared_ring_(shrink(2 * kMiB, nranks, 256 * kKiB)),
      pair_ring_(shrink(2 * kMiB, nranks, 128 * kKiB)),
      eager_ring_(shrink(256 * kKiB, nranks, 64 * kKiB)),
      bulk_ring_(shrink(2 * kMiB, nranks, 128 * kKiB)) {
  const auto n = static_cast<size_t>(nranks);
  size_t end = 0;
  auto place = [&end](size_t bytes) {
    const size_t start = end;
    end = start + page_up(bytes);
    return start;
  };
  place(sizeof(FaultRecord));
  blocks_ = place(n * sizeof(RankBlock));
  shared_counters_ = place(n * (n + 1) * sizeof(Counter));
  pairs_ = place(n * n * sizeof(PairControl));
  flats_ = place(n * flat_);
  shared_rings_ = place(n * shared_ring_);
  pair_rings_ = place(n * n * (pair_ring_ + eager_ring_ + bulk_ring_));
  total_ = end;
}

}  // namespace hostccl
