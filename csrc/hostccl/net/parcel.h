// A message on its way out, and a bounded queue of them that allocates only while it grows.
// Belongs to an outbox; one thread at a time.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "hostccl/net/frame.h"

namespace hostccl::net {

// Called once, when the payload has been handed to the kernel (sent) or will never be: then its memory is free again.
struct Completion {
  void (*call)(void* arg, bool sent) = nullptr;
  void* arg = nullptr;
};

inline constexpr size_t kHeadBytes = 128;

// Two pieces that the receiver gets as one. The head is copied; the body is sent from where it lies.
struct Payload {
  std::span<const std::byte> head;  // at most kHeadBytes
  std::span<const std::byte> body;
  size_t size() const { return head.size() + body.size(); }
};

class Parcel {
 public:
  Message message;
  Completion done;
  uint64_t offset = 0;  // of the payload: what earlier frames have carried

  void set_payload(const Payload& payload) {
    head_bytes_ = payload.head.size();
    if (head_bytes_ > 0) std::memcpy(head_.data(), payload.head.data(), head_bytes_);
    body_ = payload.body.data();
    body_bytes_ = payload.body.size();
    owned_.reset();
  }
  // From here on the caller's memory is not needed.
  void own_body() {
    if (body_bytes_ == 0 || owned_ != nullptr) return;
    owned_ = std::make_unique_for_overwrite<std::byte[]>(body_bytes_);
    std::memcpy(owned_.get(), body_, body_bytes_);
    body_ = owned_.get();
  }
  void forget_body() { owned_.reset(); }
  // The payload's bytes from `from` on, as one or two pieces; returns how many.
  size_t slice(uint64_t from, size_t bytes, iovec* out) const {
    size_t pieces = 0;
    if (from < head_bytes_ && bytes > 0) {
      const size_t part = std::min<size_t>(bytes, head_bytes_ - from);
      out[pieces++] = {const_cast<std::byte*>(head_.data()) + from, part};
      from += part;
      bytes -= part;
    }
    if (bytes > 0) out[pieces++] = {const_cast<std::byte*>(body_) + (from - head_bytes_), bytes};
    return pieces;
  }

 private:
  std::array<std::byte, kHeadBytes> head_;
  size_t head_bytes_ = 0;
  const std::byte* body_ = nullptr;
  size_t body_bytes_ = 0;
  std::unique_ptr<std::byte[]> owned_;
};

class ParcelQueue {
 public:
  size_t size() const { return size_; }
  Parcel& at(size_t index) { return ring_[(first_ + index) & (ring_.size() - 1)]; }

  Parcel& push() {
    if (size_ == ring_.size()) grow();
    return at(size_++);
  }
  void pop() {
    at(0).forget_body();
    first_ = (first_ + 1) & (ring_.size() - 1);
    --size_;
  }

 private:
  void grow() {
    std::vector<Parcel> larger(std::max<size_t>(8, 2 * ring_.size()));
    for (size_t i = 0; i < size_; ++i) larger[i] = std::move(at(i));
    ring_ = std::move(larger);
    first_ = 0;
  }

  std::vector<Parcel> ring_;  // its size is a power of two
  size_t first_ = 0;
  size_t size_ = 0;
};

}  // namespace hostccl::net
