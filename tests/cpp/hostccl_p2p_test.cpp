// Point to point: tags, any source, all sizes, groups, self; and the roll call behind monitored_barrier and split.

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check.h"
#include "hostccl/hostccl.h"
#include "hostccl_world.h"

using namespace nccl_abi;
using namespace hostccl;
using hostccl_test::expect;
using hostccl_test::expect_success;
using hostccl_test::run_world;

namespace {

std::vector<int32_t> message(int seed, size_t count) {
  std::vector<int32_t> data(count);
  for (size_t i = 0; i < count; ++i) data[i] = seed * 1000 + static_cast<int32_t>(i);
  return data;
}

void count_success(void* arg, Result result) {
  if (result == kSuccess) static_cast<std::atomic<int>*>(arg)->fetch_add(1);
}

// In a roll call that one rank does not join rank 0 is the one whose time runs out, and it tells the others. It begins when
// rank 1 is about to, and has time enough for it to come where the machine is slow.
class OneIsMissing {
 public:
  int64_t timeout(int rank) {
    if (rank != 0) {
      others_begin_ = true;
      return 20'000'000'000;
    }
    while (!others_begin_) std::this_thread::yield();
    return 1'000'000'000;
  }

 private:
  std::atomic<bool> others_begin_{false};
};

void wait_for(CommHandle comm, const std::atomic<int>& counter, int wanted) {
  while (counter.load() < wanted) hostcclCommProgress(comm);
}

}  // namespace

TEST(ping_pong_of_all_sizes) {
  for (const size_t count :
       {size_t{0}, size_t{1}, size_t{24}, size_t{25}, size_t{4096}, size_t{4097}, size_t{16'001}, size_t{1'000'003}}) {
    const std::string errors = run_world(2, [&](int rank, CommHandle comm) {
      for (int round = 0; round < 20; ++round) {
        std::vector<int32_t> in(count);
        const std::vector<int32_t> out = message(rank + round, count);
        if (rank == 0) {
          expect_success(hostcclSend(out.data(), count, kInt32, 1, 5, comm, nullptr, nullptr), "send");
          expect_success(hostcclRecv(in.data(), count, kInt32, 1, 6, comm, nullptr, nullptr, nullptr), "recv");
          expect(in == message(1 + round, count), "value");
        } else {
          expect_success(hostcclRecv(in.data(), count, kInt32, 0, 5, comm, nullptr, nullptr, nullptr), "recv");
          expect_success(hostcclSend(out.data(), count, kInt32, 0, 6, comm, nullptr, nullptr), "send");
          expect(in == message(round, count), "value");
        }
      }
    });
    CHECK_EQ(errors, std::string());
  }
}

TEST(tags_match_out_of_order_and_any_source_tells_the_source) {
  for (const size_t count : {size_t{3}, size_t{3000}, size_t{30'000}, size_t{300'000}}) {
    const std::string errors = run_world(3, [&](int rank, CommHandle comm) {
      std::atomic<int> ended{0};
      constexpr int kTags = 8;
      if (rank == 0) {
        for (int tag = kTags - 1; tag >= 0; --tag) {
          int seen = 0;
          for (int k = 0; k < 2; ++k) {
            std::vector<int32_t> in(count);
            RecvStatus status{};
            expect_success(hostcclRecv(in.data(), count, kInt32, kAnySource, tag, comm, nullptr, nullptr, &status),
                           "recv");
            expect(in == message(status.source * 100 + tag, count), "value");
            seen += status.source;
          }
          expect(seen == 3, "one from each");
        }
      } else {
        std::vector<std::vector<int32_t>> out;
        for (int tag = 0; tag < kTags; ++tag) out.push_back(message(rank * 100 + tag, count));
        for (int tag = 0; tag < kTags; ++tag) {
          expect_success(
              hostcclSend(out[static_cast<size_t>(tag)].data(), count, kInt32, 0, tag, comm, count_success, &ended),
              "send");
        }
        wait_for(comm, ended, kTags);
      }
    });
    CHECK_EQ(errors, std::string());
  }
}

// Receives from a rank and from any that ask for the same tag get messages in the order in which they were posted.
TEST(any_source_keeps_its_place_among_the_others) {
  constexpr int kReceives = 200;
  const std::string errors = run_world(2, [&](int rank, CommHandle comm) {
    std::vector<int32_t> data(kReceives);
    std::atomic<int> ended{0};
    if (rank == 1) {
      for (int i = 0; i < kReceives; ++i) {
        const auto at = static_cast<size_t>(i);
        const int source = i % 3 == 0 ? kAnySource : 0;
        expect_success(hostcclRecv(&data[at], 1, kInt32, source, 7, comm, count_success, &ended, nullptr), "recv");
      }
    }
    expect_success(hostcclBarrier(comm, nullptr), "barrier");
    for (int i = 0; rank == 0 && i < kReceives; ++i) {
      expect_success(hostcclSend(&i, 1, kInt32, 1, 7, comm, nullptr, nullptr), "send");
    }
    if (rank == 0) return;
    wait_for(comm, ended, kReceives);
    for (int i = 0; i < kReceives; ++i) expect(data[static_cast<size_t>(i)] == i, "in the order of posting");
  });
  CHECK_EQ(errors, std::string());
}

// Receives that wait for messages, and messages that wait for receives, all with tags of their own, in reverse order.
TEST(a_hundred_thousand_tags_do_not_cost_each_others_time) {
  constexpr int kTags = check::kDetectsRaces ? 10'000 : 100'000;
  for (const bool receive_first : {true, false}) {
    const std::string errors = run_world(2, [&](int rank, CommHandle comm) {
      std::vector<int32_t> data(kTags);
      std::atomic<int> ended{0};
      auto receive_all = [&] {
        for (int tag = kTags - 1; tag >= 0; --tag) {
          int32_t* into = &data[static_cast<size_t>(tag)];
          expect_success(hostcclRecv(into, 1, kInt32, 0, tag, comm, count_success, &ended, nullptr), "recv");
        }
      };
      if (rank == 1 && receive_first) receive_all();
      expect_success(hostcclBarrier(comm, nullptr), "barrier");
      if (rank == 0) {
        for (int tag = 0; tag <= kTags; ++tag) {
          expect_success(hostcclSend(&tag, 1, kInt32, 1, tag, comm, nullptr, nullptr), "send");
        }
        return;
      }
      int32_t last = 0;
      expect_success(hostcclRecv(&last, 1, kInt32, 0, kTags, comm, nullptr, nullptr, nullptr), "the last one");
      if (!receive_first) receive_all();
      wait_for(comm, ended, kTags);
      for (int tag = 0; tag < kTags; ++tag) expect(data[static_cast<size_t>(tag)] == tag, "value");
    });
    CHECK_EQ(errors, std::string());
  }
}

// Data that was sent before it was asked for lies in the pair's ring, more than it holds, in front of what is asked for.
TEST(what_nobody_has_asked_for_yet_does_not_stand_in_the_way) {
  constexpr size_t kAhead = 60'000;  // 240 kB
  constexpr int kMany = 12;
  const std::string errors = run_world(2, [&](int rank, CommHandle comm) {
    const std::vector<std::pair<int, size_t>> later{{kMany, 400'000}, {kMany + 1, 20'000}, {kMany + 2, 5}};
    if (rank == 0) {
      std::atomic<int> ended{0};
      std::vector<std::vector<int32_t>> out;
      for (int tag = 0; tag < kMany; ++tag) out.push_back(message(tag, kAhead));
      for (const auto& [tag, count] : later) out.push_back(message(tag, count));
      for (size_t tag = 0; tag < out.size(); ++tag) {
        expect_success(hostcclSend(out[tag].data(), out[tag].size(), kInt32, 1, static_cast<int>(tag), comm,
                                   count_success, &ended),
                       "send");
      }
      wait_for(comm, ended, static_cast<int>(out.size()));
      return;
    }
    auto receive = [&](int tag, size_t count) {
      std::vector<int32_t> in(count);
      expect_success(hostcclRecv(in.data(), count, kInt32, 0, tag, comm, nullptr, nullptr, nullptr), "recv");
      expect(in == message(tag, count), "value of tag " + std::to_string(tag));
    };
    receive(kMany / 2, kAhead);
    for (auto at = later.rbegin(); at != later.rend(); ++at) receive(at->first, at->second);
    for (int tag = kMany - 1; tag >= 0; --tag) {
      if (tag != kMany / 2) receive(tag, kAhead);
    }
  });
  CHECK_EQ(errors, std::string());
}

// A receive that is posted when half of its message has been set aside takes the rest itself.
TEST(a_message_set_aside_half_way_is_completed) {
  constexpr size_t kCount = 60'000;
  constexpr int kRounds = 50;
  const std::string errors = run_world(2, [&](int rank, CommHandle comm) {
    for (int round = 0; round < kRounds; ++round) {
      std::atomic<int> ended{0};
      std::vector<int32_t> first(kCount), second(kCount);
      if (rank == 0) {
        first = message(round, kCount);
        second = message(round + 1, kCount);
        expect_success(hostcclSend(first.data(), kCount, kInt32, 1, 1, comm, count_success, &ended), "send");
        expect_success(hostcclSend(second.data(), kCount, kInt32, 1, 2, comm, count_success, &ended), "send");
      } else {
        expect_success(hostcclRecv(second.data(), kCount, kInt32, 0, 2, comm, count_success, &ended, nullptr), "recv");
        for (int i = 0; i < round; ++i) hostcclCommProgress(comm);
        expect_success(hostcclRecv(first.data(), kCount, kInt32, 0, 1, comm, count_success, &ended, nullptr), "recv");
      }
      wait_for(comm, ended, 2);
      expect(first == message(round, kCount), "first");
      expect(second == message(round + 1, kCount), "second");
    }
  });
  CHECK_EQ(errors, std::string());
}

TEST(everybody_to_everybody_at_once_also_to_oneself) {
  for (const size_t count : {size_t{2}, size_t{20'000}, size_t{100'000}}) {
    const std::string errors = run_world(4, [&](int rank, CommHandle comm) {
      std::vector<std::vector<int32_t>> in(4, std::vector<int32_t>(count)), out;
      for (int peer = 0; peer < 4; ++peer) out.push_back(message(rank * 10 + peer, count));
      expect_success(ncclGroupStart(), "start");
      for (int peer = 0; peer < 4; ++peer) {
        expect_success(ncclSend(out[static_cast<size_t>(peer)].data(), count, kInt32, peer, comm, nullptr), "send");
        expect_success(ncclRecv(in[static_cast<size_t>(peer)].data(), count, kInt32, peer, comm, nullptr), "recv");
      }
      std::vector<float> sum{1};
      expect_success(ncclAllReduce(sum.data(), sum.data(), 1, kFloat32, kSum, comm, nullptr),
                     "all_reduce in the group");
      expect_success(ncclGroupEnd(), "end");
      expect(sum[0] == 4, "sum");
      for (int peer = 0; peer < 4; ++peer)
        expect(in[static_cast<size_t>(peer)] == message(peer * 10 + rank, count), "value");
    });
    CHECK_EQ(errors, std::string());
  }
}

TEST(asynchronous_requests_arrive_while_a_collective_waits) {
  const std::string errors = run_world(2, [&](int rank, CommHandle comm) {
    constexpr size_t kCount = 500'000;
    std::vector<int32_t> in(kCount);
    const std::vector<int32_t> out = message(rank, kCount);
    std::atomic<int> ended{0};
    expect_success(hostcclSend(out.data(), kCount, kInt32, 1 - rank, 0, comm, count_success, &ended), "send");
    expect_success(hostcclBarrier(comm, nullptr), "barrier");
    expect_success(hostcclRecv(in.data(), kCount, kInt32, 1 - rank, 0, comm, count_success, &ended, nullptr), "recv");
    expect_success(hostcclBarrier(comm, nullptr), "barrier");
    wait_for(comm, ended, 2);
    expect(in == message(1 - rank, kCount), "value");
  });
  CHECK_EQ(errors, std::string());
}

TEST(monitored_barrier_names_who_is_missing_and_harms_nobody) {
  OneIsMissing call;
  const std::string errors = run_world(3, [&](int rank, CommHandle comm) {
    int missing[3], nmissing = -1;
    for (int round = 0; round < 3; ++round) {
      expect_success(hostcclMonitoredBarrier(comm, 10'000'000'000, missing, &nmissing), "all come");
      expect(nmissing == 0, "none missing");
    }
    if (rank != 2) {
      expect(hostcclMonitoredBarrier(comm, call.timeout(rank), missing, &nmissing) == kTimeout, "times out");
      expect(nmissing == 1 && missing[0] == 2, "rank 2 is missing");
    }
    expect_success(hostcclBarrier(comm, nullptr), "still healthy");
    expect_success(hostcclMonitoredBarrier(comm, 10'000'000'000, missing, &nmissing), "all come again");
  });
  CHECK_EQ(errors, std::string());
}

TEST(a_roll_call_forgets_those_who_gave_up) {
  OneIsMissing call;
  const std::string errors = run_world(3, [&](int rank, CommHandle comm) {
    int missing[3], nmissing = -1;
    if (rank != 0) {  // rank 0 does not come: the others give up, and say so
      expect(hostcclMonitoredBarrier(comm, 100'000'000, missing, &nmissing) == kTimeout, "rank 0 is missing");
      expect(nmissing == 1 && missing[0] == 0, "and named");
    }
    expect_success(hostcclBarrier(comm, nullptr), "still healthy");
    // Only rank 1 comes with rank 0: what rank 2 left behind must not count.
    if (rank != 2) {
      const Result result = hostcclMonitoredBarrier(comm, call.timeout(rank), missing, &nmissing);
      expect(result == kTimeout, "rank 2 is missing");
    }
    if (rank != 2) expect(nmissing == 1 && missing[0] == 2, "rank 2 alone is missing");
    expect_success(hostcclBarrier(comm, nullptr), "still healthy");
    expect_success(hostcclMonitoredBarrier(comm, 10'000'000'000, missing, &nmissing), "all come");
  });
  CHECK_EQ(errors, std::string());
}

TEST(split_by_colour_and_key) {
  const std::string errors = run_world(5, [&](int rank, CommHandle comm) {
    CommHandle part = nullptr;
    const int color = rank == 4 ? kSplitNoColor : rank % 2;
    expect_success(ncclCommSplit(comm, color, -rank, &part, nullptr), "split");
    if (rank == 4) {
      expect(part == nullptr, "outside");
    } else {
      int count = 0, me = -1;
      expect_success(ncclCommCount(part, &count), "count");
      expect_success(ncclCommUserRank(part, &me), "rank");
      expect(count == 2 && me == (rank < 2 ? 1 : 0), "the higher rank comes first");
      std::vector<float> sum{static_cast<float>(rank)};
      expect_success(ncclAllReduce(sum.data(), sum.data(), 1, kFloat32, kSum, part, nullptr), "all_reduce");
      expect(sum[0] == static_cast<float>(color == 0 ? 0 + 2 : 1 + 3), "sum of the part");
      expect_success(ncclCommDestroy(part), "destroy");
    }
    expect_success(hostcclBarrier(comm, nullptr), "the parent lives on");
  });
  CHECK_EQ(errors, std::string());
}

CHECK_MAIN()
