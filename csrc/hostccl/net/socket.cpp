#include "hostccl/net/socket.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace hostccl::net {
namespace {

using pycomms::Code;
using pycomms::Fd;
using pycomms::Status;

constexpr int kBacklog = 4096;

template <typename Socket>
void set(const Socket& socket, int level, int option, int value) {
  // A kernel that refuses costs speed, not correctness.
  static_cast<void>(setsockopt(socket.get(), level, option, &value, sizeof(value)));
}

// Before connecting or listening: the window is agreed on with the first packet.
void set_buffers(const Fd& socket, const SocketOptions& options) {
  if (options.send_buffer > 0) set(socket, SOL_SOCKET, SO_SNDBUF, options.send_buffer);
  if (options.receive_buffer > 0) set(socket, SOL_SOCKET, SO_RCVBUF, options.receive_buffer);
}

template <typename Socket>
void bound_silence(const Socket& socket, int64_t unanswered_ns) {
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(unanswered_ns / pycomms::kMillisecond));
}

void prepare(const Fd& socket, const SocketOptions& options) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  bound_silence(socket, options.unanswered_ns);
}

Fd new_socket(const Address& address) {
  return Fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

ssize_t result_of(ssize_t moved) {
  if (moved >= 0) return moved;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

ssize_t result_of_receiving(ssize_t got) {
  if (got != 0) return result_of(got);
  errno = 0;
  return -1;
}

}  // namespace

pycomms::Result<Descriptor> listen_on(const Address& address, const SocketOptions& options) {
  Fd socket = new_socket(address);
  if (!socket) return Status::system("opening a socket");
  set_buffers(socket, options);
  const SocketAddress where = address.to_socket_address();
  if (bind(socket.get(), where.get(), where.length) != 0 || listen(socket.get(), kBacklog) != 0) {
    return Status::system("listening at " + address.to_text());
  }
  return Descriptor(std::move(socket));
}

pycomms::Result<Address> local_address(const Descriptor& socket) {
  SocketAddress at;
  at.length = sizeof(at.storage);
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&at.storage), &at.length) != 0) {
    return Status::system("getsockname");
  }
  return Address::from(at.get());
}

pycomms::Result<Descriptor> start_connecting(const Address& to, uint32_t own_scope, const SocketOptions& options) {
  if (to.is_none()) return Status(Code::kInvalidArgument, "there is no address to connect to");
  Fd socket = new_socket(to);
  if (!socket) return Status::system("opening a socket");
  set_buffers(socket, options);
  prepare(socket, options);
  const SocketAddress where = to.to_socket_address(own_scope);
  // EINTR: it goes on in the background, as with EINPROGRESS.
  if (connect(socket.get(), where.get(), where.length) != 0 && errno != EINPROGRESS && errno != EINTR) {
    return Status::system("connecting to " + to.to_text());
  }
  return Descriptor(std::move(socket));
}

Status finish_connecting(const Descriptor& socket, const Address& to) {
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error == 0) return Status::ok();
  const std::string hint = error == ECONNREFUSED ? " (nobody listens there: has the process ended?)" : "";
  return Status(Code::kPeerFailure, Status::system("connecting to " + to.to_text(), error).message() + hint);
}

Accepted accept_from(const Descriptor& listener, const SocketOptions& options) {
  Accepted accepted;
  SocketAddress from;
  from.length = sizeof(from.storage);
  Fd socket(
      accept4(listener.get(), reinterpret_cast<sockaddr*>(&from.storage), &from.length, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket) {
    prepare(socket, options);
    accepted.outcome = Accepted::Outcome::kTaken;
    accepted.socket = Descriptor(std::move(socket));
    accepted.from = Address::from(from.get());
  } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
    accepted.outcome = Accepted::Outcome::kNoDescriptor;
  }
  return accepted;
}

// As tcp_send_mss() and sk_setup_caps() of Linux have it: whole packets, in 64 KiB less the longest headers.
size_t segment_bytes(const Descriptor& socket) {
  constexpr size_t kMost = 65536 - 321;
  int packet = 0;
  socklen_t length = sizeof(packet);
  if (getsockopt(socket.get(), IPPROTO_TCP, TCP_MAXSEG, &packet, &length) != 0 || packet <= 0) return kMost;
  const auto bytes = static_cast<size_t>(packet);
  return std::max(kMost / bytes, size_t{1}) * bytes;
}

ssize_t send_some(const Descriptor& socket, std::span<const std::byte> data) {
  return result_of(send(socket.get(), data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

ssize_t send_gathered(const Descriptor& socket, std::span<const iovec> data) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(data.data());
  message.msg_iovlen = data.size();
  return result_of(sendmsg(socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT));
}

ssize_t receive_some(const Descriptor& socket, std::span<std::byte> space) {
  if (space.empty()) return 0;
  return result_of_receiving(recv(socket.get(), space.data(), space.size(), MSG_DONTWAIT));
}

ssize_t receive_scattered(const Descriptor& socket, std::span<const iovec> space) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(space.data());
  message.msg_iovlen = space.size();
  return result_of_receiving(recvmsg(socket.get(), &message, MSG_DONTWAIT));
}

void set_unanswered(const Descriptor& socket, int64_t ns) { bound_silence(socket, ns); }

}  // namespace hostccl::net
