// A communicator over the fake engine, and requests and blocks of which the test decides when they end.
#pragma once

#include <atomic>
#include <condition_variable>
#include <initializer_list>
#include <memory>
#include <mutex>

#include "check.h"
#include "core_fake_engine.h"
#include "nccl2/core/reaper.h"

namespace fake {

using namespace pycomms;

inline constexpr int64_t kLong = 20 * kSecond;

// Comes once; whoever waits for it does not wait longer than he says.
class Event {
 public:
  void come() {
    {
      const std::lock_guard lock(mutex_);
      has_come_ = true;
    }
    changed_.notify_all();
  }
  bool came_within(int64_t ns) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::nanoseconds(ns), [this] { return has_come_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_come_ = false;  // guarded by mutex_
};

struct Fixture {
  explicit Fixture(int64_t timeout = kLong, bool is_host = true) : engine(reset(is_host)) {
    CommunicatorOptions options;
    options.size = 2;
    options.group = "test";
    options.timeout = timeout;
    options.on_failure = [this](const Error&) { ++failures; };
    communicator = std::make_unique<Communicator>(engine, runtime, options);
    communicator->set_rendezvous(std::make_unique<Meeting>());
  }

  Error run(EngineResult (*call)(const Engine&, CommHandle, StreamHandle) = succeed) {
    return run_inline(*communicator, OpKind::kAllReduce, kLong, call);
  }
  // A receive to which nothing comes; a send that nobody takes.
  std::shared_ptr<OpState> request(OpKind kind) {
    auto op = std::make_shared<OpState>(kind);
    if (post(*communicator, kind, op, kLong, pend)) CHECK_FAIL("not posted");
    return op;
  }
  std::shared_ptr<OpState> block(std::initializer_list<OpKind> kinds) {
    auto block = std::make_shared<OpState>(OpKind::kCoalesced);
    communicator->begin(block);
    for (const OpKind kind : kinds) {
      if (post(*communicator, kind, block, kLong, pend)) CHECK_FAIL("not posted");
    }
    communicator->end(*block, {});
    return block;
  }
  std::shared_ptr<OpState> issue() {
    auto op = std::make_shared<OpState>(OpKind::kAllReduce);
    if (enqueue(*communicator, op, kLong, succeed)) CHECK_FAIL("not issued");
    return op;
  }

  Error split(int64_t timeout = kLong) {
    CommunicatorOptions options;
    options.size = 2;
    options.timeout = timeout;
    std::unique_ptr<Communicator> child;
    return communicator->split(0, options, 0, &child);
  }
  // How many communicators the engine has aborted, when it is done with them.
  int aborted() {
    CHECK(Reaper::instance().wait_until_idle(Deadline::after(kLong)));
    return state->aborted;
  }
  ~Fixture() {
    communicator.reset();
    state->abort_blocks = false;
    Reaper::instance().wait_until_idle(Deadline::after(kLong));  // the state is the next test's
  }

  const Engine& engine;
  Runtime runtime;
  std::atomic<int> failures{0};
  std::unique_ptr<Communicator> communicator;
};

}  // namespace fake
