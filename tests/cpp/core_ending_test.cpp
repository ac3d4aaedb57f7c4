// How a communicator ends, over an engine whose every answer the test decides: aborted, shut down, left.
#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "core_fixture.h"

using namespace pycomms;
using fake::Event;
using fake::Fixture;
using fake::kLong;
using fake::state;

TEST(abort_cancels_what_is_in_flight_before_the_engine_ends_it) {
  Fixture f;
  const auto op = f.issue();
  f.communicator->abort("enough");
  CHECK(op->outcome() == Outcome::kCancelled);
  CHECK(op->error().detail().kind == ErrorKind::kClosed);
  CHECK_EQ(state->cancelled.load(), 1);
  CHECK_EQ(f.aborted(), 1);
  CHECK_EQ(state->destroyed.load(), 0);
  const Error later = f.run();
  CHECK(later && later.detail().kind == ErrorKind::kClosed);
  CHECK_EQ(f.failures.load(), 0);
}

TEST(abort_ends_a_split_in_progress) {
  Fixture f;
  CHECK(!f.run());
  state->split = nccl_abi::kInProgress;
  state->polls_in_progress = -1;
  Error seen;
  std::thread splits([&] { seen = f.split(); });
  while (state->splits == 0) std::this_thread::yield();
  const int64_t begun = now_ns();
  f.communicator->abort("enough");
  splits.join();
  CHECK(now_ns() - begun < 5 * kSecond);
  CHECK(seen && seen.detail().kind == ErrorKind::kClosed);
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
  CHECK_EQ(f.aborted(), 1);
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

// Together they take longer than shutdown() waits for one.
TEST(shutdown_goes_on_while_receives_end_although_it_moves_none_itself) {
  constexpr int kMessages = 8;
  const auto all_came = [] {
    Fixture f;
    std::vector<std::shared_ptr<OpState>> ops;
    for (int i = 0; i < kMessages; ++i) ops.push_back(f.request(OpKind::kRecv));
    Event over;
    std::thread engine([&] {
      for (int i = 0; i < kMessages; ++i) {
        if (over.came_within(100 * kMillisecond)) return;
        state->end_requests(nccl_abi::kSuccess, 1);
      }
    });
    const bool in_order = f.communicator->shutdown();
    over.come();
    engine.join();
    const auto is_done = [](const auto& op) { return op->outcome() == Outcome::kDone; };
    return in_order && std::all_of(ops.begin(), ops.end(), is_done);
  };
  // Where the engine's thread gets no core for half a second shutdown() is right to give up: that says nothing.
  int tries = 5;
  while (!all_came()) CHECK(--tries > 0);
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
  CHECK_EQ(f.aborted(), 1);
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
  CHECK_EQ(f.aborted(), 1);
}

TEST(a_state_outlives_its_communicator) {
  Fixture f;
  const auto op = f.issue();
  f.communicator.reset();
  CHECK(op->outcome() == Outcome::kCancelled);
  CHECK(op->wait(Deadline::after(kLong), true, nullptr) == OpState::WaitResult::kEnded);
}

CHECK_MAIN()
