#include "hostccl/windows/exchange.h"

#include <algorithm>
#include <utility>

namespace hostccl {
namespace {

uint64_t bytes_of(std::span<const WindowPiece> pieces) {
  uint64_t total = 0;
  for (const WindowPiece& piece : pieces) total += piece.bytes;
  return total;
}

std::span<const WindowPiece> take_first(std::span<const WindowPiece>& pieces) {
  const auto first = pieces.first(std::min(pieces.size(), kPiecesOfRequest));
  pieces = pieces.subspan(first.size());
  return first;
}

}  // namespace

size_t requests_for(size_t pieces) { return std::max<size_t>(1, (pieces + kPiecesOfRequest - 1) / kPiecesOfRequest); }

WindowRequests::WindowRequests(const WindowRequest& head, std::span<const WindowPiece> pieces, const std::byte* payload,
                               uint64_t factor, uint64_t first)
    : head_(head),
      factor_(factor),
      last_(first + requests_for(pieces.size()) - 1),
      pieces_(pieces),
      payload_(payload),
      left_(requests_for(pieces.size())) {
  request_.number = first - 1;
  prepare();
}

void WindowRequests::prepare() {
  const uint64_t number = request_.number + 1;
  request_ = head_;
  request_.number = number;
  taken_ = take_first(pieces_);
  request_.pieces = static_cast<uint32_t>(taken_.size());
  request_.bytes = factor_ * bytes_of(taken_);
  if (left_ == 1 || (head_.flags & kSignals) == 0) return;
  request_.flags &= static_cast<uint8_t>(~kSignals);
  request_.slot = 0;
  request_.change = 0;
  request_.value = 0;
}

std::span<const iovec> WindowRequests::next(Parts& parts, size_t most) const {
  const iovec whole[3] = {{const_cast<WindowRequest*>(&request_), sizeof(request_)},
                          {const_cast<WindowPiece*>(taken_.data()), taken_.size_bytes()},
                          {const_cast<std::byte*>(payload_), request_.bytes}};
  size_t count = 0;
  uint64_t skip = offset_;
  for (const iovec& each : whole) {
    const uint64_t skipped = std::min<uint64_t>(skip, each.iov_len);
    skip -= skipped;
    const size_t bytes = std::min<uint64_t>(each.iov_len - skipped, most);
    most -= bytes;
    if (bytes > 0) parts[count++] = {static_cast<std::byte*>(each.iov_base) + skipped, bytes};
  }
  return {parts.data(), count};
}

void WindowRequests::sent(size_t bytes) {
  offset_ += bytes;
  if (offset_ < request_bytes()) return;
  offset_ = 0;
  if (payload_ != nullptr) payload_ += request_.bytes;
  if (--left_ > 0) prepare();
}

WindowAnswers::WindowAnswers(uint64_t first, uint64_t last, std::span<const WindowPiece> pieces, std::byte* destination)
    : next_(first), last_(last), pieces_(pieces), destination_(destination) {
  prepare();
}

void WindowAnswers::prepare() { missing_ = destination_ == nullptr ? 0 : bytes_of(take_first(pieces_)); }

void WindowAnswers::take(uint64_t bytes) {
  if (destination_ != nullptr) destination_ += bytes;
  missing_ -= bytes;
}

void WindowAnswers::finish(pycomms::Status status) {
  if (status_.is_ok()) status_ = std::move(status);
  take(missing_);
  ++next_;
  if (!is_done()) prepare();
}

}  // namespace hostccl
