#include "hostccl/p2p.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "hostccl/failures.h"
#include "hostccl/p2p_waiting.h"
#include "hostccl/ring.h"

namespace hostccl {
namespace {

constexpr size_t kEagerLimit = 16 * 1024;
// Small chunks let the receiver begin early, large ones cost fewer hand-overs.
size_t bulk_chunk(size_t bytes) { return bytes < 512 * 1024 ? 16 * 1024 : 64 * 1024; }
constexpr int kEnvelopesAtOnce = 16;

}  // namespace

struct P2p::Pending {
  P2pRequest request;
  uint64_t id = 0;
  int64_t posted_ns = 0;
  size_t moved = 0;
  bool is_clear_to_send = false;  // not a user's request: our answer to a peer's request to send
};

// A message that has come, with its data when that came along.
struct P2p::Unexpected {
  EnvelopeKind kind;
  DataType type;
  int tag;
  uint64_t id;
  size_t bytes;
  const std::byte* data = nullptr;
  std::vector<std::byte> kept;
};

struct P2p::Channel {
  int peer;
  PairControl& out;  // this rank -> peer
  PairControl& in;   // peer -> this rank
  RingWriter eager_out, bulk_out;
  RingReader eager_in, bulk_in;
  uint64_t envelopes_out = 0;
  uint64_t envelopes_in = 0;

  Queue outbox;              // envelopes that wait for room
  Queue asked;               // sent a request to send, wait for the clear
  Queue sending, receiving;  // through the bulk rings, in this order
  std::deque<Unexpected> unexpected;

  Channel(const Segment& segment, int peer_rank)
      : peer(peer_rank),
        out(segment.layout().pair(segment.base(), segment.rank(), peer_rank)),
        in(segment.layout().pair(segment.base(), peer_rank, segment.rank())),
        eager_out(out.eager_head, {&out.eager_tail},
                  segment.layout().eager_ring(segment.base(), segment.rank(), peer_rank),
                  segment.layout().eager_ring_bytes()),
        bulk_out(out.bulk_head, {&out.bulk_tail}, segment.layout().bulk_ring(segment.base(), segment.rank(), peer_rank),
                 segment.layout().bulk_ring_bytes()),
        eager_in(in.eager_head, in.eager_tail, segment.layout().eager_ring(segment.base(), peer_rank, segment.rank()),
                 segment.layout().eager_ring_bytes()),
        bulk_in(in.bulk_head, in.bulk_tail, segment.layout().bulk_ring(segment.base(), peer_rank, segment.rank()),
                segment.layout().bulk_ring_bytes()) {}
};

P2p::P2p(const Segment& segment) : segment_(segment), receives_(std::make_unique<Queue>()) {
  for (int peer = 0; peer < segment.nranks(); ++peer) channels_.push_back(std::make_unique<Channel>(segment, peer));
}

P2p::~P2p() = default;

template <typename Visit>
void P2p::for_each_queue(Visit visit) {
  visit(*receives_);
  for (const auto& channel : channels_) {
    visit(channel->outbox);
    visit(channel->asked);
    visit(channel->sending);
    visit(channel->receiving);
  }
}

uint64_t P2p::post(const P2pRequest& request) {
  std::vector<Finished> finished;
  uint64_t id;
  {
    std::lock_guard lock(mutex_);
    id = next_id_++;
    pending_.fetch_add(1, std::memory_order_relaxed);
    Queue one;
    one.push_back(Pending{request, id, request.timeout_ns >= pycomms::kForever ? 0 : pycomms::now_ns(), 0, false});
    if (request.is_send) {
      Channel& channel = *channels_[static_cast<size_t>(request.peer)];
      channel.outbox.splice(channel.outbox.end(), one);
    } else if (!match_unexpected(one, finished)) {
      receives_->splice(receives_->end(), one);
    }
    advance(finished);
  }
  call(finished);
  return id;
}

bool P2p::cancel(uint64_t id) {
  std::vector<Finished> finished;
  {
    std::lock_guard lock(mutex_);
    const auto at = std::find_if(receives_->begin(), receives_->end(), [id](const Pending& p) { return p.id == id; });
    if (at != receives_->end()) {
      finish(*at, nccl_abi::kTimeout, finished);
      receives_->erase(at);
    }
  }
  call(finished);
  return !finished.empty();
}

void P2p::close(Result result) {
  std::vector<Finished> finished;
  {
    std::lock_guard lock(mutex_);
    end_all(result, finished);
  }
  call(finished);
}

bool P2p::progress() {
  progress_calls_.fetch_add(1, std::memory_order_relaxed);
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  std::vector<Finished> finished;
  const bool moved = advance(finished);
  lock.unlock();
  call(finished);
  return moved;
}

void P2p::call(const std::vector<Finished>& finished) {
  for (const Finished& one : finished) {
    pending_.fetch_sub(1, std::memory_order_release);
    one.done(one.arg, one.result);
  }
}

void P2p::finish(const Pending& pending, Result result, std::vector<Finished>& finished) {
  finished.push_back({pending.request.done, pending.request.arg, result});
}

bool P2p::advance(std::vector<Finished>& finished) {
  if (segment_.has_failed()) {
    end_all(result_of(segment_.failure().kind), finished);
    return !finished.empty();
  }
  bool moved = false;
  for (const auto& channel : channels_) {
    moved |= flush_outbox(*channel, finished);
    moved |= take_envelopes(*channel, finished);
    moved |= send_bulk(*channel, finished);
    moved |= receive_bulk(*channel, finished);
    if (segment_.has_failed()) break;  // a mismatch was found
  }
  return moved;
}

// --- out

bool P2p::flush_outbox(Channel& channel, std::vector<Finished>& finished) {
  bool moved = false;
  while (!channel.outbox.empty()) {
    Pending& pending = channel.outbox.front();
    const P2pRequest& request = pending.request;
    if (channel.envelopes_out - channel.out.envelopes_taken.value.load(std::memory_order_acquire) >= kEnvelopes) break;
    Envelope& envelope = channel.out.envelopes[channel.envelopes_out % kEnvelopes];
    const bool in_envelope = request.bytes <= sizeof(envelope.payload);
    const bool eager = !pending.is_clear_to_send && request.bytes <= kEagerLimit;
    if (eager && !in_envelope) {
      // One piece, so that the receiver can take it at once: pass over a tail of the ring that is too short.
      const size_t room = channel.eager_out.until_wrap();
      const size_t skipped = room < request.bytes ? room : 0;
      if (!channel.eager_out.can_write(skipped + request.bytes)) break;
      if (skipped != 0) channel.eager_out.publish(skipped);
      hostccl::copy(channel.eager_out.place(), request.data, request.bytes);
      channel.eager_out.publish(request.bytes);
      channel.eager_out.end_message();
    } else if (eager) {
      hostccl::copy(envelope.payload, request.data, request.bytes);
    }
    envelope.bytes = request.bytes;
    envelope.id = pending.id;
    envelope.tag = request.tag;
    envelope.type = static_cast<uint8_t>(request.type);
    envelope.kind = pending.is_clear_to_send ? EnvelopeKind::kClearToSend
                    : eager                  ? EnvelopeKind::kEager
                                             : EnvelopeKind::kRequestToSend;
    envelope.sequence.store(++channel.envelopes_out, std::memory_order_seq_cst);
    segment_.ring(channel.peer);
    moved = true;
    if (envelope.kind == EnvelopeKind::kRequestToSend) {
      channel.asked.splice(channel.asked.end(), channel.outbox, channel.outbox.begin());
      continue;
    }
    if (!pending.is_clear_to_send) finish(pending, nccl_abi::kSuccess, finished);
    channel.outbox.pop_front();
  }
  return moved;
}

void P2p::start_bulk(Channel& channel, uint64_t id) {
  const auto at =
      std::find_if(channel.asked.begin(), channel.asked.end(), [id](const Pending& p) { return p.id == id; });
  if (at != channel.asked.end()) channel.sending.splice(channel.sending.end(), channel.asked, at);
}

bool P2p::send_bulk(Channel& channel, std::vector<Finished>& finished) {
  if (channel.sending.empty()) return false;
  Pending& pending = channel.sending.front();
  RingWriter& ring = channel.bulk_out;
  const size_t bytes =
      std::min({pending.request.bytes - pending.moved, bulk_chunk(pending.request.bytes), ring.until_wrap()});
  if (!ring.can_write(bytes)) return false;
  const std::byte* const from = pending.request.data + pending.moved;
  if (streaming_.load(std::memory_order_relaxed)) {
    hostccl::copy_streaming(ring.place(), from, bytes);
  } else {
    hostccl::copy(ring.place(), from, bytes);
  }
  ring.publish(bytes);
  pending.moved += bytes;
  if (pending.moved == pending.request.bytes) {
    ring.end_message();
    finish(pending, nccl_abi::kSuccess, finished);
    channel.sending.pop_front();
  }
  segment_.ring(channel.peer);
  return true;
}

// --- in

bool P2p::take_envelopes(Channel& channel, std::vector<Finished>& finished) {
  bool moved = false;
  for (int i = 0; i < kEnvelopesAtOnce; ++i) {
    const Envelope& envelope = channel.in.envelopes[channel.envelopes_in % kEnvelopes];
    if (envelope.sequence.load(std::memory_order_acquire) != channel.envelopes_in + 1) break;
    take_envelope(channel, envelope, finished);
    channel.in.envelopes_taken.value.store(++channel.envelopes_in, std::memory_order_seq_cst);
    segment_.ring(channel.peer);
    moved = true;
    if (segment_.has_failed()) break;
  }
  return moved;
}

void P2p::take_envelope(Channel& channel, const Envelope& envelope, std::vector<Finished>& finished) {
  if (envelope.kind == EnvelopeKind::kClearToSend) {
    start_bulk(channel, envelope.id);
    return;
  }
  Unexpected message{envelope.kind,
                     static_cast<DataType>(envelope.type),
                     envelope.tag,
                     envelope.id,
                     envelope.bytes,
                     envelope.payload,
                     {}};
  const bool in_ring = envelope.kind == EnvelopeKind::kEager && envelope.bytes > sizeof(envelope.payload);
  if (in_ring) {
    if (const size_t room = channel.eager_in.until_wrap(); room < envelope.bytes) channel.eager_in.consume(room);
    message.data = channel.eager_in.place();
  }
  const auto at = std::find_if(receives_->begin(), receives_->end(), [&](const Pending& p) {
    return p.request.tag == message.tag && (p.request.peer == channel.peer || p.request.peer == kAnySource);
  });
  if (at != receives_->end()) {
    Queue one;
    one.splice(one.end(), *receives_, at);
    deliver(channel, one, message, finished);
  } else {
    if (message.kind == EnvelopeKind::kEager) message.kept.assign(message.data, message.data + message.bytes);
    message.data = nullptr;
    channel.unexpected.push_back(std::move(message));
  }
  if (in_ring) {
    channel.eager_in.consume(envelope.bytes);
    channel.eager_in.end_message();
  }
}

bool P2p::match_unexpected(Queue& request, std::vector<Finished>& finished) {
  const P2pRequest& wanted = request.front().request;
  for (const auto& channel : channels_) {
    if (wanted.peer != kAnySource && wanted.peer != channel->peer) continue;
    auto& waiting = channel->unexpected;
    const auto at =
        std::find_if(waiting.begin(), waiting.end(), [&](const Unexpected& m) { return m.tag == wanted.tag; });
    if (at == waiting.end()) continue;
    Unexpected message = std::move(*at);
    message.data = message.kept.data();
    waiting.erase(at);
    deliver(*channel, request, message, finished);
    return true;
  }
  return false;
}

// A message meets its receive. request: a queue of one.
void P2p::deliver(Channel& channel, Queue& request, const Unexpected& message, std::vector<Finished>& finished) {
  Pending& pending = request.front();
  if (!check_fit(channel.peer, pending.request, message)) {
    finish(pending, nccl_abi::kInvalidUsage, finished);
    return;
  }
  if (pending.request.status != nullptr) *pending.request.status = {channel.peer, message.tag, message.bytes};
  if (message.kind == EnvelopeKind::kEager) {
    if (message.bytes != 0) hostccl::copy(pending.request.data, message.data, message.bytes);
    finish(pending, nccl_abi::kSuccess, finished);
    return;
  }
  Pending answer;
  answer.is_clear_to_send = true;
  answer.id = message.id;
  pending.request.peer = channel.peer;  // of a receive from any: from here on it is this peer that is needed
  channel.outbox.push_back(answer);
  channel.receiving.splice(channel.receiving.end(), request);
}

bool P2p::receive_bulk(Channel& channel, std::vector<Finished>& finished) {
  if (channel.receiving.empty()) return false;
  Pending& pending = channel.receiving.front();
  RingReader& ring = channel.bulk_in;
  const size_t bytes =
      std::min({pending.request.bytes - pending.moved, bulk_chunk(pending.request.bytes), ring.until_wrap()});
  if (!ring.can_read(bytes)) return false;
  hostccl::copy(pending.request.data + pending.moved, ring.place(), bytes);
  ring.consume(bytes);
  pending.moved += bytes;
  if (pending.moved == pending.request.bytes) {
    ring.end_message();
    finish(pending, nccl_abi::kSuccess, finished);
    channel.receiving.pop_front();
  }
  segment_.ring(channel.peer);
  return true;
}

bool P2p::check_fit(int source, const P2pRequest& receive, const Unexpected& message) {
  if (receive.bytes == message.bytes && receive.type == message.type) return true;
  auto what = [](size_t bytes, DataType type) {
    return std::string(type_name(type)) + "[" + std::to_string(bytes / element_size(type)) + "]";
  };
  Failure failure =
      make_failure(FailureKind::kMismatch, segment_.rank(),
                   "send and recv differ: rank " + std::to_string(source) + " sends " +
                       what(message.bytes, message.type) + " with tag " + std::to_string(message.tag) + " to rank " +
                       std::to_string(segment_.rank()) + ", which expects " + what(receive.bytes, receive.type));
  add_rank(failure, source);
  add_rank(failure, segment_.rank());
  std::snprintf(failure.op, sizeof(failure.op), "recv");
  segment_.fail(failure);
  return false;
}

// --- endings

void P2p::end_all(Result result, std::vector<Finished>& finished) {
  for_each_queue([&](Queue& queue) {
    for (const Pending& pending : queue) {
      if (!pending.is_clear_to_send) finish(pending, result, finished);
    }
    queue.clear();
  });
}

void P2p::check_deadlines(int64_t now) {
  std::vector<Finished> finished;
  {
    std::lock_guard lock(mutex_);
    for_each_queue([&](const Queue& queue) {
      for (const Pending& pending : queue) {
        const P2pRequest& request = pending.request;
        if (pending.is_clear_to_send || request.timeout_ns >= pycomms::kForever) continue;
        if (now - pending.posted_ns < request.timeout_ns) continue;
        segment_.fail(timeout_of(segment_, name(request), now - pending.posted_ns));
      }
    });
    if (segment_.has_failed()) end_all(result_of(segment_.failure().kind), finished);
  }
  call(finished);
}

bool P2p::needs(int peer) {
  std::vector<Finished> finished;
  bool needed = false;
  {
    std::lock_guard lock(mutex_);
    // What the peer left in the channel still arrives: only when nothing moves any more is something missing.
    if (!advance(finished)) {
      for_each_queue([&](const Queue& queue) {
        for (const Pending& pending : queue) {
          const int from = pending.request.peer;
          needed |= !pending.is_clear_to_send && (from == peer || (from == kAnySource && all_others_closed()));
        }
      });
    }
  }
  call(finished);
  return needed;
}

bool P2p::all_others_closed() const {
  for (int rank = 0; rank < segment_.nranks(); ++rank) {
    const Presence presence = segment_.block(rank).presence.load(std::memory_order_acquire);
    if (rank != segment_.rank() && presence != Presence::kClosed) return false;
  }
  return true;
}

OperationName P2p::name(const P2pRequest& request) const {
  const std::string peer = request.peer == kAnySource ? "any rank" : "rank " + std::to_string(request.peer);
  const size_t elements = request.bytes / std::max<size_t>(element_size(request.type), 1);
  return {request.is_send ? "send" : "recv",
          std::string(request.is_send ? "send to " : "recv from ") + peer + " tag " + std::to_string(request.tag) +
              " " + type_name(request.type) + "[" + std::to_string(elements) + "]",
          request.peer};
}

OperationName P2p::name_of_oldest() {
  std::lock_guard lock(mutex_);
  const Pending* oldest = nullptr;
  for_each_queue([&](const Queue& queue) {
    for (const Pending& pending : queue) {
      if (!pending.is_clear_to_send && (oldest == nullptr || pending.id < oldest->id)) oldest = &pending;
    }
  });
  return oldest != nullptr ? name(oldest->request) : OperationName{"send or recv", "point to point", -1};
}

}  // namespace hostccl
