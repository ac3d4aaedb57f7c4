#include "nccl2/core/communicator.h"

#include "nccl2/core/backoff.h"
#include "nccl2/core/recorded.h"

namespace pycomms {
namespace {

uint32_t record_group(const CommunicatorOptions& options) {
  recorder::Ring* ring = options.record ? recorder::process_ring() : nullptr;
  return ring != nullptr ? ring->add_group(*options.record) : 0;
}

}  // namespace

Communicator::Communicator(const Engine& engine, DeviceRuntime& runtime, CommunicatorOptions options)
    : engine_(engine),
      runtime_(runtime),
      options_(std::move(options)),
      fork_generation_(fork_generation()),
      lane_(std::make_shared<Lane>(engine, runtime, static_cast<FailureSource&>(*this))),
      recorded_as_(record_group(options_)),
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
    result = async_state(engine.nccl, comm);
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

}  // namespace pycomms
