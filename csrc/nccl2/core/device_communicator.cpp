#include "nccl2/core/device_communicator.h"

#include <sched.h>

#include <algorithm>

#include "nccl2/core/reaper.h"

namespace pycomms {
namespace {

constexpr int64_t kAskMembersEvery = 5 * kMillisecond;
constexpr int64_t kRevoking = 10 * kSecond;
// A member that has left may have done its part of what is still in flight here, behind other work of this device.
constexpr int64_t kAfterLeaving = 5 * kSecond;

}  // namespace

// --- Issuing ---------------------------------------------------------------------------------------------------------

Error DeviceCommunicator::open(const GateHolder& inside, const std::shared_ptr<DeviceOp>& op, StreamHandle stream,
                               const IssueOptions& options) {
  Communicator& c = *communicator_;
  if (Error error = check_open(inside, op->kind())) return error;
  op->set_sequence(is_point_to_point(op->kind()) ? 0 : c.next_sequence());
  const bool captured = events_.is_capturing(stream);
  if (!captured) forget_captured();
  const int64_t deadline = Deadline::after(options.timeout_ns).ns();
  if (Status begun = op->begin_on(events_, stream, options.timed, captured, deadline); !begun.is_ok()) {
    return device_error(*op, begun.message());
  }
  if (!captured) c.begin(op);
  return {};
}

Error DeviceCommunicator::close(const std::shared_ptr<DeviceOp>& op, EngineResult result) {
  Communicator& c = *communicator_;
  Error error = result == nccl_abi::kSuccess ? play_sequels(*op) : explain(result, *op);
  if (!error) {
    // Without a mark nobody would ever know that it has passed.
    if (Status marked = op->end_on_stream(); !marked.is_ok()) error = c.fail(device_error(*op, marked.message()));
  }
  if (op->is_captured()) {
    keep_captured(op);
    op->end(error ? Outcome::kFailed : Outcome::kDone, error);
    return error;
  }
  if (error) {
    c.finish_part(*op, op->kind(), error);
    if (c.lifecycle_.has_ended()) lose(error);
    return error;
  }
  {
    const std::lock_guard lock(mutex_);
    issued_.push_back(op);
  }
  Supervisor::instance().wake();
  return {};
}

// A round of work, then a round of engine calls as one group, until no sequel has more. On an error here the other ranks
// have gone on, or wait for this one: it fails the communicator.
Error DeviceCommunicator::play_sequels(DeviceOp& op) {
  const auto sequels = op.take_sequels();
  if (sequels.empty()) [[likely]]
    return {};
  Communicator& c = *communicator_;
  for (;;) {
    std::vector<Sequel*> moving;
    for (const auto& sequel : sequels) {
      if (Status done = sequel->compute(); !done.is_ok()) return c.fail(device_error(op, done.message()));
      if (sequel->has_move()) moving.push_back(sequel.get());
    }
    if (moving.empty()) return {};
    // The memory of this round may have an address that is registered from before.
    if (c.memory() != nullptr && c.memory()->is_stale()) {
      if (Error error = refresh_open(op.kind())) return c.fail(std::move(error));
    }
    EngineResult first = c.engine_.nccl.group_start();
    for (size_t i = 0; i < moving.size() && (first == nccl_abi::kSuccess || first == nccl_abi::kInProgress); ++i) {
      first = moving[i]->move(c.engine_, c.comm_, op.stream());
    }
    const EngineResult ended = settle(op, c.engine_.nccl.group_end());
    const EngineResult result = first == nccl_abi::kInProgress || first == nccl_abi::kSuccess ? ended : first;
    if (result != nccl_abi::kSuccess) return c.fail(explain(result, op));
  }
}

// What a captured operation holds may not be given to others in the rest of the capture, even if its Work is dropped.
void DeviceCommunicator::keep_captured(const std::shared_ptr<DeviceOp>& op) {
  const std::lock_guard lock(mutex_);
  captured_.push_back(op);
}

void DeviceCommunicator::forget_captured() {
  std::vector<std::shared_ptr<DeviceOp>> gone;  // declared first: what they hold is freed when the lock is given back
  const std::lock_guard lock(mutex_);
  gone.swap(captured_);
}

// What a nonblocking communicator left in progress. It ends with the operation's deadline, and when the group is closed.
EngineResult DeviceCommunicator::settle(const DeviceOp& op, EngineResult result) {
  if (result != nccl_abi::kInProgress) [[likely]]
    return result;
  Communicator& c = *communicator_;
  while (result == nccl_abi::kInProgress) {
    if (now_ns() >= op.deadline_ns()) return nccl_abi::kTimeout;
    if (c.lifecycle_.has_ended()) return nccl_abi::kRemoteError;
    sched_yield();
    result = async_state(c.engine_.nccl, c.comm_);
  }
  return result;
}

Error DeviceCommunicator::open_block(const std::shared_ptr<DeviceOp>& op, StreamHandle stream,
                                     const IssueOptions& options) {
  block_inside_.emplace(communicator_->gate_);
  Error error = open(*block_inside_, op, stream, options);
  if (!error) {
    const EngineResult result = communicator_->engine_.nccl.group_start();
    if (result == nccl_abi::kSuccess) return {};
    error = close(op, result);
  }
  block_inside_.reset();
  return error;
}

Error DeviceCommunicator::close_block(const std::shared_ptr<DeviceOp>& op) {
  Error error = close(op, settle(*op, communicator_->engine_.nccl.group_end()));
  block_inside_.reset();
  return error;
}

Error DeviceCommunicator::estimate_block(const std::shared_ptr<DeviceOp>& op, float* microseconds) {
  nccl_abi::SimulationInfo info;
  static_cast<void>(op->take_sequels());  // nothing of the block runs, so nothing may come behind it
  Error error = close(op, settle(*op, communicator_->engine_.nccl.group_simulate_end(&info)));
  block_inside_.reset();
  *microseconds = info.estimated_us;
  return error;
}

// --- Watching, on the supervisor's thread ----------------------------------------------------------------------------

bool DeviceCommunicator::supervise(int64_t now) {
  if (thread_local bool may_query = false; !may_query) {
    events_.allow_queries_during_capture();
    may_query = true;
  }
  std::string device_failure;
  retire_passed(&device_failure);
  if (!is_busy()) return false;
  if (communicator_->lifecycle_.has_ended()) return true;  // lost already: until the device has let go
  if (Error why = find_failure(now, device_failure)) {
    // A member may leave as soon as the last operation has passed, which may have been a moment ago.
    retire_passed(&device_failure);
    if (is_busy() || communicator_->lifecycle_.has_ended()) lose(std::move(why));
  }
  return true;
}

bool DeviceCommunicator::is_busy() {
  const std::lock_guard lock(mutex_);
  return !issued_.empty();
}

// The engine runs the operations of a communicator in the order in which they were issued.
void DeviceCommunicator::retire_passed(std::string* why) {
  for (;;) {
    std::shared_ptr<DeviceOp> first;
    {
      const std::lock_guard lock(mutex_);
      if (issued_.empty()) return;
      first = issued_.front();
    }
    if (first->query(why) != DeviceEvents::State::kPassed) return;
    head_since_ = 0;
    {
      const std::lock_guard lock(mutex_);
      issued_.pop_front();
    }
    first->passed();
    // An engine that gave up lets its work pass too.
    const Error error = communicator_->lifecycle_.has_ended() ? communicator_->first_error() : Error();
    communicator_->finish_part(*first, first->kind(), error);
  }
}

Error DeviceCommunicator::find_failure(int64_t now, const std::string& device_failure) {
  Communicator& c = *communicator_;
  const GateHolder inside(c.gate_);  // the handle is not freed meanwhile
  if (!inside) return {};
  std::shared_ptr<DeviceOp> first;
  {
    const std::lock_guard lock(mutex_);
    if (issued_.empty()) return {};
    first = issued_.front();
  }
  if (!device_failure.empty()) return device_error(*first, device_failure);
  const EngineResult state = async_state(c.engine_.nccl, c.comm_);
  if (state != nccl_abi::kSuccess && state != nccl_abi::kInProgress) return explain(state, *first);
  if (members_ && now - asked_members_ >= kAskMembersEvery) {
    asked_members_ = now;
    if (Error gone = ask_members(now)) return gone;
  }
  if (now < first->deadline_ns()) return {};
  return overdue(*first);
}

Error DeviceCommunicator::ask_members(int64_t now) {
  if (head_since_ == 0) head_since_ = now;
  bool has_left = false;
  if (Error gone = members_(&has_left)) return gone;
  if (!has_left) return {};
  if (left_since_ == 0) left_since_ = now;
  return now - std::max(head_since_, left_since_) < kAfterLeaving ? Error() : members_(nullptr);
}

Error DeviceCommunicator::overdue(const DeviceOp& op) const {
  return make_error(
      ErrorKind::kTimeout, op.kind(), op.sequence(),
      "it has not ended on the device by its deadline: a member is late, stuck or gone, or work before it on "
      "its stream has not ended");
}

Error DeviceCommunicator::make_error(ErrorKind kind, OpKind op, uint64_t sequence, const std::string& what) const {
  std::string name = traits(op).name;
  if (sequence != 0) name += " #" + std::to_string(sequence);
  ErrorDetail detail = communicator_->make_error(kind, name + ": " + what).detail();
  detail.op = traits(op).name;
  detail.sequence = sequence;
  return Error(std::move(detail));
}

void DeviceCommunicator::lose(Error why) {
  const Error first = communicator_->fail(std::move(why));
  communicator_->lane_->in_flight().cancel_all(first);
  if (lost_.exchange(true)) return;
  Reaper::instance().abort({&communicator_->engine_.nccl, [self = shared_from_this()] { return self->let_go(); },
                            [self = shared_from_this()] { self->communicator_->forget_memory(); }},
                           Reaper::Wait::kNo);
}

// Stops what the engine has in flight. A regroup may make another communicator of one that was revoked; what cannot be revoked
// is aborted.
CommHandle DeviceCommunicator::let_go() {
  if (revoke()) return nullptr;
  if (!communicator_->stop(communicator_->first_error().detail().message)) return nullptr;
  return communicator_->release_handle();
}

bool DeviceCommunicator::revoke() {
  Communicator& c = *communicator_;
  const GateHolder inside(c.gate_);
  if (!inside || c.engine_.nccl.comm_revoke == nullptr) return false;
  const EngineResult revoked = c.engine_.nccl.comm_revoke(c.comm_, nccl_abi::kRevokeDefault);
  return Communicator::settle(c.engine_, c.comm_, revoked, Deadline::after(kRevoking)) == nccl_abi::kSuccess;
}

}  // namespace pycomms
