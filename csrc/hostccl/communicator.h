// A communicator of libhostccl: one rank's membership in a group of ranks, on this host and others. Owns the segment's
// mapping, the courier to other hosts, the lane of collectives and the point-to-point engine, from joining to leaving.
//
// State: connecting -> ready -> closed, or failed for good at any point. A failure of one member is everybody's.
// Threads: any; initialisation runs on a thread of its own. Must not know: NCCL's function names, streams.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/gate.h"
#include "hostccl/background.h"
#include "hostccl/bootstrap.h"
#include "hostccl/courier.h"
#include "hostccl/issue_order.h"
#include "hostccl/lane.h"
#include "hostccl/life.h"
#include "hostccl/p2p.h"
#include "hostccl/roll_call.h"
#include "hostccl/segment.h"
#include "hostccl/windows/site.h"

namespace hostccl {

// A premultiplied sum that a user has made.
struct PreMul {
  DataType type;
  double factor;
  const void* factor_at;  // where to read it when an operation runs; null: it is known
};

class Communicator {
 public:
  Communicator(int rank, int nranks);
  ~Communicator();  // after close() or abort()

  // Starts joining; ends on a thread of its own. `wait_until_ready` tells how it went.
  void start_join(const nccl_abi::UniqueId& id, int64_t timeout_ns);
  Result wait_until_ready(pycomms::Deadline deadline);

  int rank() const { return rank_; }
  int nranks() const { return nranks_; }
  // kInProgress while joining, kSuccess when healthy, the first error otherwise.
  Result async_error() const;
  Failure failure() const;
  bool is_foreign() const;  // we are in a forked child

  int64_t timeout_ns() const { return timeout_ns_.load(std::memory_order_relaxed); }
  void set_timeout_ns(int64_t ns) { timeout_ns_.store(ns, std::memory_order_relaxed); }

  Result run(const Collective& op, int64_t timeout_ns, bool interruptible) {
    return lane_->run(op, timeout_ns, interruptible);
  }
  bool is_running_here() const { return lane_->is_running_here(); }
  // Point to point with a completion, or blocking when there is none.
  Result post(P2pRequest request);
  // Waits on the calling thread until `done`, which a completion sets. Not kSuccess: the communicator has failed.
  Result wait_for(const std::atomic<bool>& done, const P2pRequest& request, int64_t timeout_ns, bool interruptible);
  bool progress() { return p2p_->progress_if_pending(); }
  RollCallResult roll_call(RollCallKind kind, const Report& mine, int64_t timeout_ns) {
    RollCallResult result = hostccl::roll_call(*segment_, watch(), *p2p_, kind, mine, timeout_ns);
    if (p2p_->has_pending()) background_->wake();  // verdicts that wait for their receivers
    return result;
  }

  // What its windows share; once the communicator is ready.
  const std::shared_ptr<WindowSite>& windows() const { return windows_; }

  // Of operations on external streams; null where streams are ours.
  const std::shared_ptr<IssueOrder>& order() const { return order_; }
  // Waits on the calling thread for the turn of `what`. False: the communicator has failed.
  bool wait_for_turn(const std::string& what, int64_t timeout_ns, const std::function<bool()>& has_come);
  // The communicator is ready. Wakes whoever waits for a turn.
  void wake_waiters() const { segment_->ring(rank_); }

  // Ends what is in flight, here and on the members.
  void cancel(const std::string& why);
  void fail(const Failure& failure);
  // Fails it when a member has died or closed it, since `op` needs all of them. Returns async_error().
  Result need_all(const std::string& op);
  // Fails it only when one has died. *has_closed: whether one has closed it.
  Result need_living(const std::string& op, bool* has_closed);
  // Leaves. Waits for calls that are inside, at most until the deadline.
  Result close(pycomms::Deadline deadline);
  Result abort(pycomms::Deadline deadline);

  // Whether all members have been there once.
  bool is_assembled() const { return state_.load(std::memory_order_acquire) == State::kReady; }
  // The id under which these members, this rank among them, make another communicator; the first of them convenes the others.
  // Nothing is asked of anybody. All of them call it the same number of times.
  pycomms::Result<nccl_abi::UniqueId> call_together(const std::vector<int>& members, const std::string& what,
                                                    pycomms::Deadline deadline);

  // Every call on the communicator holds the gate.
  pycomms::Gate& gate() { return gate_; }

  int add_premul(const PreMul& made);
  // Fills in the factor. False: there is none of this type.
  bool find_premul(int op, Collective& collective) const;
  bool remove_premul(int op);

 private:
  enum class State : int { kConnecting, kReady, kFailed };

  const PeerWatch& watch() const { return *watch_; }
  Failure join_now(const nccl_abi::UniqueId& id, int64_t timeout_ns);
  Failure set_up(Lobby& lobby, pycomms::Deadline deadline);
  pycomms::Status connect_hosts();
  Failure wait_for_members(Lobby& lobby, pycomms::Deadline deadline);
  void settle(const Failure& failure);
  Whereabouts whereabouts_of_member(int rank) const;
  Result post_and_wait(P2pRequest request);

  const int rank_;
  const int nranks_;
  const uint32_t fork_generation_;

  pycomms::Gate gate_;
  std::atomic<State> state_{State::kConnecting};
  std::atomic<bool> cancelled_{false};
  std::atomic<int64_t> timeout_ns_;
  const std::shared_ptr<IssueOrder> order_;  // shared: what is queued on a stream may outlive us
  std::atomic<uint32_t> settled_{0};         // futex: 1 once state_ is no longer kConnecting

  // Written by the joining thread before state_ becomes kReady or kFailed, constant afterwards.
  Failure join_failure_{};
  Bytes16 secret_{};
  std::vector<Whereabouts> roster_;  // empty when all ranks are on this host
  std::unique_ptr<Segment> segment_;
  std::unique_ptr<Courier> courier_;  // null when all ranks are on this host
  std::unique_ptr<LifeHold> life_;
  std::unique_ptr<PeerWatch> watch_;
  std::unique_ptr<P2p> p2p_;
  std::unique_ptr<Lane> lane_;
  std::unique_ptr<Background> background_;
  std::shared_ptr<WindowSite> windows_;  // shared with windows that nobody has closed

  std::atomic<int> called_together_{0};
  mutable std::mutex premul_mutex_;
  std::vector<std::optional<PreMul>> premuls_;  // GUARDED_BY(premul_mutex_)

  std::mutex thread_mutex_;
  std::thread thread_;  // GUARDED_BY(thread_mutex_): of joining
};

}  // namespace hostccl
