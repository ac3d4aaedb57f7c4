// What windows over TCP cost above bare sockets, over loopback: fetch_add against a round trip of 8 bytes, put and get against the
// one-way bandwidth of 64 MiB. Bare and windows are measured in turn, so that both see the same machine.
// Usage: windows_served [ROUNDS].

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/shared_memory.h"
#include "hostccl/windows/origin.h"
#include "hostccl/windows/service.h"

namespace {

using namespace hostccl;
using pycomms::Deadline;
using pycomms::now_ns;

constexpr size_t kLarge = 64 << 20;
constexpr int kTrips = 3000;
constexpr int kTransfers = 5;

Deadline soon() { return Deadline::after(20 * pycomms::kSecond); }

net::Address loopback() {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return net::Address::from(reinterpret_cast<sockaddr*>(&in));
}

void must(const pycomms::Status& status) {
  if (status.is_ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::abort();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// --- bare sockets

struct Bare {
  net::Descriptor a, b;
  Bare() {
    const net::Descriptor listener = net::listen_on(loopback(), {}).take();
    a = net::start_connecting(net::local_address(listener).take(), 0, {}).take();
    while (!b) b = net::accept_from(listener, {}).socket;
  }
};

// sleeps: in poll() until there is something, as a server does; otherwise it spins.
void receive_all(const net::Descriptor& socket, std::span<std::byte> space, bool sleeps) {
  while (!space.empty()) {
    const ssize_t got = net::receive_some(socket, space);
    if (got < 0) std::abort();
    space = space.subspan(static_cast<size_t>(got));
    if (got > 0) continue;
    pollfd look{socket.get(), POLLIN, 0};
    if (sleeps) {
      poll(&look, 1, 1000);
    } else {
      sched_yield();
    }
  }
}

void send_all(const net::Descriptor& socket, std::span<const std::byte> data) {
  const size_t segment = net::segment_bytes(socket);
  while (!data.empty()) {
    const ssize_t sent = net::send_some(socket, data.first(std::min(segment, data.size())));
    if (sent < 0) std::abort();
    data = data.subspan(static_cast<size_t>(sent));
    pollfd look{socket.get(), POLLOUT, 0};
    if (sent == 0) poll(&look, 1, 1000);
  }
}

double bare_trip(Bare& pair, bool sleeps) {
  std::thread echo([&] {
    std::byte word[8];
    for (int i = 0; i < kTrips; ++i) {
      receive_all(pair.b, word, sleeps);
      send_all(pair.b, word);
    }
  });
  std::byte word[8] = {};
  const int64_t start = now_ns();
  for (int i = 0; i < kTrips; ++i) {
    send_all(pair.a, word);
    receive_all(pair.a, word, false);
  }
  const double us = static_cast<double>(now_ns() - start) / 1e3 / kTrips;
  echo.join();
  return us;
}

double bare_bandwidth(Bare& pair, std::vector<std::byte>& from, std::vector<std::byte>& to) {
  const int64_t start = now_ns();
  std::thread receiver([&] {
    for (int i = 0; i < kTransfers; ++i) receive_all(pair.b, to, true);
  });
  for (int i = 0; i < kTransfers; ++i) send_all(pair.a, from);
  receiver.join();
  return static_cast<double>(kLarge) * kTransfers / static_cast<double>(now_ns() - start);
}

// --- windows

struct Windows {
  std::shared_ptr<pycomms::SharedMapping> block;
  std::shared_ptr<WindowMemory> memory = std::make_shared<WindowMemory>();
  std::shared_ptr<net::Endpoint> endpoint = net::Endpoint::start({loopback(), {}, {}}).take();
  std::unique_ptr<WindowService> service;
  std::unique_ptr<WindowOrigin> origin;

  explicit Windows(std::vector<std::byte>& data) {
    memory->layout = WindowLayout(2, 1);
    const auto fd = pycomms::create_shared_memory("windows bench", memory->layout.bytes()).take();
    memory->block_hold = pycomms::SharedMapping::map(fd).take();
    memory->block = memory->block_hold->data();
    memory->data = data.data();
    memory->bytes = data.size();
    const net::Bytes16 topic{}, key{};
    service = WindowService::start(
                  {endpoint, topic, key, 1, 2, [this](uint32_t) { return memory; }, [](int) { return false; }})
                  .take();
    origin = std::make_unique<WindowOrigin>(
        WindowOriginOptions{endpoint, topic, key, 0, {endpoint->address(), endpoint->address()}, [](int) {
                              return pycomms::Status::ok();
                            }});
  }

  double fetch_add() {
    const WindowPiece cell{0, 8};
    const int64_t one = 1;
    int64_t old;
    const int64_t start = now_ns();
    for (int i = 0; i < kTrips; ++i) {
      must(origin->update(1, 0, {&cell, 1}, nccl_abi::kInt64, WindowOp::kSum, reinterpret_cast<const std::byte*>(&one),
                          reinterpret_cast<std::byte*>(&old), soon()));
    }
    return static_cast<double>(now_ns() - start) / 1e3 / kTrips;
  }

  double bandwidth(std::vector<std::byte>& local, bool puts) {
    const WindowPiece all{0, kLarge};
    const int64_t start = now_ns();
    for (int i = 0; i < kTransfers; ++i) {
      must(puts ? origin->put(1, 0, {&all, 1}, local.data(), nullptr, soon())
                : origin->get(1, 0, {&all, 1}, local.data(), soon()));
    }
    must(origin->flush(1, soon()));
    return static_cast<double>(kLarge) * kTransfers / static_cast<double>(now_ns() - start);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  std::vector<std::byte> here(kLarge, std::byte{1}), there(kLarge, std::byte{2});
  Bare bare;
  Windows windows(there);
  std::vector<double> spinning, sleeping, adds, plain, puts, gets;
  for (int i = 0; i < rounds; ++i) {
    spinning.push_back(bare_trip(bare, false));
    sleeping.push_back(bare_trip(bare, true));
    adds.push_back(windows.fetch_add());
    plain.push_back(bare_bandwidth(bare, here, there));
    puts.push_back(windows.bandwidth(here, true));
    gets.push_back(windows.bandwidth(here, false));
  }
  std::printf("round trip of 8 bytes: bare %.1f us (the other side spins), %.1f us (it sleeps); fetch_add %.1f us\n",
              median(spinning), median(sleeping), median(adds));
  std::printf("64 MiB: bare %.2f GB/s; put %.2f GB/s; get %.2f GB/s\n", median(plain), median(puts), median(gets));
  return 0;
}
