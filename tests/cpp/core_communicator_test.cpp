// A communicator over an engine whose every answer the test decides: connecting, failing, ending.
#include <thread>

#include "check.h"
#include "core_fake_engine.h"

using namespace pycomms;
using fake::state;

namespace {

constexpr int64_t kLong = 20 * kSecond;

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
  explicit Fixture(int64_t timeout = kLong) : engine(fake::reset()) {
    CommunicatorOptions options;
    options.size = 2;
    options.group = "test";
    options.timeout = timeout;
    options.on_failure = [this] { ++failures; };
    communicator = std::make_unique<Communicator>(engine, runtime, options);
    communicator->set_rendezvous(std::make_unique<fake::Meeting>());
  }

  Error run(EngineResult (*call)(const Engine&, CommHandle, StreamHandle) = fake::succeed) {
    return run_inline(*communicator, OpKind::kAllReduce, kLong, call);
  }
  // A receive to which nothing comes; a send that nobody takes.
  std::shared_ptr<OpState> request(OpKind kind) {
    auto op = std::make_shared<OpState>(kind);
    if (post(*communicator, kind, op, kLong, fake::pend)) CHECK_FAIL("not posted");
    return op;
  }
  std::shared_ptr<OpState> block(std::initializer_list<OpKind> kinds) {
    auto block = std::make_shared<OpState>(OpKind::kCoalesced);
    communicator->begin(block);
    for (const OpKind kind : kinds) {
      if (post(*communicator, kind, block, kLong, fake::pend)) CHECK_FAIL("not posted");
    }
    communicator->end(*block, {});
    return block;
  }
  std::shared_ptr<OpState> issue() {
    auto op = std::make_shared<OpState>(OpKind::kAllReduce);
    if (enqueue(*communicator, op, kLong, fake::succeed)) CHECK_FAIL("not issued");
    return op;
  }

  const Engine& engine;
  fake::Runtime runtime;
  std::atomic<int> failures{0};
  std::unique_ptr<Communicator> communicator;
};

}  // namespace

TEST(the_first_operation_connects) {
  Fixture f;
  state->polls_in_progress = 10;
  CHECK(f.communicator->state() == LifeState::kNew);
  CHECK(!f.run());
  CHECK(f.communicator->state() == LifeState::kReady);
  CHECK_EQ(f.communicator->sequence(), 1);
}

TEST(connecting_for_ever_ends_at_the_deadline_and_may_be_tried_again) {
  Fixture f(1);
  state->polls_in_progress = -1;
  Error error = f.communicator->become_ready(Deadline::after(5 * kMillisecond));
  CHECK(error && error.detail().kind == ErrorKind::kTimeout);
  CHECK_EQ(f.communicator->sequence(), 0);
  state->polls_in_progress = 0;
  CHECK(!f.communicator->become_ready(Deadline::after(kLong)));
}

TEST(a_communicator_of_other_members_is_a_mismatch) {
  Fixture f;
  state->count = 3;
  const Error error = f.run();
  CHECK(error && error.detail().kind == ErrorKind::kMismatch);
  CHECK(f.communicator->state() == LifeState::kFailed);
}

TEST(wrong_arguments_harm_nobody) {
  Fixture f;
  state->call_failure = fake::failure(hostccl::FailureKind::kUsage, "count is negative");
  const Error error =
      f.run([](const Engine&, CommHandle, StreamHandle) { return EngineResult{nccl_abi::kInvalidArgument}; });
  CHECK(error && error.detail().kind == ErrorKind::kUsage);
  CHECK(!f.run());
  CHECK_EQ(f.failures.load(), 0);
}

TEST(a_failure_is_kept_names_ranks_and_runs_the_hook_once) {
  Fixture f;
  CHECK(!f.run());
  state->communicator_failure = fake::failure(hostccl::FailureKind::kPeerDead, "rank 1 died", {1});
  for (int i = 0; i < 3; ++i) {
    const Error error = f.run(fake::fail);
    CHECK(error && error.detail().kind == ErrorKind::kPeerFailure);
    CHECK(error.detail().ranks == std::vector<int>{1});
    CHECK_EQ(error.detail().sequence, 7);
    CHECK_EQ(error.detail().op, "all_reduce");
  }
  CHECK_EQ(f.failures.load(), 1);
  CHECK_EQ(f.communicator->sequence(), 2);  // what is refused consumes none
}

TEST(an_engine_without_details_still_gives_an_error) {
  Fixture f;
  const Error error = f.run(fake::fail);
  CHECK(error && error.detail().kind == ErrorKind::kSystem);
  CHECK(error.detail().message.find("fake detail") != std::string::npos);
}

TEST(the_timeout_reaches_the_engine_once_per_change) {
  Fixture f;
  CHECK(!run_inline(*f.communicator, OpKind::kBarrier, 5 * kSecond, fake::succeed));
  CHECK_EQ(state->timeout.load(), 5 * kSecond);
  state->timeout = 0;
  CHECK(!run_inline(*f.communicator, OpKind::kBarrier, 5 * kSecond, fake::succeed));
  CHECK_EQ(state->timeout.load(), 0);
}

TEST(an_operation_in_flight_forbids_to_overtake) {
  Fixture f;
  CHECK(can_run_inline(*f.communicator));
  const auto op = f.issue();
  CHECK(!can_run_inline(*f.communicator));
  CHECK(f.runtime.run(nccl_abi::kSuccess));
  CHECK(op->outcome() == Outcome::kDone);
  CHECK(can_run_inline(*f.communicator));
}

TEST(a_waiter_runs_what_is_queued) {
  Fixture f;
  f.runtime.helps = true;
  const auto op = f.issue();
  CHECK(op->wait(Deadline::after(kLong), true, nullptr) == OpState::WaitResult::kEnded);
}

TEST(an_operation_that_fails_later_is_never_a_success) {
  Fixture f;
  const auto op = f.issue();
  state->communicator_failure = fake::failure(hostccl::FailureKind::kTimeout, "rank 1 did not come", {1});
  CHECK(f.runtime.run(nccl_abi::kTimeout));
  CHECK(op->outcome() == Outcome::kTimedOut);
  CHECK(op->error().detail().ranks == std::vector<int>{1});
}

TEST(abort_cancels_what_is_in_flight_before_the_engine_ends_it) {
  Fixture f;
  const auto op = f.issue();
  f.communicator->abort("enough");
  CHECK(op->outcome() == Outcome::kCancelled);
  CHECK(op->error().detail().kind == ErrorKind::kClosed);
  CHECK_EQ(state->cancelled.load(), 1);
  CHECK_EQ(state->aborted.load(), 1);
  CHECK_EQ(state->destroyed.load(), 0);
  const Error later = f.run();
  CHECK(later && later.detail().kind == ErrorKind::kClosed);
  CHECK_EQ(f.failures.load(), 0);
}

TEST(abort_unblocks_a_thread_inside_a_call) {
  Fixture f;
  CHECK(!f.run());
  std::atomic<bool> inside{false};
  Error seen;
  std::thread blocked([&] {
    seen = run_inline(*f.communicator, OpKind::kBarrier, kLong, [&](const Engine&, CommHandle, StreamHandle) {
      inside = true;
      state->block();
      return EngineResult{nccl_abi::kSystemError};
    });
  });
  while (!inside) std::this_thread::yield();
  f.communicator->abort("enough");
  blocked.join();
  CHECK(seen && seen.detail().kind == ErrorKind::kClosed);
  CHECK_EQ(state->aborted.load(), 1);
}

TEST(shutdown_waits_for_what_is_in_flight) {
  Fixture f;
  const auto op = f.issue();
  std::thread ender([&] { f.runtime.run(nccl_abi::kSuccess); });
  f.communicator->shutdown();
  ender.join();
  CHECK(op->outcome() == Outcome::kDone);
  CHECK_EQ(state->finalized.load(), 1);
  CHECK_EQ(state->destroyed.load(), 1);
  f.communicator->shutdown();
  f.communicator->abort("again");
  CHECK_EQ(state->destroyed.load(), 1);
}

TEST(shutdown_soon_gives_up_a_receive_that_nobody_sends_to) {
  Fixture f;
  const auto op = f.request(OpKind::kRecv);
  const int64_t begun = now_ns();
  CHECK(f.communicator->shutdown());
  CHECK(now_ns() - begun < 5 * kSecond);
  CHECK(op->outcome() == Outcome::kCancelled);
  CHECK(op->error().detail().kind == ErrorKind::kClosed);
  CHECK(op->error().detail().message.find("receive") != std::string::npos);
  CHECK_EQ(state->finalized.load(), 1);  // the others are not harmed
  CHECK_EQ(state->cancelled.load(), 0);
}

TEST(shutdown_goes_on_while_receives_end_although_it_moves_none_itself) {
  Fixture f;
  constexpr int kMessages = 4;
  std::vector<std::shared_ptr<OpState>> ops;
  for (int i = 0; i < kMessages; ++i) ops.push_back(f.request(OpKind::kRecv));
  Event over;
  std::thread engine([&] {
    for (int i = 0; i < kMessages; ++i) {
      if (over.came_within(300 * kMillisecond)) return;
      state->end_requests(nccl_abi::kSuccess, 1);
    }
  });
  const bool in_order = f.communicator->shutdown();
  over.come();
  engine.join();
  CHECK(in_order);
  for (const auto& op : ops) CHECK(op->outcome() == Outcome::kDone);
}

TEST(shutdown_waits_for_callbacks) {
  Fixture f;
  Event over;
  bool ended_before = true;
  const auto op = f.request(OpKind::kRecv);
  op->then([&](const OpState&) { ended_before = over.came_within(kSecond); });
  std::thread engine([] { state->end_requests(nccl_abi::kSuccess); });
  while (!op->has_ended()) std::this_thread::yield();
  CHECK(f.communicator->shutdown());
  over.come();
  engine.join();
  CHECK(!ended_before);
}

TEST(shutdown_soon_gives_up_a_block_of_receives) {
  Fixture f;
  const auto block = f.block({OpKind::kRecv, OpKind::kSend, OpKind::kRecvAnySource});
  state->end_requests(nccl_abi::kSuccess, 2);
  const int64_t begun = now_ns();
  CHECK(f.communicator->shutdown());
  CHECK(now_ns() - begun < 5 * kSecond);
  CHECK(block->outcome() == Outcome::kCancelled);
}

TEST(shutdown_waits_for_a_block_with_a_send_in_it) {
  Fixture f(kSecond);
  const auto block = f.block({OpKind::kRecv, OpKind::kSend});
  state->end_requests(nccl_abi::kSuccess, 1);
  CHECK(!f.communicator->shutdown());
  CHECK(block->outcome() == Outcome::kCancelled);
}

TEST(shutdown_waits_for_a_send_until_the_deadline) {
  Fixture f(kSecond);
  const auto receive = f.request(OpKind::kRecv);
  const auto send = f.request(OpKind::kSend);
  const int64_t begun = now_ns();
  CHECK(!f.communicator->shutdown());
  CHECK(now_ns() - begun >= kSecond);
  CHECK(send->outcome() == Outcome::kCancelled);
  CHECK_EQ(state->aborted.load(), 1);
}

TEST(leaving_ends_what_is_in_flight_and_waits_for_nobody) {
  Fixture f;
  const auto receive = f.request(OpKind::kRecv);
  f.communicator->leave("the process ends");
  CHECK(receive->outcome() == Outcome::kCancelled);
  CHECK_EQ(state->cancelled.load(), 0);  // nobody needs to hear of it
  CHECK_EQ(state->finalized.load(), 1);
}

TEST(leaving_in_the_middle_of_a_collective_tells_the_members) {
  Fixture f;
  const auto op = f.issue();
  f.communicator->leave("the process ends");
  CHECK(op->outcome() == Outcome::kCancelled);
  CHECK_EQ(state->cancelled.load(), 1);
  CHECK_EQ(state->aborted.load(), 1);
}

TEST(a_failure_from_elsewhere_is_the_first_error_and_told_to_the_members) {
  Fixture f;
  CHECK(!f.communicator->need_all(OpKind::kAllReduceSparse));
  CHECK(f.communicator->state() == LifeState::kReady);
  ErrorDetail detail;
  detail.kind = ErrorKind::kTimeout;
  detail.message = "rank 1 did not come";
  detail.ranks = {1};
  detail.op = "all_reduce_sparse";
  CHECK_STREQ(f.communicator->give_up(detail).detail().message,
              "collective timeout on rank 0 of group test: rank 1 did not come");
  CHECK_EQ(f.failures.load(), 1);
  CHECK(state->reported.kind == hostccl::FailureKind::kTimeout);
  CHECK_EQ(state->reported.nranks, 1);
  CHECK_EQ(state->reported.ranks[0], 1);
  CHECK_STREQ(state->reported.op, "all_reduce_sparse");
  CHECK_STREQ(state->reported.text, "rank 1 did not come");  // the members add their own headline
  const Error later = f.run();
  CHECK(later && later.detail().kind == ErrorKind::kTimeout && later.detail().ranks == std::vector<int>{1});
  const Error second = f.communicator->give_up(ErrorDetail{});
  CHECK(second.detail().kind == ErrorKind::kTimeout);
}

TEST(what_needs_all_members_fails_with_a_dead_one) {
  Fixture f;
  CHECK(!f.run());
  state->communicator_failure = fake::failure(hostccl::FailureKind::kPeerDead, "rank 1 died", {1});
  const Error error = f.communicator->need_all(OpKind::kAllReduceSparse);
  CHECK(error && error.detail().kind == ErrorKind::kPeerFailure);
  CHECK(f.communicator->state() == LifeState::kFailed);
}

TEST(an_outer_error_ends_the_wait_for_a_connection) {
  const Engine& engine = fake::reset();
  fake::Runtime runtime;
  state->polls_in_progress = -1;
  CommunicatorOptions options;
  options.size = 2;
  options.timeout = kLong;
  options.outer = [] {
    ErrorDetail detail;
    detail.kind = ErrorKind::kPeerFailure;
    return Error(detail);
  };
  Communicator communicator(engine, runtime, options);
  communicator.set_rendezvous(std::make_unique<fake::Meeting>());
  const Error error = communicator.become_ready(Deadline::after(kLong));
  CHECK(error && error.detail().kind == ErrorKind::kPeerFailure);
}

TEST(a_state_outlives_its_communicator) {
  Fixture f;
  const auto op = f.issue();
  f.communicator.reset();
  CHECK(op->outcome() == Outcome::kCancelled);
  CHECK(op->wait(Deadline::after(kLong), true, nullptr) == OpState::WaitResult::kEnded);
}

TEST(a_block_covers_every_operation_in_it) {
  Fixture f;
  const auto block = std::make_shared<OpState>(OpKind::kCoalesced);
  f.communicator->begin(block);
  for (int i = 0; i < 3; ++i) CHECK(!enqueue(*f.communicator, block, kLong, fake::succeed));
  f.communicator->end(*block, {});
  CHECK(block->outcome() == Outcome::kPending);
  CHECK(f.runtime.run(nccl_abi::kSuccess));
  CHECK(block->outcome() == Outcome::kDone);
  CHECK(f.communicator->wait_for_pending(Deadline::after(0)));
}

TEST(an_empty_block_ends_when_it_is_closed) {
  Fixture f;
  const auto block = std::make_shared<OpState>(OpKind::kCoalesced);
  f.communicator->begin(block);
  f.communicator->end(*block, {});
  CHECK(block->outcome() == Outcome::kDone);
}

TEST(a_request_that_the_engine_refuses_ends_its_state) {
  Fixture f;
  const auto op = std::make_shared<OpState>(OpKind::kSend);
  const Error error =
      post(*f.communicator, OpKind::kSend, op, kLong,
           [](const Engine&, CommHandle, StreamCallback, void*) { return EngineResult{nccl_abi::kSystemError}; });
  CHECK(error && op->outcome() == Outcome::kFailed);
  CHECK(f.communicator->wait_for_pending(Deadline::after(0)));
}

TEST(a_split_gives_a_child_and_a_failed_one_leaves_the_parent) {
  Fixture f;
  CHECK(!f.run());
  CommunicatorOptions options;
  options.size = 2;
  options.timeout = kLong;
  std::unique_ptr<Communicator> child;
  CHECK(!f.communicator->split(0, options, 0, &child));
  CHECK(child != nullptr);
  CHECK(!run_inline(*child, OpKind::kBarrier, kLong, fake::succeed));

  state->split = nccl_abi::kInvalidArgument;
  state->call_failure = fake::failure(hostccl::FailureKind::kUsage, "color");
  std::unique_ptr<Communicator> none;
  CHECK(bool(f.communicator->split(-2, options, 0, &none)));
  CHECK(!f.run());
}

CHECK_MAIN()
