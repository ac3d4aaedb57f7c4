// WindowSession, its connection: what comes in, what goes out, and the buffers in between.
#include <array>
#include <cstring>

#include "hostccl/windows/session.h"

namespace hostccl {
namespace {

constexpr size_t kPeekBehind = 4 << 10;  // of what follows a payload that goes straight to the window

alignas(64) constexpr std::array<std::byte, 16 << 10> kZeros{};

}  // namespace

void WindowSession::consume(size_t bytes) {
  in_begin_ += bytes;
  if (in_begin_ == in_end_) in_begin_ = in_end_ = 0;
}

// False: the connection has ended.
bool WindowSession::receive() {
  if (in_begin_ > 0) {
    std::memmove(in_.get(), input(), input_bytes());
    in_end_ -= in_begin_;
    in_begin_ = 0;
  }
  WindowPiece direct{};
  if (state_ == State::kPut && in_end_ == 0 && pieces_[piece_].bytes >= kDirect) direct = rest_of_piece(budget_);
  const std::array<iovec, 2> space{{{memory_ != nullptr ? memory_->data + direct.offset : nullptr, direct.bytes},
                                    {in_.get() + in_end_, direct.bytes > 0 ? kPeekBehind : kBuffer - in_end_}}};
  const ssize_t result =
      net::receive_scattered(socket_, direct.bytes > 0 ? std::span(space) : std::span(space).subspan(1));
  if (result < 0) return false;
  const auto got = static_cast<size_t>(result);
  spend(got);
  is_drained_ = got < direct.bytes + space[1].iov_len;
  const size_t placed = std::min<size_t>(got, direct.bytes);
  piece_done_ += placed;
  payload_left_ -= placed;
  in_end_ += got - placed;
  return true;
}

void WindowSession::append(const void* bytes, size_t count) {
  std::memcpy(out_.get() + out_end_, bytes, count);
  out_end_ += count;
}

void WindowSession::append_reply(const WindowReply& reply) {
  const size_t words = std::min(reply.words.size(), kWindowWords);
  append_answer(make_answer(reply.request, reply.verdict, words, reply.rank));
  append(reply.words.data(), words);
}

void WindowSession::open_part() {
  if (part_ != kNone) return;
  part_ = out_end_;
  append_answer({});
}

void WindowSession::seal_part(WindowVerdict verdict) {
  if (part_ == kNone) return;
  const WindowAnswer answer = make_answer(request_, verdict, out_end_ - part_ - sizeof(WindowAnswer));
  std::memcpy(out_.get() + part_, &answer, sizeof(answer));
  part_ = kNone;
}

// False: the kernel takes no more (is_blocked_), or the connection has ended.
bool WindowSession::send() {
  is_blocked_ = false;
  while (has_output()) {
    if (direct_ != nullptr && memory_->is_closed()) direct_ = nullptr;
    std::array<iovec, 2> data{{{out_.get() + out_begin_, out_end_ - out_begin_}, {}}};
    const size_t most = segment_ > data[0].iov_len ? segment_ - data[0].iov_len : 0;
    if (direct_ != nullptr) {
      data[1] = {const_cast<std::byte*>(direct_), std::min<size_t>(direct_bytes_, most)};
    } else {
      data[1] = {const_cast<std::byte*>(kZeros.data()), std::min<size_t>({direct_bytes_, most, kZeros.size()})};
    }
    const ssize_t sent = net::send_gathered(socket_, data);
    if (sent < 0) return false;
    account_sent(static_cast<size_t>(sent));
    if (static_cast<size_t>(sent) < data[0].iov_len + data[1].iov_len) {
      is_blocked_ = true;
      return false;
    }
  }
  return true;
}

void WindowSession::account_sent(size_t sent) {
  spend(sent);
  const size_t buffered = std::min(sent, out_end_ - out_begin_);
  out_begin_ += buffered;
  if (out_begin_ == out_end_) out_begin_ = out_end_ = 0;
  direct_bytes_ -= sent - buffered;
  if (direct_ != nullptr) direct_ = direct_bytes_ > 0 ? direct_ + (sent - buffered) : nullptr;
}

}  // namespace hostccl
