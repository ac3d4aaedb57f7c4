// What the windows of one communicator have in common: their numbers, who of the other ranks is well, and, where some memory
// cannot be mapped, the service and the connections to those of other ranks. It outlives its communicator for windows that
// nobody has closed; their calls are refused then.
//
// Threads: any, but windows are made by one thread at a time, in the same order on all ranks. Must not know: operations.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/gate.h"
#include "hostccl/net/bytes.h"
#include "hostccl/roll_call.h"
#include "hostccl/segment.h"
#include "hostccl/wait.h"
#include "hostccl/windows/memory.h"
#include "hostccl/windows/reach.h"

namespace hostccl {

class WindowNetwork;

class WindowSite {
 public:
  // What it may use of its communicator until stop() has returned.
  struct Means {
    const Segment& segment;
    Patience patience;
    net::Bytes16 secret;
    std::function<RollCallResult(const Report& mine, int64_t timeout_ns)> roll_call;
    std::function<bool()> is_cancelled;
  };
  explicit WindowSite(Means means);
  ~WindowSite();

  int rank() const { return rank_; }
  int nranks() const { return nranks_; }
  const Patience& patience() const { return means_.patience; }

  // Every call holds the gate; inside it the communicator's means may be used.
  pycomms::Gate& gate() { return gate_; }
  bool is_foreign() const;  // we are in a forked child
  // The communicator ends: nobody enters any more, and waits end. False: somebody was still inside at the deadline.
  bool stop(pycomms::Deadline deadline);

  // Ok: what is asked of `peer` now can succeed. Cheap while nobody has failed.
  pycomms::Status trouble_with(int peer) const {
    if (!means_.segment.has_failed() && is_here(peer)) [[likely]]
      return pycomms::Status::ok();
    return look_for_trouble(peer);
  }
  bool is_dead(int rank) const { return hostccl::is_dead(means_.segment.block(rank).life); }
  std::string words_for_death_of(int rank) const;

  // Collective: each rank's report, by rank; the error is the same everywhere but for who tells it, and is about *about.
  pycomms::Status tell_all(const Report& mine, int64_t timeout_ns, std::vector<Report>* all, std::vector<int>* about,
                           const char* doing);
  const Segment& segment() const { return means_.segment; }

  uint32_t next_number() const { return next_number_; }
  void take_number(uint32_t number) { next_number_ = number + 1; }
  // Collective: from now on windows can be served. The first call does it.
  pycomms::Status connect(int64_t timeout_ns, std::vector<int>* about);
  // Null before connect().
  RemoteWindows* remote() const { return remote_.load(std::memory_order_acquire); }
  void add(uint32_t number, std::shared_ptr<const WindowMemory> memory);
  // When it returns no rank elsewhere touches the memory any more; false: one still did after ten seconds.
  bool remove(uint32_t number);
  std::shared_ptr<const WindowMemory> find(uint32_t number) const;
  // `rank` has begun to close a window other than this one, which is open here.
  bool closes_another(int rank, uint32_t number) const;

 private:
  // Present, and its process alive as far as is known.
  bool is_here(int peer) const {
    const RankBlock& block = means_.segment.block(peer);
    return !hostccl::is_dead(block.life) && block.presence.load(std::memory_order_relaxed) == Presence::kPresent;
  }
  pycomms::Status look_for_trouble(int peer) const;
  pycomms::Status trouble_while_waiting(int peer) const;  // Ctrl-C is trouble, too

  const Means means_;
  const int rank_;
  const int nranks_;
  const uint32_t fork_generation_;

  pycomms::Gate gate_;
  uint32_t next_number_ = 0;  // of whoever makes windows

  mutable std::mutex mutex_;
  std::map<uint32_t, std::shared_ptr<const WindowMemory>> windows_;  // GUARDED_BY(mutex_): this rank's own

  std::shared_ptr<WindowNetwork> network_;  // GUARDED_BY(mutex_); shared with whoever removes a window
  std::atomic<RemoteWindows*> remote_{nullptr};
};

}  // namespace hostccl
