// The state of one operation: it ends once, wakes everybody, and runs what was to follow.
#include <atomic>
#include <thread>
#include <vector>

#include "check.h"
#include "nccl2/core/op_state.h"

using namespace pycomms;

namespace {

Error error(ErrorKind kind) {
  ErrorDetail detail;
  detail.kind = kind;
  detail.message = "planted";
  return Error(std::move(detail));
}

std::shared_ptr<OpState> make(OpKind kind = OpKind::kAllReduce) { return std::make_shared<OpState>(kind); }

constexpr int64_t kLong = 20 * kSecond;
using Wait = OpState::WaitResult;

}  // namespace

TEST(ends_once) {
  const auto op = make();
  CHECK(op->outcome() == Outcome::kPending);
  CHECK(op->end(Outcome::kCancelled, error(ErrorKind::kClosed)));
  CHECK(!op->end(Outcome::kDone));
  CHECK(op->outcome() == Outcome::kCancelled);
  CHECK(op->error().detail().kind == ErrorKind::kClosed);
}

TEST(a_deadline_of_a_waiter_leaves_it_pending) {
  const auto op = make();
  const int64_t start = now_ns();
  CHECK(op->wait(Deadline::after(5 * kMillisecond), false, nullptr) == Wait::kExpired);
  CHECK_LE(5 * kMillisecond, now_ns() - start);
  CHECK(op->outcome() == Outcome::kPending);
  CHECK(op->end(Outcome::kDone));
  CHECK(op->wait(Deadline::after(kLong), false, nullptr) == Wait::kEnded);
}

TEST(wakes_all_waiters) {
  for (int round = 0; round < 50; ++round) {
    const auto op = make();
    std::atomic<int> woken{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] { woken += op->wait(Deadline::after(kLong), true, nullptr) == Wait::kEnded; });
    }
    CHECK(op->end(Outcome::kDone));
    for (std::thread& thread : threads) thread.join();
    CHECK_EQ(woken.load(), 4);
  }
}

TEST(an_interrupt_ends_the_wait_only) {
  const auto op = make();
  CHECK(op->wait(Deadline::after(kLong), false, [] { return true; }) == Wait::kInterrupted);
  CHECK(op->outcome() == Outcome::kPending);
}

TEST(continuations_run_in_order_and_late_ones_at_once) {
  const auto op = make();
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) {
    op->then([&order, i](const OpState& state) {
      CHECK(state.has_ended());
      CHECK(OpState::is_running_continuations());
      order.push_back(i);
    });
  }
  CHECK(order.empty());
  CHECK(op->end(Outcome::kDone));
  op->then([&](const OpState&) { order.push_back(3); });
  CHECK(order == (std::vector<int>{0, 1, 2, 3}));
  CHECK(!OpState::is_running_continuations());
}

TEST(what_runs_before_the_end_is_over_when_a_waiter_returns) {
  for (int round = 0; round < 200; ++round) {
    const auto op = make();
    std::atomic<bool> ran{false};
    op->set_before_end([&] {
      CHECK(!op->has_ended());
      ran = true;
    });
    std::thread ender([&] { op->end(Outcome::kDone); });
    const Wait seen = op->wait(Deadline::after(kLong), true, nullptr);
    const bool over = ran;
    ender.join();
    CHECK(seen == Wait::kEnded && over);
  }
}

TEST(every_continuation_runs_once_whatever_the_race) {
  for (int round = 0; round < 300; ++round) {
    const auto op = make();
    std::atomic<int> ran{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] { op->then([&](const OpState&) { ++ran; }); });
    }
    threads.emplace_back([&] { op->end(Outcome::kDone); });
    for (std::thread& thread : threads) thread.join();
    CHECK_EQ(ran.load(), 3);
  }
}

TEST(a_continuation_may_wait_for_the_operation_itself) {
  const auto op = make();
  bool waited = false;
  op->then([&](const OpState&) { waited = op->wait(Deadline::after(kLong), true, nullptr) == Wait::kEnded; });
  CHECK(op->end(Outcome::kDone));
  CHECK(waited);
}

TEST(continuations_of_an_operation_that_never_ends_are_freed) {
  const auto held = std::make_shared<int>(1);
  {
    const auto op = make();
    op->then([held](const OpState&) {});
    CHECK_EQ(held.use_count(), 2);
  }
  CHECK_EQ(held.use_count(), 1);
}

TEST(a_block_ends_with_its_last_part_and_keeps_the_first_error) {
  const auto block = make(OpKind::kCoalesced);
  block->add_part();
  block->add_part();
  CHECK(!block->leave_part({}));
  CHECK(!block->leave_part(error(ErrorKind::kTimeout)));
  CHECK(block->leave_part(error(ErrorKind::kMismatch)));
  CHECK(block->first_part_error().detail().kind == ErrorKind::kTimeout);
}

CHECK_MAIN()
