// Where the ranks of a new communicator knock: an abstract Unix socket for those on this host, and the process's TCP endpoint
// for all others, who prove there that they know the secret. Nothing has a name in the file system.
// Any thread; a RemoteDoor one at a time, and the endpoint's thread, which brings who comes.
// Must not know: what is said inside.
#pragma once

#include <deque>
#include <memory>
#include <mutex>

#include "base/fd.h"
#include "base/status.h"
#include "hostccl/meeting_wire.h"
#include "hostccl/net/endpoint.h"

namespace hostccl {

// A listening abstract Unix socket. SEQPACKET: what is sent in one piece comes in one piece. `name` is filled in.
pycomms::Result<net::Descriptor> listen_here(const Bytes16& number, char (&name)[kSocketNameBytes]);
// Connects to such a socket; kPeerFailure: nobody listens there.
pycomms::Result<pycomms::Fd> knock(const char* name);

// Where those who share a secret meet on a host: they find it by the secret.
pycomms::Result<net::Descriptor> open_door(const Bytes16& secret, const Bytes16& host);
pycomms::Result<pycomms::Fd> knock_at_door(const Bytes16& secret, const Bytes16& host);

// Those who came over TCP, and an eventfd that is readable while there are any.
class RemoteDoor {
 public:
  // Null when this process has no network: then nobody comes from elsewhere.
  static std::unique_ptr<RemoteDoor> open(const Bytes16& secret);
  int fd() const { return bell_.get(); }
  // The next one's connection.
  pycomms::Result<net::Descriptor> take();
  const net::Address& address() const { return endpoint_->address(); }

 private:
  RemoteDoor(std::shared_ptr<net::Endpoint> endpoint, pycomms::Fd bell);

  const std::shared_ptr<net::Endpoint> endpoint_;
  const pycomms::Fd bell_;
  std::mutex mutex_;
  std::deque<net::Descriptor> came_;  // GUARDED_BY(mutex_)
  std::unique_ptr<net::Endpoint::Registration> registration_;
};

// This process's settings of the network; the first call reads them.
const pycomms::Result<net::Config>& network_config();
bool reduces_by_hosts();
// The endpoint of this process, and the host that it is on (or pretends to be on).
pycomms::Result<std::shared_ptr<net::Endpoint>> process_endpoint();
pycomms::Result<Bytes16> this_host();

}  // namespace hostccl
