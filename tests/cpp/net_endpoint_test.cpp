// Who may come in and who may not: whatever strangers do, only their own connection suffers.

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "net_world.h"

using namespace net_test;

namespace {

const Bytes16 kTopic = bytes16(1);
const Bytes16 kKey = bytes16(100);

Introduction introduction(int from = 1, int to = 0, const Bytes16& key = kKey, const Bytes16& topic = kTopic) {
  return {topic, key, from, to};
}

// Serves kTopic as rank 0 and keeps the connections that it gets.
struct Server {
  std::shared_ptr<Endpoint> endpoint;
  std::mutex mutex;
  std::vector<std::pair<int, Descriptor>> guests;
  std::unique_ptr<Endpoint::Registration> registration;

  explicit Server(const ReceptionLimits& limits = {}, int family = 4) : endpoint(start_endpoint(family, limits)) {}
  void serve() {
    registration = must(endpoint->serve({kTopic, kKey, 0, [this](Arrival arrival) {
                                           const int rank = arrival.rank();
                                           auto socket = arrival.accept();
                                           std::lock_guard lock(mutex);
                                           if (socket.is_ok()) guests.emplace_back(rank, socket.take());
                                         }}));
  }
  size_t count() {
    std::lock_guard lock(mutex);
    return guests.size();
  }
  pycomms::Result<Descriptor> dial(const Introduction& who, int64_t patience = kPatience) {
    return dial_and_wait(who, endpoint->address(), 0, {}, Deadline::after(patience));
  }
  bool rejects(Rejection reason, uint64_t times = 1) {
    return eventually([&] { return endpoint->rejections().count(reason) >= times; });
  }
  // A friend comes in and is served.
  void check_well(int rank = 1) {
    const size_t before = count();
    CHECK(must(dial(introduction(rank))).get() >= 0);
    CHECK(eventually([&] { return count() > before; }));
  }
};

// A connection without a word.
struct Stranger {
  Descriptor socket;
  explicit Stranger(const Address& to) : socket(must(start_connecting(to, 0, {}))) {
    pollfd look{socket.get(), POLLOUT, 0};
    CHECK_EQ(poll(&look, 1, 10'000), 1);
    must(finish_connecting(socket, to));
  }
  void say(std::span<const std::byte> bytes) { static_cast<void>(send_some(socket, bytes)); }
  Greeting hear_greeting() {
    Partial<Greeting> greeting;
    CHECK(eventually([&] {
      greeting.have += static_cast<size_t>(std::max<ssize_t>(receive_some(socket, greeting.missing()), 0));
      return greeting.is_complete();
    }));
    return greeting.value;
  }
  bool is_closed() {
    return eventually([&] {
      std::byte scratch[64];
      return receive_some(socket, scratch) < 0;
    });
  }
};

}  // namespace

TEST(both_sides_know_each_other) {
  for (const int family : {4, 6}) {
    Server server({}, family);
    server.serve();
    const Descriptor mine = must(server.dial(introduction(3)));
    CHECK(eventually([&] { return server.count() == 1; }));
    CHECK_EQ(server.guests[0].first, 3);
    CHECK_EQ(send_some(mine, bytes_of("hello")), 5);
    std::byte got[5];
    CHECK(eventually([&] { return receive_some(server.guests[0].second, got) == 5; }));
    CHECK_EQ(server.endpoint->authenticated(), uint64_t{1});
  }
}

// Where the machine has such an address: then it is reached over the dialler's own interface.
TEST(link_local_addresses_work) {
  for (const Interface& each : must(list_interfaces())) {
    if (!each.is_up || each.address.family() != AF_INET6 || !each.address.is_link_local()) continue;
    const auto endpoint = must(Endpoint::start({each.address, {}, {}}));
    const auto served = must(endpoint->serve({kTopic, kKey, 0, [](Arrival a) { static_cast<void>(a.accept()); }}));
    const Address sent = must(Address::decode(endpoint->address().encode()));
    CHECK(
        must(dial_and_wait(introduction(), sent, endpoint->address().scope(), {}, Deadline::after(kPatience))).get() >=
        0);
  }
}

TEST(a_wrong_key_gets_nothing) {
  Server server;
  server.serve();
  Dial dial(introduction(1, 0, bytes16(7)), server.endpoint->address(), 0, {}, Deadline::after(kPatience));
  CHECK(eventually([&] { return dial.advance(pycomms::now_ns()) == Dial::State::kPausing; }));
  CHECK(dial.advance(pycomms::now_ns() + kPatience) == Dial::State::kFailed);
  CHECK(dial.status().code() == pycomms::Code::kTimeout);
  CHECK(dial.status().message().find("it does not know our key") != std::string::npos);
  CHECK(server.rejects(Rejection::kWrongKey));
  CHECK(server.endpoint->rejections().last(Rejection::kWrongKey).find("does not prove that it knows the key") !=
        std::string::npos);
  server.check_well();
}

TEST(every_byte_of_a_hello_is_protected) {
  Server server;
  server.serve();
  for (size_t at = 0; at < sizeof(Hello); ++at) {
    Stranger stranger(server.endpoint->address());
    Hello hello = make_hello(introduction(), stranger.hear_greeting(), bytes16(9));
    reinterpret_cast<uint8_t*>(&hello)[at] ^= 0x10;
    stranger.say(std::as_bytes(std::span(&hello, 1)));
    // A topic that nobody serves is waited for: it might be served later.
    const bool other_topic = at >= offsetof(Hello, topic) && at < offsetof(Hello, from);
    if (!other_topic) CHECK(stranger.is_closed());
  }
  CHECK_EQ(server.count(), size_t{0});
  server.check_well();
}

TEST(a_hello_cannot_be_replayed) {
  Server server;
  server.serve();
  Stranger first(server.endpoint->address()), second(server.endpoint->address());
  const Hello hello = make_hello(introduction(), first.hear_greeting(), bytes16(9));
  second.say(std::as_bytes(std::span(&hello, 1)));
  CHECK(second.is_closed());
  first.say(std::as_bytes(std::span(&hello, 1)));
  CHECK(eventually([&] { return server.count() == 1; }));
}

TEST(an_impostor_at_the_address_is_found_out) {
  const Descriptor listener = must(listen_on(loopback(), {}));
  const Address at = must(local_address(listener));
  std::thread impostor([&] {
    Accepted accepted;
    eventually([&] { return (accepted = accept_from(listener, {})).outcome == Accepted::Outcome::kTaken; });
    const Greeting greeting = make_greeting(bytes16(3));
    static_cast<void>(send_some(accepted.socket, std::as_bytes(std::span(&greeting, 1))));
    Partial<Hello> hello;
    eventually([&] {
      hello.have += static_cast<size_t>(std::max<ssize_t>(receive_some(accepted.socket, hello.missing()), 0));
      return hello.is_complete();
    });
    const Answer answer = make_answer(bytes16(55), greeting, hello.value, Verdict::kAccepted);
    static_cast<void>(send_some(accepted.socket, std::as_bytes(std::span(&answer, 1))));
  });
  auto refused = dial_and_wait(introduction(), at, 0, {}, Deadline::after(kPatience));
  impostor.join();
  CHECK(refused.status().message().find("is no peer of ours: its answer does not prove") != std::string::npos);
}

TEST(strangers_are_closed_with_a_reason) {
  Server server({128, 256, 60 * pycomms::kSecond, 60 * pycomms::kSecond});
  server.serve();
  const auto& rejections = server.endpoint->rejections();
  {
    Stranger http(server.endpoint->address());
    http.say(bytes_of("GET / HTTP/1.0\r\n\r\n"));
    CHECK(http.is_closed());
    CHECK(server.rejects(Rejection::kMalformed));
    CHECK(rejections.last(Rejection::kMalformed).find("it does not speak this protocol") != std::string::npos);
  }
  {
    Stranger newer(server.endpoint->address());
    Hello hello = make_hello(introduction(), newer.hear_greeting(), bytes16(9));
    hello.opening.version = 9;
    newer.say(std::as_bytes(std::span(&hello, 1)));
    CHECK(newer.is_closed());
    CHECK(server.rejects(Rejection::kMalformed, 2));
    CHECK(rejections.last(Rejection::kMalformed).find("it speaks version 9 of the protocol, this process 1") !=
          std::string::npos);
  }
  {
    Stranger hasty(server.endpoint->address());
    hasty.say(bytes_of("pc"));
  }
  CHECK(server.rejects(Rejection::kLeft));
  CHECK(rejections.last(Rejection::kLeft).find("left after") != std::string::npos);
  server.check_well();
}

TEST(whoever_does_not_finish_its_hello_is_closed) {
  Server server({128, 256, 20 * pycomms::kMillisecond, 60 * pycomms::kSecond});
  server.serve();
  {
    // It may have been closed before it speaks, where this machine is slow: it is too late then as well.
    Stranger slow(server.endpoint->address());
    const Hello hello = make_hello(introduction(), slow.hear_greeting(), bytes16(9));
    slow.say(std::as_bytes(std::span(&hello, 1)).first(sizeof(Hello) - 1));
    CHECK(slow.is_closed());
    CHECK(server.rejects(Rejection::kTimedOut));
    const std::string why = server.endpoint->rejections().last(Rejection::kTimedOut);
    CHECK(why.find("did not finish its hello in time") != std::string::npos);
  }
  {
    Stranger silent(server.endpoint->address());
    CHECK(silent.is_closed());
    CHECK(server.rejects(Rejection::kTimedOut, 2));
  }
  server.check_well();
}

TEST(a_flood_evicts_the_oldest_and_friends_still_come_in) {
  Server server({8, 8, 60 * pycomms::kSecond, 60 * pycomms::kSecond});
  server.serve();
  std::vector<std::unique_ptr<Stranger>> flood;
  for (int i = 0; i < 40; ++i) {
    flood.push_back(std::make_unique<Stranger>(server.endpoint->address()));
    if (i % 10 == 0) server.check_well(i + 1);
  }
  CHECK(server.rejects(Rejection::kEvicted, 32));
  CHECK(flood[0]->is_closed());
  // Early ones, for a topic that nobody serves.
  for (int i = 0; i < 12; ++i) {
    Stranger& stranger = *(flood[static_cast<size_t>(i)] = std::make_unique<Stranger>(server.endpoint->address()));
    const Hello hello = make_hello(introduction(1, 0, kKey, bytes16(200)), stranger.hear_greeting(), bytes16(9));
    stranger.say(std::as_bytes(std::span(&hello, 1)));
  }
  CHECK(server.rejects(Rejection::kEvicted, 36));
  server.check_well(50);
}

TEST(whoever_comes_early_waits_for_the_service) {
  Server server;
  Dial dial(introduction(), server.endpoint->address(), 0, {}, Deadline::after(kPatience));
  CHECK(eventually([&] { return dial.advance(pycomms::now_ns()) == Dial::State::kAnswer; }));
  server.serve();
  CHECK(eventually([&] { return dial.advance(pycomms::now_ns()) == Dial::State::kConnected; }));
  CHECK(eventually([&] { return server.count() == 1; }));
}

TEST(whoever_comes_early_in_vain_is_told_by_the_deadline) {
  Server server({8, 8, 60 * pycomms::kSecond, 20 * pycomms::kMillisecond});
  Dial dial(introduction(), server.endpoint->address(), 0, {}, Deadline::after(kPatience));
  const auto was_sent_away = [&] { return server.endpoint->rejections().count(Rejection::kTimedOut) > 0; };
  CHECK(eventually(was_sent_away, [&] { dial.advance(pycomms::now_ns()); }));
  CHECK(dial.advance(pycomms::now_ns() + kPatience) == Dial::State::kFailed);
  CHECK(dial.status().code() == pycomms::Code::kTimeout);
}

TEST(whoever_comes_too_late_hears_so_at_once) {
  Server server;
  server.serve();
  server.registration.reset();
  const int64_t start = pycomms::now_ns();
  auto refused = server.dial(introduction());
  CHECK(refused.status().message().find("refused the connection: it has left the communicator") != std::string::npos);
  CHECK(pycomms::now_ns() - start < kPatience / 2);
  CHECK(!server.dial(introduction(1, 0, bytes16(7)), 20 * pycomms::kMillisecond).is_ok());
  server.serve();
  server.check_well();
}

TEST(another_rank_at_the_address_says_so) {
  Server server;
  server.serve();
  auto refused = server.dial(introduction(1, 5));
  CHECK(refused.status().message().find("another rank lives at this address") != std::string::npos);
  CHECK(must(server.dial(introduction(1, kAnyRank))).get() >= 0);
}

TEST(a_topic_is_served_once) {
  Server server;
  server.serve();
  CHECK_STREQ(server.endpoint->serve({kTopic, kKey, 1, [](Arrival) {}}).status().message(),
              "this topic is served already");
}

TEST(an_address_where_nobody_listens_fails_at_once) {
  Address at;
  {
    const Descriptor listener = must(listen_on(loopback(), {}));
    at = must(local_address(listener));
  }
  auto refused = dial_and_wait(introduction(), at, 0, {}, Deadline::after(kPatience));
  CHECK(refused.status().code() == pycomms::Code::kPeerFailure);
  CHECK(refused.status().message().find("nobody listens there") != std::string::npos);
}

TEST(running_out_of_descriptors_pauses_and_passes) {
  Server server;
  server.serve();
  rlimit before;
  CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;  // what is open stays open, and nothing more can be opened
  int ready[2] = {-1, -1};
  CHECK_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    char go;
    if (read(ready[0], &go, 1) != 1) _exit(2);
    auto socket = dial_and_wait(introduction(9), server.endpoint->address(), 0, {}, Deadline::after(kPatience));
    _exit(socket.is_ok() ? 0 : 1);
  }
  setrlimit(RLIMIT_NOFILE, &none);
  const bool told = write(ready[1], "x", 1) == 1;
  const bool noticed = server.rejects(Rejection::kSystem);
  setrlimit(RLIMIT_NOFILE, &before);
  close(ready[0]);
  close(ready[1]);
  int status = -1;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK(told && noticed);
  CHECK_EQ(status, 0);
  // A pause is a tenth of a second: it did not spin.
  CHECK_LE(server.endpoint->rejections().count(Rejection::kSystem), uint64_t{200});
}

TEST(a_forked_child_makes_its_own) {
  Config config;
  config.interfaces.names = "lo";
  config.interfaces.family = 4;
  const auto mine = must(Endpoint::of_process(config));
  CHECK(must(Endpoint::of_process(config)) == mine);
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    bool well = mine->is_foreign() && !mine->serve({kTopic, kKey, 0, [](Arrival) {}}).is_ok();
    auto own = Endpoint::of_process(config);
    well = well && own.is_ok() && own.value() != mine && own.value()->address().port() != mine->address().port();
    auto served = own.value()->serve({kTopic, kKey, 0, [](Arrival a) { static_cast<void>(a.accept()); }});
    well = well && dial_and_wait(introduction(), own.value()->address(), 0, {}, Deadline::after(kPatience)).is_ok();
    _exit(well ? 0 : 1);
  }
  int status = -1;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK_EQ(status, 0);
  const auto served = must(mine->serve({kTopic, kKey, 0, [](Arrival a) { static_cast<void>(a.accept()); }}));
  CHECK(dial_and_wait(introduction(), mine->address(), 0, {}, Deadline::after(kPatience)).is_ok());
}

TEST(a_thousand_endpoints_leave_nothing_behind) {
  start_endpoint();
  const size_t descriptors = open_descriptors(), running = threads();
  for (int i = 0; i < 1000; ++i) {
    Server server;
    server.serve();
    if (i % 50 == 0) server.check_well();
  }
  CHECK_EQ(open_descriptors(), descriptors);
  CHECK(eventually([&] { return threads() == running; }));
}

CHECK_MAIN()
