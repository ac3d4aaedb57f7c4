// Ranks whose windows are served over TCP, as threads of one process: an endpoint, a service and an origin each, and windows in
// shared memory. Must not know: what is tested.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "hostccl/windows/origin.h"
#include "hostccl/windows/service.h"
#include "net_world.h"

namespace windows_test {

using namespace hostccl;
using net_test::kPatience;
using net_test::must;
using net_test::pattern;
using pycomms::Code;
using pycomms::Deadline;
using pycomms::Status;

inline const net::Bytes16 kTopic = net_test::bytes16(1), kKey = net_test::bytes16(100);

// Connections on which little is enough to fill them.
inline constexpr net::SocketOptions kNarrow{64 << 10, 64 << 10};

inline Deadline soon() { return Deadline::after(kPatience); }

inline std::shared_ptr<pycomms::SharedMapping> shared_memory(size_t bytes) {
  return must(
      pycomms::SharedMapping::map(must(pycomms::create_shared_memory("windows test", std::max<size_t>(bytes, 1)))));
}

inline std::shared_ptr<WindowMemory> make_memory(int nranks, size_t bytes, int slots = 8) {
  auto memory = std::make_shared<WindowMemory>();
  memory->layout = WindowLayout(nranks, slots);
  memory->data_hold = shared_memory(bytes);
  memory->block_hold = shared_memory(memory->layout.bytes());
  memory->data = memory->data_hold->data();
  memory->bytes = bytes;
  memory->block = memory->block_hold->data();
  return memory;
}

class Rank {
 public:
  explicit Rank(const net::SocketOptions& socket) : endpoint(net_test::start_endpoint(4, {}, socket)) {}
  ~Rank() {
    if (origin) origin->stop(soon());
    service.reset();  // it looks for windows
  }

  void join(int rank, const std::vector<net::Address>& addresses, std::vector<std::atomic<bool>>& dead) {
    const int nranks = static_cast<int>(addresses.size());
    nranks_ = nranks;
    service = must(WindowService::start({endpoint, kTopic, kKey, rank, nranks,
                                         [this](uint32_t id) {
                                           if (is_held) is_met = true;
                                           while (is_held) std::this_thread::yield();
                                           return find(id);
                                         },
                                         [&dead](int who) { return dead[static_cast<size_t>(who)].load(); }}));
    origin = std::make_unique<WindowOrigin>(
        WindowOriginOptions{endpoint, kTopic, kKey, rank, addresses, [this](int peer) {
                              const std::lock_guard lock(mutex_);
                              const auto found = trouble_.find(peer);
                              return found == trouble_.end() ? Status::ok() : found->second;
                            }});
  }

  // A window of this rank.
  WindowMemory& open(uint32_t id, size_t bytes) {
    const std::lock_guard lock(mutex_);
    return *(windows_[id] = make_memory(nranks_, bytes));
  }
  void close(uint32_t id) {
    {
      const std::lock_guard lock(mutex_);
      windows_.at(id)->control().state.store(WindowState::kClosed);
      windows_.erase(id);
    }
    CHECK(service->wait_until_unused(id, soon()));
  }
  std::shared_ptr<WindowMemory> find(uint32_t id) const {
    const std::lock_guard lock(mutex_);
    const auto found = windows_.find(id);
    return found == windows_.end() ? nullptr : found->second;
  }
  void set_trouble(int peer, Status status) {
    const std::lock_guard lock(mutex_);
    trouble_.insert_or_assign(peer, std::move(status));
  }

  const std::shared_ptr<net::Endpoint> endpoint;
  std::unique_ptr<WindowService> service;
  std::unique_ptr<WindowOrigin> origin;
  std::atomic<bool> is_held{false};  // the service does not go on
  std::atomic<bool> is_met{false};   // and somebody has noticed

 private:
  int nranks_ = 0;
  mutable std::mutex mutex_;
  std::map<uint32_t, std::shared_ptr<WindowMemory>> windows_;
  std::map<int, Status> trouble_;
};

class World {
 public:
  explicit World(int nranks, const net::SocketOptions& socket = {}) : World(nranks, nranks, socket) {}
  // present: so many of the first ranks are really there.
  World(int nranks, int present, const net::SocketOptions& socket = {})
      : dead_(static_cast<size_t>(nranks)), addresses_(static_cast<size_t>(nranks)) {
    for (int rank = 0; rank < present; ++rank) {
      ranks_.push_back(std::make_unique<Rank>(socket));
      addresses_[static_cast<size_t>(rank)] = ranks_.back()->endpoint->address();
    }
    for (int rank = 0; rank < present; ++rank) (*this)[rank].join(rank, addresses_, dead_);
  }
  Rank& operator[](int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  const std::vector<net::Address>& addresses() const { return addresses_; }
  void say_dead(int rank) { dead_[static_cast<size_t>(rank)] = true; }

  // A connection of nobody's origin, to rank `to`'s service.
  net::Descriptor dial(int from, int to) {
    return must(net_test::dial_and_wait({window_topic(kTopic, to), kKey, from, to}, addresses_[static_cast<size_t>(to)],
                                        0, {}, soon()));
  }

 private:
  std::vector<std::atomic<bool>> dead_;
  std::vector<net::Address> addresses_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

template <typename T>
std::span<T> elements_of(const WindowMemory& memory) {
  return {reinterpret_cast<T*>(memory.data), memory.bytes / sizeof(T)};
}

inline bool holds(const WindowMemory& memory, std::span<const std::byte> data) {
  return memory.bytes == data.size() && (data.empty() || std::memcmp(memory.data, data.data(), data.size()) == 0);
}

// As different at every place as it need be, and made fast.
inline std::vector<std::byte> large_pattern(size_t bytes, uint64_t seed) {
  constexpr size_t kPeriod = 100'003;
  const auto once = pattern(std::min(bytes, kPeriod), seed);
  std::vector<std::byte> data(bytes);
  for (size_t at = 0; at < bytes; at += kPeriod) std::memcpy(&data[at], once.data(), std::min(kPeriod, bytes - at));
  return data;
}

}  // namespace windows_test
