#include "hostccl/p2p_waiting.h"

#include <string>

#include "hostccl/failures.h"

namespace hostccl {

Failure timeout_of(const Segment& segment, const OperationName& name, int64_t waited_ns) {
  Failure failure = make_failure(FailureKind::kTimeout, segment.rank(),
                                 name.label + ": timeout after " + seconds(waited_ns) + " on rank " +
                                     std::to_string(segment.rank()) + ": the other side did not come");
  if (name.peer >= 0) add_rank(failure, name.peer);
  set_op(failure, name.op);
  return failure;
}

Failure P2pWaiting::named(Failure failure) const {
  set_op(failure, name_().op);
  return failure;
}

Failure P2pWaiting::on_timeout(int64_t waited_ns) { return timeout_of(segment_, name_(), waited_ns); }

Failure P2pWaiting::on_death(int peer) { return named(death_of(segment_, peer, name_().label)); }

Failure P2pWaiting::on_closed(int peer) { return named(closing_of(segment_, peer, name_().label)); }

Failure P2pWaiting::on_interrupt() {
  Failure failure = make_failure(FailureKind::kInterrupted, segment_.rank(),
                                 "rank " + std::to_string(segment_.rank()) + " was interrupted in " + name_().label);
  add_rank(failure, segment_.rank());
  return named(failure);
}

}  // namespace hostccl
