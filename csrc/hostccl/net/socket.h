// The TCP sockets of this library: nonblocking, without Nagle's delay, closed in forked children, and without SIGPIPE.
// Any thread; thin shells over system calls. Must not know: what is said over them.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/status.h"
#include "hostccl/net/address.h"
#include "hostccl/net/descriptor.h"

namespace hostccl::net {

struct SocketOptions {
  // Bytes; 0: as the kernel tunes them, which follows the path better than any number.
  int send_buffer = 0;
  int receive_buffer = 0;
  // How long sent data may stay without an answer before the kernel ends the connection. The backstop of heartbeats.
  int64_t unanswered_ns = 20 * pycomms::kSecond;
};

// On a port of the kernel's choice, or that of `address`.
pycomms::Result<Descriptor> listen_on(const Address& address, const SocketOptions& options);
pycomms::Result<Address> local_address(const Descriptor& socket);

// Begins to connect. finish_connecting() tells how it went once the socket is writable.
pycomms::Result<Descriptor> start_connecting(const Address& to, uint32_t own_scope, const SocketOptions& options);
pycomms::Status finish_connecting(const Descriptor& socket, const Address& to);

struct Accepted {
  enum class Outcome : uint8_t {
    kTaken,
    kNobody,       // or somebody who has gone again
    kNoDescriptor  // the process, or the system, has none left: try again later, not at once
  };
  Outcome outcome = Outcome::kNobody;
  Descriptor socket;
  Address from;
};
Accepted accept_from(const Descriptor& listener, const SocketOptions& options);

// What the kernel sends on this connection at once, in segments that it leaves the network card to cut into packets.
size_t segment_bytes(const Descriptor& socket);

// Bytes moved; 0: none for now; -1: the connection has ended, errno tells why (0: orderly, by the other side).
ssize_t send_some(const Descriptor& socket, std::span<const std::byte> data);
ssize_t receive_some(const Descriptor& socket, std::span<std::byte> space);
// The same with several runs of memory in one call.
ssize_t send_gathered(const Descriptor& socket, std::span<const iovec> data);
ssize_t receive_scattered(const Descriptor& socket, std::span<const iovec> space);

// See SocketOptions::unanswered_ns; 0: as the kernel has it, which bears with a reader that pauses for any time.
void set_unanswered(const Descriptor& socket, int64_t ns);

}  // namespace hostccl::net
