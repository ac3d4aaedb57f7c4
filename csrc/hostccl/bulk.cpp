#include "hostccl/bulk.h"

#include <algorithm>

#include "base/clock.h"
#include "base/futex.h"
#include "hostccl/op.h"

namespace hostccl {
namespace {

struct BulkHeader {
  uint64_t id;
  uint64_t last_round;  // of the measurement that follows, 0: none does
};
static_assert(sizeof(BulkHeader) <= kPad);

constexpr size_t kMeasureEvery = 16 * 1024 * 1024;
constexpr int kRounds = 16;
constexpr int64_t kFarNs = 200;  // there and back: about 100 within one cache, 350 and more across
constexpr int64_t kMeasureAtMost = 20 * pycomms::kMicrosecond;
constexpr size_t kReadAtOnce = 64 * 1024;  // then the writer hears that there is room

// Small chunks let the reader begin early, large ones cost fewer hand-overs.
size_t chunk(size_t bytes) { return bytes < 512 * 1024 ? 16 * 1024 : 64 * 1024; }

// False: nobody came within the time.
template <typename Ready>
bool spin_until(int64_t deadline, Ready ready) {
  constexpr int kLooks = 64;  // to look at the clock takes as long as what is measured
  do {
    for (int i = 0; i < kLooks; ++i) {
      if (ready()) return true;
    }
  } while (pycomms::now_ns() < deadline);
  return false;
}

}  // namespace

// --- writer

BulkWriter::BulkWriter(PairControl& pair, std::byte* ring, size_t ring_bytes, bool measures)
    : ring_(pair.bulk_head, {&pair.bulk_tail}, ring, ring_bytes),
      probe_(pair.bulk_probe),
      answer_(pair.bulk_answer),
      measures_(measures) {}

bool BulkWriter::write(uint64_t id, const std::byte* data, size_t bytes, size_t& moved) {
  if (!begun_ && !begin(id, bytes)) return false;
  const size_t piece = std::min({bytes - moved, chunk(bytes), ring_.until_wrap()});
  if (!ring_.can_write(piece)) return false;
  if (streaming_) {
    hostccl::copy_streaming(ring_.place(), data + moved, piece);
  } else {
    hostccl::copy(ring_.place(), data + moved, piece);
  }
  ring_.publish(piece);
  moved += piece;
  if (moved == bytes) {
    ring_.end_message();
    begun_ = false;
  }
  return true;
}

bool BulkWriter::begin(uint64_t id, size_t bytes) {
  if (!ring_.can_write(kPad)) return false;
  const bool measure_now = measures_ && unmeasured_ >= kMeasureEvery;
  unmeasured_ = measure_now ? bytes : unmeasured_ + bytes;
  new (ring_.place()) BulkHeader{id, measure_now ? round_ + kRounds : 0};
  begun_ = true;
  if (measure_now) {
    ring_.publish(kPad);
    measure(round_ + kRounds);
  } else {
    ring_.write_on(kPad);
  }
  return true;
}

// The quickest of some exchanges counts. If the reader has not come, or either was interrupted, things stay as they were:
// whoever is late finds answers that were given for the other's sake.
void BulkWriter::measure(uint64_t last_round) {
  const int64_t deadline = pycomms::now_ns() + kMeasureAtMost;
  int64_t best = INT64_MAX;
  while (round_ < last_round) {
    const int64_t start = pycomms::now_ns();
    probe_.value.store(++round_, std::memory_order_release);
    if (!spin_until(deadline, [&] { return answer_.value.load(std::memory_order_acquire) >= round_; })) break;
    const int64_t end = pycomms::now_ns();
    if (end >= deadline) break;
    best = std::min(best, end - start);
  }
  round_ = last_round;
  probe_.value.store(last_round, std::memory_order_release);
  if (best == INT64_MAX) {
    unmeasured_ = kMeasureEvery;  // try again with the next message
  } else {
    streaming_ = best > kFarNs;
  }
}

// --- reader

BulkReader::BulkReader(PairControl& pair, const std::byte* ring, size_t ring_bytes)
    : ring_(pair.bulk_head, pair.bulk_tail, ring, ring_bytes), probe_(pair.bulk_probe), answer_(pair.bulk_answer) {}

std::optional<uint64_t> BulkReader::front() {
  if (front_ || !ring_.can_read(kPad)) return front_;
  const auto header = *reinterpret_cast<const BulkHeader*>(ring_.place());
  ring_.read_on(kPad);
  if (header.last_round != 0) answer(header.last_round);
  front_ = header.id;
  return front_;
}

bool BulkReader::read(std::byte* to, size_t bytes, size_t& moved) {
  const size_t piece = std::min({bytes - moved, kReadAtOnce, ring_.readable()});
  if (piece == 0) return false;
  if (bytes >= kTooLargeForCache) {
    hostccl::copy_streaming(to + moved, ring_.place(), piece);
  } else {
    hostccl::copy(to + moved, ring_.place(), piece);
  }
  ring_.consume(piece);
  moved += piece;
  if (moved == bytes) {
    ring_.end_message();
    front_.reset();
  }
  return true;
}

void BulkReader::answer(uint64_t last_round) {
  const int64_t deadline = pycomms::now_ns() + kMeasureAtMost;
  uint64_t answered = answer_.value.load(std::memory_order_relaxed);
  while (answered < last_round) {
    uint64_t asked = answered;
    const bool came = spin_until(deadline, [&] {
      asked = probe_.value.load(std::memory_order_acquire);
      return asked > answered;
    });
    answered = came ? asked : last_round;
    answer_.value.store(answered, std::memory_order_release);
  }
}

}  // namespace hostccl
