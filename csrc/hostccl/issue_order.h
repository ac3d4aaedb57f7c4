// The order of one communicator's operations on external streams: that of their issue, whichever stream each is on. All
// ranks issue in the same order, so all run in the same order, and no two ranks wait for each other's second operation.
// What is captured into a graph has an order of its own, that of the capture, which starts again with each launch.
//
// It outlives its communicator: work that is still queued when that is aborted finds the gate closed.
// Threads: any. Must not know: what is ordered, streams.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "base/gate.h"

namespace hostccl {

class Communicator;

class IssueOrder : public std::enable_shared_from_this<IssueOrder> {
  struct Chain;

 public:
  // Where one operation stands. Given back when it has run, or when it is dropped and never will.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept
        : order_(std::move(other.order_)), chain_(std::move(other.chain_)), number_(other.number_) {}
    Place& operator=(Place&&) = delete;
    ~Place() { leave(); }

    // Everything before it has ended, or has been dropped.
    bool has_come() const;
    // After a run: it is the turn of the next.
    void pass();

   private:
    friend class IssueOrder;
    void leave();

    std::shared_ptr<IssueOrder> order_;  // null: given back
    std::shared_ptr<Chain> chain_;       // null: not captured
    uint64_t number_ = 0;
  };

  explicit IssueOrder(Communicator& comm) : comm_(comm) {}

  // capture: 0, or what names the capture that the operation becomes part of.
  Place take(uint64_t capture);

  // Whoever runs an operation holds the gate; it is open as long as the communicator may be touched.
  pycomms::Gate& gate() { return gate_; }
  Communicator& communicator() { return comm_; }

  // Waits until what has been issued has run, or the communicator has failed; then until nobody is inside. False: not
  // before the deadline.
  bool close(pycomms::Deadline deadline);

 private:
  // The operations of one capture.
  struct Chain {
    std::atomic<uint64_t> size{0};
    std::atomic<uint64_t> passed{0};  // over all launches
  };

  void give_back(uint64_t number);
  void wake();

  Communicator& comm_;
  pycomms::Gate gate_;
  std::atomic<uint64_t> first_{0};  // the lowest number that has not been given back; written under mutex_

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ = 0;               // GUARDED_BY(mutex_)
  std::set<uint64_t> outstanding_;  // GUARDED_BY(mutex_)
  uint64_t capture_ = 0;            // GUARDED_BY(mutex_): the latest
  std::shared_ptr<Chain> chain_;    // GUARDED_BY(mutex_): of capture_
};

}  // namespace hostccl
