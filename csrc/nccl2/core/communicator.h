// One communicator of the engine and everything that surrounds a call to it: lazy connection, the lifecycle, the gate,
// sequence numbers, deadlines, and the decision where an operation runs. launch.h has the frames that operations use.
//
// Any thread may call anything; operations of one communicator are issued by one thread at a time, as in NCCL. No lock is
// held across an engine call. Must not know: torch, tensors, which engine it is.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fork.h"
#include "base/gate.h"
#include "nccl2/core/lane.h"
#include "nccl2/core/lifecycle.h"
#include "nccl2/core/op_state.h"
#include "nccl2/core/registrations.h"
#include "nccl2/core/rendezvous.h"
#include "recorder/ring.h"

namespace pycomms {

struct CommunicatorOptions {
  int rank = 0;
  int size = 1;
  std::string group;    // for messages
  int64_t timeout = 0;  // of an operation that brings none, and of connecting; nanoseconds
  // Called once, when the communicator fails, before anybody is told. No lock is held.
  std::function<void(const Error&)> on_failure;
  // Polled every 50 ms by whoever waits; true ends the wait.
  bool (*interrupted)() = nullptr;
  // Asked as often while it connects or splits: an error ends the wait. For a communicator that serves another one.
  std::function<Error()> outer;
  // How the flight recorder names it; none: what runs on it is not recorded.
  std::optional<recorder::GroupInfo> record;
  int ranks_per_root = 0;  // as many ranks get their own unique id where the engine takes several; 0: one for all
};

class Communicator final : private FailureSource {
 public:
  Communicator(const Engine& engine, DeviceRuntime& runtime, CommunicatorOptions options);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  const std::string& group() const { return options_.group; }
  int ranks_per_root() const { return options_.ranks_per_root; }
  const std::optional<recorder::GroupInfo>& record() const { return options_.record; }
  // Its number in the flight recorder's file; zero when it has none.
  uint32_t recorded_as() const { return recorded_as_; }
  const Engine& engine() const { return engine_; }
  DeviceRuntime& runtime() const { return runtime_; }
  bool (*interrupted() const)() { return options_.interrupted; }
  LifeState state() const { return lifecycle_.state(); }
  Error first_error() const { return lifecycle_.first_error(); }
  bool was_forked() const { return fork_generation() != fork_generation_; }

  // An operation that is in flight although no engine request is: it ends when end() was called and, in a coalesced
  // block, all its operations have ended.
  void begin(const std::shared_ptr<OpState>& state);
  void end(OpState& state, const Error& error);
  // One more part of a block that has begun; it ends with end(), too.
  void add_part(const std::shared_ptr<OpState>& block) { track(block, block->kind()); }

  // How the members find each other; before start() and before the first operation.
  void set_rendezvous(std::unique_ptr<Rendezvous> rendezvous) { rendezvous_ = std::move(rendezvous); }
  // Begins to connect and returns; the first rank makes the id, the others fetch it. The first call does it, whether the
  // owner makes it or the first operation.
  Error start();
  // Connects if nobody has begun to, and waits until it is ready, at most until the deadline.
  Error become_ready(Deadline deadline);

  // Collective over the members: a communicator of those that give the same color, or null for kSplitNoColor.
  Error split(int color, CommunicatorOptions child, int key, std::unique_ptr<Communicator>* result);
  // Collective over the members that stay: a communicator of them, in the same order, connected. Where the engine can.
  // With kRevoke it cancels what is in flight and is of no use afterwards, whether that worked or not.
  enum class Shrink { kWhenIdle, kRevoke };
  Error shrink(std::vector<int> excluded, Shrink how, CommunicatorOptions child, std::unique_ptr<Communicator>* result);
  // Of one that is to grow, on one of its members: the newcomers need it, and this member gives it to grow() as well.
  Error unique_id_to_grow(UniqueId* id);
  // Collective over the members and the newcomers: a communicator of all, connected. The members keep their ranks.
  Error grow(const UniqueId* id, CommunicatorOptions child, std::unique_ptr<Communicator>* result);
  // On a newcomer, instead of start().
  Error join_grown(const UniqueId& id, Deadline deadline);
  bool can_shrink() const { return engine_.nccl.comm_shrink != nullptr && state() == LifeState::kReady; }

  // Waits for what is in flight and gives the engine's memory back to the device; every member does the same. Operations
  // are refused until resume(). If something is still in flight at the deadline, nothing has happened.
  Error suspend(Deadline deadline);
  Error resume();

  // Its group is to get another communicator: nothing new is issued here. What is in flight is cancelled, and the members are
  // told; while nothing is, they notice nothing and end_pause() takes it back.
  void pause(const std::string& why);
  void end_pause();
  // Each rank brings `bytes`, at most hostccl::kExchangeBytes, and gets those of all, by rank. Has no sequence number. `kind`: what
  // it belongs to. That some did not come by the deadline harms nobody.
  Error exchange(OpKind kind, const void* mine, size_t bytes, void* all, Deadline deadline);

  Error memory_statistic(nccl_abi::MemoryStatistic which, uint64_t* value);

  // The engine's own handle; null before it is ready and after its end. Valid as long as nobody ends the communicator.
  CommHandle engine_handle() const { return lifecycle_.is_ready() ? comm_ : nullptr; }

  // What it has registered of the program's memory; null on the host. Set before the first operation.
  void set_memory(std::shared_ptr<Registrations> memory) { memory_ = std::move(memory); }
  Registrations* memory() const { return memory_.get(); }

  int64_t timeout() const { return timeout_.load(std::memory_order_relaxed); }
  void set_timeout(int64_t ns) { timeout_.store(ns, std::memory_order_relaxed); }

  // The same on all members, and of no other communicator; 0 when it was made of another one. After start().
  uint64_t identity() const { return identity_; }
  uint64_t sequence() const { return sequence_.load(std::memory_order_relaxed); }

  // For what cannot be done beside operations; the error says what.
  Error wait_until_idle(OpKind kind, Deadline deadline);
  bool wait_for_pending(Deadline deadline) {
    return lane_->in_flight().wait_until_empty(deadline, options_.interrupted);
  }

  // For an operation of the group that runs beside this communicator and needs all members. Connects if need be; the
  // error when the communicator has failed, or does now, because a member has died or left.
  Error need_all(OpKind kind);
  // For one that may have had all that it needs of a member that has left: only a death is an error.
  Error need_living(OpKind kind, bool* has_left);
  // Fails it for what such an operation met, here and on the members; the message says what, not where. Returns the first
  // error, which may be another one.
  Error give_up(ErrorDetail why);
  // The same for the failure of a communicator beside this one, of the same group and rank.
  void share(const Error& failure);

  // Ends what is in flight as cancelled, tells the members, and closes. Unblocks threads that are inside a call.
  void abort(const std::string& why);
  // Waits for what is in flight, then closes. Receives are waited for while anything still comes in; what nobody sends
  // is then cancelled. False when it could only be aborted. Closing again does nothing.
  bool shutdown();
  // The process ends: closes without waiting for anybody. Members hear of it only if they are in the middle of a
  // collective with this rank, or wait for it later.
  void leave(const std::string& why);

  // Barrier that names who did not come; the communicator stays usable. Ranks in *missing.
  Error monitored_barrier(int64_t timeout, std::vector<int>* missing);

 private:
  // The engine's own deadline comes first: it names who is missing.
  static constexpr int64_t kEngineGrace = 1 * kSecond;

  friend class DeviceCommunicator;
  friend class HostWindow;
  template <typename Call>
  friend Error run_inline(Communicator&, OpKind, int64_t, Call&&);
  template <typename Call>
  friend Error enqueue(Communicator&, const std::shared_ptr<OpState>&, int64_t, Call&&);
  template <typename Call>
  friend Error post(Communicator&, OpKind, const std::shared_ptr<OpState>&, int64_t, Call&&);
  friend bool can_run_inline(const Communicator&);

  Error check(OpKind kind);  // before every engine call: forked, ready, or why not
  void apply_timeout(int64_t ns);
  uint64_t next_sequence() { return sequence_.fetch_add(1, std::memory_order_relaxed) + 1; }

  // What `result` means. Sticky failures move the lifecycle and run the failure hook.
  Error explain(EngineResult result, const OpState& state) override;
  Error explain(EngineResult result, OpKind kind, uint64_t sequence);
  // The same. An engine that cannot say who is gone may notice it a moment before `outer` does, which can.
  Error explain_served(EngineResult result, OpKind kind, uint64_t sequence);
  std::string headline(ErrorKind kind) const;
  Error make_error(ErrorKind kind, std::string message) const;
  Error fail(Error error);
  // Before the engine call. `kind` is that of the call: `state` may be a block with many.
  void track(const std::shared_ptr<OpState>& state, OpKind kind);
  void enter(const std::shared_ptr<OpState>& state);
  // One part of `state` has ended, or was refused by the engine. The last one ends the operation and gives the engine's
  // reference back.
  void finish_part(OpState& state, OpKind kind, const Error& error);
  void finish_part(OpState& state, OpKind kind, EngineResult result);
  static void on_stream(void* arg, EngineResult result);
  static void on_send(void* arg, EngineResult result);
  static void on_receive(void* arg, EngineResult result);
  static Communicator& owner(const OpState& state);
  std::atomic<int>& pending_of(OpKind kind) { return is_receive(kind) ? receives_ : owed_; }

  Error exchange_ids(std::vector<UniqueId>* ids, Deadline deadline);
  std::unique_ptr<Communicator> around(CommHandle comm, CommunicatorOptions child) const;
  Error prepare_child(OpKind kind, Deadline deadline);
  nccl_abi::Config begin_child(const CommunicatorOptions& child, Deadline deadline) const;
  Error cannot(OpKind kind, const std::string& hint) const;
  void adopt(CommHandle comm);
  bool is_anybody_inside() const;
  bool drain(Deadline deadline);
  bool drop_memory();
  void forget_memory();  // after the engine's communicator has gone
  void tell_members(const std::string& why);
  Error check_membership();
  template <typename Ask>
  Error need(Ask ask, OpKind kind);
  // What ends a wait that has begun, beside its deadline: Ctrl-C, and what `outer` knows. Looks every 50 ms.
  Error interruption(const char* doing, const std::function<Error()>& outer, int64_t now, int64_t* next_poll) const;
  Error await_child(OpKind kind, EngineResult* result, const std::function<Error()>& outer, Deadline deadline);
  // Waits for a call that a nonblocking communicator left in progress.
  EngineResult settle(EngineResult result) {
    if (result != nccl_abi::kInProgress) [[likely]]
      return result;
    return settle(engine_, comm_, result, Deadline::after(timeout()));
  }
  static EngineResult settle(const Engine& engine, CommHandle comm, EngineResult result, Deadline deadline);
  // The first half of abort(), which does not block. False when it has ended before.
  bool stop(const std::string& why);
  // Waits until nobody is inside; null when somebody stays, or it has never been connected.
  CommHandle release_handle();
  void close(LifeState before);

  const Engine& engine_;
  DeviceRuntime& runtime_;
  const CommunicatorOptions options_;
  const uint32_t fork_generation_;
  const std::shared_ptr<Lane> lane_;
  const uint32_t recorded_as_;

  Lifecycle lifecycle_;
  Gate gate_;
  std::atomic<int64_t> timeout_;
  std::atomic<int64_t> applied_timeout_{-1};
  std::atomic<uint64_t> sequence_{0};
  // Parts of operations in flight. An operation is one part; a block has one for each operation, and one while it is open.
  std::atomic<int> owed_{0};  // that other ranks may depend on: all but receives
  std::atomic<int> receives_{0};

  std::shared_ptr<Registrations> memory_;  // shared with the thread that ends the engine's communicator
  bool is_drained_ = false;                // set by shutdown()
  std::unique_ptr<Rendezvous> rendezvous_;
  std::atomic<bool> started_{false};
  uint64_t identity_ = 0;
  CommHandle comm_ = nullptr;  // set before kConnecting, constant until the gate is closed and empty
};

}  // namespace pycomms
