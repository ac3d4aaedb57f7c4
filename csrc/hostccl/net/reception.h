// Those who have connected to the endpoint and are not with a service yet: newcomers that have to say hello, and early ones
// whose topic nobody serves yet. Both are bounded in number and time, the oldest going first; so whatever strangers send,
// they cost a few descriptors and nothing else.
//
// Threads: the endpoint's only. Must not know: services, listening.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "hostccl/net/hello.h"
#include "hostccl/net/rejections.h"
#include "hostccl/net/socket.h"

namespace hostccl::net {

struct ReceptionLimits {
  size_t newcomers = 128;
  size_t early = 256;
  int64_t hello_ns = 5 * pycomms::kSecond;
  int64_t early_ns = 60 * pycomms::kSecond;
};

struct Guest {
  Descriptor socket;
  Address from;
  Greeting greeting;
  Partial<Hello> hello;
  int64_t until_ns = 0;
};

class Reception {
 public:
  // `epoll` reports what happens on a guest's connection with the number of the guest.
  Reception(const Descriptor& epoll, const ReceptionLimits& limits, Rejections& rejections)
      : epoll_(epoll), limits_(limits), rejections_(rejections) {}

  // Greets. The number of the newcomer is at least kFirstGuest.
  static constexpr uint64_t kFirstGuest = 16;
  void welcome(Descriptor socket, const Address& from, int64_t now);
  // Something happened on a guest's connection. Calls `said_hello` when a newcomer's hello is whole and well formed.
  void hear(uint64_t number, const std::function<void(Guest)>& said_hello);
  // Its topic is not served yet.
  void keep(Guest guest, int64_t now);
  // The early ones with this topic, oldest first.
  std::vector<Guest> take_early(const Bytes16& topic);
  void send_overdue_away(int64_t now);
  // When somebody is overdue next; kForever: nobody is here.
  int64_t next_deadline_ns() const;

 private:
  using Guests = std::map<uint64_t, Guest>;  // numbers grow, so the first is the oldest and the first to be overdue

  bool watch(int fd, uint32_t events, uint64_t number);
  void unwatch(const Guest& guest);
  void dismiss(Guests& guests, Guests::iterator guest, Rejection reason, const std::string& why);

  const Descriptor& epoll_;
  const ReceptionLimits limits_;
  Rejections& rejections_;
  uint64_t next_number_ = kFirstGuest;
  Guests newcomers_;
  Guests early_;
};

}  // namespace hostccl::net
