#include "hostccl/doors.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "hostccl/net/host_id.h"
#include "hostccl/net/siphash.h"

namespace hostccl {
namespace {

using pycomms::Code;
using pycomms::Fd;
using pycomms::Status;

constexpr int kBacklog = 4096;

sockaddr_un socket_address(const char* name, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;  // sun_path[0] == 0: abstract, no file
  const size_t size = strnlen(name, kSocketNameBytes);
  std::memcpy(address.sun_path + 1, name, size);
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  return address;
}

// Exactly kSocketNameBytes.
void set_name(const Bytes16& number, char (&name)[kSocketNameBytes]) {
  constexpr std::string_view kPrefix = "pycomms-";
  static_assert(kPrefix.size() + 2 * sizeof(Bytes16) == kSocketNameBytes);
  net::to_hex(number).copy(std::copy(kPrefix.begin(), kPrefix.end(), name), 2 * sizeof(Bytes16));
}

// Of a host: processes of one machine may pretend to be on several.
Bytes16 door_number(const Bytes16& secret, const Bytes16& host) {
  return net::siphash(net::derive(secret, "door"), std::as_bytes(std::span(host)));
}

}  // namespace

pycomms::Result<net::Descriptor> listen_here(const Bytes16& number, char (&name)[kSocketNameBytes]) {
  set_name(number, name);
  Fd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  socklen_t length;
  const sockaddr_un where = socket_address(name, length);
  if (!listener || bind(listener.get(), reinterpret_cast<const sockaddr*>(&where), length) != 0 ||
      listen(listener.get(), kBacklog) != 0) {
    return Status::system("listening for other processes of this host");
  }
  return net::Descriptor(std::move(listener));
}

pycomms::Result<Fd> knock(const char* name) {
  Fd made(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  socklen_t length;
  const sockaddr_un where = socket_address(name, length);
  if (!made) return Status::system("opening a socket");
  if (connect(made.get(), reinterpret_cast<const sockaddr*>(&where), length) == 0) return made;
  if (errno == ECONNREFUSED) return Status(Code::kPeerFailure, "nobody listens there");
  return Status::system("connecting");
}

pycomms::Result<net::Descriptor> open_door(const Bytes16& secret, const Bytes16& host) {
  char name[kSocketNameBytes];
  return listen_here(door_number(secret, host), name);
}

pycomms::Result<Fd> knock_at_door(const Bytes16& secret, const Bytes16& host) {
  char name[kSocketNameBytes];
  set_name(door_number(secret, host), name);
  return knock(name);
}

RemoteDoor::RemoteDoor(std::shared_ptr<net::Endpoint> endpoint, Fd bell)
    : endpoint_(std::move(endpoint)), bell_(std::move(bell)) {}

std::unique_ptr<RemoteDoor> RemoteDoor::open(const Bytes16& secret) {
  auto endpoint = process_endpoint();
  Fd bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE));
  if (!endpoint.is_ok() || !bell) return nullptr;
  std::unique_ptr<RemoteDoor> door(new RemoteDoor(endpoint.value(), std::move(bell)));
  auto on_arrival = [door = door.get()](net::Arrival arrival) {
    auto socket = arrival.accept();
    if (!socket.is_ok()) return;
    const std::lock_guard lock(door->mutex_);
    door->came_.push_back(socket.take());
    eventfd_write(door->bell_.get(), 1);
  };
  auto registration = endpoint.value()->serve({net::derive(secret, "meeting"), secret, net::kAnyRank, on_arrival});
  if (!registration.is_ok()) return nullptr;
  door->registration_ = registration.take();
  return door;
}

pycomms::Result<net::Descriptor> RemoteDoor::take() {
  eventfd_t one;
  eventfd_read(bell_.get(), &one);
  const std::lock_guard lock(mutex_);
  if (came_.empty()) return Status(pycomms::Code::kInvalidState, "nobody is here");
  net::Descriptor first = std::move(came_.front());
  came_.pop_front();
  return first;
}

const pycomms::Result<net::Config>& network_config() {
  static const auto config =
      net::Config::from_environment([](const char* name) -> const char* { return getenv(name); });
  return config;
}

bool reduces_by_hosts() { return !network_config().is_ok() || network_config().value().reduce_by_hosts; }

pycomms::Result<std::shared_ptr<net::Endpoint>> process_endpoint() {
  const pycomms::Result<net::Config>& config = network_config();
  if (!config.is_ok()) return config.status();
  return net::Endpoint::of_process(config.value());
}

pycomms::Result<Bytes16> this_host() {
  const pycomms::Result<net::Config>& config = network_config();
  if (!config.is_ok()) return config.status();
  return net::host_id(config.value().host_id);
}

}  // namespace hostccl
