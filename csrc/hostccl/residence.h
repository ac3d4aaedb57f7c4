// Where this process is found as long as it lives: an abstract Unix socket for processes of its host, and its TCP endpoint for
// all others. Nobody answers at the socket. That somebody listens there says that the process lives, and a connection to it
// ends when the process does.
// Any thread. Must not know: communicators.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/status.h"
#include "hostccl/meeting_wire.h"
#include "hostccl/net/descriptor.h"

namespace hostccl {

// This process's; the first call opens the socket, in a forked child too. Without a network address.
pycomms::Result<Whereabouts> residence();
// The same, with a network address if this process has a network; the first call opens the endpoint.
pycomms::Result<Whereabouts> residence_on_network();
// Lets go of connections that others have opened to look after this process. They look again.
void let_visitors_go();

// As text for other programs to carry: digits, letters, '-' and '.'. Strict when it is read.
std::string to_text(const Whereabouts& whereabouts);
pycomms::Result<Whereabouts> whereabouts_of(const std::string& text);

// Looks after one process from another one. One thread at a time; does not block.
class Lifeline {
 public:
  explicit Lifeline(const Whereabouts& there);
  // A process of this host is known to have ended as soon as it has; one of another host within a second, if its host answers.
  bool has_ended();
  // Readable when a process of this host may have ended; -1: there is nothing to wait for.
  int fd() const { return local_.get(); }

 private:
  bool look_here();
  bool look_elsewhere();

  const Whereabouts there_;
  const bool is_here_;
  bool ended_ = false;
  pycomms::Fd local_;
  net::Descriptor remote_;  // a connection that is being opened
  int64_t look_at_ns_ = 0;  // the next try
};

}  // namespace hostccl
