// How communicators are given back to an engine: which go as one group, and what happens when a call does not return or no
// thread can be started.
#include <string>

#include "base/thread.h"
#include "core_fixture.h"
#include "forks.h"
#include "nccl2/core/reaper.h"

using namespace pycomms;
using fake::Event;
using Wait = Reaper::Wait;

namespace {

// The engine writes down what it is called with.
struct Log {
  std::mutex mutex;
  std::string calls;  // guarded by mutex
  void add(const std::string& call) {
    const std::lock_guard lock(mutex);
    calls += call + " ";
  }
  std::string take() {
    const std::lock_guard lock(mutex);
    return std::exchange(calls, {});
  }
};

Log& log() {
  static Log one;
  return one;
}

Event& released() {  // the abort of communicator 9 returns when it comes
  static Event one;
  return one;
}

std::string name(CommHandle comm) { return std::to_string(reinterpret_cast<uintptr_t>(comm)); }

const NcclApi& api() {
  static const NcclApi one = [] {
    NcclApi nccl;
    nccl.group_start = [] {
      log().add("(");
      return nccl_abi::kSuccess;
    };
    nccl.group_end = [] {
      log().add(")");
      return nccl_abi::kSuccess;
    };
    nccl.comm_abort = [](CommHandle comm) {
      log().add("abort" + name(comm));
      if (name(comm) == "9") static_cast<void>(released().came_within(fake::kLong));
      return nccl_abi::kSuccess;
    };
    nccl.comm_destroy = [](CommHandle comm) {
      log().add("destroy" + name(comm));
      return nccl_abi::kSuccess;
    };
    return nccl;
  }();
  return one;
}

CommHandle comm(uintptr_t number) { return reinterpret_cast<CommHandle>(number); }

Reaper::Victim victim(uintptr_t number) {
  return {&api(), [number] { return comm(number); }};
}

Reaper::StartThread threads() {
  return [](std::function<void()> body) { return start_thread("test-abort", std::move(body)); };
}

}  // namespace

TEST(one_is_aborted_at_once_and_waited_for) {
  Reaper reaper(threads());
  reaper.abort(victim(1), Wait::kYes);
  CHECK_EQ(log().take(), std::string("abort1 "));
  reaper.destroy(api(), comm(2), nullptr);
  CHECK_EQ(log().take(), std::string("destroy2 "));
}

TEST(those_of_one_scope_are_one_group) {
  Reaper reaper(threads());
  {
    const Reaper::Together outer(Wait::kYes, reaper);
    const Reaper::Together inner(Wait::kYes, reaper);
    reaper.abort(victim(1), Wait::kYes);
    reaper.abort(victim(2), Wait::kYes);
    reaper.abort({&api(), [] { return CommHandle{}; }}, Wait::kYes);  // in use: left alone
    CHECK_EQ(log().take(), std::string());
    std::thread([&] { reaper.abort(victim(3), Wait::kYes); }).join();  // another thread's is not delayed
    CHECK_EQ(log().take(), std::string("abort3 "));
  }
  CHECK_EQ(log().take(), std::string("( abort1 abort2 ) "));
}

TEST(a_call_that_does_not_return_costs_a_thread) {
  Reaper reaper(threads());
  reaper.abort(victim(9), Wait::kNo);
  reaper.abort(victim(1), Wait::kYes);
  CHECK(!reaper.wait_until_idle(Deadline::after(kMillisecond)));
  released().come();
  CHECK(reaper.wait_until_idle(Deadline::after(fake::kLong)));
  CHECK(log().take().find("abort1") != std::string::npos);
}

TEST(what_no_thread_could_be_started_for_is_kept) {
  bool has_threads = false;
  Reaper reaper([&](std::function<void()> body) -> Result<std::thread> {
    if (!has_threads) return Status(Code::kSystem, "no thread left");
    return start_thread("test-abort", std::move(body));
  });
  reaper.abort(victim(1), Wait::kYes);
  reaper.retry();
  CHECK_EQ(log().take(), std::string());
  has_threads = true;
  const int64_t begun = now_ns();
  reaper.retry();
  for (std::string calls; calls.empty(); calls = log().take()) CHECK(now_ns() - begun < fake::kLong);
  reaper.abort(victim(2), Wait::kYes);
  CHECK_EQ(log().take(), std::string("abort2 "));
}

TEST(a_forked_child_has_a_reaper_of_its_own) {
  NcclApi nccl;
  nccl.comm_abort = [](CommHandle) { return nccl_abi::kSuccess; };
  check::fork_while([] { const Reaper::Together together(Wait::kNo); },
                    [&] {
                      auto ended = std::make_shared<std::atomic<bool>>(false);
                      const auto one = [] { return reinterpret_cast<CommHandle>(1); };
                      Reaper::instance().abort({&nccl, one, [ended] { ended->store(true); }}, Wait::kYes);
                      return ended->load();
                    });
}

CHECK_MAIN()
