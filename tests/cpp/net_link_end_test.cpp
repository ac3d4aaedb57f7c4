// How a link ends: with a goodbye, by a loss, because the other side sends what it must not, and when it is told to. What has
// come before counts, and memory is free when it is said to be.

#include "net_links.h"

using namespace net_test;

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
  CHECK_EQ(count.sent + count.lost, 1);  // sent: on a busy machine all had left before abort() was called
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

CHECK_MAIN()
