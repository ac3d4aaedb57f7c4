#include "hostccl/p2p.h"

#include <algorithm>
#include <optional>

#include "hostccl/failures.h"
#include "hostccl/p2p_channel.h"

namespace hostccl {
namespace {

constexpr size_t kEagerLimit = 16 * 1024;
constexpr size_t kStreamLimit = 256 * 1024;
constexpr int kEnvelopesAtOnce = 16;

}  // namespace

P2p::P2p(const Segment& segment, const Patience& patience)
    : segment_(segment), receives_(std::make_unique<Receives>()) {
  for (int peer = 0; peer < segment.nranks(); ++peer) {
    // The measurement needs both ranks at work at the same time.
    const bool measures = patience.own_core && peer != segment.rank() && segment.is_here(peer);
    channels_.push_back(std::make_unique<Channel>(segment, peer, measures));
  }
}

P2p::~P2p() = default;

uint64_t P2p::post(const P2pRequest& request) {
  std::vector<Finished> finished;
  uint64_t id;
  {
    std::lock_guard lock(mutex_);
    id = next_id_++;
    pending_.fetch_add(1, std::memory_order_relaxed);
    Queue one;
    one.push_back(Pending{request, id, request.timeout_ns >= pycomms::kForever ? 0 : pycomms::now_ns()});
    first_deadline_ns_ = std::min(first_deadline_ns_, one.front().deadline_ns());
    if (request.is_send) {
      Channel& channel = *channels_[static_cast<size_t>(request.peer)];
      channel.outbox.splice(channel.outbox.end(), one);
    } else if (!match_unexpected(one, finished)) {
      receives_->add(one);
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
    Queue one;
    if (receives_->take_by_id(id, one)) finish(one.front(), nccl_abi::kTimeout, finished);
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

EnvelopeKind P2p::kind_of(const Pending& pending) {
  if (pending.is_clear_to_send) return EnvelopeKind::kClearToSend;
  if (pending.request.bytes <= kEagerLimit) return EnvelopeKind::kEager;
  return pending.request.bytes <= kStreamLimit ? EnvelopeKind::kStreamed : EnvelopeKind::kRequestToSend;
}

bool P2p::flush_outbox(Channel& channel, std::vector<Finished>& finished) {
  bool moved = false;
  while (!channel.outbox.empty()) {
    Pending& pending = channel.outbox.front();
    const P2pRequest& request = pending.request;
    if (channel.envelopes_out - channel.out.envelopes_taken.value.load(std::memory_order_acquire) >= kEnvelopes) break;
    Envelope& envelope = channel.out.envelopes[channel.envelopes_out % kEnvelopes];
    const bool in_envelope = request.bytes <= sizeof(envelope.payload);
    const EnvelopeKind kind = kind_of(pending);
    const bool eager = kind == EnvelopeKind::kEager;
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
    envelope.kind = kind;
    envelope.sequence.store(++channel.envelopes_out, std::memory_order_seq_cst);
    segment_.ring(channel.peer);
    moved = true;
    switch (kind) {
      case EnvelopeKind::kStreamed:
        channel.sending.splice(channel.sending.end(), channel.outbox, channel.outbox.begin());
        break;
      case EnvelopeKind::kRequestToSend:
        channel.asked.splice(channel.asked.end(), channel.outbox, channel.outbox.begin());
        break;
      case EnvelopeKind::kEager:
        finish(pending, nccl_abi::kSuccess, finished);
        channel.outbox.pop_front();
        break;
      case EnvelopeKind::kClearToSend:
        channel.outbox.pop_front();
        break;
    }
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
  const P2pRequest& request = pending.request;
  if (!channel.bulk_out.write(pending.id, request.data, request.bytes, pending.moved)) return false;
  if (pending.moved == request.bytes) {
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
    if (!can_take(channel, envelope)) break;
    take_envelope(channel, envelope, finished);
    channel.in.envelopes_taken.value.store(++channel.envelopes_in, std::memory_order_seq_cst);
    segment_.ring(channel.peer);
    moved = true;
    if (segment_.has_failed()) break;
  }
  return moved;
}

// Other hosts may run another build: what is taken for a size must be one.
bool P2p::can_take(Channel& channel, const Envelope& envelope) {
  const size_t limit = envelope.kind == EnvelopeKind::kEager      ? kEagerLimit
                       : envelope.kind == EnvelopeKind::kStreamed ? kStreamLimit
                                                                  : SIZE_MAX;
  bool well = envelope.kind <= EnvelopeKind::kClearToSend && envelope.bytes <= limit &&
              element_size(static_cast<DataType>(envelope.type)) != 0;
  if (well && envelope.kind == EnvelopeKind::kEager && envelope.bytes > sizeof(envelope.payload)) {
    const size_t room = channel.eager_in.until_wrap();
    well = channel.eager_in.can_read((room < envelope.bytes ? room : 0) + envelope.bytes);
  }
  if (!well) {
    segment_.fail(nonsense_of(segment_, channel.peer,
                              "rank " + std::to_string(channel.peer) + " sent an envelope of kind " +
                                  std::to_string(static_cast<int>(envelope.kind)) + ", type " +
                                  std::to_string(envelope.type) + ", " + std::to_string(envelope.bytes) + " bytes"));
  }
  return well;
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
                     {},
                     0};
  const bool in_ring = envelope.kind == EnvelopeKind::kEager && envelope.bytes > sizeof(envelope.payload);
  if (in_ring) {
    if (const size_t room = channel.eager_in.until_wrap(); room < envelope.bytes) channel.eager_in.consume(room);
    message.data = channel.eager_in.place();
  }
  Queue receive;
  if (receives_->take(channel.peer, message.tag, receive)) {
    deliver(channel, receive, message, finished);
  } else {
    if (message.kind == EnvelopeKind::kEager) message.kept.assign(message.data, message.data + message.bytes);
    message.data = nullptr;
    std::list<Unexpected> one;
    one.push_back(std::move(message));
    channel.unexpected.add(one);
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
    const auto first = channel->unexpected.find(static_cast<uint32_t>(wanted.tag));
    if (!first) continue;
    std::list<Unexpected> message;
    channel->unexpected.take(first, message);
    message.front().data = message.front().kept.data();
    deliver(*channel, request, message.front(), finished);
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
  pending.request.peer = channel.peer;  // of a receive from any: from here on it is this peer that is needed
  pending.message = message.id;
  if (message.kind == EnvelopeKind::kRequestToSend) {
    Pending answer;
    answer.is_clear_to_send = true;
    answer.id = message.id;
    channel.outbox.push_back(answer);
  } else if (message.moved != 0) {
    hostccl::copy(pending.request.data, message.kept.data(), message.moved);
    pending.moved = message.moved;
    if (pending.moved == message.bytes) {
      finish(pending, nccl_abi::kSuccess, finished);
      return;
    }
  }
  channel.receiving.splice(channel.receiving.end(), request);
}

bool P2p::receive_bulk(Channel& channel, std::vector<Finished>& finished) {
  if (channel.receiving.empty()) return false;
  const std::optional<uint64_t> id = channel.bulk_in.front();
  if (!id) return false;
  Queue& receiving = channel.receiving;
  const auto at = std::find_if(receiving.begin(), receiving.end(), [&](const Pending& p) { return p.message == *id; });
  if (at == receiving.end()) {
    if (!set_aside(channel, *id)) return false;
  } else {
    if (!channel.bulk_in.read(at->request.data, at->request.bytes, at->moved)) return false;
    if (at->moved == at->request.bytes) {
      finish(*at, nccl_abi::kSuccess, finished);
      receiving.erase(at);
    }
  }
  segment_.ring(channel.peer);
  return true;
}

// Nobody has asked for this message yet, and it is in the way of one that was asked for.
bool P2p::set_aside(Channel& channel, uint64_t id) {
  const auto message = channel.unexpected.find_if([id](const Unexpected& m) { return m.id == id; });
  if (!message) return false;  // its envelope is still to be taken
  message->kept.resize(message->bytes);
  return channel.bulk_in.read(message->kept.data(), message->bytes, message->moved);
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
  set_op(failure, "recv");
  segment_.fail(failure);
  return false;
}

}  // namespace hostccl
