// A window of a communicator on the host: it stands between callers and the engine's handle, which is there as long as somebody
// is inside. An error of a window concerns the call that met it: the communicator does not fail by it, and a window works on
// after the failure of a member that is not asked for anything.
//
// Any thread may call anything, close() too. Must not know: torch, what the memory means.
#pragma once

#include <memory>

#include "base/gate.h"
#include "nccl2/core/communicator.h"

namespace pycomms {

class HostWindow {
 public:
  // Collective. The memory is the caller's, until close() has returned.
  static Error make(std::shared_ptr<Communicator> communicator, void* data, size_t bytes,
                    const hostccl::WindowOptions& options, int64_t timeout, std::shared_ptr<HostWindow>* result);
  ~HostWindow();
  HostWindow(const HostWindow&) = delete;
  HostWindow& operator=(const HostWindow&) = delete;

  const std::shared_ptr<Communicator>& communicator() const { return communicator_; }

  // Collective when `together`. Calls that are inside end. Closing again does nothing.
  Error close(bool together, int64_t timeout);
  bool is_closed() const { return gate_.is_closed(); }

  // call(functions, handle) -> EngineResult
  template <typename Call>
  Error call(OpKind kind, Call&& call) {
    const GateHolder open(gate_);
    if (!open) [[unlikely]]
      return closed(kind);
    const GateHolder inside(communicator_->gate_);
    if (!inside || !is_usable()) [[unlikely]] {
      if (Error error = why_not(kind)) return error;
    }
    const EngineResult result = call(communicator_->engine_.windows, handle_);
    if (result == nccl_abi::kSuccess) [[likely]]
      return {};
    return gate_.is_closed() ? closed(kind) : explain(result, kind);
  }

 private:
  explicit HostWindow(std::shared_ptr<Communicator> communicator) : communicator_(std::move(communicator)) {}

  // Also after a member's failure, and while a regroup is being prepared.
  bool is_usable() const {
    const LifeState state = communicator_->state();
    const bool serves = state == LifeState::kReady || state == LifeState::kFailed || state == LifeState::kRegrouping;
    return serves && !communicator_->was_forked();
  }
  Error closed(OpKind kind) const;
  Error why_not(OpKind kind) const;
  Error explain(EngineResult result, OpKind kind) const;

  const std::shared_ptr<Communicator> communicator_;  // shared: a window may outlive its group
  Gate gate_;
  hostccl::WindowHandle handle_ = nullptr;  // constant while the gate is open
};

}  // namespace pycomms
