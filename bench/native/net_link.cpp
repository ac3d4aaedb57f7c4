// What a link costs above bare sockets, over loopback: the round trip of 8 bytes with both sides spinning, and the one-way
// bandwidth of 64 MiB. Bare and link are measured in turn, so that both see the same machine.
// Usage: net_link [ROUNDS]. Two threads; rank 1 is the echo, or the receiver.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "hostccl/net/link.h"
#include "hostccl/net/socket.h"

namespace {

using namespace hostccl::net;
using pycomms::now_ns;

constexpr size_t kSmall = 8;
constexpr size_t kLarge = 64 << 20;
constexpr int kTrips = 5000;
constexpr int kTransfers = 5;

struct Sockets {
  Descriptor a, b;
};

Sockets connect_pair() {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  Descriptor listener = listen_on(Address::from(reinterpret_cast<sockaddr*>(&in)), {}).take();
  const Address at = local_address(listener).take();
  Descriptor a = start_connecting(at, 0, {}).take();
  for (;;) {
    Accepted accepted = accept_from(listener, {});
    if (accepted.outcome == Accepted::Outcome::kTaken) return {std::move(a), std::move(accepted.socket)};
  }
}

void bare_send(const Descriptor& socket, std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t sent = send_some(socket, data);
    if (sent < 0) std::abort();
    data = data.subspan(static_cast<size_t>(sent));
  }
}

void bare_receive(const Descriptor& socket, std::span<std::byte> space) {
  while (!space.empty()) {
    const ssize_t got = receive_some(socket, space);
    if (got < 0) std::abort();
    space = space.subspan(static_cast<size_t>(got));
  }
}

// Counts what has come; its memory takes it.
struct Counter : Sink {
  std::vector<std::byte>& memory;
  size_t delivered_count = 0;
  explicit Counter(std::vector<std::byte>& space) : memory(space) {}
  Place place(int, const Message&) override { return Place::at(memory.data()); }
  void delivered(int, const Message&, std::span<const std::byte>) override { ++delivered_count; }
  void ended(int, const LinkEnd&) override { std::abort(); }
};

// Either way of moving messages between two ranks.
struct Way {
  std::function<void(int rank, std::span<const std::byte>)> send;
  std::function<void(int rank, std::span<std::byte>)> receive;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Median of the microseconds of one message and its reply of kSmall bytes: a preempted try does not count.
double measure(const Way& way, std::vector<std::byte> (&memory)[2], size_t bytes, int count) {
  const std::span<std::byte> mine(memory[0].data(), bytes), theirs(memory[1].data(), bytes);
  std::thread other([&] {
    for (int i = 0; i < count; ++i) {
      way.receive(1, theirs);
      way.send(1, theirs.first(kSmall));
    }
  });
  std::vector<double> us;
  for (int i = 0; i < count; ++i) {
    const int64_t start = now_ns();
    way.send(0, mine);
    way.receive(0, mine.first(kSmall));
    us.push_back(static_cast<double>(now_ns() - start) / 1000);
  }
  other.join();
  return median(std::move(us));
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  std::vector<std::byte> memory[2] = {std::vector<std::byte>(kLarge), std::vector<std::byte>(kLarge)};

  Sockets bare = connect_pair(), under = connect_pair();
  Counter counters[2] = {Counter(memory[0]), Counter(memory[1])};
  Link links[2] = {{1, counters[0]}, {0, counters[1]}};
  links[0].attach(std::move(under.a), {}, {});
  links[1].attach(std::move(under.b), {}, {});
  size_t expected[2] = {0, 0};

  const Way over_bare{[&](int rank, std::span<const std::byte> data) { bare_send(rank == 0 ? bare.a : bare.b, data); },
                      [&](int rank, std::span<std::byte> space) { bare_receive(rank == 0 ? bare.a : bare.b, space); }};
  const Way over_link{[&](int rank, std::span<const std::byte> data) {
                        struct Done {
                          static void call(void* arg, bool) { *static_cast<bool*>(arg) = true; }
                        };
                        bool done = false;
                        if (!links[rank].send(Lane::kNormal, {}, {{}, data}, {Done::call, &done}).is_ok()) std::abort();
                        while (!done) links[rank].progress();
                      },
                      [&](int rank, std::span<std::byte>) {
                        ++expected[rank];
                        while (counters[rank].delivered_count < expected[rank]) links[rank].progress();
                      }};

  std::vector<double> trip[2], transfer[2];
  for (int round = 0; round < rounds; ++round) {
    for (const int way : {0, 1}) {
      const Way& over = way == 0 ? over_bare : over_link;
      trip[way].push_back(measure(over, memory, kSmall, kTrips));
      transfer[way].push_back(measure(over, memory, kLarge, kTransfers));
    }
  }
  for (const int way : {0, 1}) {
    const double us = median(transfer[way]);
    std::printf("%s: round trip of 8 B %.2f us (best %.2f); 64 MiB %.0f us, %.2f GB/s (best %.2f)\n",
                way == 0 ? "bare sockets" : "links       ", median(trip[way]),
                *std::min_element(trip[way].begin(), trip[way].end()), us, kLarge / us / 1000,
                kLarge / *std::min_element(transfer[way].begin(), transfer[way].end()) / 1000);
  }
  return 0;
}
