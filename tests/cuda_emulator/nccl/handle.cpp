#include "handle.h"

#include "base/futex.h"
#include "device_runtime.h"
#include "refusal.h"
#include "registrations.h"

namespace nccl_emulator {
namespace {

constexpr int64_t kCloseTimeout = 30 * pycomms::kSecond;
constexpr int64_t kLook = 20 * pycomms::kMillisecond;

struct Registry {
  std::mutex mutex;
  uintptr_t next = 0x10000;                         // GUARDED_BY(mutex)
  std::map<Comm, std::shared_ptr<Handle>> handles;  // GUARDED_BY(mutex)
};

Registry& registry() {  // never destroyed: threads may still call
  static auto* one = new Registry();
  return *one;
}

}  // namespace

const char* state_name(State state) {
  switch (state) {
    case State::kMaking:
      return "being made";
    case State::kReady:
      return "ready";
    case State::kSuspended:
      return "suspended";
    case State::kRevoked:
      return "revoked";
    case State::kFinalized:
      return "finalized";
    case State::kFailed:
      return "failed";
  }
  return "unknown";
}

std::shared_ptr<Handle> Handle::create(int device, bool blocking) {
  const std::lock_guard lock(registry().mutex);
  const auto id = reinterpret_cast<Comm>(registry().next);
  registry().next += 16;
  const std::shared_ptr<Handle> handle(new Handle(device, blocking, id));
  registry().handles[id] = handle;
  return handle;
}

std::shared_ptr<Handle> Handle::find(Comm comm) {
  const std::lock_guard lock(registry().mutex);
  const auto at = registry().handles.find(comm);
  if (at != registry().handles.end()) return at->second;
  last_error() = comm == nullptr ? "the communicator is null" : "the communicator was destroyed, or never made";
  return nullptr;
}

size_t Handle::count() {
  const std::lock_guard lock(registry().mutex);
  return registry().handles.size();
}

void Handle::forget() {
  const std::lock_guard lock(registry().mutex);
  registry().handles.erase(id_);
}

// --- making

void Handle::rename(std::string name) {
  const std::lock_guard lock(mutex_);
  name_ = std::move(name);
}

void Handle::adopt(InnerComm inner) {
  inner_.store(inner, std::memory_order_seq_cst);
  if (is_cancelled_.load(std::memory_order_seq_cst)) hostccl::hostcclCommCancel(inner, "aborted");
}

Result Handle::await_inner() {
  hostccl::Communicator& comm = inner()->impl;
  Result result = nccl_abi::kInProgress;
  while (result == nccl_abi::kInProgress) result = comm.wait_until_ready(pycomms::Deadline::after(kLook));
  return hostccl::done(inner(), result) == nccl_abi::kSuccess ? nccl_abi::kSuccess : told(result);
}

void Handle::settle(Result result) {
  {
    const std::lock_guard lock(mutex_);
    state_ = result == nccl_abi::kSuccess ? State::kReady : State::kFailed;
    if (result != nccl_abi::kSuccess) error_ = {result, last_error()};
    owns_inner_ = !is_cancelled_.load(std::memory_order_acquire);
    if (owns_inner_) return;
  }
  // The program has given the communicator up meanwhile.
  if (const InnerComm inner = take_inner()) inner_ncclCommAbort(inner);
}

InnerComm Handle::take_inner() {
  const std::lock_guard lock(inner_mutex_);
  return inner_.exchange(nullptr);
}

// --- state

State Handle::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

bool Handle::change(State from, State to) {
  const std::lock_guard lock(mutex_);
  if (state_ != from) return false;
  state_ = to;
  return true;
}

Result Handle::check_ready(const char* function) const {
  const std::lock_guard lock(mutex_);
  const std::string who = std::string(function) + ": the communicator ";
  if (is_cancelled_.load(std::memory_order_acquire)) return refuse(nccl_abi::kInvalidUsage, who + "is being aborted");
  if (error_.result != nccl_abi::kSuccess) return refuse(error_.result, error_.text);
  if (state_ == State::kMaking || has_stall() || calls_in_progress_.load(std::memory_order_acquire) != 0) {
    return refuse(nccl_abi::kInvalidArgument, who + "is in progress: wait until ncclCommGetAsyncError tells success");
  }
  if (state_ == State::kReady) return nccl_abi::kSuccess;
  return refuse(nccl_abi::kInvalidUsage, who + "is " + state_name(state_));
}

Result Handle::poll() {
  std::shared_ptr<Stall> stall;
  {
    const std::lock_guard lock(mutex_);
    stall = stall_;
  }
  if (stall != nullptr) {
    if (!stall->poll()) return nccl_abi::kInProgress;
    const std::lock_guard lock(mutex_);
    if (stall_ == stall) stall_.reset();
  }
  if (calls_in_progress_.load(std::memory_order_acquire) != 0) return nccl_abi::kInProgress;
  const std::lock_guard lock(mutex_);
  if (error_.result != nccl_abi::kSuccess) return error_.result;
  switch (state_) {
    case State::kMaking:
      return nccl_abi::kInProgress;
    case State::kRevoked:  // as NCCL, which waits until the operations in flight have ended
      return std::exchange(has_told_revoking_, true) ? nccl_abi::kSuccess : nccl_abi::kInProgress;
    case State::kReady:
    case State::kSuspended:
    case State::kFinalized:
    case State::kFailed:
      break;
  }
  return inner()->impl.async_error();
}

std::string Handle::error_text() const {
  const std::lock_guard lock(mutex_);
  if (error_.result != nccl_abi::kSuccess) return error_.text;
  if (state_ == State::kMaking || state_ == State::kRevoked || inner() == nullptr) return {};
  return inner()->impl.failure().text;
}

void Handle::break_down(OperationFault fault) {
  const std::lock_guard lock(mutex_);
  if (error_.result == nccl_abi::kSuccess) error_ = std::move(fault);
}

void Handle::stall(std::shared_ptr<Stall> stall) {
  const std::lock_guard lock(mutex_);
  stall_ = std::move(stall);
}

bool Handle::has_stall() const { return stall_ != nullptr && !stall_->is_over(); }

bool Handle::is_stalled() const {
  const std::lock_guard lock(mutex_);
  return has_stall();
}

std::string Handle::name_next(const std::string& what) {
  const std::lock_guard lock(mutex_);
  return name_ + "/" + what + "#" + std::to_string(made_[what]++);
}

std::shared_ptr<Rma> Handle::rma() const {
  const std::lock_guard lock(mutex_);
  return rma_;
}

void Handle::set_rma(std::shared_ptr<Rma> rma) {
  const std::lock_guard lock(mutex_);
  rma_ = std::move(rma);
}

bool Handle::has_grow_id() const {
  const std::lock_guard lock(mutex_);
  return grow_id_.has_value();
}

std::optional<UniqueId> Handle::exchange_grow_id(std::optional<UniqueId> id) {
  const std::lock_guard lock(mutex_);
  return std::exchange(grow_id_, id);
}

// --- ending

void Handle::cancel(const char* why) {
  std::shared_ptr<Stall> stall;
  {
    const std::lock_guard lock(mutex_);
    stall.swap(stall_);
  }
  if (stall != nullptr) stall->drop();
  release_->flag.store(1, std::memory_order_seq_cst);
  pycomms::futex_wake_all(release_->flag);
  const std::lock_guard lock(inner_mutex_);
  if (inner() != nullptr) hostccl::hostcclCommCancel(inner(), why);
}

Result Handle::close(bool abort) {
  gate_.close();
  bool owns_inner;
  {
    const std::lock_guard lock(mutex_);
    owns_inner = owns_inner_;
    abort |=
        state_ == State::kMaking || state_ == State::kRevoked || error_.result != nccl_abi::kSuccess || has_stall();
    if (abort) is_cancelled_.store(true, std::memory_order_seq_cst);
  }
  if (abort) cancel("aborted");
  forget();
  forget_registrations(id_);
  if (!owns_inner) return nccl_abi::kSuccess;  // whoever still makes it gives it back
  if (!gate_.wait_until_empty(pycomms::Deadline::after(kCloseTimeout))) {
    return refuse(nccl_abi::kInternalError, "calls were still inside when the communicator was closed");
  }
  const InnerComm inner = take_inner();
  if (inner == nullptr) return nccl_abi::kSuccess;
  if (abort) {
    const Result result = told(inner_ncclCommAbort(inner));
    if (abort_waits_for_device()) wait_for_device(device_);
    return result;
  }
  release_->flag.store(1, std::memory_order_seq_cst);
  pycomms::futex_wake_all(release_->flag);
  return told(inner_ncclCommDestroy(inner));
}

}  // namespace nccl_emulator
