// Moves point-to-point requests on while nobody waits for them: an asynchronous receive must arrive although its rank is
// computing. Whoever waits does better himself, so this thread only steps in when it finds requests pending and nobody at
// it; while there is traffic it looks every half millisecond, otherwise it sleeps.
//
// Threads: wake() from any; one thread of its own. Must not know: collectives.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "hostccl/p2p.h"
#include "hostccl/wait.h"

namespace hostccl {

class Background {
 public:
  Background(const Segment& segment, const PeerWatch& watch, P2p& p2p);
  ~Background();

  // A request was posted that did not end at once.
  void wake();

 private:
  void main();
  void take_over();

  const Segment& segment_;
  const PeerWatch& watch_;
  P2p& p2p_;
  std::atomic<uint32_t> parked_{0};  // 1: sleeps until woken
  std::atomic<bool> stop_{false};
  std::once_flag started_;
  std::thread thread_;
};

// How a wait for point-to-point requests progresses and names itself.
class P2pWaiting final : public Waiting {
 public:
  P2pWaiting(const Segment& segment, P2p& p2p) : segment_(segment), p2p_(p2p) {}
  bool progress() override { return p2p_.progress(); }
  bool needs(int peer) const override { return p2p_.needs(peer); }
  Failure on_timeout(int64_t waited_ns) override;
  Failure on_death(int peer) override;
  Failure on_closed(int peer) override;
  Failure on_interrupt() override;

 private:
  const Segment& segment_;
  P2p& p2p_;
};

}  // namespace hostccl
