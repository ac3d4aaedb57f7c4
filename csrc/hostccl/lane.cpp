#include "hostccl/lane.h"

#include <algorithm>
#include <string>

#include "hostccl/failures.h"
#include "hostccl/layout.h"
#include "hostccl/p2p.h"
#include "hostccl/turn.h"

namespace hostccl {
namespace {

RingWriter shared_writer(const Segment& segment) {
  const Layout& layout = segment.layout();
  const int me = segment.rank();
  std::vector<Counter*> tails;
  for (int reader = 0; reader < segment.nranks(); ++reader) {
    if (reader != me) tails.push_back(&layout.shared_tail(segment.base(), me, reader));
  }
  return RingWriter(layout.shared_head(segment.base(), me), std::move(tails), layout.shared_ring(segment.base(), me),
                    layout.shared_ring_bytes());
}

// The lanes that this thread runs a collective of: several when a completion issues one of another communicator.
thread_local std::vector<const Lane*> lanes_running_here;

struct RunningHere {
  explicit RunningHere(const Lane* lane) { lanes_running_here.push_back(lane); }
  ~RunningHere() { lanes_running_here.pop_back(); }
};

}  // namespace

Tuning Tuning::for_places(const Places& places) {
  const size_t others = static_cast<size_t>(std::max(places.nranks() - 1, 1));
  return Tuning{
      .small_symmetric = others == 1 ? 256 * kKiB : std::max<size_t>(64 * kKiB / others, 8 * kKiB),
      .small_rooted = 32 * kKiB,
      .most_ahead = 512 * kKiB,
      .least_chunk = places.is_one_host() ? 16 * kKiB : 64 * kKiB,  // a segment of TCP
      .one_ring = others == 1 && places.is_one_host(),
  };
}

size_t Tuning::chunk_symmetric(size_t bytes) const {
  if (bytes < 512 * kKiB) return least_chunk;
  return one_ring && bytes <= 8 * kMiB ? 256 * kKiB : 64 * kKiB;
}

size_t Tuning::chunk_rooted(size_t bytes) const { return bytes < 512 * kKiB ? least_chunk : 64 * kKiB; }

Lane::Lane(const Segment& segment, const PeerWatch& watch, P2p& p2p, const Patience& patience, bool by_hosts)
    : segment_(segment),
      watch_(watch),
      p2p_(p2p),
      patience_(patience),
      by_hosts_(by_hosts),
      tuning_(Tuning::for_places(segment.places())),
      rank_(segment.rank()),
      nranks_(segment.nranks()),
      streaming_(!patience_.own_core),
      shared_out_(shared_writer(segment)),
      inputs_(static_cast<size_t>(nranks_)),
      factors_(static_cast<size_t>(nranks_)) {
  const Layout& layout = segment.layout();
  std::byte* const base = segment.base();
  for (int peer = 0; peer < nranks_; ++peer) {
    if (peer != rank_) others_.push_back(peer);
    just_.push_back(peer);
    shared_in_.emplace_back(layout.shared_head(base, peer), layout.shared_tail(base, peer, rank_),
                            layout.shared_ring(base, peer), layout.shared_ring_bytes());
    PairControl& out = layout.pair(base, rank_, peer);
    PairControl& in = layout.pair(base, peer, rank_);
    pair_out_.emplace_back(out.staged_head, std::vector{&out.staged_tail}, layout.pair_ring(base, rank_, peer),
                           layout.pair_ring_bytes());
    pair_in_.emplace_back(in.staged_head, in.staged_tail, layout.pair_ring(base, peer, rank_),
                          layout.pair_ring_bytes());
  }
}

bool Lane::is_running_here() const {
  return std::find(lanes_running_here.begin(), lanes_running_here.end(), this) != lanes_running_here.end();
}

Result Lane::run(const Collective& op, int64_t timeout_ns, bool interruptible) {
  if (is_running_here()) return nccl_abi::kInvalidUsage;
  std::lock_guard lock(mutex_);
  const RunningHere here(this);
  if (!segment_.has_failed()) {
    Turn turn(*this, timeout_ns, interruptible);
    if (dispatch(turn, op)) return nccl_abi::kSuccess;
  }
  return result_of(segment_.failure().kind);
}

// --- the meeting

HeaderSlot& Lane::begin(Turn& turn, const Collective& op) {
  const uint64_t sequence = sequence_.load(std::memory_order_relaxed) + 1;
  sequence_.store(sequence, std::memory_order_relaxed);
  segment_.mine().posted.store(sequence, std::memory_order_relaxed);
  HeaderSlot& slot = segment_.mine().headers[sequence % kHeaderSlots];
  slot.header = make_header(op, nranks_);
  slot.header.payload = static_cast<uint8_t>(PayloadPlace::kNone);
  turn.header = slot.header;
  turn.sequence = sequence;
  return slot;
}

// Room for this rank's data beside its header. The flat area is used round and round: whoever posts k knows that
// everyone is done with k-2, and one message takes at most an eighth of the area.
std::byte* Lane::reserve(HeaderSlot& slot, size_t bytes) {
  if (bytes <= sizeof(slot.payload)) {
    slot.header.payload = static_cast<uint8_t>(PayloadPlace::kInline);
    return slot.payload;
  }
  slot.header.payload = static_cast<uint8_t>(PayloadPlace::kFlat);
  if (flat_position_ + bytes > segment_.layout().flat_bytes()) flat_position_ = 0;
  slot.flat_offset = static_cast<uint32_t>(flat_position_);
  slot.flat_bytes = static_cast<uint32_t>(bytes);
  flat_position_ = pad_up(flat_position_ + bytes);
  return segment_.layout().flat(segment_.base(), rank_) + slot.flat_offset;
}

void Lane::put(std::byte* reserved, const std::byte* from, size_t bytes) const {
  constexpr size_t kWorthStreaming = 4096;
  if (streaming_ && bytes >= kWorthStreaming) {
    hostccl::copy_streaming(reserved, from, bytes);
  } else {
    hostccl::copy(reserved, from, bytes);
  }
}

void Lane::post(HeaderSlot& slot) {
  slot.sequence.store(sequence_.load(std::memory_order_relaxed), std::memory_order_seq_cst);
  for (const int peer : others_) segment_.ring(peer);
}

bool Lane::meet(Turn& turn) {
  for (const int peer : others_) {
    if (!meet_one(turn, peer)) return false;
  }
  return true;
}

bool Lane::meet_one(Turn& turn, int peer) {
  const HeaderSlot& slot = slot_of(peer);
  auto arrived = [&] { return slot.sequence.load(std::memory_order_acquire) == turn.sequence; };
  if (!turn.waiter.until(arrived)) return false;
  if (agree(slot.header, turn.header)) return true;
  report_mismatch(turn);
  return false;
}

const HeaderSlot& Lane::slot_of(int rank) const {
  return segment_.block(rank).headers[sequence_.load(std::memory_order_relaxed) % kHeaderSlots];
}

const std::byte* Lane::payload_of(int rank) const {
  const HeaderSlot& slot = slot_of(rank);
  if (slot.header.payload == static_cast<uint8_t>(PayloadPlace::kInline)) return slot.payload;
  return segment_.layout().flat(segment_.base(), rank) + slot.flat_offset;
}

size_t Lane::payload_bytes(int rank) const {
  const HeaderSlot& slot = slot_of(rank);
  switch (static_cast<PayloadPlace>(slot.header.payload)) {
    case PayloadPlace::kNone:
      return 0;
    case PayloadPlace::kInline:
      return sizeof(slot.payload);
    case PayloadPlace::kFlat:
      return slot.flat_bytes;
  }
  return 0;
}

bool Lane::came_with_all(const Turn& turn, size_t bytes) {
  return came_with(turn, [bytes](int) { return bytes; });
}

void Lane::report_nonsense(const Turn& turn, int peer) {
  Failure failure = nonsense_of(segment_, peer,
                                "rank " + std::to_string(peer) + " entered " + turn.label() + " with " +
                                    std::to_string(payload_bytes(peer)) + " bytes, too few");
  turn.name(failure);
  segment_.fail(failure);
}

// Everybody who has arrived, grouped by what they brought.
void Lane::report_mismatch(const Turn& turn) {
  std::vector<std::pair<Header, std::vector<int>>> sides;
  for (int rank = 0; rank < nranks_; ++rank) {
    const HeaderSlot& slot = slot_of(rank);
    if (slot.sequence.load(std::memory_order_acquire) != turn.sequence) continue;
    auto same =
        std::find_if(sides.begin(), sides.end(), [&](const auto& side) { return agree(side.first, slot.header); });
    if (same == sides.end()) same = sides.insert(sides.end(), {slot.header, {}});
    same->second.push_back(rank);
  }
  std::string text = "collective #" + std::to_string(turn.sequence) + " differs between ranks: ";
  Failure failure = make_failure(FailureKind::kMismatch, rank_, "");
  for (const auto& [header, ranks] : sides) {
    if (&header != &sides.front().first) text += "; ";
    text += rank_list(ranks) + " called " + describe(header);
    for (const int rank : ranks) add_rank(failure, rank);
  }
  if (sides.size() > 1 && describe(sides[0].first) == describe(sides[1].first))
    text += " (with different counts per rank)";
  set_text(failure, text);
  turn.name(failure);
  segment_.fail(failure);
}

void Lane::mismatch(const Turn& turn, int a, int b, const std::string& text) {
  Failure failure =
      make_failure(FailureKind::kMismatch, rank_, "collective #" + std::to_string(turn.sequence) + ": " + text);
  add_rank(failure, a);
  add_rank(failure, b);
  turn.name(failure);
  segment_.fail(failure);
}

}  // namespace hostccl
