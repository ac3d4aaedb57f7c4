#include "hostccl/issue_order.h"

#include <chrono>

#include "hostccl/communicator.h"

namespace hostccl {

bool IssueOrder::Place::has_come() const {
  if (chain_ == nullptr) return order_->first_.load(std::memory_order_acquire) == number_;
  return chain_->passed.load(std::memory_order_acquire) % chain_->size.load(std::memory_order_relaxed) == number_;
}

void IssueOrder::Place::pass() {
  if (chain_ == nullptr) return leave();
  chain_->passed.fetch_add(1, std::memory_order_acq_rel);
  order_->wake();
}

void IssueOrder::Place::leave() {
  const std::shared_ptr<IssueOrder> order = std::move(order_);
  if (order != nullptr && chain_ == nullptr) order->give_back(number_);
}

IssueOrder::Place IssueOrder::take(uint64_t capture) {
  Place place;
  place.order_ = shared_from_this();
  std::lock_guard lock(mutex_);
  if (capture == 0) {
    place.number_ = next_++;
    outstanding_.insert(place.number_);
    return place;
  }
  if (std::exchange(capture_, capture) != capture) chain_ = std::make_shared<Chain>();
  place.chain_ = chain_;
  place.number_ = chain_->size.fetch_add(1, std::memory_order_relaxed);
  return place;
}

void IssueOrder::give_back(uint64_t number) {
  {
    std::lock_guard lock(mutex_);
    outstanding_.erase(number);
    first_.store(outstanding_.empty() ? next_ : *outstanding_.begin(), std::memory_order_seq_cst);
  }
  changed_.notify_all();
  wake();
}

void IssueOrder::wake() {
  const pycomms::GateHolder inside(gate_);
  if (inside) comm_.wake_waiters();
}

bool IssueOrder::close(pycomms::Deadline deadline) {
  constexpr auto kLookForFailure = std::chrono::milliseconds(2);
  {
    std::unique_lock lock(mutex_);
    while (!outstanding_.empty() && comm_.async_error() == nccl_abi::kSuccess) {
      if (deadline.passed()) return false;
      changed_.wait_for(lock, kLookForFailure);
    }
  }
  gate_.close();
  return gate_.wait_until_empty(deadline);
}

}  // namespace hostccl
