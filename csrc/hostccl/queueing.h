// How an operation on an external stream waits for its turn, and how it names itself when something goes wrong.
// Threads: the one that waits. Must not know: what the order is.
#pragma once

#include <string>
#include <utility>

#include "hostccl/failures.h"
#include "hostccl/p2p.h"
#include "hostccl/wait.h"

namespace hostccl {

class Queueing final : public Waiting {
 public:
  // what: "all_reduce float32[8] sum"
  Queueing(const Segment& segment, P2p& p2p, std::string what) : segment_(segment), p2p_(p2p), what_(std::move(what)) {}
  bool progress() override { return p2p_.progress_if_pending(); }
  // Whether a peer's leaving matters is known to the operations themselves.
  bool needs(int) const override { return false; }
  Failure on_timeout(int64_t waited_ns) override {
    return by_us(FailureKind::kTimeout,
                 "waited " + seconds(waited_ns) + " for what was issued before it on other streams, and has not ended");
  }
  Failure on_death(int peer) override { return death_of(segment_, peer, what_); }
  Failure on_closed(int peer) override { return closing_of(segment_, peer, what_); }
  Failure on_interrupt() override { return by_us(FailureKind::kInterrupted, "was interrupted"); }

 private:
  Failure by_us(FailureKind kind, const std::string& how) const {
    Failure failure =
        make_failure(kind, segment_.rank(), what_ + " on rank " + std::to_string(segment_.rank()) + " " + how);
    add_rank(failure, segment_.rank());
    return failure;
  }

  const Segment& segment_;
  P2p& p2p_;
  const std::string what_;
};

}  // namespace hostccl
