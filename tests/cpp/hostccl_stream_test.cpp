// The host stream: when its thread begins, and how far a waiter may run what is queued.

#include <atomic>
#include <memory>
#include <vector>

#include "check.h"
#include "hostccl/leisure.h"
#include "hostccl/stream.h"

using hostccl::leisure;
using hostccl::QueueState;
using hostccl::Stream;
using pycomms::kMicrosecond;
using pycomms::kMillisecond;

namespace {

class Step final : public Stream::Task {
 public:
  Step(std::vector<int>& order, int number, bool small) : order_(order), number_(number), small_(small) {}
  hostccl::Result run(bool) override {
    order_.push_back(number_);
    return nccl_abi::kSuccess;
  }
  bool is_small() const override { return small_; }

 private:
  std::vector<int>& order_;
  const int number_;
  const bool small_;
};

void count(void* arg, hostccl::Result result) {
  if (result == nccl_abi::kSuccess) static_cast<std::atomic<int>*>(arg)->fetch_add(1);
}

// The queue of an issuer that issued at 0 and, last, at `latest`.
QueueState issued(int64_t latest) { return {.empty = false, .latest_ns = latest}; }

}  // namespace

TEST(large_work_begins_at_once_and_so_does_the_end) {
  QueueState queue = issued(0);
  queue.has_large = true;
  CHECK_EQ(leisure(queue, 0), 0);
  queue = {};
  queue.stopping = true;
  CHECK_EQ(leisure(queue, 0), 0);
}

TEST(small_work_is_left_to_an_issuer_that_is_at_work) {
  CHECK(leisure(issued(0), 10 * kMicrosecond) > 0);
  CHECK_EQ(leisure(issued(0), hostccl::kIssuerIsQuiet), 0);
  CHECK(leisure(issued(400 * kMicrosecond), 450 * kMicrosecond) > 0);
  QueueState helped = issued(0);
  helped.helped = true;
  CHECK(leisure(helped, hostccl::kIssuerIsQuiet) > 0);
}

TEST(small_work_does_not_wait_for_ever_while_more_comes) {
  CHECK_EQ(leisure(issued(kMillisecond), kMillisecond), 0);
  CHECK(leisure(issued(kMillisecond - 10 * kMicrosecond), kMillisecond - 5 * kMicrosecond) <= 5 * kMicrosecond);
}

TEST(the_thread_of_an_empty_queue_glances_after_traffic_and_then_parks) {
  QueueState queue{.latest_ns = 1000};
  CHECK_EQ(leisure(queue, 2000), hostccl::kGlance);
  CHECK_EQ(leisure(queue, 1000 + hostccl::kGlance), hostccl::kParked);
  queue.helped = true;
  CHECK_EQ(leisure(queue, 1000 + hostccl::kGlance), hostccl::kGlance);
}

// Behind its own place there may be work that waits for something that the waiter is still to do.
TEST(a_waiter_runs_what_is_queued_up_to_its_place_and_nothing_behind) {
  constexpr int kRounds = 200;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<int> order;
    std::atomic<int> ended{0};
    uint64_t positions[3];
    Stream stream("test");  // its thread may outlast this block's last statement
    for (int i = 0; i < 3; ++i) {
      CHECK(stream.enqueue(std::make_unique<Step>(order, i, true)).is_ok());
      CHECK(stream.notify(count, &ended, &positions[i]).is_ok());
    }
    CHECK(positions[0] < positions[1] && positions[1] < positions[2]);
    while (ended.load() < 2) stream.help(positions[1]);
    CHECK(!stream.help(positions[1]));
  }
}

TEST(work_runs_in_order_whoever_runs_it) {
  std::vector<int> order;
  std::atomic<int> ended{0};
  constexpr int kWork = 500;
  uint64_t position = 0;
  {
    Stream stream("test");
    for (int i = 0; i < kWork; ++i) {
      CHECK(stream.enqueue(std::make_unique<Step>(order, i, i % 7 != 0)).is_ok());
      if (i % 3 == 0) CHECK(stream.notify(count, &ended, &position).is_ok());
      if (i % 50 == 0) stream.help(position);
    }
  }
  CHECK_EQ(order.size(), size_t{kWork});
  for (int i = 0; i < kWork; ++i) CHECK_EQ(order[static_cast<size_t>(i)], i);
  CHECK_EQ(ended.load(), (kWork + 2) / 3);
}

CHECK_MAIN()
