// Communicators that the engine makes of another one: a part of its members.
#include <algorithm>

#include "nccl2/core/communicator.h"
#include "nccl2/core/interrupt.h"

namespace pycomms {

Error Communicator::split(int color, CommunicatorOptions child, int key, std::unique_ptr<Communicator>* result) {
  const Deadline deadline = Deadline::after(child.timeout);
  const GateHolder inside(gate_);
  if (!inside || was_forked()) return check(OpKind::kSplit);
  if (Error error = become_ready(deadline)) return error;
  if (Error error = wait_until_idle(OpKind::kSplit, deadline)) return error;
  nccl_abi::Config config = begin_child(child, deadline);
  CommHandle comm = nullptr;
  const EngineResult split = settle(engine_.nccl.comm_split(comm_, color, key, &comm, &config));
  if (split != nccl_abi::kSuccess) return explain(split, OpKind::kSplit, 0);
  if (color == nccl_abi::kSplitNoColor) return {};
  *result = std::make_unique<Communicator>(engine_, runtime_, std::move(child));
  (*result)->adopt(comm);
  return {};
}

Error Communicator::shrink(std::vector<int> excluded, Shrink how, CommunicatorOptions child,
                           std::unique_ptr<Communicator>* result) {
  const Deadline deadline = Deadline::after(child.timeout);
  const GateHolder inside(gate_);
  if (!inside || was_forked()) return check(OpKind::kShrink);
  const bool revokes = how == Shrink::kRevoke;
  if (revokes) {
    // What is in flight ends as cancelled before the engine stops it: whatever it leaves behind is no result.
    const Error why = make_error(ErrorKind::kRevoked, "it was shrunk and its operations were aborted");
    if (!lifecycle_.end(LifeState::kRevoked, why)) return first_error();
    lane_->in_flight().cancel_all(why);
  } else {
    if (Error error = become_ready(deadline)) return error;
    if (Error error = wait_until_idle(OpKind::kShrink, deadline)) return error;
  }
  nccl_abi::Config config = begin_child(child, deadline);
  CommHandle comm = nullptr;
  EngineResult shrunk = engine_.nccl.comm_shrink(comm_, excluded.data(), static_cast<int>(excluded.size()), &comm,
                                                 &config, revokes ? nccl_abi::kShrinkAbort : nccl_abi::kShrinkDefault);
  std::unique_ptr<Communicator> made;
  if (comm != nullptr) {  // declared ours first: it is given back, whatever happens
    made = std::make_unique<Communicator>(engine_, runtime_, std::move(child));
    made->adopt(comm);
  }
  // A revoked communicator has errors to tell only; the new one tells about itself.
  if (revokes && made != nullptr && shrunk == nccl_abi::kInProgress) shrunk = nccl_abi::kSuccess;
  shrunk = settle(shrunk);
  if (shrunk != nccl_abi::kSuccess) return explain(shrunk, OpKind::kShrink, 0);
  if (Error error = made->become_ready(deadline)) return error;
  *result = std::move(made);
  return {};
}

nccl_abi::Config Communicator::begin_child(const CommunicatorOptions& child, Deadline deadline) const {
  nccl_abi::Config config;
  config.blocking = 0;
  config.comm_name = child.group.c_str();
  if (engine_.host.set_init_timeout != nullptr) engine_.host.set_init_timeout(deadline.left());
  return config;
}

// Not for one that ends meanwhile: whoever ends it waits for us.
Error Communicator::wait_until_idle(OpKind kind, Deadline deadline) {
  for (;;) {
    const int64_t look = std::min(deadline.ns(), now_ns() + kInterruptPoll);
    if (lane_->in_flight().wait_until_empty(Deadline::at(look), nullptr)) return {};
    if (lifecycle_.has_ended()) return first_error();
    if (options_.interrupted != nullptr && options_.interrupted()) {
      return make_error(ErrorKind::kInterrupted, std::string(traits(kind).name) + ": interrupted");
    }
    if (!deadline.passed()) continue;
    return make_error(ErrorKind::kTimeout,
                      std::string("cannot ") + traits(kind).name + ": earlier operations are still in flight");
  }
}

}  // namespace pycomms
