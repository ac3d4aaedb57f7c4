// One collective under way on the lane: how it waits, and how it names itself when something goes wrong.
// Private to the lane. Threads: the one that runs the lane.
#pragma once

#include <string>
#include <vector>

#include "hostccl/lane.h"

namespace hostccl {

// "rank 2", "ranks 0, 1, 3"
std::string rank_list(const std::vector<int>& ranks);

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

// Shared with point to point: what is said about a dead or closed peer.
Failure death_of(const Segment& segment, int peer, const std::string& while_in);
Failure closing_of(const Segment& segment, int peer, const std::string& while_in);
std::string seconds(int64_t ns);

}  // namespace hostccl
