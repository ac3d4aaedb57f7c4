// A link between two sockets: messages arrive whole, once and in order; what is malformed ends it with a reason; memory is
// free when it is said to be.

#include <sys/socket.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "net_world.h"

using namespace net_test;

namespace {

std::atomic<uint64_t> allocations{0};

struct Count {
  int sent = 0, lost = 0;
  Completion completion() {
    return {[](void* arg, bool sent) { ++(sent ? static_cast<Count*>(arg)->sent : static_cast<Count*>(arg)->lost); },
            this};
  }
};

Message message(uint8_t kind, uint64_t id = 0) {
  Message made;
  made.kind = kind;
  made.id = id;
  return made;
}

Payload body(std::span<const std::byte> bytes) { return {{}, bytes}; }

constexpr SocketOptions kTiny{4096, 4096, pycomms::kSecond * 20};

// A link whose other side is a bare socket.
struct Raw {
  SocketPair sockets;
  Recorder sink;
  Link link{7, sink};
  Raw() { link.attach(std::move(sockets.a), sockets.at, {}); }
  void say(std::span<const std::byte> bytes) {
    CHECK_EQ(send_some(sockets.b, bytes), static_cast<ssize_t>(bytes.size()));
  }
  void say(const FrameHeader& header) { say(std::as_bytes(std::span(&header, 1))); }
  std::string end() {
    CHECK(eventually([&] { return link.has_ended(); }, [&] { link.progress(); }));
    return sink.end_of(7).text;
  }
};

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

TEST(a_goodbye_is_orderly_and_comes_last) {
  LinkPair pair(kTiny);
  const auto large = pattern(2 * kChunk, 3);
  Count count;
  must(pair.a.send(Lane::kBulk, message(1, 1), body(large), count.completion()));
  pair.a.start_close("done with it");
  CHECK(!pair.a.send(Lane::kNormal, message(1), {}).is_ok());
  CHECK(eventually([&] { return pair.a.has_ended() && pair.b.has_ended(); }, [&] { pair.step(); }));
  CHECK(pair.at_b.take().payload == large);
  CHECK_EQ(count.sent, 1);
  CHECK(pair.at_b.end_of(0).kind == EndKind::kOrderly);
  CHECK(pair.at_b.end_of(0).text.find("has closed the connection: done with it") != std::string::npos);
  CHECK(pair.at_a.end_of(1).kind == EndKind::kLocal);
  CHECK_EQ(pair.at_a.end_calls(), size_t{1});
  CHECK_EQ(pair.at_b.end_calls(), size_t{1});
}

TEST(both_may_say_goodbye_at_once) {
  LinkPair pair;
  pair.a.start_close("a");
  pair.b.start_close("b");
  CHECK(eventually([&] { return pair.a.has_ended() && pair.b.has_ended(); }, [&] { pair.step(); }));
  CHECK(pair.at_a.end_of(1).kind == EndKind::kOrderly || pair.at_a.end_of(1).kind == EndKind::kLocal);
}

TEST(an_end_without_goodbye_is_a_loss_and_what_came_before_it_counts) {
  Raw raw;
  const FrameHeader whole = make_frame(Lane::kNormal, {1, 0, 0, 0, 4}, 0);
  const FrameHeader cut = make_frame(Lane::kNormal, {1, 0, 1, 0, 100'000}, 0);
  raw.say(whole);
  raw.say(bytes_of("four"));
  raw.say(cut);
  raw.say(bytes_of("not all of it"));
  raw.sockets.b.reset();
  CHECK(raw.end().find("was lost, in the middle of a message: the other side has closed it") != std::string::npos);
  CHECK(raw.sink.end_of(7).kind == EndKind::kLost);
  CHECK_EQ(raw.sink.count(), size_t{1});
  CHECK_STREQ(raw.sink.take().text(), "four");
}

TEST(a_reset_is_a_loss) {
  Raw raw;
  const linger now{1, 0};
  setsockopt(raw.sockets.b.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  raw.sockets.b.reset();
  CHECK(raw.end().find("was lost: Connection reset by peer") != std::string::npos);
}

TEST(a_failed_send_does_not_hide_what_has_come) {
  Raw raw;
  const linger now{1, 0};
  setsockopt(raw.sockets.b.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  raw.say(make_frame(Lane::kNormal, {1, 0, 0, 0, 4}, 0));
  raw.say(bytes_of("news"));
  raw.sockets.b.reset();
  const auto large = pattern(1 << 20, 1);
  Count count;
  for (int i = 0; i < 3; ++i) {
    static_cast<void>(raw.link.send(Lane::kNormal, message(1), body(large), count.completion()));
  }
  CHECK(raw.end().find("was lost") != std::string::npos);
  CHECK_EQ(raw.sink.count(), size_t{1});
  CHECK_EQ(count.sent, 0);
  CHECK(count.lost > 0);
}

TEST(malformed_frames_end_the_link_and_name_what_is_wrong) {
  const FrameHeader good = make_frame(Lane::kNormal, {1, 0, 0, 0, 4}, 0);
  const auto with = [&](const std::function<void(FrameHeader&)>& change, const std::string& text) {
    Raw raw;
    FrameHeader bad = good;
    change(bad);
    raw.say(bad);
    const std::string end = raw.end();
    if (end.find(text) == std::string::npos) CHECK_FAIL(end + " does not say " + text);
    CHECK(end.find("rank 7 at 127.0.0.1:") == 0);
    CHECK(raw.sink.end_of(7).kind == EndKind::kProtocol);
  };
  with([](FrameHeader& h) { h.magic ^= 1; }, "its magic number is");
  with([](FrameHeader& h) { h.version = 9; }, "its version is 9, expected 1");
  with([](FrameHeader& h) { h.kind = 255; }, "its kind is 255");
  with([](FrameHeader& h) { h.lane = 3; }, "its lane is 3");
  with([](FrameHeader& h) { h.flags = 2; }, "its flags is 2");
  with([](FrameHeader& h) { h.flags = kContinues; }, "it continues a message that never began");
  with([](FrameHeader& h) { h.length = 5; }, "its length is 5, expected 4");
  with([](FrameHeader& h) { h.bytes = ~0ull; }, "its size is 18446744073709551615");
  with([](FrameHeader& h) { h.kind = kHeartbeatKind; }, "its size as a heartbeat is 4");
  with([](FrameHeader& h) { h.kind = kByeKind, h.bytes = h.length = 300; }, "its size as a goodbye is 300");
  with([](FrameHeader& h) { h.lane = 0, h.bytes = h.length = 9000; }, "its size in the urgent lane is 9000");
}

TEST(a_message_may_not_be_interrupted_in_its_lane) {
  Raw raw;
  const auto data = pattern(kChunk, 1);
  raw.say(make_frame(Lane::kNormal, {1, 0, 0, 0, kChunk + 9}, 0));
  size_t said = 0;
  CHECK(eventually([&] { return said == data.size(); },
                   [&] {
                     said += static_cast<size_t>(
                         std::max<ssize_t>(send_some(raw.sockets.b, std::span(data).subspan(said)), 0));
                     raw.link.progress();
                   }));
  raw.say(make_frame(Lane::kUrgent, {2, 0, 0, 0, 0}, 0));  // another lane may
  CHECK(eventually([&] { return raw.sink.count() == 1; }, [&] { raw.link.progress(); }));
  raw.say(make_frame(Lane::kNormal, {1, 0, 5, 0, 3}, 0));
  CHECK(raw.end().find("it begins a message before the last one's end") != std::string::npos);
}

TEST(a_message_that_nobody_expects_ends_the_link) {
  Raw raw;
  raw.sink.on_place = [](int, const Message& m) { return m.kind == 1 ? Place::in_line() : Place::refuse(); };
  raw.say(make_frame(Lane::kNormal, {2, 3, 4, 0, 5}, 0));
  CHECK(raw.end().find("a message that nobody expects: kind 2, tag 3, id 4, 5 bytes") != std::string::npos);
  Raw large;
  large.sink.on_place = [](int, const Message&) { return Place::in_line(); };
  large.say(make_frame(Lane::kNormal, {1, 0, 0, 0, kInlineBytes + 1}, 0));
  CHECK(large.end().find("a message of 16385 bytes where at most 16384 were expected") != std::string::npos);
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

TEST(abort_frees_memory_at_once) {
  LinkPair pair(kTiny);
  auto sent = std::make_unique<std::vector<std::byte>>(pattern(4 * kChunk, 1));
  auto received = std::make_unique<std::vector<std::byte>>(4 * kChunk);
  std::atomic<bool> begun{false}, stop{false};
  pair.at_b.on_place = [&](int, const Message&) {
    begun = true;
    return Place::at(received->data());
  };
  Count count;
  must(pair.a.send(Lane::kBulk, message(1), body(*sent), count.completion()));
  std::thread driver([&] {
    while (!stop) pair.step();
  });
  const bool came = eventually([&] { return begun.load(); });
  pair.a.abort({EndKind::kLocal, "enough"});
  pair.b.abort({EndKind::kLocal, "enough"});
  sent.reset();
  received.reset();  // a sanitizer sees whoever comes too late
  stop = true;
  driver.join();
  CHECK(came);
  CHECK_EQ(count.lost, 1);
  CHECK(pair.at_b.has_ended(0));
  CHECK_EQ(pair.at_b.end_calls(), size_t{1});
}

TEST(a_sink_may_abort_its_link_and_others) {
  LinkPair one, two;
  one.at_b.on_delivered = [&](int, const Message&) {
    for (LinkPair* pair : {&one, &two}) pair->b.abort({EndKind::kLocal, "from the sink"});
  };
  one.at_b.on_ended = [&](int, const LinkEnd&) { one.b.abort({EndKind::kLocal, "again"}); };
  must(one.a.send(Lane::kNormal, message(1), {}));
  must(one.a.send(Lane::kNormal, message(1), {}));
  CHECK(eventually([&] { return one.b.has_ended() && two.b.has_ended(); }, [&] { one.step(); }));
  CHECK_EQ(one.at_b.count(), size_t{1});
  CHECK_EQ(one.at_b.end_calls(), size_t{1});
  CHECK_EQ(two.at_b.end_calls(), size_t{1});
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
