// A communicator as NCCL has it: a number for the program, the states that NCCL lets it see, and hostccl's communicator
// inside. One handle for each, alive as long as anybody uses it; a number that was given back is refused.
//
// State: making -> ready -> suspended and back, revoked or finalized; failed when it could not be made. Besides, it is in
// progress while a call on it is (a stall, a split), and broken when a test has ordered an asynchronous error.
// Threads: any. Must not know: the exported functions.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/gate.h"
#include "fault_plan.h"
#include "inner.h"
#include "stall.h"

namespace nccl_emulator {

class Rma;

enum class State { kMaking, kReady, kSuspended, kRevoked, kFinalized, kFailed };
const char* state_name(State state);

// What work on a stream waits for that is to end when its communicator does.
struct Release {
  std::atomic<uint32_t> flag{0};
};

class Handle : public std::enable_shared_from_this<Handle> {
 public:
  static std::shared_ptr<Handle> create(int device, bool blocking);
  // Null, and last_error() says why.
  static std::shared_ptr<Handle> find(Comm comm);
  static size_t count();

  Comm id() const { return id_; }
  int device() const { return device_; }
  bool is_blocking() const { return is_blocking_; }

  // --- while it is made, by whoever makes it
  // The same on all members, and no other communicator's.
  void rename(std::string name);
  // hostccl's communicator, as soon as there is one: from here on cancel() ends it.
  void adopt(InnerComm inner);
  // Blocks until the adopted one is ready.
  Result await_inner();
  void settle(Result result);  // with last_error() of this thread

  // --- state
  State state() const;
  // False: not in a state that allows it.
  bool change(State from, State to);
  // For a call that needs the communicator: kSuccess, or why not, with a text.
  Result check_ready(const char* function) const;
  // What ncclCommGetAsyncError tells.
  Result poll();
  std::string error_text() const;  // of what poll() tells, empty when all is well
  void break_down(OperationFault fault);

  void stall(std::shared_ptr<Stall> stall);
  bool is_stalled() const;
  void begin_call() { calls_in_progress_.fetch_add(1, std::memory_order_relaxed); }
  void end_call() { calls_in_progress_.fetch_sub(1, std::memory_order_release); }

  // --- use
  // Whoever uses the inner communicator holds the gate.
  pycomms::Gate& gate() { return gate_; }
  InnerComm inner() const { return inner_.load(std::memory_order_acquire); }
  const std::atomic<bool>& cancelled() const { return is_cancelled_; }
  std::shared_ptr<Release> release() const { return release_; }
  // Numbers the calls of one kind and content, so that the members can name what they make together.
  std::string name_next(const std::string& what);
  // One-sided operations; null until the first window is registered.
  std::shared_ptr<Rma> rma() const;
  void set_rma(std::shared_ptr<Rma> rma);
  bool has_grow_id() const;
  std::optional<UniqueId> exchange_grow_id(std::optional<UniqueId> id);

  // --- ending
  // Ends what is in flight.
  void cancel(const char* why);
  // Gives the number back. Blocks until nobody is inside.
  Result close(bool abort);

 private:
  Handle(int device, bool blocking, Comm id) : device_(device), is_blocking_(blocking), id_(id) {}
  bool has_stall() const;  // REQUIRES(mutex_)
  void forget();
  InnerComm take_inner();

  const int device_;
  const bool is_blocking_;
  const Comm id_;
  const std::shared_ptr<Release> release_ = std::make_shared<Release>();  // shared: work on streams outlives us

  pycomms::Gate gate_;
  std::mutex inner_mutex_;  // held while inner_ is cancelled or taken away: both may happen at any moment
  std::atomic<InnerComm> inner_{nullptr};
  std::atomic<bool> is_cancelled_{false};
  std::atomic<int> calls_in_progress_{0};

  mutable std::mutex mutex_;
  State state_ = State::kMaking;  // GUARDED_BY(mutex_), as all that follows
  std::string name_;
  bool owns_inner_ = false;  // otherwise whoever makes it gives it back
  OperationFault error_{nccl_abi::kSuccess, {}};
  bool has_told_revoking_ = false;
  std::shared_ptr<Stall> stall_;
  std::shared_ptr<Rma> rma_;
  std::map<std::string, int> made_;
  std::optional<UniqueId> grow_id_;
};

// The registry's frame around a call: finds the handle, or returns from the function.
#define NCCL_FIND(handle, comm)           \
  const auto handle = Handle::find(comm); \
  if (handle == nullptr) return nccl_abi::kInvalidArgument

}  // namespace nccl_emulator
