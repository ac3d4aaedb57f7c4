// Hellos and frames from people who mean no good, against endpoints on which a mesh meanwhile exchanges messages that it
// verifies. Nothing may crash or hang, nobody but the attacker may notice, and who comes in friendship must come in.
// Usage: net_fuzz_test [SECONDS [SEED]]; the seed is printed.

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstring>

#include "fuzz.h"
#include "net_world.h"

using namespace fuzz;
using namespace net_test;

namespace {

const Bytes16 kKey = bytes16(100);
constexpr uint8_t kJobTopic = 1;
constexpr int kVictimRanks = 48;

struct Tally {
  std::atomic<uint64_t> job_messages{0}, friends{0}, strangers{0}, insiders{0}, hostile_deliveries{0};
  std::atomic<bool> stop{false};
  std::atomic<int> ranks_done{0};
};

void append(Bytes& to, std::span<const std::byte> what) { to.insert(to.end(), what.begin(), what.end()); }
template <typename Wire>
void append_wire(Bytes& to, const Wire& what) {
  append(to, std::as_bytes(std::span(&what, 1)));
}

// A connection of the attacker's: blocking is fine here, but not for ever.
class Attack {
 public:
  explicit Attack(const Address& to) {
    auto socket = start_connecting(to, 0, {});
    if (!socket.is_ok()) return;
    socket_ = socket.take();
    const linger now{1, 0};  // no port is kept busy
    setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    const timeval patience{0, 200'000};
    setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  explicit Attack(Descriptor socket) : socket_(std::move(socket)) {}

  // In pieces of any size.
  void say(std::span<const std::byte> bytes, Random& random) {
    while (!bytes.empty() && socket_) {
      const size_t piece = one_in(random, 4) ? std::min(bytes.size(), 1 + up_to(random, 100)) : bytes.size();
      const ssize_t sent = send_some(socket_, bytes.first(piece));
      if (sent < 0) return;
      if (sent == 0 && !waited(POLLOUT)) return;
      bytes = bytes.subspan(static_cast<size_t>(sent));
    }
  }
  bool hear_greeting(Partial<Greeting>& greeting) {
    while (socket_ && !greeting.is_complete()) {
      const ssize_t got = receive_some(socket_, greeting.missing());
      if (got < 0 || (got == 0 && !waited(POLLIN))) return false;
      greeting.have += static_cast<size_t>(std::max<ssize_t>(got, 0));
    }
    return greeting.is_complete();
  }
  // Until the other side ends it, or for a moment.
  void drain() {
    std::byte scratch[256];
    for (int i = 0; i < 20; ++i) {
      const ssize_t got = receive_some(socket_, scratch);
      if (got < 0 || (got == 0 && !waited(POLLIN, 5))) return;
    }
  }
  const Descriptor& socket() const { return socket_; }

 private:
  bool waited(short event, int ms = 200) {
    pollfd look{socket_.get(), event, 0};
    return poll(&look, 1, ms) > 0;
  }
  Descriptor socket_;
};

// Does not know the key.
class Strangers {
 public:
  Strangers(std::vector<Address> targets, uint64_t seed) : targets_(std::move(targets)), random_(seed) {}

  void attack() {
    const Address& to = targets_[up_to(random_, targets_.size() - 1)];
    auto attack = std::make_unique<Attack>(to);
    Bytes bytes;
    switch (up_to(random_, 5)) {
      case 0:
        bytes = pattern(up_to(random_, 300), random_());
        break;
      case 1:
        bytes = pattern(up_to(random_, 1 << 18), random_());
        break;
      case 2:
        break;  // silent
      default: {
        Partial<Greeting> greeting;
        if (!attack->hear_greeting(greeting)) return;
        // As the attacker cannot sign: another key, or a hello that was seen before.
        const Introduction who{bytes16(static_cast<uint8_t>(kJobTopic + up_to(random_, 2))), bytes16(7),
                               static_cast<int32_t>(up_to(random_, 3)), static_cast<int32_t>(up_to(random_, 3))};
        append_wire(bytes, make_hello(who, greeting.value, bytes16(3)));
        if (one_in(random_, 3) && !seen_.empty()) bytes = seen_;
        if (one_in(random_, 8)) seen_ = bytes;
        for (size_t i = up_to(random_, 3); i > 0; --i) mutate(bytes, random_);
        if (one_in(random_, 4)) append(bytes, pattern(up_to(random_, 2000), random_()));
      }
    }
    attack->say(bytes, random_);
    if (one_in(random_, 4)) attack->drain();
    // Some stay for a while: a flood, and the slow ones.
    if (one_in(random_, 2)) lingering_.push_back(std::move(attack));
    if (lingering_.size() > 150) lingering_.clear();
  }

 private:
  const std::vector<Address> targets_;
  Random random_;
  Bytes seen_;
  std::vector<std::unique_ptr<Attack>> lingering_;
};

// What a member of a mesh may say, and what becomes of it.
class VictimSink : public Sink {
 public:
  VictimSink(Tally& tally, uint64_t seed) : tally_(tally), random_(seed), memory_(kVictimRanks) {}

  Place place(int peer, const Message& message) override {
    Bytes& memory = memory_[static_cast<size_t>(peer)][next_++ % 4];  // a message in each lane at most
    if (one_in(random_, 16)) return Place::refuse();
    if (one_in(random_, 8)) return Place::discard();
    if (one_in(random_, 2)) return Place::in_line();
    if (message.bytes > (2 << 20)) return Place::refuse();
    memory = Bytes(message.bytes);  // a sanitizer sees one byte too many
    return Place::at(memory.data());
  }
  void delivered(int, const Message& message, std::span<const std::byte> payload) override {
    if (!payload.empty() && payload.size() != message.bytes) die("a payload of another size than announced");
    uint8_t sum = 0;
    for (const std::byte byte : payload) sum = static_cast<uint8_t>(sum + std::to_integer<uint8_t>(byte));
    read_ = sum;
    tally_.hostile_deliveries.fetch_add(1, std::memory_order_relaxed);
  }
  void ended(int, const LinkEnd& end) override {
    if (end.text.empty()) die("an end without a reason");
    ++ended_;
  }
  size_t ended_count() const { return ended_; }

 private:
  Tally& tally_;
  Random random_;
  std::vector<std::map<uint64_t, Bytes>> memory_;
  uint64_t next_ = 0;
  std::atomic<size_t> ended_{0};
  volatile uint8_t read_ = 0;
};

Bytes make_frames(Random& random) {
  Bytes stream;
  for (size_t i = 1 + up_to(random, 5); i > 0; --i) {
    const auto lane = static_cast<Lane>(up_to(random, 2));
    size_t bytes = up_to(random, lane == Lane::kUrgent ? 200 : 3000);
    if (lane != Lane::kUrgent && one_in(random, 10)) bytes = kChunk - 2 + up_to(random, kChunk + 4);
    Message message{static_cast<uint8_t>(up_to(random, 241)), 0, random(), random(), bytes};
    if (message.kind == kHeartbeatKind) message.bytes = 0;
    if (message.kind == kByeKind) message.bytes = std::min<uint64_t>(bytes, kReasonBytes);
    uint64_t offset = 0;
    do {
      const FrameHeader header = make_frame(lane, message, offset);
      append_wire(stream, header);
      append(stream, pattern(header.length, offset));
      offset += header.length;
    } while (offset < message.bytes);
  }
  return stream;
}

// Knows the key of a mesh on the same endpoint, is let in as one rank after the other, and then misbehaves.
class Insiders {
 public:
  Insiders(Tally& tally, std::shared_ptr<Endpoint> endpoint, uint64_t seed)
      : tally_(tally), endpoint_(std::move(endpoint)), random_(seed) {}

  void attack_one_mesh() {
    Bytes16 topic = bytes16(50);
    std::memcpy(topic.data(), &meshes_, sizeof(meshes_));
    ++meshes_;
    VictimSink sink(tally_, random_());
    const auto mesh =
        must(Mesh::make(endpoint_, {topic, kKey, 0, std::vector<Address>(kVictimRanks), kPatience}, sink));
    std::atomic<bool> stop{false};
    std::thread driver([&] {
      while (!stop) {
        if (!mesh->progress()) mesh->wait(Deadline::after(pycomms::kSecond));
      }
    });
    size_t let_in = 0;
    for (int rank = 1; rank < kVictimRanks && !tally_.stop; ++rank) {
      auto socket = dial_and_wait({topic, kKey, rank, 0}, endpoint_->address(), 0, {}, Deadline::after(kPatience));
      if (!socket.is_ok()) die("an insider was not let in: " + socket.status().message());
      ++let_in;
      Attack attack(socket.take());
      Bytes stream = make_frames(random_);
      for (size_t i = up_to(random_, 3); i > 0; --i) mutate(stream, random_);
      attack.say(stream, random_);
      if (one_in(random_, 4)) attack.drain();
      tally_.insiders.fetch_add(1, std::memory_order_relaxed);
    }
    if (!eventually([&] { return sink.ended_count() == let_in; })) die("a hostile link has not ended");
    stop = true;
    mesh->ring();
    driver.join();
  }

 private:
  Tally& tally_;
  const std::shared_ptr<Endpoint> endpoint_;
  Random random_;
  uint64_t meshes_ = 0;
};

// The job: every rank sends to every other one, all the time, and looks at every byte that it gets.
void run_rank(Node& node, Tally& tally, uint64_t seed) {
  Random random(seed);
  Mesh& mesh = *node.mesh;
  std::vector<uint64_t> next(static_cast<size_t>(mesh.nranks()), 0);
  const auto seed_of = [](int rank, uint64_t id) { return static_cast<uint64_t>(rank) * 1'000'003 + id; };
  for (uint64_t id = 0; !tally.stop; ++id) {
    const auto data = pattern(one_in(random, 20) ? 600'000 : up_to(random, 5000), seed_of(mesh.rank(), id));
    std::atomic<int> open{0};
    const Completion done{[](void* arg, bool) { --*static_cast<std::atomic<int>*>(arg); }, &open};
    for (int to = 0; to < mesh.nranks(); ++to) {
      if (to == mesh.rank()) continue;
      ++open;
      Message message;
      message.id = id;
      const pycomms::Status status = mesh.link_to(to).send(Lane::kNormal, message, {{}, data}, done);
      if (!status.is_ok()) die("the job's send: " + status.message() + ": " + node.sink.end_of(to).text);
    }
    const Deadline deadline = Deadline::after(kPatience);
    // Once at least: a rank whose messages the kernel always takes at once would never read what the others send.
    do {
      if (deadline.passed()) die("the job hangs");
      if (!mesh.progress() && open > 0) mesh.wait(Deadline::after(pycomms::kMillisecond));
    } while (open > 0);
    while (node.sink.count() > 0) {
      const Letter letter = node.sink.take();
      if (letter.message.id != next[static_cast<size_t>(letter.peer)]++) die("the job's messages out of order");
      if (letter.payload != pattern(letter.payload.size(), seed_of(letter.peer, letter.message.id))) {
        die("the job got wrong bytes");
      }
      tally.job_messages.fetch_add(1, std::memory_order_relaxed);
    }
  }
  // The others may still need somebody to take what they send.
  ++tally.ranks_done;
  while (tally.ranks_done < mesh.nranks()) mesh.progress();
}

// Newcomers that mean well: another communicator of the same processes.
void run_friends(std::vector<std::unique_ptr<Node>>& job, Tally& tally) {
  const std::vector<Address> addresses{job[0]->endpoint->address(), job[1]->endpoint->address()};
  for (uint64_t i = 0; !tally.stop; ++i) {
    Node nodes[2];
    Bytes16 topic = bytes16(90);
    std::memcpy(topic.data(), &i, sizeof(i));
    for (int rank = 0; rank < 2; ++rank) {
      nodes[rank].endpoint = job[static_cast<size_t>(rank)]->endpoint;
      nodes[rank].mesh =
          must(Mesh::make(nodes[rank].endpoint, {topic, kKey, rank, addresses, kPatience}, nodes[rank].sink));
    }
    must(nodes[0].mesh->link_to(1).send(Lane::kNormal, {}, {{}, bytes_of("well met")}));
    const auto step = [&] {
      for (Node& node : nodes) node.mesh->progress();
    };
    if (!eventually([&] { return nodes[1].sink.count() == 1; }, step)) {
      die("a friend did not come in: " + nodes[0].sink.end_of(1).text);
    }
    tally.friends.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto [seconds, seed] = arguments(argc, argv);
  try {
    Tally tally;
    auto job = make_nodes(3);
    std::vector<Address> targets;
    for (const auto& node : job) targets.push_back(node->endpoint->address());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < job.size(); ++i) threads.emplace_back([&, i] { run_rank(*job[i], tally, seed + i); });
    threads.emplace_back([&] { run_friends(job, tally); });
    for (const uint64_t each : {10, 11}) {
      threads.emplace_back([&, each] {
        Strangers strangers(targets, seed + each);
        for (; !tally.stop; tally.strangers.fetch_add(1, std::memory_order_relaxed)) strangers.attack();
      });
    }
    threads.emplace_back([&] {
      Insiders insiders(tally, job[0]->endpoint, seed + 20);
      while (!tally.stop) insiders.attack_one_mesh();
    });

    std::mutex mutex;
    std::condition_variable never;
    uint64_t before = 0;
    for (int second = 0; second < seconds; ++second) {
      std::unique_lock lock(mutex);
      never.wait_for(lock, std::chrono::seconds(1), [] { return false; });
      // A loaded machine may stand still for a second or two, not for longer.
      if (second % 10 == 9 && std::exchange(before, tally.job_messages.load()) == tally.job_messages) {
        die("the job makes no progress");
      }
    }
    // On a slow machine some may not have come to anything yet.
    const bool happened = eventually([&] { return tally.job_messages > 0 && tally.friends > 0 && tally.insiders > 0; });
    tally.stop = true;
    for (std::thread& thread : threads) thread.join();
    uint64_t rejected = 0;
    for (const auto& node : job) {
      if (node->sink.end_calls() != 0) die("a link of the job has ended");
      for (size_t i = 0; i < kRejections; ++i)
        rejected += node->endpoint->rejections().count(static_cast<Rejection>(i));
    }
    std::printf(
        "job messages %llu, friends %llu; strangers %llu, insiders %llu (messages of theirs %llu), rejected %llu\n",
        static_cast<unsigned long long>(tally.job_messages), static_cast<unsigned long long>(tally.friends),
        static_cast<unsigned long long>(tally.strangers), static_cast<unsigned long long>(tally.insiders),
        static_cast<unsigned long long>(tally.hostile_deliveries), static_cast<unsigned long long>(rejected));
    if (!happened) die("nothing happened");
  } catch (const check::Failure& failure) {
    die(failure.text);
  }
  return 0;
}
