// The shared segment of a communicator: what lies where. One segment a communicator, mapped by all its ranks, zeroed at
// birth. Positions of rings only grow; nothing in it is a pointer that another process would follow.
//
// Who writes what: a rank writes its own block, its own rings' heads and data, and the tails of the rings that it reads.
// The fault record is written once, by whoever wins `word`.
// Must not know: algorithms.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "hostccl/life.h"
#include "hostccl/meeting_wire.h"
#include "hostccl/op.h"

namespace hostccl {

inline constexpr size_t kKiB = 1024;
inline constexpr size_t kMiB = 1024 * kKiB;
inline constexpr size_t kLine = 128;  // two cache lines: the neighbour is prefetched together
inline constexpr size_t kPad = 64;    // messages in rings start at multiples of this

struct alignas(kLine) Counter {
  std::atomic<uint64_t> value;
};

enum class Presence : uint32_t { kAbsent = 0, kPresent = 1, kClosed = 2 };

// Whoever sleeps is woken through its rank's bell; `sleepers` lets the others skip the system call.
struct alignas(kLine) Bell {
  std::atomic<uint32_t> rung;
  std::atomic<uint32_t> sleepers;
};

enum class PayloadPlace : uint8_t { kNone, kInline, kFlat };  // kNone: in rings, or there is none

// A rank's announcement of its next collective, with the data itself when it is small.
struct alignas(kLine) HeaderSlot {
  std::atomic<uint64_t> sequence;  // written last
  Header header;
  uint32_t flat_offset;  // of the payload in the rank's flat area
  uint32_t flat_bytes;
  alignas(uint64_t) std::byte payload[kLine - sizeof(uint64_t) - sizeof(Header) - 2 * sizeof(uint32_t)];  // or counts
};
static_assert(sizeof(HeaderSlot) == kLine);

// A rank posts collective k only after it has seen everyone's k-1, so everyone is done with k-2: two slots would do.
inline constexpr int kHeaderSlots = 8;

struct alignas(kLine) RankBlock {
  std::atomic<Presence> presence;
  std::atomic<int32_t> pid;
  std::atomic<int32_t> cores;        // that its process may use; written before presence
  std::atomic<uint64_t> posted;      // sequence of the last collective entered; for reports
  char residence[kSocketNameBytes];  // see residence.h; written before presence, read on the rank's host only
  Bell bell;
  LifeNode life;
  Counter probe;  // answered by everybody at once, to measure how far apart the cores are
  HeaderSlot headers[kHeaderSlots];
};

enum class FaultWord : uint32_t { kHealthy = 0, kBeingWritten = 1, kPublished = 2 };

struct alignas(kLine) FaultRecord {
  std::atomic<uint32_t> word;  // FaultWord; polled by every wait
  Failure failure;
};

// Point to point, source -> destination.
// The data of a message: with the envelope, on its way through the bulk ring, or yet to be asked for.
enum class EnvelopeKind : uint8_t { kEager, kStreamed, kRequestToSend, kClearToSend };
struct alignas(kLine) Envelope {
  std::atomic<uint64_t> sequence;  // written last
  uint64_t bytes;
  uint64_t id;
  int32_t tag;
  EnvelopeKind kind;
  uint8_t type;
  std::byte payload[kLine - 3 * sizeof(uint64_t) - 8];
};
static_assert(sizeof(Envelope) == kLine);
inline constexpr uint64_t kEnvelopes = 64;

struct PairControl {
  Counter staged_head, staged_tail;  // collectives' data meant for one rank
  Counter eager_head, eager_tail;
  Counter bulk_head, bulk_tail;
  Counter bulk_probe, bulk_answer;  // to measure how far apart the cores are
  Counter envelopes_taken;
  Envelope envelopes[kEnvelopes];
};

// Sizes and places for a number of ranks; the same on every rank.
class Layout {
 public:
  explicit Layout(int nranks);

  int nranks() const { return nranks_; }
  size_t total_bytes() const { return total_; }
  size_t flat_bytes() const { return flat_; }
  size_t shared_ring_bytes() const { return shared_ring_; }
  size_t pair_ring_bytes() const { return pair_ring_; }
  size_t eager_ring_bytes() const { return eager_ring_; }
  size_t bulk_ring_bytes() const { return bulk_ring_; }

  FaultRecord& fault(std::byte* base) const { return *at<FaultRecord>(base, 0); }
  RankBlock& block(std::byte* base, int rank) const {
    return *at<RankBlock>(base, blocks_ + index(rank) * sizeof(RankBlock));
  }
  std::byte* flat(std::byte* base, int rank) const { return base + flats_ + index(rank) * flat_; }

  // Ring of a rank that all others read: head, one tail per reader, data.
  Counter& shared_head(std::byte* base, int owner) const { return shared_counters(base, owner)[0]; }
  Counter& shared_tail(std::byte* base, int owner, int reader) const {
    return shared_counters(base, owner)[1 + reader];
  }
  std::byte* shared_ring(std::byte* base, int owner) const {
    return base + shared_rings_ + index(owner) * shared_ring_;
  }

  PairControl& pair(std::byte* base, int source, int destination) const {
    return *at<PairControl>(base, pairs_ + pair_index(source, destination) * sizeof(PairControl));
  }
  std::byte* pair_ring(std::byte* base, int source, int destination) const {
    return base + pair_rings_ + pair_index(source, destination) * (pair_ring_ + eager_ring_ + bulk_ring_);
  }
  std::byte* eager_ring(std::byte* base, int source, int destination) const {
    return pair_ring(base, source, destination) + pair_ring_;
  }
  std::byte* bulk_ring(std::byte* base, int source, int destination) const {
    return eager_ring(base, source, destination) + eager_ring_;
  }

 private:
  static size_t index(int rank) { return static_cast<size_t>(rank); }
  size_t pair_index(int source, int destination) const {
    return index(source) * static_cast<size_t>(nranks_) + index(destination);
  }
  template <typename T>
  static T* at(std::byte* base, size_t offset) {
    return reinterpret_cast<T*>(base + offset);
  }
  Counter* shared_counters(std::byte* base, int owner) const {
    return at<Counter>(base, shared_counters_) + index(owner) * (1 + static_cast<size_t>(nranks_));
  }

  int nranks_;
  size_t flat_, shared_ring_, pair_ring_, eager_ring_, bulk_ring_;
  size_t blocks_, shared_counters_, pairs_, flats_, shared_rings_, pair_rings_, total_;
};

}  // namespace hostccl
