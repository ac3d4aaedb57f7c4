// Ranks of a mesh as threads or processes of this machine, and a sink that remembers what it was told.
// Must not know: what is tested.
#pragma once

#include <poll.h>

#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "hostccl/net/mesh.h"

namespace net_test {

using namespace hostccl::net;
using pycomms::Deadline;

inline constexpr int64_t kPatience = 20 * pycomms::kSecond;

inline Address loopback(int family = 4) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_addr = in6addr_loopback;
  return Address::from(family == 4 ? reinterpret_cast<sockaddr*>(&v4) : reinterpret_cast<sockaddr*>(&v6));
}

inline Bytes16 bytes16(uint8_t first) {
  Bytes16 bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(first + i);
  return bytes;
}

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// A pattern that is different at every place and for every seed.
inline std::vector<std::byte> pattern(size_t bytes, uint64_t seed) {
  std::vector<std::byte> data(bytes);
  uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1;
  for (std::byte& each : data) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    each = static_cast<std::byte>(x >> 32);
  }
  return data;
}

template <typename T>
T must(pycomms::Result<T> result) {
  if (!result.is_ok()) check::fail(__FILE__, __LINE__, result.status().message());
  return result.take();
}
inline void must(const pycomms::Status& status) {
  if (!status.is_ok()) check::fail(__FILE__, __LINE__, status.message());
}

// Until ready() or the deadline; step() moves things on.
inline bool eventually(
    const std::function<bool()>& ready, const std::function<void()>& step = [] {}, int64_t patience = kPatience) {
  for (const Deadline deadline = Deadline::after(patience); !ready(); step()) {
    if (deadline.passed()) return false;
    std::this_thread::yield();
  }
  return true;
}

// Until the dial is over. A refusal is an error that says how.
inline pycomms::Result<Descriptor> dial_and_wait(const Introduction& who, const Address& to, uint32_t own_scope,
                                                 const SocketOptions& options, Deadline deadline) {
  Dial dial(who, to, own_scope, options, deadline);
  for (dial.advance(pycomms::now_ns()); !dial.is_over(); dial.advance(pycomms::now_ns())) {
    pollfd look{dial.fd(), static_cast<short>(dial.wants_to_write() ? POLLOUT : POLLIN), 0};
    // An empty descriptor is negative, and poll() then only waits.
    poll(&look, 1, pycomms::poll_ms(Deadline::at(dial.wake_at_ns()).left()));
  }
  if (dial.state() == Dial::State::kConnected) return dial.take();
  return dial.status();
}

struct Letter {
  int peer;
  Message message;
  std::vector<std::byte> payload;
  std::string text() const { return {reinterpret_cast<const char*>(payload.data()), payload.size()}; }
};

// Keeps what comes. Payloads up to kInlineBytes come inline, larger ones into memory of its own.
class Recorder : public Sink {
 public:
  Place place(int peer, const Message& message) override {
    if (on_place) return on_place(peer, message);
    if (message.bytes <= kInlineBytes) return Place::in_line();
    std::lock_guard lock(mutex_);
    auto& memory = memory_[{peer, message.id}];
    memory.resize(message.bytes);
    return Place::at(memory.data());
  }
  void delivered(int peer, const Message& message, std::span<const std::byte> payload) override {
    {
      std::lock_guard lock(mutex_);
      letters_.push_back({peer, message, {payload.begin(), payload.end()}});
      memory_.erase({peer, message.id});
    }
    if (on_delivered) on_delivered(peer, message);
  }
  void ended(int peer, const LinkEnd& end) override {
    {
      std::lock_guard lock(mutex_);
      ends_.emplace(peer, end);
      ++end_calls_;
    }
    if (on_ended) on_ended(peer, end);
  }

  size_t count() const {
    std::lock_guard lock(mutex_);
    return letters_.size();
  }
  Letter take() {
    std::lock_guard lock(mutex_);
    Letter first = std::move(letters_.front());
    letters_.pop_front();
    return first;
  }
  bool has_ended(int peer) const {
    std::lock_guard lock(mutex_);
    return ends_.contains(peer);
  }
  LinkEnd end_of(int peer) const {
    std::lock_guard lock(mutex_);
    const auto found = ends_.find(peer);
    return found == ends_.end() ? LinkEnd{EndKind::kLocal, "it has not ended"} : found->second;
  }
  size_t end_calls() const {
    std::lock_guard lock(mutex_);
    return end_calls_;
  }

  std::function<Place(int, const Message&)> on_place;
  std::function<void(int, const Message&)> on_delivered;
  std::function<void(int, const LinkEnd&)> on_ended;

 private:
  mutable std::mutex mutex_;
  std::deque<Letter> letters_;
  std::map<std::pair<int, uint64_t>, std::vector<std::byte>> memory_;
  std::map<int, LinkEnd> ends_;
  size_t end_calls_ = 0;
};

// Two ends of a TCP connection over loopback, without a hello.
struct SocketPair {
  Descriptor a, b;
  Address at;
  explicit SocketPair(const SocketOptions& options = {}, int family = 4) {
    const Descriptor listener = must(listen_on(loopback(family), options));
    at = must(local_address(listener));
    a = must(start_connecting(at, 0, options));
    Accepted accepted;
    if (!eventually([&] {
          accepted = accept_from(listener, options);
          return accepted.outcome == Accepted::Outcome::kTaken;
        })) {
      CHECK_FAIL("nobody connected");
    }
    b = std::move(accepted.socket);
  }
};

// Rank 0 at link a, rank 1 at link b.
struct LinkPair {
  Recorder at_a, at_b;
  Link a{1, at_a}, b{0, at_b};
  explicit LinkPair(const SocketOptions& options = {}) {
    SocketPair sockets(options);
    a.attach(std::move(sockets.a), sockets.at, {});
    b.attach(std::move(sockets.b), sockets.at, {});
  }
  void step() {
    a.progress();
    b.progress();
  }
};

inline std::shared_ptr<Endpoint> start_endpoint(int family = 4, const ReceptionLimits& limits = {},
                                                const SocketOptions& socket = {}) {
  return must(Endpoint::start({loopback(family), socket, limits}));
}

// One rank: an endpoint, a mesh and its sink.
struct Node {
  std::shared_ptr<Endpoint> endpoint;
  Recorder sink;
  std::unique_ptr<Mesh> mesh;

  void join(int rank, const std::vector<Address>& addresses, uint8_t topic = 1, int64_t connect_ns = kPatience) {
    mesh = must(Mesh::make(endpoint, {bytes16(topic), bytes16(100), rank, addresses, connect_ns}, sink));
  }
};

inline std::vector<std::unique_ptr<Node>> make_nodes(int count, int family = 4, const SocketOptions& socket = {}) {
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<Address> addresses;
  for (int i = 0; i < count; ++i) {
    nodes.push_back(std::make_unique<Node>());
    nodes.back()->endpoint = start_endpoint(family, {}, socket);
    addresses.push_back(nodes.back()->endpoint->address());
  }
  for (int i = 0; i < count; ++i) nodes[static_cast<size_t>(i)]->join(i, addresses);
  return nodes;
}

inline size_t entries_of(const char* folder) {
  const std::filesystem::directory_iterator begin(folder);
  return static_cast<size_t>(std::distance(std::filesystem::begin(begin), std::filesystem::end(begin)));
}
inline size_t open_descriptors() { return entries_of("/proc/self/fd"); }
inline size_t threads() { return entries_of("/proc/self/task"); }

}  // namespace net_test
