// How a communicator ends: aborted, shut down when all is done, or left because the process ends.
#include <utility>

#include "base/futex.h"
#include "base/thread.h"
#include "nccl2/core/communicator.h"
#include "nccl2/core/interrupt.h"
#include "nccl2/core/reaper.h"

namespace pycomms {
namespace {

constexpr int64_t kTearDown = 10 * kSecond;  // of waiting for callers and peers while closing
// Of no message moving: enough for a sender that waits for a core.
constexpr int64_t kGiveUpReceivesAfter = 500 * kMillisecond;
// Calls that only move data end within this, or soon after it.
constexpr int64_t kUntilCallsEnd = 500 * kMillisecond;

// For a call that may block for ever: goes on by itself, on a thread of its own, when the deadline has passed. True: it has
// returned.
bool run_at_most(const char* name, Deadline deadline, std::function<void()> call) {
  auto done = std::make_shared<std::atomic<uint32_t>>(0);
  auto thread = start_thread(name, [done, call = std::move(call)] {
    call();
    done->store(1, std::memory_order_seq_cst);
    futex_wake_all(*done);
  });
  if (!thread.is_ok()) return false;  // better leaked than blocked
  while (done->load(std::memory_order_acquire) == 0 && !deadline.passed()) futex_wait(*done, 0, deadline.left());
  std::thread running = thread.take();
  if (done->load(std::memory_order_acquire) == 0) {
    running.detach();
    return false;
  }
  running.join();  // nothing is left of it
  return true;
}

}  // namespace

Communicator::~Communicator() {
  abort("group " + options_.group + " was destroyed");
  if (recorder::Ring* ring = recorder::process_ring()) ring->leave_group(recorded_as_);
}

void Communicator::abort(const std::string& why) {
  if (was_forked()) return lane_->abandon();
  if (stop(why)) close(LifeState::kFailed);
}

bool Communicator::stop(const std::string& why) {
  Error error = make_error(ErrorKind::kClosed, why);
  if (!lifecycle_.end(LifeState::kClosed, error)) return false;
  lane_->in_flight().cancel_all(error);
  tell_members(why);
  return true;
}

void Communicator::tell_members(const std::string& why) {
  if (comm_ == nullptr || engine_.host.comm_cancel == nullptr) return;
  static_cast<void>(engine_.host.comm_cancel(comm_, why.c_str()));
}

bool Communicator::shutdown() {
  if (was_forked()) {
    lane_->abandon();
    return true;
  }
  if (state() == LifeState::kSuspended) static_cast<void>(resume());
  const LifeState before = state();
  if (before != LifeState::kReady || !drain(Deadline::after(timeout()))) {
    abort("group " + options_.group + " was shut down");
    return false;
  }
  if (!lifecycle_.end(LifeState::kClosed, make_error(ErrorKind::kClosed, "it was shut down"))) return true;
  lane_->in_flight().cancel_all(
      make_error(ErrorKind::kClosed, "the group was shut down before anybody had sent what this receive waited for"));
  is_drained_ = true;
  gate_.close();
  if (gate_.wait_until_empty(Deadline::after(kUntilCallsEnd))) {
    close(before);
    return true;
  }
  // Somebody waits in a window for what will not come any more.
  tell_members("group " + options_.group + " was shut down");
  close(LifeState::kFailed);
  return false;
}

// True when nothing is left in flight but receives to which nobody sends.
bool Communicator::drain(Deadline deadline) {
  int64_t moved_at = now_ns();
  int64_t next_poll = moved_at + kInterruptPoll;
  int receives = receives_.load(std::memory_order_relaxed);
  for (;;) {
    const bool is_owed = owed_.load(std::memory_order_relaxed) != 0 || lane_->in_flight().is_settling();
    if (lane_->in_flight().wait_until_empty(Deadline::after(is_owed ? kInterruptPoll : kMillisecond), nullptr)) {
      return true;
    }
    const int64_t now = now_ns();
    if (deadline.passed(now)) return false;
    if (now >= next_poll) {
      if (options_.interrupted != nullptr && options_.interrupted()) return false;
      next_poll = now + kInterruptPoll;
    }
    // The engine's own thread may have been the one that took what came: then only the number of receives tells.
    const int receives_before = std::exchange(receives, receives_.load(std::memory_order_relaxed));
    if (is_owed || receives != receives_before || lane_->help_requests()) {
      moved_at = now;
    } else if (now - moved_at >= kGiveUpReceivesAfter) {
      return true;
    }
  }
}

void Communicator::leave(const std::string& why) {
  if (was_forked()) return lane_->abandon();
  const LifeState before = state();
  const Error error = make_error(ErrorKind::kClosed, why);
  if (!lifecycle_.end(LifeState::kClosed, error)) return;
  lane_->in_flight().cancel_all(error);
  gate_.close();
  const bool is_in_collective = !lane_->is_idle() || !gate_.wait_until_empty(Deadline::after(0));
  if (before == LifeState::kReady && !is_in_collective) return close(before);
  tell_members(why);
  close(before == LifeState::kReady ? LifeState::kFailed : before);
}

CommHandle Communicator::release_handle() {
  gate_.close();
  const bool empty = gate_.wait_until_empty(Deadline::after(kTearDown));
  lane_->close(Deadline::after(kTearDown));
  // A caller that the engine does not give back still uses the handle: better leaked than freed under it.
  return empty ? comm_ : nullptr;
}

// NCCL wants its registrations back before the communicator ends, and while nothing uses them. After an abort, and when the
// process ends in the middle of something, they go with the communicator.
bool Communicator::drop_memory() {
  if (memory_ == nullptr || memory_->is_empty() || !is_drained_) return true;
  return run_at_most("pycomms-end", Deadline::after(kTearDown), [&engine = engine_, memory = memory_, comm = comm_] {
    memory->drop_all(comm,
                     [&](EngineResult result) { return settle(engine, comm, result, Deadline::after(kTearDown)); });
  });
}

void Communicator::forget_memory() {
  if (memory_ != nullptr) memory_->forget();
}

void Communicator::close(LifeState before) {
  const CommHandle comm = release_handle();
  if (comm == nullptr) return;
  const bool in_order = before == LifeState::kReady;
  if (in_order) {
    if (!drop_memory()) return;
    settle(engine_.nccl.comm_finalize(comm));
  }
  auto forget = [memory = memory_] {
    if (memory != nullptr) memory->forget();
  };
  if (engine_.is_host()) {
    static_cast<void>(in_order ? engine_.nccl.comm_destroy(comm) : engine_.nccl.comm_abort(comm));
  } else if (in_order) {
    Reaper::instance().destroy(engine_.nccl, comm, std::move(forget));
  } else {
    Reaper::instance().abort({&engine_.nccl, [comm] { return comm; }, std::move(forget)}, Reaper::Wait::kYes);
  }
}

}  // namespace pycomms
