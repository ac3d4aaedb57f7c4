// A byte ring in shared memory with one writer and one or more readers that all read everything. Head and tails are byte
// positions that only grow. A message starts at a multiple of kPad; its pieces are whatever is contiguous.
//
// Threads: one per end at a time. Must not know: what the bytes mean, who is woken (the caller rings the bells).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "hostccl/layout.h"

namespace hostccl {

inline uint64_t pad_up(uint64_t position) { return (position + kPad - 1) / kPad * kPad; }

class RingWriter {
 public:
  RingWriter(Counter& head, std::vector<Counter*> tails, std::byte* data, size_t size)
      : head_(&head.value), tails_(std::move(tails)), data_(data), size_(size) {}

  // Bytes from the current position to the end of the memory: a piece never wraps.
  size_t until_wrap() const { return size_ - static_cast<size_t>(position_ % size_); }
  bool can_write(size_t bytes) {
    if (position_ + bytes - slowest_ <= size_) return true;
    slowest_ = position_;
    for (const Counter* tail : tails_) slowest_ = std::min(slowest_, tail->value.load(std::memory_order_acquire));
    return position_ + bytes - slowest_ <= size_;
  }
  std::byte* place() const { return data_ + position_ % size_; }
  uint64_t position() const { return position_; }
  void publish(size_t bytes) { move_to(position_ + bytes); }
  // Written, but the readers hear of it only with what is published next.
  void write_on(size_t bytes) { position_ += bytes; }
  void end_message() {
    if (position_ % kPad != 0) move_to(pad_up(position_));
  }

 private:
  void move_to(uint64_t position) {
    position_ = position;
    head_->store(position, std::memory_order_seq_cst);
  }

  std::atomic<uint64_t>* head_;
  std::vector<Counter*> tails_;
  std::byte* data_;
  size_t size_;
  uint64_t position_ = 0;
  uint64_t slowest_ = 0;  // of the readers, when we last looked
};

class RingReader {
 public:
  RingReader(const Counter& head, Counter& tail, const std::byte* data, size_t size)
      : head_(&head.value), tail_(&tail.value), data_(data), size_(size) {}

  size_t until_wrap() const { return size_ - static_cast<size_t>(position_ % size_); }
  bool can_read(size_t bytes) {
    if (written_ >= position_ + bytes) return true;
    written_ = head_->load(std::memory_order_acquire);
    return written_ >= position_ + bytes;
  }
  // What is there in one piece.
  size_t readable() {
    if (!can_read(1)) return 0;
    return std::min(static_cast<size_t>(written_ - position_), until_wrap());
  }
  const std::byte* place() const { return data_ + position_ % size_; }
  // Read, but the writer hears of it only with what is consumed next.
  void read_on(size_t bytes) { position_ += bytes; }
  void consume(size_t bytes) { move_to(position_ + bytes); }
  void end_message() {
    if (position_ % kPad != 0) move_to(pad_up(position_));
  }
  // A message that is not for this reader: passes over it, also before it has been written.
  void skip_message(size_t bytes) { move_to(pad_up(position_ + bytes)); }

 private:
  void move_to(uint64_t position) {
    position_ = position;
    tail_->store(position, std::memory_order_seq_cst);
  }

  const std::atomic<uint64_t>* head_;
  std::atomic<uint64_t>* tail_;
  const std::byte* data_;
  size_t size_;
  uint64_t position_ = 0;
  uint64_t written_ = 0;
};

}  // namespace hostccl
