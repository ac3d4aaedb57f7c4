// One collective under way on the lane: how it waits, and how it names itself when something goes wrong.
// Private to the lane. Threads: the one that runs the lane.
#pragma once

#include <string>

#include "hostccl/failures.h"
#include "hostccl/lane.h"

namespace hostccl {

class Lane::Turn final : public Waiting {
 public:
  Turn(Lane& lane, int64_t timeout_ns, bool interruptible)
      : waiter(lane.segment_, lane.watch_, *this, lane.patience_, timeout_ns, interruptible), lane_(lane) {}

  // "all_reduce #12 float32[1024] sum"
  std::string label() const;
  void name(Failure& failure) const;

  bool progress() override;
  bool needs(int peer) const override;
  Failure on_timeout(int64_t waited_ns) override;
  Failure on_death(int peer) override;
  Failure on_closed(int peer) override;
  Failure on_interrupt() override;

  Waiter waiter;
  Header header{};
  uint64_t sequence = 0;

 private:
  bool has_arrived(int peer) const;
  std::string last_of(int peer) const;

  Lane& lane_;
};

}  // namespace hostccl
