// The state that a Work, the engine's callback and the supervisor share about one operation: it ends exactly once, as
// done, failed, timed out or cancelled. It knows who waits and what is to run afterwards, and keeps itself (and, in a
// derived class, the memory that the engine reads and writes) alive until the engine has let go.
// Any thread; lock-free but for the futex of sleeping waiters. Must not know: torch, communicators.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/fork.h"
#include "nccl2/core/error.h"
#include "nccl2/core/lane.h"
#include "nccl2/core/op.h"
#include "recorder/ring.h"

namespace pycomms {

enum class Outcome : uint32_t { kPending, kEnding, kDone, kFailed, kTimedOut, kCancelled };

class OpState : public std::enable_shared_from_this<OpState> {
 public:
  using Continuation = std::function<void(const OpState&)>;

  explicit OpState(OpKind kind) : kind_(kind) {}
  virtual ~OpState();
  OpState(const OpState&) = delete;
  OpState& operator=(const OpState&) = delete;

  OpKind kind() const { return kind_; }
  // Its place among the collectives of the group; zero for point-to-point operations.
  uint64_t sequence() const { return sequence_.load(std::memory_order_relaxed); }

  // True in a process that was forked since: nobody there will ever end it.
  bool was_forked() const { return fork_generation_ != fork_generation(); }
  bool has_ended() const { return outcome_.load(std::memory_order_acquire) > static_cast<uint32_t>(Outcome::kEnding); }
  Outcome outcome() const;
  // Valid once it has ended; ok when it is done.
  const Error& error() const { return error_; }
  // Nanoseconds of the monotonic clock; zero while not known.
  int64_t started_ns() const { return started_ns_.load(std::memory_order_relaxed); }
  int64_t ended_ns() const { return ended_ns_; }

  // Asked by whoever is about to end it as done: an error when something is wrong with the data that came in. Once.
  virtual Error inspect() { return {}; }

  // Ends the operation; the first call wins and returns true. Wakes the waiters, then runs the continuations.
  bool end(Outcome outcome, Error error = {});

  // Waits until it has ended; kExpired when the deadline passed first, kInterrupted when `interrupted` said so, which
  // is asked every 50 ms. Without a deadline of the caller's own (`may_help`) it runs queued work itself rather than
  // sleep: the operation's deadline then bounds it.
  enum class WaitResult { kEnded, kExpired, kInterrupted };
  WaitResult wait(Deadline deadline, bool may_help, bool (*interrupted)());

  // Runs just before anybody can see that the operation has ended, on the thread that ends it; it must not wait for it.
  // Set by the issuer, before the operation is issued.
  void set_before_end(std::function<void()> hook) { before_end_ = std::move(hook); }

  // Runs `next` once the operation has ended, on the thread that ended it; at once when it has ended already.
  void then(Continuation next);

  // True on a thread that is inside a continuation: it must not wait for the threads that end operations.
  static bool is_running_continuations();

  // --- For whoever issues it -------------------------------------------------------------------------------------

  // An operation made of several engine requests (a coalesced block) ends when the last of them has: one part for each,
  // and one for the issuer, who leaves last.
  bool is_block() const { return kind_ == OpKind::kCoalesced; }
  void add_part() {
    parts_.fetch_add(1, std::memory_order_relaxed);
    had_parts_.store(true, std::memory_order_relaxed);
  }
  // Whether anything was added beside the issuer's own.
  bool has_parts() const { return had_parts_.load(std::memory_order_relaxed); }
  // True for the last part. `error` of the first part that failed is kept.
  bool leave_part(const Error& error);
  const Error& first_part_error() const { return part_error_; }

  // Entries of the flight recorder that end with the operation: its own, or those of all that a block is made of. By the
  // issuing thread, while the operation cannot have ended.
  void record_end_in(const recorder::Entry& entry) {
    if (!entry) return;
    if (!record_) {
      record_ = entry;
    } else {
      more_records_.push_back(entry);
    }
  }

  void set_started(int64_t ns) { started_ns_.store(ns, std::memory_order_relaxed); }
  void set_sequence(uint64_t sequence) { sequence_.store(sequence, std::memory_order_relaxed); }
  void set_lane(std::shared_ptr<Lane> lane) { lane_ = std::move(lane); }
  const std::shared_ptr<Lane>& lane() const { return lane_; }

  // Its place on the stream: a waiter may run what is queued up to there. Zero: it is not on the stream.
  void set_position(uint64_t position) { position_.store(position, std::memory_order_release); }

  size_t in_flight_slot = 0;  // InFlight's, under its lock

 private:
  struct Node;
  void run_continuations();
  void end_records(Outcome outcome) const;

  const OpKind kind_;
  const uint32_t fork_generation_ = fork_generation();
  std::shared_ptr<Lane> lane_;        // set before it is issued
  std::function<void()> before_end_;  // likewise
  recorder::Entry record_;
  std::vector<recorder::Entry> more_records_;
  std::atomic<uint64_t> sequence_{0};
  std::atomic<uint64_t> position_{0};

  std::atomic<uint32_t> outcome_{static_cast<uint32_t>(Outcome::kPending)};
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<uint32_t> parts_{1};
  std::atomic<bool> had_parts_{false};
  std::atomic<bool> part_failed_{false};
  std::atomic<Node*> continuations_{nullptr};
  std::atomic<int64_t> started_ns_{0};

  // Written once by the thread that ends the operation, before the outcome is published.
  Error part_error_;
  Error error_;
  int64_t ended_ns_ = 0;
};

}  // namespace pycomms
