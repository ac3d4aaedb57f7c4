// A rank of another host that knows the key and says what no courier says: it ends this communicator, with an error that
// names it, and harms nothing else.

#include <cstring>

#include "courier_world.h"

using namespace courier_test;
using net_test::eventually;

namespace {

// Rank 0 is a member, rank 1 is played here.
struct Hostile {
  World world{{0, 1}, 1};
  net_test::Recorder sink;
  std::unique_ptr<net::Mesh> mesh = world.join_as(1, sink);
  std::vector<std::byte> zeros = std::vector<std::byte>(4 << 20);

  Member& victim() { return world[0]; }
  void say(CourierKind kind, uint64_t id, std::span<const std::byte> payload, uint64_t aux = 0,
           net::Lane lane = net::Lane::kNormal) {
    net::Message message;
    message.kind = static_cast<uint8_t>(kind);
    message.id = id;
    message.aux = aux;
    constexpr net::Completion kStays{[](void*, bool) {}, nullptr};
    must(mesh->link_to(0).send(lane, message, {{}, payload}, kStays));
  }
  void say(CourierKind kind, uint64_t id, size_t bytes, uint64_t aux = 0) {
    say(kind, id, std::span<const std::byte>(zeros).first(bytes), aux);
  }
  // Nothing was wrong with what was said so far.
  void check_well() {
    StateWire present{static_cast<uint32_t>(Presence::kPresent), getpid(), 1};
    say(CourierKind::kState, 0, std::as_bytes(std::span(&present, 1)), 0, net::Lane::kBulk);
    CHECK(eventually([&] { return victim().sees_all() || victim().segment->has_failed(); }, [&] { step(); }));
    CHECK_STREQ(victim().segment->failure().text, "");
  }
  void check_ended() {
    CHECK(eventually([&] { return victim().segment->has_failed(); }, [&] { step(); }));
    const Failure failure = victim().segment->failure();
    const std::string text = failure.text;
    if (failure.kind != FailureKind::kSystem || text.find("do all ranks run the same build?") == std::string::npos ||
        text.find("rank 1 ") != 0 || failure.nranks != 1 || failure.ranks[0] != 1) {
      CHECK_FAIL("the failure is: " + text);
    }
    leave();
  }
  void leave() {
    mesh->abort("the test is over");
    victim().close();
  }
  void step() {
    mesh->progress();
    victim().p2p->progress();
  }
};

template <typename Wire>
std::span<const std::byte> bytes_of(const Wire& wire) {
  return std::as_bytes(std::span(&wire, 1));
}

// A header's bytes on the wire.
struct Slot {
  HeaderSlot slot{};
  std::span<const std::byte> wire() const { return bytes_of(slot).subspan(sizeof(uint64_t)); }
};

}  // namespace

TEST(a_presence_that_does_not_exist_or_goes_back) {
  for (const uint32_t presence : {0u, 3u, 0xffffffffu}) {
    Hostile hostile;
    const StateWire state{presence, 1, 1};
    hostile.say(CourierKind::kState, 0, bytes_of(state));
    hostile.check_ended();
  }
  Hostile hostile;
  hostile.check_well();
  const StateWire again{static_cast<uint32_t>(Presence::kPresent), 1, 1};
  hostile.say(CourierKind::kState, 0, bytes_of(again));
  hostile.check_ended();
}

TEST(tails_of_what_was_never_sent) {
  for (const uint64_t tail : {uint64_t{1}, uint64_t{1} << 40, ~uint64_t{0}}) {
    for (int which = 0; which < 4; ++which) {
      Hostile hostile;
      uint64_t words[5] = {};
      words[which] = tail;
      hostile.say(CourierKind::kTails, 0, bytes_of(words));
      hostile.check_ended();
    }
  }
}

TEST(tails_that_go_back) {
  Hostile hostile;
  std::byte data{7};
  Pending sent;
  hostile.check_well();
  hostile.victim().p2p->post(sent.request(true, {&data, 1}, 1));
  CHECK(sent.done);
  TailsWire tails{};
  tails.envelopes = 1;
  tails.shared = 1 << 30;  // readers pass over what is not for them
  hostile.say(CourierKind::kTails, 0, bytes_of(tails));
  const PairControl& pair = hostile.victim().segment->layout().pair(hostile.victim().segment->base(), 0, 1);
  CHECK(eventually([&] { return pair.envelopes_taken.value.load() == 1; }, [&] { hostile.step(); }));
  CHECK(!hostile.victim().segment->has_failed());
  tails.envelopes = 0;
  hostile.say(CourierKind::kTails, 0, bytes_of(tails));
  hostile.check_ended();
}

TEST(flat_bytes_outside_the_area) {
  const size_t space = Layout(2).flat_bytes();
  struct Case {
    uint64_t id, aux;
    size_t bytes;
  };
  for (const Case& each : {Case{1, 0, space + 64}, Case{1, space, 64}, Case{1, ~uint64_t{0} - 63, 128}, Case{1, 32, 64},
                           Case{1, 0, 0}, Case{0, 0, 64}, Case{2, 0, 64}}) {
    Hostile hostile;
    hostile.say(CourierKind::kFlat, each.id, each.bytes, each.aux);
    hostile.check_ended();
  }
}

TEST(a_header_that_does_not_belong_to_its_flat_bytes) {
  for (int which = 0; which < 6; ++which) {
    Hostile hostile;
    Slot header;
    header.slot.header.payload = static_cast<uint8_t>(PayloadPlace::kFlat);
    header.slot.flat_offset = 64;
    header.slot.flat_bytes = 128;
    if (which > 0) hostile.say(CourierKind::kFlat, 1, 128, 64);
    if (which == 1) header.slot.flat_offset = 0xffffffc0;
    if (which == 2) header.slot.flat_bytes = 0xffffffff;
    if (which == 3) header.slot.header.payload = static_cast<uint8_t>(PayloadPlace::kInline);
    if (which == 4) header.slot.header.payload = 200;
    if (which == 5) hostile.say(CourierKind::kFlat, 1, 128, 64);
    hostile.say(CourierKind::kHeader, 1, header.wire());
    hostile.check_ended();
  }
}

TEST(headers_ahead_of_ours) {
  for (const bool at_once : {true, false}) {
    Hostile hostile;
    Slot header;
    if (!at_once) hostile.say(CourierKind::kHeader, 1, header.wire());
    hostile.say(CourierKind::kHeader, 2, header.wire());
    hostile.check_ended();
  }
}

TEST(bytes_of_a_ring_that_do_not_follow_or_do_not_fit) {
  const Layout layout(2);
  struct Case {
    CourierKind kind;
    uint64_t id;
    size_t bytes;
  };
  for (const Case& each :
       {Case{CourierKind::kEager, 64, 64}, Case{CourierKind::kEager, 0, 0},
        Case{CourierKind::kEager, 0, layout.eager_ring_bytes() + 1}, Case{CourierKind::kBulk, ~uint64_t{0}, 64},
        Case{CourierKind::kBulk, 0, layout.bulk_ring_bytes() + 1}, Case{CourierKind::kStaged, 1, 64},
        Case{CourierKind::kShared, 0, layout.shared_ring_bytes() + 1}}) {
    Hostile hostile;
    hostile.say(each.kind, each.id, each.bytes);
    hostile.check_ended();
  }
  // Full, and nobody has read.
  Hostile hostile;
  hostile.say(CourierKind::kEager, 0, layout.eager_ring_bytes());
  hostile.check_well();
  hostile.say(CourierKind::kEager, layout.eager_ring_bytes(), 1);
  hostile.check_ended();
}

TEST(envelopes_that_overtake_their_reader_or_are_none) {
  struct Case {
    uint64_t id;
    size_t bytes;
  };
  for (const Case& each : {Case{0, 0}, Case{0, 1}, Case{1, sizeof(Envelope)},
                           Case{0, (kEnvelopes + 1) * sizeof(Envelope)}, Case{64, sizeof(Envelope)}}) {
    Hostile hostile;
    hostile.say(CourierKind::kEnvelopes, each.id, each.bytes);
    hostile.check_ended();
  }
}

TEST(envelopes_that_promise_what_has_not_come_or_is_too_much) {
  struct Case {
    EnvelopeKind kind;
    uint64_t bytes;
    int type;
  };
  for (const Case& each :
       {Case{EnvelopeKind::kEager, uint64_t{1} << 40, 1}, Case{EnvelopeKind::kEager, ~uint64_t{0}, 1},
        Case{EnvelopeKind::kEager, 97, 1}, Case{EnvelopeKind::kEager, 16 << 10, 1},
        Case{EnvelopeKind::kStreamed, uint64_t{1} << 40, 1}, Case{EnvelopeKind::kRequestToSend, 64, 200},
        Case{EnvelopeKind::kEager, 1, 99}, Case{static_cast<EnvelopeKind>(9), 1, 1}}) {
    Hostile hostile;
    Envelope envelope{};
    envelope.kind = each.kind;
    envelope.bytes = each.bytes;
    envelope.type = static_cast<uint8_t>(each.type);
    hostile.say(CourierKind::kEnvelopes, 0, bytes_of(envelope));
    hostile.check_ended();
  }
}

TEST(a_payload_that_is_smaller_than_the_header_says) {
  for (const bool brings_some : {false, true}) {
    Hostile hostile;
    hostile.check_well();
    std::vector<float> data(1000);
    Collective op;
    op.kind = Kind::kAllReduce;
    op.type = nccl_abi::kFloat32;
    op.send = {.block = data.data(), .count = data.size()};
    op.recv = op.send;
    Slot header;
    header.slot.header = make_header(op, 2);
    header.slot.header.payload = static_cast<uint8_t>(brings_some ? PayloadPlace::kFlat : PayloadPlace::kInline);
    if (brings_some) {
      header.slot.flat_offset = static_cast<uint32_t>(Layout(2).flat_bytes() - 64);
      header.slot.flat_bytes = 64;
      hostile.say(CourierKind::kFlat, 1, 64, header.slot.flat_offset);
    }
    hostile.say(CourierKind::kHeader, 1, header.wire());
    CHECK_EQ(hostile.victim().lane->run(op, kPatience, false), nccl_abi::kSystemError);
    hostile.check_ended();
  }
}

TEST(an_all_to_all_whose_counts_lead_outside_its_payload) {
  // Nothing lies before what rank 0 gets: so the member is rank 1 here.
  World world({0, 1}, 0);
  net_test::Recorder sink;
  const auto mesh = world.join_as(0, sink);
  int32_t in[2] = {1, 2}, out[2] = {};
  Collective op;
  op.kind = Kind::kAllToAll;
  op.type = nccl_abi::kInt32;
  op.send = {.block = in, .count = 1};
  op.recv = {.block = out, .count = 1};
  Slot header;
  header.slot.header = make_header(op, 2);
  header.slot.header.payload = static_cast<uint8_t>(PayloadPlace::kInline);
  const uint64_t table[5] = {uint64_t{1} << 61, 1, 0, 1, 1};
  std::memcpy(header.slot.payload, table, sizeof(table));
  net::Message message;
  message.kind = static_cast<uint8_t>(CourierKind::kHeader);
  message.id = 1;
  must(mesh->link_to(1).send(net::Lane::kNormal, message, {header.wire(), {}}));
  std::atomic<bool> stop{false};
  std::thread driver([&] {
    while (!stop) mesh->progress();
  });
  const Result result = world[1].lane->run(op, kPatience, false);
  stop = true;
  driver.join();
  CHECK_EQ(result, nccl_abi::kSystemError);
  CHECK(std::string(world[1].segment->failure().text).find("rank 0 entered all_to_all #1") == 0);
  mesh->abort("the test is over");
  world[1].close();
}

TEST(a_failure_from_elsewhere_is_shown_as_it_can_be) {
  Hostile hostile;
  Failure failure{};
  failure.kind = static_cast<FailureKind>(77);
  failure.reporter = 12;
  failure.nranks = 1000;
  failure.ranks[0] = 1;
  failure.ranks[1] = -5;
  failure.ranks[2] = 2;
  std::memset(failure.op, 'x', sizeof(failure.op));
  std::memset(failure.text, 'y', sizeof(failure.text));
  std::memcpy(failure.text, "\xc3\xa4 \xff \x1b[31m \xe2\x82", 13);
  hostile.say(CourierKind::kFault, 0, bytes_of(failure));
  CHECK(eventually([&] { return hostile.victim().segment->has_failed(); }, [&] { hostile.step(); }));
  const Failure seen = hostile.victim().segment->failure();
  CHECK(seen.kind == FailureKind::kSystem);
  CHECK_EQ(seen.reporter, -1);
  CHECK(std::all_of(seen.ranks, seen.ranks + seen.nranks, [](int rank) { return rank == 0 || rank == 1; }));
  CHECK_EQ(strnlen(seen.op, sizeof(seen.op)), sizeof(seen.op) - 1);
  CHECK_STREQ(std::string(seen.text).substr(0, 14), "\xc3\xa4 ? ?[31m ??y");
  hostile.leave();
}

CHECK_MAIN()
