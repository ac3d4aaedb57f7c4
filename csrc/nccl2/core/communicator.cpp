#include "nccl2/core/communicator.h"

#include <sched.h>
#include <time.h>

#include <algorithm>

#include "nccl2/core/failure.h"
#include "nccl2/core/interrupt.h"

namespace pycomms {
namespace {

constexpr int64_t kEngineGrace = 1 * kSecond;  // the engine's own deadline comes first: it names who is missing

// Waits a little longer each time: a connection takes tens of microseconds to seconds.
class Backoff {
 public:
  void pause() {
    if (++rounds_ < 64) {
      sched_yield();
      return;
    }
    const timespec nap{0, std::min<long>(rounds_ * kMicrosecond, kMillisecond)};
    nanosleep(&nap, nullptr);
  }

 private:
  int rounds_ = 0;
};

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

// --- Connecting ------------------------------------------------------------------------------------------------------

Error Communicator::start() {
  if (rendezvous_ == nullptr || started_.exchange(true)) return {};
  const Deadline deadline = Deadline::after(timeout());
  UniqueId id{};
  if (rank() == kIdMaker) {
    if (engine_.nccl.get_unique_id(&id) != nccl_abi::kSuccess) {
      return make_error(ErrorKind::kSystem,
                        "the engine has no unique id to give: " + last_engine_text(engine_, nullptr));
    }
    if (size() > 1) {
      if (Error error = rendezvous_->publish(id)) return fail(std::move(error));
    }
  } else if (Error error = rendezvous_->fetch(&id, deadline)) {
    return fail(std::move(error));
  }

  nccl_abi::Config config;
  config.blocking = 0;
  config.comm_name = options_.group.c_str();
  if (engine_.host.set_init_timeout != nullptr) engine_.host.set_init_timeout(deadline.left());
  CommHandle comm = nullptr;
  const EngineResult result = engine_.nccl.comm_init_rank_config(&comm, size(), id, rank(), &config);
  if (comm != nullptr) adopt(comm);
  if (result == nccl_abi::kSuccess || result == nccl_abi::kInProgress) return {};
  return fail(make_error(ErrorKind::kSystem, "cannot connect: " + last_engine_text(engine_, comm)));
}

void Communicator::adopt(CommHandle comm) {
  comm_ = comm;
  lane_->open(comm);
  lifecycle_.advance(LifeState::kNew, LifeState::kConnecting);
}

Error Communicator::become_ready(Deadline deadline) {
  if (lifecycle_.is_ready()) return {};
  if (Error error = start()) return error;
  Backoff backoff;
  int64_t next_poll = now_ns() + kInterruptPoll;
  for (;;) {
    const LifeState now_in = state();
    if (now_in == LifeState::kReady) return {};
    if (now_in == LifeState::kFailed || now_in == LifeState::kRevoked || now_in == LifeState::kClosed)
      return first_error();
    // kNew: another thread is on its way through start().
    EngineResult progress = nccl_abi::kInProgress;
    if (now_in == LifeState::kConnecting) {
      const EngineResult asked = engine_.nccl.comm_get_async_error(comm_, &progress);
      if (asked != nccl_abi::kSuccess) progress = asked;
    }
    if (progress == nccl_abi::kSuccess) {
      if (Error error = check_membership()) return fail(std::move(error));
      lifecycle_.advance(LifeState::kConnecting, LifeState::kReady);
      continue;
    }
    if (progress != nccl_abi::kInProgress) return explain_served(progress, OpKind::kConnect, 0);

    const int64_t now = now_ns();
    if (deadline.passed(now)) return make_error(ErrorKind::kTimeout, "it is still connecting: not all ranks have come");
    if (now >= next_poll) {
      if (options_.interrupted != nullptr && options_.interrupted()) {
        return make_error(ErrorKind::kInterrupted, "interrupted while connecting");
      }
      if (options_.outer) {
        if (Error error = options_.outer()) return error;
      }
      next_poll = now + kInterruptPoll;
    }
    backoff.pause();
  }
}

// A split in which ranks disagree about who is in gives a communicator of another size or order.
Error Communicator::check_membership() {
  int count = 0;
  int rank = -1;
  if (engine_.nccl.comm_count(comm_, &count) != nccl_abi::kSuccess) return {};
  if (engine_.nccl.comm_user_rank(comm_, &rank) != nccl_abi::kSuccess) return {};
  if (count == size() && rank == this->rank()) return {};
  return make_error(ErrorKind::kMismatch,
                    "this rank expected to be rank " + std::to_string(this->rank()) + " of " + std::to_string(size()) +
                        " but the ranks formed a communicator in which it is " + std::to_string(rank) + " of " +
                        std::to_string(count) + ": do all ranks create and split groups in the same order?");
}

Error Communicator::split(int color, CommunicatorOptions child, int key, std::unique_ptr<Communicator>* result) {
  const Deadline deadline = Deadline::after(std::min(child.timeout, timeout()));
  const GateHolder inside(gate_);
  if (!inside || was_forked()) return check(OpKind::kSplit);
  if (Error error = become_ready(deadline)) return error;
  if (!wait_for_pending(deadline)) {
    return make_error(ErrorKind::kTimeout, "cannot split: earlier operations are still in flight");
  }
  nccl_abi::Config config;
  config.blocking = 0;
  config.comm_name = child.group.c_str();
  if (engine_.host.set_init_timeout != nullptr) engine_.host.set_init_timeout(deadline.left());
  CommHandle comm = nullptr;
  const EngineResult begun = engine_.nccl.comm_split(comm_, color, key, &comm, &config);
  if (Error error = await_split(begun, deadline)) return error;
  if (color == nccl_abi::kSplitNoColor) return {};
  *result = std::make_unique<Communicator>(engine_, runtime_, std::move(child));
  (*result)->adopt(comm);
  return {};
}

// What the engine has begun ends with the deadline, with the group, with Ctrl-C, and when a member is known to be gone.
Error Communicator::await_split(EngineResult result, Deadline deadline) {
  const int64_t grace = engine_.is_host() ? kEngineGrace : 0;  // its own deadline is the same
  int64_t next_poll = now_ns() + kInterruptPoll;
  for (Backoff backoff; result == nccl_abi::kInProgress; backoff.pause()) {
    if (!lifecycle_.is_ready()) return first_error();
    const int64_t now = now_ns();
    if (now - grace >= deadline.ns()) {
      return fail(
          make_error(ErrorKind::kTimeout, "split: not all members have made the new communicator by the deadline"));
    }
    if (now >= next_poll) {
      if (options_.interrupted != nullptr && options_.interrupted()) {
        return fail(make_error(ErrorKind::kInterrupted, "interrupted while splitting"));
      }
      if (options_.outer) {
        if (Error error = options_.outer()) return fail(std::move(error));
      }
      next_poll = now + kInterruptPoll;
    }
    const EngineResult asked = engine_.nccl.comm_get_async_error(comm_, &result);
    if (asked != nccl_abi::kSuccess) result = asked;
  }
  return result == nccl_abi::kSuccess ? Error() : explain_served(result, OpKind::kSplit, 0);
}

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

EngineResult Communicator::settle(EngineResult result) {
  if (result != nccl_abi::kInProgress) [[likely]]
    return result;
  const Deadline deadline = Deadline::after(timeout());
  for (Backoff backoff; result == nccl_abi::kInProgress; backoff.pause()) {
    if (deadline.passed()) return nccl_abi::kTimeout;
    const EngineResult asked = engine_.nccl.comm_get_async_error(comm_, &result);
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
  mine->end(outcome_of(mine->first_part_error()), mine->first_part_error());
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
