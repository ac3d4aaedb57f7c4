// What couriers carry between hosts arrives whole, in order, and before the news that its sender has gone.

#include "courier_world.h"
#include "hostccl/failures.h"

using namespace courier_test;
using net_test::eventually;
using net_test::pattern;

namespace {

// Looks on behalf of all members until ready().
bool until(World& world, const std::function<bool()>& ready) {
  return eventually(ready, [&] {
    for (const auto& member : world.members()) {
      member->courier->progress();
      member->p2p->progress();
    }
  });
}

}  // namespace

TEST(envelopes_come_after_their_data) {
  World world({0, 1});
  CHECK(world.is_complete());
  std::atomic<bool> stop{false};
  // As another thread of the rank does that runs a collective: it publishes while messages are being posted.
  std::thread other([&] {
    while (!stop) world[0].courier->published(1);
  });
  constexpr size_t kRounds = 200, kBurst = 16, kBytes = 128;  // beside the envelopes, in the eager ring
  bool well = true;
  for (size_t round = 0; round < kRounds && well; ++round) {
    std::vector<std::vector<std::byte>> data, got(kBurst, std::vector<std::byte>(kBytes));
    std::vector<Pending> sent(kBurst), received(kBurst);
    for (size_t i = 0; i < kBurst; ++i) {
      data.push_back(pattern(kBytes, round * kBurst + i));
      world[1].p2p->post(received[i].request(false, got[i], 0));
    }
    for (size_t i = 0; i < kBurst; ++i) world[0].p2p->post(sent[i].request(true, data[i], 1));
    well = until(world,
                 [&] { return std::all_of(received.begin(), received.end(), [](auto& r) { return r.done.load(); }); });
    well = well && got == data;
  }
  stop = true;
  other.join();
  CHECK(well);
  CHECK(!world[1].segment->has_failed());
}

TEST(what_was_sent_comes_before_the_news_that_its_sender_has_closed) {
  for (int round = 0; round < 10; ++round) {
    World world({0, 1, 1}, -1, {4096, 4096, kPatience});  // what is large takes its time
    CHECK(world.is_complete());
    const Places& places = world[0].segment->places();
    const int port = places.port_of(0, 1), receiver = port == 1 ? 2 : 1;
    constexpr size_t kMessages = 4, kBytes = 250 << 10;  // as many as leave at once
    std::vector<std::vector<std::byte>> data, got(kMessages, std::vector<std::byte>(kBytes));
    std::vector<Pending> sent(kMessages), received(kMessages);
    for (size_t i = 0; i < kMessages; ++i) {
      data.push_back(pattern(kBytes, i));
      world[0].p2p->post(sent[i].request(true, data[i], receiver));
      CHECK(eventually([&] { return sent[i].done.load(); }, [&] { world[0].p2p->progress(); }));
    }
    std::thread leaver([&] { world[0].close(); });
    // The receiver looks only when it hears the news, as one does who comes late.
    const bool heard =
        eventually([&] { return world[receiver].segment->block(0).presence.load() == Presence::kClosed; });
    for (size_t i = 0; i < kMessages; ++i) world[receiver].p2p->post(received[i].request(false, got[i], 0));
    while (world[receiver].p2p->progress()) continue;
    const auto is_done = [](const Pending& each) { return each.done.load(); };
    const bool all_came = std::all_of(received.begin(), received.end(), is_done);
    leaver.join();
    CHECK(heard && all_came && got == data);
  }
}

TEST(a_rank_that_leaves_first_receives_what_others_on_its_host_still_need) {
  World world({0, 0, 1, 1});
  CHECK(world.is_complete());
  // Root 1: the results of a writer whose port is rank 0 come through a rank that does not need them itself.
  const Places& places = world[0].segment->places();
  CHECK_EQ(places.port_of(3, 0) == 0 || places.port_of(2, 0) == 0, true);
  constexpr size_t kCount = 4 << 20;
  std::vector<std::thread> threads;
  std::vector<Result> results(4, nccl_abi::kInProgress);
  std::vector<float> out(kCount);
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<float> in(kCount, static_cast<float>(rank + 1));
      Collective op;
      op.kind = Kind::kReduce;
      op.type = nccl_abi::kFloat32;
      op.root = 1;
      op.send = {.block = in.data(), .count = kCount};
      op.recv = {.block = out.data(), .count = kCount};
      results[static_cast<size_t>(rank)] = world[rank].lane->run(op, kPatience, false);
      if (rank == 0) world[rank].close();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Result result : results) CHECK_EQ(result, nccl_abi::kSuccess);
  CHECK(std::all_of(out.begin(), out.end(), [](float each) { return each == 10; }));
}

TEST(who_stays_hears_how_it_ends_when_its_port_has_left) {
  for (const bool fails : {true, false}) {
    World world({0, 0, 1});
    CHECK(world.is_complete());
    const int port = world[2].segment->places().port_of(2, 0), other = 1 - port;
    world[port].close();
    const auto presence_on = [&](int rank, int of) { return world[rank].segment->block(of).presence.load(); };
    CHECK(eventually([&] { return presence_on(2, port) == Presence::kClosed; }));
    CHECK(!world[other].segment->has_failed());
    if (fails) {
      world[2].segment->fail(make_failure(FailureKind::kAborted, 2, "enough"));
      CHECK(eventually([&] { return world[other].segment->has_failed(); }));
      CHECK_STREQ(world[other].segment->failure().text, "enough");
    } else {
      world[2].close();
      CHECK(eventually([&] { return presence_on(other, 2) == Presence::kClosed; }));
    }
    CHECK_EQ(world[other].watch->find_dead(false), -1);
  }
}

TEST(writers_of_a_host_are_spread_over_the_ranks_of_another) {
  for (const std::vector<int>& host_of : {std::vector{0, 0, 0, 1, 1, 1}, std::vector{0, 1, 0, 1, 0, 1}}) {
    const Places places(host_of, 0);
    for (int host = 0; host < 2; ++host) {
      std::vector<int> ports;
      for (const int writer : places.ranks_on(1 - host)) ports.push_back(places.port_of(writer, host));
      std::sort(ports.begin(), ports.end());
      CHECK(ports == places.ranks_on(host));
    }
  }
}

CHECK_MAIN()
