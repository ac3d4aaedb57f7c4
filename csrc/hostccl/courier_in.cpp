// Courier, the way in: puts what comes where its writer would have put it. Nothing of it is trusted: a position that does not
// follow the last one, a size that does not fit, or what no courier says ends the connection, and this communicator with it.
#include <linux/futex.h>

#include <algorithm>
#include <cstring>

#include "hostccl/courier_state.h"
#include "hostccl/failures.h"
#include "hostccl/ring.h"

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

// How far a ring's reader may have come: it passes over the padding before that has been written.
uint64_t readable_to(const Counter& head) { return pad_up(head.value.load(std::memory_order_seq_cst)); }

// `tail`, if this rank has posted as many envelopes; otherwise how many are certain.
uint64_t posted_envelopes(const PairControl& pair, uint64_t tail) {
  if (tail == 0) return 0;
  const uint64_t last = pair.envelopes[(tail - 1) % kEnvelopes].sequence.load(std::memory_order_seq_cst);
  return std::min(last, tail);
}

}  // namespace

// A ring that `writer` writes, as mirrored here.
struct Courier::RingView {
  std::byte* data;
  size_t size;
  Counter* head;
  Incoming::Ring* in;
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
    case CourierKind::kShared:
    case CourierKind::kState:  // these have no ring, and nobody asks
    case CourierKind::kFault:
    case CourierKind::kTails:
    case CourierKind::kFlat:
    case CourierKind::kHeader:
    case CourierKind::kEnvelopes:
      break;
  }
  return {layout.shared_ring(base, writer), layout.shared_ring_bytes(), &layout.shared_head(base, writer), &in.shared,
          taken_here_of(writer)};
}

bool Courier::is_port_of(int writer) const { return places_.port_of(writer, places_.my_host()) == rank_; }

// A rank posts a header when it has seen the one before of all ranks: whoever reads a slot here is done with what is
// overwritten.
bool Courier::is_next_header(int peer, uint64_t sequence) const {
  if (sequence != in_[static_cast<size_t>(peer)]->headers + 1) return false;
  return std::all_of(places_.ranks_here().begin(), places_.ranks_here().end(), [&](int rank) {
    return sequence <= segment_.block(rank).posted.load(std::memory_order_acquire) + 1;
  });
}

Place Courier::place(int peer, const Message& message) {
  const auto kind = static_cast<CourierKind>(message.kind);
  const auto in_line = [](bool fits) { return fits ? Place::in_line() : Place::refuse(); };
  const Incoming& in = *in_[static_cast<size_t>(peer)];
  switch (kind) {
    case CourierKind::kState:
      return in_line(message.bytes == sizeof(StateWire));
    case CourierKind::kFault:
      return in_line(message.bytes == sizeof(Failure));
    case CourierKind::kTails:
      return in_line(message.bytes == sizeof(TailsWire));
    case CourierKind::kHeader:
      return in_line(is_port_of(peer) && message.bytes == kHeaderWireBytes && is_next_header(peer, message.id) &&
                     !in.flat_is_open);
    case CourierKind::kFlat:
      return is_port_of(peer) ? place_flat(peer, message) : Place::refuse();
    case CourierKind::kEnvelopes: {
      const uint64_t count = message.bytes / sizeof(Envelope);
      const uint64_t taken = segment_.layout().pair(segment_.base(), peer, rank_).envelopes_taken.value.load();
      return in_line(count > 0 && message.bytes % sizeof(Envelope) == 0 && message.id == in.envelopes &&
                     count <= kEnvelopes - message.id % kEnvelopes && message.id + count <= taken + kEnvelopes);
    }
    case CourierKind::kShared:
      return is_port_of(peer) ? place_in_ring(peer, message) : Place::refuse();
    case CourierKind::kEager:
    case CourierKind::kStaged:
    case CourierKind::kBulk:
      return place_in_ring(peer, message);
  }
  return Place::refuse();
}

Place Courier::place_flat(int peer, const Message& message) {
  Incoming& in = *in_[static_cast<size_t>(peer)];
  const size_t space = segment_.layout().flat_bytes();
  const bool fits = message.bytes > 0 && message.bytes <= space && message.aux <= space - message.bytes;
  const bool is_aligned = message.aux % kPad == 0;
  if (!fits || !is_aligned || in.flat || !is_next_header(peer, message.id)) return Place::refuse();
  in.flat = {message.aux, message.bytes};
  in.flat_is_open = true;
  return Place::at(segment_.layout().flat(segment_.base(), peer) + message.aux);
}

Place Courier::place_in_ring(int peer, const Message& message) {
  const RingView ring = ring_of(peer, static_cast<CourierKind>(message.kind));
  const size_t at = message.id % ring.size;
  const bool fits =
      message.bytes > 0 && message.bytes <= ring.size - at && message.id + message.bytes <= ring.taken + ring.size;
  if (!fits || ring.in->is_open || message.id != ring.in->received) return Place::refuse();
  ring.in->is_open = true;
  return Place::at(ring.data + at);
}

void Courier::delivered(int peer, const Message& message, std::span<const std::byte> payload) {
  const std::string wrong = take(peer, message, payload);
  if (wrong.empty()) return;
  net::Link& link = *mesh_->find_link(peer);
  link.abort({net::EndKind::kProtocol, link.name() + " sent " + wrong});
}

// Returns what is wrong with it, if anything is.
std::string Courier::take(int peer, const Message& message, std::span<const std::byte> payload) {
  const auto kind = static_cast<CourierKind>(message.kind);
  Incoming& in = *in_[static_cast<size_t>(peer)];
  switch (kind) {
    case CourierKind::kState:
      return take_state(peer, read<StateWire>(payload));
    case CourierKind::kFault: {
      auto failure = read<Failure>(payload);
      make_harmless(failure, segment_.nranks());
      segment_.fail(failure);
      return "";
    }
    case CourierKind::kTails:
      return take_tails(peer, read<TailsWire>(payload));
    case CourierKind::kFlat:
      in.flat_is_open = false;
      return "";  // its header follows
    case CourierKind::kHeader:
      return take_header(peer, message.id, payload);
    case CourierKind::kEnvelopes:
      take_envelopes(peer, payload);
      return "";
    case CourierKind::kShared:
    case CourierKind::kEager:
    case CourierKind::kStaged:
    case CourierKind::kBulk: {
      const RingView ring = ring_of(peer, kind);
      ring.in->is_open = false;
      ring.in->received = message.id + message.bytes;
      advance(*ring.head, ring.in->received);
      kind == CourierKind::kShared ? segment_.ring_all_here() : segment_.ring(rank_);
      return "";
    }
  }
  return "";
}

std::string Courier::take_state(int peer, const StateWire& state) {
  Incoming& in = *in_[static_cast<size_t>(peer)];
  if (std::string wrong = check_state(state, in.presence); !wrong.empty()) return wrong;
  in.presence = static_cast<Presence>(state.presence);
  RankBlock& block = segment_.block(peer);
  block.pid.store(state.pid, std::memory_order_relaxed);
  block.cores.store(state.cores, std::memory_order_relaxed);
  block.presence.store(in.presence, std::memory_order_seq_cst);
  segment_.ring_all_here();
  return "";
}

std::string Courier::take_tails(int peer, const TailsWire& tails) {
  Incoming& in = *in_[static_cast<size_t>(peer)];
  const Layout& layout = segment_.layout();
  std::byte* const base = segment_.base();
  PairControl& pair = layout.pair(base, rank_, peer);
  const std::vector<int>& there = places_.ranks_on(places_.host_of(peer));
  const bool is_my_port = places_.port_of(rank_, places_.host_of(peer)) == peer;
  // Of a message that is not for them readers know the end before it has been written: no shared tail is too large.
  const TailsWire most{readable_to(pair.staged_head), readable_to(pair.eager_head), readable_to(pair.bulk_head),
                       posted_envelopes(pair, tails.envelopes), is_my_port ? UINT64_MAX : 0};
  if (std::string wrong = check_tails(tails, in.tails, most); !wrong.empty()) return wrong;
  in.tails = tails;
  advance(pair.staged_tail, tails.staged);
  advance(pair.eager_tail, tails.eager);
  advance(pair.bulk_tail, tails.bulk);
  advance(pair.envelopes_taken, tails.envelopes);
  if (is_my_port) {
    for (const int reader : there) advance(layout.shared_tail(base, rank_, reader), tails.shared);
  }
  segment_.ring(rank_);
  return "";
}

std::string Courier::take_header(int peer, uint64_t sequence, std::span<const std::byte> payload) {
  Incoming& in = *in_[static_cast<size_t>(peer)];
  HeaderSlot came;
  std::memcpy(reinterpret_cast<std::byte*>(&came) + sizeof(came.sequence), payload.data(), payload.size());
  if (std::string wrong = check_header(came, in.flat ? &*in.flat : nullptr); !wrong.empty()) return wrong;
  in.flat.reset();
  in.headers = sequence;
  RankBlock& block = segment_.block(peer);
  HeaderSlot& slot = block.headers[sequence % kHeaderSlots];
  std::memcpy(reinterpret_cast<std::byte*>(&slot) + sizeof(slot.sequence), payload.data(), payload.size());
  block.posted.store(sequence, std::memory_order_relaxed);
  slot.sequence.store(sequence, std::memory_order_seq_cst);
  segment_.ring_all_here();
  return "";
}

void Courier::take_envelopes(int peer, std::span<const std::byte> payload) {
  Incoming& in = *in_[static_cast<size_t>(peer)];
  PairControl& pair = segment_.layout().pair(segment_.base(), peer, rank_);
  for (; !payload.empty(); payload = payload.subspan(sizeof(Envelope))) {
    Envelope& envelope = pair.envelopes[in.envelopes % kEnvelopes];
    std::memcpy(reinterpret_cast<std::byte*>(&envelope) + sizeof(envelope.sequence),
                payload.data() + sizeof(envelope.sequence), sizeof(Envelope) - sizeof(envelope.sequence));
    envelope.sequence.store(++in.envelopes, std::memory_order_seq_cst);
  }
  segment_.ring(rank_);
}

void Courier::ended(int peer, const net::LinkEnd& end) {
  if (is_leaving_.load(std::memory_order_acquire) || end.kind == net::EndKind::kLocal) return;
  // A goodbye is no news: that the peer has closed its communicator comes to its port here, behind all else that it sent.
  const bool has_closed = !is_port_of(peer) || in_[static_cast<size_t>(peer)]->presence == Presence::kClosed;
  if (end.kind == net::EndKind::kOrderly && has_closed) return;
  if (end.kind == net::EndKind::kProtocol) segment_.fail(nonsense_of(segment_, peer, end.text));
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
