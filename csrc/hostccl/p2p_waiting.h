// How a wait for point-to-point requests progresses, and how it names itself when something goes wrong.
// Threads: the one that waits. Must not know: what is waited for.
#pragma once

#include <functional>
#include <utility>

#include "hostccl/p2p.h"
#include "hostccl/wait.h"

namespace hostccl {

class P2pWaiting final : public Waiting {
 public:
  // name: asked only when something goes wrong.
  P2pWaiting(const Segment& segment, P2p& p2p, std::function<OperationName()> name)
      : segment_(segment), p2p_(p2p), name_(std::move(name)) {}
  bool progress() override { return p2p_.progress(); }
  bool needs(int peer) const override { return p2p_.needs(peer); }
  Failure on_timeout(int64_t waited_ns) override;
  Failure on_death(int peer) override;
  Failure on_closed(int peer) override;
  Failure on_interrupt() override;

 private:
  Failure named(Failure failure) const;

  const Segment& segment_;
  P2p& p2p_;
  const std::function<OperationName()> name_;
};

Failure timeout_of(const Segment& segment, const OperationName& name, int64_t waited_ns);

}  // namespace hostccl
