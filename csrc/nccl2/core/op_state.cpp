#include "nccl2/core/op_state.h"

#include <sched.h>

#include "base/futex.h"
#include "nccl2/core/interrupt.h"
#include "nccl2/core/recorded.h"

namespace pycomms {
namespace {

constexpr int64_t kSpin = 50 * kMicrosecond;  // a sleeper costs 20 µs and more to wake
// Requests move when somebody moves them, and a waiter does it sooner than the engine's own thread.
constexpr int64_t kHelpRequests = 10 * kMillisecond;
constexpr int kRelaxes = 64;  // before giving the core to a peer that may need it

thread_local int continuations_running = 0;

}  // namespace

bool OpState::is_running_continuations() { return continuations_running != 0; }

struct OpState::Node {
  Continuation run;
  Node* next;

  // Stands in a list that takes no more entries: the operation has ended.
  static Node* closed() {
    static Node mark{nullptr, nullptr};
    return &mark;
  }
};

OpState::~OpState() {
  Node* node = continuations_.load(std::memory_order_acquire);
  while (node != nullptr && node != Node::closed()) {
    Node* next = node->next;
    delete node;
    node = next;
  }
}

Outcome OpState::outcome() const {
  const auto seen = static_cast<Outcome>(outcome_.load(std::memory_order_acquire));
  return seen == Outcome::kEnding ? Outcome::kPending : seen;
}

bool OpState::end(Outcome outcome, Error error) {
  auto expected = static_cast<uint32_t>(Outcome::kPending);
  if (!outcome_.compare_exchange_strong(expected, static_cast<uint32_t>(Outcome::kEnding), std::memory_order_acq_rel)) {
    return false;
  }
  error_ = std::move(error);
  ended_ns_ = now_ns();
  if (record_) end_records(outcome);
  if (before_end_) before_end_();
  outcome_.store(static_cast<uint32_t>(outcome), std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) futex_wake_all(outcome_);
  run_continuations();
  return true;
}

void OpState::end_records(Outcome outcome) const {
  const std::string_view error = error_ ? std::string_view(error_.detail().message) : std::string_view();
  record_.end(recorded_state(outcome), ended_ns_, error);
  for (const recorder::Entry& entry : more_records_) entry.end(recorded_state(outcome), ended_ns_, error);
}

bool OpState::leave_part(const Error& error) {
  if (error && !part_failed_.exchange(true, std::memory_order_acq_rel)) part_error_ = error;
  return parts_.fetch_sub(1, std::memory_order_acq_rel) == 1;
}

void OpState::then(Continuation next) {
  auto* node = new Node{std::move(next), nullptr};
  Node* head = continuations_.load(std::memory_order_acquire);
  do {
    if (head == Node::closed()) {
      const std::unique_ptr<Node> mine(node);
      mine->run(*this);
      return;
    }
    node->next = head;
  } while (!continuations_.compare_exchange_weak(head, node, std::memory_order_acq_rel));
}

void OpState::run_continuations() {
  Node* list = continuations_.exchange(Node::closed(), std::memory_order_acq_rel);
  ++continuations_running;
  Node* in_order = nullptr;
  while (list != nullptr) {
    Node* next = list->next;
    list->next = in_order;
    in_order = list;
    list = next;
  }
  while (in_order != nullptr) {
    const std::unique_ptr<Node> node(in_order);
    in_order = node->next;
    node->run(*this);
  }
  --continuations_running;
}

OpState::WaitResult OpState::wait(Deadline deadline, bool may_help, bool (*interrupted)()) {
  const bool requests = is_point_to_point(kind_) || kind_ == OpKind::kCoalesced;
  const int64_t patience = requests ? kHelpRequests : kSpin;
  int64_t spin_until = std::min(now_ns() + patience, deadline.ns());
  for (int round = 0; !has_ended(); ++round) {
    if (lane_ != nullptr) {
      const uint64_t position = position_.load(std::memory_order_acquire);
      if (may_help && position != 0 && lane_->help_stream(position)) continue;
      if (requests && lane_->help_requests()) {
        round = 0;
        spin_until = std::min(now_ns() + patience, deadline.ns());
        continue;
      }
    }
    if (round < kRelaxes) {
      cpu_relax();
    } else if (now_ns() < spin_until) {
      sched_yield();
    } else {
      break;
    }
  }

  int64_t next_poll = now_ns() + kInterruptPoll;
  while (!has_ended()) {
    const int64_t now = now_ns();
    if (deadline.passed(now)) return WaitResult::kExpired;
    if (now >= next_poll) {
      if (interrupted != nullptr && interrupted()) return WaitResult::kInterrupted;
      next_poll = now + kInterruptPoll;
    }
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t seen = outcome_.load(std::memory_order_seq_cst);
    if (seen <= static_cast<uint32_t>(Outcome::kEnding)) {
      futex_wait(outcome_, seen, std::min(deadline.left(now), next_poll - now));
    }
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  }
  return WaitResult::kEnded;
}

}  // namespace pycomms
