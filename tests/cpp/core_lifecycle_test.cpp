// The lifecycle: legal steps only, and the first error stays.
#include <atomic>
#include <thread>
#include <vector>

#include "check.h"
#include "nccl2/core/lifecycle.h"

using namespace pycomms;

namespace {

Error error(const std::string& text) {
  ErrorDetail detail;
  detail.message = text;
  return Error(std::move(detail));
}

}  // namespace

TEST(walks_the_happy_path) {
  Lifecycle life;
  CHECK(life.state() == LifeState::kNew);
  CHECK(life.advance(LifeState::kNew, LifeState::kConnecting));
  CHECK(life.advance(LifeState::kConnecting, LifeState::kReady));
  CHECK(life.is_ready());
  CHECK(life.end(LifeState::kClosed, error("closed")));
  CHECK(life.state() == LifeState::kClosed);
}

TEST(refuses_steps_that_are_not_in_the_table) {
  Lifecycle life;
  CHECK(!life.advance(LifeState::kNew, LifeState::kReady));
  CHECK(!life.advance(LifeState::kConnecting, LifeState::kReady));  // it is not connecting
  CHECK(!life.end(LifeState::kRevoked, error("revoked before it was ready")));
  CHECK(life.state() == LifeState::kNew);
  CHECK(!life.first_error());
}

TEST(nothing_follows_closed) {
  for (int to = 0; to <= static_cast<int>(LifeState::kClosed); ++to) {
    CHECK(!may_follow(LifeState::kClosed, static_cast<LifeState>(to)));
  }
}

TEST(closed_follows_everything_else) {
  for (int from = 0; from < static_cast<int>(LifeState::kClosed); ++from) {
    CHECK(may_follow(static_cast<LifeState>(from), LifeState::kClosed));
  }
}

TEST(keeps_the_first_error) {
  Lifecycle life;
  CHECK(life.advance(LifeState::kNew, LifeState::kConnecting));
  CHECK(life.end(LifeState::kFailed, error("first")));
  CHECK(!life.end(LifeState::kFailed, error("second")));
  CHECK(life.end(LifeState::kClosed, error("third")));
  CHECK_EQ(life.first_error().detail().message, "first");
}

TEST(one_of_many_threads_ends_it) {
  for (int round = 0; round < 200; ++round) {
    Lifecycle life;
    CHECK(life.advance(LifeState::kNew, LifeState::kConnecting));
    std::atomic<int> winners{0};
    std::string winner;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        if (!life.end(LifeState::kFailed, error(std::to_string(i)))) return;
        ++winners;
        winner = std::to_string(i);
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK_EQ(winners.load(), 1);
    CHECK_EQ(life.first_error().detail().message, winner);
  }
}

CHECK_MAIN()
