// A communicator over an engine whose every answer the test decides: connecting, failing, splitting.

#include "core_fixture.h"

using namespace pycomms;
using fake::Event;
using fake::Fixture;
using fake::kLong;
using fake::state;

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

TEST(a_split_that_stays_in_progress_ends_by_its_deadline) {
  Fixture f;
  CHECK(!f.run());
  state->split = nccl_abi::kInProgress;
  state->polls_in_progress = -1;
  const Error error = f.split(50 * kMillisecond);
  CHECK(error && error.detail().kind == ErrorKind::kTimeout);
  CHECK(error.detail().message.find("split: ") != std::string::npos);
  CHECK(f.communicator->state() == LifeState::kFailed);
}

TEST(a_split_has_no_more_time_than_the_operations_of_its_parent) {
  Fixture f(50 * kMillisecond);
  CHECK(!f.run());
  state->split = nccl_abi::kInProgress;
  state->polls_in_progress = -1;
  const Error error = f.split(kLong);
  CHECK(error && error.detail().kind == ErrorKind::kTimeout);
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
