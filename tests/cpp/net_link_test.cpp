// A link between two sockets: messages arrive whole, once and in order.

#include <atomic>
#include <cstdlib>
#include <new>

#include "net_links.h"

using namespace net_test;

namespace {

std::atomic<uint64_t> allocations{0};

}  // namespace

// Counts every allocation of the program, to show that a message costs none.
[[gnu::noinline]] void* operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

TEST(small_messages_arrive_in_order) {
  LinkPair pair;
  for (uint64_t i = 0; i < 100; ++i) {
    Message m = message(3, i);
    m.tag = -5;
    m.aux = ~i;
    const std::string text = "message " + std::to_string(i);
    must(pair.a.send(Lane::kNormal, m, {bytes_of("head of "), bytes_of(text)}));
  }
  CHECK(eventually([&] { return pair.at_b.count() == 100; }, [&] { pair.step(); }));
  for (uint64_t i = 0; i < 100; ++i) {
    const Letter letter = pair.at_b.take();
    CHECK_STREQ(letter.text(), "head of message " + std::to_string(i));
    CHECK_EQ(letter.message.kind, 3);
    CHECK_EQ(letter.message.tag, -5);
    CHECK_EQ(letter.message.id, i);
    CHECK_EQ(letter.message.aux, ~i);
    CHECK_EQ(letter.peer, 0);
  }
  CHECK(pair.b.last_heard_ns() > 0);
}

TEST(all_sizes_pass_tiny_buffers_both_ways) {
  LinkPair pair(kTiny);
  const std::vector<size_t> sizes{0,      1,          39,        40, 41, 4095, kInlineBytes, kInlineBytes + 1,
                                  kChunk, kChunk + 1, 3 * kChunk};
  std::vector<std::vector<std::byte>> data;
  Count count;
  for (size_t i = 0; i < sizes.size(); ++i) data.push_back(pattern(sizes[i], i));
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (Link* link : {&pair.a, &pair.b}) {
      const size_t head = std::min<size_t>(sizes[i], 7);
      const std::span<const std::byte> all(data[i]);
      must(link->send(Lane::kNormal, message(1, i), {all.first(head), all.subspan(head)}, count.completion()));
    }
  }
  CHECK(eventually([&] { return pair.at_a.count() == sizes.size() && pair.at_b.count() == sizes.size(); },
                   [&] { pair.step(); }));
  CHECK_EQ(count.sent, static_cast<int>(2 * sizes.size()));
  for (size_t i = 0; i < sizes.size(); ++i) {
    CHECK(pair.at_a.take().payload == data[i]);
    CHECK(pair.at_b.take().payload == data[i]);
  }
}

TEST(what_is_urgent_overtakes_what_is_large) {
  LinkPair pair(kTiny);
  const auto large = pattern(8 * kChunk, 1);
  Count count;
  must(pair.a.send(Lane::kBulk, message(1, 1), body(large), count.completion()));
  must(pair.a.send(Lane::kNormal, message(1, 2), body(bytes_of("next"))));
  must(pair.a.send(Lane::kUrgent, message(1, 3), body(bytes_of("first"))));
  CHECK(eventually([&] { return pair.at_b.count() == 3; }, [&] { pair.step(); }));
  CHECK_STREQ(pair.at_b.take().text(), "first");
  CHECK_STREQ(pair.at_b.take().text(), "next");
  CHECK(pair.at_b.take().payload == large);
}

TEST(a_message_without_completion_leaves_the_callers_memory) {
  LinkPair pair(kTiny);
  const auto expected = pattern(Link::kCopyBytes, 5);
  for (int i = 0; i < 4; ++i) {
    auto scratch = expected;
    must(pair.a.send(Lane::kNormal, message(1, static_cast<uint64_t>(i)), body(scratch)));
    std::fill(scratch.begin(), scratch.end(), std::byte{0});
  }
  CHECK(eventually([&] { return pair.at_b.count() == 4; }, [&] { pair.step(); }));
  for (int i = 0; i < 4; ++i) CHECK(pair.at_b.take().payload == expected);
}

TEST(what_may_go_later_goes_with_the_next) {
  LinkPair pair;
  Count count;
  const auto first = pattern(3000, 1);
  must(pair.a.send(Lane::kNormal, message(1, 1), body(first), count.completion(), Push::kLater));
  CHECK(pair.a.has_unpushed() && pair.a.has_output());
  CHECK_EQ(count.sent, 0);
  CHECK(!pair.b.progress());
  must(pair.a.send(Lane::kNormal, message(1, 2), body(bytes_of("now"))));
  CHECK(!pair.a.has_output());
  CHECK_EQ(count.sent, 1);
  CHECK(eventually([&] { return pair.at_b.count() == 2; }, [&] { pair.b.progress(); }));
  CHECK(pair.at_b.take().payload == first);
  CHECK_STREQ(pair.at_b.take().text(), "now");
}

TEST(progress_sends_what_was_to_go_later) {
  LinkPair pair;
  must(pair.a.send(Lane::kNormal, message(1), body(bytes_of("later")), {}, Push::kLater));
  CHECK(eventually([&] { return pair.at_b.count() == 1; }, [&] { pair.step(); }));
  CHECK(!pair.a.has_unpushed());
}

TEST(memory_is_the_callers_again_once_bodies_are_kept) {
  LinkPair pair(kTiny);
  const auto expected = pattern(2 * kChunk + 5, 2);
  auto memory = expected;
  Count count;
  must(pair.a.send(Lane::kBulk, message(1), body(memory), count.completion()));
  CHECK(pair.a.has_output());  // a part of it is with the kernel
  pair.a.keep_bodies();
  std::fill(memory.begin(), memory.end(), std::byte{0});
  CHECK(eventually([&] { return pair.at_b.count() == 1; }, [&] { pair.step(); }));
  CHECK(pair.at_b.take().payload == expected);
  CHECK_EQ(count.sent, 1);
}

TEST(messages_sent_before_the_connection_wait_for_it) {
  Recorder at_a, at_b;
  Link a(1, at_a), b(0, at_b);
  must(a.send(Lane::kNormal, message(1), body(bytes_of("early"))));
  CHECK(!a.progress() && a.has_output() && !a.is_connected());
  SocketPair sockets;
  CHECK(a.attach(std::move(sockets.a), sockets.at, {}));
  CHECK(b.attach(std::move(sockets.b), sockets.at, {}));
  CHECK(eventually([&] { return at_b.count() == 1; }, [&] { b.progress(); }));
  CHECK_STREQ(at_b.take().text(), "early");
}

TEST(what_cannot_be_sent_is_refused_and_harms_nobody) {
  LinkPair pair;
  const std::vector<std::byte> large(Link::kCopyBytes + 1);
  const auto refused = [&](Lane lane, const Message& m, const Payload& payload) {
    const pycomms::Status status = pair.a.send(lane, m, payload);
    CHECK(status.code() == pycomms::Code::kInvalidArgument);
    return status.message();
  };
  CHECK_STREQ(refused(Lane::kNormal, message(kLastKind + 2), {}), "a message of kind 241, expected at most 239");
  CHECK_STREQ(refused(Lane::kNormal, message(1), body(large)),
              "a message of 65537 bytes without a completion, expected at most 65536 bytes");
  CHECK_STREQ(refused(Lane::kUrgent, message(1), body(std::span(large).first(kUrgentBytes + 1))),
              "a message of 8193 bytes in the urgent lane, expected at most 8192 bytes");
  CHECK_STREQ(refused(Lane::kNormal, message(1), {std::span(large).first(kHeadBytes + 1), {}}),
              "a message with a head of 129 bytes, expected at most 128 bytes");
  must(pair.a.send(Lane::kNormal, message(1), body(bytes_of("works"))));
  CHECK(eventually([&] { return pair.at_b.count() == 1; }, [&] { pair.step(); }));
}

TEST(a_full_lane_says_so) {
  Recorder sink;
  Link link(4, sink);
  for (size_t i = 0; i < Outbox::kParcels; ++i) must(link.send(Lane::kNormal, message(1), {}));
  const pycomms::Status status = link.send(Lane::kNormal, message(1), {});
  CHECK_STREQ(status.message(), "rank 4 takes no more: 1024 messages wait in this lane");
  must(link.send(Lane::kUrgent, message(1), {}));
}

TEST(a_discarded_message_passes_by) {
  LinkPair pair;
  pair.at_b.on_place = [](int, const Message& m) { return m.id == 1 ? Place::discard() : Place::in_line(); };
  const auto large = pattern(2 * kChunk + 1, 3);
  Count count;
  must(pair.a.send(Lane::kNormal, message(1, 1), body(large), count.completion()));
  must(pair.a.send(Lane::kNormal, message(1, 2), body(bytes_of("kept"))));
  CHECK(eventually([&] { return pair.at_b.count() == 2; }, [&] { pair.step(); }));
  CHECK(pair.at_b.take().payload.empty());
  CHECK_STREQ(pair.at_b.take().text(), "kept");
}

TEST(heartbeats_are_heard_and_not_delivered) {
  LinkPair pair;
  const int64_t before = pair.b.last_heard_ns();
  must(pair.a.beat());
  CHECK(eventually([&] { return pair.b.last_heard_ns() > before; }, [&] { pair.step(); }));
  CHECK_EQ(pair.at_b.count(), size_t{0});
}

TEST(many_threads_send_and_receive) {
  LinkPair pair;
  constexpr int kThreads = 4, kEach = 500;
  std::atomic<int> failed{0};
  std::vector<std::thread> all;
  for (int t = 0; t < kThreads; ++t) {
    all.emplace_back([&, t] {
      Link& link = t % 2 == 0 ? pair.a : pair.b;
      for (int i = 0; i < kEach; ++i) {
        const Message m = message(static_cast<uint8_t>(t), static_cast<uint64_t>(i));
        while (!link.send(Lane::kNormal, m, body(bytes_of("hello"))).is_ok()) pair.step();
        pair.step();
      }
      const size_t expected = kEach * kThreads / 2;
      const bool came = eventually([&] { return pair.at_a.count() >= expected && pair.at_b.count() >= expected; },
                                   [&] { pair.step(); });
      failed += !came;
    });
  }
  for (std::thread& thread : all) thread.join();
  CHECK_EQ(failed.load(), 0);
  std::map<int, uint64_t> next;
  for (Recorder* sink : {&pair.at_a, &pair.at_b}) {
    while (sink->count() > 0) {
      const Letter letter = sink->take();
      CHECK_EQ(letter.message.id, next[letter.message.kind]++);
    }
  }
}

TEST(a_message_costs_no_allocation) {
  struct Quiet : Sink {
    std::array<std::byte, 64> memory{};
    int came = 0;
    Place place(int, const Message& m) override { return m.id % 2 == 0 ? Place::in_line() : Place::at(memory.data()); }
    void delivered(int, const Message&, std::span<const std::byte>) override { ++came; }
    void ended(int, const LinkEnd&) override {}
  } at_a, at_b;
  Link a(1, at_a), b(0, at_b);
  SocketPair sockets;
  a.attach(std::move(sockets.a), sockets.at, {});
  b.attach(std::move(sockets.b), sockets.at, {});
  const std::array<std::byte, 8> data{};
  Count count;
  const Completion done = count.completion();
  const auto exchange = [&](uint64_t id) {
    must(a.send(Lane::kNormal, message(1, id), {data, data}, done));
    const Deadline deadline = Deadline::after(kPatience);
    for (const int before = at_b.came; at_b.came == before && !deadline.passed();) b.progress();
  };
  exchange(0);
  const uint64_t before = allocations;
  for (uint64_t i = 0; i < 1000; ++i) exchange(i);
  CHECK_EQ(allocations.load() - before, uint64_t{0});
  CHECK_EQ(at_b.came, 1001);
}

CHECK_MAIN()
