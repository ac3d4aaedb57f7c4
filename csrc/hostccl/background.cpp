#include "hostccl/background.h"

#include "base/thread.h"
#include "hostccl/failures.h"
#include "hostccl/p2p_waiting.h"

namespace hostccl {
namespace {

constexpr int64_t kLookEvery = 500 * pycomms::kMicrosecond;
constexpr int64_t kIdleBeforeParking = 100 * pycomms::kMillisecond;

}  // namespace

Background::Background(const Segment& segment, const PeerWatch& watch, P2p& p2p)
    : segment_(segment), watch_(watch), p2p_(p2p) {}

Background::~Background() {
  stop_.store(true, std::memory_order_seq_cst);
  parked_.store(0, std::memory_order_seq_cst);
  pycomms::futex_wake_all(parked_);
  segment_.ring(segment_.rank());
  if (thread_.joinable()) thread_.join();
}

void Background::wake() {
  std::call_once(started_, [this] {
    auto thread = pycomms::start_thread("pycomms-p2p", [this] { main(); });
    if (thread.is_ok()) {
      thread_ = thread.take();
    } else {
      segment_.fail(make_failure(FailureKind::kSystem, segment_.rank(), thread.status().message()));
    }
  });
  if (parked_.load(std::memory_order_seq_cst) == 0) return;
  parked_.store(0, std::memory_order_seq_cst);
  pycomms::futex_wake_all(parked_);
}

void Background::main() {
  int64_t active_at = pycomms::now_ns();
  uint64_t calls_seen = p2p_.progress_calls();
  while (!stop_.load(std::memory_order_acquire)) {
    pycomms::sleep_for(kLookEvery);
    const int64_t now = pycomms::now_ns();
    const uint64_t calls = p2p_.progress_calls();
    if (p2p_.has_pending()) {
      active_at = now;
      if (calls == calls_seen) take_over();
      p2p_.check_deadlines(now);
    } else if (now - active_at > kIdleBeforeParking) {
      parked_.store(1, std::memory_order_seq_cst);
      if (!p2p_.has_pending() && !stop_.load(std::memory_order_seq_cst)) {
        pycomms::futex_wait(parked_, 1, pycomms::kSecond);
      }
      parked_.store(0, std::memory_order_seq_cst);
    }
    calls_seen = p2p_.progress_calls();
  }
}

// Until nothing is pending or somebody else came to wait; sleeps on the rank's bell in between.
void Background::take_over() {
  P2pWaiting waiting(segment_, p2p_, [this] { return p2p_.name_of_oldest(); });
  constexpr int64_t kShift = 20 * pycomms::kMillisecond;  // then main() looks at deadlines again
  const int64_t until = pycomms::now_ns() + kShift;
  Waiter waiter(segment_, watch_, waiting, Patience{false, 1, 0}, pycomms::kForever, false);
  auto over = [&] {
    return !p2p_.has_pending() || stop_.load(std::memory_order_acquire) || pycomms::now_ns() >= until;
  };
  if (!waiter.until(over)) p2p_.progress();  // failed: ends what is pending
}

}  // namespace hostccl
