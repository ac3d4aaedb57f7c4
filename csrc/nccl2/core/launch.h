// The frames around every engine call, one for each way to run an operation:
//   run_inline   on the calling thread; it has ended when the frame returns
//   enqueue      on the communicator's stream; the state ends when the engine says so
//   post         a point-to-point request, independent of the stream
// Each checks the fork, the lifecycle and the gate, sets the deadline and counts. `call` is the engine call itself.
// Arguments are checked by the caller: a frame that was entered consumes a sequence number.
#pragma once

#include "nccl2/core/communicator.h"

namespace pycomms {

// True when nothing is on the stream that an operation on the calling thread would overtake.
inline bool can_run_inline(const Communicator& c) { return c.lane_->is_idle() && c.runtime_.can_run_inline(); }

// call(engine, comm, stream) -> EngineResult
template <typename Call>
Error run_inline(Communicator& c, OpKind kind, int64_t timeout, Call&& call) {
  const GateHolder inside(c.gate_);
  if (!inside || !c.lifecycle_.is_ready() || c.was_forked()) {
    if (Error error = c.check(kind)) return error;
  }
  const uint64_t sequence = c.next_sequence();
  c.apply_timeout(timeout);
  const EngineResult result = c.settle(call(c.engine_, c.comm_, nullptr));
  if (result == nccl_abi::kSuccess) [[likely]]
    return {};
  return c.explain(result, kind, sequence);
}

// call(engine, comm, stream) -> EngineResult. On an error nothing is in flight and `state` will not end by itself.
template <typename Call>
Error enqueue(Communicator& c, const std::shared_ptr<OpState>& state, int64_t timeout, Call&& call) {
  const GateHolder inside(c.gate_);
  if (!inside || !c.lifecycle_.is_ready() || c.was_forked()) {
    if (Error error = c.check(state->kind())) return error;
  }
  Result<StreamHandle> stream = c.lane_->stream(c.options_.group.c_str());
  if (!stream.is_ok()) return c.make_error(ErrorKind::kSystem, stream.status().message());
  c.apply_timeout(timeout);
  state->set_sequence(c.next_sequence());
  c.track(state, state->kind());
  c.lane_->enter_queue();
  EngineResult result = c.settle(call(c.engine_, c.comm_, stream.value()));
  uint64_t position = 0;
  if (result == nccl_abi::kSuccess) {
    result = c.runtime_.notify(stream.value(), &Communicator::on_stream, state.get(), &position);
  }
  if (result == nccl_abi::kSuccess) [[likely]] {
    state->set_position(position);
    return {};
  }
  c.lane_->leave_queue();
  Error error = c.explain(result, *state);
  c.finish_part(*state, state->kind(), error);
  return error;
}

// call(engine, comm, callback, arg) -> EngineResult; `kind` is what it sends or receives, for `state` may be a block.
template <typename Call>
Error post(Communicator& c, OpKind kind, const std::shared_ptr<OpState>& state, int64_t timeout, Call&& call) {
  const GateHolder inside(c.gate_);
  if (!inside || !c.lifecycle_.is_ready() || c.was_forked()) {
    if (Error error = c.check(kind)) return error;
  }
  c.apply_timeout(timeout);
  c.track(state, kind);
  const StreamCallback ended = is_receive(kind) ? &Communicator::on_receive : &Communicator::on_send;
  const EngineResult result = call(c.engine_, c.comm_, ended, static_cast<void*>(state.get()));
  if (result == nccl_abi::kSuccess) [[likely]]
    return {};
  Error error = c.explain(result, *state);
  c.finish_part(*state, kind, error);
  return error;
}

}  // namespace pycomms
