#include "hostccl/flow.h"

#include <algorithm>

namespace hostccl {

void Flow::write_private(std::byte* to, const std::byte* from, size_t bytes) const {
  if (style_.streaming_out) {
    hostccl::copy_streaming(to, from, bytes);
  } else {
    hostccl::copy(to, from, bytes);
  }
}

size_t SendFlow::under_way() const {
  if (remote_ == nullptr) return 0;
  const uint64_t gone = remote_->handed_over(readers_.front());
  return end_ > gone ? static_cast<size_t>(end_ - gone) : 0;
}

bool SendFlow::may_step(size_t bytes) const {
  if (reader_ != nullptr && reader_->left() >= left_ + most_ahead_) return false;
  if (before_ != nullptr && !before_->done()) return false;
  return maker_ == nullptr || maker_->left() + bytes <= left_ + beyond_;
}

bool SendFlow::step() {
  if (left_ == 0) return false;
  const size_t bytes = std::min({left_, style_.chunk, ring_.until_wrap()});
  if (!may_step(bytes) || !ring_.can_write(bytes) || !put(bytes)) return false;
  left_ -= bytes;
  if (left_ == 0) ring_.end_message();
  if (remote_ == nullptr || ring_.position() != end_) {
    for (const int reader : readers_) segment_.ring(reader);
  }
  if (copy_ != nullptr) {
    write_private(copy_, from_, bytes);
    copy_ += bytes;
  }
  from_ += bytes;
  return true;
}

bool SendFlow::put(size_t bytes) {
  if (remote_ != nullptr) {
    if (!remote_->hand_over(readers_.front(), ring_.position(), {from_, bytes})) return false;
    end_ = ring_.position() + bytes;
  } else if (style_.streaming) {
    hostccl::copy_streaming(ring_.place(), from_, bytes);
  } else {
    hostccl::copy(ring_.place(), from_, bytes);
  }
  ring_.publish(bytes);
  return true;
}

bool RecvFlow::step() {
  if (left_ == 0 || (before_ != nullptr && !before_->done())) return false;
  const size_t bytes = std::min({left_, style_.chunk, ring_.readable()});
  if (bytes == 0) return false;
  write_private(to_, ring_.place(), bytes);
  ring_.consume(bytes);
  to_ += bytes;
  left_ -= bytes;
  if (left_ == 0) ring_.end_message();
  segment_.ring(writer_);
  return true;
}

ReduceFlow::ReduceFlow(const Segment& segment, std::span<const Input> inputs, const std::byte* own, std::byte* to,
                       size_t bytes, Output results, ReduceArgs what, FlowStyle style)
    : Flow(style),
      segment_(segment),
      inputs_(inputs),
      own_(own),
      to_(to),
      left_(bytes),
      results_(results),
      what_(what),
      element_size_(element_size(what.type)),
      pointers_(inputs.size()) {
  what_.inputs = pointers_.data();
  what_.ninputs = static_cast<int>(inputs.size());
  what_.stream_also = style.streaming;
}

size_t ReduceFlow::piece() const {
  size_t bytes = std::min(left_, style_.chunk);
  for (const Input& input : inputs_) {
    if (input.ring) bytes = std::min(bytes, input.ring->until_wrap());
  }
  if (results_.ring) bytes = std::min(bytes, results_.ring->until_wrap());
  return bytes;
}

bool ReduceFlow::can_step(size_t bytes) {
  if (other_ != nullptr && other_->left() + bytes > left_ + beyond_) return false;
  for (const Input& input : inputs_) {
    if (input.ring && !input.ring->can_read(bytes)) return false;
  }
  return results_.ring == nullptr || results_.ring->can_write(bytes);
}

bool ReduceFlow::step() {
  if (left_ == 0) return false;
  const size_t bytes = piece();
  if (!can_step(bytes)) return false;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    pointers_[i] = inputs_[i].ring ? inputs_[i].ring->place() : own_;
  }
  std::byte* const shared = results_.ring ? results_.ring->place() : nullptr;
  what_.out = to_ ? to_ : shared;
  what_.also = to_ ? shared : nullptr;
  what_.count = bytes / element_size_;
  reduce(what_);
  finish_piece(bytes);
  return true;
}

void ReduceFlow::finish_piece(size_t bytes) {
  own_ += bytes;
  if (to_) to_ += bytes;
  left_ -= bytes;
  if (results_.ring) {
    results_.ring->publish(bytes);
    if (left_ == 0) results_.ring->end_message();
    for (const int reader : results_.readers) segment_.ring(reader);
  }
  for (const Input& input : inputs_) {
    if (input.ring == nullptr) continue;
    input.ring->consume(bytes);
    if (left_ == 0) input.ring->end_message();
    segment_.ring(input.rank);
  }
}

bool run_flows(const Segment& segment, Waiter& waiter, std::span<Flow* const> flows) {
  bool all_done = false;
  auto pass = [&] {
    bool moved = false;
    all_done = true;
    for (Flow* flow : flows) {
      if (flow->done()) continue;
      moved |= flow->step();
      all_done &= flow->done();
    }
    return moved || all_done;
  };
  while (!all_done) {
    if (!waiter.until(pass)) {
      if (segment.remote() != nullptr) segment.remote()->let_go();
      return false;
    }
    // A pass that moves something is no wait, and what is handed over is sent by whoever looks after the connections.
    if (!all_done) segment.progress_remote();
  }
  return true;
}

}  // namespace hostccl
