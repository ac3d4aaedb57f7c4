// A communicator whose operations run on streams of a device. It issues them with marks around them, and the supervisor
// follows the marks: an operation that has passed ends, one that is overdue, or a failure that the engine reports, fails the
// communicator. It is then revoked, or aborted, by the reaper, because engines may block for long in that.
//
// Any thread; operations are issued by one thread at a time. Must not know: torch, CUDA.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "nccl2/core/communicator.h"
#include "nccl2/core/device_op.h"
#include "nccl2/core/registrations.h"
#include "nccl2/core/supervisor.h"

namespace pycomms {

struct IssueOptions {
  int64_t timeout_ns = kForever;
  bool timed = false;  // DeviceOp::duration_ms() will be asked
};

// Asked while operations are in flight; an error when the group has failed or a member is known to be gone. has_left null:
// dead or no longer in the group. Otherwise: dead, and *has_left tells whether one is no longer in the group.
using Members = std::function<Error(bool* has_left)>;

class DeviceCommunicator final : public Supervised, public std::enable_shared_from_this<DeviceCommunicator> {
 public:
  DeviceCommunicator(std::shared_ptr<Communicator> communicator, DeviceEvents& events, Members members)
      : communicator_(std::move(communicator)), events_(events), members_(std::move(members)) {}

  const std::shared_ptr<Communicator>& communicator() const { return communicator_; }
  DeviceEvents& events() const { return events_; }

  // One operation: call(engine, comm, stream) -> EngineResult. On an error nothing is in flight.
  template <typename Call>
  Error submit(const std::shared_ptr<DeviceOp>& op, StreamHandle stream, const IssueOptions& options, Call&& call) {
    const GateHolder inside(communicator_->gate_);
    if (Error error = open(inside, op, stream, options)) return error;
    const EngineResult result = call(communicator_->engine_, communicator_->comm_, stream);
    return close(op, settle(*op, result));
  }

  // Several operations that the engine issues as one when the block is closed. Between the calls the engine's group of
  // this thread is open and names the communicator, which is therefore not freed meanwhile.
  Error open_block(const std::shared_ptr<DeviceOp>& op, StreamHandle stream, const IssueOptions& options);
  template <typename Call>
  Error add_to_block(DeviceOp& op, Call&& call) {
    const GateHolder inside(communicator_->gate_);
    if (!inside) return communicator_->first_error();
    const EngineResult result = call(communicator_->engine_, communicator_->comm_, op.stream());
    if (result == nccl_abi::kSuccess || result == nccl_abi::kInProgress) return {};
    return explain(result, op);
  }
  Error close_block(const std::shared_ptr<DeviceOp>& op);
  // Ends the block without running anything of it: what the engine thinks that it would take.
  Error estimate_block(const std::shared_ptr<DeviceOp>& op, float* microseconds);

  // --- Registered memory (device_communicator_memory.cpp); each connects first, and is called like an operation
  // Before an operation `kind`, when communicator()->memory() is stale: drops what is gone, registers what has come.
  Error refresh_memory(OpKind kind);
  // All segments of the pool that are not registered so yet. Collective if symmetric.
  Error register_memory(const PoolId& pool, const std::vector<DeviceSegment>& segments, Registrations::Mode mode);
  // When what is in flight has passed. Collective if it was registered so.
  Error deregister_memory(const PoolId& pool);
  // A window over this memory, which NCCL moves data to. Collective, both; the second when what is in flight has passed.
  Error register_window(void* data, size_t bytes, nccl_abi::WindowHandle* window);
  Error deregister_window(nccl_abi::WindowHandle window);
  // What the host waits for before memory that operations may use is taken back.
  Error wait_until_passed(OpKind kind);

  // The device refused something that an operation needs. Names rank, group and operation.
  Error device_error(OpKind kind, uint64_t sequence, const std::string& what) const {
    return make_error(ErrorKind::kSystem, kind, sequence, what);
  }

  bool supervise(int64_t now) override;

 private:
  // Ready, or why not.
  Error check_open(const GateHolder& inside, OpKind kind) {
    Communicator& c = *communicator_;
    if (inside && c.lifecycle_.is_ready() && !c.was_forked()) return {};
    return c.check(kind);
  }
  Error registration_error(OpKind kind, const Registrations::Answer& answer);
  Error refresh_open(OpKind kind);  // inside the gate, and ready
  Registrations::Settle settle();
  Error open(const GateHolder& inside, const std::shared_ptr<DeviceOp>& op, StreamHandle stream,
             const IssueOptions& options);
  Error close(const std::shared_ptr<DeviceOp>& op, EngineResult result);
  EngineResult settle(const DeviceOp& op, EngineResult result);
  Error play_sequels(DeviceOp& op);
  Error device_error(const DeviceOp& op, const std::string& what) const {
    return device_error(op.kind(), op.sequence(), what);
  }
  // "... all_reduce #5: what"
  Error make_error(ErrorKind kind, OpKind op, uint64_t sequence, const std::string& what) const;

  void keep_captured(const std::shared_ptr<DeviceOp>& op);
  void forget_captured();
  void retire_passed(std::string* why);
  bool is_busy();
  // What the engine's result means; if a member is gone, that says more.
  Error explain(EngineResult result, const DeviceOp& op) {
    return communicator_->explain_served(result, op.kind(), op.sequence());
  }
  Error find_failure(int64_t now, const std::string& device_failure);
  Error ask_members(int64_t now);
  Error overdue(const DeviceOp& op) const;
  void lose(Error why);
  CommHandle let_go();
  bool revoke();

  const std::shared_ptr<Communicator> communicator_;
  DeviceEvents& events_;
  const Members members_;
  int64_t asked_members_ = 0;  // of the supervisor's thread, as the next two
  int64_t head_since_ = 0;     // when the first in flight became the first; 0: not seen yet
  int64_t left_since_ = 0;     // when a member was seen to have left; 0: none
  std::atomic<bool> lost_{false};
  std::optional<GateHolder> block_inside_;  // of the issuing thread: while a block is open

  std::mutex mutex_;
  std::deque<std::shared_ptr<DeviceOp>> issued_;     // guarded by mutex_: in the order of issuing
  std::vector<std::shared_ptr<DeviceOp>> captured_;  // guarded by mutex_: until something is issued outside the capture
};

}  // namespace pycomms
