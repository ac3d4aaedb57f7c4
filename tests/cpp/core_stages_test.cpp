// What happens to a communicator between its beginning and its end: suspended and resumed, shrunk; and who makes unique ids.
#include <thread>

#include "core_fixture.h"
#include "nccl2/core/roots.h"

using namespace pycomms;
using fake::Fixture;
using fake::kLong;
using fake::state;

namespace {

CommunicatorOptions child_options(int size, int64_t timeout = kLong) {
  CommunicatorOptions options;
  options.size = size;
  options.group = "child";
  options.timeout = timeout;
  return options;
}

}  // namespace

TEST(operations_on_a_suspended_communicator_are_refused) {
  Fixture f;
  CHECK(!f.run());
  CHECK(!f.communicator->suspend(Deadline::after(kLong)));
  CHECK(f.communicator->state() == LifeState::kSuspended);
  const Error refused = f.run();
  CHECK(refused && refused.detail().kind == ErrorKind::kUsage);
  CHECK(refused.detail().message.find("resume()") != std::string::npos);
  CHECK_EQ(f.failures.load(), 0);
  CHECK(f.communicator->engine_handle() == nullptr);
  CHECK(!f.communicator->resume());
  CHECK(!f.run());
  CHECK(f.communicator->resume().detail().kind == ErrorKind::kUsage);
  CHECK_EQ(state->resumed.load(), 1);
}

TEST(suspend_waits_for_what_is_in_flight_but_not_for_ever) {
  Fixture f;
  const auto op = f.request(OpKind::kSend);
  const Error late = f.communicator->suspend(Deadline::after(20 * kMillisecond));
  CHECK(late && late.detail().kind == ErrorKind::kTimeout);
  CHECK_EQ(state->suspended.load(), 0);
  CHECK(!f.run());  // as before
  state->end_requests(nccl_abi::kSuccess);
  CHECK(!f.communicator->suspend(Deadline::after(kLong)));
  CHECK_EQ(state->suspended.load(), 1);
}

TEST(an_abort_ends_the_wait_of_suspend) {
  Fixture f;
  const auto op = f.request(OpKind::kSend);
  Error seen;
  std::thread waiting([&] { seen = f.communicator->suspend(Deadline::after(kLong)); });
  while (f.communicator->state() != LifeState::kSuspended) std::this_thread::yield();
  const int64_t begun = now_ns();
  f.communicator->abort("enough");
  waiting.join();
  CHECK(now_ns() - begun < 5 * kSecond);
  CHECK(seen && seen.detail().kind == ErrorKind::kClosed);
  CHECK_EQ(state->aborted.load(), 1);
}

TEST(a_suspension_that_the_engine_refuses_leaves_it_as_it_was) {
  Fixture f;
  CHECK(!f.run());
  state->suspend = nccl_abi::kInvalidUsage;
  CHECK(f.communicator->suspend(Deadline::after(kLong)));
  CHECK(!f.run());
}

TEST(a_suspended_communicator_is_resumed_to_be_shut_down) {
  Fixture f;
  CHECK(!f.run());
  CHECK(!f.communicator->suspend(Deadline::after(kLong)));
  CHECK(f.communicator->shutdown());
  CHECK_EQ(state->resumed.load(), 1);
  CHECK_EQ(state->destroyed.load(), 1);
}

TEST(shrink_leaves_its_parent_as_it_was) {
  Fixture f;
  CHECK(!f.run());
  state->count = 1;
  std::unique_ptr<Communicator> child;
  CHECK(!f.communicator->shrink({1}, Communicator::Shrink::kWhenIdle, child_options(1), &child));
  CHECK(child != nullptr && child->state() == LifeState::kReady);
  CHECK_EQ(state->shrink_flags.load(), nccl_abi::kShrinkDefault);
  CHECK(!f.run());
}

TEST(shrink_does_not_begin_while_something_is_in_flight) {
  Fixture f;
  const auto op = f.request(OpKind::kSend);
  std::unique_ptr<Communicator> child;
  const Error late =
      f.communicator->shrink({1}, Communicator::Shrink::kWhenIdle, child_options(1, 20 * kMillisecond), &child);
  CHECK(late && late.detail().kind == ErrorKind::kTimeout);
  CHECK_EQ(state->shrink_flags.load(), -1);
  CHECK_EQ(f.failures.load(), 0);
  state->end_requests(nccl_abi::kSuccess);
  CHECK(!f.run());
}

TEST(shrink_with_revocation_cancels_what_is_in_flight_first) {
  Fixture f;
  const auto op = f.request(OpKind::kSend);
  state->count = 1;
  std::unique_ptr<Communicator> child;
  CHECK(!f.communicator->shrink({1}, Communicator::Shrink::kRevoke, child_options(1), &child));
  CHECK(op->outcome() == Outcome::kCancelled);
  CHECK(op->error().detail().kind == ErrorKind::kRevoked);
  CHECK_EQ(state->shrink_flags.load(), nccl_abi::kShrinkAbort);
  CHECK(f.run().detail().kind == ErrorKind::kRevoked);
}

TEST(roots_are_the_first_of_runs_of_nearly_the_same_length) {
  CHECK_EQ(root_count(1000, 128), 8);
  CHECK_EQ(root_count(128, 128), 1);
  CHECK_EQ(root_count(129, 128), 2);
  CHECK_EQ(root_count(4, 0), 1);
  CHECK_EQ(root_count(1, 128), 1);
  for (int size = 1; size < 40; ++size) {
    for (int roots = 1; roots <= size; ++roots) {
      CHECK_EQ(root_rank(0, size, roots), 0);
      for (int i = 1; i <= roots; ++i) {
        const int length = root_rank(i, size, roots) - root_rank(i - 1, size, roots);
        CHECK(length == size / roots || length == size / roots + 1);
      }
      CHECK_EQ(root_rank(roots, size, roots), size);
    }
  }
}

CHECK_MAIN()
