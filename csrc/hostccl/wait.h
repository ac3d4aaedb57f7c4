// The one way to wait in hostccl: spin, then yield, then sleep on the rank's bell; look at every step for what was waited
// for, for a failure that somebody published, for dead peers, the deadline and an interrupt. Nothing waits otherwise.
//
// Threads: a Waiter belongs to the call that made it; Patience is shared and constant.
// Must not know: what the operation does.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/futex.h"
#include "hostccl/segment.h"

namespace hostccl {

// What a wait does meanwhile, and how it names itself. Implemented by whoever waits.
class Waiting {
 public:
  virtual ~Waiting() = default;
  // Other work of this rank that must not starve while it waits; true when it did any.
  virtual bool progress() = 0;
  // Whether the operation cannot end without this peer: then it matters that the peer closed its communicator.
  virtual bool needs(int peer) const = 0;
  // The failure to publish when the deadline passes, a peer is dead, ...: names the operation.
  virtual Failure on_timeout(int64_t waited_ns) = 0;
  virtual Failure on_death(int peer) = 0;
  virtual Failure on_closed(int peer) = 0;
  virtual Failure on_interrupt() = 0;
};

// How long to spin and yield before sleeping: depends on whether every rank can have a core of its own.
// Asks the system: not for a path that is taken often.
int usable_cores();

struct Patience {
  bool own_core;
  int spins;
  int64_t yield_ns;
  // From what the members have announced. The same on all of them once the communicator is assembled: who takes part in
  // measuring follows from it.
  static Patience of_members(const Segment& segment);
};

// Watches the processes of the other ranks.
class PeerWatch {
 public:
  explicit PeerWatch(const Segment& segment) : segment_(segment) {}
  // Once every block holds its process id.
  void start();
  // A dead peer's rank, or -1. `thorough` also asks the kernel (pidfd).
  int find_dead(bool thorough) const;
  bool has_closed(int rank) const;

 private:
  const Segment& segment_;
  struct Watched {
    int rank;
    ProcessWatch watch;
  };
  std::vector<Watched> watched_;  // peers in other processes
};

void set_interrupt_hook(int (*hook)());
inline constexpr int64_t kAskHookEvery = 50 * pycomms::kMillisecond;
// Asks it.
bool is_interrupted();

class Waiter {
 public:
  // interruptible: the thread waits on a user's account, so the interrupt hook is asked now and then.
  Waiter(const Segment& segment, const PeerWatch& watch, Waiting& waiting, const Patience& patience, int64_t timeout_ns,
         bool interruptible)
      : segment_(segment),
        watch_(watch),
        waiting_(waiting),
        patience_(patience),
        timeout_ns_(timeout_ns),
        interruptible_(interruptible) {}

  // True when ready() became true; false when the communicator has failed (here or elsewhere).
  template <typename Ready>
  bool until(Ready&& ready) {
    for (int i = 0; i < patience_.spins; ++i) {
      if (ready()) return true;
      if (segment_.has_failed()) return ready();  // it may have come before the failure
      segment_.progress_remote();
      waiting_.progress();
      pycomms::cpu_relax();
    }
    return until_slow(ReadyRef(ready));
  }

 private:
  // A reference to a callable, to keep the slow part out of line.
  class ReadyRef {
   public:
    template <typename Ready>
    explicit ReadyRef(Ready& ready)
        : object_(&ready), call_([](void* object) { return static_cast<bool>((*static_cast<Ready*>(object))()); }) {}
    bool operator()() const { return call_(object_); }

   private:
    void* object_;
    bool (*call_)(void*);
  };

  enum class Look { kReady, kFailed, kNeither };

  bool until_slow(ReadyRef ready);
  Look yield_for_a_while(const ReadyRef& ready, int64_t until);
  Look sleep_once(const ReadyRef& ready, int64_t slice);
  // Publishes a failure if there is a reason to. False when there was.
  bool check(const ReadyRef& ready, int64_t now);

  const Segment& segment_;
  const PeerWatch& watch_;
  Waiting& waiting_;
  const Patience patience_;
  const int64_t timeout_ns_;
  const bool interruptible_;
  int64_t started_ = 0;  // of the first slow wait: a deadline counts from there
  int64_t asked_kernel_ = 0;
  int64_t asked_hook_ = 0;
};

}  // namespace hostccl
