#include "hostccl/net/inbox.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace hostccl::net {

static_assert(kInlineBytes + sizeof(FrameHeader) <= (32 << 10), "an inline payload must fit into the buffer, whole");

Inbox::Inbox(int peer, const std::atomic<bool>& stop) : peer_(peer), stop_(stop) {}

bool Inbox::is_amid_message() const {
  const bool open = std::any_of(lanes_.begin(), lanes_.end(), [](const LaneState& l) { return l.progress.is_open; });
  return open || end_ > begin_;
}

Inbox::Outcome Inbox::receive(const Descriptor& socket, Sink& sink) {
  size_t total = 0;
  while (total < kFairShare) {
    size_t asked = 0;
    const ssize_t got = read_once(socket, asked);
    if (got == 0) return Outcome::kClosed;
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      return Outcome::kBroken;
    }
    take(static_cast<size_t>(got));
    total += static_cast<size_t>(got);
    switch (parse(sink)) {
      case Parsed::kAll:
        break;
      case Parsed::kGoodbye:
        return Outcome::kGoodbye;
      case Parsed::kMalformed:
        return Outcome::kMalformed;
    }
    if (stop_.load(std::memory_order_relaxed)) break;
    // Less than was asked for: that was all. Asking again would only cost a call.
    if (static_cast<size_t>(got) < asked) break;
  }
  return total > 0 ? Outcome::kMoved : Outcome::kNothing;
}

// The rest of a payload goes to its place, what follows into the buffer. Little of that: a header tells where the next
// payload goes, and what is in the buffer by then is copied once more.
ssize_t Inbox::read_once(const Descriptor& socket, size_t& asked) {
  if (buffer_ == nullptr) buffer_ = std::make_unique_for_overwrite<std::byte[]>(kBufferBytes);
  if (begin_ == end_) {
    begin_ = end_ = 0;
  } else if (kBufferBytes - begin_ < kInlineBytes + sizeof(FrameHeader)) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  iovec rest{buffer_.get() + end_, kBufferBytes - end_};
  std::byte* direct = current_ != nullptr && begin_ == end_ ? destination() : nullptr;
  if (direct == nullptr) {
    asked = rest.iov_len;
    return recv(socket.get(), rest.iov_base, rest.iov_len, MSG_DONTWAIT);
  }
  rest.iov_len = std::min(rest.iov_len, kPeekBytes);
  iovec both[2] = {{direct, frame_left_}, rest};
  msghdr message{};
  message.msg_iov = both;
  message.msg_iovlen = 2;
  asked = both[0].iov_len + both[1].iov_len;
  return recvmsg(socket.get(), &message, MSG_DONTWAIT);
}

// Accounts for what read_once() got: what went to its place is no longer missing there.
void Inbox::take(size_t got) {
  if (current_ != nullptr && begin_ == end_ && destination() != nullptr) {
    const size_t direct = std::min(got, frame_left_);
    current_->progress.offset += direct;
    frame_left_ -= direct;
    got -= direct;
  }
  end_ += got;
}

std::byte* Inbox::destination() const {
  if (current_->place.kind != Place::Kind::kMemory || frame_left_ == 0) return nullptr;
  return current_->place.memory + current_->progress.offset;
}

Inbox::Parsed Inbox::parse(Sink& sink) {
  while (!stop_.load(std::memory_order_relaxed)) {
    if (current_ != nullptr) {
      if (!move_payload(sink)) break;
      if (!reason_.empty()) return Parsed::kGoodbye;
      continue;
    }
    if (end_ - begin_ < sizeof(FrameHeader)) break;
    FrameHeader header;
    std::memcpy(&header, buffer_.get() + begin_, sizeof(header));
    begin_ += sizeof(header);
    if (!begin_frame(header, sink)) return Parsed::kMalformed;
  }
  return Parsed::kAll;
}

bool Inbox::begin_frame(const FrameHeader& header, Sink& sink) {
  // The lane of a header that has not been checked: any will do, for check_frame looks at it first.
  LaneState& lane = lanes_[header.lane < kLanes ? header.lane : 0];
  if (std::string wrong = check_frame(header, lane.progress); !wrong.empty()) {
    return refuse("a malformed frame: " + wrong);
  }
  if (!lane.progress.is_open) {
    lane.progress = {true, message_of(header), 0};
    if (header.kind >= kHeartbeatKind) {
      lane.place = Place::in_line();
    } else {
      lane.place = sink.place(peer_, lane.progress.message);
    }
    if (lane.place.kind == Place::Kind::kRefuse) {
      return refuse("a message that nobody expects: kind " + std::to_string(header.kind) + ", tag " +
                    std::to_string(header.tag) + ", id " + std::to_string(header.id) + ", " +
                    std::to_string(header.bytes) + " bytes");
    }
    if (lane.place.kind == Place::Kind::kInline && header.bytes > kInlineBytes) {
      return refuse("a message of " + std::to_string(header.bytes) + " bytes where at most " +
                    std::to_string(kInlineBytes) + " were expected");
    }
  }
  current_ = &lane;
  frame_left_ = header.length;
  return true;
}

// From the buffer to its place. False: the buffer has no more, and the frame is not whole.
bool Inbox::move_payload(Sink& sink) {
  const size_t have = std::min(end_ - begin_, frame_left_);
  if (current_->place.kind == Place::Kind::kInline) {
    if (have < frame_left_) return false;  // stays in the buffer until it is whole
    deliver_inline(sink);
    return true;
  }
  if (std::byte* to = destination(); to != nullptr && have > 0) std::memcpy(to, buffer_.get() + begin_, have);
  begin_ += have;
  frame_left_ -= have;
  current_->progress.offset += have;
  if (frame_left_ > 0) return false;
  end_frame(sink);
  return true;
}

void Inbox::deliver_inline(Sink& sink) {
  const std::span<const std::byte> payload(buffer_.get() + begin_, frame_left_);
  begin_ += frame_left_;
  frame_left_ = 0;
  const Message message = current_->progress.message;
  current_->progress.is_open = false;
  current_ = nullptr;
  if (message.kind == kByeKind) {
    reason_.assign(reinterpret_cast<const char*>(payload.data()), payload.size());
    if (reason_.empty()) reason_ = "it gave no reason";
  } else if (message.kind != kHeartbeatKind) {
    sink.delivered(peer_, message, payload);
  }
}

void Inbox::end_frame(Sink& sink) {
  LaneState& lane = *current_;
  current_ = nullptr;
  if (lane.progress.offset < lane.progress.message.bytes) return;
  lane.progress.is_open = false;
  const Message message = lane.progress.message;
  const bool kept = lane.place.kind == Place::Kind::kMemory;
  sink.delivered(peer_, message, {kept ? lane.place.memory : nullptr, kept ? static_cast<size_t>(message.bytes) : 0});
}

bool Inbox::refuse(std::string why) {
  reason_ = std::move(why);
  return false;
}

}  // namespace hostccl::net
