// Communicators that the engine makes of another one: a part of its members.
#include <algorithm>

#include "nccl2/core/backoff.h"
#include "nccl2/core/communicator.h"
#include "nccl2/core/interrupt.h"

namespace pycomms {

Error Communicator::split(int color, CommunicatorOptions child, int key, std::unique_ptr<Communicator>* result) {
  const Deadline deadline = Deadline::after(std::min(child.timeout, timeout()));
  const GateHolder inside(gate_);
  if (!inside || was_forked()) return check(OpKind::kSplit);
  if (Error error = prepare_child(OpKind::kSplit, deadline)) return error;
  nccl_abi::Config config = begin_child(child, deadline);
  CommHandle comm = nullptr;
  EngineResult made = engine_.nccl.comm_split(comm_, color, key, &comm, &config);
  if (Error error = await_child(OpKind::kSplit, &made, options_.outer, deadline)) return error;
  if (made != nccl_abi::kSuccess) return explain_served(made, OpKind::kSplit, 0);
  if (color == nccl_abi::kSplitNoColor) return {};
  *result = around(comm, std::move(child));
  return {};
}

// What the engine has begun ends with the deadline, with the group, with Ctrl-C, and when `outer` knows that a member is gone.
Error Communicator::await_child(OpKind kind, EngineResult* result, const std::function<Error()>& outer,
                                Deadline deadline) {
  const int64_t grace = engine_.is_host() ? kEngineGrace : 0;  // its own deadline is the same
  int64_t next_poll = now_ns() + kInterruptPoll;
  for (Backoff backoff; *result == nccl_abi::kInProgress; backoff.pause()) {
    if (lifecycle_.has_ended()) return first_error();
    const int64_t now = now_ns();
    if (now - grace >= deadline.ns()) {
      return fail(make_error(
          ErrorKind::kTimeout,
          std::string(traits(kind).name) + ": not all members have made the new communicator by the deadline"));
    }
    const std::string doing = std::string("in ") + traits(kind).name;
    if (Error error = interruption(doing.c_str(), outer, now, &next_poll)) return fail(std::move(error));
    *result = async_state(engine_.nccl, comm_);
  }
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
    lifecycle_.end(LifeState::kRevoked, why);
    if (state() == LifeState::kClosed) return first_error();
    lane_->in_flight().cancel_all(why);
  } else if (Error error = prepare_child(OpKind::kShrink, deadline)) {
    return error;
  }
  nccl_abi::Config config = begin_child(child, deadline);
  CommHandle comm = nullptr;
  EngineResult shrunk = engine_.nccl.comm_shrink(comm_, excluded.data(), static_cast<int>(excluded.size()), &comm,
                                                 &config, revokes ? nccl_abi::kShrinkAbort : nccl_abi::kShrinkDefault);
  const auto outer = child.outer;  // of those that stay
  std::unique_ptr<Communicator> made = around(comm, std::move(child));
  // A revoked communicator has errors to tell only; the new one tells about itself.
  if (revokes && made != nullptr && shrunk == nccl_abi::kInProgress) shrunk = nccl_abi::kSuccess;
  if (revokes) {
    shrunk = settle(shrunk);
  } else if (Error error = await_child(OpKind::kShrink, &shrunk, outer, deadline)) {
    return error;
  }
  if (shrunk != nccl_abi::kSuccess) return explain(shrunk, OpKind::kShrink, 0);
  if (Error error = made->become_ready(deadline)) return error;
  *result = std::move(made);
  return {};
}

Error Communicator::unique_id_to_grow(UniqueId* id) {
  const GateHolder inside(gate_);
  if (!inside || was_forked()) return check(OpKind::kGrow);
  const EngineResult given = engine_.nccl.comm_get_unique_id(comm_, id);
  return given == nccl_abi::kSuccess ? Error() : explain_served(given, OpKind::kGrow, 0);
}

Error Communicator::grow(const UniqueId* id, CommunicatorOptions child, std::unique_ptr<Communicator>* result) {
  const Deadline deadline = Deadline::after(child.timeout);
  const GateHolder inside(gate_);
  if (!inside || was_forked()) return check(OpKind::kGrow);
  if (Error error = prepare_child(OpKind::kGrow, deadline)) return error;
  nccl_abi::Config config = begin_child(child, deadline);
  CommHandle comm = nullptr;
  EngineResult grown = engine_.nccl.comm_grow(comm_, child.size, id, -1, &comm, &config);
  const auto outer = child.outer;
  std::unique_ptr<Communicator> made = around(comm, std::move(child));
  if (Error error = await_child(OpKind::kGrow, &grown, outer, deadline)) return error;
  if (grown != nccl_abi::kSuccess || made == nullptr) return explain_served(grown, OpKind::kGrow, 0);
  if (Error error = made->become_ready(deadline)) return error;
  *result = std::move(made);
  return {};
}

Error Communicator::join_grown(const UniqueId& id, Deadline deadline) {
  started_.store(true);
  nccl_abi::Config config = begin_child(options_, deadline);
  CommHandle comm = nullptr;
  const EngineResult result = engine_.nccl.comm_grow(nullptr, size(), &id, rank(), &comm, &config);
  if (comm != nullptr) adopt(comm);
  if (result != nccl_abi::kSuccess && result != nccl_abi::kInProgress) return explain_served(result, OpKind::kGrow, 0);
  return become_ready(deadline);
}

// Ours from here on: the engine gets it back, whatever happens. Null when the engine made none.
std::unique_ptr<Communicator> Communicator::around(CommHandle comm, CommunicatorOptions child) const {
  if (comm == nullptr) return nullptr;
  auto made = std::make_unique<Communicator>(engine_, runtime_, std::move(child));
  made->adopt(comm);
  return made;
}

// One that is paused is ready, and idle.
Error Communicator::prepare_child(OpKind kind, Deadline deadline) {
  if (state() == LifeState::kRegrouping) return {};
  if (Error error = become_ready(deadline)) return error;
  return wait_until_idle(kind, deadline);
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
