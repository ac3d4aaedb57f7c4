#include "hostccl/doors.h"

#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "hostccl/net/host_id.h"
#include "hostccl/net/siphash.h"

namespace hostccl {
namespace {

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

}  // namespace

pycomms::Result<LocalDoor> LocalDoor::open() {
  LocalDoor door;
  unsigned char number[12];
  if (getrandom(number, sizeof(number), 0) != sizeof(number)) return Status::system("getrandom");
  char* at = door.name + std::snprintf(door.name, sizeof(door.name), "pycomms-");
  for (const unsigned char byte : number) at += std::snprintf(at, 3, "%02x", byte);
  door.listener = Fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  socklen_t length;
  const sockaddr_un where = socket_address(door.name, length);
  if (!door.listener || bind(door.listener.get(), reinterpret_cast<const sockaddr*>(&where), length) != 0 ||
      listen(door.listener.get(), kBacklog) != 0) {
    return Status::system("listening for the ranks of a new communicator");
  }
  return door;
}

pycomms::Result<Fd> knock(const char* name) {
  Fd made(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  socklen_t length;
  const sockaddr_un where = socket_address(name, length);
  if (!made) return Status::system("opening a socket");
  if (connect(made.get(), reinterpret_cast<const sockaddr*>(&where), length) != 0) return Status::system("connecting");
  return made;
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
