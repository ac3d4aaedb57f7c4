#include "hostccl/wait.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace hostccl {
namespace {

constexpr int64_t kSleepSlice = 2 * pycomms::kMillisecond;  // bounds how late a death is noticed
constexpr int64_t kAskKernelEvery = 50 * pycomms::kMillisecond;
constexpr int kYieldsBetweenChecks = 32;

std::atomic<int (*)()> interrupt_hook{nullptr};

}  // namespace

void set_interrupt_hook(int (*hook)()) { interrupt_hook.store(hook, std::memory_order_release); }

bool is_interrupted() {
  auto* hook = interrupt_hook.load(std::memory_order_acquire);
  return hook != nullptr && hook() != 0;
}

int usable_cores() { return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1); }

Patience Patience::of_members(const Segment& segment) {
  const std::vector<int>& here = segment.places().ranks_here();
  const int nranks = static_cast<int>(here.size());
  int cores = nranks;
  for (const int rank : here) {
    const int theirs = segment.block(rank).cores.load(std::memory_order_relaxed);
    if (theirs != 0) cores = std::min(cores, theirs);
  }
  const bool own_core = nranks <= cores;
  // Waking a sleeper costs 20 to 30 us, and milliseconds when the cores are busy with others; a yield half a microsecond.
  // Ten milliseconds of it are one per cent of a core for whoever waits a second.
  // A look at connections is a system call and takes about as long as a yield.
  const int spins = segment.places().is_one_host() ? 1000 : 10;
  return Patience{own_core, own_core ? spins : 1, 10 * pycomms::kMillisecond};
}

void PeerWatch::start() {
  watched_.clear();
  for (const int rank : segment_.places().ranks_here()) {
    const int pid = segment_.block(rank).pid.load(std::memory_order_relaxed);
    if (pid != getpid()) watched_.push_back({rank, ProcessWatch(pid)});
  }
}

int PeerWatch::find_dead(bool thorough) const {
  for (int rank = 0; rank < segment_.nranks(); ++rank) {
    if (is_dead(segment_.block(rank).life) && !has_closed(rank)) return rank;
  }
  if (thorough) {
    for (const Watched& peer : watched_) {
      if (peer.watch.has_ended() && !has_closed(peer.rank)) return peer.rank;
    }
  }
  return -1;
}

bool PeerWatch::has_closed(int rank) const {
  return segment_.block(rank).presence.load(std::memory_order_acquire) == Presence::kClosed;
}

bool Waiter::until_slow(ReadyRef ready) {
  int64_t now = pycomms::now_ns();
  if (started_ == 0) started_ = asked_kernel_ = asked_hook_ = now;
  int64_t yield_until = now + patience_.yield_ns;
  for (;;) {
    Look look = yield_for_a_while(ready, yield_until);
    if (look == Look::kNeither) {
      now = pycomms::now_ns();
      if (!check(ready, now)) return ready();
      look = sleep_once(ready, std::min(kSleepSlice, std::max<int64_t>(started_ + timeout_ns_ - now, 1)));
    }
    if (look == Look::kReady) return true;
    if (look == Look::kFailed) return ready();
    const bool came = segment_.progress_remote();
    if (waiting_.progress() || came) yield_until = pycomms::now_ns() + patience_.yield_ns;
    if (!check(ready, pycomms::now_ns())) return ready();
  }
}

Waiter::Look Waiter::yield_for_a_while(const ReadyRef& ready, int64_t until) {
  do {
    for (int i = 0; i < kYieldsBetweenChecks; ++i) {
      if (ready()) return Look::kReady;
      if (segment_.has_failed()) return Look::kFailed;
      const bool came = segment_.progress_remote();
      if (!waiting_.progress() && !came) sched_yield();
    }
    const int64_t now = pycomms::now_ns();
    if (!check(ready, now)) return ready() ? Look::kReady : Look::kFailed;
    if (now >= until) return Look::kNeither;
  } while (true);
}

Waiter::Look Waiter::sleep_once(const ReadyRef& ready, int64_t slice) {
  Bell& bell = segment_.mine().bell;
  bell.sleepers.fetch_add(1, std::memory_order_seq_cst);
  const uint32_t seen = bell.rung.load(std::memory_order_seq_cst);
  // Whoever publishes stores first and looks for sleepers second; we do the opposite: one of us sees the other.
  Look look = Look::kNeither;
  if (ready()) {
    look = Look::kReady;
  } else if (segment_.has_failed()) {
    look = Look::kFailed;
  } else {
    pycomms::futex_wait(bell.rung, seen, slice);
  }
  bell.sleepers.fetch_sub(1, std::memory_order_seq_cst);
  return look;
}

bool Waiter::check(const ReadyRef& ready, int64_t now) {
  const bool thorough = now - asked_kernel_ > kAskKernelEvery;
  if (thorough) asked_kernel_ = now;
  if (const int dead = watch_.find_dead(thorough); dead >= 0) {
    if (ready()) return true;  // what we wait for came before the death: this operation can still end well
    segment_.fail(waiting_.on_death(dead));
    return false;
  }
  for (int peer = 0; peer < segment_.nranks(); ++peer) {
    if (peer == segment_.rank() || !watch_.has_closed(peer) || !waiting_.needs(peer)) continue;
    if (ready()) return true;
    segment_.fail(waiting_.on_closed(peer));
    return false;
  }
  if (now - started_ >= timeout_ns_) {
    if (ready()) return true;
    segment_.fail(waiting_.on_timeout(now - started_));
    return false;
  }
  if (interruptible_ && now - asked_hook_ > kAskHookEvery) {
    asked_hook_ = now;
    if (is_interrupted()) {
      segment_.fail(waiting_.on_interrupt());
      return false;
    }
  }
  return true;
}

}  // namespace hostccl
