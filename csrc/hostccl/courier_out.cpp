// Courier, the way out: compares what this rank has written with what it has sent.
#include <algorithm>

#include "hostccl/courier_state.h"

namespace hostccl {
namespace {

using net::Message;
using net::Payload;

template <typename Wire>
std::span<const std::byte> bytes_of(const Wire& wire) {
  return std::as_bytes(std::span(&wire, 1));
}

Message message_of(CourierKind kind, uint64_t id = 0) {
  Message message;
  message.kind = static_cast<uint8_t>(kind);
  message.id = id;
  return message;
}

uint64_t value_of(const Counter& counter) { return counter.value.load(std::memory_order_seq_cst); }

// How many this rank has posted; it is known of the first `known`.
uint64_t envelopes_posted(const PairControl& pair, uint64_t known) {
  const auto is_posted = [&pair](uint64_t index) {
    return pair.envelopes[index % kEnvelopes].sequence.load(std::memory_order_acquire) == index + 1;
  };
  while (is_posted(known)) ++known;
  return known;
}

// A writer needs to know only before its ring is full for all it knows, and to tell it costs as much as to send 64 KiB.
// Nobody writes more than half a ring at once.
bool is_worth_telling(uint64_t head, uint64_t told, uint64_t now, size_t size) {
  return now != told && head - told > size / 2;
}

}  // namespace

void Courier::published(int peer) {
  ship_pair(peer);
  ship_for_all(places_.port_of(rank_, places_.host_of(peer)));
  // What all ranks here have read of its ring is told by one of them.
  if (const int port = places_.port_of(peer, places_.my_host()); port != rank_) segment_.ring(port);
}

void Courier::failed() { ship_to_all_hosts(); }

void Courier::ship_to_all_hosts() {
  for (const int port : ports_) ship_for_all(port);
}

// The connection keeps what it is given in order, within a lane; an entry that was not taken is shipped by the next call.
bool Courier::send(int peer, net::Lane lane, const Message& message, const Payload& payload, net::Push push) {
  net::Link& link = mesh_->link_to(peer);
  // The body stays where it is until its reader has told that it has it.
  constexpr net::Completion kStays{[](void*, bool) {}, nullptr};
  if (link.send(lane, message, payload, payload.body.empty() ? net::Completion{} : kStays, push).is_ok()) return true;
  // Its lane is full. If the link has ended, the sink hears of it.
  out_[static_cast<size_t>(peer)]->is_held_up.store(!link.has_ended(), std::memory_order_release);
  return false;
}

// --- for one rank

void Courier::ship_pair(int peer) {
  Outgoing& out = *out_[static_cast<size_t>(peer)];
  const std::lock_guard lock(out.mutex);
  const Layout& layout = segment_.layout();
  std::byte* const base = segment_.base();
  const PairControl& pair = layout.pair(base, rank_, peer);
  // The data of envelopes must be there before them: so they are counted before one looks how far the data reaches.
  const uint64_t posted = envelopes_posted(pair, out.envelopes);
  const bool has_data = ship_ring(peer, CourierKind::kEager, layout.eager_ring(base, rank_, peer),
                                  layout.eager_ring_bytes(), value_of(pair.eager_head), out.eager);
  if (has_data) ship_envelopes(peer, out, posted);
  ship_tails(peer, out);
  ship_ring(peer, CourierKind::kBulk, layout.bulk_ring(base, rank_, peer), layout.bulk_ring_bytes(),
            value_of(pair.bulk_head), out.bulk);
  ship_ring(peer, CourierKind::kStaged, layout.pair_ring(base, rank_, peer), layout.pair_ring_bytes(),
            value_of(pair.staged_head), out.staged);
}

// True when all of it is with the connection.
bool Courier::ship_ring(int peer, CourierKind kind, const std::byte* ring, size_t size, uint64_t head,
                        uint64_t& shipped) {
  while (shipped < head) {
    const size_t at = shipped % size;
    const size_t piece = std::min<size_t>(head - shipped, size - at);
    const net::Lane lane = kind == CourierKind::kEager ? net::Lane::kNormal : net::Lane::kBulk;
    if (!send(peer, lane, message_of(kind, shipped), {{}, {ring + at, piece}})) return false;
    shipped += piece;
  }
  return true;
}

// Those up to `end`, in pieces that do not wrap.
void Courier::ship_envelopes(int peer, Outgoing& out, uint64_t end) {
  const PairControl& pair = segment_.layout().pair(segment_.base(), rank_, peer);
  while (out.envelopes < end) {
    const size_t first = out.envelopes % kEnvelopes;
    const size_t count = std::min<size_t>(end - out.envelopes, kEnvelopes - first);
    const auto bytes = std::as_bytes(std::span(&pair.envelopes[first], count));
    if (!send(peer, net::Lane::kNormal, message_of(CourierKind::kEnvelopes, out.envelopes), {{}, bytes})) return;
    out.envelopes += count;
  }
}

// How far the slowest rank here has read the ring that `writer` writes for all.
uint64_t Courier::taken_here_of(int writer) const {
  uint64_t slowest = UINT64_MAX;
  for (const int reader : places_.ranks_here()) {
    slowest = std::min(slowest, value_of(segment_.layout().shared_tail(segment_.base(), writer, reader)));
  }
  return slowest;
}

void Courier::ship_tails(int peer) {
  Outgoing& out = *out_[static_cast<size_t>(peer)];
  const std::lock_guard lock(out.mutex);
  ship_tails(peer, out);
}

void Courier::ship_tails(int peer, Outgoing& out) {
  const PairControl& pair = segment_.layout().pair(segment_.base(), peer, rank_);
  const TailsWire tails{value_of(pair.staged_tail), value_of(pair.eager_tail), value_of(pair.bulk_tail),
                        value_of(pair.envelopes_taken), is_port_of(peer) ? taken_here_of(peer) : 0};
  const Layout& layout = segment_.layout();
  const TailsWire& told = out.tails;
  const bool tell = is_worth_telling(value_of(pair.staged_head), told.staged, tails.staged, layout.pair_ring_bytes()) ||
                    is_worth_telling(value_of(pair.eager_head), told.eager, tails.eager, layout.eager_ring_bytes()) ||
                    is_worth_telling(value_of(pair.bulk_head), told.bulk, tails.bulk, layout.bulk_ring_bytes()) ||
                    is_worth_telling(value_of(layout.shared_head(segment_.base(), peer)), told.shared, tails.shared,
                                     layout.shared_ring_bytes()) ||
                    tails.envelopes - told.envelopes >= kEnvelopes / 4;
  if (!tell) return;
  if (send(peer, net::Lane::kNormal, message_of(CourierKind::kTails), {bytes_of(tails), {}})) {
    out.tails = tails;
  }
}

// --- from a caller's memory

bool Courier::hand_over(int peer, uint64_t position, std::span<const std::byte> bytes) {
  Outgoing& out = *out_[static_cast<size_t>(peer)];
  const std::lock_guard lock(out.mutex);
  Outgoing::HandOver& one = out.hand_overs[out.next_hand_over % out.hand_overs.size()];
  // What was put in the ring before must be with the connection: the order is that of the positions.
  if (out.staged != position || one.is_under_way.load(std::memory_order_acquire)) return false;
  one.out = &out;
  one.end = position + bytes.size();
  one.is_under_way.store(true, std::memory_order_relaxed);
  // Within a lane bodies leave in order, but the threads that tell of it may overtake each other.
  constexpr auto kLeft = [](void* arg, bool) {
    auto& left = *static_cast<Outgoing::HandOver*>(arg);
    uint64_t seen = left.out->handed_over.load(std::memory_order_relaxed);
    while (seen < left.end && !left.out->handed_over.compare_exchange_weak(seen, left.end)) {
    }
    left.is_under_way.store(false, std::memory_order_release);
  };
  // Before it is sent: the peer may tell that it has read it before the ring's writer says that it has written.
  std::atomic<uint64_t>& head = segment_.layout().pair(segment_.base(), rank_, peer).staged_head.value;
  head.store(one.end, std::memory_order_seq_cst);
  const Message message = message_of(CourierKind::kStaged, position);
  if (!mesh_->link_to(peer).send(net::Lane::kBulk, message, {{}, bytes}, {kLeft, &one}, net::Push::kLater).is_ok()) {
    head.store(position, std::memory_order_seq_cst);
    one.is_under_way.store(false, std::memory_order_relaxed);
    return false;
  }
  ++out.next_hand_over;
  out.staged = one.end;
  return true;
}

uint64_t Courier::handed_over(int peer) const {
  return out_[static_cast<size_t>(peer)]->handed_over.load(std::memory_order_acquire);
}

void Courier::let_go() {
  for (const int peer : elsewhere_) {
    if (net::Link* const link = mesh_->find_link(peer); link != nullptr) link->keep_bodies();
  }
}

// --- for all ranks of a host

void Courier::ship_for_all(int port) {
  Outgoing& out = *out_[static_cast<size_t>(port)];
  const Presence presence = segment_.mine().presence.load(std::memory_order_seq_cst);
  const bool is_closed = presence == Presence::kClosed;
  const bool may_say_it = !is_closed || may_say_closed_.load(std::memory_order_acquire);
  {
    const std::lock_guard lock(out.mutex);
    ship_headers(port, out);
    const bool all_sent = ship_ring(port, CourierKind::kShared, segment_.layout().shared_ring(segment_.base(), rank_),
                                    segment_.layout().shared_ring_bytes(),
                                    value_of(segment_.layout().shared_head(segment_.base(), rank_)), out.shared);
    ship_news(port, out, all_sent && may_say_it ? presence : out.presence);
  }
  if (!segment_.has_failed() && !(is_closed && may_say_it)) return;
  if (const int herald = herald_on(places_.host_of(port)); herald != port) {
    Outgoing& to_herald = *out_[static_cast<size_t>(herald)];
    const std::lock_guard lock(to_herald.mutex);
    ship_news(herald, to_herald, may_say_it ? presence : to_herald.presence);
  }
}

// Of its own will or not, as far as this rank knows.
bool Courier::has_left(int peer) const {
  const net::Link* const link = mesh_->find_link(peer);
  const RankBlock& block = segment_.block(peer);
  return (link != nullptr && link->has_ended()) || is_dead(block.life) ||
         block.presence.load(std::memory_order_acquire) == Presence::kClosed;
}

// Who hears on that host how this rank ends: its port there. That may close its communicator while others of its host still
// wait for this rank; then one of them.
int Courier::herald_on(int host) const {
  const int port = places_.port_of(rank_, host);
  if (!has_left(port)) return port;
  const std::vector<int>& there = places_.ranks_on(host);
  const auto found = std::find_if(there.begin(), there.end(), [this](int rank) { return !has_left(rank); });
  return found != there.end() ? *found : port;
}

// What this rank is, and that the communicator has failed.
void Courier::ship_news(int peer, Outgoing& out, Presence presence) {
  if (presence != out.presence) {
    const StateWire state{static_cast<uint32_t>(presence), segment_.mine().pid.load(std::memory_order_relaxed),
                          segment_.mine().cores.load(std::memory_order_relaxed)};
    // Behind all that was sent so far, in whatever lane.
    if (send(peer, net::Lane::kBulk, message_of(CourierKind::kState), {bytes_of(state), {}})) out.presence = presence;
  }
  if (!out.has_fault && segment_.has_failed()) {
    const Failure failure = segment_.failure();
    net::Link& link = mesh_->link_to(peer);
    // Without a completion: it is copied.
    const bool sent = link.send(net::Lane::kUrgent, message_of(CourierKind::kFault), {{}, bytes_of(failure)}).is_ok();
    out.has_fault = sent || link.has_ended();
  }
}

void Courier::ship_headers(int port, Outgoing& out) {
  for (;;) {
    const uint64_t next = out.headers + 1;
    const HeaderSlot& slot = segment_.mine().headers[next % kHeaderSlots];
    if (slot.sequence.load(std::memory_order_seq_cst) != next) return;
    if (slot.header.payload == static_cast<uint8_t>(PayloadPlace::kFlat) && out.flats != next) {
      Message flat = message_of(CourierKind::kFlat, next);
      flat.aux = slot.flat_offset;
      const std::byte* const at = segment_.layout().flat(segment_.base(), rank_) + slot.flat_offset;
      if (!send(port, net::Lane::kNormal, flat, {{}, {at, slot.flat_bytes}}, net::Push::kLater)) return;
      out.flats = next;
    }
    const auto body = std::as_bytes(std::span(&slot, 1)).subspan(sizeof(slot.sequence));
    if (!send(port, net::Lane::kNormal, message_of(CourierKind::kHeader, next), {body, {}})) return;
    out.headers = next;
  }
}

}  // namespace hostccl
