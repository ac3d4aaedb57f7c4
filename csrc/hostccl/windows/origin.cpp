#include "hostccl/windows/origin.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "hostccl/kernels/kernels.h"

namespace hostccl {
namespace {

using pycomms::Code;
using pycomms::Deadline;
using pycomms::GateHolder;
using pycomms::Status;

// The target gives up a little before we do, so that it can say who has the lock.
constexpr int64_t kLockMargin = 50 * pycomms::kMillisecond;

Status stopped() { return {Code::kInvalidState, "the windows of this communicator are closed here"}; }

WindowRequest answered(WindowRequestKind kind, uint32_t window) {
  WindowRequest head = make_request(kind, window);
  head.flags = kAnswered;
  return head;
}

void add_signal(WindowRequest& head, const WindowSignal& signal) {
  head.slot = signal.slot;
  head.change = static_cast<uint32_t>(signal.change);
  head.value = signal.value;
}

}  // namespace

WindowOrigin::WindowOrigin(WindowOriginOptions options) : options_(std::move(options)) {
  for (size_t peer = 0; peer < options_.addresses.size(); ++peer) {
    const int rank = static_cast<int>(peer);
    channels_.push_back(std::make_unique<WindowChannel>(
        WindowChannelOptions{{window_topic(options_.topic, rank), options_.key, options_.rank, rank},
                             options_.addresses[peer],
                             options_.endpoint->address().scope(),
                             options_.endpoint->socket_options(),
                             [this, rank] { return trouble_with(rank); }}));
  }
}

bool WindowOrigin::stop(Deadline deadline) {
  if (options_.endpoint->is_foreign()) return true;
  gate_.close();
  return gate_.wait_until_empty(deadline);
}

Status WindowOrigin::trouble_with(int peer) const { return gate_.is_closed() ? stopped() : options_.trouble(peer); }

// Before a lock is touched: in a forked child it may be held by a thread that is not there.
Status WindowOrigin::check(int peer) const {
  if (options_.endpoint->is_foreign()) {
    return {Code::kInvalidState, "these windows belong to the process that this one was forked from"};
  }
  if (peer >= 0 && static_cast<size_t>(peer) < channels_.size() && peer != options_.rank) return Status::ok();
  return {Code::kInvalidArgument, "peer is " + std::to_string(peer) + ", expected another rank than " +
                                      std::to_string(options_.rank) + " of 0 to " +
                                      std::to_string(channels_.size() - 1)};
}

Status WindowOrigin::ask(int peer, const Asked& asked, Deadline deadline) {
  PYCOMMS_RETURN_IF_ERROR(check(peer));
  const GateHolder inside(gate_);
  if (!inside) return stopped();
  PYCOMMS_RETURN_IF_ERROR(options_.trouble(peer));
  WindowChannel& channel = *channels_[static_cast<size_t>(peer)];
  const WindowChannel::Turn turn(channel, deadline);
  PYCOMMS_RETURN_IF_ERROR(turn.status());
  const auto kind = static_cast<WindowRequestKind>(asked.head.kind);
  if (kind != WindowRequestKind::kTell) PYCOMMS_RETURN_IF_ERROR(channel.take_kept_error());
  if (kind == WindowRequestKind::kFlush && !channel.has_unflushed()) return Status::ok();
  WindowRequests requests(asked.head, asked.pieces, asked.payload, asked.factor, channel.next_number());
  WindowAnswers answers;
  if ((asked.head.flags & kAnswered) != 0) {
    answers = {channel.next_number(), requests.last_number(), asked.pieces, asked.destination};
  }
  PYCOMMS_RETURN_IF_ERROR(channel.exchange(requests, answers, deadline));
  return asked.reports_earlier_errors ? channel.take_kept_error() : Status::ok();
}

Status WindowOrigin::put(int peer, uint32_t window, std::span<const WindowPiece> pieces, const std::byte* source,
                         const WindowSignal* signal, Deadline deadline) {
  WindowRequest head = make_request(WindowRequestKind::kPut, window);
  if (signal != nullptr) {
    head.flags = kSignals;
    add_signal(head, *signal);
  }
  return ask(peer, {head, pieces, source, 1}, deadline);
}

Status WindowOrigin::get(int peer, uint32_t window, std::span<const WindowPiece> pieces, std::byte* destination,
                         Deadline deadline) {
  Asked asked{answered(WindowRequestKind::kGet, window), pieces};
  asked.destination = destination;
  asked.reports_earlier_errors = true;
  return ask(peer, asked, deadline);
}

Status WindowOrigin::update(int peer, uint32_t window, std::span<const WindowPiece> pieces, DataType type, WindowOp op,
                            const std::byte* operands, std::byte* old, Deadline deadline) {
  Asked asked{make_request(WindowRequestKind::kUpdate, window), pieces};
  asked.head.type = type;
  asked.head.op = static_cast<uint8_t>(op);
  if (op != WindowOp::kFetch) {
    asked.payload = operands;
    asked.factor = 1;
  }
  if (old != nullptr) {
    asked.head.flags = kAnswered;
    asked.destination = old;
  }
  return ask(peer, asked, deadline);
}

Status WindowOrigin::compare_swap(int peer, uint32_t window, uint64_t offset, DataType type, const void* expected,
                                  const void* desired, void* old, Deadline deadline) {
  const size_t size = element_size(type);
  std::array<std::byte, 2 * sizeof(uint64_t)> both;
  if (size == 0 || size > sizeof(uint64_t)) {
    return {Code::kInvalidArgument, std::string("elements of ") + type_name(type) + " cannot be compared in one step"};
  }
  std::memcpy(both.data(), expected, size);
  std::memcpy(both.data() + size, desired, size);
  const WindowPiece piece{offset, size};
  Asked asked{answered(WindowRequestKind::kCompareSwap, window), std::span(&piece, 1), both.data(), 2};
  asked.head.type = type;
  asked.destination = static_cast<std::byte*>(old);
  return ask(peer, asked, deadline);
}

Status WindowOrigin::signal(int peer, uint32_t window, const WindowSignal& signal, Deadline deadline) {
  WindowRequest head = make_request(WindowRequestKind::kSignal, window);
  add_signal(head, signal);
  return ask(peer, {head}, deadline);
}

Status WindowOrigin::flush(int peer, Deadline deadline) {
  Asked asked{answered(WindowRequestKind::kFlush, 0)};
  asked.reports_earlier_errors = true;
  return ask(peer, asked, deadline);
}

// An error of an earlier request is not for who tells this.
Status WindowOrigin::tell(int peer, uint32_t window, WindowState state, Deadline deadline) {
  Asked asked{answered(WindowRequestKind::kTell, window)};
  asked.head.value = static_cast<int64_t>(state);
  return ask(peer, asked, deadline);
}

Status WindowOrigin::unlock(int peer, uint32_t window, bool shared, Deadline deadline) {
  Asked asked{answered(WindowRequestKind::kUnlock, window)};
  if (shared) asked.head.flags |= kShared;
  asked.reports_earlier_errors = true;
  return ask(peer, asked, deadline);
}

Status WindowOrigin::lock(int peer, uint32_t window, bool shared, int* broken, Deadline deadline) {
  if (broken != nullptr) *broken = -1;
  PYCOMMS_RETURN_IF_ERROR(check(peer));
  const GateHolder inside(gate_);
  if (!inside) return stopped();
  PYCOMMS_RETURN_IF_ERROR(options_.trouble(peer));
  WindowChannel& channel = *channels_[static_cast<size_t>(peer)];
  uint64_t number;
  {
    const WindowChannel::Turn turn(channel, deadline);
    PYCOMMS_RETURN_IF_ERROR(turn.status());
    PYCOMMS_RETURN_IF_ERROR(channel.take_kept_error());
    WindowRequest head = answered(WindowRequestKind::kLock, window);
    if (shared) head.flags |= kShared;
    const int64_t left = deadline.left();
    head.value = left - std::min(left / 8, kLockMargin);
    number = channel.next_number();
    channel.expect_lock(number);
    WindowRequests requests(head, {}, nullptr, 0, number);
    WindowAnswers none;
    if (Status status = channel.exchange(requests, none, deadline); !status.is_ok()) {
      channel.expect_lock_no_more(number);  // it was not sent, or the connection has ended by it
      return status;
    }
  }
  return wait_for_lock(channel, number, broken, deadline);
}

// Others have their turn meanwhile: what they do may be what the lock's holder waits for.
Status WindowOrigin::wait_for_lock(WindowChannel& channel, uint64_t number, int* broken, Deadline deadline) {
  for (;;) {
    {
      const WindowChannel::Turn turn(channel, deadline);
      if (!turn.status().is_ok()) {
        channel.forgo_lock(number);
        return turn.status();
      }
      const auto looked = channel.look_for_lock(number);
      if (!looked.is_ok()) return looked.status();
      if (const auto& answer = looked.value()) {
        if (answer->verdict == WindowVerdict::kDone && broken != nullptr) *broken = answer->rank;
        return answer->status;
      }
    }
    if (Status status = channel.look_around(deadline); !status.is_ok()) {
      channel.forgo_lock(number);
      return status;
    }
    channel.wait_for_news(deadline);
  }
}

}  // namespace hostccl
