// Courier, the way in: puts what comes where its writer would have put it. Nothing of it is trusted: a position that does not
// follow the last one, or a size that does not fit, ends the connection.
#include <linux/futex.h>

#include <algorithm>
#include <cstring>

#include "hostccl/courier_state.h"
#include "hostccl/failures.h"

namespace hostccl {
namespace {

using net::Message;
using net::Place;

template <typename Wire>
Wire read(std::span<const std::byte> payload) {
  Wire wire;
  std::memcpy(&wire, payload.data(), sizeof(wire));
  return wire;
}

constexpr int64_t kSilence = pycomms::kSecond;  // four beats

void advance(Counter& counter, uint64_t to) { counter.value.store(to, std::memory_order_seq_cst); }

}  // namespace

// A ring that `writer` writes, as mirrored here.
struct Courier::RingView {
  std::byte* data;
  size_t size;
  Counter* head;
  uint64_t* received;
  uint64_t taken;  // by its slowest reader here
};

Courier::RingView Courier::ring_of(int writer, CourierKind kind) const {
  const Layout& layout = segment_.layout();
  std::byte* const base = segment_.base();
  Incoming& in = *in_[static_cast<size_t>(writer)];
  PairControl& pair = layout.pair(base, writer, rank_);
  switch (kind) {
    case CourierKind::kEager:
      return {layout.eager_ring(base, writer, rank_), layout.eager_ring_bytes(), &pair.eager_head, &in.eager,
              pair.eager_tail.value.load(std::memory_order_acquire)};
    case CourierKind::kStaged:
      return {layout.pair_ring(base, writer, rank_), layout.pair_ring_bytes(), &pair.staged_head, &in.staged,
              pair.staged_tail.value.load(std::memory_order_acquire)};
    case CourierKind::kBulk:
      return {layout.bulk_ring(base, writer, rank_), layout.bulk_ring_bytes(), &pair.bulk_head, &in.bulk,
              pair.bulk_tail.value.load(std::memory_order_acquire)};
    default:
      return {layout.shared_ring(base, writer), layout.shared_ring_bytes(), &layout.shared_head(base, writer),
              &in.shared, taken_here_of(writer)};
  }
}

Place Courier::place(int peer, const Message& message) {
  const auto kind = static_cast<CourierKind>(message.kind);
  const bool is_port = places_.port_of(peer, places_.my_host()) == rank_;
  Incoming& in = *in_[static_cast<size_t>(peer)];
  switch (kind) {
    case CourierKind::kState:
      return message.bytes == sizeof(StateWire) && is_port ? Place::in_line() : Place::refuse();
    case CourierKind::kFault:
      return message.bytes == sizeof(Failure) && is_port ? Place::in_line() : Place::refuse();
    case CourierKind::kTails:
      return message.bytes == sizeof(TailsWire) ? Place::in_line() : Place::refuse();
    case CourierKind::kHeader: {
      const bool fits = message.bytes == kHeaderWireBytes && message.id == in.headers + 1;
      return fits && is_port ? Place::in_line() : Place::refuse();
    }
    case CourierKind::kFlat: {
      const size_t space = segment_.layout().flat_bytes();
      const bool fits = message.bytes <= space && message.aux <= space - message.bytes;
      if (!fits || !is_port || message.id != in.headers + 1) return Place::refuse();
      return Place::at(segment_.layout().flat(segment_.base(), peer) + message.aux);
    }
    case CourierKind::kEnvelopes: {
      const uint64_t count = message.bytes / sizeof(Envelope);
      const bool fits = message.bytes % sizeof(Envelope) == 0 && message.id == in.envelopes &&
                        message.id % kEnvelopes + count <= kEnvelopes;
      return fits ? Place::in_line() : Place::refuse();
    }
    case CourierKind::kShared:
      if (!is_port) return Place::refuse();
      [[fallthrough]];
    case CourierKind::kEager:
    case CourierKind::kStaged:
    case CourierKind::kBulk: {
      const RingView ring = ring_of(peer, kind);
      const size_t at = message.id % ring.size;
      const bool fits = message.id == *ring.received && message.bytes <= ring.size - at &&
                        message.id + message.bytes <= ring.taken + ring.size;
      return fits ? Place::at(ring.data + at) : Place::refuse();
    }
  }
  return Place::refuse();
}

void Courier::delivered(int peer, const Message& message, std::span<const std::byte> payload) {
  const auto kind = static_cast<CourierKind>(message.kind);
  const Layout& layout = segment_.layout();
  std::byte* const base = segment_.base();
  RankBlock& block = segment_.block(peer);
  Incoming& in = *in_[static_cast<size_t>(peer)];
  switch (kind) {
    case CourierKind::kState: {
      const auto state = read<StateWire>(payload);
      block.pid.store(state.pid, std::memory_order_relaxed);
      block.cores.store(state.cores, std::memory_order_relaxed);
      block.presence.store(static_cast<Presence>(state.presence), std::memory_order_seq_cst);
      break;
    }
    case CourierKind::kFault: {
      auto failure = read<Failure>(payload);
      failure.nranks = std::clamp(failure.nranks, 0, kMaxFailedRanks);
      failure.op[sizeof(failure.op) - 1] = '\0';
      failure.text[sizeof(failure.text) - 1] = '\0';
      if (failure.kind != FailureKind::kNone) segment_.fail(failure);
      return;
    }
    case CourierKind::kTails: {
      const auto tails = read<TailsWire>(payload);
      PairControl& pair = layout.pair(base, rank_, peer);
      advance(pair.staged_tail, tails.staged);
      advance(pair.eager_tail, tails.eager);
      advance(pair.bulk_tail, tails.bulk);
      advance(pair.envelopes_taken, tails.envelopes);
      if (places_.port_of(rank_, places_.host_of(peer)) == peer) {
        for (const int reader : places_.ranks_on(places_.host_of(peer))) {
          advance(layout.shared_tail(base, rank_, reader), tails.shared);
        }
      }
      segment_.ring(rank_);
      return;
    }
    case CourierKind::kFlat:
      return;  // its header follows
    case CourierKind::kHeader: {
      HeaderSlot& slot = block.headers[message.id % kHeaderSlots];
      std::memcpy(reinterpret_cast<std::byte*>(&slot) + sizeof(slot.sequence), payload.data(), payload.size());
      in.headers = message.id;
      block.posted.store(message.id, std::memory_order_relaxed);
      slot.sequence.store(message.id, std::memory_order_seq_cst);
      break;
    }
    case CourierKind::kEnvelopes: {
      PairControl& pair = layout.pair(base, peer, rank_);
      for (; !payload.empty(); payload = payload.subspan(sizeof(Envelope))) {
        Envelope& envelope = pair.envelopes[in.envelopes % kEnvelopes];
        std::memcpy(reinterpret_cast<std::byte*>(&envelope) + sizeof(envelope.sequence),
                    payload.data() + sizeof(envelope.sequence), sizeof(Envelope) - sizeof(envelope.sequence));
        envelope.sequence.store(++in.envelopes, std::memory_order_seq_cst);
      }
      segment_.ring(rank_);
      return;
    }
    case CourierKind::kShared:
    case CourierKind::kEager:
    case CourierKind::kStaged:
    case CourierKind::kBulk: {
      const RingView ring = ring_of(peer, kind);
      *ring.received = message.id + message.bytes;
      advance(*ring.head, *ring.received);
      if (kind == CourierKind::kShared) break;
      segment_.ring(rank_);
      return;
    }
  }
  segment_.ring_all_here();
}

void Courier::ended(int peer, const net::LinkEnd& end) {
  if (stop_.load(std::memory_order_acquire) || end.kind == net::EndKind::kLocal) return;
  // A goodbye is no news: that the peer has closed its communicator comes to its port here, behind all else that it sent.
  const bool is_port = places_.port_of(peer, places_.my_host()) == rank_;
  const Presence presence = segment_.block(peer).presence.load(std::memory_order_acquire);
  if (end.kind == net::EndKind::kOrderly && (!is_port || presence == Presence::kClosed)) return;
  const std::vector<int>& there = places_.ranks_on(places_.host_of(peer));
  const bool is_host = std::all_of(there.begin(), there.end(), [this](int rank) { return is_silent(rank); });
  mark_gone(is_host ? there : std::vector<int>{peer}, end.text);
}

// All that is known of it: nothing came for several beats. What one connection to a host has met, the others will; so all
// its ranks are named at once.
bool Courier::is_silent(int peer) const {
  const net::Link* const link = mesh_->find_link(peer);
  return link == nullptr || link->last_heard_ns() == 0 || pycomms::now_ns() - link->last_heard_ns() > kSilence;
}

// As the kernel marks the word of a process on this host.
void Courier::mark_gone(const std::vector<int>& ranks, const std::string& why) {
  {
    const std::lock_guard lock(gone_mutex_);
    for (const int rank : ranks) why_gone_[static_cast<size_t>(rank)] = why;
  }
  for (const int rank : ranks) segment_.block(rank).life.word.fetch_or(FUTEX_OWNER_DIED, std::memory_order_seq_cst);
  segment_.ring_all_here();
}

std::string Courier::why_gone(int peer) const {
  const std::lock_guard lock(gone_mutex_);
  return why_gone_[static_cast<size_t>(peer)];
}

}  // namespace hostccl
