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

}  // namespace hostccl
