// The place where other processes reach this one: a listener and a thread that accepts, authenticates and hands each
// connection to the service that its topic names. Strangers are closed and counted; nobody else notices them.
//
// Threads: any; one thread of its own, which calls the handlers. After a fork the child's first of_process() makes an
// endpoint anew. Must not know: what a service does with a connection.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/gate.h"
#include "hostccl/net/arrival.h"
#include "hostccl/net/config.h"
#include "hostccl/net/reception.h"

namespace hostccl::net {

struct Service {
  Bytes16 topic;
  Bytes16 key;
  int32_t rank = kAnyRank;  // ours; who wants another one is refused
  // Called on the endpoint's thread with no lock held; must be short, and must not end its own registration.
  std::function<void(Arrival)> on_arrival;
};

struct EndpointOptions {
  Address at;  // port 0: any
  SocketOptions socket;
  ReceptionLimits limits;
};

class Endpoint {
 public:
  // The process's own; the first call decides where it listens, and it stays for the life of the process.
  static pycomms::Result<std::shared_ptr<Endpoint>> of_process(const Config& config);
  static pycomms::Result<std::shared_ptr<Endpoint>> start(const EndpointOptions& options);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  const Address& address() const { return address_; }
  const SocketOptions& socket_options() const { return options_.socket; }
  bool is_foreign() const;  // we are in a forked child

  // Ends the service when it goes, and waits for its handler. The endpoint must outlive it.
  class Registration;
  pycomms::Result<std::unique_ptr<Registration>> serve(Service service);

  uint64_t authenticated() const { return authenticated_.load(std::memory_order_relaxed); }
  const Rejections& rejections() const { return rejections_; }

 private:
  struct Served {
    Service service;
    pycomms::Gate gate;  // held while the handler runs
  };

  Endpoint(const EndpointOptions& options, const Address& address, Descriptor listener, Descriptor epoll,
           Descriptor bell);
  void run();
  int sleep_ms(int64_t now) const;
  void accept_some(int64_t now);
  void set_listening(bool on);
  void receive_hello(Guest guest, int64_t now);
  void introduce(Guest guest, Served& served);
  void admit_early_ones();
  void end_service(const std::shared_ptr<Served>& served);
  void ring() const;

  const EndpointOptions options_;
  const Address address_;
  const uint32_t fork_generation_;
  const Descriptor listener_;
  const Descriptor epoll_;
  const Descriptor bell_;  // an eventfd

  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> authenticated_{0};
  Rejections rejections_;

  std::mutex mutex_;
  std::map<Bytes16, std::shared_ptr<Served>> services_;  // GUARDED_BY(mutex_); shared with a handler that runs
  std::vector<std::shared_ptr<Served>> new_services_;    // GUARDED_BY(mutex_): have not seen the early ones yet
  std::deque<std::pair<Bytes16, Bytes16>> former_;       // GUARDED_BY(mutex_): topics and keys, to tell who comes late

  // The thread's own.
  Reception reception_;
  int64_t paused_until_ns_ = 0;  // does not listen: there are no descriptors

  std::thread thread_;
};

class Endpoint::Registration {
 public:
  Registration(Endpoint& endpoint, std::shared_ptr<Served> served) : endpoint_(endpoint), served_(std::move(served)) {}
  ~Registration() { endpoint_.end_service(served_); }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  Endpoint& endpoint_;
  const std::shared_ptr<Served> served_;
};

}  // namespace hostccl::net
