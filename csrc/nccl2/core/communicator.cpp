#include "nccl2/core/communicator.h"

#include "nccl2/core/backoff.h"
#include "nccl2/core/failure.h"
#include "nccl2/core/roots.h"

namespace pycomms {
namespace {

constexpr int64_t kEngineGrace = 1 * kSecond;  // the engine's own deadline comes first: it names who is missing

Outcome outcome_of(const Error& error) {
  if (!error) return Outcome::kDone;
  switch (error.detail().kind) {
    case ErrorKind::kTimeout:
      return Outcome::kTimedOut;
    case ErrorKind::kRevoked:
    case ErrorKind::kClosed:
    case ErrorKind::kInterrupted:
      return Outcome::kCancelled;
    case ErrorKind::kUsage:
    case ErrorKind::kMismatch:
    case ErrorKind::kPeerFailure:
    case ErrorKind::kNotFinite:
    case ErrorKind::kSystem:
      return Outcome::kFailed;
  }
  return Outcome::kFailed;
}

}  // namespace

Communicator::Communicator(const Engine& engine, DeviceRuntime& runtime, CommunicatorOptions options)
    : engine_(engine),
      runtime_(runtime),
      options_(std::move(options)),
      fork_generation_(fork_generation()),
      lane_(std::make_shared<Lane>(engine, runtime, static_cast<FailureSource&>(*this))),
      timeout_(options_.timeout) {}

// --- Operations ------------------------------------------------------------------------------------------------------

Error Communicator::check(OpKind kind) {
  if (was_forked()) {
    return make_error(ErrorKind::kUsage, std::string(traits(kind).name) + ": this process was forked from rank " +
                                             std::to_string(rank()) +
                                             " and is not a member of the group; call init_process_group here");
  }
  const Error error = become_ready(Deadline::after(timeout() + kEngineGrace));
  if (!error) return {};
  ErrorDetail detail = error.detail();
  detail.message = std::string(traits(kind).name) + " cannot run: " + detail.message;
  return Error(std::move(detail));
}

void Communicator::apply_timeout(int64_t ns) {
  if (applied_timeout_.load(std::memory_order_relaxed) == ns || engine_.host.comm_set_timeout == nullptr) return;
  applied_timeout_.store(ns, std::memory_order_relaxed);
  static_cast<void>(engine_.host.comm_set_timeout(comm_, ns));
}

EngineResult Communicator::settle(const Engine& engine, CommHandle comm, EngineResult result, Deadline deadline) {
  for (Backoff backoff; result == nccl_abi::kInProgress; backoff.pause()) {
    if (deadline.passed()) return nccl_abi::kTimeout;
    const EngineResult asked = engine.nccl.comm_get_async_error(comm, &result);
    if (asked != nccl_abi::kSuccess) return asked;
  }
  return result;
}

void Communicator::track(const std::shared_ptr<OpState>& state, OpKind kind) {
  pending_of(kind).fetch_add(1, std::memory_order_relaxed);
  if (state->is_block()) {
    state->add_part();  // in flight since the block began
  } else {
    enter(state);
  }
}

void Communicator::begin(const std::shared_ptr<OpState>& state) {
  pending_of(state->kind()).fetch_add(1, std::memory_order_relaxed);
  enter(state);
}

void Communicator::enter(const std::shared_ptr<OpState>& state) {
  state->set_lane(lane_);
  state->set_started(now_ns());
  lane_->in_flight().add(state);
}

void Communicator::end(OpState& state, const Error& error) { finish_part(state, state.kind(), error); }

void Communicator::finish_part(OpState& state, OpKind kind, const Error& error) {
  pending_of(kind).fetch_sub(1, std::memory_order_relaxed);  // first: after the last part nothing holds us
  if (!state.leave_part(error)) return;
  InFlight& in_flight = state.lane()->in_flight();
  const std::shared_ptr<OpState> mine = in_flight.remove(state);
  const Error first = mine->first_part_error() ? mine->first_part_error() : mine->inspect();
  mine->end(outcome_of(first), first);
  in_flight.settle();  // whoever waited may destroy this communicator now
}

void Communicator::on_stream(void* arg, EngineResult result) {
  auto& state = *static_cast<OpState*>(arg);
  state.lane()->leave_queue();
  owner(state).finish_part(state, state.kind(), result);
}

void Communicator::on_send(void* arg, EngineResult result) {
  auto& state = *static_cast<OpState*>(arg);
  owner(state).finish_part(state, OpKind::kSend, result);
}

void Communicator::on_receive(void* arg, EngineResult result) {
  auto& state = *static_cast<OpState*>(arg);
  owner(state).finish_part(state, OpKind::kRecv, result);
}

Communicator& Communicator::owner(const OpState& state) { return static_cast<Communicator&>(state.lane()->source()); }

void Communicator::finish_part(OpState& state, OpKind kind, EngineResult result) {
  finish_part(state, kind, result == nccl_abi::kSuccess ? Error() : explain(result, state));
}

Error Communicator::monitored_barrier(int64_t timeout, std::vector<int>* missing) {
  const Deadline deadline = Deadline::after(timeout);
  const GateHolder inside(gate_);
  if (!inside || was_forked()) return check(OpKind::kBarrier);
  if (Error error = become_ready(deadline)) return error;
  if (!wait_for_pending(deadline)) {
    return make_error(ErrorKind::kTimeout, "monitored barrier: earlier operations are still in flight");
  }
  std::vector<int> ranks(size());
  int count = 0;
  const uint64_t sequence = next_sequence();
  const EngineResult result = engine_.host.monitored_barrier(comm_, deadline.left(), ranks.data(), &count);
  if (result == nccl_abi::kSuccess) return {};
  if (result != nccl_abi::kTimeout) return explain(result, OpKind::kBarrier, sequence);
  ranks.resize(count);
  *missing = std::move(ranks);
  return make_error(ErrorKind::kTimeout, "monitored barrier timed out");
}

// --- Failure ---------------------------------------------------------------------------------------------------------

// "collective timeout on rank 1 of group 0: "
std::string Communicator::headline(ErrorKind kind) const {
  const char* what = kind == ErrorKind::kTimeout ? "collective timeout on " : "";
  return what + ("rank " + std::to_string(rank()) + " of group " + options_.group + ": ");
}

Error Communicator::make_error(ErrorKind kind, std::string message) const {
  ErrorDetail detail;
  detail.kind = kind;
  detail.message = headline(kind) + std::move(message);
  detail.group = options_.group;
  detail.rank = rank();
  return Error(std::move(detail));
}

Error Communicator::explain(EngineResult result, const OpState& state) {
  return explain(result, state.kind(), state.sequence());
}

Error Communicator::explain(EngineResult result, OpKind kind, uint64_t sequence) {
  const Explanation explanation = explain_engine(engine_, comm_, result);
  ErrorDetail detail;
  detail.kind = explanation.kind;
  detail.ranks = explanation.ranks;
  // The engine knows that the maker of the unique id is gone, and we know who that was.
  const bool maker_gone = kind == OpKind::kConnect && explanation.kind == ErrorKind::kPeerFailure;
  if (maker_gone && detail.ranks.empty()) detail.ranks = {root_rank(0, size(), 1)};
  detail.op = explanation.op.empty() ? traits(kind).name : explanation.op;
  detail.sequence = explanation.sequence != 0 ? explanation.sequence : sequence;
  detail.group = options_.group;
  detail.rank = rank();
  detail.message = headline(explanation.kind) + explanation.text;
  Error error(std::move(detail));
  return explanation.kind == ErrorKind::kUsage ? error : fail(std::move(error));
}

// The first failure runs the hook and stays; every later one, its echo, is answered with the first.
Error Communicator::fail(Error error) {
  if (lifecycle_.end(LifeState::kFailed, error) && options_.on_failure) options_.on_failure();
  Error first = first_error();
  return first ? first : error;
}

Error Communicator::need_all(OpKind kind) {
  const GateHolder inside(gate_);
  if (!inside || !lifecycle_.is_ready() || was_forked()) {
    if (Error error = check(kind)) return error;
  }
  if (engine_.host.comm_need_all == nullptr) return {};
  const EngineResult result = engine_.host.comm_need_all(comm_, traits(kind).name);
  return result == nccl_abi::kSuccess ? Error() : explain(result, kind, 0);
}

Error Communicator::give_up(ErrorDetail why) {
  const LifeState before = state();
  why.group = options_.group;
  why.rank = rank();
  const hostccl::Failure failure = to_failure(why);
  why.message = headline(why.kind) + why.message;
  const Error first = fail(Error(std::move(why)));
  const GateHolder inside(gate_);
  if (inside && before == LifeState::kReady && engine_.host.comm_fail != nullptr) {
    static_cast<void>(engine_.host.comm_fail(comm_, &failure));
  }
  return first;
}

}  // namespace pycomms
